//! The command line, and code that all commands share.

pub mod adapt;
pub mod appearance;
pub mod calls;
pub mod collect;
pub mod core;
pub mod crash;
pub mod decode;
pub mod dict;
pub mod filter;
mod follow;
pub mod graph;
pub mod info;
mod libtool;
pub mod link;
pub mod pages;
pub mod profile;
pub mod project;
pub mod relink;
pub mod sources;
pub mod split;
pub mod trace;
pub mod verified;
pub mod views;

use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use pcce::printable::printable;
use pcce::render::Format;

use appearance::Folded;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use crash::{CRASH_HELP, CrashAction};
use trace::{TRACE_HELP, TraceAction};
use views::{
    CPU_HELP, CpuCommand, GRAPH_HELP, GraphArgs, HEAP_HELP, PROFILE_HELP, ProfileAction, ProfileCommand,
};

/// Reads the contexts of programs that were compiled with the PCCE pass.
#[derive(Parser)]
#[command(name = "pcce", version = version(), max_term_width = 100, after_help = EXIT_STATUS)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// Returns the release, and the LLVM that the pass beside this command is built for.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| format!("{} (pass for LLVM {})", env!("CARGO_PKG_VERSION"), pcce_options::llvm()))
}

const EXIT_STATUS: &str = "Exit status: 0 if everything was done, 2 otherwise.";

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Write the dictionary of a program: what `decode` needs to read its tokens
    #[command(after_help = DICT_HELP)]
    Dict(DictArgs),
    /// Run a command that links with pcce-ld as its linker
    #[command(after_help = LINK_HELP)]
    Link(LinkArgs),
    /// Make a program again, of what its link has kept (--pcce-keep), without its sources and objects
    #[command(after_help = RELINK_HELP)]
    Relink(RelinkArgs),
    /// Encode a program again, for what was learnt of its use
    #[command(after_help = ADAPT_HELP)]
    Adapt(AdaptArgs),
    /// Print the calls that context tokens stand for
    #[command(after_help = DECODE_HELP)]
    Decode(DecodeArgs),
    /// Copy a log through, with the calls that the context tokens in it stand for
    #[command(after_help = FILTER_HELP)]
    Filter(FilterArgs),
    /// Print the calls of all threads of a core file
    #[command(after_help = CORE_HELP)]
    Core(CoreArgs),
    /// Show crash reports, or count those of many processes
    #[command(after_help = CRASH_HELP)]
    Crash {
        /// The action
        #[command(subcommand)]
        action: CrashAction,
    },
    /// Tell what a dictionary holds, and which tools are found
    #[command(after_help = INFO_HELP)]
    Info(InfoArgs),
    /// Show the heap profile of a program that was built with --pcce-heap
    #[command(after_help = HEAP_HELP)]
    Heap {
        /// What is done with it
        #[command(subcommand)]
        command: ProfileCommand,
    },
    /// Show the CPU profile of a program that ran with PCCE_SAMPLE
    #[command(after_help = CPU_HELP)]
    Cpu {
        /// What is done with it
        #[command(subcommand)]
        command: CpuCommand,
    },
    /// Add up the profiles of calls of programs that were built with --pcce-profile-generate
    #[command(after_help = PROFILE_HELP)]
    Profile {
        /// What to do with them
        #[command(subcommand)]
        action: ProfileAction,
    },
    /// Show the trace of calls of a program that was built with --pcce-trace
    #[command(after_help = TRACE_HELP)]
    Trace {
        /// How
        #[command(subcommand)]
        action: TraceAction,
    },
    /// Draw the call graph of a program, for Graphviz
    #[command(after_help = GRAPH_HELP)]
    Graph(GraphArgs),
    /// Write manual pages and completions of shells (for `make install`)
    #[command(hide = true)]
    Pages(PagesArgs),
    /// Compare the contexts of a program in verify mode with its shadow stack (for tests)
    #[command(hide = true, after_long_help = VERIFIED_HELP)]
    Verified(VerifiedArgs),
}

/// Arguments of `pcce dict`.
#[derive(Args)]
pub struct DictArgs {
    /// The program or shared library, not stripped; or its separate debug file. Several with --store
    #[arg(value_name = "PROGRAM", required = true)]
    pub programs: Vec<PathBuf>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write it into this folder, by its build id, where `--dicts` of other commands finds it
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub store: Option<PathBuf>,
}

const DICT_HELP: &str =
    "The dictionary is one JSON document. Keep it with the build, as debug information is kept: \
                         a token can be read with the dictionary of its own build only.

Examples:
  pcce dict ./app -o app.pcce.json
  pcce dict --store /srv/dictionaries ./app libplugin.so";

/// Arguments of `pcce link`.
#[derive(Args)]
pub struct LinkArgs {
    /// The command (clang, gcc, make)
    #[arg(last = true, value_name = "COMMAND", required = true)]
    pub command: Vec<OsString>,
}

const LINK_HELP: &str = "pcce-clang links so by itself. Objects of link mode have no code until then.

Examples:
  pcce link -- gcc main.o libhelpers.a -o app
  pcce link -- make";

/// Arguments of `pcce adapt`.
#[derive(Args)]
pub struct AdaptArgs {
    /// The program, and shared libraries, which were linked with --pcce-keep
    #[arg(value_name = "PROGRAM", required = true)]
    pub images: Vec<PathBuf>,
    /// What was learnt: a file of PCCE_LEARN, a CPU profile, a profile of calls, or any text with tokens; may be given
    /// several times
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    pub learnt: Vec<PathBuf>,
    /// Folder of --pcce-keep, looked through by build id; may be given several times
    #[arg(long, value_name = "DIR")]
    pub kept: Vec<PathBuf>,
    /// Folder for the dictionaries of all versions, for --dicts of other commands [default: pcce-dicts beside PROGRAM]
    #[arg(long, value_name = "DIR")]
    pub dicts: Option<PathBuf>,
}

const ADAPT_HELP: &str =
    "The new program takes the place of the old one, which goes on where it runs. The first one stays as \
     PROGRAM.pcce-before. Nothing is changed on errors.

Examples:
  PCCE_LEARN=app.learnt ./app
  pcce adapt app --learnt app.learnt";

/// Arguments of `pcce relink`.
#[derive(Args)]
pub struct RelinkArgs {
    /// The file that a link has kept (PROGRAM.pcce-kept); or the program, stripped or not, if that file is beside
    /// it, or in --kept
    #[arg(value_name = "KEPT|PROGRAM")]
    pub file: PathBuf,
    /// File to write [default: the program's name, in this folder]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Folder of --pcce-keep, looked through by build id; may be given several times
    #[arg(long, value_name = "DIR")]
    pub kept: Vec<PathBuf>,
    /// Encode for the counts of this profile (of `pcce profile merge`), as --pcce-profile-use does
    #[arg(long, value_name = "FILE")]
    pub profile_use: Option<PathBuf>,
    /// Contexts of these functions only are wanted, as with --pcce-targets; @FILE: a list of names
    #[arg(long, value_name = "NAME,…")]
    pub targets: Vec<OsString>,
}

const RELINK_HELP: &str =
    "Without --profile-use and --targets the program is the same, bit by bit; with them it is another one, with another \
                           build id.

Linker, compilers, shared libraries and archives without modules must be those of the link: only their names and \
                           hashes are kept. A file runs the linker and the compilers that it names: use only those of builds \
                           that you trust.

Examples:
  pcce relink app.pcce-kept -o app.again && cmp app app.again
  pcce relink /usr/bin/app --kept /srv/kept --profile-use app.calls -o app.fast";

/// Arguments of `pcce decode`.
#[derive(Args)]
pub struct DecodeArgs {
    /// Dictionary of the build (from `pcce dict`), or the program itself; left out, it is found by build id
    #[arg(value_name = "DICT")]
    pub dictionary: Option<PathBuf>,
    /// Context tokens (pcce1.…), or numbers of pcce_context(); none: read standard input, one a line, or a
    /// crash report
    #[arg(value_name = "TOKEN")]
    pub tokens: Vec<String>,
    /// Folder with dictionaries, programs or debug files, looked through by build id; may be given several
    /// times
    #[arg(long, value_name = "DIR")]
    pub dicts: Vec<PathBuf>,
    /// Join each token with its thread's token (pcce_thread_token): the next argument, or the next word of
    /// the line
    #[arg(long)]
    pub across_threads: bool,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = DecodeFormat::Text)]
    pub format: DecodeFormat,
    /// The file that PCCE_NUMBERS named for the program: what its numbers from 2^63 on stand for
    #[arg(long, value_name = "FILE")]
    pub numbers: Option<PathBuf>,
    /// Dictionary of a shared library (or the library itself); may be given several times
    #[arg(long = "dict", value_name = "FILE")]
    pub more: Vec<PathBuf>,
    /// How contexts look
    #[command(flatten)]
    pub appearance: Folded,
}

const DECODE_HELP: &str = "text    one frame a line, innermost first, an empty line between traces
json    one object a line for each token: {\"token\": …, \"frames\": [{\"kind\": \"call\", \"function\": …, …}, …]},
        or {\"token\": …, \"error\": …}
folded  one line for each token: outermost;…;innermost 1 (for flamegraph.pl and others)

Lines in <angle brackets> (in json: frames of another kind than \"call\") are boundaries: code that is
not instrumented, or frames that are not known.

With --across-threads, tokens come in pairs: TOKEN THREADTOKEN, the second one empty or left out where the
thread was not created by instrumented code (the main thread). The trace goes on behind <thread created here> with
the context in which the thread was created. TOKEN+THREADTOKEN, as one word, is decoded so with and without the option.

Without DICT the dictionaries are found by build id: in the folders of --dicts, in /usr/lib/debug, and from the servers
that DEBUGINFOD_URLS names. So one command decodes the tokens of many builds.
Shared libraries that DICT is linked with, if that is the program, are found where its loader finds them.

A crash report (its first line starts with `pcce-crash-report:`) is copied as text, each context in it replaced by its
trace; in the other formats, only the contexts are written.

Exit status: 0 if everything was decoded, 2 otherwise.

Examples:
  pcce decode ./app < crash.txt
  pcce decode app.pcce.json pcce1.AQAIq80S…
  pcce decode --dicts /srv/dictionaries pcce1.AQAIq80S…
  PCCE_NUMBERS=app.numbers ./app && pcce decode --numbers app.numbers ./app 13835058055282163713
  grep -o 'pcce[0-9]\\.[A-Za-z0-9_-]*' app.log | pcce decode ./app --dict libplugin.so
  pcce decode --across-threads ./app pcce1.AQAIq80S… pcce1.AQAIq81a…+pcce1.AQAIq82b…";

/// Arguments of `pcce filter`.
#[derive(Args)]
pub struct FilterArgs {
    /// Dictionary of the build (from `pcce dict`), or the program itself; left out, it is found by build id
    #[arg(value_name = "PROGRAM|DICT")]
    pub dictionary: Option<PathBuf>,
    /// Folder with dictionaries, programs or debug files, looked through by build id; may be given several
    /// times
    #[arg(long, value_name = "DIR")]
    pub dicts: Vec<PathBuf>,
    /// Logs, read one after the other, also compressed by gzip or zstd; none: standard input
    #[arg(value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print each context once, with how often it stands in the log, instead of the log; the most frequent
    /// one first
    #[arg(long)]
    pub collapse: bool,
    /// With --collapse, so many contexts only
    #[arg(long, value_name = "N", requires = "collapse")]
    pub top: Option<usize>,
    /// The logs are JSON lines: decode the token in this member of each object (A.B: member B of object A), and add a
    /// member NAME_frames with its calls
    #[arg(long, value_name = "NAME")]
    pub field: Option<String>,
    /// So many threads decode [default: one for each processor, 16 at most]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZero<usize>>,
    /// Form of the contexts
    #[arg(long, value_enum, default_value_t = FilterFormat::Text)]
    pub format: FilterFormat,
    /// The file that PCCE_NUMBERS named for the program. Numbers in the log are decoded, too: `pcce:NUMBER`,
    /// and any other word that is a number from 2^63 on
    #[arg(long, value_name = "FILE")]
    pub numbers: Option<PathBuf>,
    /// Dictionary of a shared library (or the library itself); may be given several times
    #[arg(long = "dict", value_name = "FILE")]
    pub more: Vec<PathBuf>,
    /// How contexts look
    #[command(flatten)]
    pub appearance: Folded,
}

const FILTER_HELP: &str = "Any bytes may stand around the tokens.

text    the line stays as it is, and the calls follow below it, indented, one frame a line, innermost first;
        with --collapse a line `N times`, the calls below it, and an empty line between contexts
folded  outermost;…;innermost in place of the token; with --collapse behind it the count (for flamegraph.pl and others)
json    with --collapse: one object a line for each context, {\"count\": N, \"frames\": […]}

With --field the lines stay JSON: NAME_frames is a list of the lines of text, with json a list of frames as of `pcce
decode`, and with folded one text. NAME may hold a token, a text with one in it (the first one counts), or a number.

Without PROGRAM (no file, or a log as the first one) the dictionaries are found by build id: in the folders of --dicts,
in /usr/lib/debug, and from the servers that DEBUGINFOD_URLS names. A log may have tokens of many builds.
Shared libraries that PROGRAM is linked with are found where its loader finds them.

TOKEN+THREADTOKEN, as one word, gives the context across threads. Tokens that cannot be decoded stay as they are.

Exit status: 0 if all tokens were decoded, 2 otherwise.

Examples:
  pcce filter ./app app.log | less
  pcce filter ./app app.log.1 app.log -o decoded.log
  pcce filter --dicts /srv/dictionaries fleet.log
  tail -f app.log | pcce filter app.pcce.json --format folded
  pcce filter ./app app.log --collapse --top 5
  pcce filter ./app app.jsonl --field context --format json
  PCCE_NUMBERS=app.numbers ./app | pcce filter --numbers app.numbers ./app";

/// Arguments of `pcce core`.
#[derive(Args)]
pub struct CoreArgs {
    /// The program that crashed
    pub program: PathBuf,
    /// Its core file
    pub core: PathBuf,
    /// Numbers of pcce_context() that the process has given: print their calls, not those of the threads
    #[arg(value_name = "NUMBER")]
    pub numbers: Vec<String>,
    /// Debug file of a stripped program, or its dictionary [default: found by build id and .gnu_debuglink]
    #[arg(long, value_name = "FILE")]
    pub debug_file: Option<PathBuf>,
    /// Dictionary of a stripped shared library (or its debug file); may be given several times
    #[arg(long = "dict", value_name = "FILE")]
    pub more: Vec<PathBuf>,
    /// Write the process's trace of calls there, with what its threads had not written yet (--pcce-trace)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = CoreFormat::Text)]
    pub format: CoreFormat,
    /// How contexts look
    #[command(flatten)]
    pub appearance: Folded,
}

const CORE_HELP: &str = "text    as a decoded crash report
json    one document: {\"program\": …, \"build_id\": …, \"process\": …, \"signal\": {…}, \"threads\":
        [{\"thread\": …, \"token\": …, \"frames\": […]}, …]}, the thread that crashed first

Program and shared libraries must be the files that the process ran, stripped or not.

Exit status: 0 if everything was decoded, 2 otherwise.

Examples:
  pcce core ./app core.1234
  pcce core ./app core.1234 13835058055282163713
  pcce core ./app core.1234 --trace whole.trace && pcce trace show ./app whole.trace --last 20
  pcce core --debug-file app.debug --format json /usr/bin/app core.1234";

/// Forms of what `core` prints.
#[derive(Clone, Copy, ValueEnum)]
pub enum CoreFormat {
    /// For people
    Text,
    /// One JSON document
    Json,
}

/// Arguments of `pcce info`.
#[derive(Args)]
pub struct InfoArgs {
    /// Program or dictionary to describe
    #[arg(value_name = "PROGRAM|DICT")]
    pub file: Option<PathBuf>,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = InfoFormat::Text)]
    pub format: InfoFormat,
}

const INFO_HELP: &str =
    "Exit status: 0, or 2 if the file cannot be used; without a file, 2 if a tool is missing.";

/// Arguments of `pcce verified`.
#[derive(Args)]
pub struct VerifiedArgs {
    /// The program
    pub program: PathBuf,
    /// The file that PCCE_VERIFY_CONTEXTS named
    #[arg(required_unless_present = "captures", requires = "numbers")]
    pub contexts: Option<PathBuf>,
    /// The file that PCCE_NUMBERS named
    #[arg(long, value_name = "FILE")]
    pub numbers: Option<PathBuf>,
    /// The file that PCCE_VERIFY_CAPTURES named: compare its tokens and numbers
    #[arg(long, value_name = "FILE", conflicts_with_all = ["contexts", "step"])]
    pub captures: Option<PathBuf>,
    /// Decode every Nth context
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub step: u64,
    /// Dictionary of a shared library (or the library itself); may be given several times
    #[arg(long = "dict", value_name = "FILE")]
    pub more: Vec<PathBuf>,
}

const VERIFIED_HELP: &str = "Exit status: 0 if all is equal, as far as it is known; 1 if a token shows other calls than the shadow stack
has; 2 if the files cannot be used, there is nothing to compare, or lines are damaged. (With CONTEXTS: 2 in each case.)

Examples:
  PCCE_VERIFY_CAPTURES=app.captures ./app && pcce verified ./app --captures app.captures
  PCCE_NUMBERS=app.numbers PCCE_VERIFY_CONTEXTS=app.contexts ./app
  pcce verified ./app app.contexts --numbers app.numbers";

/// Arguments of `pcce pages`.
#[derive(Args)]
pub struct PagesArgs {
    /// Folder to write into, as the `share` of an installation
    pub folder: PathBuf,
}

/// Forms of decoded tokens.
#[derive(Clone, Copy, ValueEnum)]
pub enum DecodeFormat {
    /// In gdb's style
    Text,
    /// JSON lines
    Json,
    /// Folded stacks
    Folded,
}

/// Forms of the contexts in a log.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FilterFormat {
    /// In gdb's style
    Text,
    /// One line, outermost call first
    Folded,
    /// JSON lines
    Json,
}

impl From<DecodeFormat> for Format {
    fn from(format: DecodeFormat) -> Self {
        match format {
            DecodeFormat::Text => Self::Text,
            DecodeFormat::Json => Self::Json,
            DecodeFormat::Folded => Self::Folded,
        }
    }
}

/// Forms of what `info` prints.
#[derive(Clone, Copy, ValueEnum)]
pub enum InfoFormat {
    /// For people
    Text,
    /// One JSON document
    Json,
}

/// The result of a command that has written its own messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Everything was done.
    Done,
    /// A part of the work was not done.
    Failed,
    /// Two things that were compared differ.
    Mismatch,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Done => Self::SUCCESS,
            Status::Failed => Self::from(2),
            Status::Mismatch => Self::from(1),
        }
    }
}

/// The command of this process. Ends the process for `--help`, `--version` and wrong arguments.
pub fn parse() -> Command {
    let matches = description().get_matches_from(libtool::with_programs(std::env::args_os()));
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).command
}

/// The command line's description.
pub fn description() -> clap::Command {
    views::with_values_of_by(Arguments::command())
}

/// Writes an error message of one line. A closed standard error is no reason to panic, as `eprintln` does. The
/// message may contain names from a file that is not trusted, so characters that control a terminal are escaped.
pub fn message(text: &str) {
    let _ = writeln!(io::stderr(), "error: {}", printable(text));
}

/// Writes a note of one line.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "note: {}", printable(text));
}

/// Returns whether the error is a write to a pipe that nobody reads.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
