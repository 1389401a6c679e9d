//! Verify mode can fail: it must find out programs that change the state that the encoding relies on.

use std::fs;
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSection as _};
use pcce_testsuite::{Output, artifact, command, folded, include, llvm, run, source, work_folder};

/// The pass cannot see these changes: the program writes the state itself.
const STATE: &str = source!("verify/state.h");

const MODES: [&str; 2] = ["lto", "module"];

/// Compiles `main` behind [`STATE`] in verify mode.
fn build(name: &str, mode: &str, main: &str) -> PathBuf {
    let folder = work_folder(&format!("verify_mode/{name}-{mode}"));
    let source = folder.join("main.c");
    fs::write(&source, format!("{STATE}{main}")).expect("the folder is ours");
    let program = folder.join("program");
    let include = include("runtime-lib/include");
    let mode = format!("--pcce-mode={mode}");
    let mut compile =
        command(artifact("pcce-clang"), &["-O1", "-g", "-Wall", "-Werror", &mode, "--pcce-verify", &include]);
    run(compile.arg(&source).arg("-o").arg(&program)).expect_success();
    program
}

/// Runs the program; returns its output and its report.
fn run_with_report(program: &Path) -> (Output, String) {
    let report = program.with_extension("report");
    let output = run(command(program, &[]).env("PCCE_VERIFY_REPORT", &report));
    let report = fs::read_to_string(report).expect("verify mode writes its report");
    (output, report)
}

/// The number of mismatches in the report's last line.
fn mismatches(report: &str) -> u64 {
    let line = report.lines().last().unwrap_or("");
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["pcce", "verify:", _, "contexts", "compared,", _, "distinct,", n, "mismatches"] => {
            n.parse().expect("a number")
        }
        _ => panic!("the last line of the report is `{line}`"),
    }
}

/// The program's output is unchanged, and verify mode reports the mismatch. `function` is the one where decoding and
/// the shadow stack differ.
fn must_fail(name: &str, main: &str, function: &str, what: &str) {
    for mode in MODES {
        let (output, report) = run_with_report(&build(name, mode, main));
        assert_eq!(output.status, 97, "{mode}: {}{report}", output.describe());
        assert!(
            output.stdout.ends_with("end\n"),
            "{mode}: what was written before is lost: {}",
            output.stdout
        );
        assert!(mismatches(&report) > 0, "{mode}: {report}");
        let start = format!("pcce verify: mismatch in {function}: ");
        let described = report.lines().any(|line| line.starts_with(&start) && line.contains(what));
        assert!(described, "{mode}: no line `{start}…{what}…` in\n{report}");
    }
}

#[test]
fn a_tail_call_that_leaves_no_mark_is_found() {
    let main = source!("verify/right.c");
    must_fail("unmarked", main, "outermost", "a function that left by a tail call is missing");
}

#[test]
fn a_right_program_has_no_mismatch() {
    for mode in MODES {
        let program = build("right", mode, r#"int main(void) { middle(1); puts("end"); return 3; }"#);
        let (output, report) = run_with_report(&program);
        assert_eq!(output.status, 3, "{}{report}", output.describe());
        // main, middle, and two of leaf.
        assert_eq!(report, "pcce verify: 4 contexts compared, 4 distinct, 0 mismatches\n");
        assert_eq!(output.stderr, "");
    }
}

/// Configure scripts take the output of programs for their own words.
#[test]
fn nothing_is_said_on_standard_error_unless_it_is_asked_for_or_wrong() {
    let right = r#"int main(void) { middle(1); return 0; }"#;
    // Nothing is compared on a stack that the program has switched to, and a line says so.
    let switches = source!("verify/switches.c");
    for mode in MODES {
        for (name, main, cut) in [("stderr", right, false), ("stderr-cut", switches, true)] {
            let program = build(name, mode, main);
            for unasked in [None, Some("")] {
                let mut silent = command(&program, &[]);
                silent
                    .env_remove("PCCE_VERIFY_REPORT")
                    .envs(unasked.map(|value| ("PCCE_VERIFY_REPORT", value)));
                let output = run(&mut silent).expect_success();
                assert_eq!(output.stderr, "", "{mode} {name}");
            }
            let output = run(command(&program, &[]).env("PCCE_VERIFY_REPORT", "stderr")).expect_success();
            let (report, mismatches) = (&output.stderr, mismatches(&output.stderr));
            assert_eq!((report.contains(" of them cut, "), mismatches), (cut, 0), "{mode} {name}: {report}");
            assert!(report.ends_with(" 0 mismatches\n"), "{mode} {name}: {report}");
        }
        let wrong = r#"int main(void) { __pcce_tls.id += 5; middle(1); return 0; }"#;
        let output = run(command(build("stderr-wrong", mode, wrong), &[]).env_remove("PCCE_VERIFY_REPORT"));
        assert_eq!(output.status, 97);
        assert!(output.stderr.contains("pcce verify: mismatch in middle: "), "{}", output.stderr);
        assert!(mismatches(&output.stderr) > 0, "{}", output.stderr);
    }
}

#[test]
fn the_program_may_name_its_report() {
    let source = source!("verify/children.c");
    for mode in MODES {
        let folder = work_folder(&format!("verify_mode/named-{mode}"));
        let (program, built_in, named) =
            (folder.join("program"), folder.join("built-in"), folder.join("named"));
        fs::write(folder.join("main.c"), [STATE, source].concat()).expect("the folder is ours");
        let mode_flag = format!("--pcce-mode={mode}");
        let report_flag = format!("--pcce-verify-report={}", built_in.display());
        let include = include("runtime-lib/include");
        let mut compile =
            command(artifact("pcce-clang"), &["-O1", &mode_flag, "--pcce-verify", &report_flag, &include]);
        run(compile.arg(folder.join("main.c")).arg("-o").arg(&program)).expect_success();
        let lines = |file: &Path| fs::read_to_string(file).unwrap_or_default().lines().count();
        // A child without an environment writes to the program's file, not into its output.
        let output = run(command(&program, &[]).env_remove("PCCE_VERIFY_REPORT")).expect_success();
        assert_eq!((output.stderr.as_str(), lines(&built_in)), ("", 2), "{mode}");
        // The file of the environment has precedence.
        let output = run(command(&program, &[]).env("PCCE_VERIFY_REPORT", &named)).expect_success();
        assert_eq!((output.stderr.as_str(), lines(&named), lines(&built_in)), ("", 1, 3), "{mode}");
        let output = run(command(&program, &[]).env("PCCE_VERIFY_REPORT", "stderr")).expect_success();
        assert_eq!((mismatches(&output.stderr), lines(&built_in)), (0, 4), "{mode}");
    }
}

#[test]
fn processes_that_end_at_once_report_as_well() {
    let ends = source!("verify/child_status.h");
    for mode in MODES {
        let right = source!("verify/ends_at_once.c");
        let (output, report) = run_with_report(&build("at-once", mode, &[ends, right].concat()));
        assert_eq!(output.status, 42, "{}{report}", output.describe());
        // The child of fork, which reports its own comparisons. That of vfork does not.
        let line = |compared| {
            format!("pcce verify: {compared} contexts compared, {compared} distinct, 0 mismatches\n")
        };
        assert_eq!(report, [line(1), line(6)].concat());
        for end in ["_exit", "quick_exit"] {
            let wrong =
                format!("int main(void) {{ __pcce_tls.id += 1000; middle(1); {end}(status_of_child()); }}");
            let program = build(&format!("at-once-wrong-{end}"), mode, &[ends, &wrong].concat());
            let (output, report) = run_with_report(&program);
            assert_eq!(output.status, 97, "{}{report}", output.describe());
            assert!(mismatches(&report) > 0, "{report}");
        }
    }
}

#[test]
fn depths_are_counted() {
    for mode in MODES {
        let recursion = r#"
            #include <pcce.h>
            NOINLINE static void recursive(int n) { if (n > 0) recursive(n - 1); KEEP; (void)pcce_context(); }
            int main(void) { recursive(2); recursive(1); return 0; }"#;
        let program = build("depths", mode, recursion);
        let depths = program.with_extension("depths");
        run(command(&program, &[]).env("PCCE_VERIFY_DEPTHS", &depths)).expect_success();
        let text = fs::read_to_string(depths).expect("verify mode writes the depths");
        // main, then the first activation without a push, and each further one with one more.
        let plain = "plain 1 1\nplain 2 2\nplain 3 2\nplain 4 1\n";
        assert_eq!(text, format!("{plain}frames 0 3\nframes 1 2\nframes 2 1\n"), "{mode}");
    }
}

#[test]
fn an_id_that_no_path_has() {
    must_fail(
        "no-path",
        r#"int main(void) { __pcce_tls.id += 1000; middle(1); __pcce_tls.id -= 1000; puts("end"); return 0; }"#,
        "middle",
        "the id leads to another context than the caller's",
    );
}

#[test]
fn an_id_of_another_path() {
    // leaf has two ids, one for each call in middle. The first call uses the id of the second.
    must_fail(
        "other-path",
        r#"
        NOINLINE static void broken(int n) { __pcce_tls.id ^= 1; leaf(n); KEEP; __pcce_tls.id ^= 1; leaf(n); KEEP; }
        int main(void) { middle(1); broken(1); puts("end"); return 0; }"#,
        "leaf",
        "the id names another",
    );
}

#[test]
fn a_function_that_does_not_restore() {
    must_fail(
        "not-restored",
        r#"
        NOINLINE static void broken(int n) { leaf(n); __pcce_tls.id += 1; KEEP; }
        int main(void) { middle(1); broken(1); __pcce_tls.id -= 1; puts("end"); return 0; }"#,
        "broken",
        "returns with another context",
    );
}

#[test]
fn a_lost_frame() {
    must_fail(
        "lost-frame",
        source!("verify/lost_frame.c"),
        "leaf",
        "the id leads to another context than the caller's",
    );
}

#[test]
fn a_jump_without_a_restore() {
    must_fail("jump", source!("verify/jump.c"), "jumped", "returns with another context");
}

/// The records of all functions are read-only, and the loader does not change them.
#[test]
fn records_are_in_a_section_of_their_own() {
    let main = "int main(int n, char **v) { middle(n); return v == 0; }";
    for mode in MODES {
        let program = fs::read(build("records", mode, main)).expect("it was built");
        let file = object::File::parse(&*program).expect("a program");
        let records = file.section_by_name(pcce_abi::RECORDS_SECTION).expect("it has records");
        let size = size_of::<pcce_abi::FunctionRecord>() as u64;
        assert!(records.size() >= 4 * size && records.size() % size == 0, "{mode}: {} bytes", records.size());
        let changed = |address| (records.address()..records.address() + records.size()).contains(&address);
        let relocations = file.dynamic_relocations().into_iter().flatten();
        let addresses: Vec<u64> = relocations.map(|(address, _)| address).collect();
        assert!(!addresses.is_empty() && !addresses.iter().any(|&address| changed(address)), "{mode}");
        let object::SectionFlags::Elf { sh_flags, .. } = records.flags() else { panic!("no ELF file") };
        assert_eq!(sh_flags, object::elf::SHF_ALLOC, "{mode}: it can be written");
    }
}

/// Code without the pass calls a function that leaves by a tail call, which marks the frame, and then another one. The
/// context of the second function has no mismatch, and decodes to the same calls.
#[test]
fn code_without_the_pass_calls_on_after_a_tail_call() {
    let folder = work_folder("verify_mode/calls_on");
    let around = "int note(int); int around(int (*f)(int), int n) { note(0); n = f(n); return n + note(0); }";
    fs::write(folder.join("around.c"), around).unwrap();
    let main = source!("verify/tail_calls/main.c");
    fs::write(folder.join("main.c"), main).unwrap();
    let words = ["-O2", "-c", "around.c"];
    run(command(llvm("clang"), &words).current_dir(&folder)).expect_success();
    for mode in ["link", "lto", "module"] {
        let mode = format!("--pcce-mode={mode}");
        let words = ["-O2", "-g", &mode, "--pcce-verify", "main.c", "around.o", "-o", "program"];
        run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
        let (output, report) = run_with_report(&folder.join("program"));
        assert_eq!((output.status, mismatches(&report)), (0, 0), "{mode}: {report}");
        let contexts = folded(&folder, &["program", "--collapse"], &output.stdout);
        let of_around = "main;<around, not instrumented>;note ";
        let counts: Vec<&str> = contexts.lines().filter_map(|line| line.strip_prefix(of_around)).collect();
        assert_eq!(counts, ["6"], "{mode}: {contexts}");
    }
}

/// Builds `main.c` with a library of `library.c`, and runs it.
fn with_library(folder: &Path, mode: &str, level: &str) -> (Output, String) {
    let build = |words: &[&str]| {
        let mode = format!("--pcce-mode={mode}");
        let mut clang = command(artifact("pcce-clang"), &[level, "-g", &mode, "--pcce-verify"]);
        run(clang.args(words).current_dir(folder)).expect_success();
    };
    build(&["-fPIC", "-shared", "library.c", "-o", "library.so"]);
    let library = folder.join("library.so").display().to_string();
    build(&["main.c", &library, "-o", "program"]);
    run_with_report(&folder.join("program"))
}

/// A function that a direct call has reached leaves by a tail call to one of a library. The decoder names only this
/// function.
#[test]
fn a_function_leaves_to_one_of_a_library() {
    let folder = work_folder("verify_mode/leaves_to_a_library");
    let library = source!("verify/leaves/library.c");
    fs::write(folder.join("library.c"), library).unwrap();
    let main = source!("verify/leaves/main.c");
    fs::write(folder.join("main.c"), main).unwrap();
    for mode in ["link", "lto", "module"] {
        let (output, report) = with_library(&folder, mode, "-O2");
        assert_eq!((output.status, mismatches(&report)), (0, 0), "{mode}: {report}");
        let contexts = folded(&folder, &["program", "--dicts", ".", "--collapse"], &output.stdout);
        let of_library = |line: &&str| line.contains(";library ");
        assert_eq!(
            contexts.lines().filter(of_library).count(),
            contexts.lines().count(),
            "{mode}: {contexts}"
        );
        assert!(
            mode != "lto" || contexts.contains("main;<first, left by a tail call>;library 3"),
            "{contexts}"
        );
    }
}

/// A call through a pointer reaches a function, or others that leave to it by tail calls: one of the program, and one
/// of its library. Where a frame is marked, the context says so, and there is one number for what is shown.
#[test]
fn contexts_tell_marked_frames_from_others() {
    let folder = work_folder("verify_mode/left");
    let [library, main] = [source!("verify/left/library.c"), source!("verify/left/main.c")];
    fs::write(folder.join("library.c"), library).unwrap();
    fs::write(folder.join("main.c"), main).unwrap();
    for mode in ["link", "lto", "module"] {
        let (output, report) = with_library(&folder, mode, "-O1");
        assert_eq!((output.status, mismatches(&report)), (0, 0), "{mode}: {report}");
        // Each line has a context and its number.
        let contexts = folded(&folder, &["program", "--dicts", "."], &output.stdout);
        let mut lines: Vec<(&str, &str)> =
            contexts.lines().map(|line| line.rsplit_once(' ').expect("a number")).collect();
        lines.sort_unstable();
        lines.dedup();
        let shown: Vec<&str> = lines.iter().map(|line| line.0).collect();
        let expected = match mode {
            "module" => ["main;call;<calls left by a tail call>;target", "main;call;target"],
            _ => [
                "main;call;<calls left by a tail call, if any>;target",
                "main;call;<calls left by a tail call>;target",
            ],
        };
        assert_eq!(shown, expected, "{mode}: {contexts}");
    }
}

/// Type tests merge tables, which lose their names. A virtual function with variable arguments is called through a
/// thunk that leaves by a tail call.
#[test]
fn thunks_in_merged_tables_are_named() {
    // The record of its calls keeps the functions from being inlined.
    const PLAIN: &str = source!("verify/tables/plain.c");
    const SOURCE: &str = source!("verify/tables/main.cpp");
    let folder = work_folder("verify_mode/tables");
    let [source, plain, object] = ["main.cpp", "plain.c", "plain.o"].map(|name| folder.join(name));
    fs::write(&source, SOURCE).expect("the folder is ours");
    fs::write(&plain, PLAIN).expect("the folder is ours");
    run(command(llvm("clang"), &["-c", "-o"]).arg(&object).arg(&plain)).expect_success();
    for level in ["-O1", "-O2"] {
        let program = folder.join(level);
        let tables = ["-flto", "-fwhole-program-vtables", "-fvisibility=hidden", "-std=c++17"];
        let verify = ["--pcce-mode=lto", "--pcce-verify", level, "-g"];
        let mut build = command(artifact("pcce-clang++"), &[&tables[..], &verify].concat());
        run(build.arg(&source).arg(&object).arg("-o").arg(&program)).expect_success();
        let (_, report) = run_with_report(&program);
        assert_eq!(mismatches(&report), 0, "{level}: {report}");
    }
}
