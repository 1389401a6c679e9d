//! Traces of calls: the call site control flow graph of each function (casper.txt, Definition 1) is read,
//! `pcce-tracing` decides what its nodes write, and code is added that does.
//!
//! It goes along with the encoding of contexts, of whose facts it makes use: [`gather`] and [`insert`] come when the
//! calls are as they will stay, and before anything is done to them. What splits blocks, or hides what calls call,
//! comes when contexts are done ([`finish`]); until then calls of [`APPEND`] stand for it.

mod baseline;
mod emit;
mod gather;

use pcce_encoding::FunctionId;
use pcce_model::plan::{PlannedFunction, Strings};
use pcce_model::{CallKind, Patterns, Program, TailCallee};
use pcce_options::{Granularity, PassOptions};

use crate::code::Code;
use crate::error::Error;
use crate::facts::Binding;
use crate::llvm::Module;

/// What must be known when contexts are done.
pub enum Before<'m> {
    Codes(Box<emit::Before<'m>>),
    /// Of what they are compared with.
    Numbers(baseline::Numbered<'m>),
}

/// What calls may do.
#[derive(Clone, Copy)]
pub struct Calls {
    /// Who says which definition of a name runs. A whole program has all callers of its functions but libraries.
    pub binding: Binding,
    /// Calls of libraries' functions that are known to call nothing back may call functions of the program all the
    /// same, in the place of the libraries' own (`malloc`).
    pub libraries: bool,
}

/// The functions that have to be left out for these, which are entered where nothing is written: they, and what they
/// call.
///
/// # Errors
/// [`Error::UntracedCalls`] where that is not known.
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
                match call.kind {
                    CallKind::Direct(callee) => waiting.push(callee),
                    CallKind::Silent(_) | CallKind::Published(_) | CallKind::Runtime(_) => {}
                    CallKind::External(_) | CallKind::Indirect | CallKind::Asm => {
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

/// Adds what writes the trace, as far as it leaves blocks and calls as they are. `name`: the module's; `key`: that in
/// hashes; `left_out`: functions that the user has not left out. What is to be said goes to `warnings`.
///
/// # Errors
/// Names of functions that cannot be read.
pub fn insert<'m>(
    module: Module<'m>,
    (program, code): (&Program, &Code<'m>),
    ((name, key), left_out): ((&str, u64), Vec<bool>),
    options: &PassOptions,
    calls: Calls,
    warnings: &mut Vec<String>,
) -> Result<Before<'m>, Error> {
    let mut names = Strings::default();
    let (mut skipped, unused) = skipped(program, code, options)?;
    // Other modules may have what this one has not.
    warnings.extend(unused.into_iter().filter(|_| calls.binding == Binding::Program));
    skipped.iter_mut().zip(left_out).for_each(|(skipped, left_out)| *skipped |= left_out);
    let blocks = options.common.trace == Some(Granularity::Blocks);
    let functions = gather::gather(module, (program, code), (calls, blocks), &mut names, &skipped);
    if let Some(baseline) = options.trace_baseline {
        return Ok(Before::Numbers(baseline::insert(module, program, code, &functions, baseline)));
    }
    let given = (names, (name, key), options.common.verify);
    Ok(Before::Codes(Box::new(emit::insert(module, program, code, functions, given, calls.binding))))
}

/// Which functions are left out, and which names have named none.
fn skipped(
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

/// Adds the rest, when nobody asks any more where blocks end and what calls call. `sites`: the name of the site array.
pub fn finish<'m>(module: Module<'m>, before: Before<'m>, plan: &[PlannedFunction], sites: &str) {
    match before {
        Before::Codes(before) => emit::finish(module, *before, plan, sites),
        Before::Numbers(numbered) => baseline::finish(module, &numbered),
    }
}

/// Stands for appended bits.
const APPEND: &str = "__pcce_trace_append";
