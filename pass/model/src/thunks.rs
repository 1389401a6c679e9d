//! Cold pushes go to functions of their own.
//!
//! A function that pushes needs room for the frame on its stack, and often one more register, in each
//! activation. If it rarely pushes, its pushing calls go through *push thunks* instead: local functions that
//! push, and make the call. Each thunk has one caller, which adds nothing, so the encoding stays as it is. A
//! thunk is a function like others, except that contexts do not show it. (Instructions of the small
//! workloads: sqlite3 1.0243 to 1.0136, vim 1.0349 to 1.0332, Lua, gawk.)
//!
//! This module plans the thunks; the plugin makes them.

use pcce_encoding::{Encoding, FunctionId};

use crate::plan::action;
use crate::{Call, CallKind, Function, Program, Source};

/// The suffix of a thunk's name, after its caller's name. From the second thunk of a caller on, a number
/// follows.
pub const PUSH_THUNK: &str = ".pcce_push";

/// A function uses thunks up to this number of expected pushes for each activation. A call of a thunk costs
/// about five instructions, and room for a frame at least two.
const MAX_PUSHES: f64 = 0.25;

/// A call that goes through a thunk, and its copies ([`crate::copies`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thunk {
    /// The calling function.
    pub caller: FunctionId,
    /// Their places in the function's calls.
    pub calls: Vec<usize>,
    /// The thunk's name.
    pub name: String,
}

/// Moves cold pushes into thunks. These become the last functions of the program, in the order that is
/// returned.
pub fn outline(program: &mut Program, encoding: &mut Encoding, source: &dyn Source) -> Vec<Thunk> {
    let thunks = choose(program, encoding, source);
    let cut: Vec<_> =
        thunks.iter().map(|thunk| (thunk.caller, program[thunk.caller].calls[thunk.calls[0]].edge)).collect();
    let edges = encoding.interpose(&mut program.graph, &cut);
    for (thunk, edge) in thunks.iter().zip(edges) {
        let number = FunctionId::new(program.functions.len() as u32);
        let caller = &mut program[thunk.caller];
        let within = caller.calls[thunk.calls[0]].clone();
        let within =
            Call { frequency: 1.0, block: 0, ends_block: false, may_be_jump: false, copy: None, ..within };
        for &call in &thunk.calls {
            let call = &mut caller.calls[call];
            call.kind = CallKind::Direct(number);
            (call.compared, call.tail_group, call.edge) = (false, None, Some(edge));
        }
        program.functions.push(Function {
            calls: vec![within],
            push_thunk: true,
            // Its address is never taken.
            ..Function::new(thunk.name.clone(), program[thunk.caller].ty)
        });
    }
    thunks
}

fn choose(program: &Program, encoding: &Encoding, source: &dyn Source) -> Vec<Thunk> {
    let mut thunks = Vec::new();
    for (id, function) in program.iter().filter(|(_, function)| !function.silent) {
        let pushes = |call: &Call| action(program, encoding, function, call).pushes();
        let pushing: Vec<usize> = (0..function.calls.len()).filter(|&c| pushes(&function.calls[c])).collect();
        let expected: f64 = pushing.iter().map(|&c| function.calls[c].frequency).sum();
        if expected > MAX_PUSHES {
            continue;
        }
        let firsts = pushing.into_iter().filter(|&call| function.first_copy(call) == call);
        let groups = firsts.map(|call| function.copies(call).collect());
        let possible =
            groups.filter(|calls: &Vec<usize>| calls.iter().all(|&call| source.fits_thunk(id, call)));
        // The suffix that LLVM would choose differs in copies of the module.
        thunks.extend((1..).zip(possible).map(|(nth, calls)| {
            let name = match nth {
                1 => format!("{}{PUSH_THUNK}", function.name),
                _ => format!("{}{PUSH_THUNK}.{nth}", function.name),
            };
            Thunk { caller: id, calls, name }
        }));
    }
    thunks
}
