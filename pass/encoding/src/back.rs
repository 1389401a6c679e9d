//! Back edges: which edges of the recursive part push, so that the rest is acyclic (the paper, §5, Algorithm
//! 3).
//!
//! The paper takes whatever a depth-first search meets as a back edge. That can put a push on a hot edge only
//! because a cold one was met first, which DACCE (§6.4, perlbench and xalancbmk) measured to be expensive.
//! What we want is a feedback arc set of small weight, that is, few executed pushes; the smallest is NP-hard
//! to find.
//!
//! Here edges are added to an acyclic graph one by one, hottest first, and one that would close a cycle
//! becomes a back edge. So a back edge always closes a cycle of edges at least about as hot as itself, and no
//! back edge is needless. A topological order is kept up to date as edges come (Pearce and Kelly, "A dynamic
//! topological sort algorithm for directed acyclic graphs", 2006): an edge that agrees with it costs nothing,
//! another one a search between its ends. The order begins as a reverse postorder from the entries, and among
//! edges of about the same weight (one power of two) those that agree with it go first, so that where weights
//! say nothing the choice is the paper's.
//!
//! The searches have a budget proportional to the graph. Once it is spent, which takes tens of thousands of
//! edges in one tangle, the edges left over, the coldest, become back edges unless they agree with the order.
//! This keeps the whole near-linear.
//!
//! The common alternative, the greedy order of Eades, Lin and Smyth ("A fast and effective heuristic for the
//! feedback arc set problem", 1993), with weights and with needless back edges undone afterwards, was tried
//! on the graphs of `examples/large.rs`: its back edges were 10 to 40 % heavier, for more code.

use std::cmp::Reverse;

use crate::graph::{CallGraph, Rule};
use crate::order::Components;

/// How much hotter an open call is taken to be than its estimate, where only the coldest edges of a cycle
/// push. What open calls reach is spread over all functions whose address is taken, while most calls go to
/// few, and these call through pointers in turn. (Frequencies taken times random factors, in 8 ways: calls of
/// profiles times the instructions of additions and pushes, without and with it, in % of the program's: vim
/// 2.92 and 2.78, xz 0.50 and 0.26, sqlite3 1.52 and 1.50; from 16 to 10³⁰ about the same. tar and zstd
/// differ by less than 0.01, and the other thirteen not at all.)
const OPEN_HEAT: f64 = 16.0;

/// Steps that searches may take, for each function and edge of the graph.
const BUDGET_PER_ELEMENT: usize = 16;
/// Steps that searches may take in any graph, however small.
const BUDGET_MIN: usize = 10_000_000;

/// For each edge whether it is a back edge. `keep` tells the edges that do not push already; only they can
/// be. `direct_first`: open calls come last, however hot, so that no other edge becomes a back edge for their
/// sake.
pub(crate) fn back_edges(
    graph: &CallGraph,
    weights: &[f64],
    direct_first: bool,
    keep: impl Fn(u32) -> bool,
) -> Vec<bool> {
    let components = Components::new(graph, &keep);
    let mut position = vec![0; graph.functions()];
    for (&function, at) in components.order.iter().zip(0..) {
        position[function as usize] = at;
    }
    let ends = |edge: u32| (graph.caller[edge as usize] as usize, graph.callee[edge as usize] as usize);
    let mut back = vec![false; graph.edges()];
    let mut recursive = Vec::new();
    for edge in 0..graph.edges() as u32 {
        let (caller, callee) = ends(edge);
        if keep(edge) && components.of[caller] == components.of[callee] {
            if caller == callee {
                back[edge as usize] = true;
            } else {
                recursive.push(edge);
            }
        }
    }
    recursive.sort_by_cached_key(|&edge| {
        let (caller, callee) = ends(edge);
        let to_open = Some(callee as u32) == graph.open;
        let estimated = graph.counted[caller].is_none();
        let heat = weights[edge as usize] * if to_open && estimated { OPEN_HEAT } else { 1.0 };
        // Bits of floats that are not negative are in the order of the floats, exponent first.
        let bits = heat.to_bits();
        // The edges from the open node are no call sites, and cannot push: they go first, with those that
        // must not, and close no cycle among themselves.
        let first = !graph.is_open_edge(edge) && graph.rule[edge as usize] != Rule::Adds;
        let last = direct_first && to_open;
        (first, last, Reverse(bits >> 52), position[caller] > position[callee], Reverse(bits), edge)
    });
    let budget = BUDGET_PER_ELEMENT.saturating_mul(graph.functions() + graph.edges()).max(BUDGET_MIN);
    let places = position.into_iter().map(|position| Place { position, mark: 0 }).collect();
    let mut order = Order {
        callees: Neighbours::with_room(graph.functions(), recursive.iter().map(|&edge| ends(edge).0)),
        callers: Neighbours::with_room(graph.functions(), recursive.iter().map(|&edge| ends(edge).1)),
        search: Search { places, round: 0, budget },
    };
    for edge in recursive {
        let (caller, callee) = ends(edge);
        back[edge as usize] = !order.insert(caller, callee);
    }
    back
}

/// Neighbours of each function by the edges added so far, in one flat array with room for all edges.
struct Neighbours {
    start: Vec<u32>,
    len: Vec<u32>,
    items: Vec<u32>,
}

impl Neighbours {
    /// Room for as many neighbours of a function as it occurs in `functions`.
    fn with_room(count: usize, functions: impl Iterator<Item = usize>) -> Self {
        let mut start = vec![0; count];
        for function in functions {
            start[function] += 1;
        }
        let mut all = 0;
        for room in &mut start {
            all += std::mem::replace(room, all);
        }
        Self { start, len: vec![0; count], items: vec![0; all as usize] }
    }

    fn push(&mut self, function: usize, neighbour: usize) {
        self.items[(self.start[function] + self.len[function]) as usize] = neighbour as u32;
        self.len[function] += 1;
    }

    fn of(&self, function: u32) -> &[u32] {
        let start = self.start[function as usize] as usize;
        &self.items[start..start + self.len[function as usize] as usize]
    }
}

/// Where a function stands, and the last round of search that met it; side by side, as searches read both.
struct Place {
    position: u32,
    mark: u32,
}

/// An acyclic graph with a topological order of it.
struct Order {
    callees: Neighbours,
    callers: Neighbours,
    search: Search,
}

/// Places of functions, and searches among them.
struct Search {
    places: Vec<Place>,
    round: u32,
    budget: usize,
}

impl Order {
    /// Adds an edge, unless that would close a cycle, or there is no budget left to find out.
    fn insert(&mut self, caller: usize, callee: usize) -> bool {
        let inserted = self.agrees(caller, callee) || self.reorder(caller, callee).is_some();
        if inserted {
            self.callees.push(caller, callee);
            self.callers.push(callee, caller);
        }
        inserted
    }

    /// Returns whether the order has the caller in front of the callee.
    fn agrees(&self, caller: usize, callee: usize) -> bool {
        self.search.places[caller].position <= self.search.places[callee].position
    }

    /// Brings the caller in front of the callee. None if there is a way from the callee to it, or no budget
    /// left.
    ///
    /// What is between the two and reached from the callee must go behind what is between them and reaches
    /// the caller. If the first includes the caller, there is a cycle.
    fn reorder(&mut self, caller: usize, callee: usize) -> Option<()> {
        let Self { callees, callers, search } = self;
        let (from, to) = (search.places[callee].position, search.places[caller].position);
        if search.budget == 0 {
            return None;
        }
        search.round += 1;
        let mut behind = search.reach(callees, callee, |at| at <= to)?;
        if search.places[caller].mark == search.round {
            return None;
        }
        let mut moved = search.reach(callers, caller, |at| at >= from)?;
        let position = |&function: &u32| search.places[function as usize].position;
        moved.sort_unstable_by_key(position);
        behind.sort_unstable_by_key(position);
        moved.append(&mut behind);
        let mut free: Vec<u32> = moved.iter().map(position).collect();
        free.sort_unstable();
        for (&function, position) in moved.iter().zip(free) {
            search.places[function as usize].position = position;
        }
        Some(())
    }
}

impl Search {
    /// Marks and lists what can be reached from a function within the bounds, or gives up when the budget is
    /// spent.
    fn reach(
        &mut self,
        neighbours: &Neighbours,
        start: usize,
        within: impl Fn(u32) -> bool,
    ) -> Option<Vec<u32>> {
        self.places[start].mark = self.round;
        let mut found = vec![start as u32];
        let mut next = 0;
        while next < found.len() {
            let steps = neighbours.of(found[next]);
            next += 1;
            self.budget = self.budget.saturating_sub(1 + steps.len());
            if self.budget == 0 {
                return None;
            }
            for &function in steps {
                let place = &mut self.places[function as usize];
                if place.mark != self.round && within(place.position) {
                    place.mark = self.round;
                    found.push(function);
                }
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However early the budget is spent, the edges added agree with the order.
    #[test]
    fn order_holds_on_any_budget() {
        const FUNCTIONS: usize = 40;
        let edges: Vec<(usize, usize)> = (0..400usize)
            .map(|n| (n * n * 7 % 41 % FUNCTIONS, (n * 31 + n / 40) % FUNCTIONS))
            .filter(|(caller, callee)| caller != callee)
            .collect();
        let added = |budget: usize| {
            let places = (0..FUNCTIONS as u32).map(|position| Place { position, mark: 0 }).collect();
            let mut order = Order {
                callees: Neighbours::with_room(FUNCTIONS, edges.iter().map(|&(caller, _)| caller)),
                callers: Neighbours::with_room(FUNCTIONS, edges.iter().map(|&(_, callee)| callee)),
                search: Search { places, round: 0, budget },
            };
            let added: Vec<_> =
                edges.iter().filter(|&&(caller, callee)| order.insert(caller, callee)).collect();
            for &&(caller, callee) in &added {
                assert!(
                    order.search.places[caller].position < order.search.places[callee].position,
                    "budget {budget}"
                );
            }
            let mut positions: Vec<u32> = order.search.places.iter().map(|place| place.position).collect();
            positions.sort_unstable();
            assert!(positions.iter().copied().eq(0..FUNCTIONS as u32), "budget {budget}");
            (added.len(), order.search.budget)
        };
        for budget in 0..3000 {
            added(budget);
        }
        assert_eq!(added(0).0, edges.iter().filter(|(caller, callee)| caller < callee).count());
        assert!(added(1_000_000).1 > 0, "the largest budget is enough");
        assert!(added(2999).1 == 0, "the small ones are not");
    }
}
