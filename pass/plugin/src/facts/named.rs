//! The uses in a module of functions that other modules know as well. The link step must find all uses of
//! such a function.

use std::collections::HashMap;

use pcce_encoding::FunctionId;
use pcce_model::{CallKind, Reach};

use crate::llvm::{Alias, Call, Function, Module, Operand};

/// A function or alias that is not local, with its uses except calls whose callee the module itself
/// determines.
pub struct Named<'m> {
    /// The function or alias, as an operand.
    pub value: Operand<'m>,
    /// The function's number, if it is instrumented here.
    pub number: Option<FunctionId>,
    /// The number of uses other than calls by instrumented functions: data, arguments, code that is not
    /// instrumented.
    others: usize,
}

impl Named<'_> {
    /// Returns whether anything but calls reaches the function by this name. (The linked skeleton shows the
    /// callees of calls.)
    pub fn is_reached(&self) -> bool {
        self.others > 0
    }
}

/// The uses by calls in instrumented functions.
#[derive(Default)]
pub struct Uses<'m> {
    /// Calls of functions of the module whose definitions here run, and of functions that do not call back.
    known: HashMap<Operand<'m>, usize>,
    /// Calls that leave the instrumented part of the module.
    leaving: HashMap<Operand<'m>, usize>,
}

impl<'m> Uses<'m> {
    /// Counts a call.
    pub fn add(&mut self, call: Call<'m>, kind: &CallKind) {
        let calls = match kind.reach() {
            _ if kind.function().is_none() && kind.name().is_none() => return,
            Reach::Function(_) | Reach::Runtime | Reach::Nothing => &mut self.known,
            Reach::Replaceable(_) | Reach::Outside | Reach::Pointer => &mut self.leaving,
        };
        *calls.entry(call.called()).or_default() += 1;
    }

    /// The number of uses other than the known calls.
    pub fn others(&self, value: Operand<'m>) -> usize {
        value.use_count().saturating_sub(self.known.get(&value).copied().unwrap_or(0))
    }

    /// The functions and aliases that are not local, and that are instrumented or have uses other than the
    /// known calls.
    pub fn named(&self, module: Module<'m>, index: &HashMap<Function<'m>, FunctionId>) -> Vec<Named<'m>> {
        let aliases: Vec<Alias<'m>> = module.aliases().into_iter().filter(|a| !a.linkage().local).collect();
        // Code that reaches an alias names the alias.
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
