//! The choice of which part writes which bits, so that all parts have about the same work
//! (distributed-program-tracing.txt §5, *weighted*).

use std::io;

use pcce_dictionary::trace::{Part, classes};

use crate::trace::programs::{TablesError, traced};
use crate::trace::reader::Reader;

/// How many choices are tried.
const TRIED: u64 = 4096;

/// The instructions that a node's bits take, for one bit and for several.
const ONE_BIT: u64 = 2;
const SEVERAL_BITS: u64 = 5;

/// The shares of the work of the busiest part, and the seed with which it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balance {
    /// For [`Part::seed`].
    pub seed: u64,
    /// The busiest part's share of all work, from 0 to 1; without work, 0.
    pub busiest: f64,
    /// The heaviest class's share, which no choice can divide.
    pub heaviest: f64,
}

/// Finds the seed with which the busiest of `count` parts has the least work, by what a trace of the program shows.
///
/// # Errors
/// The trace, or the program's tables, cannot be read.
pub fn balance(reader: &Reader<'_>, program: &std::path::Path, count: u32) -> Result<Balance, BalanceError> {
    let tables = &reader.programs.tables;
    let mut events = vec![0_u64; tables.node_count()];
    for stream in &reader.file.streams {
        let mut replay = reader.replay(stream);
        for event in replay.by_ref() {
            if event.kind.is_counted()
                && let Some(count) = events.get_mut(event.node as usize)
            {
                *count += 1;
            }
        }
        replay.finish()?;
    }
    let mut weights: Vec<(String, u32, u64)> = Vec::new();
    let mut node = 0;
    for module in traced(program)? {
        for function in &module.functions {
            let mut of_class = vec![0; function.nodes.len()];
            for class in classes(&function.sets, function.nodes.len()) {
                let bits = tables.code_of(node).1;
                let work = if bits == 1 { ONE_BIT } else { SEVERAL_BITS };
                of_class[class as usize] += if bits == 0 { 0 } else { work * events[node as usize] };
                node += 1;
            }
            let name = &module.names[function.name as usize];
            let heavy = (0..).zip(of_class).filter(|(_, weight)| *weight > 0);
            weights.extend(heavy.map(|(class, weight)| (name.clone(), class, weight)));
        }
    }
    let sum = weights.iter().map(|(.., weight)| weight).sum::<u64>().max(1) as f64;
    let heaviest = weights.iter().map(|(.., weight)| *weight).max().unwrap_or_default() as f64 / sum;
    let busiest = |seed: u64| {
        let part = Part { number: 0, count, seed };
        let mut work = vec![0; count as usize];
        for (name, class, weight) in &weights {
            let writers = part.writers(name, *class);
            for writer in [Some(writers.owner), writers.checker].into_iter().flatten() {
                work[writer as usize] += weight;
            }
        }
        work.into_iter().max().unwrap_or_default()
    };
    let (busiest, seed) = (0..TRIED).map(|seed| (busiest(seed), seed)).min().unwrap_or_default();
    Ok(Balance { seed, busiest: busiest as f64 / sum, heaviest })
}

/// Errors of [`balance`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BalanceError {
    #[error(transparent)]
    Tables(#[from] TablesError),
    #[error("the trace cannot be read: {0}")]
    Trace(#[from] io::Error),
}
