//! What is active where a chunk begins, by the context at its beginning: so a stream can be read from any chunk on.
//!
//! The innermost function and the place in it are those of the call of the tracer that began the chunk. What is further
//! out is in the token: its call sites are nodes. Where it has a boundary at which calls may be missing, or a call of
//! which no node is known, nothing is known from there outwards.

use pcce_abi::trace::{AWAY, CONTEXT_WORDS, ENTRY_LEN, KIND_SHIFT, Special, TOKEN_LEN};

use super::contexts::Contexts;
use super::file::{ChunkAt, Stream};
use super::machine::{Active, OPEN, State, UNKNOWN};
use super::reader::Reader;
use super::tables::{NONE, Op, Tables};
use crate::context::{Context, FrameKind, Piece};
use crate::token::Token;

/// What is known at a chunk's beginning.
#[derive(Debug)]
pub(super) struct Begin {
    /// What is active.
    pub(super) stack: Vec<Active>,
    /// What comes first.
    pub(super) state: State,
    /// How many activations had called a function that may return twice.
    pub(super) jumps: u64,
    /// Verify mode has counted the event that comes first.
    pub(super) counted: bool,
}

/// Where the innermost function is.
struct Inner {
    active: Active,
    state: State,
    counted: bool,
}

impl Reader<'_> {
    /// What is active at the beginning of a chunk; None if it does not say so, or the dictionaries that would tell are
    /// not there.
    ///
    /// # Errors
    /// Those of reading the trace.
    pub(super) fn begin_at(&self, stream: &Stream, chunk: &ChunkAt) -> std::io::Result<Option<Begin>> {
        const FIRST: usize = 1 + CONTEXT_WORDS;
        let mut words = Vec::new();
        self.file.words(chunk.words_at, &mut words, (FIRST + TOKEN_LEN / 8).min(chunk.there as usize))?;
        Ok(self.begin(stream, chunk, &words))
    }

    fn begin(&self, stream: &Stream, chunk: &ChunkAt, words: &[u64]) -> Option<Begin> {
        let (head, token) = words.split_at_checked(1 + CONTEXT_WORDS)?;
        let &[first, jumps, pc, function, node] = head else { return None };
        let payload = first & ((1 << KIND_SHIFT) - 1);
        let (len, is_away) = ((payload & !AWAY) as usize, payload & AWAY != 0);
        if first >> KIND_SHIFT != Special::Context as u64 || len > 8 * token.len() {
            return None;
        }
        let inner = self.inner(stream.process, chunk.loads, pc, (function, node))?;
        let text: Vec<u8> = token.iter().flat_map(|word| word.to_le_bytes()).take(len).collect();
        let contexts = self.programs.contexts()?;
        let mut stack = contexts.stack(&self.programs.tables, &Token::parse(text).ok()?, stream.level)?;
        if is_away {
            // Where a fiber's context begins, its stack does not.
            stack[0].function = UNKNOWN;
        }
        enter(&self.programs.tables, &mut stack, inner.active);
        Some(Begin { stack, state: inner.state, jumps, counted: inner.counted })
    }

    /// The innermost function, by the place where it goes on, and what it has told.
    fn inner(&self, process: u32, loads: u64, pc: u64, (function, node): (u64, u64)) -> Option<Inner> {
        let tables = &self.programs.tables;
        if function != 0 {
            let function = self.function_at(process, function, loads)?;
            let node = tables.node_of(function, node)?;
            let state = State::Choose(tables.nodes[node as usize].next);
            return Some(Inner { active: Active { function, node }, state, counted: false });
        }
        let (image, address) = self.place_at(process, pc, loads)?;
        if let Some(function) = tables.function_at(image, address.wrapping_sub(ENTRY_LEN)) {
            let state = State::Choose(tables.functions[function as usize].first);
            return Some(Inner { active: Active { function, node: NONE }, state, counted: false });
        }
        let place = tables.place_at(image, address)?;
        let function = tables.function_of(place.node);
        if place.behind {
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
    /// What is active outside of the innermost function of a token, the outermost first.
    fn stack(&self, tables: &Tables, token: &Token, level: u32) -> Option<Vec<Active>> {
        token.point.as_ref()?;
        let mut context = Context::default();
        self.decoder.decode(token, &mut context).ok()?;
        let mut pieces = context.slices().flat_map(|(pieces, count)| (0..count).flat_map(move |_| pieces));
        match pieces.next()? {
            Piece::Place(..) | Piece::Named(FrameKind::Call, ..) => {}
            _ => return None,
        }
        let mut nodes = Vec::new();
        // What the stream begins with is known.
        let mut outermost = OPEN;
        for piece in pieces {
            match *piece {
                Piece::Site(site) => nodes.extend(self.node(tables, site)),
                Piece::Uninstrumented(_) | Piece::Named(FrameKind::Uninstrumented, ..) => {}
                Piece::Tail(_) | Piece::Named(FrameKind::Tail, ..) => {}
                // Handlers have streams of their own.
                Piece::Signal if level > 0 => break,
                Piece::Thread | Piece::Task => break,
                _ => {
                    outermost = UNKNOWN;
                    break;
                }
            }
            if nodes.len() > super::machine::MAX_DEPTH {
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

/// Puts an activation on a stack, and what stands between it and its caller.
fn enter(tables: &Tables, stack: &mut Vec<Active>, active: Active) {
    if let Some(&Active { node, .. }) = stack.last().filter(|caller| caller.node != NONE) {
        let call = &tables.nodes[node as usize];
        // What was called by name may have left its activation to functions that are known, or not.
        if call.op != Op::Call || call.checked && call.target != active.function {
            stack.push(Active { function: OPEN, node: NONE });
        }
    }
    stack.push(active);
}
