//! The machine that the tests run on: its instructions in disassemblies, the registers of a traced process, and its
//! names in the toolchain. Each machine has a folder, and is chosen here.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// How an instruction transfers control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    Call,
    /// An unconditional jump.
    Jump,
    /// A conditional jump.
    Branch,
}
