//! Profiles: reading, decoding, and every form in which they are written.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pcce::Decoder;
use pcce::graph::{Selection, draw};
use pcce::names::Wanted;
use pcce::profile::{Kind, Profile, ProfileError, Stacks, diff, flame, pprof, report, speedscope};
use pcce::style::Style;
use proptest::prelude::*;
use serde_json::Value;

use crate::common::elf;
use crate::common::{APP, app, site, token};

/// A heap profile of the program of `common`, with all kinds of contexts.
fn heap() -> String {
    let leaf = token(Some((site::LEAF_CAPTURE, 1)), &[]).encode();
    let outside = token(Some((site::LEAF_QSORT, 2)), &[]).encode();
    let sorted = token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_QSORT, 1)]).encode();
    let line = |token: &str, n: u64| {
        format!(
            r#"{{"token":{token},"allocations":{n},"allocated":{},"frees":{},"freed":{},"peak_blocks":1,"peak_bytes":{},"own_peak_bytes":20}}"#,
            n * 10,
            n - 1,
            (n - 1) * 10,
            n * 4,
        )
    };
    let lines = [
        r#"{"profile":"heap","version":1,"build_id":"a001020304050607","process":42,"peak_bytes":100}"#
            .to_owned(),
        line(&format!("{leaf:?}"), 5),
        line(&format!("{outside:?}"), 6),
        line(&format!("{sorted:?}"), 7),
        // The same context once more.
        line(&format!("{leaf:?}"), 2),
        line("\"\"", 1),
        line("null", 4),
        r#"{"end":true,"contexts":6}"#.to_owned(),
    ];
    lines.join("\n") + "\n"
}

fn cpu() -> String {
    let leaf = token(Some((site::LEAF_CAPTURE, 1)), &[]).encode();
    format!(
        "{{\"profile\":\"cpu\",\"version\":1,\"build_id\":\"a001020304050607\",\"process\":7}}\n\
         {{\"token\":\"{leaf}\",\"samples\":3,\"nanoseconds\":12000000}}\n{{\"end\":true,\"contexts\":1}}\n"
    )
}

fn decoded(text: &str) -> (Profile, Stacks) {
    let profile = Profile::read(text.as_bytes()).unwrap();
    let decoder = Decoder::new(&[app()]).unwrap();
    let stacks = Stacks::decode(&profile, &decoder, &Style::default()).unwrap();
    (profile, stacks)
}

#[test]
fn equal_contexts_are_one_stack() {
    let (profile, stacks) = decoded(&heap());
    assert_eq!((profile.kind, profile.process, profile.records.len()), (Kind::Heap, 42, 6));
    let allocations = 5;
    assert_eq!(profile.total(allocations), 25);
    assert_eq!(
        flame::lines(&stacks, allocations),
        [
            "<code, not instrumented> 1",
            "<unknown calls> 4",
            "main;app::run(int);leaf;helper 7",
            "main;app::run(int);leaf;qsort 6",
            "main;app::run(int);leaf;qsort;tail 7",
        ]
    );
    // Not freed: one of each line.
    let live = 2;
    assert_eq!(flame::lines(&stacks, live)[2], "main;app::run(int);leaf;helper 20");
}

#[test]
fn reports() {
    let (profile, stacks) = decoded(&heap());
    let selection = report::Selection { by: 5, top: 2 };
    let mut text = Vec::new();
    report::text(&profile, &stacks, "app", selection, &Style::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("allocated        250 bytes in 25 blocks"), "{text}");
    assert!(text.contains("freed            190 bytes in 19 blocks"), "{text}");
    assert!(text.contains("2 of 5 contexts, by allocations"), "{text}");
    assert!(text.contains("1. 7 (28.0 %)\n"), "{text}");
    assert!(text.contains("2 of 8 functions, by allocations\n"), "{text}");
    assert!(text.contains("              7  28.0 %               7  28.0 %  helper\n"), "{text}");
    assert!(text.contains("    #0  helper at /src/"), "{text}");

    let mut json = Vec::new();
    report::json(&profile, &stacks, "app", selection, &mut json).unwrap();
    let lines: Vec<Value> =
        String::from_utf8(json).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["totals"]["allocated"], 250);
    let of = |function: &str, own: u64, total: u64| serde_json::json!({"function": function, "self": own, "total": total});
    assert_eq!(lines[0]["functions"], Value::from(vec![of("helper", 7, 7), of("tail", 7, 7)]));
    let all = report::Selection { top: 8, ..selection };
    let mut json = Vec::new();
    report::json(&profile, &stacks, "app", all, &mut json).unwrap();
    let first: Value = serde_json::from_slice(json.split(|&byte| byte == b'\n').next().unwrap()).unwrap();
    assert!(first["functions"].as_array().unwrap().contains(&of("leaf", 6, 20)), "{first}");
    assert!(first["functions"].as_array().unwrap().contains(&of("qsort", 0, 13)), "{first}");
    assert_eq!(lines[1]["values"]["allocations"], 7);
    assert_eq!(lines[1]["frames"][0]["function"], "helper");
}

#[test]
fn leaks() {
    let text = heap().replacen('}', ",\"leaks\":true}", 1);
    let with = |n: u64| format!("\"own_peak_bytes\":20,\"leaked_blocks\":{n},\"leaked_bytes\":{}}}", n * 8);
    let text =
        text.replacen("\"own_peak_bytes\":20}", &with(3), 1).replacen("\"own_peak_bytes\":20}", &with(0), 1);
    let text = text.replacen("{\"token\":\"\"", "{\"token\":\"\",\"name\":\"a pool\"", 1);
    let (profile, stacks) = decoded(&text);
    assert!(flame::lines(&stacks, 5).contains(&"<a pool> 1".to_owned()));
    assert_eq!((profile.total(7), profile.total(8), profile.metrics().len()), (24, 3, 9));
    let mut report = Vec::new();
    let selection = report::Selection { by: 7, top: 5 };
    report::text(&profile, &stacks, "app", selection, &Style::default(), &mut report).unwrap();
    let report = String::from_utf8(report).unwrap();
    assert!(report.contains("  leaked            24 bytes in 3 blocks\n"), "{report}");
    assert!(report.contains("1 of 1 contexts, by bytes to which nothing points\n"), "{report}");
    assert!(report.contains("not freed 20 in 2 blocks, leaked 24 in 3 blocks; allocated"), "{report}");
}

#[test]
fn differences() {
    let old = decoded(&heap());
    // One allocation less in `tail`, three more in `qsort`, and a context that is new.
    let changed = heap()
        .replace("\"allocations\":7", "\"allocations\":6")
        .replace("\"allocations\":6", "\"allocations\":9");
    let changed =
        changed.replace("{\"token\":null", "{\"token\":\"\"").replacen("process\":42", "process\":43", 1);
    let new = decoded(&changed);
    let [old, new] = [&old, &new].map(|(profile, stacks)| diff::Side { profile, stacks });
    let selection = report::Selection { by: 5, top: 3 };
    let written = |selection: report::Selection, style: &Style| {
        let mut text = Vec::new();
        diff::text(old, new, "app", selection, style, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    let text = written(selection, &Style::default());
    for expected in [
        "heap profiles of app: process 42, then process 43\n",
        "  allocations                                   25                 30                 +5\n",
        "3 of 7 functions that differ, by allocations\n\n              self       with callees\n                -4                 -4  <unknown calls>\n",
        "3 of 4 contexts that differ, by allocations\n\n1. +4 (from 1 to 5)\n    #0  <code, not instrumented>\n\n2. -4 (from 4 to 0)\n    #0  <unknown calls>\n",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
    // What is equal differs in nothing.
    let mut same = Vec::new();
    diff::text(old, old, "app", selection, &Style::default(), &mut same).unwrap();
    let same = String::from_utf8(same).unwrap();
    assert!(
        same.ends_with("no function differs in allocations\n\nno context differs in allocations\n"),
        "{same}"
    );
    let narrow =
        written(report::Selection { top: 8, ..selection }, &Style { width: Some(51), ..Style::default() });
    assert!(narrow.contains("  app::run\n"), "{narrow}");
    let mut json = Vec::new();
    diff::json(old, new, "app", selection, &mut json).unwrap();
    let lines: Vec<Value> =
        String::from_utf8(json).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["contexts"]), (4, &4.into()));
    assert_eq!(lines[0]["totals"]["allocations"], serde_json::json!({"old": 25, "new": 30}));
    assert_eq!(lines[0]["functions"][0]["self"], serde_json::json!({"old": 4, "new": 0}));
    assert_eq!(lines[1]["values"]["allocations"], serde_json::json!({"old": 1, "new": 5}));
}

#[test]
fn builds_are_compared_without_lines() {
    let (profile, stacks) = decoded(&heap());
    let other = Profile { build_id: "ff".to_owned(), ..profile.clone() };
    let mut moved = stacks.clone();
    for frame in &mut moved.frames {
        frame.line = frame.line.map(|line| line + 1);
    }
    let old = diff::Side { profile: &profile, stacks: &stacks };
    for (profile, expected) in [(&profile, "3 of 6 contexts"), (&other, "no context differs")] {
        let new = diff::Side { profile, stacks: &moved };
        let mut text = Vec::new();
        let selection = report::Selection { by: 5, top: 3 };
        diff::text(old, new, "app", selection, &Style::default(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn speedscope_has_a_profile_for_each_number() {
    for (text, units) in [
        (heap(), &["bytes", "none", "bytes", "none", "bytes", "none"][..]),
        (cpu(), &["nanoseconds", "none"][..]),
    ] {
        let (profile, stacks) = decoded(&text);
        let mut out = Vec::new();
        speedscope::write(&stacks, profile.metrics(), "app", &mut out).unwrap();
        let file: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
        let frames = file["shared"]["frames"].as_array().unwrap();
        assert!(frames.iter().all(|frame| frame["name"].is_string()));
        let profiles = file["profiles"].as_array().unwrap();
        assert_eq!(profiles.iter().map(|p| p["unit"].as_str().unwrap()).collect::<Vec<_>>(), units);
        for profile in profiles {
            assert_eq!((&profile["type"], &profile["startValue"]), (&"sampled".into(), &0.into()));
            let samples = profile["samples"].as_array().unwrap();
            let weights: Vec<u64> =
                profile["weights"].as_array().unwrap().iter().map(|w| w.as_u64().unwrap()).collect();
            assert_eq!(samples.len(), weights.len());
            assert_eq!(profile["endValue"], weights.iter().sum::<u64>());
            for sample in samples {
                let indices = sample.as_array().unwrap().iter().map(|i| i.as_u64().unwrap() as usize);
                let names: Vec<_> = indices.map(|i| frames[i]["name"].as_str().unwrap()).collect();
                assert!(names[0] == "main" || names[0].starts_with('<'), "{names:?}");
            }
        }
    }
}

/// The fields of a protocol buffer message: number, and the varint or the bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Result<u64, &[u8]>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let number = varint(&mut bytes);
        found.push((
            key >> 3,
            match key & 7 {
                0 => Ok(number),
                2 => {
                    let (value, rest) = bytes.split_at(number as usize);
                    bytes = rest;
                    Err(value)
                }
                other => panic!("wire type {other}"),
            },
        ));
    }
    found
}

/// The varints of a packed field.
fn packed(bytes: &[u8]) -> Vec<u64> {
    // As a message whose every field has the number 0.
    let mut with_keys = Vec::new();
    for &byte in bytes {
        if with_keys.last().is_none_or(|last: &u8| *last < 0x80) {
            with_keys.push(0);
        }
        with_keys.push(byte);
    }
    fields(&with_keys).into_iter().map(|(_, value)| value.unwrap()).collect()
}

/// By the published field numbers of `profile.proto`, with a reader of its own.
#[test]
fn pprof_files_have_the_published_fields() {
    let (profile, stacks) = decoded(&heap());
    let mut out = Vec::new();
    pprof::write(&stacks, profile.metrics(), "app", "a001", &mut out).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&*out).read_to_end(&mut bytes).unwrap();
    let file = fields(&bytes);
    let all = |number: u64| file.iter().filter(move |f| f.0 == number).map(|f| f.1.unwrap_err());
    let strings: Vec<&str> = all(6).map(|text| std::str::from_utf8(text).unwrap()).collect();
    assert_eq!(strings[0], "");
    let number = |message: &[u8], field: u64| {
        fields(message).into_iter().find(|f| f.0 == field).map_or(0, |f| f.1.unwrap()) as usize
    };
    let types: Vec<(&str, &str)> =
        all(1).map(|message| (strings[number(message, 1)], strings[number(message, 2)])).collect();
    assert_eq!(types[0], ("peak_space", "bytes"));
    assert!(types.contains(&("inuse_space", "bytes")) && types.contains(&("alloc_objects", "count")));
    let functions: BTreeMap<usize, &str> =
        all(5).map(|message| (number(message, 1), strings[number(message, 2)])).collect();
    let locations: BTreeMap<usize, (&str, usize)> = all(4)
        .map(|message| {
            assert_eq!(number(message, 2), 1, "mapping");
            let line = fields(message).into_iter().find(|f| f.0 == 4).unwrap().1.unwrap_err();
            (number(message, 1), (functions[&number(line, 1)], number(line, 2)))
        })
        .collect();
    let mapping = all(3).next().unwrap();
    assert_eq!((strings[number(mapping, 5)], strings[number(mapping, 6)]), ("app", "a001"));
    let samples: Vec<(Vec<&str>, Vec<u64>)> = all(2)
        .map(|message| {
            let field =
                |n: u64| packed(fields(message).into_iter().find(|f| f.0 == n).unwrap().1.unwrap_err());
            (field(1).iter().map(|id| locations[&(*id as usize)].0).collect(), field(2))
        })
        .collect();
    assert_eq!(samples.len(), 5);
    let (names, values) = &samples[0];
    assert_eq!(names, &["helper", "leaf", "app::run(int)", "main"], "innermost first");
    assert_eq!(values, &[28, 2, 20, 2, 70, 7]);
    let default = file.iter().find(|f| f.0 == 14).unwrap().1.unwrap();
    assert_eq!(strings[default as usize], "peak_space");
}

#[test]
fn flame_graphs_name_their_frames() {
    let (profile, stacks) = decoded(&cpu());
    let mut svg = Vec::new();
    flame::graph(&stacks, profile.kind, 0, "a <title>", &mut svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    assert!(
        svg.contains("<svg") && svg.contains("a &lt;title&gt;") && svg.contains("helper (12 ms, 100.00%)"),
        "{svg}"
    );
    assert!(svg.contains("<title>a &lt;title&gt;, 12 ms (12 ms, 100%)</title>"), "{svg}");
    assert!(svg.contains("#search {") && !svg.contains("opacity:0.1"), "{svg}");
    let (profile, mut stacks) = decoded(&cpu());
    stacks.stacks[0].values = vec![0, 0];
    let error = flame::graph(&stacks, profile.kind, 0, "", Vec::new()).unwrap_err().to_string();
    assert!(error.contains("nothing to show"), "{error}");
}

#[test]
fn damaged_profiles_are_refused() {
    let read = |text: &str| Profile::read(text.as_bytes()).unwrap_err();
    let good = heap();
    assert!(matches!(read(""), ProfileError::Heading(_)));
    assert!(matches!(read("hello\n"), ProfileError::Heading(_)));
    assert_eq!(read(&good.replace("\"version\":1", "\"version\":2")), ProfileError::Version(2));
    assert_eq!(read(&good.replace("\"heap\"", "\"disk\"")), ProfileError::Kind("disk".to_owned()));
    assert_eq!(
        read(&good.replace("\"contexts\":6", "\"contexts\":7")),
        ProfileError::Contexts { expected: 7, found: 6 }
    );
    assert!(matches!(read(&(good.clone() + "x\n")), ProfileError::Line { line: 9, .. }));
    assert!(matches!(read(&good.replace("\"frees\":4", "\"frees\":-4")), ProfileError::Line { line: 2, .. }));
    for (at, _) in good.match_indices('\n').filter(|(at, _)| at + 1 < good.len()) {
        assert_eq!(read(&good[..at]), ProfileError::Incomplete, "cut at {at}");
        assert_eq!(read(&good[..(at + 20).min(good.len() - 2)]), ProfileError::Incomplete, "cut behind {at}");
    }
}

#[test]
fn the_call_graph() {
    let (_, stacks) = decoded(&heap());
    let metric = &Kind::Heap.metrics()[5];
    let heat = Some((&stacks, 5, metric));
    let encoding = Selection { encoding: true, ..Selection::default() };
    let plain = draw(&app(), None, &Selection::default()).unwrap();
    assert!(plain.dot.contains("  f0_0 -> f0_1;\n  f0_1 -> f0_1;\n"), "{}", plain.dot);
    assert!(!plain.dot.contains("numCC") && !plain.dot.contains("peripheries"), "{}", plain.dot);
    let all = draw(&app(), None, &encoding).unwrap();
    assert_eq!((all.shown, all.all), (5, 5));
    assert!(all.dot.starts_with("digraph calls {\n") && all.dot.ends_with("}\n"));
    // main calls run twice; run calls leaf, and itself by a push.
    assert!(all.dot.contains("f0_0 -> f0_1 [label=\"+1 +2\"];"), "{}", all.dot);
    assert!(all.dot.contains("f0_1 -> f0_1 [label=\"push\", style=dashed"), "{}", all.dot);
    let selection = Selection { min_percent: 50.0, ..encoding.clone() };
    let hot = draw(&app(), heat, &selection).unwrap();
    assert_eq!(hot.shown, 3, "{}", hot.dot);
    assert!(hot.dot.contains("leaf\\nnumCC 3\\n80.0 %, itself 52.0 %"), "{}", hot.dot);
    let around = |name: &str, depth| {
        draw(&app(), heat, &Selection { around: Some(Wanted::new(name)), depth, ..encoding.clone() })
    };
    assert_eq!(around("main", 0).unwrap().shown, 1);
    assert_eq!(around("main", 1).unwrap().shown, 2);
    // By any of its names.
    assert_eq!(around("app::run", 1).unwrap().shown, around("app::run(int)", 1).unwrap().shown);
    // 28 % went that way.
    let leaf = around("leaf", 1).unwrap().dot;
    assert!(leaf.contains("f0_2 -> f0_3 [label=\"push\"") && leaf.contains("penwidth=2.4"), "{leaf}");
    let plain = Selection { around: Some(Wanted::new("leaf")), depth: 1, ..Selection::default() };
    let plain = draw(&app(), heat, &plain).unwrap().dot;
    assert!(plain.contains("  f0_2 -> f0_3 [penwidth=2.4];\n"), "{plain}");
    let error = around("lea", 1).unwrap_err();
    assert_eq!(error.to_string(), "no function is named lea; there are leaf");
}

struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("profile").join(test);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("app"), elf::program(&app(), &APP)).unwrap();
        let mut other = app();
        other.build_id = "ffff".to_owned();
        fs::write(folder.join("other.json"), pcce_dictionary::to_json(&other)).unwrap();
        fs::write(folder.join("p.heap"), heap()).unwrap();
        fs::write(folder.join("p.cpu"), cpu()).unwrap();
        Self(folder)
    }

    fn run(&self, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pcce"));
        command.args(words.split(' ')).current_dir(&self.0).output().unwrap()
    }
}

#[test]
fn the_command_line() {
    let folder = Folder::new("commands");
    for words in [
        "heap report app p.heap",
        "heap report app p.heap --by own-peak --top 1 --format json",
        "heap diff app p.heap p.heap --new-program app --by own-peak --format json",
        "heap folded app p.heap --by live-blocks",
        "heap flamegraph app p.heap -o heap.svg",
        "heap pprof app p.heap -o heap.pb.gz",
        "heap speedscope app p.heap -o heap.json",
        "cpu report app p.cpu",
        "cpu folded app p.cpu --by samples",
        "cpu flamegraph app p.cpu",
        "graph app",
        "graph app --profile p.heap --by live",
        "graph app --profile p.cpu --around leaf --depth 1 --encoding -o leaf.dot",
    ] {
        let output = folder.run(words);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &*stderr), (Some(0), ""), "pcce {words}");
        assert_eq!(output.stdout.is_empty(), words.contains(" -o "), "pcce {words}");
    }
    for (words, expected) in [
        ("cpu report app p.heap", "this is a heap profile; use `pcce heap`"),
        ("heap report other.json p.heap", "has build id a001020304050607, and other.json has ffff"),
        ("heap report app app", "this is no profile"),
        ("heap report app none", "none: there is no such file, and app was built without --pcce-heap"),
        ("cpu report app none", "cannot be read"),
        ("heap report app p.heap --by leaked", "run the program with PCCE_HEAP_LEAKS=1"),
        ("heap diff app p.heap p.heap --by leaked-blocks", "run the program with PCCE_HEAP_LEAKS=1"),
        ("heap report app p.heap --by size", "[possible values: peak, peak-blocks, live"),
        ("heap flamegraph app p.heap --by own-peak", "[possible values: peak, peak-blocks, live"),
        ("graph app --profile p.heap --by time", "a heap profile has peak, peak-blocks, live"),
        ("graph app --around nobody", "no function is named nobody; names are those of the source"),
        ("graph app --around laef", "no function is named laef; there are leaf"),
        ("graph app --by live", "--by needs a profile"),
    ] {
        let output = folder.run(words);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]), "pcce {words}");
        assert!(stderr.starts_with("error: ") && stderr.contains(expected), "pcce {words}: {stderr}");
    }
}

proptest! {
    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Profile::read(&bytes);
    }

    #[test]
    fn altered_profiles_never_panic(at in 0usize..4000, byte in any::<u8>(), cut in 0usize..4000) {
        let mut bytes = heap().into_bytes();
        let len = bytes.len();
        bytes[at % len] = byte;
        bytes.truncate(len - cut % 20);
        if let Ok(profile) = Profile::read(&bytes) {
            let decoder = Decoder::new(&[app()]).unwrap();
            if let Ok(stacks) = Stacks::decode(&profile, &decoder, &Style::default()) {
                let (mut out, selection) = (Vec::new(), report::Selection { by: 0, top: 9 });
                report::text(&profile, &stacks, "app", selection, &Style::default(), &mut out).unwrap();
                pprof::write(&stacks, profile.metrics(), "app", "", &mut out).unwrap();
            }
        }
    }
}
