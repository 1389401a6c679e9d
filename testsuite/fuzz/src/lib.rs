//! What must hold for any input of each parser: no panic, no hang, and nothing is accepted that says something else
//! than its bytes do.
//!
//! A target is a module with a [`Target`]: it gives inputs to start from, and a check that panics when something is
//! wrong. The same checks run in the tests, over some thousand mutations, and under libFuzzer (`make fuzz N=1000000`),
//! which looks for inputs that reach new code. To add a target, write its module and list it in [`TARGETS`].

#[path = "../../../decoder/tests/common/mod.rs"]
mod app;
mod calls;
#[path = "../../../decoder/tests/common/code.rs"]
mod code;
mod core;
mod dictionary;
mod edits;
#[path = "../../../decoder/tests/common/elf.rs"]
mod elf;
mod filter;
#[path = "../../../decoder/tests/common/linked.rs"]
mod linked;
mod machine;
mod numbers;
mod oracle;
mod profile;
#[path = "../../../decoder/tests/common/simulated.rs"]
mod simulated;
#[path = "../../../decoder/tests/common/stream.rs"]
mod stream;
mod token;
mod trace;
#[path = "../../../decoder/tests/common/world.rs"]
mod world;

use std::sync::OnceLock;

use pcce::Decoder;
use pcce_dictionary::code::to_text;

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

/// After so many inputs the fuzzer says that it goes on.
pub const PROGRESS: u64 = 500;

/// All targets.
pub const TARGETS: &[Target] = &[
    token::TARGET,
    dictionary::TARGET,
    machine::TARGET,
    filter::TARGET,
    core::TARGET,
    profile::TARGET,
    calls::TARGET,
    numbers::TARGET,
    trace::TARGET,
];

/// A decoder for the test program, with its machine code, and its library.
fn decoder() -> &'static Decoder {
    static DECODER: OnceLock<Decoder> = OnceLock::new();
    DECODER.get_or_init(|| {
        let mut program = app::app();
        program.code = Some(to_text(&code::code(&program)));
        Decoder::new(&[program, app::lib()]).expect("they are dictionaries")
    })
}
