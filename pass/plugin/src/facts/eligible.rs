//! Which functions are instrumented.

use std::collections::HashSet;

use crate::llvm::{Function, Module, TailCall};

/// Why a function with a body is not instrumented. Calls of it are calls of external code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skipped {
    /// `available_externally`: another module's copy runs.
    ElsewhereToo,
    /// `naked`: its body is assembly.
    Naked,
    /// A coroutine that is not split yet.
    Coroutine,
    /// Part of the runtime.
    Runtime,
    /// An ifunc resolver: it runs before thread-local storage exists.
    Resolver,
    /// It makes calls that must stay tail calls, and no thunk of ours can call it: it cannot keep the frame that it
    /// would need.
    NoFrame,
}

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
    pub fn skipped(&self, function: Function<'m>) -> Option<Skipped> {
        let name = function.name();
        if !self.open && !function.can_be_diverted() && makes_tail_calls(function) {
            Some(Skipped::NoFrame)
        } else if function.linkage().declaration {
            Some(Skipped::ElsewhereToo)
        } else if function.has_attribute("naked") {
            Some(Skipped::Naked)
        } else if function.has_attribute("presplitcoroutine") {
            Some(Skipped::Coroutine)
        } else if name.starts_with("__pcce_") || name.starts_with("pcce_") {
            Some(Skipped::Runtime)
        } else if self.resolvers.contains(&function) {
            Some(Skipped::Resolver)
        } else {
            None
        }
    }

    /// The functions of the module that are instrumented, in its order.
    pub fn instrumented(&self, module: Module<'m>) -> impl Iterator<Item = Function<'m>> {
        module.functions().into_iter().filter(|f| f.has_body() && self.skipped(*f).is_none())
    }
}

/// Whether a call in the function must stay a tail call.
pub fn makes_tail_calls(function: Function<'_>) -> bool {
    function.instructions().any(|instruction| instruction.tail_call() == TailCall::Must)
}
