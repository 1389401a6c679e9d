//! Many generated programs: `make soak N=2000 [SEED=1] [GENERATOR=csmith] [TRACED=1]`.
//!
//! Checks the programs of the seeds SEED, SEED + 1, … as [`pcce_testsuite::generated`] says, on all cores (or as many
//! as `RAYON_NUM_THREADS` says). Seeds are independent: a run that was interrupted goes on with `SEED=` the position
//! shown. Programs that differ stay in `target/soak/GENERATOR-SEED/`, with the reason in `difference.txt`; the summary
//! is `target/soak/summary.json`. Exit status 1 if anything differed.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use pcce_testsuite::driver::{Progress, exit, summarise};
use pcce_testsuite::generated::{Builds, Generator, Verdict, check};
use pcce_testsuite::target;
use serde_json::json;

/// Checks many generated programs.
#[derive(Parser)]
struct Arguments {
    /// How many programs of each generator
    #[arg(long, default_value_t = 2000)]
    count: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One generator only
    #[arg(long, value_parser = generator)]
    generator: Option<Generator>,
    /// Only traces in verify mode: one build of each program, modes and granularity in turn
    #[arg(long)]
    traced: bool,
    /// For AArch64, in an emulator
    #[arg(long, conflicts_with = "traced")]
    emulated: bool,
}

const GENERATORS: [Generator; 3] = [Generator::Csmith, Generator::Cxx, Generator::Outside];

fn generator(name: &str) -> Result<Generator, String> {
    let names = || GENERATORS.map(Generator::name).join(", ");
    GENERATORS.into_iter().find(|g| g.name() == name).ok_or_else(|| format!("the generators are {}", names()))
}

fn main() -> ExitCode {
    exit("soak", run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<bool> {
    let wanted = |generator: &Generator| arguments.generator.is_none_or(|wanted| wanted == *generator);
    let mut summaries = serde_json::Map::new();
    let mut all_same = true;
    for generator in GENERATORS.into_iter().filter(wanted) {
        let (summary, same) = soak(generator, arguments);
        all_same &= same;
        summaries.insert(generator.name().to_owned(), summary);
    }
    let summary = json!({ "seed": arguments.seed, "count": arguments.count, "generators": summaries });
    summarise(&target().join("soak"), &summary)?;
    Ok(all_same)
}

/// Returns the summary, and whether no program differed.
fn soak(generator: Generator, arguments: &Arguments) -> (serde_json::Value, bool) {
    let builds = match (arguments.traced, arguments.emulated) {
        (true, _) => Builds::Traced,
        (false, true) => Builds::Emulated,
        (false, false) => Builds::All,
    };
    let folder = |seed: &u64| target().join("soak").join(format!("{}-{seed}", generator.name()));
    let check = |seed: &u64| check(generator, *seed, builds, &folder(seed));
    let differs = |seed: &u64, verdict: &Verdict| {
        let Verdict::Different(text) = verdict else { return None };
        let start: Vec<&str> = text.lines().take(6).collect();
        Some(format!("{} differs: {}", folder(seed).display(), start.join("\n    ")))
    };
    let progress = Progress::new(arguments.count as usize, &format!("programs of {}", generator.name()));
    let seeds = arguments.seed..arguments.seed.saturating_add(arguments.count);
    let verdicts = progress.check_all(seeds, check, differs);
    let (mut same, mut skipped, mut compared, mut decoded, mut captured, mut events) =
        (0u64, 0u64, 0, 0, 0, 0);
    let mut different = Vec::new();
    for (seed, verdict) in verdicts {
        match verdict {
            Verdict::Same { compared: c, decoded: d, captured: t, events: e } => {
                (same, compared, decoded) = (same + 1, compared + c, decoded + d);
                (captured, events) = (captured + t, events + e);
            }
            Verdict::Skipped => skipped += 1,
            Verdict::Different(_) => different.push(seed),
        }
    }
    different.sort_unstable();
    let summary = json!({
        "same": same,
        "skipped": skipped,
        "different": different,
        "contexts_compared": compared,
        "contexts_decoded": decoded,
        "captures_compared": captured,
        "events_compared": events,
    });
    (summary, different.is_empty())
}
