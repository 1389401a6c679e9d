//! Ordinary tail calls that stay tail calls ([`pcce_model::tail_calls`]).
//!
//! A module finds the cycles of its own calls. Calls of other modules are assumed to end: only the link step
//! sees cycles through several modules.

use std::collections::{HashMap, HashSet};

use pcce_encoding::FunctionId;

use crate::facts::eligible::Eligibility;
use crate::llvm::{Call, Function, Module, Signature, TailCall};
use pcce_model::{AddressPlaces, Pointer, TailCallee, TypeId, tail_calls};

/// Removes the mark `tail` from calls that are not the last of their functions. LLVM sets it wherever the
/// callee does not see the caller's frame, and the pass takes marked calls for possible jumps.
pub fn unmark_inner_calls(module: Module<'_>) {
    for function in module.functions().into_iter().filter(|f| f.has_body()) {
        for call in function.instructions().filter_map(|i| i.as_call()) {
            if call.tail_call() == TailCall::May && !call.may_be_last() {
                call.clear_tail();
            }
        }
    }
}

/// Finds the calls to keep, and marks them. Calls of functions that callers may enter without a push are not
/// kept.
pub fn keep_in_cycles<'m>(module: Module<'m>, unpushed: &HashSet<Function<'m>>) {
    let functions: Vec<Function<'m>> =
        module.functions().into_iter().filter(|f| f.has_body() && !unpushed.contains(f)).collect();
    let index: HashMap<Function<'m>, FunctionId> =
        (0..).map(FunctionId::new).zip(&functions).map(|(number, &function)| (function, number)).collect();
    let mut types: HashMap<Signature<'m>, TypeId> = HashMap::new();
    let mut ty = |signature: Signature<'m>| {
        let next = TypeId(types.len() as u32);
        *types.entry(signature).or_insert(next)
    };
    let mut calls = Vec::new();
    for &function in &functions {
        for call in siblings(function) {
            let callee = match call.called().aliased().and_then(|target| index.get(&target)) {
                Some(&callee) => TailCallee::Known(callee),
                None if call.called().is_pointer() => TailCallee::Pointer(Pointer {
                    ty: ty(call.signature()),
                    is_virtual: call.is_virtual_call(),
                }),
                None => continue,
            };
            calls.push((call, (index[&function], callee)));
        }
    }
    let places = |function: &Function<'m>| {
        let (in_table, elsewhere) = function.address_places();
        (ty(function.signature()), AddressPlaces { in_table, elsewhere })
    };
    let functions: Vec<_> = functions.iter().map(places).collect();
    let (calls, ends): (Vec<Call<'m>>, Vec<_>) = calls.into_iter().unzip();
    for (call, on_cycle) in calls.into_iter().zip(tail_calls::on_cycles(&functions, ends.into_iter())) {
        if on_cycle {
            module.keep_tail_call(call);
        }
    }
}

/// Marks the calls that the link step has found, in addition to the module's own. `kept` returns their
/// numbers in the function of a number.
pub fn keep<'k>(module: Module<'_>, eligibility: &Eligibility<'_>, kept: impl Fn(usize) -> &'k [u32]) {
    let functions: Vec<Function<'_>> = eligibility.instrumented(module).collect();
    for (number, function) in functions.into_iter().enumerate() {
        let kept = kept(number);
        if kept.is_empty() {
            continue;
        }
        let calls: Vec<Call<'_>> = siblings(function).collect();
        // A number without a call leaves the function one call too many, which is detected later.
        let calls = kept.iter().filter_map(|&call| calls.get(call as usize));
        calls.for_each(|&call| module.keep_tail_call(call));
    }
}

/// The calls of a function that code generation turns into jumps.
fn siblings<'m>(function: Function<'m>) -> impl Iterator<Item = Call<'m>> {
    function.instructions().filter_map(|i| i.as_call()).filter(|call| call.is_sibling_call())
}
