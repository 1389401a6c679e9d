//! The one table of options. The flags of the wrapper compilers, the options of the pass, `--pcce-help`, the manual
//! page, the completions of shells and the keywords of `pcce_instrument` are all made from it.
//!
//! A flag of the wrapper is `--pcce-NAME` or `--pcce-NAME=VALUE`. The pass takes the same as `NAME` or `NAME=VALUE`, in
//! a list separated by `;`: the linker parses its own options before it loads plugins, so no option of the command line
//! reaches the pass there. Only [`Common`] options go from the wrapper to the pass.
//!
//! The kind of a value is declared with its option: the path of a file that is read ([`ValueHint::FilePath`])
//! is made absolute on its way, since the linker may run elsewhere. The path of a file that the program will
//! write ([`ValueHint::AnyPath`]) stays as it is.

mod documents;
mod ignored;
mod installed;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::builder::ValueHint;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};

pub use documents::{ENVIRONMENT, cmake_keywords, wrapper_description, wrapper_help};
pub use installed::llvm;

/// The environment variable that holds the list of the pass's options.
pub const VARIABLE: &str = "PCCE_OPTIONS";

/// The environment variable with the command that compiles a module, for the link that generates its code.
pub const COMMAND_VARIABLE: &str = "PCCE_COMMAND";

/// The environment variable of commands that compile a source more than once, and link all results: nothing
/// else tells their modules apart.
pub const REPEATED_VARIABLE: &str = "PCCE_REPEATED";

/// The environment variable in which `pcce-ld` reads the names of a link's options, separated by `;`.
/// Everything that is linked must have been compiled with them.
pub const ASKED_VARIABLE: &str = "PCCE_ASKED_FOR";

/// The option of the pass that `--pcce-heap` gives.
pub const OF_HEAP: &str = "publish";

/// The ending of the name that `pcce adapt` gives to the first version of an image, beside the present one.
pub const PUT_ASIDE: &str = ".pcce-before";

/// The prefix of all flags of the wrapper.
pub const PREFIX: &str = "--pcce-";

/// The same prefix, before an option's name in the table.
const LONG_PREFIX: &str = "pcce-";

/// A reason why options were not understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Flags of the wrapper.
    #[error("{0}; `--pcce-help` lists the wrapper's own flags")]
    Flag(String),
    #[error("{message} (in -passes='pcce<…>' or {VARIABLE}); there are: {names}")]
    PassOption {
        /// What is wrong.
        message: String,
        /// The options that there are.
        names: String,
    },
    /// An option that would do nothing.
    #[error("`{option}` would do nothing: {why}")]
    Ignored {
        option: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A path that the list cannot hold.
    #[error("`{0}` contains a `;`, which separates the options in {VARIABLE}; rename or move that file")]
    Semicolon(PathBuf),
}

/// How a program is instrumented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The whole program at once, when it is linked.
    Lto,
    /// Each module by itself, when it is compiled.
    Module,
    /// The modules of an image together, between two links: code is generated behind the first one.
    Link,
}

/// The options that the wrapper takes, and hands to the pass.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Common {
    /// check every encoded context against a shadow stack at run time
    #[arg(long = "pcce-verify")]
    pub verify: bool,
    /// where `--pcce-verify` reports if PCCE_VERIFY_REPORT names no file (without
    /// either: only what is wrong, to standard error)
    #[arg(long = "pcce-verify-report", value_name = "PATH", verbatim_doc_comment)]
    #[arg(require_equals = true, value_hint = ValueHint::AnyPath)]
    pub verify_report: Option<PathBuf>,
    /// only contexts of these functions are wanted, and of the program's own
    /// captures: other calls cost nothing. @FILE: a list of names
    #[arg(long = "pcce-targets", alias = "pcce-target", value_name = "NAME", verbatim_doc_comment)]
    #[arg(require_equals = true, action = ArgAction::Append)]
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub targets: Vec<String>,
    /// the program counts its calls, and writes them to PATH when it ends; `%p`
    /// in it is the process (without PATH: pcce-calls.%p). `pcce profile merge`
    /// adds such files up
    #[arg(long = "pcce-profile-generate", value_name = "PATH", verbatim_doc_comment)]
    #[arg(require_equals = true, num_args = 0..=1, default_missing_value = "pcce-calls.%p")]
    #[arg(value_hint = ValueHint::AnyPath)]
    pub profile_generate: Option<PathBuf>,
    /// encode for these counts: the calls that are executed most cost least
    #[arg(long = "pcce-profile-use", value_name = "FILE", require_equals = true)]
    #[arg(value_hint = ValueHint::FilePath)]
    pub profile_use: Option<PathBuf>,
    /// ids of at most N bits, 8 to 63 (default): calls push where a function has
    /// more contexts
    #[arg(long = "pcce-id-bits", value_name = "N", verbatim_doc_comment, require_equals = true)]
    #[arg(default_value_t = 63, value_parser = clap::value_parser!(u32).range(8..=63))]
    pub id_bits: u32,
    /// tell contexts apart by the stack pointer where it can (pcce.txt §6): fewer
    /// changes of the id. Code of executables is generated several times (link and
    /// lto mode only)
    #[arg(long = "pcce-hybrid", verbatim_doc_comment)]
    pub hybrid: bool,
    /// numbers of `pcce_context()` tell the lines of one function apart, too
    #[arg(long = "pcce-number-lines")]
    pub number_lines: bool,
    /// FILE lists external functions, one a line, that never call back into the
    /// program; may be given more than once
    #[arg(long = "pcce-no-callback", value_name = "FILE", verbatim_doc_comment, action = ArgAction::Append)]
    #[arg(require_equals = true, value_hint = ValueHint::FilePath)]
    pub no_callback: Vec<PathBuf>,
    /// the program writes a report with its contexts to PATH, or to standard
    /// error, when it crashes
    #[arg(long = "pcce-crash-report", value_name = "PATH", verbatim_doc_comment)]
    #[arg(require_equals = true, num_args = 0..=1, default_missing_value = "stderr")]
    #[arg(value_hint = ValueHint::AnyPath)]
    pub crash_report: Option<PathBuf>,
    /// record the calls of the program, for `pcce trace`; PCCE_TRACE names the file.
    /// blocks: and which way it goes between them, line by line
    #[arg(long = "pcce-trace", value_name = "WHAT", verbatim_doc_comment, require_equals = true)]
    #[arg(num_args = 0..=1, default_missing_value = "calls", value_enum, hide_possible_values = true)]
    pub trace: Option<Granularity>,
    /// leave these functions out of the trace: their calls are like those of a
    /// library's. NAME: a function's or a source file's, with `*` for any
    /// characters. @FILE: a list of names
    #[arg(long = "pcce-trace-skip", value_name = "NAME", verbatim_doc_comment)]
    #[arg(require_equals = true, action = ArgAction::Append)]
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub trace_skip: Vec<String>,
    /// trace these functions only; names as for --pcce-trace-skip
    #[arg(long = "pcce-trace-only", value_name = "NAME", verbatim_doc_comment)]
    #[arg(require_equals = true, action = ArgAction::Append)]
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub trace_only: Vec<String>,
}

impl Mode {
    /// Its name, as the flag has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lto => "lto",
            Self::Module => "module",
            Self::Link => "link",
        }
    }
}

/// The content of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Granularity {
    /// Calls and returns.
    Calls,
    /// Blocks between them, too.
    Blocks,
}

/// The baselines that traces of calls are compared with (casper.txt §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceBaseline {
    /// Every call and return.
    Fi,
    /// Calls and returns that have alternatives.
    Bri,
    /// The calls and returns that Casper's Algorithm 1 chooses.
    Casper,
}

/// The flags of the wrapper compilers.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct WrapperFlags {
    /// link: link twice, and generate the code between; any linker (default;
    /// with `-flto=thin` lld compiles twice).
    /// lto: encode it in its link, with full LTO and lld (default with `-flto`,
    /// bitcode, --pcce-targets or --pcce-trace).
    /// module: encode each module when it is compiled; any linker
    #[arg(long = "pcce-mode", value_name = "MODE", verbatim_doc_comment, require_equals = true)]
    #[arg(value_enum, hide_possible_values = true)]
    pub mode: Option<Mode>,
    /// The options that the pass takes, too.
    #[command(flatten)]
    pub common: Common,
    /// the LLVM to compile and link with, of those that PCCE is installed for.
    /// Without it: the one installed last, or the one that the files of a link need
    #[arg(long = "pcce-llvm", value_name = "N", verbatim_doc_comment, require_equals = true)]
    pub llvm: Option<u32>,
    /// link a heap profiler: the program records every allocation by its context
    #[arg(long = "pcce-heap")]
    pub heap: bool,
    /// link what tells handlers where their exception was thrown (pcce_thrown_token)
    #[arg(long = "pcce-thrown")]
    pub thrown: bool,
    /// keep what each link was made of beside its output, or in DIR by its build id:
    /// `pcce relink` makes the program again of it. It has the program's bitcode
    /// (link mode only; not with -flto=thin)
    #[arg(long = "pcce-keep", value_name = "DIR", verbatim_doc_comment, require_equals = true)]
    #[arg(num_args = 0..=1, default_missing_value = "1", value_hint = ValueHint::DirPath)]
    pub keep: Option<PathBuf>,
    /// run this command, up to `clang…` in it, instead of the wrapper's own clang:
    /// the wrapper as a launcher of build systems (`ccache clang++-19 -c …`)
    #[arg(long = "pcce-launch", value_name = "COMMAND", verbatim_doc_comment)]
    launch: Option<OsString>,
    /// print this text
    #[arg(long = "pcce-help")]
    pub help: bool,
    /// The common options that were given, to be handed on.
    #[arg(skip)]
    given: Vec<Given>,
}

/// The options of the pass.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct PassOptions {
    /// The options that the wrapper takes, too.
    #[command(flatten)]
    pub common: Common,
    /// Tell the runtime the sites of calls that may allocate, for heap profiles.
    #[arg(long = "pcce-publish")]
    pub publish: bool,
    /// Keep the bitcode and the facts of the module for the link, which generates the code.
    #[arg(long = "pcce-capture")]
    pub capture: bool,
    /// Generate the code of kept bitcode by the files of this folder: for `NAME.bc` by `NAME.json`.
    #[arg(long = "pcce-slice", value_name = "FOLDER", require_equals = true)]
    #[arg(value_hint = ValueHint::DirPath)]
    pub slice: Option<PathBuf>,
    /// As if at link time, for `opt`.
    #[arg(long = "pcce-whole-program")]
    pub whole_program: bool,
    /// The link makes an executable: its graph has an open node, and its context numbers need no process to tell them
    /// from those of other modules. Without this and the next two the module's flags say for which one it was compiled.
    #[arg(long = "pcce-executable")]
    executable: bool,
    /// The link makes a shared library.
    #[arg(long = "pcce-shared", overrides_with = "executable")]
    shared: bool,
    /// The link makes an object file.
    #[arg(long = "pcce-relocatable", overrides_with = "executable")]
    relocatable: bool,
    /// The paper's Algorithms 1 and 3 alone (pcce.txt §4, §5), to compare with: no silent functions, offsets of ids,
    /// known starts of sub-paths, compared targets, or push thunks. Calls through pointers are still edges to the open
    /// node.
    #[arg(long = "pcce-basic")]
    pub basic: bool,
    /// With `trace`: numbers of call sites instead of codes, as other tracers write them, to compare with. Nothing
    /// reads them.
    #[arg(long = "pcce-trace-baseline", require_equals = true)]
    pub trace_baseline: Option<TraceBaseline>,
    /// The link makes an executable that is not position-independent, whatever its modules were compiled for. For
    /// `hybrid`.
    #[arg(long = "pcce-no-pie")]
    pub no_pie: bool,
    /// Verify the module after instrumentation, in release builds of the plugin too.
    #[arg(long = "pcce-check")]
    pub check: bool,
    /// No function is silent, to compare with.
    #[arg(long = "pcce-no-silent")]
    no_silent: bool,
    /// The files that the options name, on which the result depends.
    #[arg(skip)]
    pub files: Vec<PathBuf>,
    /// The options that were given, as a list's entries.
    #[arg(skip)]
    given: Vec<String>,
}

/// An option that was given, with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Given {
    name: String,
    value: Option<OsString>,
    /// The value names a file that is read.
    is_file: bool,
}

impl WrapperFlags {
    /// Reads flags. `words`: the words of a command line that begin with [`PREFIX`].
    ///
    /// # Errors
    /// [`Error::Flag`] for a flag that is not in the table.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, Error> {
        let invalid = |error: clap::Error| Error::Flag(first_lines(&error));
        let matches = wrapper_command().try_get_matches_from(words).map_err(invalid)?;
        let mut flags = Self::from_arg_matches(&matches).map_err(invalid)?;
        if flags.launch.is_some() {
            return Err(Error::Flag("`--pcce-launch` takes its command as the words behind it".into()));
        }
        flags.given = given(&Common::augment_args(Command::new("")), &matches);
        Ok(flags)
    }

    /// The names of the options that go to the pass.
    pub fn names(&self) -> Vec<String> {
        self.given.iter().map(|option| option.name.clone()).collect()
    }

    /// The options that go to the pass, as entries of its list. `folder`: the working directory, absolute.
    ///
    /// # Errors
    /// [`Error::Semicolon`].
    pub fn for_pass(&self, folder: &Path) -> Result<Vec<OsString>, Error> {
        self.given.iter().map(|option| option.entry(folder)).collect()
    }
}

impl Default for WrapperFlags {
    fn default() -> Self {
        Self::read([]).expect("all flags have defaults")
    }
}

impl Given {
    /// The file that is read.
    fn file(&self) -> Option<&OsStr> {
        let value = self.value.as_deref()?;
        if self.is_file { Some(value) } else { list_file(value) }
    }

    fn entry(&self, folder: &Path) -> Result<OsString, Error> {
        let mut entry = OsString::from(&self.name);
        let Some(value) = &self.value else { return Ok(entry) };
        let value = match self.file() {
            Some(file) => {
                let mut absolute = OsString::from(if self.is_file { "" } else { "@" });
                absolute.push(folder.join(file));
                absolute
            }
            None => value.clone(),
        };
        if value.as_encoded_bytes().contains(&b';') {
            return Err(Error::Semicolon(value.into()));
        }
        entry.push("=");
        entry.push(value);
        Ok(entry)
    }
}

/// The file of a value `@FILE`.
fn list_file(value: &OsStr) -> Option<&OsStr> {
    value.to_str()?.strip_prefix('@').map(OsStr::new)
}

impl PassOptions {
    /// Reads lists of options separated by `;`. Blanks around options are ignored, and of two that contradict each
    /// other the later one counts.
    ///
    /// # Errors
    /// [`Error::PassOption`] for an option that is not in the table.
    pub fn read<'a>(lists: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        let command = Self::augment_args(base_command());
        let names = command.get_arguments().map(|option| name_in_list(option).to_owned()).collect::<Vec<_>>();
        let invalid = |error: clap::Error| Error::PassOption {
            message: first_lines(&error).replace(PREFIX, ""),
            names: names.join(", "),
        };
        let entries = lists.into_iter().flat_map(|list| list.split(';')).map(str::trim);
        let words = entries.filter(|entry| !entry.is_empty()).map(|entry| format!("{PREFIX}{entry}"));
        let matches = command.clone().try_get_matches_from(words).map_err(invalid)?;
        let mut options = Self::from_arg_matches(&matches).map_err(invalid)?;
        let entry = |option: Given| match option.value {
            Some(value) => format!("{}={}", option.name, value.to_string_lossy()),
            None => option.name,
        };
        let given = given(&command, &matches);
        options.files = given.iter().filter_map(Given::file).map(PathBuf::from).collect();
        options.given = given.into_iter().map(entry).collect();
        Ok(options)
    }

    /// The options that were given, as the dictionary describes them.
    pub fn describe(&self) -> Vec<String> {
        self.given.clone()
    }

    /// Returns whether the link makes an executable, if that is known.
    pub fn makes_executable(&self) -> Option<bool> {
        if self.shared || self.relocatable { Some(false) } else { self.executable.then_some(true) }
    }

    /// Returns whether functions that reach nothing unknown are silent.
    pub fn silent(&self) -> bool {
        !self.basic && !self.no_silent
    }
}

impl Default for PassOptions {
    fn default() -> Self {
        Self::read([]).expect("all options have defaults")
    }
}

/// A command without names and flags of clap's own.
fn base_command() -> Command {
    Command::new("pcce-clang")
        .no_binary_name(true)
        .args_override_self(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
}

/// The flags of the wrapper, as clap reads them.
fn wrapper_command() -> Command {
    // In the pass's own list a name may contain commas.
    let split = |option: &Arg| {
        let option = option.clone();
        let is_list = ["targets", "trace_skip", "trace_only"].iter().any(|id| option.get_id() == *id);
        if is_list { option.value_delimiter(',') } else { option }
    };
    base_command().args(WrapperFlags::augment_args(Command::new("")).get_arguments().map(split))
}

/// The name of an option, without the wrapper's prefix.
fn name(option: &Arg) -> &str {
    without_prefix(option.get_long().unwrap_or_default())
}

/// The name of an option in the pass's list, where each entry has one value: an alias in the singular, if
/// there is one.
fn name_in_list(option: &Arg) -> &str {
    match option.get_all_aliases().as_deref() {
        Some([alias, ..]) => without_prefix(alias),
        _ => name(option),
    }
}

fn without_prefix(long: &str) -> &str {
    long.strip_prefix(LONG_PREFIX).unwrap_or(long)
}

/// The options of the table `table` that were given, in its order.
fn given(table: &Command, matches: &ArgMatches) -> Vec<Given> {
    let mut all = Vec::new();
    for option in table.get_arguments() {
        let id = option.get_id().as_str();
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let one = |value: Option<&OsStr>| Given {
            name: name_in_list(option).to_owned(),
            value: value.map(OsStr::to_owned),
            is_file: option.get_value_hint() == ValueHint::FilePath,
        };
        match option.get_action() {
            ArgAction::SetTrue => all.push(one(None)),
            _ => all.extend(matches.get_raw(id).into_iter().flatten().map(|value| one(Some(value)))),
        }
    }
    all
}

/// The error and the suggestion of clap, in one line.
fn first_lines(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or(&text);
    let text = text.split("\n\nFor more information").next().unwrap_or(text);
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let one_line = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    text.split("\n\n").map(one_line).collect::<Vec<_>>().join("; ")
}
