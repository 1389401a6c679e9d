//! What the machine does with special words, and at the bounds of chunks.

use pcce_abi::trace::{
    BEGIN_FORKED, BEGIN_INTERRUPTED, BEGIN_MIDDLE, CONTINUED, ENDED, Gap, Order, Special, cache_index,
};

use super::{Active, Machine, OPEN, Ready, State, UNKNOWN};
use crate::trace::bits::Item;
use crate::trace::event::{End, Event, EventKind, Why};
use crate::trace::file::ChunkAt;
use crate::trace::tables::{NONE, Op};

impl Machine<'_> {
    /// What comes where no bits are left, behind the bounds of chunks.
    pub(super) fn ready(&mut self) -> Ready {
        loop {
            let item = self.bits.peek();
            match item {
                Item::Bits => return Ready::Bits,
                Item::Special(..) => return Ready::Special,
                Item::End(ended) => return Ready::End(ended),
                Item::ChunkEnd(chunk) => self.chunk_ends(chunk),
                Item::Begin(chunk, follows) => self.chunk_begins(&chunk, follows),
                Item::Damaged => self.lose_at(Why::BadWord),
                Item::BadChunk => {
                    // What was counted up to this chunk's beginning says nothing of the next one.
                    self.counted_before = None;
                    self.lose_at(Why::BadChunk);
                }
            }
            self.bits.take();
            if matches!(self.state, State::Lose(..) | State::Known(_) | State::Active(_)) {
                return Ready::Changed;
            }
        }
    }

    /// Something is missing here; there is nothing to tell if nothing is known anyway.
    fn lose_at(&mut self, why: Why) {
        if self.state != State::Skip {
            self.state = State::Lose(why, 0);
        }
        self.certain = false;
        self.forget();
    }

    /// What is expected cannot be compared.
    fn forget(&mut self) {
        self.verified.uncertain += self.expected.len() as u64;
        self.expected.clear();
    }

    fn chunk_begins(&mut self, chunk: &ChunkAt, follows: bool) {
        self.cache.fill(NONE);
        self.order = Order::new();
        self.last = None;
        let first = !std::mem::replace(&mut self.started, true);
        if chunk.begin == BEGIN_MIDDLE {
            self.state = State::Lose(Why::Middle, 0);
        } else if [BEGIN_FORKED, BEGIN_INTERRUPTED].contains(&chunk.begin) && chunk.sequence == 0 {
            if self.forked { self.inherits() } else { self.lose_at(Why::Parent) }
        } else if !follows {
            self.lose_at(Why::Missing);
        }
        self.look_for_begin(chunk, first);
        let unknown = matches!(self.state, State::Lose(..) | State::Skip | State::Known(_));
        self.certain &= !unknown;
        self.count_from_begin();
        if chunk.events != 0 && chunk.end == CONTINUED {
            self.expected.push_back(*chunk);
        }
        if !self.certain {
            self.forget();
        }
        self.compare_reached();
    }

    fn chunk_ends(&mut self, chunk: ChunkAt) {
        // What the stream ends with comes behind its last word.
        self.last = Some(chunk).filter(|chunk| chunk.end == ENDED);
    }

    /// Compares what chunks say that have as many events as there were by now.
    pub(super) fn compare_reached(&mut self) {
        while self.expected.front().is_some_and(|chunk| chunk.events <= self.counted) {
            self.compare_next();
        }
    }

    /// Compares what a chunk says, where there are as many events.
    pub(super) fn compare_next(&mut self) {
        let Some(chunk) = self.expected.pop_front() else { return };
        self.verified.chunks += 1;
        self.verified.events += self.counted - self.begun;
        self.begun = self.counted;
        if (self.counted, self.hash) != (chunk.events, chunk.hash) {
            self.differs(&chunk);
        }
    }

    /// Compares what the last chunk says, where nothing more comes.
    pub(super) fn compare_last(&mut self, chunk: ChunkAt) {
        if !self.certain {
            self.forget();
        }
        while let Some(chunk) = self.expected.pop_front() {
            self.differs(&chunk);
        }
        if chunk.events == 0 {
            return;
        }
        if self.certain {
            self.expected.push_back(chunk);
            self.compare_next();
        } else {
            self.verified.uncertain += 1;
        }
    }

    fn differs(&mut self, chunk: &ChunkAt) {
        self.verified.mismatches += 1;
        self.verified.first.get_or_insert((chunk.sequence, chunk.events, self.counted));
    }

    /// Nothing more comes.
    pub(super) fn stop(&mut self, ended: bool) -> Event {
        if ended && let Some(chunk) = self.last.take() {
            self.compare_last(chunk);
        }
        self.state = State::Done;
        self.gaps += u64::from(!ended && self.bits.lacks_more());
        let end = if ended { End::Ended } else { End::Open };
        self.event(EventKind::End(end), NONE, NONE)
    }

    /// Deals with a special word. `unexpected`: it stands where there is no open code.
    pub(super) fn special(&mut self, unexpected: bool) -> Option<Event> {
        let Item::Special(special, payload, words) = self.bits.peek() else {
            self.state = State::Lose(Why::BadWord, 0);
            return None;
        };
        self.idle = 0;
        self.order = Order::new();
        match special {
            Special::Landed => return self.came_back(EventKind::Landed, payload, words),
            Special::Again => return self.came_back(EventKind::Again, payload, words),
            _ => self.bits.take(),
        }
        match special {
            Special::Entered => self.entered(payload, unexpected),
            Special::Mark => Some(Event { value: words[0], ..self.event(EventKind::Mark, NONE, NONE) }),
            // The jump has come to a stream further out; the next handler begins anew.
            Special::Gap if payload == Gap::Left as u64 && self.stream.level > 0 => {
                Some(self.handler(EventKind::HandlerLeft, 0))
            }
            Special::Gap if payload == Gap::Interrupted as u64 => self.interrupted_for_good(),
            Special::Gap if payload == Gap::Unwound as u64 => self.unwound(),
            // Where nothing is known, nothing becomes known.
            Special::Kept | Special::Jumped if matches!(self.state, State::Skip | State::Elsewhere) => None,
            Special::Left => self.leaves(payload, words),
            Special::Back => self.comes_back(payload, words),
            Special::Kept => {
                self.landings.keep(payload, self.stack.len(), self.state);
                None
            }
            Special::Jumped => {
                self.state = State::Jumped(payload);
                None
            }
            Special::Gap => {
                self.bits.skip_chunk();
                let why =
                    [(Gap::Stopped, Why::Stopped), (Gap::Switched, Why::Switched), (Gap::Full, Why::Full)];
                let why = why.into_iter().find(|(gap, _)| *gap as u64 == payload);
                self.state = State::Lose(why.map_or(Why::BadWord, |(_, why)| why), 0);
                None
            }
            Special::Handler if self.stream.level > 0 => Some(self.handler(EventKind::Handler, payload)),
            Special::HandlerEnd if self.stream.level > 0 => Some(self.handler(EventKind::HandlerEnd, 0)),
            _ => {
                self.state = State::Lose(Why::BadWord, 0);
                None
            }
        }
    }

    /// A handler begins or has ended: nothing is active in its stream.
    fn handler(&mut self, kind: EventKind, value: u64) -> Event {
        self.stack.clear();
        self.stack.push(Active { function: OPEN, node: NONE });
        self.cut(0);
        self.state = State::Open;
        Event { value, ..self.event(kind, NONE, NONE) }
    }

    fn entered(&mut self, address: u64, unexpected: bool) -> Option<Event> {
        let function = self.reader.function_at(self.stream.process, address, self.bits.loads());
        self.cache[cache_index(address as usize)] = function.unwrap_or(NONE);
        let Some(function) = function else {
            self.state = State::Lose(Why::NoTables, address);
            return None;
        };
        if self.state == State::Elsewhere {
            self.stack.push(Active { function: OPEN, node: NONE });
        } else if unexpected || self.state == State::Skip {
            self.jumps.lose();
            self.stack.clear();
            self.stack.push(Active { function: UNKNOWN, node: NONE });
            // A call that calls nothing back by the tables has done it: what it writes when it returns is not known.
            if !unexpected {
                self.stack.push(Active { function: OPEN, node: NONE });
            }
        }
        Some(self.enter(function))
    }

    /// Control has come to a landing pad, or out of a call once more.
    fn came_back(&mut self, kind: EventKind, number: u64, words: [u64; 2]) -> Option<Event> {
        let loads = self.bits.loads();
        let Some(function) = self.reader.function_at(self.stream.process, words[0], loads) else {
            self.bits.take();
            self.state = State::Lose(Why::NoTables, words[0]);
            return None;
        };
        let op = if kind == EventKind::Landed { Op::Landing } else { Op::Twice };
        let node = self.tables.node_of(function, number);
        let Some(node) = node.filter(|node| self.tables.nodes[*node as usize].op == op) else {
            self.bits.take();
            self.state = State::Lose(Why::BadWord, 0);
            return None;
        };
        let mut place = match kind {
            EventKind::Landed => self.stack.iter().rposition(|active| {
                active.function == function
                    && active.node != NONE
                    && self.tables.nodes[active.node as usize].unwinds_to == node
            }),
            _ => self.again_at(words[1], node),
        };
        if place.is_none() && self.state == State::Elsewhere && kind == EventKind::Again {
            place = self.returns_on_another(words[1]).then(|| self.again_at(words[1], node)).flatten();
        }
        match place {
            Some(place) => {
                self.cut(place + 1);
                self.stack.truncate(place + 1);
                self.stack[place].node = node;
            }
            None if kind == EventKind::Again
                && let Some(place) = self.again_before(words[1], function) =>
            {
                self.cut(place + 1);
                self.stack.truncate(place + 1);
                self.stack[place].node = node;
            }
            // It may be active where nothing is known. Elsewhere this is an error, and told before the word is looked
            // at again.
            None if self.stack[0].function == UNKNOWN => {
                self.jumps.lose();
                self.stack.truncate(1);
                self.stack.push(Active { function, node });
            }
            None => {
                self.state = State::Lose(Why::NotActive, 0);
                return None;
            }
        }
        self.bits.take();
        self.state = State::Choose(self.tables.nodes[node as usize].next);
        Some(Event { depth: self.stack.len() as u32 - 2, ..self.event(kind, function, node) })
    }
}
