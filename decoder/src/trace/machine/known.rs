//! What the machine does where nothing is known any more, and where a chunk's context tells what is active.

use super::landings::Landings;
use super::{Active, Event, EventKind, Machine, OPEN, Ready, State, UNKNOWN, Why};
use crate::trace::bits::Bits;
use crate::trace::file::{ChunkAt, Stream};
use crate::trace::reader::Reader;
use crate::trace::tables::NONE;

impl<'t> Machine<'t> {
    /// Reads from a chunk on ([`Reader::machine_from`]).
    pub(in crate::trace) fn from_chunk(
        reader: &'t Reader<'t>,
        stream: &'t Stream,
        chunk: usize,
        counted_before: Option<(u64, u64)>,
    ) -> Self {
        let bits = Bits::new(reader.file, stream, chunk);
        Self { bits, counted_before, ..Self::new(reader, stream, None) }
    }

    /// Of verify mode: how many events the stream has had, as far as that is certain.
    pub(in crate::trace) fn counted(&self) -> Option<u64> {
        self.certain.then_some(self.counted)
    }

    /// Where nothing is known at a chunk's beginning, its context may tell. `first`: it is the first one that is read.
    pub(super) fn look_for_begin(&mut self, chunk: &ChunkAt, first: bool) {
        if !matches!(self.state, State::Skip | State::Lose(Why::Missing, _)) {
            return;
        }
        match self.reader.begin_at(self.stream, chunk) {
            Ok(Some(begin)) => {
                // A ring begins where the chunks begin that it has kept, and reading where it was to begin.
                let may_begin = self.reader.file.is_ring || self.stream.chunks.first() != Some(chunk);
                let kept = first && may_begin && begin.stack[0].function == OPEN;
                if kept || self.state == State::Skip {
                    self.state = State::Known(kept);
                }
                self.begin = Some(Box::new(begin));
            }
            Ok(None) => {}
            Err(error) => self.bits.error = Some(error),
        }
    }

    /// Of verify mode: what was counted up to the first chunk's beginning is perhaps known.
    pub(super) fn count_from_begin(&mut self) {
        let before = self.counted_before.take();
        if self.begin.is_some()
            && let Some(counted) = before
        {
            (self.counted, self.hash) = counted;
            self.begun = self.counted;
            self.certain = true;
        }
    }

    /// Nothing is known up to the next special word.
    pub(super) fn skip(&mut self) -> Option<Event> {
        self.certain = false;
        self.bits.drop_bits();
        match self.ready() {
            Ready::Special => self.special(false),
            Ready::End(ended) => Some(self.stop(ended)),
            Ready::Bits | Ready::Changed => None,
        }
    }

    /// Nothing is known any more, or not yet.
    pub(super) fn lose(&mut self, why: Why, value: u64) -> Event {
        // What was counted up to a chunk's beginning may be known.
        self.certain &= self.begin.is_some();
        self.jumps.lose();
        self.landings = Landings::default();
        self.stack.clear();
        self.stack.push(Active { function: UNKNOWN, node: NONE });
        let event = Event { value, ..self.gap(why) };
        self.state = if self.begin.is_some() { State::Known(false) } else { State::Skip };
        if why == Why::Middle {
            self.stack.push(Active { function: OPEN, node: NONE });
            self.state = State::Open;
        }
        event
    }

    /// What is active is known from here on. Whether that is so since the rest was not kept.
    pub(super) fn known(&mut self, kept: bool) -> Event {
        let begin = self.begin.take().expect("it was found");
        self.cut_off |= kept;
        self.gaps += u64::from(kept);
        self.stack = begin.stack;
        self.jumps.begin(begin.jumps, self.stack.len());
        self.was_counted = begin.counted;
        self.then = begin.state;
        self.state = State::Active(1);
        Event { depth: 0, value: kept.into(), ..self.event(EventKind::Known, NONE, NONE) }
    }

    /// What is active from this place on is told next, and then what comes. Nothing is told of code of which nothing is
    /// known, not even who called it.
    pub(super) fn told_next(&self, mut place: usize) -> State {
        let unknown = |place: usize| self.stack[place].function == OPEN && self.stack[place - 1].node == NONE;
        while place < self.stack.len() && unknown(place) {
            place += 1;
        }
        if place < self.stack.len() { State::Active(place) } else { self.then }
    }

    /// Tells of the activation at a place.
    pub(super) fn active(&mut self, place: usize) -> Event {
        self.state = self.told_next(place + 1);
        let function = Some(self.stack[place].function).filter(|function| *function != OPEN);
        let node = self.stack[place - 1].node;
        let depth = place as u32 - 1;
        Event { depth, ..self.event(EventKind::Active, function.unwrap_or(NONE), node) }
    }

    /// Reads the rest of a node's code.
    pub(super) fn rest(&mut self, node: u32, bits: u32) -> Result<(), Option<Event>> {
        let (code, _) = self.tables.code_of(node);
        for bit in (0..bits).rev() {
            self.state = State::Rest(node, bit + 1);
            self.want()?;
            if self.bit()? != (code >> bit & 1 == 1) {
                self.state = State::Lose(Why::NoCode, 0);
                return Err(None);
            }
        }
        Ok(())
    }

    /// The activation that got a number before reading began: the only one of its function that was active then and is
    /// so still.
    pub(super) fn again_before(&self, number: u64, function: u32) -> Option<usize> {
        let active = self.stack.get(..self.jumps.given_before(number)?)?;
        let place = active.iter().rposition(|active| active.function == function)?;
        (!active[..place].iter().any(|active| active.function == function)).then_some(place)
    }
}
