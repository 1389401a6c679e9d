//! The choice of the functions that are instrumented.

use std::collections::{BTreeMap, HashSet};

use pcce_dictionary::{SkipReason, Skipped};

use crate::llvm::{Function, Module, TailCall};

/// Decides which functions of a module are instrumented.
pub struct Eligibility<'m> {
    resolvers: HashSet<Function<'m>>,
    open: bool,
}

impl<'m> Eligibility<'m> {
    /// Decides for a module. `open`: its graph has an open node.
    pub fn new(module: Module<'m>, open: bool) -> Self {
        Self { resolvers: module.ifuncs().into_iter().map(|ifunc| ifunc.resolver).collect(), open }
    }

    /// The reason why a function with a body is not instrumented; none if it is.
    pub fn skipped(&self, function: Function<'m>) -> Option<SkipReason> {
        let name = function.name();
        if !self.open && !function.can_be_diverted() && makes_tail_calls(function) {
            Some(SkipReason::TailCalls)
        } else if function.linkage().declaration {
            Some(SkipReason::OtherCopy)
        } else if function.has_attribute("naked") {
            Some(SkipReason::Naked)
        } else if function.has_attribute("presplitcoroutine") {
            Some(SkipReason::Coroutine)
        } else if name.starts_with("__pcce_") || name.starts_with("pcce_") {
            Some(SkipReason::Runtime)
        } else if name == "_Unwind_Resume" {
            Some(SkipReason::ResumesUnwinding)
        } else if self.resolvers.contains(&function) {
            Some(SkipReason::IfuncResolver)
        } else {
            None
        }
    }

    /// The number of functions with a body that are not instrumented, by reason.
    pub fn counts(&self, module: Module<'m>) -> Vec<Skipped> {
        let mut counts: BTreeMap<SkipReason, u32> = BTreeMap::new();
        for function in module.functions().into_iter().filter(|f| f.has_body()) {
            if let Some(reason) = self.skipped(function) {
                *counts.entry(reason).or_default() += 1;
            }
        }
        counts.into_iter().map(|(reason, functions)| Skipped { reason, functions }).collect()
    }

    /// The instrumented functions of the module, in its order.
    pub fn instrumented(&self, module: Module<'m>) -> impl Iterator<Item = Function<'m>> {
        module.functions().into_iter().filter(|f| f.has_body() && self.skipped(*f).is_none())
    }
}

/// Returns whether a call in the function must stay a tail call.
pub fn makes_tail_calls(function: Function<'_>) -> bool {
    function.instructions().any(|instruction| instruction.tail_call() == TailCall::Must)
}
