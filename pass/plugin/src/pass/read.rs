//! Reading a module: its functions and calls, and the program that they make.

use std::collections::HashSet;

use pcce_encoding::Encoding;
use pcce_model::{Function, Matched, Profile, Program, copies, ids, replaceable};
use pcce_options::Granularity;

use super::Job;
use crate::error::Error;
use crate::facts::{self, Binding, Gathered, Named};
use crate::handles::Code;
use crate::llvm::{self, Module};
use crate::prepare::{self, targets};

/// The facts of a module, and its encoding.
pub struct Read<'m> {
    /// The functions.
    pub program: Program,
    /// The types of functions, by their numbers.
    pub types: Vec<String>,
    /// The functions that other modules know as well.
    pub named: Vec<Named<'m>>,
    /// The functions' parts in LLVM's module.
    pub code: Code<'m>,
    /// The encoding of the module by itself.
    pub encoding: Encoding,
}

/// The parts of [`Read`] without the encoding: the program, its code, the types of functions, and the
/// functions that other modules know.
type Gather<'m> = (Program, Code<'m>, Vec<String>, Vec<Named<'m>>);

impl Job<'_> {
    /// Reads the module, and encodes its call graph. If pointers were compared, it is read again. None if
    /// there is no function to instrument.
    pub fn read<'m>(
        &self,
        module: Module<'m>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Read<'m>>, Error> {
        let mut profile = self.profile.clone();
        let read = self.gather(module, profile.as_ref())?;
        let Read { program, code, encoding, .. } = &read;
        if program.functions.is_empty() {
            return Ok(None);
        }
        let compared = if let Some(profile) = &mut profile {
            warnings.extend(profile.report(&self.identifier, &program.counts));
            !self.options.basic
                && targets::compare_counted(profile, program, code, encoding, &self.encoding, self.binding())
        } else {
            self.open
                && !self.linked
                && self.changes_calls()
                && targets::compare_guessed(module, &self.no_callback, program, code, encoding)
        };
        if compared { self.gather(module, profile.as_ref()).map(Some) } else { Ok(Some(read)) }
    }

    fn gather<'m>(&self, module: Module<'m>, profile: Option<&Profile>) -> Result<Read<'m>, Error> {
        let (program, code, types, named) = self.gather_program(module, profile)?;
        let encoding = self.encode(&program.graph);
        Ok(Read { program, types, named, code, encoding })
    }

    /// Reads a module that the link step encodes. None if there is no function to instrument.
    ///
    /// # Errors
    /// The model rejects the program.
    pub fn gather_alone<'m>(&self, module: Module<'m>) -> Result<Option<(Program, Code<'m>)>, Error> {
        let (program, code, ..) = self.gather_program(module, None)?;
        Ok((!program.functions.is_empty()).then_some((program, code)))
    }

    fn gather_program<'m>(&self, module: Module<'m>, profile: Option<&Profile>) -> Result<Gather<'m>, Error> {
        if self.options.common.trace.is_some() {
            // Facts refer to blocks by number, so the trace must not add blocks later. Comparisons of
            // pointers have made invokes that share their normal destination.
            prepare::part_returns(module);
        }
        let (Gathered { mut functions, types, named }, code) = self.gather_functions(module);
        // A trace tells copies of a call apart, and its contexts must do so, too. A module with decisions of the link
        // step needs no facts.
        if self.options.common.trace.is_none() && self.options.slice.is_none() {
            copies::find(&mut functions, &code);
        }
        // In a function without calls, only its entry and its branches need events.
        let branches = self.options.common.trace == Some(Granularity::Blocks);
        for function in functions.iter_mut().filter(|_| self.options.common.trace.is_some()) {
            let may_be_entered = function.external || function.otherwise_used || function.address_taken;
            function.traced = branches || may_be_entered || !function.calls.is_empty();
        }
        // Traced calls stay as the module has them.
        if self.whole_program && !self.open && self.changes_calls() && self.options.common.trace.is_none() {
            let own = ids(&functions).filter(|(_, function)| function.external);
            let own = own.map(|(id, function)| (function.name.clone(), id)).collect();
            replaceable::bind(&mut functions, own);
        }
        let counts = |functions: &[Function]| match profile {
            Some(profile) => profile.find(|_| Some(&self.identifier), functions),
            None => Matched::default(),
        };
        let program = pcce_model::derive(functions, &self.mode(), counts)?;
        Ok((program, code, types, named))
    }

    /// Says what decides which definition of a name runs.
    pub(super) fn binding(&self) -> Binding {
        match () {
            () if self.whole_program => Binding::Program,
            // Calls with a known callee enter a traced function after its entry, whatever the linker binds
            // the name to.
            () if self.linked && self.options.common.trace.is_none() => Binding::Linker,
            () => Binding::Linkage,
        }
    }

    /// Reads the functions and their calls.
    pub(super) fn gather_functions<'m>(&self, module: Module<'m>) -> (Gathered<'m>, Code<'m>) {
        let unpushed = facts::entered_unpushed(module, &self.no_callback, &self.entered);
        let knowledge = facts::Knowledge {
            no_callback: &self.no_callback,
            decided_later: self.linked,
            binding: self.binding(),
            open: self.open,
            in_executable: self.in_executable(),
            unpushed: &unpushed,
        };
        facts::gather(module, &knowledge)
    }

    /// Returns whether the C++ library's strings may call a function that looks at the context.
    pub(super) fn looks_within_strings(&self, module: Module<'_>) -> bool {
        let is_named = |name: &str| self.no_callback.is_within_cxx(name);
        let defined = |f: &llvm::Function<'_>| !f.linkage().declaration && !f.linkage().local;
        let functions = module.functions().into_iter().filter(|f| defined(f) && is_named(&f.name()));
        let aliases = module.aliases().into_iter().filter(|a| !a.linkage().local && is_named(&a.name()));
        let aliasees = aliases.map(|alias| alias.function());
        let replacing: Option<HashSet<llvm::Function<'_>>> = functions.map(Some).chain(aliasees).collect();
        let Some(replacing) = replacing else { return true };
        // Most programs define none. (Targets select contexts; they do not say which functions look at them.)
        !replacing.is_empty()
            && (self.targets.is_some() || {
                let (Gathered { functions, .. }, code) = self.gather_functions(module);
                let instrumented =
                    ids(&functions).filter(|(id, _)| replacing.contains(&code.function(*id).value));
                instrumented.count() < replacing.len() || self.no_callback.look_within_strings(&functions)
            })
    }
}
