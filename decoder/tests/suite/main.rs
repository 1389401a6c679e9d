//! The tests of `pcce`: one executable, whose tests run side by side.

mod cli;
mod common;
mod decode;
mod dictionaries;
mod filter;
mod folder;
mod golden;
mod hostile;
mod hostile_code;
mod hostile_core;
mod limits;
mod linked;
mod linked_cli;
mod points;
mod profile;
mod program;
mod store;
mod threads;
mod trace_cli;
mod trace_replay;
mod walks;
mod words;
