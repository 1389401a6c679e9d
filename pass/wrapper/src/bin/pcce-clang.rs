//! `pcce-clang`: clang for C, with calling context encoding.

use pcce_wrapper::Language;
use std::process::ExitCode;

fn main() -> ExitCode {
    pcce_wrapper::main(Language::C)
}
