//! The decoder for Python, as a wheel that is installed into an environment of its own, and the example for
//! OpenTelemetry.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use pcce_testsuite::{
    artifact, command, json_lines, repository, run, run_with_input, run_within, work_folder,
};
use serde_json::Value;

/// The interpreter of an environment in which the wheel is installed.
fn python() -> PathBuf {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let made = PYTHON.get_or_init(|| {
        let mut build = command(repository().join("scripts/build-wheel"), &[]);
        let built = run_within(&mut build, "", Duration::from_secs(1200)).unwrap_or_else(|e| panic!("{e}"));
        let wheel = built.expect_success().stdout;
        let folder = work_folder("python/environment");
        run(command("python3", &["-m", "venv"]).arg(&folder)).expect_success();
        let words = ["install", "--quiet", "--no-index", "--disable-pip-version-check", wheel.trim()];
        run(&mut command(folder.join("bin/pip"), &words)).expect_success();
        // Requests of OpenTelemetry, as its own definitions have them.
        let words = ["install", "--quiet", "--disable-pip-version-check", "opentelemetry-proto>=1.30,<2"];
        run(&mut command(folder.join("bin/pip"), &words)).expect_success();
        folder.join("bin/python3")
    });
    made.clone()
}

#[test]
fn the_wheel_decodes_what_the_command_decodes() {
    let folder = work_folder("python/decoding");
    let source = repository().join("testsuite/python/decoding.c");
    let pcce = |words: &[&str]| {
        let output = run(command(artifact("pcce"), words).current_dir(&folder)).expect_success();
        output.stdout.trim_end().to_owned()
    };
    let mut build = command(artifact("pcce-clang"), &["-g", "-O1", "-o", "program"]);
    run(build.arg(source).current_dir(&folder)).expect_success();
    let mut program = command(folder.join("program"), &[]);
    let printed = run(program.current_dir(&folder).env("PCCE_NUMBERS", "numbers")).expect_success().stdout;
    let [token, interned, number] = printed.lines().collect::<Vec<_>>()[..] else { panic!("{printed}") };
    fs::create_dir(folder.join("store")).expect("can be made");
    pcce(&["dict", "--store", "store", "program"]);
    let text = pcce(&["decode", "program", token]);
    let folded =
        |words: &[&str]| pcce(&[&["decode", "--format", "folded"], words].concat()).replace(" 1", "");
    let of_token = folded(&["program", token]);
    assert_eq!(folded(&["program", "--numbers", "numbers", interned]), of_token);
    let (script, of_number) =
        (repository().join("testsuite/python/decoding.py"), folded(&["program", number]));
    let mut check = command(python(), &[]);
    check
        .arg(script)
        .args(["program", "store", token, interned, number, "numbers", &text, &of_token, &of_number]);
    run(check.current_dir(&folder)).expect_success();
}

#[test]
fn telemetry_gets_the_calls_behind_its_tokens() {
    let folder = work_folder("python/telemetry");
    let mut build = command(artifact("pcce-clang++"), &["-g", "-O2", "-o", "program"]);
    let source = repository().join("docs/guide/src/programs/telemetry.cpp");
    run(build.arg(source).current_dir(&folder)).expect_success();
    let written = run(&mut command(folder.join("program"), &[])).expect_success().stdout;
    let process = |dictionaries: &str| {
        let mut process = command(python(), &[]);
        process.arg(repository().join("decoder/python/examples/otlp.py")).arg(dictionaries);
        run_with_input(process.current_dir(&folder), &written).expect_success().stdout
    };
    let processed = process("program");
    let mut check = command(python(), &[]);
    check.arg(repository().join("testsuite/python/otlp_requests.py"));
    run_with_input(&mut check, &(written.clone() + &processed)).expect_success();
    let attributes = |text: &str| -> Vec<Vec<(String, String)>> {
        let of_line = |line: &Value| {
            let log = &line["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["attributes"];
            let span = &line["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"];
            let list = log.as_array().or(span.as_array()).expect("attributes");
            let value = |value: &Value| {
                value["stringValue"].as_str().or(value["intValue"].as_str()).map(str::to_owned)
            };
            let pair = |a: &Value| {
                (a["key"].as_str().expect("a key").to_owned(), value(&a["value"]).expect("a value"))
            };
            list.iter().map(pair).collect()
        };
        json_lines(text).iter().map(of_line).collect()
    };
    let lines: Vec<HashMap<_, _>> = attributes(&processed).into_iter().map(HashMap::from_iter).collect();
    let of = |line: usize, key: &str| lines[line].get(key).map_or("", String::as_str);
    assert_eq!(lines.len(), 3, "{processed}");
    for (line, number) in [(0, "39"), (1, "40"), (2, "39")] {
        assert_eq!(of(line, "code.function.name"), "reload(int)");
        assert_eq!(of(line, "code.line.number"), number);
        assert!(of(line, "code.file.path").ends_with("/telemetry.cpp"), "{processed}");
        let decoded =
            run(command(artifact("pcce"), &["decode", "program", of(line, "pcce.token")])
                .current_dir(&folder));
        assert_eq!(of(line, "code.stacktrace"), decoded.expect_success().stdout.trim_end());
    }
    // Without the dictionary it says so, and changes nothing else.
    fs::create_dir(folder.join("empty")).expect("can be made");
    for (line, before) in attributes(&process("empty")).iter().zip(attributes(&written)) {
        assert_eq!((&line[..1], line[1].0.as_str(), line.len()), (&before[..], "pcce.error", 2));
        assert!(line[1].1.contains("no dictionary was found"), "{}", line[1].1);
    }
}
