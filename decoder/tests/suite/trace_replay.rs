//! Random programs and runs of them: the reader tells exactly what happened.

use pcce::trace::{Programs, Reader, TraceFile, Verified};
use pcce_abi::trace::{CONTINUED, OPEN};

use crate::common::simulated::{Expected, Run};
use crate::common::stream::{ChunkOf, FileOf, StreamOf, Writer};
use crate::common::world::{Random, World};

fn programs(world: &World) -> Programs {
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let files: Vec<_> = world.images.iter().map(|i| (hex(&i.build_id), i.modules.clone())).collect();
    Programs::from_modules(&files).expect("the tables are good")
}

/// All events of a stream, without its end; and whether it says that it has ended.
fn read(file: &TraceFile, programs: &Programs, stream: u64) -> (Vec<Expected>, &'static str, Verified) {
    let reader = Reader::new(file, programs);
    let mut replay = reader.replay(file.stream(stream).expect("the stream is there"));
    let mut events = Vec::new();
    let mut end = "none";
    for event in replay.by_ref() {
        assert_eq!(end, "none", "something comes behind the end");
        match event.kind {
            pcce::trace::EventKind::End(pcce::trace::End::Ended) => end = "ended",
            pcce::trace::EventKind::End(pcce::trace::End::Stopped) => end = "stopped",
            pcce::trace::EventKind::End(pcce::trace::End::Open) => end = "open",
            // What a stream begins in that was forked.
            pcce::trace::EventKind::Active if events.is_empty() => {}
            kind => events.push((kind.name(), event.depth, event.function, event.node)),
        }
    }
    replay.finish().expect("memory can be read");
    (events, end, replay.verified())
}

fn trace(world: &World, streams: &[(StreamOf, &[ChunkOf])], verify: bool) -> TraceFile {
    let mut file = FileOf::new(world);
    streams.iter().for_each(|(stream, chunks)| file.stream(stream, chunks, verify));
    TraceFile::from_bytes(file.bytes).expect("it is a trace")
}

fn compare(found: &[Expected], expected: &[Expected], what: &str) {
    if let Some(at) = (0..found.len().max(expected.len())).find(|at| found.get(*at) != expected.get(*at)) {
        let from = at.saturating_sub(6);
        panic!(
            "{what}: event {at} differs:\nfound    {:?}\nexpected {:?}",
            &found[from.min(found.len())..found.len().min(at + 3)],
            &expected[from.min(expected.len())..expected.len().min(at + 3)],
        );
    }
}

/// What a stream that was not ended tells: all that its words say.
fn told(writer: &Writer) -> usize {
    writer.told.last().copied().unwrap_or(0)
}

#[test]
fn runs_are_told_exactly() {
    let (mut events, mut ended, mut compared, mut kinds) = (0, 0, 0, std::collections::BTreeSet::new());
    for seed in 0..3500 {
        let mut random = Random::new(seed + 1);
        let world = World::random(&mut random);
        let programs = programs(&world);
        let mut run = Run::new(&world, seed + 77, 400, Writer::new(11 + random.below(40) as usize));
        run.writer.ring = seed % 5 == 0;
        run.thread();
        let file = trace(&world, &[(StreamOf::first(), &run.writer.done)], true);
        let (found, end, verified) = read(&file, &programs, 1);
        let expected = if run.ended { &run.events[..] } else { &run.events[..told(&run.writer)] };
        compare(&found, expected, &format!("seed {seed}"));
        assert_eq!(end, if run.ended { "ended" } else { "open" }, "seed {seed}");
        assert_eq!((verified.mismatches, verified.uncertain), (0, 0), "seed {seed}: {verified:?}");
        events += found.len();
        ended += usize::from(run.ended);
        compared += verified.events;
        kinds.extend(found.iter().map(|event| event.0));
    }
    assert!(events > 100_000 && ended > 300 && compared > 50_000, "{events} {ended} {compared}");
    assert_eq!(kinds.len(), 14, "{kinds:?}");
}

/// A stream that was killed at any word gives a prefix: all that is certain, and nothing else.
#[test]
fn what_was_killed_is_an_exact_prefix() {
    for seed in 0..60 {
        let mut random = Random::new(seed + 1);
        let world = World::random(&mut random);
        let programs = programs(&world);
        let mut run = Run::new(&world, seed + 5, 300, Writer::new(8 + random.below(20) as usize));
        run.thread();
        for &(chunk, len) in &run.writer.ends {
            let mut chunks = run.writer.done[..=chunk].to_vec();
            chunks[chunk].words.truncate(len);
            chunks[chunk].end = OPEN;
            let file = trace(&world, &[(StreamOf::first(), &chunks)], false);
            let (found, end, _) = read(&file, &programs, 1);
            let words: usize = chunks.iter().map(|chunk| chunk.words.len()).sum();
            let known = words.checked_sub(1).map_or(0, |last| run.writer.told[last]);
            compare(&found, &run.events[..known], &format!("seed {seed}, chunk {chunk}, {len} words"));
            assert_eq!(end, "open");
        }
    }
}

/// Forked streams go on where their parents were.
#[test]
fn forks_go_on_with_the_parents_stack() {
    let mut forks = 0;
    for seed in 0..600 {
        let mut random = Random::new(seed + 1);
        let world = World::random(&mut random);
        let programs = programs(&world);
        let room = 8 + random.below(20) as usize;
        let mut parent = Run::new(&world, seed + 9, 300, Writer::new(room));
        parent.thread();
        let known = told(&parent.writer);
        let visit = 1 + random.below(parent.positions.len() as u64);
        let position = parent.positions[visit as usize - 1];
        let mut child = Run::new(&world, seed + 9, 300, Writer::new(room)).forked(visit, seed + 1000);
        child.thread();
        let of_child = StreamOf::forked(position);
        let streams = [(StreamOf::first(), &parent.writer.done[..]), (of_child, &child.writer.done[..])];
        let file = trace(&world, &streams, true);
        let (found, _, verified) = read(&file, &programs, 2);
        if !parent.ended && known < parent.events.len() && found.first().is_some_and(|e| e.0 == "gap") {
            // What the parent did last was not written.
            continue;
        }
        let expected = if child.ended { &child.events[..] } else { &child.events[..told(&child.writer)] };
        compare(&found, expected, &format!("seed {seed}"));
        assert_eq!(verified.mismatches, 0);
        forks += 1;
    }
    assert!(forks > 500, "{forks}");
}

#[test]
fn signal_handlers_are_streams_of_their_own() {
    for seed in 0..200 {
        let mut random = Random::new(seed + 1);
        let world = World::random(&mut random);
        let programs = programs(&world);
        let mut run = Run::new(&world, seed + 3, 200, Writer::new(12));
        run.handlers(&[256, 513, 1 << 40]);
        let stream = StreamOf { level: 1, parent: 9, ..StreamOf::first() };
        let file = trace(&world, &[(stream, &run.writer.done)], false);
        let (found, ..) = read(&file, &programs, 1);
        let expected = if run.ended { &run.events[..] } else { &run.events[..told(&run.writer)] };
        compare(&found, expected, &format!("seed {seed}"));
    }
}

/// A chunk that is lost or damaged is a gap; what comes before it is told, and what comes behind it never contradicts
/// what happened.
#[test]
fn lost_chunks_are_gaps() {
    let mut behind = 0;
    for seed in 0..500 {
        let mut random = Random::new(seed + 1);
        let world = World::random(&mut random);
        let programs = programs(&world);
        let mut run = Run::new(&world, seed + 5, 3000, Writer::new(12));
        run.thread();
        let chunks = run.writer.done.len();
        if chunks < 4 || run.writer.done[1].end != CONTINUED {
            continue;
        }
        let mut damaged = run.writer.done.clone();
        let lost = 1 + random.below(chunks as u64 - 2) as usize;
        let mut file = FileOf::new(&world);
        file.stream(&StreamOf::first(), &damaged, true);
        // A bit of the chunk's words.
        let before: usize = damaged.drain(..lost).map(|chunk| chunk.words.len()).sum();
        let at = (world.images.len() + 1 + lost) * 65536 + 128 + random.below(56) as usize;
        file.bytes[at] ^= 1 << random.below(8);
        let file = TraceFile::from_bytes(file.bytes).expect("it is a trace");
        let (found, _, verified) = read(&file, &programs, 1);
        let known = run.writer.told[before - 1];
        assert_eq!(found[known].0, "gap", "seed {seed}");
        compare(&found[..known], &run.events[..known], &format!("seed {seed}"));
        assert_eq!(verified.mismatches, 0, "seed {seed}");
        // Each event behind it happened: in this order.
        let mut happened = run.events[known..].iter();
        for event in &found[known + 1..] {
            if event.0 == "gap" {
                continue;
            }
            let same = |e: &&Expected| (e.0, e.2, e.3) == (event.0, event.2, event.3);
            assert!(happened.find(same).is_some(), "seed {seed}: {event:?} did not happen");
            behind += 1;
        }
    }
    assert!(behind > 500, "{behind}");
}

/// What was forked where its parent is not known tells nothing that did not happen: it goes on from nothing, or from
/// what the parent knew again in front of the fork.
#[test]
fn forks_behind_gaps_tell_nothing_false() {
    let (mut unknown, mut known) = (0, 0);
    for seed in 0..3000 {
        let mut random = Random::new(seed + 1);
        let world = World::random(&mut random);
        let programs = programs(&world);
        let mut parent = Run::new(&world, seed + 5, 1000, Writer::new(8));
        parent.thread();
        let chunks = parent.writer.done.len();
        if chunks < 3 {
            continue;
        }
        let visit = 1 + random.below(parent.positions.len() as u64);
        let position = parent.positions[visit as usize - 1];
        let mut child = Run::new(&world, seed + 5, 1000, Writer::new(8)).forked(visit, seed + 1000);
        child.thread();
        let of_child = StreamOf::forked(position);
        let mut file = FileOf::new(&world);
        file.stream(&StreamOf::first(), &parent.writer.done, false);
        let lost = random.below(chunks as u64) as usize;
        file.bytes[(world.images.len() + 1 + lost) * 65536 + 136] ^= 1;
        file.stream(&of_child, &child.writer.done, false);
        let file = TraceFile::from_bytes(file.bytes).expect("it is a trace");
        let (found, ..) = read(&file, &programs, 2);
        let same = |a: &Expected, b: &Expected| (a.0, a.2, a.3) == (b.0, b.2, b.3);
        let sure = found.iter().position(|event| event.0 == "gap").unwrap_or(found.len());
        let is_exact = found[..sure].iter().zip(&child.events).all(|(a, b)| same(a, b));
        assert!(is_exact && sure <= child.events.len(), "seed {seed}: {:?}", &found[..sure]);
        let mut happened = child.events[sure..].iter();
        for event in found[sure..].iter().filter(|event| event.0 != "gap") {
            assert!(happened.any(|other| same(other, event)), "seed {seed}: {event:?} did not happen");
        }
        unknown += usize::from(sure == 0 && !found.is_empty());
        known += usize::from(sure > 0 && position >> 40 > lost as u64);
    }
    assert!(unknown > 200 && known > 50, "{unknown} {known}");
}

/// Whatever the bytes, there is an end, and nothing refers to what is not there.
#[test]
fn any_bytes_have_an_end() {
    for seed in 0..1500 {
        let mut random = Random::new(seed + 1);
        let world = World::random(&mut random);
        let programs = programs(&world);
        let mut run = Run::new(&world, seed + 5, 200, Writer::new(20));
        run.thread();
        let mut file = FileOf::new(&world);
        let open: Vec<ChunkOf> =
            run.writer.done.iter().map(|chunk| ChunkOf { end: OPEN, ..chunk.clone() }).collect();
        file.stream(&StreamOf::first(), if random.percent(50) { &open } else { &run.writer.done }, true);
        for _ in 0..1 + random.below(8) {
            let chunk = random.below(file.bytes.len() as u64 / 65536);
            let at = (chunk * 65536 + random.below(300)) as usize;
            file.bytes[at] = if random.percent(50) { random.below(256) as u8 } else { file.bytes[at] ^ 1 };
        }
        let Ok(file) = TraceFile::from_bytes(file.bytes) else { continue };
        let reader = Reader::new(&file, &programs);
        for stream in &file.streams {
            let mut replay = reader.replay(stream);
            let mut events = 0_u64;
            while let Some(event) = replay.next() {
                events += 1;
                if events.is_multiple_of(16) {
                    let _ = pcce::trace::context(&programs.tables, &event, replay.stack());
                }
            }
            assert!(events < 10_000_000, "seed {seed}: {events}");
        }
    }
}
