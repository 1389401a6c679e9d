//! Captures in verify mode: tokens, also of interrupted points, are compared with the shadow stack, and wrong ones are
//! found.

use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::turns::all_cases;
use pcce_testsuite::verified_captures::{compare, file, verified};
use pcce_testsuite::{Output, artifact, command, include, repository, run, source, work_folder};

const MODES: [&str; 3] = ["link", "lto", "module"];

fn build(name: &str, source: &Path, flags: &[&str]) -> PathBuf {
    let program = work_folder(&format!("captures/{name}")).join("program");
    let compiler = if is_cxx(source) { "pcce-clang++" } else { "pcce-clang" };
    let include = include("runtime-lib/include");
    let mut build = command(artifact(compiler), &["-g", "-pthread", "--pcce-verify", &include]);
    run(build.args(flags).arg(source).arg("-o").arg(&program)).expect_success();
    program
}

fn is_cxx(source: &Path) -> bool {
    source.extension().is_some_and(|extension| extension == "cpp")
}

/// Builds a program of one file.
fn build_text(name: &str, text: &str, mode: &str) -> PathBuf {
    let source = work_folder(&format!("captures/{name}-source")).join("main.c");
    fs::write(&source, text).expect("the folder is ours");
    build(&format!("{name}-{mode}"), &source, &["-O1", &format!("--pcce-mode={mode}")])
}

/// Runs a program that writes its captures.
fn run_with(program: &Path, variables: &[(&str, &str)]) -> Output {
    let captures = file(program);
    let _ = fs::remove_file(&captures);
    run(command(program, &[]).env("PCCE_VERIFY_CAPTURES", &captures).envs(variables.iter().copied()))
}

/// Programs that are interrupted after each of their instructions, or after many of them.
#[test]
fn every_point_is_compared() {
    let bias = "-DSTEP_BIAS=(unsigned long)&__executable_start";
    let (often, all) = if all_cases() { ("1", 50_000) } else { ("7", 7_000) };
    for mode in MODES {
        for (name, source, every, least) in [
            ("delivered", "delivered.cpp", often, all),
            ("thrown", "thrown.cpp", "61", 3_000),
            ("mixed", "mixed.c", "61", 3_000),
            ("tails", "tails.c", "61", 1_500),
        ] {
            let level = if mode == "module" { "-O0" } else { "-O2" };
            let source = repository().join("testsuite/stepping").join(source);
            let flags = ["-w", bias, level, &format!("--pcce-mode={mode}")];
            let program = build(&format!("{name}-{mode}"), &source, &flags);
            let _ = run_with(&program, &[("STEP_EVERY", every)]).expect_success();
            let (equal, partly) = compare(&[&program], &file(&program))
                .unwrap_or_else(|wrong| panic!("{name}, {mode}: {wrong}"));
            assert!(equal > least, "{name}, {mode}: only {equal} points");
            // The unwinder's own frames cannot be read while it leaves them.
            let unknown = if is_cxx(&source) { equal / 20 } else { 0 };
            assert!(partly <= unknown, "{name}, {mode}: {partly} of {equal} points are not known");
            let _ = fs::remove_file(file(&program));
        }
    }
}

/// Threads, handlers in handlers, children, and code without the pass.
const SEVERAL: &str = source!("captures/several.c");

/// The number of tokens that `several.c` takes: in `main`, in each of four threads, whose creation takes one, in the
/// handlers, in the child, and at the end.
const TAKEN: u64 = 1 + 4 * (1 + 1 + 4) + (3 + 1 + 1) + 5 + 2;

#[test]
fn threads_handlers_and_children_are_compared() {
    for mode in MODES {
        let program = build_text("several", SEVERAL, mode);
        let output = run_with(&program, &[]).expect_success();
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("end\n", ""), "{mode}");
        let found = compare(&[&program], &file(&program)).unwrap_or_else(|wrong| panic!("{mode}: {wrong}"));
        assert_eq!(found, (TAKEN, 0), "{mode}");
        // Every third one.
        let _ = run_with(&program, &[("PCCE_VERIFY_EVERY", "3")]).expect_success();
        let found = compare(&[&program], &file(&program)).unwrap_or_else(|wrong| panic!("{mode}: {wrong}"));
        // The child continues its parent's count.
        assert!(found.0.abs_diff(TAKEN / 3) <= 2 && found.1 == 0, "{mode}: {found:?}");
    }
}

/// The lines of a file of captures.
fn lines(program: &Path) -> Vec<String> {
    let text = fs::read_to_string(file(program)).expect("the program has written it");
    text.lines().map(str::to_owned).collect()
}

/// The check can fail: for tokens of other contexts, missing records, and a dictionary that decodes tokens to other
/// calls.
#[test]
fn what_is_wrong_is_found() {
    let wrong_with = |program: &Path, lines: &[String], wrong: usize| {
        fs::write(file(program), lines.concat()).expect("room on the disk");
        let output = verified(&[program], &file(program));
        assert_eq!(output.status, 1, "{}", output.describe());
        assert!(output.stdout.ends_with(&format!(", {wrong} wrong\n")), "{}", output.describe());
        let said = "the token shows main";
        assert!(output.stderr.contains(said), "{}", output.describe());
    };
    for mode in MODES {
        let program = build_text("wrong", SEVERAL, mode);
        let _ = run_with(&program, &[]).expect_success();
        let all: Vec<String> = lines(&program).iter().map(|line| format!("{line}\n")).collect();
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        // The first capture is of `take`, called by `main`. This one is of `recursive`, called by itself.
        let deep = all.iter().rposition(|line| line.split(' ').count() > 6).expect("recursion");
        let (mut first, mut other) = (words(&all[0]), words(&all[deep]));
        std::mem::swap(&mut first[2], &mut other[2]);
        let mut exchanged = all.clone();
        (exchanged[0], exchanged[deep]) = (first.join(" "), other.join(" "));
        wrong_with(&program, &exchanged, 2);
        // Without its outermost record.
        let mut shorter = words(&all[deep]);
        let outermost = shorter.len() - 2;
        shorter.remove(outermost);
        let mut missing = all.clone();
        missing[deep] = shorter.join(" ");
        wrong_with(&program, &missing, 1);
        // A truncated line is no capture. The others are compared.
        let mut cut = all.clone();
        let kept = cut[deep].len() - 5;
        cut[deep].truncate(kept);
        fs::write(file(&program), cut.concat()).expect("room on the disk");
        let output = verified(&[&program], &file(&program));
        assert_eq!(output.status, 2, "{}", output.describe());
        assert!(output.stderr.contains("damaged lines"), "{}", output.describe());
        assert!(output.stdout.ends_with(", 0 wrong\n"), "{}", output.describe());
    }
}

/// The values of two calls of one function are exchanged in the dictionary: each token decodes to the other call.
#[test]
fn a_wrong_dictionary_is_found() {
    let text = source!("captures/two_calls.c");
    for mode in ["link", "lto"] {
        let program = build_text("dictionary", text, mode);
        let _ = run_with(&program, &[]).expect_success();
        assert_eq!(compare(&[&program], &file(&program)), Ok((2, 0)), "{mode}");
        let json = run(&mut command(artifact("pcce"), &["dict", &program.display().to_string()]));
        let mut dictionary: serde_json::Value =
            serde_json::from_str(&json.expect_success().stdout).expect("a dictionary");
        let exchanged = exchange(&mut dictionary);
        assert_eq!(exchanged, 2, "{mode}: {dictionary}");
        let damaged = program.with_extension("json");
        fs::write(&damaged, dictionary.to_string()).expect("room on the disk");
        let output = verified(&[&damaged], &file(&program));
        assert_eq!(output.status, 1, "{mode}: {}", output.describe());
        assert!(output.stdout.ends_with(" 2 wrong\n"), "{mode}: {}", output.describe());
        assert!(
            output
                .stderr
                .contains("the token shows main;right;take, and the shadow stack has main;left;take"),
            "{mode}: {}",
            output.describe()
        );
    }
}

/// Exchanges the values of the calls of `take`. Returns how many there are.
fn exchange(dictionary: &mut serde_json::Value) -> usize {
    let module = &dictionary["modules"][0];
    let name = module["names"].as_array().expect("names").iter().position(|name| name == "take");
    let functions = module["functions"].as_array().expect("functions");
    let take =
        functions.iter().position(|function| function["name"].as_u64() == name.map(|name| name as u64));
    let take = take.expect("it is there") as u64;
    let sites = module["sites"].as_array().expect("sites").clone();
    let mut exchanged = 0;
    for edge in dictionary["encodings"][0]["edges"].as_array_mut().expect("edges") {
        let site = edge["site"].as_u64().expect("a number") as usize;
        if sites[site]["kind"]["direct"].as_u64() == Some(take) {
            edge["code"]["add"] = (1 - edge["code"]["add"].as_u64().expect("it is 0 or 1")).into();
            exchanged += 1;
        }
    }
    exchanged
}

/// The point of a crash is compared, also where the stack is full.
#[test]
fn crashes_are_compared() {
    let text = source!("captures/crashes.c");
    let source = work_folder("captures/crashes-source").join("main.c");
    fs::write(&source, text).expect("the folder is ours");
    for mode in ["link", "lto"] {
        let flags = ["-O1", "-w", &format!("--pcce-mode={mode}"), "--pcce-crash-report"];
        let program = build(&format!("crashes-{mode}"), &source, &flags);
        // Endless recursion truncates token and records.
        for (arguments, expected) in [(&[][..], (1, 0)), (&["endless"], (0, 1))] {
            let captures = file(&program);
            let _ = fs::remove_file(&captures);
            let mut crash = command(&program, arguments);
            let output =
                run(crash.env("PCCE_VERIFY_CAPTURES", &captures).env("PCCE_CRASH_REPORT", "/dev/null"));
            assert!(output.status != 0 && output.status != 97, "{mode}: {}", output.describe());
            assert_eq!(compare(&[&program], &captures), Ok(expected), "{mode}");
        }
    }
}

/// A failed write is reported once, and the program runs on.
#[test]
fn a_program_is_not_harmed_by_what_cannot_be_written() {
    let program = build_text("refused", SEVERAL, "link");
    for (path, said) in [
        ("/dev/full", "pcce: cannot write to /dev/full: No space left on device (error 28)\n"),
        (
            "/nowhere/captures",
            "pcce: cannot write to /nowhere/captures: No such file or directory (error 2)\n",
        ),
        ("/dev", "pcce: cannot write to /dev: Is a directory (error 21)\n"),
    ] {
        let output = run(command(&program, &[]).env("PCCE_VERIFY_CAPTURES", path)).expect_success();
        assert_eq!(output.stdout, "end\n", "{path}");
        // Several threads may meet it at the same time.
        let once = output.stderr.replacen(said, "", 1);
        assert!(output.stderr.contains(said) && once.len() <= 4 * said.len(), "{path}: {}", output.stderr);
    }
    let none = "pcce: PCCE_VERIFY_EVERY is no number from 1 on; no captures are written\n";
    let output = run_with(&program, &[("PCCE_VERIFY_EVERY", "none")]).expect_success();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("end\n", none));
    assert!(!file(&program).exists());
    let limited = format!("ulimit -f 1; exec {}", program.display());
    let captures = file(&program);
    let output =
        run(command("sh", &["-c", &limited]).env("PCCE_VERIFY_CAPTURES", &captures)).expect_success();
    assert_eq!(output.stdout, "end\n");
    assert!(output.stderr.contains("File too large (error 27)\n"), "{}", output.describe());
}

/// A library that is not in verify mode has no records.
#[test]
fn calls_of_an_image_that_is_not_in_verify_mode_are_not_compared() {
    let folder = work_folder("captures/mixed");
    let source = folder.join("library.c");
    let text = source!("captures/library.c");
    fs::write(&source, text).expect("the folder is ours");
    let (library, program) = (folder.join("libfar.so"), folder.join("program"));
    let include = include("runtime-lib/include");
    let mut build =
        command(artifact("pcce-clang"), &["-g", "-O1", "-DLIBRARY", "-fPIC", "-shared", &include]);
    run(build.arg(&source).arg("-o").arg(&library)).expect_success();
    let mut build = command(artifact("pcce-clang"), &["-g", "-O1", "--pcce-verify", &include]);
    run(build.arg(&source).arg(&library).arg("-o").arg(&program)).expect_success();
    let report = folder.join("report");
    let _ = run_with(&program, &[("PCCE_VERIFY_REPORT", &report.display().to_string())]).expect_success();
    let output = verified(&[&program, &library], &file(&program)).expect_success();
    assert!(
        output.stdout.starts_with("2 captures, 1 equal, ") && output.stdout.ends_with(", 0 wrong\n"),
        "{}",
        output.stdout
    );
    assert!(output.stderr.contains("1 not compared: they have calls of an image"), "{}", output.stderr);
}
