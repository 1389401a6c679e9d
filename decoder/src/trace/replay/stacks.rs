//! The stacks of a thread: those that it has left for others and may come back to, and the places on each at
//! which a call returns again or `longjmp` arrives.

use std::collections::BTreeMap;

use pcce_abi::trace::{Gap, Special};

use super::{Active, MAX_DEPTH, OPEN, Ready, Replay, State, UNKNOWN};
use crate::trace::bits::Item;
use crate::trace::event::{Event, EventKind, GapCause};
use crate::trace::tables::{NONE, Op};

#[derive(Clone, Debug, Default)]
pub(super) struct Jumps {
    /// The count of numbers that were given.
    count: u64,
    /// True if calls were missed, so that no number is known any more.
    missed: bool,
    /// Number, place of the activation in the stack, node; ascending in the first two.
    given: Vec<(u64, usize, u32)>,
    /// The count of numbers that were given before reading began, and the number of activations that may have
    /// them and are still active: the outermost ones.
    before: (u64, usize),
}

impl Jumps {
    /// Records a call that may return again, by the activation at this place of the stack.
    pub(super) fn give(&mut self, place: usize, node: u32) {
        self.count += 1;
        if self.missed {
            return;
        }
        // Only the last return of a call can be meant.
        let of_place = self.given.iter().rev().take_while(|given| given.1 == place);
        if let Some(back) = of_place.into_iter().position(|given| given.2 == node) {
            self.given.remove(self.given.len() - 1 - back);
        }
        self.given.push((self.count, place, node));
    }

    /// Forgets the activations from this place on, which were left.
    #[inline]
    pub(super) fn cut(&mut self, place: usize) {
        self.before.1 = self.before.1.min(place);
        while self.given.last().is_some_and(|given| given.1 >= place) {
            self.given.pop();
        }
    }

    /// The count of numbers that were given.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Reading begins after `count` numbers were given, and while `active` activations are active.
    pub(super) fn begin(&mut self, count: u64, active: usize) {
        *self = Self { count, before: (count, active), ..Self::default() };
    }

    /// The thread leaves the stack. Calls on other stacks get higher numbers.
    pub(super) fn leave(&mut self) -> Self {
        let other = Self { count: self.count, missed: self.missed, ..Self::default() };
        std::mem::replace(self, other)
    }

    /// The thread comes back to this stack. `now`: its jumps on the other stack.
    pub(super) fn come_back(mut self, now: &Self) -> Self {
        if now.missed {
            self.lose();
        }
        Self { count: now.count, ..self }
    }

    /// The number of outermost activations that may have this number. None if it was given after reading began.
    pub(super) fn given_before(&self, number: u64) -> Option<usize> {
        (!self.missed && number <= self.before.0).then_some(self.before.1)
    }

    /// Returns whether calls were missed.
    pub(super) fn are_missed(&self) -> bool {
        self.missed
    }

    pub(super) fn lose(&mut self) {
        self.missed = true;
        self.given.clear();
    }

    /// The place of the activation with this number, and the node that got it.
    pub(super) fn find(&self, number: u64) -> Option<(usize, u32)> {
        let at = self.given.binary_search_by_key(&number, |given| given.0).ok()?;
        Some((self.given[at].1, self.given[at].2))
    }
}

/// Bound on the places that are kept.
const MAX_LANDINGS: usize = 1 << 16;

/// The states at calls of `setjmp`, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Landings(Vec<Landing>);

#[derive(Clone, Copy, Debug)]
struct Landing {
    /// The payload of [`Special::Kept`].
    place: u64,
    /// The number of activations there.
    depth: usize,
    state: State,
}

impl Landings {
    /// Keeps the state of a call of `setjmp` at this place.
    pub(super) fn keep(&mut self, place: u64, depth: usize, state: State) {
        self.cut(depth);
        self.0.pop_if(|last| last.place == place);
        if self.0.len() == MAX_LANDINGS {
            self.0.remove(0);
        }
        self.0.push(Landing { place, depth, state });
    }

    /// Keeps the places of the outermost `depth` activations. A thread that has left another stack by a jump
    /// does not come back to a place there.
    #[inline]
    pub(super) fn cut(&mut self, depth: usize) {
        while self.0.last().is_some_and(|last| last.depth > depth) {
            self.0.pop();
        }
    }

    /// The state at a place.
    fn find(&self, place: u64) -> Option<Landing> {
        self.0.iter().rev().copied().find(|landing| landing.place == place)
    }
}

impl Replay<'_> {
    /// Forgets the activations from this place on, which were left.
    #[inline]
    pub(super) fn cut(&mut self, place: usize) {
        self.jumps.cut(place);
        self.landings.cut(place);
    }

    /// Follows a `longjmp` to a place.
    pub(super) fn jumped(&mut self, place: u64) -> Option<Event> {
        self.turn_to_bits();
        match self.ready_or_bits() {
            // Traced code itself reports where it goes on.
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
            None => self.state = State::Lose(GapCause::Jumped, 0),
        }
        None
    }
}

/// Bound on the stacks that are kept.
const MAX_STACKS: usize = 1 << 16;

#[derive(Clone, Debug, Default)]
pub(super) struct Stacks {
    left: BTreeMap<u64, Left>,
    /// The number of activations on them.
    activations: usize,
}

/// A stack, where it was left.
#[derive(Clone, Debug)]
struct Left {
    stack: Vec<Active>,
    jumps: Jumps,
    landings: Landings,
}

impl Stacks {
    fn keep(&mut self, number: u64, left: Left) {
        self.activations += left.stack.len();
        let before = self.left.insert(number, left);
        self.activations -= before.map_or(0, |before| before.stack.len());
        while (self.activations > MAX_DEPTH || self.left.len() > MAX_STACKS)
            && let Some((_, oldest)) = self.left.pop_first()
        {
            self.activations -= oldest.stack.len();
        }
    }

    fn take(&mut self, number: u64) -> Option<Left> {
        let left = self.left.remove(&number)?;
        self.activations -= left.stack.len();
        Some(left)
    }

    /// The stack on which a call that may return again has got this number.
    fn with_jump(&self, number: u64) -> Option<u64> {
        let mut stacks = self.left.iter();
        stacks.find(|(_, left)| left.jumps.find(number).is_some()).map(|(&stack, _)| stack)
    }
}

impl Replay<'_> {
    /// The node of a special word; None where the word says that the node is unknown.
    fn node_of_word(&self, number: u64, function: u64) -> Result<Option<u32>, State> {
        if function == 0 {
            return Ok(None);
        }
        let loads = self.bits.loads();
        let Some(of) = self.reader.function_at(self.stream.process, function, loads) else {
            return Err(State::Lose(GapCause::NoTables, function));
        };
        let node = self.tables.node_of(of, number).filter(|node| {
            let op = self.tables.nodes[*node as usize].op;
            op == Op::Open || op == Op::Closed
        });
        node.map(Some).ok_or(State::Lose(GapCause::BadWord, 0))
    }

    /// The number of activations, if the innermost one is in this call.
    fn depth_in(&self, node: u32) -> Option<usize> {
        let inner = self.stack.iter().rposition(|active| active.function != OPEN)?;
        (self.stack[inner].node == node && self.stack.len() - inner <= 2).then_some(inner + 1)
    }

    /// Returns whether the special word that is next comes before the node `next`, which has no bits.
    pub(super) fn is_due(&mut self, next: u32) -> bool {
        let last = self.stack.last().filter(|last| last.node != NONE).map(|last| last.node);
        // A call in which unknown code is active is handled in state `Open`.
        let last = last.filter(|last| self.tables.nodes[*last as usize].op == Op::Closed);
        match self.bits.peek() {
            Item::Special(Special::Left, number, words) => match self.node_of_word(number, words[0]) {
                Ok(Some(node)) => last == Some(node),
                // The stack is left in a function that is left out, which is unknown code; or at an unknown place.
                Ok(None) => words[1] == 0,
                Err(_) => true,
            },
            // A stack is left only in a call, and a flush happens only in a call. If the tables do not say in which
            // one, the first is taken: no event is reported that may come after the word.
            Item::Special(Special::Back | Special::Flushed, ..) => last.is_some(),
            // A stream stops where it writes. The events that had to follow the last bits have happened, or will.
            Item::Special(Special::Gap, payload, _) if payload == Gap::Stopped as u64 => true,
            // After a landing pad without a call only `next` can come, and a thread that ends passes through all of the
            // pad's blocks.
            Item::Special(Special::Gap, payload, _) if payload == Gap::Interrupted as u64 => {
                self.tables.nodes[next as usize].op != Op::Resume
            }
            Item::Special(Special::Gap, payload, _) if payload == Gap::Unwound as u64 => {
                !self.tables.passes_on(next)
            }
            _ => false,
        }
    }

    pub(super) fn leaves(&mut self, number: u64, words: [u64; 2]) -> Option<Event> {
        let node = match self.node_of_word(number, words[0]) {
            Ok(node) => node,
            Err(state) => {
                self.state = state;
                return None;
            }
        };
        let depth = match node {
            _ if self.state == State::Skip => {
                self.stack.truncate(1);
                if let Some(node) = node {
                    self.stack.push(Active { function: self.tables.function_of(node), node });
                }
                Some(self.stack.len())
            }
            Some(node) => self.depth_in(node),
            None => (self.state == State::Open).then_some(self.stack.len()),
        };
        let Some(depth) = depth else {
            self.state =
                State::Lose(if node.is_some() { GapCause::Unexpected } else { GapCause::Switched }, 0);
            return None;
        };
        self.cut(depth);
        self.stack.truncate(depth);
        let stack = std::mem::replace(&mut self.stack, vec![Active { function: UNKNOWN, node: NONE }]);
        let left = Left { stack, jumps: self.jumps.leave(), landings: std::mem::take(&mut self.landings) };
        if words[1] != 0 {
            self.stacks.keep(words[1], left);
        }
        self.state = State::Elsewhere;
        Some(self.event(EventKind::Switched, NONE, NONE))
    }

    /// The thread is on another stack, of which nothing was reported yet.
    pub(super) fn elsewhere(&mut self) -> Option<Event> {
        self.turn_to_bits();
        if self.bits.left == 0 {
            match self.ready() {
                Ready::Special => return self.special(false),
                Ready::End(ended) => return Some(self.stop(ended)),
                Ready::Changed => return None,
                Ready::Bits => {}
            }
        }
        // The bits are of code that was active on that stack already.
        self.state = State::Lose(GapCause::Switched, 0);
        None
    }

    /// The thread comes back to a stack.
    pub(super) fn comes_back(&mut self, number: u64, words: [u64; 2]) -> Option<Event> {
        let node = match self.node_of_word(number, words[0]) {
            Ok(node) => node,
            Err(state) => {
                self.state = state;
                return None;
            }
        };
        // Events without bits may have happened.
        self.certain &= matches!(self.state, State::Open | State::Elsewhere);
        let function = node.map(|node| self.tables.function_of(node));
        let left = self.stacks.take(words[1]).filter(|left| {
            function.is_none_or(|function| left.stack.last().is_some_and(|last| last.function == function))
        });
        let event = match left {
            Some(left) => {
                self.stand_on(left);
                Event { depth: 0, value: 2, ..self.event(EventKind::Known, NONE, NONE) }
            }
            None => {
                self.certain = false;
                let _ = self.jumps.leave();
                self.landings = Landings::default();
                self.stack = vec![Active { function: UNKNOWN, node: NONE }];
                self.stack.extend(function.map(|function| Active { function, node: NONE }));
                Event { depth: 0, ..self.gap(GapCause::Back) }
            }
        };
        self.then = match node {
            Some(node) => {
                let last = self.stack.last_mut().expect("its function is there");
                last.node = node;
                match self.tables.nodes[node as usize].op {
                    Op::Open => {
                        self.stack.push(Active { function: OPEN, node: NONE });
                        State::Open
                    }
                    _ => State::Choose(self.tables.nodes[node as usize].next),
                }
            }
            None if self.stack.last().is_some_and(|last| last.function == OPEN) => State::Open,
            None => State::Skip,
        };
        self.state = self.next_to_report(1);
        Some(event)
    }

    fn stand_on(&mut self, left: Left) {
        self.stack = left.stack;
        self.jumps = left.jumps.come_back(&self.jumps);
        self.landings = left.landings;
    }

    /// The activation whose call of this node, which returns again, has got this number.
    pub(super) fn again_at(&self, number: u64, node: u32) -> Option<usize> {
        self.jumps.find(number).filter(|found| found.1 == node).map(|(place, _)| place)
    }

    /// A call returns again, perhaps on a stack that was left: switches to the stack that has the call's number.
    /// Returns false if there is none.
    pub(super) fn returns_on_another(&mut self, number: u64) -> bool {
        let stack = self.stacks.with_jump(number).and_then(|stack| self.stacks.take(stack));
        let found = stack.is_some();
        stack.into_iter().for_each(|left| self.stand_on(left));
        found
    }
}
