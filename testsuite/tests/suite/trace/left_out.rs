//! Traces of programs that leave functions out, and messages of linkers about traced programs.

use std::path::{Path, PathBuf};

use super::{pcce_trace, record};
use pcce_testsuite::{artifact, command, repository, run, work_folder};

/// Builds a traced program, and runs it.
fn traced(source: &Path, flags: &[&str], folder: &Path) -> (PathBuf, PathBuf) {
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    let mut build = command(artifact("pcce-clang"), &["--pcce-trace", "-g"]);
    run(build.args(flags).arg(source).arg("-o").arg(&program)).expect_success();
    record(&mut command(&program, &[]), &trace);
    (program, trace)
}

fn printed(subcommand: &str, program: &Path, trace: &Path) -> String {
    pcce_trace(&[subcommand], program, trace).expect_success().stdout
}

/// Names of the tracer that are local to its image must not be exported: gold would warn.
#[test]
fn linkers_have_nothing_to_warn_of() {
    let source = repository().join("testsuite/traces/left_out_push.c");
    for mode in ["module", "link"] {
        for linker in ["bfd", "gold", "lld", "mold"] {
            let folder = work_folder(&format!("traces/warnings-{mode}-{linker}"));
            let words = [format!("--pcce-mode={mode}"), format!("-fuse-ld={linker}")];
            let flags = [&*words[0], &*words[1], "-Wl,--fatal-warnings"];
            let (program, trace) = traced(&source, &flags, &folder);
            assert!(printed("show", &program, &trace).contains("again"));
        }
    }
}

#[test]
fn push_thunks_of_what_is_left_out_enter_as_it_does() {
    let source = repository().join("testsuite/traces/left_out_push.c");
    for mode in ["lto", "module", "link"] {
        for what in ["", "=blocks"] {
            let folder = work_folder(&format!("traces/left_out_push-{mode}{what}"));
            let trace_flag = format!("--pcce-trace{what}");
            let mode = format!("--pcce-mode={mode}");
            let flags = ["-O1", "-g", "--pcce-verify", &mode, &trace_flag, "--pcce-trace-skip=skip_*"];
            let (program, trace) = traced(&source, &flags, &folder);
            let shown = printed("show", &program, &trace);
            let names: Vec<&str> =
                shown.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
            let names: Vec<&str> = names.into_iter().filter(|name| *name != "line").collect();
            let calls = ["main", "again", "skip_choose", "again", "again", "skip_choose", "again"];
            let calls = [&calls[..], &["again", "skip_choose", "again", "<end>"]].concat();
            assert_eq!(names, calls, "{mode} {what}: {shown}");
            let checked = printed("check", &program, &trace);
            assert!(checked.contains(", 0 chunks do not match"), "{checked}");
        }
    }
}

/// What runs behind the landing pad of a function that is left out is not taken for what the throwing function calls.
#[test]
fn exceptions_that_come_to_what_is_left_out_are_a_gap() {
    let folder = work_folder("traces/left_out_catches");
    let source = repository().join("testsuite/traces/left_out_catches.cpp");
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    for (mode, level) in ["lto", "module", "link"].into_iter().flat_map(|mode| [(mode, "-O0"), (mode, "-O2")])
    {
        let mode = format!("--pcce-mode={mode}");
        let flags = ["--pcce-trace", "--pcce-trace-skip=skip_*", "--pcce-verify", "-g", level, &mode];
        run(command(artifact("pcce-clang++"), &flags).arg(&source).arg("-o").arg(&program)).expect_success();
        for arguments in [&[][..], &["catches"]] {
            record(&mut command(&program, arguments), &trace);
            let shown = pcce_trace(&["show"], &program, &trace);
            assert_eq!(shown.status, 2, "{mode} {level}: {}", shown.describe());
            let gap = "<an exception came to a function that is left out; unknown from here on>";
            let (before, behind) =
                shown.stdout.split_once(gap).unwrap_or_else(|| panic!("{}", shown.describe()));
            assert!(before.contains("throws") && !before.contains("step"), "{}", shown.describe());
            // Cleaning up is a call of the function that is left out; what it calls is not known to be anybody's.
            assert!(!behind.contains("__cxa_throw"), "{}", shown.describe());
            let checked = pcce_trace(&["check"], &program, &trace);
            assert!(
                checked.stdout.contains(", 0 chunks do not match"),
                "{mode} {level}: {}",
                checked.describe()
            );
        }
    }
}

/// Also static programs, whose runtime does not see `longjmp`, tell that control came back to what is left out.
#[test]
fn jumps_that_come_to_what_is_left_out_leave_what_they_leave() {
    let folder = work_folder("traces/left_out_jumps");
    let source = repository().join("testsuite/traces/left_out_jumps.c");
    for (kind, level) in [("-static", "-O0"), ("-static", "-O1"), ("-no-pie", "-O1")] {
        for mode in ["lto", "module", "link"] {
            let mode = format!("--pcce-mode={mode}");
            let flags = [kind, level, &mode, "--pcce-verify", "--pcce-trace-skip=skip_*"];
            let (program, trace) = traced(&source, &flags, &folder);
            let shown = printed("show", &program, &trace);
            let depth = |line: &str| line.chars().skip(9).take_while(|c| *c == ' ').count() / 2;
            let calls: Vec<(usize, &str)> = shown
                .lines()
                .skip(1)
                .filter_map(|line| Some((depth(line), line.split_whitespace().nth(1)?)))
                .collect();
            let round = [(2, "inner"), (3, "skip_jumps"), (2, "step")];
            let expected = [
                &[(0, "main"), (1, "skip_sets")][..],
                &round,
                &round,
                &[(2, "step"), (1, "step"), (0, "<end>")],
            ];
            assert_eq!(calls, expected.concat(), "{kind} {level} {mode}: {shown}");
            let checked = printed("check", &program, &trace);
            assert!(checked.contains(", 0 chunks do not match"), "{checked}");
        }
    }
}
