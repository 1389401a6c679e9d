//! What an encoding of calls between images could bring (docs/images.md), from traces of real runs.
//!
//! A traced build says every call of a run, and its dictionaries say what the code does at each. [`program`] reads the
//! images, [`calls`] replays a trace as calls from functions to functions, [`graph`] makes the call graph of the whole
//! process from them, and [`compare`] replays the run once more and counts the pushes and the frames of every scheme.
//! [`adaptive`] encodes the graph while the run goes on, as dacce.txt does. [`loads`] changes the code of an image, to
//! count what it costs if its values come from a table.

pub mod adaptive;
pub mod calls;
pub mod compare;
pub mod graph;
pub mod loads;
pub mod program;
