//! `pcce trace`, as users run it: a program of three functions, and what it did.

use std::mem::offset_of;

use pcce_abi::trace as abi;
use pcce_dictionary::Location;
use pcce_dictionary::trace::{Function, Kind, Node, SECTION, Traced, to_bytes};

use crate::common::elf;
use crate::common::stream::{FileOf, Settled, StreamOf, Writer};
use crate::common::world::{ImageOf, World};
use crate::folder::{Folder, err, out};

const ID: [u8; 4] = [0xc0, 1, 2, 3];

/// main calls `work` any number of times, `puts` after it, and returns; `work`, into which `helper` was inlined, calls
/// through a pointer, or not.
fn world() -> World {
    let at = |name, line| Location { name, file: 0, line, column: 3 };
    let node = |kind, code, bits, next, locations| Node {
        kind,
        code,
        bits,
        next,
        unwinds_to: None,
        site: None,
        lines: Vec::new(),
        locations,
    };
    let main = Function {
        name: 0,
        first: 0,
        nodes: vec![
            node(Kind::Call(1), 0, 1, 1, vec![at(0, 10)]),
            node(Kind::Closed(3), 0, 0, 0, vec![at(0, 11)]),
            node(Kind::Return, 1, 1, 0, vec![at(0, 12)]),
        ],
        sets: vec![vec![0, 2], vec![1]],
        checked: false,
    };
    let work = Function {
        name: 1,
        first: 0,
        nodes: vec![
            node(Kind::Open(None), 1, 1, 1, vec![at(2, 30), at(1, 20)]),
            node(Kind::Return, 0, 1, 0, vec![at(1, 21)]),
        ],
        sets: vec![vec![0, 1], vec![1]],
        checked: false,
    };
    let back = Function {
        name: 4,
        first: 0,
        nodes: vec![node(Kind::Return, 0, 0, 0, vec![at(4, 40)])],
        sets: vec![vec![0]],
        checked: false,
    };
    let module = Traced {
        name: "app.c".to_owned(),
        key: 7,
        files: vec!["/src/app.c".to_owned()],
        names: ["main", "_ZN3app4workEi", "helper", "puts", "back"].map(str::to_owned).into(),
        functions: vec![main, work, back],
        addresses: vec![0x1000, 0x2000, 0x3000],
        ..Traced::default()
    };
    World::new(vec![ImageOf {
        build_id: ID.to_vec(),
        path: "/nowhere/app".to_owned(),
        low: 0x5000_0000,
        high: 0x5010_0000,
        bias: 0x5000_0000,
        modules: vec![module],
    }])
}

/// A run: main, then for each letter `work`: `p` with a call back through the pointer, `n` without it. Events are
/// counted as in verify mode, and one more than there is if `wrong`.
fn trace(world: &World, run: &str, wrong: bool) -> Vec<u8> {
    let mut writer = Writer::new(64);
    let event = |writer: &mut Writer, function, node| writer.count(abi::event(7, function, node));
    writer.special(&[abi::special(abi::Special::Entered, world.address(0))]);
    for call in run.chars() {
        writer.bits(0, 1);
        event(&mut writer, 0, 0);
        if call == 'p' {
            writer.bits(1, 1);
            event(&mut writer, 1, 0);
            writer.special(&[abi::special(abi::Special::Entered, world.address(2))]);
            event(&mut writer, 2, 0);
            writer.bits(0, 1);
        }
        writer.bits(0, 1);
        event(&mut writer, 1, 1);
        event(&mut writer, 0, 1);
    }
    writer.bits(1, 1);
    event(&mut writer, 0, 2);
    if wrong {
        event(&mut writer, 0, 2);
    }
    writer.settle(Settled::default());
    writer.end(0);
    let mut file = FileOf::new(world);
    file.stream(&StreamOf::first(), &writer.done, true);
    file.bytes
}

fn folder(test: &str) -> Folder {
    let folder = Folder::new(test);
    let world = world();
    let module = &world.images[0].modules[0];
    let mut section = to_bytes(module);
    for (at, address) in (24..).step_by(8).zip(&module.addresses) {
        section[at..at + 8].copy_from_slice(&address.to_le_bytes());
    }
    folder.write("traced", &elf::with_section(SECTION, &section, &ID));
    folder.write("one.trace", &trace(&world, "np", false));
    folder.write("two.trace", &trace(&world, "nn", false));
    folder.write("wrong.trace", &trace(&world, "nn", true));
    folder
}

#[test]
fn show_is_a_tree() {
    let folder = folder("trace_show");
    let shown = folder.ok(&["trace", "show", "traced", "one.trace"]);
    let expected = "thread 71 of process 70:
       0  main
       1    app::work(int) at /src/app.c:10:3
       3    puts at /src/app.c:11:3
       4    app::work(int) at /src/app.c:10:3
       5      call through a pointer at /src/app.c:30:3 in helper at /src/app.c:20:3 [inlined]
       5        back
       8    puts at /src/app.c:11:3
       9  <end>
";
    assert_eq!(shown, expected);
    let inside =
        folder.ok(&["trace", "show", "traced", "one.trace", "--function", "app::work", "--from", "4"]);
    assert_eq!(inside.lines().count(), 4, "{inside}");
    let last = folder.ok(&["trace", "show", "traced", "one.trace", "--last", "2", "--depth", "2"]);
    let active = last.lines().nth(1).unwrap();
    assert!(last.lines().count() == 4 && active.trim() == "main [active]", "{last}");
    for line in folder.ok(&["trace", "show", "traced", "one.trace", "--format", "json"]).lines() {
        let _: serde_json::Value = serde_json::from_str(line).unwrap();
    }
}

#[test]
fn what_programs_read_is_json() {
    let folder = folder("trace_json");
    let stats = folder.ok(&["trace", "stats", "traced", "one.trace", "--format", "json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("a document");
    assert_eq!((&stats["events"], &stats["gaps"]), (&9.into(), &0.into()), "{stats}");
    assert!(stats["functions"][0]["bits"].is_u64(), "{stats}");
    let report = folder.ok(&["trace", "report", "traced", "one.trace", "--format", "json"]);
    for line in report.lines() {
        let _: serde_json::Value = serde_json::from_str(line).expect("an object");
    }
}

#[test]
fn calls_are_counted_and_found() {
    let folder = folder("trace_counts");
    let report = folder.ok(&["trace", "report", "traced", "one.trace"]);
    for row in [
        "9 events",
        "2              3              4     0.000 ms  app::work(int)",
        "1              1              1     0.000 ms  back",
    ] {
        assert!(report.contains(row), "{row} in {report}");
    }
    let found = folder.ok(&["trace", "find", "traced", "one.trace", "back"]);
    let expected = "event 5 of thread 71 of process 70:
#0  back
#1  <code, not instrumented>
#2  helper at /src/app.c:30:3 [inlined]
#3  app::work(int) at /src/app.c:20:3
#4  main at /src/app.c:10:3

";
    assert_eq!(found, expected);
    let hidden = folder.ok(&["trace", "find", "traced", "one.trace", "back", "--hide", "/src/*"]);
    assert!(hidden.contains("#1  <code, not instrumented>\n    … 3 frames of /src/\n\n"), "{hidden}");
    let at = folder.ok(&["trace", "at", "traced", "one.trace", "7"]);
    assert!(at.contains("#0  app::work(int) at /src/app.c:21:3\n#1  main at /src/app.c:10:3\n"), "{at}");
    let stats = folder.ok(&["trace", "stats", "traced", "one.trace"]);
    assert!(stats.contains("9 events in 1 streams"), "{stats}");
    assert!(
        folder
            .fails(&["trace", "find", "traced", "one.trace", "nobody"])
            .contains("no function of this name")
    );
    assert!(folder.fails(&["trace", "at", "traced", "one.trace", "10"]).contains("has no event 10"));
}

#[test]
fn runs_are_compared() {
    let folder = folder("trace_diff");
    let diff = folder.ok(&["trace", "diff", "traced", "one.trace", "two.trace"]);
    assert!(diff.contains("the first 4 events are the same, of 9 and 7"), "{diff}");
    assert!(
        diff.contains("the first run, event 5: call of code that is not traced")
            && diff.contains("the second run, event 5: return")
    );
    assert!(diff.contains("1              0             -1  back"), "{diff}");
    let same = folder.ok(&["trace", "diff", "traced", "one.trace", "one.trace"]);
    assert!(same.contains("the same 9 events"), "{same}");
}

#[test]
fn verify_mode_is_checked() {
    let folder = folder("trace_check");
    let good = folder.ok(&["trace", "check", "traced", "one.trace"]);
    assert_eq!(good, "9 events of 1 chunks were compared, 0 chunks do not match\n");
    let good = folder.ok(&["trace", "check", "traced", "one.trace", "--format", "json"]);
    let good: serde_json::Value = serde_json::from_str(&good).expect("a document");
    assert_eq!(
        (&good["streams"]["events"], &good["streams"]["mismatches"]),
        (&9.into(), &0.into()),
        "{good}"
    );
    let wrong = folder.run(&["trace", "check", "traced", "wrong.trace"]);
    assert_eq!(wrong.status.code(), Some(1), "{}", err(&wrong));
    assert!(out(&wrong).contains("1 chunks do not match"));
    assert!(err(&wrong).contains("8 events up to its end, and 7 were read"), "{}", err(&wrong));
}

#[test]
fn other_programs_read_it() {
    let folder = folder("trace_export");
    for (format, text) in
        [("chrome", "\"name\":\"back\""), ("folded", "main;app::work(int) "), ("svg", ">main<")]
    {
        let written = folder.ok(&["trace", "export", "--format", format, "traced", "one.trace"]);
        assert!(written.contains(text), "{format}: {written}");
        if format == "chrome" {
            let _: serde_json::Value = serde_json::from_str(&written).unwrap();
        }
    }
    let perfetto = folder.run(&["trace", "export", "--format", "perfetto", "traced", "one.trace"]);
    assert!(perfetto.stdout.windows(4).any(|w| w == b"back") && perfetto.stdout[0] == 0x0a);
}

#[test]
fn each_command_says_that_something_is_missing() {
    let folder = folder("trace_missing");
    // Recording was stopped before main's first word; what is known again begins with `back`.
    let mut bytes = trace(&world(), "np", false);
    let words = bytes.len() - 65536 + abi::CHUNK_HEAD as usize;
    bytes[words..words + 8].copy_from_slice(&abi::special(abi::Special::Gap, 1).to_le_bytes());
    bytes[words - abi::CHUNK_HEAD as usize + offset_of!(abi::Chunk, end)] = abi::OPEN as u8;
    folder.write("gap.trace", &bytes);
    let command = |args: &[&str]| {
        let run = folder.run(&[&["trace"], args].concat());
        assert_eq!(run.status.code(), Some(2), "{args:?}: {}", err(&run));
        assert!(err(&run).contains("something is missing in the trace"), "{args:?}: {}", err(&run));
        err(&run)
    };
    command(&["show", "traced", "gap.trace"]);
    command(&["report", "traced", "gap.trace"]);
    command(&["stats", "traced", "gap.trace"]);
    command(&["diff", "traced", "one.trace", "gap.trace"]);
    for format in ["perfetto", "chrome", "folded", "svg", "json"] {
        command(&["export", "--format", format, "traced", "gap.trace"]);
    }
    let found = command(&["find", "traced", "gap.trace", "main"]);
    assert!(found.contains("the trace has no call of main, as far as it tells"), "{found}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = folder("trace_refused");
    let newer = {
        let mut bytes = trace(&world(), "n", false);
        bytes[8] = 2;
        bytes
    };
    folder.write("newer.trace", &newer);
    let message = folder.fails(&["trace", "show", "traced", "newer.trace"]);
    assert!(message.contains("version 2") && message.contains("reads version 1"), "{message}");
    assert!(folder.fails(&["trace", "show", "traced", "app"]).contains("no trace of calls"));
    assert!(folder.fails(&["trace", "show", "app", "one.trace"]).contains(".debug_pcce_trace"));
    let other = elf::with_section(SECTION, &to_bytes(&world().images[0].modules[0]), &[1, 2, 3, 4]);
    folder.write("other", &other);
    let message = folder.fails(&["trace", "show", "other", "one.trace"]);
    assert!(message.contains("01020304") && message.contains("c0010203"), "{message}");
    // A stream that is cut has an end that says so.
    let bytes = trace(&world(), "nn", false);
    folder.write("cut.trace", &bytes[..2 * 65536 + 128 + 8]);
    let cut = folder.run(&["trace", "show", "traced", "cut.trace"]);
    assert_eq!(cut.status.code(), Some(2));
    assert!(out(&cut).ends_with("<what came later is not recorded>\n"), "{}", out(&cut));
}

#[test]
fn a_trace_that_was_cut_behind_a_chunk_is_not_whole() {
    let folder = folder("trace_cut");
    let mut whole = trace(&world(), &"np".repeat(100), false);
    // How many bytes processes have taken, and how many streams they have begun.
    let (used, streams) = (abi::USED as usize, abi::STREAMS as usize);
    let len = whole.len() as u64;
    whole[used..used + 8].copy_from_slice(&len.to_le_bytes());
    whole[streams..streams + 8].copy_from_slice(&1_u64.to_le_bytes());
    folder.write("whole.trace", &whole);
    folder.ok(&["trace", "report", "traced", "whole.trace"]);
    let missing = |args: &[&str], named: &str| {
        let run = folder.run(&[&["trace"], args].concat());
        assert_eq!(run.status.code(), Some(2), "{args:?}: {}", err(&run));
        assert!(err(&run).contains("something is missing in the trace"), "{args:?}: {}", err(&run));
        assert!(err(&run).contains(named), "{args:?}: {}", err(&run));
    };
    let unit = abi::UNIT as usize;
    assert!(whole.len() > 4 * unit, "there are several chunks");
    for cut in (3 * unit..whole.len()).step_by(unit) {
        // Without what its head says, the last chunk that is left does.
        for (head, named) in [(true, "it was cut: it has "), (false, "")] {
            let mut bytes = whole[..cut].to_vec();
            if !head {
                bytes[used..used + 16].fill(0);
            }
            folder.write("cut.trace", &bytes);
            missing(&["show", "traced", "cut.trace"], named);
            missing(&["report", "traced", "cut.trace"], named);
            missing(&["diff", "traced", "whole.trace", "cut.trace"], named);
            missing(&["find", "traced", "cut.trace", "back"], named);
            missing(&["export", "--format", "folded", "traced", "cut.trace"], named);
        }
    }
    // Another thread had begun, of which nothing is left.
    whole[streams] = 2;
    folder.write("cut.trace", &whole);
    missing(&["report", "traced", "cut.trace"], "nothing is there of 1 threads");
}

#[test]
fn names_say_what_the_trace_cannot_have() {
    let folder = folder("trace_names");
    let run = |args: &[&str]| folder.run(&[&["trace"], args, &["traced", "one.trace"]].concat());
    // One of the two calls of `work` has led to an event in `helper`; in which of them it ran is not known.
    let found = folder.run(&["trace", "find", "traced", "one.trace", "helper"]);
    assert_eq!((found.status.code(), &*out(&found)), (Some(2), ""));
    assert_eq!(
        err(&found).lines().next(),
        Some(
            "note: helper was inlined into app::work(int): of calls there the trace has no event, but for 1 in it, which \
             `pcce trace show --function helper` shows"
        )
    );
    let shown = run(&["show", "--function", "helper"]);
    assert_eq!(shown.status.code(), Some(2));
    let expected = "thread 71 of process 70:
       5  call through a pointer at /src/app.c:30:3 in helper at /src/app.c:20:3 [inlined]
       5    back
";
    assert_eq!(out(&shown), expected);
    assert!(err(&shown).contains("helper was inlined into app::work(int)"), "{}", err(&shown));
    for name in ["app::work", "app::work(int)", "_ZN3app4workEi", "app::work( int )"] {
        let found = folder.ok(&["trace", "find", "traced", "one.trace", name]);
        assert_eq!(found.matches("event ").count(), 2, "{name}: {found}");
    }
    for (name, expected) in
        [("work", "; there are app::work(int). "), ("app::wrok", "; there are app::work(int). ")]
    {
        let error = folder.fails(&["trace", "find", "traced", "one.trace", name]);
        assert!(
            error.contains(&format!("no function of this name is traced or called{expected}")),
            "{error}"
        );
    }
    // It is there, and was not called: `two.trace` has no call through a pointer.
    let none = folder.run(&["trace", "find", "traced", "two.trace", "back"]);
    assert_eq!((none.status.code(), &*err(&none)), (Some(0), "note: the trace has no call of back\n"));
}
