//! Which calls have returned: the lines behind a call are executed if it did.

use super::{Event, EventKind, Machine};
use crate::trace::tables::{NONE, Op};

impl Machine<'_> {
    /// The call of which the last event tells that it has returned, or will return next: that which came before it in
    /// its activation. With the depth of what comes behind it. [`Tables::lines`](super::Tables::lines) has its lines.
    pub(in crate::trace) fn passed(&self, event: &Event) -> Option<(u32, u32)> {
        let (node, depth) = match event.kind {
            // Nothing is active in what came last.
            EventKind::End(_) => (self.stack.last()?.node, event.depth),
            EventKind::Return | EventKind::Leave | EventKind::LeaveOpen | EventKind::Resume => {
                (self.before, event.depth + 1)
            }
            kind if kind.is_counted() => (self.before, event.depth),
            _ => return None,
        };
        let has_returned = node != NONE
            && match self.tables.nodes[node as usize].op {
                Op::Call | Op::Open => true,
                // The end does not tell.
                Op::Closed | Op::Twice => event.kind.is_counted(),
                _ => false,
            };
        has_returned.then_some((node, depth))
    }
}
