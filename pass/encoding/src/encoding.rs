//! The encoding of a call graph: the action of each call site, and the ids of each function.

use crate::edge_code::{EdgeCode, Options, PushReason};
use crate::graph::{CallGraph, EdgeId, FunctionId, Rule};
use crate::number::Numbering;
use crate::reduce::{Reduced, reduce};
use crate::{back, weight};

/// Counts over an encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Functions of the graph.
    pub functions: usize,
    /// Edges of the graph.
    pub edges: usize,
    /// Edges that push because they close a cycle.
    pub back: usize,
    /// Edges that push because ids are too narrow.
    pub cut: usize,
    /// Edges that push because the graph demands it.
    pub required: usize,
    /// Edges that add 0, which need no instrumentation.
    pub zero_edges: usize,
    /// The largest `numCC` of a function; 0 for a graph without functions.
    pub max_num_cc: u64,
}

/// A code for every edge of a call graph such that function, id and pushed pairs name the calling context
/// exactly (the paper, §3, Definition 3).
///
/// Ids of the graph that was encoded index it; others make its methods panic, as indexing a slice does.
#[derive(Clone, Debug)]
pub struct Encoding {
    pub(crate) codes: Vec<EdgeCode>,
    /// Includes the codes of the open node's edges, behind those of calls.
    pub(crate) weights: Vec<f64>,
    /// Caller and callee.
    ends: Vec<(u32, u32)>,
    pub(crate) num_cc: Vec<u64>,
    pub(crate) entry: Vec<bool>,
    pub(crate) fixed: Vec<bool>,
    pub(crate) offsets: Vec<u64>,
    /// The permitted difference of offsets.
    pub(crate) spread: u64,
}

/// The factor of additional expected pushes that is accepted to keep direct calls from pushing for the sake
/// of open calls. Among the measured programs it was either less than 1.1, or more than 10.
const MORE_PUSHES: f64 = 2.0;

/// Encodes a call graph. Takes time and memory near-linear in functions and edges, and no recursion.
///
/// A cycle through the open node can be cut at an open call or at a direct one. The open node makes cycles
/// that no run ever sees, since it takes all targets for one, and estimates say little about how hot its
/// targets are, so cutting at open calls is tried first. If the estimated pushes are many more than with the
/// coldest edges of any kind, those are cut. (perl, small workload: 16 M instructions for the encoding by the
/// first way, 24 M by the second; sqlite3 77 M and 24 M.)
pub fn encode(graph: &CallGraph, options: &Options) -> Encoding {
    let calls = graph.edges();
    let graph = &graph.with_open_edges();
    let weights = weight::edge_weights(graph);
    let required =
        |edge: u32| graph.required_push[graph.callee[edge as usize] as usize] && !graph.is_open_edge(edge);
    let encoded = |direct_first: bool| {
        let pushes = |edge: u32| graph.rule[edge as usize] == Rule::Pushes;
        let back = back::back_edges(graph, &weights, direct_first, |edge| !required(edge) && !pushes(edge));
        let codes: Vec<EdgeCode> = (0..graph.edges() as u32)
            .map(|edge| match (required(edge), back[edge as usize] || pushes(edge)) {
                (true, _) => EdgeCode::Push(PushReason::Required),
                (false, true) => EdgeCode::Push(PushReason::Back),
                (false, false) => EdgeCode::Add(0),
            })
            .collect();
        reduce(graph, &weights, &codes, options)
    };
    // In addition to those that push anyway.
    let pushes = |encoded: &Reduced| -> f64 {
        let codes = encoded.numbering.codes.iter().zip(&weights).zip(&graph.rule);
        let chosen = codes.filter(|((code, _), rule)| code.pushes() && **rule != Rule::Pushes);
        chosen.map(|((_, weight), _)| weight).sum()
    };
    let mut best = encoded(false);
    if graph.open.is_some() {
        let other = encoded(true);
        if pushes(&other) <= MORE_PUSHES * pushes(&best) {
            best = other;
        }
    }
    let Reduced { numbering, offsets, spread, .. } = best;
    let Numbering { mut codes, num_cc, entry, fixed } = numbering;
    codes.truncate(calls);
    let ends = graph.ends().take(calls).collect();
    Encoding { codes, weights, ends, num_cc, entry, fixed, offsets, spread }
}

impl Encoding {
    /// Makes ids the numbers themselves, as the paper has them: each edge adds its addition value.
    pub fn drop_offsets(&mut self) {
        self.offsets.fill(0);
    }

    /// Puts a new function into the middle of each of these calls, which push: ⟨caller, edge if the call has
    /// one⟩. The caller calls it and adds 0; it pushes in the caller's place. So nothing else changes, but
    /// that the new functions come in front of the open node. `graph` must be the graph that was encoded; it
    /// is changed in the same way. Returns the edges of the new calls, whose callees are the new functions.
    ///
    /// # Panics
    ///
    /// When a caller or an edge is not of this graph, or an edge does not push.
    pub fn interpose(
        &mut self,
        graph: &mut CallGraph,
        calls: &[(FunctionId, Option<EdgeId>)],
    ) -> Vec<EdgeId> {
        for &(_, edge) in calls {
            assert!(edge.is_none_or(|edge| self.edge(edge).pushes()), "{edge:?} does not push");
        }
        let at = graph.open.map_or(graph.functions(), |open| open as usize);
        let edges = graph.interpose(calls);
        let of_callers =
            |rows: &[u64]| -> Vec<u64> { calls.iter().map(|(caller, _)| rows[caller.index()]).collect() };
        self.num_cc.splice(at..at, of_callers(&self.num_cc));
        self.offsets.splice(at..at, of_callers(&self.offsets));
        self.entry.splice(at..at, std::iter::repeat_n(false, calls.len()));
        self.fixed.splice(at..at, std::iter::repeat_n(false, calls.len()));
        self.codes.extend(calls.iter().map(|_| EdgeCode::Add(0)));
        // Behind the edges are those of the open node, which are no calls.
        let open = self.weights.split_off(self.ends.len());
        let weight = |edge: Option<EdgeId>| edge.map_or(0.0, |edge| self.weights[edge.index()]);
        let added: Vec<f64> = calls.iter().map(|&(_, edge)| weight(edge)).collect();
        self.weights.extend(added.into_iter().chain(open));
        self.ends = graph.ends().collect();
        edges
    }

    /// The action of the call site.
    pub fn edge(&self, edge: EdgeId) -> EdgeCode {
        self.codes[edge.index()]
    }

    /// How many sub-paths end in the function, at least 1: its ids are 0 up to, but not including, this (the
    /// paper, §4).
    pub fn num_cc(&self, function: FunctionId) -> u64 {
        self.num_cc[function.index()]
    }

    /// The offset of the function, modulo 2⁶⁴: the id that the program keeps is a number below
    /// [`Self::num_cc`] plus this. It is 0 where a sub-path may start of which decoding is not told where it
    /// starts. If it is told ([`Options::known_starts`]), the id is a number plus this minus the offset of
    /// the function where the sub-path starts.
    pub fn offset(&self, function: FunctionId) -> u64 {
        self.offsets[function.index()]
    }

    /// The number that the call site adds, modulo 2⁶⁴, if it does not push: the edge's value plus the
    /// callee's offset minus the caller's.
    pub fn constant(&self, edge: EdgeId) -> Option<u64> {
        let (caller, callee) = self.ends[edge.index()];
        match self.codes[edge.index()] {
            EdgeCode::Add(value) => Some(
                value.wrapping_add(self.offsets[callee as usize]).wrapping_sub(self.offsets[caller as usize]),
            ),
            EdgeCode::Push(_) => None,
        }
    }

    /// Returns whether id 0 in the function means that the sub-path starts there (the dummy in-edge; the
    /// paper, Algorithm 3).
    ///
    /// So it is for the graph's entries, for functions without callers, and for every callee of an edge that
    /// pushes; with [`Options::known_starts`], of the callees of back edges and cuts only for those that no
    /// other edge leads to. If open calls may reach the function ([`CallGraph::is_open`]), ids below the open
    /// node's `numCC` are those of the open node, and 0 is its dummy's.
    pub fn is_entry(&self, function: FunctionId) -> bool {
        self.entry[function.index()]
    }

    /// Estimated executions of the call site, or what a profile has counted: only to be compared; finite, at
    /// least 0.
    pub fn edge_weight(&self, edge: EdgeId) -> f64 {
        self.weights[edge.index()]
    }

    /// Counts over all functions and edges.
    pub fn summary(&self) -> Summary {
        let count = |code| self.codes.iter().filter(|&&c| c == code).count();
        Summary {
            functions: self.num_cc.len(),
            edges: self.codes.len(),
            back: count(EdgeCode::Push(PushReason::Back)),
            cut: count(EdgeCode::Push(PushReason::Cut)),
            required: count(EdgeCode::Push(PushReason::Required)),
            zero_edges: (0..self.codes.len() as u32)
                .filter(|&edge| self.constant(EdgeId::new(edge)) == Some(0))
                .count(),
            max_num_cc: self.num_cc.iter().copied().max().unwrap_or(0),
        }
    }
}
