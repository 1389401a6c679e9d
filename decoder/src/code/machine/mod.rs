//! Machine code in a form that all machines share: a decoder of each machine turns its instructions into
//! [`Instruction`]s, and the data flow knows only those.
//!
//! Another machine is a module here, a line in [`of`], and one in each of [`Unwinding`] and [`Unwinding::start`].
//! [`REGISTERS`] is as large as the largest set of them.

mod aarch64;
mod x86_64;

use object::elf;
use object::read::elf::FileHeader;
use pcce_abi::unwind;

/// The decoder's interface to a machine.
pub(crate) trait Machine: Sync {
    /// The facts that pass, runtime and decoder share.
    fn shared(&self) -> &'static pcce_abi::machine::Machine;

    fn registers(&self) -> &'static Registers;

    /// Decodes instructions until the bytes end, and appends them. Returns false if the bytes are not code.
    fn decode(&self, address: u64, bytes: &[u8], code: &mut Decoded) -> bool;

    /// Decodes the instruction at the beginning of `bytes`. None if there is none.
    fn instruction(&self, address: u64, bytes: &[u8]) -> Option<Instruction>;

    /// Returns whether code may address memory by its distance from the thread pointer. This looks at bytes
    /// only.
    fn may_address_thread(&self, bytes: &[u8]) -> bool;

    /// The references of single instructions to thread-local storage. None if the bytes are not code.
    fn thread_references(&self, address: u64, bytes: &[u8]) -> Option<Vec<ThreadReference>>;

    /// Bytes of each of the linker's stubs in a section (`.plt`, `.plt.sec` or `.plt.got`).
    fn stub_size(&self, section: &str, bytes: &[u8]) -> usize;

    fn relocation(&self, kind: elf::RelocationType) -> Relocation;

    /// The registers in a `NT_PRSTATUS` note of a core file.
    fn note_registers(&self, note: &[u8]) -> Option<NoteRegisters>;

    /// Reads another note of the same thread, of the kernel's own kinds (with the name `LINUX`).
    fn more_registers(&self, kind: u32, note: &[u8], registers: &mut NoteRegisters);
}

/// The machine with the number `e_machine` of ELF headers. None if the decoder does not know it.
pub(crate) fn of(number: elf::Machine) -> Option<&'static dyn Machine> {
    match number {
        elf::EM_X86_64 => Some(&x86_64::X86_64),
        elf::EM_AARCH64 => Some(&aarch64::AArch64),
        _ => None,
    }
}

pub(crate) fn of_file(file: &object::File<'_>) -> Option<&'static dyn Machine> {
    let object::File::Elf64(file) = file else { return None };
    of(file.elf_header().e_machine(file.endian()))
}

/// The registers whose values the data flow follows.
#[derive(Debug)]
pub(crate) struct Registers {
    pub(crate) stack_pointer: Register,
    /// Registers that a call may change.
    pub(crate) volatile: RegisterSet,
    /// The canonical frame address less the stack pointer at a function's entry.
    pub(crate) entry_to_cfa: i64,
}

/// No machine has more registers whose values are followed.
pub(crate) const REGISTERS: usize = 32;

/// A register, by its number in instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Register(pub(crate) u8);

impl Register {
    /// A register whose values are not followed.
    pub(crate) const UNTRACKED: Self = Self(u8::MAX);
}

/// A bit for each register.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RegisterSet(pub(crate) u32);

impl RegisterSet {
    pub(crate) fn contains(self, register: Register) -> bool {
        u32::from(register.0) < u32::BITS && self.0 >> register.0 & 1 == 1
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Register> {
        (0..u32::BITS as u8).filter(move |number| self.0 >> number & 1 == 1).map(Register)
    }
}

#[derive(Default)]
pub(crate) struct Decoded {
    pub(crate) instructions: Vec<Instruction>,
    /// Addresses in the image that instructions make.
    pub(crate) addresses: Vec<u64>,
    /// Tables of addresses that instructions read ([`Memory::Table`]).
    pub(crate) tables: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    pub(crate) address: u64,
    pub(crate) len: u8,
    /// True if it does nothing, or ends the program: compilers put it between functions.
    pub(crate) is_padding: bool,
    pub(crate) control: Control,
    pub(crate) effect: Effect,
    /// The effect on a second register or word, which does not depend on the first.
    pub(crate) also: Effect,
    pub(crate) changed: RegisterSet,
    /// The bytes that it adds to the stack pointer in passing, as pushes, pops and calls do, behind its other effects.
    pub(crate) moves_stack: i32,
    pub(crate) comparison: Comparison,
}

/// The part of an instruction in the comparison that stands in front of a jump table: of a register with a constant,
/// both without signs, with its result in the flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    Keeps,
    /// The flags are written otherwise, or not known.
    Forgets,
    Makes(Register, u16),
    /// It jumps where the register is at most the constant.
    JumpsAtMost,
    JumpsBelow,
    JumpsAbove,
    JumpsAtLeast,
}

impl Instruction {
    /// The address of the instruction that follows in memory.
    pub(crate) fn next(&self) -> u64 {
        self.address.wrapping_add(self.len.into())
    }

    pub(crate) fn is_call(&self) -> bool {
        matches!(self.control, Control::Call(_) | Control::IndirectCall(_))
    }

    pub(crate) fn jump_target(&self) -> Option<u64> {
        match self.control {
            Control::Jump { target, .. } => Some(target),
            _ => None,
        }
    }

    /// Returns whether control never goes on at the next instruction in memory.
    pub(crate) fn ends_block(&self) -> bool {
        matches!(
            self.control,
            Control::Jump { conditional: false, .. }
                | Control::IndirectJump(_)
                | Control::Return
                | Control::Trap
        )
    }
}

/// The place to which control goes after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Control {
    /// To the next instruction.
    Next,
    /// To a function, and back.
    Call(u64),
    /// To an address that is an operand, and back.
    IndirectCall(Operand),
    /// To the system, and back.
    SystemCall,
    Jump {
        target: u64,
        conditional: bool,
    },
    /// To an address that is an operand.
    IndirectJump(Operand),
    Return,
    /// Nowhere: the program ends.
    Trap,
    /// Elsewhere, as by an interrupt.
    Other,
}

/// The effect of an instruction on registers and memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// Only the registers that it changes are known.
    None,
    Set(Register, Computation),
    /// It writes to memory. `size` is in bytes.
    Store {
        to: Memory,
        size: u32,
        update: Update,
    },
}

/// The new value of a register.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Computation {
    Copy(Operand),
    /// The value of a register, and an operand.
    Add(Register, Operand),
    Subtract(Register, Operand),
    Or(Register, Operand),
    /// The value of a register with some bits kept, and others in the place of the rest.
    Replace {
        register: Register,
        keep: u64,
        bits: u64,
    },
    /// A sum of registers and a constant.
    Sum {
        base: Register,
        index: Option<Register>,
        addend: u64,
    },
    /// The stack pointer, aligned.
    AlignedStack,
    /// The word at the stack pointer.
    Pop,
    /// The value of a register, and that of another one shifted left.
    Shifted {
        base: Register,
        index: Register,
        shift: u32,
    },
    /// The lower half of a register.
    Low(Register),
    /// A number that is not larger than this.
    AtMost(u64),
    /// An entry of a table whose address is in a register.
    Entry {
        table: Register,
        index: Register,
        kind: Entry,
    },
}

/// The entries of a jump table: distances of the targets from an address that the function makes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Entry {
    /// Distances forwards, in units of four bytes.
    Byte,
    HalfWord,
    /// A distance with a sign, in bytes.
    Word,
}

impl Entry {
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::HalfWord => 2,
            Self::Word => 4,
        }
    }

    /// By how much an entry is shifted left before it is added.
    pub(crate) fn shift(self) -> u32 {
        match self {
            Self::Byte | Self::HalfWord => 2,
            Self::Word => 0,
        }
    }

    /// The distance, in bytes.
    pub(crate) fn distance(self, bytes: &[u8]) -> Option<i64> {
        let entry: i64 = match self {
            Self::Byte => (*bytes.first()?).into(),
            Self::HalfWord => u16::from_le_bytes(*bytes.first_chunk()?).into(),
            Self::Word => i32::from_le_bytes(*bytes.first_chunk()?).into(),
        };
        Some(entry << self.shift())
    }
}

/// The new value of a word in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Update {
    Set(Operand),
    Add(Operand),
    Subtract(Operand),
    Or(Operand),
    Unknown,
}

/// An operand of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operand {
    Unknown,
    Register(Register),
    Constant(u64),
    Load(Memory),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// The word at the thread pointer, which holds the thread pointer itself.
    ThreadPointer,
    /// At a distance from the thread pointer.
    Thread(i64),
    /// At a distance from the sum of the thread pointer and a register.
    ThreadRegister(Register, i64),
    ThreadArray,
    /// At a distance from a register.
    Register(Register, i64),
    Image(u64),
    /// An element of the table of addresses at an address of the image.
    Table(u64),
    Other,
}

/// A reference of an instruction to thread-local storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ThreadReference {
    /// A distance from the thread pointer.
    Offset(i64),
    /// A word of the image, which may hold such a distance.
    Word(u64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relocation {
    /// The word becomes the distance of a thread-local variable from the thread pointer.
    ThreadOffset,
    /// The word becomes the address of a symbol.
    Import,
    /// The word becomes an address in the same image.
    Relative,
    Other,
}

/// A thread's registers in a core file.
pub(crate) struct NoteRegisters {
    pub(crate) unwinding: Unwinding,
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    /// None if the note has none, and another one of the thread has it.
    pub(crate) thread_pointer: Option<u64>,
    /// The bits of return addresses in which the process had signatures.
    pub(crate) signed_bits: u64,
}

/// The registers with which a walk over a thread's stack begins, of each machine.
pub(crate) enum Unwinding {
    X86_64(unwind::Registers<pcce_abi::machine::x86_64::X86_64>),
    AArch64(unwind::Registers<pcce_abi::machine::aarch64::AArch64>),
}

/// Work that begins with the registers of a thread, for each machine.
pub(crate) trait Start {
    fn start<M: unwind::Unwind>(self, registers: unwind::Registers<M>);
}

impl Unwinding {
    pub(crate) fn start(&self, what: impl Start) {
        match *self {
            Self::X86_64(registers) => what.start(registers),
            Self::AArch64(registers) => what.start(registers),
        }
    }
}
