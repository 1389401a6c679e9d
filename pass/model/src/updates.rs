//! Changes of the id that are made together.

use crate::Function;
use crate::begins::FrameBegins;
use crate::plan::{Action, PlannedCall};

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
        if let (Action::Add(left), Action::Add(_), true) = (call.action, next.action, joined) {
            call.stays = true;
            next.left = left;
        }
    }
}
