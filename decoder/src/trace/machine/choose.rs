//! Which of several nodes comes: by its code, or by what there is at all.

use pcce_abi::trace::Special;

use super::{Active, MAX_IDLE, Machine, OPEN, Ready, State};
use crate::trace::bits::Item;
use crate::trace::event::{Event, EventKind, Why};
use crate::trace::tables::NONE;

impl Machine<'_> {
    /// The node of a choice that comes; or what is to be told instead, if anything.
    #[inline]
    pub(super) fn choose(&mut self, number: u32) -> Result<u32, Option<Event>> {
        let choice = self.tables.choices[number as usize];
        if choice.width == 0 {
            if choice.start == NONE {
                return Err(self.not_reached());
            }
            // That it has come is known if something comes behind it, or the stream has ended.
            if self.bits.left == 0 {
                match self.ready() {
                    Ready::Special if self.is_due(choice.start) => return Err(self.special(false)),
                    Ready::Special if self.is_cleanup() => {
                        let event = self.may_have_gone_on(self.state);
                        self.state = State::Unexpected;
                        return Err(event);
                    }
                    Ready::Bits | Ready::Special | Ready::End(true) => {}
                    // The process was forked there, in unknown code.
                    Ready::End(false) if self.bits.is_at_limit() => {}
                    Ready::End(false) => return Err(Some(self.stop(false))),
                    Ready::Changed => return Err(None),
                }
            }
            self.idle += 1;
            if self.idle > MAX_IDLE {
                self.state = State::Lose(Why::Endless, 0);
                return Err(None);
            }
            return Ok(choice.start);
        }
        // Behind the bits that are left there are zeros, which may be those of a longer code.
        let at = choice.start + (self.bits.bits >> (64 - choice.width)) as u32;
        let entry = self.tables.entries[at as usize];
        if entry.bits != 0 && entry.bits <= self.bits.left {
            self.consume(entry.bits);
            return Ok(entry.node);
        }
        self.choose_slowly(number)
    }

    /// The same where the code is long, or its bits are in two words.
    pub(super) fn choose_slowly(&mut self, number: u32) -> Result<u32, Option<Event>> {
        self.want()?;
        let choice = self.tables.choices[number as usize];
        let long = self.tables.find_long(number, (self.bits.bits >> 32) as u32);
        if let Some(entry) = long.filter(|entry| entry.bits <= self.bits.left) {
            self.consume(entry.bits);
            return Ok(entry.node);
        }
        let mut code = 0;
        for bits in 1..=32 {
            code |= u32::from(self.bit()?) << (32 - bits);
            let entry = self.tables.entries[(choice.start + (code >> (32 - choice.width))) as usize];
            let found = if entry.bits != 0 { Some(entry) } else { self.tables.find_long(number, code) };
            match found {
                Some(entry) if entry.bits == bits => return Ok(entry.node),
                None if bits >= choice.width && !self.tables.is_long(number) => break,
                _ => {}
            }
        }
        self.state = State::Lose(Why::NoCode, 0);
        Err(None)
    }

    /// Behind a checked call that has returned.
    pub(super) fn check(&mut self, choice: u32) -> Option<Event> {
        if let Err(told) = self.want() {
            return told;
        }
        self.state = match self.bit() {
            Ok(false) => State::Choose(choice),
            Ok(true) => State::Lose(Why::NoCode, 0),
            Err(told) => return told,
        };
        None
    }

    /// A bit, of what has several.
    pub(super) fn bit(&mut self) -> Result<bool, Option<Event>> {
        if self.bits.left == 0 {
            match self.ready() {
                Ready::Bits => {}
                Ready::Special => {
                    self.state = State::Lose(Why::NoCode, 0);
                    return Err(None);
                }
                Ready::End(ended) => return Err(Some(self.stop(ended))),
                Ready::Changed => return Err(None),
            }
        }
        let bit = self.bits.bits >> 63 == 1;
        self.consume(1);
        Ok(bit)
    }

    /// Sees to it that there are bits, in a function that has written some.
    pub(super) fn want(&mut self) -> Result<(), Option<Event>> {
        if self.bits.left != 0 {
            return Ok(());
        }
        match self.ready() {
            Ready::Bits => Ok(()),
            Ready::End(ended) => Err(Some(self.stop(ended))),
            Ready::Changed => Err(None),
            Ready::Special => Err(self.interrupted()),
        }
    }

    /// A special word comes in a function, not in open code.
    pub(super) fn interrupted(&mut self) -> Option<Event> {
        match self.bits.peek() {
            Item::Special(
                Special::Mark
                | Special::Gap
                | Special::Kept
                | Special::Jumped
                | Special::Left
                | Special::Back,
                ..,
            ) => self.special(false),
            _ => {
                self.state = State::Unexpected;
                self.certain = false;
                Some(self.gap(Why::Unexpected))
            }
        }
    }

    /// The stream was interrupted by a handler that was left by a jump, or by the thread's cancellation. What needs no
    /// word may have happened before.
    pub(super) fn interrupted_for_good(&mut self) -> Option<Event> {
        let before = std::mem::replace(&mut self.state, State::Interrupted);
        self.may_have_gone_on(before)
    }

    /// The thread was ended in the middle.
    pub(super) fn unwound(&mut self) -> Option<Event> {
        let before = std::mem::replace(&mut self.state, State::Open);
        let told = match self.may_have_gone_on(before) {
            Some(event) => Some(event),
            // Between calls of unknown code it says nothing.
            None if before == State::Open && self.stack.len() == 1 => None,
            None => Some(self.event(EventKind::Unwound, NONE, NONE)),
        };
        self.stack.clear();
        self.stack.push(Active { function: OPEN, node: NONE });
        self.cut(0);
        told
    }

    /// A cleanup of a thread that ends is next: a call of `setjmp` returns again, to which nobody has jumped, in a
    /// function of C that registers such calls. Which one of several it is, is not asked.
    fn is_cleanup(&mut self) -> bool {
        let Item::Special(Special::Again, _, [function, _]) = self.bits.peek() else { return false };
        let function = self.reader.function_at(self.stream.process, function, self.bits.loads());
        let mut nodes = function.into_iter().flat_map(|function| self.tables.nodes_of(function));
        nodes.any(|node| {
            let name = self.tables.callee(node).map(|name| self.tables.linkage_name(name));
            name == Some("__pthread_register_cancel")
        })
    }

    /// The thread ends, or so; in front of this, what needs no word may have happened, if there is something.
    fn may_have_gone_on(&mut self, before: State) -> Option<Event> {
        let State::Choose(number) = before else { return None };
        if !self.needs_no_bits(number) {
            return None;
        }
        self.certain = false;
        self.gaps += 1;
        Some(self.event(EventKind::Interrupted, NONE, NONE))
    }

    /// Whether there is one node that can come, which says nothing.
    pub(super) fn needs_no_bits(&self, choice: u32) -> bool {
        let choice = self.tables.choices[choice as usize];
        choice.width == 0 && choice.start != NONE
    }

    /// A word says where the jump has gone to.
    pub(super) fn goes_on_elsewhere(&mut self) -> Option<Event> {
        match self.ready() {
            Ready::End(ended) => return Some(self.stop(ended)),
            Ready::Changed => return None,
            Ready::Special if !matches!(self.bits.peek(), Item::Special(Special::Entered, ..)) => {
                return self.special(false);
            }
            Ready::Special | Ready::Bits => self.state = State::Lose(Why::Jumped, 0),
        }
        None
    }

    /// The tables have nothing that could come.
    pub(super) fn not_reached(&mut self) -> Option<Event> {
        let ready = if self.bits.left == 0 { self.ready() } else { Ready::Bits };
        match ready {
            Ready::End(ended) => Some(self.stop(ended)),
            Ready::Changed => None,
            Ready::Special => self.interrupted(),
            Ready::Bits => {
                self.state = State::Lose(Why::NotReached, 0);
                None
            }
        }
    }
}
