//! From a program's machine code to what contexts at any instruction need: which function an address is in,
//! its source lines, and what the function has done to the id there.

mod build;
mod dwarf;
mod effects;
pub(crate) mod elf;
mod findings;
mod flow;
mod function;
mod image;
mod inlined;
mod lines;
pub(crate) mod machine;
mod ranges;
mod split_functions;
mod state;
pub(crate) mod table;
mod unwind;

pub(crate) use self::build::build;
pub(crate) use self::inlined::inlined_into;
