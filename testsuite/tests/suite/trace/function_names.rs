//! Messages of commands about a function's name: it was inlined or left out, is not instrumented, is silent, or does
//! not exist.

use std::fs;
use std::path::{Path, PathBuf};

use super::record;
use pcce_testsuite::{Output, artifact, command, include, json_lines, repository, run, source, work_folder};

/// Builds the program with these flags.
fn build(flags: &[&str], program: &Path) -> Output {
    build_of("named.cpp", &[&["-std=c++17"], flags].concat(), program)
}

fn build_of(source: &str, flags: &[&str], program: &Path) -> Output {
    let include = include("runtime-lib/include");
    let mut build = command(artifact("pcce-clang++"), &["-O2", &include]);
    build.args(flags).arg(repository().join("testsuite/traces").join(source));
    run(build.arg("-o").arg(program)).expect_success()
}

/// The program with this flag for debug information, and its trace.
fn traced(mode: &str, debug: &str, folder: &Path) -> (PathBuf, PathBuf) {
    let (program, trace) = (folder.join(format!("program{debug}")), folder.join(format!("trace{debug}")));
    let _ = build(&["--pcce-trace", "--pcce-trace-skip=app::compare", mode, debug], &program);
    record(&mut command(&program, &[]), &trace);
    (program, trace)
}

fn pcce(words: &[&str], files: &[&Path]) -> Output {
    run(command(artifact("pcce"), words).args(files))
}

/// The matches of `pcce trace find` for a name, its message, and its status.
fn find(name: &str, (program, trace): &(PathBuf, PathBuf)) -> (usize, String, i32) {
    let found = pcce(&["trace", "find"], &[program, trace, Path::new(name)]);
    (found.stdout.matches("event ").count(), found.stderr.clone(), found.status)
}

#[test]
fn names_without_events_have_a_reason() {
    let folder = work_folder("traces/names");
    for mode in ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"] {
        let files = traced(mode, "-g", &folder);
        for name in [
            "app::name",
            "app::name(int)",
            "app::name[abi:cxx11]",
            "app::name[abi:cxx11](int)",
            "app::Store::scaled",
            "app::Store::scaled<long>",
            "long app::Store::scaled<long>(long) const",
        ] {
            assert_eq!(find(name, &files), (4, String::new(), 0), "{mode}: {name}");
        }
        let (calls, said, status) = find("app::parse", &files);
        assert_eq!((calls, status), (0, 2), "{mode}: {said}");
        let (program, trace) = &files;
        let shown = pcce(&["trace", "show", "--function", "app::parse"], &[program, trace]);
        let inside = shown.stdout.matches(" in app::parse at ").count();
        assert!(inside >= 4 && shown.status == 2, "{mode}: {}", shown.stdout);
        let expected = format!(
            "app::parse was inlined into app::handle(char const*): of calls there the trace has no event, but for \
             {inside} in it, which `pcce trace show --function app::parse` shows"
        );
        assert!(said.contains(&expected), "{mode}: {said}");
        for (name, expected) in [
            ("app::compare", "app::compare is left out of the trace (--pcce-trace-skip"),
            ("parse", "no function of this name is traced or called; there are app::parse(char const*)"),
            (
                "app::handel",
                "no function of this name is traced or called; there are app::handle(char const*)",
            ),
            ("printf_", "no function of this name is traced or called"),
            ("_start", "_start is not instrumented: it is a library's, or was built without the pass"),
        ] {
            let (calls, said, status) = find(name, &files);
            assert_eq!((calls, status), (0, 2), "{mode}: {name}: {said}");
            assert!(said.contains(expected), "{mode}: {name}: {said}");
        }
        let none = "note: the trace has no call of app::never\n".to_owned();
        assert_eq!(find("app::never", &files), (0, none, 0), "{mode}");
    }
}

/// Without debug information it is not known what was inlined. With lines only, names of inlined functions have no
/// scopes.
#[test]
fn names_that_may_be_inlined_are_not_denied() {
    let folder = work_folder("traces/names-unknown");
    let files = traced("--pcce-mode=lto", "-g0", &folder);
    assert_eq!(find("app::name", &files).0, 4);
    let (_, said, status) = find("app::never", &files);
    assert!(said.contains("the trace has no call of app::never; nor would it have one where"), "{said}");
    assert_eq!(status, 2);
    let (_, said, _) = find("app::parse", &files);
    assert!(said.contains("were inlined, without debug information (-g)"), "{said}");
    let files = traced("--pcce-mode=lto", "-gline-tables-only", &folder);
    assert_eq!(find("app::name", &files), (4, String::new(), 0));
    let (_, said, _) = find("parse", &files);
    assert!(said.contains("parse was inlined into app::handle(char const*)"), "{said}");
    let (_, said, _) = find("app::parse", &files);
    assert!(said.contains("; there are parse"), "{said}");
}

/// Mangled names that say what templates ask are those of the source, as others are.
#[test]
fn names_of_templates_that_ask_for_something() {
    let folder = work_folder("traces/names-constrained");
    let files = (folder.join("program"), folder.join("trace"));
    let flags = ["--pcce-trace", "--pcce-trace-skip=constant", "-std=c++20", "-g"];
    let built = build_of("constrained.cpp", &flags, &files.0);
    assert_eq!(built.stderr, "", "the function that is left out was not found");
    record(&mut command(&files.0, &[]), &files.1);
    for (name, calls) in [
        ("add", 7),
        ("add<int, 0>", 5),
        ("void add<double, 0>(double)", 1),
        ("small", 1),
        ("Box::put", 1),
        ("Box<int>::put()", 1),
        ("Box::open", 1),
        ("app::v1::inside", 1),
    ] {
        assert_eq!(find(name, &files), (calls, String::new(), 0), "{name}");
    }
    let shown = pcce(&["trace", "show"], &[&files.0, &files.1]).expect_success().stdout;
    assert!(shown.contains("void small<char>(char)") && !shown.contains("_Z"), "{shown}");
    let (_, said, _) = find("app::inside", &files);
    assert!(said.contains("; there are app::v1::inside()"), "{said}");
}

#[test]
fn call_graphs_tell_the_same() {
    let folder = work_folder("traces/names-graph");
    let program = folder.join("program");
    for mode in ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"] {
        let _ = build(&["-g", mode], &program);
        let around = |name: &str| {
            let drawn = pcce(&["graph", "--around", name], &[&program]);
            (!drawn.stdout.is_empty(), drawn.stderr.clone())
        };
        for name in ["app::name", "app::name[abi:cxx11](int)", "app::Store::scaled", "main"] {
            let (drawn, said) = around(name);
            assert!(drawn && !said.contains("error"), "{mode}: {name}: {said}");
        }
        for (name, expected) in [
            (
                "app::parse",
                "app::parse was inlined into app::handle(char const*), and is no function of its own",
            ),
            ("_start", "_start is not instrumented"),
            ("app::handel", "no function is named app::handel; there are app::handle(char const*)"),
        ] {
            let (drawn, said) = around(name);
            assert!(!drawn && said.contains(expected), "{mode}: {name}: {said}");
        }
        let (drawn, said) = around("app::silent");
        assert!(drawn && said.contains("app::silent is silent: nothing that it reaches"), "{mode}: {said}");
    }
}

/// Lists for the pass take the same names, and messages tell of names without a function.
#[test]
fn lists_take_the_same_names() {
    let folder = work_folder("traces/names-lists");
    let program = folder.join("program");
    let unused = |flags: &[&str]| build(&[&["-g", "--pcce-mode=lto"], flags].concat(), &program).stderr;
    for name in
        ["app::name", "app::name[abi:cxx11]", "app::name(int)", "app::Store::scaled", "_ZN3app6handleEPKc"]
    {
        let targets = format!("--pcce-targets={name}");
        assert_eq!(unused(&[&targets]), "", "{name}");
        let only = format!("--pcce-trace-only={name}");
        assert_eq!(unused(&["--pcce-trace", &only]), "", "{name}");
    }
    assert_eq!(unused(&["--pcce-trace", "--pcce-trace-skip=app::*,named.cpp"]), "");
    let said = unused(&["--pcce-trace", "--pcce-trace-skip=app::nmae,app::h*,strange.cpp"]);
    for name in ["app::nmae", "strange.cpp"] {
        assert!(
            said.contains(&format!("trace-skip {name}: the program has no function of this name")),
            "{said}"
        );
    }
    assert!(!said.contains("app::h*"), "{said}");
    // The whole path, and its last parts, of a file that the command names from its folder.
    let sources = folder.join("sources");
    fs::create_dir_all(&sources).unwrap();
    fs::write(sources.join("one.c"), "int main(void) { return 0; }").unwrap();
    for name in
        [sources.join("one.c").display().to_string(), "names-lists/sources/one.c".into(), "one.c".into()]
    {
        let skip = format!("--pcce-trace-skip={name}");
        let words = ["--pcce-trace", "-g", &skip, "sources/one.c", "-o", "program"];
        let built = run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
        assert_eq!(built.stderr, "", "{name}");
    }
}

/// Each inlined copy of a line counts.
#[test]
fn inlined_copies_of_lines_are_counted() {
    let folder = work_folder("trace_names/copies");
    let text = source!("traces/copies.c");
    fs::write(folder.join("copies.c"), text).unwrap();
    for mode in ["--pcce-mode=link", "--pcce-mode=lto"] {
        for level in ["-O0", "-O1"] {
            let words = ["--pcce-trace=blocks", "-g", mode, level, "copies.c", "-o", "program"];
            run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
            let _ = fs::remove_file(folder.join("trace"));
            run(command(folder.join("program"), &[]).env("PCCE_TRACE", folder.join("trace")))
                .expect_success();
            let pcce = |words: &[&str]| {
                let mut pcce = command(artifact("pcce"), &["trace"]);
                run(pcce.args(words).args(["program", "trace"]).current_dir(&folder)).expect_success().stdout
            };
            let covered = pcce(&["coverage"]);
            for line in ["DA:5,30", "DA:6,30", "DA:14,10", "DA:16,10"] {
                assert!(covered.lines().any(|found| found == line), "{mode} {level}, {line}: {covered}");
            }
            // Each block counts each of its lines once.
            let shown = pcce(&["show", "--lines"]);
            assert!(shown.contains("copies.c:") && !shown.contains("6, 5"), "{mode} {level}: {shown}");
        }
    }
}

/// A call by name of a function in another file is one call, and not one of code that is not instrumented which calls
/// the function.
#[test]
fn calls_between_files_are_shown_once() {
    let folder = work_folder("traces/files");
    let texts = [
        "int half(int n); void two(int n);\n\
         int main(void) { for (int i = 0; i < 10; i++) half(i); two(1); return 0; }\n",
        "volatile int s; int quarter(int n);\nint half(int n) { s += n; return n / 2; }\n\
         void two(int n) { half(n); half(n + 1); quarter(n); }\n",
        "int half(int n);\nint quarter(int n) { return half(half(n)); }\n",
    ];
    let sources: Vec<PathBuf> = (1..=3).map(|number| folder.join(format!("{number}.c"))).collect();
    for (source, text) in sources.iter().zip(texts) {
        fs::write(source, text).expect("room on the disk");
    }
    let (program, trace) = (folder.join("program"), folder.join("trace"));
    for mode in ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"] {
        let mut build = command(artifact("pcce-clang"), &["--pcce-trace", "-g", "-O1", "-fno-inline", mode]);
        run(build.args(&sources).arg("-o").arg(&program)).expect_success();
        let _ = fs::remove_file(&trace);
        run(command(&program, &[]).env("PCCE_TRACE", &trace)).expect_success();
        let files = [&*program, &*trace];
        let report = pcce(&["trace", "report", "--format", "json"], &files).expect_success().stdout;
        let mut rows: Vec<(String, u64)> = json_lines(&report)
            .iter()
            .filter_map(|row| Some((row["function"].as_str()?.to_owned(), row["calls"].as_u64()?)))
            .collect();
        rows.sort();
        let expected = [("half", 14), ("main", 1), ("quarter", 1), ("two", 1)];
        assert_eq!(rows, expected.map(|(name, calls)| (name.to_owned(), calls)), "{mode}: {report}");
        let folded = pcce(&["trace", "export", "--format", "folded"], &files).expect_success().stdout;
        let mut stacks: Vec<&str> =
            folded.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
        stacks.sort_unstable();
        let expected =
            ["main", "main;half", "main;two", "main;two;half", "main;two;quarter", "main;two;quarter;half"];
        assert!(stacks.iter().all(|stack| expected.contains(stack)), "{mode}: {folded}");
        assert!(stacks.contains(&"main;two;quarter;half"), "{mode}: {folded}");
        let shown = pcce(&["trace", "show"], &files).expect_success().stdout;
        assert_eq!(shown.matches("two").count(), 1, "{mode}: {shown}");
        assert_eq!(shown.matches("half").count(), 14, "{mode}: {shown}");
        for number in 1..40 {
            let at = pcce(&["trace", "at"], &[&*program, &*trace, Path::new(&number.to_string())]);
            assert!(!at.stdout.contains("not instrumented"), "{mode}: event {number}: {}", at.stdout);
        }
    }
}

/// Calls through pointers say no name: they are counted as what may have been calls of a function that is not traced.
#[test]
fn calls_through_pointers_may_have_been_calls_of_a_library() {
    let work = work_folder("trace_names/pointers");
    let source = "#include <stdio.h>\nint (*volatile pointer)(const char *) = puts;\n\
         int main(void) { puts(\"a\"); pointer(\"b\"); pointer(\"c\"); return 0; }\n";
    fs::write(work.join("a.c"), source).unwrap();
    let (program, trace) = (work.join("a"), work.join("trace"));
    let words = ["--pcce-trace", "-g", "-O1", "a.c", "-o", "a"];
    run(command(artifact("pcce-clang"), &words).current_dir(&work)).expect_success();
    run(command(&program, &[]).env("PCCE_TRACE", &trace)).expect_success();
    for words in [&["find"][..], &["show", "--function", "puts"]] {
        let mut pcce = command(artifact("pcce"), &["trace"]);
        let pcce = pcce.args(words).arg(&program).arg(&trace);
        let ran = run(if words.len() == 1 { pcce.arg("puts") } else { pcce });
        assert!(ran.stdout.contains("puts"), "{}", ran.describe());
        assert!(
            ran.stderr.contains("may be what 2 calls through pointers have called"),
            "{}",
            ran.describe()
        );
        assert_eq!(ran.status, 2);
    }
}
