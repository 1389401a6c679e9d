//! Calling contexts: carries out the plan that `pcce-model` makes.

pub mod count;
pub mod emit;
mod found;
pub mod frame_offsets;
pub mod rewrite;
mod sequences;
mod values;
mod verify;
