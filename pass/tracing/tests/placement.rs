//! Placements of random functions against a checker that shares no code with the crate.

use std::collections::{BTreeSet, HashSet};

use pcce_tracing::{Baseline, Block, Callee, Flow, Placement, Role, numbered, place};
use proptest::prelude::*;

/// The nodes that may come next when control is before the `at`-th node of a block.
fn nexts(flow: &Flow, block: usize, at: usize) -> BTreeSet<u32> {
    let (mut found, mut seen, mut waiting) = (BTreeSet::new(), HashSet::new(), vec![(block, at)]);
    while let Some((block, at)) = waiting.pop() {
        if !seen.insert((block, at)) {
            continue;
        }
        let block = &flow.blocks[block];
        match block.nodes.get(at) {
            Some(&node) => _ = found.insert(node),
            None => waiting.extend(block.successors.iter().map(|&to| (to as usize, 0))),
        }
    }
    found
}

fn bits(placement: &Placement, node: u32) -> String {
    let code = placement.codes[node as usize];
    (0..code.bits).rev().map(|bit| if code.value >> bit & 1 == 1 { '1' } else { '0' }).collect()
}

/// A fault of a placement: it is wrong about the nodes that may come next, or a reader could not tell them
/// apart.
fn fault(flow: &Flow, placement: &Placement) -> Option<String> {
    let representatives = |nodes: BTreeSet<u32>| -> BTreeSet<u32> {
        nodes.into_iter().map(|node| placement.same[node as usize]).collect()
    };
    for (node, &same) in placement.same.iter().enumerate() {
        let both_return = flow.roles[node] == Role::Return && flow.roles[same as usize] == Role::Return;
        if same != node as u32 && !(both_return && placement.same[same as usize] == same) {
            return Some(format!("{node} stands for {same}"));
        }
        if placement.codes[node] != placement.codes[same as usize] {
            return Some(format!("{node} and {same} write other codes"));
        }
    }
    let mut places = vec![(None, 0, 0)];
    for (number, block) in flow.blocks.iter().enumerate() {
        places.extend(block.nodes.iter().enumerate().map(|(at, &node)| (Some(node), number, at + 1)));
    }
    for (node, block, at) in places {
        let true_set = representatives(nexts(flow, block, at));
        let set = node.map_or(placement.first, |node| placement.next[node as usize]);
        let set: BTreeSet<u32> = placement.sets[set as usize].iter().copied().collect();
        if set != true_set {
            return Some(format!("behind {node:?} come {true_set:?}, not {set:?}"));
        }
        for &a in &set {
            for &b in set.iter().filter(|&&b| b != a) {
                if bits(placement, b).starts_with(&bits(placement, a)) {
                    return Some(format!("behind {node:?}, {a} cannot be told from {b}"));
                }
            }
        }
    }
    // A cycle on which nothing is written.
    let silent = |node: u32| {
        placement.codes[node as usize].bits == 0 && flow.roles[node as usize] != Role::MarksBehind
    };
    for start in (0..flow.roles.len() as u32).filter(|&node| silent(node)) {
        let (mut seen, mut waiting) = (HashSet::new(), vec![start]);
        while let Some(node) = waiting.pop() {
            let set = &placement.sets[placement.next[node as usize] as usize];
            for &next in set.iter().filter(|&&next| silent(next)) {
                if next == start {
                    return Some(format!("a cycle through {start} writes nothing"));
                }
                if seen.insert(next) {
                    waiting.push(next);
                }
            }
        }
    }
    None
}

/// Any function of up to 12 blocks.
fn flows() -> impl Strategy<Value = Flow> {
    let block = (0usize..4, prop::collection::vec(0usize..12, 0..4), 0.0..100.0f64, any::<u8>());
    prop::collection::vec(block, 1..12).prop_map(|drawn| {
        let count = drawn.len();
        let mut flow = Flow::default();
        for (events, successors, frequency, kinds) in drawn {
            let first = flow.roles.len() as u32;
            for event in 0..events {
                flow.roles.push(match kinds >> (2 * event) & 3 {
                    0 => Role::MarksBehind,
                    1 => Role::MarksBefore,
                    _ => Role::Event,
                });
            }
            let successors: Vec<u32> = successors.into_iter().map(|to| (to % count) as u32).collect();
            if successors.is_empty() && kinds & 128 != 0 {
                flow.roles.push(Role::Return);
            }
            let nodes = (first..flow.roles.len() as u32).collect();
            flow.blocks.push(Block { nodes, successors, frequency });
        }
        flow
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_next_node_is_always_known(flow in flows()) {
        prop_assert_eq!(fault(&flow, &place(&flow)), None);
    }
}

fn block(nodes: &[u32], successors: &[u32]) -> Block {
    Block { nodes: nodes.to_vec(), successors: successors.to_vec(), frequency: 1.0 }
}

/// casper.txt, Figure 2: `main`, with c1, c2, c3, c4 and r1.
#[test]
fn the_papers_example_writes_at_alternatives_only() {
    let blocks = vec![
        block(&[0], &[1]),
        block(&[], &[2, 3]),
        block(&[1], &[4]),
        block(&[2], &[4]),
        block(&[], &[1, 5]),
        block(&[3, 4], &[]),
    ];
    let roles = vec![Role::Event, Role::Event, Role::Event, Role::Event, Role::Return];
    let placement = place(&Flow { blocks, roles });
    assert_eq!(placement.sets[placement.first as usize], [0]);
    assert_eq!(placement.sets[placement.next[0] as usize], [1, 2]);
    assert_eq!(placement.sets[placement.next[1] as usize], [1, 2, 3]);
    let lengths: Vec<u8> = placement.codes.iter().map(|code| code.bits).collect();
    assert_eq!((lengths[0], lengths[4]), (0, 0), "c1 and r1 follow from what is before them");
    assert_eq!(lengths[1..4].iter().map(|&bits| u32::from(bits)).sum::<u32>(), 5);
}

/// The checker finds faults.
#[test]
fn the_checker_is_not_blind() {
    let blocks = vec![block(&[0], &[1, 2]), block(&[1], &[0]), block(&[2], &[2])];
    let flow = Flow { blocks, roles: vec![Role::Event, Role::Event, Role::Event] };
    let right = place(&flow);
    assert_eq!(fault(&flow, &right), None);
    for node in 0..3 {
        let mut wrong = right.clone();
        wrong.codes[node] = pcce_tracing::Code::default();
        let needed = right.codes[node].bits > 0;
        assert_eq!(fault(&flow, &wrong).is_some(), needed, "{node}");
    }
    let mut wrong = right.clone();
    wrong.next[0] = wrong.first;
    assert!(fault(&flow, &wrong).is_some());
}

/// Frequent alternatives get short codes, and none is longer than the limit.
#[test]
fn codes_follow_the_frequencies() {
    let count = 40;
    let mut blocks = vec![block(&[], &(1..=count).collect::<Vec<u32>>())];
    for node in 0..count {
        blocks.push(Block {
            nodes: vec![node],
            successors: vec![0],
            frequency: 2f64.powi(-(node as i32) * 3),
        });
    }
    let flow = Flow { blocks, roles: vec![Role::Event; count as usize] };
    let placement = place(&flow);
    assert_eq!(fault(&flow, &placement), None);
    assert_eq!(placement.codes[0].bits, 1);
    assert!(placement.codes.iter().all(|code| code.bits <= pcce_tracing::LONGEST));
}

/// casper.txt, Figures 2 and 4: functions with their sites, and the sites that write in each of the three
/// ways (§4.2).
#[test]
fn baselines_write_what_the_paper_says() {
    use Callee::{Known, Nobody};
    let function = |blocks: Vec<Block>, callees: &[Callee]| {
        let role = |&callee: &Callee| if callee == Nobody { Role::Return } else { Role::Event };
        (Flow { blocks, roles: callees.iter().map(role).collect() }, callees.to_vec())
    };
    let leaf = || function(vec![block(&[0], &[])], &[Nobody]);
    let two = || vec![block(&[], &[1, 2]), block(&[0], &[3]), block(&[1], &[3]), block(&[2], &[])];
    let [a, b, c, d, e, h] = [1, 2, 3, 4, 5, 6];
    let main = vec![
        block(&[0], &[1]),
        block(&[], &[2, 3]),
        block(&[1], &[4]),
        block(&[2], &[4]),
        block(&[], &[5, 1]),
        block(&[3, 4], &[]),
    ];
    let program = [
        function(main, &[Known(a), Known(b), Known(e), Known(h), Nobody]),
        leaf(),
        function(two(), &[Known(c), Known(d), Nobody]),
        leaf(),
        leaf(),
        function(two(), &[Known(c), Known(d), Nobody]),
        leaf(),
    ];
    let program: Vec<(&Flow, Vec<Callee>)> = program.iter().map(|(f, c)| (f, c.clone())).collect();
    let written = |baseline| -> Vec<(usize, usize)> {
        let chosen = numbered(baseline, &program);
        let sites =
            chosen.iter().enumerate().flat_map(|(f, nodes)| nodes.iter().enumerate().map(move |n| (f, n)));
        sites.filter(|(_, (_, chosen))| **chosen).map(|(f, (node, _))| (f, node)).collect()
    };
    assert_eq!(written(Baseline::All).len(), 15);
    // c2, c3, c4; c5, c6; c7, c8.
    let branches = [(0, 1), (0, 2), (0, 3), (2, 0), (2, 1), (5, 0), (5, 1)];
    assert_eq!(written(Baseline::Branches), branches);
    assert_eq!(written(Baseline::Casper), branches[2..]);
}

/// Where there are few alternatives, codes are short, even if one of them has many others elsewhere.
#[test]
fn codes_are_short_where_few_are_possible() {
    let mut blocks = vec![block(&[], &(1..=8).collect::<Vec<u32>>())];
    blocks.extend((0..9).map(|node| block(&[node], &[0])));
    // After node 1: node 0 or node 8.
    blocks[2].successors = vec![1, 9];
    let flow = Flow { blocks, roles: vec![Role::Event; 9] };
    let placement = place(&flow);
    assert_eq!(fault(&flow, &placement), None);
    let bits: Vec<u8> = placement.codes.iter().map(|code| code.bits).collect();
    assert_eq!((bits[8], bits.iter().sum::<u8>()), (1, 25), "{bits:?}");
}
