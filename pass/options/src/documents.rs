//! The documents that are made of the table: for people, and for CMake.

use std::fmt::Write;

use clap::builder::ValueHint;
use clap::{Arg, ArgAction, Command};

use crate::{name as name_of, wrapper_command};

/// The wrapper as its manual page and the completions of shells describe it.
pub fn wrapper_description(name: &'static str) -> Command {
    let inputs = Arg::new("arguments")
        .value_name("FILE OR OPTION OF CLANG")
        .help("whatever clang takes")
        .action(ArgAction::Append)
        .value_hint(ValueHint::AnyPath);
    wrapper_command()
        .no_binary_name(false)
        .name(name)
        .about("clang with calling context encoding")
        .after_help("Give the same flags when compiling and when linking.")
        .arg(inputs)
}

/// The variables of the environment that the wrapper compilers, the pass and the programs built with them
/// look at, and what each is for.
pub const ENVIRONMENT: &[(&str, &str)] = &[
    (
        crate::VARIABLE,
        "When compiling and linking: options of the pass, separated by `;`, as --pcce-NAME without the prefix.",
    ),
    (
        "PCCE_KEEP",
        "When linking in link mode: as --pcce-keep, for links by other commands; 1: beside the output, or a folder.",
    ),
    (
        "PCCE_CRASH_REPORT",
        "When a program runs: the file that its crash report is appended to, or `stderr`; empty, it writes none.",
    ),
    (
        "PCCE_VERIFY_REPORT",
        "When a program built with --pcce-verify runs: the file that its report is appended to, or `stderr` (only what is \
         wrong, to standard error).",
    ),
    (
        "PCCE_VERIFY_DEPTHS",
        "When such a program runs: the file that the depths of its contexts are appended to.",
    ),
    (
        "PCCE_VERIFY_CONTEXTS",
        "When such a program runs with PCCE_NUMBERS: the file that contexts and their numbers are appended to, for \
         tests.",
    ),
    (
        "PCCE_VERIFY_CAPTURES",
        "When such a program runs: the file that its tokens are appended to, each with the calls of the list, for pcce \
         verified --captures; %p is the process.",
    ),
    (
        "PCCE_VERIFY_EVERY",
        "When such a program runs: only every so many of its tokens are written there (1).",
    ),
    (
        "PCCE_HEAP_PROFILE",
        "When a program built with --pcce-heap runs: the file that its profile goes to; %p is the process \
         (pcce-heap.%p).",
    ),
    (
        "PCCE_HEAP_LEAKS",
        "When such a program runs: 1 has its profile tell what has leaked from what is alive (not told).",
    ),
    (
        "PCCE_HEAP_SIGNAL",
        "When such a program runs: the number of a signal on which it writes a profile and goes on, to FILE.1 and so on.",
    ),
    ("PCCE_SAMPLE", "When a program runs: samples of its contexts a second of CPU time, 1 to 10000 (none)."),
    ("PCCE_SAMPLE_PROFILE", "When it is sampled: the file that the profile goes to (pcce-cpu.%p)."),
    (
        "PCCE_SAMPLE_SIGNAL",
        "When it is sampled: the number of a signal on which it writes a profile and goes on, to FILE.1 and so on.",
    ),
    (
        "PCCE_LEARN",
        "When a program runs without PCCE_SAMPLE: the file that what pcce adapt needs is appended to (none).",
    ),
    (
        "PCCE_NUMBERS",
        "When a program runs: the file in which its numbers from 2^63 on are kept, for --numbers of pcce.",
    ),
    (
        "PCCE_CALLS_PROFILE",
        "When a program built with --pcce-profile-generate runs: the file that its counts are appended to.",
    ),
    (
        "PCCE_TRACE",
        "When a program built with --pcce-trace runs: the file that its calls are recorded in, with those of its child \
         processes; %p is the process.",
    ),
    (
        "PCCE_TRACE_RING",
        "When such a program runs: how much of each thread's is kept, the last so many bytes (16M, 64K); without PCCE_TRACE in \
         pcce-trace.%p.",
    ),
    (
        "PCCE_TRACE_PART",
        "When such a program runs: the part of the trace that it keeps, of all (2/6), for pcce trace merge; pcce trace collect \
         sets it.",
    ),
    (
        "PCCE_TRACE_SIGNAL",
        "When such a program runs: the number of a signal on which it stops recording, or starts it again.",
    ),
    (
        "PCCE_TRACE_ONLY",
        "When such a program runs: the functions that it records, by names, source files (parser/*.c) and patterns, with commas \
         between them.",
    ),
    (
        "PCCE_TRACE_SKIP",
        "When such a program runs: the functions that it leaves out of its trace, as PCCE_TRACE_ONLY has them.",
    ),
    ("PCCE_TRACE_PAUSED", "When such a program runs: 1 has recording begin stopped."),
    (
        "PCCE_TRACE_STRESS",
        "For tests: the first chunks of each stream have so many words, so that chunks begin at many places.",
    ),
];

/// The text of `--pcce-help`.
pub fn wrapper_help(name: &str) -> String {
    let mut text = format!("{name} takes every flag of clang, and:\n\n");
    for option in wrapper_command().get_arguments() {
        let value = option.get_value_names().and_then(|names| names.first());
        let optional = option.get_num_args().is_some_and(|values| values.min_values() == 0);
        let spelled = match value {
            Some(value) if takes_value(option) => {
                let assigned = if option.is_require_equals_set() { "=" } else { " " };
                let (open, close) = if optional { ("[", "]") } else { ("", "") };
                let more = if option.get_value_delimiter().is_some() { ",…" } else { "" };
                format!("--pcce-{}{open}{assigned}{value}{more}{close}", name_of(option))
            }
            _ => format!("--pcce-{}", name_of(option)),
        };
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        let mut lines = help.lines();
        let mut column = spelled;
        if column.chars().count() >= COLUMN - 2 {
            let _ = writeln!(text, "  {column}");
            column = String::new();
        }
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(text, "  {column:<width$}{first}", width = COLUMN - 2);
        for line in lines {
            let _ = writeln!(text, "{:COLUMN$}{line}", "");
        }
    }
    text + "\nGive the same flags when compiling and when linking.\n"
}

/// The column of the texts in `--pcce-help`.
const COLUMN: usize = 27;

fn takes_value(option: &Arg) -> bool {
    !matches!(option.get_action(), ArgAction::SetTrue)
}

/// The keywords of `pcce_instrument` for CMake: lists of switches, of options with one value, of options with
/// several, and of options whose values are files.
pub fn cmake_keywords() -> String {
    let (mut switches, mut values, mut lists, mut files) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let command = wrapper_command();
    for option in command.get_arguments() {
        let name = name_of(option);
        // MODE has checks of its own, and the compiler determines the LLVM.
        if ["mode", "llvm", "launch", "help"].contains(&name) {
            continue;
        }
        let keyword = name.to_uppercase().replace('-', "_");
        if option.get_value_hint() == ValueHint::FilePath {
            files.push(keyword.clone());
        }
        match option.get_action() {
            ArgAction::SetTrue => switches.push(keyword),
            ArgAction::Append => lists.push(keyword),
            _ => values.push(keyword),
        }
    }
    let mut text = "# Made from the table of options.\n".to_owned();
    for (name, keywords) in [("SWITCHES", switches), ("VALUES", values), ("LISTS", lists), ("FILES", files)] {
        let _ = writeln!(text, "set(_PCCE_{name} {})", keywords.join(" "));
    }
    text
}
