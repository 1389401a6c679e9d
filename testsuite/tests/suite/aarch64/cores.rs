//! Core files of AArch64. The emulator's own lack the thread pointer. Those here are written by the programs
//! themselves, as Linux writes them, while their threads are stopped anywhere. For each thread, `pcce core` must show
//! what the thread's own token of that moment says.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use pcce_testsuite::chain::{Frame, decode, decoded, show};
use pcce_testsuite::runner::{AARCH64, command_on};
use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, include, llvm, run, work_folder};

/// Core files of each program, with three threads each.
const CORES: usize = 16;

#[test]
fn threads_are_what_they_say() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("cores");
    let work = work_folder("aarch64-cores");
    let writer = work.join("writer.o");
    let (target, include) = (AARCH64.flag(), include("runtime-lib/include"));
    let words = [&*target, "-O1", &include, "-Wno-unused-result", "-c", "-o"];
    run(command(llvm("clang"), &words).arg(&writer).arg(sources.join("writer.c"))).expect_success();
    let signed = "-mbranch-protection=standard";
    for (name, flags) in in_turn(
        1,
        [
            ("link-O2", &["-O2"][..]),
            ("lto-O0", &["-O0", "--pcce-mode=lto"]),
            ("module-signed", &["-O2", "--pcce-mode=module", signed]),
            ("no-frame-pointer", &["-O3", "-fomit-frame-pointer"]),
            ("link-signed-O1", &["-O1", signed, "-momit-leaf-frame-pointer"]),
            ("lto-Os", &["-Os", "--pcce-mode=lto", "-fno-inline"]),
            ("hybrid", &["-O2", "--pcce-hybrid"]),
        ],
    ) {
        let folder = work.join(name);
        fs::create_dir_all(&folder).expect("the folder is ours");
        let program = folder.join("program");
        let words = [&[&*target, "-g", "-pthread", &include][..], flags].concat();
        let mut clang = command(artifact("pcce-clang"), &words);
        run(clang.arg(sources.join("threads.c")).arg(&writer).arg("-o").arg(&program)).expect_success();
        let output = run(command_on(Some(&AARCH64), &program, &[]).arg(&folder).arg(CORES.to_string()));
        let output = output.expect_success().stdout;
        let lines: Vec<Vec<&str>> = output.lines().map(|line| line.split(' ').collect()).collect();
        assert_eq!(lines.len(), 3 * CORES, "{output}");
        let tokens: String = lines.iter().map(|line| format!("{}\n", line[2])).collect();
        let mut reports: HashMap<&str, serde_json::Value> = HashMap::new();
        for (line, expected) in lines.iter().zip(decode(&program, &tokens).lines()) {
            let report = reports.entry(line[0]).or_insert_with(|| {
                let core = folder.join(format!("core.{}", line[0]));
                let output = run(&mut pcce_core(&program, &core)).expect_success().stdout;
                fs::remove_file(core).expect("it is there");
                serde_json::from_str(&output).expect("JSON")
            });
            let threads = report["threads"].as_array().expect("threads");
            let thread = threads.iter().find(|thread| thread["thread"].as_u64() == line[1].parse().ok());
            let mut found = decoded(&thread.expect("the thread is there").to_string());
            // The creation of the thread is not in its own token.
            let created = found.iter().position(|f| *f == Frame::Boundary("thread".to_owned()));
            found.truncate(created.unwrap_or(found.len()));
            let expected = decoded(expected);
            assert!(found == expected, "{name} {line:?}\n{}\n{}", show(&expected), show(&found));
            let is_unknown = |f: &Frame| matches!(f, Frame::Boundary(_));
            assert!(!found.iter().any(is_unknown), "{name} {line:?}: {}", show(&found));
        }
    }
}

fn pcce_core(program: &Path, core: &Path) -> Command {
    let mut pcce = command(artifact("pcce"), &["core", "--format", "json"]);
    pcce.arg(program).arg(core);
    pcce
}

/// Contexts are found by the thread pointer: without it nothing is guessed.
#[test]
fn without_a_thread_pointer_nothing_is_said() {
    let folder = work_folder("aarch64-cores-of-qemu");
    let (source, program) = (folder.join("die.c"), folder.join("die"));
    fs::write(&source, "int main(int n, char **v) { return *(volatile int *)(long)(n - 1); }\n")
        .expect("the folder is ours");
    run(command(artifact("pcce-clang"), &[&AARCH64.flag(), "-o"]).arg(&program).arg(&source))
        .expect_success();
    // The emulator dies after its program, and need not leave another core file.
    let words = ["-c", "ulimit -c unlimited; \"$@\"", "sh"];
    let emulator = command_on(Some(&AARCH64), &program, &[]);
    let mut shell = command("sh", &words);
    shell.arg(emulator.get_program()).args(emulator.get_args()).current_dir(&folder);
    assert_ne!(run(&mut shell).status, 0);
    let files = fs::read_dir(&folder).expect("the folder is ours").flatten().map(|entry| entry.path());
    let (cores, others): (Vec<_>, Vec<_>) = files
        .partition(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("qemu_")));
    let output = run(&mut pcce_core(&program, cores.first().expect("the emulator writes one")));
    assert!(
        output.status == 2 && output.stderr.contains("it lacks the thread pointer"),
        "{}",
        output.describe()
    );
    let own_core = |file: &&std::path::PathBuf| file.file_name().is_some_and(|name| name == "core");
    cores.iter().chain(others.iter().filter(own_core)).for_each(|file| _ = fs::remove_file(file));
}
