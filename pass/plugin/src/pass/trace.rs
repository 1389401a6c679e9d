//! The parts of a module that are traced.

use pcce_encoding::FunctionId;
use pcce_model::{Program, Unannounced};

use super::Job;
use crate::error::Error;
use crate::handles::Code;
use crate::llvm::Module;
use crate::{facts, tracing};

impl Job<'_> {
    /// The functions of a module that are recorded in whichever program it is linked, and that leave their
    /// activations to no other function.
    pub fn recorded(&self, module: Module<'_>, program: &Program, code: &Code<'_>) -> Vec<u32> {
        if self.options.common.trace.is_none() {
            return Vec::new();
        }
        // Code generation reports the error.
        let Ok((left_out, _)) = self.left_out(module, program, code, &mut Vec::new()) else {
            return Vec::new();
        };
        let Ok((skipped, _)) = tracing::skipped(program, code, self.options) else { return Vec::new() };
        let functions = program.iter().zip(left_out).zip(skipped);
        let recorded = functions.filter(|(((_, function), left_out), skipped)| {
            !left_out && !skipped && function.tail_callees.is_empty()
        });
        recorded.map(|(((id, _), _), _)| id.index() as u32).collect()
    }

    /// Marks the functions that the trace must leave out, and returns its assumptions about calls.
    fn left_out(
        &self,
        module: Module<'_>,
        program: &Program,
        code: &Code<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(Vec<bool>, tracing::Calls), Error> {
        // Other code may enter these functions without a visible call. The callers of a library's functions
        // are unknown.
        let in_executable = self.in_executable();
        let unseen = match in_executable {
            true => facts::entered_unseen(module, &self.entered),
            false => facts::entered_but_as_handlers(module, &self.no_callback, &self.entered),
        };
        let is_alone = in_executable && !self.linked;
        // For traces, calls of C++'s functions always may call back.
        let is_unseen = |id: FunctionId| {
            let by_cxx = || self.no_callback.is_entered_by_cxx(&program[id].name);
            unseen.contains(&code.function(id).value) && (is_alone || !by_cxx())
        };
        let with_any_id = program.iter().filter(|(_, function)| function.unannounced == Unannounced::AnyId);
        let unseen: Vec<FunctionId> = with_any_id.map(|(id, _)| id).filter(|&id| is_unseen(id)).collect();
        // If the module has all calls of libraries, these can be traced as calls that may call back.
        let is_called = |id: &FunctionId| {
            let function = &program[*id];
            let names = function.aliases.iter().chain([&function.name]).map(String::as_str);
            is_alone && facts::are_called_within(names, &self.entered)
        };
        let (called_within, hidden): (Vec<_>, Vec<_>) = unseen.into_iter().partition(is_called);
        let unannounced = tracing::without_calls_back(program, &hidden)?;
        if let [first, ..] = hidden[..] {
            let others = match unannounced.iter().filter(|left_out| **left_out).count() - 1 {
                0 => String::new(),
                1 => " and another function".to_owned(),
                more => format!(" and {more} other functions"),
            };
            warnings.push(format!(
                "{}{others}, left out of the trace: code that the program does not show may call them",
                program[first].name
            ));
        }
        let calls = tracing::Calls {
            binding: self.binding(),
            libraries: !called_within.is_empty(),
            shared: !self.in_executable(),
        };
        Ok((unannounced, calls))
    }

    /// Adds the part of the trace's code that must come before contexts are instrumented. `names`: the
    /// module's name for people, and its number in hashes. `left_out` marks functions that are not in the
    /// program. `elsewhere`: the calls of other modules' functions that are recorded.
    ///
    /// # Errors
    /// A function can be neither traced nor left out.
    pub fn trace<'m>(
        &self,
        module: Module<'m>,
        program: &Program,
        code: &Code<'m>,
        names: (&str, u64),
        (mut left_out, elsewhere): (Vec<bool>, tracing::Elsewhere),
        warnings: &mut Vec<String>,
    ) -> Result<tracing::Before<'m>, Error> {
        let (unannounced, calls) = self.left_out(module, program, code, warnings)?;
        left_out.iter_mut().zip(unannounced).for_each(|(left_out, unannounced)| *left_out |= unannounced);
        let options = (self.options, self.wanted.part);
        tracing::insert(module, program, code, (names, left_out), options, (calls, elsewhere), warnings)
    }
}
