//! Profiles of real programs: of the heap, equal to valgrind's to the byte, and of CPU time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::{artifact, command, llvm, repository, run, work_folder};

const MODES: [&str; 2] = ["lto", "module"];

/// Compiles a program of `profiles/` with the wrapper, or with clang if there is no mode.
fn build(folder: &Path, source: &str, mode: Option<&str>, flags: &[&str]) -> PathBuf {
    let suffix = if source.ends_with(".c") { "" } else { "++" };
    let compiler = match mode {
        Some(_) => artifact(&format!("pcce-clang{suffix}")),
        None => llvm(&format!("clang{suffix}")),
    };
    let program = folder.join(mode.unwrap_or("plain"));
    // Old versions of valgrind cannot read the debug information of a new clang.
    let mut compile = command(compiler, &["-O2", "-pthread", "-Wall", "-Wextra", "-Werror"]);
    compile.args(flags);
    if let Some(mode) = mode {
        compile.args(["-g", &format!("--pcce-mode={mode}")]);
    }
    let source = repository().join("testsuite/profiles").join(source);
    run(compile.arg(source).arg("-o").arg(&program)).expect_success();
    program
}

/// Runs `pcce` with these arguments. Returns its output.
fn pcce(arguments: &[&str], files: &[&Path]) -> String {
    let (view, options) = arguments.split_at(2);
    let mut command = command(artifact("pcce"), view);
    run(command.args(files).args(options)).expect_success().stdout
}

/// The totals of a profile, by name.
fn totals(kind: &str, program: &Path, profile: &Path) -> BTreeMap<String, u64> {
    let report = pcce(&[kind, "report", "--format", "json"], &[program, profile]);
    let heading: serde_json::Value =
        serde_json::from_str(report.lines().next().expect("a heading")).expect("JSON");
    let totals = heading["totals"].as_object().expect("an object");
    totals.iter().map(|(name, value)| (name.clone(), value.as_u64().expect("a number"))).collect()
}

/// ⟨stack, value⟩ of `pcce heap folded`.
fn folded(kind: &str, by: &str, program: &Path, profile: &Path) -> BTreeMap<String, u64> {
    let text = pcce(&[kind, "folded", "--by", by], &[program, profile]);
    let split = |line: &str| {
        let (stack, value) = line.rsplit_once(' ').expect("a value");
        (stack.to_owned(), value.parse().expect("a number"))
    };
    text.lines().map(split).collect()
}

/// Allocations, frees, and allocated bytes as memcheck counts them, and massif's peak.
fn valgrind(program: &Path, arguments: &[&str]) -> [u64; 4] {
    let mut memcheck = command("valgrind", &["--run-libc-freeres=no", "--run-cxx-freeres=no"]);
    let output = run(memcheck.arg(program).args(arguments)).stderr;
    let numbers = |line: &str| -> Vec<u64> {
        let words = line.split(' ').map(|word| word.replace(',', ""));
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let line = output.lines().find_map(|line| line.split_once("total heap usage: "));
    let counts = numbers(line.unwrap_or_else(|| panic!("{output}")).1);
    let out = program.with_extension("massif");
    let file = format!("--massif-out-file={}", out.display());
    // Bytes of blocks alone: by default, massif also counts administrative bytes for each block.
    let mut massif =
        command("valgrind", &["--tool=massif", "--heap-admin=0", "--peak-inaccuracy=0.0", &file]);
    let _ = run(massif.arg(program).args(arguments));
    let text = fs::read_to_string(out).expect("massif writes its file");
    let peak = text.lines().filter_map(|line| line.strip_prefix("mem_heap_B="));
    let peak = peak.map(|number| number.parse().expect("a number")).max().expect("snapshots");
    [counts[0], counts[1], counts[2], peak]
}

/// Runs the program, and returns the numbers as [`valgrind`] does.
fn profiled(program: &Path, arguments: &[&str]) -> ([u64; 4], PathBuf) {
    let profile = program.with_extension("heap");
    let _ = fs::remove_file(&profile);
    let output = run(command(program, arguments).env("PCCE_HEAP_PROFILE", &profile)).expect_success();
    assert_eq!(output.stderr, "", "{}", output.describe());
    let totals = totals("heap", program, &profile);
    let frees = totals["allocations"] - totals["live-blocks"];
    ([totals["allocations"], frees, totals["allocated"], totals["peak"]], profile)
}

#[test]
fn totals_and_peak_are_those_of_valgrind() {
    for source in ["heap.c", "heap.cpp"] {
        let folder = work_folder(&format!("profiles/totals-{source}"));
        let expected = valgrind(&build(&folder, source, None, &[]), &[]);
        for mode in MODES {
            let (found, _) = profiled(&build(&folder, source, Some(mode), &["--pcce-heap"]), &[]);
            assert_eq!(found, expected, "{source}, {mode}: allocations, frees, bytes, peak");
        }
    }
}

#[test]
fn totals_with_threads_are_those_of_valgrind() {
    let folder = work_folder("profiles/threads");
    let expected = valgrind(&build(&folder, "heap.cpp", None, &[]), &["threads"]);
    let program = build(&folder, "heap.cpp", Some("lto"), &["--pcce-heap"]);
    for _ in 0..3 {
        let (found, profile) = profiled(&program, &["threads"]);
        assert_eq!(found[..3], expected[..3], "allocations, frees, bytes");
        // The peak depends on the progress of each thread. The sums of each thread and context do not.
        let by_context = folded("heap", "allocations", &program, &profile);
        let of = |start: &str, name: &str| -> u64 {
            let found =
                by_context.iter().filter(|(stack, _)| stack.starts_with(start) && stack.contains(name));
            found.map(|(_, value)| value).sum()
        };
        let in_main = of("main;", ";fail(int);");
        assert!(in_main > 0, "{by_context:#?}");
        let in_threads: u64 = of("", ";fail(int);") - in_main;
        assert_eq!(in_threads, 4 * in_main, "{by_context:#?}");
    }
}

/// The program's calls of an instrumented library are known, whichever functions allocate.
#[test]
fn contexts_go_through_libraries() {
    let folder = work_folder("profiles/libraries");
    fs::write(
        folder.join("library.c"),
        "#include <stdlib.h>\n__attribute__((noinline)) static void *inner(int n) { return malloc(n); }\n\
         void *outer(int n) { void *p = inner(n); return p ? p : inner(1); }\n",
    )
    .unwrap();
    fs::write(
        folder.join("program.c"),
        "void *outer(int);\nvoid *volatile kept;\n__attribute__((noinline)) static void call(void) { kept = outer(60); kept = 0; }\n\
         int main(void) { call(); return 0; }\n",
    )
    .unwrap();
    for mode in MODES {
        let mode = format!("--pcce-mode={mode}");
        let compile = |words: &[&str]| {
            let own = ["-O1", "-g", "--pcce-heap", &mode];
            run(command(artifact("pcce-clang"), &own).args(words).current_dir(&folder)).expect_success();
        };
        compile(&["-fPIC", "-shared", "library.c", "-o", "liblibrary.so"]);
        compile(&["program.c", "-L.", "-llibrary", "-Wl,-rpath,$ORIGIN", "-o", "program"]);
        let profile = folder.join("profile");
        run(command(folder.join("program"), &[]).env("PCCE_HEAP_PROFILE", &profile)).expect_success();
        let library = folder.join("liblibrary.so").display().to_string();
        let shows = |more: &[&str]| {
            let words = [&["heap", "folded", "--by", "allocated"], more].concat();
            let mut pcce = command(artifact("pcce"), &words);
            let found = run(pcce.arg(folder.join("program")).arg(&profile)).expect_success().stdout;
            assert_eq!(found, "main;call;outer;inner;malloc 60\n", "{mode} {more:?}");
        };
        shows(&["--dict", &library]);
        // The library is where the loader finds it; what was stripped from it is beside it.
        shows(&[]);
        let objcopy = |words: &[&str]| {
            run(command("objcopy", words).current_dir(&folder)).expect_success();
        };
        objcopy(&["--only-keep-debug", "liblibrary.so", "liblibrary.debug"]);
        objcopy(&["--strip-all", "--add-gnu-debuglink=liblibrary.debug", "liblibrary.so"]);
        shows(&[]);
    }
}

/// Of the blocks that are not freed, those have leaked that clang's LeakSanitizer finds in the plain program.
#[test]
fn leaks_are_those_of_another_tool() {
    let folder = work_folder("profiles/leaks");
    let checked = build(&folder, "leaks.cpp", None, &["-g", "-fsanitize=leak"]);
    for mode in ["link", "lto", "module"] {
        let program = build(&folder, "leaks.cpp", Some(mode), &["--pcce-heap"]);
        for (way, status) in [(None, 0), (Some("threads"), 0), (Some("signal"), 128 + 15)] {
            let words: Vec<&str> = way.into_iter().collect();
            // The other tool does not look when a signal ends the program.
            let told =
                run(&mut command(&checked, &words.iter().map(|_| "threads").collect::<Vec<_>>())).stderr;
            let summary = told.lines().find_map(|line| line.strip_prefix("SUMMARY: LeakSanitizer: "));
            let summary = summary.unwrap_or_else(|| panic!("{told}"));
            let numbers: Vec<u64> = summary.split(' ').filter_map(|word| word.parse().ok()).collect();
            let profile = program.with_extension("heap");
            let mut start = command(&program, &words);
            let output = run(start.env("PCCE_HEAP_PROFILE", &profile).env("PCCE_HEAP_LEAKS", "1"));
            assert_eq!((output.status, &*output.stderr), (status, ""), "{mode} {way:?}");
            let found = totals("heap", &program, &profile);
            assert_eq!([found["leaked"], found["leaked-blocks"]], numbers[..], "{mode} {way:?}");
            let by_context = folded("heap", "leaked-blocks", &program, &profile);
            let of = |start: &str| -> u64 {
                let found = by_context.iter().filter(|(stack, _)| stack.starts_with(start));
                found.map(|(_, value)| value).sum()
            };
            let expected = [of("main;lose(int);"), of("main;circle();"), of("main;forget();")];
            assert_eq!(expected, [80, 4, 1], "{by_context:?}");
            assert_eq!(of("") - of("main;"), if way.is_some() { 6 } else { 0 }, "{by_context:?}");
            let live = folded("heap", "live", &program, &profile);
            assert_eq!(live.get("<pool of libstdc++ for exceptions>"), Some(&72_704), "{live:?}");
        }
    }
}

#[test]
fn every_context_is_known() {
    for mode in MODES {
        let folder = work_folder(&format!("profiles/contexts-{mode}"));
        let program = build(&folder, "heap.c", Some(mode), &["--pcce-heap"]);
        let (_, profile) = profiled(&program, &[]);
        let expected: BTreeMap<String, u64> = [
            ("main;leaf;malloc", 1000),
            ("main;grow;realloc", 50 * 51 / 2 * 100),
            ("main;copy;strdup", 13),
            ("main;descend;descend;descend;descend;leaf;malloc", 11),
            ("main;jumping;jump;leaf;malloc", 21),
            ("main;jumping;leaf;malloc", 22),
            ("main;interrupted;leaf;malloc", 32),
            ("main;all_forms;calloc", 21),
            ("main;all_forms;reallocarray", 27),
            ("main;all_forms;memalign", 100),
            ("main;all_forms;aligned_alloc", 128),
            ("main;all_forms;valloc", 50),
            ("main;all_forms;aligned;posix_memalign", 5000),
            ("main;all_forms;realloc", 6000),
        ]
        .map(|(stack, bytes)| (stack.to_owned(), bytes))
        .into();
        let mut found = folded("heap", "allocated", &program, &profile);
        // The number of comparisons is up to qsort.
        let sorted = found.remove("main;sort;qsort;compare;leaf;malloc");
        assert!(sorted.is_some_and(|bytes| bytes >= 10 && bytes % 5 == 0), "{mode}: {found:#?}");
        let handled: Vec<_> = found
            .extract_if(.., |stack, _| stack.ends_with(";<signal handler called>;handler;leaf;malloc"))
            .collect();
        assert_eq!(handled.len(), 1, "{mode}: {found:#?}");
        let (stack, bytes) = &handled[0];
        assert!(stack.starts_with("main;interrupted;raise") && *bytes == 31, "{mode}: {stack} {bytes}");
        assert_eq!(found, expected, "{mode}");
        let live = folded("heap", "live", &program, &profile);
        assert_eq!(
            live,
            [("main;copy;strdup".into(), 13), ("main;leaf;malloc".into(), 1000)].into(),
            "{mode}"
        );
    }
}

#[test]
fn children_signals_and_sudden_ends() {
    let folder = work_folder("profiles/processes");
    let program = build(&folder, "heap.c", Some("lto"), &["--pcce-heap"]);
    let leaf = |profile: &Path| folded("heap", "live", &program, profile).remove("main;leaf;malloc");

    // With a file name for each process, the child writes what it inherited and allocated.
    let output = run(command(&program, &["fork"])
        .env("PCCE_HEAP_PROFILE", folder.join("each.%p"))
        .env("PCCE_HEAP_SIGNAL", "10"));
    assert_eq!(output.status, 3, "{}", output.describe());
    let mut written: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("our folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("each.")))
        .collect();
    written.sort_by_key(|path| leaf(path));
    let found: Vec<_> = written.iter().map(|path| leaf(path)).collect();
    // At the signal, at the child's end, and at the parent's end.
    assert_eq!(found, [Some(1000), Some(1077), Some(3000)], "{written:?}");
    assert!(written[0].to_string_lossy().ends_with(".1"), "{written:?}");

    // With one file name, the child does not damage the parent's profile.
    let profile = folder.join("one");
    let _ =
        run(command(&program, &["fork"]).env("PCCE_HEAP_PROFILE", &profile).env("PCCE_HEAP_SIGNAL", "10"));
    assert_eq!(leaf(&profile), Some(3000));
    assert_eq!(leaf(&folder.join("one.1")), Some(1000));
}

#[test]
fn a_static_program_is_refused() {
    let source = repository().join("testsuite/profiles/heap.c");
    let output = run(command(artifact("pcce-clang"), &["--pcce-heap", "-static"]).arg(source));
    assert_eq!(output.status, 1);
    assert!(output.stderr.contains("leave out `-static`"), "{}", output.stderr);
}

#[test]
fn cpu_time_is_found_where_it_is_spent() {
    for mode in MODES {
        let folder = work_folder(&format!("profiles/cpu-{mode}"));
        let program = build(&folder, "cpu.c", Some(mode), &[]);
        let profile = folder.join("cpu.profile");
        let output =
            run(command(&program, &[]).env("PCCE_SAMPLE", "997").env("PCCE_SAMPLE_PROFILE", &profile))
                .expect_success();
        assert_eq!((&*output.stdout, &*output.stderr), ("end\n", ""));
        let found = folded("cpu", "time", &program, &profile);
        let of = |stack: &str| found.get(stack).copied().unwrap_or(0);
        let (little, much, thread) = (of("main;little;spin"), of("main;much;spin"), of("thread;spin"));
        // Four times as long; the kernel decides how it shares ticks among threads that run at the same time.
        assert!(little > 0 && much > little && thread > 0, "{mode}: {found:#?}");
        assert!(of("main;sort;qsort") > 0 && of("main;sort;qsort;compare") > 0, "{mode}: {found:#?}");
        let known = ["main;", "thread;"];
        let foreign: u64 =
            found.iter().filter(|(s, _)| !known.iter().any(|k| s.starts_with(k))).map(|(_, v)| v).sum();
        let total = totals("cpu", &program, &profile)["time"];
        assert!(foreign < total / 20, "{mode}: {found:#?}");
        // Without the variable nothing is written, and a child's environment cannot damage the profile.
        fs::remove_file(&profile).expect("it was written");
        let output = run(command(&program, &[]).env("PCCE_SAMPLE_PROFILE", &profile)).expect_success();
        assert_eq!((&*output.stderr, profile.exists()), ("", false));
    }
}

/// The profile's handler may run on another stack than the code that it interrupts.
#[test]
fn functions_that_have_left_are_in_profiles_of_threads_with_an_alternate_stack() {
    let folder = work_folder("profiles/alternate");
    let source = repository().join("testsuite/profiles/alternate.c");
    let plain = folder.join("plain.o");
    let mut compile = command(llvm("clang"), &["-O2", "-DPLAIN", "-c"]);
    run(compile.arg(&source).arg("-o").arg(&plain)).expect_success();
    for mode in ["link", "lto", "module"] {
        let program = build(&folder, "alternate.c", Some(mode), &[&plain.display().to_string()]);
        for argument in [None, Some("alternate")] {
            let profile = folder.join(format!("{mode}.profile"));
            let mut sampled = command(&program, &[]);
            sampled.args(argument).env("PCCE_SAMPLE", "997").env("PCCE_SAMPLE_PROFILE", &profile);
            run(&mut sampled).expect_success();
            let found = folded("cpu", "samples", &program, &profile);
            let spinning: Vec<&String> = found.keys().filter(|stack| stack.ends_with(";spin")).collect();
            assert_eq!(spinning, ["main;calls;leaves;spin"], "{mode} {argument:?}: {found:?}");
        }
    }
}

#[test]
fn a_wrong_rate_is_named() {
    let folder = work_folder("profiles/rate");
    let program = build(&folder, "cpu.c", Some("module"), &[]);
    let output = run(command(&program, &[]).env("PCCE_SAMPLE", "fast").current_dir(&folder)).expect_success();
    assert!(output.stderr.starts_with("pcce: PCCE_SAMPLE is no number"), "{}", output.stderr);
}

/// Servers are stopped by a signal.
#[test]
fn what_a_signal_ends_has_its_profiles() {
    const TERM: i32 = 128 + 15;
    let folder = work_folder("profiles/ended");
    let file = folder.join("file");
    for (kind, variable, flags) in [
        ("cpu", "PCCE_SAMPLE", &[][..]),
        ("heap", "PCCE_HEAP", &["--pcce-heap"]),
        ("calls", "PCCE_CALLS", &["--pcce-profile-generate"]),
    ] {
        let program = build(&folder, "ended.c", Some("lto"), flags);
        let number = |suffix: &str| folder.join(format!("file{suffix}"));
        let whole = |suffix: &str| -> String {
            let text = fs::read_to_string(number(suffix)).unwrap_or_default();
            assert!(kind == "calls" || text.contains("{\"end\":true,"), "{kind}{suffix}: {text}");
            let has = match kind {
                "cpu" => {
                    folded("cpu", "samples", &program, &number(suffix)).keys().any(|s| s == "main;serve;spin")
                }
                "heap" => folded("heap", "live", &program, &number(suffix))["main;serve;malloc"] >= 1234,
                _ => text.contains("{\"function\":\"main\",\"count\":1,"),
            };
            assert!(has, "{kind}{suffix}: {text}");
            text
        };
        for (how, status, printed) in [
            ("sees", TERM, "0\n"),
            ("hup", 128 + 1, ""),
            ("pipe", 128 + 13, ""),
            ("cleans", TERM, "cleans\n"),
            ("thread", 128 + 2, ""),
            ("child", 0, ""),
            ("exit", 5, ""),
        ] {
            let _ = fs::remove_file(&file);
            // A shell that starts the tests in the background makes them ignore some signals.
            let mut ended = command("env", &["--default-signal=HUP,INT,TERM"]);
            ended
                .arg(&program)
                .arg(how)
                .current_dir(&folder)
                .env("PCCE_SAMPLE", "997")
                .env(format!("{variable}_PROFILE"), &file);
            let output = run(&mut ended);
            let found = (output.status, &*output.stdout, &*output.stderr);
            assert_eq!(found, (status, printed, ""), "{kind} {how}");
            // A child counts its own calls.
            assert!(whole("").matches("\"profile\"").count() == 1 || kind == "calls", "{kind} {how}");
        }
        let line = "trap '' HUP; exec \"$@\"";
        let mut ignores = command("sh", &["-c", line, "sh", &program.display().to_string(), "ignores"]);
        ignores.current_dir(&folder).env("PCCE_SAMPLE", "997").env(format!("{variable}_PROFILE"), &file);
        assert_eq!(run(&mut ignores).status, 6, "{kind}");
        if kind == "calls" {
            continue;
        }
        let mut twice = command(&program, &["twice"]);
        twice.current_dir(&folder).env("PCCE_SAMPLE", "997").env(format!("{variable}_PROFILE"), &file);
        assert_eq!(run(twice.env(format!("{variable}_SIGNAL"), "12")).status, TERM);
        let all = [".1", ".2", ""].map(whole);
        assert!(all[0] != all[1], "it goes on: {}", all[0]);
        let output = run(command(&program, &["exit"])
            .current_dir(&folder)
            .env("PCCE_SAMPLE", "997")
            .env(format!("{variable}_PROFILE"), &file)
            .env(format!("{variable}_SIGNAL"), "9"));
        let message = format!("pcce: {variable}_SIGNAL is not the number of a signal that can be caught\n");
        assert_eq!((output.status, output.stderr), (5, message));
    }
}
