//! Ordinary tail calls in recursive cycles.
//!
//! Nothing can be undone behind a tail call, so a call that is instrumented is none: it needs stack. Where tail calls
//! alone make a cycle, the plain program recurses in constant stack, and any depth of it may be reached. There the
//! calls stay tail calls, and from then on they are what those are that the language guarantees.
//!
//! A call through a pointer may reach any function of its type whose address is taken. This is no matter of right
//! contexts, only of which frames are kept, so the guess does no harm where it is wrong.

use std::collections::HashMap;

use pcce_encoding::{CallGraph, FunctionId, edges_on_cycles};

use crate::{AddressPlaces, CallKind, Function, Pointer, TailCallee, TypeId, Unannounced, pointers_to};

/// For each of these calls, which may be jumps, whether it lies on a cycle of them. `functions`: their types, and where
/// their addresses are.
pub fn on_cycles(
    functions: &[(TypeId, AddressPlaces)],
    calls: impl Iterator<Item = (FunctionId, TailCallee)>,
) -> Vec<bool> {
    let mut graph = CallGraph::new();
    for _ in functions {
        graph.add_function(false, false);
    }
    let elsewhere = graph.add_function(false, false);
    // One node for all calls through pointers that may reach the same functions.
    let mut pointers: HashMap<Pointer, FunctionId> = HashMap::new();
    let mut count = 0;
    for (caller, callee) in calls {
        let callee = match callee {
            TailCallee::Known(callee) => callee,
            TailCallee::Pointer(pointer) => {
                *pointers.entry(pointer).or_insert_with(|| graph.add_function(false, false))
            }
            TailCallee::Away { .. } => elsewhere,
        };
        graph.add_edge(caller, callee, 1.0);
        count += 1;
    }
    for (number, &(ty, places)) in (0..).zip(functions) {
        for pointer in pointers_to(ty, places) {
            if let Some(&node) = pointers.get(&pointer) {
                graph.add_edge(node, FunctionId::new(number), 1.0);
            }
        }
    }
    // The edges of the calls are the first ones.
    let mut on_cycle = edges_on_cycles(&graph);
    on_cycle.truncate(count);
    on_cycle
}

/// Lets the calls of a program stay tail calls that are on cycles through several modules: each module has found its
/// own. `open`: the graph will have an open node. Returns the calls, by their places in the lists that they were taken
/// from.
pub fn keep_in_cycles(functions: &mut [Function], open: bool) -> Vec<(FunctionId, usize)> {
    let places: Vec<_> = functions.iter().map(|function| (function.ty, function.places)).collect();
    let mut calls = Vec::new();
    for (number, function) in (0..).zip(&*functions) {
        // What callers enter without having pushed pops at its end; the other ones would not be instrumented.
        if function.unannounced != Unannounced::Never || !open && !function.can_be_diverted {
            continue;
        }
        for (c, call) in function.calls.iter().enumerate().filter(|(_, call)| call.sibling.is_some()) {
            let callee = match &call.kind {
                CallKind::Direct(callee) => TailCallee::Known(*callee),
                CallKind::Indirect => {
                    TailCallee::Pointer(Pointer { ty: call.ty, is_virtual: call.is_virtual })
                }
                _ => continue,
            };
            calls.push(((FunctionId::new(number), c), callee));
        }
    }
    // A function that leaves its activation already may be on such a cycle by that.
    let left = functions.iter().enumerate().flat_map(|(number, function)| {
        let number = FunctionId::new(number as u32);
        function.tail_callees.iter().map(move |callee| (number, callee.clone()))
    });
    let all = calls.iter().map(|((caller, _), callee)| (*caller, callee.clone())).chain(left);
    let on_cycle = on_cycles(&places, all);
    let kept = calls.into_iter().zip(on_cycle).filter_map(|(call, on_cycle)| on_cycle.then_some(call));
    let (kept, callees): (Vec<_>, Vec<_>) = kept.unzip();
    for (&(caller, c), callee) in kept.iter().zip(callees).rev() {
        let function = &mut functions[caller.index()];
        function.calls.remove(c);
        function.tail_callees.push(callee);
    }
    kept
}
