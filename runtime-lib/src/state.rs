//! The thread-local block: its definition and the access to it.
use pcce_system::thread_local_block;

use crate::abi::{Link, Tls};

/// The calling thread's block.
#[inline(always)]
pub fn tls() -> *mut Tls {
    thread_local_block!("__pcce_tls")
}

/// Every instrumented object refers to this symbol: an object of another ABI version does not link.
#[unsafe(no_mangle)]
pub static __pcce_abi_v9: u8 = crate::abi::VERSION as u8;

/// The calling thread's id, including the base from which it counts, and its innermost pushed frame.
#[inline(always)]
pub fn current() -> (u64, Link) {
    // SAFETY: this thread's block.
    unsafe { read(tls()) }
}

/// [`current`], read from the thread's block.
///
/// # Safety
/// The calling thread's block.
#[inline(always)]
pub unsafe fn read(block: *const Tls) -> (u64, Link) {
    // SAFETY: the block belongs to this thread and lives as long as it. Volatile, since emitted code
    // of the same thread wrote it.
    unsafe { ((&raw const (*block).id).read_volatile(), (&raw const (*block).top).read_volatile()) }
}
