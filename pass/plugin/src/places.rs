//! Where code goes around calls.

use llvm_sys::LLVMOpcode;

use crate::llvm::Value;

/// The instruction in front of which the work after a call goes; none if the call does not return, or control comes
/// back elsewhere.
pub fn behind(call: Value) -> Option<Value> {
    let next = match call.opcode() {
        LLVMOpcode::LLVMInvoke => call.normal_destination().on_edge_from(call.block()).first_after_pads(),
        LLVMOpcode::LLVMCallBr => return None,
        _ => call.next()?,
    };
    (next.opcode() != LLVMOpcode::LLVMUnreachable).then_some(next)
}

/// Where the work in front of a call goes. If the call goes through a pointer that is loaded for nothing else, in front of the load: the machine's call
/// can do that itself, but LLVM lets it only if nothing is stored in between. `restores`: where control arrives without a return, the state is put back.
pub fn in_front_of(call: Value, restores: bool) -> Value {
    let load = call.called();
    if !load.is_load() || load.block() != call.block() || load.use_count() != 1 {
        return call;
    }
    let calls = |at: Value| at.opcode() == LLVMOpcode::LLVMCall;
    if std::iter::successors(load.next(), |at| at.next()).take_while(|&at| at != call).any(calls) {
        return call;
    }
    // There the state is restored perhaps, in front of the load as well.
    let arrives = |at: Value| {
        matches!(at.opcode(), LLVMOpcode::LLVMCall | LLVMOpcode::LLVMPHI | LLVMOpcode::LLVMLandingPad)
    };
    if restores && load.previous().is_none_or(arrives) { call } else { load }
}
