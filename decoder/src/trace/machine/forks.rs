//! Forked streams go on with the stack of their parent.

use pcce_abi::trace::Order;

use super::landings::Landings;
use super::stacks::Stacks;
use super::{Active, Event, EventKind, Machine, State};
use crate::trace::jumps::Jumps;
use crate::trace::tables::{NONE, Op};

/// The stack of a stream at a place, to start another one with.
#[derive(Clone, Debug)]
pub(in crate::trace) struct Snapshot {
    pub(super) stack: Vec<Active>,
    pub(super) jumps: Jumps,
    pub(super) landings: Landings,
    pub(super) stacks: Stacks,
    /// What comes next.
    pub(super) state: State,
    /// Where a handler had interrupted the stream: the cache, in which the function may have been found that is entered
    /// next.
    pub(super) cache: Option<(Vec<u32>, Order)>,
    /// Of verify mode: events and hash, if they are certain.
    pub(super) counted: Option<(u64, u64)>,
}

impl Machine<'_> {
    /// The stack at a place. Nothing that comes behind the place is read: where its stack is not known, that of another
    /// place is none. In a call of `fork`, the innermost code is unknown; where a handler has interrupted the stream
    /// (`anywhere`), any may be.
    pub(in crate::trace) fn snapshot_at(mut self, position: u64, anywhere: bool) -> Option<Snapshot> {
        self.bits.stop_at(position);
        self.halts = anywhere;
        while self.next().is_some() {}
        if !self.bits.is_at_limit() {
            return None;
        }
        match self.state {
            State::Open => Some(self.snapshot(State::Open)),
            State::Choose(choice) if anywhere && self.needs_no_bits(choice) => Some(self.perhaps_at(choice)),
            state @ (State::Choose(_) | State::Check(_)) if anywhere => Some(self.snapshot(state)),
            _ => None,
        }
    }

    fn snapshot(&self, state: State) -> Snapshot {
        Snapshot {
            stack: self.stack.clone(),
            jumps: self.jumps.clone(),
            landings: self.landings.clone(),
            stacks: self.stacks.clone(),
            state,
            cache: self.halts.then(|| (self.cache.clone(), self.order.clone())),
            counted: self.certain.then_some((self.counted, self.hash)),
        }
    }

    /// Where a handler has interrupted the stream, if what comes next needs no bits: it may have come. A thread waits
    /// in a call of code that is not traced, so it is taken to be in the first that calls back, or in the last one at
    /// all.
    fn perhaps_at(&mut self, choice: u32) -> Snapshot {
        /// A loop may have no end.
        const MOST: usize = 1000;
        let mut found = self.snapshot(State::Perhaps(choice));
        let mut next = choice;
        for _ in 0..MOST {
            let node = self.tables.choices[next as usize].start;
            self.node(node);
            next = match self.state {
                State::Open => return self.snapshot(State::Perhaps(NONE)),
                State::Choose(next) => next,
                _ => break,
            };
            if self.tables.nodes[node as usize].op == Op::Closed {
                found = self.snapshot(State::Perhaps(next));
            }
            if !self.needs_no_bits(next) {
                break;
            }
        }
        found
    }

    /// What is active where the stream was forked is told where it begins.
    pub(super) fn inherits(&mut self) {
        if let Some((cache, order)) = self.inherited.take() {
            (self.cache, self.order) = (cache, order);
        }
        self.state = self.told_next(1);
    }

    /// Whether reading ends here, in a function.
    #[inline]
    pub(super) fn halts_here(&mut self) -> bool {
        if !self.halts || self.bits.left > 0 {
            return false;
        }
        self.bits.peek();
        self.bits.is_at_limit()
    }

    /// Where a handler had interrupted the stream that was forked: what comes next may have come already, or what came
    /// last has not.
    pub(super) fn perhaps(&mut self, choice: u32) -> Event {
        self.state = if choice == NONE { State::Open } else { State::Choose(choice) };
        self.certain = false;
        self.gaps += 1;
        self.event(EventKind::Forked, NONE, NONE)
    }
}
