//! Which functions are instrumented.

use std::collections::{BTreeMap, HashSet};

use pcce_dictionary::{SkipReason, Skipped};

use crate::llvm::{Function, Module, TailCall};

/// Decides for the functions of a module.
pub struct Eligibility<'m> {
    resolvers: HashSet<Function<'m>>,
    open: bool,
}

impl<'m> Eligibility<'m> {
    /// Of the module. `open`: its graph has an open node.
    pub fn new(module: Module<'m>, open: bool) -> Self {
        Self { resolvers: module.ifunc_resolvers().into_iter().collect(), open }
    }

    /// Why the function, which has a body, is not instrumented; none if it is.
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
        } else if self.resolvers.contains(&function) {
            Some(SkipReason::IfuncResolver)
        } else {
            None
        }
    }

    /// How many functions of the module with a body are not instrumented, and why.
    pub fn counts(&self, module: Module<'m>) -> Vec<Skipped> {
        let mut counts: BTreeMap<SkipReason, u32> = BTreeMap::new();
        for function in module.functions().into_iter().filter(|f| f.has_body()) {
            if let Some(reason) = self.skipped(function) {
                *counts.entry(reason).or_default() += 1;
            }
        }
        counts.into_iter().map(|(reason, functions)| Skipped { reason, functions }).collect()
    }

    /// The functions of the module that are instrumented, in its order.
    pub fn instrumented(&self, module: Module<'m>) -> impl Iterator<Item = Function<'m>> {
        module.functions().into_iter().filter(|f| f.has_body() && self.skipped(*f).is_none())
    }
}

/// Returns whether a call in the function must stay a tail call.
pub fn makes_tail_calls(function: Function<'_>) -> bool {
    function.instructions().any(|instruction| instruction.tail_call() == TailCall::Must)
}
