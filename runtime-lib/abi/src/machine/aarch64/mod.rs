//! AArch64, with the AAPCS64 and ELF for it, little-endian.

mod objects;
#[cfg(feature = "unwind")]
mod unwind;

use super::Machine;

#[cfg(feature = "unwind")]
pub use self::unwind::{PC, SIGNAL_CONTEXT, SIGNAL_RETURN, SP};

/// The length of a call, and of the instruction before it that keeps the return address: [`Machine::entry_len`].
pub const ENTRY_LEN: u64 = 8;

/// The machine, by its facts.
pub const MACHINE: Machine =
    Machine { elf: 183, architecture: "aarch64", entry_len: ENTRY_LEN, objects: objects::OBJECT_CODE };

/// The machine as a type, for the walk over stacks.
#[derive(Clone, Copy)]
pub struct AArch64;
