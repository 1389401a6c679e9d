//! Runs the fuzzer: `campaign FUZZER FOLDER COUNT [TARGET…]` gives COUNT inputs to each target, or to those named.
//!
//! Below the folder: `corpus/TARGET`, the first inputs; `grown/TARGET`, inputs that reach new code;
//! `TARGET.log`; and `found`, inputs with which something is wrong. Exit status 1 if there is one.

use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use std::{env, fs};

use indicatif::{ProgressBar, ProgressStyle};
use pcce_fuzz::{PROGRESS, TARGETS, Target};

/// libFuzzer's limits for an input: seconds, and MB of memory.
const TIMEOUT: u32 = 10;
const MEMORY: u32 = 1024;
/// Bytes at the end of the log that are shown after an error.
const LINES: usize = 40;

fn main() -> io::Result<ExitCode> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [fuzzer, folder, count, names @ ..] = &words[..] else {
        return Err(io::Error::other("usage: campaign FUZZER FOLDER COUNT [TARGET...]"));
    };
    let count: u64 = count.parse().map_err(|_| io::Error::other(format!("{count} is no count of inputs")))?;
    let known = |name: &String| TARGETS.iter().any(|target| target.name == name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        return Err(io::Error::other(format!("there is no target {name}; there are {}", names.join(", "))));
    }
    let mut status = ExitCode::SUCCESS;
    for target in TARGETS.iter().filter(|t| names.is_empty() || names.iter().any(|name| name == t.name)) {
        if !run(fuzzer, folder.as_ref(), count, target)? {
            status = ExitCode::FAILURE;
        }
    }
    Ok(status)
}

/// Returns whether nothing was wrong.
fn run(fuzzer: &str, folder: &Path, count: u64, target: &Target) -> io::Result<bool> {
    let name = target.name;
    let [corpus, grown] = ["corpus", "grown"].map(|part| folder.join(part).join(name));
    let found = folder.join("found");
    // Inputs of other versions of the target would differ.
    let _ = fs::remove_dir_all(&corpus);
    for folder in [&corpus, &grown, &found] {
        fs::create_dir_all(folder)?;
    }
    for (number, seed) in (target.seeds)().iter().enumerate() {
        fs::write(corpus.join(format!("seed{number}")), seed)?;
    }
    let log = folder.join(format!("{name}.log"));
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {human_pos}/{human_len} ({eta} left)");
    let bar = ProgressBar::new(count)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_prefix(name);
    let start = Instant::now();
    let mut child = Command::new(fuzzer)
        .env("PCCE_FUZZ", name)
        .args([format!("-runs={count}"), format!("-timeout={TIMEOUT}"), format!("-rss_limit_mb={MEMORY}")])
        .args(["-max_len=16384", "-seed=1", "-print_final_stats=1"])
        .arg(format!("-artifact_prefix={}/{name}-", found.display()))
        .args([&grown, &corpus])
        .stdout(Stdio::piped())
        .stderr(fs::File::create(&log)?)
        .spawn()?;
    if let Some(marks) = child.stdout.take() {
        io::BufReader::new(marks).bytes().take_while(Result::is_ok).for_each(|_| bar.inc(PROGRESS));
    }
    let good = child.wait()?.success();
    bar.finish_and_clear();
    let log = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    if good {
        let figure = |key: &str| {
            let line = log.lines().find_map(|line| line.strip_prefix(key));
            line.map_or("?", |line| line.trim_start_matches(':').trim()).to_owned()
        };
        let (inputs, memory) = (figure("stat::number_of_executed_units"), figure("stat::peak_rss_mb"));
        println!("{name}: {inputs} inputs, {} s, at most {memory} MB", start.elapsed().as_secs());
    } else {
        let lines: Vec<&str> = log.lines().collect();
        eprintln!("{}", lines[lines.len().saturating_sub(LINES)..].join("\n"));
        eprintln!("fuzz: {name} failed; the input is in {}", found.display());
    }
    Ok(good)
}
