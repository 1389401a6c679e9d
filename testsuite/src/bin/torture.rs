//! Crash torture: `make torture N=10000 PROGRAMS="lua sqlite3" [SEED=1]`.
//!
//! Kills each program at N random instructions, as [`pcce_testsuite::torture`] says, and compares the threads of a core
//! file of xz for each thousand of them. The summary is `target/torture/summary.json`, mismatches are printed and
//! written to `target/torture/NAME/wrong.txt`. Exit status 1 if there is one.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use pcce_testsuite::driver::{Progress, exit, summarise};
use pcce_testsuite::target;
use pcce_testsuite::torture::{Victim, threads};
use serde_json::json;

/// Kills programs at random instructions.
#[derive(Parser)]
struct Arguments {
    /// At how many points, each program
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// Of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Programs of the evaluation, separated by blanks
    #[arg(long, default_value = "lua sqlite3")]
    programs: String,
    /// How they are built: a variant of the evaluation
    #[arg(long, default_value = "lto")]
    variant: String,
}

fn main() -> ExitCode {
    exit("torture", run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<bool> {
    let mut summaries = serde_json::Map::new();
    let mut wrong = 0;
    for name in arguments.programs.split_whitespace() {
        let progress = Progress::new(arguments.count, &format!("points of {name}"));
        progress.say("building");
        let victim = Victim::build(name, &arguments.variant)?;
        let outcome = victim.torture(arguments.count, arguments.seed, |outcome| {
            progress.set(outcome.points);
            progress.say(&format!("{} wrong", outcome.wrong.len()));
            if progress.is_hidden() && outcome.points % 1000 == 0 {
                eprintln!("{name}: {} points, {} wrong", outcome.points, outcome.wrong.len());
            }
        })?;
        progress.end();
        wrong += outcome.wrong.len();
        let list: String = outcome.wrong.iter().map(|w| format!("{w}\n")).collect();
        victim.write_wrong(&list)?;
        eprint!("{list}");
        summaries.insert(
            name.to_owned(),
            json!({
                "points": outcome.points,
                "instructions": outcome.instructions.len(),
                "calls": outcome.calls,
                "inlined": outcome.inlined,
                "not_instrumented": outcome.outside,
                "outside_main": outcome.outside_main,
                "by_symboliser": outcome.symboliser,
                "tail_calls": outcome.tail,
                "in_stubs": outcome.stubs,
                "core_files": outcome.cores,
                "wrong": outcome.wrong.len(),
            }),
        );
    }
    let cores = arguments.count.div_ceil(1000);
    let progress = Progress::new(cores, "core files of xz");
    progress.say("building");
    let (agreed, others) = threads(cores, arguments.seed, |wrong| {
        progress.done();
        progress.say(&format!("{wrong} wrong"));
    })?;
    progress.end();
    wrong += others.len();
    others.iter().for_each(|other| eprintln!("{other}"));
    let threads = json!({ "threads": agreed, "wrong": others.len() });
    let summary = json!({ "seed": arguments.seed, "programs": summaries, "core_files_of_xz": threads });
    summarise(&target().join("torture"), &summary)?;
    Ok(wrong == 0)
}
