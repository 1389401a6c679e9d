//! `pcce crash`: crash reports of many processes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use pcce::crash_report::{Written, read};
use pcce::printable::{json, printable};
use pcce::render::Format;
use pcce::session::{MAX_CALLS, Outcome, Session};
use pcce::style::short;
use pcce::token::to_hex;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::appearance::Folded;
use super::decode::as_json;
use super::sources::Sources;
use super::{Status, views::ReportFormat};

/// Actions on crash reports.
#[derive(Subcommand)]
pub enum CrashAction {
    /// Count equal crashes: those with the same calls in the thread that crashed
    Group(GroupArgs),
}

/// Arguments of `pcce crash group`.
#[derive(Args)]
pub struct GroupArgs {
    /// Files with crash reports, one or several in each
    #[arg(value_name = "REPORTS", required = true)]
    pub reports: Vec<PathBuf>,
    /// The program, or its dictionary; left out, dictionaries are found by build id
    #[arg(long, value_name = "PROGRAM|DICT")]
    pub program: Option<PathBuf>,
    /// Folder with dictionaries, programs or debug files, looked through by build id; may be given several
    /// times
    #[arg(long, value_name = "DIR")]
    pub dicts: Vec<PathBuf>,
    /// Dictionary of a shared library (or the library itself); may be given several times
    #[arg(long = "dict", value_name = "FILE")]
    pub more: Vec<PathBuf>,
    /// Compare so many calls only, from the innermost on
    #[arg(long, value_name = "N")]
    pub frames: Option<usize>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// How contexts look
    #[command(flatten)]
    pub appearance: Folded,
}

pub(super) const CRASH_HELP: &str = "Crashes are equal if they have the same signal and the same functions in the thread that crashed: without lines, code
that is not instrumented, template arguments, and further rounds of a recursion. So a fingerprint stays from build to
build.

Examples:
  pcce crash group --program ./app crash-*.txt
  pcce crash group --dicts /srv/dictionaries --format json /var/crash/*.txt";

/// Crashes that are equal.
#[derive(Serialize)]
struct Group {
    fingerprint: String,
    count: u64,
    signal: String,
    builds: BTreeSet<String>,
    reports: BTreeSet<String>,
    /// Of the first of them.
    frames: Vec<Value>,
    #[serde(skip)]
    first: Written,
}

/// Counts equal crashes.
pub fn run(action: &CrashAction) -> anyhow::Result<Status> {
    let CrashAction::Group(args) = action;
    let style = args.appearance.style(false)?;
    let sources = Sources::open(args.program.as_deref(), &args.more, &args.dicts, None)?;
    let mut session = sources.session(Format::Json).bounded(MAX_CALLS);
    let (mut groups, mut status): (HashMap<String, Group>, _) = (HashMap::new(), Status::Done);
    let mut fail = |file: &Path, what: &str| {
        status = Status::Failed;
        super::message(&format!("{}: {what}", file.display()));
    };
    let mut reports = 0_u64;
    for file in &args.reports {
        let text = fs::read(file).with_context(|| file.display().to_string())?;
        let found = read(&String::from_utf8_lossy(&text));
        if found.is_empty() {
            fail(file, "has no crash report (no line `pcce-crash-report: 1`)");
        }
        for report in found {
            reports += 1;
            let Some(token) = report.token() else {
                fail(file, "a report has no context of the thread that crashed");
                continue;
            };
            prepare(&mut session, &sources, &report);
            let (outcome, decoded) = as_json(&mut session, token)?;
            match outcome {
                Outcome::Decoded => {}
                Outcome::Incomplete => {
                    fail(file, "dictionaries of modules are missing, and their calls are left out")
                }
                Outcome::Failed(failure) => {
                    fail(file, &failure.to_string());
                    continue;
                }
            }
            let frames = decoded["frames"].as_array().cloned().unwrap_or_default();
            let fingerprint = fingerprint(&report, &frames, args.frames);
            let group = groups.entry(fingerprint.clone()).or_insert_with(|| Group {
                fingerprint,
                count: 0,
                signal: report.signal_name().to_owned(),
                builds: BTreeSet::new(),
                reports: BTreeSet::new(),
                frames,
                first: report.clone(),
            });
            group.count += 1;
            group.builds.insert(report.build_id);
            group.reports.insert(file.display().to_string());
        }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.fingerprint.cmp(&b.fingerprint)));
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut write = || -> io::Result<()> {
        match args.format {
            ReportFormat::Json => {
                let document = serde_json::json!({ "reports": reports, "crashes": groups });
                writeln!(out, "{}", json(&document))?;
            }
            ReportFormat::Text => {
                let mut session = sources.session(Format::Below).styled(&style).bounded(MAX_CALLS);
                writeln!(out, "{}, {}", number(reports, "report"), number(groups.len() as u64, "crash"))?;
                for group in &groups {
                    let (times, builds) =
                        (number(group.count, "time"), number(group.builds.len() as u64, "build"));
                    writeln!(out, "\n{times}, {builds}: {} {}", printable(&group.signal), group.fingerprint)?;
                    prepare(&mut session, &sources, &group.first);
                    session.decode(group.first.token().unwrap_or_default().as_bytes(), &mut out)?;
                }
            }
        }
        out.flush()
    };
    write().context("standard output")?;
    Ok(status)
}

/// Tells the session about the process of a report.
fn prepare(session: &mut Session<'_>, sources: &Sources, report: &Written) {
    session.learn(&report.build_id);
    session.set_of_program(sources.decoder.has_build(&report.build_id));
}

/// The fingerprint of a crash, 16 hexadecimal digits: equal crashes have the same signal, and the same functions in
/// their innermost `most` calls.
fn fingerprint(report: &Written, frames: &[Value], most: Option<usize>) -> String {
    let calls = frames.iter().filter(|frame| frame["kind"] == "call");
    let mut names: Vec<_> = calls.map(|frame| short(frame["function"].as_str().unwrap_or("??"))).collect();
    // Rounds of a recursion, also over several functions.
    let mut met = HashSet::new();
    names.retain(|name| met.insert(name.clone()));
    names.truncate(most.unwrap_or(usize::MAX));
    let mut hash = Sha256::new();
    hash.update(report.signal_name());
    for name in names {
        hash.update([0]);
        hash.update(&*name);
    }
    to_hex(&hash.finalize()[..8])
}

/// A number of things.
fn number(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ if what.ends_with('h') => format!("{count} {what}es"),
        _ => format!("{count} {what}s"),
    }
}
