//! Reconstruction: a stream's bits say, at each place of the program where several events can follow, which
//! one did. The replay keeps the activations, and follows the tables (casper.txt §3 has the principle).
//!
//! If it cannot know the activations, it says so ([`EventKind::Gap`]) and goes on at the next special
//! word: that one names a function, and what this function does from there on is certain again. Nothing is
//! guessed.

mod begin;
mod stacks;
mod woven;

use std::collections::VecDeque;

use pcce_abi::trace::{
    BEGIN_FORKED, BEGIN_INTERRUPTED, BEGIN_LOST, BEGIN_MIDDLE, CACHE, CACHED_BITS, CONTINUED, ENDED,
    EXPECTED_BITS, Gap, Order, Special, cache_index, hash,
};

use self::begin::{Begin, Snapshot};
use self::stacks::{Jumps, Landings, Stacks};
pub use self::woven::Apart;
use self::woven::Woven;
use super::bits::{Bits, Item};
use super::event::{End, Event, EventKind, GapCause};
use super::file::{ChunkAt, Stream};
use super::reader::Reader;
use super::tables::{NONE, Op, Tables};

/// An activation, or a part of the stack that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// The function; [`OPEN`] or [`UNKNOWN`].
    pub function: u32,
    /// Its last node: while it calls another activation, the call. [`NONE`] at its entry.
    pub node: u32,
}

/// Stands for a function: code of which only the caller is known.
pub const OPEN: u32 = u32::MAX;
/// Stands for a function: the activations here and further out are not known.
pub const UNKNOWN: u32 = u32::MAX - 1;

/// Bound on the activations that are kept: 64 MiB.
pub(super) const MAX_DEPTH: usize = 1 << 23;
/// Bound on the events that follow from one word.
const MAX_IDLE: u32 = 1 << 20;

/// The next step of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Follows a choice of the innermost activation.
    Choose(u32),
    /// The innermost is open code.
    Open,
    /// A checked call has returned: a bit says so; then comes this choice.
    Check(u32),
    /// An exception goes on outside of the innermost activation.
    Unwinding,
    /// `longjmp` goes to this place ([`Landings`]).
    Jumped(u64),
    /// A handler has jumped away from here.
    Interrupted,
    /// The thread is on another stack, of which nothing was reported yet.
    Elsewhere,
    /// Nothing is known up to the next special word.
    Skip,
    /// Reports a gap, after which nothing is known.
    Lose(GapCause, u64),
    /// The activations are known from here on: [`Replay::begin`]. True if a ring has not kept the events before.
    Known(bool),
    /// Reports the activation at this place, then the others; then comes [`Replay::then`].
    Active(usize),
    /// This node comes, after this number of further bits of its code.
    Rest(u32, u32),
    /// Reports that the events before the fork are not certain; then comes this choice, or unknown code
    /// ([`NONE`]).
    Perhaps(u32),
    /// A special word is where none can be. It is handled next.
    Unexpected,
    Done,
}

/// The next item where no bits are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    /// There are bits now.
    Bits,
    Special,
    End(bool),
    /// Nothing is known any more.
    Changed,
}

/// Result of comparing the counts of verify mode with the events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Chunks that were compared.
    pub chunks: u64,
    pub events: u64,
    /// Chunks that do not match.
    pub mismatches: u64,
    /// The first of these: its sequence, its events by the chunk, and by the reader.
    pub first: Option<(u64, u64, u64)>,
    /// Chunks that have counts, and cannot be compared since events are missing.
    pub uncertain: u64,
}

impl Verified {
    pub(super) fn add(&mut self, other: &Self) {
        self.chunks += other.chunks;
        self.events += other.events;
        self.mismatches += other.mismatches;
        self.uncertain += other.uncertain;
        self.first = self.first.or(other.first);
    }
}

#[derive(Debug)]
pub struct Replay<'t> {
    reader: &'t Reader<'t>,
    tables: &'t Tables,
    stream: &'t Stream,
    bits: Bits<'t>,
    stack: Vec<Active>,
    jumps: Jumps,
    landings: Landings,
    stacks: Stacks,
    state: State,
    cache: Vec<u32>,
    order: Order,
    /// The node before the last one in its activation, or [`NONE`].
    before: u32,
    /// Events in a row that needed no word.
    idle: u32,
    events: u64,
    /// The number of gaps.
    gaps: u64,
    /// True if a ring has not kept the events before.
    cut_off: bool,
    /// Verify mode: whether there is something to compare, the number of events and the hash of the stream
    /// here, and whether that is certain.
    verify: bool,
    counted: u64,
    hash: u64,
    certain: bool,
    /// The number of events at the last comparison.
    begun: u64,
    verified: Verified,
    /// Chunks whose count of events, which they have from their end, was not reached yet.
    expected: VecDeque<ChunkAt>,
    /// The last chunk, if it has ended.
    last: Option<ChunkAt>,
    /// True if it began with the stack of another stream.
    forked: bool,
    /// True if no event is reported that may come after the place where reading stops.
    halts: bool,
    started: bool,
    /// The number in the stream of the chunk that is read.
    sequence: u64,
    /// The state at the chunk's beginning, before it is reported.
    begin: Option<Box<Begin>>,
    /// The step after the report of the activations.
    then: State,
    /// The cache with which a forked stream begins.
    inherited: Option<(Vec<u32>, Order)>,
    /// Verify mode: true if the next event was counted before the place where reading began.
    was_counted: bool,
    /// Verify mode: events and hash where reading begins.
    counted_before: Option<(u64, u64)>,
    /// The streams of several programs, if it is read from these.
    woven: Option<Box<Woven<'t>>>,
}

impl Iterator for Replay<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            self.mark();
            let state = self.state;
            let reported = match state {
                State::Choose(_) | State::Check(_) if self.halts_here() => return None,
                State::Choose(choice) => match self.choose(choice) {
                    Ok(node) if self.woven.is_some() && !self.is_checked(choice, node) => None,
                    Ok(node) => return Some(self.node(node)),
                    Err(reported) => reported,
                },
                State::Open if self.bits.is_at_limit() => return None,
                State::Open => self.open(),
                State::Check(choice) => self.check(choice),
                State::Unwinding => self.unwinding(),
                State::Jumped(place) => self.jumped(place),
                State::Interrupted => self.goes_on_elsewhere(),
                State::Elsewhere => self.elsewhere(),
                State::Skip => self.skip(),
                State::Lose(why, _) if self.woven.is_some() => {
                    self.come_apart(Apart::Lost(why));
                    None
                }
                State::Lose(why, value) => Some(self.lose(why, value)),
                State::Known(kept) => Some(self.known(kept)),
                State::Active(place) => Some(self.active(place)),
                State::Rest(node, bits) => match self.rest(node, bits) {
                    Ok(()) => return Some(self.node(node)),
                    Err(reported) => reported,
                },
                State::Perhaps(choice) => Some(self.perhaps(choice)),
                State::Unexpected => self.special(true),
                State::Done => return None,
            };
            if reported.is_some() {
                return reported;
            }
        }
    }
}

impl<'t> Replay<'t> {
    pub(super) fn new(reader: &'t Reader<'t>, stream: &'t Stream, start: Option<Snapshot>) -> Self {
        let forked = start.is_some();
        let start = start.unwrap_or_else(|| Snapshot {
            stack: vec![Active { function: OPEN, node: NONE }],
            jumps: Jumps::default(),
            landings: Landings::default(),
            stacks: Stacks::default(),
            state: State::Skip,
            cache: None,
            counted: Some((0, 0)),
        });
        let certain = start.counted.is_some();
        let (counted, hash) = start.counted.unwrap_or_default();
        Self {
            reader,
            tables: &reader.programs.tables,
            stream,
            bits: Bits::new(reader.file, stream, 0),
            stack: start.stack,
            jumps: start.jumps,
            landings: start.landings,
            stacks: start.stacks,
            state: State::Open,
            cache: vec![NONE; CACHE],
            order: Order::new(),
            before: NONE,
            idle: 0,
            events: 0,
            gaps: 0,
            cut_off: false,
            verify: reader.verify,
            counted,
            hash,
            certain,
            begun: 0,
            verified: Verified::default(),
            expected: VecDeque::new(),
            last: None,
            forked,
            halts: false,
            started: false,
            sequence: 0,
            begin: None,
            then: start.state,
            inherited: start.cache,
            was_counted: false,
            counted_before: None,
            woven: None,
        }
    }

    /// The activations, the outermost first.
    pub fn stack(&self) -> &[Active] {
        &self.stack
    }

    /// The number of events so far, of the kinds that verify mode counts.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The numbers of bits, and of words that are no bits, that were read.
    pub fn read(&self) -> (u64, u64) {
        self.bits.read()
    }

    /// The approximate time of the event, by `CLOCK_MONOTONIC` in nanoseconds. The trace has the clock where chunks
    /// begin and end; times between these are interpolated.
    pub fn time(&self) -> u64 {
        self.bits.time()
    }

    /// The place in the stream ([`pcce_abi::trace::position`]).
    pub(super) fn position(&self) -> u64 {
        self.bits.position()
    }

    /// The comparisons of verify mode so far.
    pub fn verified(&self) -> Verified {
        self.verified
    }

    /// The number of gaps. A part that a ring has not kept is one.
    ///
    /// # Errors
    /// The error with which reading the file has ended, if it has.
    pub fn finish(&mut self) -> std::io::Result<u64> {
        self.bits.error.take().map_or(Ok(self.gaps), Err)
    }

    /// 1 if one of the gaps is a part that a ring has not kept, else 0.
    pub(super) fn cut_off(&self) -> u64 {
        self.cut_off.into()
    }

    #[inline]
    fn node(&mut self, number: u32) -> Event {
        let node = &self.tables.nodes[number as usize];
        if self.woven.is_some() {
            let (code, bits) = self.tables.code_of(number);
            self.out().into_iter().for_each(|out| out.bits(code, bits));
        }
        let last = self.stack.len() - 1;
        self.before = std::mem::replace(&mut self.stack[last].node, number);
        self.events += 1;
        if self.verify {
            let was_counted = std::mem::take(&mut self.was_counted);
            if let Some(event) = node.event.filter(|_| !was_counted) {
                self.counted += 1;
                self.hash = hash(self.hash, event.get());
            }
            self.compare_reached();
        }
        let mut event = Event {
            kind: EventKind::Call,
            depth: last as u32,
            function: node.function,
            node: number,
            value: 0,
        };
        match node.op {
            Op::Call => {
                event.function = node.target;
                self.push(node.target);
            }
            Op::Closed => {
                (event.kind, event.function) = (EventKind::Closed, NONE);
                self.state = State::Choose(node.next);
            }
            Op::Open => {
                (event.kind, event.function) = (EventKind::Open, NONE);
                self.stack.push(Active { function: OPEN, node: NONE });
                self.state = State::Open;
            }
            Op::ReturnsTwice => {
                (event.kind, event.function) = (EventKind::ReturnsTwice, NONE);
                self.jumps.give(last, number);
                self.state = State::Choose(node.next);
            }
            Op::Return => {
                (event.kind, event.depth) = (EventKind::Return, last as u32 - 1);
                self.pop();
            }
            Op::Leave => {
                (event.kind, event.depth, event.function) = (EventKind::Leave, last as u32 - 1, node.target);
                self.cut(last);
                self.stack[last] = Active { function: node.target, node: NONE };
                self.state = State::Choose(self.tables.functions[node.target as usize].first);
            }
            Op::LeaveOpen => {
                (event.kind, event.depth) = (EventKind::LeaveOpen, last as u32 - 1);
                self.cut(last);
                self.stack.pop();
                // If open code has entered the function, that code goes on.
                if self.stack[last - 1].function != OPEN {
                    self.stack.push(Active { function: OPEN, node: NONE });
                }
                self.state = State::Open;
            }
            Op::Block => {
                (event.kind, event.function) = (EventKind::Block, NONE);
                self.state = State::Choose(node.next);
            }
            Op::Resume | Op::Landing => {
                (event.kind, event.depth) = (EventKind::Resume, last as u32 - 1);
                self.state = State::Unwinding;
            }
        }
        event
    }

    #[inline]
    fn push(&mut self, function: u32) {
        if self.stack.len() >= MAX_DEPTH {
            self.state = State::Lose(GapCause::TooDeep, 0);
            return;
        }
        self.stack.push(Active { function, node: NONE });
        self.state = State::Choose(self.tables.functions[function as usize].first);
    }

    /// The innermost activation has returned.
    #[inline]
    fn pop(&mut self) {
        self.stack.pop();
        let last = self.stack.len() - 1;
        self.cut(last + 1);
        let Active { function, node } = self.stack[last];
        self.state = match function {
            OPEN => State::Open,
            UNKNOWN => State::Lose(GapCause::Outside, 0),
            _ => {
                let node = &self.tables.nodes[node as usize];
                if node.checked { State::Check(node.next) } else { State::Choose(node.next) }
            }
        };
    }

    fn event(&self, kind: EventKind, function: u32, node: u32) -> Event {
        Event { kind, depth: self.stack.len() as u32 - 1, function, node, value: 0 }
    }

    fn gap(&mut self, why: GapCause) -> Event {
        self.gaps += 1;
        self.event(EventKind::Gap(why), NONE, NONE)
    }

    #[inline]
    fn consume(&mut self, bits: u32) {
        if self.woven.is_some() {
            self.compare_context();
        }
        self.bits.bits <<= bits;
        self.bits.left -= bits;
        self.idle = 0;
    }

    #[inline]
    fn open(&mut self) -> Option<Event> {
        if self.woven.is_some() {
            return self.open_in_all();
        }
        if self.bits.left == 0 {
            match self.ready() {
                Ready::Bits => {}
                Ready::Special => return self.special(false),
                Ready::End(_) if self.bits.is_at_limit() => return None,
                Ready::End(ended) => return Some(self.stop(ended)),
                Ready::Changed => return None,
            }
        }
        let entered = self.bits.bits >> 63 == 1;
        self.consume(1);
        if entered { self.enter_cached() } else { self.open_returned() }
    }

    fn enter_cached(&mut self) -> Option<Event> {
        match self.cached() {
            Ok(function) => Some(self.enter(function)),
            Err(reported) => reported,
        }
    }

    /// Reads which function of the cache is entered.
    fn cached(&mut self) -> Result<u32, Option<Event>> {
        let mut place = 0;
        if self.bit()? {
            place = self.order.expected();
        } else {
            for _ in 0..CACHED_BITS - EXPECTED_BITS {
                place = place << 1 | u8::from(self.bit()?);
            }
        }
        self.order.enter(place);
        let function = self.cache[place as usize];
        if function == NONE {
            self.state = State::Lose(GapCause::NotCached, 0);
            return Err(None);
        }
        Ok(function)
    }

    fn enter(&mut self, function: u32) -> Event {
        let event = self.event(EventKind::Entered, function, NONE);
        self.push(function);
        event
    }

    fn open_returned(&mut self) -> Option<Event> {
        let Some(&Active { function, node }) = self.stack.iter().rev().nth(1) else {
            self.state = State::Lose(GapCause::NotReached, 0);
            return None;
        };
        self.stack.pop();
        self.landings.cut(self.stack.len());
        if function == UNKNOWN {
            self.state = State::Lose(GapCause::Outside, 0);
            return None;
        }
        let row = &self.tables.nodes[node as usize];
        // A function that is left out writes a bit, and then the call writes its own.
        let checked = row.checked && row.op == Op::Open;
        self.state = if checked { State::Check(row.next) } else { State::Choose(row.next) };
        Some(self.event(EventKind::OpenReturned, NONE, node))
    }

    /// An exception goes on outside of the innermost activation.
    fn unwinding(&mut self) -> Option<Event> {
        self.turn_to_bits();
        if self.bits.left == 0 {
            match self.ready() {
                Ready::Bits => {}
                Ready::Special => {
                    let landed = matches!(self.bits.peek(), Item::Special(Special::Landed, ..));
                    return if landed { self.special(false) } else { self.interrupted() };
                }
                Ready::End(ended) => return Some(self.stop(ended)),
                Ready::Changed => return None,
            }
        }
        // Unknown code has caught the exception, at an unknown place further out.
        self.state = State::Lose(GapCause::Unexpected, 0);
        None
    }
}

impl Replay<'_> {
    /// The node that comes at a choice; or the event that comes instead, if there is one.
    #[inline]
    fn choose(&mut self, number: u32) -> Result<u32, Option<Event>> {
        let choice = self.tables.choices[number as usize];
        if self.woven.is_some() {
            self.turn_to_choice(&choice);
        }
        if choice.width == 0 {
            if choice.start == NONE {
                return Err(self.not_reached());
            }
            // The node is known to have come if anything follows it, or the stream has ended.
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
                self.state = State::Lose(GapCause::Endless, 0);
                return Err(None);
            }
            return Ok(choice.start);
        }
        // Zeros follow the bits that are left. With them a longer code may be found, which has not been read.
        let at = choice.start + (self.bits.bits >> (64 - choice.width)) as u32;
        let entry = self.tables.entries[at as usize];
        if entry.bits != 0 && entry.bits <= self.bits.left {
            self.consume(entry.bits);
            return Ok(entry.node);
        }
        self.choose_slowly(number)
    }

    /// As `choose`, where the code is long, or its bits are in two words.
    fn choose_slowly(&mut self, number: u32) -> Result<u32, Option<Event>> {
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
        self.state = State::Lose(GapCause::NoCode, 0);
        Err(None)
    }

    /// Reads the bit after a checked call that has returned.
    fn check(&mut self, choice: u32) -> Option<Event> {
        self.state = match self.check_all() {
            Ok(false) => State::Choose(choice),
            Ok(true) => State::Lose(GapCause::NoCode, 0),
            Err(reported) => return reported,
        };
        None
    }

    /// The next bit of an item that has several.
    fn bit(&mut self) -> Result<bool, Option<Event>> {
        if self.bits.left == 0 {
            match self.ready() {
                Ready::Bits => {}
                Ready::Special => {
                    self.state = State::Lose(GapCause::NoCode, 0);
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

    /// Loads bits if none are left, in a function that has written some.
    fn want(&mut self) -> Result<(), Option<Event>> {
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
    fn interrupted(&mut self) -> Option<Event> {
        match self.bits.peek() {
            Item::Special(
                Special::Mark
                | Special::Gap
                | Special::Kept
                | Special::Jumped
                | Special::Left
                | Special::Back
                | Special::Flushed,
                ..,
            ) => self.special(false),
            _ if self.woven.is_some() => {
                self.come_apart(Apart::Lost(GapCause::Unexpected));
                None
            }
            _ => {
                self.state = State::Unexpected;
                self.certain = false;
                Some(self.gap(GapCause::Unexpected))
            }
        }
    }

    /// The stream was interrupted by a handler that was left by a jump, or by the thread's cancellation. Events
    /// without bits may have happened before.
    fn interrupted_for_good(&mut self) -> Option<Event> {
        let before = std::mem::replace(&mut self.state, State::Interrupted);
        self.may_have_gone_on(before)
    }

    /// The thread was ended while functions were active.
    fn unwound(&mut self) -> Option<Event> {
        let before = std::mem::replace(&mut self.state, State::Open);
        let reported = match self.may_have_gone_on(before) {
            Some(event) => Some(event),
            // Between calls of unknown code there is nothing to report.
            None if before == State::Open && self.stack.len() == 1 => None,
            None => Some(self.event(EventKind::Unwound, NONE, NONE)),
        };
        self.stack.clear();
        self.stack.push(Active { function: OPEN, node: NONE });
        self.cut(0);
        reported
    }

    /// Returns whether a cleanup of a thread that ends is next: a call of `setjmp` returns again, to which no code
    /// has jumped, in a function of C that registers such calls. Any of the function's calls will do.
    fn is_cleanup(&mut self) -> bool {
        let Item::Special(Special::Again, _, [function, _]) = self.bits.peek() else { return false };
        let function = self.reader.function_at(self.stream.process, function, self.bits.loads());
        let mut nodes = function.into_iter().flat_map(|function| self.tables.nodes_of(function));
        nodes.any(|node| {
            let name = self.tables.callee(node).map(|name| self.tables.linkage_name(name));
            name == Some("__pthread_register_cancel")
        })
    }

    /// Before the thread ended or was interrupted, events without bits may have happened. Reports this if such an
    /// event can come.
    fn may_have_gone_on(&mut self, before: State) -> Option<Event> {
        let State::Choose(number) = before else { return None };
        if !self.needs_no_bits(number) {
            return None;
        }
        self.certain = false;
        self.gaps += 1;
        Some(self.event(EventKind::Interrupted, NONE, NONE))
    }

    /// Returns whether exactly one node can come, and it has no bits.
    fn needs_no_bits(&self, choice: u32) -> bool {
        let choice = self.tables.choices[choice as usize];
        choice.width == 0 && choice.start != NONE
    }

    /// A word says where the jump has gone to.
    fn goes_on_elsewhere(&mut self) -> Option<Event> {
        self.turn_to_bits();
        match self.ready_or_bits() {
            Ready::End(ended) => return Some(self.stop(ended)),
            Ready::Changed => return None,
            Ready::Special if !matches!(self.bits.peek(), Item::Special(Special::Entered, ..)) => {
                return self.special(false);
            }
            Ready::Special | Ready::Bits => self.state = State::Lose(GapCause::Jumped, 0),
        }
        None
    }

    /// By the tables, no event can come here.
    fn not_reached(&mut self) -> Option<Event> {
        self.turn_to_bits();
        let ready = if self.bits.left == 0 { self.ready() } else { Ready::Bits };
        match ready {
            Ready::End(ended) => Some(self.stop(ended)),
            Ready::Changed => None,
            Ready::Special => self.interrupted(),
            Ready::Bits => {
                self.state = State::Lose(GapCause::NotReached, 0);
                None
            }
        }
    }
}

impl Replay<'_> {
    /// The next item.
    fn ready_or_bits(&mut self) -> Ready {
        if self.bits.left > 0 { Ready::Bits } else { self.ready() }
    }

    /// The next item where no bits are left. Handles the bounds of chunks before it.
    fn ready(&mut self) -> Ready {
        loop {
            let item = self.bits.peek();
            match item {
                Item::Bits => return Ready::Bits,
                Item::Special(..) => return Ready::Special,
                Item::End(ended) => return Ready::End(ended),
                Item::ChunkEnd(chunk) => self.chunk_ends(chunk),
                Item::Begin(chunk, follows) => self.chunk_begins(&chunk, follows),
                Item::Damaged => self.lose_at(GapCause::BadWord),
                Item::BadChunk => {
                    // The count up to this chunk's beginning says nothing of the next one.
                    self.counted_before = None;
                    self.lose_at(GapCause::BadChunk);
                }
            }
            self.bits.take();
            if matches!(self.state, State::Lose(..) | State::Known(_) | State::Active(_)) {
                return Ready::Changed;
            }
        }
    }

    /// A part of the stream is missing here. Where nothing is known already, this is no further gap.
    fn lose_at(&mut self, why: GapCause) {
        if self.state != State::Skip {
            self.state = State::Lose(why, 0);
        }
        self.certain = false;
        self.forget();
    }

    /// Drops the expected counts: they cannot be compared.
    fn forget(&mut self) {
        self.verified.uncertain += self.expected.len() as u64;
        self.expected.clear();
    }

    fn chunk_begins(&mut self, chunk: &ChunkAt, follows: bool) {
        self.cache.fill(NONE);
        self.order = Order::new();
        self.last = None;
        self.sequence = chunk.sequence;
        // The state is that of another part's chunk.
        if self.woven.is_some() && self.started {
            if chunk.sequence > 0 {
                if !follows {
                    return self.lose_at(GapCause::Missing);
                }
                self.began(chunk);
            }
            if chunk.events != 0 && chunk.end == CONTINUED && self.certain {
                let at = self.expected.partition_point(|other| other.events <= chunk.events);
                self.expected.insert(at, *chunk);
                self.compare_reached();
            }
            return;
        }
        let first = !std::mem::replace(&mut self.started, true);
        if chunk.begin == BEGIN_MIDDLE {
            self.state = State::Lose(GapCause::Middle, 0);
        } else if chunk.begin == BEGIN_LOST {
            self.state = State::Lose(GapCause::Lost, 0);
        } else if [BEGIN_FORKED, BEGIN_INTERRUPTED].contains(&chunk.begin) && chunk.sequence == 0 {
            if self.forked { self.inherits() } else { self.lose_at(GapCause::Parent) }
        } else if !follows {
            self.lose_at(GapCause::Missing);
        }
        self.look_for_begin(chunk, first);
        let unknown = matches!(self.state, State::Lose(..) | State::Skip | State::Known(_));
        self.certain &= !unknown;
        if !unknown && self.jumps.are_missed() {
            match self.reader.jumps_at(chunk) {
                Ok(count) => {
                    count.into_iter().for_each(|count| self.jumps.begin(count, self.stack.len()));
                }
                Err(error) => self.bits.error = Some(error),
            }
        }
        if chunk.begin == BEGIN_MIDDLE {
            // The program counts from here on.
            self.forget();
            self.counted_before = Some((0, 0));
        }
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
        // Events at the end of the stream may come after its last word.
        self.last = Some(chunk).filter(|chunk| chunk.end == ENDED);
    }

    /// Compares the counts of the chunks whose number of events is reached.
    fn compare_reached(&mut self) {
        while self.expected.front().is_some_and(|chunk| chunk.events <= self.counted) {
            self.compare_next();
        }
    }

    /// Compares the counts of the next chunk, whose number of events is reached.
    fn compare_next(&mut self) {
        let Some(chunk) = self.expected.pop_front() else { return };
        self.verified.chunks += 1;
        self.verified.events += self.counted - self.begun;
        self.begun = self.counted;
        if (self.counted, self.hash) != (chunk.events, chunk.hash) {
            self.differs(&chunk);
        }
    }

    /// Compares the counts of the last chunk, after all events.
    fn compare_last(&mut self, chunk: ChunkAt) {
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

    fn stop(&mut self, ended: bool) -> Event {
        if self.woven.is_some() && ended {
            self.end_all(ended);
        }
        if ended && let Some(chunk) = self.last.take() {
            self.compare_last(chunk);
        }
        self.state = State::Done;
        self.gaps += u64::from(!ended && self.bits.lacks_more());
        let end = match ended {
            true => End::Ended,
            false if self.bits.has_stopped() => End::Stopped,
            false => End::Open,
        };
        self.event(EventKind::End(end), NONE, NONE)
    }

    /// Handles a special word. `unexpected`: it is where no open code is active.
    fn special(&mut self, unexpected: bool) -> Option<Event> {
        if self.woven.is_some() && !self.agree() {
            self.come_apart(Apart::Differ);
            return None;
        }
        let Item::Special(special, payload, words) = self.bits.peek() else {
            self.state = State::Lose(GapCause::BadWord, 0);
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
            // The jump has gone to a stream further out; the next handler begins with no activations.
            Special::Gap if payload == Gap::Left as u64 && self.stream.level > 0 => {
                Some(self.handler(EventKind::HandlerLeft, 0))
            }
            Special::Gap if payload == Gap::Interrupted as u64 => self.interrupted_for_good(),
            Special::Gap if payload == Gap::Unwound as u64 => self.unwound(),
            // In an unknown state, these words are of no use.
            Special::Kept | Special::Jumped if matches!(self.state, State::Skip | State::Elsewhere) => None,
            // The replay has reported all events before it.
            Special::Flushed => None,
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
                let why = [
                    (Gap::Stopped, GapCause::Stopped),
                    (Gap::Switched, GapCause::Switched),
                    (Gap::Full, GapCause::Full),
                    (Gap::Caught, GapCause::Caught),
                ];
                let why = why.into_iter().find(|(gap, _)| *gap as u64 == payload);
                self.state = State::Lose(why.map_or(GapCause::BadWord, |(_, why)| why), 0);
                None
            }
            Special::Handler if self.stream.level > 0 => Some(self.handler(EventKind::Handler, payload)),
            Special::HandlerEnd if self.stream.level > 0 => Some(self.handler(EventKind::HandlerEnd, 0)),
            _ => {
                self.state = State::Lose(GapCause::BadWord, 0);
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
            self.state = State::Lose(GapCause::NoTables, address);
            return None;
        };
        if self.state == State::Elsewhere {
            self.stack.push(Active { function: OPEN, node: NONE });
        } else if unexpected || self.state == State::Skip {
            self.jumps.lose();
            self.stack.clear();
            self.stack.push(Active { function: UNKNOWN, node: NONE });
            // An unexpected entry is a callback of a call that calls nothing back by the tables: it is not known
            // what is written when that call returns.
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
            self.state = State::Lose(GapCause::NoTables, words[0]);
            return None;
        };
        let op = if kind == EventKind::Landed { Op::Landing } else { Op::ReturnsTwice };
        let node = self.tables.node_of(function, number);
        let Some(node) = node.filter(|node| self.tables.nodes[*node as usize].op == op) else {
            self.bits.take();
            self.state = State::Lose(GapCause::BadWord, 0);
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
            // The function may be active where nothing is known. Otherwise this is an error, which is reported
            // before the word is handled again.
            None if self.stack[0].function == UNKNOWN => {
                self.jumps.lose();
                self.stack.truncate(1);
                self.stack.push(Active { function, node });
            }
            None => {
                self.state = State::Lose(GapCause::NotActive, 0);
                return None;
            }
        }
        self.bits.take();
        self.state = State::Choose(self.tables.nodes[node as usize].next);
        Some(Event { depth: self.stack.len() as u32 - 2, ..self.event(kind, function, node) })
    }
}

impl Replay<'_> {
    /// The call that, by the last event, has returned or will return next: the node before the event in its
    /// activation. With the depth of the lines after it, which are in [`Tables::lines`](super::Tables::lines).
    pub(in crate::trace) fn passed(&self, event: &Event) -> Option<(u32, u32)> {
        let (node, depth) = match event.kind {
            // No activation is inside of the last node.
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
                // The end of a stream does not show whether these have returned.
                Op::Closed | Op::ReturnsTwice => event.kind.is_counted(),
                _ => false,
            };
        has_returned.then_some((node, depth))
    }
}
