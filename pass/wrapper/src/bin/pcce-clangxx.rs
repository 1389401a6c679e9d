//! `pcce-clang++`: clang for C++, with calling context encoding. Built as
//! `pcce-clangxx`, since cargo takes no `+` in an executable's name.

use pcce_wrapper::Language;
use std::process::ExitCode;

fn main() -> ExitCode {
    pcce_wrapper::main(Language::Cxx)
}
