//! Programs of a few lines: what follows from their facts, and what is planned for them.

mod facts;
mod numbers;
mod plan;
mod states;
