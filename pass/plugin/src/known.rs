//! Known targets: functions that a call through a pointer is compared with, and then calls directly (the paper, §7; DACCE,
//! §3.2, take them from profiles).
//!
//! A direct call adds, or does nothing, where a call through a pointer would have to push: one that closes a cycle, as most
//! do that seem to once the open node takes all targets for one. Comparing pays where the targets are few. Without a
//! profile, those are guessed whose address is taken and that have the call's type, if they are few: the allocator that Lua
//! calls through a pointer, or the page cache of sqlite3. All other targets still get the push, so a guess
//! may be wrong.

use std::collections::HashMap;

use pcce_encoding::Encoding;

use crate::analysis::{Analysis, CallKind, NoCallback, is_exact};
use crate::llvm::{Analyses, Module, Type, Value};

/// With more guesses for a call, none is compared.
const MOST: usize = 3;

/// Compares the calls through pointers that push with the functions that they probably reach. Returns whether there were any, so that the
/// module must be analysed again.
pub fn compare(
    module: Module,
    analyses: Analyses,
    no_callback: &NoCallback,
    analysis: &Analysis,
    encoding: &Encoding,
) -> bool {
    let mut guesses: HashMap<Type, Vec<Value>> = HashMap::new();
    for function in module.functions() {
        let direct = if function.has_body() {
            is_exact(function, true)
        } else {
            !function.is_intrinsic() && no_callback.contains(&function.name())
        };
        if direct && function.has_address_taken() {
            guesses.entry(function.function_type()).or_default().push(function);
        }
    }
    let mut changed = false;
    for call in analysis.functions.iter().flat_map(|function| &function.calls) {
        let pushes = call.edge.is_some_and(|edge| encoding.edge(edge).pushes());
        if !pushes || !matches!(call.kind, CallKind::Indirect) {
            continue;
        }
        let guesses = guesses.get(&call.instruction.called_type()).filter(|guesses| guesses.len() <= MOST);
        for &target in guesses.into_iter().flatten() {
            changed |= analyses.compare_target(call.instruction, target);
        }
    }
    changed
}
