//! Where `longjmp` can come back to code that is not traced: what was active when that has called `setjmp`.

use pcce_abi::trace::Special;

use super::{Event, Machine, Ready, State, Why};
use crate::trace::bits::Item;

/// More places are not kept.
const MOST: usize = 1 << 16;

/// What was active at calls of `setjmp`, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Landings(Vec<Landing>);

#[derive(Clone, Copy, Debug)]
struct Landing {
    /// The payload of [`Special::Kept`].
    place: u64,
    /// How many activations there were.
    depth: usize,
    state: State,
}

impl Landings {
    /// `setjmp` is called at this place.
    pub(super) fn keep(&mut self, place: u64, depth: usize, state: State) {
        self.cut(depth);
        self.0.pop_if(|last| last.place == place);
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        self.0.push(Landing { place, depth, state });
    }

    /// Only so many activations stay. Who has left another stack by a jump is not found there again.
    #[inline]
    pub(super) fn cut(&mut self, depth: usize) {
        while self.0.last().is_some_and(|last| last.depth > depth) {
            self.0.pop();
        }
    }

    /// What is active at a place.
    fn find(&self, place: u64) -> Option<Landing> {
        self.0.iter().rev().copied().find(|landing| landing.place == place)
    }
}

impl Machine<'_> {
    /// The activations from this place on are left.
    #[inline]
    pub(super) fn cut(&mut self, place: usize) {
        self.jumps.cut(place);
        self.landings.cut(place);
    }

    /// `longjmp` goes to a place.
    pub(super) fn jumped(&mut self, place: u64) -> Option<Event> {
        match self.ready() {
            // Traced code tells by itself that it goes on.
            Ready::Special
                if matches!(self.bits.peek(), Item::Special(Special::Landed | Special::Again, ..)) =>
            {
                return self.special(false);
            }
            Ready::End(ended) => return Some(self.stop(ended)),
            Ready::Changed => return None,
            Ready::Special | Ready::Bits => {}
        }
        match self.landings.find(place) {
            Some(landing) => {
                self.cut(landing.depth);
                self.stack.truncate(landing.depth);
                self.state = landing.state;
            }
            None => self.state = State::Lose(Why::Jumped, 0),
        }
        None
    }
}
