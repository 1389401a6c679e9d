//! Code of libraries at interrupted points: it is not called "not instrumented" unless the library's file says so.

use std::fs;
use std::path::Path;
use std::process::Command;

use pcce_testsuite::{artifact, command, run, work_folder, write_files};

const LIBRARY: &str = "#include <string.h>\n\
    __attribute__((noinline)) int inner(const char *p) { return *p + 1; }\n\
    int outer(const char *p) { return inner(p) + 1; }\n\
    int plain(const char *p) { return (int)strlen(p) + 1; }\n";
const PROGRAM: &str = "#include <dlfcn.h>\n#include <stdlib.h>\nint outer(const char *), plain(const char *);\n\
    __attribute__((noinline)) static int work(int (*f)(const char *), char way) {\n\
      switch (way) { case 'n': return outer(0) + 1; case 'p': return plain(0) + 1; default: return f(0) + 1; }\n}\n\
    int main(int count, char **words) {\n\
      void *plugin = count > 2 ? dlopen(words[2], RTLD_NOW) : 0;\n\
      return work(plugin ? (int (*)(const char *))dlsym(plugin, \"inner\") : 0, *words[1]);\n}\n";

/// The crashing thread's frames in the report of a run: functions and boundaries, innermost first.
fn frames(program: &Path, report: &Path, looks_in: Option<&Path>) -> Vec<String> {
    let mut show = command(artifact("pcce"), &["crash", "show", "--program"]);
    let _ = show.arg(program).arg(report).envs(looks_in.map(|folder| ("LD_LIBRARY_PATH", folder)));
    // Without the library's dictionary, its frames are missing.
    let shown = run(&mut show).stdout;
    let frames = shown.lines().filter_map(|line| line.trim_start().strip_prefix('#'));
    frames
        .map(|frame| {
            let name = frame.split_once("  ").expect("a number in front").1;
            name.split_once(" at ").map_or(name, |(name, _)| name).to_owned()
        })
        // Behind calls through pointers, in some modes.
        .filter(|name| !name.starts_with("<calls left by a tail call"))
        .collect()
}

#[test]
fn only_what_has_no_dictionary_is_not_instrumented() {
    let folder = work_folder("found_libraries");
    write_files(&folder, [("library.c", LIBRARY), ("program.c", PROGRAM)]);
    for mode in ["module", "lto", "link"] {
        let mode_flag = format!("--pcce-mode={mode}");
        let folder = folder.join(mode);
        let (libraries, away) = (folder.join("build/libraries"), folder.join("away"));
        fs::create_dir_all(&libraries).unwrap();
        fs::create_dir_all(&away).unwrap();
        let compile = |words: &[&str]| {
            let own = ["-O1", "-g", "--pcce-crash-report", &mode_flag];
            run(command(artifact("pcce-clang"), &own).args(words).current_dir(&folder)).expect_success();
        };
        compile(&["-fPIC", "-shared", "../library.c", "-o", "build/libraries/liblibrary.so"]);
        compile(&["../program.c", "-Lbuild/libraries", "-llibrary", "-o", "build/program"]);
        compile(&["-fPIC", "-shared", "../library.c", "-o", "build/plugin.so"]);
        let program = folder.join("build/program");
        let crash = |words: &[&str]| {
            let report = folder.join(words[0]);
            let mut crashing: Command = command(&program, words);
            let _ = crashing.env("LD_LIBRARY_PATH", &libraries).env("PCCE_CRASH_REPORT", &report);
            assert_ne!(run(crashing.current_dir(&folder)).status, 0, "it crashes");
            report
        };
        let by_name = crash(&["n"]);
        let plain = crash(&["p"]);
        let plugin = crash(&["d", "build/plugin.so"]);
        let shown = |report: &Path| frames(&program, report, None);
        assert_eq!(shown(&by_name), ["inner", "outer", "work", "main"], "{mode}");
        assert_eq!(shown(&plain), ["<strlen, not instrumented>", "plain", "work", "main"], "{mode}");
        assert_eq!(shown(&plugin), ["inner", "work", "main"], "{mode}");
        for name in ["libraries/liblibrary.so", "plugin.so"] {
            let library = folder.join("build").join(name);
            fs::rename(&library, away.join(library.file_name().expect("a name"))).unwrap();
        }
        for report in [&by_name, &plugin] {
            let mut found = shown(report);
            let is_missing = |frame: &String| {
                frame.starts_with("<module with build id ") && frame.ends_with(", no dictionary given>")
            };
            let missing = found.extract_if(.., |frame| is_missing(frame)).count();
            let is_unknown =
                |frame: &String| frame.contains(", of a library that was not found, with build id ");
            let unknown = found.extract_if(.., |frame| is_unknown(frame)).count();
            assert!(missing + unknown == 1 && found == ["work", "main"], "{mode}: {found:?}");
        }
        assert_eq!(frames(&program, &by_name, Some(&away)), ["inner", "outer", "work", "main"], "{mode}");
    }
}
