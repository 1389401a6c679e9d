//! The end of a trace in a core file: at every instruction, where gdb's backtrace is.

use std::fs;
use std::path::Path;

use pcce_testsuite::{artifact, command, export_events, json_lines, run, source, work_folder};

/// Short functions fill words fast. Two of them are entered through a pointer.
const PROGRAM: &str = source!("traces/short_functions.c");

/// Steps, each with a core file.
const STEPS: usize = 240;

/// The events of a trace, one per line, without those of its end.
fn events(program: &Path, trace: &Path) -> Vec<String> {
    let events = json_lines(&export_events(program, trace).stdout).into_iter().map(|event| {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", event["event"], text(&event["kind"]), text(&event["function"]))
    });
    events.filter(|event| !event.contains(" end")).collect()
}

/// The active functions after each event, outermost first.
fn stacks(events: &[String]) -> Vec<Vec<String>> {
    let mut stacks = vec![Vec::new()];
    for event in events {
        let mut stack = stacks.last().cloned().unwrap_or_default();
        match event.split(' ').collect::<Vec<_>>()[1..] {
            ["call" | "entered", function] => stack.push(function.to_owned()),
            ["return", _] => drop(stack.pop()),
            _ => {}
        }
        stacks.push(stack);
    }
    stacks
}

#[test]
fn it_ends_where_the_process_stood() {
    let folder = work_folder("trace-cores");
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    fs::write(&source, PROGRAM).unwrap();
    let flags = ["--pcce-trace", "--pcce-mode=lto", "-O1", "-fno-optimize-sibling-calls", "-o"];
    run(command(artifact("pcce-clang"), &flags).arg(&program).arg(&source)).expect_success();
    let (trace, whole, ended) = (folder.join("trace"), folder.join("whole"), folder.join("ended"));
    run(command(&program, &[]).env("PCCE_TRACE", &whole)).expect_success();
    let whole = events(&program, &whole);
    let stacks = stacks(&whole);

    // Where the tracer begins to write a word, and where it has written one.
    for place in ["__pcce_trace_flush", "__pcce_trace_stored_enter"] {
        let core = folder.join("core");
        let script = format!(
            "set pagination off\nset startup-with-shell off\nbreak *(char *)&{place}\nrun > /dev/null\ncontinue 5\n\
             delete\nset $i = 0\nwhile $i < {STEPS}\n\
             eval \"generate-core-file {}.%d\", $i\neval \"shell cp {} {}.%d\", $i\n\
             printf \"STEP %d\\n\", $i\nbt\nstepi\nset $i = $i + 1\nend\nkill\n",
            core.display(),
            trace.display(),
            trace.display(),
        );
        let commands = folder.join("commands");
        fs::write(&commands, script).unwrap();
        let mut gdb = command("gdb", &["-batch", "-nx", "-x"]);
        gdb.arg(&commands).arg(&program).env("PCCE_TRACE", &trace);
        let printed = run(&mut gdb).expect_success().stdout;
        let steps: Vec<&str> = printed.split("STEP ").skip(1).collect();
        assert_eq!(steps.len(), STEPS);
        let mut lens = vec![0];
        for (i, step) in steps.iter().enumerate() {
            // `#0  0x… in f ()`, or `#0  f ()`; functions of the tracer are skipped.
            let frames = step.lines().filter(|line| line.starts_with('#'));
            let name = |line: &str| line.split(" ()").next()?.rsplit(' ').next().map(str::to_owned);
            let names = frames.filter_map(name).filter(|f| !f.starts_with("__pcce"));
            let names = names.map(|f| f.strip_suffix(".pcce_recording").unwrap_or(&f).to_owned());
            let mut active: Vec<String> = names.collect();
            active.truncate(active.iter().position(|f| f == "main").map_or(active.len(), |main| main + 1));
            active.reverse();
            let core = folder.join(format!("core.{i}"));
            // A copy of the file at that moment: the process has gone on.
            fs::rename(folder.join(format!("trace.{i}")), &trace).unwrap();
            let mut read = command(artifact("pcce"), &["core", "--trace"]);
            run(read.arg(&ended).arg(&program).arg(&core)).expect_success();
            let found = events(&program, &ended);
            assert_eq!(found[..], whole[..found.len()], "step {i}");
            // An event is recorded before it happens, so the last one may not have happened yet. A return without an
            // alternative follows from the next event.
            let is_return = |event: &&String| event.contains(" return ") || event.contains(" open-return ");
            let silent = whole[found.len()..].iter().take_while(is_return).count();
            let near = (found.len() - 1..=found.len() + silent + 1).filter(|&at| stacks[at] == active);
            assert!(near.count() > 0, "step {i}: {step} but the trace ends with {:?}", stacks[found.len()]);
            lens.push(found.len());
            fs::remove_file(&core).unwrap();
        }
        // An event that a core file has shown is never missing later, as it would be if bits were lost on their way
        // into the file.
        assert!(lens.is_sorted(), "{lens:?}");
        assert!(lens[STEPS] > lens[1] + 8, "{lens:?}");
    }
}
