//! Functions that callers may enter without having pushed.

use std::collections::HashSet;

use super::eligible::makes_tail_calls;
use super::inserted::{self, Inserted};
use crate::llvm::{Function, Module};
use pcce_model::{NoCallback, called_within, makes_streams, sets_handlers};

/// How callers that the module does not show enter its functions: by name, and through pointers.
pub struct Entered {
    inserted: Inserted,
    /// True if functions of this module whose address is taken may be called without a push: by streams that
    /// a shared library or a separate module makes, or as handlers that calls inserted by LLVM reach.
    by_pointer: bool,
    /// True if those of these functions that take and return nothing may be called without a push, as C++
    /// handlers that the module sets.
    as_handlers: bool,
    makes_streams: bool,
    sets_handlers: bool,
}

impl Entered {
    /// Looks at the module as the compiler gave it. `open`: it is an executable built as a whole.
    pub fn new(module: Module<'_>, open: bool) -> Self {
        let functions = module.functions();
        let makes_streams = functions.iter().any(|function| makes_streams(&function.name()));
        let sets_handlers = functions.iter().any(|function| sets_handlers(&function.name()));
        Self {
            inserted: Inserted::load(module),
            by_pointer: !open && makes_streams || inserted::sets_handlers(module),
            as_handlers: !open && sets_handlers,
            makes_streams,
            sets_handlers,
        }
    }

    /// Returns whether the module makes streams that call functions of the program.
    pub fn makes_streams(&self) -> bool {
        self.makes_streams
    }

    /// Returns whether the module sets handlers of C++.
    pub fn sets_handlers(&self) -> bool {
        self.sets_handlers
    }
}

/// The functions of the module that callers may enter without a push: functions that other code reaches under
/// a name of the lists, or within functions of the lists; personality functions, which the unwinder calls
/// from wherever it was called last (a function that resumes unwinding does not push); handlers that the
/// hardware calls at interrupts; and all functions that such callers may call through pointers.
pub fn entered_unpushed<'m>(
    module: Module<'m>,
    no_callback: &NoCallback,
    entered: &Entered,
) -> HashSet<Function<'m>> {
    let mut found = entered_but_as_handlers(module, no_callback, entered);
    if entered.as_handlers {
        let pointed_to = pointed_to(module);
        found.extend(pointed_to.filter(|function| function.signature().takes_and_returns_nothing()));
    }
    found
}

/// The functions of [`entered_unpushed`], except those that are among them only as possible C++ handlers.
pub fn entered_but_as_handlers<'m>(
    module: Module<'m>,
    no_callback: &NoCallback,
    entered: &Entered,
) -> HashSet<Function<'m>> {
    let reached =
        |name: &str, local: bool| !local && (no_callback.lists(name) || no_callback.is_within_cxx(name));
    entered_as(module, entered, reached)
}

/// The functions of [`entered_unpushed`] that are entered without any visible call, if the module is the
/// whole program: without functions that only the program itself calls by such a name.
pub fn entered_unseen<'m>(module: Module<'m>, entered: &Entered) -> HashSet<Function<'m>> {
    let called_within = called_within();
    entered_as(module, entered, |name, local| called_within.contains(name) && !local)
}

/// Returns whether a function of these names is entered by library functions only, within calls that are
/// known to call nothing else back, and not by calls that LLVM inserts.
pub fn are_called_within<'n>(names: impl Iterator<Item = &'n str>, entered: &Entered) -> bool {
    let called_within = called_within();
    let mut any = false;
    for name in names.map(|name| name.strip_prefix("__wrap_").unwrap_or(name)) {
        any |= called_within.contains(name);
        if entered.inserted.may_call(name) {
            return false;
        }
    }
    any
}

fn entered_as<'m>(
    module: Module<'m>,
    entered: &Entered,
    reached: impl Fn(&str, bool) -> bool,
) -> HashSet<Function<'m>> {
    let mut found = listed(module, entered, reached);
    let functions = module.functions();
    found.extend(functions.iter().filter_map(|function| function.personality()));
    found.extend(functions.iter().filter(|f| f.has_body() && f.is_interrupt_handler()));
    if entered.by_pointer {
        found.extend(pointed_to(module));
    }
    found
}

/// The functions that pointers may reach, and that keep their frames.
fn pointed_to<'m>(module: Module<'m>) -> impl Iterator<Item = Function<'m>> {
    let functions = module.functions().into_iter().filter(|f| f.has_body() && f.has_address_taken());
    functions.filter(|function| !makes_tail_calls(*function))
}

/// The functions of the module that other code reaches under a name of the lists: their own name, an alias,
/// or a name that the linker's `--wrap` makes. Calls that LLVM inserts reach local functions as well.
fn listed<'m>(
    module: Module<'m>,
    entered: &Entered,
    reached: impl Fn(&str, bool) -> bool,
) -> HashSet<Function<'m>> {
    let reached = |name: String, local: bool| {
        let name = name.strip_prefix("__wrap_").unwrap_or(&name);
        reached(name, local) || entered.inserted.may_call(name)
    };
    let functions = module.functions().into_iter().filter(|f| reached(f.name(), f.linkage().local));
    let aliases = module.aliases().into_iter().filter(|a| reached(a.name(), a.linkage().local));
    functions.chain(aliases.filter_map(|alias| alias.function())).collect()
}
