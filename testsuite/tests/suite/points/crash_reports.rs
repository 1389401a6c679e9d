//! Crash reports and core files: programs that die of many things, with and without the handler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::libc;
use pcce_testsuite::chain::{decode, functions};
use pcce_testsuite::torture::{Victim, compare_core, core_of};
use pcce_testsuite::{Output, artifact, command, repository, run, run_with_input, target, work_folder};
use serde_json::Value;

fn build(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let source = repository().join("testsuite/crash/crash.c").display().to_string();
    let to = program.display().to_string();
    let own =
        ["-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-fno-optimize-sibling-calls", &source, "-o", &to];
    run(&mut command(artifact("pcce-clang"), &[flags, &own].concat())).expect_success();
    program
}

/// Runs without a core file, which these tests do not read.
fn crash(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let line = "ulimit -c 0; exec \"$@\"";
    let program = program.display().to_string();
    let mut command = command("sh", &[&["-c", line, "sh", &program], arguments].concat());
    run(command.envs(environment.iter().copied()).env_remove("DEBUGINFOD_URLS"))
}

/// The functions of each context of a report, innermost first, with boundaries in brackets.
fn contexts(program: &Path, report: &str) -> Vec<Vec<String>> {
    decode(program, report)
        .lines()
        .map(|line| functions(&serde_json::from_str(line).expect("JSON")))
        .collect()
}

fn line<'r>(report: &'r str, key: &str) -> &'r str {
    report.lines().find_map(|l| l.strip_prefix(key)).unwrap_or_else(|| panic!("no {key} in\n{report}"))
}

#[test]
fn a_silent_recursion_of_any_depth_leads_to_what_began_it() {
    let folder = work_folder("crash/sink");
    for (name, flags) in [
        ("lto", &["-O2", "--pcce-mode=lto"][..]),
        ("module", &["-O2", "--pcce-mode=module"]),
        ("hybrid", &["-O2", "--pcce-mode=lto", "--pcce-hybrid"]),
        ("O0", &["-O0", "--pcce-mode=lto"]),
    ] {
        let program = build(&folder, name, flags);
        let around = ["fault".to_owned(), "main".to_owned()];
        for (depth, known) in [(20, 21), (60, 32), (60_000, 32), (1_000_000, 32)] {
            let mut expected = vec!["sink".to_owned(); known];
            expected.extend((depth as usize >= known).then(|| "<unknown>".to_owned()));
            expected.extend(around.clone());
            let way = format!("sink{depth}");
            let line = format!("ulimit -c 0; ulimit -s unlimited; exec {} {way}", program.display());
            let reported = run(command("sh", &["-c", &line]).env("INSTALL", "1"));
            let found = &contexts(&program, &reported.stderr)[0];
            assert_eq!(found[..expected.len()], expected, "{name} {way}");
        }
    }
    // The core file, and a profile, give the same.
    let program = build(&folder, "program", &["-O2"]);
    let core = folder.join("core");
    let line = format!("ulimit -s unlimited; exec {} sink100000", program.display());
    let gdb =
        ["-batch", "-ex", "run", "-ex", &format!("gcore {}", core.display()), "--args", "sh", "-c", &line];
    run(&mut command("gdb", &gdb)).expect_success();
    let found = run(&mut command(
        artifact("pcce"),
        &["core", &program.display().to_string(), &core.display().to_string()],
    ))
    .expect_success();
    let lines: Vec<&str> = found.stdout.lines().filter(|line| line.starts_with('#')).collect();
    assert!(lines[31].contains("sink") && lines[32].contains("<unknown calls>"), "{}", found.stdout);
    assert!(lines[33].contains("fault") && lines[34].contains("main"), "{}", found.stdout);
}

#[test]
fn calls_that_are_left_out_are_said_where_the_recursion_begins_the_stack() {
    let folder = work_folder("crash/first");
    let source = repository().join("testsuite/crash/first.c").display().to_string();
    for (name, flags) in [
        ("link", &["-O2"][..]),
        ("lto", &["-O1", "--pcce-mode=lto"]),
        ("module", &["-O0", "--pcce-mode=module"]),
    ] {
        let program = folder.join(name);
        let own =
            ["-g", "-pthread", "-fno-optimize-sibling-calls", &source, "-o", &program.display().to_string()];
        run(&mut command(artifact("pcce-clang"), &[flags, &own].concat())).expect_success();
        for (way, function) in [("thread", "walk"), ("exit", "ending")] {
            for depth in [5, 31, 32, 200] {
                let report = folder.join("report");
                let reported = report.display().to_string();
                let _ = fs::remove_file(&report);
                crash(&program, &[way, &depth.to_string()], &[("PCCE_CRASH_REPORT", &reported)]);
                let found = &contexts(&program, &fs::read_to_string(&report).expect("a report"))[0];
                let calls = found.iter().take_while(|frame| *frame == function).count();
                let rest = &found[calls..];
                let is_whole = calls == depth + 1 && !rest.contains(&"<unknown>".to_owned());
                let is_said = rest.first().is_some_and(|frame| frame == "<unknown>");
                assert!(if depth < 32 { is_whole } else { is_said }, "{name} {way} {depth}: {found:?}");
                if way == "thread" {
                    assert_eq!(rest.last().map(String::as_str), Some("main"), "{name} {depth}: {rest:?}");
                }
            }
        }
    }
}

const WAYS: [(&str, &str, &[&str]); 10] = [
    ("null", "SIGSEGV (11), code 1 (SEGV_MAPERR)", &["fault", "main"]),
    ("abort", "SIGABRT (6), code -6 (SI_TKILL)", &["<uninstrumented>", "fault", "main"]),
    ("overflow", "SIGSEGV (11), code 1 (SEGV_MAPERR)", &["deep", "deep", "deep"]),
    ("divide", "SIGFPE (8), code 1 (FPE_INTDIV)", &["fault", "main"]),
    ("illegal", "SIGILL (4), code 2 (ILL_ILLOPN)", &["fault", "main"]),
    ("jump", "SIGSEGV (11), code 1 (SEGV_MAPERR)", &["<uninstrumented>", "fault", "main"]),
    ("wild", "SIGSEGV (11), code 128 (SI_KERNEL)", &["fault", "main"]),
    ("callback", "SIGSEGV (11), code 1 (SEGV_MAPERR)", &["by_fault", "<uninstrumented>", "fault", "main"]),
    // The internal functions of libc differ.
    ("heap", "SIG", &["<uninstrumented>", "fault", "main"]),
    ("sent", "SIGSEGV (11), code 0 (SI_USER)", &["<uninstrumented>", "fault", "main"]),
];

#[test]
fn a_program_reports_and_dies_as_without_the_handler() {
    let folder = work_folder("crash/ways");
    for (name, flags) in [
        ("lto", &["-O2", "--pcce-mode=lto"][..]),
        ("module", &["-O2", "--pcce-mode=module"]),
        ("O0", &["-O0", "--pcce-mode=lto"]),
        ("static", &["-O2", "-static"]),
    ] {
        let program = build(&folder, name, flags);
        for (way, signal, chain) in WAYS {
            let plain = crash(&program, &[way], &[]);
            let reported = crash(&program, &[way], &[("INSTALL", "1")]);
            assert_eq!(reported.status, plain.status, "{name} {way}: {}", reported.stderr);
            assert!(
                plain.status > 128 && !plain.stderr.contains("pcce"),
                "{name} {way}: {}",
                plain.describe()
            );
            let report = &reported.stderr;
            assert!(line(report, "signal: ").starts_with(signal), "{name} {way}: {report}");
            assert_eq!(line(report, "end: "), "complete", "{name} {way}");
            let found = &contexts(&program, report)[0];
            assert_eq!(found[..chain.len()], *chain, "{name} {way}: {found:?}");
            assert_eq!(found.last().map(String::as_str), Some("main"), "{name} {way}");
        }
        // The program's own handlers run after the report.
        let own = crash(&program, &["own"], &[("INSTALL", "1")]);
        assert_eq!((own.status, &*own.stdout), (7, "own handler\n"), "{name}");
        assert_eq!(contexts(&program, &own.stderr), [["main"]]);
        let recovered = crash(&program, &["recover"], &[("INSTALL", "1")]);
        assert_eq!((recovered.status, &*recovered.stdout), (5, "own handler\nrecovered\n"), "{name}");
    }
}

#[test]
fn equal_crashes_are_counted() {
    let folder = work_folder("crash/equal");
    let builds =
        [build(&folder, "optimised", &["-O2"]), build(&folder, "plain", &["-O0", "--pcce-mode=module"])];
    let mut all = Vec::new();
    for (build, way) in
        [(0, "null"), (1, "null"), (0, "null"), (0, "overflow"), (1, "overflow"), (1, "callback")]
    {
        let report = crash(&builds[build], &[way], &[("INSTALL", "1")]).stderr;
        assert_eq!(line(&report, "end: "), "complete", "{way}");
        all.push(report);
    }
    // Several reports are in one file, with other lines between them.
    let files = ["one.txt", "others.txt"].map(|name| folder.join(name).display().to_string());
    fs::write(&files[0], &all[0]).expect("room on the disk");
    fs::write(&files[1], all[1..].join("Segmentation fault\n")).expect("room on the disk");
    let group = |more: &[&str]| {
        let folder = folder.display().to_string();
        let fixed = ["crash", "group", "--dicts", &folder, &files[0], &files[1]];
        run(&mut command(artifact("pcce"), &[&fixed, more].concat())).expect_success().stdout
    };
    let document: Value = serde_json::from_str(&group(&["--format", "json"])).expect("JSON");
    assert_eq!(document["reports"], 6);
    let crashes = document["crashes"].as_array().expect("a list");
    let shape = |crash: &Value| {
        let len = |name: &str| crash[name].as_array().expect("a list").len();
        (crash["count"].as_u64().expect("a number"), len("builds"), len("reports"))
    };
    assert_eq!(
        crashes.iter().map(shape).collect::<Vec<_>>(),
        [(3, 2, 2), (2, 2, 1), (1, 1, 1)],
        "{document}"
    );
    let text = group(&[]);
    assert!(text.starts_with("6 reports, 3 crashes\n\n3 times, 2 builds: SIGSEGV "), "{text}");
    assert!(text.contains("\n    #0  fault at ") && text.contains("1 time, 1 build: SIGSEGV "), "{text}");
    // With the innermost call only.
    assert!(group(&["--frames", "1"]).starts_with("6 reports, 3 crashes\n"), "{text}");
    let source = repository().join("testsuite/crash/crash.c").display().to_string();
    let nothing = run(&mut command(artifact("pcce"), &["crash", "group", &source]));
    assert!(nothing.status == 2 && nothing.stderr.contains("has no crash report"), "{}", nothing.describe());
}

#[test]
fn a_report_that_crashes_ends_and_the_program_dies_of_the_first_crash() {
    let folder = work_folder("crash/again");
    for (name, flags) in [("lto", &["-O2"][..]), ("O0", &["-O0", "--pcce-mode=module"])] {
        let program = build(&folder, name, flags);
        for (way, signal) in [("again", libc::SIGSEGV), ("again-abort", libc::SIGABRT)] {
            let plain = crash(&program, &[way], &[]);
            let reported = crash(&program, &[way], &[("INSTALL", "1")]);
            assert_eq!((plain.status, reported.status), (128 + signal, 128 + signal), "{name} {way}");
            let last = reported.stderr.lines().last().unwrap_or_default();
            let text = "incomplete: the report ends here, since it crashed itself: SIGSEGV (11)";
            assert!(last.starts_with(text), "{name} {way}: {}", reported.stderr);
            // The written part can be read.
            let mut pcce = command(artifact("pcce"), &["decode"]);
            let decoded = run_with_input(pcce.arg(&program), &reported.stderr).expect_success().stdout;
            assert!(decoded.contains("signal: ") && decoded.contains(text), "{name} {way}: {decoded}");
        }
    }
}

#[test]
fn reports_need_no_change_of_the_source() {
    let folder = work_folder("crash/asked");
    let path = folder.join("asked").display().to_string();
    let flag = format!("--pcce-crash-report={path}");
    for (name, flags, environment, to_file) in [
        ("flag", &["-O2", "--pcce-crash-report"][..], None, false),
        ("flag-module", &["-O2", "--pcce-mode=module", "--pcce-crash-report"], None, false),
        ("flag-static", &["-O2", "-static", "--pcce-crash-report"], None, false),
        ("path", &["-O2", &flag], None, true),
        ("variable", &["-O2"], Some(&*path), true),
        ("variable-static", &["-O2", "-static-pie", "-fPIE"], Some(&*path), true),
        ("variable-stderr", &["-O2", &flag], Some("stderr"), false),
    ] {
        let program = build(&folder, name, flags);
        let _ = fs::remove_file(&path);
        let environment: Vec<_> = environment.map(|value| ("PCCE_CRASH_REPORT", value)).into_iter().collect();
        let output = crash(&program, &["null"], &environment);
        assert_eq!(output.status, 128 + 11, "{name}");
        let told = output.stderr.ends_with(&format!("pcce: the crash report is in {path}\n"));
        assert_eq!(told, to_file, "{name}: {}", output.stderr);
        let report = if to_file { fs::read_to_string(&path).expect("a report") } else { output.stderr };
        assert_eq!(contexts(&program, &report), [["fault", "main"]], "{name}");
    }
    // An empty variable asks for none.
    let program = build(&folder, "none", &["-O2", "--pcce-crash-report"]);
    let output = crash(&program, &["null"], &[("PCCE_CRASH_REPORT", "")]);
    assert_eq!((output.status, output.stderr.contains("pcce-crash-report")), (128 + 11, false));
}

#[test]
fn all_threads_are_in_the_report() {
    let folder = work_folder("crash/threads");
    let program = build(&folder, "threads", &["-O2"]);
    let creation = ["<thread>", "main"];
    let with = |chain: &[&str]| -> Vec<String> {
        chain.iter().chain(&creation).map(|name| (*name).to_owned()).collect()
    };
    for (way, threads) in
        [("null", "all"), ("overflow", "all"), ("abort", "deaf"), ("null", "two"), ("jump", "two")]
    {
        let output = crash(&program, &[way, threads], &[("INSTALL", "1")]);
        let plain = crash(&program, &[way, threads], &[]);
        assert_eq!(output.status, plain.status, "{way} {threads}: {}", output.stderr);
        let report = &output.stderr;
        assert_eq!(line(report, "end: "), "complete");
        assert_eq!(report.matches("\nthread: ").count(), 5, "{report}");
        let unanswered = usize::from(threads == "deaf");
        assert_eq!(report.matches("context: no answer").count(), unanswered, "{report}");
        // The other thread may not have come so far.
        let also = report.matches("\nalso-crashed: SIG").count();
        assert!(also <= usize::from(threads == "two"), "{report}");
        let mut found = contexts(&program, report);
        let crashed = found.remove(0);
        let crasher =
            crashed.iter().rposition(|f| f == "crasher").expect("the thread that crashed is the first");
        assert_eq!(crashed[crasher..], with(&["crasher"]), "{way} {threads}: {crashed:?}");
        assert!(crashed.iter().any(|f| f == if way == "overflow" { "deep" } else { "fault" }), "{crashed:?}");
        // In `pause`, or still at the barrier.
        let quiet = [with(&["<uninstrumented>", "sleeper", "quiet"]), with(&["<uninstrumented>", "quiet"])];
        let count = found.iter().filter(|f| quiet.contains(f)).count();
        assert_eq!(count, if threads == "all" { 3 } else { 2 }, "{found:?}");
        assert!(found.contains(&vec!["<uninstrumented>".to_owned(), "main".to_owned()]), "{found:?}");
    }
}

#[test]
fn threads_that_run_tasks_tell_who_submitted_them() {
    let folder = work_folder("crash/tasks");
    for (name, flags) in [("lto", &["-O2"][..]), ("O0", &["-O0", "--pcce-mode=module"])] {
        let program = build(&folder, name, flags);
        let ends_with = |context: &[String], start: &str| {
            let end = ["<uninstrumented>", start, "<task>", "submit", "main"];
            context.len() > end.len() && context[context.len() - end.len()..] == end
        };
        for way in ["null", "overflow", "abort"] {
            let output = crash(&program, &[way, "tasks"], &[("INSTALL", "1")]);
            let found = contexts(&program, &output.stderr);
            assert_eq!(found.len(), 5, "{name} {way}: {}", output.stderr);
            assert!(ends_with(&found[0], "crasher_in_task"), "{name} {way}: {:?}", found[0]);
            let quiet = found.iter().filter(|context| ends_with(context, "quiet_in_task")).count();
            assert_eq!(quiet, 3, "{name} {way}: {found:?}");
            let report = folder.join("report.txt");
            fs::write(&report, &output.stderr).expect("room on the disk");
            let show = [Path::new("crash"), "show".as_ref(), "--program".as_ref(), &program, &report];
            let show = |more: &[&str]| {
                run(command(artifact("pcce"), &[]).args(show).args(more)).expect_success().stdout
            };
            let document: Value = serde_json::from_str(&show(&["--format", "json"])).expect("JSON");
            let names = ["null", "overflow"].map(|name| if name == way { "SIGSEGV" } else { "SIGABRT" });
            assert!(names.contains(&document["signal"]["name"].as_str().unwrap_or_default()), "{document}");
            assert_eq!(document["signal"]["address"].is_u64(), way != "abort", "{document}");
            assert_eq!(document["fingerprint"].as_str().map(str::len), Some(16), "{document}");
            assert!(
                document["complete"] == true && document["missing"] == Value::Array(vec![]),
                "{document}"
            );
            let threads = document["threads"].as_array().expect("threads");
            assert_eq!(threads.iter().map(functions).collect::<Vec<_>>(), found);
            assert_eq!(threads[0]["name"], name, "{document}");
            let text = show(&[]);
            assert_eq!(text.matches("<task submitted here>").count(), 4, "{text}");
        }
        let core = folder.join(format!("{name}.core"));
        core_while_asleep(&program, "tasks", &core);
        let output = run(command(artifact("pcce"), &["core", "--format", "json"]).arg(&program).arg(core));
        let text = output.expect_success().stdout;
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let threads = report["threads"].as_array().expect("threads");
        let quiet = threads.iter().filter(|t| ends_with(&functions(t), "quiet_in_task")).count();
        assert_eq!(quiet, 3, "{text}");
    }
}

/// Makes a core file of the program, whose threads have gone to sleep.
fn core_while_asleep(program: &Path, threads: &str, core: &Path) {
    let mut child =
        command(program, &["none", threads]).stdout(Stdio::null()).spawn().expect("the program starts");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let made = core_of(child.id(), core);
    let _ = child.kill();
    let _ = child.wait();
    made.expect("gdb makes a core file");
}

#[test]
fn core_files_of_threads() {
    let folder = work_folder("crash/core");
    let program = build(&folder, "program", &["-O2"]);
    let core = folder.join("core");
    core_while_asleep(&program, "all", &core);
    let (agreed, wrong) = compare_core(&program, &core, &folder).expect("both read it");
    assert!(wrong.is_empty() && agreed >= 3, "{agreed} threads\n{}", wrong.join("\n"));
    let text = |arguments: &[&str]| {
        let output = run(&mut command(artifact("pcce"), &[&["core"], arguments].concat())).expect_success();
        let behind = output.stdout.find("build-id").expect("a report");
        output.stdout[behind..].to_owned()
    };
    let path = |name: &str| folder.join(name).display().to_string();
    let whole = text(&[&path("program"), &path("core")]);
    assert!(whole.contains("sleeper at ") && whole.contains("<thread created here>"), "{whole}");
    // The program is stripped: its debug file is given, found by its name, or replaced by the dictionary.
    let objcopy = |arguments: &[&str]| {
        run(&mut command("objcopy", arguments)).expect_success();
    };
    objcopy(&["--only-keep-debug", &path("program"), &path("program.debug")]);
    objcopy(&["--strip-all", &path("program"), &path("stripped")]);
    let link = format!("--add-gnu-debuglink={}", path("program.debug"));
    objcopy(&[&link, &path("stripped"), &path("linked")]);
    run(&mut command(artifact("pcce"), &["dict", &path("program"), "-o", &path("dict.json")]))
        .expect_success();
    assert_eq!(text(&["--debug-file", &path("program.debug"), &path("stripped"), &path("core")]), whole);
    assert_eq!(text(&[&path("linked"), &path("core")]), whole);
    assert_eq!(text(&["--debug-file", &path("dict.json"), &path("stripped"), &path("core")]), whole);
    // Files that do not belong together are refused, and so is a program of another version.
    let mut older = fs::read(path("program")).expect("a program");
    let (version, before) = (b"__pcce_abi_v9", b"__pcce_abi_v8");
    for at in 0..older.len() - version.len() {
        if older[at..].starts_with(version) {
            older[at..at + version.len()].copy_from_slice(before);
        }
    }
    fs::write(path("older"), older).expect("room on the disk");
    let other = build(&folder, "other", &["-O1"]).display().to_string();
    for (arguments, message) in [
        (vec![path("stripped"), path("core")], "no dictionary"),
        (vec![other.clone(), path("core")], "another build"),
        (vec![path("core"), path("program")], "not a core file"),
        (vec![path("older"), path("core")], "another version of PCCE (__pcce_abi_v8"),
        (vec!["--debug-file".into(), other, path("stripped"), path("core")], "build id"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = run(&mut command(artifact("pcce"), &[&["core"], &arguments[..]].concat()));
        assert!(output.status == 2 && output.stderr.contains(message), "{}", output.describe());
    }
}

/// A small run of `make torture`.
#[test]
fn killed_at_random_instructions() -> anyhow::Result<()> {
    if fs::read_to_string("/proc/sys/kernel/core_pattern")?.contains(['|', '/']) {
        eprintln!("not run: core files do not stay with the program here");
        return Ok(());
    }
    let victim = Victim::build("lua", "lto")?;
    let outcome = victim.torture(100, 1, |_| ())?;
    // Core files and sources would fill the disk.
    drop(victim);
    let left = fs::read_dir(target().join("torture/lua"))?.flatten().map(|entry| entry.file_name());
    let kept = ["executables", "built", "wrong.txt"];
    let left: Vec<_> = left.filter(|name| !kept.iter().any(|kept| name == *kept)).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(outcome.wrong.is_empty(), "{}", outcome.wrong.join("\n"));
    assert!(outcome.points == 100 && outcome.calls > 500 && outcome.cores > 0, "{outcome:?}");
    Ok(())
}

/// A function that has left its activation to the C library by a jump is named where it was called by its name. Where
/// it was called through a pointer, or in module mode, a boundary stands for it.
#[test]
fn functions_that_jump_to_the_c_library_are_no_silent_loss() {
    let folder = work_folder("crash/jumps_away");
    let source = repository().join("testsuite/crash/jumps_away.c");
    for (mode, by_name) in
        [("link", "<length, left by a tail call>"), ("lto", "<length, left by a tail call>"), ("module", "")]
    {
        let program = folder.join(mode);
        let mode = format!("--pcce-mode={mode}");
        let mut clang =
            command(artifact("pcce-clang"), &["-g", "-O2", "-fno-builtin", "--pcce-crash-report", &mode]);
        run(clang.arg(&source).arg("-o").arg(&program)).expect_success();
        let unnamed = "<calls left by a tail call, if any>";
        for (arguments, caller, boundary) in [
            (&[][..], "by_name", if by_name.is_empty() { unnamed } else { by_name }),
            (&["more"], "by_pointer", unnamed),
        ] {
            let report = crash(&program, arguments, &[]).stderr;
            let mut pcce = command(artifact("pcce"), &["decode", "--format", "folded"]);
            let found = run_with_input(pcce.arg(&program), &report).expect_success().stdout;
            assert!(found.starts_with(&format!("main;{caller};{boundary};<")), "{mode} {caller}: {found}");
        }
    }
}

/// A separate debug file has no machine code, and says so.
#[test]
fn debug_files_are_no_programs() {
    let folder = work_folder("crash/debug_file");
    let source = repository().join("testsuite/crash/scopes.cpp");
    let program = folder.join("program");
    let clang = command(artifact("pcce-clang++"), &["-O2", "-g", "--pcce-crash-report"]);
    run({ clang }.arg(&source).arg("-o").arg(&program)).expect_success();
    let report = crash(&program, &[], &[]).stderr;
    let debug = folder.join("program.debug");
    run(command("objcopy", &["--only-keep-debug"]).arg(&program).arg(&debug)).expect_success();
    let decoded = run_with_input(command(artifact("pcce"), &["decode"]).arg(&debug), &report);
    let why = "it is a separate debug file, without machine code";
    assert!(decoded.status == 2 && decoded.stderr.contains(why), "{}", decoded.describe());
    let json = folder.join("program.json");
    let written = run(command(artifact("pcce"), &["dict"]).arg(&debug).arg("-o").arg(&json)).expect_success();
    assert!(written.stderr.contains(why), "{}", written.describe());
}

/// With lines alone, a function that was also inlined elsewhere has its scope.
#[test]
fn functions_have_their_scopes_without_their_types() {
    let folder = work_folder("crash/scopes");
    let source = repository().join("testsuite/crash/scopes.cpp");
    let program = folder.join("program");
    let words = ["-O2", "-gline-tables-only", "--pcce-crash-report"];
    run(command(artifact("pcce-clang++"), &words).arg(&source).arg("-o").arg(&program)).expect_success();
    for (arguments, scope) in [(&[][..], "A"), (&["more"], "B")] {
        let report = crash(&program, arguments, &[]).stderr;
        let found = contexts(&program, &report).concat();
        assert_eq!(found, ["hit", &format!("{scope}::run(int)"), "main"], "{report}");
    }
}

/// Code with instructions of extensions is followed as all other is. Where an instruction is not known to the decoder
/// (APX), the callers are unknown, and what is inlined is shown all the same.
#[test]
#[cfg(target_arch = "x86_64")]
fn instructions_of_extensions_are_followed() {
    let folder = work_folder("crash/extensions");
    let source = repository().join("testsuite/crash/extensions.c");
    for (instruction, known) in [
        ("vmovups %zmm1, %zmm2", true),
        ("vpaddd %xmm16, %xmm17, %xmm18{%k1}", true),
        ("vpcmov %ymm1, %ymm2, %ymm3, %ymm4", true),
        ("blci %eax, %ebx", true),
        ("pfadd %mm0, %mm1", true),
        ("addq %r16, %r17", false),
    ] {
        let program = folder.join("program");
        let instruction = format!("-DINSTRUCTION=\"{instruction}\"");
        let mut clang = command(artifact("pcce-clang"), &["-g", "-O2", "--pcce-crash-report", &instruction]);
        run(clang.arg(&source).arg("-o").arg(&program)).expect_success();
        for (arguments, inner) in [(&[][..], ["<uninstrumented>", "die"]), (&["more"], ["check", "middle"])] {
            let report = crash(&program, arguments, &[]).stderr;
            let found = contexts(&program, &report).concat();
            let outer = match (known, inner[1]) {
                (true, "die") => &["middle", "main"][..],
                (true, _) => &["main"],
                (false, _) => &["<unknown>"],
            };
            assert_eq!(found, [&inner, outer].concat(), "{instruction}: {report}");
        }
    }
}

#[test]
fn functions_that_keep_most_registers_are_shown_once() {
    let folder = work_folder("crash/keeps");
    let source = repository().join("testsuite/crash/keeps_registers.c");
    for mode in ["link", "lto", "module"] {
        let program = folder.join(mode);
        let mut clang = command(artifact("pcce-clang"), &["-g", "-O2", "--pcce-crash-report"]);
        run(clang.arg(format!("--pcce-mode={mode}")).arg(&source).arg("-o").arg(&program)).expect_success();
        let report = crash(&program, &[], &[]).stderr;
        let found = contexts(&program, &report).concat();
        assert_eq!(found[found.len() - 3..], ["die", "deeper", "main"], "{mode}: {report}");
        assert!(!found.iter().any(|frame| frame == "<unknown>"), "{mode}: {found:?}");
    }
}

/// Debug information in files of its own, or of lines alone, gives the frames and lines of the ordinary one.
#[test]
fn frames_and_lines_with_other_forms_of_debug_information() {
    let folder = work_folder("crash/debug_information");
    let source = repository().join("testsuite/crash/inlined.c");
    let forms = ["-g", "-g -gsplit-dwarf", "-gdwarf-4 -gsplit-dwarf", "-gline-tables-only"];
    for mode in ["link", "lto", "module"] {
        let reports = forms.map(|form| {
            let name = format!("{mode}{}", form.replace(' ', ""));
            let mode = format!("--pcce-mode={mode}");
            let flags = ["-O1", "-fno-optimize-sibling-calls", "--pcce-crash-report", &mode, "-o", &name];
            let mut clang = command(artifact("pcce-clang"), &flags);
            run(clang.args(form.split(' ')).arg(&source).current_dir(&folder)).expect_success();
            let program = folder.join(&name);
            ["", "more"].map(|argument| {
                let arguments: &[&str] = if argument.is_empty() { &[] } else { &[argument] };
                let report = crash(&program, arguments, &[]).stderr;
                let text = decode(&program, &report);
                let frames: Value = serde_json::from_str(text.lines().next().expect("a token")).unwrap();
                let place = |frame: &Value| format!("{} {}", frame["function"], frame["line"]);
                let frames: Vec<String> = frames["frames"].as_array().unwrap().iter().map(place).collect();
                frames.join(", ")
            })
        });
        let expected = [r#""deref" 2, "outer" 3, "main" 9"#, r#""apart" 4, "main" 8"#];
        for (form, report) in forms.iter().zip(&reports) {
            assert_eq!(report, &expected, "{mode} {form}");
        }
    }
}
