//! Signals that end a command, which has something to finish before.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Becomes true when such a signal comes. Those that are ignored (`nohup`) stay so.
pub fn until_ended() -> io::Result<Arc<AtomicBool>> {
    let has_come = Arc::new(AtomicBool::new(false));
    let ignored = ignored();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if ignored >> (signal - 1) & 1 == 0 {
            let _ = flag::register(signal, Arc::clone(&has_come))?;
        }
    }
    Ok(has_come)
}

/// The set of signals that the process ignores.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default()
}
