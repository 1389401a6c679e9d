//! `pcce bt` in gdb and lldb, of a program in the emulator: the program is not on this machine, as far as these know.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use pcce_testsuite::runner::{AARCH64, command_on};
use pcce_testsuite::{artifact, command, repository, run, work_folder};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn contexts_of_an_emulated_program() {
    let work = work_folder("aarch64-debugger");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("crash/waiting_threads.c");
    for (name, flags) in [
        ("signed", &["-O2", "-mbranch-protection=standard"][..]),
        ("no-pie", &["-O0", "-no-pie", "-fno-pie"]),
        ("static", &["-O1", "-static"]),
    ] {
        let program = work.join(name);
        let mut clang = command(artifact("pcce-clang"), &[&AARCH64.flag(), "-g", "-pthread"]);
        run(clang.args(flags).arg(&source).arg("-o").arg(&program)).expect_success();
        for (function, chain) in
            [("deep", "deep < again < main"), ("by_size", "by_size < <qsort < worker < <thread < main")]
        {
            let found = at_breakpoint(&program, function);
            // What is inlined at the breakpoint is shown in front.
            assert!(chain_of(&found).ends_with(chain), "{name}: {found}");
        }
        let found = at_breakpoint_in_lldb(&program, "deep");
        assert!(chain_of(&found).ends_with("deep < again < main"), "{name}: {found}");
    }
}

/// The names in the context that gdb prints.
fn chain_of(output: &str) -> String {
    let frames = output.lines().filter(|line| line.starts_with('#')).filter_map(|line| line.split_once(' '));
    let names = frames.map(|(_, frame)| frame.trim_start().split([' ', ',']).next().unwrap_or_default());
    names.collect::<Vec<_>>().join(" < ")
}

/// A program in the emulator, which waits for a debugger at a socket beside the program.
fn waiting(program: &Path) -> (Running, PathBuf) {
    let socket = program.with_extension("socket");
    let _ = std::fs::remove_file(&socket);
    let emulator = command_on(Some(&AARCH64), program, &[]);
    let mut own = command(emulator.get_program(), &["-g"]);
    own.arg(&socket).args(emulator.get_args()).stdout(Stdio::null());
    let child = Running(own.spawn().expect("the emulator starts"));
    while !socket.exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    (child, socket)
}

/// The script of the debuggers, and the variable by which it finds `pcce`.
fn script() -> (String, String) {
    let path = artifact("pcce").parent().expect("a file in a folder").display().to_string();
    let all = format!("{path}:{}", std::env::var("PATH").unwrap_or_default());
    (repository().join("decoder/debugger/pcce.py").display().to_string(), all)
}

/// Lets gdb run a program to a function, and print the context there.
fn at_breakpoint(program: &Path, function: &str) -> String {
    let (_child, socket) = waiting(program);
    let (script, path) = script();
    let mut gdb = command("gdb-multiarch", &["-q", "-nx", "-batch"]);
    for order in [
        format!("source {script}"),
        "set sysroot /usr/aarch64-linux-gnu".to_owned(),
        format!("target remote {}", socket.display()),
        format!("break {function}"),
        "continue".to_owned(),
        "pcce bt".to_owned(),
        "kill".to_owned(),
    ] {
        gdb.arg("-ex").arg(order);
    }
    let output = run(gdb.arg(program).env("PATH", path));
    output.stdout + &output.stderr
}

/// The same in lldb.
fn at_breakpoint_in_lldb(program: &Path, function: &str) -> String {
    let (_child, socket) = waiting(program);
    let (script, path) = script();
    let mut lldb = command(Path::new("lldb-19"), &["--no-lldbinit", "--batch"]);
    for order in [
        format!("command script import {script}"),
        "platform select --sysroot /usr/aarch64-linux-gnu remote-linux".to_owned(),
        format!("file {}", program.display()),
        format!("process connect --plugin gdb-remote unix-connect://{}", socket.display()),
        format!("breakpoint set --name {function}"),
        "continue".to_owned(),
        "pcce bt".to_owned(),
        "process kill".to_owned(),
    ] {
        lldb.arg("-o").arg(order);
    }
    let output = run(lldb.env("PATH", path));
    output.stdout + &output.stderr
}
