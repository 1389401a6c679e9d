//! `pcce crash`: crash reports of many processes.

mod sentry;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand, ValueEnum};
use pcce::crash_report::{Context, Report, Signal, read};
use pcce::printable::{json as line, printable};
use pcce::render::Format;
use pcce::session::{MAX_CALLS, Outcome, Session, store};
use pcce::style::short;
use pcce::token::to_hex;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Status;
use super::appearance::Folded;
use super::decode::{Output, as_json};
use super::sources::Sources;
use super::views::ReportFormat;

/// Actions on crash reports.
#[derive(Subcommand)]
pub enum CrashAction {
    /// Print the reports with the calls of all threads
    Show {
        /// The reports
        #[command(flatten)]
        args: ReportArgs,
        /// Form of the output
        #[arg(long, value_enum, default_value_t = ShowFormat::Text)]
        format: ShowFormat,
    },
    /// Count equal crashes: those with the same calls in the thread that crashed
    Group {
        /// The reports
        #[command(flatten)]
        args: ReportArgs,
        /// Form of the output
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
        /// Compare so many calls only, from the innermost on
        #[arg(long, value_name = "N")]
        frames: Option<usize>,
    },
}

/// Crash reports, and how they are read.
#[derive(Args)]
pub struct ReportArgs {
    /// Files with crash reports, one or several in each; or the program, and then these
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
    /// How contexts look
    #[command(flatten)]
    pub appearance: Folded,
}

/// Forms of crash reports.
#[derive(Clone, Copy, ValueEnum)]
pub enum ShowFormat {
    /// For people
    Text,
    /// JSON lines: one object for each report
    Json,
    /// JSON lines: one event of Sentry for each report
    Sentry,
}

pub(super) const CRASH_HELP: &str = "Crashes are equal if they have the same signal and the same functions in the thread that crashed: without lines, code
that is not instrumented, template arguments, and further rounds of a recursion. So a fingerprint stays from build to
build.

Examples:
  pcce crash show --program ./app --format json crash.txt
  pcce crash show --dicts /srv/dictionaries --format sentry crash.txt
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
    /// The frames of the first crash.
    frames: Vec<Value>,
    #[serde(skip)]
    first: Report,
}

/// Shows or counts crash reports.
pub fn run(action: &CrashAction) -> anyhow::Result<Status> {
    let (CrashAction::Show { args, .. } | CrashAction::Group { args, .. }) = action;
    let first = args.reports.first().filter(|file| args.program.is_none() && store::is_dictionary(file));
    let reports = &args.reports[usize::from(first.is_some())..];
    if reports.is_empty() {
        bail!("{}: this is a program, and no crash report was given", args.reports[0].display());
    }
    let program = args.program.as_deref().or(first.map(PathBuf::as_path));
    let sources = Sources::open(program, &args.more, &args.dicts, None)?;
    let mut status = Status::Done;
    let mut files = Vec::new();
    for file in reports {
        let text = fs::read(file).with_context(|| file.display().to_string())?;
        let found = read(&String::from_utf8_lossy(&text));
        if found.is_empty() {
            fail(&mut status, file, "has no crash report (no line `pcce-crash-report: 1`)");
        }
        files.push((file.as_path(), text, found));
    }
    let written = match action {
        CrashAction::Show { format: ShowFormat::Text, .. } => {
            let session = sources.session(Format::Text).styled(&args.appearance.style(false)?);
            let mut output = Output::new(&sources.decoder, session, false);
            files.iter().try_for_each(|(file, text, _)| output.reports(file, text))?;
            output.status()
        }
        CrashAction::Show { format, .. } => show(&sources, args, *format, &files)?,
        CrashAction::Group { format, frames, .. } => group(&sources, args, *format, *frames, files)?,
    };
    Ok(if status == Status::Done { written } else { status })
}

/// A file, its text, and the reports in it.
type Read<'a> = (&'a Path, Vec<u8>, Vec<Report>);

fn fail(status: &mut Status, file: &Path, what: &str) {
    *status = Status::Failed;
    super::message(&format!("{}: {what}", file.display()));
}

/// Writes each report as an object.
fn show(
    sources: &Sources,
    args: &ReportArgs,
    format: ShowFormat,
    files: &[Read<'_>],
) -> anyhow::Result<Status> {
    let style = args.appearance.style(true)?;
    let mut session = sources.session(Format::Json).bounded(MAX_CALLS);
    let mut status = Status::Done;
    let mut out = io::BufWriter::new(io::stdout().lock());
    for (file, _, reports) in files {
        for (number, report) in reports.iter().enumerate() {
            prepare(&mut session, sources, report);
            let (document, written) = match format {
                ShowFormat::Sentry => {
                    sentry::event(&mut session, report, number, sentry::time(file)?, &style)
                }
                _ => document(&mut session, report)?,
            };
            status = if written == Status::Done { status } else { written };
            writeln!(out, "{}", line(&document)).context("standard output")?;
        }
    }
    out.flush().context("standard output")?;
    Ok(status)
}

/// A report as JSON, with its contexts, and whether all of them were decoded.
pub fn document(session: &mut Session<'_>, report: &Report) -> anyhow::Result<(Value, Status)> {
    let known = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    let signal = |signal: &Signal| {
        json!({
            "number": signal.number,
            "name": signal.name(),
            "code": signal.code,
            "meaning": signal.meaning(),
            "address": signal.address,
            "sender": signal.sender,
        })
    };
    let (mut status, mut equal) = (Status::Done, Value::Null);
    let mut threads = Vec::new();
    for (number, thread) in report.threads.iter().enumerate() {
        let mut row = json!({
            "thread": thread.number,
            "name": thread.name,
            "also_crashed": thread.also_crashed.as_ref().map(signal),
            "token": Value::Null,
            "frames": [],
        });
        match &thread.context {
            Context::Token(token) => {
                let (outcome, decoded) = as_json(session, token)?;
                if outcome != Outcome::Decoded {
                    status = Status::Failed;
                }
                if let (0, Some(frames)) = (number, decoded["frames"].as_array()) {
                    equal = fingerprint(report, functions(frames), None).into();
                }
                if let (Value::Object(row), Value::Object(decoded)) = (&mut row, decoded) {
                    row.extend(decoded);
                }
            }
            Context::Missing(why) if why == "none" => {}
            Context::Missing(why) => row["error"] = why.as_str().into(),
        }
        threads.push(row);
    }
    let document = json!({
        "program": known(&report.program),
        "build_id": known(&report.build_id),
        "process": report.process,
        "trace": report.trace,
        "signal": report.signal.as_ref().map(signal),
        "fingerprint": equal,
        "threads": threads,
        "missing": report.incomplete,
        "complete": report.is_whole,
    });
    Ok((document, status))
}

/// Counts equal crashes. `most`: bound on the innermost calls that are compared.
fn group(
    sources: &Sources,
    args: &ReportArgs,
    format: ReportFormat,
    most: Option<usize>,
    files: Vec<Read<'_>>,
) -> anyhow::Result<Status> {
    let style = args.appearance.style(false)?;
    let mut session = sources.session(Format::Json).bounded(MAX_CALLS);
    let (mut groups, mut status): (HashMap<String, Group>, _) = (HashMap::new(), Status::Done);
    let mut reports = 0_u64;
    for (file, report) in
        files.into_iter().flat_map(|(file, _, found)| found.into_iter().map(move |r| (file, r)))
    {
        reports += 1;
        let Some(token) = report.token() else {
            fail(&mut status, file, "a report has no context of the thread that crashed");
            continue;
        };
        prepare(&mut session, sources, &report);
        let (outcome, decoded) = as_json(&mut session, token)?;
        match outcome {
            Outcome::Decoded => {}
            Outcome::Incomplete => {
                fail(&mut status, file, "dictionaries of modules are missing, and their calls are left out")
            }
            Outcome::Failed(failure) => {
                fail(&mut status, file, &failure.to_string());
                continue;
            }
        }
        let frames = decoded["frames"].as_array().cloned().unwrap_or_default();
        let fingerprint = fingerprint(&report, functions(&frames), most);
        let build_id = if report.build_id.is_empty() { "none" } else { &report.build_id }.to_owned();
        let group = groups.entry(fingerprint.clone()).or_insert_with(|| Group {
            fingerprint,
            count: 0,
            signal: report.signal_name().to_owned(),
            builds: BTreeSet::new(),
            reports: BTreeSet::new(),
            frames,
            first: report,
        });
        group.count += 1;
        group.builds.insert(build_id);
        group.reports.insert(file.display().to_string());
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.fingerprint.cmp(&b.fingerprint)));
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut write = || -> io::Result<()> {
        match format {
            ReportFormat::Json => {
                let document = json!({ "reports": reports, "crashes": groups });
                writeln!(out, "{}", line(&document))?;
            }
            ReportFormat::Text => {
                let mut session = sources.session(Format::Below).styled(&style).bounded(MAX_CALLS);
                writeln!(out, "{}, {}", number(reports, "report"), number(groups.len() as u64, "crash"))?;
                for group in &groups {
                    let (times, builds) =
                        (number(group.count, "time"), number(group.builds.len() as u64, "build"));
                    writeln!(out, "\n{times}, {builds}: {} {}", printable(&group.signal), group.fingerprint)?;
                    prepare(&mut session, sources, &group.first);
                    session.decode(group.first.token().unwrap_or_default().as_bytes(), &mut out)?;
                }
            }
        }
        out.flush()
    };
    write().context("standard output")?;
    Ok(status)
}

/// Gives the session the build of a report's process.
fn prepare(session: &mut Session<'_>, sources: &Sources, report: &Report) {
    session.learn(&report.build_id);
    session.set_of_program(sources.decoder.has_build(&report.build_id));
}

/// The functions of calls in a decoded context.
fn functions(frames: &[Value]) -> impl Iterator<Item = Option<&str>> {
    frames.iter().filter(|frame| frame["kind"] == "call").map(|frame| frame["function"].as_str())
}

/// The fingerprint of a crash, 16 hexadecimal digits: equal crashes have the same signal, and the same functions in
/// their innermost `most` calls.
fn fingerprint<'f>(
    report: &Report,
    functions: impl Iterator<Item = Option<&'f str>>,
    most: Option<usize>,
) -> String {
    let mut names: Vec<_> = functions.map(|function| short(function.unwrap_or("??"))).collect();
    // Leaves out further rounds of a recursion, also over several functions.
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

/// A count with its noun.
fn number(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ if what.ends_with('h') => format!("{count} {what}es"),
        _ => format!("{count} {what}s"),
    }
}
