//! Programs in all ways of building them: `make matrix [N=100] [SEED=1] [ONLY="-fsanitize address"] [MODES="link"]`.
//!
//! Checks the cases that [`pcce_testsuite::matrix`] makes of the tables in `testsuite/matrix/`, on all cores (or as
//! many as `RAYON_NUM_THREADS` says). What is wrong stays in `target/matrix/CASE/`, with the reason in
//! `difference.txt`; the summary is `target/matrix/summary.json`. Exit status 1 if anything is wrong.

use std::fs;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use pcce_testsuite::matrix::{Case, Counts, Mode, by_group, cases};
use pcce_testsuite::target;
use rayon::iter::{ParallelBridge as _, ParallelIterator as _};
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

fn main() -> std::io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let folder = target().join("matrix");
    fs::create_dir_all(&folder)?;
    let wanted = |case: &Case| arguments.only.split_whitespace().all(|word| case.to_string().contains(word));
    let all = cases(arguments.seed).into_iter().filter(wanted);
    let all: Vec<Case> = all.take(arguments.count.unwrap_or(usize::MAX)).collect();
    let modes = if arguments.modes.is_empty() { Mode::ALL.to_vec() } else { arguments.modes };
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} ({eta} left) {msg}");
    let bar =
        ProgressBar::new(all.len() as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    // Bridged, so that cases are taken in their order.
    let results: Vec<(usize, Result<Counts, String>)> = (all.iter().enumerate())
        .par_bridge()
        .map(|(number, case)| {
            let work = folder.join(format!("case-{number}"));
            let result = case.check(&modes, &work);
            if let Err(text) = &result {
                let _ = fs::write(work.join("difference.txt"), text);
                let start: String = text.chars().take(1500).collect();
                bar.suspend(|| eprintln!("{}: {start}\n", work.display()));
            }
            bar.inc(1);
            (number, result)
        })
        .collect();
    bar.finish();
    let (mut good, mut wrong) = (Vec::new(), Vec::new());
    for (number, result) in results {
        match result {
            Ok(counts) => good.push((&all[number], counts)),
            Err(_) => wrong.push(all[number].to_string()),
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
    let text = serde_json::to_string_pretty(&summary)?;
    fs::write(folder.join("summary.json"), &text)?;
    println!("{text}");
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
