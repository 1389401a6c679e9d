//! One target under libFuzzer: the one that `PCCE_FUZZ` names.

#![no_main]

use std::sync::OnceLock;

use pcce_fuzz::{TARGETS, Target};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    let target = TARGET.get_or_init(|| {
        let name = std::env::var("PCCE_FUZZ").unwrap_or_default();
        let target = TARGETS.iter().find(|target| target.name == name);
        target.unwrap_or_else(|| panic!("PCCE_FUZZ is `{name}`, which is no target"))
    });
    (target.check)(input);
});
