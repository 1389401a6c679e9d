//! Numbering (the paper, §4, Algorithm 1, with the dummy in-edges of §5, Algorithm 3) and selective reduction (§7).
//!
//! A function's in-edges come hottest first. Where not all values fit in 31 bits, those of callers with few contexts come before, as many as
//! fit: a larger value costs an instruction more, and a register. Which edges need no addition is not decided here but by the offsets
//! (`offset`). (With the hottest edge first always, 89 % of the additions that sqlite3 executes had large values; so, 10 %. With the fewest
//! contexts first always, perl executes 18.3 M instructions for the encoding of its small workload, and vim 40.5 M; so, 17.1 M and 40.3 M.)
//!
//! Where a function would have more contexts than ids can number, edges must be cut into pushes. Two things matter.
//! A function just below the limit makes its callees overflow in turn, so a function that overflows is cut down to a
//! smaller budget, hotter edges being kept before colder ones. And where the limit is met, all in-edges may be hot, while
//! cold edges higher up would have done; so if anything overflows, numberings are also tried that cut, everywhere, those
//! edges that are colder than a threshold and bring in many contexts. A cut may make the callee an entry, whose in-edges no
//! offset makes free; so half of these numberings count an edge to a function that is no entry yet as hot as the hottest one that it has.
//! The one with the least expected cost is taken. On the graphs of `examples/large.rs` that lowered the share of calls that push for lack of ids from 13 to
//! 35 % of all calls to 0.1 to 2.4 % (64 bits).

use std::cmp::Reverse;

use crate::encoding::{EdgeCode, Options, PushReason};
use crate::graph::{CallGraph, Groups};
use crate::offset;

/// Thresholds to try. Half of the edges are hotter than the first, and for each next one a third fewer.
const THRESHOLDS: usize = 12;
/// What a push and its pop cost, in additions and their reversals. An estimate: micro-benchmarks gave 1 to 2.6 ns for the
/// one and 0.5 to 2.1 ns for the other, and what is pushed makes tokens longer as well.
const PUSH_COST: f64 = 4.0;
/// What an addition and its reversal cost whose constant no instruction of the machine holds.
const LARGE_COST: f64 = 1.5;
/// Offsets that are far from each other are taken if they cost less than this times the others. (perl, small workload: 1.5 % fewer expected
/// additions, and 6 M more instructions.)
const MUCH_LESS: f64 = 0.9;
/// Up to here, an instruction of the machine holds a value, and as much again for the offsets.
const SMALL: u128 = 1 << 30;
const CUT: EdgeCode = EdgeCode::Push(PushReason::Cut);

/// Numbers of functions, and codes of edges.
pub(crate) struct Numbering {
    pub(crate) codes: Vec<EdgeCode>,
    pub(crate) num_cc: Vec<u64>,
    /// Functions with the dummy in-edge.
    pub(crate) entry: Vec<bool>,
    /// Functions whose offset is 0.
    pub(crate) fixed: Vec<bool>,
    pub(crate) offsets: Vec<u64>,
    /// How different offsets may be.
    pub(crate) spread: u64,
}

struct Input<'a> {
    graph: &'a CallGraph,
    out_edges: &'a Groups,
    /// All edges.
    hottest_first: &'a [u32],
    /// In-edges of each function, the open node's first, then hottest first.
    in_edges: Groups,
    weights: &'a [f64],
    mean_weight: f64,
    codes: &'a [EdgeCode],
}

/// Gives every edge its addition value, or cuts it, but leaves edges that push already. `codes` has
/// [`EdgeCode::Add`] for all others, and these must be acyclic.
pub(crate) fn number(
    graph: &CallGraph,
    out_edges: &Groups,
    weights: &[f64],
    codes: &[EdgeCode],
    options: &Options,
) -> Numbering {
    let mut hottest_first: Vec<u32> = (0..graph.edges() as u32).collect();
    hottest_first.sort_unstable_by_key(|&edge| (Reverse(heat(graph, weights, edge)), edge));
    // The open node's ids come first in the functions that open calls may reach.
    let open = |is: bool| hottest_first.iter().filter(move |&&edge| graph.is_open_edge(edge) == is);
    let pairs = open(true).chain(open(false)).map(|&edge| (graph.callee[edge as usize], edge));
    let in_edges = Groups::new(graph.functions(), pairs);
    let mean_weight = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
    let input =
        Input { graph, out_edges, hottest_first: &hottest_first, in_edges, weights, mean_weight, codes };
    let mut best = input.number(options, 0.0, false);
    if !best.codes.contains(&CUT) {
        return best;
    }
    let mut least = input.cost(&best);
    let mut hotter = hottest_first.len() / 2;
    for _ in 0..THRESHOLDS {
        for spare in [false, true] {
            let numbering = input.number(options, weights[hottest_first[hotter] as usize], spare);
            let cost = input.cost(&numbering);
            if cost < least {
                (best, least) = (numbering, cost);
            }
        }
        hotter = hotter / 3 * 2;
    }
    best
}

/// The edge's weight, to be compared: estimates of one power of four count as equal. Of equally hot edges the first one comes first: programs handle
/// first what is common. (Callgrind, gawk 1.0140 to 1.0120, sqlite3 1.0125 to 1.0114, sed 1.0057 to 1.0050; with powers of two or 16 about as much.)
pub(crate) fn heat(graph: &CallGraph, weights: &[f64], edge: u32) -> u64 {
    /// Of a floating-point number, all but the lowest bit of the exponent, and the mantissa.
    const POWER_OF_FOUR: u64 = !0 << 53;
    // Bits of floats that are not negative are in the order of the floats.
    let bits = weights[edge as usize].to_bits();
    let counted = graph.counted[graph.caller[edge as usize] as usize].is_some();
    if counted { bits } else { bits & POWER_OF_FOUR }
}

impl Input<'_> {
    /// Expected cost of all calls, in additions.
    fn cost(&self, numbering: &Numbering) -> f64 {
        let offset = |function: u32| numbering.offsets[function as usize];
        let ends = self.graph.caller.iter().zip(&self.graph.callee);
        let edges = numbering.codes.iter().zip(self.weights).zip(ends);
        let cost = edges.map(|((&code, weight), (&caller, &callee))| {
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
            let estimated = self.graph.counted[caller as usize].is_none();
            let doubt = if code == CUT && estimated { self.mean_weight } else { 0.0 };
            cost * weight + doubt
        });
        cost.sum()
    }

    /// Chooses the offsets. A free edge with a large value makes an offset large, and that the constants of other edges. So offsets are kept near
    /// to each other, unless that costs much.
    fn set_offsets(&self, numbering: &mut Numbering) {
        let mut costs = [u64::MAX, SMALL as u64].map(|spread| {
            numbering.offsets =
                offset::offsets(self.graph, self.hottest_first, &numbering.codes, &numbering.fixed, spread).0;
            (self.cost(numbering), numbering.offsets.clone())
        });
        if costs[0].0 < MUCH_LESS * costs[1].0 {
            numbering.offsets = std::mem::take(&mut costs[0].1);
            numbering.spread = u64::MAX;
        }
    }

    /// One numbering, in topological order, that also cuts edges with less weight than the threshold and many contexts. `spare`:
    /// only where that makes no function an entry that has an edge with more weight.
    fn number(&self, options: &Options, threshold: f64, spare: bool) -> Numbering {
        let Self { graph, weights, .. } = *self;
        let &Options { id_bits, known_starts } = options;
        let id_bits = id_bits.clamp(1, 64);
        let limit = u128::from(if id_bits == 64 { u64::MAX } else { 1 << id_bits });
        let budget = limit >> (id_bits / 4);
        let many = limit >> (id_bits * 3 / 4);
        debug_assert!(budget >= 1);
        let adds = |code: EdgeCode| matches!(code, EdgeCode::Add(_));

        let functions = graph.functions();
        let mut codes = self.codes.to_vec();
        let mut num_cc = vec![0u64; functions];
        let (mut entry, mut fixed) = (graph.entry.clone(), graph.entry.clone());
        let mut waiting: Vec<u32> = vec![0; functions]; // edges that add and whose caller has no number yet
        let mut order: Vec<u32> = Vec::with_capacity(functions);
        for function in 0..functions {
            let callers = self.in_edges.of(function);
            let added = callers.iter().filter(|&&edge| adds(codes[edge as usize])).count();
            waiting[function] = added as u32;
            // Of the others, decoding may be told where the sub-path starts.
            let required = |edge: &u32| codes[*edge as usize] == EdgeCode::Push(PushReason::Required);
            fixed[function] |= callers.is_empty() || callers.iter().any(required);
            entry[function] |= fixed[function] || added == 0 || added < callers.len() && !known_starts;
            if added == 0 {
                order.push(function as u32);
            }
        }

        let mut done = 0;
        let mut incoming: Vec<u32> = Vec::new();
        while let Some(&function) = order.get(done) {
            let function = function as usize;
            done += 1;

            // The dummy in-edge of functions that open calls may reach is the open node's.
            let open = self.in_edges.of(function).first().is_some_and(|&edge| graph.is_open_edge(edge));
            let dummy = |entry: bool| u128::from(entry && !open);
            let contexts = |edge: u32| u128::from(num_cc[graph.caller[edge as usize] as usize]);
            incoming.clear();
            let hottest = self.in_edges.of(function).first().map_or(0.0, |&edge| weights[edge as usize]);
            let spared = spare && !entry[function] && hottest >= threshold;
            for &edge in self.in_edges.of(function) {
                if !adds(codes[edge as usize]) {
                    continue;
                }
                let cold = weights[edge as usize] < threshold && !spared && !graph.is_open_edge(edge);
                if cold && contexts(edge) > many {
                    codes[edge as usize] = CUT;
                    entry[function] |= !known_starts;
                } else {
                    incoming.push(edge);
                }
            }
            // Fewer than 2³² numbers below 2⁶⁴: the sum fits.
            let all = dummy(entry[function]) + incoming.iter().map(|&edge| contexts(edge)).sum::<u128>();
            // What comes through the open node must leave room in every function that open calls may reach.
            let limit = if graph.open == Some(function as u32) { budget } else { limit };
            let bound = if all <= limit {
                limit
            } else {
                entry[function] |= !known_starts; // at least one edge is cut
                budget
            };
            let mut room = bound - dummy(entry[function]);
            incoming.retain(|&edge| {
                let fits = contexts(edge) <= room;
                if fits {
                    room -= contexts(edge);
                } else {
                    codes[edge as usize] = CUT;
                }
                fits
            });
            if bound - room > SMALL {
                let closed = |edge| !graph.is_open_edge(edge);
                incoming.sort_by_key(|&edge| (closed(edge), contexts(edge)));
                let mut end = dummy(entry[function]);
                let fits = incoming.iter().take_while(|&&edge| {
                    end += contexts(edge);
                    end <= SMALL
                });
                let fit = fits.count();
                // Bits of floats that are not negative are in the order of the floats.
                let hot = |edge: u32| Reverse(weights[edge as usize].to_bits());
                incoming[fit..].sort_by_key(|&edge| (closed(edge), hot(edge), edge));
            }
            entry[function] |= incoming.is_empty();
            let mut next = dummy(entry[function]);
            for &edge in &incoming {
                codes[edge as usize] = EdgeCode::Add(next as u64); // below the limit
                next += contexts(edge);
            }
            num_cc[function] = next as u64; // at most the limit

            // A function cuts when its own turn comes, so edges to functions that are still waiting are as they were.
            for &edge in self.out_edges.of(function) {
                if adds(codes[edge as usize]) {
                    let callee = graph.callee[edge as usize] as usize;
                    waiting[callee] -= 1;
                    if waiting[callee] == 0 {
                        order.push(callee as u32);
                    }
                }
            }
        }
        debug_assert_eq!(order.len(), functions, "the edges that do not push are acyclic");
        if !known_starts {
            fixed.clone_from(&entry);
        }
        let mut numbering =
            Numbering { codes, num_cc, entry, fixed, offsets: Vec::new(), spread: SMALL as u64 };
        self.set_offsets(&mut numbering);
        numbering
    }
}
