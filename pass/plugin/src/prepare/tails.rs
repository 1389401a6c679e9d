//! Ordinary tail calls in recursive cycles.
//!
//! Nothing can be undone behind a tail call, so a call that is instrumented is none: it needs stack. Where tail calls
//! alone make a cycle, the plain program recurses in constant stack, and any depth of it may be reached. There the
//! calls stay tail calls, and from here on they are what those are that the language guarantees.
//!
//! A call through a pointer may reach any function of its type whose address this module takes. This is no matter of
//! right contexts, only of which frames are kept, so the guess does no harm where it is wrong. Calls of other modules
//! are taken to end: a cycle through modules compiled apart does need stack.

use std::collections::{HashMap, HashSet};

use pcce_encoding::{CallGraph, FunctionId, edges_on_cycles};

use crate::llvm::{Function, Module, Signature, TailCall};
use pcce_model::{AddressPlaces, Pointer, TypeId, pointers_to};

/// Takes the mark off calls that are not the last of their functions. LLVM sets it wherever the callee does not see the
/// caller's frame, and what has it is taken for a call that may become a jump.
pub fn unmark_inner_calls(module: Module<'_>) {
    for function in module.functions().into_iter().filter(|f| f.has_body()) {
        for call in function.instructions().filter_map(|i| i.as_call()) {
            if call.tail_call() == TailCall::May && !call.may_be_last() {
                call.clear_tail();
            }
        }
    }
}

/// Finds the calls to keep, and marks them. Not those of functions that callers may enter without having pushed.
pub fn keep_in_cycles<'m>(module: Module<'m>, unpushed: &HashSet<Function<'m>>) {
    let functions: Vec<Function<'m>> =
        module.functions().into_iter().filter(|f| f.has_body() && !unpushed.contains(f)).collect();
    let mut graph = CallGraph::new();
    let index: HashMap<Function<'m>, FunctionId> =
        functions.iter().map(|&function| (function, graph.add_function(false, false))).collect();
    // One node for all calls through pointers that may reach the same functions.
    let mut pointers: HashMap<Pointer, FunctionId> = HashMap::new();
    let mut types: HashMap<Signature<'m>, TypeId> = HashMap::new();
    let mut calls = Vec::new();
    for &function in &functions {
        for call in function.instructions().filter_map(|i| i.as_call()) {
            if !call.is_sibling_call() {
                continue;
            }
            let callee = match call.called().aliased().and_then(|target| index.get(&target)) {
                Some(&callee) => callee,
                None if call.called().is_pointer() => {
                    let next = TypeId(types.len() as u32);
                    let ty = *types.entry(call.signature()).or_insert(next);
                    let pointer = Pointer { ty, is_virtual: call.is_virtual_call() };
                    *pointers.entry(pointer).or_insert_with(|| graph.add_function(false, false))
                }
                None => continue,
            };
            graph.add_edge(index[&function], callee, 1.0);
            calls.push(call);
        }
    }
    for &function in &functions {
        // No call goes to functions of other types.
        let Some(&ty) = types.get(&function.signature()) else { continue };
        let (in_table, elsewhere) = function.address_places();
        for pointer in pointers_to(ty, AddressPlaces { in_table, elsewhere }) {
            if let Some(&node) = pointers.get(&pointer) {
                graph.add_edge(node, index[&function], 1.0);
            }
        }
    }
    // The edges of the calls are the first ones.
    for (call, on_cycle) in calls.into_iter().zip(edges_on_cycles(&graph)) {
        if on_cycle {
            module.keep_tail_call(call);
        }
    }
}
