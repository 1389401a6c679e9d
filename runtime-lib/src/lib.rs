//! The runtime library that instrumented programs link (`libpcce_rt.a`, `libpcce_rt.so`).
//!
//! It holds the thread-local block that emitted code updates, and what reads it: context numbers
//! ([`context`]), tokens ([`token`]) and verify mode ([`verify`]). It has no start-up code, keeps no
//! registry of modules, and allocates only for interned numbers, with `mmap`. Nothing in it
//! panics or unwinds.
//!
//! The public C API is described in `include/pcce.h`.

#![no_std]

#[cfg(test)]
extern crate std;

pub mod abi;
mod context;
mod intern;
mod state;
mod token;
mod verify;

#[cfg(feature = "freestanding")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: abort() has no preconditions.
    unsafe { libc::abort() }
}
