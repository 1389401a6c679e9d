//! The runtime library that instrumented programs link (`libpcce_rt.a`, `libpcce_rt.so`).
//!
//! It holds the thread-local block that emitted code updates, and its readers: context numbers, tokens and verify mode.
//! Its start-up code only checks whether a crash report is asked for. It keeps no registry of modules, and allocates
//! only for interned numbers and for the creation of threads, with `mmap`. Nothing in it panics or unwinds.
//!
//! The two profilers have constructors, which read the environment: `sample`, and `heap`, which is linked with
//! `--pcce-heap` only. `numbers`, whose file makes interned numbers decodable, has one, too.
//!
//! The runtime shares the crate `pcce-abi` with the pass and the decoder, and `pcce-system` with the tracer of calls.
//!
//! The public C API is described in `include/pcce.h`.

#![no_std]

#[cfg(test)]
extern crate std;

use pcce_abi as abi;
use pcce_abi::machine::Native;
use pcce_abi::unwind;
use pcce_system::{image, output, sys};

mod alternate;
mod chains;
mod context;
mod counts;
mod crash;
mod fault;
mod fiber;
mod heap;
mod intern;
mod jump;
mod machine;
mod numbers;
mod offset;
mod own;
mod place;
mod profile;
mod runtimes;
mod sample;
mod sections;
mod shadow;
mod signal;
mod state;
mod task;
mod thread;
mod token;
mod tracer;
mod verify;
mod when;

/// The registers of this machine.
type Registers = unwind::Registers<Native>;
