//! Real programs in both modes, with verify mode on every function entry: each prints what its plain
//! build prints, and every context matches.

use std::fs;

use pcce_testsuite::LLVM;
use pcce_testsuite::real::{PROGRAMS, Program, checked};

fn check(name: &str) {
    let program: &Program = PROGRAMS.iter().find(|p| p.name == name).expect("is on the list");
    let run = |variant: &str, cc: &str| -> (Vec<u8>, String) {
        let executable = program.build(variant, cc, "-O2 -g").unwrap_or_else(|e| panic!("{e}"));
        let report = executable.with_extension("report");
        let _ = fs::remove_file(&report);
        let output = program.workload(&executable, 1).env("PCCE_VERIFY_REPORT", &report).output();
        let output = checked(&format!("{name} ({variant})"), output).unwrap_or_else(|e| panic!("{e}"));
        (output.stdout, fs::read_to_string(&report).unwrap_or_default())
    };
    let (expected, _) = run("plain", &format!("clang-{LLVM}"));
    assert!(!expected.is_empty(), "{name} prints nothing");
    for mode in ["lto", "module"] {
        let variant = format!("verify-{mode}");
        let (printed, report) = run(&variant, &format!("pcce-clang --pcce-mode={mode} --pcce-verify"));
        assert!(printed == expected, "{name} ({variant}) prints something else than the plain build");
        // One line for each process of the workload.
        let mut compared = 0u64;
        for line in report.lines() {
            let count =
                line.strip_prefix("pcce verify: ").and_then(|l| l.split(' ').next()?.parse::<u64>().ok());
            assert!(count.is_some() && line.ends_with(" 0 mismatches"), "{name} ({variant}): {line}");
            compared += count.unwrap_or(0);
        }
        assert!(compared > 1000, "{name} ({variant}) compared {compared} contexts only: {report}");
        eprintln!("{name} ({mode}): {compared} contexts compared, 0 mismatches");
    }
}

#[test]
fn bzip2() {
    check("bzip2");
}

#[test]
fn lua() {
    check("lua");
}

#[test]
fn sqlite3() {
    check("sqlite3");
}

#[test]
fn minisat() {
    check("minisat");
}

#[test]
fn xz() {
    check("xz");
}

#[test]
fn gzip() {
    check("gzip");
}
