//! The machine code: additions in the places of updates, calls in the places of calls of stubs, stubs that push, and
//! checks of the entries of a library.

use std::collections::{HashMap, HashSet};

use pcce_abi::functions::{PUSH_HERE, PUSH_RELATIVE, PUSH_RELATIVE_HERE};
use pcce_abi::{no_op, stub};
use pcce_model::link::Shape;
use pcce_model::{CallKind, Unannounced};

use crate::bind::{Bound, StubAction};
use crate::code::{self, Id};
use crate::image::Image;
use crate::modules::{Branch, BranchKind, Modules, Place, branches_to, call_of};
use crate::{Error, Summary, no_ops};

/// Changes the code.
///
/// # Errors
/// A symbol is missing, or there is no room.
pub fn apply(image: &mut Image, modules: &Modules, bound: &Bound) -> Result<Summary, Error> {
    let mut summary = Summary::default();
    let mut free = direct_calls(image, modules, bound, &mut summary);
    free.extend(&modules.room);
    pushes(image, modules, bound, &mut summary)?;
    let mut additions = Additions { free, wide: HashMap::new() };
    updates(image, modules, bound, &mut additions, &mut summary)?;
    adding_stubs(image, modules, bound, &mut additions, &mut summary)?;
    if image.is_library {
        entries(image, modules, bound)?;
    }
    Ok(summary)
}

/// Lets calls reach their callees where their stubs have nothing to do, and behind their entries. Returns the stubs
/// that nothing uses any more and that are long enough for other code.
fn direct_calls(image: &mut Image, modules: &Modules, bound: &Bound, summary: &mut Summary) -> Vec<u64> {
    let mut patched: HashSet<(usize, u32)> = HashSet::new();
    for (&update, &(m, number)) in &modules.updates {
        let module = &modules.list[m];
        let place = module.facts.updates[number as usize];
        let Some(entered) = place.entered else { continue };
        let (function, entered) = (place.function as usize, entered as usize);
        let behind = update + module.update_len() as u64;
        let Some(stub) = module.facts.calls[function][entered].stub.map(|stub| (m, stub)) else {
            if let CallKind::Direct(callee) = module.facts.functions[function].calls[entered].kind {
                let callee = module.addresses[callee.index()];
                let entry = modules.behind_entry(image, callee);
                if let Some(call) = call_of(image, behind, callee).filter(|_| entry != callee) {
                    image.overwrite(call.end - 4, &code::distance(call.end, entry));
                }
            }
            continue;
        };
        let Some(&at) = modules.stubs.get(&stub) else { continue };
        let Some(call) = call_of(image, behind, at) else { continue };
        let action = bound.stubs.get(&stub);
        if lead_directly(image, modules, &call, action) {
            summary.direct += 1;
            // That of a call through a pointer is too short.
            if let Some(StubAction::Direct(_)) = action {
                patched.insert(stub);
            }
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
fn lead_directly(image: &mut Image, modules: &Modules, branch: &Branch, action: Option<&StubAction>) -> bool {
    match (action, branch.kind) {
        (Some(&StubAction::Direct(callee)), _) => {
            let callee = modules.behind_entry(image, callee);
            image.overwrite(branch.end - 4, &code::distance(branch.end, callee));
        }
        (Some(StubAction::DirectPointer), BranchKind::Call) => {
            image.overwrite(branch.end - 5, &code::CALL_R10)
        }
        (Some(StubAction::DirectPointer), BranchKind::Jump) => {
            image.overwrite(branch.end - 5, &code::JUMP_R10)
        }
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
    branches
        .iter()
        .filter(|branch| lead_directly(image, modules, branch, stubs.get(&branch.target).copied()))
        .count()
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
    for (&(module, number), action) in &bound.stubs {
        let &StubAction::Push { relative: is_relative, callee } = action else { continue };
        let module = (module, &modules.list[module]);
        let (function, call) = module.1.stub_calls[number as usize];
        let Some(site) = module.1.facts.calls[function][call].site else { continue };
        let at = modules.stubs[&(module.0, number)];
        let callee = callee.map(|callee| modules.behind_entry(image, callee));
        let site = module.1.symbols.sites_address + u64::from(site);
        let routine = match is_relative {
            // Code that may be a library's has none of its own.
            true => image.symbol(PUSH_RELATIVE_HERE).or_else(|_| image.symbol(PUSH_RELATIVE))?,
            false => image.symbol(PUSH_HERE)?,
        };
        image.overwrite(at, &code::pushing_stub(at, callee, site, routine));
        summary.pushing_stubs += 1;
    }
    Ok(())
}

/// Where changes of the id are put.
struct Additions {
    /// Stubs that nothing uses, and what modules have left room for.
    free: Vec<u64>,
    /// Code in such stubs that adds what is too wide for an instruction.
    wide: HashMap<i64, u64>,
}

impl Additions {
    /// Instructions of `len` bytes that add this to the id, at this address. Puts code for wide values into a free
    /// stub.
    fn code(&mut self, image: &mut Image, at: u64, len: usize, change: i64) -> Result<Vec<u8>, Error> {
        let id = image.id()?;
        if let Ok(change) = i32::try_from(change) {
            return Ok(code::addition(at, len, id, change));
        }
        let Id::At(id) = id else { return Err(Error::NoRoom) };
        let thunk = match self.wide.get(&change) {
            Some(&thunk) => thunk,
            None => {
                let thunk = self.free.pop().ok_or(Error::NoRoom)?;
                image.overwrite(thunk, &no_op::wide_addition(change, id));
                self.wide.insert(change, thunk);
                thunk
            }
        };
        Ok(code::call_of_addition(at, len, thunk))
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
        let len = modules.list[module].update_len();
        let update = modules.list[module].facts.updates[number as usize];
        let function = bound.bases[module] + update.function as usize;
        let value = |call: Option<u32>| {
            call.and_then(|call| bound.values.get(&(function, call as usize))).copied().unwrap_or(0)
        };
        let change = value(update.entered).wrapping_sub(value(update.left)) as i64;
        if change != 0 {
            let code = additions.code(image, at, len, change)?;
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
        let mut add = |at, change| -> Result<[u8; no_op::LEN], Error> {
            additions.code(image, at, no_op::LEN, change)?.try_into().map_err(|_| Error::NoRoom)
        };
        let enter = add(at, value as i64)?;
        let leave = add(call_end, value.wrapping_neg() as i64)?;
        let callee = callee
            .map_or(stub::Callee::Pointer, |callee| stub::Callee::At(callee.wrapping_sub(call_end) as i32));
        image.overwrite(at, &stub::adding(&enter, callee, &leave));
        summary.updates += 2;
    }
    Ok(())
}

/// Lets a library's functions find out whether open calls of an executable enter them.
fn entries(image: &mut Image, modules: &Modules, bound: &Bound) -> Result<(), Error> {
    for (&address, &(module, function)) in &modules.owners {
        let entered = &bound.program.functions[bound.bases[module] + function];
        let facts = &modules.list[module].facts;
        if entered.unannounced != Unannounced::Open || !facts.entries.contains(&(function as u32)) {
            continue;
        }
        let checked = code::checked_entry(image.at(address));
        let damaged = || Error::Facts {
            module: modules.list[module].symbols.name.clone(),
            cause: format!("{} does not begin as it should", entered.name),
        };
        image.overwrite(address, &checked.ok_or_else(damaged)?);
    }
    // Without it nothing looks.
    if let Ok(word) = image.symbol(no_op::IMAGE_SYMBOL) {
        image.overwrite(word, &no_op::LIBRARY.to_le_bytes());
    }
    Ok(())
}
