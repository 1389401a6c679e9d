//! `pcce trace`.

mod text;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use flate2::write::GzEncoder;
use indicatif::{HumanBytes, ProgressBar};
use pcce::names::{Wanted, hint};
use pcce::standing::listed;
use pcce::style::Style;
use pcce::trace::export::{Exported, Folded};
use pcce::trace::{
    self, Compared, Compression, Met, Named, Programs, Reader, Selection, Stream, Tables, TraceFile, export,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::appearance::{self, Appearance};
use super::collect::{self, COLLECT_HELP, CollectArgs, MergeArgs};
use super::profile::output;
use super::split::{self, SPLIT_HELP, SplitArgs};
use super::views::ReportFormat;
use super::{Status, note};

pub const TRACE_HELP: &str = "The program writes the trace to the file that PCCE_TRACE names. Events are its calls and returns, numbered from 1
in each thread.

Lines in <angle brackets> say what is not known, or how control came to a place otherwise than by a call.

Exit status: 0, or 2 if something is missing in the trace, or if it does not have all calls of the function that was
asked for; of `check` also 1 if something does not match. What a ring (PCCE_TRACE_RING) has not kept is missing for all
commands but `show` and `at`.

Examples:
  pcce-clang --pcce-trace -g -O2 app.c -o app && PCCE_TRACE=app.trace ./app
  pcce trace show app app.trace --depth 3
  pcce trace find app app.trace parse_number
  pcce trace diff app good.trace bad.trace
  pcce trace compress app.trace
  pcce trace export --format svg app app.trace -o app.svg";

/// The commands of `pcce trace`.
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
        /// Which events
        #[command(flatten)]
        chosen: Chosen,
        /// So many calls inside of each other
        #[arg(long, value_name = "N")]
        depth: Option<u32>,
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
        /// Which events
        #[command(flatten)]
        chosen: Chosen,
        /// So many calls inside of each other. In folded stacks deeper ones are counted together: more than
        /// 1000 where nothing is given, since what is written can grow with the square of this
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        depth: Option<u32>,
        /// Only calls with so many events inside of them, in formats of trace viewers
        #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
        least: u64,
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
        appearance: appearance::Folded,
    },
    /// Show the context at an event
    At {
        /// The files
        #[command(flatten)]
        args: TraceArgs,
        /// The event of the thread (the first one without --thread). Signal handlers, and the programs that a
        /// process becomes by `exec`, count their own: each that has such an event is shown
        event: u64,
        /// Form of the output
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
        /// How contexts look
        #[command(flatten)]
        appearance: appearance::Folded,
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
    /// Make the programs that share a trace
    #[command(after_help = SPLIT_HELP)]
    Split(SplitArgs),
    /// Become a program under another name (for collections)
    #[command(hide = true)]
    RunAs {
        /// The program's file
        own: PathBuf,
        /// Its name
        name: PathBuf,
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
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

/// The files that most commands read.
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
    /// So many differences of each thread
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub hunks: usize,
    /// Leave out the calls of this function, and what is inside of them, as those that wait; may be given several
    /// times
    #[arg(long, value_name = "NAME")]
    pub ignore: Vec<String>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// How contexts look
    #[command(flatten)]
    pub appearance: Appearance,
}

/// Which events of a trace are taken.
#[derive(Args)]
pub struct Chosen {
    /// Only calls of this function, and what is inside of them
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// From this event of each thread on
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    from: u64,
    /// Up to this event
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// The last events of each thread; of a long trace only the end is read, and numbers count from there
    #[arg(long, value_name = "N")]
    last: Option<u64>,
}

impl Chosen {
    /// The function, if there is one, and the events.
    ///
    /// # Errors
    /// The trace can have no event of the function.
    fn select(&self, programs: &Programs) -> anyhow::Result<(Option<Asked>, Selection)> {
        let function = self.function.as_deref().map(|name| Asked::new(programs, name)).transpose()?;
        let functions = function.as_ref().map(|function| function.named.clone());
        let selection =
            Selection { from: self.from, to: self.to, last: self.last, functions, ..Selection::default() };
        Ok((function, selection))
    }
}

/// Further files.
#[derive(Args)]
pub struct Places {
    /// A shared library of the program, or its debug file; may be given several times. Those that stand where
    /// they were in the run are found without it
    #[arg(long = "dict", value_name = "FILE")]
    pub more: Vec<PathBuf>,
    /// Folder with shared libraries or debug files, looked through by name and build id; may be given several
    /// times
    #[arg(long, value_name = "DIR")]
    pub dicts: Vec<PathBuf>,
    /// File to write, compressed by gzip if its name ends with .gz [default: standard output]
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
    /// For www.speedscope.app
    Speedscope,
    /// Folded stacks with their events, for flame graphs
    Folded,
    /// JSON lines: one object for each event
    Json,
    /// A page for browsers: the threads' calls over time, which can be zoomed
    Html,
    /// A picture of the threads' calls, by their events
    Svg,
}

/// The depth of folded stacks without `--depth`.
const FOLDED_DEPTH: u32 = 1000;

/// Runs a command of `pcce trace`.
pub fn run(action: &TraceAction) -> anyhow::Result<Status> {
    let args = match action {
        TraceAction::Diff(args) => return diff(args),
        TraceAction::Collect(args) => return collect::collect(args),
        TraceAction::Merge(args) => return collect::merge_parts(args),
        TraceAction::Split(args) => return split::run(args),
        TraceAction::CollectPart { folder, part } => return collect::collect_part(folder, *part),
        TraceAction::RunAs { own, name, arguments } => return collect::run_as(own, name, arguments),
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
    let file = open(&args.trace, &args.program)?;
    let programs = load(&[&file], &args.program, &args.places)?;
    let reader = Reader::new(&file, &programs);
    let streams = streams(&file, args)?;
    let to_file = args.places.output.is_some();
    let json = |format: &ReportFormat| matches!(format, ReportFormat::Json);
    // These two show the kept part of a ring: for them, its missing beginning is no gap.
    let shows = matches!(
        action,
        TraceAction::Show { chosen: Chosen { function: None, .. }, .. } | TraceAction::At { .. }
    );
    let counted = if shows { &[][..] } else { &streams };
    let mut gaps = missing(&file, &args.trace, counted);
    let mut status = Status::Done;
    let write = |write: &mut dyn FnMut(&mut dyn std::io::Write) -> std::io::Result<()>| {
        let path = args.places.output.as_deref();
        let is_packed = path.and_then(Path::extension).is_some_and(|extension| extension == "gz");
        output(path, |out| {
            if !is_packed {
                return write(out);
            }
            let mut packed = GzEncoder::new(out, flate2::Compression::fast());
            write(&mut packed)?;
            packed.finish().map(|_| ())
        })
    };
    match action {
        TraceAction::Show { lines, times, chosen, depth, format, appearance, .. } => {
            if *lines {
                needs_blocks(&programs.tables)?;
            }
            let (function, selection) = chosen.select(&programs)?;
            let selection = Selection { depth: *depth, lines: *lines, times: *times, ..selection };
            let style = appearance.style(to_file)?;
            let mut met = Met::default();
            write(&mut |out| {
                met = trace::show(&reader, streams.clone(), &selection, &style, json(format), out)?;
                Ok(())
            })?;
            gaps += if shows { met.gaps - met.cut_off } else { met.gaps };
            // After the last event that was asked for, nothing was read.
            if let Some(function) = function.filter(|_| chosen.to.is_none()) {
                status = function.tell(&programs, args.thread, &met, gaps, true);
            }
        }
        TraceAction::Report { top, format, short, .. } => {
            let report = trace::report(&reader, streams)?;
            gaps += report.gaps;
            let left_out = programs.left_out();
            if !left_out.is_empty() {
                note(&format!(
                    "what these functions call is not counted, since they are left out of the trace: {}",
                    listed(left_out.iter().map(String::as_str))
                ));
            }
            let style = Style { short: *short, ..Style::default() };
            let top = top.unwrap_or(usize::MAX);
            write(&mut |out| match format {
                ReportFormat::Text => text::report(&programs.tables, &report, top, &style, out),
                ReportFormat::Json => text::report_json(&programs.tables, &report, top, out),
            })?;
        }
        TraceAction::Export { format, short, chosen, depth, least, .. } => {
            let has_no_spans =
                matches!(format, ExportFormat::Folded | ExportFormat::Json | ExportFormat::Svg);
            if *least > 0 && has_no_spans {
                bail!("--least is for formats of trace viewers: perfetto, chrome, speedscope, html");
            }
            let style = Style { short: *short, ..Style::default() };
            let (function, selection) = chosen.select(&programs)?;
            let is_folded = matches!(format, ExportFormat::Folded);
            let selection = Selection { depth: depth.filter(|_| !is_folded), ..selection };
            let depth = depth.unwrap_or(FOLDED_DEPTH);
            let exported = Exported { selection, least: *least };
            let (mut folded, mut met) = (Folded::default(), Met::default());
            write(&mut |out| {
                let streams = streams.clone();
                met = match format {
                    ExportFormat::Perfetto => export::perfetto(&reader, streams, &exported, out),
                    ExportFormat::Chrome => export::chrome(&reader, streams, &exported, out),
                    ExportFormat::Html => export::page(&reader, streams, &exported, out),
                    ExportFormat::Speedscope => export::speedscope(&reader, streams, &exported, out),
                    ExportFormat::Folded => {
                        folded = export::folded(&reader, streams, &exported.selection, depth, &style, out)?;
                        Ok(folded.met)
                    }
                    ExportFormat::Svg => export::timeline(&reader, streams, &exported.selection, out),
                    ExportFormat::Json => {
                        trace::show(&reader, streams, &exported.selection, &style, true, out)
                    }
                }?;
                Ok(())
            })?;
            gaps += met.gaps;
            if let Some(function) = function.filter(|_| chosen.to.is_none()) {
                status = function.tell(&programs, args.thread, &met, gaps, true);
            }
            let Folded { deeper, further, .. } = folded;
            if deeper > 0 {
                note(&format!(
                    "{deeper} events in more than {depth} calls inside of each other are counted as <deeper calls>; \
                     --depth N keeps more of them apart"
                ));
            }
            if further > 0 {
                note(&format!(
                    "{further} events are counted as <further calls>: there are too many contexts"
                ));
            }
        }
        TraceAction::Find { function, format, appearance, .. } => {
            let function = Asked::new(&programs, function)?;
            let style = appearance.style(to_file)?;
            let mut met = Met::default();
            write(&mut |out| {
                met = trace::find(&reader, streams.clone(), &function.named, &style, json(format), out)?;
                Ok(())
            })?;
            gaps += met.gaps;
            status = function.tell(&programs, args.thread, &met, gaps, false);
        }
        TraceAction::At { event, format, appearance, .. } => {
            let style = appearance.style(to_file)?;
            let first = *streams.first().context("the trace has no thread")?;
            // The thread's signal handlers, and the programs that it became by `exec`, have events of the same numbers.
            let of_thread: Vec<_> =
                streams.iter().copied().filter(|stream| stream.thread == first.thread).collect();
            let mut found = false;
            write(&mut |out| {
                for stream in &of_thread {
                    let (is_here, met) = trace::at(&reader, stream, *event, &style, json(format), out)?;
                    found |= is_here;
                    gaps += met;
                }
                Ok(())
            })?;
            if !found {
                bail!("thread {} has no event {event}", first.thread);
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
                if both.iter().any(|verified| verified.uncertain > 0) {
                    bail!(
                        "{}: nothing can be compared: where the program counted its events, what is read is not \
                         certain; parts of the trace are missing, or it is wrong",
                        args.trace.display()
                    );
                }
                bail!(
                    "{}: nothing can be compared; only programs in verify mode (--pcce-verify) write what it needs",
                    args.trace.display()
                );
            }
        }
        TraceAction::Diff(_)
        | TraceAction::Compress { .. }
        | TraceAction::Collect(_)
        | TraceAction::Split(_)
        | TraceAction::Merge(_)
        | TraceAction::CollectPart { .. }
        | TraceAction::RunAs { .. } => {}
    }
    let complete = complete(gaps, "the trace");
    Ok(if status == Status::Done { complete } else { status })
}

/// The status of a command that has met `gaps` gaps.
fn complete(gaps: u64, of: &str) -> Status {
    if gaps == 0 {
        return Status::Done;
    }
    note(&format!("something is missing in {of} at {gaps} places"));
    Status::Failed
}

/// Notes the missing parts of the file of a trace, and the missing beginnings of the streams in `counted`. Returns the
/// number of places at which the file lacks a part.
fn missing(file: &TraceFile, path: &Path, counted: &[&Stream]) -> u64 {
    let cut_off = file.without_beginning(counted);
    if cut_off > 0 {
        note(&format!(
            "{}: it is a ring (PCCE_TRACE_RING): of {cut_off} threads, or of their signal handlers, what came before was \
             not kept",
            path.display()
        ));
    }
    let missing = file.missing();
    for (_, what) in &missing {
        note(&format!("{}: {what}", path.display()));
    }
    if file.without_end() > 0 {
        note(&format!(
            "{}: {} threads, or their signal handlers, have no end there: they were killed, or go on, and their last \
             events, of 62 bits at most, may not be written",
            path.display(),
            file.without_end()
        ));
    }
    missing.iter().map(|(places, _)| places).sum()
}

fn diff(args: &DiffArgs) -> anyhow::Result<Status> {
    let DiffArgs { program, one, two, places, top, hunks, ignore, format, appearance } = args;
    let traces = [open(one, program)?, open(two, program)?];
    let programs = load(&[&traces[0], &traces[1]], program, places)?;
    let readers = [0, 1].map(|side| Reader::new(&traces[side], &programs));
    let style = appearance.style(places.output.is_some())?;
    let ignored = ignore.iter().map(|name| Ok(Asked::new(&programs, name)?.named));
    let compared = Compared { ignored: ignored.collect::<anyhow::Result<_>>()?, hunks: *hunks };
    let diff = trace::diff([&readers[0], &readers[1]], &compared).context("the traces cannot be read")?;
    output(places.output.as_deref(), |out| match format {
        ReportFormat::Text => text::diff(&readers[0], &diff, *top, &style, out),
        ReportFormat::Json => text::diff_json(&readers[0], &diff, out),
    })?;
    let all = |file: &TraceFile, path| missing(file, path, &file.streams.iter().collect::<Vec<_>>());
    let gaps = diff.gaps + all(&traces[0], one) + all(&traces[1], two);
    Ok(complete(gaps, "the traces"))
}

fn compress(path: &Path, output: Option<&Path>) -> anyhow::Result<Status> {
    let output = output.map_or_else(|| path.with_added_extension("zst"), Path::to_owned);
    let progress = ProgressBar::new_spinner();
    let stopped = until_ended().context("signals cannot be handled")?;
    let mut show_progress = |done: Compression| {
        let Compression { read, written, is_used } = done;
        let waits = if is_used { "; the program runs" } else { "" };
        progress.set_message(format!("{} compressed to {}{waits}", HumanBytes(read), HumanBytes(written)));
        progress.tick();
        !stopped.load(Ordering::Relaxed)
    };
    let done = trace::compress(path, &output, &mut show_progress);
    progress.finish_and_clear();
    let Compression { read, written, .. } = done?;
    note(&format!("{}: {} compressed to {}", output.display(), HumanBytes(read), HumanBytes(written)));
    Ok(Status::Done)
}

fn open(path: &Path, program: &Path) -> anyhow::Result<TraceFile> {
    if !path.exists() && trace::is_untraced(program) {
        bail!(
            "{}: there is no such file, and {} was built without --pcce-trace: both the compiler and the link need it",
            path.display(),
            program.display()
        );
    }
    TraceFile::open(path).with_context(|| path.display().to_string())
}

fn load(traces: &[&TraceFile], program: &Path, places: &Places) -> anyhow::Result<Programs> {
    if let Some(folder) = places.dicts.iter().find(|folder| !folder.is_dir()) {
        bail!("--dicts {}: there is no such folder", folder.display());
    }
    let programs = Programs::load(traces, program, &places.more, &places.dicts)?;
    programs.useless.iter().for_each(|useless| note(useless));
    for library in trace::untraced_libraries(program) {
        note(&format!(
            "{} is instrumented, and was built without --pcce-trace: its calls are not in the trace",
            library.display()
        ));
    }
    Ok(programs)
}

/// The streams that the arguments select.
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

/// Checks that the program records its blocks.
fn needs_blocks(tables: &Tables) -> anyhow::Result<()> {
    if !tables.has_blocks() {
        bail!("the program records its calls only: build it with --pcce-trace=blocks");
    }
    Ok(())
}

/// The functions that a user has asked for by name.
pub struct Asked {
    wanted: Wanted,
    pub named: Named,
}

impl Asked {
    /// # Errors
    /// The trace can have no event of such functions. The error says why.
    pub fn new(programs: &Programs, name: &str) -> anyhow::Result<Self> {
        let wanted = Wanted::new(name);
        let named = programs.tables.named(&wanted);
        if named.has_events() {
            return Ok(Self { wanted, named });
        }
        let standing = programs.standing(&wanted);
        if standing.is_instrumented {
            bail!(
                "{name} is left out of the trace (--pcce-trace-skip, --pcce-trace-only, or with the warning of the build), \
                 and no traced function calls it by its name: the trace has no event of it"
            );
        }
        if let Some(why) = standing.why(name) {
            bail!("{why}: the trace has no event of it");
        }
        let similar = wanted.similar(programs.tables.known_names());
        let inlined = match standing.has_debug_information {
            true => "the optimiser has left no code of",
            false => "were inlined, without debug information (-g)",
        };
        bail!(
            "{name}: no function of this name is traced or called{}. Functions that {inlined} have no name any more",
            hint(&similar)
        )
    }

    /// Notes which events of the functions are missing in the trace, or in one thread of it. `shown`: events
    /// inside of the functions are shown already.
    pub fn tell(
        &self,
        programs: &Programs,
        thread: Option<u32>,
        met: &Met,
        gaps: u64,
        shown: bool,
    ) -> Status {
        let of = thread.map_or("the trace".to_owned(), |thread| format!("thread {thread} in the trace"));
        let (name, named) = (self.wanted.text(), &self.named);
        let mut standing = programs.standing(&self.wanted);
        standing.inlined_into.extend(named.inlined_into.iter().cloned());
        let Met { calls, inside, pointers, .. } = *met;
        if !standing.inlined_into.is_empty() {
            let inside = match (inside, shown) {
                (0, _) => String::new(),
                (_, true) => ", and shown are the events in it".to_owned(),
                (events, false) => {
                    format!(", but for {events} in it, which `pcce trace show --function {name}` shows")
                }
            };
            note(&format!(
                "{name} was inlined into {}: of calls there {of} has no event{inside}",
                standing.callers()
            ));
            return Status::Failed;
        }
        let as_far = if gaps > 0 { ", as far as it tells" } else { "" };
        let left_out = if named.is_traced { Default::default() } else { programs.left_out() };
        if !left_out.is_empty() {
            note(&format!(
                "of calls of {name} in functions that are left out of the trace {of} has no event: {}",
                listed(left_out.iter().map(String::as_str))
            ));
        }
        let may_be_more = !named.is_traced && pointers > 0;
        if may_be_more {
            let by_name = if calls > 0 { "has the calls of" } else { "has no call of" };
            note(&format!(
                "{of} {by_name} {name} by its name{as_far}; it is not traced, and may be what {} through pointers \
                 {} called",
                if pointers == 1 { "a call".to_owned() } else { format!("{pointers} calls") },
                if pointers == 1 { "has" } else { "have" },
            ));
        }
        if may_be_more || !left_out.is_empty() {
            return Status::Failed;
        }
        if calls > 0 {
            return Status::Done;
        }
        let unknown = programs.tables.without_lines();
        if !unknown.is_empty() {
            note(&format!(
                "{of} has no call of {name}{as_far}; nor would it have one where {name} was inlined, which is not \
                 known of {}: without debug information (-g)",
                listed(unknown)
            ));
            return Status::Failed;
        }
        note(&format!("{of} has no call of {name}{as_far}"));
        Status::Done
    }
}

/// A flag that becomes true when a signal to end comes. Signals that are ignored (`nohup`) stay ignored.
pub fn until_ended() -> io::Result<Arc<AtomicBool>> {
    let has_come = Arc::new(AtomicBool::new(false));
    let ignored = ignored();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if ignored >> (signal - 1) & 1 == 0 {
            let _ = flag::register(signal, Arc::clone(&has_come))?;
        }
    }
    Ok(has_come)
}

/// The set of signals that the process ignores.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default()
}
