//! `pcce-ld`: the linker in front of the user's, which generates the code of what is linked.

use std::process::ExitCode;

use pcce_wrapper::install;

fn main() -> ExitCode {
    match pcce_wrapper::generate::Generator::new() {
        Ok(generator) => pcce_linker::main(&generator, &[install::llvm_bin(install::LLVM)]),
        Err(error) => {
            eprintln!("pcce-ld: error: cannot tell where this executable is: {error}");
            ExitCode::FAILURE
        }
    }
}
