//! What must hold for any input of each parser: no panic, no hang, and nothing is accepted that says something else than its
//! bytes do.
//!
//! A target is a module with a [`Target`]: it gives inputs to start from, and a check that panics when something is wrong. The
//! same checks run in the tests, over some thousand mutations, and under libFuzzer (`make fuzz N=1000000`), which
//! looks for inputs that reach new code. To add a target, write its module and list it in [`TARGETS`].

#[path = "../../../decoder/tests/common/mod.rs"]
mod app;
mod core;
mod dictionary;
#[path = "../../../decoder/tests/common/elf.rs"]
mod elf;
mod filter;
mod oracle;
mod profile;
mod token;

use std::sync::OnceLock;

use pcce::Decoder;

/// A parser to try.
#[derive(Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// Inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Gives an input to the parser, and panics if anything is wrong.
    pub check: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] =
    &[token::TARGET, dictionary::TARGET, filter::TARGET, core::TARGET, profile::TARGET];

/// A decoder for the test program and its library.
fn decoder() -> &'static Decoder {
    static DECODER: OnceLock<Decoder> = OnceLock::new();
    DECODER.get_or_init(|| Decoder::new(&[app::app(), app::lib()]).expect("they are dictionaries"))
}
