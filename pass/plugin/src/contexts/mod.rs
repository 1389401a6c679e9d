//! Calling contexts: from the facts and the encoding to the code.
//!
//! What is planned is pure: push thunks ([`thunks`]), additions that are left out ([`hybrid`]), what is done at each
//! call and the dictionary ([`plan`]), where frames begin ([`begins`]). Then the code is changed ([`rewrite`]).

mod begins;
pub mod count;
pub mod emit;
pub mod frames;
pub mod hybrid;
pub mod plan;
pub mod rewrite;
mod sequences;
#[cfg(test)]
mod tests;
pub mod thunks;
mod verify;
