//! Traces of calls, end to end: programs in verify mode, whose events the reader must reproduce, and what it shows.

use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::{artifact, command, repository, run, work_folder};

fn program(name: &str) -> PathBuf {
    repository().join("testsuite/programs").join(name)
}

/// Builds a program that writes traces, and runs it. Returns it, and its trace.
fn traced(source: &Path, flags: &[&str], folder: &Path) -> (PathBuf, PathBuf) {
    let compiler = if source.extension().is_some_and(|e| e == "cpp") { "pcce-clang++" } else { "pcce-clang" };
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    let include = format!("-I{}", repository().join("runtime-lib/include").display());
    let mut build = command(artifact(compiler), &["--pcce-trace", "-g", "-pthread", &include]);
    let _ = run(build.args(flags).arg(source).arg("-o").arg(&program)).expect_success();
    let _ = fs::remove_file(&trace);
    let report = folder.join("report");
    let mut start = command(&program, &[]);
    let _ = run(start.env("PCCE_TRACE", &trace).env("PCCE_VERIFY_REPORT", &report)).expect_success();
    (program, trace)
}

fn pcce(words: &[&str], files: (&Path, &Path)) -> pcce_testsuite::Output {
    run(command(artifact("pcce"), &[&["trace"], words].concat()).arg(files.0).arg(files.1))
}

/// Recursion, callbacks, pointers, exceptions, `longjmp`, tail calls, threads: every event, in its order.
#[test]
fn the_reader_finds_every_event() {
    for name in [
        "acyclic.c",
        "builtin_jumps.c",
        "callbacks.c",
        "exceptions.cpp",
        "jumps.c",
        "musttail.c",
        "nested_jumps.c",
        "pointers.c",
        "recursion.c",
        "threads.cpp",
        "virtuals.cpp",
    ] {
        for mode in ["--pcce-mode=lto", "--pcce-mode=module"] {
            let folder = work_folder(&format!("traces/{name}{mode}"));
            let (program, trace) = traced(&program(name), &["-O2", "--pcce-verify", mode], &folder);
            let checked = pcce(&["check"], (&program, &trace)).expect_success();
            let events: u64 = checked.stdout.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            assert!(
                events > 0 && checked.stdout.contains(", 0 chunks do not match"),
                "{}",
                checked.describe()
            );
        }
    }
}

const LOOP: &str = "#include <stdlib.h>\n#define KEEP __asm__ volatile(\"\")\n\
    __attribute__((noinline)) static int even(int n) { KEEP; return n; }\n\
    __attribute__((noinline)) static int odd(int n) { KEEP; return even(n) + 1; }\n\
    static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }\n\
    int main(void) { int a[3] = {3, 1, 2}, s = 0; qsort(a, 3, sizeof *a, compare);\n\
    for (int i = 0; i < 3; i++) s += i % 2 ? odd(i) : even(i); return s > 100; }\n";

/// What a user sees: the calls, in their order, with what was called back.
#[test]
fn calls_are_shown_in_their_order() {
    let folder = work_folder("traces/shown");
    let source = folder.join("loop.c");
    fs::write(&source, LOOP).unwrap();
    let (program, trace) = traced(&source, &["-O2"], &folder);
    let shown = pcce(&["show"], (&program, &trace)).expect_success();
    let names: Vec<&str> = shown.stdout.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    let called_back = names.iter().filter(|name| **name == "compare").count();
    let others: Vec<&str> = names.iter().copied().filter(|name| *name != "compare").collect();
    assert!(called_back >= 2, "{}", shown.stdout);
    assert_eq!(others[1..], ["main", "qsort", "even", "odd", "even", "even", "<end>"], "{}", shown.stdout);
}
