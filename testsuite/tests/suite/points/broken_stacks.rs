//! Crashes where the stack does not show all callers: functions that have left by a jump, functions of one name, words
//! that were overwritten, code in no file. Unknown callers must be a boundary.

use std::path::{Path, PathBuf};

use pcce_testsuite::chain::{decode, functions};
use pcce_testsuite::{artifact, command, folded, repository, run, work_folder};
use serde_json::Value;

const MODES: [&str; 3] = ["link", "lto", "module"];

fn build(folder: &Path, mode: &str, sources: &[&str]) -> PathBuf {
    build_with(folder, mode, sources, &[])
}

fn build_with(folder: &Path, mode: &str, sources: &[&str], more: &[&str]) -> PathBuf {
    let program = folder.join(mode);
    let sources =
        sources.iter().map(|source| repository().join("testsuite/crash").join(source).display().to_string());
    let mode = format!("--pcce-mode={mode}");
    let to = program.display().to_string();
    let mut flags: Vec<String> = ["-O2", "-g", "-pthread", "-fno-stack-protector", &mode, "-o", &to]
        .into_iter()
        .map(str::to_owned)
        .collect();
    flags.extend(sources);
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    run(&mut command(artifact("pcce-clang"), &flags)).expect_success();
    program
}

/// The report of a program that dies of a segmentation fault.
fn report(program: &Path, way: &[&str]) -> String {
    let report = program.with_extension(format!("{}.report", way.join("-")));
    let _ = std::fs::remove_file(&report);
    let line = "ulimit -c 0; exec \"$@\"";
    let mut shell = command("sh", &["-c", line, "sh", &program.display().to_string()]);
    let _ = run(shell.args(way).env("PCCE_CRASH_REPORT", &report));
    std::fs::read_to_string(&report).expect("a report")
}

/// The functions of the thread that dies, in the crash report and in the core file.
fn dies(program: &Path, way: &str) -> [Vec<String>; 2] {
    let core = program.with_extension(format!("{way}.core"));
    let reported = decode(program, &report(program, &[way]));
    let save = format!("gcore {}", core.display());
    let goes_on = "handle SIGUSR1 nostop noprint pass";
    let gdb = [
        "-nx",
        "-batch",
        "-ex",
        goes_on,
        "-ex",
        "run",
        "-ex",
        &save,
        "--args",
        &program.display().to_string(),
        way,
    ];
    run(&mut command("gdb", &gdb)).expect_success();
    let mut decode = command(artifact("pcce"), &["core", "--format", "json"]);
    let found = run(decode.arg(program).arg(core)).expect_success();
    let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    [
        functions(&parse(reported.lines().next().expect("a context"))),
        functions(&parse(&found.stdout)["threads"][0]),
    ]
}

#[test]
fn a_function_that_left_before_a_silent_one_leaves_a_boundary() {
    let folder = work_folder("crash_stacks/left");
    for mode in MODES {
        let program = build(&folder, mode, &["left.c"]);
        assert_eq!(dies(&program, ""), [["serve", "<tail>"]; 2], "{mode}");
    }
}

/// Writes far above a buffer do not reach what the handler reads: the auxiliary vector is above the stack, the block of
/// a thread is behind its own stack, and the runtime's data is behind the program's.
#[test]
fn a_write_that_runs_away_is_reported() {
    let folder = work_folder("crash_stacks/wild");
    for (mode, more) in [("link", &[][..]), ("lto", &[]), ("module", &[]), ("lto", &["-static"])] {
        let program = build_with(&folder, mode, &["wild.c"], more);
        for (from, expected) in [
            ("stack", &["fill", "parse", "reads", "main"][..]),
            ("data", &["fill", "parse", "reads", "main"]),
            ("thread", &["fill", "parse"]),
        ] {
            for byte in ["0", "65", "255"] {
                // Behind the stack of a thread there is also a word of the kernel's. A write to it ends the process in
                // other builds.
                if from == "thread" && byte != "0" {
                    continue;
                }
                let report = report(&program, &[from, byte]);
                let what = format!("{mode} {more:?} {from} {byte}: {report}");
                let id = report.lines().find_map(|line| line.strip_prefix("build-id: ")).expect("a build id");
                assert!(id.len() == 40 && report.ends_with("end: complete\n"), "{what}");
                let text = decode(&program, &report);
                let first = text.lines().next().expect("a context");
                let found = functions(&serde_json::from_str(first).expect("JSON"));
                match from {
                    // Nothing is known above what the stack shows.
                    "thread" => assert!(
                        found.starts_with(&["fill".into(), "parse".into()])
                            && found.last().is_some_and(|f| f.starts_with('<')),
                        "{what}{found:?}"
                    ),
                    _ => assert_eq!(found, expected, "{what}"),
                }
            }
        }
    }
}

/// An instrumented function is not shown as one that is not, even if another function runs in its place.
#[test]
fn a_function_that_left_to_code_without_a_name_is_shown() {
    let folder = work_folder("crash_stacks/left-plain");
    for mode in MODES {
        let program = build(&folder, mode, &["left_plain.c"]);
        for way in ["length", "shows"] {
            assert_eq!(dies(&program, way), [["<uninstrumented>", "<tail>", "main"]; 2], "{mode} {way}");
        }
    }
}

#[test]
fn what_the_stack_does_not_show_is_a_boundary() {
    let folder = work_folder("crash_stacks/ways");
    for mode in MODES {
        let program = build(&folder, mode, &["stacks.c", "stacks_other.c"]);
        let namesakes: &[&str] = match mode {
            // A module by itself does not know what the other module calls.
            "module" => &["helper", "<tail>", "helper", "namesakes", "main"],
            _ => &["helper", "<tail>", "namesakes", "main"],
        };
        // Code in no file is called with a push, at whose frame the chain goes on, or without one.
        let pushed: &[&str] = match mode {
            "module" => &["<uninstrumented>", "<unknown>", "generated", "main"],
            _ => &["<uninstrumented>", "<unknown>"],
        };
        let signal = ["on_signal", "<tail>", "<signal>", "<uninstrumented>", "main"];
        let thread = ["job", "<tail>", "<thread>", "main"];
        for (way, expected) in [
            ("thread", &thread[..]),
            ("callback", &["die", "<tail>", "<uninstrumented>", "main"]),
            ("signal", &signal),
            ("exit", &["ends", "<tail>", "<uninstrumented>", "main"]),
            ("namesakes", namesakes),
            ("zeros", &["copies", "<unknown>"]),
            ("assembly", &["pushes", "<unknown>"]),
            ("0", pushed),
            ("1", pushed),
            ("3", pushed),
        ] {
            assert_eq!(dies(&program, way), [expected; 2], "{mode} {way}");
        }
    }
}

/// The contexts of the thread that dies, in its report.
fn ends(program: &Path) -> Vec<String> {
    let contexts = decode(program, &report(program, &[]));
    functions(&serde_json::from_str(contexts.lines().next().expect("a context")).expect("JSON"))
}

/// A function that has pushed owns the innermost frame, even if the place of its own activation is not known.
#[test]
fn without_unwind_tables_a_call_of_a_library_is_shown_once() {
    let folder = work_folder("crash_stacks/tables");
    let without = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    for mode in MODES {
        for more in [&without[..], &["-Wl,--no-eh-frame-hdr"], &[]] {
            let program = build_with(&folder, mode, &["no_tables.c"], more);
            let mut found = ends(&program);
            let own = found.split_off(found.iter().position(|f| f == "ends").expect("it is active"));
            assert_eq!(own, ["ends", "leads", "main"], "{mode} {more:?}");
            assert!(found.iter().all(|inner| inner == "<uninstrumented>"), "{mode} {more:?}: {found:?}");
        }
    }
}

/// A library's function has its name also where no stub leads to it.
#[test]
fn a_library_function_that_is_called_through_a_word_is_named() {
    let folder = work_folder("crash_stacks/words");
    for mode in MODES {
        let program = build_with(&folder, mode, &["through_words.c"], &["-fno-plt"]);
        let contexts = decode(&program, &report(&program, &[]));
        let context: Value = serde_json::from_str(contexts.lines().next().expect("a context")).expect("JSON");
        assert_eq!(functions(&context), ["<uninstrumented>", "measures", "main"], "{mode}: {context}");
        assert_eq!(context["frames"][0]["function"], "strlen", "{mode}: {context}");
    }
}

/// A call by name is shown as redirected only if it was.
#[test]
fn a_call_by_name_is_not_said_to_have_left() {
    let folder = work_folder("crash_stacks/name");
    for mode in MODES {
        let program = build_with(&folder, mode, &["by_name.c"], &[]);
        let contexts = decode(&program, &report(&program, &[]));
        let frames: Value = serde_json::from_str(contexts.lines().next().expect("a context")).expect("JSON");
        let frames = frames["frames"].as_array().expect("frames");
        let is_false = |frame: &Value| frame["kind"] == "tail" && frame["function"] == "dies";
        assert!(!frames.is_empty() && !frames.iter().any(is_false), "{mode}: {contexts}");
        let found = ends(&program);
        assert!(found.first().is_some_and(|inner| inner == "dies"), "{mode}: {found:?}");
        assert!(found.contains(&"calls".to_owned()), "{mode}: {found:?}");
    }
}

/// Missing or wrong unwind tables never lead to wrong frames.
#[test]
fn what_unwind_tables_do_not_say_is_unknown() {
    let folder = work_folder("crash_stacks/steps");
    let without = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    for mode in ["link", "lto"] {
        for (way, more) in [
            ("hoisted", &[][..]),
            ("assembly", &[]),
            ("pushed", &without),
            ("pushed", &["-Wl,--no-eh-frame-hdr"]),
            ("pushed", &[]),
        ] {
            let program = build_with(&folder, mode, &["steps.c"], more);
            let output = run(&mut command(&program, &[way])).expect_success().stdout;
            let decoded = folded(&folder, &[program.to_str().unwrap()], &output);
            let (mut exact, mut unknown) = (0, 0);
            for line in decoded.lines() {
                let (expected, shown) = line.split_once(' ').expect("a chain and a context");
                let (above, function) = expected.rsplit_once(';').expect("a function");
                // The known calls stand outside of the boundary, and only the function itself inside.
                match shown.split_once("<unknown calls") {
                    None => assert_eq!(shown, expected, "{mode} {way} {more:?}"),
                    Some((outer, inner)) => {
                        let outer_fits = format!("{above};{function};").starts_with(outer);
                        let inner = inner.split_once('>').expect("it ends").1;
                        let inner_fits = inner.is_empty() || inner == format!(";{function}");
                        assert!(outer_fits && inner_fits, "{mode} {way} {more:?}: {line}");
                    }
                }
                *if shown == expected { &mut exact } else { &mut unknown } += 1;
            }
            assert!(
                exact > 2 * unknown,
                "{mode} {way} {more:?}: {exact} points are known, {unknown} are not"
            );
        }
    }
}
