//! What a run reads of the module before anything is made of it.

use std::collections::HashSet;

use pcce_model::ids;

use super::Job;
use crate::code::Code;
use crate::facts::{self, Gathered};
use crate::llvm::{Function, Module};

impl Job<'_> {
    /// Reads the functions and their calls.
    pub(super) fn gather_functions<'m>(&self, module: Module<'m>) -> (Gathered<'m>, Code<'m>) {
        let unpushed = facts::entered_unpushed(module, &self.no_callback, &self.entered);
        let knowledge = facts::Knowledge {
            no_callback: &self.no_callback,
            whole_program: self.whole_program,
            open: self.open,
            in_executable: self.in_executable(),
            unpushed: &unpushed,
        };
        facts::gather(module, &knowledge)
    }

    /// Whether the C++ library's strings may call what looks at the context.
    pub(super) fn looks_within_strings(&self, module: Module<'_>) -> bool {
        let is_named = |name: &str| self.no_callback.is_within_cxx(name);
        let defined = |f: &Function<'_>| !f.linkage().declaration && !f.linkage().local;
        let functions = module.functions().into_iter().filter(|f| defined(f) && is_named(&f.name()));
        let aliases = module.aliases().into_iter().filter(|a| !a.linkage().local && is_named(&a.name()));
        let aliasees = aliases.map(|alias| alias.function());
        let replacing: Option<HashSet<Function<'_>>> = functions.map(Some).chain(aliasees).collect();
        let Some(replacing) = replacing else { return true };
        // Most programs have none. Which functions' contexts are wanted is another matter than which ones look.
        !replacing.is_empty()
            && (self.targets.is_some() || {
                let (Gathered { functions, .. }, code) = self.gather_functions(module);
                let instrumented =
                    ids(&functions).filter(|(id, _)| replacing.contains(&code.function(*id).value));
                instrumented.count() < replacing.len() || self.no_callback.look_within_strings(&functions)
            })
    }
}
