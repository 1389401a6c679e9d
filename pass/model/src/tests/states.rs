//! The states that functions keep between their calls: on every way through them, each call has the state that it
//! needs.

use std::collections::BTreeSet;

use pcce_encoding::{FlowBlock, Way};

use crate::plan::{Action, FrameBegins, PlannedCall, Push, place_frame};
use crate::states::{self, State, Update};
use crate::testing::*;
use crate::{Call, Function};

/// A function: its blocks, and its calls with their actions.
struct Code {
    flow: Vec<FlowBlock>,
    function: Function,
    calls: Vec<PlannedCall>,
    frame: Option<FrameBegins>,
    updates: Vec<Update>,
}

impl Code {
    fn new(flow: Vec<FlowBlock>, calls: &[(u32, Action, u32, bool)]) -> Self {
        let call = |&(block, _, _, ends_block): &(u32, Action, u32, bool)| {
            let frequency = flow[block as usize].frequency;
            Call { block, ends_block, frequency, ..external("f") }
        };
        let function = exported("main", &calls.iter().map(call).collect::<Vec<_>>());
        let new = |(call, &(_, action, site, _))| PlannedCall::new(call, action, site);
        let mut calls: Vec<PlannedCall> = (0..).zip(calls).map(new).collect();
        let frame = place_frame(&function, &calls, || &flow);
        let updates = states::keep(&function, &mut calls, frame.as_ref(), || &flow);
        Self { flow, function, calls, frame, updates }
    }

    fn within(&self, block: u32) -> impl Iterator<Item = &PlannedCall> {
        self.calls.iter().filter(move |call| self.function.calls[call.call].block == block)
    }

    /// Goes through the function, and checks the state everywhere.
    fn walk(&self, mut choose: impl FnMut(usize) -> usize) {
        let (mut block, mut state, mut begun) = (0, State::Found, false);
        let none = FrameBegins::default();
        let frame = self.frame.as_ref().unwrap_or(&none);
        let begin = |state: State, begun: &mut bool| {
            assert_eq!(state, State::Found, "the frame holds what the function found");
            *begun = true;
        };
        let enters = |to: State, begun: bool| assert!(begun || !matches!(to, State::Pushed(..)), "no frame");
        for _ in 0..40 {
            let of_block = &self.flow[block as usize];
            if of_block.restores {
                state = State::Found;
            }
            if of_block.throws && self.within(block).next().is_none() {
                // Invokes of which nothing is planned.
                assert!(state == State::Found || states_known(&self.flow)[block as usize]);
            }
            let mut ended = false;
            for call in self.within(block) {
                assert_eq!(call.before, state);
                let of_function = &self.function.calls[call.call];
                ended = of_function.ends_block;
                if frame.at_pushes.contains(&call.call) || frame.is_before(of_function) {
                    begin(state, &mut begun);
                }
                enters(call.needs(), begun);
                state = call.behind;
                enters(state, begun);
            }
            if frame.at_ends.contains(&block) && !ended {
                begin(state, &mut begun);
            }
            if of_block.ways.is_empty() {
                assert_eq!(state, State::Found, "at the end");
                return;
            }
            let way = choose(of_block.ways.len()) as u32;
            if frame.on_ways.contains(&(block, way)) {
                begin(state, &mut begun);
            }
            let taken = &of_block.ways[way as usize];
            if let Some(update) =
                self.updates.iter().find(|update| (update.block, update.way) == (block, way))
            {
                assert!(taken.can_be_split);
                assert_eq!(update.from, state);
                state = update.to;
                enters(state, begun);
            }
            block = taken.to;
        }
    }
}

fn states_known(flow: &[FlowBlock]) -> Vec<bool> {
    // Reached by a way on which no block throws.
    let mut reached = BTreeSet::from([0_usize]);
    loop {
        let more: Vec<usize> = reached
            .iter()
            .filter(|&&block| !flow[block].throws)
            .flat_map(|&block| flow[block].ways.iter().map(|way| way.to as usize))
            .filter(|to| !reached.contains(to))
            .collect();
        if more.is_empty() {
            return (0..flow.len()).map(|block| !reached.contains(&block)).collect();
        }
        reached.extend(more);
    }
}

fn block(frequency: f64, ways: &[(u32, f64)]) -> FlowBlock {
    let ways = ways.iter().map(|&(to, probability)| way(to, probability)).collect();
    FlowBlock { frequency, ways, ..FlowBlock::default() }
}

const PUSH: Action = Action::Push(Push::Relative);

/// A loop of block 1 between blocks 0 and 2.
fn a_loop() -> Vec<FlowBlock> {
    vec![block(1.0, &[(1, 1.0)]), block(30.0, &[(1, 0.97), (2, 0.03)]), block(1.0, &[])]
}

#[test]
fn on_every_way_each_call_has_the_state_that_it_needs() {
    let mut below = random();
    let mut kept = [0; 2];
    for _ in 0..4000 {
        let count = 1 + below(8);
        let frequencies = [0.0, 0.02, 0.5, 1.0, 1.0, 20.0, 400.0];
        let flow: Vec<FlowBlock> = (0..count)
            .map(|b| {
                let ways = (0..below(4)).map(|_| Way {
                    to: below(count) as u32,
                    probability: 0.5,
                    can_be_split: below(4) > 0,
                });
                let ways: Vec<Way> = ways.collect();
                let frequency = frequencies[below(frequencies.len())];
                let throws = !ways.is_empty() && below(6) == 0;
                FlowBlock { frequency, ways, throws, restores: b > 0 && below(8) == 0 }
            })
            .collect();
        let mut calls = Vec::new();
        for (b, block) in flow.iter().enumerate() {
            let within = below(4);
            for n in 0..within {
                let action = match below(6) {
                    0 => Action::None,
                    1 | 2 => Action::Add(1 + below(2) as u64),
                    3 => Action::Push(Push::Zero),
                    _ => PUSH,
                };
                let ends = block.throws && n + 1 == within;
                calls.push((b as u32, action, below(3) as u32, ends));
            }
        }
        let code = Code::new(flow, &calls);
        kept[0] += code.calls.iter().filter(|call| call.before != State::Found).count();
        kept[1] += code.updates.len();
        for _ in 0..60 {
            code.walk(&mut below);
        }
    }
    assert!(kept.iter().all(|&kept| kept > 1000), "{kept:?}");
}

#[test]
fn a_loop_keeps_what_its_call_needs() {
    for action in [Action::Add(3), PUSH, Action::Push(Push::Zero)] {
        let code = Code::new(a_loop(), &[(1, action, 7, false)]);
        let needed = code.calls[0].needs();
        assert_eq!([code.calls[0].before, code.calls[0].behind], [needed; 2]);
        let [into, out] = [(0, 0), (1, 1)].map(|(block, way)| (block, way));
        let update = |(block, way), from, to| Update { block, way, from, to };
        assert_eq!(code.updates, [update(into, State::Found, needed), update(out, needed, State::Found)]);
    }
    // Not if few rounds of the loop reach the call.
    let mut flow = a_loop();
    flow[1].ways = vec![way(3, 0.001), way(1, 0.969), way(2, 0.03)];
    flow.push(block(0.03, &[(1, 1.0)]));
    let code = Code::new(flow.clone(), &[(3, PUSH, 7, false)]);
    assert_eq!(code.updates, []);
    // A call in few rounds does not prevent it for the other call.
    let code = Code::new(flow, &[(1, PUSH, 7, false), (3, Action::None, 8, false)]);
    let pushed = State::Pushed(Push::Relative, 7);
    assert_eq!([code.calls[0].before, code.calls[0].behind], [pushed; 2]);
    assert_eq!([code.calls[1].before, code.calls[1].behind], [State::Found; 2]);
}

#[test]
fn calls_of_one_loop_take_over_from_each_other() {
    let code = Code::new(a_loop(), &[(1, PUSH, 7, false), (1, PUSH, 8, false)]);
    let pushed = |site| State::Pushed(Push::Relative, site);
    let kept = code.calls.iter().flat_map(|call| [call.before, call.behind]);
    assert!(kept.into_iter().all(|state| [pushed(7), pushed(8)].contains(&state)));
    // An addition in between takes the frame away, since that costs less than two pushes.
    let code = Code::new(a_loop(), &[(1, PUSH, 7, false), (1, Action::Add(3), 8, false)]);
    assert_eq!(code.calls[0].behind, State::Found);
}

#[test]
fn the_next_block_takes_over() {
    let invoke = |block, action| (block, action, block, true);
    let blocks = || {
        let pad = FlowBlock { restores: true, ..block(1.0, &[]) };
        let ways = [1, 2].map(|to| Way { can_be_split: false, ..way(to, 0.5) });
        let invokes = FlowBlock { frequency: 1.0, ways: ways.into(), throws: true, restores: false };
        vec![invokes, block(1.0, &[]), pad]
    };
    let two = [invoke(0, PUSH), (1, Action::Push(Push::Zero), 1, false)];
    assert_ne!(Code::new(blocks(), &two).calls[0].behind, State::Found);
    // A relative push needs the id.
    let two = [invoke(0, Action::Push(Push::Zero)), (1, PUSH, 1, false)];
    assert_eq!(Code::new(blocks(), &two).calls[0].behind, State::Found);
}
