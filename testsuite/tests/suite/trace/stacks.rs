//! Traces of programs that switch stacks by themselves: the calls on each stack are separate, however often the thread
//! leaves it and comes back.

use std::path::{Path, PathBuf};

use super::record;
use pcce_testsuite::chain::functions;
use pcce_testsuite::{Output, artifact, command, include, repository, run, work_folder};

const MODES: [&str; 3] = ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"];

fn build(folder: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let program = folder.join("program");
    let testsuite = repository().join("testsuite");
    let include = include("runtime-lib/include");
    let mut build = command(artifact("pcce-clang"), &["--pcce-trace", "-g", "-O1", "-pthread", &include]);
    run(build.args(flags).arg(testsuite.join(source)).arg("-o").arg(&program)).expect_success();
    program
}

/// Runs a program with a new trace.
fn traced(program: &Path, arguments: &[&str], stress: &str) -> PathBuf {
    let trace = program.with_extension("trace");
    record(command(program, arguments).env("PCCE_TRACE_STRESS", stress), &trace);
    trace
}

fn pcce(words: &[&str], program: &Path, trace: &Path, more: &[&str]) -> Output {
    run(command(artifact("pcce"), &[&["trace"], words].concat()).arg(program).arg(trace).args(more))
}

/// The contexts of all calls of a function, innermost first, with boundaries in angle brackets.
fn contexts(program: &Path, trace: &Path, function: &str) -> Vec<Vec<String>> {
    let found = pcce(&["find", "--format", "json"], program, trace, &[function]).stdout;
    found.lines().map(|line| functions(&serde_json::from_str(line).expect("JSON"))).collect()
}

fn has(context: &[String], function: &str) -> bool {
    context.iter().any(|name| name == function)
}

#[test]
fn each_stack_goes_on_where_it_was_left() {
    // The functions that switch are traced, or left out.
    let skip = ["-g", "--pcce-trace-skip=to_fiber,to_main"];
    for (mode, skip) in MODES.iter().flat_map(|mode| skip.map(|skip| (mode, skip))) {
        let folder = work_folder(&format!("trace_stacks/ways{mode}"));
        let program = build(&folder, "traces/stacks.c", &[mode, skip]);
        for (way, on_main, on_fiber) in [("plain", 42, 40), ("announced", 42, 40), ("assembly", 42, 40)] {
            let trace = traced(&program, &[way], "0");
            let shown = pcce(&["show"], &program, &trace, &[]).expect_success();
            assert!(!shown.stdout.contains("unknown from here on"), "{mode} {way}: {}", shown.stdout);
            let main = contexts(&program, &trace, "on_main");
            assert_eq!(main.len(), on_main, "{mode} {way}: {}", shown.stdout);
            for context in main {
                assert_eq!(context, ["on_main", "main"], "{mode} {way}");
            }
            let fiber = contexts(&program, &trace, "on_fiber");
            assert_eq!(fiber.len(), on_fiber, "{mode} {way}: {}", shown.stdout);
            for (number, context) in fiber.iter().enumerate() {
                let deep = context.iter().filter(|name| *name == "deep").count();
                assert_eq!(deep, number / 2 % 4 + 1, "{mode} {way}: {context:?}");
                assert!(
                    has(context, "body") && has(context, "entry") && !has(context, "main"),
                    "{context:?}"
                );
                assert!(context.last().expect("a boundary").starts_with('<'), "{context:?}");
            }
        }
    }
}

/// A handler switches to another stack: when it comes back, the interrupted code is not known, and the trace says so.
#[test]
fn handlers_that_switch_leave_other_stacks_as_they_are() {
    let folder = work_folder("trace_stacks/handlers");
    let program = build(&folder, "traces/stacks.c", &[]);
    let trace = traced(&program, &["handler"], "0");
    let main = contexts(&program, &trace, "on_main");
    assert_eq!(main.len(), 42);
    assert!(main.iter().all(|context| context == &["on_main", "main"]), "{main:?}");
    let fiber = contexts(&program, &trace, "on_fiber");
    assert!(!fiber.is_empty() && fiber.iter().all(|context| !has(context, "main")), "{fiber:?}");
    let shown = pcce(&["show"], &program, &trace, &[]);
    assert_eq!(shown.status, 2, "{}", shown.describe());
}

#[test]
fn contexts_that_return_again_are_those_of_their_stack() {
    let folder = work_folder("trace_stacks/again");
    for mode in MODES {
        let program = build(&folder, "traces/stacks.c", &[mode]);
        let trace = traced(&program, &["plain", "again"], "0");
        let main = contexts(&program, &trace, "on_main");
        assert_eq!(main.len(), 4, "{mode}: {}", pcce(&["show"], &program, &trace, &[]).stdout);
        assert!(main.iter().all(|context| context == &["on_main", "returns_again", "main"]), "{main:?}");
    }
}

/// In verify mode all counted events are found, also from the beginnings of chunks.
#[test]
fn all_events_of_all_stacks_are_found() {
    for mode in MODES {
        let folder = work_folder(&format!("trace_stacks/verified{mode}"));
        let program = build(&folder, "traces/stacks.c", &["--pcce-verify", mode]);
        for way in ["plain", "announced", "assembly", "handler"] {
            for stress in ["0", "1", "7"] {
                let trace = traced(&program, &[way], stress);
                let check = pcce(&["check"], &program, &trace, &[]);
                assert!(
                    check.stdout.contains(" 0 chunks do not match"),
                    "{mode} {way}: {}",
                    check.describe()
                );
                let exact = way == "plain" || way == "announced";
                if exact && stress == "0" {
                    assert_eq!(check.status, 0, "{mode} {way}: {}", check.describe());
                } else {
                    assert_ne!(check.status, 1, "{mode} {way}: {}", check.describe());
                }
            }
        }
    }
}

/// Fibers that one thread leaves and another one resumes, and those of code that announces nothing, give no false
/// alarm.
#[test]
fn fibers_of_all_kinds_are_right_or_unknown() {
    for source in ["programs/fibers.c", "programs/fibers_unannounced.c"] {
        for mode in ["--pcce-mode=lto", "--pcce-mode=module"] {
            let folder = work_folder(&format!("trace_stacks/{source}{mode}"));
            let program = build(&folder, source, &["--pcce-verify", mode]);
            for stress in ["0", "1", "7"] {
                let trace = traced(&program, &[], stress);
                let check = pcce(&["check"], &program, &trace, &[]);
                assert_ne!(check.status, 1, "{source} {mode} {stress}: {}", check.describe());
            }
        }
    }
}
