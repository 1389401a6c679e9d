//! Traces of programs in which code without the pass continues after a jump: calls in the trace have the contexts that
//! the program has taken there.

use std::fs;

use super::{pcce_trace, record};
use pcce_testsuite::chain::{decode, functions};
use pcce_testsuite::{artifact, command, llvm, repository, run, source, work_folder, write_files};
use serde_json::Value;

/// The functions of a trace's call, or of a context, without boundaries.
fn calls(line: &str) -> Vec<String> {
    let mut names = functions(&serde_json::from_str(line).expect("JSON"));
    names.retain(|name| !name.starts_with('<'));
    names
}

#[test]
fn calls_behind_a_jump_have_the_contexts_of_their_tokens() {
    let folder = work_folder("trace_jumps");
    let programs = repository().join("testsuite/programs");
    let library = folder.join("libplain.so");
    let mut plain = command(llvm("clang"), &["-O1", "-shared", "-fPIC"]);
    run(plain.arg(programs.join("parts/lands.c")).arg("-o").arg(&library)).expect_success();
    for (mode, verify) in [("lto", false), ("module", false), ("link", false), ("lto", true), ("link", true)]
    {
        let program = folder.join(mode);
        let trace = folder.join(format!("{mode}.trace"));
        let mode = format!("--pcce-mode={mode}");
        let mut build = command(artifact("pcce-clang"), &["--pcce-trace", &mode, "-O1", "-g"]);
        build.args(verify.then_some("--pcce-verify")).arg(programs.join("landed.c")).arg(&library);
        run(build.arg("-o").arg(&program)).expect_success();
        let _ = fs::remove_file(&trace);
        let output = run(command(&program, &[]).env("PCCE_TRACE", &trace)).expect_success();
        let tokens: String = output
            .stdout
            .lines()
            .filter_map(|line| Some(format!("{}\n", line.strip_prefix('@')?.split(' ').nth(1)?)))
            .collect();
        let decoded = decode(&program, &tokens);
        // Handlers have streams of their own.
        let expected: Vec<_> =
            decoded.lines().filter(|line| !line.contains("\"kind\":\"signal\"")).map(calls).collect();
        let mut find = command(artifact("pcce"), &["trace", "find", "--format", "json"]);
        let found = run(find.arg(&program).arg(&trace).arg("pcce_token")).stdout;
        let level = |line: &&str| serde_json::from_str::<Value>(line).expect("JSON")["level"] == 0;
        let found: Vec<_> = found.lines().filter(level).map(calls).collect();
        assert_eq!(found, expected, "{mode}, verify: {verify}");
        assert!(expected.len() > 10, "{mode}: {} contexts", expected.len());
    }
}

/// After code without the pass has left a stack by a jump, and comes back to it from other activations, the active
/// functions are not known: not those whose memory the new activations use.
#[test]
fn a_stack_that_was_left_is_not_found_among_other_activations() {
    let folder = work_folder("trace_jumps_switches");
    let source = repository().join("testsuite/jumping/switches.c");
    let [object, program, trace] = ["plain.o", "program", "trace"].map(|name| folder.join(name));
    let mut plain = command(llvm("clang"), &["-O1", "-DPLAIN", "-c"]);
    run(plain.arg(&source).arg("-o").arg(&object)).expect_success();
    let mut build = command(artifact("pcce-clang"), &["--pcce-trace", "-O1", "-g"]);
    run(build.arg(&source).arg(&object).arg("-o").arg(&program)).expect_success();
    let _ = fs::remove_file(&trace);
    run(command(&program, &[]).env("PCCE_TRACE", &trace)).expect_success();
    let shown = pcce_trace(&["show"], &program, &trace).stdout;
    let known = shown.split("`longjmp` went to an unknown place").next().expect("a part");
    assert!(known.len() < shown.len(), "{shown}");
    // Of the first round only: in later rounds the other stack has printed first.
    assert_eq!((shown.matches(" puts at ").count(), known.matches(" puts at ").count()), (4, 4), "{shown}");
}

/// Each call of `setjmp` has a number, also if a function has several.
#[test]
fn functions_have_several_places_to_come_back_to() {
    let folder = work_folder("trace_jumps_twice");
    let [program, trace] = ["program", "trace"].map(|name| folder.join(name));
    for mode in ["lto", "module", "link"] {
        let mode = format!("--pcce-mode={mode}");
        let mut build =
            command(artifact("pcce-clang"), &["--pcce-trace", "--pcce-verify", "-O1", "-g", &mode]);
        let source = repository().join("testsuite/traces/twice.c");
        run(build.arg(source).arg("-o").arg(&program)).expect_success();
        for stress in ["0", "3"] {
            record(command(&program, &[]).env("PCCE_TRACE_STRESS", stress), &trace);
            let check = pcce_trace(&["check"], &program, &trace);
            assert!(check.stdout.contains(" compared, 0 chunks do not match"), "{}", check.describe());
            let shown = pcce_trace(&["show"], &program, &trace).expect_success();
            assert_eq!(shown.stdout.matches("<returned again in twice at ").count(), 18, "{}", shown.stdout);
        }
    }
}

/// A call that follows without a choice may have happened before a handler jumped away, or not. No call appears that
/// was not made.
#[test]
fn calls_that_a_fault_has_prevented_are_not_shown() {
    let folder = work_folder("trace_jumps_fault");
    let plain = source!("traces/faults/plain.c");
    let own = source!("traces/faults/own.c");
    write_files(&folder, [("plain.c", plain), ("own.c", own)]);
    let mut clang = command(llvm("clang"), &["-O1", "-c", "plain.c", "-o", "plain.o"]);
    run(clang.current_dir(&folder)).expect_success();
    for mode in ["link", "module", "lto"] {
        for level in ["-O0", "-O2"] {
            let mode = format!("--pcce-mode={mode}");
            let mut clang =
                command(artifact("pcce-clang"), &["--pcce-trace", "--pcce-verify", "-g", &mode, level]);
            run(clang.args(["own.c", "plain.o", "-o", "program"]).current_dir(&folder)).expect_success();
            let _ = fs::remove_file(folder.join("trace"));
            let output = run(command(folder.join("program"), &[]).env("PCCE_TRACE", folder.join("trace")));
            let said = output.expect_success().stdout;
            assert_eq!(said, "before\ndone\nbefore\ndone\nbefore\ndone\nbefore\ndone\nnext\none\n");
            let pcce = |words: &[&str]| {
                let mut pcce = command(artifact("pcce"), &["trace"]);
                run(pcce.args(words).args(["program", "trace"]).current_dir(&folder))
            };
            let shown = pcce(&["show", "--format", "json"]).stdout;
            let events: Vec<Value> =
                shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            let of = |name: &str| {
                let is = |event: &&Value| {
                    event["function"] == name
                        && ["call", "open-call"].iter().any(|kind| event["kind"] == *kind)
                };
                events.iter().filter(is).count()
            };
            // Only the last call was made.
            assert_eq!((of("next"), of("done")), (1, 4), "{mode} {level}: {shown}");
            assert!(of("says") <= 10, "{mode} {level}: {shown}");
            let check = pcce(&["check"]);
            assert!(check.status == 2 && check.stdout.contains(", 0 chunks do not"), "{}", check.describe());
        }
    }
}
