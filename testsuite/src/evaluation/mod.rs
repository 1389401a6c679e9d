//! The evaluation: real programs from Debian's source packages, built plain and with the pass, run, and compared.
//!
//! Declared in `testsuite/evaluation`: [`program`] reads programs (one file each) and variants. [`build`] builds them,
//! [`inputs`] makes what they read, [`run`], [`callgrind`], [`graph`] and [`verify`] look at them, [`hybrid`] at what
//! stack offsets would change, [`traces`] at what was recorded of calls, [`parts`] at traces from
//! several runs, [`measure`] are the steps, [`captures`]
//! compares ways to capture, [`decode`] times the decoder, [`statistics`], [`report`] and [`charts`] sum up beside what
//! the [`papers`] report, [`store`] keeps results, and [`data`] what the
//! documents say.

pub mod build;
pub mod callgrind;
pub mod captures;
pub mod charts;
pub mod data;
pub mod decode;
pub mod graph;
pub mod hybrid;
pub mod inputs;
pub mod measure;
pub mod numbers;
pub mod papers;
pub mod parts;
pub mod program;
pub mod report;
pub mod run;
pub mod statistics;
pub mod store;
pub mod traces;
pub mod verify;
