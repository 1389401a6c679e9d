//! Silent functions: no function that they call, directly or not, looks at the context.

use pcce_encoding::FunctionId;

use crate::lists::Targets;
use crate::program::{CallKind, Function, Reach, TailCallee};

/// Returns whether the function is never silent, whatever it calls: it reads the state, or a caller that is
/// returned to without a return expects the state as it was.
fn keeps_state(function: &Function) -> bool {
    function.reads_state
        || function.traced
        // A signal handler that reaches a target may jump back, without a call that the function makes.
        || function.returns_twice
}

/// The callees of the function's tail calls. None stands for an unknown callee.
fn left_to(function: &Function) -> impl Iterator<Item = Option<FunctionId>> {
    function.tail_callees.iter().map(|callee| match callee {
        TailCallee::Known(callee) => Some(*callee),
        TailCallee::Pointer(_) | TailCallee::Away { .. } => None,
    })
}

/// Marks functions that reach only each other, recursively or not, and functions that are known not to call
/// back.
pub fn mark_closed(functions: &mut [Function]) {
    let mut callers: Vec<Vec<FunctionId>> = vec![Vec::new(); functions.len()];
    let mut reaching = Vec::new();
    for (i, function) in (0..).map(FunctionId::new).zip(functions.iter_mut()) {
        let mut reaches = keeps_state(function);
        for call in &function.calls {
            match call.kind.reach() {
                Reach::Function(callee) => callers[callee.index()].push(i),
                Reach::Nothing => {}
                Reach::Replaceable(_) | Reach::Pointer | Reach::Outside | Reach::Runtime => reaches = true,
            }
        }
        for callee in left_to(function) {
            match callee {
                Some(callee) => callers[callee.index()].push(i),
                None => reaches = true,
            }
        }
        function.silent = true;
        if reaches {
            reaching.push(i);
        }
    }
    while let Some(function) = reaching.pop() {
        if std::mem::replace(&mut functions[function.index()].silent, false) {
            reaching.append(&mut callers[function.index()]);
        }
    }
}

/// Returns the functions, marked as if external calls of the names that `calls_nothing` accepts called
/// nothing back.
pub fn supposing(functions: &[Function], calls_nothing: impl Fn(&str) -> bool) -> Vec<Function> {
    let mut functions = functions.to_vec();
    for function in &mut functions {
        for call in &mut function.calls {
            if let CallKind::External(name) = &mut call.kind
                && calls_nothing(name)
            {
                call.kind = CallKind::Silent(std::mem::take(name));
            }
        }
    }
    mark_closed(&mut functions);
    functions
}

/// Marks functions that reach no target. Calls through pointers, of other modules, and of assembly may reach
/// every function that can be entered from outside. Calls of other modules of the program are known to reach
/// no target only in an executable built as a whole (`closed`).
pub fn mark_untargeted(functions: &mut [Function], closed: bool, targets: &Targets) {
    let entered: Vec<bool> =
        functions.iter().map(|function| function.otherwise_used || function.is_callable_by_name()).collect();
    let mut callers: Vec<Vec<FunctionId>> = vec![Vec::new(); functions.len()];
    let mut unknown = Vec::new();
    let mut reaching = Vec::new();
    for (i, function) in (0..).map(FunctionId::new).zip(functions.iter_mut()) {
        let mut calls_unknown = false;
        let mut reaches = keeps_state(function)
            || function.aliases.iter().chain([&function.name]).any(|name| targets.contains(name))
            // Linking renames local functions of equal names.
            || function.source_name.as_ref().is_some_and(|name| targets.contains(name));
        for call in &function.calls {
            reaches |= call.kind.name().is_some_and(|name| targets.contains(name));
            match call.kind.reach() {
                Reach::Function(callee) => callers[callee.index()].push(i),
                Reach::Replaceable(callee) => {
                    callers[callee.index()].push(i);
                    calls_unknown = true;
                }
                Reach::Nothing => {}
                Reach::Pointer | Reach::Outside => calls_unknown = true,
                Reach::Runtime => reaches = true,
            }
        }
        for callee in left_to(function) {
            match callee {
                Some(callee) => callers[callee.index()].push(i),
                None => calls_unknown = true,
            }
        }
        function.silent = true;
        reaches |= calls_unknown && !closed;
        if calls_unknown {
            unknown.push(i);
        }
        if reaches {
            reaching.push(i);
        }
    }
    while let Some(function) = reaching.pop() {
        if !std::mem::replace(&mut functions[function.index()].silent, false) {
            continue;
        }
        reaching.append(&mut callers[function.index()]);
        if entered[function.index()] {
            reaching.append(&mut unknown);
        }
    }
}
