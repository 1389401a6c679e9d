//! The built `pcce`: arguments, streams, exit statuses, messages.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

use crate::common::elf;
use crate::common::elf::{Compression, Kind};
use crate::common::{APP, app, site, token};
use crate::folder::{Folder, LEAF_TRACE, err, leaf, out};

#[test]
fn dict_writes_what_decode_reads() {
    let folder = Folder::new("dict");
    assert_eq!(folder.ok(&["dict", "app", "-o", "out.json"]), "");
    let written = fs::read(folder.0.join("out.json")).unwrap();
    assert_eq!(pcce_dictionary::from_json(&written).unwrap(), app());
    assert_eq!(folder.ok(&["dict", "app"]).into_bytes(), written);
    for dictionary in ["out.json", "app", "app.json"] {
        assert_eq!(folder.ok(&["decode", dictionary, &leaf()]), LEAF_TRACE);
    }
}

#[test]
fn dict_refuses_unfit_programs() {
    let folder = Folder::new("dict_refuses");
    let section = elf::section(&app());
    folder.write("stripped", &elf::elf(None, Some(&APP), Compression::None, Kind::Executable));
    folder.write("nameless", &elf::elf(Some(&section), None, Compression::None, Kind::Executable));
    folder.write("app.o", &elf::elf(Some(&section), None, Compression::None, Kind::Relocatable));
    folder.write("text", b"#!/bin/sh\n");
    folder.write("cut", &fs::read(folder.0.join("app")).unwrap()[..200]);
    for (file, expected) in [
        ("stripped", "stripped: the program has no dictionary (no section .debug_pcce)"),
        ("nameless", "-Wl,--build-id"),
        ("app.o", "an object file, not a linked program"),
        ("text", "no ELF file"),
        ("cut", "damaged ELF file"),
        ("missing", "missing: cannot be read: No such file"),
        (".", "cannot be read"),
    ] {
        let message = folder.fails(&["dict", file]);
        assert!(message.contains(expected), "{message}");
    }
    let message = folder.fails(&["dict", "app", "-o", "no/such/folder"]);
    assert!(message.contains("no/such/folder: cannot be written: No such file"), "{message}");
    // What decode would refuse is refused at once.
    let mut overlapping = app();
    overlapping.modules[1].sites_address -= 1;
    folder.write("overlapping", &elf::program(&overlapping, &APP));
    assert!(folder.fails(&["dict", "overlapping"]).contains("overlaps another one"));
}

#[test]
fn decode_prints_traces_in_order() {
    let folder = Folder::new("decode_order");
    let other = token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_QSORT, 0)]).encode();
    let other_trace = "#0  tail
#1  <qsort, not instrumented>
#2  leaf at /src/main.c:31:5
#3  app::run(int) at /src/main.c:20:5
";
    assert_eq!(folder.ok(&["decode", "app", &leaf(), &other]), format!("{LEAF_TRACE}\n{other_trace}"));
    assert_eq!(
        folder.ok(&["decode", "app", "6"]),
        "#0  leaf\n#1  app::run(int) at /src/main.c:20:5\n#2  main at /src/main.c:10:5\n"
    );
    assert_eq!(folder.ok(&["decode", "app", "0x6"]), folder.ok(&["decode", "app", "6"]));
    let folded = folder.ok(&["decode", "--format", "folded", "app", &other, &leaf()]);
    assert_eq!(
        folded,
        "app::run(int);leaf;<qsort, not instrumented>;tail 1\nmain;app::run(int);leaf;helper 1\n"
    );
    let json = folder.ok(&["decode", "app", &leaf(), "1", "--format=json"]);
    let values: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 2);
    assert_eq!(values[0]["token"], leaf());
    assert_eq!(values[0]["frames"][0]["function"], "helper");
    assert_eq!(values[0]["frames"][0]["inlined"], true);
    assert_eq!(
        values[1],
        serde_json::json!({"token": "1", "frames": [
            {"kind": "call", "function": "main", "file": null, "line": null, "column": null, "inlined": false}
        ]})
    );
}

#[test]
fn decode_reads_standard_input() {
    let folder = Folder::new("decode_stdin");
    let input = format!("\n  {}\r\n\n\t\n{}", leaf(), leaf());
    let output = folder.run_with_input(&["decode", "app"], input.as_bytes());
    assert_eq!((out(&output), err(&output)), (format!("{LEAF_TRACE}\n{LEAF_TRACE}"), String::new()));
    assert_eq!(output.status.code(), Some(0));

    let output = folder.run_with_input(&["decode", "app"], b"");
    assert_eq!((output.status.code(), &*out(&output), &*err(&output)), (Some(0), "", ""));

    // More than a chunk, and lines across its border.
    let input = (leaf() + "\n").repeat(20_000);
    let output = folder.run_with_input(&["decode", "app", "--format", "folded"], input.as_bytes());
    assert_eq!(out(&output), "main;app::run(int);leaf;helper 1\n".repeat(20_000));
}

#[test]
fn decode_goes_on_after_failures() {
    let folder = Folder::new("decode_failures");
    let mut input = b"garbage\n\xff\xfe\n".to_vec();
    input.extend(leaf().bytes());
    input.extend(b"\n9223372036854775808\n");
    let output = folder.run_with_input(&["decode", "app"], &input);
    assert_eq!((output.status.code(), &*out(&output)), (Some(2), LEAF_TRACE));
    let message = err(&output);
    let lines: Vec<_> = message.lines().collect();
    assert_eq!(lines.len(), 3);
    for (line, start) in lines.iter().zip([
        "error: line 1: not a context token",
        "error: line 2: not",
        "error: line 4: number 9",
    ]) {
        assert!(line.starts_with(start), "{line}");
    }
    let output = folder.run_with_input(&["decode", "app", "--format", "json"], &input);
    assert_eq!((output.status.code(), &*err(&output)), (Some(2), ""));
    let values: Vec<serde_json::Value> =
        out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 4);
    for (at, value) in values.iter().enumerate() {
        assert_eq!(value.get("error").is_some(), at != 2);
        assert_eq!(value.get("frames").is_some(), at == 2);
    }
    assert_eq!(values[0]["token"], "garbage");
    assert_eq!(values[1]["token"], "\u{fffd}\u{fffd}");
}

#[test]
fn who_decodes_a_log_is_told_of_filter() {
    let folder = Folder::new("log");
    for (line, hint) in [(format!("12:00 started {}", leaf()), true), ("12:00 started".to_owned(), false)] {
        let output = folder.run(&["decode", "app", &line]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            err(&output).contains("`pcce filter` decodes the tokens in a log"),
            hint,
            "{}",
            err(&output)
        );
    }
}

#[test]
fn names_and_paths_can_be_short_and_lines_narrow() {
    let folder = Folder::new("appearance");
    let decode = |args: &[&str]| folder.ok(&[&["decode", "app", &leaf()], args].concat());
    let plain = decode(&[]);
    assert!(plain.contains("app::run(int) at /src/main.c"), "{plain}");
    assert!(decode(&["--short"]).contains("app::run at /src/main.c"));
    assert!(decode(&["--strip-prefix", "/src"]).contains("app::run(int) at main.c"));
    assert!(
        decode(&["--color", "always"]).contains("\u{1b}[1mapp::run(int)\u{1b}[0m at \u{1b}[36m/src/main.c")
    );
    assert!(decode(&["--short", "--format", "folded"]).contains(";app::run;"));
    let narrow = decode(&["--width", "36"]);
    assert!(
        narrow.lines().all(|line| line.chars().count() <= 40) && narrow.contains("app::run at"),
        "{narrow}"
    );
}

#[test]
fn calls_that_say_little_are_one_line() {
    let folder = Folder::new("hide");
    let decode = |args: &[&str]| folder.ok(&[&["decode", "app", &leaf()], args].concat());
    let plain = decode(&[]);
    let frames = plain.lines().count();
    assert!(frames > 2, "{plain}");
    assert_eq!(decode(&["--hide", "*"]), format!("    … {frames} frames of *\n"));
    assert_eq!(decode(&["--hide", "/src/*"]), format!("    … {frames} frames of /src/\n"));
    // One call alone stays, and those of other names.
    assert_eq!(decode(&["--hide", "app::run"]), plain);
    let json = decode(&["--format", "json"]);
    assert_eq!(decode(&["--format", "json", "--hide", "*"]), json);
    assert!(folder.fails(&["decode", "app", &leaf(), "--hide", "a[b"]).contains("`a[b`"));
    // The settings of a project.
    folder.write(".pcce.toml", b"hide = ['/src/*']\nstrip-prefix = ['/src']\n");
    assert_eq!(decode(&[]), format!("    … {frames} frames of /src/\n"));
    assert_eq!(decode(&["--all"]), plain.replace("/src/", ""));
    folder.write(".pcce.toml", b"hidden = []");
    let message = folder.fails(&["decode", "app", &leaf()]);
    assert!(message.contains(".pcce.toml") && message.contains("hidden"), "{message}");
}

#[test]
fn help_lists_what_profiles_can_be_sorted_by() {
    let folder = Folder::new("by");
    for (args, listed) in [
        (["heap", "report", "--help"], "allocations, own-peak, leaked, leaked-blocks]"),
        (["heap", "flamegraph", "--help"], "allocated, allocations, leaked, leaked-blocks]"),
        (["cpu", "folded", "--help"], "[possible values: time, samples]"),
    ] {
        let help = folder.ok(&args).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(listed), "{help}");
    }
}

#[test]
fn a_line_without_end_is_refused_with_bounded_memory() {
    let folder = Folder::new("overlong");
    let mut child = folder
        .command(&["decode", "app"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        for _ in 0..140 {
            stdin.write_all(&vec![b'A'; 1 << 20]).unwrap();
        }
        stdin.write_all(format!("\n{}\n", leaf()).as_bytes()).unwrap();
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!((output.status.code(), &*out(&output)), (Some(2), LEAF_TRACE));
    let message = err(&output);
    assert!(
        message.starts_with("error: line 1: not a context token: longer than")
            && message.lines().count() == 1,
        "{message}"
    );
}

#[test]
fn traces_appear_before_the_input_ends() {
    let folder = Folder::new("interactive");
    let mut child =
        folder.command(&["decode", "app"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", leaf()).unwrap();
    let mut trace = vec![0; LEAF_TRACE.len()];
    child.stdout.as_mut().unwrap().read_exact(&mut trace).unwrap();
    assert_eq!(trace, LEAF_TRACE.as_bytes());
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn each_bad_token_has_its_message() {
    let folder = Folder::new("bad_tokens");
    let good = leaf();
    let altered = format!("{}{}{}", &good[..15], if &good[15..16] == "A" { "B" } else { "A" }, &good[16..]);
    let messages: Vec<String> = [
        ("hello", "not a context token: it starts with `hello`"),
        (&altered, "altered"),
        (&good[..good.len() - 1], "truncated"),
        (&good[..good.len() - 4], "truncated"),
        ("pcce4.AAAA", "version 4, and this pcce reads versions 1 to 3"),
        (&format!("{}!", &good[..12]), "character 13 is '!'"),
        ("0", "0 is no context"),
        ("12345", "no function of the dictionary has number 12345"),
        ("0xffffffffffffffff", "log pcce_token()"),
        ("99999999999999999999", "larger than 64 bits"),
        (&token(Some((site::LIB_CAPTURE, 0)), &[]).encode(), "b001020304050607"),
        (&token(Some((site::LEAF_CAPTURE, 5)), &[]).encode(), "function leaf has no id 5"),
        (&token(Some((site::LEAF_TAIL, 0)), &[]).encode(), "a capture is expected there"),
        (&token(Some((0x9999, 0)), &[]).encode(), "no site at address 0x9999"),
    ]
    .map(|(token, expected)| {
        let message = folder.fails(&["decode", "app", token]);
        assert!(message.contains(expected), "{message}");
        message
    })
    .into();
    // The message about another build names both.
    assert!(messages.iter().any(|m| m.contains("b001020304050607") && m.contains("a001020304050607")));
    let distinct: std::collections::HashSet<_> = messages.iter().collect();
    assert_eq!(distinct.len(), messages.len());
}

#[test]
fn each_bad_dictionary_has_its_message() {
    let folder = Folder::new("bad_dictionaries");
    let json = pcce_dictionary::to_json(&app());
    folder.write("cut.json", &json[..json.len() / 2]);
    folder.write("empty", b"");
    folder.write("zeros", &[0; 4096]);
    folder.write("newer.json", br#"{"version":4,"anything":[]}"#);
    folder.write("stripped", &elf::elf(None, Some(&APP), Compression::None, Kind::Executable));
    let mut inconsistent = app();
    inconsistent.encodings[0].edges[0].site = 77;
    inconsistent.build_id = "ffff".to_owned();
    folder.write("inconsistent.json", &pcce_dictionary::to_json(&inconsistent));
    for (file, expected) in [
        ("cut.json", "cut.json: the dictionary is damaged: EOF"),
        ("empty", "empty: the file is empty (0 bytes)"),
        ("zeros", "zeros: neither a dictionary (JSON) nor a program (ELF): it starts with bytes 00 00"),
        (
            "newer.json",
            "schema version 4, and this pcce reads versions 2 to 3; use the pcce of the release that wrote it",
        ),
        ("stripped", "the program has no dictionary"),
        ("inconsistent.json", "module main.c: edge 0 names site 77"),
        ("missing.json", "missing.json: cannot be read: No such file"),
    ] {
        for args in [&["decode", file, "1"][..], &["decode", "app", "1", "--dict", file], &["info", file]] {
            let message = folder.fails(args);
            assert!(message.contains(expected), "{message}");
        }
    }
    assert!(folder.fails(&["decode", "app", "1", "--dict", "app.json"]).contains("same build id"));
}

#[test]
fn shared_libraries() {
    let folder = Folder::new("libraries");
    let crossing = token(
        Some((site::MALLOC_CAPTURE, 0)),
        &[(site::MALLOC_ENTRY, 0), (site::LIB_MALLOC, 0), (site::LEAF_LIB_RUN, 1)],
    )
    .encode();
    let full = folder.ok(&["decode", "app", "--dict", "library", &crossing]);
    assert_eq!(
        full,
        "#0  malloc at /src/lib.c:5:1
#1  lib_run at /src/lib.c:2:1
#2  leaf at /src/main.c:32:5
#3  app::run(int) at /src/main.c:20:5
#4  main at /src/main.c:10:5
"
    );
    let output = folder.run(&["decode", "app.json", &crossing, &crossing]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        out(&output)
            .starts_with("#0  <module with build id b001020304050607, no dictionary given>\n#1  leaf at")
    );
    // Named once, with the cure.
    let message = err(&output);
    assert_eq!(message.lines().count(), 1);
    assert!(message.contains("b001020304050607") && message.contains("--dict FILE"), "{message}");
    let output = folder.run(&["decode", "app", &crossing, "--format", "json"]);
    let value: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(value["frames"][0]["kind"], "unknown-module");
    assert_eq!(value["frames"][0]["build_id"], "b001020304050607");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(err(&output).lines().count(), 1);
}

#[test]
fn closed_pipes_are_no_error() {
    let folder = Folder::new("closed_pipes");
    folder.write("input", (leaf() + "\n").repeat(50_000).as_bytes());
    for args in [
        &["decode", "app"][..],
        &["decode", "app", "--format", "json"],
        &["dict", "app"],
        &["info", "app"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let input = fs::File::open(folder.0.join("input")).unwrap();
        let output = folder
            .command(args)
            .stdin(input)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        assert_eq!((output.status.code(), &*err(&output)), (Some(0), ""), "{args:?}");
    }
    // Standard error, too.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = folder.command(&["decode", "app", "garbage", &leaf()]).stderr(writer).output().unwrap();
    assert_eq!((output.status.code(), &*out(&output)), (Some(2), LEAF_TRACE));
}

#[test]
fn full_disks_are_errors() {
    let folder = Folder::new("full");
    if let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") {
        let output = folder.command(&["decode", "app", &leaf()]).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(err(&output).contains("standard output: No space left"), "{}", err(&output));
    }
}

#[test]
fn info_describes_dictionaries() {
    let folder = Folder::new("info");
    let text = folder.ok(&["info", "app"]);
    for line in [
        "program     app",
        "build id    a00102030405060708090a0b0c0d0e0f10111213",
        "functions   5",
        "sites       5 direct, 3 external, 1 indirect, 1 asm, 3 capture, 0 signal, 0 entry",
        "edges       1 add nothing, 2 add, 0 open, 1 back, 1 cut, 0 required",
        "reduced     1 functions, with the edges cut: they would have more contexts than ids",
        "max numCC   3 (app::run(int))",
        "modules     2",
        "  main.c: 4 functions, 12 sites, 5 edges",
        "    by pcce 0.1.0, LLVM 19, options: none",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    assert!(text.contains("libpcce_pass.so"));
    let value: serde_json::Value =
        serde_json::from_str(&folder.ok(&["info", "app.json", "--format", "json"])).unwrap();
    assert_eq!(value["dictionary"]["sites"]["direct"], 5);
    assert_eq!(value["dictionary"]["max_num_cc"]["num_cc"], 3);
}

/// A copy of `pcce` with the other tools beside it, or installed.
#[test]
fn info_finds_the_tools() {
    let folder = Folder::new("tools");
    for path in ["bin", "lib/pcce", "tools", "include"] {
        fs::create_dir_all(folder.0.join(path)).unwrap();
    }
    let pcce = folder.0.join("bin/pcce");
    // A link: another thread of the tests, about to run a program, could hold open what is written here.
    fs::hard_link(env!("CARGO_BIN_EXE_pcce"), &pcce).unwrap();
    let run = || {
        Command::new(&pcce)
            .args(["info", "--format", "json"])
            .env("PATH", folder.0.join("tools"))
            .output()
            .unwrap()
    };
    let found = |output: &Output| {
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(value["dictionary"].is_null());
        let tools = value["toolchain"].as_array().unwrap().clone();
        assert!(tools.iter().all(|tool| tool["found"].is_null() != tool["cure"].is_null()));
        tools
            .iter()
            .filter(|tool| !tool["found"].is_null())
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let output = run();
    assert_eq!((found(&output).len(), output.status.code()), (0, Some(2)));
    folder.write("bin/libpcce_pass.so", b"");
    folder.write("lib/pcce/libpcce_rt.a", b"");
    folder.write("tools/ld.lld", b"");
    let output = run();
    let llvm = pcce_options::llvm();
    assert_eq!(found(&output), [&format!("ld.lld-{llvm}"), "libpcce_pass.so", "libpcce_rt.a"]);
    assert_eq!(output.status.code(), Some(2));
    for file in [
        "bin/libpcce_rt.so",
        "bin/libpcce_trace.so",
        "lib/pcce/libpcce_verify.a",
        "lib/pcce/libpcce_heap.a",
        "lib/pcce/libpcce_libc.a",
        "lib/pcce/libpcce_trace.a",
        "include/pcce.h",
    ] {
        folder.write(file, b"");
    }
    folder.write(&format!("tools/clang-{llvm}"), b"");
    let output = run();
    assert_eq!((found(&output).len(), output.status.code()), (11, Some(0)));
}

#[test]
fn usage() {
    let folder = Folder::new("usage");
    let version = folder.ok(&["--version"]);
    let llvm = pcce_options::llvm();
    assert!(version.starts_with("pcce 0.") && version.contains(&format!("LLVM {llvm}")), "{version}");
    for args in [&["--help"][..], &["decode", "--help"], &["dict", "-h"], &["info", "--help"]] {
        assert!(folder.ok(args).contains("Usage: pcce"));
    }
    for args in [&[][..], &["decode", "app", "--format", "xml"], &["frobnicate"], &["dict"]] {
        let output = folder.run(args);
        assert_eq!((output.status.code(), &*out(&output)), (Some(2), ""), "{args:?}");
        assert!(!err(&output).is_empty() && !err(&output).contains('\u{1b}'));
    }
}

/// A token's output may be kept and written again: it must be the same, and separators must stay.
#[test]
fn repeated_tokens_give_the_same_output() {
    let folder = Folder::new("repeated");
    let other = token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_QSORT, 0)]).encode();
    let tokens = [leaf(), other];
    for format in ["text", "json", "folded"] {
        let single: Vec<_> =
            tokens.iter().map(|token| folder.ok(&["decode", "app", "--format", format, token])).collect();
        let order = [0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 1];
        let input: Vec<_> = order.iter().map(|i| tokens[*i].as_str()).collect();
        let output =
            folder.run_with_input(&["decode", "app", "--format", format], input.join("\n").as_bytes());
        let expected: Vec<_> = order.iter().map(|i| single[*i].as_str()).collect();
        let separator = if format == "text" { "\n" } else { "" };
        assert_eq!(out(&output), expected.join(separator));
    }
}
