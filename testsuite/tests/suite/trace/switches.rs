//! Recording that is switched on and off while the program runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, json_lines, repository, run, work_folder};
use serde_json::Value;

use super::{pcce_trace, record};

/// What an event is, as text.
fn text(event: &Value) -> String {
    let line = &event["frames"][0]["line"];
    format!("{} {} {line} {};", event["kind"], event["function"], event["depth"])
}

/// The events of each thread, in pieces between which nothing was recorded.
fn pieces(program: &Path, trace: &Path) -> Vec<String> {
    pieces_of(&pcce_trace(&["show", "--format", "json"], program, trace).stdout)
}

/// The same, of what `pcce trace show` has printed.
pub(crate) fn pieces_of(shown: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut last: BTreeMap<u64, String> = BTreeMap::new();
    for event in json_lines(shown) {
        let piece = last.entry(event["stream"].as_u64().expect("a number")).or_default();
        match event["kind"].as_str().expect("a kind") {
            "gap" | "known" | "active" | "end" => pieces.push(std::mem::take(piece)),
            _ => piece.push_str(&text(&event)),
        }
    }
    pieces.extend(last.into_values());
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// A signal stops recording, and the next one starts it again, in all threads. What is active then is known, and
/// nothing is missing or wrong up to the next stop.
#[test]
fn a_signal_switches_recording() {
    let folder = work_folder("trace_switches/signal");
    let source = repository().join("testsuite/traces/switched.c");
    let cases = [
        ("link", "-O1", "0"),
        ("link", "-O2", "20"),
        ("lto", "-O1", "20"),
        ("module", "-O0", "0"),
        ("module", "-O2", "20"),
        ("lto", "-O0", "0"),
    ];
    let mut begun = 0;
    for (mode, level, stress) in in_turn(0, cases) {
        let program = folder.join(format!("{mode}{level}"));
        let (whole, trace) = (program.with_extension("whole"), program.with_extension("trace"));
        let mode = format!("--pcce-mode={mode}");
        let mut build =
            command(artifact("pcce-clang"), &["--pcce-trace", "--pcce-verify", "-g", "-pthread", "-o"]);
        run(build.arg(&program).args([&mode, level]).arg(&source)).expect_success();
        record(&mut command(&program, &["0"]), &whole);
        let threads = pieces(&program, &whole);
        let mut start = command(&program, &["200"]);
        record(start.env("PCCE_TRACE_SIGNAL", "14").env("PCCE_TRACE_STRESS", stress), &trace);
        for piece in pieces(&program, &trace) {
            assert!(threads.iter().any(|thread| thread.contains(&piece)), "{mode} {level} {stress}: {piece}");
            begun += 1;
        }
        let checked = pcce_trace(&["check"], &program, &trace);
        assert!(checked.stdout.contains(", 0 chunks do not match"), "{}", checked.describe());
    }
    assert!(begun > 60, "{begun}");
}

/// Recording can wait for the signal, or for the program.
#[test]
fn recording_begins_paused() {
    let folder = work_folder("trace_switches/paused");
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    let source = repository().join("testsuite/traces/switched.c");
    let mut build = command(artifact("pcce-clang"), &["--pcce-trace", "-g", "-O1", "-pthread", "-o"]);
    run(build.arg(&program).arg(source)).expect_success();
    record(command(&program, &["0"]).env("PCCE_TRACE_PAUSED", "1"), &trace);
    assert_eq!(pieces(&program, &trace), [""; 0]);
    let _ = fs::remove_file(&trace);
    record(command(&program, &["150"]).env("PCCE_TRACE_PAUSED", "1").env("PCCE_TRACE_SIGNAL", "14"), &trace);
    let shown = pcce_trace(&["show"], &program, &trace);
    assert!(shown.stdout.contains("step at ") && shown.stdout.contains("[active]"), "{}", shown.stdout);
    // Without a signal of that number, the program runs as before.
    let mut start = command(&program, &["0"]);
    let said = record(start.env("PCCE_TRACE_SIGNAL", "9"), &trace);
    assert!(said.stderr.contains("PCCE_TRACE_SIGNAL is not the number of a signal"), "{}", said.stderr);
}
