//! `pcce bt` in gdb, of a program in the emulator: the program is not on this machine, as far as gdb knows.

use std::path::Path;
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
        let socket = work.join(format!("{name}.socket"));
        let _ = std::fs::remove_file(&socket);
        let emulator = command_on(Some(&AARCH64), &program, &[]);
        let mut own = command(emulator.get_program(), &["-g"]);
        own.arg(&socket).args(emulator.get_args()).stdout(Stdio::null());
        let child = Running(own.spawn().expect("the emulator starts"));
        while !socket.exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let script = format!("source {}", repository().join("decoder/debugger/pcce.py").display());
        let remote = format!("target remote {}", socket.display());
        let path = artifact("pcce").parent().expect("a file in a folder").display().to_string();
        let path = format!("python import os; os.environ['PATH'] = '{path}:' + os.environ['PATH']");
        let mut gdb = command("gdb-multiarch", &["-q", "-nx", "-batch"]);
        // Each thread comes to the breakpoint once.
        for order in [
            &*path,
            &script,
            "set sysroot /usr/aarch64-linux-gnu",
            &remote,
            "break stop",
            "continue",
            "pcce bt",
            "continue",
            "pcce bt",
            "kill",
        ] {
            gdb.args(["-ex", order]);
        }
        let output = run(gdb.arg(&program));
        drop(child);
        let mut chains: Vec<String> = Vec::new();
        for line in output.stdout.lines().filter(|line| line.starts_with('#')) {
            let (number, frame) = line.split_once(' ').expect("a frame");
            let function = frame.trim_start().split([' ', ',']).next().unwrap_or_default();
            match (number, chains.last_mut()) {
                ("#0", _) | (_, None) => chains.push(function.to_owned()),
                (_, Some(chain)) => *chain += &format!(" < {function}"),
            }
        }
        chains.sort_unstable();
        let worker = "stop < detail < by_size < <qsort < worker < <thread < main";
        let main = "stop < deep < again < deep < again < main";
        assert_eq!(chains, [main, worker], "{name}: {}{}", output.stdout, output.stderr);
    }
}
