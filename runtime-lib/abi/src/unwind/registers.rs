//! Registers by their numbers in the unwind tables.

use super::Unwind;

/// The registers of an activation, as far as they are known.
#[derive(Clone, Copy)]
pub struct Registers<M: Unwind> {
    values: M::Values,
    /// Bit `i`: register `i` is known.
    pub(super) known: u64,
    /// True if nothing can be executed at the program counter: the processor has tried to.
    pub is_astray: bool,
}

impl<M: Unwind> Registers<M> {
    /// No register is known.
    pub const NONE: Self = Self { values: M::NO_VALUES, known: 0, is_astray: false };

    /// Only the program counter and the stack pointer are known.
    pub fn at(pc: usize, sp: usize) -> Self {
        let mut registers = Self::NONE;
        registers.set(M::PC, pc as u64);
        registers.set(M::SP, sp as u64);
        registers
    }

    /// All registers, in the order of their numbers.
    pub fn all(values: M::Values) -> Self {
        let known = (1 << values.as_ref().len()) - 1;
        Self { values, known, is_astray: false }
    }

    /// The value of a register; None if it is not known.
    pub fn get(&self, number: usize) -> Option<u64> {
        let values = self.values.as_ref();
        (number < values.len() && self.known >> number & 1 == 1).then(|| values[number])
    }

    pub fn set(&mut self, number: usize, value: u64) {
        self.values.as_mut()[number] = value;
        self.known |= 1 << number;
    }

    /// The value of a register is not known any more.
    pub fn forget(&mut self, number: usize) {
        self.known &= !(1 << number);
    }

    /// Returns whether the program counter is known. The caller of an outermost function has none.
    pub(super) fn has_pc(&self) -> bool {
        self.get(M::PC).is_some()
    }

    pub fn pc(&self) -> usize {
        self.get(M::PC).unwrap_or(0) as usize
    }

    pub fn sp(&self) -> usize {
        self.get(M::SP).unwrap_or(0) as usize
    }
}
