//! The machine code: additions in the places of updates, calls in the places of calls of stubs, and stubs that push.

use std::collections::{HashMap, HashSet};

use pcce_abi::functions::{PUSH, PUSH_RELATIVE};
use pcce_abi::{layout, no_op, stub};
use pcce_model::link::Shape;

use crate::bind::{Bound, StubAction};
use crate::image::Image;
use crate::modules::{Branch, BranchKind, Modules, Place, branches_to, call_of_stub};
use crate::{Error, Summary, no_ops};

/// `callq *%r10`, in the five bytes of a direct call.
const CALL_R10: [u8; 5] = [0x2e, 0x2e, 0x41, 0xff, 0xd2];
/// `jmpq *%r10`, in the five bytes of a direct jump.
const JUMP_R10: [u8; 5] = [0x2e, 0x2e, 0x41, 0xff, 0xe2];

/// Changes the code.
///
/// # Errors
/// A symbol is missing, or there is no room.
pub fn apply(image: &mut Image, modules: &Modules, bound: &Bound) -> Result<Summary, Error> {
    let block = image.block()?.wrapping_add(layout::TLS_ID as i32);
    let mut summary = Summary::default();
    let free = direct_calls(image, modules, bound, &mut summary);
    pushes(image, modules, bound, &mut summary)?;
    let mut additions = Additions { block, free, wide: HashMap::new() };
    updates(image, modules, bound, &mut additions, &mut summary)?;
    adding_stubs(image, modules, bound, &mut additions, &mut summary)?;
    Ok(summary)
}

/// The distance that an instruction that ends at `end` has to `to`.
fn distance(end: u64, to: u64) -> [u8; 4] {
    (to.wrapping_sub(end) as i32).to_le_bytes()
}

/// Lets calls reach their callees where their stubs have nothing to do. Returns the stubs that nothing uses any more.
fn direct_calls(image: &mut Image, modules: &Modules, bound: &Bound, summary: &mut Summary) -> Vec<u64> {
    let mut patched: HashSet<(usize, u32)> = HashSet::new();
    for (&update, &(module, number)) in &modules.updates {
        let facts = &modules.list[module].facts;
        let place = facts.updates[number as usize];
        let entered = place.entered.map(|call| facts.calls[place.function as usize][call as usize]);
        let Some(stub) = entered.and_then(|code| code.stub).map(|stub| (module, stub)) else { continue };
        let Some(&at) = modules.stubs.get(&stub) else { continue };
        let Some(call) = call_of_stub(image, update, at) else { continue };
        if lead_directly(image, &call, bound.stubs.get(&stub)) {
            patched.insert(stub);
            summary.direct += 1;
        }
    }
    summary.direct += tail_calls(image, modules, bound);
    let called = called(image, modules);
    let free = patched.iter().map(|stub| modules.stubs[stub]).filter(|stub| !called.contains(stub));
    let mut free: Vec<u64> = free.collect();
    free.sort_unstable();
    free
}

/// Lets a call or jump reach what its stub only jumps to. Whether it does.
fn lead_directly(image: &mut Image, branch: &Branch, action: Option<&StubAction>) -> bool {
    match (action, branch.kind) {
        (Some(&StubAction::Direct(callee)), _) => {
            image.overwrite(branch.end - 4, &distance(branch.end, callee));
        }
        (Some(StubAction::DirectPointer), BranchKind::Call) => image.overwrite(branch.end - 5, &CALL_R10),
        (Some(StubAction::DirectPointer), BranchKind::Jump) => image.overwrite(branch.end - 5, &JUMP_R10),
        _ => return false,
    }
    true
}

/// The same for calls that may be jumps, which have no updates. Returns how many there are. Their stubs are not free:
/// the unwind tables are those of an addition.
fn tail_calls(image: &mut Image, modules: &Modules, bound: &Bound) -> usize {
    let mut stubs: HashMap<u64, &StubAction> = HashMap::new();
    let mut callers: HashSet<Place> = HashSet::new();
    for (&(m, number), &at) in &modules.stubs {
        let module = &modules.list[m];
        let (function, call) = module.stub_calls[number as usize];
        let action = bound.stubs.get(&(m, number));
        let Some(action @ (StubAction::Direct(_) | StubAction::DirectPointer)) = action else { continue };
        if module.facts.calls[function][call].shape == Shape::Tail {
            stubs.insert(at, action);
            callers.insert((m, function));
        }
    }
    let mut branches = Vec::new();
    for (m, function) in callers {
        let address = modules.list[m].addresses[function];
        branches.extend(branches_to(image, address, |target| stubs.contains_key(&target)));
    }
    branches.iter().filter(|branch| lead_directly(image, branch, stubs.get(&branch.target).copied())).count()
}

/// The stubs that something in the code seems to call or jump to.
fn called(image: &Image, modules: &Modules) -> HashSet<u64> {
    let stubs: HashSet<u64> = modules.stubs.values().copied().collect();
    let first = stubs.iter().copied().min().unwrap_or(0);
    let last = stubs.iter().copied().max().unwrap_or(0);
    let mut called = HashSet::new();
    for section in image.sections.iter().filter(|section| section.is_code) {
        let targets = no_ops::targets(image.content(section), section.addresses.start);
        // Most are far away, and hashing takes long.
        let near = targets.map(|(_, target)| target).filter(|target| (first..=last).contains(target));
        called.extend(near.filter(|target| stubs.contains(target)));
    }
    called
}

/// Lets stubs push.
fn pushes(image: &mut Image, modules: &Modules, bound: &Bound, summary: &mut Summary) -> Result<(), Error> {
    let (zero, relative) = (image.symbol(PUSH)?, image.symbol(PUSH_RELATIVE)?);
    for (&(module, number), action) in &bound.stubs {
        let &StubAction::Push { relative: is_relative, callee } = action else { continue };
        let module = (module, &modules.list[module]);
        let (function, call) = module.1.stub_calls[number as usize];
        let Some(site) = module.1.facts.calls[function][call].site else { continue };
        let at = modules.stubs[&(module.0, number)];
        let mut code = Vec::with_capacity(stub::LEN);
        if let Some(callee) = callee {
            // leaq callee(%rip), %r10
            code.extend([0x4c, 0x8d, 0x15]);
            code.extend(distance(at + 7, callee));
        }
        // leaq site(%rip), %r11
        code.extend([0x4c, 0x8d, 0x1d]);
        let end = at + code.len() as u64 + 4;
        code.extend(distance(end, module.1.symbols.sites_address + u64::from(site)));
        code.push(0xe9);
        let end = at + code.len() as u64 + 4;
        code.extend(distance(end, if is_relative { relative } else { zero }));
        image.overwrite(at, &code);
        summary.pushing_stubs += 1;
    }
    Ok(())
}

/// Where changes of the id are put.
struct Additions {
    /// The id's distance from the thread pointer.
    block: i32,
    /// Stubs that nothing uses.
    free: Vec<u64>,
    /// Code in such stubs that adds what is too wide for an instruction.
    wide: HashMap<i64, u64>,
}

impl Additions {
    /// The instructions that add this to the id, at this address. Puts code for wide values into a free stub.
    fn code(&mut self, image: &mut Image, at: u64, change: i64) -> Result<[u8; no_op::LEN], Error> {
        let mut code = [0; no_op::LEN];
        if let Ok(change) = i32::try_from(change) {
            // addq $change, %fs:block
            code[..5].copy_from_slice(&[0x64, 0x48, 0x81, 0x04, 0x25]);
            code[5..9].copy_from_slice(&self.block.to_le_bytes());
            code[9..].copy_from_slice(&change.to_le_bytes());
            return Ok(code);
        }
        let thunk = match self.wide.get(&change) {
            Some(&thunk) => thunk,
            None => {
                let thunk = self.free.pop().ok_or(Error::NoRoom)?;
                image.overwrite(thunk, &no_op::wide_addition(change, self.block));
                self.wide.insert(change, thunk);
                thunk
            }
        };
        code[0] = 0xe8;
        code[1..5].copy_from_slice(&distance(at + 5, thunk));
        // A no-op of eight bytes.
        code[5..].copy_from_slice(&[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]);
        Ok(code)
    }
}

fn updates(
    image: &mut Image,
    modules: &Modules,
    bound: &Bound,
    additions: &mut Additions,
    summary: &mut Summary,
) -> Result<(), Error> {
    for (&at, &(module, number)) in &modules.updates {
        let update = modules.list[module].facts.updates[number as usize];
        let function = bound.bases[module] + update.function as usize;
        let value = |call: Option<u32>| {
            call.and_then(|call| bound.values.get(&(function, call as usize))).copied().unwrap_or(0)
        };
        let change = value(update.entered).wrapping_sub(value(update.left)) as i64;
        if change != 0 {
            let code = additions.code(image, at, change)?;
            image.overwrite(at, &code);
            summary.updates += 1;
        }
    }
    Ok(())
}

/// Lets stubs add.
fn adding_stubs(
    image: &mut Image,
    modules: &Modules,
    bound: &Bound,
    additions: &mut Additions,
    summary: &mut Summary,
) -> Result<(), Error> {
    for (name, action) in &bound.stubs {
        let &StubAction::Add { value, callee } = action else { continue };
        let at = modules.stubs[name];
        let call_end = at + stub::CALL_END as u64;
        let enter = additions.code(image, at, value as i64)?;
        let leave = additions.code(image, call_end, value.wrapping_neg() as i64)?;
        let callee = callee
            .map_or(stub::Callee::Pointer, |callee| stub::Callee::At(callee.wrapping_sub(call_end) as i32));
        image.overwrite(at, &stub::adding(&enter, callee, &leave));
        summary.updates += 2;
    }
    Ok(())
}
