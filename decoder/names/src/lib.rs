//! Names of functions, as linkers know them and as people write them.

#![forbid(unsafe_code)]

mod constraints;
mod demangle;
mod rewrite;
mod short;
mod wanted;
mod written;

pub use demangle::demangle;
pub use short::{bare, short};
pub use wanted::{Wanted, forms, hint, plain, without_type};
pub use written::written;
