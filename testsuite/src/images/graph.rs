//! The call graph of a process, of the calls that a run has made.

use std::collections::HashMap;

use pcce_encoding::{CallGraph, EdgeCode, FunctionId, Options, Rule, edges_on_cycles, encode};

use super::calls::{Call, Way};
use super::program::{Action, Process};

/// A call site and a callee.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Who calls.
    pub caller: u32,
    /// Who is called.
    pub callee: u32,
    /// How.
    pub way: Way,
    /// What is done there today.
    pub action: Action,
    /// The frames that a call pushes today.
    pub pushes: u32,
    /// Whether contexts need nothing there: the callee is silent, and its caller knows that.
    pub silent: bool,
    /// How often it was called.
    pub count: u64,
}

/// The graph, in the order in which edges were met.
#[derive(Debug, Default)]
pub struct Graph {
    /// Its edges.
    pub edges: Vec<Edge>,
    numbers: HashMap<(u32, u32), u32>,
}

/// What an encoding does at each edge.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Whether it pushes.
    pub pushes: Vec<bool>,
    /// The largest id.
    pub largest: u64,
}

impl Graph {
    /// Counts a call. Returns its edge.
    pub fn add(&mut self, process: &Process, call: &Call) -> u32 {
        if let Some(node) = call.through {
            let caller = process.programs.tables.function_of(node);
            let push = Edge {
                caller,
                callee: call.caller,
                way: Way::FromPlain,
                action: process.actions[node as usize],
                pushes: 1,
                silent: false,
                count: 0,
            };
            self.edge(node, push);
        }
        let silent = call.way == Way::Inside && call.action == Action::Nothing;
        let &Call { caller, callee, way, action, pushes, .. } = call;
        self.edge(call.site, Edge { caller, callee, way, action, pushes, silent, count: 0 })
    }

    fn edge(&mut self, site: u32, edge: Edge) -> u32 {
        let number = self.edges.len() as u32;
        let number = *self.numbers.entry((site, edge.callee)).or_insert(number);
        if number as usize == self.edges.len() {
            self.edges.push(edge);
        }
        self.edges[number as usize].count += 1;
        number
    }

    /// Nodes of the graph: functions, and plain code that has called some.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.names().len()
    }

    fn names(&self) -> HashMap<u32, u32> {
        let mut names = HashMap::new();
        for end in self.edges.iter().flat_map(|edge| [edge.caller, edge.callee]) {
            let next = names.len() as u32;
            names.entry(end).or_insert(next);
        }
        names
    }

    /// Encodes what the rule says something of, with the executions of all calls as its weights. Of other edges it says
    /// that they do not push.
    #[must_use]
    pub fn encode(&self, rule: impl Fn(&Edge) -> Option<Rule>) -> Encoded {
        let (graph, chosen) = self.graph(&rule);
        let encoding = encode(&graph, &Options { id_bits: 63, known_starts: true });
        let mut pushes = vec![false; self.edges.len()];
        for (edge, number) in chosen.iter().zip(0..) {
            pushes[*edge] = matches!(encoding.edge(pcce_encoding::EdgeId::new(number)), EdgeCode::Push(_));
        }
        Encoded { pushes, largest: encoding.summary().max_num_cc.saturating_sub(1) }
    }

    /// Which edges lie on a cycle of what the rule says something of.
    #[must_use]
    pub fn on_cycles(&self, rule: impl Fn(&Edge) -> Option<Rule>) -> Vec<bool> {
        let (graph, chosen) = self.graph(&rule);
        let mut cyclic = vec![false; self.edges.len()];
        for (edge, on_cycle) in chosen.into_iter().zip(edges_on_cycles(&graph)) {
            cyclic[edge] = on_cycle;
        }
        cyclic
    }

    /// The graph of these edges, and which ones they are.
    fn graph(&self, rule: &impl Fn(&Edge) -> Option<Rule>) -> (CallGraph, Vec<usize>) {
        let names = self.names();
        let mut entered = vec![0; names.len()];
        for edge in &self.edges {
            entered[names[&edge.callee] as usize] += edge.count;
        }
        let mut graph = CallGraph::new();
        for &count in &entered {
            let function = graph.add_function(count == 0, false);
            graph.set_count(function, count.max(1) as f64);
        }
        let mut chosen = Vec::new();
        for (number, edge) in self.edges.iter().enumerate() {
            let Some(rule) = rule(edge) else { continue };
            let [caller, callee] = [edge.caller, edge.callee].map(|end| FunctionId::new(names[&end]));
            let often = edge.count as f64 / entered[caller.index()].max(1) as f64;
            let added = graph.add_edge(caller, callee, often);
            graph.set_rule(added, rule);
            chosen.push(number);
        }
        (graph, chosen)
    }
}

/// Everything may be encoded anew, as in dacce.txt.
#[must_use]
pub fn paper(_: &Edge) -> Option<Rule> {
    Some(Rule::Free)
}

/// Calls between images may be encoded; all others stay as they are.
#[must_use]
pub fn crossings(edge: &Edge) -> Option<Rule> {
    match edge.action {
        _ if edge.silent => None,
        _ if edge.way.crosses() => Some(Rule::Free),
        Action::Add(..) | Action::Open(..) => Some(Rule::Adds),
        _ => Some(Rule::Pushes),
    }
}

/// All calls of traced functions may be encoded; what goes through plain code pushes as it does.
#[must_use]
pub fn whole(edge: &Edge) -> Option<Rule> {
    match edge.way {
        _ if edge.silent => None,
        Way::FromPlain => Some(Rule::Pushes),
        _ => Some(Rule::Free),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A call that pushes today, from one image into another or not.
    pub(in super::super) fn call(caller: u32, callee: u32, way: Way) -> Call {
        let site = caller * 100 + callee;
        Call { caller, site, callee, way, action: Action::Push, pushes: 1, leaves: false, through: None }
    }

    /// `main` (0) calls 1 by its name; this calls back 0 seldom, and 2.
    fn graph() -> Graph {
        let mut graph = Graph::default();
        for (caller, callee, way, count) in
            [(0, 1, Way::ByName, 9), (1, 0, Way::ByName, 1), (1, 2, Way::ByName, 5), (2, 2, Way::Inside, 1)]
        {
            for _ in 0..count {
                graph.add(&Process::default(), &call(caller, callee, way));
            }
        }
        graph
    }

    #[test]
    fn the_coldest_call_of_a_cycle_pushes() {
        let graph = graph();
        assert_eq!((graph.nodes(), graph.edges.len(), graph.edges[0].count), (3, 4, 9));
        assert_eq!(graph.on_cycles(paper), [true, true, false, true]);
        assert_eq!(graph.encode(paper).pushes, [false, true, false, true]);
        assert_eq!(graph.encode(crossings).pushes, [false, true, false, true]);
    }

    #[test]
    fn what_pushes_today_cuts_cycles_through_other_images() {
        let mut graph = graph();
        graph.add(&Process::default(), &call(0, 3, Way::Inside));
        graph.add(&Process::default(), &call(3, 0, Way::ByName));
        // The call inside pushes whatever is encoded, so that the call back need not.
        assert_eq!(graph.encode(crossings).pushes[4..], [true, false]);
    }
}
