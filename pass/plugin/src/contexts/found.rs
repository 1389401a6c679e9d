//! The state that a function found at its entry, where it is needed again: control arrives there without a return.
//!
//! Between its calls a function's state is what it found. So where its invokes are cold, it need not be kept from the
//! entry on: each of them writes it to the stack before, and functions that rarely throw pay nothing.

use std::collections::{HashMap, HashSet};

use super::rewrite::Symbols;
use crate::code::FunctionCode;
use crate::llvm::{Address, Block, Builder, Instruction, Word};
use pcce_abi::layout;
use pcce_model::Function;
use pcce_model::plan::{Action, PlannedFunction};

/// More than this many executions of invokes for one of their function, and keeping the state from the entry on is
/// cheaper: two loads and two registers there, two loads and two stores here.
const RARELY: f64 = 1.0;

/// Where the state is.
pub enum Found<'m> {
    /// Nowhere: it is not needed.
    NotNeeded,
    /// It was read at the entry.
    Read(Word<'m>, Address<'m>),
    /// In this frame: all that may throw is called by pushes.
    InFrame(Address<'m>),
    /// In two words on the stack, in a frame's order, which are written in front of these calls, with what is done
    /// there, and of these other instructions. (In the order of the thread's block LLVM copies both at once, and the
    /// decoder does not follow that.)
    Written(Address<'m>, HashSet<Instruction<'m>>, Vec<Instruction<'m>>),
}

impl<'m> Found<'m> {
    /// It is read here.
    pub fn here(b: &Builder<'m>, symbols: &Symbols<'m>) -> Self {
        Self::Read(b.load_word(symbols.id), b.load_address(symbols.top))
    }

    /// The frame of the function's pushes (`frame`), if that will do, or two words, and where they are to be written:
    /// in front of the first call of each block that ends with an invoke, where nothing of that call has been done,
    /// but not where another block has written them on all ways. None if they cannot be, or if that is often.
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
            pushes.extend(matches!(call.action, Action::Push(_)).then_some(*value));
        }
        let (mut expected, mut calls, mut ends, mut others) = (0.0, HashSet::new(), Vec::new(), false);
        let blocks = code.value.blocks();
        let known = known(&blocks);
        for block in blocks {
            let end = block.terminator();
            if !may_throw(block) {
                continue;
            }
            others |= !pushes.contains(&end);
            if known.contains(&block) {
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

    /// Returns whether there are places at which it is needed.
    pub fn is_needed(&self) -> bool {
        !matches!(self, Self::NotNeeded)
    }

    /// Writes it in front of a call where that has to be. `at`: where the work in front of the call begins.
    pub fn write(&self, b: &Builder<'m>, symbols: &Symbols<'m>, call: Instruction<'m>, at: Instruction<'m>) {
        if let Self::Written(words, calls, _) = self
            && calls.contains(&call)
        {
            write(b.before(at, call), symbols, *words);
        }
    }

    /// Writes it where no call has work in front of it.
    pub fn write_at_ends(&self, b: &Builder<'m>, symbols: &Symbols<'m>) {
        let Self::Written(words, _, ends) = self else { return };
        for &end in ends {
            write(b.before(end, end), symbols, *words);
        }
    }

    /// Reads it where it is needed.
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

/// Returns whether the block ends with an invoke.
fn may_throw(block: Block<'_>) -> bool {
    block.terminator().as_call().and_then(|call| call.unwind_destination()).is_some()
}

/// The blocks that are only reached through others that end with invokes, on all ways from the first one.
fn known<'m>(blocks: &[Block<'m>]) -> HashSet<Block<'m>> {
    let mut known: HashSet<Block<'m>> = blocks.iter().skip(1).copied().collect();
    let mut waiting: Vec<Block<'m>> = blocks.first().copied().into_iter().collect();
    while let Some(block) = waiting.pop() {
        if !may_throw(block) {
            waiting.extend(block.terminator().successors().into_iter().filter(|next| known.remove(next)));
        }
    }
    known
}

fn write<'m>(b: &Builder<'m>, symbols: &Symbols<'m>, words: Address<'m>) {
    let (id, top) = (b.load_word(symbols.id), b.load_address(symbols.top));
    b.store(top, b.offset(words, layout::FRAME_PREV));
    b.store(id, b.offset(words, layout::FRAME_ID));
}
