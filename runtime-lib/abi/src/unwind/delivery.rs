//! Functions that deliver exceptions: `_Unwind_RaiseException`, `_Unwind_Resume`, and what else of libgcc ends in a
//! landing pad. The function that such a one calls last but one puts the registers and the return address of the
//! landing pad's frame into the places from which it takes its own caller's. From there on frame and registers
//! disagree.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, FrameDescriptionEntry, NativeEndian, Register,
    RegisterRule, UnwindTableRow,
};

use super::registers::{RBP, RSP};
use super::{Context, Storage};

/// So deep is what is called last: what puts the registers into place may copy them by a function of the C library.
pub(super) const DEPTH: usize = 2;

/// Whether a function is such a one: only one that calls the compiler's `__builtin_eh_return` keeps the two registers
/// in which landing pads get their arguments.
pub(super) fn is_done_by(row: &UnwindTableRow<usize, Storage>) -> bool {
    const FIRST: Register = Register(0);
    const SECOND: Register = Register(1);
    let keeps = |register| matches!(row.register(register), Some(RegisterRule::Offset(_)));
    keeps(FIRST) && keeps(SECOND)
}

/// Whether the places may have been written to: behind the program counter, up to where the stack is the landing pad's,
/// there is at most one call, that of a hook for debuggers. `is_function`: whether one begins at an address.
pub(super) fn may_have_begun<'p>(
    pc: u64,
    entry: &FrameDescriptionEntry<EndianSlice<'p, NativeEndian>>,
    (section, bases): (&EhFrame<EndianSlice<'p, NativeEndian>>, &BaseAddresses),
    context: &mut Context,
    code: impl Fn(u64, u64) -> Option<&'p [u8]>,
    is_function: impl Fn(u64) -> bool,
) -> bool {
    const CALL: u8 = 0xe8;
    const CALL_LEN: usize = 5;
    let end = landing(pc, entry, (section, bases), context);
    let Some(code) = end.and_then(|end| code(pc, end)) else { return true };
    let calls = code.windows(CALL_LEN).zip(pc + CALL_LEN as u64..).filter(|(call, behind)| {
        let distance = i32::from_le_bytes([call[1], call[2], call[3], call[4]]);
        call[0] == CALL && is_function(behind.wrapping_add_signed(distance.into()))
    });
    calls.count() <= 1
}

/// The first instruction behind the program counter at which the frame is found by another register than is usual.
fn landing<'p>(
    pc: u64,
    entry: &FrameDescriptionEntry<EndianSlice<'p, NativeEndian>>,
    (section, bases): (&EhFrame<EndianSlice<'p, NativeEndian>>, &BaseAddresses),
    context: &mut Context,
) -> Option<u64> {
    let mut rows = entry.rows(section, bases, context).ok()?;
    while let Some(row) = rows.next_row().ok()? {
        let usual = |register: &Register| [RBP, RSP].contains(&register.0.into());
        let is_usual = matches!(row.cfa(), CfaRule::RegisterAndOffset { register, .. } if usual(register));
        if row.start_address() > pc && !is_usual {
            return Some(row.start_address());
        }
    }
    None
}
