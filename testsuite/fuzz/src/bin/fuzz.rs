//! One target under libFuzzer: the one that `PCCE_FUZZ` names. After each [`PROGRESS`] inputs it writes a byte to
//! standard output.

#![no_main]

use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pcce_fuzz::{PROGRESS, TARGETS, Target};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    static INPUTS: AtomicU64 = AtomicU64::new(0);
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("PCCE_FUZZ").unwrap_or_default();
        let target = TARGETS.iter().find(|target| target.name == name);
        target.unwrap_or_else(|| panic!("PCCE_FUZZ is `{name}`, which is no target"))
    });
    (target.check)(input);
    if (INPUTS.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(PROGRESS) {
        let mut out = io::stdout();
        let _ = out.write_all(b".").and_then(|()| out.flush());
    }
});
