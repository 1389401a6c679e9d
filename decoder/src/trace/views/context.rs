//! The context of an event: the active calls, innermost first, as decoded tokens show them.

use crate::context::{Frame, FrameKind};
use crate::trace::event::{Event, EventKind};
use crate::trace::replay::{Active, OPEN, UNKNOWN};
use crate::trace::tables::{NONE, Tables};

/// The frames of an event, innermost first. `stack` is the stack of the replay after the event.
pub fn context<'t>(tables: &'t Tables, event: &Event, stack: &[Active]) -> Vec<Frame<'t>> {
    let mut frames = Vec::new();
    let callee = || (event.node != NONE).then(|| tables.callee(event.node)).flatten();
    let mut stack = stack;
    match event.kind {
        // In these kinds, the activation, or the one that it has called, is not on the stack any more.
        EventKind::Return => {
            frames.extend(tables.place(event.node));
            frames.extend(left(tables, stack.last(), event.function));
        }
        EventKind::OpenReturned | EventKind::Closed | EventKind::ReturnsTwice => {
            frames.push(tables.frame(FrameKind::Uninstrumented, callee()));
        }
        EventKind::LeaveOpen => {
            frames.push(tables.frame(FrameKind::Uninstrumented, callee()));
            if let [outer @ .., Active { function: OPEN, .. }] = stack
                && !outer.is_empty()
            {
                stack = outer;
            }
        }
        _ => {}
    }
    for (place, active) in stack.iter().enumerate().rev() {
        let caller = place.checked_sub(1).map(|caller| stack[caller]);
        match active.function {
            UNKNOWN => frames.push(tables.frame(FrameKind::Unknown, None)),
            OPEN => match caller {
                // The unknown code has called the stream's first function, or an unknown one.
                None | Some(Active { node: NONE, .. }) => {}
                // A function that was called by name has left its activation to the unknown code.
                Some(caller) if tables.is_call(caller.node) => {
                    frames.push(tables.frame(FrameKind::Tail, tables.callee(caller.node)));
                }
                // The caller has called the inner function, which has that name and may have returned.
                Some(caller)
                    if stack
                        .get(place + 1)
                        .map(|inner| inner.function)
                        .or((event.kind == EventKind::Return).then_some(event.function))
                        .is_some_and(|inner| tables.calls(caller.node, inner)) => {}
                Some(caller) => {
                    frames.push(tables.frame(FrameKind::Uninstrumented, tables.callee(caller.node)));
                }
            },
            function if active.node == NONE => {
                frames.push(tables.frame(FrameKind::Call, Some(tables.name_of(function))));
            }
            _ => frames.extend(tables.place(active.node)),
        }
        frames.extend(left(tables, caller.as_ref(), active.function));
    }
    frames
}

/// The boundary for the function that the caller has called by name, where that one has left its activation to
/// `function`.
fn left<'t>(tables: &'t Tables, caller: Option<&Active>, function: u32) -> Option<Frame<'t>> {
    let node = caller?.node;
    let was_left = node != NONE && function < UNKNOWN && tables.was_left(node, function);
    was_left.then(|| tables.frame(FrameKind::Tail, tables.callee(node)))
}
