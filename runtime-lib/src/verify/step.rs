//! One step of decoding: from the state at a function's entry to its caller and the state there.

use core::ptr::{self, null};

use crate::abi::{Frame, FunctionRecord, InEdge, Link, Shadow};
use crate::signal;
use crate::state::tls;

/// Decodes one step: the state at the entry of `record`'s function must lead to the caller and the call site that the
/// shadow stack has, and to the state that the caller had at its own entry.
pub(super) unsafe fn step(record: *const Shadow) -> Result<(), &'static str> {
    // SAFETY: live records and frames of this thread, tables of loaded modules.
    unsafe {
        let Shadow { prev: caller, function, id, top, .. } = *record;
        // In targeted mode an executable's functions that reach no target call functions of other modules without a
        // push. If these take contexts, the decoder shows no callers.
        if !caller.is_null() {
            let callers = (*caller).function;
            if (*callers).silent == 1 && !(*callers).open.get().is_null() && (*function).open.get().is_null()
            {
                return Ok(());
            }
        }
        let (mut link, mut frame) = (top, top.frame());
        let found = id.wrapping_sub(top.base());
        if (*function).silent == 1 {
            let is_callers = |id, top| (id, top) == ((*caller).id, (*caller).top);
            if caller.is_null() || is_callers(id, top) {
                return Ok(());
            }
            // A function that an open call reached has pushed, and has left its activation to this one.
            let diverted = !frame.is_null() && (*frame).site().is_null() && top.left() && found == 0;
            let (id, top) = if diverted { ((*frame).id, (*frame).prev) } else { (id, top) };
            // If instrumented code that knows the function calls it, it finds the caller's state. Other callers push,
            // make an open call, or are not instrumented.
            let (frame, found) = (top.frame(), id.wrapping_sub(top.base()));
            let known = is_callers(id, top);
            let entered = !frame.is_null() && found == 0 && is_pushed_by(top, caller);
            let open = (*(*caller).function).open.get();
            let opened = || !open.is_null() && in_edge(open, id, top, caller).is_ok();
            // A call that may reach another image's function has added.
            if known || entered || opened() || in_edge(function, id, top, caller).is_ok() {
                return Ok(());
            }
            return Err("a silent function finds a state that is not its caller's");
        }
        let start = known_start(function, top);
        let root = match start.as_ref() {
            Some(start) => ptr::eq(start, function) || (*function).entry == 1 && start.offset == 0,
            None => (*function).entry == 1,
        };
        if root && found == 0 {
            // A sub-path's root: the innermost frame names the call site.
            let from = |frame: *mut Frame| (*frame).id.wrapping_sub((*frame).prev.base());
            let mut marked = false;
            let direct = |outer| !caller.is_null() && !known_start((*caller).function, outer).is_null();
            if !frame.is_null() && (*frame).site().is_null() && from(frame) == 0 && !direct((*frame).prev) {
                // Pushed by a function at its entry, since its caller had pushed, too.
                marked = link.left();
                link = (*frame).prev;
                frame = link.frame();
            }
            let entry_site = (*function).entry_site.get();
            if !frame.is_null() && !entry_site.is_null() && (*frame).site() == entry_site {
                // Pushed by the function itself, at an entry from callers that may not push. If the next frame was
                // pushed for the call, it names the caller. Otherwise the caller is unknown by design, and any is
                // right.
                let next = (*frame).prev.frame();
                if from(frame) != 0 || next.is_null() || caller.is_null() || (*next).site() != (*caller).site
                {
                    return Ok(());
                }
                (link, frame) = ((*frame).prev, next);
            }
            let replaced = is_replaced(record);
            if frame.is_null() {
                return match () {
                    () if !caller.is_null() => Err("decodes as the outermost, and has a caller"),
                    () if replaced && !link.left() => Err(UNSAID),
                    () => Ok(()),
                };
            }
            if signal::is_site((*frame).site()) {
                return if caller.is_null() {
                    Ok(())
                } else {
                    Err("decodes as a signal handler, and has a caller")
                };
            }
            if caller.is_null() {
                return Err("decodes with a caller, and is the outermost");
            }
            if (*frame).site().is_null() {
                // Pushed before the function was entered, by a function that an open call reached.
                let open = (*(*caller).function).open.get();
                if open.is_null() {
                    return Err("the pushed frame is one of an open call, and the caller makes none");
                }
                let outer = (*frame).prev;
                return match in_edge(open, (*frame).id, outer, caller) {
                    Ok(edge) => said(!replaced || link.left() || shows_tail(edge, function)),
                    // Entered by a function that a direct call reached, and that left its activation. The decoder knows
                    // that function, and no more.
                    Err(_)
                        if replaced && from(frame) == 0 && direct(outer) && is_pushed_by(outer, caller) =>
                    {
                        Ok(())
                    }
                    Err(what) => Err(what),
                };
            }
            if (*frame).site() != (*caller).site {
                return Err("the pushed frame names another call site than the one in the caller");
            }
            if ((*frame).id, (*frame).prev) != ((*caller).id, (*caller).top) {
                return Err("the pushed frame holds another context than the caller's");
            }
            // Open calls that push without changing the id leave it to the dictionary, whose table has no row for them.
            return said(!replaced || marked || link.left() || link.is_relative());
        }
        let edge = in_edge(function, id, top, caller)?;
        said(!is_replaced(record) || shows_tail(edge, function))
    }
}

/// The mismatch of a context in which a function is missing.
const UNSAID: &str = "a function that left by a tail call is missing, and no boundary says so";

fn said(so: bool) -> Result<(), &'static str> {
    if so { Ok(()) } else { Err(UNSAID) }
}

/// Returns whether the decoder shows a boundary between the call of an edge and this function.
unsafe fn shows_tail(edge: *const InEdge, function: *const FunctionRecord) -> bool {
    // SAFETY: tables of loaded modules.
    unsafe {
        let (callee, home) = ((*edge).callee.get(), (*(*edge).caller.get()).open.get());
        let list = if (*function).open.get() == home { function } else { home };
        !callee.is_null() && callee != function || (*list).groups().binary_search(&(*edge).group).is_ok()
    }
}

/// In [`Shadow::left`]: a function that was called there has just left its activation to another one.
pub(super) const LEAVES: u8 = 1;
/// As [`LEAVES`], and the other activation has begun.
pub(super) const LEFT: u8 = 2;

/// Returns whether another function has left its activation to this one.
pub(super) unsafe fn is_replaced(record: *const Shadow) -> bool {
    // SAFETY: a live record.
    unsafe { (*record).replaced == u64::from(LEAVES) }
}

/// Returns whether a frame was pushed for the call that this activation makes.
unsafe fn is_pushed_by(frame: Link, caller: *const Shadow) -> bool {
    // SAFETY: a live frame, a live record.
    unsafe {
        let frame = frame.frame();
        (*frame).site() == (*caller).site && ((*frame).id, (*frame).prev) == ((*caller).id, (*caller).top)
    }
}

/// The place that says whether a function which this activation called has left its own activation.
pub(super) unsafe fn left_from(caller: *mut Shadow) -> *mut u8 {
    // SAFETY: this thread's block, or a live record.
    unsafe { if caller.is_null() { &raw mut (*tls()).shadow_left } else { (&raw mut (*caller).left).cast() } }
}

/// The function in which the sub-path above a frame starts, if a direct call pushed it; else null. `function`: a
/// function of the sub-path's module.
unsafe fn known_start(function: *const FunctionRecord, top: Link) -> *const FunctionRecord {
    if top.is_null() {
        return null();
    }
    // SAFETY: as in `step`.
    unsafe {
        let site = (*top.frame()).site();
        let starts = (*function).starts();
        let found = starts.binary_search_by_key(&site.addr(), |start| start.site.get().addr());
        found.map_or(null(), |i| starts[i].function.get())
    }
}

/// Decodes one step, as [`step`], for an id that came in by an in-edge of the function, or of the open node that
/// reached it.
unsafe fn in_edge(
    function: *const FunctionRecord,
    id: u64,
    top: Link,
    caller: *const Shadow,
) -> Result<*const InEdge, &'static str> {
    // SAFETY: as in `step`.
    unsafe {
        let edges = (*function).in_edges();
        let found = id.wrapping_sub(top.base());
        let plus_offset = if (*function).open.get().is_null() { found.wrapping_neg() } else { found };
        let start = known_start(function, top).as_ref().map_or(0, |start| start.offset);
        let number = plus_offset.wrapping_add(start).wrapping_sub((*function).offset);
        let after = edges.partition_point(|e| e.start <= number);
        let mut found = after.checked_sub(1).map(|i| &edges[i]);
        if (*function).shared == 1 && !caller.is_null() {
            // Several edges bring the same ids; `compare` checks whether the contexts differ.
            let leads = |e: &&InEdge| (e.caller.get(), e.site.get()) == ((*caller).function, (*caller).site);
            found = edges[..after].iter().find(leads).or(found);
        }
        let Some(edge) = found else {
            return if (*function).reached == 1 {
                in_edge((*function).open.get(), id, top, caller)
            } else {
                Err("the id belongs to no in-edge")
            };
        };
        if caller.is_null() {
            return Err("the id names a caller, and the function is the outermost");
        }
        if edge.caller.get() != (*caller).function {
            return Err("the id names another caller");
        }
        if edge.site.get() != (*caller).site {
            return Err("the id names another call site in the caller");
        }
        if (id.wrapping_sub(edge.constant), top) != ((*caller).id, (*caller).top) {
            return Err("the id leads to another context than the caller's");
        }
        Ok(edge)
    }
}
