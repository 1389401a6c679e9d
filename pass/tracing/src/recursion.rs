//! Unconditional recursion: functions that call each other on all paths. No single function shows that its
//! calls are a cycle, and without a bit the trace would not show how often the cycle was executed.

use petgraph::algo::kosaraju_scc;
use petgraph::graph::DiGraph;

use crate::{Code, Flow, Placement, Role};

/// The function that a node calls, or leaves its activation to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    Function(u32),
    /// A function of another module, which may call any function of this one.
    Elsewhere,
}

/// Makes each call that may be on such a cycle write a bit. `of` returns a function's flow, and the callee of each
/// node.
pub fn mark_recursion<'f>(
    functions: &mut [Placement],
    of: impl Fn(usize) -> (&'f Flow, Vec<Option<Called>>),
) {
    for (function, placement) in functions.iter_mut().enumerate() {
        let (flow, called) = of(function);
        let elsewhere =
            silent(placement, flow).find(|&node| called[node as usize] == Some(Called::Elsewhere));
        if let Some(node) = elsewhere {
            placement.codes[node as usize] = Code { value: 0, bits: 1 };
        }
    }
    let mut graph = DiGraph::<usize, u32>::new();
    let places: Vec<_> = (0..functions.len()).map(|function| graph.add_node(function)).collect();
    for (function, placement) in functions.iter().enumerate() {
        let (flow, callees) = of(function);
        for node in silent(placement, flow) {
            if let Some(Called::Function(callee)) = callees[node as usize] {
                graph.add_edge(places[function], places[callee as usize], node);
            }
        }
    }
    for component in kosaraju_scc(&graph) {
        for &place in &component {
            for edge in graph.edges(place) {
                if component.contains(&petgraph::visit::EdgeRef::target(&edge)) {
                    functions[graph[place]].codes[*edge.weight() as usize] = Code { value: 0, bits: 1 };
                }
            }
        }
    }
}

/// The nodes at a function's beginning that come before any bit.
fn silent<'p>(placement: &'p Placement, flow: &'p Flow) -> impl Iterator<Item = u32> + 'p {
    let node_of = |set: u32| match *placement.sets[set as usize] {
        [node] if placement.codes[node as usize].bits == 0 => Some(node),
        _ => None,
    };
    std::iter::successors(node_of(placement.first), move |&node| {
        (flow.roles[node as usize] == Role::Event).then(|| node_of(placement.next[node as usize])).flatten()
    })
    // Each cycle of nodes has a node that writes.
    .take(flow.roles.len())
}

#[cfg(test)]
mod tests {
    use super::{Called, mark_recursion};
    use crate::{Block, Flow, Role, place};

    /// A function of one block that has these events, and returns.
    fn straight(events: usize) -> Flow {
        let roles: Vec<Role> = (0..events).map(|_| Role::Event).chain([Role::Return]).collect();
        let nodes = (0..roles.len() as u32).collect();
        Flow { blocks: vec![Block { nodes, successors: Vec::new(), frequency: 1.0 }], roles }
    }

    /// The bits of each node of each function, whose calls are these.
    fn bits(flows: &[Flow], calls: &[&[Option<u32>]]) -> Vec<Vec<u8>> {
        let mut placements: Vec<_> = flows.iter().map(place).collect();
        let called = |callee: &Option<u32>| {
            callee.map(|callee| if callee == u32::MAX { Called::Elsewhere } else { Called::Function(callee) })
        };
        mark_recursion(&mut placements, |function| {
            (&flows[function], calls[function].iter().map(called).collect())
        });
        placements.iter().map(|placement| placement.codes.iter().map(|code| code.bits).collect()).collect()
    }

    #[test]
    fn calls_on_unconditional_cycles_write_a_bit() {
        let flows = [straight(2), straight(1), straight(1)];
        // The first function calls the last one, and then the second one, which calls the first.
        let calls: [&[Option<u32>]; 3] = [&[Some(2), Some(1), None], &[Some(0), None], &[None, None]];
        assert_eq!(bits(&flows, &calls), [vec![0, 1, 0], vec![1, 0], vec![0, 0]]);
        // No function calls the first one.
        let calls: [&[Option<u32>]; 3] = [&[Some(2), Some(1), None], &[None, None], &[None, None]];
        assert_eq!(bits(&flows, &calls), [vec![0, 0, 0], vec![0, 0], vec![0, 0]]);
    }

    #[test]
    fn calls_of_other_modules_may_come_again() {
        let calls: [&[Option<u32>]; 1] = [&[Some(u32::MAX), Some(u32::MAX), None]];
        // Calls after the bit need none.
        assert_eq!(bits(&[straight(2)], &calls), [vec![1, 0, 0]]);
        // A call of another function comes first, which calls the module's first one again, or another module.
        let flows = [straight(2), straight(1)];
        let calls: [&[Option<u32>]; 2] = [&[Some(1), Some(u32::MAX), None], &[Some(0), None]];
        assert_eq!(bits(&flows, &calls), [vec![1, 1, 0], vec![1, 0]]);
    }

    #[test]
    fn cycles_with_bits_of_their_own_get_no_more() {
        // The function calls itself on one path.
        let mut flow = straight(1);
        flow.blocks = vec![
            Block { nodes: vec![], successors: vec![1, 2], frequency: 1.0 },
            Block { nodes: vec![0], successors: vec![2], frequency: 0.5 },
            Block { nodes: vec![1], successors: vec![], frequency: 1.0 },
        ];
        assert_eq!(bits(&[flow], &[&[Some(0), None]]), [vec![1, 1]]);
        // The function calls itself after a call through a pointer, which writes a bit.
        let mut flow = straight(2);
        flow.roles[0] = Role::MarksBehind;
        assert_eq!(bits(&[flow], &[&[None, Some(0), None]]), [vec![0, 0, 0]]);
    }
}
