//! Where two runs part, and what each did more.

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

/// Compares two traces of one program.
pub fn diff<'t>(readers: [&'t Reader<'t>; 2]) -> io::Result<Diff<'t>> {
    let tables = &readers[0].programs.tables;
    let mut totals = [Totals::new(tables), Totals::new(tables)];
    let streams = readers.map(|reader| {
        let mut streams: Vec<&Stream> = reader.file.streams.iter().collect();
        streams.sort_by_key(|stream| stream.level);
        streams
    });
    let mut pairs = Vec::new();
    let mut gaps = 0;
    for number in 0..streams[0].len().max(streams[1].len()) {
        let of_pair = [streams[0].get(number).copied(), streams[1].get(number).copied()];
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
