//! Traces for speedscope, by the rules of its file format.

use std::collections::BTreeMap;
use std::fs;

use pcce_testsuite::{artifact, command, repository, run, work_folder};
use serde_json::Value;

use super::pcce_trace;

/// Checks a file with evented profiles. Returns how often each frame was opened.
fn opened(file: &Value) -> BTreeMap<String, u64> {
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = file["shared"]["frames"].as_array().expect("frames");
    let names: Vec<&str> = frames.iter().map(|frame| frame["name"].as_str().expect("a name")).collect();
    let mut opened = BTreeMap::new();
    for profile in file["profiles"].as_array().expect("profiles") {
        assert_eq!(
            (profile["type"].as_str(), profile["unit"].as_str()),
            (Some("evented"), Some("nanoseconds"))
        );
        assert!(profile["name"].is_string(), "{profile}");
        let value = |key: &str| profile[key].as_u64().expect("a number");
        let (mut last, mut open) = (value("startValue"), Vec::new());
        for event in profile["events"].as_array().expect("events") {
            let (at, frame) =
                (event["at"].as_u64().expect("a time"), event["frame"].as_u64().expect("a frame"));
            assert!(at >= last, "{event}");
            last = at;
            let name = names[usize::try_from(frame).expect("small")];
            match event["type"].as_str() {
                Some("O") => {
                    open.push(frame);
                    *opened.entry(name.to_owned()).or_default() += 1;
                }
                Some("C") => assert_eq!(open.pop(), Some(frame), "{event}"),
                _ => panic!("{event}"),
            }
        }
        assert!(open.is_empty() && last <= value("endValue"), "{open:?}");
    }
    opened
}

/// Calls that are active when a process ends, crashes or is killed end with the profile; each call of the viewers' own
/// format is there once.
#[test]
fn profiles_for_speedscope_are_balanced() {
    let folder = work_folder("trace_speedscope");
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    let mut build = command(artifact("pcce-clang"), &["--pcce-trace", "-g", "-O1", "-pthread", "-o"]);
    run(build.arg(&program).arg(repository().join("testsuite/traces/ends.c"))).expect_success();
    for way in ["nowhere", "killed", "thread"] {
        let _ = fs::remove_file(&trace);
        let report = folder.join("report");
        run(command(&program, &[way]).env("PCCE_TRACE", &trace).env("PCCE_CRASH_REPORT", report));
        let export = |format: &str| {
            let output = pcce_trace(&["export", "--format", format], &program, &trace);
            serde_json::from_str::<Value>(&output.stdout)
                .unwrap_or_else(|e| panic!("{e}: {}", output.describe()))
        };
        let opened = opened(&export("speedscope"));
        let mut begun = BTreeMap::new();
        for event in export("chrome")["traceEvents"].as_array().expect("events") {
            if ["X", "i"].contains(&event["ph"].as_str().expect("a phase")) {
                *begun.entry(event["name"].as_str().expect("a name").to_owned()).or_default() += 1;
            }
        }
        assert_eq!(opened, begun, "{way}");
        assert!(opened.contains_key("main") && opened.len() > 3, "{way}: {opened:?}");
    }
}
