//! Where the frame for a function's pushes begins: once in front of all pushes of an activation, where that is best.

use std::collections::BTreeSet;

use pcce_encoding::{FlowBlock, FramePlace, frame_places};

use crate::plan::PlannedCall;
use crate::{Call, Function};

/// Where the frame begins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FrameBegins {
    /// At these calls, by their places in the function's calls: their pushes begin it.
    pub at_pushes: BTreeSet<usize>,
    /// In front of the last instruction of these blocks.
    pub at_ends: BTreeSet<u32>,
    /// On ways from the end of one block to another, ⟨block, successor⟩, in the order in which blocks are made for
    /// them.
    pub on_ways: Vec<(u32, u32)>,
}

impl FrameBegins {
    /// Whether it begins in front of the call, at the end of the call's block.
    pub fn is_before(&self, call: &Call) -> bool {
        call.ends_block && self.at_ends.contains(&call.block)
    }
}

/// Finds where the frame begins; none if no call pushes.
pub fn find(
    function: &Function,
    calls: &[PlannedCall],
    flow: impl FnOnce() -> Vec<FlowBlock>,
) -> Option<FrameBegins> {
    let mut pushing = calls.iter().filter(|call| call.pushes()).map(|call| call.call).peekable();
    pushing.peek()?;
    if function.reads_state {
        // It may switch to another state.
        return Some(FrameBegins { at_pushes: pushing.collect(), ..FrameBegins::default() });
    }
    let flow = flow();
    let mut first_push = vec![None; flow.len()];
    for call in pushing {
        first_push[function.calls[call].block as usize].get_or_insert(call);
    }
    let mut begins = FrameBegins::default();
    let pushes: Vec<bool> = first_push.iter().map(Option::is_some).collect();
    for place in frame_places(&flow, &pushes) {
        match place {
            FramePlace::FirstPush(block) => begins.at_pushes.extend(first_push[block as usize]),
            FramePlace::End(block) => _ = begins.at_ends.insert(block),
            FramePlace::On(from, way) => begins.on_ways.push((from, way)),
        }
    }
    Some(begins)
}
