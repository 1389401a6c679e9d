//! The tracer of calls (`libpcce_trace.a`, `libpcce_trace.so`), which programs that are built with `--pcce-trace` have
//! in addition to the runtime. `pcce_abi::trace` describes the format of its file.
//!
//! Each thread has a stream of its own, in chunks of a file that is mapped: written words are there, however the
//! process ends. The file is shared with forked children, and with other programs that are started with the same name
//! for it. Emitted code writes bits to the thread's block, and the stubs of [`machine`] move full words to the chunk;
//! everything else comes to [`events`]. Without a file the words go to a small area that is written again and again.
//!
//! Nothing here allocates other than with `mmap`, takes a lock while the program runs, panics or unwinds: signal
//! handlers may call this, and processes may die, at any instruction.

#![no_std]

#[cfg(test)]
extern crate std;

use pcce_abi as abi;
use pcce_system::{early, image, output, settled, shared, sys, weak_address};

mod apart;
mod area;
mod choice;
mod ends;
mod events;
mod file;
mod forks;
mod handlers;
mod images;
mod last;
mod machine;
mod parts;
mod process;
mod stacks;
mod stream;
mod toggle;
