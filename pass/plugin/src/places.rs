//! The points around calls where code is inserted.

use crate::llvm::{Call, Instruction, Opcode};

/// The place for code after a call: the instruction to insert it before. None if the call does not return, or
/// returns elsewhere.
pub fn behind(call: Call<'_>) -> Option<Instruction<'_>> {
    let next = match call.opcode() {
        Opcode::Invoke => call.normal_destination()?.on_edge_from(call.block()).first_after_pads(),
        Opcode::CallBr => return None,
        _ => call.next()?,
    };
    (next.opcode() != Opcode::Unreachable).then_some(next)
}

/// Returns whether control comes back from the call to the point that [`behind`] finds.
pub fn returns(call: Call<'_>) -> bool {
    let next = match call.opcode() {
        Opcode::Invoke => call.normal_destination().map(|block| block.first_after_pads()),
        Opcode::CallBr => None,
        _ => call.next(),
    };
    next.is_some_and(|next| next.opcode() != Opcode::Unreachable)
}

/// The place for code before a call: the instruction to insert it before. If the call's pointer is loaded for
/// this call only, that is the load: machines can load and call in one instruction, but LLVM emits that only
/// if nothing is stored in between. `restores`: the state is restored where control arrives without a return.
pub fn in_front_of(call: Call<'_>, restores: bool) -> Instruction<'_> {
    let called = call.called().as_instruction();
    let is_own_load =
        |i: &Instruction<'_>| i.opcode() == Opcode::Load && i.block() == call.block() && i.use_count() == 1;
    let Some(load) = called.filter(is_own_load) else { return *call };
    let calls = |at: Instruction<'_>| at.opcode() == Opcode::Call;
    if std::iter::successors(load.next(), |at| at.next()).take_while(|&at| at != *call).any(calls) {
        return *call;
    }
    // The state may be restored here: that code must come before the load, too.
    let arrives =
        |at: Instruction<'_>| matches!(at.opcode(), Opcode::Call | Opcode::Phi | Opcode::LandingPad);
    if restores && load.previous().is_none_or(arrives) { *call } else { load }
}
