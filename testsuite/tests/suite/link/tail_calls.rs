//! Link mode: calls that code generation turns into jumps.

use std::fs;
use std::path::Path;

use pcce_testsuite::{artifact, command, folded, run, source, work_folder};

fn contexts(folder: &Path, program: &str) -> String {
    let lines = run(command(folder.join(program), &[]).current_dir(folder)).expect_success().stdout;
    folded(folder, &[program], &lines)
}

/// Compiles and links the folder's two modules, and returns the contexts.
fn built(folder: &Path, compiler: &str, sources: [&str; 2], program: &str, flags: &[&str]) -> String {
    let mut clang = command(artifact(compiler), &["-g", "-w", "-o", program]);
    run(clang.args(flags).args(sources).current_dir(folder)).expect_success();
    contexts(folder, program)
}

const TWO: &str = source!("link/tail_calls/two.c");

/// The contexts are those of module mode, which pushes.
#[test]
fn calls_that_may_be_jumps_are_in_contexts() {
    let folder = work_folder("link_tails/jumps");
    fs::write(folder.join("one.c"), source!("link/tail_calls/one.c")).unwrap();
    fs::write(folder.join("two.c"), TWO).unwrap();
    let build =
        |program: &str, flags: &[&str]| built(&folder, "pcce-clang", ["one.c", "two.c"], program, flags);
    for level in ["-O1", "-O2", "-Os"] {
        let expected = build("module", &["--pcce-mode=module", level]);
        assert_eq!(expected.lines().filter(|line| line.starts_with("main;")).count(), 7, "{expected}");
        for linker in ["-fuse-ld=lld", "-fuse-ld=bfd"] {
            for pie in ["-pie", "-no-pie"] {
                let flags = ["--pcce-mode=link", level, linker, pie];
                assert_eq!(build("linked", &flags), expected, "{level} {linker} {pie}");
                let verified = build("verified", &[&flags[..], &["--pcce-verify"]].concat());
                assert_eq!(verified, expected, "verify mode, {level} {linker} {pie}");
            }
        }
    }
}

/// Exceptions pass such calls, and the id is right afterwards.
#[test]
fn exceptions_pass_calls_that_may_be_jumps() {
    let folder = work_folder("link_tails/thrown");
    let one = source!("link/tail_calls/thrown_one.cpp");
    let two = source!("link/tail_calls/thrown_two.cpp");
    fs::write(folder.join("one.cpp"), one).unwrap();
    fs::write(folder.join("two.cpp"), two).unwrap();
    let build = |flags: &[&str]| built(&folder, "pcce-clang++", ["one.cpp", "two.cpp"], "program", flags);
    for level in ["-O1", "-O2"] {
        let expected = build(&["--pcce-mode=module", level]);
        assert!(expected.lines().filter(|line| line.contains("thrower")).count() > 12, "{expected}");
        assert_eq!(build(&["--pcce-mode=link", level]), expected, "{level}");
        let bare = build(&["--pcce-mode=link", level, "-fno-asynchronous-unwind-tables"]);
        assert_eq!(bare, expected, "{level} without asynchronous unwind tables");
    }
}

const ODD: &str = source!("link/tail_calls/odd.c");

/// Recursion by tail calls through two files, one call through a pointer, needs no stack: neither in the plain program
/// nor in one that is encoded as a whole.
#[test]
fn tail_calls_through_several_modules_recurse_without_stack() {
    let folder = work_folder("link_tails/recursion");
    fs::write(folder.join("even.c"), source!("link/tail_calls/even.c")).unwrap();
    fs::write(folder.join("odd.c"), ODD).unwrap();
    let build = |program: &str, flags: &[&str]| {
        built(&folder, "pcce-clang", ["even.c", "odd.c"], program, &[&["-O2"], flags].concat())
    };
    let expected = build("whole", &["--pcce-mode=lto"]);
    assert_eq!(expected.lines().count(), 4, "{expected}");
    assert!(expected.lines().all(|line| line.starts_with("main;") && line.ends_with(";show")), "{expected}");
    for linker in ["bfd", "gold", "lld", "mold"] {
        let linker = format!("-fuse-ld={linker}");
        assert_eq!(build("linked", &[&linker]), expected, "{linker}");
        assert_eq!(build("verified", &[&linker, "--pcce-verify"]), expected, "{linker}, verify mode");
    }
    assert_eq!(build("shared", &["-fPIC", "-pie", "--pcce-hybrid", "--pcce-mode=link"]), expected);
}
