//! Which additions are needed (the paper, §6, Algorithm 4).

use super::edge_code::{HybridCode, HybridOptions};
use super::encoding::Hybrid;
use super::paths::Paths;
use super::region::Region;
use super::stack::{Base, Stack};
use crate::edge_code::EdgeCode;
use crate::encoding::Encoding;
use crate::graph::{CallGraph, FunctionId};
use crate::groups::Groups;
use crate::offset::{self, Forest};
use crate::weight;

/// Decides for every edge of an encoding whether its addition is needed. `encoding` must be one of `graph`.
///
/// Takes time and memory near-linear in functions and edges, for given options.
///
/// # Panics
///
/// When `stack` is of a graph of another size.
pub fn hybrid(graph: &CallGraph, encoding: &Encoding, stack: &Stack, options: &HybridOptions) -> Hybrid {
    let calls = graph.edges();
    assert_eq!((calls, graph.functions()), (stack.frame_offsets.len(), stack.unknown_base.len()));
    let graph = &graph.with_open_edges();
    let input = Input::new(graph, encoding, stack);
    let by_number = input.by_number(stack);
    let functions = 0..graph.functions();
    let bases = functions.map(|f| Base::new(encoding.entry[f], input.unknown_base[f])).collect();
    let hottest_first = weight::hottest_first(graph, &encoding.weights);
    let offsets =
        |codes: &[EdgeCode]| offset::offsets(graph, &hottest_first, codes, &encoding.fixed, encoding.spread);
    let mut choice = Choice {
        options,
        by_number,
        in_forest: offsets(&input.codes).1,
        forest: Forest::new(&encoding.fixed, encoding.spread),
        codes: input.codes.iter().map(|&code| HybridCode::from(code)).collect(),
        regions: vec![Region::default(); graph.functions()],
        shared: vec![false; graph.functions()],
        bases,
        input: &input,
    };
    for &function in &input.order {
        choice.choose(function as usize);
    }
    let Choice { codes, regions, shared, bases, .. } = choice;
    let Input { frame_offsets, in_edges, codes: numbered, .. } = input;
    let offsets = match options.guards {
        true => vec![0; graph.functions()],
        false => {
            let valued = std::iter::zip(&codes, numbered).map(|(&code, numbered)| match code {
                HybridCode::Add(value) => EdgeCode::Add(value),
                _ => numbered,
            });
            offsets(&valued.collect::<Vec<_>>()).0
        }
    };
    let callers = graph.caller.clone();
    let paths = Paths { codes, frame_offsets, callers, in_edges, regions, bases, shared };
    Hybrid { paths, callees: graph.callee.clone(), offsets, calls: calls as u32 }
}

/// The graph with the open node's edges, and the facts about it.
struct Input<'a> {
    graph: &'a CallGraph,
    encoding: &'a Encoding,
    /// The codes of the encoding's edges. The open node's edges, which add nothing, come behind them.
    codes: Vec<EdgeCode>,
    frame_offsets: Vec<Option<u32>>,
    unknown_base: Vec<bool>,
    /// Edges of each function that add, by ascending value.
    in_edges: Groups,
    out_edges: Groups,
    order: Vec<u32>,
}

impl<'a> Input<'a> {
    fn new(graph: &'a CallGraph, encoding: &'a Encoding, stack: &Stack) -> Self {
        let mut codes = encoding.codes.clone();
        codes.resize(graph.edges(), EdgeCode::Add(0));
        let mut frame_offsets = stack.frame_offsets.clone();
        frame_offsets.resize(graph.edges(), Some(0));
        let mut adds: Vec<(u64, u32)> = Vec::with_capacity(codes.len());
        for (&code, edge) in codes.iter().zip(0..) {
            if let EdgeCode::Add(value) = code {
                adds.push((value, edge));
            }
        }
        adds.sort_unstable();
        let caller = |&(_, edge): &(u64, u32)| (graph.caller[edge as usize], edge);
        let callee = |&(_, edge): &(u64, u32)| (graph.callee[edge as usize], edge);
        let in_edges = Groups::new(graph.functions(), adds.iter().map(callee));
        let out_edges = Groups::new(graph.functions(), adds.iter().map(caller));
        let order = breadth_first(graph, &in_edges, &out_edges);
        let mut input = Self {
            graph,
            encoding,
            codes,
            frame_offsets,
            unknown_base: stack.unknown_base.clone(),
            in_edges,
            out_edges,
            order,
        };
        input.spread_unknown_bases();
        input
    }

    /// The callees of edges that add.
    fn callees(&self, function: u32) -> impl Iterator<Item = usize> + '_ {
        self.out_edges.of(function as usize).iter().map(|&edge| self.graph.callee[edge as usize] as usize)
    }

    /// Stack offsets count from the caller's frame where a sub-path begins, so that one must be known, too.
    fn spread_unknown_bases(&mut self) {
        let pushes = std::iter::zip(&self.codes, &self.frame_offsets).zip(&self.graph.callee);
        for ((_, _), &callee) in pushes.filter(|((code, frame), _)| code.pushes() && frame.is_none()) {
            self.unknown_base[callee as usize] = true;
        }
        // The dummy in-edge of functions that open calls may reach is the open node's.
        if let Some(open) = self.graph.open_node() {
            let functions = (0..self.graph.functions() as u32).map(FunctionId::new);
            let mut reached = functions.filter(|&function| self.graph.is_open(function));
            self.unknown_base[open.index()] |= reached.any(|function| self.unknown_base[function.index()]);
        }
    }

    /// Functions whose contexts must be told apart by numbers alone.
    fn by_number(&self, stack: &Stack) -> Vec<bool> {
        let mut by_number = stack.numbers_only.clone();
        // Below a call whose frame offset is unknown, numbers alone tell the contexts above apart.
        let mut varying = stack.varying.clone();
        for &function in &self.order {
            if varying[function as usize] {
                for callee in self.callees(function) {
                    varying[callee] = true;
                    by_number[callee] = true;
                }
            }
        }
        for (frame, &caller) in self.frame_offsets.iter().zip(&self.graph.caller) {
            by_number[caller as usize] |= frame.is_none();
        }
        for &function in self.order.iter().rev() {
            by_number[function as usize] |= self.callees(function).any(|callee| by_number[callee]);
        }
        // The same holds below a known start whose base is unknown: edges from elsewhere bring other stack
        // offsets.
        let unknown = std::iter::zip(&self.unknown_base, &self.encoding.fixed);
        let mut below: Vec<bool> = unknown.map(|(&unknown, &fixed)| unknown && !fixed).collect();
        for &function in &self.order {
            if below[function as usize] {
                by_number[function as usize] = true;
                self.callees(function).for_each(|callee| below[callee] = true);
            }
        }
        by_number
    }
}

/// The functions in an order in which callers, by edges that add, come before callees. Each function comes
/// directly behind the last of its callers, and the other callees of these. The order decides which edges
/// become free, so it is not petgraph's, which goes deep first.
fn breadth_first(graph: &CallGraph, in_edges: &Groups, out_edges: &Groups) -> Vec<u32> {
    let functions = 0..graph.functions();
    let mut waiting: Vec<usize> = functions.map(|function| in_edges.of(function).len()).collect();
    let mut order: Vec<u32> = (0..).zip(&waiting).filter(|(_, n)| **n == 0).map(|(f, _)| f).collect();
    let mut done = 0;
    while let Some(&function) = order.get(done) {
        done += 1;
        for callee in out_edges.of(function as usize).iter().map(|&edge| graph.callee[edge as usize]) {
            waiting[callee as usize] -= 1;
            if waiting[callee as usize] == 0 {
                order.push(callee);
            }
        }
    }
    debug_assert_eq!(order.len(), graph.functions(), "the edges that add are acyclic");
    order
}

/// The codes of edges under construction: those of the functions so far have been chosen.
struct Choice<'a> {
    input: &'a Input<'a>,
    options: &'a HybridOptions,
    by_number: Vec<bool>,
    /// Edges that offsets make free whatever their values are.
    in_forest: Vec<bool>,
    /// The offsets that are known so far.
    forest: Forest,
    codes: Vec<HybridCode>,
    regions: Vec<Region>,
    shared: Vec<bool>,
    bases: Vec<Base>,
}

impl Choice<'_> {
    /// Chooses the codes of a function's in-edges.
    fn choose(&mut self, function: usize) {
        let Input { graph, ref in_edges, ref frame_offsets, .. } = *self.input;
        let first = in_edges.of(function).first();
        let through_open = first.is_some_and(|&edge| graph.is_open_edge(edge));
        let mut region = if through_open { Region::default() } else { Region::begun(self.bases[function]) };
        // An open call may reach a function of another module, which recognises the call by the id.
        let fixed = self.by_number[function] || graph.open == Some(function as u32);
        for edge in in_edges.of(function).iter().map(|&edge| edge as usize) {
            let code = if fixed { self.codes[edge] } else { self.cheapest(edge, &region) };
            let caller = graph.caller[edge];
            if let (HybridCode::Add(value), true) = (code, self.in_forest[edge]) {
                self.forest.join(caller, function as u32, value.wrapping_neg());
            }
            self.codes[edge] = code;
            let above = &self.regions[caller as usize];
            self.shared[function] |= self.shared[caller as usize] || region.shares_ids(above, code);
            region.extend(above.through(code, frame_offsets[edge]));
        }
        self.regions[function] = region.bounded(self.options);
    }

    /// The cheapest code that brings in no context that the region has already.
    fn cheapest(&mut self, edge: usize, region: &Region) -> HybridCode {
        let HybridCode::Add(value) = self.codes[edge] else { unreachable!("in-edges add") };
        let (caller, callee) = (self.input.graph.caller[edge], self.input.graph.callee[edge]);
        // The value that makes the edge free, if the offsets of both ends are known.
        let (one, other) = (self.forest.find(caller), self.forest.find(callee));
        let difference = one.1.wrapping_sub(other.1);
        let free = (one.0 == other.0 && !self.options.guards).then_some(HybridCode::Add(difference));
        let guarded = self.options.guards.then_some(HybridCode::Guarded(value));
        let wanted = [free, Some(HybridCode::Add(0)), guarded].into_iter().flatten();
        let above = &self.regions[caller as usize];
        let fits = |&code: &HybridCode| {
            let possible = match code {
                // Ids stay below those of the in-edges that follow.
                HybridCode::Add(wanted) => wanted <= value,
                _ => value > 0,
            };
            possible && region.conflict(above.through(code, self.input.frame_offsets[edge])).is_none()
        };
        wanted.into_iter().find(fits).unwrap_or(HybridCode::Add(value))
    }
}
