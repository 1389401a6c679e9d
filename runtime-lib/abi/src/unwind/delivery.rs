//! Functions that deliver exceptions: `_Unwind_RaiseException`, `_Unwind_Resume`, and the others of libgcc that end in
//! a landing pad. The last function but one that such a function calls puts the registers and the return address of the
//! landing pad's frame into the places from which it takes its own caller's. From there on frame and registers
//! disagree.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, FrameDescriptionEntry, NativeEndian, Register,
    RegisterRule, UnwindTableRow,
};

use super::{Context, Unwind};

/// The depth of the calls made last: the function that puts the registers into place may copy them by a function of the
/// C library.
pub(super) const DEPTH: usize = 2;

/// Returns whether a function delivers exceptions: one that calls the compiler's `__builtin_eh_return` keeps the two
/// registers in which landing pads get their arguments. Those that keep all arguments of functions stand in front of
/// other functions, as the loader's do where symbols are bound at the first call.
pub(super) fn is_done_by<M: Unwind>(row: &UnwindTableRow<usize, M>) -> bool {
    let keeps = |register| matches!(row.register(register), Some(RegisterRule::Offset(_)));
    M::LANDING_PAD_ARGUMENTS.into_iter().all(keeps) && !keeps(M::OTHER_ARGUMENT)
}

/// Returns whether the places may have been written to: between the program counter and the instruction where the stack
/// is the landing pad's, there is at most one call, that of a hook for debuggers. `is_function`: returns whether a
/// function begins at an address.
pub(super) fn may_have_begun<'p, M: Unwind>(
    pc: u64,
    entry: &FrameDescriptionEntry<EndianSlice<'p, NativeEndian>>,
    section: &EhFrame<EndianSlice<'p, NativeEndian>>,
    bases: &BaseAddresses,
    context: &mut Context<M>,
    code: impl Fn(u64, u64) -> Option<&'p [u8]>,
    is_function: impl Fn(u64) -> bool,
) -> bool {
    let end = landing(pc, entry, section, bases, context);
    let Some(code) = end.and_then(|end| code(pc, end)) else { return true };
    M::calls(code, pc).filter(|target| is_function(*target)).count() <= 1
}

/// The first instruction after the program counter at which the frame is found by an unusual register.
fn landing<'p, M: Unwind>(
    pc: u64,
    entry: &FrameDescriptionEntry<EndianSlice<'p, NativeEndian>>,
    section: &EhFrame<EndianSlice<'p, NativeEndian>>,
    bases: &BaseAddresses,
    context: &mut Context<M>,
) -> Option<u64> {
    let mut rows = entry.rows(section, bases, context).ok()?;
    while let Some(row) = rows.next_row().ok()? {
        let usual = |register: &Register| [M::FRAME_POINTER, M::SP].contains(&register.0.into());
        let is_usual = matches!(row.cfa(), CfaRule::RegisterAndOffset { register, .. } if usual(register));
        if row.start_address() > pc && !is_usual {
            return Some(row.start_address());
        }
    }
    None
}
