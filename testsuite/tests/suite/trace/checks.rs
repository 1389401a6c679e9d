//! `pcce trace check`: no false alarms.

use std::fs;
use std::path::{Path, PathBuf};

use super::{pcce_trace, record};
use pcce_testsuite::{Output, artifact, command, repository, run, source, work_folder};

fn build(source: &Path, flags: &[&str], output: &Path) {
    let mut build = command(artifact("pcce-clang"), &["--pcce-trace", "-g", "-O1"]);
    run(build.args(flags).arg(source).arg("-o").arg(output)).expect_success();
}

fn source(name: &str) -> PathBuf {
    repository().join("testsuite/traces").join(name)
}

/// Runs a program, and checks its trace.
fn checked(program: &Path, arguments: &[&str], stress: &str) -> Output {
    let trace = program.with_extension("trace");
    record(command(program, arguments).env("PCCE_TRACE_STRESS", stress), &trace);
    pcce_trace(&["check"], program, &trace)
}

/// The count of a child's handler begins with the child.
#[test]
fn handlers_of_a_child_are_counted_by_themselves() {
    for mode in ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"] {
        let program = work_folder(&format!("trace_check/handled{mode}")).join("program");
        build(&source("handled.c"), &["--pcce-verify", mode], &program);
        for before in ["0", "1", "5"] {
            let check = checked(&program, &[before], "0").expect_success();
            assert!(check.stdout.contains("4 chunks were compared, 0 chunks do not"), "{}", check.describe());
        }
    }
}

const LIBRARY: &str = source!("traces/mixed_images/other.c");

/// Some images of a process count their events, and others do not.
#[test]
fn what_is_not_in_verify_mode_is_not_counted() {
    let folder = work_folder("trace_check/mixed");
    let (main, other) = (folder.join("main.c"), folder.join("other.c"));
    fs::write(&main, source!("traces/mixed_images/main.c")).unwrap();
    fs::write(&other, LIBRARY).unwrap();
    let (program, library) = (folder.join("program"), folder.join("libother.so"));
    for verified in [[true, true], [true, false], [false, true]] {
        let [of_program, of_library] =
            verified.map(|verified| if verified { "--pcce-verify" } else { "--pcce-mode=module" });
        build(&other, &["-shared", "-fPIC", "--pcce-mode=module", of_library], &library);
        let _ = fs::remove_file(folder.join("program.report"));
        let link = library.to_str().expect("letters");
        build(&main, &["--pcce-mode=module", of_program, link], &program);
        for stress in ["0", "1", "7"] {
            let check = checked(&program, &[], stress).expect_success();
            let counted: u64 = check.stdout.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
            assert!(counted > 1000, "{}", check.describe());
            // Contexts of functions that code without a shadow stack has called are not compared, and the output says
            // so.
            let said = fs::read_to_string(folder.join("program.report")).expect("a report");
            assert!(said.contains(", 0 mismatches"), "{said}");
            assert_eq!(said.contains("without --pcce-verify"), verified != [true, true], "{said}");
        }
    }
}

/// `pthread_exit` ends the main thread's activations. Handlers for the end of the process run afterwards, in a stream
/// of their own.
#[test]
fn the_main_thread_may_end_before_the_process() {
    let folder = work_folder("trace_check/main_thread");
    let file = folder.join("main.c");
    fs::write(&file, source!("traces/main_thread_ends.c")).unwrap();
    let program = folder.join("program");
    for mode in ["--pcce-mode=link", "--pcce-mode=module", "--pcce-mode=lto"] {
        for flags in [&[mode, "--pcce-verify"][..], &[mode, "--pcce-verify", "-O0"]] {
            build(&file, flags, &program);
            for arguments in [&[][..], &["with a thread"]] {
                let check = checked(&program, arguments, "0").expect_success();
                assert!(check.stdout.contains(", 0 chunks do not"), "{}", check.describe());
                let said = fs::read_to_string(program.with_extension("report")).expect("a report");
                assert!(said.contains(", 0 mismatches"), "{said}");
            }
        }
    }
}
