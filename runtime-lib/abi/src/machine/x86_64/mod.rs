//! x86-64, with the System V psABI.

mod objects;
#[cfg(feature = "unwind")]
mod unwind;

use super::Machine;

/// The length of a call: [`Machine::entry_len`].
pub const ENTRY_LEN: u64 = 5;

/// The machine, by its facts.
pub const MACHINE: Machine =
    Machine { elf: 62, architecture: "x86_64", entry_len: ENTRY_LEN, objects: objects::OBJECT_CODE };

/// The machine as a type, for the walk over stacks.
#[derive(Clone, Copy)]
pub struct X86_64;
