//! Cold pushes go to functions of their own.
//!
//! A function that pushes has room for the frame on its stack, and often needs a register more, in each of its
//! activations. Where it seldom pushes, its pushing calls go through *push thunks* instead: local functions that push,
//! and call what was to be called. Each has one caller, which adds nothing, so the encoding stays as it is. To
//! everything else a thunk is a function like others; only contexts do not show it. (Instructions of the small
//! workloads: sqlite3 1.0243 to 1.0136, vim 1.0349 to 1.0332, Lua, gawk.)
//!
//! Here the thunks are planned; the plugin makes them.

use pcce_encoding::{Encoding, FunctionId};

use crate::{Call, CallKind, Function, Program, Source};

/// What the name of a thunk has behind its caller's; the second one and further ones have their number behind that.
pub const PUSH_THUNK: &str = ".pcce_push";

/// With more expected pushes for each activation, a function has the frame itself: a call of a thunk costs some five
/// instructions, and room for a frame two or more.
const SELDOM: f64 = 0.25;

/// A call that goes through a thunk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thunk {
    /// The function that calls.
    pub caller: FunctionId,
    /// The call's place in the function's calls.
    pub call: usize,
    /// The thunk's name.
    pub name: String,
}

/// Lets seldom pushes go through thunks: they become the last functions of the program, in the order that is returned.
pub fn outline(program: &mut Program, encoding: &mut Encoding, source: &dyn Source) -> Vec<Thunk> {
    let thunks = choose(program, encoding, source);
    let cut: Vec<_> =
        thunks.iter().map(|thunk| (thunk.caller, program[thunk.caller].calls[thunk.call].edge)).collect();
    let edges = encoding.interpose(&mut program.graph, &cut);
    for (thunk, edge) in thunks.iter().zip(edges) {
        let number = FunctionId::new(program.functions.len() as u32);
        let call = &mut program[thunk.caller].calls[thunk.call];
        let new = Call {
            kind: CallKind::Direct(number),
            compared: false,
            tail_group: None,
            edge: Some(edge),
            ..call.clone()
        };
        let within = std::mem::replace(call, new);
        let within = Call { frequency: 1.0, block: 0, ends_block: false, may_be_jump: false, ..within };
        program.functions.push(Function {
            calls: vec![within],
            push_thunk: true,
            // Nobody takes its address, so nobody asks.
            ..Function::new(thunk.name.clone(), program[thunk.caller].ty)
        });
    }
    thunks
}

fn choose(program: &Program, encoding: &Encoding, source: &dyn Source) -> Vec<Thunk> {
    let mut thunks = Vec::new();
    for (id, function) in program.iter().filter(|(_, function)| !function.silent) {
        let pushes = |call: &Call| match call.kind {
            CallKind::Direct(_) => call.edge.is_some_and(|edge| encoding.edge(edge).pushes()),
            CallKind::Indirect => call.edge.is_none_or(|edge| encoding.edge(edge).pushes()),
            CallKind::External(_) | CallKind::Asm => true,
            CallKind::Silent(_) | CallKind::Published(_) | CallKind::Runtime(_) => false,
        };
        let pushing: Vec<usize> = (0..function.calls.len()).filter(|&c| pushes(&function.calls[c])).collect();
        let expected: f64 = pushing.iter().map(|&c| function.calls[c].frequency).sum();
        if expected > SELDOM {
            continue;
        }
        let possible = pushing.into_iter().filter(|&call| source.fits_thunk(id, call));
        // The suffix that LLVM would choose is another one in a copy of the module.
        thunks.extend((1..).zip(possible).map(|(nth, call)| {
            let name = match nth {
                1 => format!("{}{PUSH_THUNK}", function.name),
                _ => format!("{}{PUSH_THUNK}.{nth}", function.name),
            };
            Thunk { caller: id, call, name }
        }));
    }
    thunks
}
