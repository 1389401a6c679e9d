//! Machines: the facts about each instruction set that pass, runtime and decoder share.
//!
//! Everything outside of the folders `machine` is generic, except that the decoder expects one note of a core file for
//! each thread. Another machine is a folder beside `x86_64` here, with a [`Machine`] and a type that implements
//! `Unwind`, and a line in each of the tables below; and a folder in each of the other folders `machine`, which
//! ARCHITECTURE.md lists. All have the name of the machine that rustc uses in targets: `scripts/build-runtime` looks
//! for that.

pub mod aarch64;
pub mod objects;
pub mod x86_64;

/// The machine for which this crate is compiled, for the walk over stacks.
#[cfg(target_arch = "aarch64")]
pub type Native = aarch64::AArch64;
/// The machine for which this crate is compiled, for the walk over stacks.
#[cfg(target_arch = "x86_64")]
pub type Native = x86_64::X86_64;

/// The names of all machines, for messages.
pub const NAMES: &str = "x86-64 or AArch64";

/// All machines.
pub const MACHINES: [&Machine; 2] = [&x86_64::MACHINE, &aarch64::MACHINE];

/// An instruction set.
pub struct Machine {
    /// `e_machine` of its ELF files.
    pub elf: u16,
    /// The first part of its target triples.
    pub architecture: &'static str,
    /// How many bytes the call of [`functions::ENTER`](crate::trace::functions::ENTER) takes at the beginning of traced
    /// functions.
    pub entry_len: u64,
    /// Its code in object files.
    pub objects: objects::ObjectCode,
}

impl Machine {
    /// The machine of an ELF file, by the file's `e_machine`.
    #[must_use]
    pub fn of_elf(number: u16) -> Option<&'static Self> {
        MACHINES.into_iter().find(|machine| machine.elf == number)
    }
}
