//! The evaluation: real programs from Debian's source packages, built plain and with the pass, run, and compared.
//!
//! | modules | purpose |
//! |---|---|
//! | [`declarations`], [`inputs`], [`papers`] | programs, variants, inputs, and the papers' figures, from `testsuite/evaluation` |
//! | [`build`], [`workload`], [`measure`], [`store`] | builds, runs, the steps of a program, and their stored results |
//! | [`callgrind`], [`call_graph`], [`verify`], [`verified_numbers`] | executed calls, the static call graph, verify mode |
//! | [`hybrid`], [`capture_cost`], [`decode_speed`], [`traces`], [`several_runs`] | figures of one feature each |
//! | [`statistics`], [`report`], [`charts`], [`data`] | tables, charts and the documents |
//! | [`spec`] | tables of results of SPEC CPU 2017 |

pub mod build;
pub mod call_graph;
pub mod callgrind;
pub mod capture_cost;
pub mod charts;
pub mod data;
pub mod declarations;
pub mod decode_speed;
pub mod further;
pub mod hybrid;
pub mod inputs;
pub mod measure;
pub mod papers;
pub mod report;
pub mod several_runs;
pub mod spec;
pub mod statistics;
pub mod store;
pub mod traces;
pub mod verified_numbers;
pub mod verify;
pub mod workload;
