//! Strongly connected components, by Tarjan's algorithm with an explicit stack.

use crate::graph::{CallGraph, Groups};

/// Which component each function is in, and an order to visit functions in.
pub(crate) struct Components {
    /// Component of each function. An edge between components leads to a smaller number.
    pub(crate) of: Vec<u32>,
    /// All functions, callers before callees between components, each component contiguous; within a component, in
    /// reverse postorder of a depth-first search that begins at the entries, so that few edges lead back.
    pub(crate) order: Vec<u32>,
}

/// For each edge of a graph whether it lies on a cycle.
pub fn edges_on_cycles(graph: &CallGraph) -> Vec<bool> {
    let components = Components::new(graph, &graph.out_edges(), |_| true);
    let component = |function: &u32| components.of[*function as usize];
    graph.caller.iter().zip(&graph.callee).map(|(f, g)| component(f) == component(g)).collect()
}

const UNSEEN: u32 = u32::MAX;

impl Components {
    /// The components of the graph that consists of the edges that `keep` accepts.
    pub(crate) fn new(graph: &CallGraph, out_edges: &Groups, keep: impl Fn(u32) -> bool) -> Self {
        let functions = graph.functions();
        let mut index = vec![UNSEEN; functions];
        let mut low = vec![0u32; functions];
        let mut of = vec![UNSEEN; functions];
        let mut count = 0;
        let mut postorder = Vec::with_capacity(functions);
        let mut open = Vec::new(); // Tarjan's stack: seen, but without a component yet
        let mut frames: Vec<(u32, u32)> = Vec::new(); // function, and how many of its out-edges are done
        let mut seen = 0;
        let is_entry = |&function: &usize| graph.entry[function];
        let starts = (0..functions).filter(is_entry).chain((0..functions).filter(|f| !is_entry(f)));
        for start in starts {
            if index[start] != UNSEEN {
                continue;
            }
            let mut enter = Some(start as u32);
            loop {
                if let Some(function) = enter.take() {
                    index[function as usize] = seen;
                    low[function as usize] = seen;
                    seen += 1;
                    open.push(function);
                    frames.push((function, 0));
                }
                let Some((function, done)) = frames.last_mut() else { break };
                let caller = *function as usize;
                if let Some(&edge) = out_edges.of(caller).get(*done as usize) {
                    *done += 1;
                    if !keep(edge) {
                        continue;
                    }
                    let callee = graph.callee[edge as usize] as usize;
                    if index[callee] == UNSEEN {
                        enter = Some(callee as u32);
                    } else if of[callee] == UNSEEN {
                        low[caller] = low[caller].min(index[callee]);
                    }
                    continue;
                }
                frames.pop();
                postorder.push(caller as u32);
                if let Some(&(parent, _)) = frames.last() {
                    low[parent as usize] = low[parent as usize].min(low[caller]);
                }
                if low[caller] == index[caller] {
                    while let Some(member) = open.pop() {
                        of[member as usize] = count;
                        if member as usize == caller {
                            break;
                        }
                    }
                    count += 1;
                }
            }
        }
        let by_component = Groups::new(
            count as usize,
            postorder.iter().rev().map(|&function| (count - 1 - of[function as usize], function)),
        );
        Self { of, order: by_component.into_items() }
    }
}
