//! Processes with two runtimes: each knows the calls of its own images only, and its contexts say so. And calls by name
//! that reach a definition in another image or object.

use std::fs;
use std::path::Path;

use pcce_testsuite::{artifact, command, folded, llvm, run, source, target, work_folder, write_files};

const PROGRAM: &str = source!("runtimes/program.c");

fn compile(folder: &Path, compiler: &str, words: &str) {
    let mut clang = command(artifact(compiler), &["-g", "-O2", "-w"]);
    run(clang.args(words.split_whitespace()).current_dir(folder)).expect_success();
}

/// The contexts that the program shows, with the dictionaries of these images.
fn contexts(folder: &Path, program: &str, images: [&str; 2]) -> String {
    let mut process = command(folder.join(program), &[]);
    process.env("LD_LIBRARY_PATH", target().join("release"));
    let lines = run(process.current_dir(folder)).expect_success().stdout;
    let images = if images[0] == images[1] { &images[..1] } else { &[images[0], "--dict", images[1]] };
    folded(folder, images, &lines)
}

const ONE: &str = "main;call;lib;inner\nmain;call;lib;back\n";
const HIDDEN: &str = "<unknown calls>;lib;inner\n<unknown calls>;main;call;<unknown calls, up to lib>;back\n";

#[test]
fn contexts_of_two_runtimes_say_what_is_missing() {
    let folder = work_folder("runtimes");
    fs::write(folder.join("one.c"), source!("runtimes/library.c")).unwrap();
    fs::write(folder.join("program.c"), PROGRAM).unwrap();
    fs::write(folder.join("own.c"), "int own(int n, int (*back)(int)) { return back(n); }\n").unwrap();
    fs::write(folder.join("map"), "{ global: main; local: *; };\n").unwrap();
    for mode in ["link", "lto", "module"] {
        compile(&folder, "pcce-clang", &format!("--pcce-mode={mode} -fPIC -shared one.c -o libone.so"));
        let build = |program: &str, runs: &str, words: &str| {
            let common = format!("--pcce-mode={mode} -DRUNS={runs} program.c -o {program} {words}");
            compile(&folder, "pcce-clang", &common);
            contexts(&folder, program, [program, "libone.so"])
        };
        let linked = "-L. -lone -Wl,-rpath,. -Wl,--gc-sections";
        for linker in ["bfd", "gold", "lld", "mold"] {
            // lto mode requires lld.
            if mode == "lto" && linker != "lld" {
                continue;
            }
            let linked = format!("-fuse-ld={linker} {linked}");
            assert_eq!(build("visible", "call(1)", &linked), ONE, "{mode} {linker}");
            let hidden = build("hidden", "call(1)", &format!("{linked} -Wl,--exclude-libs=ALL"));
            assert_eq!(hidden, HIDDEN, "{mode} {linker}");
            // patchelf moves the note by which the other runtime is found.
            let moved = folder.join("hidden");
            run(command("patchelf", &["--set-rpath", "./././././.:."]).arg(&moved)).expect_success();
            assert_eq!(contexts(&folder, "hidden", ["hidden", "libone.so"]), HIDDEN, "{mode} {linker}");
            if linker != "mold" {
                let hidden = build("mapped", "call(1)", &format!("{linked} -Wl,--version-script=map -w"));
                assert_eq!(hidden, HIDDEN, "{mode} {linker}");
            }
        }
        let loaded = "main;load;lib;inner\nmain;load;lib;back\n";
        let other = "<unknown calls>;lib;inner\n<unknown calls>;main;load;<unknown calls>;back\n";
        let own = "-Dlib=own own.c";
        assert_eq!(build("loads", "load(0)", own), loaded, "{mode}");
        assert_eq!(build("deep", "load(RTLD_DEEPBIND)", own), other, "{mode}");
        assert_eq!(build("static", "load(0)", &format!("{own} -static")), other, "{mode}");
        // The library's runtime has found the executable's variables, and the library those of its own runtime.
        let mixed = build("mixed", "load(0)+load(RTLD_DEEPBIND)", own);
        let lines: Vec<&str> = mixed.lines().collect();
        assert!(mixed.starts_with(loaded) && lines.len() == 4, "{mode}: {mixed}");
        assert!(lines[2].starts_with("<unknown calls>") && !lines[2].contains("inner"), "{mode}: {mixed}");
    }
}

const SHOWS: &str = source!("runtimes/shows.cpp");

const OTHER: &str =
    "entry;<inlined(int), not instrumented>;shows\nentry;<weak(int), not instrumented>;shows\n";

/// The called definitions are in code without the pass, although instrumented functions have the same names.
#[test]
fn other_bodies_of_a_name_are_not_instrumented() {
    let folder = work_folder("other_bodies");
    write_files(
        &folder,
        [
            ("header.h", source!("runtimes/header.h")),
            ("shows.cpp", SHOWS),
            ("plain.cpp", source!("runtimes/plain.cpp")),
            ("main.cpp", "extern \"C\" int entry(int);\nint main() { return entry(1) == 99; }\n"),
        ],
    );
    let plain = |words: &str| {
        let mut clang = command(llvm("clang++"), &["-O2", "-fPIC"]);
        run(clang.args(words.split_whitespace()).current_dir(&folder)).expect_success();
    };
    plain("-c plain.cpp");
    for mode in ["link", "lto", "module"] {
        compile(
            &folder,
            "pcce-clang++",
            &format!("--pcce-mode={mode} plain.o shows.cpp main.cpp -o program"),
        );
        assert_eq!(
            contexts(&folder, "program", ["program", "program"]),
            format!("main;{OTHER}").replace("\nentry", "\nmain;entry"),
            "{mode}"
        );
        compile(
            &folder,
            "pcce-clang++",
            &format!("--pcce-mode={mode} -fPIC -shared shows.cpp -o libshows.so"),
        );
        plain("main.cpp plain.o -L. -lshows -Wl,-rpath,. -rdynamic -o outer");
        // An object with LTO keeps its own copy of an inline function.
        let other = match mode {
            "lto" => OTHER.replace("<inlined(int), not instrumented>", "inlined(int)"),
            _ => OTHER.to_owned(),
        };
        assert_eq!(contexts(&folder, "outer", ["libshows.so", "libshows.so"]), other, "{mode}");
    }
}
