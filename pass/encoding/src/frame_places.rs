//! The places where a function writes the words that all its pushes share.
//!
//! The frame of a push holds the state that the function found at its entry, which is the same for all its
//! pushes. So these words are written once on each path to a push: in front of the first push, or earlier
//! where that is expected to run less often, for instance outside of a loop.

use petgraph::algo::dominators::simple_fast;
use petgraph::graph::{DiGraph, NodeIndex};

/// A basic block of a function.
#[derive(Clone, Debug, Default)]
pub struct FlowBlock {
    /// Expected executions for one execution of the function.
    pub frequency: f64,
    /// The successor edges, in the order of the code.
    pub ways: Vec<Way>,
    /// It ends with a call that may throw to another of the function's blocks.
    pub throws: bool,
    /// The state that the function found is stored at its beginning.
    pub restores: bool,
}

/// An edge from the end of one block to the beginning of another.
#[derive(Clone, Debug)]
pub struct Way {
    /// The number of the other block.
    pub to: u32,
    /// The probability of the edge at the end of the block.
    pub probability: f64,
    /// True if code can be inserted on the edge.
    pub can_be_split: bool,
}

/// A place where the common words of the frame are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FramePlace {
    /// In this block, in front of its first push.
    FirstPush(u32),
    /// At the end of this block, in front of the terminator.
    End(u32),
    /// On the edge from this block that has this place in its list.
    On(u32, u32),
}

/// A place moves in front of a loop only if this share of the iterations is expected to push. (The
/// interpreter loop of Lua has pushes in many of its cases. With its place at the function's entry, that cost
/// more than all its pushes.)
const OFTEN: f64 = 0.5;

/// Expected executions of the places for all pushes that a node dominates.
#[derive(Clone, Copy, Default)]
struct Below {
    /// The sum over all places.
    all: f64,
    /// The executions of the most frequent place.
    hottest: f64,
    /// The executions of the most frequent node on the path to that place.
    peak: f64,
    /// True if the node itself is the only place.
    itself: bool,
}

/// The places for a function whose entry is block 0. Each path to a push has one. A place further up is
/// preferred if it is expected to run less often than the places below it together. `pushes` has for each
/// block whether it pushes.
///
/// # Panics
///
/// When a way leads to no block, or there are not as many `pushes` as blocks.
pub fn frame_places(blocks: &[FlowBlock], pushes: &[bool]) -> Vec<FramePlace> {
    assert_eq!(blocks.len(), pushes.len());
    let mut graph = DiGraph::<(), ()>::with_capacity(blocks.len(), 2 * blocks.len());
    // Blocks, and behind them edges on which a place could be better than in the blocks at their ends.
    let mut nodes: Vec<(f64, bool, FramePlace)> = Vec::with_capacity(blocks.len());
    let mut ways_to = vec![0; blocks.len()];
    for ((block, &pushes), number) in blocks.iter().zip(pushes).zip(0..) {
        graph.add_node(());
        let place = if pushes { FramePlace::FirstPush(number) } else { FramePlace::End(number) };
        nodes.push((block.frequency, pushes, place));
        block.ways.iter().for_each(|way| ways_to[way.to as usize] += 1);
    }
    for (block, from) in blocks.iter().zip(0..) {
        for (way, number) in block.ways.iter().zip(0..) {
            let to = NodeIndex::new(way.to as usize);
            if way.can_be_split && block.ways.len() > 1 && ways_to[to.index()] > 1 {
                let middle = graph.add_node(());
                nodes.push((block.frequency * way.probability, false, FramePlace::On(from, number)));
                graph.extend_with_edges([(NodeIndex::from(from), middle), (middle, to)]);
            } else {
                graph.add_edge(from.into(), to, ());
            }
        }
    }
    let mut places = Vec::new();
    let Some(entry) = graph.node_indices().next() else { return places };
    let dominators = simple_fast(&graph, entry);
    let mut children = vec![Vec::new(); nodes.len()];
    for (node, &(_, pushes, place)) in nodes.iter().enumerate() {
        match dominators.immediate_dominator(NodeIndex::new(node)) {
            Some(above) => children[above.index()].push(node),
            // The entry, and blocks that nothing reaches.
            None if node != entry.index() && pushes => places.push(place),
            None => {}
        }
    }
    // Nodes behind their dominators.
    let mut order = vec![entry.index()];
    let mut done = 0;
    while let Some(&node) = order.get(done) {
        order.extend(&children[node]);
        done += 1;
    }
    let mut best = vec![Below::default(); nodes.len()];
    for &node in order.iter().rev() {
        let (here, pushes, _) = nodes[node];
        let below = children[node].iter().fold(Below::default(), |sum, &child| {
            let child = best[child];
            let hotter = if child.hottest > sum.hottest { child } else { sum };
            Below { all: sum.all + child.all, ..hotter }
        });
        // A loop is not left for pushes that few of its rounds make.
        let leaves = below.peak <= here || below.hottest >= OFTEN * below.peak;
        best[node] = if pushes || here < below.all && leaves {
            Below { all: here, hottest: here, peak: here, itself: true }
        } else {
            Below { peak: here.max(below.peak), itself: false, ..below }
        };
    }
    let mut open = vec![entry.index()];
    while let Some(node) = open.pop() {
        if best[node].itself {
            places.push(nodes[node].2);
        } else {
            open.extend(&children[node]);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block, and whether it has pushes.
    fn block(frequency: f64, pushes: bool, ways: &[(u32, f64)]) -> (FlowBlock, bool) {
        let ways = ways.iter().map(|&(to, probability)| Way { to, probability, can_be_split: true });
        (FlowBlock { frequency, ways: ways.collect(), ..FlowBlock::default() }, pushes)
    }

    fn places(blocks: &[(FlowBlock, bool)]) -> Vec<FramePlace> {
        let (blocks, pushes): (Vec<_>, Vec<_>) = blocks.iter().cloned().unzip();
        frame_places(&blocks, &pushes)
    }

    #[test]
    fn a_push_that_another_one_dominates_needs_no_place() {
        let blocks =
            [block(1.0, true, &[(1, 0.5), (2, 0.5)]), block(0.5, true, &[(2, 1.0)]), block(1.0, true, &[])];
        assert_eq!(places(&blocks), [FramePlace::FirstPush(0)]);
    }

    #[test]
    fn branches_have_places_of_their_own_unless_they_cost_more_than_one_before_them() {
        let branches = |each: f64| {
            [
                block(1.0, false, &[(1, 0.5), (2, 0.5)]),
                block(each, true, &[(3, 1.0)]),
                block(each, true, &[(3, 1.0)]),
                block(1.0, false, &[]),
            ]
        };
        let mut own = places(&branches(0.5));
        own.sort_unstable_by_key(|place| format!("{place:?}"));
        assert_eq!(own, [FramePlace::FirstPush(1), FramePlace::FirstPush(2)]);
        assert_eq!(places(&branches(0.6)), [FramePlace::End(0)]);
    }

    #[test]
    fn a_loop_has_its_place_in_front_of_it() {
        let entered = |ways| {
            [block(1.0, false, ways), block(10.0, true, &[(1, 0.9), (2, 0.1)]), block(1.0, false, &[])]
        };
        assert_eq!(places(&entered(&[(1, 1.0)])), [FramePlace::End(0)]);
        // Only half of the activations come to it.
        assert_eq!(places(&entered(&[(2, 0.5), (1, 0.5)])), [FramePlace::On(0, 1)]);
        let mut fixed = entered(&[(2, 0.5), (1, 0.5)]);
        fixed[0].0.ways[1].can_be_split = false;
        assert_eq!(places(&fixed), [FramePlace::End(0)]);
    }

    #[test]
    fn a_loop_that_seldom_pushes_has_its_places_in_it() {
        let blocks = [
            block(1.0, false, &[(1, 1.0)]),
            block(10.0, false, &[(2, 0.3), (1, 0.6), (3, 0.1)]),
            block(3.0, true, &[(1, 1.0)]),
            block(1.0, false, &[]),
        ];
        assert_eq!(places(&blocks), [FramePlace::FirstPush(2)]);
    }

    #[test]
    fn blocks_that_nothing_reaches_have_their_own_places() {
        let blocks = [block(1.0, false, &[]), block(0.0, true, &[(1, 1.0)])];
        assert_eq!(places(&blocks), [FramePlace::FirstPush(1)]);
        assert_eq!(places(&[]), []);
    }
}
