//! Crashes where the stack does not show the way outwards: functions that have left by a jump, namesakes, words that
//! were overwritten, code in no file. What is not known must be a boundary.

use std::path::{Path, PathBuf};

use pcce_testsuite::chain::functions;
use pcce_testsuite::{artifact, command, repository, run, run_with_input, work_folder};
use serde_json::Value;

const MODES: [&str; 3] = ["link", "lto", "module"];

fn build(folder: &Path, mode: &str, sources: &[&str]) -> PathBuf {
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
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let _ = run(&mut command(artifact("pcce-clang"), &flags)).expect_success();
    program
}

/// The functions of the thread that dies, as the crash report and the core file have them.
fn dies(program: &Path, way: &str) -> [Vec<String>; 2] {
    let report = program.with_extension(format!("{way}.report"));
    let core = program.with_extension(format!("{way}.core"));
    let _ = std::fs::remove_file(&report);
    let line = "ulimit -c 0; exec \"$@\"";
    let mut shell = command("sh", &["-c", line, "sh", &program.display().to_string(), way]);
    let _ = run(shell.env("PCCE_CRASH_REPORT", &report));
    let text = std::fs::read_to_string(&report).expect("a report");
    let mut decode = command(artifact("pcce"), &["decode", "--format", "json"]);
    let reported = run_with_input(decode.arg(program), &text).expect_success();
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
    let _ = run(&mut command("gdb", &gdb)).expect_success();
    let mut decode = command(artifact("pcce"), &["core", "--format", "json"]);
    let found = run(decode.arg(program).arg(core)).expect_success();
    let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    [
        functions(&parse(reported.stdout.lines().next().expect("a context"))),
        functions(&parse(&found.stdout)["threads"][0]),
    ]
}

#[test]
fn who_left_before_a_silent_function_is_missed() {
    let folder = work_folder("crash_stacks/left");
    for mode in MODES {
        let program = build(&folder, mode, &["left.c"]);
        assert_eq!(dies(&program, ""), [["serve", "<tail>"]; 2], "{mode}");
    }
}

#[test]
fn what_the_stack_does_not_show_is_a_boundary() {
    let folder = work_folder("crash_stacks/ways");
    for mode in MODES {
        let program = build(&folder, mode, &["stacks.c", "stacks_other.c"]);
        let namesakes: &[&str] = match mode {
            // A module by itself does not know what the other one calls.
            "module" => &["helper", "<tail>", "helper", "namesakes", "main"],
            _ => &["helper", "<tail>", "namesakes", "main"],
        };
        // Code in no file is called by a push, whose frame the chain goes on with, or by none.
        let pushed: &[&str] = match mode {
            "module" => &["<uninstrumented>", "<unknown>", "generated", "main"],
            _ => &["<uninstrumented>", "<unknown>"],
        };
        let signal = ["on_signal", "<tail>", "<uninstrumented>", "<signal>", "<uninstrumented>", "main"];
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
