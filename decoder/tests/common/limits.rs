//! `pcce` under a limit of memory.

use std::path::Path;
use std::process::Command;

/// The exit status and the messages of `pcce` with these arguments, under a limit of 1 GiB. Out of memory, it ends by a
/// signal, and has no status. It must not take longer than a minute: then its status is that of `timeout`.
pub fn bounded(folder: &Path, args: &str) -> (Option<i32>, String) {
    let line = format!("ulimit -v 1048576; exec timeout 60 {} {args}", env!("CARGO_BIN_EXE_pcce"));
    let output =
        Command::new("sh").args(["-c", &line]).current_dir(folder).output().expect("there is a shell");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}
