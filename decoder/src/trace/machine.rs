//! Reconstruction: a stream's bits say, at each place of the program where several events can follow, which one did.
//! The machine keeps what is active, and follows the tables (casper.txt §3 has the principle).
//!
//! Where it cannot know what is active, it says so ([`EventKind::Gap`]) and goes on at the next special word: that one
//! names a function, and what this function does from there on is certain again. Nothing is guessed.

use std::collections::VecDeque;

use pcce_abi::trace::{CACHE, CACHED_BITS, EXPECTED_BITS, Order, Special, hash};

pub(super) use self::forks::Snapshot;
use self::landings::Landings;
use self::stacks::Stacks;
use super::begin::Begin;
use super::bits::{Bits, Item};
use super::event::{Event, EventKind, Why};
use super::file::{ChunkAt, Stream};
use super::jumps::Jumps;
use super::reader::Reader;
use super::tables::{NONE, Op, Tables};

mod choose;
mod forks;
mod known;
mod landings;
mod passed;
mod stacks;
mod words;

/// An activation, or what is not known of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Active {
    /// The function; [`OPEN`] or [`UNKNOWN`].
    pub function: u32,
    /// The node that came last in it: where another one is called by it, the call. [`NONE`] at its entry.
    pub node: u32,
}

/// In place of a function: code of which nothing is known, but that it was called from what is outside of it.
pub const OPEN: u32 = u32::MAX;
/// In place of a function: what is active here and further out is not known.
pub const UNKNOWN: u32 = u32::MAX - 1;

/// More activations are not kept: 64 MiB.
pub(super) const MAX_DEPTH: usize = 1 << 23;
/// So many events follow from one word at most.
const MAX_IDLE: u32 = 1 << 20;

/// What the machine does next.
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
    /// `longjmp` goes to this place ([`landings`]).
    Jumped(u64),
    /// A handler has jumped away from here.
    Interrupted,
    /// The thread is on another stack, of which nothing was told yet.
    Elsewhere,
    /// Nothing is known up to the next special word.
    Skip,
    /// What is to be told first; then nothing is known.
    Lose(Why, u64),
    /// What is active is known from here on: [`Machine::begin`]. Whether that is so since the rest was not kept.
    Known(bool),
    /// The activation at this place is told; then the others, and what [`Machine::then`] says.
    Active(usize),
    /// This node comes, of whose code so many bits are to come.
    Rest(u32, u32),
    /// That nobody knows what came before the stream was forked is told; then this choice comes, or what unknown code
    /// does ([`NONE`]).
    Perhaps(u32),
    /// A special word stands where none can be: it is dealt with next.
    Unexpected,
    Done,
}

/// What comes next where no bits are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    /// There are bits now.
    Bits,
    /// A special word.
    Special,
    /// The stream's end.
    End(bool),
    /// Nothing is known any more.
    Changed,
}

/// What a chunk of verify mode says, and what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Chunks that were compared.
    pub chunks: u64,
    /// Events in these.
    pub events: u64,
    /// Chunks that do not match.
    pub mismatches: u64,
    /// The first of these: its sequence, its events by the chunk, and by the reader.
    pub first: Option<(u64, u64, u64)>,
    /// Chunks that say something, and cannot be compared since something is missing.
    pub uncertain: u64,
}

/// Reads a stream.
#[derive(Debug)]
pub struct Machine<'t> {
    reader: &'t Reader<'t>,
    tables: &'t Tables,
    stream: &'t Stream,
    bits: Bits<'t>,
    stack: Vec<Active>,
    jumps: Jumps,
    landings: Landings,
    stacks: Stacks,
    state: State,
    /// Functions of the cache.
    cache: Vec<u32>,
    order: Order,
    /// What came in front of the last node in its activation, or [`NONE`].
    before: u32,
    /// Events in a row that needed no word.
    idle: u32,
    events: u64,
    /// How often nothing was known any more.
    gaps: u64,
    /// A ring has not kept what came before.
    cut_off: bool,
    /// Of verify mode: whether there is something to compare, how many events and which hash the stream has here, and
    /// whether that is certain.
    verify: bool,
    counted: u64,
    hash: u64,
    certain: bool,
    /// How many events there were where it was compared last.
    begun: u64,
    verified: Verified,
    /// Chunks that say how many events there were when they were closed, which have not come yet.
    expected: VecDeque<ChunkAt>,
    /// The last chunk, if it has ended.
    last: Option<ChunkAt>,
    /// It began with the stack of another stream.
    forked: bool,
    /// Nothing is told behind the place where reading stops, though it may have come before.
    halts: bool,
    /// A chunk has begun.
    started: bool,
    /// What is active where the chunk begins, before it is told.
    begin: Option<Box<Begin>>,
    /// What comes behind what is active.
    then: State,
    /// The cache that it begins with.
    inherited: Option<(Vec<u32>, Order)>,
    /// Of verify mode: the next event was counted before the place where reading began.
    was_counted: bool,
    /// Of verify mode: events and hash where reading begins.
    counted_before: Option<(u64, u64)>,
}

impl Iterator for Machine<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            let state = self.state;
            let told = match state {
                State::Choose(_) | State::Check(_) if self.halts_here() => return None,
                State::Choose(choice) => match self.choose(choice) {
                    Ok(node) => return Some(self.node(node)),
                    Err(told) => told,
                },
                State::Open if self.bits.is_at_limit() => return None,
                State::Open => self.open(),
                State::Check(choice) => self.check(choice),
                State::Unwinding => self.unwinding(),
                State::Jumped(place) => self.jumped(place),
                State::Interrupted => self.goes_on_elsewhere(),
                State::Elsewhere => self.elsewhere(),
                State::Skip => self.skip(),
                State::Lose(why, value) => Some(self.lose(why, value)),
                State::Known(kept) => Some(self.known(kept)),
                State::Active(place) => Some(self.active(place)),
                State::Rest(node, bits) => match self.rest(node, bits) {
                    Ok(()) => return Some(self.node(node)),
                    Err(told) => told,
                },
                State::Perhaps(choice) => Some(self.perhaps(choice)),
                State::Unexpected => self.special(true),
                State::Done => return None,
            };
            if told.is_some() {
                return told;
            }
        }
    }
}

impl<'t> Machine<'t> {
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
            begin: None,
            then: start.state,
            inherited: start.cache,
            was_counted: false,
            counted_before: None,
        }
    }

    /// What is active, the outermost first.
    #[must_use]
    pub fn stack(&self) -> &[Active] {
        &self.stack
    }

    /// How many events there were: those that verify mode counts.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// How many bits were read, and how many words that are no bits.
    #[must_use]
    pub fn read(&self) -> (u64, u64) {
        self.bits.read()
    }

    /// About when the event was, by `CLOCK_MONOTONIC` in nanoseconds: the clock is in the trace where chunks begin and
    /// end, and between them it is taken to go on evenly.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.bits.time()
    }

    /// The place in the stream ([`pcce_abi::trace::position`]).
    pub(super) fn position(&self) -> u64 {
        self.bits.position()
    }

    /// What verify mode has compared so far.
    #[must_use]
    pub fn verified(&self) -> Verified {
        self.verified
    }

    /// How many gaps were met. What a ring has not kept is one.
    ///
    /// # Errors
    /// The error with which reading the file has ended, if it has.
    pub fn finish(&mut self) -> std::io::Result<u64> {
        self.bits.error.take().map_or(Ok(self.gaps), Err)
    }

    /// How many of the gaps are what a ring has not kept: one, or none.
    pub(super) fn cut_off(&self) -> u64 {
        self.cut_off.into()
    }

    /// A node comes.
    #[inline]
    fn node(&mut self, number: u32) -> Event {
        let node = &self.tables.nodes[number as usize];
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
            Op::Twice => {
                (event.kind, event.function) = (EventKind::Twice, NONE);
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
                // Open code that has entered the function goes on, whoever it is.
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

    /// A function is entered.
    #[inline]
    fn push(&mut self, function: u32) {
        if self.stack.len() >= MAX_DEPTH {
            self.state = State::Lose(Why::TooDeep, 0);
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
            UNKNOWN => State::Lose(Why::Outside, 0),
            _ => {
                let node = &self.tables.nodes[node as usize];
                if node.checked { State::Check(node.next) } else { State::Choose(node.next) }
            }
        };
    }

    fn event(&self, kind: EventKind, function: u32, node: u32) -> Event {
        Event { kind, depth: self.stack.len() as u32 - 1, function, node, value: 0 }
    }

    fn gap(&mut self, why: Why) -> Event {
        self.gaps += 1;
        self.event(EventKind::Gap(why), NONE, NONE)
    }

    #[inline]
    fn consume(&mut self, bits: u32) {
        self.bits.bits <<= bits;
        self.bits.left -= bits;
        self.idle = 0;
    }

    /// In open code.
    #[inline]
    fn open(&mut self) -> Option<Event> {
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
        let mut place = 0;
        match self.bit() {
            Ok(true) => place = self.order.expected(),
            Ok(false) => {
                for _ in 0..CACHED_BITS - EXPECTED_BITS {
                    match self.bit() {
                        Ok(bit) => place = place << 1 | u8::from(bit),
                        Err(told) => return told,
                    }
                }
            }
            Err(told) => return told,
        }
        self.order.enter(place);
        match self.cache[place as usize] {
            NONE => {
                self.state = State::Lose(Why::NotCached, 0);
                None
            }
            function => Some(self.enter(function)),
        }
    }

    fn enter(&mut self, function: u32) -> Event {
        let event = self.event(EventKind::Entered, function, NONE);
        self.push(function);
        event
    }

    fn open_returned(&mut self) -> Option<Event> {
        let Some(&Active { function, node }) = self.stack.iter().rev().nth(1) else {
            self.state = State::Lose(Why::NotReached, 0);
            return None;
        };
        self.stack.pop();
        self.landings.cut(self.stack.len());
        if function == UNKNOWN {
            self.state = State::Lose(Why::Outside, 0);
            return None;
        }
        self.state = State::Choose(self.tables.nodes[node as usize].next);
        Some(self.event(EventKind::OpenReturned, NONE, node))
    }

    /// An exception goes on outside of the innermost activation.
    fn unwinding(&mut self) -> Option<Event> {
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
        // Unknown code has caught it: nobody knows how far out.
        self.state = State::Lose(Why::Unexpected, 0);
        None
    }
}
