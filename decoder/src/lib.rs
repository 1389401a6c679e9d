//! Reads context tokens back.
pub mod token;
