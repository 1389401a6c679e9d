//! Calls between the modules of a program. Link mode knows what they call: its traces have the events of module mode's,
//! and tell calls of other modules by codes.

use std::path::{Path, PathBuf};

use super::{pcce_trace, record};
use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, llvm, repository, run, work_folder};

/// Builds the program, each module by itself.
fn build(folder: &Path, flags: &[&str], mode: &str) -> PathBuf {
    let sources = repository().join("testsuite/traces/modules");
    let mode_flag = format!("--pcce-mode={mode}");
    let common =
        [&["--pcce-trace", "--pcce-verify", "--pcce-trace-skip=skipped", &mode_flag], flags].concat();
    let mut objects = Vec::new();
    for (compiler, source) in
        [("pcce-clang++", "first.cpp"), ("pcce-clang++", "second.cpp"), ("pcce-clang", "third.c")]
    {
        let object = folder.join(format!("{mode}.{source}.o"));
        let mut compile = command(artifact(compiler), &common);
        run(compile.arg("-c").arg(sources.join(source)).arg("-o").arg(&object)).expect_success();
        objects.push(object);
    }
    let program = folder.join(mode);
    run(command(artifact("pcce-clang++"), &common).args(&objects).arg("-o").arg(&program)).expect_success();
    program
}

/// What the program prints, the events without their numbers and depths, and the number of words about entries and
/// jumps. (An entry from unknown code is an event of its own.)
fn shown(program: &Path, trace: &Path) -> (String, Vec<String>, u64) {
    let printed = record(&mut command(program, &[]), trace).stdout;
    let checked = pcce_trace(&["check"], program, trace).expect_success().stdout;
    assert!(checked.contains(", 0 chunks do not match"), "{checked}");
    let events = pcce_trace(&["show"], program, trace).expect_success().stdout;
    let words = |line: &str| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    let events = events.lines().filter(|line| !line.starts_with("thread ")).map(words);
    // In link mode, functions that only the program calls need no landing pads for the sake of others.
    let events = events.filter(|event| !event.starts_with("<exception passed on by ")).collect();
    let stats = pcce_trace(&["stats"], program, trace).expect_success().stdout;
    let words = stats.split_once(" words about entries").and_then(|(before, _)| before.rsplit(' ').next());
    (printed, events, words.and_then(|words| words.parse().ok()).expect("a number"))
}

#[test]
fn calls_of_other_modules_are_told_by_codes() {
    let kinds: [&[&str]; 6] = [
        &["-O0", "-g"],
        &["-O1", "-g"],
        &["-O2", "-g", "-fPIE", "-pie", "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"],
        &["-O2", "-g", "-fno-pie", "-no-pie", "-fuse-ld=lld", "-rdynamic"],
        &["-Os", "-fuse-ld=mold", "-fno-plt"],
        &["-O2", "-g", "--pcce-trace=blocks"],
    ];
    for (number, flags) in in_turn(0, kinds.into_iter().enumerate()) {
        let folder = work_folder(&format!("trace_modules/{number}"));
        let of = |mode: &str| shown(&build(&folder, flags, mode), &folder.join(format!("{mode}.trace")));
        let (printed, events, words) = of("module");
        let (linked_printed, linked_events, linked_words) = of("link");
        assert_eq!(linked_printed, printed, "{flags:?}");
        let mut pairs = linked_events.iter().zip(&events).enumerate();
        let differs = pairs.find(|(_, (linked, alone))| linked != alone);
        assert!(differs.is_none(), "{flags:?}: {differs:?}");
        assert_eq!(linked_events.len(), events.len(), "{flags:?}");
        assert!(linked_words * 4 < words * 3, "{flags:?}: {linked_words} words, and {words} in module mode");
    }
}

/// Functions of the program that have names of the C library's are recorded, whoever calls them.
#[test]
fn names_of_the_library_may_be_the_programs() {
    let sources = repository().join("testsuite/traces/library_names");
    let plain = work_folder("trace_library_names").join("plain.o");
    run(command(llvm("clang"), &["-O1", "-c"]).arg(sources.join("plain.c")).arg("-o").arg(&plain))
        .expect_success();
    for level in ["-O0", "-O1", "-O2"] {
        let program = plain.with_file_name(level);
        let flags = ["--pcce-trace", "--pcce-verify", "--pcce-mode=link", "-fno-builtin", "-g", level, "-o"];
        let files = ["caller.c", "own.c"].map(|name| sources.join(name));
        run(command(artifact("pcce-clang"), &flags).arg(&program).args(&files).arg(&plain)).expect_success();
        let trace = program.with_extension("trace");
        assert_eq!(record(&mut command(&program, &[]), &trace).stdout, "44\n", "{level}");
        let checked = pcce_trace(&["check"], &program, &trace).expect_success().stdout;
        assert!(checked.contains(", 0 chunks do not match"), "{level}: {checked}");
        let events = pcce_trace(&["show"], &program, &trace).expect_success().stdout;
        let count = |what: &str| events.lines().filter(|line| line.contains(what)).count();
        // Once a round by its caller, and once by code without the pass.
        assert_eq!((count(" regcomp at "), count(" regcomp")), (3, 6), "{level}: {events}");
    }
}
