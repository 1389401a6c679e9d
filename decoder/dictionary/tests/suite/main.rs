//! The tests of the dictionary: one executable, whose tests run side by side.

mod damaged;
mod golden;
mod relative;
