//! Traces of calls. The call site control flow graph of each function (casper.txt, Definition 1) is read,
//! `pcce-tracing` decides the bits of its nodes, and code is added that writes them.
//!
//! Tracing shares the facts of contexts. [`gather`] and [`insert`] run when the calls have their final form,
//! before anything is inserted for contexts. Changes that split blocks, or hide callees, come after contexts
//! ([`finish`]); until then, calls of [`APPEND`] are placeholders for them.
//!
//! Each function that can be copied has a second body, which records. Functions that other code may enter choose
//! between both at their first instructions: a process that will never record runs the first bodies, as if it had been
//! built without traces. Contexts are encoded once, and both bodies are rewritten by the same plan.

mod baseline;
mod emit;
mod gather;

use std::collections::HashMap;

use pcce_abi::trace;
use pcce_dictionary::trace::Part;
use pcce_encoding::FunctionId;
use pcce_model::plan::{PlannedFunction, Strings};
use pcce_model::{Patterns, Program, Reach, TailCallee};
use pcce_options::{Granularity, PassOptions};

use crate::error::Error;
use crate::facts::Binding;
use crate::handles::{Code, SecondBodies};
use crate::llvm::Module;

/// The state between [`insert`] and [`finish`].
pub enum Before<'m> {
    Codes(Box<emit::Before<'m>>),
    /// With numbers of call sites, for comparison.
    Numbers(baseline::Numbered<'m>),
}

impl<'m> Before<'m> {
    /// The bodies that record. They are instrumented for contexts in the same way as the first bodies.
    pub fn bodies(&mut self) -> Option<&mut SecondBodies<'m>> {
        match self {
            Self::Codes(before) => Some(&mut before.bodies),
            Self::Numbers(_) => None,
        }
    }
}

/// Assumptions about calls.
#[derive(Clone, Copy)]
pub struct Calls {
    /// Says what decides which definition of a name runs. A whole program has all callers of its functions,
    /// except libraries.
    pub binding: Binding,
    /// Library functions that are known to call nothing back may still call functions of the program that
    /// replace the library's own (`malloc`).
    pub libraries: bool,
    /// The code may be a shared library's.
    pub shared: bool,
}

/// Recorded functions, and their calls, in several modules of an image.
#[derive(Default)]
pub struct Elsewhere {
    /// The calls of other modules' functions, by caller and index among its calls. Each has the symbol of the place
    /// after the callee's entry event, where the call enters.
    pub calls: HashMap<(FunctionId, usize), String>,
    /// The functions that other modules enter at such a place, with its symbol.
    pub entered: Vec<(FunctionId, String)>,
}

/// Marks the functions that the trace must leave out because the functions `entered` are entered without an
/// event: these, and all functions that they may reach.
///
/// # Errors
/// [`Error::UntracedCalls`] if a callee is unknown.
pub fn without_calls_back(program: &Program, entered: &[FunctionId]) -> Result<Vec<bool>, Error> {
    let mut left_out = vec![false; program.functions.len()];
    for &first in entered {
        let mut waiting = vec![first];
        while let Some(id) = waiting.pop() {
            if std::mem::replace(&mut left_out[id.index()], true) {
                continue;
            }
            let function = &program[id];
            for call in &function.calls {
                match call.kind.reach() {
                    Reach::Function(callee) => waiting.push(callee),
                    Reach::Runtime | Reach::Nothing => {}
                    Reach::Replaceable(_) | Reach::Pointer | Reach::Outside => {
                        return Err(Error::UntracedCalls { function: program[first].name.clone() });
                    }
                }
            }
            for tail in &function.tail_callees {
                let TailCallee::Known(callee) = *tail else {
                    return Err(Error::UntracedCalls { function: program[first].name.clone() });
                };
                waiting.push(callee);
            }
        }
    }
    Ok(left_out)
}

/// Adds the part of the code that leaves blocks and calls as they are. `name` is the module's, and `key` its
/// number in hashes. `left_out` marks functions that are left out for other reasons than the user's options. `part`:
/// the bits of other parts are not written.
///
/// # Errors
/// Names of functions cannot be read.
pub fn insert<'m>(
    module: Module<'m>,
    program: &Program,
    code: &Code<'m>,
    ((name, key), left_out): ((&str, u64), Vec<bool>),
    (options, part): (&PassOptions, Option<Part>),
    (calls, elsewhere): (Calls, Elsewhere),
    warnings: &mut Vec<String>,
) -> Result<Before<'m>, Error> {
    let mut names = Strings::default();
    let (mut skipped, unused) = skipped(program, code, options)?;
    // Other modules may have functions of these names.
    warnings.extend(unused.into_iter().filter(|_| calls.binding == Binding::Program));
    skipped.iter_mut().zip(left_out).for_each(|(skipped, left_out)| *skipped |= left_out);
    let blocks = options.common.trace == Some(Granularity::Blocks);
    // A hybrid encoding relies on the frames of one body.
    let has_bodies = options.trace_baseline.is_none() && !options.common.hybrid;
    let recorded = |id: FunctionId| !skipped[id.index()] && has_bodies;
    let bodies = SecondBodies::new(code, recorded, trace::RECORDING_BODY);
    if let Some((function, _)) = elsewhere.entered.iter().find(|(function, _)| skipped[function.index()]) {
        return Err(Error::NotRecorded { function: program[*function].name.clone() });
    }
    let given = (calls, &elsewhere.calls);
    let functions = gather::gather(module, program, (code, &bodies), given, blocks, &mut names, &skipped);
    if let Some(baseline) = options.trace_baseline {
        return Ok(Before::Numbers(baseline::insert(module, program, code, &functions.functions, baseline)));
    }
    let given = (names, (name, key), (options.common.verify, part));
    let before = emit::insert(module, program, (code, bodies), functions, given, (calls, elsewhere.entered));
    Ok(Before::Codes(Box::new(before)))
}

/// Marks the functions that options leave out, and returns warnings about names that match no function.
pub fn skipped(
    program: &Program,
    code: &Code<'_>,
    options: &PassOptions,
) -> Result<(Vec<bool>, Vec<String>), Error> {
    let skip = Patterns::load(&options.common.trace_skip, "trace-skip")?;
    let only = Patterns::load(&options.common.trace_only, "trace-only")?;
    let functions = program.iter().map(|(id, function)| {
        let file = code.function(id).value.source_file();
        let named = |patterns: &Patterns| patterns.name(&function.name, file.as_deref());
        let (skipped, chosen) = (named(&skip), named(&only));
        skipped || !only.is_empty() && !chosen
    });
    let functions = functions.collect();
    let unused = [("trace-skip", &skip), ("trace-only", &only)].into_iter().flat_map(|(option, patterns)| {
        patterns.unused().map(move |name| {
            format!(
                "{option} {name}: the program has no function of this name, and none in a source file of this name, or \
                 all its calls were inlined; source files are known with debug information (-g) only"
            )
        })
    });
    Ok((functions, unused.collect()))
}

/// Adds the part of the code that splits blocks, or changes callees. `sites` is the name of the site array.
pub fn finish<'m>(module: Module<'m>, before: Before<'m>, plan: &[PlannedFunction], sites: &str) {
    match before {
        Before::Codes(before) => emit::finish(module, *before, plan, sites),
        Before::Numbers(numbered) => baseline::finish(module, &numbered),
    }
}

/// A placeholder for the code that appends bits.
const APPEND: &str = "__pcce_trace_append";
