//! The machine that the tests run on: its instructions in disassemblies, the registers of a traced process, and its
//! names in the toolchain. Each machine has a folder, and is chosen here.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

/// The effect of an instruction, as far as it distinguishes the costs of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Adds to a word of the thread's block.
    Addition,
    /// Reads or writes a word there: part of a push or a pop, or of a check at an entry.
    State,
    /// Saves or restores a register, or moves the stack pointer.
    Stack,
    Move,
    /// A call, a jump, or a return.
    Control,
    Other,
}

impl Class {
    pub const ALL: [(Class, &str); 6] = [
        (Class::Addition, "additions"),
        (Class::State, "pushes, pops, checks"),
        (Class::Stack, "registers saved"),
        (Class::Move, "moves"),
        (Class::Control, "calls, jumps"),
        (Class::Other, "other"),
    ];
}

/// How an instruction transfers control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    Call,
    /// An unconditional jump.
    Jump,
    /// A conditional jump.
    Branch,
}
