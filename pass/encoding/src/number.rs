//! Numbering (the paper, §4, Algorithm 1, with the dummy in-edges of §5, Algorithm 3), and cuts where ids are
//! too few (§7).
//!
//! A function's in-edges come hottest first. Where not all values fit in 31 bits, those of callers with few
//! contexts come before, as many as fit: a larger value costs an instruction more, and a register. Which
//! edges need no addition is not decided here but by the offsets (`offset`). (If the hottest edge always came
//! first, 89 % of the additions that sqlite3 executes would have large values; with this order 10 % have. If the
//! callers with the fewest contexts always came first, perl would execute 18.3 M instructions for the encoding
//! of its small workload, and vim 40.5 M; with this order they execute 17.1 M and 40.3 M.)
//!
//! Where a function would have more contexts than ids can number, edges must be cut into pushes. A function
//! just below the limit makes its callees overflow in turn, so a function that overflows is cut down to a
//! smaller budget, hotter edges being kept before colder ones. Module `reduce` says what else is cut. Functions in
//! front of edges that must add have limits of their own, so that no such edge has to be cut.

use std::cmp::Reverse;

use crate::edge_code::{EdgeCode, Options, PushReason};
use crate::graph::{CallGraph, Rule};
use crate::groups::Groups;
use crate::order;

/// Up to here, an instruction of the machine holds a value, and as much again for the offsets.
pub(crate) const SMALL: u128 = 1 << 30;
pub(crate) const CUT: EdgeCode = EdgeCode::Push(PushReason::Cut);

/// Numbers of functions, and codes of edges.
pub(crate) struct Numbering {
    pub(crate) codes: Vec<EdgeCode>,
    pub(crate) num_cc: Vec<u64>,
    /// Functions with the dummy in-edge.
    pub(crate) entry: Vec<bool>,
    /// Functions whose offset is 0.
    pub(crate) fixed: Vec<bool>,
}

/// Which edges are cut besides those that ids are too few for.
#[derive(Clone, Copy)]
pub(crate) struct Threshold {
    /// Edges with less weight, which bring in many contexts.
    pub(crate) weight: f64,
    /// Only where that makes no function an entry that has an edge with more weight.
    pub(crate) spare: bool,
}

/// A graph to be numbered.
pub(crate) struct Input<'a> {
    pub(crate) graph: &'a CallGraph,
    /// Expected executions of each edge.
    pub(crate) weights: &'a [f64],
    /// [`EdgeCode::Add`] for each edge that does not push already.
    codes: &'a [EdgeCode],
    known_starts: bool,
    limits: Limits,
    /// How many contexts each function can have.
    limit: Vec<u128>,
    starts: Starts,
    /// In-edges of each function, the open node's first, then hottest first.
    in_edges: Groups,
    /// Functions, callers by edges that add before callees.
    order: Vec<u32>,
}

/// How many contexts functions can have.
struct Limits {
    /// As many as ids can number.
    all: u128,
    /// By this power of two a function is cut down that would have more than its limit. The open node never
    /// has more than that, so as to leave room in every function that open calls may reach.
    down: u32,
    /// An edge that brings in no more is not worth a cut.
    many: u128,
}

impl Limits {
    fn new(id_bits: u32) -> Self {
        let id_bits = id_bits.clamp(1, 64);
        let all = u128::from(if id_bits == 64 { u64::MAX } else { 1 << id_bits });
        Self { all, down: id_bits / 4, many: all >> (id_bits * 3 / 4) }
    }

    /// How many contexts each function can have, so that there is room for all edges that must add.
    ///
    /// With nothing but these edges, and one context that comes into each function in another way, if any
    /// may, function `f` has `a(f)` contexts. Let `r(f)` be the smallest quotient of all ids and `a` of what
    /// such edges lead to from `f` on. Then `r(f) * a(f)` contexts leave room: `r` does not shrink along such
    /// an edge, so the callers of `f` by them bring in no more than `r(f)` times what they bring into `a(f)`.
    fn of_functions(
        &self,
        graph: &CallGraph,
        in_edges: &Groups,
        order: &[u32],
        starts: &Starts,
    ) -> Vec<u128> {
        let mut alone = vec![0_u128; graph.functions()];
        for function in order.iter().map(|&function| function as usize) {
            let callers = in_edges.of(function).iter().filter(|&&edge| starts.must_add[edge as usize]);
            let bring = callers.map(|&edge| alone[graph.caller[edge as usize] as usize]);
            alone[function] = bring.fold(u128::from(starts.otherwise[function]), u128::saturating_add).max(1);
        }
        let mut times: Vec<u128> = alone.iter().map(|alone| self.all / alone).collect();
        for function in order.iter().rev().map(|&function| function as usize) {
            let own = times[function];
            for &edge in in_edges.of(function) {
                if starts.must_add[edge as usize] || graph.is_open_edge(edge) {
                    let caller = &mut times[graph.caller[edge as usize] as usize];
                    *caller = own.min(*caller);
                }
            }
        }
        if let Some(open) = graph.open {
            let times = &mut times[open as usize];
            *times = (*times).min(self.all >> self.down);
        }
        alone.iter().zip(times).map(|(alone, times)| alone.saturating_mul(times).clamp(1, self.all)).collect()
    }
}

/// The ways to enter functions.
struct Starts {
    /// Functions with the dummy in-edge before anything is cut.
    entry: Vec<bool>,
    /// Functions whose offset is 0.
    fixed: Vec<bool>,
    /// Functions that are entered otherwise than by edges that must add.
    otherwise: Vec<bool>,
    /// For each edge, whether it must add and does.
    must_add: Vec<bool>,
}

impl Starts {
    fn new(graph: &CallGraph, in_edges: &Groups, codes: &[EdgeCode], known_starts: bool) -> Self {
        let rules = codes.iter().zip(&graph.rule);
        let must_add: Vec<bool> = rules.map(|(&code, &rule)| adds(code) && rule == Rule::Adds).collect();
        let (mut entry, mut fixed) = (graph.entry.clone(), graph.entry.clone());
        let mut otherwise = Vec::with_capacity(graph.functions());
        for function in 0..graph.functions() {
            let callers = in_edges.of(function);
            let added = callers.iter().filter(|&&edge| adds(codes[edge as usize])).count();
            // For the other functions, decoding may know where the sub-path starts.
            let required = |edge: &u32| codes[*edge as usize] == EdgeCode::Push(PushReason::Required);
            fixed[function] |= callers.is_empty() || callers.iter().any(required);
            entry[function] |= fixed[function] || added == 0 || added < callers.len() && !known_starts;
            let open_to_choice = |edge: &u32| adds(codes[*edge as usize]) && !must_add[*edge as usize];
            otherwise.push(entry[function] || callers.iter().any(open_to_choice));
        }
        Self { entry, fixed, otherwise, must_add }
    }
}

fn adds(code: EdgeCode) -> bool {
    matches!(code, EdgeCode::Add(_))
}

impl<'a> Input<'a> {
    /// `codes` has [`EdgeCode::Add`] for all edges but those that push, and these edges must be acyclic.
    pub(crate) fn new(
        graph: &'a CallGraph,
        weights: &'a [f64],
        hottest_first: &[u32],
        codes: &'a [EdgeCode],
        options: &Options,
    ) -> Self {
        // The open node's ids come first in the functions that open calls may reach.
        let open = |is: bool| hottest_first.iter().filter(move |&&edge| graph.is_open_edge(edge) == is);
        let pairs = open(true).chain(open(false)).map(|&edge| (graph.callee[edge as usize], edge));
        let in_edges = Groups::new(graph.functions(), pairs);
        let calls = graph.ends().zip(codes).filter(|&(_, &code)| adds(code)).map(|(ends, _)| ends);
        let order = order::topological(graph.functions(), calls).expect("the edges that add are acyclic");
        let limits = Limits::new(options.id_bits);
        let starts = Starts::new(graph, &in_edges, codes, options.known_starts);
        let limit = limits.of_functions(graph, &in_edges, &order, &starts);
        let known_starts = options.known_starts;
        Self { graph, weights, codes, known_starts, limits, limit, starts, in_edges, order }
    }

    /// Gives every edge its addition value, or cuts it, but leaves edges that push already.
    pub(crate) fn number(&self, threshold: Threshold) -> Numbering {
        let mut draft = Draft::new(self, threshold);
        let mut incoming: Vec<u32> = Vec::new();
        for &function in &self.order {
            let function = function as usize;
            incoming.clear();
            draft.take(function, &mut incoming);
            draft.fit(function, &mut incoming);
            draft.sort(function, &mut incoming);
            draft.number(function, &incoming);
        }
        let mut numbering = draft.numbering;
        if !self.known_starts {
            numbering.fixed.clone_from(&numbering.entry);
        }
        numbering
    }
}

/// A numbering in the making: of the functions so far, in topological order.
struct Draft<'a> {
    input: &'a Input<'a>,
    threshold: Threshold,
    numbering: Numbering,
}

impl<'a> Draft<'a> {
    fn new(input: &'a Input<'a>, threshold: Threshold) -> Self {
        let numbering = Numbering {
            codes: input.codes.to_vec(),
            num_cc: vec![0; input.graph.functions()],
            entry: input.starts.entry.clone(),
            fixed: input.starts.fixed.clone(),
        };
        Self { input, threshold, numbering }
    }

    /// The number of contexts that an edge brings in.
    fn contexts(&self, edge: u32) -> u128 {
        u128::from(self.numbering.num_cc[self.input.graph.caller[edge as usize] as usize])
    }

    /// The number of contexts that the dummy in-edge brings in. If open calls may reach the function, it is
    /// the open node's.
    fn dummy(&self, function: usize) -> u128 {
        let first = self.input.in_edges.of(function).first();
        let open = first.is_some_and(|&edge| self.input.graph.is_open_edge(edge));
        u128::from(self.numbering.entry[function] && !open)
    }

    /// Cuts an in-edge. Unless decoding knows where the sub-path starts, an id has to say so.
    fn cut(&mut self, function: usize, edge: u32) {
        self.numbering.codes[edge as usize] = CUT;
        self.numbering.entry[function] |= !self.input.known_starts;
    }

    /// Lists the in-edges that add, and cuts those below the threshold.
    fn take(&mut self, function: usize, incoming: &mut Vec<u32>) {
        let Input { graph, weights, ref in_edges, ref limits, ref starts, .. } = *self.input;
        let Threshold { weight, spare } = self.threshold;
        let edges = in_edges.of(function);
        let hottest = edges.first().map_or(0.0, |&edge| weights[edge as usize]);
        let spared = spare && !self.numbering.entry[function] && hottest >= weight;
        for &edge in edges.iter().filter(|&&edge| adds(self.input.codes[edge as usize])) {
            let stays = graph.is_open_edge(edge) || starts.must_add[edge as usize];
            let cold = weights[edge as usize] < weight && !spared && !stays;
            if cold && self.contexts(edge) > limits.many {
                self.cut(function, edge);
            } else {
                incoming.push(edge);
            }
        }
    }

    /// Cuts edges for which ids are too few.
    fn fit(&mut self, function: usize, incoming: &mut Vec<u32>) {
        let Input { graph, ref limits, ref limit, ref starts, .. } = *self.input;
        let limit = limit[function];
        // Fewer than 2³² numbers below 2⁶⁴: the sum fits.
        let sum = self.dummy(function) + incoming.iter().map(|&edge| self.contexts(edge)).sum::<u128>();
        if sum <= limit {
            return;
        }
        // At least one edge is cut.
        self.numbering.entry[function] |= !self.input.known_starts;
        // Edges that must not push take their ids first, the open node's before all others.
        let may_push = |edge: u32| !graph.is_open_edge(edge) && !starts.must_add[edge as usize];
        incoming.sort_by_key(|&edge| (!graph.is_open_edge(edge), may_push(edge)));
        let is_open = graph.open == Some(function as u32);
        let mut used = self.dummy(function);
        incoming.retain(|&edge| {
            let room = if may_push(edge) && !is_open { limit >> limits.down } else { limit };
            let fits = used + self.contexts(edge) <= room;
            if fits {
                used += self.contexts(edge);
            } else {
                self.cut(function, edge);
            }
            fits
        });
    }

    /// Where not all values are small, puts those edges first that have few contexts, as many as get small
    /// values.
    fn sort(&self, function: usize, incoming: &mut [u32]) {
        let mut end = self.dummy(function);
        if end + incoming.iter().map(|&edge| self.contexts(edge)).sum::<u128>() <= SMALL {
            return;
        }
        let closed = |edge| !self.input.graph.is_open_edge(edge);
        incoming.sort_by_key(|&edge| (closed(edge), self.contexts(edge)));
        let small = incoming.iter().take_while(|&&edge| {
            end += self.contexts(edge);
            end <= SMALL
        });
        let small = small.count();
        // Bits of floats that are not negative are in the order of the floats.
        let hot = |edge: u32| Reverse(self.input.weights[edge as usize].to_bits());
        incoming[small..].sort_by_key(|&edge| (closed(edge), hot(edge), edge));
    }

    /// Numbers the contexts, one in-edge behind the other.
    fn number(&mut self, function: usize, incoming: &[u32]) {
        self.numbering.entry[function] |= incoming.is_empty();
        let mut next = self.dummy(function);
        for &edge in incoming {
            self.numbering.codes[edge as usize] = EdgeCode::Add(next as u64); // below the limit
            next += self.contexts(edge);
        }
        self.numbering.num_cc[function] = next as u64; // at most the limit
    }
}
