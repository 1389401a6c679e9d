//! The instructions of a function, decoded.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::flow::Surroundings;

/// Functions with more bytes are not followed: their instructions would fill the memory.
const MOST_BYTES: usize = 1 << 21;

/// The instructions of a function.
pub(super) struct Function {
    pub(super) start: u64,
    /// Where its parts are, by ascending address.
    pub(super) parts: Vec<Range<u64>>,
    /// By ascending address.
    pub(super) instructions: Vec<Instruction>,
}

impl Function {
    /// Decodes the function from its parts, first of all the one that begins it: addresses and bytes. None if these are
    /// no code, or too much of it.
    pub(super) fn new(parts: &[(u64, &[u8])]) -> Option<Self> {
        let bytes = parts.iter().map(|part| part.1.len()).sum::<usize>();
        if bytes > MOST_BYTES {
            return None;
        }
        let mut instructions = Vec::with_capacity(bytes / 4);
        for (start, bytes) in parts {
            let mut decoder = Decoder::with_ip(64, bytes, *start, DecoderOptions::NONE);
            while decoder.can_decode() {
                let instruction = decoder.decode();
                if instruction.is_invalid() {
                    return None;
                }
                instructions.push(instruction);
            }
        }
        instructions.sort_unstable_by_key(Instruction::ip);
        let start = parts.first()?.0;
        let parts = parts.iter().map(|(start, bytes)| *start..start.saturating_add(bytes.len() as u64));
        let mut parts: Vec<_> = parts.collect();
        parts.sort_unstable_by_key(|part| part.start);
        Some(Self { start, parts, instructions })
    }

    /// Targets of jumps out of the function, where the jump says it.
    pub(super) fn exits(&self) -> impl Iterator<Item = u64> {
        self.jumps().filter(|&target| !self.contains(target) && !self.is_end(target))
    }

    /// Targets of jumps, where the jump says it.
    pub(super) fn jumps(&self) -> impl Iterator<Item = u64> {
        let jumps = self.instructions.iter().filter(|i| is_direct_jump(i));
        jumps.map(Instruction::near_branch_target)
    }

    /// The address behind the last instruction, if that one is followed by the next one there.
    pub(super) fn falls_through_to(&self) -> Option<u64> {
        let last = self.instructions.last().filter(|i| !ends(i) && !is_call(i) && !is_padding(i));
        last.map(Instruction::next_ip)
    }

    /// Addresses of the instructions.
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> {
        self.instructions.iter().map(Instruction::ip)
    }

    /// Calls: the address behind the call, and what is called, where the call says it.
    pub(super) fn calls(&self) -> impl Iterator<Item = (u64, Option<u64>)> {
        let direct = |i: &Instruction| i.op0_kind() == OpKind::NearBranch64;
        let calls = self.instructions.iter().filter(|i| is_call(i));
        calls.map(move |i| (i.next_ip(), direct(i).then(|| i.near_branch_target())))
    }

    /// The word through which the function's first jump goes, where it is at a fixed address.
    pub(super) fn jumps_through(&self) -> Option<u64> {
        let jump = self.instructions.iter().find(|i| i.flow_control() == FlowControl::IndirectBranch)?;
        jump.is_ip_rel_memory_operand().then(|| jump.ip_rel_memory_address())
    }

    /// Which instruction begins at an address.
    pub(super) fn index_of(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, Instruction::ip).ok()
    }

    /// Whether an address is in one of the parts.
    pub(super) fn contains(&self, address: u64) -> bool {
        let after = self.parts.partition_point(|part| part.start <= address);
        self.parts[..after].last().is_some_and(|part| address < part.end)
    }

    /// Whether a part ends at an address, and nothing of the function follows.
    pub(super) fn is_end(&self, address: u64) -> bool {
        let after = self.parts.partition_point(|part| part.start < address);
        self.parts[..after].last().is_some_and(|part| part.end == address) && !self.contains(address)
    }
}

/// Whether an instruction of some code names the thread-local block: an estimate that looks at single instructions.
pub(super) fn names_block(start: u64, bytes: &[u8], image: &dyn Surroundings) -> bool {
    let mut named = false;
    for i in &mut Decoder::with_ip(64, bytes, start, DecoderOptions::NONE) {
        if i.is_invalid() {
            return false;
        }
        let alone = i.memory_base() == Register::None && i.memory_index() == Register::None;
        named |= if i.memory_segment() == Register::FS && alone {
            image.tls_offset() == Some(i.memory_displacement64() as i64)
        } else {
            i.mnemonic() == Mnemonic::Mov
                && i.is_ip_rel_memory_operand()
                && image.tls_slot(i.ip_rel_memory_address()).is_some()
        };
    }
    named
}

pub(super) fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
        && instruction.mnemonic() == Mnemonic::Call
}

pub(super) fn is_direct_jump(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
}

/// Whether an instruction does nothing, or ends the program.
pub(super) fn is_padding(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2)
}

/// Whether the next instruction is not reached from this one.
pub(super) fn ends(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return => true,
        FlowControl::Exception => instruction.mnemonic() == Mnemonic::Ud2,
        _ => false,
    }
}
