//! Files of numbers: every number of a process decodes to what its token decodes to, however processes end and share
//! the file.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pcce_testsuite::torture::core_of;
use pcce_testsuite::{artifact, command, include, repository, run, run_with_input, work_folder};
use serde_json::Value;

const PLUGINS: [&str; 3] = ["first", "second", "third"];

fn source(name: &str) -> PathBuf {
    repository().join("testsuite/numbers").join(name)
}

fn build(folder: &Path, mode: &str) -> PathBuf {
    build_source(folder, "events", mode)
}

fn build_source(folder: &Path, name: &str, mode: &str) -> PathBuf {
    let program = folder.join(format!("{name}-{mode}"));
    let include = include("runtime-lib/include");
    let mode = format!("--pcce-mode={mode}");
    let mut compile = command(artifact("pcce-clang"), &["-O2", "-g", "-pthread", &include, &mode]);
    run(compile.arg(source(&format!("{name}.c"))).arg("-o").arg(&program)).expect_success();
    program
}

fn build_plugins(folder: &Path) -> Vec<PathBuf> {
    let build = |name| {
        let library = folder.join(format!("{name}.so"));
        let define = format!("-DNAME={name}");
        let mut compile = command(artifact("pcce-clang"), &["-O2", "-g", "-shared", "-fPIC", &define]);
        run(compile.arg(source("plugin.c")).arg("-o").arg(&library)).expect_success();
        library
    };
    PLUGINS.into_iter().map(build).collect()
}

/// ⟨number, token⟩ of each whole line.
fn events(text: &str) -> Vec<(&str, &str)> {
    let end = text.rfind('\n').map_or(0, |end| end + 1);
    text[..end].lines().map(|line| line.split_once(' ').expect("number and token")).collect()
}

/// `pcce decode` with the dictionaries of the libraries.
fn decode(program: &Path, libraries: &[PathBuf], options: &[&str], words: &[&str]) -> pcce_testsuite::Output {
    let mut pcce = command(artifact("pcce"), &["decode"]);
    pcce.args(options).arg(program);
    for library in libraries {
        pcce.arg("--dict").arg(library);
    }
    run_with_input(&mut pcce, &(words.join("\n") + "\n"))
}

/// Checks that all numbers decode to what their tokens decode to. Returns how many were interned.
fn check(events: &[(&str, &str)], file: &Path, program: &Path, libraries: &[PathBuf]) -> usize {
    let file = file.to_str().expect("letters");
    let (numbers, tokens): (Vec<_>, Vec<_>) = events.iter().copied().unzip();
    let folded = ["--format", "folded", "--numbers", file];
    let found = decode(program, libraries, &folded, &numbers).expect_success().stdout;
    let expected = decode(program, libraries, &folded[..2], &tokens).expect_success().stdout;
    assert_eq!(found.lines().count(), events.len());
    for ((event, found), expected) in events.iter().zip(found.lines()).zip(expected.lines()) {
        assert_eq!(found, expected, "{event:?}");
    }
    numbers.iter().filter(|number| number.parse::<u64>().expect("a number") >= 1 << 63).count()
}

#[test]
fn what_a_killed_process_had_written_decodes() {
    let folder = work_folder("numbers/killed");
    let (file, log) = (folder.join("numbers"), folder.join("log"));
    let programs = [build(&folder, "lto"), build(&folder, "module")];
    let mut random = 1_u64;
    let mut interned = 0;
    let mut runs = 0;
    // All processes share one file.
    while runs < 200 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let program = &programs[runs % 2];
        let mut victim = command(program, &["0", "3"]);
        let out = File::create(&log).expect("room on the disk");
        let mut victim =
            victim.env("PCCE_NUMBERS", &file).stdin(Stdio::null()).stdout(out).spawn().expect("it is there");
        std::thread::sleep(Duration::from_micros(2_000 + (random >> 33) % 20_000));
        victim.kill().expect("it runs");
        let _ = victim.wait().expect("a child");
        let text = String::from_utf8(fs::read(&log).expect("a log")).expect("letters");
        let mut all = events(&text);
        // The last numbers test most, since nothing was written after them.
        all.drain(..all.len().saturating_sub(500));
        if all.is_empty() {
            continue;
        }
        interned += check(&all, &file, program, &[]);
        runs += 1;
    }
    assert!(interned > 1000, "{interned}");
}

#[test]
fn plugins_may_come_and_go_under_threads() {
    let folder = work_folder("numbers/plugins");
    let plugins = build_plugins(&folder);
    for mode in ["lto", "module"] {
        let (file, program) = (folder.join(format!("numbers-{mode}")), build(&folder, mode));
        let mut run_it = command(&program, &["400", "8"]);
        let output = run(run_it.args(&plugins).env("PCCE_NUMBERS", &file)).expect_success();
        assert_eq!(output.stderr, "");
        let events = events(&output.stdout);
        assert_eq!(events.len(), 9 * 400);
        assert!(check(&events, &file, &program, &plugins) > 2000);
    }
}

/// A number in a file has one meaning for all processes.
#[test]
fn processes_and_programs_share_a_file() {
    let folder = work_folder("numbers/shared");
    let file = folder.join("numbers");
    let programs = [build(&folder, "lto"), build(&folder, "module")];
    let mut context_of: HashMap<String, (usize, String)> = HashMap::new();
    let mut outputs = Vec::new();
    // Processes at the same time, and one after another.
    for _ in 0..2 {
        let run_both = |i: usize| {
            let mut command = command(&programs[i], &["300", "3"]);
            run(command.env("PCCE_NUMBERS", &file).env("EVENTS_FORK", "1")).expect_success()
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..4).map(|i| (i % 2, scope.spawn(move || run_both(i % 2)))).collect();
            for (program, output) in running {
                outputs.push((program, output.join().expect("it ends")));
            }
        });
    }
    for (program, output) in &outputs {
        assert_eq!(output.stderr, "");
        let events = events(&output.stdout);
        assert_eq!(events.len(), (1 + 3 + 3) * 300);
        assert!(check(&events, &file, &programs[*program], &[]) > 100);
        for (number, token) in events {
            let new = || (*program, token.to_owned());
            if number.parse::<u64>().expect("a number") >= 1 << 63 {
                assert_eq!(*context_of.entry(number.to_owned()).or_insert_with(new), new(), "{number}");
            }
        }
    }
    // The numbers of the other program are not valid for this one.
    let (number, _) = context_of.iter().find(|(_, (program, _))| *program == 1).expect("one of them");
    let options = ["--numbers", file.to_str().expect("letters")];
    let output = decode(&programs[0], &[], &options, &[number]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("is of another build"), "{}", output.stderr);
    // Without the file they are not valid, either.
    let output = decode(&programs[1], &[], &[], &[number]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("--numbers FILE"), "{}", output.stderr);
}

/// Code that runs before `main` uses the file, too.
#[test]
fn constructors_share_the_file() {
    let folder = work_folder("numbers/early");
    for mode in ["module", "link"] {
        let (program, file) = (build_source(&folder, "early", mode), folder.join(mode));
        for _ in 0..3 {
            let output = run(command(&program, &[]).env("PCCE_NUMBERS", &file)).expect_success();
            assert_eq!(output.stderr, "");
            let events = events(&output.stdout);
            assert_eq!(events.len(), 2);
            let interned = check(&events, &file, &program, &[]);
            assert!(interned == 2 || mode == "link", "{events:?}");
        }
    }
}

/// The decoder is there before the file, and each number is new to it.
#[test]
fn numbers_of_a_running_program_are_decoded() {
    let folder = work_folder("numbers/running");
    let program = build_source(&folder, "steps", "link");
    for (name, expected) in [
        ("filter", ["one main;<qsort, not instrumented>;one\n", "two main;<qsort, not instrumented>;two\n"]),
        ("decode", ["main;<qsort, not instrumented>;one 1\n", "main;<qsort, not instrumented>;two 1\n"]),
    ] {
        let file = folder.join(format!("{name}.numbers"));
        let script = match name {
            "filter" => "sleep 0.4; exec \"$0\"",
            _ => "sleep 0.4; \"$0\" | stdbuf -oL cut -d : -f 2",
        };
        let mut late = command("sh", &["-c", script]);
        late.arg(&program).env("PCCE_NUMBERS", &file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut late = late.spawn().expect("a shell");
        let mut pcce = command(artifact("pcce"), &[name, "--format", "folded", "--numbers"]);
        pcce.arg(&file).arg(&program).stdin(late.stdout.take().expect("a pipe")).stdout(Stdio::piped());
        let mut pcce = pcce.spawn().expect("it is there");
        let mut steps = late.stdin.take().expect("a pipe");
        let mut shown = BufReader::new(pcce.stdout.take().expect("a pipe"));
        for line in expected {
            steps.write_all(b"x").expect("it reads");
            let mut found = String::new();
            shown.read_line(&mut found).expect("letters");
            assert_eq!(found, line, "{name}");
        }
        drop(steps);
        assert!(late.wait().expect("a child").success());
        assert!(pcce.wait().expect("a child").success(), "{name}");
    }
}

/// A full disk costs the later numbers, and nothing else.
#[test]
fn a_full_disk_costs_the_last_numbers_only() {
    let folder = work_folder("numbers/full");
    let (file, program) = (folder.join("numbers"), build(&folder, "module"));
    let mut limited = command("prlimit", &["--fsize=100000", "--"]);
    let output = run(limited.arg(&program).args(["3000", "2"]).env("PCCE_NUMBERS", &file)).expect_success();
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert!(output.stderr.contains("it cannot grow: File too large (error 27)"), "{}", output.stderr);
    let events = events(&output.stdout);
    assert_eq!(events.len(), 3 * 3000);
    let (numbers, tokens): (Vec<_>, Vec<_>) = events.into_iter().unzip();
    let options = ["--format", "json", "--numbers", file.to_str().expect("letters")];
    let found = decode(&program, &[], &options, &numbers);
    let expected = decode(&program, &[], &options[..2], &tokens).expect_success();
    assert_eq!(found.status, 2);
    let (mut decoded, mut missing) = (0, 0);
    for (found, expected) in found.stdout.lines().zip(expected.stdout.lines()) {
        let [found, expected]: [Value; 2] = [found, expected].map(|l| serde_json::from_str(l).expect("JSON"));
        match found["error"].as_str() {
            Some(error) => {
                assert!(
                    error.contains("of the file of numbers was not written") || error.contains("truncated")
                );
                missing += 1;
            }
            None => {
                let frames = |value: &Value| value["frames"].as_array().expect("frames")[1..].to_vec();
                assert_eq!(frames(&found), frames(&expected));
                decoded += 1;
            }
        }
    }
    assert!(decoded > 1000 && missing > 1000, "{decoded} {missing}");
}

/// The number of a known chain costs the same with a file and without. A new chain costs little more.
#[test]
fn what_was_seen_before_costs_nothing() {
    let folder = work_folder("numbers/seen");
    for mode in ["lto", "module"] {
        let program = build_source(&folder, "seen", mode);
        let file = folder.join("numbers");
        let instructions = |rounds: &str, depth: &str, numbers: &str| -> i64 {
            let _ = fs::remove_file(&file);
            let out = folder.join("callgrind");
            let option = format!("--callgrind-out-file={}", out.display());
            // Old versions of valgrind cannot read the debug information of a new clang.
            let mut callgrind =
                command("valgrind", &["-q", "--tool=callgrind", "--read-inline-info=no", &option]);
            run(callgrind.arg(&program).args([rounds, depth]).env("PCCE_NUMBERS", numbers)).expect_success();
            let text = fs::read_to_string(&out).expect("callgrind writes it");
            let total = text.lines().find_map(|line| line.strip_prefix("totals: ")).expect("a total");
            total.parse().expect("a number")
        };
        let seen = |numbers: &str| instructions("201", "9", numbers) - instructions("1", "9", numbers);
        let new = |numbers: &str| instructions("1", "4009", numbers) - instructions("1", "9", numbers);
        let with = file.to_str().expect("letters");
        let (seen_without, seen_with) = (seen(""), seen(with));
        assert!(seen_without > 200 * 10 * 20, "{seen_without}");
        let link = (new(with) - new("")) / 4000;
        assert!((20..600).contains(&link), "{mode}: {link} instructions for the record of a new link");
        // Addresses of the process decide the places of keys in the hash table. One of the ten that is found a place
        // later costs some fifty instructions a round. A record that is written again, or searched for, would cost each
        // of the ten much of the cost of a new chain.
        let more = (seen_with - seen_without) / 2000;
        assert!(more.abs() < link / 8, "{mode}: {more} instructions more a number, {link} a new link");
        println!(
            "{mode}: {seen_without} instructions without a file, {seen_with} with one; {link} a new link"
        );
    }
}

/// Daemons do so.
#[test]
fn a_program_may_close_all_its_files() {
    let folder = work_folder("numbers/closed");
    let (file, program) = (folder.join("numbers"), build(&folder, "module"));
    let mut command = command(&program, &["3000", "2"]);
    let output = run(command.env("PCCE_NUMBERS", &file).env("EVENTS_CLOSE", "1")).expect_success();
    assert_eq!(output.stderr, "");
    assert!(check(&events(&output.stdout), &file, &program, &[]) > 3000);
}

#[test]
fn other_files_are_not_touched() {
    let folder = work_folder("numbers/other");
    let program = build(&folder, "module");
    let file = folder.join("precious");
    fs::write(&file, "precious, and longer than sixteen bytes").expect("room on the disk");
    let output = run(command(&program, &["5", "1"]).env("PCCE_NUMBERS", &file)).expect_success();
    assert!(output.stderr.contains("no file of numbers"), "{}", output.stderr);
    assert_eq!(events(&output.stdout).len(), 10, "and the program runs as it does");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "precious, and longer than sixteen bytes");
    let options = ["--numbers", file.to_str().expect("letters")];
    let output = decode(&program, &[], &options, &[]);
    assert_eq!(output.status, 2);
    assert!(output.stderr.contains("it starts with bytes 70 72 65 63"), "{}", output.stderr);
    // No file at all.
    for other in ["/dev/null", "/nowhere/numbers", folder.to_str().expect("letters")] {
        let output = run(command(&program, &["5", "1"]).env("PCCE_NUMBERS", other)).expect_success();
        assert_eq!(output.stderr.lines().count(), 1, "{other}: {}", output.stderr);
        assert_eq!(events(&output.stdout).len(), 10);
    }
}

/// The decoded number of each function entry in verify mode is the shadow stack's context, and a wrong one is found.
#[test]
fn numbers_decode_to_the_shadow_stack() {
    let folder = work_folder("numbers/verified");
    for mode in ["lto", "module"] {
        let [file, contexts, program] =
            ["numbers", "contexts", "program"].map(|n| folder.join(format!("{n}-{mode}")));
        let include = include("runtime-lib/include");
        let mode = format!("--pcce-mode={mode}");
        let flags = ["-O2", "-g", "-pthread", "--pcce-verify", &include, &mode];
        let mut compile = command(artifact("pcce-clang"), &flags);
        run(compile.arg(source("events.c")).arg("-o").arg(&program)).expect_success();
        let mut run_it = command(&program, &["300", "4"]);
        run_it.env("PCCE_NUMBERS", &file).env("PCCE_VERIFY_CONTEXTS", &contexts);
        run(&mut run_it).expect_success();
        let verified = |contexts: &Path| {
            let mut verified = command(artifact("pcce"), &["verified", "--numbers"]);
            verified.arg(&file).arg(&program).arg(contexts);
            run(&mut verified)
        };
        let output = verified(&contexts).expect_success();
        let words: Vec<&str> = output.stdout.split(' ').collect();
        let number = |i: usize| words[i].parse::<u64>().expect("a number");
        // All contexts, those of silent functions, and the decoded ones.
        assert!(number(0) > 3000 && number(2) + number(6) == number(0), "{}", output.stdout);
        assert!(output.stdout.ends_with(" 0 wrong\n"), "{}", output.stdout);
        let text = fs::read_to_string(&contexts).expect("it is there");
        // Threads write concurrently: a line may precede its caller's.
        let backwards = folder.join("backwards");
        let lines: Vec<&str> = text.lines().rev().collect();
        fs::write(&backwards, lines.join("\n") + "\n").expect("room on the disk");
        assert_eq!(verified(&backwards).expect_success().stdout, output.stdout);
        // The calls of two lines, exchanged.
        let mut lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
        let (a, b) = (100, (101..lines.len()).find(|&b| lines[b][2] != lines[100][2]).expect("another call"));
        (lines[a][2], lines[b][2]) = (lines[b][2], lines[a][2]);
        let other: Vec<String> = lines.iter().map(|words| words.join(" ") + "\n").collect();
        let changed = folder.join("changed");
        fs::write(&changed, other.concat()).expect("room on the disk");
        let output = verified(&changed);
        assert_eq!(output.status, 2);
        assert!(!output.stdout.contains(" 0 wrong"), "{}", output.stdout);
    }
}

/// A core file is enough: it holds all that its process had numbered.
#[test]
fn core_files_have_what_their_numbers_stand_for() {
    let folder = work_folder("numbers/core");
    for mode in ["lto", "module"] {
        let (program, log, core) = (build(&folder, mode), folder.join("log"), folder.join("core"));
        let out = File::create(&log).expect("room on the disk");
        let mut child =
            command(&program, &["0", "2"]).stdin(Stdio::null()).stdout(out).spawn().expect("it is there");
        std::thread::sleep(Duration::from_millis(100));
        let made = core_of(child.id(), &core);
        child.kill().expect("it runs");
        let _ = child.wait().expect("a child");
        made.expect("gdb makes a core file");
        let text = String::from_utf8(fs::read(&log).expect("a log")).expect("letters");
        let mut all = events(&text);
        all.truncate(200);
        assert_eq!(all.len(), 200);
        let (numbers, tokens): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let mut pcce = command(artifact("pcce"), &["core", "--format", "json"]);
        let found = run(pcce.arg(&program).arg(&core).args(&numbers)).expect_success().stdout;
        let expected = decode(&program, &[], &["--format", "json"], &tokens).expect_success().stdout;
        for (found, expected) in found.lines().zip(expected.lines()) {
            let frames = |line: &str| -> Vec<Value> {
                let line: Value = serde_json::from_str(line).expect("JSON");
                line["frames"].as_array().unwrap_or_else(|| panic!("{line}"))[1..].to_vec()
            };
            assert_eq!(frames(found), frames(expected));
        }
        assert_eq!(found.lines().count(), 200);
        let mut other = command(artifact("pcce"), &["core"]);
        let output = run(other.arg(&program).arg(&core).arg("9223372036900000000"));
        assert_eq!(output.status, 2);
        assert!(output.stderr.contains("the core file has no number"), "{}", output.stderr);
    }
}
