//! What a call site does in a hybrid encoding, and what may be chosen about that.

use crate::edge_code::EdgeCode;

/// What may be chosen about a hybrid encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HybridOptions {
    /// Of how many ranges of ids a function's stack offsets are known, at least 1; of the others every one is
    /// expected.
    pub blocks: usize,
    /// How many stack offsets of one range are known; with more, every one is expected.
    pub stack_offsets: usize,
    /// True if edges may be free for id 0 only, at the cost of a test ([`HybridCode::Guarded`]), and
    /// functions have no offsets. With 1 block, this is the paper's Algorithm 4.
    pub guards: bool,
}

impl Default for HybridOptions {
    fn default() -> Self {
        Self { blocks: 8, stack_offsets: 64, guards: false }
    }
}

/// What a call site does with the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HybridCode {
    /// Adds this value before the call and takes it away after it, as [`EdgeCode::Add`] does: what the
    /// program adds is [`Hybrid::constant`](super::Hybrid::constant).
    Add(u64),
    /// Does the same, but only if the id is not 0 (case (c)).
    Guarded(u64),
    /// Pushes, as [`EdgeCode::Push`] says.
    Push,
}

impl From<EdgeCode> for HybridCode {
    fn from(code: EdgeCode) -> Self {
        match code {
            EdgeCode::Add(value) => Self::Add(value),
            EdgeCode::Push(_) => Self::Push,
        }
    }
}
