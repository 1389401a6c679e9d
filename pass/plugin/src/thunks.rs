//! Cold pushes go to functions of their own.
//!
//! A function that pushes has room for the frame on its stack, and often needs a register more, in each of its activations. Where it seldom
//! pushes, its pushing calls go through *push thunks* instead: local functions that push, and call what was to be called. Each has one
//! caller, which adds nothing, so the encoding stays as it is. To everything else a thunk is a function like others; only contexts do
//! not show it. (Instructions of the small workloads: sqlite3 1.0243 to 1.0136, vim 1.0349 to 1.0332, Lua, gawk.)

use std::collections::HashMap;

use pcce_encoding::{Encoding, FunctionId};

use crate::analysis::{Analysis, Call, CallKind, Function, Unannounced};
use crate::llvm::Value;

/// With more expected pushes for each activation, a function has the frame itself: a call of a thunk costs some five instructions, and room
/// for a frame two or more.
const SELDOM: f64 = 0.25;

/// Lets seldom pushes go through thunks.
pub fn outline(analysis: &mut Analysis, encoding: &mut Encoding) {
    let mut looks_at_caller: HashMap<Value, bool> = HashMap::new();
    let mut calls: Vec<(usize, usize)> = Vec::new();
    for (i, function) in analysis.functions.iter().enumerate().filter(|(_, function)| !function.silent) {
        let pushes = |call: &Call| match call.kind {
            CallKind::Direct(_) => call.edge.is_some_and(|edge| encoding.edge(edge).pushes()),
            CallKind::Indirect => call.edge.is_none_or(|edge| encoding.edge(edge).pushes()),
            CallKind::External(_) | CallKind::Asm => true,
            CallKind::Silent(_) | CallKind::Published(_) | CallKind::Runtime(_) => false,
        };
        let pushing: Vec<usize> = (0..function.calls.len()).filter(|&c| pushes(&function.calls[c])).collect();
        let expected: f64 = pushing.iter().map(|&c| function.calls[c].frequency).sum();
        if expected <= SELDOM {
            let possible = pushing.into_iter().filter(|&c| {
                let call = function.calls[c].instruction;
                let callee = call.called().aliased();
                // It would find the thunk.
                let mut looks = || *looks_at_caller.entry(callee).or_insert_with(|| callee.looks_at_caller());
                call.can_go_through_thunk() && !(callee.is_function() && looks())
            });
            calls.extend(possible.map(|c| (i, c)));
        }
    }
    let cut: Vec<_> = calls
        .iter()
        .map(|&(i, c)| (FunctionId::new(i as u32), analysis.functions[i].calls[c].edge))
        .collect();
    let edges = encoding.interpose(&mut analysis.graph, &cut);
    let mut last = None;
    for ((i, c), edge) in calls.into_iter().zip(edges) {
        let number = analysis.functions.len();
        // The suffix that LLVM would choose is another one in a copy of the module.
        let nth = last.filter(|&(of, _)| of == i).map_or(1, |(_, nth)| nth + 1);
        last = Some((i, nth));
        let name = match nth {
            1 => format!("{}.pcce_push", analysis.functions[i].name),
            _ => format!("{}.pcce_push.{nth}", analysis.functions[i].name),
        };
        let call = &mut analysis.functions[i].calls[c];
        let instruction = call.instruction.make_push_thunk(&name);
        let thunk = instruction.called();
        let new =
            Call { instruction, kind: CallKind::Direct(number), tail_group: None, edge: Some(edge), ..*call };
        let within =
            Call { instruction: thunk.blocks()[0].first(), frequency: 1.0, ..std::mem::replace(call, new) };
        analysis.functions.push(Function {
            value: thunk,
            name: thunk.name(),
            external: false,
            unannounced: Unannounced::Never,
            silent: false,
            push_thunk: true,
            reads_state: false,
            tail_groups: Vec::new(),
            leaves: false,
            aliases: Vec::new(),
            exits: vec![thunk.blocks()[0].terminator()],
            calls: vec![within],
            comes_back: Vec::new(),
            returns_twice: Vec::new(),
        });
    }
}
