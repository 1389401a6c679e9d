//! A library's own calls enter its functions behind the check that is for callers from outside.

use std::path::Path;

use pcce_testsuite::{artifact, command, folded, run, source, work_folder, write_files};

const SOURCES: [(&str, &str); 4] = [
    ("library.h", source!("link/passed_checks/library.h")),
    ("first.c", source!("link/passed_checks/first.c")),
    ("second.c", source!("link/passed_checks/second.c")),
    ("main.c", source!("link/passed_checks/main.c")),
];

/// Builds library and program, and returns the contexts that the program prints.
fn contexts(folder: &Path, mode: &str, flags: &str) -> String {
    let clang = |words: &str| {
        let mut clang = command(artifact("pcce-clang"), &["-g"]);
        let words = format!("--pcce-mode={mode} {flags} {words}");
        run(clang.args(words.split_whitespace()).current_dir(folder)).expect_success();
    };
    clang("-fPIC -shared first.c second.c -o liblib.so");
    clang("main.c -L. -llib -o program");
    let mut program = command(folder.join("program"), &[]);
    let output = run(program.env("LD_LIBRARY_PATH", folder)).expect_success();
    folded(folder, &["program", "--dicts", "."], &output.stdout)
}

/// The functions that instructions of the library call by their first instruction, except those that push for callers
/// from outside.
fn called_at_the_start(folder: &Path) -> Vec<String> {
    let disassembly = run(&mut command(
        "objdump",
        &["-d", "--no-show-raw-insn", &folder.join("liblib.so").to_string_lossy()],
    ));
    let disassembly = disassembly.expect_success().stdout;
    let mut within = "";
    let mut called = Vec::new();
    for line in disassembly.lines() {
        if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            within = name.1;
        }
        let callee = line.split_once("call ").and_then(|(_, to)| to.split_once('<'));
        let callee = callee.and_then(|(_, name)| name.trim_end().strip_suffix('>'));
        called.extend(callee.filter(|_| !within.contains(".pcce_")).map(str::to_owned));
    }
    called
}

#[test]
fn own_calls_pass_the_check() {
    let folder = work_folder("link_passed_checks");
    write_files(&folder, SOURCES);
    let modules = contexts(&folder, "module", "-O1");
    assert!(modules.lines().count() > 200, "{modules}");
    for (flags, behind) in [
        ("-O1 -fuse-ld=lld", true),
        ("-O1 -fuse-ld=bfd --pcce-verify -ffunction-sections -Wl,--gc-sections", true),
        ("-O1 -fuse-ld=gold -fno-integrated-as", true),
        ("-O1 -fuse-ld=mold", true),
        ("-O0 -fuse-ld=lld --pcce-verify", true),
        // These have something else to do first.
        ("-O1 -fcf-protection=branch", false),
        ("-O1 -fpatchable-function-entry=2", false),
    ] {
        let found = contexts(&folder, "link", flags);
        let first = modules.lines().zip(found.lines()).find(|(expected, found)| expected != found);
        assert_eq!(first, None, "{flags}");
        assert_eq!(modules.lines().count(), found.lines().count(), "{flags}");
        let called = called_at_the_start(&folder);
        for name in ["near_step", "first_step", "far_step"] {
            assert_eq!(called.iter().any(|callee| callee == name), !behind, "{flags}: {called:?}");
        }
    }
}
