//! Programs that jump behave as they do without the pass, also where other code runs after a jump.

use std::path::{Path, PathBuf};

use pcce_testsuite::{artifact, command, llvm, repository, run, target, work_folder};

const MODES: [&str; 3] = ["link", "lto", "module"];

/// Compiles a program of `jumping/`, with the wrapper or plain.
fn build(compiler: PathBuf, source: &str, flags: &[&str], more: Option<&Path>, to: &Path) {
    let source = repository().join("testsuite/jumping").join(source);
    let mut build = command(compiler, &["-O2", "-g", "-pthread", "-fno-builtin", "-w"]);
    run(build.args(flags).arg(source).args(more).arg("-o").arg(to)).expect_success();
}

fn same(name: &str, source: &str, flags: &[&str], more: Option<&Path>) {
    let folder = work_folder(&format!("jumping/{name}"));
    let plain = folder.join("plain");
    build(llvm("clang"), source, flags, more, &plain);
    let expected = run(&mut command(plain, &[])).expect_success().stdout;
    assert!(!expected.is_empty(), "{name}");
    for mode in MODES {
        for verify in [None, Some("--pcce-verify")] {
            let program = folder.join(format!("{mode}{}", verify.unwrap_or_default()));
            let mode = format!("--pcce-mode={mode}");
            let flags: Vec<&str> = flags.iter().copied().chain([&*mode]).chain(verify).collect();
            build(artifact("pcce-clang"), source, &flags, more, &program);
            let found = run(&mut command(program, &[])).expect_success().stdout;
            assert_eq!(found, expected, "{name}, {mode}, {verify:?}");
        }
    }
}

#[test]
fn libc_cleans_up_behind_a_jump() {
    same("cleaned", "cleaned.c", &[], None);
}

#[test]
fn other_code_switches_stacks() {
    let object = work_folder("jumping/switches-plain").join("plain.o");
    build(llvm("clang"), "switches.c", &["-DPLAIN", "-c"], None, &object);
    same("switches", "switches.c", &[], Some(&object));
    same("switches-O0", "switches.c", &["-O0"], Some(&object));
}

#[test]
fn a_library_has_a_setjmp_of_its_own() {
    let library = work_folder("jumping/own-library").join("libown.so");
    build(llvm("clang"), "own.c", &["-DLIBRARY", "-shared", "-fPIC"], None, &library);
    same("own", "own.c", &[], Some(&library));
}

/// The program's jump is not seen, so that the library's chain of frames leads to dead stack, where the program's
/// variables are by then.
#[test]
fn a_plain_program_jumps_out_of_a_library() {
    const SOURCE: &str = "out_of_library.c";
    let folder = work_folder("jumping/out-of-library");
    for level in ["-O0", "-O2"] {
        let library = folder.join("libout.so");
        let shared = [level, "-DLIBRARY", "-shared", "-fPIC"];
        build(llvm("clang"), SOURCE, &[&shared[..], &["-DPLAIN"]].concat(), None, &library);
        let program = folder.join("program");
        build(llvm("clang"), SOURCE, &[level], Some(&library), &program);
        for mode in MODES {
            let mode = format!("--pcce-mode={mode}");
            build(artifact("pcce-clang"), SOURCE, &[&shared[..], &[&mode]].concat(), None, &library);
            let mut process = command(&program, &[]);
            process.env("LD_LIBRARY_PATH", target().join("release"));
            assert_eq!(run(&mut process).expect_success().stdout, "end\n", "{mode} {level}");
        }
    }
}

/// A weak reference without a definition is null, with any linker.
#[test]
fn programs_that_gold_links_create_threads() {
    assert_eq!(run(&mut command("which", &["ld.gold"])).status, 0, "binutils have it");
    let folder = work_folder("jumping/gold");
    for mode in ["link", "module"] {
        let program = folder.join(mode);
        let mode = format!("--pcce-mode={mode}");
        build(artifact("pcce-clang"), "cleaned.c", &["-fuse-ld=gold", &mode], None, &program);
        let output = run(&mut command(program, &[])).expect_success().stdout;
        assert!(output.ends_with("end\n"), "{mode}: {output}");
    }
}
