//! The selection of events of a trace, and the walk over the selected calls and events of a stream.

use std::io;

use super::named::{Met, Named};
use super::spans::{Change, Span, Spans};
use crate::trace::event::{Event, EventKind};
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::replay::Replay;
use crate::trace::tables::Tables;

/// The events that are shown or exported.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The number of the first event.
    pub from: u64,
    /// The number of the last event.
    pub to: Option<u64>,
    /// The greatest depth; with [`Selection::functions`], counted from their calls.
    pub depth: Option<u32>,
    /// Only this number of last events of each stream.
    pub last: Option<u64>,
    /// Blocks, too, by their lines.
    pub lines: bool,
    /// The approximate time of each event, too.
    pub times: bool,
    /// Only calls of these functions, and the events inside of them.
    pub functions: Option<Named>,
}

impl Selection {
    /// The place where the reading of a stream begins, and the number of the first selected event.
    pub(super) fn begin(&self, reader: &Reader<'_>, stream: &Stream) -> io::Result<(Begun, u64)> {
        let Some(last) = self.last else { return Ok((Begun { chunk: 0, events: 0 }, self.from)) };
        let begun = match self {
            Self { from: 0, to: None, functions: None, .. } => near_end(reader, stream, last)?,
            _ => Begun { chunk: 0, events: read_through(&mut reader.replay(stream))? },
        };
        Ok((begun, self.from.max((begun.events + 1).saturating_sub(last))))
    }
}

/// The place where the reading of a stream begins.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    /// The index of the chunk.
    chunk: usize,
    /// The number of events from there on.
    events: u64,
}

impl Begun {
    pub(super) fn replay<'t>(self, reader: &'t Reader<'_>, stream: &'t Stream) -> Replay<'t> {
        match self.chunk {
            0 => reader.replay(stream),
            chunk => reader.replay_from(stream, chunk, None),
        }
    }

    /// The number that users see: how many events of the stream there are up to this one. Where reading has begun in
    /// the middle, that is not known, and the number counts from the end: the last event has -1.
    pub(super) fn number(self, event: u64) -> i64 {
        if self.chunk == 0 { event as i64 } else { event as i64 - self.events as i64 - 1 }
    }

    /// The number of gaps that were read, and how many of these are parts that a ring has not kept. The part before the
    /// place where reading began was not asked for, and is no gap.
    pub(super) fn gaps(self, replay: &mut Replay<'_>) -> io::Result<(u64, u64)> {
        let not_asked_for = if self.chunk > 0 { replay.cut_off() } else { 0 };
        Ok((replay.finish()? - not_asked_for, replay.cut_off() - not_asked_for))
    }
}

/// A place near the end of a stream, with more than `last` events and no gap after it: the beginning of a chunk whose
/// context gives the active calls.
fn near_end(reader: &Reader<'_>, stream: &Stream, last: u64) -> io::Result<Begun> {
    let mut chunks = 1;
    while let Some(chunk) = stream.chunks.len().checked_sub(chunks).filter(|chunk| *chunk > 0) {
        let mut replay = reader.replay_from(stream, chunk, None);
        let has_gap = replay.by_ref().filter(|event| matches!(event.kind, EventKind::Gap(_))).count() > 0;
        replay.finish()?;
        // With a known context, reading begins as in a ring that has not kept the chunks before.
        if !has_gap && replay.cut_off() > 0 && replay.events() > last {
            return Ok(Begun { chunk, events: replay.events() });
        }
        chunks *= 2;
    }
    Ok(Begun { chunk: 0, events: read_through(&mut reader.replay(stream))? })
}

/// Reads a stream to its end. Returns the number of events.
fn read_through(replay: &mut Replay<'_>) -> io::Result<u64> {
    while replay.next().is_some() {}
    replay.finish()?;
    Ok(replay.events())
}

/// A step of [`walk`].
pub(super) enum Step {
    Begin(Span),
    /// The span that began last is a call of its callee ([`Change::Found`]).
    Found(Span),
    End,
    /// An event, before the changes that it makes.
    Event(Event),
}

/// A call that is active.
struct Open {
    span: Span,
    /// True if it is among the selected functions, and not too deep.
    is_taken: bool,
    /// True if its beginning was reported.
    is_reported: bool,
}

/// Reports the selected calls and events of a stream to `sink`. Calls that are active at the first of the events begin
/// there, and calls that are active at the last one end there. `clock` gives the time of each event, which never
/// decreases. Adds counts to `met`.
pub(super) fn walk<'t>(
    reader: &Reader<'t>,
    stream: &'t Stream,
    selection: &Selection,
    met: &mut Met,
    mut clock: impl FnMut(&Replay<'_>) -> u64,
    mut sink: impl FnMut(&Replay<'_>, u64, Step) -> io::Result<()>,
) -> io::Result<()> {
    let tables = &reader.programs.tables;
    let (begun, from) = selection.begin(reader, stream)?;
    let mut replay = begun.replay(reader, stream);
    let (mut spans, mut open) = (Spans::default(), Vec::<Open>::new());
    let (mut inside, mut pending) = (None, false);
    let (mut now, mut has_begun) = (0, false);
    while let Some(event) = replay.next() {
        let number = replay.events();
        if selection.to.is_some_and(|to| number > to) {
            while let Some(call) = open.pop() {
                if call.is_reported {
                    sink(&replay, now, Step::End)?;
                }
            }
            break;
        }
        now = clock(&replay);
        let base = match &selection.functions {
            None => Some(0),
            Some(functions) => {
                met.event(tables, functions, &event, &mut pending);
                within(tables, functions, &event, &mut inside)
            }
        };
        let is_taken = |span: &Span| {
            base.is_some_and(|base| selection.depth.is_none_or(|most| span.depth.saturating_sub(base) < most))
        };
        if number >= from && !std::mem::replace(&mut has_begun, true) {
            for call in open.iter_mut().filter(|call| call.is_taken) {
                call.is_reported = true;
                sink(&replay, now, Step::Begin(Span { start: now, ..call.span }))?;
            }
        }
        if has_begun && base.is_some() {
            sink(&replay, now, Step::Event(event))?;
        }
        let mut result = Ok(());
        spans.event(tables, &event, now, |change| {
            if result.is_err() {
                return;
            }
            let step = match change {
                Change::Begin(span) => {
                    let is_taken = is_taken(&span);
                    let is_reported = is_taken && has_begun;
                    open.push(Open { span, is_taken, is_reported });
                    is_reported.then_some(Step::Begin(span))
                }
                Change::Found(span, _) => {
                    let call = open.last_mut().expect("it has begun");
                    let was_reported = call.is_reported;
                    call.span = span;
                    call.is_taken |= is_taken(&span);
                    call.is_reported = call.is_taken && has_begun;
                    match (was_reported, call.is_reported) {
                        (true, _) => Some(Step::Found(span)),
                        (false, true) => Some(Step::Begin(span)),
                        (false, false) => None,
                    }
                }
                Change::End(_) => open.pop().filter(|call| call.is_reported).map(|_| Step::End),
            };
            if let Some(step) = step {
                result = sink(&replay, now, step);
            }
        });
        result?;
    }
    let (gaps, cut_off) = begun.gaps(&mut replay)?;
    met.gaps += gaps;
    met.cut_off += cut_off;
    Ok(())
}

/// The depth of the outermost of these functions that the event is inside of, or that it calls. For one that was
/// inlined, it is the depth of the function into which it was inlined.
pub(super) fn within(
    tables: &Tables,
    functions: &Named,
    event: &Event,
    inside: &mut Option<u32>,
) -> Option<u32> {
    let left = |depth: u32| match event.kind {
        EventKind::Landed | EventKind::Again => event.depth < depth,
        EventKind::Mark | EventKind::Resume => false,
        _ => event.depth <= depth,
    };
    let ended = matches!(event.kind, EventKind::Return | EventKind::OpenReturned);
    match *inside {
        Some(depth) if !left(depth) => return Some(depth),
        // The function's own end belongs to it.
        Some(depth) if ended && event.depth == depth => return inside.take(),
        _ => *inside = None,
    }
    let begins = functions.is_entered(tables, event) || functions.is_inside(tables, event);
    *inside = begins.then_some(event.depth);
    *inside
}
