//! Changes of the id that are made together, and the numbers of those that link mode leaves open.

use crate::Function;
use crate::begins::FrameBegins;
use crate::link::Update;
use crate::plan::{Action, PlannedCall, PlannedFunction};

/// Lets what a call adds stay until the next one in the same block that adds, where nothing in between could look.
/// (LLVM does not see that it could: it knows the value that was stored, and makes five instructions of what are two.)
pub(crate) fn chain(function: &Function, calls: &mut [PlannedCall], frame: Option<&FrameBegins>) {
    // These look at the state, or bring another one.
    if function.reads_state || function.returns_twice {
        return;
    }
    for next in 1..calls.len() {
        let [call, next] = &mut calls[next - 1..=next] else { unreachable!("two calls") };
        let same_block = function.calls[call.call].block == function.calls[next.call].block;
        let behind_frame = frame.is_some_and(|frame| frame.is_before(&function.calls[next.call]));
        let joined = same_block && !behind_frame;
        match (call.action, next.action) {
            (Action::Add(left), Action::Add(_)) if joined => {
                call.stays = true;
                next.left = left;
            }
            // Where a thread is created, the context is taken in front of the call.
            (Action::Bind, Action::Bind) if joined && next.creation_site.is_none() => call.stays = true,
            _ => {}
        }
    }
}

/// Numbers the updates of all functions.
pub(crate) fn number_updates(functions: &mut [PlannedFunction]) -> Vec<Update> {
    let mut updates = Vec::new();
    for (function, planned) in (0..).zip(functions) {
        let mut add = |left: Option<usize>, entered: Option<usize>| {
            let call = |call: Option<usize>| call.map(|call| call as u32);
            updates.push(Update { function, left: call(left), entered: call(entered) });
            Some(updates.len() as u32 - 1)
        };
        let mut before: Option<usize> = None;
        for call in planned.calls.iter_mut().filter(|call| call.action == Action::Bind) {
            call.updates[0] = add(before.take(), Some(call.call));
            match call.stays {
                true => before = Some(call.call),
                false => call.updates[1] = add(Some(call.call), None),
            }
        }
    }
    updates
}
