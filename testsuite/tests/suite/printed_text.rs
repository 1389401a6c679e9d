//! Output of commands: nothing controls a terminal, whatever the names of functions, and its amount is bounded.

use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::{Output, artifact, command, include, repository, run, work_folder};

fn build(compiler: &str, flags: &[&str], source: &Path, program: &Path) {
    let mut build = command(artifact(compiler), &["-g", "-O1", "--pcce-mode=lto"]);
    let include = include("runtime-lib/include");
    run(build.arg(include).args(flags).arg(source).arg("-o").arg(program)).expect_success();
}

/// Returns whether the text has a character that must not reach a terminal.
fn controls(text: &str) -> Option<char> {
    let is_hidden =
        |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}');
    text.chars().find(|c| c.is_control() && *c != '\n' && *c != '\t' || is_hidden(*c))
}

#[test]
fn no_name_controls_a_terminal() {
    let folder = work_folder("printed/names");
    let source = repository().join("testsuite/traces/escapes.c");
    let program = folder.join("program");
    build("pcce-clang", &["--pcce-trace", "--pcce-heap"], &source, &program);
    let file = |name: &str| folder.join(name);
    for name in ["trace", "heap", "cpu"] {
        let _ = fs::remove_file(file(name));
    }
    let mut start = command(&program, &[]);
    start.env("PCCE_TRACE", file("trace")).env("PCCE_HEAP_PROFILE", file("heap"));
    let output =
        run(start.env("PCCE_SAMPLE", "1000").env("PCCE_SAMPLE_PROFILE", file("cpu"))).expect_success();
    let token = output.stdout.trim_start_matches("T ").trim().to_owned();
    fs::write(file("log"), &output.stdout).unwrap();
    let (trace, log) = (file("trace").display().to_string(), file("log").display().to_string());
    let (heap, cpu) = (file("heap").display().to_string(), file("cpu").display().to_string());
    let name = program.display().to_string();
    let name = name.as_str();
    for words in [
        &["decode", name, &token][..],
        &["decode", name, &token, "--format", "json"],
        &["decode", name, &token, "--format", "folded"],
        &["filter", name, &log],
        &["filter", name, &log, "--collapse", "--format", "json"],
        &["dict", name],
        &["info", name, "--format", "json"],
        &["graph", name],
        &["graph", name, "--around", "direction"],
        &["heap", "report", name, &heap],
        &["heap", "report", name, &heap, "--format", "json"],
        &["heap", "folded", name, &heap, "--by", "allocated"],
        &["heap", "speedscope", name, &heap],
        &["heap", "flamegraph", name, &heap, "--by", "allocated"],
        &["cpu", "report", name, &cpu, "--format", "json"],
        &["cpu", "folded", name, &cpu],
        &["trace", "show", name, &trace],
        &["trace", "show", name, &trace, "--format", "json"],
        &["trace", "report", name, &trace],
        &["trace", "report", name, &trace, "--format", "json"],
        &["trace", "stats", name, &trace, "--format", "json"],
        &["trace", "find", name, &trace, "malloc", "--format", "json"],
        &["trace", "at", name, &trace, "3", "--format", "json"],
        &["trace", "find", name, &trace, "\u{202e}"],
        &["trace", "diff", name, &trace, &trace, "--format", "json"],
        &["trace", "export", "--format", "json", name, &trace],
        &["trace", "export", "--format", "chrome", name, &trace],
        &["trace", "export", "--format", "folded", name, &trace],
        &["trace", "export", "--format", "svg", name, &trace],
    ] {
        let output: Output = run(&mut command(artifact("pcce"), words));
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{words:?}");
        for text in [&output.stdout, &output.stderr] {
            assert_eq!(controls(text), None, "{words:?}: {text}");
        }
        // JSON has the name unchanged.
        if words.contains(&"decode") && words.contains(&"json") {
            let line: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
            assert!(line.to_string().contains("\u{202e} rtl\u{9b}31m\u{e0041}"), "{line}");
        }
    }
}

const DEEP: &str = "#include <stdlib.h>\n\
    __attribute__((noinline)) int down(int n) {\n\
    volatile int own = n; return n ? down(n - 1) + atoi(\"1\") + own : own; }\n\
    int main(int count, char **arguments) { return down(atoi(arguments[count - 1])) == 3; }\n";

/// The sum of the values of folded stacks.
fn events(folded: &str) -> u64 {
    folded
        .lines()
        .map(|line| line.rsplit_once(' ').expect("a number").1.parse::<u64>().expect("a number"))
        .sum()
}

/// Deep recursion: the output is bounded, no event is lost, and the output says what was counted together.
#[test]
fn folded_stacks_of_deep_recursion_are_bounded() {
    let folder = work_folder("printed/deep");
    let source = folder.join("deep.c");
    fs::write(&source, DEEP).unwrap();
    let program = folder.join("deep");
    build("pcce-clang", &["--pcce-trace"], &source, &program);
    let trace = |depth: &str| -> PathBuf {
        let trace = folder.join(format!("trace{depth}"));
        let _ = fs::remove_file(&trace);
        let start = "ulimit -s unlimited; exec \"$0\" \"$1\"";
        let mut start = command("bash", &["-c", start]);
        run(start.arg(&program).arg(depth).env("PCCE_TRACE", &trace)).expect_success();
        trace
    };
    let folded = |trace: &Path, words: &[&str]| {
        let mut export = command(artifact("pcce"), &["trace", "export", "--format", "folded"]);
        run(export.args(words).arg(&program).arg(trace)).expect_success()
    };
    let few = trace("400");
    let whole = folded(&few, &[]);
    assert_eq!(whole.stderr, "");
    let cut = folded(&few, &["--depth", "10"]);
    assert!(
        cut.stdout.contains(";down;down;<deeper calls> ") && cut.stdout.lines().count() < 24,
        "{}",
        cut.stdout
    );
    assert!(cut.stderr.contains("events in more than 10 calls inside of each other"), "{}", cut.stderr);
    assert_eq!(events(&whole.stdout), events(&cut.stdout));
    let (some, many) = (trace("20000"), trace("100000"));
    let mut report = command(artifact("pcce"), &["trace", "report", "--format", "json"]);
    let report = run(report.arg(&program).arg(&many)).expect_success().stdout;
    let (some, many) = (folded(&some, &[]), folded(&many, &[]));
    let first = report.lines().next().expect("the totals");
    let all: serde_json::Value = serde_json::from_str(first).expect("JSON");
    assert_eq!(all["events"], events(&many.stdout), "{first}");
    assert!(events(&many.stdout) >= 200_000);
    assert!(many.stdout.len() < some.stdout.len() + 100 && many.stdout.len() < 8 << 20);
    assert!(many.stderr.contains("--depth N"), "{}", many.stderr);
}
