//! Two runs, compared.

use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::{Output, artifact, command, json_lines, run, source, work_folder};

use super::record;

fn diff(program: &Path, traces: &[PathBuf; 2], words: &[&str]) -> Output {
    let mut diff = command(artifact("pcce"), &["trace", "diff"]);
    run(diff.args(words).arg(program).args(traces)).expect_success()
}

/// Builds a program, and records it with these arguments.
fn recorded(name: &str, text: &str, arguments: [&[&str]; 2]) -> (PathBuf, [PathBuf; 2]) {
    let work = work_folder(&format!("trace_diff/{name}"));
    fs::write(work.join("program.c"), text).unwrap();
    let words = ["--pcce-trace", "-g", "-O1", "program.c", "-pthread", "-o", "program"];
    run(command(artifact("pcce-clang"), &words).current_dir(&work)).expect_success();
    let program = work.join("program");
    let traces = ["one", "two"].map(|name| work.join(name));
    for (trace, arguments) in traces.iter().zip(arguments) {
        record(&mut command(&program, arguments), trace);
    }
    (program, traces)
}

/// Threads are matched by what they do, not by the order in which they begin, and what waits can be left out.
#[test]
fn workers_are_compared_with_those_that_do_the_same() {
    let text = source!("traces/workers.c");
    let (program, traces) = recorded("workers", text, [&["1234"], &["4321"]]);
    let said = diff(&program, &traces, &["--ignore", "waits"]).stdout;
    let same = said.lines().filter(|line| line.contains(": the same ")).count();
    assert_eq!(same, 5, "{said}");
    assert!(said.contains("each function is called as often in both runs"), "{said}");
    // Without that, each worker waits another number of times.
    let said = diff(&program, &traces, &[]).stdout;
    let parted = said.lines().filter(|line| line.contains("events are the same, of")).count();
    assert_eq!(parted, 4, "{said}");
    assert!(said.contains("waits at "), "{said}");
}

/// Behind a difference the runs meet again, and each further difference is told.
#[test]
fn runs_meet_again_behind_a_difference() {
    let text = source!("traces/steps_of_words.c");
    let (program, traces) = recorded("meets", text, [&["aaabcabcaab"], &["aabcabcbaab"]]);
    let said = diff(&program, &traces, &[]).stdout;
    let lines: Vec<&str> =
        said.lines().filter(|line| line.starts_with("  - ") || line.starts_with("  + ")).collect();
    let calls: Vec<(char, &str)> = lines
        .iter()
        .map(|line| {
            (
                line.trim_start().chars().next().expect("a sign"),
                line.split_whitespace().nth(2).expect("a call"),
            )
        })
        .collect();
    assert_eq!(calls, [('-', "a"), ('+', "b")], "{said}");
    let rows = json_lines(&diff(&program, &traces, &["--format", "json"]).stdout);
    assert_eq!(rows[0]["hunks"].as_array().map(Vec::len), Some(2), "{rows:?}");
    assert_eq!(rows[0]["compared_to_the_end"], true);
    let rows = json_lines(&diff(&program, &traces, &["--format", "json", "--hunks", "1"]).stdout);
    assert_eq!(rows[0]["hunks"].as_array().map(Vec::len), Some(1), "{rows:?}");
    assert_eq!(rows[0]["compared_to_the_end"], false);
}

/// Handlers are compared with those of the same thread, whichever other threads there are.
#[test]
fn runs_are_compared_thread_by_thread() {
    let work = work_folder("trace_check/threads");
    let source = "#include <pthread.h>\n#include <signal.h>\n\
         __attribute__((noinline)) void leaf(int n) { __asm__ volatile(\"\" : : \"r\"(n)); }\n\
         static void handler(int s) { leaf(s); }\n\
         static void *thread(void *p) { leaf(1); return p; }\n\
         int main(int c, char **v) { pthread_t t; (void)v; signal(SIGUSR1, handler); raise(SIGUSR1);\n\
         if (c == 1 && pthread_create(&t, 0, thread, 0) == 0) pthread_join(t, 0);\n return 0; }\n";
    fs::write(work.join("threads.c"), source).unwrap();
    let program = work.join("threads");
    let words = ["--pcce-trace", "-g", "-O1", "threads.c", "-o", "threads"];
    run(command(artifact("pcce-clang"), &words).current_dir(&work)).expect_success();
    let traces = [work.join("with"), work.join("without")];
    record(&mut command(&program, &[]), &traces[0]);
    record(&mut command(&program, &["more"]), &traces[1]);
    let ran = run(command(artifact("pcce"), &["trace", "diff"]).arg(&program).args(&traces));
    let said = &ran.stdout;
    assert!(said.contains("signal handlers: the same 3 events"), "{said}");
    assert!(said.contains(": only in the first run, 3 events"), "{said}");
}
