//! The cost of a trace, by function and node.

use std::io;

use crate::trace::event::EventKind;
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::replay::Verified;
use crate::trace::tables::NONE;

/// The cost of some streams.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    pub streams: u64,
    pub chunks: u64,
    pub events: u64,
    /// Bits that distinguish events.
    pub bits: u64,
    /// Words of 64 bits with other records: entries from outside, landings, and so on.
    pub words: u64,
    /// Bytes of the file that the chunks take, with their unused parts.
    pub bytes: u64,
    pub gaps: u64,
    /// ⟨node, bits that were written for it⟩, for nodes with bits, the most first.
    pub nodes: Vec<(u32, u64)>,
    /// ⟨function, bits that were written for its nodes and its entries⟩, for functions with bits, the most first.
    pub functions: Vec<(u32, u64)>,
    /// ⟨function, bits that would not be written if it was left out, about⟩, for functions that pay, the most first.
    pub spared: Vec<(u32, u64)>,
    pub verified: Verified,
}

/// Bits for the entry of a traced function from one that is left out, about: most are those that were expected.
const ENTRY: u64 = 4;
/// Functions that spare a smaller part of the bits are left out of the list of those that pay.
const MIN_SHARE: f64 = 0.01;

/// Reads some streams.
pub fn stats<'t>(reader: &Reader<'t>, streams: impl IntoIterator<Item = &'t Stream>) -> io::Result<Stats> {
    let tables = &reader.programs.tables;
    let mut stats = Stats::default();
    let mut nodes = vec![0; tables.node_count()];
    let mut functions = vec![0; tables.function_count()];
    // Leaving a function out costs a bit for each call of it, and the entries of the functions that it calls.
    let mut instead = vec![0; tables.function_count()];
    for stream in streams {
        stats.streams += 1;
        stats.chunks += stream.chunks.len() as u64;
        stats.bytes += stream.chunks.iter().map(|chunk| 8 * chunk.there).sum::<u64>();
        let mut replay = reader.replay(stream);
        let mut before = 0;
        while let Some(event) = replay.next() {
            let (bits, words) = replay.read();
            let now = bits + 64 * words;
            let cost = now - std::mem::replace(&mut before, now);
            if event.kind == EventKind::Call {
                instead[event.function as usize] += 1;
                instead[tables.function_of(event.node) as usize] += ENTRY;
            }
            if event.node != NONE {
                nodes[event.node as usize] += cost;
                functions[tables.function_of(event.node) as usize] += cost;
            } else if event.function != NONE {
                functions[event.function as usize] += cost;
            }
        }
        stats.gaps += replay.finish()?;
        let (bits, words) = replay.read();
        stats.bits += bits;
        stats.words += words;
        stats.events += replay.events();
        stats.verified.add(&replay.verified());
    }
    let most = |costs: Vec<u64>| {
        let mut rows: Vec<(u32, u64)> = (0..).zip(costs).filter(|(_, cost)| *cost > 0).collect();
        rows.sort_by_key(|(number, cost)| (std::cmp::Reverse(*cost), *number));
        rows
    };
    let least = ((stats.bits + 64 * stats.words) as f64 * MIN_SHARE) as u64;
    let spared =
        functions.iter().zip(instead).map(|(&cost, instead): (&u64, u64)| cost.saturating_sub(instead));
    stats.spared = most(spared.map(|spared| if spared > least { spared } else { 0 }).collect());
    (stats.nodes, stats.functions) = (most(nodes), most(functions));
    Ok(stats)
}
