//! Programs that share a trace (`pcce trace split`): the merged trace is that of a whole run, or there is none.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::evaluation::several_runs::streams;
use pcce_testsuite::{Output, artifact, command, include, llvm, repository, run, work_folder};

use super::{EVENTFUL, pcce_trace, record};

/// Builds a program that writes traces, of which parts can be made.
fn built(source: &Path, flags: &[&str], folder: &Path) -> PathBuf {
    let compiler = if source.extension().is_some_and(|e| e == "cpp") { "pcce-clang++" } else { "pcce-clang" };
    let program = folder.join("program");
    let include = include("runtime-lib/include");
    let all = ["--pcce-trace", "--pcce-keep", "-g", "-pthread", &include];
    let mut build = command(artifact(compiler), &[&all, flags].concat());
    run(build.arg(source).arg("-o").arg(&program)).expect_success();
    program
}

fn program(name: &str) -> PathBuf {
    repository().join("testsuite/programs").join(name)
}

/// `pcce trace collect`.
fn collect(parts: u32, options: &[&str], to: &Path, words: &[&str]) -> Output {
    let mut collect = command(artifact("pcce"), &["trace", "collect", "--parts", &parts.to_string()]);
    collect.args(options).arg("-o").arg(to).arg("--").args(words);
    run(collect.env("PCCE_VERIFY_REPORT", to.with_extension("verify")))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Collects a trace in so many parts, and compares it with that of a whole run. Returns how many events both have.
fn same(program: &Path, arguments: &[&str], parts: u32, stress: Option<&str>) -> u64 {
    let folder = program.parent().expect("a folder");
    let [whole, merged] = ["whole", "merged"].map(|name| folder.join(name));
    let mut start = command("setarch", &["x86_64", "-R", text(program)]);
    start.args(arguments).env("PCCE_VERIFY_REPORT", folder.join("report"));
    start.env("PCCE_TRACE", &whole);
    let _ = fs::remove_file(&whole);
    let _ = run(&mut start);
    let _ = fs::remove_file(&merged);
    let mut collect = command(artifact("pcce"), &["trace", "collect", "--parts", &parts.to_string(), "-o"]);
    collect.arg(&merged).arg("--").arg(program).args(arguments);
    collect.env("PCCE_VERIFY_REPORT", folder.join("report"));
    collect.envs(stress.map(|words| ("PCCE_TRACE_STRESS", words)));
    let _ = run(&mut collect).expect_success();
    let found = [&whole, &merged].map(|trace| streams(program, trace).expect("a trace"));
    assert_eq!(found[0], found[1], "{} {arguments:?} in {parts} parts", program.display());
    let checked = pcce_trace(&["check"], program, &merged);
    assert!(
        !checked.stdout.contains(" do not match") || checked.stdout.contains(" 0 "),
        "{}",
        checked.describe()
    );
    found[0].iter().map(|stream| stream.1).sum()
}

/// Callbacks, exceptions, jumps, tail calls, pointers: from two to four programs.
#[test]
fn programs_make_the_trace_of_a_whole_run() {
    let mut events = 0;
    for (number, name) in (0..).zip(EVENTFUL) {
        let folder = work_folder(&format!("trace-shared/{name}"));
        let program = built(&program(name), &["-O2", "--pcce-verify"], &folder);
        let parts = 2 + number % 3;
        events += same(&program, &[], parts, None);
        events += same(&program, &[], parts, Some("20"));
    }
    assert!(events > 10_000, "{events} events");
}

/// Threads, forked processes, and signals. After a crash, each part lacks bits that were pending, and says so.
#[test]
fn runs_that_do_the_same_are_put_together() {
    let folder = work_folder("trace-shared/same");
    let program = built(&repository().join("testsuite/traces/differs.c"), &["-O1", "--pcce-verify"], &folder);
    for (parts, what) in (2..).zip(["nothing", "threads", "children", "signals"]) {
        assert!(same(&program, &[what], parts, None) > 50_000, "{what}");
        assert!(same(&program, &[what], parts, Some("20")) > 50_000, "{what}");
    }
    let to = folder.join("crash");
    let crashed = collect(2, &[], &to, &[text(&program), "crash"]).expect_success();
    assert!(crashed.stderr.contains("without its last calls being written"), "{}", crashed.stderr);
    let report = pcce_trace(&["report"], &program, &to);
    assert!(report.stderr.contains("no end"), "{}", report.describe());
}

/// A merged trace has chunks that can be read by themselves.
#[test]
fn the_last_events_are_read_from_the_last_chunk() {
    let folder = work_folder("trace-shared/long");
    let program = built(&repository().join("testsuite/traces/collatz.c"), &["-O1", "--pcce-verify"], &folder);
    assert!(same(&program, &["300000"], 3, None) > 10_000_000);
    let [whole, merged] = ["whole", "merged"].map(|name| folder.join(name));
    let file = pcce::trace::TraceFile::open(&merged).expect("a trace");
    assert!(file.streams[0].chunks.len() > 5, "{} chunks", file.streams[0].chunks.len());
    let tail = |trace: &Path| {
        let shown = pcce_trace(&["show", "--last", "30"], &program, trace).expect_success().stdout;
        shown.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(tail(&whole), tail(&merged));
    assert!(tail(&merged).len() > 10);
}

/// Each program writes less than the whole, and weights divide it more evenly than chance.
#[test]
fn parts_are_balanced_by_a_trace() {
    let folder = work_folder("trace-shared/balanced");
    let program = built(&repository().join("testsuite/traces/differs.c"), &["-O1"], &folder);
    let whole = folder.join("whole");
    let _ = record(&mut command(&program, &["threads"]), &whole);
    let mut split = command(artifact("pcce"), &["trace", "split", "--parts", "2", "--by"]);
    let split = run(split.arg(&whole).arg(&program)).expect_success();
    assert!(split.stderr.contains("the busiest part records "), "{}", split.stderr);
    let _ = same(&program, &["threads"], 2, None);
}

/// What cannot be put together is refused, and the cure is named.
#[test]
fn what_is_no_part_is_refused() {
    let folder = work_folder("trace-shared/refused");
    let source = repository().join("testsuite/traces/differs.c");
    let program = built(&source, &["-O1"], &folder);
    let to = folder.join("trace");
    let _ = collect(3, &["--keep"], &to, &[text(&program)]).expect_success();
    let part = |number: u32| folder.join(format!("trace.parts/part-{number}.trace"));
    let merged = folder.join("again");
    let merge = |parts: &[u32]| {
        let mut merge = command(artifact("pcce"), &["trace", "merge", "-o"]);
        run(merge.arg(&merged).arg(&program).args(parts.iter().map(|number| part(*number))))
    };
    let _ = merge(&[1, 2, 3]).expect_success();
    fs::remove_file(&merged).expect("a file");
    for wrong in [&[2, 1, 3][..], &[1, 1, 3], &[1, 2]] {
        let refused = merge(wrong);
        assert!(refused.status != 0 && !merged.exists(), "{wrong:?}: {}", refused.describe());
    }
    // A part's trace is none of its own.
    let own = folder.join("program.pcce-part-2-of-3");
    let alone = pcce_trace(&["show"], &own, &part(2));
    assert!(alone.status == 2 && alone.stderr.contains("writes part 2/3"), "{}", alone.describe());
    // Functions cannot be chosen for parts.
    let mut chosen = command(artifact("pcce"), &["trace", "collect", "--parts", "2", "-o"]);
    chosen.arg(folder.join("chosen")).arg("--").arg(&program).env("PCCE_TRACE_ONLY", "main");
    let chosen = run(&mut chosen);
    assert!(chosen.status == 2 && chosen.stderr.contains("--prove"), "{}", chosen.describe());
    // The program was built again: the parts are made again.
    let _ = built(&source, &["-O2"], &folder);
    let again = collect(3, &[], &folder.join("other"), &[text(&program)]).expect_success();
    assert!(again.stderr.contains("3 programs share its trace"), "{}", again.stderr);
    // Nothing was kept.
    let bare = folder.join("bare");
    let mut build = command(artifact("pcce-clang"), &["--pcce-trace", "-O1", "-pthread"]);
    run(build.arg(&source).arg("-o").arg(&bare)).expect_success();
    let refused = collect(2, &[], &folder.join("none"), &[text(&bare)]);
    assert!(refused.status == 2 && refused.stderr.contains("--pcce-keep"), "{}", refused.describe());
    let names: BTreeSet<_> =
        fs::read_dir(&folder).expect("a folder").map(|e| e.expect("one").file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with(".pcce-")), "{names:?}");
}

/// Functions, constants, variables and the heap are at the same addresses in all programs, as in the program itself.
#[test]
fn programs_that_decide_by_addresses_do_the_same() {
    for (linker, parts) in [("bfd", 2), ("lld", 5)] {
        let folder = work_folder(&format!("trace-shared/addresses-{linker}"));
        let source = repository().join("testsuite/traces/addresses.c");
        let program = built(&source, &["-O1", &format!("-fuse-ld={linker}")], &folder);
        assert!(same(&program, &[], parts, None) > 106_000, "{linker}");
    }
}

/// Unwinders go through a function whose unwind information was made longer, in the program and in its parts.
#[test]
fn exceptions_leave_the_last_function() {
    for (linker, level) in [("bfd", "-O2"), ("lld", "-O0")] {
        let folder = work_folder(&format!("trace-shared/unwound-{linker}"));
        let source = repository().join("testsuite/traces/unwound.cpp");
        let program = built(&source, &[level, &format!("-fuse-ld={linker}")], &folder);
        assert!(same(&program, &[], 3, None) > 2_000, "{linker}");
        let plain = folder.join("plain");
        let compiler = llvm("clang++");
        run(command(compiler, &[level]).arg(&source).arg("-o").arg(&plain)).expect_success();
        let printed = [&program, &plain].map(|file| run(&mut command(file, &[])).expect_success().stdout);
        assert_eq!(printed[0], printed[1], "{linker}");
    }
}
