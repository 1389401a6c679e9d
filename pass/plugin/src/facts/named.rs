//! How a module uses the functions that other modules know, too: the step at the link must see who reaches one.

use std::collections::HashMap;

use pcce_encoding::FunctionId;
use pcce_model::CallKind;

use crate::llvm::{Alias, Call, Function, Module, Operand};

/// A function or alias that is not local, with its uses but for calls whose effect the module knows by itself.
pub struct Named<'m> {
    /// It.
    pub value: Operand<'m>,
    /// The number of the function, if it is instrumented here.
    pub number: Option<FunctionId>,
    /// How many uses there are but calls by instrumented functions: data, arguments, code that is not instrumented.
    others: usize,
}

impl Named<'_> {
    /// Returns whether anything may reach it by this name but calls, whose callee the linked skeleton shows.
    pub fn is_reached(&self) -> bool {
        self.others > 0
    }
}

/// What calls in instrumented functions use.
#[derive(Default)]
pub struct Uses<'m> {
    /// Calls of functions of the module whose definitions are those that run, and of functions that do not call back.
    known: HashMap<Operand<'m>, usize>,
    /// Calls that leave the instrumented part of the module.
    leaving: HashMap<Operand<'m>, usize>,
}

impl<'m> Uses<'m> {
    /// Counts a call.
    pub fn add(&mut self, call: Call<'m>, kind: &CallKind) {
        match kind {
            CallKind::Direct(_) | CallKind::Silent(_) | CallKind::Published(_) => {
                *self.known.entry(call.called()).or_default() += 1;
            }
            CallKind::External(_) => *self.leaving.entry(call.called()).or_default() += 1,
            CallKind::Indirect | CallKind::Asm | CallKind::Runtime(_) => {}
        }
    }

    /// How many uses there are that are not counted as known.
    pub fn others(&self, value: Operand<'m>) -> usize {
        value.use_count().saturating_sub(self.known.get(&value).copied().unwrap_or(0))
    }

    /// What is not local, as far as it has uses that are not known.
    pub fn named(&self, module: Module<'m>, index: &HashMap<Function<'m>, FunctionId>) -> Vec<Named<'m>> {
        let aliases: Vec<Alias<'m>> = module.aliases().into_iter().filter(|a| !a.linkage().local).collect();
        // Who reaches an alias names it.
        let mut own_aliases: HashMap<Operand<'m>, usize> = HashMap::new();
        for alias in &aliases {
            *own_aliases.entry(alias.aliasee()).or_default() += 1;
        }
        let functions = module.functions().into_iter().filter(|f| !f.is_intrinsic() && !f.linkage().local);
        let functions = functions.map(|function| (function.operand(), index.get(&function).copied()));
        let named = functions.chain(aliases.iter().map(|alias| (alias.operand(), None)));
        let named = named.filter_map(|(value, number)| {
            let calls = self.leaving.get(&value).copied().unwrap_or(0);
            let aliases = own_aliases.get(&value).copied().unwrap_or(0);
            let others = self.others(value).saturating_sub(calls + aliases);
            (others + calls > 0 || number.is_some()).then_some(Named { value, number, others })
        });
        named.collect()
    }
}
