//! Views of a trace's events: lists, reports, comparisons, and exports for other programs.

pub mod align;
pub mod check;
pub mod context;
pub mod coverage;
pub mod diff;
pub mod export;
pub mod find;
pub mod named;
pub mod report;
pub mod selection;
pub mod show;
pub mod spans;
pub mod stats;
