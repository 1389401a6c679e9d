//! `pcce` for AArch64, in the emulator, prints byte by byte what the one for this machine prints, of programs of both.

use std::fs;
use std::path::Path;

use pcce_testsuite::runner::{AARCH64, command_on};
use pcce_testsuite::{artifact, command, include, llvm, run, work_folder};

#[test]
#[ignore]
fn pcce_prints_the_same_on_both_machines() {
    let work = work_folder("aarch64-tools");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut printed = 0;
    let mut compare = |words: &[&str]| {
        let mut emulated = command_on(Some(&AARCH64), &AARCH64.artifact("pcce"), &[]);
        let other = run(emulated.args(words).current_dir(&work)).expect_success();
        let own = run(command(artifact("pcce"), words).current_dir(&work)).expect_success();
        assert!(own.stdout.len() > 100, "{words:?}: {}", own.describe());
        assert!(own.stdout == other.stdout && own.stderr == other.stderr, "{words:?}: {}", other.describe());
        printed += 1;
    };
    for (name, machine) in [("own", None), ("other", Some(&AARCH64))] {
        let program = work.join(name);
        let (trace, log) = (format!("{name}.trace"), format!("{name}.log"));
        let mut clang = command(artifact("pcce-clang"), &["-O2", "-g", "--pcce-trace=blocks"]);
        clang.args(machine.map(|machine| machine.flag())).arg(include("runtime-lib/include"));
        run(clang.arg(sources.join("programs/callbacks.c")).arg("-o").arg(&program)).expect_success();
        let variables = [("PCCE_TRACE", work.join(&trace).into())];
        let output = run(&mut command_on(machine, &program, &variables)).expect_success();
        fs::write(work.join(&log), output.stdout).expect("the folder is ours");
        for words in [
            &["dict", name][..],
            &["filter", name, &log],
            &["filter", "--format", "folded", name, &log],
            &["trace", "show", name, &trace],
            &["trace", "show", "--format", "json", name, &trace],
            &["trace", "stats", name, &trace],
        ] {
            compare(words);
        }
    }
    let cores = work.join("cores");
    fs::create_dir_all(&cores).expect("the folder is ours");
    let (writer, flag) = (work.join("writer.o"), AARCH64.flag());
    let words = [&*flag, "-O1", &include("runtime-lib/include"), "-Wno-unused-result", "-c", "-o"];
    run(command(llvm("clang"), &words).arg(&writer).arg(sources.join("cores/writer.c"))).expect_success();
    let words = [&*flag, "-O2", "-g", "-pthread", &include("runtime-lib/include"), "-o"];
    let mut clang = command(artifact("pcce-clang"), &words);
    let threads = work.join("threads");
    run(clang.arg(&threads).arg(sources.join("cores/threads.c")).arg(&writer)).expect_success();
    run(command_on(Some(&AARCH64), &threads, &[]).arg(&cores).arg("1")).expect_success();
    compare(&["core", "threads", "cores/core.0"]);
    let save = ["-ex", "break compare", "-ex", "run", "-ex", "generate-core-file own.core", "own"];
    run(command("gdb", &["-q", "-nx", "-batch"]).args(save).current_dir(&work)).expect_success();
    compare(&["core", "own", "own.core"]);
    assert_eq!(printed, 14);
}
