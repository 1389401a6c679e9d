//! The evaluation: real programs from Debian's source packages, built plain and with the pass, run, and compared.
//!
//! Declared in `testsuite/evaluation`: [`declarations`] reads programs (one file each) and variants. [`build`] builds them,
//! [`inputs`] makes what they read, [`workload`], [`callgrind`], [`call_graph`] and [`verify`] look at them, [`hybrid`] at what
//! stack offsets would change, [`traces`] at what was recorded of calls, [`several_runs`] at traces from
//! several runs, [`measure`] are the steps, [`capture_cost`]
//! compares ways to capture, [`decode_speed`] times the decoder, [`statistics`], [`report`] and [`charts`] sum up beside what
//! the [`papers`] report, [`store`] keeps results, and [`data`] what the
//! documents say.

pub mod build;
pub mod call_graph;
pub mod callgrind;
pub mod capture_cost;
pub mod charts;
pub mod data;
pub mod declarations;
pub mod decode_speed;
pub mod hybrid;
pub mod inputs;
pub mod measure;
pub mod papers;
pub mod report;
pub mod several_runs;
pub mod statistics;
pub mod store;
pub mod traces;
pub mod verified_numbers;
pub mod verify;
pub mod workload;
