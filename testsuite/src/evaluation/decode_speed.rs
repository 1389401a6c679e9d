//! The speed of `pcce decode` for a stream of contexts: one for each of Lua's allocations.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::declarations::Variant;
use super::measure::Evaluated;
use super::statistics::median;
use super::store::{fingerprint, fingerprint_file};
use super::workload::Shell;
use crate::repository;

pub const PROGRAM: &str = "lua";
const TOKENS: usize = 1_000_000;
const REPEATS: usize = 5;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DecodeRate {
    pub tokens: usize,
    /// Distinct contexts among them.
    pub distinct: usize,
    /// Frames of a context, on average.
    pub frames_per_token: f64,
    /// Contexts decoded in a second of user time, by output format.
    pub per_second: BTreeMap<String, f64>,
}

/// Measures the speed with the contexts that a variant of [`PROGRAM`] takes at its allocations.
pub fn rate(evaluated: &Evaluated, variant: &Variant) -> Result<DecodeRate> {
    let header = repository().join("testsuite/demo/allocations.h");
    let mut variant = variant.clone();
    variant.flags += &format!(" -include '{}'", header.display());
    variant.name += "-tokens";
    let built = evaluated.build_with(&variant, false, &fingerprint_file(&header)?)?;
    let pcce = variant.tools.join("pcce");
    let depends = fingerprint([&built.fingerprint, &fingerprint_file(&pcce)?]);
    evaluated.store.step(&evaluated.program.name, &variant.folder_name(), "decode", &depends, || {
        let log = evaluated.scratch.with_extension("tokens");
        let _ = fs::remove_file(&log);
        let mut runner = evaluated.runner(&built);
        runner.environment.push(("ALLOCATIONS".into(), log.clone().into()));
        runner.run(&evaluated.program.workload.run)?;
        let text = fs::read_to_string(&log)?;
        let tokens: Vec<&str> = text.lines().filter_map(|l| l.split(' ').nth(1)).take(TOKENS).collect();
        ensure!(tokens.len() == TOKENS, "the program took {} contexts only", tokens.len());
        let mut file = File::create(&log)?;
        for token in &tokens {
            writeln!(file, "{token}")?;
        }
        let environment: Vec<(String, OsString)> = vec![
            ("PCCE".into(), pcce.clone().into()),
            ("EXE".into(), built.executable.clone().into()),
            ("LOG".into(), log.clone().into()),
        ];
        let (output, errors) = (log.with_extension("decoded"), log.with_extension("decode-errors"));
        let decode = |format: &str| {
            let commands = format!("\"$PCCE\" decode --format {format} \"$EXE\" < \"$LOG\"");
            let folder = log.parent().unwrap_or(&log);
            let environment = environment.clone();
            Shell { commands: &commands, folder, environment, output: &output, errors: &errors }.run()
        };
        let mut per_second = BTreeMap::new();
        for format in ["text", "json", "folded"] {
            let mut rates = Vec::new();
            for _ in 0..REPEATS {
                rates.push(tokens.len() as f64 / decode(format)?.user);
            }
            per_second.insert(format.to_owned(), median(&rates).map_or(0.0, |m| m.median));
        }
        decode("text")?;
        let decoded = fs::read(&output)?;
        let frames = decoded.split(|&b| b == b'\n').filter(|line| line.starts_with(b"#")).count();
        let rate = DecodeRate {
            tokens: tokens.len(),
            distinct: tokens.iter().collect::<HashSet<_>>().len(),
            frames_per_token: frames as f64 / tokens.len() as f64,
            per_second,
        };
        for file in [&log, &output, &errors] {
            fs::remove_file(file)?;
        }
        Ok(rate)
    })
}
