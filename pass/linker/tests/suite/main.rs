//! The tests of `pcce-ld`: one executable, whose tests run side by side.

mod links;
mod partial;
mod project;
mod refusals;
mod ways;
