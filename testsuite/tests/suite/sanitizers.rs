//! Programs with sanitizers, profiles and other instrumentation of clang: the contexts are those of the program without
//! it, in both modes, and verify mode compares every entry. The guide's page on sanitizers says what works.

use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::chain::decode;
use pcce_testsuite::runner::ordinary_lines;
use pcce_testsuite::{
    Output, artifact, command, folded, include, llvm, repository, run, run_with_input, source, work_folder,
    write_files,
};
use serde_json::Value;

const BOTH: &[&str] = &["lto", "module"];

/// The names in the output and their contexts. Consecutive functions that are not instrumented are one, since some
/// sanitizers put functions in front of libc's.
const CHAINS: [(&str, &str); 9] = [
    ("recursive", "show recursive recursive recursive recursive recursive recursive main"),
    ("callback", "show compare <> main"),
    ("caught", "show catcher main"),
    ("signal", "show on_signal <signal> <> raising main"),
    ("action", "show on_action <signal> <> raising main"),
    ("recursive", "show recursive recursive recursive in_thread"),
    ("thread", "show in_thread"),
    ("parallel", "show main.omp_outlined_debug__ main.omp_outlined <> main"),
    ("end", "show main"),
];

fn source() -> PathBuf {
    repository().join("testsuite/sanitizers/program.cpp")
}

fn compile(program: &Path, source: &Path, mode: &str, verify: bool, flags: &[&str]) -> Output {
    let includes = ["testsuite/programs", "runtime-lib/include"]
        .map(|f| format!("-I{}", repository().join(f).display()));
    let mode = format!("--pcce-mode={mode}");
    let mut compile =
        command(artifact("pcce-clang++"), &["-g", "-pthread", &mode, &includes[0], &includes[1]]);
    compile.args(verify.then_some("--pcce-verify"));
    run(compile.args(flags).arg(source).arg("-o").arg(program))
}

/// Builds the program with these flags, runs it, and compares.
fn check(name: &str, modes: &[&str], levels: &[&str], flags: &[&str], environment: &[(&str, &str)]) {
    let work = work_folder(&format!("sanitizers/{name}"));
    // Verify mode includes everything that the other mode does.
    let variants = levels.iter().flat_map(|level| [(level, true), (level, false)]);
    let variants: Vec<_> = variants.filter(|(_, verify)| *verify || levels.len() > 1).collect();
    for (mode, (level, verify)) in
        modes.iter().flat_map(|mode| variants.iter().map(move |variant| (mode, *variant)))
    {
        let program = work.join(format!("{mode}{level}{}", if verify { "-verify" } else { "" }));
        let built = compile(&program, &source(), mode, verify, &[flags, &[level]].concat()).expect_success();
        assert_eq!(built.stderr, "", "{}", built.describe());
        compare(&program, verify, flags, environment);
    }
}

/// Runs the program, and compares its contexts, its output, and its report.
fn compare(program: &Path, verify: bool, flags: &[&str], environment: &[(&str, &str)]) {
    let report = program.with_extension("report");
    let mut started = command(program, &[]);
    started.envs(environment.iter().copied()).env("PCCE_VERIFY_REPORT", &report);
    let output = run(started.current_dir(program.parent().expect("a folder"))).expect_success();
    if verify {
        let report = fs::read_to_string(report).expect("a report");
        let line = report.strip_suffix(" 0 mismatches\n");
        assert!(line.is_some_and(|line| !line.contains('\n')), "{}: {report}", program.display());
    }
    let mut lines = ordinary_lines(&output);
    lines.sort();
    assert_eq!(
        lines,
        ["23 24 12 6", "made 1", "made 10", "made 11", "made 12", "made 13", "made 2", "made 3"]
    );
    let parallel = flags.contains(&"-fopenmp");
    let expected: Vec<_> = CHAINS.iter().filter(|(name, _)| parallel || *name != "parallel").collect();
    let shown: Vec<Vec<&str>> =
        output.stdout.lines().filter(|l| l.starts_with('@')).map(|l| l.split(' ').collect()).collect();
    let names: Vec<&str> = shown.iter().map(|words| &words[0][1..]).collect();
    assert_eq!(names, expected.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "{}", program.display());
    let tokens: String = shown.iter().map(|words| format!("{}\n", words[1])).collect();
    let decoded = decode(program, &tokens);
    assert_eq!(decoded.lines().count(), expected.len());
    for ((name, chain), line) in expected.iter().zip(decoded.lines()) {
        assert_eq!(functions(line), *chain, "{}: {name}", program.display());
    }
}

/// The functions of the program in a decoded context.
fn functions(line: &str) -> String {
    let trace: Value = serde_json::from_str(line).expect("JSON");
    let mut names: Vec<String> = Vec::new();
    for frame in trace["frames"].as_array().expect("frames") {
        let own = frame["file"].as_str().is_some_and(|file| file.ends_with("program.cpp"));
        let name = match frame["kind"].as_str().expect("a kind") {
            "call" if own => {
                frame["function"].as_str().and_then(|name| name.split('(').next()).expect("a name")
            }
            "call" => continue,
            "uninstrumented" => "<>",
            "signal" => "<signal>",
            other => other,
        };
        if name != "<>" || names.last().is_none_or(|last| last != "<>") {
            names.push(name.trim_end_matches(" [clone .omp_outlined]").to_owned());
        }
    }
    names.join(" ")
}

const TWO: &[&str] = &["-O0", "-O2"];
const ONE: &[&str] = &["-O2"];

#[test]
fn address() {
    // Local variables are on a heap of the sanitizer's.
    let fake = [("ASAN_OPTIONS", "detect_stack_use_after_return=1")];
    check("address", BOTH, TWO, &["-fsanitize=address"], &fake);
    check(
        "address-coverage",
        BOTH,
        ONE,
        &["-fsanitize=address", "-fsanitize-coverage=trace-pc-guard"],
        &fake,
    );
}

#[test]
fn safe_stack() {
    check("safe-stack", BOTH, TWO, &["-fsanitize=safe-stack"], &[]);
}

#[test]
fn memory() {
    check("memory", BOTH, TWO, &["-fsanitize=memory", "-fsanitize-memory-track-origins"], &[]);
}

/// What the runtime writes is initialised, and its copies of what the program writes are as the original.
#[test]
fn memory_that_the_runtime_writes() {
    let work = work_folder("sanitizers/memory-written");
    let source = repository().join("testsuite/sanitizers/memory.c");
    for (mode, level) in [("link", "-O0"), ("link", "-O2"), ("lto", "-O1"), ("module", "-O1")] {
        let program = work.join(format!("{mode}{level}"));
        let flags = [&format!("--pcce-mode={mode}"), level, "-g", "-pthread", "-fsanitize=memory"];
        let mut compile = command(artifact("pcce-clang"), &flags);
        run(compile.arg(include("runtime-lib/include")).arg(&source).arg("-o").arg(&program))
            .expect_success();
        let reports =
            [("PCCE_CRASH_REPORT", "report"), ("PCCE_SAMPLE", "100"), ("PCCE_SAMPLE_PROFILE", "cpu")];
        let mut started = command(&program, &[]);
        let output = run(started.envs(reports).current_dir(&work)).expect_success();
        let taken = |thread| ["token text", "small empty", "at text", thread, "task", "fiber"];
        let handled = ["handler text", "same", "handler text"];
        let lines = [&handled[..], &taken("thread empty"), &taken("thread text")].concat();
        assert_eq!(output.stdout.lines().collect::<Vec<_>>(), lines, "{mode} {level}");
        assert_eq!(output.stderr, "", "{mode} {level}");
        let output = run(&mut command(&program, &["left out"]));
        assert_eq!(output.status, 1, "{}", output.describe());
        assert!(output.stderr.contains("use-of-uninitialized-value"), "{}", output.describe());
        assert!(!output.stdout.contains("not reported"), "{}", output.describe());
    }
}

/// All modules have the constructor that announces their metadata, in a group of which one is linked.
#[test]
fn constructors_of_metadata() {
    let work = work_folder("sanitizers/metadata");
    let files = [
        ("one.c", "int f(int n) { return n + 1; }\n"),
        (
            "two.c",
            "#include <stdio.h>\nint f(int);\nstatic int announced;\n\
             void __sanitizer_metadata_covered_add(int version, char *start, char *end) {\n\
               (void)version, (void)start, (void)end, announced++;\n}\n\
             void __sanitizer_metadata_covered_del(int version, char *start, char *end) {\n\
               (void)version, (void)start, (void)end;\n}\n\
             int main(void) { printf(\"%d %d\\n\", f(2), announced); return 0; }\n",
        ),
    ];
    write_files(&work, files);
    let pcce = artifact("pcce-clang");
    for (compiler, linker) in [(&llvm("clang"), "bfd"), (&pcce, "bfd"), (&pcce, "lld")] {
        let flags = ["-O1", "-fexperimental-sanitize-metadata=covered", "one.c", "two.c", "-o", "program"];
        let mut compile = command(compiler, &flags);
        run(compile.arg(format!("-fuse-ld={linker}")).current_dir(&work)).expect_success();
        let output = run(&mut command(work.join("program"), &[])).expect_success();
        assert_eq!(output.stdout, "3 1\n", "{} {linker}", compiler.display());
    }
}

#[test]
fn threads() {
    check("thread", BOTH, TWO, &["-fsanitize=thread"], &[]);
}

#[test]
fn other_sanitizers() {
    check("leak", BOTH, ONE, &["-fsanitize=leak"], &[]);
    check("undefined", BOTH, TWO, &["-fsanitize=undefined,integer,nullability"], &[]);
    check("undefined-trap", BOTH, ONE, &["-fsanitize=undefined", "-fsanitize-trap=undefined"], &[]);
    check("scudo", BOTH, ONE, &["-fsanitize=scudo"], &[]);
    check("cfi", &["lto"], ONE, &["-fsanitize=cfi", "-fvisibility=hidden", "-flto"], &[]);
    check("kcfi", BOTH, ONE, &["-fsanitize=kcfi"], &[]);
}

/// The sanitizer renames functions except for those in its list.
#[test]
fn data_flow() {
    let work = work_folder("sanitizers/dataflow");
    let list = work.join("list.txt");
    fs::write(&list, "fun:pcce_*=uninstrumented\nfun:pcce_*=discard\n").expect("can be written");
    let list = format!("-fsanitize-ignorelist={}", list.display());
    let source = work.join("program.c");
    let text = source!("sanitizers/dataflow.c");
    fs::write(&source, text).expect("can be written");
    for (mode, level) in BOTH.iter().flat_map(|mode| TWO.iter().map(move |level| (mode, level))) {
        let (program, report) = (work.join(format!("{mode}{level}")), work.join("report"));
        let flags = ["-x", "c", "-fsanitize=dataflow", &list, level];
        let _ = compile(&program, &source, mode, true, &flags).expect_success();
        let _ = fs::remove_file(&report);
        let output = run(command(&program, &[]).env("PCCE_VERIFY_REPORT", &report)).expect_success();
        let report = fs::read_to_string(&report).expect("a report");
        assert!(report.ends_with(" 0 mismatches\n"), "{mode} {level}: {report}");
        assert_eq!(ordinary_lines(&output), ["1 0"], "{mode} {level}");
        let decoded = folded(Path::new("."), &[program.to_str().unwrap()], &output.stdout);
        let contexts: Vec<_> =
            decoded.lines().filter_map(|line| line.strip_prefix('@')?.split(' ').nth(1)).collect();
        assert_eq!(contexts, ["main;leaf", "main;by_pointer;leaf"], "{mode} {level}");
    }
}

#[test]
fn profiles_and_coverage() {
    check("coverage", BOTH, ONE, &["--coverage"], &[]);
    check("regions", BOTH, ONE, &["-fprofile-instr-generate", "-fcoverage-mapping"], &[]);
    check("pg", BOTH, ONE, &["-pg"], &[]);
    check("xray", BOTH, ONE, &["-fxray-instrument", "-fxray-instruction-threshold=1"], &[]);
    check("memory-profile", BOTH, ONE, &["-fmemory-profile"], &[]);
}

#[test]
fn other_code_generation() {
    check("openmp", BOTH, ONE, &["-fopenmp"], &[("OMP_NUM_THREADS", "3")]);
    check("static-pie", BOTH, ONE, &["-fPIE", "-static-pie"], &[]);
    check("protection", BOTH, ONE, &["-fcf-protection=full", "-fstack-clash-protection", "-mretpoline"], &[]);
}

/// A profile of the program tells which parts of functions are cold. These are placed elsewhere.
#[test]
fn split_functions() {
    let work = work_folder("sanitizers/split");
    for mode in BOTH {
        let (raw, profile) = (work.join(format!("{mode}.raw")), work.join(format!("{mode}.profile")));
        let counting = work.join(format!("{mode}-counting"));
        let _ = compile(&counting, &source(), mode, false, &["-O2", "-fprofile-generate"]).expect_success();
        run(command(&counting, &[]).env("LLVM_PROFILE_FILE", &raw)).expect_success();
        let mut merge = command(llvm("llvm-profdata"), &["merge", "-o"]);
        run(merge.arg(&profile).arg(&raw)).expect_success();
        let uses = format!("-fprofile-use={}", profile.display());
        let mut flags = vec!["-O2", &uses, "-fsplit-machine-functions"];
        if *mode == "lto" {
            flags.push("-Wl,-mllvm,-split-machine-functions");
        }
        for verify in [false, true] {
            let program = work.join(format!("{mode}-{verify}"));
            let _ = compile(&program, &source(), mode, verify, &flags).expect_success();
            let symbols = run(&mut command(llvm("llvm-nm"), &[&program.display().to_string()])).stdout;
            assert!(symbols.contains(".cold"), "{mode}: no function is split");
            compare(&program, verify, &flags, &[]);
        }
    }
}

/// ThreadSanitizer delays handlers. The profiler's handler runs at once.
#[test]
fn samples_under_thread_sanitizer() {
    let work = work_folder("sanitizers/samples");
    let source = work.join("program.cpp");
    let text = "volatile long sum;\n\
                __attribute__((noinline)) static void work() { for (long i = 0; i < 30000000; i++) sum = sum + i; }\n\
                int main() { work(); return 0; }\n";
    fs::write(&source, text).expect("room on the disk");
    for mode in BOTH {
        let program = work.join(mode);
        let _ = compile(&program, &source, mode, false, &["-O1", "-fsanitize=thread"]).expect_success();
        let profile = program.with_extension("cpu");
        let mut started = command(&program, &[]);
        run(started.env("PCCE_SAMPLE", "250").env("PCCE_SAMPLE_PROFILE", &profile)).expect_success();
        let folded =
            run(command(artifact("pcce"), &["cpu", "folded"]).arg(&program).arg(&profile)).expect_success();
        assert!(
            folded.stdout.lines().any(|line| line.starts_with("main;work()")),
            "{mode}: {}",
            folded.stdout
        );
    }
}

/// Modules of C++20, compiled as CMake does: the interface first, then its code.
#[test]
fn cxx_modules() {
    const INTERFACE: &str = "module;\n#include \"show.h\"\nexport module shapes;\n\
        export NOINLINE void inside(const char *name) { SHOW(name); KEEP; }\n\
        export template <typename T> NOINLINE T twice(T n) { inside(\"template\"); KEEP; return n + n; }\n";
    const MAIN: &str = "import shapes;\nint main() { inside(\"function\"); return twice(21) - 42; }\n";
    for mode in BOTH {
        let work = work_folder(&format!("sanitizers/modules-{mode}"));
        let path = |name: &str| work.join(name).display().to_string();
        let include = |folder: &str| format!("-I{}", repository().join(folder).display());
        let includes = [include("testsuite/programs"), include("runtime-lib/include")];
        let prebuilt = format!("-fprebuilt-module-path={}", work.display());
        fs::write(path("shapes.cppm"), INTERFACE).expect("room on the disk");
        fs::write(path("main.cpp"), MAIN).expect("room on the disk");
        for (flags, from, to) in [
            (&["--precompile", &includes[0], &includes[1]][..], &["shapes.cppm"][..], "shapes.pcm"),
            (&["-c"], &["shapes.pcm"], "shapes.o"),
            (&["-c", &prebuilt], &["main.cpp"], "main.o"),
            (&[], &["main.o", "shapes.o"], "program"),
        ] {
            let own = [&format!("--pcce-mode={mode}"), "--pcce-verify", "-std=c++20", "-g", "-O1"];
            let mut compile = command(artifact("pcce-clang++"), &own);
            let from = from.iter().map(|name| path(name));
            run(compile.args(flags).args(from).arg("-o").arg(path(to))).expect_success();
        }
        let report = work.join("report");
        let output = run(command(path("program"), &[]).env("PCCE_VERIFY_REPORT", &report)).expect_success();
        let report = fs::read_to_string(report).expect("a report");
        assert!(
            report.starts_with("pcce verify: 6 contexts") && report.ends_with(" 0 mismatches\n"),
            "{report}"
        );
        let tokens: String = output
            .stdout
            .lines()
            .map(|line| format!("{}\n", line.split(' ').nth(1).expect("a token")))
            .collect();
        let decoded = run_with_input(&mut command(artifact("pcce"), &["decode", &path("program")]), &tokens);
        let name = |line: &str| line.split(" at ").next().expect("a name").to_owned();
        let found: Vec<String> =
            decoded.expect_success().stdout.lines().filter(|l| l.starts_with('#')).map(name).collect();
        let expected = ["inside", "main", "inside", "twice", "main"];
        let same = |(found, expected): (&String, &&str)| found.contains(*expected);
        assert!(found.len() == 5 && found.iter().zip(&expected).all(same), "{mode}: {found:?}");
    }
}

/// ThreadSanitizer's delayed handlers get old registers: the interrupted code is not known, and no guess is shown.
#[test]
fn late_handlers_under_thread_sanitizer() {
    let work = work_folder("sanitizers/late");
    for mode in BOTH {
        let program = work.join(mode);
        let source = repository().join("testsuite/sanitizers/late.cpp");
        let _ = compile(&program, &source, mode, false, &["-O1", "-fsanitize=thread"]).expect_success();
        let token = run(&mut command(&program, &[])).expect_success().stdout;
        let decoded = decode(&program, &token);
        let trace: Value = serde_json::from_str(&decoded).expect("JSON");
        let frames = trace["frames"].as_array().expect("frames");
        let kinds: Vec<_> = frames.iter().map(|frame| frame["kind"].as_str().expect("a kind")).collect();
        assert_eq!(kinds, ["call", "signal", "uninstrumented", "unknown"], "{mode}: {decoded}");
    }
}

/// Two allocators in one program are refused: the sanitizer would find nothing without saying so.
#[test]
fn heap_profiles_are_refused() {
    let work = work_folder("sanitizers/heap");
    let source = work.join("program.c");
    fs::write(&source, "#include <stdlib.h>\nint main(void) { free(malloc(7)); return 0; }\n")
        .expect("room on the disk");
    let program = work.join("program");
    for (sanitizer, refused) in
        [("address", true), ("leak", true), ("memory", true), ("thread", true), ("undefined", false)]
    {
        let flag = format!("-fsanitize={sanitizer}");
        let mut wrapper = command(artifact("pcce-clang"), &["--pcce-heap", &flag]);
        let output = run(wrapper.arg(&source).arg("-o").arg(&program));
        assert_eq!(output.status != 0, refused, "{}", output.describe());
        assert_eq!(
            output.stderr.contains(&format!("`--pcce-heap` and `{flag}` each replace")),
            refused,
            "{sanitizer}"
        );
        // Without the wrapper, the heap library stands in front of the sanitizer's.
        let mut clang = command(llvm("clang"), &[&flag, "-Wl,--export-dynamic", "-Wl,-u,__pcce_tls"]);
        let archive = artifact("libpcce_heap.a");
        run(clang.arg(&source).arg(archive).arg("-o").arg(&program)).expect_success();
        let profile = work.join("profile");
        let output = run(command(&program, &[]).env("PCCE_HEAP_PROFILE", &profile));
        assert_eq!(
            (output.status, output.stderr.contains("find nothing")),
            (refused.into(), refused),
            "{sanitizer}"
        );
    }
}
