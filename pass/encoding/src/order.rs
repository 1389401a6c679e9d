//! Strongly connected components and orders of functions, by petgraph.
//!
//! Paths of call graphs can be as long as there are functions. So nothing here may recurse: components are
//! Kosaraju's (petgraph's `tarjan_scc` recurses), and both orders come from searches with a stack of their
//! own. (Components by hand took a sixth of the time, at 10⁶ edges 0.05 s in place of 0.35 s; the whole
//! encoding of such a graph takes 10 s.)

use petgraph::algo::{kosaraju_scc, toposort};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::DfsPostOrder;

use crate::graph::CallGraph;

/// The component of each function, and an order to visit functions in.
pub(crate) struct Components {
    /// Component of each function.
    pub(crate) of: Vec<u32>,
    /// All functions in reverse postorder of a depth-first search that begins at the entries: callers before
    /// callees between components, and few edges lead back within one.
    pub(crate) order: Vec<u32>,
}

/// Returns for each edge of a graph whether it lies on a cycle.
pub fn edges_on_cycles(graph: &CallGraph) -> Vec<bool> {
    let functions = digraph(graph.functions(), graph.ends());
    let of = components(&functions);
    graph.ends().map(|(caller, callee)| of[caller as usize] == of[callee as usize]).collect()
}

impl Components {
    /// The components of the graph that consists of the edges that `keep` accepts.
    pub(crate) fn new(graph: &CallGraph, keep: impl Fn(u32) -> bool) -> Self {
        let kept = graph.ends().zip(0..).filter(|&(_, edge)| keep(edge)).map(|(ends, _)| ends);
        let functions = digraph(graph.functions(), kept);
        let mut search = DfsPostOrder::empty(&functions);
        let mut order = Vec::with_capacity(graph.functions());
        for entries in [true, false] {
            for start in functions.node_indices().filter(|start| graph.entry[start.index()] == entries) {
                search.move_to(start);
                while let Some(function) = search.next(&functions) {
                    order.push(function.index() as u32);
                }
            }
        }
        order.reverse();
        Self { of: components(&functions), order }
    }
}

/// The functions in an order in which callers come before callees.
///
/// # Errors
///
/// If there are cycles, the smallest function on one.
pub(crate) fn topological(
    functions: usize,
    calls: impl Iterator<Item = (u32, u32)>,
) -> Result<Vec<u32>, u32> {
    let graph = digraph(functions, calls);
    match toposort(&graph, None) {
        Ok(order) => Ok(order.into_iter().map(|function| function.index() as u32).collect()),
        Err(_) => {
            let components = kosaraju_scc(&graph);
            let cycles = components.iter().filter(|scc| scc.len() > 1 || graph.contains_edge(scc[0], scc[0]));
            let smallest = cycles.flatten().min().expect("what has no topological order has a cycle");
            Err(smallest.index() as u32)
        }
    }
}

/// Component of each function.
fn components(functions: &DiGraph<(), ()>) -> Vec<u32> {
    let mut of = vec![0; functions.node_count()];
    for (component, number) in kosaraju_scc(functions).into_iter().zip(0..) {
        component.into_iter().for_each(|function| of[function.index()] = number);
    }
    of
}

/// petgraph's form of a graph of calls. Searches take the calls of a function in the order given.
fn digraph(functions: usize, calls: impl Iterator<Item = (u32, u32)>) -> DiGraph<(), ()> {
    let mut graph = DiGraph::with_capacity(functions, calls.size_hint().1.unwrap_or(0));
    (0..functions).for_each(|_| _ = graph.add_node(()));
    graph.extend_with_edges(calls.map(|(caller, callee)| (NodeIndex::from(caller), NodeIndex::from(callee))));
    graph
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::FunctionId;

    fn graph(functions: u32, calls: impl IntoIterator<Item = (u32, u32)>) -> CallGraph {
        let mut graph = CallGraph::new();
        (0..functions).for_each(|function| _ = graph.add_function(function == 0, false));
        for (caller, callee) in calls {
            graph.add_edge(FunctionId::new(caller), FunctionId::new(callee), 1.0);
        }
        graph
    }

    #[test]
    fn callers_come_first_and_calls_in_their_order() {
        // 1 and 2 call each other, and 0 calls 2 first.
        let graph = graph(5, [(0, 2), (0, 1), (1, 2), (2, 1), (1, 3), (4, 3)]);
        let Components { of, order } = Components::new(&graph, |_| true);
        assert_eq!(order, [4, 0, 2, 1, 3]);
        let together = |a: usize, b: usize| of[a] == of[b];
        assert!(together(1, 2) && !together(0, 1) && !together(1, 3) && !together(0, 4));
        assert_eq!(edges_on_cycles(&graph), [false, false, true, true, false, false]);
        // Without the edge that closes the cycle.
        let Components { of, .. } = Components::new(&graph, |edge| edge != 3);
        assert_ne!(of[1], of[2]);
    }

    #[test]
    fn the_smallest_function_on_a_cycle_is_named() {
        assert_eq!(topological(3, [(2, 0), (0, 1)].into_iter()), Ok(vec![2, 0, 1]));
        // 0 is called from the cycle, and 1 calls into it.
        assert_eq!(topological(4, [(1, 3), (3, 2), (2, 3), (2, 0)].into_iter()), Err(2));
        assert_eq!(topological(2, [(1, 1)].into_iter()), Err(1));
    }

    #[test]
    fn long_paths_and_long_cycles_need_no_stack() {
        const LENGTH: u32 = 1_000_000;
        let path = (1..LENGTH).map(|function| (function - 1, function));
        assert_eq!(topological(LENGTH as usize, path.clone()).map(|order| order.len()), Ok(LENGTH as usize));
        let cycle = graph(LENGTH, path.chain([(LENGTH - 1, 0)]));
        assert!(edges_on_cycles(&cycle).into_iter().all(|on_cycle| on_cycle));
    }
}
