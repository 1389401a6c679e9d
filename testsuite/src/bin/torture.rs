//! Crash torture: `make torture N=10000 PROGRAMS="lua sqlite3" [SEED=1]`.
//!
//! Kills each program at N random instructions, as [`pcce_testsuite::torture`] says, and compares the threads of a core
//! file of xz for each thousand of them. The summary is `target/torture/summary.json`, mismatches are printed and stand
//! in `target/torture/NAME/wrong.txt`. Exit status 1 if there is one.

use std::fs;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
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

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut summaries = serde_json::Map::new();
    let mut wrong = 0;
    for name in arguments.programs.split_whitespace() {
        let bar = bar(name, arguments.count)?;
        bar.set_message("building");
        let victim = Victim::build(name, &arguments.variant)?;
        let outcome = victim.torture(arguments.count, arguments.seed, |outcome| {
            bar.set_position(outcome.points as u64);
            bar.set_message(format!("{} wrong", outcome.wrong.len()));
            if bar.is_hidden() && outcome.points % 1000 == 0 {
                eprintln!("{name}: {} points, {} wrong", outcome.points, outcome.wrong.len());
            }
        })?;
        bar.finish();
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
    let bar = bar("core files of xz", cores)?;
    bar.set_message("building");
    let (agreed, others) = threads(cores, arguments.seed, |wrong| {
        bar.inc(1);
        bar.set_message(format!("{wrong} wrong"));
    })?;
    bar.finish();
    wrong += others.len();
    others.iter().for_each(|other| eprintln!("{other}"));
    let threads = json!({ "threads": agreed, "wrong": others.len() });
    let summary = json!({ "seed": arguments.seed, "programs": summaries, "core_files_of_xz": threads });
    let text = serde_json::to_string_pretty(&summary)?;
    fs::write(target().join("torture/summary.json"), &text)?;
    println!("{text}");
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn bar(name: &str, length: usize) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} ({eta} left) {msg}")?;
    let bar = ProgressBar::new(length as u64).with_style(style).with_prefix(name.to_owned());
    bar.tick();
    Ok(bar)
}
