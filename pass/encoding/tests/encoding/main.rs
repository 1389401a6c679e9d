//! Tests of the encoding through its public interface only.

mod cases;
mod checker;
mod hybrid;
mod paper;
mod program;
mod properties;
mod tables;
