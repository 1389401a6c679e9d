//! Arguments of `pcce trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::appearance::Appearance;
use crate::cli::collect::{COLLECT_HELP, CollectArgs, MergeArgs};
use crate::cli::views::ReportFormat;

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
        /// So many calls inside of each other, in folded stacks: deeper ones are counted together. What is
        /// written can grow with the square of this
        #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
        depth: u32,
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
    /// A shared library of the program, or its debug file; may be given several times. Those that stand where
    /// they were in the run are found without it
    #[arg(long = "dict", value_name = "FILE")]
    pub more: Vec<PathBuf>,
    /// Folder with shared libraries or debug files, looked through by name and build id; may be given several
    /// times
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
