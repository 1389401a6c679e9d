//! Beginnings and ends in traces: processes and threads that end in order or by a crash, and code that runs before all
//! constructors.

use std::fs;
use std::path::{Path, PathBuf};

use super::pcce_trace;
use pcce_testsuite::{
    artifact, command, json_lines, llvm, repository, run, source, work_folder, write_files,
};
use serde_json::Value;

const MODES: [&str; 3] = ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"];

fn build(folder: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let program = folder.join("program");
    let mut build = command(artifact("pcce-clang"), &["--pcce-trace", "-g", "-O1", "-pthread"]);
    build.args(flags).arg(repository().join("testsuite/traces").join(source));
    run(build.arg("-o").arg(&program)).expect_success();
    program
}

/// A stream: its calls, callee and depth, and all of its events.
type Stream = (Vec<(String, u64)>, Vec<Value>);

/// Runs a program with a new trace. Returns its streams.
fn calls(program: &Path, argument: &str, ring: Option<&str>) -> Vec<Stream> {
    let trace = program.with_extension("trace");
    let _ = fs::remove_file(&trace);
    let mut start = command(program, &[argument]);
    start.env("PCCE_TRACE", &trace).env("PCCE_CRASH_REPORT", program.with_extension("report"));
    let _ = run(start.envs(ring.map(|ring| ("PCCE_TRACE_RING", ring))));
    let events =
        json_lines(&pcce_trace(&["show", "--format", "json"], program, &trace).expect_success().stdout);
    let mut streams: Vec<(u64, Vec<Value>)> = Vec::new();
    for event in events {
        let stream = event["stream"].as_u64().expect("a number");
        match streams.last_mut().filter(|last| last.0 == stream) {
            Some(last) => last.1.push(event),
            None => streams.push((stream, vec![event])),
        }
    }
    let is_call = |event: &&Value| {
        let kind = event["kind"].as_str().expect("a kind");
        ["call", "closed-call", "open-call", "entered"].contains(&kind)
    };
    let call = |event: &Value| {
        (event["function"].as_str().unwrap_or_default().to_owned(), event["depth"].as_u64().expect("a depth"))
    };
    let streams = streams
        .into_iter()
        .map(|(_, events)| (events.iter().filter(is_call).map(call).collect::<Vec<_>>(), events));
    streams.collect()
}

fn count(calls: &[(String, u64)], function: &str) -> usize {
    calls.iter().filter(|call| call.0 == function).count()
}

/// A child that ends in any way has fewer events than fill a word.
#[test]
fn children_with_few_events_are_in_the_trace() {
    for mode in MODES {
        let program = build(&work_folder(&format!("trace_ends/children{mode}")), "ends.c", &[mode]);
        for way in ["exit", "quick_exit", "_exit", "pthread_exit", "return", "killed", "thread"] {
            let streams = calls(&program, way, None);
            let process = |events: &[Value]| events[0]["process"].as_u64();
            let of_child = streams.iter().find(|(_, events)| process(events) != process(&streams[0].1));
            let (calls, events) = of_child.unwrap_or_else(|| panic!("{mode} {way}: no child"));
            if way == "killed" {
                // The pending events went with it.
                continue;
            }
            assert_eq!(count(calls, "note"), 3, "{mode} {way}: {calls:?}");
            let ended = &events.last().expect("an end")["ended"];
            assert_eq!(ended, true, "{mode} {way}");
            if ["exit", "_exit", "quick_exit", "pthread_exit"].contains(&way) {
                assert_eq!(calls.last().expect("calls").0, way, "{mode}");
            }
        }
    }
}

/// The events of threads that wait while another one ends the process.
#[test]
fn threads_that_wait_lose_nothing_at_an_exit() {
    let folder = work_folder("trace_ends/threads");
    for (flags, way) in [(&[][..], "threads"), (&["--pcce-crash-report"], "threads-crash")] {
        let program = build(&folder, "ends.c", flags);
        for ring in [None, Some("256K")] {
            let mut notes: Vec<usize> = Vec::new();
            for (calls, events) in calls(&program, way, ring).iter().skip(1) {
                let returned = |event: &Value| event["kind"] == "return" && event["function"] == "work";
                assert!(events.iter().any(returned), "{way}: {events:?}");
                notes.push(count(calls, "note"));
            }
            notes.sort_unstable();
            assert_eq!(notes, [2, 4, 6], "{way}");
        }
    }
    let main = &calls(&folder.join("program"), "threads-crash", None)[0].0;
    assert_eq!(count(main, "note"), 4, "up to the crash: {main:?}");
}

/// A flush is no end: what follows it may be missing where the process is killed, and is there where it crashes.
#[test]
fn a_flush_is_no_end() {
    for mode in MODES {
        let folder = work_folder(&format!("trace_ends/flushed{mode}"));
        let program = build(&folder, "ends.c", &[mode, "--pcce-crash-report"]);
        for ring in [None, Some("256K")] {
            for (way, notes, ended) in
                [("flushed-killed", 3, false), ("flushed-crash", 3 + 7, false), ("flushed", 3 + 7 + 2, true)]
            {
                let streams = calls(&program, way, ring);
                let (calls, events) = &streams[0];
                assert_eq!(count(calls, "note"), notes, "{mode} {way}: {calls:?}");
                assert_eq!(count(calls, "pcce_trace_flush"), 1, "{mode} {way}: {calls:?}");
                assert_eq!(events.last().expect("an end")["ended"], ended, "{mode} {way}");
                let said = pcce_trace(&["report"], &program, &program.with_extension("trace")).stderr;
                let is_lost = said.contains("1 threads, or their signal handlers, have no end");
                assert_eq!(is_lost, way == "flushed-killed", "{way}: {said}");
            }
        }
    }
}

/// A daemon's parent ends in the C library, where its pending events are not written.
#[test]
fn daemons_are_in_the_trace() {
    for mode in MODES {
        let program = build(&work_folder(&format!("trace_ends/daemon{mode}")), "ends.c", &[mode]);
        let streams = calls(&program, "daemon", None);
        let process = |events: &[Value]| events[0]["process"].as_u64();
        let of_child = streams.iter().find(|(_, events)| process(events) != process(&streams[0].1));
        let (calls, events) = of_child.expect("a child");
        assert_eq!((count(calls, "work"), count(calls, "note")), (1, 3), "{mode}: {calls:?}");
        assert!(events.iter().all(|event| event["kind"] != "gap"), "{mode}: {events:?}");
    }
}

/// A call through a null pointer crashes outside of any code.
#[test]
fn a_jump_to_nowhere_loses_nothing() {
    let folder = work_folder("trace_ends/nowhere");
    for mode in MODES {
        let program = build(&folder, "ends.c", &[mode, "--pcce-crash-report"]);
        let main = &calls(&program, "nowhere", None)[0].0;
        assert_eq!(count(main, "note"), 4, "{mode}: {main:?}");
    }
}

/// Recursion without a branch is shown call by call, although it writes no events.
#[test]
fn endless_recursion_is_in_the_trace() {
    for mode in MODES {
        let folder = work_folder(&format!("trace_ends/recursion{mode}"));
        for flags in [&[mode, "--pcce-crash-report"][..], &[mode]] {
            let program = build(&folder, "ends.c", flags);
            let output = run(command(&program, &["recursion"]).env("PCCE_CRASH_REPORT", "/dev/null"));
            assert_eq!(output.status, 128 + 11, "{}", output.describe());
            let trace = folder.join("trace");
            let _ = fs::remove_file(&trace);
            let _ = run(command(&program, &["recursion"]).env("PCCE_TRACE", &trace));
            let report =
                pcce_trace(&["report", "--format", "json"], &program, &trace).expect_success().stdout;
            let calls = |name: &str| {
                let row = json_lines(&report).into_iter().find(|row| row["function"] == name);
                row.and_then(|row| row["calls"].as_u64()).unwrap_or(0)
            };
            let [one, two] = ["endless", "recurses"].map(calls);
            assert!(one > 10_000 && two.abs_diff(one) < 2, "{mode}: {one}, {two}");
        }
    }
}

/// No code can run before the tracer.
#[test]
fn what_runs_before_constructors_is_traced() {
    for mode in MODES {
        for link in [&[][..], &["-static"], &["-no-pie"]] {
            let folder = work_folder(&format!("trace_ends/early{mode}"));
            let program = build(&folder, "early.c", &[&[mode], link].concat());
            let streams = calls(&program, "", None);
            let names: Vec<&str> = streams[0].0.iter().map(|call| &*call.0).collect();
            assert_eq!(names, ["early", "note", "main", "note", "note"], "{mode} {link:?}");
        }
    }
}

/// After a gap the calls of a function whose name is recorded are known again. Those of its caller are not.
#[test]
fn a_gap_is_reported() {
    let folder = work_folder("trace_ends/gap");
    let plain = source!("traces/gap/plain.cpp");
    let own = source!("traces/gap/own.cpp");
    write_files(&folder, [("plain.cpp", plain), ("own.cpp", own)]);
    let mut clang = command(llvm("clang++"), &["-O1", "-c", "plain.cpp", "-o", "plain.o"]);
    run(clang.current_dir(&folder)).expect_success();
    for mode in MODES {
        let mut clang = command(artifact("pcce-clang++"), &["--pcce-trace", "-g", "-O1", mode]);
        run(clang.args(["own.cpp", "plain.o", "-o", "program"]).current_dir(&folder)).expect_success();
        let (program, trace) = (folder.join("program"), folder.join("trace"));
        let _ = fs::remove_file(&trace);
        run(command(&program, &[]).env("PCCE_TRACE", &trace)).expect_success();
        let shown = pcce_trace(&["show"], &program, &trace);
        assert_eq!(shown.status, 2, "{}", shown.describe());
        let (_, behind) = shown.stdout.rsplit_once("Base::named").expect("it is there");
        let recorded =
            behind.contains("its caller is not known; unknown from here on") || behind.contains("after");
        assert!(recorded, "{mode}: {}", shown.stdout);
    }
}

/// A program that sets handlers of C++ is traced.
#[test]
fn programs_may_set_handlers() {
    let folder = work_folder("trace_ends/handlers");
    let text = source!("traces/sets_handlers.cpp");
    fs::write(folder.join("program.cpp"), text).unwrap();
    for mode in MODES {
        let mut clang = command(artifact("pcce-clang++"), &["--pcce-trace", "-g", "-w", "-O1", mode]);
        run(clang.args(["program.cpp", "-o", "program"]).current_dir(&folder)).expect_success();
        let streams = calls(&folder.join("program"), "", None);
        let all: Vec<_> = streams.into_iter().flat_map(|(calls, _)| calls).collect();
        for function in ["ends()", "more()"] {
            assert_eq!(count(&all, function), 1, "{mode} {function}: {all:?}");
        }
        assert_eq!(count(&all, "says(char const*)"), 3, "{mode}: {all:?}");
    }
}

/// The calls of a thread by the way in which it is ended. `one` to `three` are in the trace by name, and the program
/// prints those that were made.
const ENDED: &str = source!("traces/thread_ends/own.c");

/// A thread is ended in the middle. No call appears that was not made. If a call that was made is missing, the trace
/// says so. Calls of the thread after that are in the trace.
#[test]
fn threads_are_ended_in_the_middle() {
    let folder = work_folder("trace_ends/in_the_middle");
    let plain = source!("traces/thread_ends/plain.c");
    write_files(&folder, [("plain.c", plain), ("own.c", ENDED), ("own.cpp", ENDED)]);
    let mut clang = command(llvm("clang"), &["-O1", "-fexceptions", "-c", "plain.c", "-o", "plain.o"]);
    run(clang.current_dir(&folder)).expect_success();
    for mode in ["--pcce-mode=link", "--pcce-mode=module", "--pcce-mode=lto"] {
        for (driver, words) in [
            ("pcce-clang", &["own.c", "-O1"][..]),
            ("pcce-clang", &["own.c", "-O1", "-fexceptions"]),
            ("pcce-clang++", &["own.cpp", "-O1"]),
        ] {
            let mut clang = command(artifact(driver), &["--pcce-trace", "--pcce-verify", "-g", mode]);
            clang.args(words).args(["plain.o", "-pthread", "-o", "program"]).current_dir(&folder);
            run(&mut clang).expect_success();
            for way in
                ["sleeps", "below", "spins", "exits", "callee", "plain", "returns", "library", "cleans"]
            {
                let what = format!("{mode} {words:?} {way}");
                let pads = words[0] == "own.cpp" || words.len() == 3;
                let exact = match way {
                    "exits" | "callee" | "returns" | "library" => true,
                    "spins" => false,
                    _ => pads,
                };
                ended_thread(&folder, way, exact, &what);
            }
            if words == ["own.cpp", "-O1"] {
                // The source has a cleanup in the one function, and none in the other.
                let show = command(artifact("pcce"), &["trace", "show", "program", "trace"]);
                let shown = run({ show }.current_dir(&folder)).stdout;
                assert!(shown.contains("<exception caught in cleans"), "{shown}");
                assert!(shown.contains("<exception passed on by runs"), "{shown}");
            }
        }
    }
}

/// A cancellation may end a change of the stream anywhere. The cleanup goes on with another stream, and the program
/// ends as without the trace.
#[test]
fn threads_may_be_cancelled_while_their_streams_change() {
    let folder = work_folder("trace_ends/cancelled_anywhere");
    let source = repository().join("testsuite/traces/cancelled_anywhere.c");
    for (mode, flags) in [("link", &["-O1"][..]), ("lto", &["-O2", "-fexceptions"]), ("module", &["-O1"])] {
        let (program, trace) = (folder.join(mode), folder.join("trace"));
        let mode = format!("--pcce-mode={mode}");
        let mut clang = command(artifact("pcce-clang"), &["--pcce-trace", "-g", "-pthread", &mode]);
        run(clang.args(flags).arg(&source).arg("-o").arg(&program)).expect_success();
        for ring in [None, Some("64K")] {
            let _ = fs::remove_file(&trace);
            let mut start = command(&program, &[]);
            start.env("PCCE_TRACE", &trace).envs(ring.map(|ring| ("PCCE_TRACE_RING", ring)));
            run(&mut start).expect_success();
            let report = pcce_trace(&["report"], &program, &trace);
            assert!(report.stdout.contains("leaf"), "{mode} {ring:?}: {}", report.describe());
        }
    }
}

fn ended_thread(folder: &Path, way: &str, exact: bool, what: &str) {
    let trace = folder.join("trace");
    let _ = fs::remove_file(&trace);
    let output = run(command(folder.join("program"), &[way]).env("PCCE_TRACE", &trace)).expect_success();
    let names = ["one", "two", "three", "last"];
    let made: Vec<&str> = output.stdout.lines().filter(|line| names.contains(line)).collect();
    let pcce = |words: &[&str]| {
        let mut pcce = command(artifact("pcce"), &["trace"]);
        run(pcce.args(words).args(["program", "trace"]).current_dir(folder))
    };
    let shown = pcce(&["show", "--format", "json"]);
    let recorded: Vec<String> = json_lines(&shown.stdout)
        .iter()
        .filter(|event| event["kind"] == "call" || event["kind"] == "entered")
        .filter_map(|event| event["function"].as_str())
        .map(|name| name.split('(').next().unwrap_or_default().to_owned())
        .filter(|name| names.contains(&&**name))
        .collect();
    let mut left = made.iter();
    assert!(
        recorded.iter().all(|recorded| left.any(|made| made == recorded)),
        "{what}: {recorded:?}, not {made:?}"
    );
    assert!(recorded.last().is_some_and(|recorded| recorded == "last"), "{what}: {}", shown.describe());
    if exact {
        assert_eq!((shown.status, recorded.len()), (0, made.len()), "{what}: {}", shown.describe());
    } else {
        assert_eq!(shown.status, 2, "{what}: {}", shown.describe());
        assert!(shown.stdout.contains("\"interrupted\""), "{what}: {}", shown.describe());
    }
    let check = pcce(&["check"]);
    assert!(check.stdout.contains(", 0 chunks do not match"), "{what}: {}", check.describe());
}

/// A forked child begins in the calls of its parent: all commands know these calls, and no event is missing.
#[test]
fn children_begin_in_what_their_parents_had_called() {
    for mode in MODES {
        let program =
            build(&work_folder(&format!("trace_ends/inherited{mode}")), "ends.c", &[mode, "-fno-inline"]);
        let streams = calls(&program, "exit", None);
        let (_, child) = &streams[1];
        let began = child.iter().take_while(|event| event["kind"] == "active");
        let began: Vec<_> =
            began.map(|event| (event["function"].as_str(), event["depth"].as_u64())).collect();
        assert_eq!(began, [(Some("main"), Some(0)), (Some("fork"), Some(1))], "{mode}: {child:?}");
        let trace = program.with_extension("trace");
        let pcce = |words: &[&str]| {
            let mut pcce = command(artifact("pcce"), &["trace"]);
            run(pcce.args(words).arg(&program).arg(&trace)).expect_success().stdout
        };
        let folded = pcce(&["export", "--format", "folded"]);
        assert!(folded.contains("main;child;work;note 3\n"), "{mode}: {folded}");
        let sum: u64 =
            folded.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
        let report = pcce(&["report"]);
        assert!(report.starts_with(&format!("{sum} events, ")), "{mode}: {folded}{report}");
        let row = report.lines().find(|line| line.ends_with("  main")).expect("a row");
        assert_eq!(row.split_whitespace().next(), Some("1"), "{mode}: it was called once: {report}");
        let chrome = pcce(&["export", "--format", "chrome"]);
        assert_eq!(chrome.matches(r#""name":"main""#).count(), 2, "{mode}: {chrome}");
    }
}

/// Handlers that register others, in destructors, objects and other handlers, and all ways to call `exit`. The program
/// prints each of `one` to `three`.
const HANDLERS: &str = source!("traces/exit_handlers.cpp");

/// Handlers that are registered while destructors or other handlers run are in the trace, in any order.
#[test]
fn what_exit_calls_last_is_in_the_trace() {
    let folder = work_folder("trace_ends/handlers_of_exit");
    fs::write(folder.join("program.cpp"), HANDLERS).unwrap();
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    for mode in MODES {
        for linked in ["-static", "-static-pie", "-pie", "-no-pie"] {
            let flags = ["--pcce-trace", "--pcce-verify", "-g", "-O1", "-pthread", mode, linked];
            let mut clang = command(artifact("pcce-clang++"), &flags);
            run(clang.args(["program.cpp", "-o", "program"]).current_dir(&folder)).expect_success();
            for (way, ring) in [
                ("return", None),
                ("return", Some("64K")),
                ("thread", None),
                ("signal", None),
                ("quick", None),
            ] {
                let what = format!("{mode} {linked} {way} {ring:?}");
                let _ = fs::remove_file(&trace);
                let mut start = command(&program, &[way]);
                start.env("PCCE_TRACE", &trace).envs(ring.map(|ring| ("PCCE_TRACE_RING", ring)));
                let output = run(&mut start).expect_success();
                let pcce = |command_of: &str| {
                    let mut pcce = command(artifact("pcce"), &["trace", command_of]);
                    run(pcce.args(["--format", "json"]).arg(&program).arg(&trace))
                };
                // The code that the handler has interrupted does not go on.
                let status = if way == "signal" { 2 } else { 0 };
                let shown = pcce("show");
                assert_eq!(shown.status, status, "{what}: {}", shown.describe());
                let made = |name: &str| output.stdout.lines().filter(|line| *line == name).count();
                let events = json_lines(&shown.stdout);
                let recorded = |name: &str| {
                    let is_call = |event: &&Value| event["kind"] == "call" || event["kind"] == "entered";
                    events.iter().filter(is_call).filter(|event| event["function"] == name).count()
                };
                for name in ["one", "two", "three", "quick"] {
                    assert_eq!(
                        recorded(&format!("{name}()")),
                        made(name),
                        "{what} {name}: {}",
                        shown.describe()
                    );
                }
                let least = if way == "quick" { 3 } else { 15 };
                assert!(made("two") + made("three") >= least, "{what}: {}", output.describe());
                let ends: Vec<_> = events.iter().filter(|event| event["kind"] == "end").collect();
                // If another thread calls `exit`, `main` has no end.
                let open = ends.iter().filter(|event| event["ended"] != true).count();
                assert_eq!(open, usize::from(way == "thread"), "{what}: {}", shown.describe());
                let check = pcce("check");
                assert!(
                    check.status == status && check.stdout.contains("\"mismatches\":0"),
                    "{what}: {}",
                    check.describe()
                );
            }
        }
    }
}

/// Calls of the C library after all handlers are in the trace, or the trace says that they are missing.
#[test]
fn what_comes_behind_all_handlers_is_not_missing_in_silence() {
    let folder = work_folder("trace_ends/behind");
    let text = source!("traces/behind_handlers.c");
    fs::write(folder.join("program.c"), text).unwrap();
    for linked in ["-static", "-pie"] {
        let mut clang = command(artifact("pcce-clang"), &["--pcce-trace", "-g", "-O1", linked]);
        run(clang.args(["program.c", "-o", "program"]).current_dir(&folder)).expect_success();
        let streams = calls(&folder.join("program"), "", None);
        let (calls, events) = &streams[0];
        assert!(count(calls, "writes") == 1 && streams.len() == 1, "{linked}: {calls:?}");
        assert_eq!(events.last().expect("an end")["ended"], false, "{linked}");
    }
}

/// A failed call of `exec` is no end.
#[test]
fn what_comes_behind_exec_is_not_missing_in_silence() {
    let folder = work_folder("trace_ends/exec");
    let text = source!("traces/failed_exec.c");
    fs::write(folder.join("program.c"), text).unwrap();
    for mode in MODES {
        let mut clang = command(artifact("pcce-clang"), &["--pcce-trace", "-g", "-O1", mode]);
        run(clang.args(["program.c", "-o", "program"]).current_dir(&folder)).expect_success();
        for (way, ended) in [("kill", false), ("end", true)] {
            let (calls, events) = calls(&folder.join("program"), way, None).remove(0);
            assert_eq!(events.last().expect("an end")["ended"], ended, "{mode} {way}");
            assert!(!ended || count(&calls, "one") == 2, "{mode} {way}: {calls:?}");
        }
    }
}
