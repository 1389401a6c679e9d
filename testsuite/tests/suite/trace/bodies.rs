//! The two bodies of traced functions: that which records, and that of processes that do not.

use std::path::{Path, PathBuf};

use super::{pcce_trace, record};
use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, llvm, repository, run, work_folder};

fn source() -> PathBuf {
    repository().join("testsuite/traces/bodies.c")
}

fn build(flags: &[&str], program: &Path) {
    let mut build = command(artifact("pcce-clang"), &["--pcce-trace", "-g"]);
    run(build.args(flags).arg(source()).arg("-o").arg(program)).expect_success();
}

/// Returns whether gdb stops at a function of this name, in a run with a trace, or without.
fn stops(program: &Path, name: &str, trace: Option<&Path>) -> bool {
    let mut gdb = command("gdb", &["-batch", "-nx", "-ex"]);
    gdb.arg(format!("break {name}")).args(["-ex", "run", "--args"]).arg(program);
    gdb.envs(trace.map(|trace| ("PCCE_TRACE", trace)));
    let said = run(&mut gdb).expect_success().stdout;
    assert!(said.starts_with("Breakpoint 1 at "), "{said}");
    said.contains("\nBreakpoint 1, ")
}

#[test]
fn a_process_that_does_not_record_runs_other_bodies() {
    let work = work_folder("trace_bodies/run");
    let plain = work.join("plain");
    run(command(llvm("clang"), &["-O1", "-o"]).arg(&plain).arg(source())).expect_success();
    let expected = run(&mut command(&plain, &[])).expect_success().stdout;
    for mode in ["link", "lto", "module"] {
        let (program, trace) = (work.join(mode), work.join("trace"));
        build(&["-O1", "-fno-inline", &format!("--pcce-mode={mode}")], &program);
        // Calls by name enter the second one, whose address is taken, behind its first instruction.
        for name in ["add.pcce_recording", "*((char *)&'shared.pcce_recording' + 5)"] {
            assert!(!stops(&program, name, None), "{mode}");
            assert!(stops(&program, name, Some(&trace)), "{mode}");
        }
        assert_eq!(run(&mut command(&program, &[])).expect_success().stdout, expected);
        assert_eq!(record(&mut command(&program, &[]), &trace).stdout, expected);
        // These cannot stand twice.
        let nm = run(command(llvm("llvm-nm"), &[]).arg(&program)).expect_success().stdout;
        assert!(!nm.contains("labelled.pcce_recording"), "{mode}: {nm}");
        assert!(!nm.contains("fluid.pcce_recording"), "{mode}: {nm}");
        assert!(nm.contains("numbered.pcce_recording"), "{mode}: {nm}");
        assert!(!nm.contains("exposed.pcce_recording"), "{mode}: {nm}");
    }
}

#[test]
fn events_of_both_kinds_of_functions_are_exact() {
    let kinds = ["--pcce-trace", "--pcce-trace=blocks"];
    let all = ["link", "lto", "module"].into_iter().flat_map(|mode| kinds.map(|kind| (mode, kind)));
    let all = all.flat_map(|(mode, kind)| ["-O0", "-O1", "-O2"].map(|level| (mode, kind, level)));
    for (mode, kind, level) in in_turn(0, all) {
        let work = work_folder(&format!("trace_bodies/{mode}{kind}{level}"));
        let (program, trace) = (work.join("program"), work.join("trace"));
        build(&[level, kind, "--pcce-verify", &format!("--pcce-mode={mode}")], &program);
        // Verify mode ends with status 97 where a context is wrong.
        run(&mut command(&program, &[])).expect_success();
        let mut compared = Vec::new();
        for most in ["0", "15"] {
            record(command(&program, &[]).env("PCCE_TRACE_STRESS", most), &trace);
            let checked = pcce_trace(&["check"], &program, &trace).expect_success().stdout;
            assert!(checked.contains(", 0 chunks do not match"), "{mode} {kind} {level}: {checked}");
            let events = checked.split_whitespace().next().and_then(|count| count.parse().ok());
            compared.push(events.unwrap_or(0));
            let shown = pcce_trace(&["show"], &program, &trace).expect_success().stdout;
            for name in ["interpret", "exposed", "labelled", "compare", "jumps", "last"] {
                assert!(
                    shown.contains(&format!("{name} at")) || shown.contains(&format!(" {name}\n")),
                    "{name}: {shown}"
                );
            }
        }
        assert!(compared[0] > 2_000 && compared[0] == compared[1], "{compared:?}");
    }
}
