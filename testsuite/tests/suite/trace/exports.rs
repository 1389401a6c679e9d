//! Exports of a part of a trace, compared with each other and with the events.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use pcce_testsuite::{artifact, command, json_lines, repository, run, work_folder};
use serde_json::Value;

use super::{pcce_trace, record};

/// A program that sorts by callbacks, throws, has threads and handlers; and its trace.
fn traced(name: &str, flags: &[&str]) -> (PathBuf, PathBuf) {
    let folder = work_folder(&format!("trace_exports/{name}"));
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    let compiler = if name.ends_with("pp") { "pcce-clang++" } else { "pcce-clang" };
    let mut build = command(artifact(compiler), &["--pcce-trace", "-g", "-O1", "-pthread", "-o"]);
    let include = pcce_testsuite::include("runtime-lib/include");
    let source = repository().join("testsuite/programs").join(name);
    run(build.arg(&program).arg(source).arg(include).args(flags)).expect_success();
    record(&mut command(&program, &[]), &trace);
    (program, trace)
}

fn export(program: &Path, trace: &Path, format: &str, words: &[&str]) -> String {
    let output = pcce_trace(&[&["export", "--format", format], words].concat(), program, trace);
    assert_eq!(output.status, 0, "{format} {words:?}: {}", output.stderr);
    output.stdout
}

/// The calls of a thread, by name, begin and end in nanoseconds.
type Calls = BTreeMap<String, Vec<(String, u64, u64)>>;

fn nanoseconds(micros: &Value) -> u64 {
    (micros.as_f64().expect("a time") * 1000.0).round() as u64
}

fn chrome(text: &str) -> Calls {
    let file: Value = serde_json::from_str(text).expect("JSON");
    let (mut threads, mut calls) = (BTreeMap::new(), Calls::new());
    for event in file["traceEvents"].as_array().expect("events") {
        let row = (event["pid"].as_u64().expect("a number"), event["tid"].as_u64().expect("a number"));
        let name = event["name"].as_str().expect("a name").to_owned();
        match event["ph"].as_str() {
            Some("M") => {
                let thread = event["args"]["name"].as_str().expect("a name").to_owned();
                calls.entry(thread.clone()).or_default();
                threads.insert(row, thread);
            }
            Some("X") => {
                let (start, len) = (nanoseconds(&event["ts"]), nanoseconds(&event["dur"]));
                calls.get_mut(&threads[&row]).expect("a thread").push((name, start, start + len));
            }
            phase => assert_eq!(phase, Some("i"), "{event}"),
        }
    }
    calls.values_mut().for_each(|calls| calls.sort());
    calls
}

fn speedscope(text: &str) -> Calls {
    let file: Value = serde_json::from_str(text).expect("JSON");
    let name = |frame: &Value| {
        let frame = usize::try_from(frame.as_u64().expect("a number")).expect("small");
        file["shared"]["frames"][frame]["name"].as_str().expect("a name").to_owned()
    };
    let mut calls = Calls::new();
    for profile in file["profiles"].as_array().expect("profiles") {
        let own = calls.entry(profile["name"].as_str().expect("a name").to_owned()).or_default();
        let mut open = Vec::new();
        for event in profile["events"].as_array().expect("events") {
            let at = event["at"].as_u64().expect("a time");
            match event["type"].as_str() {
                Some("O") => open.push((name(&event["frame"]), at)),
                _ => {
                    let (name, start) = open.pop().expect("it was opened");
                    own.push((name, start, at));
                }
            }
        }
    }
    calls.values_mut().for_each(|calls| calls.sort());
    calls
}

/// The data of the page for browsers.
fn page(text: &str) -> Calls {
    let begin = r#"<script id="data" type="application/json">"#;
    let data = text.split_once(begin).and_then(|(_, rest)| rest.split_once("</script>")).expect("data").0;
    let data: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!([&data["leftOut"], &data["deeper"]], [0, 0]);
    let mut calls = Calls::new();
    for row in data["rows"].as_array().expect("rows") {
        let own = calls.entry(row["title"].as_str().expect("a title").to_owned()).or_default();
        let numbers: Vec<u64> =
            row["calls"].as_array().expect("calls").iter().map(|n| n.as_u64().expect("a number")).collect();
        let (mut depth, mut start) = (u64::MAX, 0);
        for &[of_call, since, len, name, _] in numbers.as_chunks().0 {
            if std::mem::replace(&mut depth, of_call) != of_call {
                start = 0;
            }
            start += since;
            let name = data["names"][usize::try_from(name).expect("small")].as_str().expect("a name");
            own.push((name.to_owned(), start, start + len));
        }
    }
    calls.values_mut().for_each(|calls| calls.sort());
    calls
}

/// A number of as many bytes as it needs, at the beginning of a message.
fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a byte");
        *bytes = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    number
}

/// The fields of a message: numbers, and bytes of texts and messages.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = varint(&mut bytes);
        let content = match key & 7 {
            0 => &[][..],
            2 => bytes.split_off(..usize::try_from(value).expect("small")).expect("the bytes are there"),
            kind => panic!("kind {kind}"),
        };
        fields.push((key >> 3, value, content));
    }
    fields
}

/// What a field of a message has.
fn field<'b>(message: &[(u64, u64, &'b [u8])], number: u64) -> Option<(u64, &'b [u8])> {
    message.iter().find(|field| field.0 == number).map(|&(_, value, content)| (value, content))
}

/// By the numbers of Perfetto's `trace_packet.proto`.
fn perfetto(bytes: &[u8]) -> Calls {
    let mut calls = Calls::new();
    let (mut thread, mut now, mut names, mut open) = (String::new(), 0, BTreeMap::new(), Vec::new());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    for (_, _, packet) in fields(bytes) {
        let packet = fields(packet);
        // A new sequence of packets, whose clock counts differences.
        if let Some((_, snapshot)) = field(&packet, 6) {
            let clocks = fields(snapshot);
            let own = fields(clocks.last().expect("clocks").2);
            assert_eq!(
                [1, 2, 3].map(|number| field(&own, number).map(|f| f.0)),
                [Some(64), Some(0), Some(1)]
            );
            assert_eq!(field(&fields(field(&packet, 59).expect("defaults").1), 58).map(|f| f.0), Some(64));
            (now, names) = (0, BTreeMap::new());
            assert!(open.is_empty(), "{open:?}");
        }
        if let Some((_, track)) = field(&packet, 60) {
            let track = fields(track);
            let of_thread = field(&track, 4).map(|(_, thread)| fields(thread));
            let name = match &of_thread {
                Some(thread) => field(thread, 5),
                None => field(&track, 2),
            };
            thread = text(name.expect("a name").1);
            calls.entry(thread.clone()).or_default();
        }
        for (_, _, name) in field(&packet, 12).map(|(_, interned)| fields(interned)).unwrap_or_default() {
            let name = fields(name);
            let (number, name) =
                (field(&name, 1).expect("a number").0, text(field(&name, 2).expect("a text").1));
            // Places have lines, too.
            if !name.contains('/') {
                names.insert(number, name);
            }
        }
        let Some((_, event)) = field(&packet, 11) else { continue };
        now += field(&packet, 8).expect("a time").0;
        let event = fields(event);
        match field(&event, 9).expect("a type").0 {
            1 => open.push((names[&field(&event, 10).expect("a name").0].clone(), now)),
            2 => {
                let (name, start) = open.pop().expect("it was opened");
                calls.get_mut(&thread).expect("a thread").push((name, start, now));
            }
            kind => assert_eq!(kind, 3),
        }
    }
    calls.values_mut().for_each(|calls| calls.sort());
    calls
}

/// The number of events in folded stacks.
fn events(folded: &str) -> u64 {
    folded
        .lines()
        .map(|line| line.rsplit_once(' ').expect("a count").1.parse::<u64>().expect("a number"))
        .sum()
}

#[test]
fn exports_have_the_events_that_are_asked_for() {
    for (name, flags) in [("threads.cpp", &[][..]), ("callbacks.c", &["-O2"])] {
        let (program, trace) = traced(name, flags);
        let (program, trace) = (program.as_path(), trace.as_path());
        let shown = |words: &[&str]| {
            let words = [&["show", "--format", "json"], words].concat();
            json_lines(&pcce_trace(&words, program, trace).expect_success().stdout)
        };
        let report = pcce_trace(&["report", "--format", "json"], program, trace).expect_success().stdout;
        let report = json_lines(&report);
        let function = report[1]["function"].as_str().expect("a name");
        let of_thread = shown(&[])[0]["thread"].to_string();
        for words in [
            &[][..],
            &["--from", "5", "--to", "40"],
            &["--from", "30"],
            &["--last", "25"],
            &["--function", function],
            &["--depth", "2"],
            &["--thread", &of_thread, "--to", "20"],
        ] {
            let calls = chrome(&export(program, trace, "chrome", words));
            assert_eq!(calls, speedscope(&export(program, trace, "speedscope", words)), "{name} {words:?}");
            assert!(calls.values().any(|calls| !calls.is_empty()), "{name} {words:?}");
            let lines = json_lines(&export(program, trace, "json", words));
            assert_eq!(lines, shown(words), "{name} {words:?}");
            let folded = export(program, trace, "folded", words);
            // The calls of the function itself are events of its callers.
            if !["--function", "--depth"].iter().any(|word| words.contains(word)) {
                let counted = [
                    "call",
                    "closed-call",
                    "open-call",
                    "returns-twice",
                    "tail-call",
                    "open-tail-call",
                    "return",
                    "exception",
                ];
                let is_counted = |line: &&Value| counted.contains(&line["kind"].as_str().expect("a kind"));
                let expected = lines.iter().filter(is_counted).count() as u64;
                assert_eq!(events(&folded), expected, "{name} {words:?}");
            }
        }
        // As many calls as the report has, and as many events in a function.
        let calls = chrome(&export(program, trace, "chrome", &[]));
        for row in &report[1..] {
            let name = row["function"].as_str().expect("a name");
            let of_name = calls.values().flatten().filter(|call| call.0 == name).count() as u64;
            assert!(of_name >= row["calls"].as_u64().expect("a number"), "{row}");
        }
        let folded = export(program, trace, "folded", &["--function", function]);
        assert_eq!(events(&folded), report[1]["inclusive_events"].as_u64().expect("a number"), "{function}");
        // Short calls are left out, and those that are left are as before.
        let long = chrome(&export(program, trace, "chrome", &["--least", "8"]));
        for (thread, long) in &long {
            assert!(long.len() < calls[thread].len() || long.is_empty(), "{thread}");
            assert!(long.iter().all(|call| calls[thread].contains(call)), "{thread}");
        }
        let binary = trace.with_extension("perfetto");
        let mut pcce = command(artifact("pcce"), &["trace", "export", "--format", "perfetto", "-o"]);
        run(pcce.arg(&binary).arg(program).arg(trace)).expect_success();
        assert_eq!(perfetto(&fs::read(binary).expect("a file")), calls, "{name}");
        // The page has short names.
        let times = |calls: &Calls| -> Vec<Vec<(u64, u64)>> {
            let of_thread = |calls: &Vec<(String, u64, u64)>| {
                let mut times: Vec<_> = calls.iter().map(|call| (call.1, call.2)).collect();
                times.sort_unstable();
                times
            };
            calls.values().map(of_thread).collect()
        };
        let shown = page(&export(program, trace, "html", &[]));
        assert_eq!(times(&shown), times(&calls), "{name}");
        assert!(name.ends_with("pp") || shown == calls, "{name}");
        let packed = trace.with_extension("json.gz");
        let mut pcce = command(artifact("pcce"), &["trace", "export", "--format", "chrome", "-o"]);
        run(pcce.arg(&packed).arg(program).arg(trace)).expect_success();
        let mut text = String::new();
        GzDecoder::new(fs::File::open(packed).expect("a file")).read_to_string(&mut text).expect("text");
        assert_eq!(chrome(&text), calls, "{name}");
    }
}
