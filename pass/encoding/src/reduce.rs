//! Selective reduction (the paper, §7): of several numberings, the one with the least expected cost.
//!
//! Where ids are too few at a function, all its in-edges may be hot, while cold edges higher up would have
//! done. So if anything overflows, numberings are also tried that cut, everywhere, those edges that are
//! colder than a threshold and bring in many contexts. A cut may make the callee an entry, whose in-edges no
//! offset makes free; so half of these numberings count an edge to a function that is no entry yet as hot as
//! the hottest one that it has. On the graphs of `examples/large.rs` that lowered the share of calls that
//! push for lack of ids from 13 to 35 % of all calls to 0.1 to 2.4 % (64 bits).

use crate::edge_code::{EdgeCode, Options};
use crate::graph::CallGraph;
use crate::number::{CUT, Input, Numbering, SMALL, Threshold};
use crate::offset;
use crate::weight;

/// Thresholds to try. Half of the edges are hotter than the first, and for each next one a third fewer.
const THRESHOLDS: usize = 12;
/// The cost of a push and its pop, in additions and their reversals. An estimate: micro-benchmarks gave 1 to
/// 2.6 ns for the one and 0.5 to 2.1 ns for the other, and pushes also make tokens longer.
const PUSH_COST: f64 = 4.0;
/// The cost of an addition and its reversal whose constant does not fit an instruction of the machine.
const LARGE_COST: f64 = 1.5;
/// Offsets that are far from each other are taken if they cost less than this times the others. (perl, small
/// workload: 1.5 % fewer expected additions, and 6 M more instructions.)
const MUCH_LESS: f64 = 0.9;

/// A numbering and the offsets that go with it.
pub(crate) struct Reduced {
    pub(crate) numbering: Numbering,
    pub(crate) offsets: Vec<u64>,
    /// The permitted difference of offsets.
    pub(crate) spread: u64,
    cost: f64,
}

/// Gives every edge its addition value, or cuts it, but leaves edges that push already. `codes` has
/// [`EdgeCode::Add`] for all others, and these must be acyclic.
pub(crate) fn reduce(graph: &CallGraph, weights: &[f64], codes: &[EdgeCode], options: &Options) -> Reduced {
    let hottest_first = weight::hottest_first(graph, weights);
    let input = Input::new(graph, weights, &hottest_first, codes, options);
    let mean_weight = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
    let trial = Trial { input, hottest_first: &hottest_first, mean_weight };
    let mut best = trial.reduced(Threshold { weight: 0.0, spare: false });
    if !best.numbering.codes.contains(&CUT) {
        return best;
    }
    let mut hotter = hottest_first.len() / 2;
    for _ in 0..THRESHOLDS {
        for spare in [false, true] {
            let weight = weights[hottest_first[hotter] as usize];
            let other = trial.reduced(Threshold { weight, spare });
            if other.cost < best.cost {
                best = other;
            }
        }
        hotter = hotter / 3 * 2;
    }
    best
}

/// The data that all numberings of a graph share.
struct Trial<'a> {
    input: Input<'a>,
    /// All edges.
    hottest_first: &'a [u32],
    mean_weight: f64,
}

impl Trial<'_> {
    /// Numbers the graph, and chooses the offsets. A free edge with a large value makes an offset large, and
    /// that the constants of other edges. So offsets are kept near to each other, unless that costs much.
    fn reduced(&self, threshold: Threshold) -> Reduced {
        let numbering = self.input.number(threshold);
        let [far, near] = [u64::MAX, SMALL as u64].map(|spread| {
            let Numbering { codes, fixed, .. } = &numbering;
            let offsets = offset::offsets(self.input.graph, self.hottest_first, codes, fixed, spread).0;
            (spread, self.cost(codes, &offsets), offsets)
        });
        let (spread, cost, offsets) = if far.1 < MUCH_LESS * near.1 { far } else { near };
        Reduced { numbering, offsets, spread, cost }
    }

    /// Expected cost of all calls, in additions.
    fn cost(&self, codes: &[EdgeCode], offsets: &[u64]) -> f64 {
        let Input { graph, weights, .. } = self.input;
        let offset = |function: u32| offsets[function as usize];
        let edges = codes.iter().zip(weights).zip(graph.ends());
        let cost = edges.map(|((&code, weight), (caller, callee))| {
            let cost = match code {
                EdgeCode::Add(value) => {
                    match value.wrapping_add(offset(callee)).wrapping_sub(offset(caller)) as i64 {
                        0 => 0.0,
                        constant if i32::try_from(constant).is_ok() => 1.0,
                        _ => LARGE_COST,
                    }
                }
                EdgeCode::Push(_) => PUSH_COST,
            };
            // Among many cuts that seem to be cold, some are not.
            let estimated = graph.counted[caller as usize].is_none();
            let doubt = if code == CUT && estimated { self.mean_weight } else { 0.0 };
            cost * weight + doubt
        });
        cost.sum()
    }
}
