//! x86-64.

/// The number of this machine in ELF files.
pub(crate) const E_MACHINE: u8 = 62;
/// The number of registers in the note of a thread.
pub(crate) const REGISTERS: usize = 27;
/// The places of the registers that the program writes: instruction, stack pointer, frame pointer, thread pointer.
pub(crate) const WRITTEN: [usize; 4] = [16, 19, 4, 21];
