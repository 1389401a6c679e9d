//! Traces of calls: the call site control flow graph of each function (casper.txt, Definition 1) is read,
//! `pcce-tracing` decides what its nodes write, and code is added that does.
//!
//! It goes along with the encoding of contexts, of whose facts it makes use: [`gather`] and [`insert`] come when the
//! calls are as they will stay, and before anything is done to them. What splits blocks, or hides what calls call,
//! comes when contexts are done ([`finish`]); until then calls of [`APPEND`] stand for it.

mod baseline;
mod emit;
mod gather;

use pcce_model::Program;
use pcce_model::plan::Strings;
use pcce_options::PassOptions;

use crate::code::Code;
use crate::llvm::Module;

/// What must be known when contexts are done.
pub enum Before<'m> {
    /// Of codes.
    Codes(Box<emit::Before<'m>>),
    /// Of what they are compared with.
    Numbers(baseline::Numbered<'m>),
}

/// Adds what writes the trace, as far as it leaves blocks and calls as they are. `key`: the module's in hashes.
pub fn insert<'m>(
    module: Module<'m>,
    (program, code): (&Program, &Code<'m>),
    key: u64,
    options: &PassOptions,
    whole_program: bool,
) -> Before<'m> {
    let mut names = Strings::default();
    let functions = gather::gather(module, program, code, whole_program, &mut names);
    if let Some(baseline) = options.trace_baseline {
        return Before::Numbers(baseline::insert(module, program, code, &functions, baseline));
    }
    let given = (names, key, options.common.verify);
    Before::Codes(Box::new(emit::insert(module, program, code, functions, given, whole_program)))
}

/// Adds the rest, when nobody asks any more where blocks end and what calls call.
pub fn finish<'m>(module: Module<'m>, before: &Before<'m>) {
    match before {
        Before::Codes(before) => emit::finish(module, before),
        Before::Numbers(numbered) => baseline::finish(module, numbered),
    }
}

/// Stands for appended bits.
const APPEND: &str = "__pcce_trace_append";
