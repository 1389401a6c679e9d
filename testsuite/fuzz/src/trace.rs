//! Traces of calls: files, and words of streams in chunks with the right heads and checksums, which no mutation of
//! bytes would hit.

use pcce::trace::{EventKind, NONE, OPEN, Programs, Reader, Replay, TraceFile, UNKNOWN};
use pcce_abi::trace::{CHUNK_HEAD, CONTINUED, ENDED, FIRST, OPEN as UNFINISHED, UNIT};
use pcce_dictionary::trace::Kind;

use crate::Target;
use crate::common::simulated::Run;
use crate::common::stream::{ChunkOf, FileOf, StreamOf, Writer};
use crate::common::world::{Random, World};

pub(crate) const TARGET: Target = Target { name: "trace", seeds, check };

/// The first byte of an input tells its kind: words of a stream, or changes of a file. The next one tells its world.
const WORDS: u8 = 0;
const FILE: u8 = 1;
const SEEDS: u8 = 24;
/// Words of a chunk.
const ROOM: usize = 40;

fn world(seed: u8) -> World {
    World::random(&mut Random::new(u64::from(seed % SEEDS) + 1))
}

fn run(world: &World, seed: u8) -> Run<'_> {
    let mut run = Run::new(world, u64::from(seed % SEEDS) + 77, 300, Writer::new(ROOM));
    run.thread();
    run
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for seed in 0..SEEDS {
        let world = world(seed);
        let run = run(&world, seed);
        let words = run.writer.done.iter().flat_map(|chunk| &chunk.words).flat_map(|word| word.to_le_bytes());
        seeds.push([WORDS, seed, u8::from(run.ended)].into_iter().chain(words).collect());
        seeds.push(vec![FILE, seed, 0, 0, 0, 1]);
    }
    seeds
}

fn check(input: &[u8]) {
    let (world, bytes) = match *input {
        [WORDS, seed, ended, ref words @ ..] => {
            let world = world(seed);
            let words: Vec<u64> =
                words.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes"))).collect();
            let mut chunks: Vec<ChunkOf> = words
                .chunks(ROOM)
                .map(|words| ChunkOf { words: words.to_vec(), end: CONTINUED, ..ChunkOf::default() })
                .collect();
            let Some(last) = chunks.last_mut() else { return };
            last.end = if ended & 1 == 1 { ENDED } else { UNFINISHED };
            let mut file = FileOf::new(&world);
            file.stream(&StreamOf::first(), &chunks, false);
            (world, file.bytes)
        }
        [FILE, seed, ref changes @ ..] => {
            let world = world(seed);
            let mut file = FileOf::new(&world);
            file.stream(&StreamOf::first(), &run(&world, seed).writer.done, true);
            // Most of a file is zero: a change is in the head of the file, or at the beginning of a chunk.
            for change in changes.chunks_exact(4) {
                let chunks = (file.bytes.len() as u64 - FIRST) / UNIT;
                let base = match u64::from(change[0]) % (chunks + 1) {
                    0 => 0,
                    chunk => FIRST + (chunk - 1) * UNIT,
                };
                let span = CHUNK_HEAD + 8 * ROOM as u64;
                let at = base + u64::from(u16::from_le_bytes([change[1], change[2]])) % span;
                file.bytes[at as usize] ^= change[3];
            }
            (world, file.bytes)
        }
        _ => return,
    };
    let file = match TraceFile::from_bytes(bytes) {
        Ok(file) => file,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let files: Vec<_> = world.images.iter().map(|i| (hex(&i.build_id), i.modules.clone())).collect();
    let programs = Programs::from_modules(&files).expect("the tables are good");
    let reader = Reader::new(&file, &programs);
    for stream in &file.streams {
        let mut replay = reader.replay(stream);
        while let Some(event) = replay.next() {
            if event.node != NONE && !matches!(event.kind, EventKind::Gap(_) | EventKind::End(_)) {
                assert!(function_of(&world, event.node).is_some(), "{event:?}");
            }
            check_stack(&world, &replay);
        }
        replay.finish().expect("memory can be read");
    }
}

/// The function of a node.
fn function_of(world: &World, node: u32) -> Option<u32> {
    let behind = world.first_nodes.partition_point(|&first| first <= node);
    let function = (0..behind as u32).rev().find(|&f| !world.function(f).nodes.is_empty())?;
    let number = node - world.first_nodes[function as usize];
    (number < world.function(function).nodes.len() as u32).then_some(function)
}

/// Each activation stands at a node of its own, from which the outer activation has called it.
fn check_stack(world: &World, replay: &Replay<'_>) {
    let stack = replay.stack();
    let Some(inner) = stack.last().filter(|inner| inner.function != OPEN && inner.function != UNKNOWN) else {
        return;
    };
    if inner.node != NONE {
        assert_eq!(function_of(world, inner.node), Some(inner.function), "{stack:?}");
    }
    let Some(outer) = stack.len().checked_sub(2).map(|at| stack[at]) else { return };
    if outer.function == OPEN || outer.function == UNKNOWN {
        return;
    }
    let function = world.function(outer.function);
    let node = &function.nodes[(outer.node - world.first_nodes[outer.function as usize]) as usize];
    let callee = match node.kind {
        Kind::Call(callee) => world.sibling(outer.function, callee),
        Kind::Other(callee) => world.other(outer.function, callee),
        _ => panic!("{stack:?}: it called nobody"),
    };
    // Or a function that this one has left its activation to.
    let mut reached = vec![callee];
    let mut at = 0;
    while at < reached.len() {
        let function = reached[at];
        at += 1;
        for node in &world.function(function).nodes {
            if let Kind::Leave(callee) = node.kind {
                let callee = world.sibling(function, callee);
                if !reached.contains(&callee) {
                    reached.push(callee);
                }
            }
        }
    }
    assert!(reached.contains(&inner.function), "{stack:?}: nobody has called it");
}
