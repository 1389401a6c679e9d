//! Alternate stacks, on which threads handle signals even if their own stack is full.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::sys;
use pcce_system::machine::{LARGEST_PAGE, PAGE_SIZE};
use pcce_system::settled::{SIGNAL_FRAME, auxiliary};

/// Size of an alternate stack, without the kernel's own frame.
pub const STACK: usize = 1 << 16;

/// True if threads need alternate stacks, since crashes are reported.
pub static NEEDED: AtomicBool = AtomicBool::new(false);

/// Memory for an alternate stack, with an inaccessible page below it. Null if there is no memory.
pub fn new_stack() -> *mut c_void {
    let size = stack_size() + LARGEST_PAGE;
    let stack = sys::map(size, libc::MAP_NORESERVE);
    if !stack.is_null() {
        let arguments = [stack as usize, LARGEST_PAGE, libc::PROT_NONE as usize, 0, 0, 0];
        // SAFETY: the first page of the new mapping.
        unsafe { sys::call(libc::SYS_mprotect, arguments) };
    }
    stack
}

/// Pages for the kernel's frame and the beginning of the handler.
const TOUCHED: usize = 3;

fn stack_size() -> usize {
    // The kernel's own frame needs further room.
    (STACK + auxiliary(SIGNAL_FRAME)).next_multiple_of(LARGEST_PAGE)
}

/// Has signals handled on this stack from now on. False if the stack is null, or the kernel refuses.
///
/// # Safety
/// A stack of [`new_stack`], or null.
pub unsafe fn use_stack(stack: *mut c_void) -> bool {
    if stack.is_null() {
        return false;
    }
    // SAFETY: by the contract.
    unsafe {
        // Touches the memory where the handler begins. The kernel removes the handler of `SIGABRT` when it calls it.
        // Until the handler is installed again, another thread's `SIGABRT` would end the process: no page fault should
        // lengthen that time.
        let end = stack.cast::<u8>().add(LARGEST_PAGE + stack_size());
        for page in 1..=TOUCHED {
            end.sub(page * PAGE_SIZE).write_volatile(0);
        }
        let stack = libc::stack_t { ss_sp: stack.add(LARGEST_PAGE), ss_flags: 0, ss_size: stack_size() };
        sys::set_alternate_stack(&stack)
    }
}

/// An alternate stack for a new thread, if crashes are reported; null if not.
pub fn begin_thread() -> *mut c_void {
    if !NEEDED.load(Ordering::Acquire) {
        return null_mut();
    }
    let stack = new_stack();
    // SAFETY: just made.
    unsafe { use_stack(stack) };
    stack
}

/// Gives the alternate stack of an ending thread back.
///
/// # Safety
/// `stack` is what [`begin_thread`] gave in this thread.
pub unsafe fn end_thread(stack: *mut c_void) {
    if stack.is_null() {
        return;
    }
    let Some(current) = sys::alternate_stack() else { return };
    // SAFETY: by the contract; the program may have another alternate stack meanwhile.
    unsafe {
        if current.ss_sp == stack.add(LARGEST_PAGE) {
            if current.ss_flags & libc::SS_ONSTACK != 0 {
                return;
            }
            let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            if !sys::set_alternate_stack(&none) {
                return;
            }
        }
        sys::unmap(stack, stack_size() + LARGEST_PAGE);
    }
}
