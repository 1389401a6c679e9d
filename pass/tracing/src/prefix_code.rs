//! Codes of nodes: the bits that they write.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use petgraph::unionfind::UnionFind;

use crate::flow::{Flow, Role};

/// The length limit of codes, in bits.
pub const LONGEST: u8 = 24;

/// A code: some bits, or none if nothing is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Code {
    /// The bits, the first one highest.
    pub value: u32,
    /// Their number.
    pub bits: u8,
}

/// The codes of nodes. In each set with several nodes, all have a code, and no code is a prefix of another
/// one.
///
/// Nodes in one set get different colours. Sets that share nodes are one component. Each component has a
/// prefix code over its colours, for the summed frequencies of the colours' nodes (Huffman's).
pub fn codes(sets: &[Vec<u32>], frequencies: &[f64]) -> Vec<Code> {
    let mut codes = vec![Code::default(); frequencies.len()];
    let mut classes = UnionFind::<u32>::new(frequencies.len());
    let mut in_sets: Vec<Vec<u32>> = vec![Vec::new(); frequencies.len()];
    for (number, set) in (0u32..).zip(sets).filter(|(_, set)| set.len() > 1) {
        for &node in set {
            classes.union(set[0], node);
            in_sets[node as usize].push(number);
        }
    }
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); frequencies.len()];
    for node in (0..frequencies.len() as u32).filter(|&node| !in_sets[node as usize].is_empty()) {
        members[classes.find(node) as usize].push(node);
    }
    let mut colours: Vec<Option<u32>> = vec![None; frequencies.len()];
    for mut component in members {
        // The most frequent nodes choose first, and get the colours with the shortest codes.
        component
            .sort_by(|&a, &b| frequencies[b as usize].total_cmp(&frequencies[a as usize]).then(a.cmp(&b)));
        let mut weights: Vec<f64> = Vec::new();
        for &node in &component {
            let mut taken = vec![false; weights.len() + 1];
            let others = in_sets[node as usize].iter().flat_map(|&set| &sets[set as usize]);
            for colour in others.filter_map(|&other| colours[other as usize]) {
                taken[colour as usize] = true;
            }
            let free = taken.iter().position(|&taken| !taken).expect("one more than there are");
            if free == weights.len() {
                weights.push(0.0);
            }
            weights[free] += frequencies[node as usize];
            colours[node as usize] = Some(free as u32);
        }
        let words = prefix_code(&weights);
        for &node in &component {
            codes[node as usize] = colours[node as usize].map_or(Code::default(), |c| words[c as usize]);
        }
        shorten(&component, sets, &in_sets, &mut codes);
    }
    codes
}

/// Gives each node the shortest code that is no prefix of its neighbours' codes, and that has none of them as
/// a prefix: the sets of a node may have fewer nodes than the component has colours. Nodes choose in order;
/// no code gets longer.
fn shorten(component: &[u32], sets: &[Vec<u32>], in_sets: &[Vec<u32>], codes: &mut [Code]) {
    loop {
        let mut changed = false;
        for &node in component {
            let beside = in_sets[node as usize].iter().flat_map(|&set| &sets[set as usize]);
            let taken: Vec<Code> =
                beside.filter(|&&other| other != node).map(|&other| codes[other as usize]).collect();
            let shorter = shortest_free(taken, codes[node as usize].bits);
            changed |= shorter.is_some();
            codes[node as usize] = shorter.unwrap_or(codes[node as usize]);
        }
        if !changed {
            return;
        }
    }
}

/// The shortest code of at least one bit, and fewer than `less_than` bits, that does not conflict with the
/// taken ones.
fn shortest_free(mut taken: Vec<Code>, less_than: u8) -> Option<Code> {
    // A code is a range of numbers of LONGEST bits, those that begin with it. The other codes are disjoint or
    // equal.
    let span = |code: &Code| {
        let below = u32::from(LONGEST - code.bits);
        (code.value << below, (code.value + 1) << below)
    };
    taken.sort_by_key(span);
    let end = (1 << LONGEST, 1 << LONGEST);
    (1..less_than).find_map(|bits| {
        let size = 1 << (LONGEST - bits);
        let mut at = 0_u32;
        for (from, to) in taken.iter().map(span).chain([end]) {
            if at + size <= from {
                return Some(Code { value: at / size, bits });
            }
            at = at.max(to.next_multiple_of(size));
        }
        None
    })
}

/// A prefix code for symbols of these weights: heavier symbols have shorter codes. No code has more than
/// [`LONGEST`] bits.
fn prefix_code(weights: &[f64]) -> Vec<Code> {
    if weights.len() < 2 {
        return vec![Code::default(); weights.len()];
    }
    // Scaling the weights to 2^16 to 1 bounds the lengths.
    let heaviest = weights.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut scaled: Vec<u64> =
        weights.iter().map(|w| (w / heaviest * 65536.0).clamp(1.0, 65536.0).round() as u64).collect();
    loop {
        let lengths = lengths(&scaled);
        if lengths.iter().all(|&bits| bits <= LONGEST) {
            return canonical(&lengths);
        }
        scaled.iter_mut().for_each(|weight| *weight = weight.div_ceil(4) + 1);
    }
}

/// The lengths of Huffman's code.
fn lengths(weights: &[u64]) -> Vec<u8> {
    let mut parents: Vec<usize> = vec![0; weights.len()];
    let mut heap: BinaryHeap<Reverse<(u64, usize)>> =
        weights.iter().enumerate().map(|(i, &weight)| Reverse((weight, i))).collect();
    while let (Some(Reverse((a, left))), Some(Reverse((b, right)))) = (heap.pop(), heap.pop()) {
        let parent = parents.len();
        parents.push(0);
        (parents[left], parents[right]) = (parent, parent);
        heap.push(Reverse((a + b, parent)));
        if heap.len() == 1 {
            break;
        }
    }
    let root = parents.len() - 1;
    let depth = |leaf: usize| {
        let ways = std::iter::successors(Some(leaf), |&at| (at != root).then(|| parents[at]));
        (ways.count() - 1).try_into().unwrap_or(u8::MAX)
    };
    (0..weights.len()).map(depth).collect()
}

/// The codes of these lengths, which satisfy Kraft's equation.
fn canonical(lengths: &[u8]) -> Vec<Code> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&i| (lengths[i], i));
    let mut words = vec![Code::default(); lengths.len()];
    let (mut value, mut bits) = (0u32, lengths[order[0]]);
    for i in order {
        value <<= lengths[i] - bits;
        bits = lengths[i];
        words[i] = Code { value, bits };
        value += 1;
    }
    words
}

/// The least frequent node on each cycle of nodes that write nothing.
pub fn on_silent_cycles(
    flow: &Flow,
    sets: &[Vec<u32>],
    next: &[u32],
    codes: &[Code],
    frequencies: &[f64],
) -> Vec<u32> {
    let mut chosen = Vec::new();
    let mut silent: Vec<bool> =
        codes.iter().zip(&flow.roles).map(|(code, role)| code.bits == 0 && *role == Role::Event).collect();
    loop {
        let mut graph = DiGraph::<u32, ()>::new();
        let places: Vec<_> = (0..silent.len() as u32).map(|node| graph.add_node(node)).collect();
        for (node, _) in silent.iter().enumerate().filter(|(_, silent)| **silent) {
            for &to in sets[next[node] as usize].iter().filter(|&&to| silent[to as usize]) {
                graph.add_edge(places[node], places[to as usize], ());
            }
        }
        let mut found = false;
        for component in tarjan_scc(&graph) {
            let cyclic = component.len() > 1 || graph.contains_edge(component[0], component[0]);
            let nodes = component.iter().map(|&place| graph[place]);
            let least = nodes
                .min_by(|&a, &b| frequencies[a as usize].total_cmp(&frequencies[b as usize]).then(a.cmp(&b)));
            if let Some(least) = least.filter(|_| cyclic) {
                found = true;
                silent[least as usize] = false;
                chosen.push(least);
            }
        }
        if !found {
            return chosen;
        }
    }
}
