//! Many generated programs: `make soak N=2000 [SEED=1] [GENERATOR=csmith] [TRACED=1]`.
//!
//! Checks the programs of the seeds SEED, SEED + 1, … as [`pcce_testsuite::generated`] says, on all cores (or as many
//! as `RAYON_NUM_THREADS` says). Seeds are independent: a run that was interrupted goes on with `SEED=` the position
//! shown. Programs that differ stay in `target/soak/GENERATOR-SEED/`, with the reason in `difference.txt`; the summary
//! is `target/soak/summary.json`. Exit status 1 if anything differed.

use std::fs;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use pcce_testsuite::generated::{Builds, Generator, Verdict, check};
use pcce_testsuite::target;
use rayon::iter::{ParallelBridge as _, ParallelIterator as _};
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
}

const GENERATORS: [Generator; 3] = [Generator::Csmith, Generator::Cxx, Generator::Outside];

fn generator(name: &str) -> Result<Generator, String> {
    let names = || GENERATORS.map(Generator::name).join(", ");
    GENERATORS.into_iter().find(|g| g.name() == name).ok_or_else(|| format!("the generators are {}", names()))
}

fn main() -> std::io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let folder = target().join("soak");
    fs::create_dir_all(&folder)?;
    let mut summaries = serde_json::Map::new();
    let mut different = 0;
    for generator in GENERATORS.into_iter().filter(|g| arguments.generator.is_none_or(|wanted| wanted == *g))
    {
        let (summary, failed) = soak(generator, &arguments);
        different += failed;
        summaries.insert(generator.name().to_owned(), summary);
    }
    let summary = json!({ "seed": arguments.seed, "count": arguments.count, "generators": summaries });
    let text = serde_json::to_string_pretty(&summary)?;
    fs::write(folder.join("summary.json"), &text)?;
    println!("{text}");
    Ok(if different == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the summary and how many programs differed.
fn soak(generator: Generator, arguments: &Arguments) -> (serde_json::Value, usize) {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} ({eta} left) {msg}");
    let bar = ProgressBar::new(arguments.count)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_prefix(generator.name());
    let builds = if arguments.traced { Builds::Traced } else { Builds::All };
    // Bridged, so that seeds are taken in their order.
    let verdicts: Vec<(u64, Verdict)> = (arguments.seed..arguments.seed.saturating_add(arguments.count))
        .par_bridge()
        .map(|seed| {
            let folder = target().join("soak").join(format!("{}-{seed}", generator.name()));
            let verdict = check(generator, seed, builds, &folder);
            if let Verdict::Different(text) = &verdict {
                let start: Vec<&str> = text.lines().take(6).collect();
                bar.suspend(|| eprintln!("{} differs: {}", folder.display(), start.join("\n    ")));
            }
            bar.inc(1);
            (seed, verdict)
        })
        .collect();
    bar.finish();
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
    (summary, different.len())
}
