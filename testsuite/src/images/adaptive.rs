//! The encoding of dacce.txt: edges are found as they are executed, and the whole graph is encoded now and then. An
//! edge that is not encoded yet pushes. What is active is made anew after each encoding (§4).

use std::time::Instant;

use super::compare::{Point, Row};
use super::graph::{Graph, paper};

/// The graph is encoded when so many edges are new, or one in so many.
const NEW_EDGES: usize = 64;
const NEW_SHARE: usize = 8;
/// Or when edges that are not encoded have pushed so often.
const NEW_PUSHES: u64 = 10_000;

/// The state of an encoding.
#[derive(Default)]
pub struct Adaptive {
    /// By edge, whether it pushes; of those that were not there yet, nothing.
    pushes: Vec<bool>,
    /// Pushes at such edges since then.
    new_pushes: u64,
    /// What is active: its edge, if it has one, and the frames up to it.
    stack: Vec<(Option<u32>, u32)>,
    calls: u64,
    all_pushes: u64,
    frames: u64,
    cost: u128,
    progress: Vec<Point>,
}

impl Adaptive {
    /// So many activations are left.
    pub fn cut(&mut self, to: usize) {
        self.stack.truncate(to);
    }

    /// Unknown code is called.
    pub fn unknown(&mut self, leaves: bool) {
        let frames = self.stack.last().map_or(0, |(_, frames)| *frames);
        if leaves {
            self.stack.pop();
        }
        self.stack.push((None, frames));
    }

    /// A function is entered by an edge.
    pub fn enter(&mut self, graph: &Graph, edge: u32, leaves: bool) {
        let known = self.pushes.get(edge as usize).copied();
        let pushes = known.unwrap_or(true);
        self.calls += 1;
        self.all_pushes += u64::from(pushes);
        self.new_pushes += u64::from(known.is_none());
        let frames = self.stack.last().map_or(0, |(_, frames)| *frames) + u32::from(pushes);
        self.frames += u64::from(frames);
        if leaves {
            self.stack.pop();
        }
        self.stack.push((Some(edge), frames));
        let new = graph.edges.len() - self.pushes.len();
        if new > 0 && (new >= NEW_EDGES.max(self.pushes.len() / NEW_SHARE) || self.new_pushes >= NEW_PUSHES) {
            self.encode(graph);
        }
    }

    fn encode(&mut self, graph: &Graph) {
        let start = Instant::now();
        let encoded = graph.encode(paper);
        self.cost += start.elapsed().as_micros();
        (self.pushes, self.new_pushes) = (encoded.pushes, 0);
        let mut frames = 0;
        for (edge, up_to) in &mut self.stack {
            frames += u32::from(edge.is_some_and(|edge| self.pushes[edge as usize]));
            *up_to = frames;
        }
        let (nodes, edges) = (graph.nodes(), graph.edges.len());
        self.progress.push(Point { calls: self.calls, nodes, edges, largest: encoded.largest });
    }

    /// What became of it. `largest`: the largest id if the whole graph is encoded at the end.
    #[must_use]
    pub fn row(self, graph: &Graph, largest: u64) -> Row {
        Row {
            nodes: graph.nodes(),
            edges: graph.edges.len(),
            largest,
            calls: self.calls,
            pushes: self.all_pushes,
            depth: self.frames as f64 / self.calls.max(1) as f64,
            encodings: self.progress.len(),
            cost: self.cost,
            progress: self.progress,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::calls::Way;
    use super::super::graph::tests::call;
    use super::super::program::Process;
    use super::*;

    #[test]
    fn edges_push_until_they_are_encoded() {
        let (mut graph, mut adaptive) = (Graph::default(), Adaptive::default());
        let mut enter = |caller, callee| {
            let edge = graph.add(&Process::default(), &call(caller, callee, Way::ByName));
            adaptive.cut(0);
            adaptive.enter(&graph, edge, false);
        };
        for callee in 1..=64 {
            enter(0, callee);
        }
        for callee in 1..=64 {
            enter(0, callee);
        }
        let row = adaptive.row(&graph, 0);
        assert_eq!((row.nodes, row.edges, row.calls, row.pushes, row.encodings), (65, 64, 128, 64, 1));
    }
}
