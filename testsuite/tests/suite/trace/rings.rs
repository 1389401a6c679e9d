//! Rings: reading one that is being written, and one that was damaged.

use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::{pcce_trace, record};
use pcce_abi::trace::{CHUNK, Chunk, KIND_IMAGE, KIND_STREAM, UNIT};
use pcce_testsuite::{Output, artifact, command, repository, run, source, work_folder};

/// Calls in some threads: a number of rounds, or for ever.
const CALLS: &str = source!("traces/calls_in_threads.c");

fn build(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("calls.c"), folder.join("calls"));
    fs::write(&source, CALLS).expect("room on the disk");
    let mut build = command(artifact("pcce-clang"), &["--pcce-trace", "-O1", "-pthread"]);
    run(build.arg(&source).arg("-o").arg(&program)).expect_success();
    program
}

/// The last events of a running program are those of one moment.
#[test]
fn a_ring_that_is_being_written_is_read_at_once() {
    let folder = work_folder("trace_rings/running");
    let (program, trace) = (build(&folder), folder.join("trace"));
    let mut start = command(&program, &["-1"]);
    start.env("PCCE_TRACE", &trace).env("PCCE_TRACE_RING", "256K");
    let mut running = start.spawn().expect("the program starts");
    thread::sleep(Duration::from_millis(800));
    let shown: Vec<Output> =
        (0..3).map(|_| pcce_trace(&["show", "--last", "10000"], &program, &trace)).collect();
    running.kill().expect("it runs");
    let _ = running.wait().expect("it ends");
    for output in shown {
        let threads: Vec<usize> =
            output.stdout.split("\nthread ").map(|thread| thread.lines().count()).collect();
        let others = threads.get(1..).unwrap_or_default();
        assert!(
            others.len() == 4 && others.iter().all(|lines| *lines > 4000),
            "{threads:?}: {}",
            output.stderr
        );
    }
}

/// Counts, and searches without a match, say that they are about the kept part, also in a compressed ring. A ring that
/// has kept everything is a whole trace.
#[test]
fn what_a_ring_has_not_kept_is_missing_where_events_are_counted() {
    let folder = work_folder("trace_rings/counted");
    let (source, program, trace) = (folder.join("once.c"), folder.join("once"), folder.join("trace"));
    fs::write(&source, source!("traces/once_and_often.c")).expect("room on the disk");
    let mut build = command(artifact("pcce-clang"), &["--pcce-trace=blocks", "--pcce-verify", "-g", "-O0"]);
    run(build.arg(&source).arg("-o").arg(&program)).expect_success();
    let packed = folder.join("trace.zst");
    let of = |words: &[&str], trace: &Path| {
        let mut pcce = command(artifact("pcce"), &["trace", words[0]]);
        let both = (words[0] == "diff").then_some(trace);
        run(pcce
            .args(&["--format", "json"][..if words[0] == "report" { 2 } else { 0 }])
            .arg(&program)
            .arg(trace)
            .args(both)
            .args(&words[1..]))
    };
    let counting: [&[&str]; 11] = [
        &["report"],
        &["find", "once"],
        &["find", "often"],
        &["show", "--function", "once"],
        &["coverage"],
        &["stats"],
        &["check"],
        &["diff"],
        &["export", "--format", "folded"],
        &["export", "--format", "perfetto"],
        &["export", "--format", "json"],
    ];
    let showing: [&[&str]; 3] = [&["show"], &["show", "--last", "3"], &["at", "5"]];
    for (count, whole) in [("3000000", false), ("30", true)] {
        let _ = fs::remove_file(&trace);
        let mut start = command(&program, &[count]);
        run(start.env("PCCE_TRACE", &trace).env("PCCE_TRACE_RING", "128K")).expect_success();
        for trace in [&trace, &packed] {
            if trace == &packed {
                let _ = fs::remove_file(&packed);
                let path = folder.join("trace");
                run(command(artifact("pcce"), &["trace", "compress"]).arg(path)).expect_success();
            }
            for words in counting {
                let output = of(words, trace);
                let says = output.stderr.contains("it is a ring (PCCE_TRACE_RING): of 1 threads")
                    && output.stderr.contains("something is missing");
                assert_eq!(
                    (output.status, says),
                    (if whole { 0 } else { 2 }, !whole),
                    "{}",
                    output.describe()
                );
            }
            for words in showing {
                let output = of(words, trace);
                assert!(output.status == 0 && output.stderr.is_empty(), "{}", output.describe());
            }
            let gaps = if whole { "\"gaps\":0" } else { "\"gaps\":1" };
            let report = of(&["report"], trace);
            assert!(report.stdout.contains(gaps), "{}", report.describe());
        }
    }
}

/// A chunk in the place of another one is noticed, too.
#[test]
fn a_doubled_chunk_is_reported() {
    let folder = work_folder("trace_rings/twice");
    let (program, trace) = (build(&folder), folder.join("trace"));
    run(command(&program, &["10"]).env("PCCE_TRACE", &trace).env("PCCE_TRACE_RING", "256K")).expect_success();
    let whole = fs::read(&trace).expect("a trace");
    let unit = UNIT as usize;
    let chunks: Vec<(usize, u32)> = (unit..whole.len())
        .step_by(unit)
        .filter(|&at| whole[at..].starts_with(&CHUNK.to_le_bytes()))
        .map(|at| (at, u32::from_le_bytes(whole[at + offset_of!(Chunk, kind)..][..4].try_into().unwrap())))
        .collect();
    let of_kind = |kind: u32| chunks.iter().filter(move |chunk| chunk.1 == kind).map(|chunk| chunk.0);
    let before = pcce_trace(&["report"], &program, &trace);
    assert_eq!(before.stderr, "", "nothing is missing");
    let mut copied = 0;
    for from in of_kind(KIND_IMAGE).chain(of_kind(KIND_STREAM).take(2)) {
        for to in of_kind(KIND_STREAM).filter(|to| *to != from) {
            let mut damaged = whole.clone();
            damaged.copy_within(from..from + unit, to);
            fs::write(&trace, damaged).expect("room on the disk");
            let report = pcce_trace(&["report"], &program, &trace);
            assert!(report.stderr.contains("1 chunks are damaged"), "{from} to {to}: {}", report.describe());
            copied += 1;
        }
    }
    assert!(copied > 10, "{copied}");
}

/// What a ring has kept of signal handlers is known wholly, wherever its first chunk begins.
#[test]
fn handlers_that_jump_are_known_from_the_beginning_of_a_ring() {
    let folder = work_folder("traces/ring_handled_jumps");
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    let source = repository().join("testsuite/traces/handled_jumps.c");
    let flags = ["--pcce-trace", "-g", "-O1"];
    run(command(artifact("pcce-clang"), &flags).arg(source).arg("-o").arg(&program)).expect_success();
    for calls in ["0", "1", "10", "100", "250", "1000"] {
        let mut command = command(&program, &[calls]);
        record(command.env("PCCE_TRACE_RING", "128K"), &trace);
        let shown = pcce_trace(&["show"], &program, &trace).expect_success().stdout;
        let handlers = shown.split_once("signal handlers:").map(|(_, handlers)| handlers).unwrap_or_default();
        assert!(handlers.contains("<what came before was not kept>"), "{calls}: {handlers}");
        assert!(!handlers.contains("unknown"), "{calls}: {handlers}");
    }
}
