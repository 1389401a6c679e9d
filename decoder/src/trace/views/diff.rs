//! The places where two runs part and meet again, and the calls that one of them made more often.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use super::align::{Ahead, Hunk, Numbered, Rest, align, key};
use super::context::context;
use super::named::Named;
use super::report::Totals;
use super::selection::within;
use super::spans::Callee;
use crate::context::Frame;
use crate::trace::event::{Event, EventKind};
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::replay::Replay;
use crate::trace::tables::NONE;

/// The first place at which a thread does different things in two runs.
#[derive(Clone, Debug)]
pub struct Parting<'t> {
    /// The number of events that are the same in both runs.
    pub same: u64,
    /// The event, in both runs; None where the run has no further ones.
    pub sides: [Option<Side<'t>>; 2],
}

/// One run at the place of a [`Parting`].
#[derive(Clone, Debug)]
pub struct Side<'t> {
    pub kind: EventKind,
    pub number: u64,
    /// Its context, innermost first.
    pub frames: Vec<Frame<'t>>,
}

#[derive(Clone, Debug)]
pub struct Pair<'t> {
    /// The thread's stream in each run; None where a run has no such thread.
    pub streams: [Option<&'t Stream>; 2],
    /// The number of events in each run.
    pub events: [u64; 2],
    /// The place where they part; None if they are the same to their ends.
    pub parting: Option<Parting<'t>>,
    /// The differences from there on, as many as were asked for, and why there are no more.
    pub hunks: Vec<Hunk>,
    pub rest: Rest,
}

#[derive(Clone, Debug)]
pub struct Diff<'t> {
    /// The threads, in the order of their beginning in the first run; then those that only the second one has.
    pub pairs: Vec<Pair<'t>>,
    /// By callee, where they differ: how often each run called it, the greatest difference first.
    pub calls: Vec<(Callee, [u64; 2])>,
    pub gaps: u64,
}

/// Options of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// Calls of these functions are left out, with all events inside of them.
    pub ignored: Vec<Named>,
    /// Bound on the differences of each thread that are reported.
    pub hunks: usize,
}

/// A stream's level, the number of its pair of threads, and its own among the thread's streams of that level.
type Place = (u32, usize, usize);

/// The streams of a trace by their places. Streams of signal handlers belong to the pair of their thread. `pairs`: for
/// each thread's stream, the number of its pair.
fn places<'t>(reader: &'t Reader<'t>, pairs: &HashMap<u64, usize>) -> BTreeMap<Place, &'t Stream> {
    let threads = threads(reader).map(|stream| ((stream.process, stream.thread), pairs[&stream.number]));
    // A thread that becomes another program by `exec` has several; its handlers are those of the first.
    let mut of_thread: HashMap<(u32, u32), usize> = HashMap::new();
    threads.for_each(|(thread, pair)| _ = of_thread.entry(thread).or_insert(pair));
    let mut counts: HashMap<(u32, usize), usize> = HashMap::new();
    let place = |stream: &'t Stream| {
        let pair = match stream.level {
            0 => pairs[&stream.number],
            _ => of_thread.get(&(stream.process, stream.thread)).copied().unwrap_or(usize::MAX),
        };
        let own = counts.entry((stream.level, pair)).or_default();
        *own += 1;
        ((stream.level, pair, *own), stream)
    };
    reader.file.streams.iter().map(place).collect()
}

/// The streams of threads, without those of signal handlers.
fn threads<'t>(reader: &'t Reader<'t>) -> impl Iterator<Item = &'t Stream> {
    reader.file.streams.iter().filter(|stream| stream.level == 0)
}

/// The first calls of a thread.
struct Beginning {
    stream: u64,
    /// The function that comes first; [`NONE`] if none is known.
    first: u32,
    /// How often each function is called among the first events.
    calls: HashMap<Callee, u64>,
}

/// The number of first events that are compared to match the threads of two runs.
const BEGINNING: u64 = 1 << 16;
/// Bound on the threads that begin with one function and are matched by their calls.
const MAX_ALIKE: usize = 256;

impl Beginning {
    fn of(reader: &Reader<'_>, stream: &Stream) -> io::Result<Self> {
        let tables = &reader.programs.tables;
        let (mut first, mut totals) = (NONE, Totals::new(tables));
        let mut replay = reader.replay(stream);
        while let Some(event) = replay.next() {
            let begins = matches!(event.kind, EventKind::Entered | EventKind::Active | EventKind::Call);
            if first == NONE && begins {
                first = event.function;
            }
            totals.event(tables, &event, replay.events(), || 0);
            if replay.events() >= BEGINNING {
                break;
            }
        }
        replay.finish()?;
        let rows = totals.rows().into_iter().filter(|row| row.calls > 0);
        Ok(Self { stream: stream.number, first, calls: rows.map(|row| (row.callee, row.calls)).collect() })
    }

    /// The number of calls that two threads do not have in common.
    fn distance(&self, other: &Self) -> u64 {
        let of = |calls: &HashMap<Callee, u64>, callee| calls.get(callee).copied().unwrap_or(0);
        let callees: BTreeSet<&Callee> = self.calls.keys().chain(other.calls.keys()).collect();
        callees.into_iter().map(|callee| of(&self.calls, callee).abs_diff(of(&other.calls, callee))).sum()
    }
}

/// Matches the threads of two runs: those that begin with the same function, and among these those whose calls differ
/// least. Where they differ equally, their order counts. Returns the number of its pair for each stream.
fn matched(readers: [&Reader<'_>; 2]) -> io::Result<[HashMap<u64, usize>; 2]> {
    let beginnings =
        |reader| threads(reader).map(|stream| Beginning::of(reader, stream)).collect::<Result<Vec<_>, _>>();
    let [one, two] = [beginnings(readers[0])?, beginnings(readers[1])?];
    let mut alike: BTreeMap<u32, [Vec<usize>; 2]> = BTreeMap::new();
    for (side, all) in [&one, &two].into_iter().enumerate() {
        for (number, beginning) in all.iter().enumerate() {
            alike.entry(beginning.first).or_default()[side].push(number);
        }
    }
    let mut partners: HashMap<usize, usize> = HashMap::new();
    for [ones, twos] in alike.values() {
        let by_calls = ones.len().max(twos.len()) <= MAX_ALIKE;
        let mut costs = Vec::new();
        for (place, &first) in ones.iter().enumerate() {
            for (other, &second) in twos.iter().enumerate() {
                let distance = if by_calls { one[first].distance(&two[second]) } else { 0 };
                if by_calls || place == other {
                    costs.push((distance, place.abs_diff(other), first, second));
                }
            }
        }
        costs.sort_unstable();
        let mut taken = BTreeSet::new();
        for (_, _, first, second) in costs {
            if !partners.contains_key(&first) && taken.insert(second) {
                partners.insert(first, second);
            }
        }
    }
    let mut pairs = [HashMap::new(), HashMap::new()];
    for (number, beginning) in one.iter().enumerate() {
        pairs[0].insert(beginning.stream, number);
        if let Some(&partner) = partners.get(&number) {
            pairs[1].insert(two[partner].stream, number);
        }
    }
    for beginning in &two {
        let next = one.len() + pairs[1].len();
        pairs[1].entry(beginning.stream).or_insert(next);
    }
    Ok(pairs)
}

/// Compares two traces of one program.
pub fn diff<'t>(readers: [&'t Reader<'t>; 2], compared: &Compared) -> io::Result<Diff<'t>> {
    let tables = &readers[0].programs.tables;
    let mut totals = [Totals::new(tables), Totals::new(tables)];
    let pairs_of = matched(readers)?;
    let streams = [0, 1].map(|side| places(readers[side], &pairs_of[side]));
    let places: BTreeSet<Place> = streams.iter().flat_map(BTreeMap::keys).copied().collect();
    let mut pairs = Vec::new();
    let mut gaps = 0;
    for place in places {
        let of_pair = [streams[0].get(&place).copied(), streams[1].get(&place).copied()];
        let [one, two] = &mut totals;
        let reading = |side: usize, totals| Reading {
            reader: readers[side],
            replay: of_pair[side].map(|stream| readers[side].replay(stream)),
            totals,
            ignored: compared.ignored.iter().map(|named| (named, None)).collect(),
        };
        let mut sides = [reading(0, one), reading(1, two)];
        let (mut parting, mut same) = (None, 0);
        let events = loop {
            let events = [sides[0].next(), sides[1].next()];
            match &events {
                [None, None] => break events,
                [Some((_, one)), Some((_, two))] if key(one) == key(two) => {
                    same += u64::from(one.kind.is_counted());
                    continue;
                }
                _ => {}
            }
            let side = |side: usize| {
                let ((number, event), replay) = (events[side]?, sides[side].replay.as_ref()?);
                let frames = context(tables, &event, replay.stack());
                Some(Side { kind: event.kind, number, frames })
            };
            parting = Some(Parting { same, sides: [side(0), side(1)] });
            break events;
        };
        let [one, two] = sides.each_mut().map(RefCell::new);
        let mut one_ahead = Ahead::new(events[0], || one.borrow_mut().next());
        let mut two_ahead = Ahead::new(events[1], || two.borrow_mut().next());
        let is_both = of_pair.iter().all(Option::is_some);
        let (hunks, rest) = match is_both && compared.hunks > 0 {
            true => align(&mut one_ahead, &mut two_ahead, compared.hunks),
            false => (Vec::new(), Rest::More),
        };
        one_ahead.finish();
        two_ahead.finish();
        let mut counts = [0, 0];
        for (side, count) in sides.iter_mut().zip(&mut counts) {
            if let Some(replay) = &mut side.replay {
                gaps += replay.finish()?;
                *count = replay.events();
            }
        }
        pairs.push(Pair { streams: of_pair, events: counts, parting, hunks, rest });
    }
    let [one, two] = totals.map(Totals::rows);
    let both = one.iter().zip(&two).map(|(one, two)| (one.callee, [one.calls, two.calls]));
    let mut calls: Vec<_> = both.filter(|(_, [one, two])| one != two).collect();
    calls.sort_by_key(|(callee, [one, two])| (std::cmp::Reverse(one.abs_diff(*two)), *callee));
    Ok(Diff { pairs, calls, gaps })
}

/// A stream that is read.
struct Reading<'t, 'c> {
    reader: &'t Reader<'t>,
    replay: Option<Replay<'t>>,
    totals: &'c mut Totals,
    /// The functions that are left out, and at which depth the thread is in one of them.
    ignored: Vec<(&'c Named, Option<u32>)>,
}

impl Reading<'_, '_> {
    /// The next event that is compared.
    fn next(&mut self) -> Option<Numbered> {
        let tables = &self.reader.programs.tables;
        let replay = self.replay.as_mut()?;
        loop {
            let event: Event = replay.next()?;
            let mut is_ignored = false;
            for (named, inside) in &mut self.ignored {
                is_ignored |= within(tables, named, &event, inside).is_some();
            }
            if is_ignored {
                continue;
            }
            self.totals.event(tables, &event, replay.events(), || 0);
            return Some((replay.events(), event));
        }
    }
}
