//! What the tests know of the machine that they run on: how disassemblers write its instructions, the registers of a
//! process that is traced, and what the toolchain calls it. Each machine has a folder, and is chosen here.

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
