//! Programs in a few lines, for tests.

use pcce_encoding::{FunctionId, Way};

use crate::program::{Call, CallKind, Function, Program, TailCallee, TypeId};
use crate::{Matched, Mode, derive};

/// The function with this number.
pub fn id(number: u32) -> FunctionId {
    FunctionId::new(number)
}

/// A call in block 0, executed once.
pub fn call(kind: CallKind) -> Call {
    Call::new(kind, TypeId(0))
}

pub fn direct(callee: u32) -> Call {
    call(CallKind::Direct(id(callee)))
}

/// A call out of the module.
pub fn external(name: &str) -> Call {
    call(CallKind::External(name.to_owned()))
}

/// A local function with these calls.
pub fn local(name: &str, calls: &[Call]) -> Function {
    Function { calls: calls.to_vec(), ..Function::new(name.to_owned(), TypeId(0)) }
}

/// A function with these calls that other modules can call.
pub fn exported(name: &str, calls: &[Call]) -> Function {
    Function { external: true, ..local(name, calls) }
}

/// The same function, which anybody may reach through a pointer.
pub fn pointed_to(function: Function) -> Function {
    Function { address_taken: true, otherwise_used: true, ..function }
}

/// The same function, which makes a call that must stay a tail call.
pub fn leaving(function: Function, to: TailCallee) -> Function {
    Function { tail_callees: vec![to], ..function }
}

/// The callee of a tail call, in another module.
pub fn away() -> TailCallee {
    TailCallee::Away { name: "away".to_owned(), ty: TypeId(0) }
}

/// A module by itself, with all functions' contexts.
pub const MODULE: Mode<'static> =
    Mode { open: false, publishes: false, silent: false, targets: None, closed: false };

/// An executable built as a whole.
pub const EXECUTABLE: Mode<'static> = Mode { open: true, closed: true, ..MODULE };

/// An edge of the flow, on which code can be inserted.
pub fn way(to: u32, probability: f64) -> Way {
    Way { to, probability, can_be_split: true }
}

/// Numbers at random, each below a bound: the same ones in each run.
pub fn random() -> impl FnMut(usize) -> usize {
    let mut state = 1_u64;
    move |bound| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) % bound as u64) as usize
    }
}

/// The program of these functions.
pub fn program(mode: &Mode<'_>, functions: &[Function]) -> Program {
    derive(functions.to_vec(), mode, Matched::none).expect("it can be instrumented")
}
