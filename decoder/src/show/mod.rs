//! Contexts and call graphs as text.

pub mod folding;
pub mod graph;
pub mod render;
pub mod standing;
pub mod style;
