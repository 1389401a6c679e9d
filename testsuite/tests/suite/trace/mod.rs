//! Traces of calls (`--pcce-trace`): what programs write, and what `pcce trace` reads.

mod bodies;
mod checks;
mod choice;
mod chunk_beginnings;
mod compression;
mod core_files;
mod diffs;
mod divergent_runs;
mod ends;
mod events;
mod exports;
mod file;
mod forks;
mod function_names;
mod jumps;
mod left_out;
mod lines;
mod merged_runs;
mod modules;
mod programs_in_parts;
mod rings;
mod shared_libraries;
mod slurm;
mod speedscope;
mod stacks;
pub(crate) mod switches;
mod tracer;

use std::fs;
use std::path::Path;
use std::process::Command;

use pcce_testsuite::{Output, artifact, command, run};

/// Programs of `testsuite/programs` with all kinds of events.
const EVENTFUL: [&str; 8] = [
    "builtin_jumps.c",
    "callbacks.c",
    "exceptions.cpp",
    "jumps.c",
    "musttail.c",
    "pointers.c",
    "recursion.c",
    "virtuals.cpp",
];

/// Runs a program with a new trace, and its report of verify mode beside that.
fn record(program: &mut Command, trace: &Path) -> Output {
    let _ = fs::remove_file(trace);
    let report = trace.with_extension("report");
    run(program.env("PCCE_TRACE", trace).env("PCCE_VERIFY_REPORT", report)).expect_success()
}

/// Runs `pcce trace` with these words on a program and its trace.
fn pcce_trace(words: &[&str], program: &Path, trace: &Path) -> Output {
    run(command(artifact("pcce"), &["trace"]).args(words).arg(program).arg(trace))
}
