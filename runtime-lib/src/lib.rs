//! The runtime library that instrumented programs link (`libpcce_rt.a`, `libpcce_rt.so`).
//!
//! It holds the thread-local block that emitted code updates, and what reads it: context numbers, tokens and verify
//! mode. Its start-up code only looks whether a crash report is asked for. It keeps no registry of modules, and allocates
//! only for interned numbers and for the creation of threads, with `mmap`. Nothing in it panics or unwinds.
//!
//! The two profilers have constructors, which read the environment: `sample`, and `heap`, which is linked with
//! `--pcce-heap` only.
//!
//! As a dependency of the pass the crate is the module [`abi`] alone, as one of the decoder that and [`unwind`]; the
//! feature `freestanding` makes it the library.
//!
//! The public C API is described in `include/pcce.h`.

#![no_std]

#[cfg(test)]
extern crate std;

pub mod abi;
#[cfg(any(test, feature = "freestanding"))]
mod context;
#[cfg(any(test, feature = "freestanding"))]
mod counts;
#[cfg(any(test, feature = "freestanding"))]
mod crash;
#[cfg(any(test, feature = "freestanding"))]
mod depth;
#[cfg(any(test, feature = "freestanding"))]
mod digits;
#[cfg(any(test, feature = "freestanding"))]
mod fiber;
#[cfg(any(test, feature = "freestanding"))]
mod heap;
#[cfg(any(test, feature = "freestanding"))]
mod image;
#[cfg(any(test, feature = "freestanding"))]
mod intern;
#[cfg(any(test, feature = "freestanding"))]
mod memory;
#[cfg(any(test, feature = "freestanding"))]
mod offset;
#[cfg(any(test, feature = "freestanding"))]
mod own;
#[cfg(any(test, feature = "freestanding"))]
mod place;
#[cfg(any(test, feature = "freestanding"))]
mod profile;
#[cfg(any(test, feature = "freestanding"))]
mod sample;
#[cfg(any(test, feature = "freestanding"))]
mod signal;
#[cfg(any(test, feature = "freestanding"))]
mod state;
#[cfg(any(test, feature = "freestanding"))]
mod sys;
#[cfg(any(test, feature = "freestanding"))]
mod thread;
#[cfg(any(test, feature = "freestanding"))]
mod token;
#[cfg(any(test, feature = "unwind"))]
pub mod unwind;
#[cfg(any(test, feature = "freestanding"))]
mod verify;

#[cfg(feature = "freestanding")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the process by a signal, with no symbol of libc.
    unsafe { core::arch::asm!("ud2", options(noreturn, nomem, nostack)) }
}
