//! The registers of x86-64, by their numbers in the unwind tables.
use super::Process;

/// Numbers of the registers in the unwind tables (System V psABI for x86-64).
const RBX: usize = 3;
pub(super) const RBP: usize = 6;
pub(super) const RSP: usize = 7;
/// With the three that follow.
const R12: usize = 12;
pub(super) const RIP: usize = 16;
pub(super) const REGISTERS: usize = 17;
/// Bits of the registers that functions preserve.
pub(super) const PRESERVED: u32 = 1 << RBX | 1 << RBP | 0b1111 << R12;

/// The registers of an activation, as far as they are known.
#[derive(Clone, Copy)]
pub struct Registers {
    values: [u64; REGISTERS],
    pub(super) known: u32,
    /// Whether nothing can be executed at the program counter: the processor has tried to.
    pub is_astray: bool,
}

impl Registers {
    /// Nothing is known.
    pub const NONE: Self = Self { values: [0; REGISTERS], known: 0, is_astray: false };

    /// Only the program counter and the stack pointer are known.
    pub fn at(pc: usize, sp: usize) -> Self {
        let mut registers = Self::NONE;
        registers.set(RIP, pc as u64);
        registers.set(RSP, sp as u64);
        registers
    }

    /// All of them, in the order of the unwind tables: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, and the
    /// program counter.
    pub fn all(values: [u64; REGISTERS]) -> Self {
        Self { values, known: (1 << REGISTERS) - 1, is_astray: false }
    }

    /// Those of the code that a signal interrupted, from the `ucontext_t` at this address. None if it cannot be read.
    pub fn interrupted<'p>(process: &mut impl Process<'p>, context: usize) -> Option<Self> {
        // Words from the beginning of the structure on (`<sys/ucontext.h>`: `uc_mcontext.gregs` is at word 5), in the
        // order of the registers' numbers.
        const SAVED: [usize; REGISTERS] = [18, 17, 19, 16, 14, 13, 15, 20, 5, 6, 7, 8, 9, 10, 11, 12, 21];
        const TRAPNO: usize = 25;
        const CR2: usize = 27;
        const PAGE_FAULT: u64 = 14;
        let mut registers = Self::NONE;
        for (number, word) in SAVED.into_iter().enumerate() {
            registers.set(number, process.word(context.checked_add(word * 8)?)?);
        }
        // What the kernel keeps of the thread's last exception: a page fault where the next instruction is, or one that
        // no page can have.
        let mut saved = |word: usize| process.word(context.checked_add(word * 8)?);
        let (number, address) = (saved(TRAPNO)?, saved(CR2)?);
        registers.is_astray =
            number == PAGE_FAULT && address as usize == registers.pc() || !is_canonical(registers.pc());
        Some(registers)
    }

    pub(super) fn get(&self, number: usize) -> Option<u64> {
        (number < REGISTERS && self.known >> number & 1 == 1).then(|| self.values[number])
    }

    /// Sets a register, by its number in the unwind tables.
    pub fn set(&mut self, number: usize, value: u64) {
        self.values[number] = value;
        self.known |= 1 << number;
    }

    /// Whether the program counter is known. That of the caller of an outermost function is not: it has none.
    pub(super) fn has_pc(&self) -> bool {
        self.get(RIP).is_some()
    }

    /// The program counter.
    pub fn pc(&self) -> usize {
        self.get(RIP).unwrap_or(0) as usize
    }

    /// The stack pointer.
    pub fn sp(&self) -> usize {
        self.get(RSP).unwrap_or(0) as usize
    }
}

/// Whether there may be memory at an address: its upper bits are all equal.
fn is_canonical(address: usize) -> bool {
    const BITS: u32 = usize::BITS - 57;
    let address = address.cast_signed();
    address << BITS >> BITS == address
}
