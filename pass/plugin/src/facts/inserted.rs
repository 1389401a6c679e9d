//! Calls that LLVM inserts after this pass. Functions of the program that they reach are entered without a
//! push.
//!
//! The pass inserts such calls itself where it can, before it reads the module ([`crate::prepare`]). The
//! callees of the other calls are known by name only.

use std::collections::HashSet;

use crate::llvm::Module;
use pcce_model::names;

/// Functions that register functions of the program with callees of inserted calls: XRay's handlers, and the
/// callbacks of the sanitizers' runtimes.
const HANDLER_SETTERS: [&str; 12] = [
    "__xray_set_handler",
    "__xray_set_handler_arg1",
    "__xray_set_customevent_handler",
    "__xray_set_typedevent_handler",
    "__xray_set_log_impl",
    "__xray_log_register_mode",
    "__asan_set_death_callback",
    "__asan_set_error_report_callback",
    "__hwasan_set_error_report_callback",
    "__msan_set_death_callback",
    "__sanitizer_set_death_callback",
    "__sanitizer_install_malloc_and_free_hooks",
];

/// The functions that inserted calls reach by name.
pub struct Inserted {
    names: HashSet<String>,
    /// Prefixes of further names.
    prefixes: Vec<&'static str>,
}

impl Inserted {
    /// Takes LLVM's names for the module's target, and the shipped lists
    /// (`data/inserted.txt`, and the machine's).
    pub fn load(module: Module<'_>) -> Self {
        let mut known = Self { names: module.runtime_library_calls(), prefixes: Vec::new() };
        let listed = [include_str!("../../data/inserted.txt"), module.machine().inserted_calls()];
        for name in listed.into_iter().flat_map(names) {
            match name.strip_suffix('*') {
                Some(prefix) => known.prefixes.push(prefix),
                None => _ = known.names.insert(name.to_owned()),
            }
        }
        known
    }

    /// Returns whether an inserted call may be a call of a function of this name.
    pub fn may_call(&self, name: &str) -> bool {
        self.names.contains(name) || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

/// Returns whether the module may register functions of the program with callees of inserted calls.
pub fn sets_handlers(module: Module<'_>) -> bool {
    module.functions().iter().any(|function| HANDLER_SETTERS.contains(&&*function.name()))
}
