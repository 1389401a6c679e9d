//! How contexts and call graphs are shown.

pub mod graph;
pub mod render;
pub mod standing;
pub mod style;
