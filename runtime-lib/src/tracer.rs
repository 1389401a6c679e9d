//! The runtime's calls of the tracer of calls, in programs that have it (`--pcce-trace`): its part of the C API, and
//! events that the tracer cannot see by itself. In other programs these functions do nothing.

use core::ffi::c_int;
use core::mem::transmute;

use pcce_system::weak_address;

use crate::abi::Link;
use crate::machine::interrupted_pc;
use crate::state::tls;

/// The tracer's function of this name and type, if there is one.
macro_rules! tracer {
    ($name:literal as $type:ty) => {{
        let address = weak_address!($name);
        // SAFETY: the tracer's function of this name has this type (`pcce_abi::exports`).
        (!address.is_null()).then(|| unsafe { transmute::<*const u8, $type>(address) })
    }};
}

/// A signal handler is going to be called, from an activation with a variable at `frame`. `context`: of the interrupted
/// code; null if it is unknown. True if [`leave_handler`] is to be called.
///
/// # Safety
/// The kernel's context, or null.
pub unsafe fn enter_handler(signal: c_int, context: *const libc::ucontext_t, frame: usize) -> bool {
    type Enter = unsafe extern "C" fn(c_int, usize, usize, usize, usize);
    let Some(enter) = tracer!("__pcce_trace_handler" as Enter) else { return false };
    let (mut pc, mut low, mut high) = (0, 0, 0);
    // SAFETY: by the contract.
    unsafe {
        if !context.is_null() {
            pc = interrupted_pc(context);
            let stack = &(*context).uc_stack;
            let start = stack.ss_sp.addr();
            if (start..start.saturating_add(stack.ss_size)).contains(&frame) {
                (low, high) = (start, start + stack.ss_size);
            }
        }
        enter(signal, pc, frame, low, high);
    }
    true
}

/// The handler has returned.
///
/// # Safety
/// Called after [`enter_handler`], with the same frame.
pub unsafe fn leave_handler(frame: usize) {
    if let Some(leave) = tracer!("__pcce_trace_handler_end" as unsafe extern "C" fn(usize)) {
        // SAFETY: by the contract.
        unsafe { leave(frame) };
    }
}

/// `longjmp` is going to an activation with the stack pointer `sp`. (The code of `setjmp` calls the tracer by itself.)
pub fn jump(sp: usize) {
    if let Some(jump) = tracer!("__pcce_trace_jump" as unsafe extern "C" fn(usize)) {
        // SAFETY: callable at any time.
        unsafe { jump(sp) };
    }
}

/// The number and the position of the thread's stream. 0 and 0 if there is none.
pub fn here() -> [u64; 2] {
    let mut place = [0; 2];
    if let Some(here) = tracer!("__pcce_trace_here" as unsafe extern "C" fn(*mut [u64; 2])) {
        // SAFETY: writes two words.
        unsafe { here(&raw mut place) };
    }
    place
}

/// The descriptor of the file that calls are recorded in; -1 if there is none.
pub fn file() -> c_int {
    // SAFETY: callable at any time.
    tracer!("__pcce_trace_file" as unsafe extern "C" fn() -> c_int).map_or(-1, |file| unsafe { file() })
}

/// The process may end now: the events that the calling thread has not written yet go into the file. `pc`: where a
/// signal has interrupted the thread.
pub fn write_last(pc: usize) {
    if let Some(last) = tracer!("__pcce_trace_last" as unsafe extern "C" fn(usize)) {
        // SAFETY: callable at any time.
        unsafe { last(pc) };
    }
}

/// The calling thread begins, and was created at this place.
pub fn begin_thread(place: [u64; 2]) {
    if let Some(begin) = tracer!("__pcce_trace_thread" as unsafe extern "C" fn(u64, u64)) {
        // SAFETY: the tracer's own numbers.
        unsafe { begin(place[0], place[1]) };
    }
}

/// The calling thread's activations are gone, and none has returned.
pub fn unwound() {
    if let Some(unwound) = tracer!("__pcce_trace_unwound" as unsafe extern "C" fn()) {
        // SAFETY: the activations of the thread are gone, as the tracer requires.
        unsafe { unwound() };
    }
}

/// Returns whether this thread, which has ended, was left in the middle of calls that have pushed.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_thread_is_left() -> bool {
    // SAFETY: this thread's block.
    unsafe { (*tls()).top != Link::NULL }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn pcce_trace_start() {
    record(true);
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn pcce_trace_stop() {
    record(false);
}

fn record(on: bool) {
    if let Some(record) = tracer!("__pcce_trace_record" as unsafe extern "C" fn(bool)) {
        // SAFETY: callable at any time.
        unsafe { record(on) };
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn pcce_trace_mark(value: u64) {
    if let Some(mark) = tracer!("__pcce_trace_mark" as unsafe extern "C" fn(u64)) {
        // SAFETY: callable at any time.
        unsafe { mark(value) };
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn pcce_trace_flush() {
    if let Some(sync) = tracer!("__pcce_trace_now" as unsafe extern "C" fn()) {
        // SAFETY: callable at any time.
        unsafe { sync() };
    }
}
