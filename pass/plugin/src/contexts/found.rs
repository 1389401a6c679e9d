//! The state that a function found at its entry, for points where control arrives without a return.
//!
//! Between its calls a function has the state that it found. So if its invokes are cold, the state need not
//! be kept from the entry on: each invoke first writes it to the stack, and functions that rarely throw pay
//! nothing.

use std::collections::{HashMap, HashSet};

use super::rewrite::Symbols;
use crate::handles::FunctionCode;
use crate::llvm::{Address, Block, Builder, Instruction, Word};
use pcce_abi::layout;
use pcce_model::Function;
use pcce_model::plan::PlannedFunction;
use pcce_model::states::{RARELY, known};

/// The place of the state.
pub enum Found<'m> {
    /// The state is not needed.
    NotNeeded,
    /// Values that are read at the entry.
    Read(Word<'m>, Address<'m>),
    /// The frame for pushes: all calls that may throw push.
    InFrame(Address<'m>),
    /// Two words on the stack, in the order of a frame. They are written before these calls, together with
    /// the calls' own actions, and before these other instructions. (If they were in the order of the
    /// thread's block, LLVM would copy both at once, which the decoder does not follow.)
    Written(Address<'m>, HashSet<Instruction<'m>>, Vec<Instruction<'m>>),
}

impl<'m> Found<'m> {
    /// Reads the state here.
    pub fn here(b: &Builder<'m>, symbols: &Symbols<'m>) -> Self {
        Self::Read(b.load_word(symbols.id), b.load_address(symbols.top))
    }

    /// Chooses the frame of the function's pushes (`frame`) if possible, or two words, which are written
    /// before the first call of each block that ends with an invoke, before any action of that call, unless
    /// another block has written them on all paths. None if they cannot be written there, or would be written
    /// too often.
    pub fn written_late(
        b: &Builder<'m>,
        function: &Function,
        planned: &PlannedFunction,
        code: &FunctionCode<'m>,
        frame: Option<Address<'m>>,
    ) -> Option<Self> {
        if function.returns_twice || !code.comes_back.iter().all(|block| block.is_landing_pad()) {
            return None;
        }
        let mut first: HashMap<Block<'m>, usize> = HashMap::new();
        let mut pushes = HashSet::new();
        for call in &planned.calls {
            let value = code.calls[call.call];
            first.entry(value.block()).or_insert(call.call);
            pushes.extend(call.action.pushes().then_some(*value));
        }
        let (mut expected, mut calls, mut ends, mut others) = (0.0, HashSet::new(), Vec::new(), false);
        let blocks = code.value.blocks();
        let numbers: HashMap<Block<'m>, usize> = blocks.iter().copied().zip(0..).collect();
        let ways =
            |block: usize| blocks[block].terminator().successors().iter().map(|to| numbers[to]).collect();
        let known = known(blocks.len(), |block| blocks[block].may_throw(), ways);
        for (&block, known) in blocks.iter().zip(known) {
            let end = block.terminator();
            if !block.may_throw() {
                continue;
            }
            others |= !pushes.contains(&end);
            if known {
                continue;
            }
            match first.get(&block) {
                Some(&call) => {
                    expected += function.calls[call].frequency;
                    calls.insert(*code.calls[call]);
                }
                None => {
                    expected += 1.0;
                    ends.push(end);
                }
            }
        }
        if let Some(frame) = frame.filter(|_| !others) {
            return Some(Self::InFrame(frame));
        }
        (expected <= RARELY).then(|| Self::Written(b.alloca(16, "pcce.found"), calls, ends))
    }

    /// Returns whether the state is needed anywhere.
    pub fn is_needed(&self) -> bool {
        !matches!(self, Self::NotNeeded)
    }

    /// Writes the state before a call if necessary. `at` is where the call's own code begins.
    pub fn write(&self, b: &Builder<'m>, symbols: &Symbols<'m>, call: Instruction<'m>, at: Instruction<'m>) {
        if let Self::Written(words, calls, _) = self
            && calls.contains(&call)
        {
            write(b.before(at, call), symbols, *words);
        }
    }

    /// Writes the state at the ends of blocks without planned calls.
    pub fn write_at_ends(&self, b: &Builder<'m>, symbols: &Symbols<'m>) {
        let Self::Written(words, _, ends) = self else { return };
        for &end in ends {
            write(b.before(end, end), symbols, *words);
        }
    }

    /// Reads the state where it is needed.
    pub fn read(&self, b: &Builder<'m>) -> Option<(Word<'m>, Address<'m>)> {
        match *self {
            Self::NotNeeded => None,
            Self::Read(id, top) => Some((id, top)),
            Self::InFrame(words) | Self::Written(words, ..) => {
                let word = |offset| b.offset(words, offset);
                Some((b.load_word(word(layout::FRAME_ID)), b.load_address(word(layout::FRAME_PREV))))
            }
        }
    }
}

fn write<'m>(b: &Builder<'m>, symbols: &Symbols<'m>, words: Address<'m>) {
    let (id, top) = (b.load_word(symbols.id), b.load_address(symbols.top));
    b.store(top, b.offset(words, layout::FRAME_PREV));
    b.store(id, b.offset(words, layout::FRAME_ID));
}
