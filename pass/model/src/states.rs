//! The state that a function keeps between its calls.
//!
//! An update of the state costs instructions, so the function takes back nothing that the next call needs again: a
//! value that several calls add, or the frame that a call in a loop pushes. The code between two calls is a *segment*.
//! Its label is the state that holds there. The labels are chosen so that the expected updates cost least: one state
//! after the other is given to all segments where that makes the sum less, by a minimum cut (α-expansion: Boykov,
//! Veksler and Zabih, "Fast approximate energy minimization via graph cuts", 2001, §5).

use std::collections::{BTreeMap, VecDeque};

use pcce_encoding::FlowBlock;
use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

use crate::plan::{FrameBegins, PlannedCall, Push};
use crate::{CallKind, Function};

/// The state that a function keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// The state that it found at its entry.
    #[default]
    Found,
    /// Its id is higher by this value.
    Added(u64),
    /// Its frame is on the chain, with this site.
    Pushed(Push, u32),
}

/// An update on an edge from one block to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update {
    /// The block.
    pub block: u32,
    /// The place of the edge among those that leave the block.
    pub way: u32,
    /// The state before.
    pub from: State,
    /// The state after.
    pub to: State,
}

/// A bound on the executions of invokes in one activation. Up to it, the state that the function found is written to
/// the frame before each invoke: two loads and two stores. Beyond it, the state is kept in two registers from the entry
/// on, which is cheaper then.
pub const RARELY: f64 = 1.0;

/// Bound on the nodes of all cuts for one function: some tenths of a second.
const MAX_NODES: usize = 1 << 18;

/// A state is not kept for calls with fewer expected executions.
const MIN_EXECUTIONS: f64 = 0.01;

/// Units of cost for one instruction that is executed once in each activation.
const UNIT: f64 = 256.0;

/// A cost that nothing outweighs.
const IMPOSSIBLE: i64 = 1 << 42;

/// Bound on the expected executions that count.
const MAX_EXECUTIONS: f64 = 1e6;

/// The instructions from one state to another.
fn update(from: State, to: State) -> i64 {
    use State::{Added, Found, Pushed};
    let zero = |push| i64::from(push == Push::Zero);
    match (from, to) {
        (from, to) if from == to => 0,
        (Found, Added(_)) | (Added(_), Found | Added(_)) => 1,
        // The frame's address and its site, each with its store, and 0 for the id.
        (Found, Pushed(push, _)) => 4 + zero(push),
        (Pushed(push, _), Found) => 2 + 2 * zero(push),
        // Only the site changes.
        (Pushed(before, _), Pushed(push, _)) if before == push => 2,
        (Pushed(Push::Relative, _), Pushed(Push::Zero, _)) => update(Found, to),
        // A relative push needs the id in its place.
        (from, to) => update(from, Found) + update(Found, to),
    }
}

/// The instructions before a call that needs the state `to`. Code without the pass may have left another state, so each
/// push puts its frame on the chain again.
fn update_for_call(from: State, to: State) -> i64 {
    match (from, to) {
        (State::Pushed(before, site), State::Pushed(push, of_call)) if before == push => {
            1 + i64::from(push == Push::Zero) + if site == of_call { 0 } else { 2 }
        }
        _ => update(from, to),
    }
}

/// The state that a call needs, and how often it is executed.
#[derive(Clone, Copy)]
struct Needed {
    state: State,
    executions: i64,
    /// The call's own code begins with the state that the function found.
    begins_found: bool,
    /// The frame is begun before the call.
    begins_frame: bool,
}

/// Code without updates: from a call or the beginning of a block to a call or the end of the block.
#[derive(Clone, Default)]
struct Segment {
    after_call: Option<Needed>,
    before_call: Option<Needed>,
    /// The segment must have the state that the function found.
    is_found: bool,
    /// The frame was begun on every way to it.
    is_begun: bool,
    state: State,
    /// Edges, by their numbers.
    edges: Vec<usize>,
}

impl Segment {
    /// The cost of the updates at its ends, if it has this state.
    fn cost(&self, state: State) -> i64 {
        let fixed = self.is_found || self.before_call.is_some_and(|next| next.begins_found);
        let impossible = match state {
            State::Found => false,
            State::Added(_) => fixed,
            State::Pushed(..) => fixed || !self.is_begun,
        };
        let behind = self.after_call.map_or(0, |call| call.executions * update(call.state, state));
        let in_front =
            self.before_call.map_or(0, |call| call.executions * update_for_call(state, call.state));
        behind + in_front + if impossible { IMPOSSIBLE } else { 0 }
    }
}

/// An edge of the flow, from the last segment of one block to the first of another.
struct Edge {
    from: usize,
    to: usize,
    block: u32,
    way: u32,
    /// Expected executions, in units; [`IMPOSSIBLE`] if no code can be inserted.
    executions: i64,
}

impl Edge {
    fn cost(&self, from: State, to: State) -> i64 {
        self.executions.saturating_mul(update(from, to)).min(IMPOSSIBLE)
    }
}

/// Decides which states are kept between the calls ([`PlannedCall::before`], [`PlannedCall::behind`]). Returns the
/// updates on edges.
pub fn keep<'f>(
    function: &Function,
    calls: &mut [PlannedCall],
    frame: Option<&FrameBegins>,
    flow: impl FnOnce() -> &'f [FlowBlock],
) -> Vec<Update> {
    let acts = |call: &PlannedCall| call.needs() != State::Found;
    let jumps = |call: &PlannedCall| {
        let call = &function.calls[call.call];
        call.ends_block && call.kind == CallKind::Asm
    };
    // Functions that read the state, or return twice, look at the state or replace it. Assembly may jump
    // elsewhere from the end of its block.
    if function.reads_state || function.returns_twice || !calls.iter().any(acts) || calls.iter().any(jumps) {
        return Vec::new();
    }
    let mut segments = Segments::new(function, calls, frame, flow());
    segments.label_within();
    segments.expand_all();
    segments.write(calls)
}

struct Segments {
    list: Vec<Segment>,
    edges: Vec<Edge>,
    /// For each call, the segment after it. The segment before the call precedes that one in the list.
    behind_calls: Vec<usize>,
}

impl Segments {
    fn new(
        function: &Function,
        calls: &[PlannedCall],
        frame: Option<&FrameBegins>,
        flow: &[FlowBlock],
    ) -> Self {
        let executions = |expected: f64| ((expected.min(MAX_EXECUTIONS) * UNIT) as i64).max(1);
        let mut within: Vec<Vec<usize>> = vec![Vec::new(); flow.len()];
        for (place, call) in calls.iter().enumerate() {
            within[function.calls[call.call].block as usize].push(place);
        }
        let ways = |block: usize| flow[block].ways.iter().map(|way| way.to as usize).collect();
        let known = known(flow.len(), |block| flow[block].throws, ways);
        let (mut list, mut ends, mut behind_calls) = (Vec::new(), Vec::new(), vec![0; calls.len()]);
        for (b, (block, places)) in flow.iter().zip(&within).enumerate() {
            let first = list.len();
            let frequency = executions(block.frequency);
            let mut segment = Segment::default();
            for &place in places {
                let call = &calls[place];
                let of_function = &function.calls[call.call];
                let begins = |frame: &FrameBegins| {
                    frame.at_pushes.contains(&call.call) || frame.is_before(of_function)
                };
                let begins_frame = frame.is_some_and(begins);
                let needed = Needed {
                    state: call.needs(),
                    executions: frequency,
                    // A context is taken before a call that creates a thread.
                    begins_found: begins_frame || call.creation_site.is_some(),
                    begins_frame,
                };
                list.push(Segment { before_call: Some(needed), ..segment });
                behind_calls[place] = list.len();
                segment = Segment { after_call: Some(needed), ..Segment::default() };
            }
            list.push(segment);
            let last = list.len() - 1;
            let ends_with_call =
                places.last().is_some_and(|&last| function.calls[calls[last].call].ends_block);
            let begins_at_end = frame.is_some_and(|frame| frame.at_ends.contains(&(b as u32)));
            list[last].is_found |= block.ways.is_empty() || begins_at_end && !ends_with_call;
            // The state that the function found is written before the first call, or at the end.
            let rarely =
                places.first().is_none_or(|&call| function.calls[calls[call].call].frequency <= RARELY);
            list[first].is_found |= b == 0 || block.restores || block.throws && !known[b] && rarely;
            ends.push((first, last));
        }
        let mut edges = Vec::new();
        for ((block, &(_, from)), number) in flow.iter().zip(&ends).zip(0..) {
            for (way, place) in block.ways.iter().zip(0..) {
                let to = ends[way.to as usize].0;
                let begins = frame.is_some_and(|frame| frame.on_ways.contains(&(number, place)));
                list[from].is_found |= begins;
                if flow[way.to as usize].restores {
                    continue;
                }
                let executions = match way.can_be_split {
                    true => executions(block.frequency * way.probability),
                    false => IMPOSSIBLE,
                };
                for end in [from, to] {
                    list[end].edges.push(edges.len());
                }
                edges.push(Edge { from, to, block: number, way: place, executions });
            }
        }
        for (&(first, last), begun) in ends.iter().zip(begun(flow, &ends, &list, frame)) {
            let mut begun = begun;
            for segment in &mut list[first..=last] {
                segment.is_begun = begun;
                begun |= segment.before_call.is_some_and(|call| call.begins_frame);
            }
        }
        Self { list, edges, behind_calls }
    }

    /// Labels the segments between two calls of one block, which are on no edge.
    fn label_within(&mut self) {
        for segment in &mut self.list {
            let (Some(before), Some(next)) = (segment.after_call, segment.before_call) else { continue };
            let states = [State::Found, before.state, next.state];
            segment.state =
                states.into_iter().min_by_key(|&state| segment.cost(state)).expect("three states");
        }
    }

    /// Expands each state that calls need, those of frequent calls first.
    fn expand_all(&mut self) {
        let mut states: BTreeMap<(u64, u64), (State, i64)> = BTreeMap::new();
        for call in self.list.iter().filter_map(|segment| segment.after_call) {
            let key = match call.state {
                State::Found => continue,
                State::Added(value) => (0, value),
                State::Pushed(push, site) => (1 + u64::from(push == Push::Zero), site.into()),
            };
            states.entry(key).or_insert((call.state, 0)).1 += call.executions;
        }
        let mut states: Vec<(State, i64)> = states.into_values().collect();
        states.retain(|&(_, executions)| executions as f64 >= MIN_EXECUTIONS * UNIT);
        states.sort_by_key(|&(_, executions)| std::cmp::Reverse(executions));
        let mut budget = MAX_NODES;
        for (state, _) in states {
            let nodes = self.around(state);
            let Some(left) = budget.checked_sub(nodes.len()) else { return };
            budget = left;
            self.expand(state, &nodes);
        }
    }

    /// The segments that may get this state: segments next to a call that needs it, and segments that edges connect
    /// with these without passing one that must keep the state that the function found.
    fn around(&self, state: State) -> Vec<usize> {
        let free = |segment: &Segment| segment.state != state && segment.cost(state) < IMPOSSIBLE;
        let next_to = |segment: &Segment| {
            [segment.after_call, segment.before_call].into_iter().flatten().any(|call| call.state == state)
        };
        let starts = |&i: &usize| {
            let segment = &self.list[i];
            !segment.edges.is_empty() && next_to(segment) && free(segment)
        };
        let mut nodes: Vec<usize> = (0..self.list.len()).filter(starts).collect();
        let mut seen = vec![false; self.list.len()];
        nodes.iter().for_each(|&node| seen[node] = true);
        let mut done = 0;
        while let Some(&node) = nodes.get(done) {
            done += 1;
            for &edge in &self.list[node].edges {
                let Edge { from, to, .. } = self.edges[edge];
                let other = if from == node { to } else { from };
                if !seen[other] && free(&self.list[other]) {
                    seen[other] = true;
                    nodes.push(other);
                }
            }
        }
        nodes
    }

    /// Gives the state to the nodes for which the sum of all costs becomes least.
    fn expand(&mut self, state: State, nodes: &[usize]) {
        let numbers: BTreeMap<usize, usize> = nodes.iter().copied().zip(0..).collect();
        // The cost of the state minus the cost of the state that the segment has.
        let mut further: Vec<i64> = Vec::with_capacity(nodes.len());
        let mut graph = DiGraph::<(), u64>::with_capacity(nodes.len() + 2, 3 * nodes.len());
        for &node in nodes {
            let segment = &self.list[node];
            further.push(segment.cost(state) - segment.cost(segment.state));
            graph.add_node(());
        }
        let mut edges: Vec<usize> = nodes.iter().flat_map(|&node| &self.list[node].edges).copied().collect();
        edges.sort_unstable();
        edges.dedup();
        for edge in edges {
            let edge = &self.edges[edge];
            let [before, behind] = [edge.from, edge.to].map(|end| self.list[end].state);
            let [kept, from_new, to_new] =
                [(before, behind), (state, behind), (before, state)].map(|(from, to)| edge.cost(from, to));
            match (numbers.get(&edge.from), numbers.get(&edge.to)) {
                (Some(&from), Some(&to)) => {
                    // The cost of the edge: a term for each end, and one that counts only if `to` gets the
                    // state and `from` does not.
                    further[from] += from_new - kept;
                    further[to] -= from_new;
                    let one = (from_new + to_new - kept).max(0);
                    graph.add_edge(NodeIndex::new(to), NodeIndex::new(from), one as u64);
                }
                (Some(&from), None) => further[from] += from_new - kept,
                (None, Some(&to)) => further[to] += to_new - kept,
                (None, None) => {}
            }
        }
        // The nodes on the side of the source get the state.
        let [source, sink] = [graph.add_node(()), graph.add_node(())];
        for (&further, node) in further.iter().zip(0..) {
            match further {
                0.. => graph.add_edge(NodeIndex::new(node), sink, further.unsigned_abs()),
                _ => graph.add_edge(source, NodeIndex::new(node), further.unsigned_abs()),
            };
        }
        let (_, flows) = dinics(&graph, source, sink);
        let mut reached = vec![false; graph.node_count()];
        let mut waiting = VecDeque::from([source]);
        while let Some(node) = waiting.pop_front() {
            if std::mem::replace(&mut reached[node.index()], true) {
                continue;
            }
            let ahead = graph.edges(node).filter(|edge| flows[edge.id().index()] < *edge.weight());
            waiting.extend(ahead.map(|edge| edge.target()));
            let back = graph.edges_directed(node, petgraph::Direction::Incoming);
            waiting.extend(back.filter(|edge| flows[edge.id().index()] > 0).map(|edge| edge.source()));
        }
        for (&node, reached) in nodes.iter().zip(reached) {
            if reached {
                self.list[node].state = state;
            }
        }
    }

    /// Writes the states to the calls, and returns the updates on edges.
    fn write(self, calls: &mut [PlannedCall]) -> Vec<Update> {
        for (call, behind) in calls.iter_mut().zip(self.behind_calls) {
            call.before = self.list[behind - 1].state;
            call.behind = self.list[behind].state;
        }
        let states = |edge: &Edge| (self.list[edge.from].state, self.list[edge.to].state);
        let updates = self.edges.iter().map(|edge| (edge, states(edge))).filter(|(_, (from, to))| from != to);
        updates.map(|(edge, (from, to))| Update { block: edge.block, way: edge.way, from, to }).collect()
    }
}

/// For each block, whether the frame was begun on every way to it. `ends`: the first and last segments of the blocks.
fn begun(
    flow: &[FlowBlock],
    ends: &[(usize, usize)],
    segments: &[Segment],
    frame: Option<&FrameBegins>,
) -> Vec<bool> {
    let Some(frame) = frame else { return vec![false; flow.len()] };
    let begins_in = |block: usize| {
        let (first, last) = ends[block];
        let calls = segments[first..=last].iter().filter_map(|segment| segment.before_call);
        frame.at_ends.contains(&(block as u32)) || calls.into_iter().any(|call| call.begins_frame)
    };
    unreached(flow.len(), |block| {
        let ways = flow[block].ways.iter().zip(0..).filter(|_| !begins_in(block));
        let ways = ways.filter(|&(_, way)| !frame.on_ways.contains(&(block as u32, way)));
        ways.map(|(way, _)| way.to as usize).collect()
    })
}

/// For each block, whether control reaches it only through other blocks that end with invokes. `throws` returns whether
/// a block ends with an invoke, and `ways` the blocks after it.
pub fn known(blocks: usize, throws: impl Fn(usize) -> bool, ways: impl Fn(usize) -> Vec<usize>) -> Vec<bool> {
    unreached(blocks, |block| if throws(block) { Vec::new() } else { ways(block) })
}

/// For each block, whether these ways do not lead to it from the entry, which is block 0.
fn unreached(blocks: usize, ways: impl Fn(usize) -> Vec<usize>) -> Vec<bool> {
    let mut unreached = vec![true; blocks];
    let mut waiting = if blocks == 0 { Vec::new() } else { vec![0] };
    while let Some(block) = waiting.pop() {
        if std::mem::replace(&mut unreached[block], false) {
            waiting.extend(ways(block));
        }
    }
    unreached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::random;

    impl Segments {
        fn cost(&self) -> i64 {
            let within: i64 = self.list.iter().map(|segment| segment.cost(segment.state)).sum();
            let states = |edge: &Edge| (self.list[edge.from].state, self.list[edge.to].state);
            within + self.edges.iter().map(|edge| edge.cost(states(edge).0, states(edge).1)).sum::<i64>()
        }
    }

    fn needed(state: State, executions: i64) -> Option<Needed> {
        Some(Needed { state, executions, begins_found: false, begins_frame: false })
    }

    /// With one state besides that which was found, no other labels cost less.
    #[test]
    fn a_cut_is_the_best_choice_of_one_state() {
        let mut below = random();
        let states = [State::Added(1), State::Pushed(Push::Zero, 1), State::Pushed(Push::Relative, 1)];
        for round in 0..600 {
            let state = states[round % 3];
            let count = 1 + below(9);
            let mut call = || match below(4) {
                0 => None,
                1 => needed(State::Found, below(500) as i64 + 1),
                _ => needed(state, below(500) as i64 + 1),
            };
            let segment = |_| {
                let (after_call, before_call) = (call(), call());
                Segment { after_call, before_call, is_begun: true, ..Segment::default() }
            };
            let list: Vec<Segment> = (0..count).map(segment).collect();
            let mut segments = Segments { list, edges: Vec::new(), behind_calls: Vec::new() };
            segments.list[0].is_found = true;
            // In functions, each call is before a segment.
            segments.list[0].after_call = needed(state, 1000);
            for number in 0..below(2 * count + 1) {
                let (from, to) = (below(count), below(count));
                let executions = if below(8) == 0 { IMPOSSIBLE } else { below(500) as i64 + 1 };
                segments.edges.push(Edge { from, to, block: 0, way: 0, executions });
                [from, to].into_iter().for_each(|end| segments.list[end].edges.push(number));
            }
            segments.label_within();
            let best = (0..1_u32 << count).map(|bits| {
                for (i, segment) in segments.list.iter_mut().enumerate().filter(|(_, s)| !s.edges.is_empty())
                {
                    segment.state = if bits >> i & 1 == 1 { state } else { State::Found };
                }
                segments.cost()
            });
            let best = best.min().expect("at least one");
            for segment in segments.list.iter_mut().filter(|segment| !segment.edges.is_empty()) {
                segment.state = State::Found;
            }
            segments.expand_all();
            assert_eq!(segments.cost(), best, "{round}");
        }
    }

    #[test]
    fn invokes_that_follow_invokes_are_known() {
        let flow: [(bool, &[usize]); 4] = [(false, &[1, 3]), (true, &[2]), (true, &[3]), (false, &[])];
        let known = known(flow.len(), |block| flow[block].0, |block| flow[block].1.to_vec());
        assert_eq!(known, [false, false, true, false]);
    }
}
