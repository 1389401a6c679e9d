//! Traces of programs with shared libraries: each image in each mode, and an executable with objects of two modes.

use std::fs;
use std::path::{Path, PathBuf};

use super::pcce_trace;
use pcce_testsuite::{
    artifact, command, export_events, include, json_lines, llvm, repository, run, source, work_folder,
    write_files,
};

/// Calls a library that calls back, and three times a plugin through a pointer of `dlsym`, which calls back, too.
const HOST: &str = source!("traces/images/host.c");
const LIBRARY: &str = source!("traces/images/library.c");

const MODES: [&str; 3] = ["lto", "module", "link"];

struct Images {
    folder: PathBuf,
}

impl Images {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn compile(&self, mode: &str, flags: &[&str], inputs: &[&str], output: &str) -> PathBuf {
        let mode = format!("--pcce-mode={mode}");
        let mut build =
            command(artifact("pcce-clang"), &["--pcce-trace", "--pcce-verify", "-g", "-O1", &mode]);
        build.args(flags).args(inputs.iter().map(|name| self.path(name)));
        run(build.arg("-o").arg(self.path(output))).expect_success();
        self.path(output)
    }

    fn libraries(&self, mode: &str) {
        let flags = ["-shared", "-fPIC"];
        self.compile(mode, &flags, &["library.c"], "liblibrary.so");
        self.compile(mode, &flags, &["plugin.c"], "plugin.so");
    }

    /// Flags that link an executable with its libraries.
    fn link_flags(&self) -> Vec<String> {
        let folder = self.folder.display();
        ["-Wl,--export-dynamic-symbol=square", "-L", &folder.to_string(), "-llibrary"]
            .map(str::to_owned)
            .into_iter()
            .chain([format!("-Wl,-rpath,{folder}")])
            .collect()
    }

    /// Runs the program. Returns its events.
    fn events(&self, program: &Path, printed: &str) -> Vec<String> {
        let (trace, report) = (self.path("trace"), self.path("report"));
        let _ = fs::remove_file(&trace);
        let mut start = command(program, &[]);
        start.arg(self.path("plugin.so")).env("PCCE_TRACE", &trace).env("PCCE_VERIFY_REPORT", &report);
        assert_eq!(run(&mut start).expect_success().stdout, printed);
        let checked = pcce_trace(&["check"], program, &trace).expect_success().stdout;
        assert!(checked.contains(", 0 chunks do not match"), "{checked}");
        assert!(!checked.contains("cannot be compared"), "{checked}");
        let exported = export_events(program, &trace).expect_success();
        let events = json_lines(&exported.stdout).into_iter().map(|event| {
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", event["depth"], text(&event["kind"]), text(&event["function"]))
        });
        events.collect()
    }
}

fn images(name: &str) -> Images {
    let folder = work_folder(&format!("trace-libraries/{name}"));
    write_files(
        &folder,
        [("host.c", HOST), ("library.c", LIBRARY), ("plugin.c", source!("traces/images/plugin.c"))],
    );
    Images { folder }
}

/// Compares `trace` in the folder with the counts of its `program`. Everything must be compared and right, also from
/// the beginnings of chunks.
fn checked(folder: &Path) -> serde_json::Value {
    let mut check = command(artifact("pcce"), &["trace", "check", "--format", "json"]);
    let checked = run(check.args(["program", "trace"]).current_dir(folder)).expect_success().stdout;
    let counts = json_lines(&checked).swap_remove(0);
    let (streams, chunks) = (&counts["streams"], &counts["chunks"]);
    for wrong in [&streams["mismatches"], &streams["uncertain"], &counts["gaps"], &chunks["mismatches"]] {
        assert_eq!(*wrong, 0, "{}: {checked}", folder.display());
    }
    counts
}

/// A call by name and one through a pointer have different kinds of events, but the same caller and callee.
fn calls(events: &[String]) -> Vec<String> {
    let of_function = |event: &&String| {
        let words: Vec<&str> = event.split(' ').collect();
        matches!(words[1], "entered" | "call" | "return" | "end") && words[2] != "printf"
    };
    let name =
        |event: &String| event.split(' ').skip(1).collect::<Vec<_>>().join(" ").replace("entered", "call");
    events.iter().filter(of_function).map(name).collect()
}

#[test]
fn each_image_may_have_its_mode() {
    let images = images("modes");
    let mut first: Option<Vec<String>> = None;
    for libraries in MODES {
        images.libraries(libraries);
        for host in MODES {
            let flags = images.link_flags();
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            images.compile(host, &["-c"], &["host.c"], "host.o");
            let program = images.compile(host, &flags, &["host.o"], "host");
            let found = calls(&images.events(&program, "71\n"));
            let counted = |name: &str| found.iter().filter(|event| **event == format!("call {name}")).count();
            assert_eq!(counted("each"), 6, "{host} and {libraries}: {found:#?}");
            assert_eq!(counted("inner"), 3 * (4 + 3), "{host} and {libraries}");
            assert_eq!(counted("half"), 3 * 5, "{host} and {libraries}");
            assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "{host} and {libraries}");
        }
    }
}

/// Objects of module mode have entries for open calls, and those of lto mode make open calls.
#[test]
fn objects_of_two_modes_make_one_program() {
    let images = images("objects");
    images.libraries("module");
    let mut found = Vec::new();
    for [host, library] in [["lto", "module"], ["module", "module"], ["lto", "lto"]] {
        images.compile(host, &["-c"], &["host.c"], "host.o");
        images.compile(library, &["-c"], &["library.c"], "library.o");
        let flags = ["-Wl,--export-dynamic-symbol=square", "-Wl,--export-dynamic-symbol=half"];
        let program = images.compile(host, &flags, &["host.o", "library.o"], "host");
        found.push(calls(&images.events(&program, "71\n")));
    }
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0].len(), found[2].len());
}

/// The libraries bring the tracer with them.
#[test]
fn a_plain_program_has_traced_libraries() {
    let images = images("plain");
    images.libraries("lto");
    let program = images.path("host");
    let mut clang = command(llvm("clang"), &["-O1"]);
    run(clang.args(images.link_flags()).arg(images.path("host.c")).arg("-o").arg(&program)).expect_success();
    let trace = images.path("trace");
    let mut start = command(&program, &[]);
    start
        .arg(images.path("plugin.so"))
        .env("PCCE_TRACE", &trace)
        .env("PCCE_VERIFY_REPORT", images.path("report"));
    assert_eq!(run(&mut start).expect_success().stdout, "71\n");
    let mut show = command(artifact("pcce"), &["trace", "show"]);
    let library = images.path("liblibrary.so");
    let shown = run(show.arg(&library).arg(&trace)).stdout;
    assert_eq!(shown.matches("twice").count(), 3, "{shown}");
    assert_eq!(shown.matches("each\n").count(), 6, "{shown}");
}

/// Calls within a module skip the tracer's entry, in link mode, too. Libraries that are loaded at the same address one
/// after the other are shown as what they are.
#[test]
fn programs_with_libraries_are_read_right() {
    for (name, libraries) in [
        ("relative.c", &["relative_library.c"][..]),
        ("left.c", &["left_middle.c", "left_inner.c"]),
        ("loading.c", &[]),
    ] {
        for mode in MODES {
            let folder = work_folder(&format!("trace-libraries/{name}-{mode}"));
            let programs = repository().join("testsuite/programs");
            let build = |sources: &[PathBuf], flags: &[String], output: &str| {
                let mode = format!("--pcce-mode={mode}");
                let fixed = ["--pcce-trace", "--pcce-verify", "-g", "-O2", "-pthread", "-rdynamic", &mode];
                let mut build = command(artifact("pcce-clang"), &fixed);
                let include = include("runtime-lib/include");
                build.arg(include).args(sources).args(flags).arg("-o").arg(folder.join(output));
                run(&mut build).expect_success();
            };
            let folder_flags = ["-L".to_owned(), folder.display().to_string()];
            let run_path = format!("-Wl,-rpath,{}", folder.display());
            let mut linked = [&folder_flags[..], &[run_path]].concat();
            let shared = ["-shared".to_owned(), "-fPIC".to_owned()];
            for library in libraries {
                let stem = library.trim_end_matches(".c");
                let flags = [&shared[..], &linked].concat();
                build(&[programs.join("parts").join(library)], &flags, &format!("lib{stem}.so"));
                linked.push(format!("-l{stem}"));
            }
            for plugin in ["loaded_a", "loaded_b"] {
                build(&[programs.join(format!("parts/{plugin}.c"))], &shared, &format!("{plugin}.so"));
            }
            build(&[programs.join(name)], &linked, "program");
            let (program, trace) = (folder.join("program"), folder.join("trace"));
            let mut start = command(&program, &[]);
            start.args(["./loaded_a.so", "./loaded_b.so"]).current_dir(&folder);
            start.env("PCCE_TRACE", &trace).env("PCCE_VERIFY_REPORT", folder.join("report"));
            run(&mut start).expect_success();
            let mut check = command(artifact("pcce"), &["trace", "check"]);
            let checked = run(check.arg(&program).arg(&trace).current_dir(&folder)).expect_success().stdout;
            assert!(
                checked.ends_with(" chunks were compared, 0 chunks do not match\n"),
                "{name}, {mode}: {checked}"
            );
        }
    }
}

/// Calls of the system's functions write no events, and neither do calls of functions that a library defines in their
/// place.
#[test]
fn a_library_cannot_replace_what_calls_back() {
    let source = repository().join("testsuite/programs/parts/preloaded.c").display().to_string();
    let include = include("runtime-lib/include");
    for mode in MODES {
        let to = work_folder(&format!("trace-libraries/replaces-{mode}")).join("library.so");
        let mode = format!("--pcce-mode={mode}");
        let fixed = ["--pcce-trace", "-fno-builtin", "-shared", "-fPIC", &mode, &include, &source, "-o"];
        let refused = run(command(artifact("pcce-clang"), &fixed).arg(&to));
        let said = "labs is called where no call of the program shows it";
        assert!(refused.status != 0 && refused.stderr.contains(said), "{mode}: {}", refused.describe());
        assert!(!to.exists(), "{mode}");
    }
}

/// In each thread, and after a fork; from the beginning of each stream and each chunk.
#[test]
fn plugins_come_one_after_the_other_to_one_place() {
    let source = repository().join("testsuite/traces/replaced.c").display().to_string();
    for mode in MODES {
        let folder = work_folder(&format!("trace-libraries/replaced-{mode}"));
        let build = |flags: &[&str], output: &str| {
            let mode = format!("--pcce-mode={mode}");
            let fixed = ["--pcce-trace", "--pcce-verify", "-g", "-O1", "-pthread", &mode, &source, "-o"];
            run(command(artifact("pcce-clang"), &fixed).arg(folder.join(output)).args(flags))
                .expect_success();
        };
        for (i, name) in ["a", "b", "c"].into_iter().enumerate() {
            let flags = [format!("-DNAME={name}"), format!("-DMORE={i}")];
            build(&["-shared", "-fPIC", &flags[0], &flags[1]], &format!("{name}.so"));
        }
        build(&[], "program");
        for stress in ["0", "3"] {
            let mut start = command(folder.join("program"), &["./a.so", "./b.so", "./c.so"]);
            start.env("PCCE_TRACE", "trace").env("PCCE_TRACE_STRESS", stress).current_dir(&folder);
            let output = run(start.env("PCCE_VERIFY_REPORT", folder.join("report"))).expect_success();
            assert_eq!(output.stdout, "at one place\n", "{mode}");
            let counts = checked(&folder);
            assert!(counts["streams"]["events"].as_u64() > Some(10_000), "{mode}: {counts}");
            let chunks = &counts["chunks"];
            let read =
                chunks["chunks"].as_u64() > Some(500) && chunks["partly"] == 0 && chunks["uncertain"] == 0;
            assert!(stress == "0" || read, "{mode}: {counts}");
        }
    }
}

/// The same with `longjmp`. The output is that of the program without the pass.
#[test]
fn exceptions_go_through_all_images() {
    let source = repository().join("testsuite/traces/thrown.cpp").display().to_string();
    let build = |compiler: &Path, folder: &Path, modes: Option<[&str; 3]>| {
        let traced = |mode: &str| {
            ["--pcce-trace".to_owned(), "--pcce-verify".to_owned(), format!("--pcce-mode={mode}")]
        };
        let compile = |number: usize, flags: &[&str], output: &str| {
            let mut build = command(compiler, &["-g", "-O1", "-pthread", &source]);
            build.args(modes.map(|modes| traced(modes[number])).iter().flatten());
            run(build.args(flags).arg("-o").arg(folder.join(output))).expect_success();
        };
        compile(1, &["-shared", "-fPIC", "-DNAME=library"], "liblibrary.so");
        compile(2, &["-shared", "-fPIC", "-DNAME=plugin"], "plugin.so");
        let folder = folder.display().to_string();
        compile(0, &["-llibrary", &format!("-L{folder}"), &format!("-Wl,-rpath,{folder}")], "program");
    };
    let start = |folder: &Path, stress: &str| {
        let mut start = command(folder.join("program"), &["./plugin.so"]);
        start.env("PCCE_TRACE", "trace").env("PCCE_TRACE_STRESS", stress).current_dir(folder);
        run(start.env("PCCE_VERIFY_REPORT", folder.join("report"))).expect_success().stdout
    };
    let plain = work_folder("trace-libraries/thrown-plain");
    build(&llvm("clang++"), &plain, None);
    let printed = start(&plain, "0");
    for modes in [["lto"; 3], ["module"; 3], ["link"; 3], ["lto", "module", "link"]] {
        let folder = work_folder(&format!("trace-libraries/thrown-{}", modes.concat()));
        build(&artifact("pcce-clang++"), &folder, Some(modes));
        for stress in ["0", "3"] {
            assert_eq!(start(&folder, stress), printed, "{modes:?}");
            let counts = checked(&folder);
            assert!(counts["streams"]["events"].as_u64() > Some(30_000), "{modes:?}: {counts}");
        }
    }
}

/// A local name of a function that others may replace is the library's own: the callee of such a call is known.
#[test]
fn a_local_name_is_the_own_function() {
    let library = source!("traces/images/own_name.c");
    let images = images("own");
    fs::write(images.path("library.c"), library).expect("can be written");
    let host = |replaces: &str| format!("{replaces}{}", HOST.replace("twice(i, i == 1", "twice(9, i == 1"));
    for (replaces, printed) in
        [("", "343\n"), ("__attribute__((noinline)) int shown(int n) { return n + 1; }\n", "600\n")]
    {
        fs::write(images.path("host.c"), host(replaces)).expect("can be written");
        for mode in MODES {
            let flags = ["-shared", "-fPIC", "-fsemantic-interposition"];
            images.compile(mode, &flags, &["library.c"], "liblibrary.so");
            images.compile(mode, &flags, &["plugin.c"], "plugin.so");
            let flags = [images.link_flags(), vec!["-Wl,--export-dynamic-symbol=shown".to_owned()]].concat();
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let program = images.compile(mode, &flags, &["host.c"], "host");
            let found = calls(&images.events(&program, printed));
            let downs = found.iter().filter(|event| **event == "call down").count();
            // Four of nine calls use the local name.
            assert_eq!(downs, 3 * if replaces.is_empty() { 9 } else { 4 }, "{mode}: {found:#?}");
        }
    }
}
