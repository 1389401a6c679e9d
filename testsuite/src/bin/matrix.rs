//! Programs in all ways of building them: `make matrix [N=100] [SEED=1] [ONLY="-fsanitize address"] [MODES="link"]`.
//!
//! Checks the cases that [`pcce_testsuite::matrix`] makes of the tables in `testsuite/matrix/`, on all cores (or as
//! many as `RAYON_NUM_THREADS` says). A case with an error stays in `target/matrix/CASE/`, with the reason in
//! `difference.txt`; the summary is `target/matrix/summary.json`. Exit status 1 if anything is wrong.

use std::fs;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use pcce_testsuite::driver::{Progress, exit, summarise};
use pcce_testsuite::matrix::{Case, Counts, Mode, by_group, cases};
use pcce_testsuite::target;
use serde_json::json;

/// Checks programs in all ways of building them.
#[derive(Parser)]
struct Arguments {
    /// At most so many cases
    #[arg(long)]
    count: Option<usize>,
    /// Decides which levels of optimisation and generated programs the flags get
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Cases only whose names (program, level, flags) have all these words in them
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    only: String,
    /// Ways to build them, separated by blanks: lto, module, mixed, link; all without it
    #[arg(long, value_delimiter = ' ')]
    modes: Vec<Mode>,
}

fn main() -> ExitCode {
    exit("matrix", run(Arguments::parse()))
}

fn run(arguments: Arguments) -> Result<bool> {
    let folder = target().join("matrix");
    let wanted = |case: &Case| arguments.only.split_whitespace().all(|word| case.to_string().contains(word));
    let all = cases(arguments.seed).into_iter().filter(wanted);
    let all: Vec<Case> = all.take(arguments.count.unwrap_or(usize::MAX)).collect();
    let modes = if arguments.modes.is_empty() { Mode::ALL.to_vec() } else { arguments.modes };
    let work = |number: usize| folder.join(format!("case-{number}"));
    let check = |(number, case): &(usize, &Case)| case.check(&modes, &work(*number));
    let failed = |(number, _): &(usize, &Case), result: &Result<Counts, String>| {
        let text = result.as_ref().err()?;
        let _ = fs::write(work(*number).join("difference.txt"), text);
        let start: String = text.chars().take(1500).collect();
        Some(format!("{}: {start}\n", work(*number).display()))
    };
    let results = Progress::new(all.len(), "cases").check_all(all.iter().enumerate(), check, failed);
    let (mut good, mut wrong) = (Vec::new(), Vec::new());
    for ((_, case), result) in results {
        match result {
            Ok(counts) => good.push((case, counts)),
            Err(_) => wrong.push(case.to_string()),
        }
    }
    let groups: serde_json::Map<String, serde_json::Value> = by_group(&good)
        .into_iter()
        .map(|(group, c)| {
            let counts = json!({
                "builds": c.builds, "points": c.points, "whole": c.whole, "lost": c.lost, "skipped": c.skipped,
            });
            (group, counts)
        })
        .collect();
    let summary = json!({ "seed": arguments.seed, "cases": all.len(), "wrong": wrong, "groups": groups });
    summarise(&folder, &summary)?;
    Ok(wrong.is_empty())
}
