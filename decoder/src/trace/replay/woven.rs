//! Replay of a stream that several programs have written, each its share of the bits (`trace::parts`). The tables say
//! which program has written the bits of a choice. All have written the bits of unknown code, and all special words.

use pcce_abi::trace::{CACHE, ENDED, Order, Special, cache_index};

use super::begin::{Snapshot, goes_on};
use super::{Active, End, Event, OPEN, Ready, Replay, State};
use crate::trace::bits::{Bits, Item};
use crate::trace::event::GapCause;
use crate::trace::file::{ChunkAt, Stream};
use crate::trace::parts::Written;
use crate::trace::reader::Reader;
use crate::trace::tables::{Choice, NONE};

/// The reader of one program's stream, while it is not its turn.
#[derive(Debug)]
struct Input<'t> {
    reader: &'t Reader<'t>,
    stream: &'t Stream,
    bits: Bits<'t>,
    cache: Vec<u32>,
    order: Order,
}

/// Reasons why streams cannot be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// The programs took different ways.
    Differ,
    /// The next event is not known: a stream is not whole, or the tables do not describe the code.
    Lost(GapCause),
}

/// The streams of several programs.
#[derive(Debug)]
pub(in crate::trace) struct Woven<'t> {
    /// By part. In the place of that whose turn it is, there is nothing of use: it is in the [`Replay`].
    inputs: Vec<Input<'t>>,
    turn: usize,
    apart: Option<Apart>,
    /// The stream that they become; none where only the state is wanted.
    out: Option<Written>,
    /// By part, the chunk that was begun, and of which nothing was used yet.
    began: Vec<Option<ChunkAt>>,
}

/// The next event of unknown code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opened {
    Returned,
    Entered(u32),
    Special,
    Limit,
    End(bool),
}

impl<'t> Replay<'t> {
    /// Reads a stream that all parts have, from its beginning, and writes it.
    pub(in crate::trace) fn woven(
        parts: &[(&'t Reader<'t>, &'t Stream)],
        start: Option<Snapshot>,
        out: Option<Written>,
    ) -> Self {
        let (reader, stream) = parts[0];
        let inputs = parts.iter().map(|&(reader, stream)| Input {
            reader,
            stream,
            bits: Bits::new(reader.file, stream, 0),
            cache: vec![NONE; CACHE],
            order: Order::new(),
        });
        let woven =
            Woven { inputs: inputs.collect(), turn: 0, apart: None, out, began: vec![None; parts.len()] };
        Self { woven: Some(Box::new(woven)), ..Self::new(reader, stream, start) }
    }

    /// The state at these places of the parts, in a call of `fork`.
    pub(in crate::trace) fn woven_snapshot_at(mut self, positions: &[u64]) -> Option<Snapshot> {
        for (part, &position) in positions.iter().enumerate() {
            self.turn_to(part);
            self.bits.stop_at(position);
        }
        self.turn_to(0);
        while self.next().is_some() {}
        let all = (0..positions.len()).all(|part| {
            self.turn_to(part);
            self.bits.is_at_limit()
        });
        (all && self.state == State::Open && self.apart().is_none()).then(|| self.snapshot(State::Open))
    }

    /// Why reading has ended early.
    pub(in crate::trace) fn apart(&self) -> Option<Apart> {
        self.woven.as_ref()?.apart
    }

    /// Ends the stream that is written, after its last event.
    pub(in crate::trace) fn end(&mut self, end: End) -> std::io::Result<()> {
        self.turn_to(0);
        let counted = if self.certain { (self.counted, self.hash) } else { (0, 0) };
        let time = self.time();
        self.out().map_or(Ok(()), |out| out.end(end, counted, time))
    }

    /// Begins another chunk of the stream that is written, if there is reason to, and if the state can be told there.
    pub(in crate::trace) fn begin_chunk(&mut self) -> std::io::Result<()> {
        let is_due = self.woven.as_ref().and_then(|woven| woven.out.as_ref()).is_some_and(Written::is_due);
        let is_told = |replay: &Self| {
            let last = replay.stack.last().expect("there is unknown code at least");
            replay.stack[0].function == OPEN && goes_on(replay.tables, last) == replay.state
        };
        if !is_due || !is_told(self) {
            return Ok(());
        }
        self.turn_to(0);
        let counted = if self.certain { (self.counted, self.hash) } else { (0, 0) };
        let (time, loads, jumps) = (self.time(), self.bits.loads(), self.jumps.count());
        let number = |active: &Active| match active.node {
            NONE => None,
            node => Some(self.tables.number_of(node)),
        };
        let stack = self.stack.iter().map(|active| match active.function {
            OPEN => None,
            function => Some((function, number(active))),
        });
        let stack: Vec<_> = stack.collect();
        let out = self.woven.as_mut().and_then(|woven| woven.out.as_mut()).expect("it is due");
        out.begin(&stack, jumps, counted, (time, loads))
    }

    /// Notes which places of the parts are reached.
    pub(super) fn mark(&mut self) {
        let Some(woven) = self.woven.as_deref_mut() else { return };
        let Some(out) = &mut woven.out else { return };
        while let Some(places) = out.next_mark() {
            let reached = woven.inputs.iter().zip(places).enumerate().all(|(part, (input, &place))| {
                let bits = if part == woven.turn { &self.bits } else { &input.bits };
                bits.position() >= place
            });
            if !reached {
                return;
            }
            out.mark();
        }
    }

    fn parts(&self) -> usize {
        self.woven.as_ref().map_or(1, |woven| woven.inputs.len())
    }

    /// It is the turn of this part.
    pub(super) fn turn_to(&mut self, part: usize) {
        let Self { woven: Some(woven), reader, stream, bits, cache, order, .. } = self else { return };
        if woven.turn == part {
            return;
        }
        for number in [woven.turn, part] {
            let input = &mut woven.inputs[number];
            std::mem::swap(reader, &mut input.reader);
            std::mem::swap(stream, &mut input.stream);
            std::mem::swap(bits, &mut input.bits);
            std::mem::swap(cache, &mut input.cache);
            std::mem::swap(order, &mut input.order);
        }
        woven.turn = part;
    }

    /// It is the turn of the part that has written the bits of a choice; where there is nothing to choose, of one with
    /// bits, if there is one.
    pub(super) fn turn_to_choice(&mut self, choice: &Choice) {
        if choice.width > 0 { self.turn_to(choice.writers.owner as usize) } else { self.turn_to_bits() }
    }

    /// Returns whether the part that has written the bits of a choice, too, has written those of this node.
    pub(super) fn is_checked(&mut self, choice: u32, node: u32) -> bool {
        let Some(checker) = self.tables.choices[choice as usize].writers.checker else { return true };
        let (code, bits) = self.tables.code_of(node);
        self.turn_to(checker as usize);
        let same = (0..bits).rev().all(|bit| self.bit() == Ok(code >> bit & 1 == 1));
        if !same {
            self.come_apart(Apart::Differ);
        }
        same
    }

    /// It is the turn of a part with bits, if there is one: bits come before all special words.
    pub(super) fn turn_to_bits(&mut self) {
        if self.woven.is_none() || self.bits.left > 0 {
            return;
        }
        for part in 0..self.parts() {
            self.turn_to(part);
            if self.bits.left > 0 || !matches!(self.ready(), Ready::Special | Ready::End(_)) {
                return;
            }
        }
        self.turn_to(0);
    }

    /// The parts contradict each other, or do not say what comes.
    pub(super) fn come_apart(&mut self, why: Apart) {
        let woven = self.woven.as_mut().expect("there are parts");
        woven.apart.get_or_insert(why);
        self.state = State::Done;
    }

    /// Reads the bit after a checked call in all parts.
    pub(super) fn check_all(&mut self) -> Result<bool, Option<Event>> {
        for part in 0..self.parts() {
            self.turn_to(part);
            self.want()?;
            if self.bit()? {
                return Ok(true);
            }
        }
        if let Some(out) = self.out() {
            out.bits(0, 1);
        }
        Ok(false)
    }

    /// [`Self::open`] in all parts.
    pub(super) fn open_in_all(&mut self) -> Option<Event> {
        let mut found = None;
        for part in 0..self.parts() {
            self.turn_to(part);
            let opened = match self.opened() {
                Ok(opened) => opened,
                Err(reported) => return reported,
            };
            if *found.get_or_insert(opened) != opened {
                self.come_apart(Apart::Differ);
                return None;
            }
        }
        self.turn_to(0);
        let loads = self.bits.loads();
        match found? {
            Opened::Returned => {
                if let Some(out) = self.out() {
                    out.bits(0, 1);
                }
                self.open_returned()
            }
            Opened::Entered(function) => {
                self.idle = 0;
                if let Some(out) = self.out() {
                    out.entered(function, loads);
                }
                Some(self.enter(function))
            }
            Opened::Special => self.special(false),
            Opened::Limit => None,
            Opened::End(ended) => Some(self.stop(ended)),
        }
    }

    /// Reads the next event of unknown code in one part. Special words stay, except those that say that a function is
    /// entered.
    fn opened(&mut self) -> Result<Opened, Option<Event>> {
        if self.bits.left == 0 {
            match self.ready() {
                Ready::Bits => {}
                Ready::Special => {
                    let Item::Special(Special::Entered, address, _) = self.bits.peek() else {
                        return Ok(Opened::Special);
                    };
                    self.bits.take();
                    return match self.enter_in_cache(address) {
                        Some(function) => Ok(Opened::Entered(function)),
                        None => {
                            self.state = State::Lose(GapCause::NoTables, address);
                            Err(None)
                        }
                    };
                }
                Ready::End(_) if self.bits.is_at_limit() => return Ok(Opened::Limit),
                Ready::End(ended) => return Ok(Opened::End(ended)),
                Ready::Changed => return Err(None),
            }
        }
        match self.bit()? {
            true => Ok(Opened::Entered(self.cached()?)),
            false => Ok(Opened::Returned),
        }
    }

    /// The function at an address, which goes into the cache of this part.
    fn enter_in_cache(&mut self, address: u64) -> Option<u32> {
        self.order = Order::new();
        let function = self.reader.function_at(self.stream.process, address, self.bits.loads())?;
        self.cache[cache_index(address as usize)] = function;
        Some(function)
    }

    /// A special word comes: all parts must have it. Takes it from all except the first, and writes it.
    pub(super) fn agree(&mut self) -> bool {
        self.turn_to(0);
        let Some(wanted) = self.meaning() else { return false };
        for part in 1..self.parts() {
            self.turn_to(part);
            if self.bits.left > 0 || self.ready() != Ready::Special || self.meaning() != Some(wanted) {
                return false;
            }
            let item = self.bits.peek();
            self.bits.take();
            self.order = Order::new();
            if let Item::Special(Special::Entered, address, _) = item {
                self.enter_in_cache(address);
            }
        }
        self.turn_to(0);
        let Item::Special(special, payload, words) = self.bits.peek() else { return false };
        let (function, loads) = (wanted.function, self.bits.loads());
        if let Some(out) = self.out() {
            match (special, function) {
                (Special::Entered, Some(function)) => out.entered(function, loads),
                _ => out.special(special, payload, words, function, loads),
            }
        }
        true
    }

    /// What the special word of a part says in all parts.
    fn meaning(&mut self) -> Option<Meaning> {
        let Item::Special(special, payload, words) = self.bits.peek() else { return None };
        let (process, loads) = (self.stream.process, self.bits.loads());
        let function = |address: u64| self.reader.function_at(process, address, loads);
        let (function, values) = match special {
            Special::Entered => (Some(function(payload)?), [0; 3]),
            // Stacks have other sizes.
            Special::Kept | Special::Jumped => (None, [0; 3]),
            Special::Handler => (None, [payload, 0, 0]),
            Special::Landed | Special::Again | Special::Left | Special::Back if words[0] != 0 => {
                (Some(function(words[0])?), [payload, 0, words[1]])
            }
            _ => (None, [payload, words[0], words[1]]),
        };
        Some(Meaning { special, function, values })
    }

    pub(super) fn out(&mut self) -> Option<&mut Written> {
        self.woven.as_mut()?.out.as_mut()
    }

    /// A chunk of a part begins.
    pub(super) fn began(&mut self, chunk: &ChunkAt) {
        if let Some(woven) = &mut self.woven {
            woven.began[woven.turn] = Some(*chunk);
        }
    }

    /// Bits of a part are read. If they are the first ones of a chunk, compares the chunk's context with the
    /// activations, where the chunk was begun in the middle of the code of the node that comes. (Where it was begun
    /// behind an event, others may have followed that are in other parts.)
    pub(super) fn compare_context(&mut self) {
        let Some(woven) = &mut self.woven else { return };
        let Some(chunk) = woven.began[woven.turn].take() else { return };
        let begin = match self.reader.begin_at(self.stream, &chunk) {
            Ok(Some(begin)) if matches!(begin.state, State::Rest(_, left) if left > 0) => begin,
            Ok(_) => return,
            Err(error) => return self.bits.error = Some(error),
        };
        // The context may not reach as far out.
        let (own, others) = (&self.stack, &begin.stack[1..]);
        let mut pairs = own.iter().rev().zip(others.iter().rev()).enumerate();
        let same = own.len() > others.len()
            && pairs.all(|(depth, (own, other))| {
                own.function == other.function && (depth == 0 || own.node == other.node)
            });
        if !same {
            self.come_apart(Apart::Differ);
        }
    }

    /// The stream ends: all parts must end so.
    pub(super) fn end_all(&mut self, ended: bool) {
        for part in 0..self.parts() {
            self.turn_to(part);
            if self.bits.left > 0 || self.ready() != Ready::End(ended) {
                return self.come_apart(Apart::Differ);
            }
            // In verify mode, each part has counted all events.
            let last = self.stream.chunks.last().filter(|chunk| chunk.end == ENDED && chunk.events != 0);
            if self.certain && last.is_some_and(|last| (last.events, last.hash) != (self.counted, self.hash))
            {
                return self.come_apart(Apart::Differ);
            }
        }
        self.turn_to(0);
    }
}

/// What a special word says, whichever part has it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Meaning {
    special: Special,
    function: Option<u32>,
    values: [u64; 3],
}
