//! Traces of calls: the call site control flow graph of each function (casper.txt, Definition 1) is read,
//! `pcce-tracing` decides what its nodes write, and code is added that does.
//!
//! It goes along with the encoding of contexts, of whose facts it makes use: [`gather`] and [`insert`] come when the
//! calls are as they will stay, and before anything is done to them. What splits blocks, or hides what calls call,
//! comes when contexts are done ([`finish`]); until then calls of [`APPEND`] stand for it.

mod baseline;
mod emit;
mod gather;

use pcce_model::plan::{Plan, Strings};
use pcce_model::{Patterns, Program};
use pcce_options::{Granularity, PassOptions};

use crate::code::Code;
use crate::error::Error;
use crate::llvm::Module;

/// What must be known when contexts are done.
pub enum Before<'m> {
    /// Of codes.
    Codes(Box<emit::Before<'m>>),
    /// Of what they are compared with.
    Numbers(baseline::Numbered<'m>),
}

/// Adds what writes the trace, as far as it leaves blocks and calls as they are. `key`: the module's in hashes.
///
/// # Errors
/// Names of functions that cannot be read.
pub fn insert<'m>(
    module: Module<'m>,
    (program, code): (&Program, &Code<'m>),
    key: u64,
    options: &PassOptions,
    whole_program: bool,
) -> Result<Before<'m>, Error> {
    let mut names = Strings::default();
    let skipped = skipped(program, code, options)?;
    let blocks = options.common.trace == Some(Granularity::Blocks);
    let functions = gather::gather(module, (program, code), (whole_program, blocks), &mut names, &skipped);
    if let Some(baseline) = options.trace_baseline {
        return Ok(Before::Numbers(baseline::insert(module, program, code, &functions, baseline)));
    }
    let given = (names, key, options.common.verify);
    Ok(Before::Codes(Box::new(emit::insert(module, program, code, functions, given, whole_program))))
}

/// Which functions are left out.
fn skipped(program: &Program, code: &Code<'_>, options: &PassOptions) -> Result<Vec<bool>, Error> {
    let skip = Patterns::load(&options.common.trace_skip, "trace-skip")?;
    let only = Patterns::load(&options.common.trace_only, "trace-only")?;
    let functions = program.iter().map(|(id, function)| {
        let file = code.function(id).value.source_file();
        let named = |patterns: &Patterns| patterns.name(&function.name, file.as_deref());
        named(&skip) || !only.is_empty() && !named(&only)
    });
    Ok(functions.collect())
}

/// Adds the rest, when nobody asks any more where blocks end and what calls call. `sites`: the name of the site array.
pub fn finish<'m>(module: Module<'m>, before: Before<'m>, plan: &Plan, sites: &str) {
    match before {
        Before::Codes(before) => emit::finish(module, *before, plan, sites),
        Before::Numbers(numbered) => baseline::finish(module, &numbered),
    }
}

/// Stands for appended bits.
const APPEND: &str = "__pcce_trace_append";
