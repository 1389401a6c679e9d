//! AArch64, with the AAPCS64 and ELF for it, little-endian.

mod objects;
#[cfg(feature = "unwind")]
mod unwind;

use super::Machine;

#[cfg(feature = "unwind")]
pub use self::unwind::{PC, SIGNAL_CONTEXT, SIGNAL_RETURN, SP};

/// The machine, by its facts.
pub const MACHINE: Machine =
    Machine { elf: 183, architecture: "aarch64", entry_len: None, objects: objects::OBJECT_CODE };

/// The machine as a type, for the walk over stacks.
#[derive(Clone, Copy)]
pub struct AArch64;
