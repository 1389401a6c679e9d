//! Arguments of the commands that show profiles and call graphs.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use pcce::profile::Kind;

use super::appearance::Folded;

/// Gives each `--by` the values that it takes: the numbers of its kind of profile, and in pictures those that
/// can be added.
pub fn with_values_of_by(command: clap::Command) -> clap::Command {
    let names = |kinds: &[Kind], all: bool| {
        let metrics = kinds.iter().flat_map(|kind| kind.metrics());
        metrics.filter(|metric| all || metric.additive).map(|metric| metric.name).collect::<Vec<_>>()
    };
    let with = |command: clap::Command, names: Vec<&'static str>| {
        command.mut_arg("by", |by| by.value_parser(PossibleValuesParser::new(names)))
    };
    let command = command.mut_subcommand("graph", |c| with(c, names(&[Kind::Heap, Kind::Cpu], false)));
    [Kind::Heap, Kind::Cpu].into_iter().fold(command, |command, kind| {
        command.mut_subcommand(kind.name(), |mut views| {
            if kind == Kind::Cpu {
                views = views.mut_subcommand("follow", |view| with(view, names(&[kind], true)));
            }
            for (view, all) in [("report", true), ("diff", true), ("flamegraph", false), ("folded", false)] {
                views = views.mut_subcommand(view, |view| with(view, names(&[kind], all)));
            }
            views
        })
    })
}

/// Arguments of `pcce graph`.
#[derive(Args)]
pub struct GraphArgs {
    /// The program, or its dictionary
    pub program: PathBuf,
    /// Only what is around this function: its name in the source or in the object file
    #[arg(long, value_name = "NAME")]
    pub around: Option<String>,
    /// So many calls away from it, in both directions
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub depth: usize,
    /// Show how the calls are encoded, too
    #[arg(long)]
    pub encoding: bool,
    /// Colour the functions by a profile, heap or CPU
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// What of the profile: its numbers, as `pcce heap` and `pcce cpu` know them
    #[arg(long, value_name = "WHAT")]
    pub by: Option<String>,
    /// With a profile and without --around, leave out functions that have less than so many percent of it
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub min_percent: f64,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Dictionary of a shared library (or the library itself), for the profile; may be given several times
    #[arg(long = "dict", value_name = "FILE")]
    pub more: Vec<PathBuf>,
}

pub(super) const GRAPH_HELP: &str = "Each box is a function, and each arrow its calls of another one. Dotted and blue, they were found in the profile only:
calls through pointers, or through code that is not instrumented.

With --encoding, a box has numCC, the number of the function's calling contexts as far as they are encoded in the id. A
double line: it may be entered with an empty id, from outside or by a push. An arrow is labelled with what its calls add
to the id; dashed and red, they push.

Examples:
  pcce graph app --around parse --depth 1 | dot -Tsvg -o parse.svg
  pcce graph app --profile app.cpu | dot -Tsvg -o hot.svg";

pub(super) const HEAP_HELP: &str = "The program writes the profile when it ends, to the file that PCCE_HEAP_PROFILE names (pcce-heap.PROCESS without it).

What can be shown, with --by:
  peak         bytes that were allocated when the whole program had most allocated (the default)
  peak-blocks  blocks at that moment
  live         bytes that were not freed
  live-blocks  blocks that were not freed
  allocated    bytes allocated in all
  allocations  how often
  own-peak     the most bytes that the context had allocated at a time (in reports)
  leaked, leaked-blocks
               of what was not freed, that to which nothing pointed at the end; with PCCE_HEAP_LEAKS=1 only

Examples:
  pcce-clang --pcce-heap -g -O2 app.c -o app && PCCE_HEAP_PROFILE=app.heap ./app
  PCCE_HEAP_LEAKS=1 PCCE_HEAP_PROFILE=app.heap ./app && pcce heap report app app.heap --by leaked
  pcce heap diff app first.heap second.heap --by live
  pcce heap flamegraph app app.heap -o heap.svg";

pub(super) const CPU_HELP: &str = "The program writes the profile when it ends, to the file that PCCE_SAMPLE_PROFILE names (pcce-cpu.PROCESS without it).

What can be shown, with --by: time (the default), samples.

Examples:
  PCCE_SAMPLE=997 PCCE_SAMPLE_PROFILE=app.cpu ./app
  pcce cpu report app app.cpu
  PCCE_SAMPLE=997 PCCE_SAMPLE_SIGNAL=10 ./server & pcce cpu follow $!
  pcce cpu flamegraph app app.cpu -o cpu.svg";

pub(super) const PROFILE_HELP: &str = "The program writes a profile when it ends, to the file that PCCE_CALLS_PROFILE names (without it, to that of
--pcce-profile-generate, or pcce-calls.PROCESS).

Example:
  pcce-clang --pcce-profile-generate -O2 app.c -o app && ./app first && ./app second
  pcce profile merge -o app.calls pcce-calls.*
  pcce-clang --pcce-profile-use=app.calls -O2 app.c -o app";

/// What is done with profiles of calls.
#[derive(Subcommand)]
pub enum ProfileAction {
    /// Add them up, for --pcce-profile-use
    Merge {
        /// The profiles
        #[arg(required = true)]
        profiles: Vec<PathBuf>,
        /// File to write [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// What is done with a heap or CPU profile.
#[derive(Subcommand)]
pub enum ProfileCommand {
    #[command(flatten)]
    View(ProfileView),
    /// What another profile has more or less: totals, functions and contexts
    Diff(DiffArgs),
}

/// What is done with a CPU profile, or with a process that is sampled.
#[derive(Subcommand)]
pub enum CpuCommand {
    #[command(flatten)]
    Profile(ProfileCommand),
    /// What a running process uses its time for, every two seconds
    #[command(after_help = FOLLOW_HELP)]
    Follow(FollowArgs),
}

const FOLLOW_HELP: &str = "The process was started with PCCE_SAMPLE and PCCE_SAMPLE_SIGNAL. That signal is sent to it, and the profile that it
writes is read and removed. On a terminal each report takes the place of the one before.

Example:
  PCCE_SAMPLE=997 PCCE_SAMPLE_SIGNAL=10 ./server & pcce cpu follow $!";

/// Arguments of `pcce cpu follow`.
#[derive(Args)]
pub struct FollowArgs {
    /// The number of the process
    #[arg(value_name = "PROCESS")]
    pub process: i32,
    /// Seconds from one report to the next, from 0.1 on
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub every: Duration,
    /// What to sort by; contexts that have none of it are left out
    #[arg(long, value_name = "WHAT")]
    pub by: Option<String>,
    /// So many functions, and so many contexts
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Dictionary of a shared library (or the library itself); may be given several times. Those that the process has
    /// loaded are found
    #[arg(long = "dict", value_name = "FILE")]
    pub more: Vec<PathBuf>,
    /// How contexts look
    #[command(flatten)]
    pub appearance: Folded,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=1e6).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give a number of seconds from 0.1 to 1000000".to_owned())
}

/// Forms of profiles.
#[derive(Subcommand)]
pub enum ProfileView {
    /// Totals, and the largest contexts with all their calls
    Report {
        /// The files
        #[command(flatten)]
        args: ViewArgs,
        /// What to sort by; contexts that have none of it are left out
        #[arg(long, value_name = "WHAT")]
        by: Option<String>,
        /// So many contexts
        #[arg(long, value_name = "N", default_value_t = 10)]
        top: usize,
        /// Form of the output
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
        /// How contexts look
        #[command(flatten)]
        appearance: Folded,
    },
    /// A flame graph (SVG, for any browser)
    Flamegraph {
        /// The files
        #[command(flatten)]
        args: ViewArgs,
        /// What the widths are
        #[arg(long, value_name = "WHAT")]
        by: Option<String>,
        /// Names of functions without parameters, template arguments and generic arguments
        #[arg(long)]
        short: bool,
    },
    /// Folded stacks: outermost;…;innermost NUMBER
    Folded {
        /// The files
        #[command(flatten)]
        args: ViewArgs,
        /// What the numbers are
        #[arg(long, value_name = "WHAT")]
        by: Option<String>,
        /// Names of functions without parameters, template arguments and generic arguments
        #[arg(long)]
        short: bool,
    },
    /// A file for pprof and its viewers, with all numbers
    Pprof(ViewArgs),
    /// A file for speedscope.app, with all numbers
    Speedscope(ViewArgs),
}

/// Arguments of `pcce heap diff` and `pcce cpu diff`.
#[derive(Args)]
pub struct DiffArgs {
    /// The program, or its dictionary
    pub program: PathBuf,
    /// The first profile
    pub old: PathBuf,
    /// The profile that is compared with it
    pub new: PathBuf,
    /// The program of the second profile, if it is of another build. Contexts are then compared without lines
    #[arg(long, value_name = "PROGRAM")]
    pub new_program: Option<PathBuf>,
    /// What is compared
    #[arg(long, value_name = "WHAT")]
    pub by: Option<String>,
    /// So many functions, and so many contexts
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Dictionary of a shared library (or the library itself); may be given several times
    #[arg(long = "dict", value_name = "FILE")]
    pub more: Vec<PathBuf>,
    /// How contexts look
    #[command(flatten)]
    pub appearance: Folded,
}

/// What every other view of a profile needs.
#[derive(Args)]
pub struct ViewArgs {
    /// The program, or its dictionary
    pub program: PathBuf,
    /// The profile that the program wrote
    pub profile: PathBuf,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Dictionary of a shared library (or the library itself); may be given several times
    #[arg(long = "dict", value_name = "FILE")]
    pub more: Vec<PathBuf>,
}

/// Forms of reports.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    Text,
    /// JSON lines: the totals, then one object for each context
    Json,
}
