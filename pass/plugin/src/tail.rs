//! Ordinary tail calls in recursive cycles.
//!
//! Nothing can be undone behind a tail call, so a call that is instrumented is none: it needs stack. Where tail calls
//! alone make a cycle, the plain program recurses in constant stack, and any depth of it may be reached. There the calls
//! stay tail calls, and from here on they are what those are that the language guarantees.
//!
//! A call through a pointer may reach any function of its type whose address this module takes ([`Pointer`]). This is
//! no matter of
//! right contexts, only of which frames are kept, so the guess does no harm where it is wrong. Calls of other modules
//! are taken to end: a cycle through modules compiled apart does need stack.
//!
//! Calls that stay tail calls leave no frame, and contexts must say so. Where a push has begun the sub-path, the
//! function that makes the tail call
//! marks the frame. Open calls push nothing: there the dictionary tells which functions may stand in the place of
//! what was called
//! ([`find_groups`]). For that, too, a call through a pointer may reach any function of its type that others than
//! direct calls can name.

use std::collections::{BTreeSet, HashMap};

use pcce_encoding::{CallGraph, FunctionId, edges_on_cycles};

use crate::analysis::{CallKind, Function, NoCallback, Target, resolve};
use crate::llvm::{Block, Module, TailCall, Type, Value};

/// Finds the calls to keep, and marks them.
pub fn keep_in_cycles(module: Module, no_callback: &NoCallback) {
    // These push at their entry: they have to pop.
    let unpushed = no_callback.entered_unpushed(module);
    let functions: Vec<Value> =
        module.functions().into_iter().filter(|f| f.has_body() && !unpushed.contains(f)).collect();
    let mut graph = CallGraph::new();
    let index: HashMap<Value, FunctionId> =
        functions.iter().map(|&function| (function, graph.add_function(false, false))).collect();
    // One node for all calls through pointers that may reach the same functions.
    let mut pointers: HashMap<Pointer, FunctionId> = HashMap::new();
    let mut calls = Vec::new();
    for &function in &functions {
        for call in function.blocks().into_iter().flat_map(|block| block.instructions()) {
            if !call.is_sibling_call() {
                continue;
            }
            let target = call.called().aliased();
            let callee = match index.get(&target) {
                Some(&callee) => callee,
                None if target.is_pointer() => {
                    *pointers.entry(pointer(call)).or_insert_with(|| graph.add_function(false, false))
                }
                None => continue,
            };
            graph.add_edge(index[&function], callee, 1.0);
            calls.push(call);
        }
    }
    for &function in &functions {
        for behind in behind(function, function.address_places()) {
            if let Some(&node) = pointers.get(&behind) {
                graph.add_edge(node, index[&function], 1.0);
            }
        }
    }
    // The edges of the calls are the first ones.
    for (call, on_cycle) in calls.into_iter().zip(edges_on_cycles(&graph)) {
        if on_cycle {
            call.keep_tail_call();
        }
    }
}

/// Calls through pointers that may reach the same functions: those of this type. C++ virtual calls (where that is
/// known, as the second says) reach only
/// functions in virtual tables, and others none that are nowhere else.
type Pointer = (Type, Option<bool>);

/// Where a call that stays a tail call leads.
#[derive(Clone, Copy)]
enum Way {
    /// To this function.
    Known(usize),
    /// To any function that such a call may reach.
    Pointer(Pointer),
    /// To a function of another module, by its name.
    Away,
}

/// Sets [`Call::tail_group`](crate::analysis::Call::tail_group) and [`Function::tail_groups`]. Returns the groups of
/// functions that may leave their
/// activations to functions of other modules. `index`: the functions' numbers.
pub fn find_groups(functions: &mut [Function], index: &HashMap<Value, usize>) -> Vec<u32> {
    let ways: Vec<Vec<Way>> =
        functions.iter().map(|f| if f.leaves { ways(f, index) } else { Vec::new() }).collect();
    let mut by_pointer: HashMap<Pointer, Vec<usize>> = HashMap::new();
    for (number, function) in functions.iter().enumerate() {
        // Other modules do with it what they like.
        let (in_table, elsewhere) = match function.external {
            true => (true, true),
            false => function.value.address_places(),
        };
        for pointer in behind(function.value, (in_table, elsewhere)) {
            by_pointer.entry(pointer).or_default().push(number);
        }
    }
    let reachable = |pointer| by_pointer.get(&pointer).map(Vec::as_slice).unwrap_or_default();
    // Whom the tail calls of these functions reach, and whether that may be functions of other modules.
    let reached = |from: &[usize]| {
        let (mut found, mut away) = (BTreeSet::new(), false);
        let mut waiting = from.to_vec();
        while let Some(function) = waiting.pop() {
            for &way in &ways[function] {
                let known;
                let targets = match way {
                    Way::Known(callee) => {
                        known = [callee];
                        &known[..]
                    }
                    Way::Pointer(pointer) => reachable(pointer),
                    Way::Away => &[],
                };
                away |= !matches!(way, Way::Known(_));
                waiting.extend(targets.iter().filter(|&&target| found.insert(target)));
            }
        }
        (found, away)
    };
    // Groups are told apart by whom they reach: that is all that contexts need.
    let mut groups: HashMap<(BTreeSet<usize>, bool), u32> = HashMap::new();
    let mut number = |from: &[usize]| {
        let reached = reached(from);
        let next = groups.len() as u32;
        (reached.1 || !reached.0.is_empty()).then(|| *groups.entry(reached).or_insert(next))
    };
    let mut pointers: HashMap<Pointer, Option<u32>> = HashMap::new();
    let mut found = Vec::new();
    for (i, function) in functions.iter().enumerate() {
        for (c, call) in function.calls.iter().enumerate() {
            let group = match call.kind {
                CallKind::Indirect => {
                    let pointer = pointer(call.instruction);
                    *pointers.entry(pointer).or_insert_with(|| number(reachable(pointer)))
                }
                CallKind::Direct(callee) if functions[callee].leaves => number(&[callee]),
                _ => None,
            };
            found.extend(group.map(|group| (i, c, group)));
        }
    }
    for (i, c, group) in found {
        functions[i].calls[c].tail_group = Some(group);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by_key(|(_, group)| *group);
    let mut leaving = Vec::new();
    for ((reached, away), group) in groups {
        for function in reached {
            functions[function].tail_groups.push(group);
        }
        leaving.extend(away.then_some(group));
    }
    leaving
}

/// What kind of call through a pointer it is.
fn pointer(call: Value) -> Pointer {
    (call.called_type(), call.is_virtual_call())
}

/// The calls that may reach a function whose address is in virtual tables, or elsewhere.
fn behind(function: Value, (in_table, elsewhere): (bool, bool)) -> impl Iterator<Item = Pointer> {
    let ty = function.function_type();
    let ways = [(in_table, Some(true)), (elsewhere, Some(false)), (in_table || elsewhere, None)];
    ways.into_iter().filter(|(held, _)| *held).map(move |(_, by)| (ty, by))
}

/// Where the function's calls lead that stay tail calls.
fn ways(function: &Function, index: &HashMap<Value, usize>) -> Vec<Way> {
    let calls = function.value.blocks().into_iter().flat_map(Block::instructions);
    calls
        .filter(|call| call.tail_call() == TailCall::Must)
        .map(|call| match resolve(call.called(), false) {
            Target::Function { value, .. } => {
                index.get(&value).map_or(Way::Away, |&callee| Way::Known(callee))
            }
            Target::Pointer | Target::Asm(_) | Target::Intrinsic(_) => Way::Pointer(pointer(call)),
        })
        .collect()
}
