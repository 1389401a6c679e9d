//! Where two runs part, and what each did more.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::context::context;
use super::report::Totals;
use super::spans::Callee;
use crate::context::Frame;
use crate::trace::event::{Event, EventKind};
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::replay::Replay;

/// Where a thread does in one run what it does not in the other.
#[derive(Clone, Debug)]
pub struct Parting<'t> {
    /// The number of events that are the same in both runs.
    pub same: u64,
    /// The event, in both runs; None where the run has no further ones.
    pub sides: [Option<Side<'t>>; 2],
}

/// One run at that place.
#[derive(Clone, Debug)]
pub struct Side<'t> {
    pub kind: EventKind,
    pub number: u64,
    /// Its context, innermost first.
    pub frames: Vec<Frame<'t>>,
}

#[derive(Clone, Debug)]
pub struct Pair<'t> {
    /// Its stream in each; None where it has none.
    pub streams: [Option<&'t Stream>; 2],
    /// The number of events in each run.
    pub events: [u64; 2],
    /// Where they part; None if they are the same to their ends.
    pub parting: Option<Parting<'t>>,
}

#[derive(Clone, Debug)]
pub struct Diff<'t> {
    /// The threads, in the order of their beginning.
    pub pairs: Vec<Pair<'t>>,
    /// By callee, where they differ: how often each run called it, the greatest difference first.
    pub calls: Vec<(Callee, [u64; 2])>,
    pub gaps: u64,
}

/// Returns whether two events are the same thing. Where gaps come from, and addresses, is of no importance.
fn same(one: &Event, two: &Event) -> bool {
    let fields = |event: &Event| (event.kind, event.depth, event.function, event.node);
    fields(one) == fields(two)
}

/// A stream's level, the number of its thread among the threads, and its own among the thread's streams of that level.
type Place = (u32, usize, usize);

/// The streams of a trace by their places. Those of a thread's signal handlers are the thread's.
fn places<'t>(reader: &'t Reader<'t>) -> BTreeMap<Place, &'t Stream> {
    let streams = &reader.file.streams;
    let threads: Vec<&Stream> = streams.iter().filter(|stream| stream.level == 0).collect();
    let mut places = BTreeMap::new();
    for stream in streams {
        let is_of = |thread: &&Stream| match stream.level {
            0 => thread.number == stream.number,
            _ => (thread.process, thread.thread) == (stream.process, stream.thread),
        };
        let thread = threads.iter().position(is_of).unwrap_or(threads.len());
        let own =
            (0..).find(|&own| !places.contains_key(&(stream.level, thread, own))).expect("there are enough");
        places.insert((stream.level, thread, own), stream);
    }
    places
}

/// Compares two traces of one program.
pub fn diff<'t>(readers: [&'t Reader<'t>; 2]) -> io::Result<Diff<'t>> {
    let tables = &readers[0].programs.tables;
    let mut totals = [Totals::new(tables), Totals::new(tables)];
    let streams = readers.map(places);
    let places: BTreeSet<Place> = streams.iter().flat_map(BTreeMap::keys).copied().collect();
    let mut pairs = Vec::new();
    let mut gaps = 0;
    for place in places {
        let of_pair = [streams[0].get(&place).copied(), streams[1].get(&place).copied()];
        let mut replays = [0, 1].map(|side| of_pair[side].map(|stream| readers[side].replay(stream)));
        let mut parting = None;
        let mut same_so_far = 0;
        loop {
            let mut next = |side: usize| next(&mut replays[side], &mut totals[side], readers[side]);
            let events = [next(0), next(1)];
            match events {
                [None, None] => break,
                [Some(one), Some(two)] if same(&one, &two) => {
                    same_so_far += u64::from(one.kind.is_counted());
                    continue;
                }
                _ => {}
            }
            let side = |side: usize| {
                let (event, replay) = (events[side]?, replays[side].as_ref()?);
                let frames = context(tables, &event, replay.stack());
                Some(Side { kind: event.kind, number: replay.events(), frames })
            };
            parting = Some(Parting { same: same_so_far, sides: [side(0), side(1)] });
            break;
        }
        for side in [0, 1] {
            while next(&mut replays[side], &mut totals[side], readers[side]).is_some() {}
        }
        let mut events = [0, 0];
        for (replay, events) in replays.iter_mut().zip(&mut events) {
            if let Some(replay) = replay {
                gaps += replay.finish()?;
                *events = replay.events();
            }
        }
        pairs.push(Pair { streams: of_pair, events, parting });
    }
    let [one, two] = totals.map(Totals::rows);
    let both = one.iter().zip(&two).map(|(one, two)| (one.callee, [one.calls, two.calls]));
    let mut calls: Vec<_> = both.filter(|(_, [one, two])| one != two).collect();
    calls.sort_by_key(|(callee, [one, two])| (std::cmp::Reverse(one.abs_diff(*two)), *callee));
    Ok(Diff { pairs, calls, gaps })
}

fn next(replay: &mut Option<Replay<'_>>, totals: &mut Totals, reader: &Reader<'_>) -> Option<Event> {
    let replay = replay.as_mut()?;
    let event = replay.next()?;
    totals.event(&reader.programs.tables, &event, replay.events(), || 0);
    Some(event)
}
