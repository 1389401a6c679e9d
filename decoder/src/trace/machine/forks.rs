//! Forked streams go on with the stack of their parent.

use super::landings::Landings;
use super::stacks::Stacks;
use super::{Active, Machine, State};
use crate::trace::jumps::Jumps;

/// The stack of a stream at a place, to start another one with.
#[derive(Clone, Debug)]
pub(in crate::trace) struct Snapshot {
    pub(super) stack: Vec<Active>,
    pub(super) jumps: Jumps,
    pub(super) landings: Landings,
    pub(super) stacks: Stacks,
    /// Of verify mode: events and hash, if they are certain.
    pub(super) counted: Option<(u64, u64)>,
}

impl Machine<'_> {
    /// The stack at a place, if the innermost code is unknown there. Nothing that comes behind the place is read: where
    /// its stack is not known, that of another place is none.
    pub(in crate::trace) fn snapshot_at(mut self, position: u64) -> Option<Snapshot> {
        self.bits.stop_at(position);
        while self.next().is_some() {}
        (self.state == State::Open && self.bits.is_at_limit()).then_some(Snapshot {
            stack: self.stack,
            jumps: self.jumps,
            landings: self.landings,
            stacks: self.stacks,
            counted: self.certain.then_some((self.counted, self.hash)),
        })
    }

    /// What is active where the stream was forked is told where it begins.
    pub(super) fn inherits(&mut self) {
        self.then = self.state;
        self.state = self.told_next(1);
    }
}
