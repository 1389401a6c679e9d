//! Functions that are chosen when the program starts.

use std::path::{Path, PathBuf};

use super::{pcce_trace, record};
use pcce_testsuite::chosen_traces::compare;
use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, llvm, repository, run, work_folder};

fn source(name: &str) -> PathBuf {
    repository().join("testsuite/traces").join(name)
}

fn build(source: &Path, flags: &[&str], program: &Path) {
    let compiler =
        if source.extension().is_some_and(|end| end == "cpp") { "pcce-clang++" } else { "pcce-clang" };
    let mut build = command(artifact(compiler), &["--pcce-trace", "--pcce-verify", "-g"]);
    run(build.args(flags).arg(source).arg("-o").arg(program)).expect_success();
}

/// The lines of `pcce trace show` for a run in which a variable chooses, with the numbers of events left out.
fn shown(program: &Path, (variable, value): (&str, &str), arguments: &[&Path]) -> Vec<String> {
    let trace = program.with_extension("trace");
    let mut start = command(program, &[]);
    record(start.args(arguments).env(variable, value).env("PCCE_TRACE_STRESS", "4"), &trace);
    let checked = pcce_trace(&["check"], program, &trace);
    assert!(checked.stdout.contains(", 0 chunks do not match"), "{value}: {}", checked.describe());
    let shown = pcce_trace(&["show"], program, &trace).stdout;
    shown.lines().skip(1).map(|line| line.get(8..).unwrap_or("").trim_end().to_owned()).collect()
}

/// The trace has the chosen functions, with their calls of others. It has nothing else.
#[test]
fn what_is_chosen_is_recorded() {
    let cases = ["link", "lto", "module"].into_iter().flat_map(|mode| [(mode, "-O0"), (mode, "-O2")]);
    for (mode, level) in in_turn(0, cases) {
        let folder = work_folder(&format!("trace_choice/{mode}{level}"));
        let (program, input) = (folder.join("totals"), folder.join("input"));
        std::fs::write(&input, "ann 3\n#paid\n").expect("a file");
        build(&source("totals.c"), &[level, "-fno-inline", &format!("--pcce-mode={mode}")], &program);
        let lines = |variable: &str, value: &str| {
            let lines = shown(&program, (variable, value), &[&input]);
            // Without where it was called.
            lines.iter().map(|line| line.split(" at ").next().unwrap_or("").to_owned()).collect::<Vec<_>>()
        };
        let of_add = ["  add", "    atol", "      strtol"];
        let skips = [
            "  main",
            "    fopen",
            "    fgets",
            "    order",
            "    fgets",
            "    order",
            "    fgets",
            "    printf",
        ];
        let end = ["  <end>"];
        // At -O0 the system's headers inline nothing, and the library has its own function.
        let atol = if level == "-O0" { &["  add", "    atol"][..] } else { &of_add };
        let with_atol = lines("PCCE_TRACE_ONLY", "add,atol");
        assert!(
            with_atol == [atol, &end].concat() || with_atol == [&of_add[..], &end].concat(),
            "{with_atol:?}"
        );
        assert_eq!(lines("PCCE_TRACE_ONLY", " main "), [&skips[..], &end].concat());
        assert_eq!(lines("PCCE_TRACE_SKIP", "add,or*r,sk*p,atol"), [&skips[..], &end].concat());
        let all = lines("PCCE_TRACE_ONLY", "traces/tot*.c");
        assert_eq!(all, lines("PCCE_TRACE_SKIP", "none,such"));
        assert!(all.iter().any(|line| line.trim() == "strchr"), "{all:?}");
        let (trace, mut start) = (folder.join("trace"), command(&program, &[]));
        let said = record(start.arg(&input).env("PCCE_TRACE_ONLY", "main,nobody"), &trace).stderr;
        let names = "pcce: PCCE_TRACE_ONLY: no function that can be traced, and no source file, has the name nobody\n";
        assert_eq!(said, names);
    }
}

/// Leaving functions out at the start is like leaving them out when the program is built: jumps, ends, and recursion.
/// Those that call `setjmp` are recorded.
#[test]
fn what_is_left_out_is_as_if_the_build_had_left_it_out() {
    let cases = ["link", "lto", "module"].into_iter().flat_map(|mode| {
        ["-pie", "-static"].into_iter().flat_map(move |kind| [(mode, kind, "-O0"), (mode, kind, "-O2")])
    });
    for (mode, kind, level) in in_turn(0, cases) {
        let folder = work_folder(&format!("trace_choice/left_out-{mode}{kind}{level}"));
        let (built, started) = (folder.join("built"), folder.join("started"));
        let flags = [level, kind, &format!("--pcce-mode={mode}")];
        for name in ["left_out.c", "left_out_jumps.c", "left_out_push.c"] {
            let skip = "--pcce-trace-skip=skip_a,skip_leaf,skip_rec,skip_end,skip_jumps,skip_choose";
            build(&source(name), &[&flags[..], &[skip]].concat(), &built);
            build(&source(name), &flags, &started);
            let expected = shown(&built, ("PCCE_TRACE_SKIP", ""), &[]);
            assert_eq!(
                shown(&started, ("PCCE_TRACE_SKIP", "skip_*"), &[]),
                expected,
                "{name} {mode} {kind} {level}"
            );
        }
    }
}

/// Of an exception that comes to what is left out, it is not known where it was caught.
#[test]
fn exceptions_that_come_to_what_is_left_out_are_a_gap() {
    for (mode, level) in in_turn(0, [("lto", "-O0"), ("module", "-O2"), ("link", "-O1")]) {
        let folder = work_folder(&format!("trace_choice/catches-{mode}"));
        let program = folder.join("program");
        build(&source("left_out_catches.cpp"), &[level, &format!("--pcce-mode={mode}")], &program);
        let lines = shown(&program, ("PCCE_TRACE_SKIP", "skip_*"), &[]);
        let gap = lines.iter().position(|line| line.contains("came to a function that is left out"));
        let before = &lines[..gap.unwrap_or_else(|| panic!("{lines:?}"))];
        assert!(before.iter().any(|line| line.contains("throws")), "{lines:?}");
        assert!(!before.iter().any(|line| line.contains("step")), "{lines:?}");
    }
}

/// The events of programs with functions that are chosen at random.
#[test]
fn events_of_random_choices_are_those_of_the_whole_trace() {
    let sources = ["bodies.c", "left_out.c", "branches.c", "loop.c", "copies.c", "collatz.c"];
    let modes = ["link", "lto", "module"];
    let cases = sources.into_iter().flat_map(|name| modes.map(|mode| (name, mode)));
    let mut compared = 0;
    for (number, (name, mode)) in (0..).zip(in_turn(0, cases)) {
        let folder = work_folder(&format!("trace_choice/random-{name}-{mode}"));
        let (program, whole) = (folder.join("program"), folder.join("whole"));
        build(&source(name), &["-O1", "-fno-inline", &format!("--pcce-mode={mode}")], &program);
        let start = || {
            let mut start = command(&program, &[]);
            start.env("PCCE_TRACE_STRESS", "3").env("PCCE_VERIFY_REPORT", folder.join("report"));
            start
        };
        run(start().env("PCCE_TRACE", &whole));
        let events = compare(&program, (&whole, &folder.join("chosen")), start, number);
        compared += events.unwrap_or_else(|error| panic!("{name} {mode}: {error}"));
    }
    assert!(compared > 1_000, "{compared}");
}

/// Parts of a run with the same choice make a whole trace with it.
#[test]
fn parts_are_chosen_alike() {
    let folder = work_folder("trace_choice/parts");
    let (program, trace) = (folder.join("program"), folder.join("merged"));
    build(&source("bodies.c"), &["-O1", "-fno-inline"], &program);
    let choice = ("PCCE_TRACE_SKIP", "add,shared,interpret");
    let whole = shown(&program, choice, &[]);
    let mut collect = command(artifact("pcce"), &["trace", "collect", "--prove", "--parts", "3", "-o"]);
    collect.arg(&trace).arg("--").arg(&program).env(choice.0, choice.1).env("PCCE_TRACE_STRESS", "4");
    run(collect.env("PCCE_VERIFY_REPORT", folder.join("report"))).expect_success();
    let merged = pcce_trace(&["show"], &program, &trace).expect_success().stdout;
    let merged: Vec<&str> =
        merged.lines().skip(1).map(|line| line.get(8..).unwrap_or("").trim_end()).collect();
    assert_eq!(merged, whole);
    let checked = pcce_trace(&["check"], &program, &trace).expect_success().stdout;
    assert!(checked.contains(", 0 chunks do not match"), "{checked}");
}

/// The choice is for all images, also those that are loaded while the program runs.
#[test]
fn functions_of_libraries_are_chosen() {
    let modes = ["link", "lto", "module"];
    let cases = modes.into_iter().flat_map(|program| modes.map(|library| (program, library)));
    let mut compared = 0;
    for (of_program, of_library) in in_turn(0, cases) {
        let folder = work_folder(&format!("trace_choice/images-{of_program}-{of_library}"));
        let (program, whole, plugin) =
            (folder.join("program"), folder.join("whole"), folder.join("plugin.so"));
        let mode = format!("--pcce-mode={of_library}");
        let shared = ["-O1", "-shared", "-fPIC", &mode];
        build(&source("images/library.c"), &shared, &folder.join("liblibrary.so"));
        build(&source("images/plugin.c"), &shared, &plugin);
        let own = format!("--pcce-mode={of_program}");
        let [search, found] = ["-L", "-Wl,-rpath,"].map(|flag| format!("{flag}{}", folder.display()));
        let flags = ["-O1", &own, &search, &found, "-llibrary", "-ldl", "-Wl,--export-dynamic-symbol=square"];
        build(&source("images/host.c"), &flags, &program);
        let start = || {
            let mut start = command(&program, &[]);
            start.arg(&plugin).env("PCCE_VERIFY_REPORT", folder.join("report")).env("PCCE_TRACE_STRESS", "3");
            start
        };
        run(start().env("PCCE_TRACE", &whole)).expect_success();
        for seed in 0..3 {
            let events = compare(&program, (&whole, &folder.join("chosen")), start, seed);
            compared += events.unwrap_or_else(|error| panic!("{of_program} {of_library}: {error}"));
        }
    }
    assert!(compared > 500, "{compared}");
}

/// Where the code cannot be changed, nothing is recorded, and the program runs as always.
#[test]
fn code_that_cannot_be_changed_is_not_recorded() {
    let folder = work_folder("trace_choice/unchangeable");
    let (launcher, program, trace) = (folder.join("launcher"), folder.join("program"), folder.join("trace"));
    let clang = command(llvm("clang"), &["-O1", "-o"]).arg(&launcher).arg(source("unchangeable.c")).output();
    assert!(clang.expect("clang").status.success());
    build(&source("left_out.c"), &["-O1"], &program);
    let plain = run(&mut command(&program, &[]));
    let mut start = command(&launcher, &[]);
    let output = run(start.arg(&program).env("PCCE_TRACE", &trace).env("PCCE_TRACE_ONLY", "main"));
    // The kernel has no such thing.
    if output.status == 77 {
        return;
    }
    assert_eq!((output.status, &output.stdout), (plain.status, &plain.stdout));
    let message =
        "pcce: the trace: the program's code cannot be changed, as PCCE_TRACE_ONLY or PCCE_TRACE_SKIP needs";
    assert!(output.stderr.starts_with(message), "{}", output.stderr);
    let shown = pcce_trace(&["show"], &program, &trace).stdout;
    assert!(!shown.contains("main"), "{shown}");
}
