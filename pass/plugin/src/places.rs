//! Where code goes around calls.

use crate::llvm::{Call, Instruction, Opcode};

/// The instruction in front of which the work after a call goes; none if the call does not return, or control comes
/// back elsewhere.
pub fn behind(call: Call<'_>) -> Option<Instruction<'_>> {
    let next = match call.opcode() {
        Opcode::Invoke => call.normal_destination()?.on_edge_from(call.block()).first_after_pads(),
        Opcode::CallBr => return None,
        _ => call.next()?,
    };
    (next.opcode() != Opcode::Unreachable).then_some(next)
}

/// Returns whether control comes back from the call to where [`behind`] puts the work.
pub fn returns(call: Call<'_>) -> bool {
    let next = match call.opcode() {
        Opcode::Invoke => call.normal_destination().map(|block| block.first_after_pads()),
        Opcode::CallBr => None,
        _ => call.next(),
    };
    next.is_some_and(|next| next.opcode() != Opcode::Unreachable)
}

/// Where the work in front of a call goes. If the call goes through a pointer that is loaded for nothing else, in front
/// of the load: the machine's call can do that itself, but LLVM lets it only if nothing is stored in between.
/// `restores`: where control arrives without a return, the state is put back.
pub fn in_front_of(call: Call<'_>, restores: bool) -> Instruction<'_> {
    let called = call.called().as_instruction();
    let is_own_load =
        |i: &Instruction<'_>| i.opcode() == Opcode::Load && i.block() == call.block() && i.use_count() == 1;
    let Some(load) = called.filter(is_own_load) else { return *call };
    let calls = |at: Instruction<'_>| at.opcode() == Opcode::Call;
    if std::iter::successors(load.next(), |at| at.next()).take_while(|&at| at != *call).any(calls) {
        return *call;
    }
    // There the state is restored perhaps, in front of the load as well.
    let arrives =
        |at: Instruction<'_>| matches!(at.opcode(), Opcode::Call | Opcode::Phi | Opcode::LandingPad);
    if restores && load.previous().is_none_or(arrives) { *call } else { load }
}
