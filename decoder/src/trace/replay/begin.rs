//! Beginnings of a replay: at any chunk, with the activations of the context at its beginning; and at a fork,
//! with those of the parent.
//!
//! The innermost function and the place in it are those of the call of the tracer that began the chunk. The
//! functions further out are in the token, whose call sites are nodes. Further out than a boundary at which calls
//! may be missing, or a call of which no node is known, nothing is known.

use pcce_abi::trace::{
    AWAY, BEGIN_INTERRUPTED, CONTEXT_WORDS, KIND_SHIFT, MAX_STACK, Order, STACK_ENTRY, STACK_OPEN, Special,
    TOKEN_LEN,
};

use super::stacks::{Jumps, Landings, Stacks};
use super::{Active, MAX_DEPTH, OPEN, Ready, Replay, State, UNKNOWN};
use crate::context::{Context, FrameKind, Piece, PieceClass};
use crate::token::Token;
use crate::trace::bits::Bits;
use crate::trace::event::{Event, EventKind, GapCause};
use crate::trace::file::{ChunkAt, Stream};
use crate::trace::programs::Contexts;
use crate::trace::reader::{MAX_FORKS, Reader, forked};
use crate::trace::tables::{NONE, Op, Tables};

/// The state at a chunk's beginning.
#[derive(Debug)]
pub(super) struct Begin {
    pub(super) stack: Vec<Active>,
    pub(super) state: State,
    /// The number of calls so far that may return two times.
    pub(super) jumps: u64,
    /// True if verify mode has counted the next event already.
    pub(super) counted: bool,
}

/// The innermost function, and the state in it.
struct Inner {
    active: Active,
    state: State,
    counted: bool,
}

impl<'t> Reader<'t> {
    /// Reads a stream from its beginning.
    pub fn replay(&self, stream: &'t Stream) -> Replay<'_> {
        Replay::new(self, stream, self.start_of(stream, MAX_FORKS))
    }

    /// The state of the parent where a stream was forked, if it was.
    fn start_of(&self, stream: &Stream, forks: u32) -> Option<Snapshot> {
        let begin = forked(stream)?;
        let parent = self.file.stream(stream.parent)?;
        let start = self.start_of(parent, forks.checked_sub(1)?);
        Replay::new(self, parent, start).snapshot_at(stream.parent_position, begin == BEGIN_INTERRUPTED)
    }

    /// Reads a stream from a chunk on, which is not the first. `counted`: in verify mode, how many events
    /// there were up to its beginning, and their hash.
    pub(in crate::trace) fn replay_from(
        &self,
        stream: &'t Stream,
        chunk: usize,
        counted: Option<(u64, u64)>,
    ) -> Replay<'_> {
        Replay::from_chunk(self, stream, chunk, counted)
    }
}

impl Reader<'_> {
    /// The state at the beginning of a chunk. None if the chunk has no context, or the dictionaries for it are
    /// missing.
    pub(super) fn begin_at(&self, stream: &Stream, chunk: &ChunkAt) -> std::io::Result<Option<Begin>> {
        let words = self.context_words(chunk)?;
        if is_stack(&words) {
            return Ok(self.begin_with_stack(stream, chunk, &words));
        }
        Ok(self.begin(stream, chunk, &words))
    }

    /// The number of calls up to the beginning of a chunk that may return two times, if the chunk has a context.
    pub(super) fn jumps_at(&self, chunk: &ChunkAt) -> std::io::Result<Option<u64>> {
        let words = self.context_words(chunk)?;
        Ok(if is_stack(&words) {
            words.get(1).copied()
        } else {
            head(&words).map(|([_, jumps, ..], _)| jumps)
        })
    }

    fn context_words(&self, chunk: &ChunkAt) -> std::io::Result<Vec<u64>> {
        const MAX_WORDS: usize = {
            let (token, stack) = (1 + CONTEXT_WORDS + TOKEN_LEN / 8, 2 + 2 * MAX_STACK);
            if token > stack { token } else { stack }
        };
        let mut words = Vec::new();
        self.file.words(chunk.words_at, &mut words, MAX_WORDS.min(chunk.there as usize))?;
        Ok(words)
    }

    /// The state at the beginning of a chunk whose first words are a [`Special::Stack`].
    fn begin_with_stack(&self, stream: &Stream, chunk: &ChunkAt, words: &[u64]) -> Option<Begin> {
        let tables = &self.programs.tables;
        let count = (words[0] & ((1 << KIND_SHIFT) - 1)) as usize;
        let activations = words.get(2..)?.get(..count.checked_mul(2)?)?;
        let mut stack = Vec::with_capacity(count);
        for &[function, node] in activations.as_chunks().0 {
            if function == STACK_OPEN {
                stack.push(Active { function: OPEN, node: NONE });
                continue;
            }
            let function = self.function_at(stream.process, function, chunk.loads)?;
            let node = if node == STACK_ENTRY { NONE } else { tables.node_of(function, node)? };
            stack.push(Active { function, node });
        }
        let state = goes_on(tables, stack.last()?);
        (stack[0].function == OPEN).then_some(Begin { stack, state, jumps: words[1], counted: false })
    }

    fn begin(&self, stream: &Stream, chunk: &ChunkAt, words: &[u64]) -> Option<Begin> {
        let ([first, jumps, pc, function, node], token) = head(words)?;
        let payload = first & ((1 << KIND_SHIFT) - 1);
        let (len, is_away) = ((payload & !AWAY) as usize, payload & AWAY != 0);
        if len > 8 * token.len() {
            return None;
        }
        let inner = self.inner(stream.process, chunk.loads, pc, function, node)?;
        let text: Vec<u8> = token.iter().flat_map(|word| word.to_le_bytes()).take(len).collect();
        let contexts = self.programs.contexts()?;
        let numbers = self.numbers_of(stream.process);
        let token = Token::parse(text).ok()?;
        let mut stack = contexts.stack(&self.programs.tables, &token, stream.level, &numbers)?;
        if is_away {
            // On another stack than that of the stream's beginning, the outermost call may have unknown callers.
            stack[0].function = UNKNOWN;
        }
        enter(&self.programs.tables, &mut stack, inner.active);
        Some(Begin { stack, state: inner.state, jumps, counted: inner.counted })
    }

    /// The innermost function, by the place where it goes on, and the events that it has reported.
    fn inner(&self, process: u32, loads: u64, pc: u64, function: u64, node: u64) -> Option<Inner> {
        let tables = &self.programs.tables;
        if function != 0 {
            let function = self.function_at(process, function, loads)?;
            let node = tables.node_of(function, node)?;
            let state = State::Choose(tables.nodes[node as usize].next);
            return Some(Inner { active: Active { function, node }, state, counted: false });
        }
        let (image, address) = self.place_at(process, pc, loads)?;
        if let Some(function) = tables.entered_before(image, address) {
            let state = State::Choose(tables.functions[function as usize].first);
            return Some(Inner { active: Active { function, node: NONE }, state, counted: false });
        }
        let place = tables.place_at(image, address)?;
        let function = tables.function_of(place.node);
        if place.has_returned {
            let state = State::Choose(tables.nodes[place.node as usize].next);
            return Some(Inner { active: Active { function, node: place.node }, state, counted: false });
        }
        Some(Inner {
            active: Active { function, node: NONE },
            state: State::Rest(place.node, place.left),
            counted: place.left < tables.code_of(place.node).1,
        })
    }
}

impl Contexts {
    /// The activations outside of the innermost function of a token, the outermost first.
    /// `numbers`: the process's images in the tables.
    fn stack(&self, tables: &Tables, token: &Token, level: u32, numbers: &[u32]) -> Option<Vec<Active>> {
        token.point.as_ref()?;
        let mut context = Context::default();
        self.decoder.decode(token, &mut context).ok()?;
        let mut pieces = context.slices().flat_map(|(pieces, count)| (0..count).flat_map(move |_| pieces));
        match pieces.next()? {
            Piece::Place(..) | Piece::Named(FrameKind::Call, ..) => {}
            _ => return None,
        }
        let mut nodes = Vec::new();
        // Without a boundary, the context reaches the beginning of the stream.
        let mut outermost = OPEN;
        for piece in pieces {
            match piece.class() {
                PieceClass::Call(site) => nodes.extend(self.node(tables, site, numbers)?),
                PieceClass::Outside | PieceClass::Left => {}
                // Handlers have streams of their own.
                PieceClass::Handler if level > 0 => break,
                PieceClass::Origin => break,
                PieceClass::Handler | PieceClass::Function | PieceClass::Missing => {
                    outermost = UNKNOWN;
                    break;
                }
            }
            if nodes.len() > MAX_DEPTH {
                return None;
            }
        }
        let mut stack = vec![Active { function: outermost, node: NONE }];
        for node in nodes.into_iter().rev() {
            enter(tables, &mut stack, Active { function: tables.function_of(node), node });
        }
        Some(stack)
    }
}

/// Returns whether a chunk begins with a [`Special::Stack`].
fn is_stack(words: &[u64]) -> bool {
    words.first().is_some_and(|word| word >> KIND_SHIFT == Special::Stack as u64)
}

/// The state in which the innermost activation goes on after its last event.
pub(super) fn goes_on(tables: &Tables, active: &Active) -> State {
    match *active {
        Active { function: OPEN, .. } => State::Open,
        Active { function, node: NONE } => State::Choose(tables.functions[function as usize].first),
        Active { node, .. } => State::Choose(tables.nodes[node as usize].next),
    }
}

/// The words of a context before its token, and the words from the token on.
fn head(words: &[u64]) -> Option<([u64; 1 + CONTEXT_WORDS], &[u64])> {
    let (head, token) = words.split_first_chunk()?;
    (words[0] >> KIND_SHIFT == Special::Context as u64).then_some((*head, token))
}

/// Puts an activation on a stack, and before it the unknown code between it and its caller, if there is some.
fn enter(tables: &Tables, stack: &mut Vec<Active>, active: Active) {
    if let Some(&Active { node, .. }) = stack.last().filter(|caller| caller.node != NONE) {
        let call = &tables.nodes[node as usize];
        // A function that was called by name may have left its activation to functions that are known, or
        // not.
        if call.op != Op::Call || call.checked && call.target != active.function {
            stack.push(Active { function: OPEN, node: NONE });
        }
    }
    stack.push(active);
}

impl<'t> Replay<'t> {
    /// Reads from a chunk on ([`Reader::replay_from`]).
    pub(in crate::trace) fn from_chunk(
        reader: &'t Reader<'t>,
        stream: &'t Stream,
        chunk: usize,
        counted_before: Option<(u64, u64)>,
    ) -> Self {
        let bits = Bits::new(reader.file, stream, chunk);
        Self { bits, counted_before, ..Self::new(reader, stream, None) }
    }

    /// Verify mode: the number of events of the stream, if it is certain.
    pub(in crate::trace) fn counted(&self) -> Option<u64> {
        self.certain.then_some(self.counted)
    }

    /// If nothing is known at a chunk's beginning, looks for the activations in its context. `first`: it is the first
    /// chunk that is read.
    pub(super) fn look_for_begin(&mut self, chunk: &ChunkAt, first: bool) {
        if !matches!(self.state, State::Skip | State::Lose(GapCause::Missing | GapCause::Middle, _)) {
            return;
        }
        match self.reader.begin_at(self.stream, chunk) {
            Ok(Some(begin)) => {
                // Nothing is missing if a ring begins with this chunk, or reading was asked to begin with it.
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

    /// The number in the stream of the chunk that is read.
    pub(in crate::trace) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Verify mode: takes over the count up to the first chunk's beginning, if it is known.
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

    /// Skips to the next special word: nothing is known up to there.
    pub(super) fn skip(&mut self) -> Option<Event> {
        self.certain = false;
        self.bits.drop_bits();
        match self.ready() {
            Ready::Special => self.special(false),
            Ready::End(ended) => Some(self.stop(ended)),
            Ready::Bits | Ready::Changed => None,
        }
    }

    /// Reports a gap: nothing is known any more, or not yet.
    pub(super) fn lose(&mut self, why: GapCause, value: u64) -> Event {
        // The count up to a chunk's beginning may be known.
        self.certain &= self.begin.is_some();
        self.jumps.lose();
        self.landings = Landings::default();
        self.stack.clear();
        self.stack.push(Active { function: UNKNOWN, node: NONE });
        let event = Event { value, ..self.gap(why) };
        self.state = if self.begin.is_some() { State::Known(false) } else { State::Skip };
        if matches!(why, GapCause::Middle | GapCause::Lost) && self.begin.is_none() {
            self.stack.push(Active { function: OPEN, node: NONE });
            self.state = State::Open;
        }
        event
    }

    /// The activations are known from here on. `kept`: the events before were not kept by a ring.
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

    /// The next state reports the activations from this place on, and then continues. There is no event for
    /// code of which nothing is known, not even who called it.
    pub(super) fn next_to_report(&self, mut place: usize) -> State {
        let unknown = |place: usize| self.stack[place].function == OPEN && self.stack[place - 1].node == NONE;
        while place < self.stack.len() && unknown(place) {
            place += 1;
        }
        if place < self.stack.len() { State::Active(place) } else { self.then }
    }

    /// Reports the activation at a place.
    pub(super) fn active(&mut self, place: usize) -> Event {
        self.state = self.next_to_report(place + 1);
        self.active_at(place)
    }

    /// The activation at a place in the stack, from 1, as an event.
    pub fn active_at(&self, place: usize) -> Event {
        let function = Some(self.stack[place].function).filter(|function| *function != OPEN);
        let node = self.stack[place - 1].node;
        let depth = place as u32 - 1;
        Event { depth, ..self.event(EventKind::Active, function.unwrap_or(NONE), node) }
    }

    /// The innermost activation, as an event.
    pub(in crate::trace) fn innermost(&self) -> Option<Event> {
        let last = self.stack.len() - 1;
        (last > 0).then(|| self.active_at(last))
    }

    /// Reads the rest of a node's code.
    pub(super) fn rest(&mut self, node: u32, bits: u32) -> Result<(), Option<Event>> {
        let (code, _) = self.tables.code_of(node);
        for bit in (0..bits).rev() {
            self.state = State::Rest(node, bit + 1);
            self.want()?;
            if self.bit()? != (code >> bit & 1 == 1) {
                self.state = State::Lose(GapCause::NoCode, 0);
                return Err(None);
            }
        }
        Ok(())
    }

    /// The activation that got a number before reading began: the only one of its function that was active
    /// then and is so still.
    pub(super) fn again_before(&self, number: u64, function: u32) -> Option<usize> {
        let active = self.stack.get(..self.jumps.given_before(number)?)?;
        let place = active.iter().rposition(|active| active.function == function)?;
        (!active[..place].iter().any(|active| active.function == function)).then_some(place)
    }
}

/// The stack of a stream at a place, to start another one with.
#[derive(Clone, Debug)]
pub(in crate::trace) struct Snapshot {
    pub(super) stack: Vec<Active>,
    pub(super) jumps: Jumps,
    pub(super) landings: Landings,
    pub(super) stacks: Stacks,
    pub(super) state: State,
    /// The cache, by which the next function may be entered, if a handler had interrupted the stream.
    pub(super) cache: Option<(Vec<u32>, Order)>,
    /// Verify mode: events and hash, if they are certain.
    pub(super) counted: Option<(u64, u64)>,
}

impl Replay<'_> {
    /// The stack at a place. None if it is not known exactly there: nothing after the place is read. In a call of
    /// `fork`, the innermost code is unknown. Where a handler has interrupted the stream (`anywhere`), it may be
    /// any code.
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

    pub(super) fn snapshot(&self, state: State) -> Snapshot {
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

    /// The state where a handler has interrupted the stream before nodes that need no bits: they may have come
    /// already. A thread usually waits in a call of code that is not traced. So it is taken to be in the first such
    /// call that may call back, or else in the last such call.
    fn perhaps_at(&mut self, choice: u32) -> Snapshot {
        /// Bound on the nodes: a loop may have no end.
        const MAX_NODES: usize = 1000;
        let mut found = self.snapshot(State::Perhaps(choice));
        let mut next = choice;
        for _ in 0..MAX_NODES {
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

    /// Reports the activations at the fork where the stream begins.
    pub(super) fn inherits(&mut self) {
        if let Some((cache, order)) = self.inherited.take() {
            (self.cache, self.order) = (cache, order);
        }
        self.state = self.next_to_report(1);
    }

    /// Returns whether reading ends here, in a function.
    #[inline]
    pub(super) fn halts_here(&mut self) -> bool {
        if !self.halts || self.bits.left > 0 {
            return false;
        }
        self.bits.peek();
        self.bits.is_at_limit()
    }

    /// The stream was forked where a handler had interrupted it: the next event may have come already, or the last
    /// one has not.
    pub(super) fn perhaps(&mut self, choice: u32) -> Event {
        self.state = if choice == NONE { State::Open } else { State::Choose(choice) };
        self.certain = false;
        self.gaps += 1;
        self.event(EventKind::Forked, NONE, NONE)
    }
}
