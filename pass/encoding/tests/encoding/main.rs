//! Tests of the encoding through its public interface only.

mod cases;
mod checker;
mod paper;
mod program;
mod properties;
mod tables;
