//! The instructions of a function, and the interface to the image around it.

use std::ops::Range;

use super::machine::{Control, Decoded, Instruction, Machine, Memory, Operand};

/// Functions with more bytes are not followed: their instructions would fill the memory.
const MAX_BYTES: usize = 1 << 21;

pub(super) struct Function {
    pub(super) machine: &'static dyn Machine,
    pub(super) start: u64,
    /// The ranges of its parts, by ascending address.
    pub(super) parts: Vec<Range<u64>>,
    /// By ascending address.
    pub(super) instructions: Vec<Instruction>,
    /// Addresses in the image that instructions make.
    pub(super) addresses: Vec<u64>,
    /// Tables of addresses that instructions read.
    pub(super) tables: Vec<u64>,
}

impl Function {
    /// Decodes a function from the addresses and bytes of its parts; the first part has the entry. None if the
    /// bytes are not code, or too many.
    pub(super) fn new(machine: &'static dyn Machine, parts: &[(u64, &[u8])]) -> Option<Self> {
        let bytes = parts.iter().map(|part| part.1.len()).sum::<usize>();
        if bytes > MAX_BYTES {
            return None;
        }
        let mut code = Decoded { instructions: Vec::with_capacity(bytes / 4), ..Decoded::default() };
        for (start, bytes) in parts {
            if !machine.decode(*start, bytes, &mut code) {
                return None;
            }
        }
        let Decoded { mut instructions, addresses, tables } = code;
        instructions.sort_unstable_by_key(|instruction| instruction.address);
        let start = parts.first()?.0;
        let parts = parts.iter().map(|(start, bytes)| *start..start.saturating_add(bytes.len() as u64));
        let mut parts: Vec<_> = parts.collect();
        parts.sort_unstable_by_key(|part| part.start);
        Some(Self { machine, start, parts, instructions, addresses, tables })
    }

    /// The targets of direct jumps out of the function.
    pub(super) fn exits(&self) -> impl Iterator<Item = u64> {
        self.jumps().filter(|&target| self.is_outside(target))
    }

    pub(super) fn jumps(&self) -> impl Iterator<Item = u64> {
        self.instructions.iter().filter_map(Instruction::jump_target)
    }

    /// The address after the last instruction, if control falls through to it.
    pub(super) fn falls_through_to(&self) -> Option<u64> {
        let last = self.instructions.last().filter(|i| !i.ends_block() && !i.is_call() && !i.is_padding);
        last.map(Instruction::next)
    }

    /// The calls: the return address, and the target.
    pub(super) fn calls(&self) -> impl Iterator<Item = (u64, CallTarget)> {
        self.instructions.iter().filter_map(|i| {
            let target = match i.control {
                Control::Call(callee) => CallTarget::Function(callee),
                Control::IndirectCall(Operand::Load(Memory::Image(word))) => CallTarget::Word(word),
                Control::IndirectCall(_) => CallTarget::Unknown,
                _ => return None,
            };
            Some((i.next(), target))
        })
    }

    /// The word at a fixed address through which the function's first indirect jump goes.
    pub(super) fn jumps_through(&self) -> Option<u64> {
        self.instructions.iter().find_map(|i| match i.control {
            Control::IndirectJump(Operand::Load(Memory::Image(word))) => Some(Some(word)),
            Control::IndirectJump(_) => Some(None),
            _ => None,
        })?
    }

    /// The index of the instruction that begins at an address.
    pub(super) fn index_of(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, |i| i.address).ok()
    }

    /// Returns whether an address is in one of the parts.
    pub(super) fn contains(&self, address: u64) -> bool {
        let after = self.parts.partition_point(|part| part.start <= address);
        self.parts[..after].last().is_some_and(|part| address < part.end)
    }

    /// Returns whether a part ends at an address, and nothing of the function follows.
    pub(super) fn is_end(&self, address: u64) -> bool {
        let after = self.parts.partition_point(|part| part.start < address);
        self.parts[..after].last().is_some_and(|part| part.end == address) && !self.contains(address)
    }

    /// Returns whether a jump to an address leaves the function. After a call that never returns, a jump may go
    /// to the end of the function, which has no more code there.
    pub(super) fn is_outside(&self, address: u64) -> bool {
        !self.contains(address) && !self.is_end(address)
    }
}

/// The target of a call.
pub(super) enum CallTarget {
    /// The address of a function.
    Function(u64),
    /// The address that is in the word at this address.
    Word(u64),
    Unknown,
}

/// The facts about the image around a function that the data flow needs.
pub(super) trait Surroundings {
    /// The bytes of the image from an address on, as far as the file has them.
    fn bytes(&self, address: u64) -> &[u8];
    /// The offset of the thread-local block from the thread pointer, where it is a constant.
    fn tls_offset(&self) -> Option<i64>;
    /// If the word at an address holds that offset at run time: the constant that is added to it.
    fn tls_slot(&self, address: u64) -> Option<i64>;
    /// Addresses between `from` and `to` to which data of the image refers.
    fn address_taken(&self, from: u64, to: u64) -> &[u64];
    /// The kind of code at the target of a call.
    fn callee(&self, address: u64) -> Callee<'_>;
    /// Takes steps, about an instruction each, from those left for the image. Returns false if fewer are left:
    /// states that are not known by then stay unknown.
    fn spend(&self, steps: u64) -> bool;
}

/// The target of a call, or of a jump out of the function.
pub(super) enum Callee<'a> {
    /// It returns with the id that it found.
    Function,
    /// A sequence of instructions that LLVM's machine outliner took out of several functions.
    Outlined(&'a Function),
    /// It may do anything to the id.
    Opaque,
}
