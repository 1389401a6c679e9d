//! Traces of calls, end to end: the reader must reproduce the events of programs in verify mode, and commands show
//! them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{pcce_trace, record};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use pcce::trace::TraceFile;
use pcce_abi::trace::{ENDED, KIND_STREAM, event, hash};
use pcce_dictionary::trace as tables;
use pcce_testsuite::turns::{all_cases, in_turn};
use pcce_testsuite::{
    artifact, command, include, json_lines, repository, run, source, trace_words, work_folder,
};
use serde_json::Value;

fn program(name: &str) -> PathBuf {
    repository().join("testsuite/programs").join(name)
}

/// Builds a program that writes traces, and runs it. Returns the program and its trace.
fn traced(source: &Path, flags: &[&str], folder: &Path) -> (PathBuf, PathBuf) {
    traced_with(source, flags, "", folder)
}

/// The same, with options of the pass.
fn traced_with(source: &Path, flags: &[&str], options: &str, folder: &Path) -> (PathBuf, PathBuf) {
    let compiler = if source.extension().is_some_and(|e| e == "cpp") { "pcce-clang++" } else { "pcce-clang" };
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    let include = include("runtime-lib/include");
    let mut build = command("env", &[&format!("PCCE_OPTIONS={options}")]);
    build.arg(artifact(compiler)).args(["--pcce-trace", "-g", "-pthread", &include]);
    run(build.args(flags).arg(source).arg("-o").arg(&program)).expect_success();
    record(&mut command(&program, &[]), &trace);
    (program, trace)
}

#[test]
fn the_reader_finds_every_call() {
    every_event("calls");
}

#[test]
fn the_reader_finds_every_block() {
    every_event("blocks");
}

/// Recursion, callbacks, pointers, exceptions, `longjmp`, tail calls, threads: every event, in its order.
fn every_event(what: &str) {
    let (mut begun, mut from_the_end) = (0, 0);
    for (n, name) in [
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
    ]
    .into_iter()
    .enumerate()
    {
        let modes = ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"];
        // Each program is built in each mode, for calls or for blocks.
        let first = n + usize::from(what == "blocks");
        for mode in in_turn(first, modes) {
            let folder = work_folder(&format!("traces/{name}{mode}-{what}"));
            let granularity = format!("--pcce-trace={what}");
            let flags = ["-O2", "--pcce-verify", mode, &granularity];
            let (program, trace) = traced(&program(name), &flags, &folder);
            let checked = pcce_trace(&["check"], &program, &trace).expect_success();
            let events: u64 = checked.stdout.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            assert!(
                events > 0 && checked.stdout.contains(", 0 chunks do not match"),
                "{}",
                checked.describe()
            );
            // Chunks begin at many places, and can be read from there. So can a ring.
            for ring in [None, Some("256K")] {
                let _ = fs::remove_file(&trace);
                let mut start = command(&program, &[]);
                let start = start.env("PCCE_TRACE", &trace).env("PCCE_TRACE_STRESS", "1");
                run(start.envs(ring.map(|ring| ("PCCE_TRACE_RING", ring)))).expect_success();
                let output = pcce_trace(&["check"], &program, &trace);
                let chunks = output.stdout.lines().nth(1).unwrap_or_default();
                // Nothing marks the end of such a stream.
                let ends = chunks.split_once("; ").and_then(|(_, rest)| rest.split(' ').next());
                let parse = |number: &str| number.parse();
                let ends: usize =
                    ends.map_or(Ok(0), parse).unwrap_or_else(|_| panic!("{name} {mode}: {chunks}"));
                let streams = TraceFile::open(&trace).expect("a trace").streams.len();
                assert!(chunks.is_empty() || chunks.contains(", 0 do not match"), "{name} {mode}: {chunks}");
                assert!(ends <= streams, "{name} {mode}: {chunks}");
                begun += usize::from(!chunks.starts_with("0 ") && !chunks.is_empty());
                assert!(!chunks.contains("innermost"), "{name} {mode}: {chunks}");
                let shown = pcce_trace(&["show"], &program, &trace);
                assert_eq!(shown.status, 0, "{name} {mode} {ring:?}: {}", shown.stderr);
                if events < 20_000 {
                    from_the_end += last_events(&program, &trace);
                }
            }
        }
    }
    assert!(begun > if all_cases() { 15 } else { 7 }, "{begun} traces of {what} had chunks to begin at");
    assert!(from_the_end > 20, "{from_the_end} times, only the end of a stream was read");
}

/// The last events, for which only the end of a trace is read, are those of the whole trace. Returns how many times
/// reading has begun in the midst of a stream.
fn last_events(program: &Path, trace: &Path) -> usize {
    let shown = |arguments: &[&str]| {
        let shown = pcce_trace(&[&["show", "--format", "json"], arguments].concat(), program, trace);
        assert_eq!(shown.status, 0, "{arguments:?}: {}", shown.stderr);
        let mut streams: BTreeMap<u64, Vec<(i64, Value)>> = BTreeMap::new();
        for mut line in json_lines(&shown.stdout) {
            let number = line["event"].take().as_i64().expect("a number");
            streams.entry(line["stream"].as_u64().expect("a number")).or_default().push((number, line));
        }
        streams
    };
    let whole = shown(&[]);
    let mut from_the_end = 0;
    for last in [1, 30, 200] {
        for (stream, events) in shown(&["--last", &last.to_string()]) {
            let all = &whole[&stream];
            let count = all.last().expect("events").0;
            let is_from_the_end = events[0].0 < 0;
            let base = if is_from_the_end { count + 1 } else { 0 };
            let numbered = events.into_iter().map(|(number, event)| (number + base, event));
            let expected = all.iter().filter(|(number, _)| *number > count - last).cloned();
            assert_eq!(numbered.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{}", program.display());
            from_the_end += usize::from(is_from_the_end);
        }
    }
    from_the_end
}

/// A chunk that begins within the first call of a landing pad continues after that call.
#[test]
fn chunks_begin_in_landing_pads() {
    let folder = work_folder("traces/cleanup");
    let source = repository().join("testsuite/traces/cleanup.cpp");
    for mode in ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"] {
        let (program, trace) = traced(&source, &["-O1", "--pcce-verify", mode], &folder);
        for words in ["1", "2", "3"] {
            let _ = fs::remove_file(&trace);
            let mut stressed = command(&program, &[]);
            let stressed = stressed.env("PCCE_TRACE", &trace).env("PCCE_TRACE_STRESS", words);
            run(stressed).expect_success();
            let checked = pcce_trace(&["check"], &program, &trace).expect_success().stdout;
            let chunks = checked.lines().nth(1).expect("a line of chunks");
            assert!(chunks.contains(", 0 do not match"), "{mode}: {chunks}");
        }
    }
}

/// The output for users: calls in their order, with callbacks.
#[test]
fn calls_are_shown_in_their_order() {
    let folder = work_folder("traces/shown");
    let source = folder.join("loop.c");
    fs::write(&source, source!("traces/loop.c")).unwrap();
    let (program, trace) = traced(&source, &["-O2"], &folder);
    let shown = pcce_trace(&["show"], &program, &trace).expect_success();
    let names: Vec<&str> = shown.stdout.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    let called_back = names.iter().filter(|name| **name == "compare").count();
    let others: Vec<&str> = names.iter().copied().filter(|name| *name != "compare").collect();
    assert!(called_back >= 2, "{}", shown.stdout);
    assert_eq!(others[1..], ["main", "qsort", "even", "odd", "even", "even", "<end>"], "{}", shown.stdout);
}

const CRASHES: &str = source!("traces/aborts.c");

/// A crash leaves the ring, the crash report and the core file name it, and both end at the same call.
#[test]
fn a_crash_leaves_the_ring() {
    let folder = work_folder("traces/crash");
    let (source, program) = (folder.join("crash.c"), folder.join("crash"));
    fs::write(&source, CRASHES).unwrap();
    let flags = ["--pcce-trace", "--pcce-mode=lto", "-g", "-O1", "-o"];
    run(command(artifact("pcce-clang"), &flags).arg(&program).arg(&source)).expect_success();
    let (trace, report, core) = (folder.join("trace"), folder.join("report"), folder.join("core"));
    let mut start = command("gdb", &["-batch", "-nx", "-ex", "run", "-ex"]);
    start.arg(format!("generate-core-file {}", core.display())).arg(&program);
    start.env("PCCE_TRACE", &trace).env("PCCE_TRACE_RING", "256K");
    run(&mut start).expect_success();
    let mut alone = command(&program, &[]);
    alone.env("PCCE_TRACE", &trace).env("PCCE_TRACE_RING", "256K").env("PCCE_CRASH_REPORT", &report);
    let reported = run(command(artifact("pcce"), &["core"]).arg(&program).arg(&core)).expect_success();
    let name = format!("trace: {}", trace.display());
    assert!(reported.stdout.lines().any(|line| line == name), "{}", reported.stdout);
    assert_ne!(run(&mut alone).status, 0);
    let written = fs::read_to_string(&report).expect("a report");
    assert!(written.lines().any(|line| line == name), "{written}");
    let thread = written.lines().find_map(|line| line.strip_prefix("thread: ")).expect("a thread");
    let thread = thread.split(' ').next().unwrap_or_default();
    let last = pcce_trace(&["show", "--thread", thread, "--last", "4"], &program, &trace);
    let calls: Vec<&str> = last.stdout.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert!(calls.ends_with(&["abort", "<end>"]) || calls.contains(&"abort"), "{}", last.stdout);
}

/// A fault at once: the events that a thread had not written are in the core file.
#[test]
fn a_core_file_has_the_last_bits() {
    let folder = work_folder("traces/core");
    let (source, program) = (folder.join("crash.c"), folder.join("crash"));
    let crashes = CRASHES.replace("abort();", "*(volatile int *)0 = 1;");
    fs::write(&source, crashes).unwrap();
    for (count, ring) in [("30", None), ("3000000", Some("256K")), ("3000007", None)] {
        let text = fs::read_to_string(&source).unwrap().replace("3000000", count);
        fs::write(&source, &text).unwrap();
        let flags = ["--pcce-trace", "--pcce-mode=lto", "-g", "-O1", "-o"];
        run(command(artifact("pcce-clang"), &flags).arg(&program).arg(&source)).expect_success();
        fs::write(&source, text.replace(&format!("i = {count}"), "i = 3000000")).unwrap();
        let (trace, core, whole) = (folder.join("trace"), folder.join("core"), folder.join("whole"));
        let _ = fs::remove_file(&trace);
        let mut start = command("gdb", &["-batch", "-nx", "-ex", "run", "-ex"]);
        start.arg(format!("generate-core-file {}", core.display())).arg(&program);
        start.env("PCCE_TRACE", &trace).envs(ring.map(|ring| ("PCCE_TRACE_RING", ring)));
        run(&mut start).expect_success();
        let mut read = command(artifact("pcce"), &["core", "--trace"]);
        run(read.arg(&whole).arg(&program).arg(&core)).expect_success();
        let events = |trace: &Path| -> u64 {
            let shown = pcce_trace(&["stats", "--format", "json"], &program, trace).stdout;
            let stats: serde_json::Value = serde_json::from_str(&shown).expect("a document");
            stats["events"].as_u64().expect("a number")
        };
        let (before, after) = (events(&trace), events(&whole));
        assert!(after > before && after - before < 200, "{count}: {before} and {after}");
        let mut at = command(artifact("pcce"), &["trace", "at"]);
        let last = run(at.arg(&program).arg(&whole).arg(after.to_string())).stdout;
        let frames: Vec<&str> = last.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(frames[1..4], ["last", "step", "main"], "{count}: {last}");
    }
}

/// The path of the program line by line, and how often each line was executed: 6, 3, 10, 5, 16, 8, 4, 2, 1.
#[test]
fn blocks_are_shown_by_their_lines() {
    let folder = work_folder("traces/lines");
    let source = folder.join("steps.c");
    fs::write(&source, source!("traces/lines_of_branches.c")).unwrap();
    for mode in ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"] {
        let (program, trace) =
            traced(&source, &["-O1", "--pcce-trace=blocks", "--pcce-verify", mode], &folder);
        let _ = pcce_trace(&["check"], &program, &trace).expect_success();
        let shown = pcce_trace(&["show", "--lines"], &program, &trace).expect_success();
        let of_line = |number: u32| {
            let line = |text: &&str| text.contains("steps.c:") && text.contains(&format!(":{number}"));
            shown.stdout.lines().filter(|text| text.contains(" line ")).filter(line).count()
        };
        assert_eq!((of_line(6), of_line(8), of_line(16)), (2, 6, 0), "{mode}: {}", shown.stdout);
        let without = pcce_trace(&["show"], &program, &trace).expect_success();
        assert!(!without.stdout.contains(" line "), "{}", without.stdout);
        let covered = pcce_trace(&["coverage"], &program, &trace).expect_success().stdout;
        for line in ["FNDA:2,steps", "FNDA:1,main", "DA:6,2", "DA:8,6", "DA:11,2", "DA:16,0", "DA:17,1"] {
            assert!(covered.lines().any(|found| found == line), "{mode}, {line}: {covered}");
        }
    }
    // Times increase, and end when the program did.
    let (program, trace) = traced(&source, &["-O1", "--pcce-trace=blocks"], &folder);
    let shown = pcce_trace(&["show", "--times"], &program, &trace).expect_success().stdout;
    let times: Vec<f64> =
        shown.lines().skip(1).map(|line| line.split(" s ").next().unwrap().trim().parse().unwrap()).collect();
    assert!(times.len() > 10 && times.is_sorted() && times.last().is_some_and(|last| *last < 5.0), "{shown}");
    // A trace of calls only has no lines.
    let (program, trace) = traced(&source, &["-O1"], &folder);
    for command in [&["coverage"][..], &["show", "--lines"]] {
        let refused = pcce_trace(command, &program, &trace);
        assert!(refused.status == 2 && refused.stderr.contains("--pcce-trace=blocks"), "{}", refused.stderr);
    }
}

/// Recorded numbers of all calls and returns (casper.txt, FI), which need no reconstruction, are the reader's events:
/// both have the same hash.
#[test]
fn all_numbers_are_the_events() {
    for name in ["acyclic.c", "callbacks.c", "exceptions.cpp", "jumps.c", "pointers.c", "recursion.c"] {
        let folder = work_folder(&format!("traces/baselines/{name}"));
        let lto = ["-O2", "--pcce-mode=lto"];
        let (ours, trace) = traced(&program(name), &[&lto[..], &["--pcce-verify"]].concat(), &folder);
        let checked = pcce_trace(&["check"], &ours, &trace).expect_success();
        assert!(checked.stdout.contains(", 0 chunks do not match"), "{}", checked.describe());
        let last = |chunks: &[trace_words::Chunk]| {
            let mut ended = chunks.iter().filter(|chunk| chunk.kind == KIND_STREAM && chunk.end == ENDED);
            ended.next_back().expect("a stream").counted
        };
        let expected = last(&trace_words::read(&trace));
        let bytes = fs::read(&ours).expect("a program");
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let section = file.section_by_name(tables::SECTION).and_then(|section| section.data().ok());
        let [traced] = &tables::parse(section.expect("tables")).expect("tables")[..] else {
            panic!("modules")
        };
        let events: Vec<u64> = (0..)
            .zip(&traced.functions)
            .flat_map(|(function, row)| (0..row.nodes.len() as u32).map(move |node| (function, node)))
            .map(|(function, node)| event(traced.key, function, node))
            .collect();
        let mut sizes = Vec::new();
        for baseline in ["fi", "bri", "casper"] {
            let option = format!("trace-baseline={baseline}");
            let (_, trace) = traced_with(&program(name), &lto, &option, &folder);
            let mut chunks = trace_words::read(&trace);
            chunks.retain(|chunk| chunk.kind == KIND_STREAM);
            chunks.sort_by_key(|chunk| chunk.sequence);
            let halves = chunks
                .iter()
                .flat_map(|chunk| &chunk.words)
                .flat_map(|&word| [word as u32, (word >> 32) as u32]);
            let numbers: Vec<u32> = halves.filter(|&number| number != 0).collect();
            sizes.push(numbers.len());
            if baseline == "fi" {
                let event = |number: u32| {
                    events.get(number as usize - 1).copied().unwrap_or_else(|| panic!("{name}: {number}"))
                };
                let found = numbers.iter().fold(0, |sum, &number| hash(sum, event(number)));
                assert_eq!([numbers.len() as u64, found], expected, "{name}");
            }
        }
        assert!(sizes[0] > sizes[1] && sizes[1] >= sizes[2], "{name}: {sizes:?}");
    }
}

const OWN: &str = source!("traces/own_getopt.c");

/// A program may define functions that are listed as never calling back.
#[test]
fn functions_in_the_place_of_a_librarys_are_traced() {
    let folder = work_folder("traces/own");
    let source = folder.join("own.c");
    fs::write(&source, OWN).unwrap();
    let (program, trace) = traced(&source, &["-O2", "--pcce-verify", "--pcce-mode=lto"], &folder);
    let checked = pcce_trace(&["check"], &program, &trace).expect_success();
    assert!(checked.stdout.contains(", 0 chunks do not match"), "{}", checked.describe());
    let reported = pcce_trace(&["report"], &program, &trace).expect_success();
    assert!(
        reported.stdout.lines().any(|line| line.trim_start().starts_with("9 ") && line.ends_with(" getopt")),
        "{}",
        reported.stdout
    );
    // Other modules may call it unseen, so it is left out, and then its calls would be missing.
    let signature = "int getopt(int n, char *const *w, const char *o)";
    let calls = format!("int (*pointer)(void);\n{signature} {{ return pointer ? pointer() : 0; }}");
    let calling = OWN.replace(&format!("NAME({signature})"), &calls);
    for (text, built, message) in [
        (OWN, true, "pcce: getopt, left out of the trace"),
        (&calling, false, "pcce: getopt is called where"),
    ] {
        fs::write(&source, text).unwrap();
        let flags = ["--pcce-trace", "-fno-builtin", "-O2", "--pcce-mode=module"];
        let output =
            run(command(artifact("pcce-clang"), &flags).arg(&source).arg("-o").arg(folder.join("other")));
        let said = output.stderr.contains(message);
        assert!((output.status == 0) == built && said, "{}", output.describe());
    }
}

/// The list of functions that libraries call within functions that never call back has all calls of the libraries here.
#[test]
fn what_libraries_call_is_listed() {
    let list = fs::read_to_string(repository().join("pass/model/data/called-within.txt")).expect("the list");
    let listed: Vec<&str> =
        list.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect();
    let mut compared = 0;
    for library in ["libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6"] {
        let found = run(&mut command("gcc", &[&format!("-print-file-name={library}")])).expect_success();
        let bytes = fs::read(found.stdout.trim()).expect("a library");
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let called: Vec<String> = if library == "libc.so.6" {
            // Calls of the library's own definitions are not listed. A function that others may define is called by
            // name.
            let symbols: Vec<_> = file
                .dynamic_symbol_table()
                .into_iter()
                .flat_map(|t| object::ObjectSymbolTable::symbols(&t).collect::<Vec<_>>())
                .collect();
            let of = |index: object::SymbolIndex| symbols.iter().find(|s| s.index() == index);
            let relocations = file.dynamic_relocations().into_iter().flatten();
            let symbols = relocations.filter_map(|(_, relocation)| match relocation.target() {
                object::RelocationTarget::Symbol(index) => of(index),
                _ => None,
            });
            symbols
                .filter(|s| s.is_definition() && s.kind() == object::SymbolKind::Text)
                .filter_map(|s| s.name().ok())
                .map(str::to_owned)
                .collect()
        } else {
            let symbols =
                file.dynamic_symbols().filter(|s| s.is_undefined() && s.kind() == object::SymbolKind::Text);
            symbols.filter_map(|s| s.name().ok()).map(str::to_owned).collect()
        };
        for name in called {
            // Functions of the loader, the C library and of transactions, which programs do not define.
            let internal = ["_ITM_", "_ZGT", "_dl_", "_IO_", "__gmon", "_rtld", "__check_rhosts"];
            if name.is_empty() || internal.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            compared += 1;
            assert!(listed.contains(&&*name), "{library} calls {name}");
        }
    }
    assert!(compared > 100);
}

/// A function that is left out is not in the trace, but calls of it and by it are.
#[test]
fn parts_of_a_program_are_traced() {
    let folder = work_folder("traces/parts");
    let source = folder.join("parts.c");
    fs::write(&source, source!("traces/skipped_parts.c")).unwrap();
    // Calls of each function, and its events.
    for (option, expected) in [
        ("--pcce-trace-skip=outer", [("outer", 9, 0), ("inner", 18, 18), ("leaf", 15, 15), ("last", 9, 18)]),
        ("--pcce-trace-skip=leaf,la*", [("outer", 9, 24), ("inner", 18, 18), ("leaf", 6, 0), ("last", 9, 0)]),
        ("--pcce-trace-only=main,l*", [("outer", 9, 0), ("inner", 9, 0), ("leaf", 15, 15), ("last", 9, 18)]),
        (
            "--pcce-trace-skip=elsewhere/*.c",
            [("outer", 9, 24), ("inner", 18, 18), ("leaf", 15, 15), ("last", 9, 18)],
        ),
    ] {
        for mode in ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"] {
            let flags = ["-O1", "--pcce-verify", mode, option];
            let (program, trace) = traced(&source, &flags, &folder);
            let checked = pcce_trace(&["check"], &program, &trace).expect_success();
            assert!(checked.stdout.contains(", 0 chunks do not match"), "{}", checked.describe());
            let reported = pcce_trace(&["report"], &program, &trace).expect_success();
            for (name, calls, events) in expected {
                let row = reported.stdout.lines().find(|line| line.ends_with(&format!(" {name}")));
                let words: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
                let found: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
                assert_eq!(
                    found.get(..2),
                    Some(&[calls, events][..]),
                    "{option} {mode} {name}: {}",
                    reported.stdout
                );
            }
        }
    }
    let all = format!("--pcce-trace-only=*/{}", "parts.c");
    let (program, trace) = traced(&source, &["-O1", "--pcce-verify", &all], &folder);
    let reported = pcce_trace(&["report"], &program, &trace).expect_success();
    assert!(reported.stdout.starts_with("1"), "{}", reported.stdout);
}

/// The context of an event says of a function that has left its activation what the context of a token says.
#[test]
fn contexts_say_what_was_left_by_a_tail_call() {
    let source = repository().join("testsuite/traces/left_by_name.c");
    let (program, trace) = traced(&source, &["-O1"], &work_folder("traces/left_by_name"));
    let name = |line: &str| line.split(" at ").next().unwrap_or(line).to_owned();
    let frames = ["#0  leaf", "#1  last", "#2  <first, left by a tail call>", "#3  main"];
    let returned = ["#0  last", "#1  <first, left by a tail call>", "#2  main"];
    for (words, expected) in [
        (["find", "leaf"], &frames[..]),
        (["at", "4"], &frames),
        (["at", "5"], &frames),
        (["at", "6"], &returned),
    ] {
        let mut pcce = command(artifact("pcce"), &["trace", words[0]]);
        let shown = run(pcce.arg(&program).arg(&trace).arg(words[1])).expect_success().stdout;
        let found: Vec<String> = shown.lines().filter(|line| line.starts_with('#')).map(name).collect();
        assert_eq!(found, expected, "{words:?}: {shown}");
    }
}

/// Calls by functions that are left out are no events. Commands that are asked for calls say so.
#[test]
fn calls_of_what_is_left_out_are_said_to_be_missing() {
    let source = repository().join("testsuite/traces/left_by_name.c");
    let folder = work_folder("traces/left_out_names");
    let (program, trace) = traced(&source, &["-O1", "--pcce-trace-skip=first,second"], &folder);
    let mut pcce = command(artifact("pcce"), &["trace", "find"]);
    let found = run(pcce.arg(&program).arg(&trace).arg("first"));
    assert!(found.status == 2 && found.stderr.contains("left out of the trace"), "{}", found.describe());
    let reported = pcce_trace(&["report"], &program, &trace).expect_success();
    assert!(reported.stderr.contains("first and second"), "{}", reported.describe());
}

/// A thread that ends by `pthread_exit` comes through all blocks of its landing pads.
#[test]
fn threads_end_in_blocks_as_in_calls() {
    let folder = work_folder("traces/ended_blocks");
    let source = folder.join("main.cpp");
    let text = "#include <pthread.h>\n__attribute__((noinline)) void leaf() { __asm__ volatile(\"\"); }\n\
        void *thread(void *p) { leaf(); if (p) pthread_exit(nullptr); return p; }\n\
        int main(int, char **v) { pthread_t t; pthread_create(&t, nullptr, thread, v); \
        return pthread_join(t, nullptr); }\n";
    fs::write(&source, text).expect("the folder is ours");
    let (program, trace) = traced(&source, &["-O1", "--pcce-trace=blocks"], &folder);
    let shown = pcce_trace(&["show"], &program, &trace);
    let ended = "<the thread was cancelled, or ended by pthread_exit>";
    assert!(shown.status == 0 && shown.stdout.contains(ended), "{}", shown.describe());
}

/// Programs that define functions of a library, which the library calls. In a whole program they are traced, elsewhere
/// left out.
#[test]
fn own_allocators_are_traced() {
    let folder = work_folder("traces/allocators");
    for source in ["allocator.c", "allocator.cpp"] {
        for mode in ["lto", "module", "link"] {
            let mode = format!("--pcce-mode={mode}");
            let source = repository().join("testsuite/traces").join(source);
            let (program, trace) = traced(&source, &["-O2", "--pcce-verify", &mode], &folder);
            let checked = pcce_trace(&["check"], &program, &trace).expect_success();
            assert!(checked.stdout.contains(", 0 chunks do not match"), "{}", checked.describe());
            let shown = pcce_trace(&["show"], &program, &trace).expect_success().stdout;
            let in_strdup = shown.lines().skip_while(|line| !line.contains(" strdup at "));
            let next = in_strdup.skip(1).find(|line| !line.contains("main")).unwrap_or_default();
            if source.extension().is_some_and(|extension| extension == "c") {
                assert_eq!(next.trim_start().contains(" malloc"), mode.ends_with("lto"), "{mode}: {next}");
            }
        }
    }
}

/// Functions that are left out jump, are left by jumps, recur, and end the process. The rest of the trace is right.
#[test]
fn jumps_leave_what_is_left_out() {
    let source = repository().join("testsuite/traces/left_out.c");
    for mode in ["lto", "module", "link"] {
        let folder = work_folder(&format!("traces/left_out-{mode}"));
        let mode = format!("--pcce-mode={mode}");
        let flags = ["-O1", "--pcce-verify", &mode, "--pcce-trace-skip=skip_*"];
        let (program, trace) = traced(&source, &flags, &folder);
        let checked = pcce_trace(&["check"], &program, &trace).expect_success();
        assert!(checked.stdout.contains(", 0 chunks do not match"), "{}", checked.describe());
        assert!(checked.stdout.starts_with("97 events"), "{}", checked.describe());
    }
}

/// Pending bits are written between an operation and the call that it belongs to, while vector registers hold values.
#[test]
fn values_in_vector_registers_are_kept() {
    let folder = work_folder("traces/floating");
    let source = repository().join("testsuite/traces/floating.c");
    let plain = folder.join("plain");
    run(command("cc", &["-O2", "-ffp-contract=off", "-o"]).arg(&plain).arg(&source)).expect_success();
    let expected = run(&mut command(&plain, &[])).expect_success().stdout;
    for mode in ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"] {
        let (program, trace) = traced(&source, &["-O2", "-ffp-contract=off", mode], &folder);
        let unrecorded = run(command(&program, &[]).env_remove("PCCE_TRACE")).expect_success();
        let mut stressed = command(&program, &[]);
        let stressed = stressed.env("PCCE_TRACE", &trace).env("PCCE_TRACE_STRESS", "1");
        let stressed = run(stressed).expect_success();
        assert_eq!([unrecorded.stdout, stressed.stdout], [&*expected, &*expected], "{mode}");
    }
}

/// Signal handlers, and a program that a process becomes, count their own events: each event of the number is shown.
#[test]
fn events_of_one_number_are_all_shown() {
    let folder = work_folder("traces/same_numbers");
    let source = folder.join("program.c");
    fs::write(&source, source!("traces/same_numbers.c")).unwrap();
    let (program, trace) = traced(&source, &["-O1"], &folder);
    let json = pcce_trace(&["show", "--format", "json"], &program, &trace).expect_success().stdout;
    let shown = json_lines(&json);
    let calls: Vec<_> = shown.iter().filter(|event| event["kind"] == "call").collect();
    let thread = shown[0]["thread"].to_string();
    for (name, count) in [("first", 1), ("second", 3), ("handled", 1)] {
        let numbers: Vec<u64> = calls
            .iter()
            .filter(|event| event["function"] == name)
            .map(|event| event["event"].as_u64().expect("a number"))
            .collect();
        assert_eq!(numbers.len(), count, "{name}: {json}");
        for number in numbers {
            for words in [&["at"][..], &["at", "--thread", &thread]] {
                let mut at = command(artifact("pcce"), &["trace"]);
                at.args(words).arg(&program).arg(&trace).arg(number.to_string());
                let text = run(&mut at).expect_success().stdout;
                assert_eq!(text.matches(&format!("#0  {name}\n")).count(), 1, "{name} {number}: {text}");
            }
        }
    }
    let mut at = command(artifact("pcce"), &["trace", "at"]);
    let output = run(at.arg(&program).arg(&trace).arg("1000"));
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains(&format!("thread {thread} has no event 1000")), "{}", output.describe());
}
