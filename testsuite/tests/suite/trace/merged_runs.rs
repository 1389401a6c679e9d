//! Traces from several runs of one program (`--prove`): a merged trace is that of a whole run, or there is none.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::EVENTFUL;
use pcce_testsuite::{
    Output, artifact, command, include, repository, run, run_with_input, source, work_folder,
};

/// Builds a program that writes traces, in verify mode.
fn built(source: &Path, flags: &[&str], folder: &Path) -> PathBuf {
    let compiler = if source.extension().is_some_and(|e| e == "cpp") { "pcce-clang++" } else { "pcce-clang" };
    let program = folder.join("program");
    let include = include("runtime-lib/include");
    let mut build =
        command(artifact(compiler), &["--pcce-trace", "--pcce-verify", "-g", "-pthread", &include]);
    run(build.args(flags).arg(source).arg("-o").arg(&program)).expect_success();
    program
}

/// `pcce trace` with these words.
fn trace(words: &[&str], paths: &[&Path]) -> Output {
    run(command(artifact("pcce"), &[&["trace"], words].concat()).args(paths))
}

/// `pcce trace collect`: so many parts of the command, with chunks of so many words.
fn collect(parts: u32, options: &[&str], to: &Path, program: &[&str]) -> Output {
    collect_with_input(parts, options, to, program, "")
}

fn collect_with_input(parts: u32, options: &[&str], to: &Path, program: &[&str], input: &str) -> Output {
    let mut collect =
        command(artifact("pcce"), &["trace", "collect", "--prove", "--parts", &parts.to_string()]);
    collect.args(options).arg("-o").arg(to).arg("--").args(program);
    collect.env("PCCE_TRACE_STRESS", "20").env("PCCE_VERIFY_REPORT", to.with_extension("verify"));
    run_with_input(&mut collect, input)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The number of events that `pcce trace check` has compared, all of them equal.
fn events(program: &Path, file: &Path) -> u64 {
    let checked = trace(&["check"], &[program, file]);
    for line in checked.stdout.lines() {
        assert!(line.contains(", 0 chunks do not match") || line.contains(", 0 do not match"), "{line}");
    }
    checked.stdout.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

/// The program that does the same except for one thing.
fn differs() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = work_folder("trace-parts/program");
        built(&repository().join("testsuite/traces/differs.c"), &["-O1"], &folder)
    })
}

/// Callbacks, exceptions, jumps, tail calls, threads: in each mode, from two to seven runs.
#[test]
fn parts_make_the_trace_of_a_whole_run() {
    let mut chunks = 0;
    for (number, name) in (0..).zip(EVENTFUL) {
        for (mode, more) in [("--pcce-mode=lto", 0), ("--pcce-mode=module", 3)] {
            let parts = 2 + (number + more) % 6;
            let folder = work_folder(&format!("trace-parts/{name}{mode}"));
            let source = repository().join("testsuite/programs").join(name);
            let program = built(&source, &["-O2", mode], &folder);
            // A run that keeps everything.
            let (whole, merged) = (folder.join("whole"), folder.join("merged"));
            let collected = collect(1, &[], &whole, &[text(&program)]);
            let _ = collected.clone().expect_success();
            let collected = collect(parts, &[], &merged, &[text(&program)]).expect_success();
            assert!(collected.stderr.contains(&format!("from {parts} runs")), "{}", collected.stderr);
            assert_eq!(events(&program, &whole), events(&program, &merged), "{name} {mode}");
            let diff = trace(&["diff"], &[&program, &whole, &merged]);
            let heads = diff.stdout.lines().filter(|line| line.starts_with("thread "));
            for line in heads {
                assert!(line.contains(": the same "), "{name} {mode} {parts}: {}", diff.stdout);
            }
            chunks += pcce::trace::TraceFile::open(&merged)
                .expect("a trace")
                .streams
                .iter()
                .map(|stream| stream.chunks.len())
                .sum::<usize>();
            assert!(!folder.join("merged.parts").exists());
        }
    }
    assert!(chunks > 200, "{chunks} chunks");
}

/// Equal runs are merged, also with processes, threads and signals.
#[test]
fn runs_that_do_the_same_are_put_together() {
    let folder = work_folder("trace-parts/same");
    for (number, what) in (2..).zip(["nothing", "threads", "children", "signals", "crash"]) {
        let to = folder.join(what);
        let collected = collect(number, &[], &to, &[text(differs()), what]).expect_success();
        let whole = folder.join(format!("{what}.whole"));
        let _ = collect(1, &[], &whole, &[text(differs()), what]).expect_success();
        assert!(events(differs(), &to) > 50_000, "{what}");
        let diff = trace(&["diff"], &[differs(), &whole, &to]);
        let mut heads = diff.stdout.lines().filter(|line| line.starts_with("thread ")).peekable();
        assert!(
            heads.peek().is_some() && heads.all(|line| line.contains(": the same ")),
            "{what}: {}",
            diff.stdout
        );
        let wrote = if what == "crash" { "" } else { "done\n" };
        assert!(collected.stdout.starts_with(wrote), "{what}: {}", collected.stdout);
    }
}

/// Any difference between runs is found, and there is no trace.
#[test]
fn runs_that_differ_are_found() {
    let folder = work_folder("trace-parts/different");
    let whats = [
        "pid",
        "run",
        "time",
        "random",
        "both",
        "order",
        "longer",
        "thread",
        "more-threads",
        "child",
        "signal",
        "end",
        "crashes",
    ];
    for what in whats {
        for parts in [2, 3, 5] {
            if parts == 2 && ["thread", "child"].contains(&what) {
                continue;
            }
            let to = folder.join(format!("{what}-{parts}"));
            let counter = folder.join(format!("{what}-{parts}.counter"));
            let program = [text(differs()), what, text(&counter)];
            let found = collect(parts, &["--jobs", "1"], &to, &program);
            let says =
                ["took different ways", "ended differently"].iter().any(|say| found.stderr.contains(say));
            assert!(found.status != 0 && says, "{what} {parts}: {} {}", found.status, found.stderr);
            assert!(!to.exists(), "{what} {parts}: there is a trace");
        }
    }
}

/// The message names the last place that all runs have reached.
#[test]
fn the_place_is_named() {
    let folder = work_folder("trace-parts/named");
    let to = folder.join("trace");
    let counter = folder.join("counter");
    let found = collect(3, &["--jobs", "1"], &to, &[text(differs()), "run", text(&counter)]);
    assert_eq!(found.status, 1, "{}", found.stderr);
    assert!(found.stderr.contains("those of parts 1, 3; and that of part 2"), "{}", found.stderr);
    assert!(found.stderr.contains("main at ") && found.stderr.contains("differs.c:"), "{}", found.stderr);
}

/// An interrupted collection continues with the parts that are there.
#[test]
fn the_same_command_goes_on() {
    let folder = work_folder("trace-parts/resumed");
    let to = folder.join("trace");
    let counter = folder.join("counter");
    let program = [text(differs()), "killed", text(&counter)];
    let first = collect(3, &["--jobs", "1"], &to, &program);
    assert_eq!(first.status, 2, "{}", first.stderr);
    assert!(
        first.stderr.contains("part 2 has no result") && first.stderr.contains("the same command"),
        "{}",
        first.stderr
    );
    let dry = collect(3, &["--dry-run"], &to, &program).expect_success();
    assert_eq!(dry.stdout.lines().count(), 1, "{}", dry.stdout);
    let second = collect(3, &[], &to, &program).expect_success();
    assert!(second.stderr.contains("2 of 3 parts are there already"), "{}", second.stderr);
    assert_eq!(fs::read(&counter).expect("a file").len(), 4);
    assert!(events(differs(), &to) > 50_000);
    // Another collection does not continue it.
    let _ = collect(3, &["--keep"], &to, &program[..2]).expect_success();
    // A part whose file is gone is run again.
    fs::remove_file(folder.join("trace.parts/part-2.trace")).expect("the trace of a part");
    let third = collect(3, &["--keep"], &to, &program[..2]).expect_success();
    assert!(third.stderr.contains("2 of 3 parts are there already"), "{}", third.stderr);
    let other = collect(3, &[], &to, &program[..1]);
    assert!(other.status == 2 && other.stderr.contains("the arguments"), "{}", other.stderr);
}

/// A full disk interrupts a collection. The same command continues when there is room.
#[test]
fn a_full_disk_is_no_end() {
    let folder = work_folder("trace-parts/full");
    let disk = folder.join("disk");
    fs::create_dir(&disk).expect("a new one");
    let script = "mount -t tmpfs -o size=600k none \"$1\" || exit 90\n\
        collect() { \"$0\" trace collect --prove --jobs 1 --parts 3 -o \"$1/trace\" -- \"$2\" longest; }\n\
        collect \"$1\" \"$2\" && exit 91\n[ -e \"$1/trace\" ] && exit 92\n\
        mount -o remount,size=60m \"$1\" || exit 93\ncollect \"$1\" \"$2\" || exit 94\ncp \"$1/trace\" \"$3\"";
    let copy = folder.join("trace");
    let mut shell = command("unshare", &["-rm", "sh", "-c", script]);
    shell.arg(artifact("pcce")).arg(&disk).arg(differs()).arg(&copy);
    shell.env("PCCE_TRACE_STRESS", "20").env("PCCE_VERIFY_REPORT", folder.join("verify"));
    let done = run(&mut shell).expect_success();
    for says in [
        "not a whole trace",
        "it cannot grow: No space left on device (error 28)",
        "make room on the disk",
        "from 3 runs",
    ] {
        assert!(done.stderr.contains(says), "{says}: {}", done.stderr);
    }
    assert!(events(differs(), &copy) > 1_000_000);
}

/// All runs have the same standard input, and equal folders if each has its own.
#[test]
fn runs_have_the_same_input() {
    let folder = work_folder("trace-parts/input");
    let source = folder.join("reads.c");
    fs::write(&source, source!("traces/reads_input.c")).expect("a file");
    let program = built(&source, &["-O1"], &folder);
    let to = folder.join("trace");
    let options = ["--own-folders"];
    let collected = collect_with_input(3, &options, &to, &[text(&program)], "axbxcx").expect_success();
    assert_eq!(collected.stdout, "3\n");
    let report = trace(&["report"], &[&program, &to]).expect_success();
    let take = report.stdout.lines().find(|line| line.ends_with(" take")).expect("a line").to_owned();
    assert_eq!(take.split_whitespace().next(), Some("6"), "{take}");
}

/// Incomplete or changed files are refused.
#[test]
fn damaged_parts_are_refused() {
    let folder = work_folder("trace-parts/damaged");
    let to = folder.join("trace");
    let _ = collect(2, &["--keep"], &to, &[text(differs())]).expect_success();
    let parts = ["1", "2"].map(|n| folder.join(format!("trace.parts/part-{n}.trace")));
    let merged = folder.join("merged");
    let merge = |parts: &[&Path]| trace(&["merge", "--prove", "-o", text(&merged), text(differs())], parts);
    let _ = merge(&[&parts[0], &parts[1]]).expect_success();
    assert_eq!(fs::read(&to).expect("a trace").len(), fs::read(&merged).expect("a trace").len());
    fs::remove_file(&merged).expect("a file");
    for wrong in
        [vec![&*parts[1], &*parts[0]], vec![&*parts[0]], vec![&*parts[0], &*parts[0]], vec![&*to, &*to]]
    {
        let refused = merge(&wrong);
        assert!(refused.status == 2 && !merged.exists(), "{}", refused.stderr);
    }
    // Any bit of the file.
    let bytes = fs::read(&parts[1]).expect("a part");
    let mut state = 1_u64;
    let mut refused = 0;
    for _ in 0..60 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let written: Vec<usize> = (65_536..bytes.len()).filter(|&at| bytes[at] != 0).collect();
        let at = written[(state >> 20) as usize % written.len()];
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (state >> 60 & 7);
        let other = folder.join("damaged");
        fs::write(&other, &damaged).expect("a file");
        let answer = merge(&[&parts[0], &other]);
        if answer.status == 0 {
            // Parts that the fingerprint does not cover: clocks, numbers of threads, contexts. Events are the same.
            let diff = trace(&["diff"], &[differs(), &to, &merged]);
            assert!(diff.stdout.contains(": the same "), "byte {at}: {}", diff.stdout);
            fs::remove_file(&merged).expect("a file");
        } else {
            refused += 1;
        }
    }
    assert!(refused > 30, "{refused} of 60");
}

/// A part by itself is no whole trace, also where it has kept nothing.
#[test]
fn a_part_says_that_it_is_one() {
    let folder = work_folder("trace-parts/alone");
    let program = built(&repository().join("testsuite/traces/collatz.c"), &["-O1"], &folder);
    // One chunk, which the first part keeps; and several.
    for (most, empty) in [("3", true), ("2000", false)] {
        for part in ["2/2", "1/2"] {
            let file = folder.join("trace");
            let _ = fs::remove_file(&file);
            let mut start = command(&program, &[most]);
            run(start.env("PCCE_TRACE", &file).env("PCCE_TRACE_PART", part)).expect_success();
            let whole = empty && part == "1/2";
            for words in [&["show"][..], &["report"], &["stats"], &["export", "--format", "svg"]] {
                let told = trace(words, &[&program, &file]);
                assert_eq!(told.status, if whole { 0 } else { 2 }, "{most} {part} {}", told.describe());
                let says = told.stderr.contains("it is part 2 of 2: of 1 threads");
                assert_eq!(says, empty && !whole, "{most} {part} {}", told.describe());
            }
            for words in [[&program, &file, Path::new("odd")], [&program, &file, &file]] {
                let command = if words[2] == file { "diff" } else { "find" };
                let told = trace(&[command], &words);
                assert_eq!(told.status, if whole { 0 } else { 2 }, "{command} {most} {}", told.describe());
            }
        }
    }
}
