//! `measured FILE COMMAND…`: runs a command and writes what it and its children used to a JSON file.
//!
//! A process of its own for each command, and a small one: the kernel's figures for children are sums over a process's
//! whole life, and a child starts with its parent's memory as its peak.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use pcce_testsuite::evaluation::workload::Usage;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(file), Some(program)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: measured FILE COMMAND…");
        return ExitCode::from(2);
    };
    let start = Instant::now();
    let status = match Command::new(&program).args(arguments).status() {
        Ok(status) => status,
        Err(e) => {
            eprintln!("measured: cannot run {}: {e}", program.display());
            return ExitCode::from(127);
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let usage = match getrusage(UsageWho::RUSAGE_CHILDREN) {
        Ok(usage) => usage,
        Err(e) => {
            eprintln!("measured: getrusage: {e}");
            return ExitCode::from(126);
        }
    };
    let time = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    let usage = Usage {
        user: time(usage.user_time()),
        system: time(usage.system_time()),
        elapsed: seconds,
        // Linux counts in kilobytes.
        peak_memory: usage.max_rss() as u64 * 1024,
    };
    let text = serde_json::to_vec(&usage).expect("numbers serialise");
    if let Err(e) = std::fs::write(&file, text) {
        eprintln!("measured: {}: {e}", file.display());
        return ExitCode::from(126);
    }
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(code as u8)
}
