//! The test suite: end-to-end tests with the real clang, the real linker and real programs.

pub mod real;
