//! Link mode: executables that are encoded behind their link.

use std::fs;
use std::path::Path;

use pcce_testsuite::{artifact, command, llvm, run, run_with_input, work_folder};

/// Two modules that call each other, by name and through pointers.
const CALLING: [(&str, &str); 2] = [
    (
        "one.c",
        "#include <pcce.h>\n#include <stdio.h>\nint two(int n, int (*f)(int));\n\
         __attribute__((noinline)) int show(int n) { puts(PCCE_TOKEN); return n + 1; }\n\
         int main(void) { return two(3, show) + show(1) != 16; }\n",
    ),
    (
        "two.c",
        "int show(int n);\n\
         __attribute__((noinline)) static int down(int n) { return n ? down(n - 1) + show(n) : 0; }\n\
         int two(int n, int (*f)(int)) { return f(n) + down(n) + show(n - 3); }\n",
    ),
];

/// The linkers that must do, and whether their executables are at fixed addresses.
const LINKERS: [&[&str]; 4] =
    [&["-fuse-ld=lld"], &["-fuse-ld=lld", "-no-pie"], &["-fuse-ld=bfd"], &["-fuse-ld=bfd", "-no-pie"]];

fn contexts(folder: &Path, program: &str) -> String {
    let lines = run(command(folder.join(program), &[]).current_dir(folder)).expect_success().stdout;
    let mut filter = command(artifact("pcce"), &["filter", program, "--format", "folded"]);
    run_with_input(filter.current_dir(folder), &lines).expect_success().stdout
}

/// Behind any linker, the step encodes the program, by the wrapper or by `pcce link`; two links of the same objects are
/// the same file.
#[test]
fn executables_are_encoded_behind_any_link() {
    let folder = work_folder("link_mode/behind");
    for (name, text) in CALLING {
        fs::write(folder.join(name), text).unwrap();
    }
    let clang = |arguments: &[&str]| run(command(artifact("pcce-clang"), arguments).current_dir(&folder));
    let whole = ["-g", "-O2", "one.c", "two.c", "-o", "whole"];
    let _ = clang(&whole).expect_success();
    let expected = contexts(&folder, "whole");
    assert_eq!(expected.lines().count(), 6, "{expected}");
    for object in ["one", "two"] {
        let source = format!("{object}.c");
        let _ = clang(&["--pcce-mode=link", "-g", "-O2", "-c", &source]).expect_success();
    }
    for linker in LINKERS {
        let fixed = ["--pcce-mode=link", "one.o", "two.o", "-o"];
        let _ = clang(&[&fixed[..], &["linked"], linker].concat()).expect_success();
        assert_eq!(contexts(&folder, "linked"), expected, "{linker:?}");
        let _ = clang(&[&fixed[..], &["again"], linker].concat()).expect_success();
        let read = |name: &str| fs::read(folder.join(name)).unwrap();
        assert!(read("linked") == read("again"), "{linker:?}: two links of the same objects differ");
    }
    let info =
        run(command(artifact("pcce"), &["info", "linked"]).current_dir(&folder)).expect_success().stdout;
    assert!(info.contains("2 of which were encoded as a whole at the link"), "{info}");
    // A link without the step: nothing is decoded until it has run.
    let module = ["--pcce-mode=module", "one.o", "two.o", "-o", "forgotten"];
    let _ = clang(&module).expect_success();
    let pcce = |arguments: &[&str]| run(command(artifact("pcce"), arguments).current_dir(&folder));
    let refused = pcce(&["dict", "forgotten"]);
    assert!(refused.status == 2 && refused.stderr.contains("run `pcce link"), "{}", refused.describe());
    let _ = pcce(&["link", "forgotten"]).expect_success();
    assert_eq!(contexts(&folder, "forgotten"), expected);
    let twice = pcce(&["link", "forgotten"]);
    assert!(twice.status == 2 && twice.stderr.contains("has run already"), "{}", twice.describe());
}

/// What the step cannot encode is an error in words, and leaves no executable.
#[test]
fn what_cannot_be_encoded_behind_the_link_is_refused() {
    let folder = work_folder("link_mode/refused");
    for (name, text) in CALLING {
        fs::write(folder.join(name), text).unwrap();
    }
    let clang = |arguments: &[&str]| run(command(artifact("pcce-clang"), arguments).current_dir(&folder));
    let _ = clang(&["--pcce-mode=link", "-g", "-O2", "-c", "one.c"]).expect_success();
    let _ = clang(&["--pcce-mode=link", "--pcce-id-bits=20", "-O2", "-c", "two.c"]).expect_success();
    let mixed = clang(&["--pcce-mode=link", "one.o", "two.o", "-o", "mixed"]);
    assert!(mixed.status != 0 && mixed.stderr.contains("other options of the pass"), "{}", mixed.describe());
    assert!(!folder.join("mixed").exists());
    let _ = clang(&["--pcce-mode=link", "-O2", "-c", "two.c"]).expect_success();
    let in_list = clang(&["--pcce-mode=link", "one.o", "two.o", "-Wl,-O1,-s", "-o", "stripped"]);
    assert!(in_list.status != 0 && in_list.stderr.contains("word of its own"), "{}", in_list.describe());
    // By itself it is done behind the step.
    let _ = clang(&["--pcce-mode=link", "one.o", "two.o", "-s", "-o", "stripped"]).expect_success();
    let symbols = run(command(llvm("llvm-nm"), &["stripped"]).current_dir(&folder));
    assert!(symbols.stderr.contains("no symbols"), "{}", symbols.describe());
    // Code that may be for a shared library is as in module mode.
    let _ = clang(&["--pcce-mode=link", "-fPIC", "-g", "-O2", "one.c", "two.c", "-o", "position"])
        .expect_success();
    assert_eq!(contexts(&folder, "position").lines().count(), 6);
}
