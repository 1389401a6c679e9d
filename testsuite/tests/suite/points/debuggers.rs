//! `pcce bt` in gdb and lldb: the context of the selected thread of a live process and of a core file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pcce_testsuite::{command, install, repository, run, source, work_folder};

/// Recursion, a callback of the C library, an inlined function, and two threads that stop for ever.
const PROGRAM: &str = source!("crash/waiting_threads.c");

const MAIN: &str = "stop < deep < again < deep < again < main";
const WORKER: &str =
    "stop < detail < by_size < <qsort, not instrumented> < worker < <thread created here> < main";

struct Setting {
    folder: PathBuf,
    prefix: PathBuf,
}

/// An installation, and the program built with it.
fn setting() -> &'static Setting {
    static SETTING: OnceLock<Setting> = OnceLock::new();
    SETTING.get_or_init(|| {
        let folder = work_folder("debuggers");
        let prefix = folder.join("prefix");
        install(&prefix);
        fs::write(folder.join("program.c"), PROGRAM).expect("can be written");
        for (level, name) in [("-O0", "slow"), ("-O2", "fast")] {
            let mut compile =
                command(prefix.join("bin/pcce-clang"), &["-g", "-pthread", level, "program.c", "-o", name]);
            run(compile.current_dir(&folder)).expect_success();
        }
        Setting { folder, prefix }
    })
}

fn script(setting: &Setting) -> String {
    setting.prefix.join("share/pcce/pcce.py").display().to_string()
}

/// The chains that a debugger printed, from the first instrumented function on: the inner frames are the C library's.
fn chains(output: &str) -> Vec<String> {
    let mut chains: Vec<Vec<&str>> = Vec::new();
    // The debugger prints the arguments of its own frames.
    for line in output.lines().filter(|line| line.starts_with('#') && !line.contains(" (")) {
        let (number, frame) = line.split_once(' ').expect("a frame");
        let frame = frame.trim_start();
        if number == "#0" {
            chains.push(Vec::new());
        }
        chains.last_mut().expect("#0 comes first").push(frame.split(" at ").next().unwrap_or(frame));
    }
    let from_stop = |chain: Vec<&str>| {
        let start = chain.iter().position(|frame| *frame == "stop").unwrap_or(0);
        chain[start..].join(" < ")
    };
    chains.into_iter().map(from_stop).collect()
}

fn gdb(setting: &Setting, arguments: &[&str], file: &[&str]) -> String {
    let source = format!("source {}", script(setting));
    let mut gdb = command("gdb", &["-q", "-nx", "-batch", "-ex", "set confirm off", "-ex", &source]);
    for argument in arguments {
        gdb.args(["-ex", argument]);
    }
    let output = run(gdb.args(file).current_dir(&setting.folder));
    output.stdout + &output.stderr
}

fn in_gdb(program: &str) {
    let setting = setting();
    let core = format!("{program}.core");
    let save = format!("generate-core-file {core}");
    // One thread is in `pause`, the other there or on its way out of the barrier.
    let both = ["break pause", "run", "thread apply 1 pcce bt", "thread apply 2 pcce bt", &save, "kill"];
    let live = gdb(setting, &both, &[program]);
    assert_eq!(chains(&live), [MAIN, WORKER], "{live}");
    let dead = gdb(setting, &["thread apply 1 pcce bt", "thread apply 2 pcce bt"], &[program, &core]);
    // The thread that stopped first is the first in the core file.
    let mut found = chains(&dead);
    found.sort();
    let mut expected = [MAIN, WORKER];
    expected.sort();
    assert_eq!(found, expected, "{dead}");
}

#[test]
fn gdb_unoptimised() {
    in_gdb("slow");
}

#[test]
fn gdb_optimised() {
    in_gdb("fast");
}

#[test]
fn gdb_errors() {
    let setting = setting();
    let output = gdb(setting, &["pcce bt"], &["fast"]);
    assert!(output.contains("no thread is selected"), "{output}");
    let output = gdb(setting, &["break main", "run", "pcce bt", "kill"], &["/bin/true"]);
    assert!(output.contains("pcce bt: "), "{output}");
    assert_eq!(chains(&output).len(), 0);
}

#[test]
fn lldb() {
    let setting = setting();
    let import = format!("command script import {}", script(setting));
    let mut lldb = command(Path::new("lldb-19"), &["--no-lldbinit", "--batch", "-o", &import]);
    for argument in
        ["breakpoint set -n pause", "run", "thread select 1", "pcce bt", "thread select 2", "pcce bt", "kill"]
    {
        lldb.args(["-o", argument]);
    }
    let output = run(lldb.arg("fast").current_dir(&setting.folder));
    assert_eq!(chains(&output.stdout), [MAIN, WORKER], "{}{}", output.stdout, output.stderr);
}

/// gdb's own `bt` leaves out what the pass and the runtime have added, and shows functions that record by their names.
#[test]
fn gdb_leaves_out_added_frames() {
    const RECORDING: &str = " [clone .pcce_recording]";
    let setting = setting();
    let source = repository().join("testsuite/crash/added_frames.cpp");
    for (name, flags, place) in [
        ("debug", &["-g"][..], "tree::stop"),
        ("bare", &[], "tree::stop"),
        // Calls enter recording bodies behind the instruction of the name.
        ("traced", &["--pcce-trace"], "printf"),
        ("module", &["--pcce-mode=module"], "tree::stop"),
    ] {
        let words = ["-O1", "-pthread", "-o", name];
        let mut compile = command(setting.prefix.join("bin/pcce-clang++"), &words);
        run(compile.args(flags).arg(&source).current_dir(&setting.folder)).expect_success();
        let stop = format!("break {place}");
        let trace = ["set environment PCCE_TRACE=added.trace", &*stop, "run"];
        let all = gdb(setting, &[&trace[..], &["bt -no-filters", "kill"]].concat(), &[name]);
        let shown = gdb(setting, &[&trace[..], &["bt", "kill"]].concat(), &[name]);
        // Without addresses, which may differ from run to run, and the values of parameters.
        let frames = |text: &str| -> Vec<String> {
            let frames = text.lines().filter(|line| line.starts_with('#'));
            let name = |line: &str| {
                let words = line.split(" (").next().unwrap_or(line).split_whitespace();
                words.filter(|word| !word.starts_with("0x") && *word != "in").collect::<Vec<_>>().join(" ")
            };
            frames.map(name).collect()
        };
        let is_added = |line: &&String| line.contains(".pcce_push") || line.contains("__pcce_");
        let (all, shown) = (frames(&all), frames(&shown));
        let kept = all.iter().filter(|line| !is_added(line));
        let expected: Vec<String> = kept.map(|line| line.replace(RECORDING, "")).collect();
        assert_eq!(shown, expected, "{name}");
        assert!(all.iter().any(|line| line.contains("__pcce_thread_start")), "{name}: {all:?}");
        let pushes = all.iter().any(|line| line.contains("[clone .pcce_push"));
        let records = all.iter().any(|line| line.contains(RECORDING));
        assert!(pushes && records == (name == "traced"), "{name}: {all:?}");
        assert!(shown.len() > 4 && shown.iter().any(|line| line.contains("tree::walk")), "{name}: {shown:?}");
    }
}
