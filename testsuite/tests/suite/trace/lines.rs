//! Lines of programs that record their blocks: lines behind a call are executed if it returns.

use std::fs;
use std::path::{Path, PathBuf};

use super::record;
use pcce_testsuite::{artifact, command, repository, run, work_folder};

const MODES: [&str; 3] = ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"];

/// Builds a program and runs it. Returns the output of `pcce trace`.
fn traced(
    folder: &Path,
    compiler: &str,
    source: &Path,
    flags: &[&str],
) -> impl Fn(&[&str]) -> String + use<> {
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    let mut build = command(artifact(compiler), &["--pcce-trace=blocks", "-g", "-pthread"]);
    run(build.args(flags).arg(source).arg("-o").arg(&program)).expect_success();
    record(&mut command(&program, &[]), &trace);
    move |words: &[&str]| super::pcce_trace(words, &program, &trace).stdout
}

/// Calls that do not return: an exception, `longjmp`, `exit`, `pthread_exit`. The source has the count of each line.
#[test]
fn lines_behind_calls_that_do_not_return_are_not_executed() {
    let source = repository().join("testsuite/traces/unreturned.cpp");
    let text = fs::read_to_string(&source).expect("the source");
    for mode in MODES {
        for level in ["-O0", "-O1"] {
            let folder = work_folder(&format!("trace_lines/unreturned{mode}{level}"));
            let pcce = traced(&folder, "pcce-clang++", &source, &[mode, level, "-fno-inline"]);
            let (covered, shown) = (pcce(&["coverage"]), pcce(&["show", "--lines"]));
            let mut compared = 0;
            for (number, line) in (1..).zip(text.lines()) {
                let Some((_, expected)) = line.rsplit_once(" // ") else { continue };
                let start = format!("DA:{number},");
                // The optimiser may have merged the line with another one.
                let Some(count) = covered.lines().find_map(|found| found.strip_prefix(&*start)) else {
                    assert!(level != "-O0", "{mode}: line {number} is not there: {covered}");
                    continue;
                };
                assert_eq!(count, expected, "{mode} {level}, line {number}");
                let of_line = |shown: &&str| {
                    let numbers = shown.split_once(" line ").and_then(|(_, place)| place.split_once(".cpp:"));
                    numbers.is_some_and(|(_, numbers)| numbers.split(", ").any(|n| n == number.to_string()))
                };
                let is_shown = shown.lines().any(|line| of_line(&line));
                assert_eq!(is_shown, expected != "0", "{mode} {level}, line {number}: {shown}");
                compared += 1;
            }
            assert!(compared > 25, "{mode} {level}: {compared}");
        }
    }
}

/// Lines are listed where they were executed: in front of a call, or behind it.
#[test]
fn lines_stand_between_the_calls() {
    let folder = work_folder("trace_lines/between");
    let source: PathBuf = folder.join("between.c");
    let text = "volatile int s;\nvoid a(void) { s++; }\nint main(void) {\n  a();\n  s = 2;\n  s = 3; a();\n  \
                s = 4;\n  return 0;\n}\n";
    fs::write(&source, text).expect("room on the disk");
    for mode in MODES {
        let pcce = traced(&folder, "pcce-clang", &source, &[mode, "-O0"]);
        let shown = pcce(&["show", "--lines"]).replace(&*folder.to_string_lossy(), "");
        let events: Vec<String> = shown
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            "main",
            "line /between.c:4",
            "a at /between.c:4:3",
            "line /between.c:2",
            "line /between.c:5, 6",
            "a at /between.c:6:10",
            "line /between.c:2",
            "line /between.c:7, 8",
            "<end>",
        ];
        assert_eq!(events, expected, "{mode}: {shown}");
    }
}
