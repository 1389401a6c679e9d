//! The machine code: additions in the places of updates, calls in the places of calls of stubs, and stubs that push.

use std::collections::{HashMap, HashSet};

use pcce_abi::functions::{PUSH, PUSH_RELATIVE};
use pcce_abi::{layout, no_op};

use crate::bind::{Bound, StubAction};
use crate::image::Image;
use crate::modules::{Modules, call_of_stub};
use crate::references::STUB_LEN;
use crate::{Error, Summary, no_ops};

/// `callq *%r10`, in the five bytes of a direct call.
const CALL_R10: [u8; 5] = [0x2e, 0x2e, 0x41, 0xff, 0xd2];

/// Changes the code.
///
/// # Errors
/// A symbol is missing, or there is no room.
pub fn apply(image: &mut Image, modules: &Modules, bound: &Bound) -> Result<Summary, Error> {
    let block = image.block()?.wrapping_add(layout::TLS_ID as i32);
    let mut summary = Summary::default();
    let free = direct_calls(image, modules, bound, &mut summary);
    pushes(image, modules, bound, &mut summary)?;
    updates(image, modules, bound, (block, free), &mut summary)?;
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
        match bound.stubs.get(&stub) {
            Some(&StubAction::Direct(callee)) => {
                image.overwrite(call + 1, &distance(call + 5, callee));
                patched.insert(stub);
            }
            Some(StubAction::DirectPointer) => image.overwrite(call, &CALL_R10),
            _ => continue,
        }
        summary.direct += 1;
    }
    let called = called(image, modules);
    let free = patched.iter().map(|stub| modules.stubs[stub]).filter(|stub| !called.contains(stub));
    let mut free: Vec<u64> = free.collect();
    free.sort_unstable();
    free
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
        let mut code = Vec::with_capacity(STUB_LEN);
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

fn updates(
    image: &mut Image,
    modules: &Modules,
    bound: &Bound,
    (block, mut free): (i32, Vec<u64>),
    summary: &mut Summary,
) -> Result<(), Error> {
    let mut wide: HashMap<i64, u64> = HashMap::new();
    for (&at, &(module, number)) in &modules.updates {
        let update = modules.list[module].facts.updates[number as usize];
        let function = bound.bases[module] + update.function as usize;
        let value = |call: Option<u32>| {
            call.and_then(|call| bound.values.get(&(function, call as usize))).copied().unwrap_or(0)
        };
        let change = value(update.entered).wrapping_sub(value(update.left)) as i64;
        if change == 0 {
            continue;
        }
        summary.updates += 1;
        if let Ok(change) = i32::try_from(change) {
            // addq $change, %fs:block
            let mut code = vec![0x64, 0x48, 0x81, 0x04, 0x25];
            code.extend(block.to_le_bytes());
            code.extend(change.to_le_bytes());
            image.overwrite(at, &code);
            continue;
        }
        let thunk = match wide.get(&change) {
            Some(&thunk) => thunk,
            None => {
                let thunk = free.pop().ok_or(Error::NoRoom)?;
                let code = no_op::wide_addition(change, block);
                image.overwrite(thunk, &code);
                wide.insert(change, thunk);
                thunk
            }
        };
        let mut code = vec![0xe8];
        code.extend(distance(at + 5, thunk));
        // A no-op of eight bytes.
        code.extend([0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0]);
        debug_assert_eq!(code.len(), no_op::LEN);
        image.overwrite(at, &code);
    }
    Ok(())
}
