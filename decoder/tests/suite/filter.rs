//! `pcce filter`, built: what becomes of the text around tokens, of the tokens, and of those that cannot be decoded.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use pcce::token::PushedFrame;
use proptest::prelude::*;

use crate::common::elf;
use crate::common::{APP, app, site, token};

/// The program, and a command that reads `log` from a file.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("filter").join(test);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("app"), elf::program(&app(), &APP)).unwrap();
        Self(folder)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcce"));
        command.args(["filter", "app"]).args(args).current_dir(&self.0);
        command
    }

    fn run(&self, args: &[&str], log: &[u8]) -> Output {
        fs::write(self.0.join("log"), log).unwrap();
        self.command(args).stdin(File::open(self.0.join("log")).unwrap()).output().unwrap()
    }

    /// The output of a run that must decode everything.
    fn ok(&self, args: &[&str], log: &[u8]) -> Vec<u8> {
        let output = self.run(args, log);
        assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(0), ""));
        output.stdout
    }

    /// The output and the messages of a run that must not.
    fn incomplete(&self, args: &[&str], log: &[u8]) -> (String, String) {
        let output = self.run(args, log);
        assert_eq!(output.status.code(), Some(2));
        (text(&output.stdout), text(&output.stderr))
    }
}

/// Log files that were rotated are compressed.
#[test]
fn compressed_logs_are_read() {
    let folder = Folder::new("compressed");
    let lines = |numbers: std::ops::Range<u32>| -> Vec<u8> {
        numbers.flat_map(|n| format!("{n} {}\n", leaf()).into_bytes()).collect()
    };
    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |text: &[u8]| zstd::encode_all(text, 1).unwrap();
    let expected = folder.ok(&[], &lines(0..2000));
    // Frames of other things are left out.
    let skipped: &[u8] = b"\x5a\x2a\x4d\x18\x03\0\0\0abc";
    for (name, log) in [
        ("gzip", gzip(&lines(0..2000))),
        ("two of gzip", [gzip(&lines(0..999)), gzip(&lines(999..2000))].concat()),
        ("zstd", zstd(&lines(0..2000))),
        ("two of zstd", [zstd(&lines(0..999)), skipped.to_vec(), zstd(&lines(999..2000))].concat()),
        ("zstd with a frame before", [skipped, &zstd(&lines(0..2000))].concat()),
    ] {
        assert!(folder.ok(&[], &log) == expected, "{name}, standard input");
        let output = folder.command(&["log"]).output().unwrap();
        assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(0), ""), "{name}");
        assert!(output.stdout == expected, "{name}");
    }
    // The tokens of a log that was cut are decoded as far as it goes, and its end is missing in words.
    for (name, log) in [("gzip", gzip(&lines(0..2000))), ("zstd", zstd(&lines(0..2000)))] {
        let (out, error) = folder.incomplete(&[], &log[..log.len() - 20]);
        assert!(expected.starts_with(out.as_bytes()) || out.lines().count() > 100, "{name}: {out}");
        assert!(error.starts_with("error: standard input: "), "{name}: {error}");
    }
    for (tool, start) in
        [("xz", &b"\xfd7zXZ\0..."[..]), ("bzip2", b"BZh91AY&SY..."), ("lz4", b"\x04\x22\x4d\x18...")]
    {
        let (out, error) = folder.incomplete(&[], start);
        assert_eq!(out, "");
        assert!(error.contains("not by gzip or zstd") && error.contains(tool), "{error}");
    }
    for plain in ["", "B", "BZh", "BZh9", "BZh9 and so on\n", "P", "\u{1f}"] {
        assert_eq!(text(&folder.ok(&[], plain.as_bytes())), plain);
    }
}

#[test]
fn logs_are_named_and_read_one_after_the_other() {
    let folder = Folder::new("logs");
    let expected = text(&folder.ok(&[], format!("a {}\nb {}\n", leaf(), leaf()).as_bytes()));
    // A token at the end of a log does not go on in the next one.
    fs::write(folder.0.join("one"), format!("a {}\nb {}", leaf(), leaf())).unwrap();
    fs::write(folder.0.join("two"), format!("{}\nc pcce1.AAAA\n", leaf())).unwrap();
    let run = |args: &[&str]| folder.command(args).output().unwrap();
    let output = run(&["one", "two", "-o", "out"]);
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(2), ""));
    assert!(
        text(&output.stderr).contains("1 token was not decoded: two: line 2: "),
        "{}",
        text(&output.stderr)
    );
    let written = fs::read_to_string(folder.0.join("out")).unwrap();
    assert!(written.starts_with(&expected) && written.ends_with("c pcce1.AAAA\n"), "{written}");
    assert_eq!(written.matches("#0").count(), 3);

    for (args, expected) in [
        (["one", "none"].as_slice(), "none: cannot be read"),
        (&["one", "-o", "./one"], "./one: this is one of the logs, which would be lost"),
        (&["one", "-o", "/nowhere/out"], "/nowhere/out: cannot be written"),
    ] {
        let output = run(args);
        assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(2), ""), "{args:?}");
        assert!(text(&output.stderr).contains(expected), "{args:?}: {}", text(&output.stderr));
    }
    assert!(fs::read_to_string(folder.0.join("one")).unwrap().starts_with("a pcce1."));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn leaf() -> String {
    token(Some((site::LEAF_CAPTURE, 1)), &[]).encode()
}

const LEAF_BELOW: &str = "    #0  helper at /src/helper.h:7:9 [inlined]
    #1  leaf at /src/main.c:35:5
    #2  app::run(int) at /src/main.c:20:5
    #3  main at /src/main.c:10:5
";
const LEAF_IN_PLACE: &str = "main;app::run(int);leaf;helper";

fn tail() -> String {
    token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_QSORT, 0)]).encode()
}

// Pushed with id 0, which is that of the entry: no call of main.
const TAIL_IN_PLACE: &str = "app::run(int);leaf;<qsort, not instrumented>;tail";

#[test]
fn calls_stand_below_the_line_of_their_token() {
    let folder = Folder::new("below");
    let (leaf, tail) = (leaf(), tail());
    let log = format!("start\nat [{leaf}] and {leaf}, too\n\n{tail}\nend {leaf}");
    let expected = format!(
        "start\nat [{leaf}] and {leaf}, too\n{LEAF_BELOW}{LEAF_BELOW}\n{tail}
    #0  tail
    #1  <qsort, not instrumented>
    #2  leaf at /src/main.c:31:5
    #3  app::run(int) at /src/main.c:20:5
end {leaf}\n{LEAF_BELOW}"
    );
    assert_eq!(text(&folder.ok(&[], log.as_bytes())), expected);
}

#[test]
fn calls_stand_in_place_of_their_token() {
    let folder = Folder::new("in_place");
    let (leaf, tail) = (leaf(), tail());
    let log =
        format!("a={leaf},b={tail}\r\n{leaf}+ {leaf}+x {leaf}+~\n({leaf}+{tail}) {leaf}+@{leaf}+@~ {leaf}+@");
    let expected = format!(
        "a={LEAF_IN_PLACE},b={TAIL_IN_PLACE}\r\n{LEAF_IN_PLACE} {LEAF_IN_PLACE}+x <the token was cut here, further calls are missing>;<thread created here>;{LEAF_IN_PLACE}\n({TAIL_IN_PLACE};<thread created here>;{LEAF_IN_PLACE}) <the token was cut here, further calls are missing>;<task submitted here>;{LEAF_IN_PLACE};<task submitted here>;{LEAF_IN_PLACE} {LEAF_IN_PLACE}+@"
    );
    assert_eq!(text(&folder.ok(&["--format", "folded"], log.as_bytes())), expected);
}

#[test]
fn other_bytes_pass_unchanged() {
    let folder = Folder::new("bytes");
    let mut log = b"\xff\xfe\0 pcce pcce1 pcce. pcce1. pcce1.! ppcce\xc3\n\n\r\n".to_vec();
    assert_eq!(folder.ok(&[], &log), log);
    assert_eq!(folder.ok(&[], b""), b"");
    assert_eq!(folder.ok(&["--collapse"], &log), b"");
    log.extend_from_slice(leaf().as_bytes());
    log.extend_from_slice(b"\xff\xfe\n\x80");
    let mut expected = log.clone();
    expected.splice(log.len() - 1..log.len() - 1, LEAF_BELOW.bytes());
    assert_eq!(folder.ok(&[], &log), expected);
}

#[test]
fn tokens_that_cannot_be_decoded_stay_and_are_counted() {
    let folder = Folder::new("left");
    let leaf = leaf();
    let damaged = leaf.replace("pcce1.A", "pcce1.B");
    let newer = "pcce7.AQAI";
    let log = format!("{leaf}\n\n{damaged} {newer}\n{leaf}\n{damaged}\n");
    let (out, err) = folder.incomplete(&[], log.as_bytes());
    assert_eq!(out, format!("{leaf}\n{LEAF_BELOW}\n{damaged} {newer}\n{leaf}\n{LEAF_BELOW}{damaged}\n"));
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.starts_with("error: 3 tokens were not decoded, and left as they are; the first one: line 3: the token is truncated, or altered"), "{err}");
    let (out, _) = folder.incomplete(&["--format", "folded"], log.as_bytes());
    assert_eq!(out, format!("{LEAF_IN_PLACE}\n\n{damaged} {newer}\n{LEAF_IN_PLACE}\n{damaged}\n"));
    let (out, err) = folder.incomplete(&["--collapse", "--format", "folded"], log.as_bytes());
    assert_eq!(out, format!("{LEAF_IN_PLACE} 2\n"));
    assert!(
        err.starts_with("error: 3 tokens were not decoded, and not counted; the first one: line 3: "),
        "{err}"
    );

    let mut other = token(Some((site::LEAF_CAPTURE, 1)), &[]);
    other.images[0] = pcce::token::BuildId::from_prefix(&[9; 8]);
    let (_, err) = folder.incomplete(&[], other.encode().as_bytes());
    assert!(err.contains("line 1: the token is of another build"), "{err}");

    // A short token that stands for many calls must not fill the memory.
    let mut deep = token(Some((site::LEAF_CAPTURE, 1)), &[(site::RUN_RUN, 1)]);
    deep.frames[0] = PushedFrame { count: 1 << 28, ..deep.frames[0] };
    let deep = deep.encode();
    let (out, err) = folder.incomplete(&[], deep.as_bytes());
    assert_eq!(out, deep);
    assert!(err.contains("are written at most"), "{err}");
}

#[test]
fn modules_without_dictionary_are_named() {
    let folder = Folder::new("missing");
    let through = token(Some((site::LIB_CAPTURE, 0)), &[(site::LEAF_LIB_RUN, 0)]).encode();
    let (out, err) = folder.incomplete(&["--format", "folded"], format!("{through}\n{through}\n").as_bytes());
    assert!(out.starts_with("app::run(int);leaf;<module with build id b001020304050607"), "{out}");
    assert!(err.contains("b001020304050607, and its calls are left out in 2 contexts"), "{err}");
}

#[test]
fn contexts_are_counted() {
    let folder = Folder::new("collapse");
    let (leaf, tail) = (leaf(), tail());
    let log = format!("x\n{tail}\n{leaf} {tail}\n{leaf}\n{tail}\n{leaf}\n{leaf}");
    let collapsed = |format| text(&folder.ok(&["--collapse", "--format", format], log.as_bytes()));
    assert_eq!(collapsed("folded"), format!("{LEAF_IN_PLACE} 4\n{TAIL_IN_PLACE} 3\n"));
    let below = collapsed("text");
    assert!(below.starts_with(&format!("4 times\n{LEAF_BELOW}\n3 times\n    #0  tail\n")), "{below}");
    let json: Vec<serde_json::Value> =
        collapsed("json").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((json[0]["count"].as_u64(), json[1]["count"].as_u64()), (Some(4), Some(3)));
    assert_eq!(json[0]["frames"][3]["function"], "main");
    let output = folder.run(&["--format", "json"], b"");
    assert!(text(&output.stderr).contains("it needs `--collapse` or `--field`"));
    // A part of them, decoded by any number of threads.
    for jobs in ["1", "3"] {
        let top = |top| text(&folder.ok(&["--collapse", "--top", top, "--jobs", jobs], log.as_bytes()));
        assert_eq!(top("2"), below);
        let one = top("1");
        assert!(below.starts_with(one.strip_suffix("\n3 times: 1 further context\n").unwrap()), "{one}");
    }
    assert_eq!(folder.run(&["--top", "1"], b"").status.code(), Some(2));
}

/// Lines come out while the log is still being written.
#[test]
fn a_running_log_is_followed() {
    let folder = Folder::new("follow");
    let mut child =
        folder.command(&["--format", "folded"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for number in 0..20 {
        writeln!(input, "{number} {}", leaf()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{number} {LEAF_IN_PLACE}\n"));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = Folder::new("closed");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    fs::write(folder.0.join("log"), (leaf() + "\n").repeat(50_000)).unwrap();
    let log = File::open(folder.0.join("log")).unwrap();
    let output = folder.command(&[]).stdin(log).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let output = output.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(0), ""));
}

/// Many blocks, lines longer than one, and the order of all of them.
#[test]
fn long_logs_keep_their_order() {
    let folder = Folder::new("long");
    let (leaf, mut log, mut expected) = (leaf(), Vec::new(), Vec::new());
    for number in 0..40_000 {
        let line = format!("line {number} {} ", "x".repeat(number % 97));
        log.extend_from_slice(format!("{line}{leaf}\n").as_bytes());
        expected.extend_from_slice(format!("{line}{LEAF_IN_PLACE}\n").as_bytes());
        if number % 10_000 == 0 {
            let long = "y".repeat(3_000_000);
            log.extend_from_slice(long.as_bytes());
            expected.extend_from_slice(long.as_bytes());
        }
    }
    assert!(folder.ok(&["--format", "folded"], &log) == expected);
}

proptest! {
    /// What is between the tokens is what is there, and nothing that looks like a token is passed over.
    #[test]
    fn tokens_are_found(parts in proptest::collection::vec("[ -~\n]{0,9}|pcce1\\.[a-z]{1,4}|\\+|\\+~|\\+@", 0..12)) {
        let text = parts.concat();
        let mut rest = 0;
        for token in pcce::filter::tokens(text.as_bytes(), pcce::filter::Words::Tokens) {
            prop_assert!(token.start >= rest && token.end > token.start && token.end <= text.len());
            prop_assert!(text[token.clone()].bytes().all(pcce::filter::is_token_byte));
            prop_assert!(!regex_like(&text[rest..token.start]));
            rest = token.end;
        }
        prop_assert!(!regex_like(&text[rest..]));
    }
}

/// Whether `pcce[0-9]+\.[A-Za-z0-9_-]` is in the text.
fn regex_like(text: &str) -> bool {
    text.match_indices("pcce").any(|(at, _)| {
        let rest = &text[at + 4..];
        let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let body = digits.strip_prefix('.').unwrap_or("");
        digits.len() < rest.len()
            && body.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    })
}

/// Tokens in a member of JSON objects.
#[test]
fn json_lines_stay_json() {
    let folder = Folder::new("json_lines");
    let (leaf, tail) = (leaf(), tail());
    let lines = [
        "starting, pid 7\n".to_owned(),
        format!("{{\"n\":1,\"at\":{{\"pcce\":\"{leaf}\"}},\"text\":\"\\u00e4 }}\"}}\n"),
        format!("{{\"n\":1e5,\"at.pcce\":\"in {tail}, {leaf}\",\"at\":{{\"pcce\":0}} }}\r\n"),
        format!("{{\"other\":\"{leaf}\",\"at\":[\"pcce\"]}}\n\n{{\"at\":{{\"pcce\":null}}}}\n"),
        // A name with an escape, and no line feed.
        format!("{{\"at\":{{\"p\\u0063ce\":\"{leaf}\"}}}}"),
    ];
    let log = lines.concat();
    let field = |more: &[&str]| text(&folder.ok(&[&["--field", "at.pcce"], more].concat(), log.as_bytes()));
    let with = |[first, second, last]: [&str; 3]| {
        let mut lines = lines.clone();
        lines[1].insert_str(lines[1].len() - 2, &format!(",\"at.pcce_frames\":{first}"));
        lines[2].insert_str(lines[2].len() - 3, &format!(",\"at.pcce_frames\":{second}"));
        lines[4].insert_str(lines[4].len() - 1, &format!(",\"at.pcce_frames\":{last}"));
        lines.concat()
    };
    let [in_leaf, in_tail] = [LEAF_IN_PLACE, TAIL_IN_PLACE].map(|calls| format!("\"{calls}\""));
    assert_eq!(field(&["--format", "folded", "--jobs", "2"]), with([&in_leaf, &in_tail, &in_leaf]));
    let below = LEAF_BELOW.lines().map(str::trim_start).collect::<Vec<_>>();
    let in_leaf = serde_json::to_string(&below).unwrap();
    let in_tail = r##"["#0  tail","#1  <qsort, not instrumented>","#2  leaf at /src/main.c:31:5","#3  app::run(int) at /src/main.c:20:5"]"##;
    assert_eq!(field(&[]), with([&in_leaf, in_tail, &in_leaf]));
    let objects: Vec<serde_json::Value> =
        field(&["--format", "json"]).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(objects.len(), 5);
    assert_eq!(objects[0]["at.pcce_frames"][0]["function"], "helper");
    assert_eq!(objects[1]["at.pcce_frames"].as_array().map(Vec::len), Some(4));
    assert_eq!(
        field(&["--collapse", "--format", "folded"]),
        format!("{LEAF_IN_PLACE} 2\n{TAIL_IN_PLACE} 1\n")
    );
    // What is not decoded stays, and is told.
    let bad = format!(
        "{{\"pcce\":\"{leaf}\"}}\n{{\"pcce\":12345}}\n{{\"pcce\":\"{leaf}\"\n{{\"pcce\":\"{leaf}\"}} x"
    );
    for more in [&["--format", "folded"][..], &["--collapse", "--format", "folded"]] {
        let (out, error) = folder.incomplete(&[&["--field", "pcce"], more].concat(), bad.as_bytes());
        assert_eq!(out.matches(LEAF_IN_PLACE).count(), 1, "{out}");
        assert!(error.contains("line 2: no function of the dictionary has number 12345"), "{error}");
        assert!(error.contains("not decoded: 2 lines; the first one: line 3: EOF"), "{error}");
        assert!(more[0] == "--collapse" || out.ends_with(&bad[bad.find('\n').unwrap()..]), "{out}");
    }
}
