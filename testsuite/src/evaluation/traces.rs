//! Traces of calls: their size, and whether they are right.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::declarations::Variant;
use crate::command;

/// The traces of the processes of a workload.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// Bytes that the file takes on the disk.
    pub bytes: u64,
    /// The same after `zstd -3`.
    pub compressed: u64,
    /// Verify mode: events compared.
    pub events: u64,
    /// Verify mode: chunks that were read from their own beginning, too.
    pub chunks: u64,
    /// Verify mode: chunks of the trace in which the reader finds wrong events or a wrong stack.
    pub wrong: u64,
    /// Verify mode: gaps, and parts that cannot be compared, as `pcce trace check` reports them. Empty if there are
    /// none.
    pub missing: String,
}

/// Returns whether `pcce trace` reads what the variant writes.
pub fn is_read(variant: &Variant) -> bool {
    variant.records && variant.uses_wrapper() && !variant.environment.contains_key("PCCE_OPTIONS")
}

/// The files in a folder, and in those in it.
pub fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => found.extend(files_below(&entry.path())?),
            false => found.push(entry.path()),
        }
    }
    found.sort();
    Ok(found)
}

/// The size of traces.
pub fn size(traces: &[PathBuf]) -> Result<Recorded> {
    ensure!(!traces.is_empty(), "no trace was recorded");
    let mut recorded = Recorded::default();
    for trace in traces {
        recorded.bytes += 512 * fs::metadata(trace).with_context(|| trace.display().to_string())?.blocks();
        let mut zstd = Command::new("zstd");
        let mut zstd = zstd.args(["-3", "-q", "-c"]).arg(trace).stdout(Stdio::piped()).spawn()?;
        let mut out = zstd.stdout.take().context("a pipe")?;
        recorded.compressed += std::io::copy(&mut out, &mut std::io::sink())?;
        ensure!(zstd.wait()?.success(), "zstd fails on {}", trace.display());
    }
    Ok(recorded)
}

/// Compares a trace of verify mode with the counts of the program.
///
/// # Errors
/// If events differ, with what `pcce` says of it.
pub fn check(pcce: &Path, executable: &Path, trace: &Path, found: &mut Recorded) -> Result<()> {
    let output = command(pcce, &["trace", "check"]).arg(executable).arg(trace).output();
    let output = output.context("pcce trace check")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(matches!(output.status.code(), Some(0..=2)), "pcce trace check: {notes}");
    let numbers =
        |line: &str| -> Vec<u64> { line.split([' ', ',']).filter_map(|word| word.parse().ok()).collect() };
    let mut lines = text.lines().map(numbers);
    let [events, _, wrong, ref uncertain @ ..] = lines.next().unwrap_or_default()[..] else {
        anyhow::bail!("{text}{notes}")
    };
    found.events += events;
    found.wrong += wrong;
    if let [_, chunks, wrong, ..] = lines.next().unwrap_or_default()[..] {
        found.chunks += chunks;
        found.wrong += wrong;
    }
    if !uncertain.is_empty() || text.contains("innermost") || !notes.is_empty() {
        found.missing += &format!("{text}{notes}");
    }
    Ok(())
}
