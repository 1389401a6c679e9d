//! `pcce trace`.

mod text;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{HumanBytes, ProgressBar};
use pcce::style::Style;
use pcce::trace::{
    self, Compression, Programs, Reader, Selection, Stream, Tables, TraceFile, export, heading,
};

use super::appearance::Appearance;
use super::collect::{self, COLLECT_HELP, CollectArgs, MergeArgs};
use super::profile::output;
use super::views::ReportFormat;
use super::{Status, note};

pub(super) const TRACE_HELP: &str = "The program writes the trace to the file that PCCE_TRACE names. Events are its calls and returns, numbered from 1
in each thread.

Lines in <angle brackets> say what is not known, or how control came to a place otherwise than by a call.

Exit status: 0, or 2 if something is missing in the trace; of `check` also 1 if something does not match.

Examples:
  pcce-clang --pcce-trace -g -O2 app.c -o app && PCCE_TRACE=app.trace ./app
  pcce trace show app app.trace --depth 3
  pcce trace find app app.trace parse_number
  pcce trace diff app good.trace bad.trace
  pcce trace compress app.trace
  pcce trace export --format svg app app.trace -o app.svg";

/// What is done with traces.
#[derive(Subcommand)]
pub enum TraceAction {
    /// Show the calls as an indented tree
    Show {
        /// The files
        #[command(flatten)]
        args: TraceArgs,
        /// Which way the code went between them, line by line (--pcce-trace=blocks)
        #[arg(long)]
        lines: bool,
        /// About when each event was, in seconds from the trace's beginning
        #[arg(long)]
        times: bool,
        /// Only calls of this function, and what is inside of them
        #[arg(long, value_name = "NAME")]
        function: Option<String>,
        /// From this event of each thread on
        #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
        from: u64,
        /// Up to this event
        #[arg(long, value_name = "N")]
        to: Option<u64>,
        /// So many calls inside of each other
        #[arg(long, value_name = "N")]
        depth: Option<u32>,
        /// The last events of each thread
        #[arg(long, value_name = "N")]
        last: Option<u64>,
        /// Form of the output
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
        /// How calls look
        #[command(flatten)]
        appearance: Appearance,
    },
    /// Count the calls and the events of each function
    Report {
        /// The files
        #[command(flatten)]
        args: TraceArgs,
        /// So many functions
        #[arg(long, value_name = "N")]
        top: Option<usize>,
        /// Form of the output
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
        /// Names of functions without parameters, template arguments and generic arguments
        #[arg(long)]
        short: bool,
    },
    /// Show where two runs part, and what each did more
    Diff(DiffArgs),
    /// Write the trace for other programs, or as a picture
    Export {
        /// The files
        #[command(flatten)]
        args: TraceArgs,
        /// For whom
        #[arg(long, value_enum)]
        format: ExportFormat,
        /// Names of functions without parameters, template arguments and generic arguments, in folded stacks
        #[arg(long)]
        short: bool,
    },
    /// Show each call of a function with its context
    Find {
        /// The files
        #[command(flatten)]
        args: TraceArgs,
        /// The function: its name in the source, with or without its parameters, or as the linker knows it
        function: String,
        /// Form of the output
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
        /// How contexts look
        #[command(flatten)]
        appearance: Appearance,
    },
    /// Show the context at an event
    At {
        /// The files
        #[command(flatten)]
        args: TraceArgs,
        /// The event of the thread (the first one without --thread)
        event: u64,
        /// Form of the output
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
        /// How contexts look
        #[command(flatten)]
        appearance: Appearance,
    },
    /// Tell what the trace costs, and which places write most
    Stats {
        /// The files
        #[command(flatten)]
        args: TraceArgs,
        /// So many places and functions
        #[arg(long, value_name = "N", default_value_t = 10)]
        top: usize,
        /// Form of the output
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
        /// How places look
        #[command(flatten)]
        appearance: Appearance,
    },
    /// Count how often each line was executed, in the format of lcov (--pcce-trace=blocks)
    Coverage(TraceArgs),
    /// Compare what a program in verify mode wrote of its events with what is read
    Check {
        /// The files
        #[command(flatten)]
        args: TraceArgs,
        /// Form of the output
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
    },
    /// Run the program several times, each run keeping a part of the trace, and put the parts together
    #[command(after_help = COLLECT_HELP)]
    Collect(CollectArgs),
    /// Put parts of a trace together that were collected otherwise
    Merge(MergeArgs),
    /// Run one part of a collection (for engines)
    #[command(hide = true)]
    CollectPart {
        /// The folder of the collection
        folder: PathBuf,
        /// The part, from 1
        part: u32,
    },
    /// Compress the trace, also while the program runs: all commands read it so
    Compress {
        /// The trace; it is removed at the end
        trace: PathBuf,
        /// File to write [default: the trace's name, and .zst]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// What most commands need.
#[derive(Args)]
pub struct TraceArgs {
    /// The program
    pub program: PathBuf,
    /// The trace that it wrote
    pub trace: PathBuf,
    /// Only this thread, by the system's number
    #[arg(long, value_name = "N")]
    pub thread: Option<u32>,
    /// Where else to look, and where to write
    #[command(flatten)]
    pub places: Places,
}

/// What `diff` needs.
#[derive(Args)]
pub struct DiffArgs {
    /// The program
    pub program: PathBuf,
    /// The trace of a run
    pub one: PathBuf,
    /// The trace of another run
    pub two: PathBuf,
    /// Where else to look, and where to write
    #[command(flatten)]
    pub places: Places,
    /// So many functions
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// How contexts look
    #[command(flatten)]
    pub appearance: Appearance,
}

/// Further files.
#[derive(Args)]
pub struct Places {
    /// A shared library of the program, or its debug file; may be given several times. Those that stand where they were
    /// in the run are found without it
    #[arg(long = "dict", value_name = "FILE")]
    pub more: Vec<PathBuf>,
    /// Folder with shared libraries or debug files, looked through by name and build id; may be given several times
    #[arg(long, value_name = "DIR")]
    pub dicts: Vec<PathBuf>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Forms of exported traces.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// For ui.perfetto.dev
    Perfetto,
    /// For chrome://tracing, and viewers that read its format
    Chrome,
    /// Folded stacks with their events, for flame graphs
    Folded,
    /// JSON lines: one object for each event
    Json,
    /// A picture of the threads' calls over time
    Svg,
}

/// Runs it.
pub fn run(action: &TraceAction) -> anyhow::Result<Status> {
    let args = match action {
        TraceAction::Diff(args) => return diff(args),
        TraceAction::Collect(args) => return collect::collect(args),
        TraceAction::Merge(args) => return collect::merge_parts(args),
        TraceAction::CollectPart { folder, part } => return collect::collect_part(folder, *part),
        TraceAction::Compress { trace, output } => return compress(trace, output.as_deref()),
        TraceAction::Show { args, .. }
        | TraceAction::Report { args, .. }
        | TraceAction::Export { args, .. }
        | TraceAction::Find { args, .. }
        | TraceAction::At { args, .. }
        | TraceAction::Stats { args, .. }
        | TraceAction::Check { args, .. }
        | TraceAction::Coverage(args) => args,
    };
    let file = open(&args.trace)?;
    let programs = load(&[&file], &args.program, &args.places)?;
    let reader = Reader::new(&file, &programs);
    if file.damaged > 0 {
        note(&format!("{} chunks of {} are damaged", file.damaged, args.trace.display()));
    }
    let streams = streams(&file, args)?;
    let to_file = args.places.output.is_some();
    let json = |format: &ReportFormat| matches!(format, ReportFormat::Json);
    let mut gaps = file.damaged;
    let mut status = Status::Done;
    let write = |write: &mut dyn FnMut(&mut dyn std::io::Write) -> std::io::Result<()>| {
        output(args.places.output.as_deref(), |out| write(out))
    };
    match action {
        TraceAction::Show { lines, times, function, from, to, depth, last, format, appearance, .. } => {
            if *lines {
                needs_blocks(&programs.tables)?;
            }
            let functions = function.as_deref().map(|name| named(&programs.tables, name)).transpose()?;
            let selection = Selection {
                from: *from,
                to: *to,
                depth: *depth,
                last: *last,
                lines: *lines,
                times: *times,
                functions,
            };
            let style = appearance.style(to_file)?;
            write(&mut |out| {
                gaps += trace::show(&reader, streams.clone(), &selection, &style, json(format), out)?;
                Ok(())
            })?;
        }
        TraceAction::Report { top, format, short, .. } => {
            let report = trace::report(&reader, streams)?;
            gaps += report.gaps;
            let style = Style { short: *short, ..Style::default() };
            let top = top.unwrap_or(usize::MAX);
            write(&mut |out| match format {
                ReportFormat::Text => text::report(&programs.tables, &report, top, &style, out),
                ReportFormat::Json => text::report_json(&programs.tables, &report, top, out),
            })?;
        }
        TraceAction::Export { format, short, .. } => {
            let style = Style { short: *short, ..Style::default() };
            write(&mut |out| {
                let streams = streams.clone();
                gaps += match format {
                    ExportFormat::Perfetto => export::perfetto(&reader, streams, out),
                    ExportFormat::Chrome => export::chrome(&reader, streams, out),
                    ExportFormat::Folded => export::folded(&reader, streams, &style, out),
                    ExportFormat::Svg => export::timeline(&reader, streams, out),
                    ExportFormat::Json => {
                        let all = Selection::default();
                        trace::show(&reader, streams, &all, &style, true, out)
                    }
                }?;
                Ok(())
            })?;
        }
        TraceAction::Find { function, format, appearance, .. } => {
            let functions = named(&programs.tables, function)?;
            let style = appearance.style(to_file)?;
            write(&mut |out| {
                let streams = streams.clone();
                let (found, met) = trace::find(&reader, streams, &functions, &style, json(format), out)?;
                gaps += met;
                if found == 0 {
                    let as_far = if gaps > 0 { ", as far as the trace tells" } else { "" };
                    note(&format!("{function} was not called{as_far}"));
                }
                Ok(())
            })?;
        }
        TraceAction::At { event, format, appearance, .. } => {
            let style = appearance.style(to_file)?;
            let stream = *streams.first().context("the trace has no thread")?;
            let mut found = false;
            write(&mut |out| {
                let met;
                (found, met) = trace::at(&reader, stream, *event, &style, json(format), out)?;
                gaps += met;
                Ok(())
            })?;
            if !found {
                bail!("{} has no event {event}", heading(&reader, stream));
            }
        }
        TraceAction::Stats { top, format, appearance, .. } => {
            let style = appearance.style(to_file)?;
            let stats = trace::stats(&reader, streams)?;
            gaps += stats.gaps;
            write(&mut |out| match format {
                ReportFormat::Text => text::stats(&programs.tables, &stats, *top, &style, out),
                ReportFormat::Json => text::stats_json(&programs.tables, &stats, *top, out),
            })?;
        }
        TraceAction::Coverage(_) => {
            needs_blocks(&programs.tables)?;
            let coverage = trace::coverage(&reader, streams)?;
            gaps += coverage.gaps;
            write(&mut |out| coverage.write(&programs.tables, out))?;
        }
        TraceAction::Check { format, .. } => {
            let checked = trace::check(&reader, streams)?;
            gaps += checked.gaps;
            write(&mut |out| match format {
                ReportFormat::Text => text::checked(&checked, out),
                ReportFormat::Json => text::checked_json(&checked, out),
            })?;
            let both = [&checked.streams, &checked.chunks];
            if let Some((sequence, written, read)) = both.iter().find_map(|verified| verified.first) {
                super::message(&format!(
                    "chunk {sequence} does not match: the program had {written} events up to its end, and {read} were \
                     read"
                ));
            }
            if both.iter().any(|verified| verified.mismatches > 0) {
                status = Status::Mismatch;
            } else if both.iter().all(|verified| verified.chunks == 0) {
                bail!(
                    "{}: nothing can be compared; only programs in verify mode (--pcce-verify) write what it needs",
                    args.trace.display()
                );
            }
        }
        TraceAction::Diff(_)
        | TraceAction::Compress { .. }
        | TraceAction::Collect(_)
        | TraceAction::Merge(_)
        | TraceAction::CollectPart { .. } => {}
    }
    Ok(if status == Status::Done { complete(gaps, "the trace") } else { status })
}

/// The status of a command that has met so many gaps.
fn complete(gaps: u64, of: &str) -> Status {
    if gaps == 0 {
        return Status::Done;
    }
    note(&format!("something is missing in {of} at {gaps} places"));
    Status::Failed
}

fn diff(args: &DiffArgs) -> anyhow::Result<Status> {
    let DiffArgs { program, one, two, places, top, format, appearance } = args;
    let traces = [open(one)?, open(two)?];
    let programs = load(&[&traces[0], &traces[1]], program, places)?;
    let readers = [0, 1].map(|side| Reader::new(&traces[side], &programs));
    let style = appearance.style(places.output.is_some())?;
    let diff = trace::diff([&readers[0], &readers[1]]).context("the traces cannot be read")?;
    output(places.output.as_deref(), |out| match format {
        ReportFormat::Text => text::diff(&readers[0], &diff, *top, &style, out),
        ReportFormat::Json => text::diff_json(&readers[0], &diff, out),
    })?;
    Ok(complete(diff.gaps + traces[0].damaged + traces[1].damaged, "the traces"))
}

fn compress(path: &Path, output: Option<&Path>) -> anyhow::Result<Status> {
    let output = output.map_or_else(|| path.with_added_extension("zst"), Path::to_owned);
    let progress = ProgressBar::new_spinner();
    let mut tell = |done: Compression| {
        let Compression { read, written, is_used } = done;
        let waits = if is_used { "; the program runs" } else { "" };
        progress.set_message(format!("{} compressed to {}{waits}", HumanBytes(read), HumanBytes(written)));
        progress.tick();
    };
    let done = trace::compress(path, &output, &mut tell);
    progress.finish_and_clear();
    let Compression { read, written, .. } = done?;
    note(&format!("{}: {} compressed to {}", output.display(), HumanBytes(read), HumanBytes(written)));
    Ok(Status::Done)
}

fn open(path: &Path) -> anyhow::Result<TraceFile> {
    TraceFile::open(path).with_context(|| path.display().to_string())
}

fn load(traces: &[&TraceFile], program: &Path, places: &Places) -> anyhow::Result<Programs> {
    if let Some(folder) = places.dicts.iter().find(|folder| !folder.is_dir()) {
        bail!("--dicts {}: there is no such folder", folder.display());
    }
    let programs = Programs::load(traces, program, &places.more, &places.dicts)?;
    programs.useless.iter().for_each(|useless| note(useless));
    Ok(programs)
}

/// The streams that are asked for.
fn streams<'t>(file: &'t TraceFile, args: &TraceArgs) -> anyhow::Result<Vec<&'t Stream>> {
    let fits = |stream: &&Stream| args.thread.is_none_or(|thread| stream.thread == thread);
    let streams: Vec<_> = file.streams.iter().filter(fits).collect();
    if streams.is_empty()
        && let Some(thread) = args.thread
    {
        let mut threads: Vec<u32> = file.streams.iter().map(|stream| stream.thread).collect();
        threads.dedup();
        bail!("--thread {thread}: the trace has the threads {threads:?}");
    }
    Ok(streams)
}

/// Whether the program records its blocks.
fn needs_blocks(tables: &Tables) -> anyhow::Result<()> {
    if !tables.has_blocks() {
        bail!("the program records its calls only: build it with --pcce-trace=blocks");
    }
    Ok(())
}

/// The callees with a name.
fn named(tables: &Tables, name: &str) -> anyhow::Result<Vec<bool>> {
    let callees = tables.callees_named(name);
    if !callees.contains(&true) {
        bail!("{name}: the program's tables have no function of this name, traced or called");
    }
    Ok(callees)
}
