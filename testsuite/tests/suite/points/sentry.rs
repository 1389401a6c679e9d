//! Crash reports as events of Sentry, sent as the guide says, to a stand-in. It knows the attributes of events as
//! Sentry documents them: <https://develop.sentry.dev/sdk/foundations/transport/event-payloads/>, "Required
//! Attributes", "Optional Attributes", and the interfaces Exception, Threads, Stack Trace, and Debug Meta.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread;

use pcce_testsuite::{artifact, command, repository, run, work_folder};
use serde_json::Value;

/// What an attribute may be.
enum Shape {
    Text,
    Number,
    Flag,
    /// A number or a text, as ids of threads.
    Id,
    /// So many lower-case hexadecimal digits, or any number of them for 0.
    Hex(usize),
    OneOf(&'static [&'static str]),
    List(&'static Shape),
    /// Attributes: name, whether it is required, and what it may be. Others are refused.
    Object(&'static [(&'static str, bool, Shape)]),
    /// An object with any attributes.
    Data,
}
use Shape::{Data, Flag, Hex, Id, List, Number, Object, OneOf, Text};

const FRAME: Shape = Object(&[
    ("function", false, Text),
    ("filename", false, Text),
    ("abs_path", false, Text),
    ("lineno", false, Number),
    ("colno", false, Number),
    ("in_app", false, Flag),
]);
const STACK: Shape = Object(&[("frames", true, List(&FRAME))]);
const SIGNAL: Shape = Object(&[
    ("number", true, Number),
    ("name", false, Text),
    ("code", false, Number),
    ("code_name", false, Text),
]);
const MECHANISM: Shape = Object(&[
    ("type", true, Text),
    ("handled", false, Flag),
    ("synthetic", false, Flag),
    ("meta", false, Object(&[("signal", false, SIGNAL)])),
    ("data", false, Data),
]);
const EXCEPTION: Shape = Object(&[
    ("type", true, Text),
    ("value", false, Text),
    ("thread_id", false, Id),
    ("mechanism", false, MECHANISM),
    ("stacktrace", false, STACK),
]);
const THREAD: Shape = Object(&[
    ("id", true, Id),
    ("name", false, Text),
    ("crashed", false, Flag),
    ("current", false, Flag),
    ("stacktrace", false, STACK),
]);
const IMAGE: Shape = Object(&[
    ("type", true, OneOf(&["elf"])),
    ("code_id", false, Hex(0)),
    ("code_file", true, Text),
    ("debug_id", true, Text),
]);
const EVENT: Shape = Object(&[
    ("event_id", true, Hex(32)),
    ("timestamp", true, Number),
    ("platform", true, OneOf(&["native"])),
    ("level", false, OneOf(&["fatal"])),
    ("fingerprint", false, List(&Text)),
    ("sdk", false, Object(&[("name", true, Text), ("version", true, Text)])),
    ("exception", false, Object(&[("values", true, List(&EXCEPTION))])),
    ("threads", false, Object(&[("values", true, List(&THREAD))])),
    ("debug_meta", false, Object(&[("images", true, List(&IMAGE))])),
    ("contexts", false, Data),
]);

fn check(value: &Value, shape: &Shape, place: &str) {
    let is_right = match shape {
        Text => value.is_string(),
        Number => value.is_number(),
        Flag => value.is_boolean(),
        Id => value.is_number() || value.is_string(),
        Hex(count) => value.as_str().is_some_and(|text| {
            let digits = text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
            digits && (*count == 0 || text.len() == *count)
        }),
        OneOf(texts) => value.as_str().is_some_and(|text| texts.contains(&text)),
        List(of) => value.as_array().is_some_and(|list| {
            list.iter().for_each(|value| check(value, of, place));
            true
        }),
        Object(attributes) => value.as_object().is_some_and(|object| {
            for (name, value) in object {
                let attribute = attributes.iter().find(|attribute| attribute.0 == name);
                let (_, _, shape) = attribute.unwrap_or_else(|| panic!("{place} has no attribute {name}"));
                check(value, shape, &format!("{place}.{name}"));
            }
            attributes.iter().all(|(name, required, _)| !required || object.contains_key(*name))
        }),
        Data => value.is_object(),
    };
    assert!(is_right, "{place}: {value}");
}

/// Takes one envelope for project 42, and returns the event in it.
fn receive(listener: &TcpListener) -> Value {
    let (mut stream, _) = listener.accept().expect("a connection");
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let (mut lines, mut line) = (Vec::new(), String::new());
    while reader.read_line(&mut line).expect("a request") > 2 {
        lines.push(line.trim_end().to_ascii_lowercase());
        line.clear();
    }
    assert_eq!(lines[0], "post /api/42/envelope/ http/1.1");
    assert!(
        lines.iter().any(|line| line == "x-sentry-auth: sentry sentry_version=7, sentry_key=abc"),
        "{lines:?}"
    );
    let length = lines.iter().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    reader.read_exact(&mut body).expect("a body");
    let body = String::from_utf8(body).expect("text");
    let [head, item, event]: [Value; 3] = body
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect::<Vec<_>>()
        .try_into()
        .expect("3");
    assert_eq!((&head["event_id"], &item["type"]), (&event["event_id"], &Value::from("event")));
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        .expect("a connection");
    event
}

#[test]
fn reports_are_events_of_sentry() {
    let folder = work_folder("crash/sentry");
    let guide = repository().join("docs/guide/src/programs");
    let mut build =
        command(artifact("pcce-clang"), &["-g", "-O2", "--pcce-crash-report=crash.txt", "-o", "server"]);
    run(build.arg(guide.join("server.c")).current_dir(&folder)).expect_success();
    for _ in 0..2 {
        run(command(folder.join("server"), &[]).current_dir(&folder));
    }
    let pcce = |words: &[&str]| {
        let mut pcce = command(artifact("pcce"), words);
        run(pcce.args(["--dicts", ".", "crash.txt"]).current_dir(&folder)).expect_success().stdout
    };
    let group: Value = serde_json::from_str(&pcce(&["crash", "group", "--format", "json"])).expect("JSON");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let dsn = format!("http://abc@{}/42", listener.local_addr().expect("an address"));
    let received = thread::spawn(move || [receive(&listener), receive(&listener)]);
    let mut path = artifact("").into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut send = command(guide.join("send-to-sentry.sh"), &[&dsn, ".", "crash.txt"]);
    run(send.current_dir(&folder).env("PATH", path)).expect_success();
    let events = received.join().expect("two events");
    assert_ne!(events[0]["event_id"], events[1]["event_id"]);
    for event in &events {
        check(event, &EVENT, "event");
        assert_eq!(event["fingerprint"][0], group["crashes"][0]["fingerprint"]);
        let exception = &event["exception"]["values"][0];
        assert_eq!(exception["value"], "SIGSEGV (SEGV_MAPERR) at 0x0");
        let frames = exception["stacktrace"]["frames"].as_array().expect("frames");
        let functions: Vec<&str> =
            frames.iter().map(|frame| frame["function"].as_str().expect("a name")).collect();
        let thread = ["main", "start", "<thread created here>", "worker", "answer", "length"];
        assert_eq!(functions, [&thread[..], &["<strlen, not instrumented>"]].concat());
        assert!(frames[0]["in_app"] == true && frames[2]["in_app"] == false, "{exception}");
        assert!(
            frames[0]["abs_path"].as_str().is_some_and(|path| path.ends_with("/server.c")),
            "{exception}"
        );
        let threads = event["threads"]["values"].as_array().expect("threads");
        assert_eq!((threads.len(), &threads[0]["id"]), (3, &exception["thread_id"]));
        assert!(threads[0].get("stacktrace").is_none() && threads[0]["crashed"] == true, "{event}");
        assert!(threads[1].get("stacktrace").is_some() && threads[1]["crashed"] == false, "{event}");
        let image = &event["debug_meta"]["images"][0];
        let code = image["code_id"].as_str().expect("a build id");
        let byte = |n: usize| &code[2 * n..2 * n + 2];
        let first =
            [byte(3), byte(2), byte(1), byte(0), "-", byte(5), byte(4), "-", byte(7), byte(6), "-"].concat();
        assert_eq!(image["debug_id"], first + byte(8) + byte(9) + "-" + &code[20..32]);
    }
    // What is not decoded is said, and sent all the same.
    let text = fs::read_to_string(folder.join("crash.txt")).expect("reports");
    let (damaged, _) = text.split_once("end: ").expect("an end");
    fs::write(folder.join("damaged.txt"), damaged.replacen("+pcce1.A", "+pcce1.B", 1))
        .expect("room on the disk");
    let words = ["crash", "show", "--format", "sentry", "--dicts", ".", "damaged.txt"];
    let output = run(command(artifact("pcce"), &words).current_dir(&folder));
    let event: Value = serde_json::from_str(&output.stdout).expect("JSON");
    check(&event, &EVENT, "event");
    assert_eq!((output.status, &event["contexts"]["pcce"]["complete"]), (2, &Value::from(false)));
    let errors = event["contexts"]["pcce"]["not_decoded"].as_array().expect("errors");
    assert!(errors[0]["error"].as_str().is_some_and(|text| text.contains("checksum")), "{errors:?}");
}
