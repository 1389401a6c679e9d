//! The part of the system that the runtime library and the tracer of calls need: its calls, the images in memory, and
//! the files that they write. Nothing here allocates, takes a lock, panics or unwinds, since signal handlers call it.

#![no_std]

#[cfg(test)]
extern crate std;

use pcce_abi as abi;

pub mod early;
pub mod image;
pub mod machine;
pub mod maps;
#[cfg(any(test, feature = "freestanding"))]
mod memory;
pub mod output;
pub mod settled;
pub mod shared;
pub mod sys;

#[cfg(feature = "freestanding")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    machine::trap()
}
