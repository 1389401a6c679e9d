//! Programs of a few lines: their derived facts, and their plans.

mod facts;
mod numbers;
mod plan;
mod states;
