//! Link mode with ThinLTO: the linker compiles the modules, in both links.

use std::fs;
use std::path::Path;

use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, folded, llvm, repository, run, source, work_folder};

const SOURCES: [(&str, &str); 4] = [
    ("one", source!("link/thin_lto/one.c")),
    ("two", source!("link/thin_lto/two.c")),
    ("four", source!("link/thin_lto/four.c")),
    ("five", source!("link/thin_lto/five.c")),
];

/// Runs the wrapper on words that blanks separate.
fn pcce(folder: &Path, words: &str) {
    let mut clang = command(artifact("pcce-clang"), &["-g", "-w"]);
    run(clang.args(words.split_whitespace()).current_dir(folder)).expect_success();
}

fn contexts(folder: &Path, program: &str) -> String {
    let lines = run(command(folder.join(program), &[]).current_dir(folder)).expect_success().stdout;
    folded(folder, &[program], &lines)
}

fn sources(name: &str) -> std::path::PathBuf {
    let folder = work_folder(name);
    for (name, text) in SOURCES {
        fs::write(folder.join(format!("{name}.c")), text).unwrap();
    }
    folder
}

/// The contexts are those of module mode, whether the linker or the encoder compiles a module or it was compiled for
/// full LTO; with one command or several; with objects and members of archives.
#[test]
fn programs_are_encoded_as_a_whole() {
    let folder = sources("link_thin/programs");
    let all = "one.c two.c four.c five.c";
    for (place, level) in ["-O0", "-O2"].into_iter().enumerate() {
        pcce(&folder, &format!("--pcce-mode=module {level} {all} -o module"));
        let expected = contexts(&folder, "module");
        assert_eq!(expected.lines().filter(|line| line.starts_with("main;")).count(), 10, "{expected}");
        for verify in in_turn(place, ["--pcce-verify", ""]) {
            let flags = format!("{level} {verify}");
            let check = |words: &str| {
                pcce(&folder, &format!("{flags} -flto=thin {words} -o thin"));
                assert_eq!(contexts(&folder, "thin"), expected, "{flags} {words}");
                let info = run(command(artifact("pcce"), &["info", "thin"]).current_dir(&folder));
                assert!(info.expect_success().stdout.contains("encoded as a whole at the link"), "{words}");
            };
            check(all);
            check(&format!("-fno-lto {all} -flto=thin"));
            pcce(&folder, &format!("{flags} -c {all} -flto=thin"));
            let _ = fs::remove_file(folder.join("lib.a"));
            let archive = ["rcs", "lib.a", "four.o", "five.o"];
            run(command(llvm("llvm-ar"), &archive).current_dir(&folder)).expect_success();
            check("one.o two.o lib.a");
            check("-shared-libgcc one.o -Wl,--start-lib two.o five.o -Wl,--end-lib four.o -Wl,--gc-sections");
            // The encoder generates the code of one module, and one is of full LTO.
            pcce(&folder, &format!("{flags} -c two.c"));
            check("one.o two.o lib.a");
            pcce(&folder, &format!("{flags} -flto -c five.c"));
            check("one.o two.o four.o five.o");
        }
    }
}

/// Tables and codes of traces are those of the whole program.
#[test]
fn programs_are_traced() {
    let folder = sources("link_thin/traced");
    let events = |flags: &str| {
        pcce(&folder, &format!("--pcce-trace -O0 {flags} one.c two.c four.c five.c -o program"));
        let _ = fs::remove_file(folder.join("trace"));
        run(command(folder.join("program"), &[]).env("PCCE_TRACE", folder.join("trace"))).expect_success();
        let words = ["trace", "show", "program", "trace"];
        let shown = run(command(artifact("pcce"), &words).current_dir(&folder)).expect_success().stdout;
        // The depth of a call in the output depends on what its caller knows.
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        shown.lines().filter(|line| line.contains(" at ")).map(words).collect::<Vec<_>>()
    };
    let expected = events("--pcce-mode=lto");
    assert!(expected.len() > 20, "{expected:#?}");
    assert_eq!(events("-flto=thin"), expected);
}

/// Links that make no image, and partial links of bitcode.
#[test]
fn what_is_not_supported_is_refused() {
    let folder = sources("link_thin/refused");
    pcce(&folder, "-O2 -flto=thin -c one.c two.c four.c five.c");
    for (words, said) in [
        (&["-Wl,--lto-emit-asm"][..], "the linker generates code when it is known what is linked"),
        (&["-Wl,--thinlto-index-only"], "the linker generates code when it is known what is linked"),
        (&["-Wl,--lto-obj-path=x"], "is not supported: the program is linked twice"),
        (&["-Wl,-plugin-opt=obj-path=x"], "is not supported: the program is linked twice"),
        (&["-r"], "is joined of bitcode"),
    ] {
        let mut link = command(artifact("pcce-clang"), &["-O2", "-flto=thin", "one.o", "two.o", "four.o"]);
        let output = run(link.args(["five.o", "-o", "program"]).args(words).current_dir(&folder));
        assert!(output.status != 0 && output.stderr.contains(said), "{words:?}: {}", output.describe());
        assert!(!folder.join("program").exists(), "{words:?}");
    }
}

/// The linker verifies the instrumented code, also of interrupt handlers, whose parameters are special.
#[test]
fn handlers_that_the_machine_calls_are_compiled() {
    let folder = work_folder("link_thin/interrupts");
    let source = repository().join("testsuite/programs/interrupts.c").display().to_string();
    for level in ["-O0", "-O2"] {
        pcce(&folder, &format!("-flto=thin --pcce-verify {level} {source} -o program"));
        run(&mut command(folder.join("program"), &[])).expect_success();
    }
}
