//! AArch64.

mod appends;
mod jumps;
mod stubs;

pub use pcce_abi::machine::aarch64::ENTRY_LEN;

pub use self::jumps::{JUMPS_LEN, lead, leads_away};
use super::places::flushes_or_enters;

/// The flag of an action that says where handlers return to: the kernel does not require it, and has them return to its
/// own code.
pub const RESTORER_FLAG: u64 = 0;

/// The address to which a handler returns that was installed without libc.
pub fn restorer() -> usize {
    0
}

/// The number of bits by which the pending bits were shifted for the bits that the instruction at `at` is about to add:
/// none, since emitted code appends by a single store.
pub fn appended(_: usize) -> Option<u32> {
    Some(0)
}

/// Returns whether an instruction is one of those that flush, enter or append, which have read something of the block.
pub fn within(instruction: usize) -> bool {
    flushes_or_enters(instruction) || stubs::comes_back(instruction) || appends::within(instruction)
}
