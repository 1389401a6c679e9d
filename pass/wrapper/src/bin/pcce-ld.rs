//! `pcce-ld`: runs the user's linker, and generates the code of the modules that are linked.

use std::env;
use std::process::ExitCode;

use pcce_wrapper::generate::Generator;
use pcce_wrapper::{again, install};

fn main() -> ExitCode {
    match Generator::new() {
        Ok(generator) if env::args_os().nth(1).is_some_and(|word| word == again::FLAG) => {
            again::main(generator, env::args_os().skip(2))
        }
        Ok(generator) => pcce_linker::main(&generator, &[install::llvm_bin(pcce_options::llvm())]),
        Err(error) => {
            eprintln!("pcce-ld: error: cannot tell where this executable is: {error}");
            ExitCode::FAILURE
        }
    }
}
