//! Calling contexts: from the plan, which `pcce-model` makes, to the code.

pub mod count;
pub mod emit;
mod found;
pub mod frames;
pub mod rewrite;
mod sequences;
mod values;
mod verify;
