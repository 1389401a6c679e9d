//! x86-64.

/// The machine of ELF files.
pub(crate) const E_MACHINE: u8 = 62;
/// How many registers a note of a thread has.
pub(crate) const REGISTERS: usize = 27;
/// Where those are in it that the program writes: instruction, stack pointer, frame pointer, thread pointer.
pub(crate) const WRITTEN: [usize; 4] = [16, 19, 4, 21];
