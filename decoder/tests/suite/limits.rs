//! `pcce` under a limit of memory.

use std::path::Path;
use std::process::Command;

/// The exit status and the messages of `pcce` with these arguments, under a limit of 1 GiB and of a minute of processor
/// time. Beyond them it ends by a signal, and has no status. Where it waits, its status is that of `timeout`.
pub fn bounded(folder: &Path, args: &str) -> (Option<i32>, String) {
    let pcce = env!("CARGO_BIN_EXE_pcce");
    let line = format!("ulimit -v 1048576; ulimit -t 60; exec timeout 1200 {pcce} {args}");
    let output =
        Command::new("sh").args(["-c", &line]).current_dir(folder).output().expect("there is a shell");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}
