//! Ordinary tail calls in recursive cycles.
//!
//! Nothing can be undone behind a tail call, so a call that is instrumented is none: it needs stack. Where tail calls
//! alone make a cycle, the plain program recurses in constant stack, and any depth of it may be reached. There the calls
//! stay tail calls, and are treated like those that the language guarantees: not instrumented, and their
//! callers are entered by pushes only.
//!
//! A call through a pointer may reach any function of its type whose address this module takes. This is no matter of
//! right contexts, only of which frames are kept, so the guess does no harm where it is wrong. Calls of other modules
//! are taken to end: a cycle through modules compiled apart does need stack.

use std::collections::{HashMap, HashSet};

use pcce_encoding::{CallGraph, FunctionId, edges_on_cycles};

use crate::llvm::{Type, Value};

/// Finds the calls to keep, and gives each a return of its own behind it, as the code generator would.
///
/// `functions`: those that may keep calls. `target`: the function that is called by its name, if it is
/// among them.
pub fn keep_in_cycles(functions: &[Value], target: impl Fn(Value) -> Option<usize>) -> HashSet<Value> {
    let mut graph = CallGraph::new();
    for _ in functions {
        graph.add_function(false, false);
    }
    // One node for all calls through pointers to functions of a type.
    let mut pointers: HashMap<Type, FunctionId> = HashMap::new();
    let mut calls = Vec::new();
    for (caller, function) in functions.iter().enumerate() {
        for call in function.blocks().into_iter().flat_map(|block| block.instructions()) {
            if !call.is_sibling_call() {
                continue;
            }
            let callee = match target(call.called()) {
                Some(callee) => FunctionId::new(callee as u32),
                None if call.called().is_pointer() => {
                    *pointers.entry(call.called_type()).or_insert_with(|| graph.add_function(false, false))
                }
                None => continue,
            };
            graph.add_edge(FunctionId::new(caller as u32), callee, 1.0);
            calls.push(call);
        }
    }
    for (i, function) in functions.iter().enumerate() {
        if let Some(&node) = pointers.get(&function.function_type())
            && function.has_address_taken()
        {
            graph.add_edge(node, FunctionId::new(i as u32), 1.0);
        }
    }
    // The edges of the calls are the first ones.
    let on_cycle = edges_on_cycles(&graph);
    let kept: Vec<Value> = calls.into_iter().zip(on_cycle).filter(|c| c.1).map(|c| c.0).collect();
    for call in &kept {
        call.return_behind();
    }
    kept.into_iter().collect()
}
