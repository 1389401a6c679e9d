//! Forked children: the beginnings of their traces, and their effect on the parents' traces.

use std::collections::HashMap;
use std::fs;

use super::pcce_trace;
use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, json_lines, repository, run, source, work_folder};
use serde_json::Value;

const MODES: [&str; 3] = ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"];

/// A handler forks. After the parent's next steps, it returns in the child, jumps, or ends the process. The program
/// prints what each process does in `one` to `three`.
const FORKING: &str = source!("traces/forking.c");

/// The child's stream of the interrupted code begins at the parent's position, and the parent's trace does not change.
#[test]
fn handlers_may_fork() {
    let folder = work_folder("trace_ends/forking");
    fs::write(folder.join("program.c"), FORKING).unwrap();
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    for mode in MODES {
        for linked in ["-static", "-pie"] {
            let flags = ["--pcce-trace", "--pcce-verify", "-g", "-O1", mode, linked];
            let mut clang = command(artifact("pcce-clang"), &flags);
            run(clang.args(["program.c", "-o", "program"]).current_dir(&folder)).expect_success();
            for way in ["return", "jump", "exit", "_exit"] {
                let what = format!("{mode} {linked} {way}");
                let _ = fs::remove_file(&trace);
                let output = run(command(&program, &[way]).env("PCCE_TRACE", &trace)).expect_success();
                let show = command(artifact("pcce"), &["trace", "show", "--format", "json"]);
                let shown = run({ show }.arg(&program).arg(&trace));
                let events = json_lines(&shown.stdout);
                let parent = events[0]["process"].as_u64();
                for (of_parent, process) in [(true, "parent"), (false, "child ")] {
                    let own: Vec<_> = events
                        .iter()
                        .filter(|event| (event["process"].as_u64() == parent) == of_parent)
                        .collect();
                    for name in ["one", "two", "three"] {
                        let made =
                            output.stdout.lines().filter(|line| *line == format!("{process} {name}")).count();
                        let recorded = own
                            .iter()
                            .filter(|event| event["kind"] == "call" && event["function"] == name)
                            .count();
                        assert_eq!(recorded, made, "{what} {process} {name}: {}", shown.describe());
                    }
                    let unknown = own.iter().filter(|event| event["kind"] == "gap").count();
                    assert_eq!(unknown, 0, "{what} {process}: {}", shown.describe());
                    let ends = own.iter().filter(|event| event["ended"] == true).count();
                    // `_exit` ends the handler's stream.
                    assert_eq!(
                        ends,
                        if way == "_exit" && !of_parent { 1 } else { 2 },
                        "{what} {process}: {}",
                        shown.describe()
                    );
                }
                let active = |event: &Value| event["kind"] == "active" && event["function"] == "raise";
                assert_eq!(events.iter().any(active), way != "_exit", "{what}: {}", shown.describe());
                // It is not known whether `raise` was called already.
                let forked = events.iter().filter(|event| event["kind"] == "forked").count();
                assert_eq!(forked, usize::from(way != "_exit"), "{what}: {}", shown.describe());
                let check = pcce_trace(&["check"], &program, &trace);
                assert!(check.stdout.contains(", 0 chunks do not match"), "{what}: {}", check.describe());
            }
        }
    }
}

/// There is no memory for the first chunk of a child: the trace says that something is missing, and has the parent.
#[test]
fn children_without_memory_are_missing() {
    let folder = work_folder("trace_forks/memory");
    fs::write(folder.join("program.c"), source!("traces/without_memory.c")).unwrap();
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    for mode in MODES {
        let _ = fs::remove_file(&trace);
        let mut clang = command(artifact("pcce-clang"), &["--pcce-trace", "-g", "-O1", mode]);
        run(clang.args(["program.c", "-o", "program"]).current_dir(&folder)).expect_success();
        let output = run(command(&program, &[]).env("PCCE_TRACE", &trace)).expect_success();
        assert_eq!(output.stdout, "7\n", "{mode}");
        let show = run({ command(artifact("pcce"), &["trace", "show"]) }.arg(&program).arg(&trace));
        assert!(
            show.stdout.contains("in_parent") && !show.stdout.contains("in_child"),
            "{}",
            show.describe()
        );
        for arguments in [&["find"][..], &["report"]] {
            let mut pcce = command(artifact("pcce"), &["trace"]);
            pcce.args(arguments).arg(&program).arg(&trace);
            if arguments == ["find"] {
                pcce.arg("in_child");
            }
            let output = run(&mut pcce);
            assert_eq!(output.status, 2, "{mode}: {}", output.describe());
        }
    }
}

/// Messages of the runtime do not end a program that itself does not write to standard error: not where that is a file
/// that may not become larger, and not where it is a pipe without a reader.
#[test]
fn messages_end_no_program() {
    let folder = work_folder("trace_forks/messages");
    fs::write(folder.join("program.c"), "int main(void) { return 5; }\n").unwrap();
    let mut clang = command(artifact("pcce-clang"), &["--pcce-trace", "-O1"]);
    run(clang.args(["program.c", "-o", "program"]).current_dir(&folder)).expect_success();
    let small = "ulimit -f 1; head -c 4000 /dev/zero > errors; PCCE_TRACE=trace exec ./program 2>> errors";
    let pipe = "{ sleep 0.2; PCCE_TRACE=/dev/null/none ./program; echo $? > status; } 2>&1 >/dev/null | true; \
                while [ ! -s status ]; do sleep 0.1; done; exit $(cat status)";
    for script in [small, pipe] {
        let output = run(command("sh", &["-c", script]).current_dir(&folder));
        assert_eq!(output.status, 5, "{script}: {}", output.describe());
    }
}

/// The calls of a process to `one`, `two`, and `compare`.
type Calls = [i64; 3];

/// A handler forks at any instruction, also of the tracer. The parent's trace stays exact. A child's has what the child
/// did except for some calls next to that place, or says that it does not know.
#[test]
fn handlers_may_fork_anywhere() {
    let folder = work_folder("trace_forks/timed");
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    for (flags, ring) in [
        (&["--pcce-trace", "--pcce-verify", "-O1"][..], false),
        (&["--pcce-trace", "-O2", "-static"], false),
        (&["--pcce-trace=blocks", "-O1"], true),
    ] {
        let mut clang = command(artifact("pcce-clang"), flags);
        let source = repository().join("testsuite/traces/timed.c");
        run(clang.arg("-g").arg(source).arg("-o").arg(&program)).expect_success();
        let _ = fs::remove_file(&trace);
        let mut start = command(&program, &["25"]);
        start.env("PCCE_TRACE", &trace).envs(ring.then_some(("PCCE_TRACE_RING", "256K")));
        let output = run(&mut start).expect_success();
        let made: HashMap<u64, Calls> = output
            .stdout
            .lines()
            .map(|line| {
                let numbers: Vec<i64> = line.split(' ').map(|n| n.parse().expect("a number")).collect();
                (numbers[0] as u64, [numbers[1], numbers[2], numbers[3]])
            })
            .collect();
        assert_eq!(made.len(), 26, "{flags:?}: {}", output.describe());
        let shown = pcce_trace(&["show", "--format", "json"], &program, &trace);
        let events = json_lines(&shown.stdout);
        let parent = events[0]["process"].as_u64().expect("a number");
        let mut recorded: HashMap<u64, Calls> = HashMap::new();
        let mut unknown: HashMap<u64, bool> = HashMap::new();
        for event in events.iter().filter(|event| event["level"] == 0) {
            let process = event["process"].as_u64().expect("a number");
            let kind = event["kind"].as_str().expect("a kind");
            // A ring does not have the place of the fork.
            *unknown.entry(process).or_default() |= kind == "gap" || ring && kind == "known";
            let names = ["one", "two", "compare"];
            let called = names.iter().position(|name| event["function"] == **name);
            if let Some(called) = called.filter(|_| kind == "call" || kind == "entered") {
                recorded.entry(process).or_default()[called] += 1;
            }
        }
        let mut known = 0;
        for (process, made) in &made {
            assert!(!unknown[process] || *process != parent || ring, "{flags:?}: the parent");
            if unknown[process] {
                continue;
            }
            let recorded = recorded.get(process).copied().unwrap_or_default();
            let most = if *process == parent { 0 } else { 12 };
            let is_near = made.iter().zip(recorded).all(|(made, recorded)| made.abs_diff(recorded) <= most);
            assert!(is_near, "{flags:?} {process}: {recorded:?}, not {made:?}");
            known += 1;
        }
        assert!(known > 12 || ring, "{flags:?}: {known} children are known");
        let check = pcce_trace(&["check"], &program, &trace);
        assert_ne!(check.status, 1, "{flags:?}: {}", check.describe());
    }
}

/// What is active in a child is what a function has left its activation to, and not that function.
#[test]
fn functions_that_left_are_not_active_in_children() {
    let folder = work_folder("trace_forks/left");
    fs::write(folder.join("program.c"), source!("traces/left_then_forked.c")).unwrap();
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    for mode in MODES {
        for (called, active) in [
            ("forks", &["main", "outer at", "forks [tail call]", "fork at"][..]),
            ("pointer", &["main", "outer at", "<left, left by a tail call>", "forks", "fork at"]),
        ] {
            let flags = ["--pcce-trace", "--pcce-verify", "-g", "-O1", mode, &format!("-DCALLED={called}")];
            let mut clang = command(artifact("pcce-clang"), &flags);
            run(clang.args(["program.c", "-o", "program"]).current_dir(&folder)).expect_success();
            let _ = fs::remove_file(&trace);
            run(command(&program, &[]).env("PCCE_TRACE", &trace)).expect_success();
            let shown = pcce_trace(&["show"], &program, &trace).expect_success().stdout;
            let (_, child) = shown.split_once("forked from").expect("the child has a trace");
            let lines: Vec<&str> = child.lines().skip(1).take(active.len()).collect();
            for (line, expected) in lines.iter().zip(active) {
                let text = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
                assert!(text.starts_with(expected), "{mode} {called}: {shown}");
                assert_eq!(
                    line.ends_with(" [active]"),
                    !expected.starts_with('<'),
                    "{mode} {called}: {shown}"
                );
            }
            let json = json_lines(&pcce_trace(&["show", "--format", "json"], &program, &trace).stdout);
            let is_left = |event: &&Value| event["kind"] == "active" && event["function"] == "left";
            assert_eq!(json.iter().filter(is_left).count(), 0, "{mode} {called}");
            let thread = json.last().expect("events of the child")["thread"].to_string();
            let mut at = command(artifact("pcce"), &["trace", "at", "--thread", &thread]);
            let at = run(at.arg(&program).arg(&trace).arg("1")).expect_success().stdout;
            let frames: Vec<&str> =
                at.lines().filter_map(|line| line.split_once("  ")).map(|(_, f)| f).collect();
            let names: Vec<&str> = frames.iter().map(|f| f.split(" at ").next().unwrap_or(f)).collect();
            let expected = ["leaf", "forks", "<left, left by a tail call>", "outer", "main"];
            assert_eq!(names, expected, "{mode} {called}: {at}");
        }
    }
}

/// The end of a child's stream can be read without its beginning, also where nothing was entered from outside since the
/// fork, and the tracer does not know the fork.
#[test]
fn rings_of_children_are_known() {
    let folder = work_folder("trace_forks/rings");
    fs::write(folder.join("program.c"), source!("traces/works_in_child.c")).unwrap();
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    let kinds = ["--pcce-trace", "--pcce-trace=blocks", "--pcce-trace"];
    for (place, (mode, kind)) in MODES.into_iter().zip(kinds).enumerate() {
        let flags = [kind, "--pcce-verify", "-g", "-O1", mode];
        let mut clang = command(artifact("pcce-clang"), &flags);
        run(clang.args(["program.c", "-o", "program"]).current_dir(&folder)).expect_success();
        let mut ends = Vec::new();
        for way in in_turn(place, ["none", "fork", "_Fork", "syscall"]) {
            let mut start = command(&program, &["1300000", way]);
            super::record(start.env("PCCE_TRACE_RING", "64K"), &trace);
            let shown = pcce_trace(&["show"], &program, &trace).expect_success().stdout;
            let stream = shown.split("thread ").last().expect("the child has a trace");
            let lines: Vec<&str> = stream
                .lines()
                .skip(1)
                .map(|line| line.trim_start_matches(|c: char| " 0123456789".contains(c)))
                .collect();
            let begin = ["<what came before was not kept>", "main [active]", "child at", "work at"];
            for (line, expected) in lines.iter().zip(begin) {
                assert!(line.starts_with(expected), "{mode} {way}: {line}, not {expected}");
            }
            assert!(lines.len() > 100_000, "{mode} {way}: {} lines", lines.len());
            ends.push(lines[lines.len() - 100_000..].join("\n"));
            let check = pcce_trace(&["check"], &program, &trace);
            assert!(check.stdout.contains(", 0 chunks do not match"), "{mode} {way}: {}", check.describe());
        }
        assert!(ends.iter().all(|end| *end == ends[0]), "{mode}: what the child did last is the same");
    }
}
