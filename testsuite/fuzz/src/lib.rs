//! Properties of each parser for any input: no panic, no hang, and nothing is accepted with another meaning than that
//! of its bytes.
//!
//! A target is a module with a [`Target`]: it gives inputs to start from, and a check that panics when something is
//! wrong. The same checks run in the tests, over some thousand mutations, and under libFuzzer (`make fuzz N=1000000`),
//! which looks for inputs that reach new code. To add a target, write its module and list it in [`TARGETS`].

mod call_profiles;
#[path = "../../../decoder/tests/suite/common/mod.rs"]
mod common;
mod core_file;
mod dictionary;
mod edits;
mod filter;
mod machine;
mod machine_code;
mod number_files;
mod oracle;
mod profile;
mod token;
mod trace;

use std::sync::OnceLock;

use pcce::Decoder;
use pcce_dictionary::code::to_text;

#[derive(Debug)]
pub struct Target {
    pub name: &'static str,
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Gives an input to the parser, and panics if anything is wrong.
    pub check: fn(&[u8]),
}

/// The fuzzer reports progress after this many inputs.
pub const PROGRESS: u64 = 500;

pub const TARGETS: &[Target] = &[
    token::TARGET,
    dictionary::TARGET,
    machine_code::TARGET,
    filter::TARGET,
    core_file::TARGET,
    profile::TARGET,
    call_profiles::TARGET,
    number_files::TARGET,
    trace::TARGET,
];

/// A decoder for the test program, with its machine code, and its library.
fn decoder() -> &'static Decoder {
    static DECODER: OnceLock<Decoder> = OnceLock::new();
    DECODER.get_or_init(|| {
        let mut program = common::app();
        program.code = Some(to_text(&common::code::code(&program)));
        Decoder::new(&[program, common::lib()]).expect("they are dictionaries")
    })
}
