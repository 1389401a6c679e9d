//! The functions that emitted code calls, and those to which the stubs of [`machine`](crate::machine) jump.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use crate::abi::trace::{Block, Gap, Special, cache_index, special};
use crate::area::{self, Area, From, State, block};
use crate::ends::{self, Ends};
use crate::handlers;
use crate::machine::ENTRY_LEN;
use crate::stream::{self, Busy};
use crate::{choice, file, forks, images, process, stacks, toggle};
use pcce_system::machine::stack_pointer;

/// The area of the thread's stream, with a place for its words. `sp`: the stack pointer of emitted code. Null if there
/// is no memory.
///
/// # Safety
/// This thread's block.
pub unsafe fn ready(block: *mut Block, sp: usize) -> *mut Area {
    // SAFETY: by the contract.
    unsafe {
        handlers::leave_dead(block, sp);
        let mut area = area::of(block);
        if area.is_null() {
            area = process::begin_thread(block);
            if area.is_null() {
                (*block).pending = 1;
                return null_mut();
            }
        }
        let stream = &raw mut (*area).stream;
        forks::adopt(block, area);
        if (*stream).ends != Ends::Not {
            let _busy = Busy::new(block, area);
            ends::go_on(block, area);
        }
        if (*stream).state == State::New {
            let _busy = Busy::new(block, area);
            stream::begin(block, area);
        } else if (*stream).switches != file::switches() {
            let _busy = Busy::new(block, area);
            stream::switched(block, area);
        }
        if (*stream).stacks.may_be_left() {
            let _busy = Busy::new(block, area);
            stacks::leave_saved(block, area);
        }
        area
    }
}

/// Writes a special word, and those that follow it.
///
/// # Safety
/// This thread's block.
pub unsafe fn put(block: *mut Block, from: From, group: &[u64]) {
    // SAFETY: by the contract.
    unsafe {
        let area = ready(block, from.sp);
        if !area.is_null() {
            let _busy = Busy::new(block, area);
            (*area).stream.from = from;
            stream::put(block, area, group);
            (*area).stream.from = From::UNKNOWN;
        }
    }
}

/// Called when the pending bits are a word, and there is no room for it, or something else has changed. `pc`: the
/// address where emitted code goes on; `sp`: its stack pointer there.
pub unsafe extern "C" fn flush_slow(pc: usize, sp: usize) {
    let block = block();
    // SAFETY: this thread's block.
    unsafe {
        let area = ready(block, sp);
        if !area.is_null() {
            let _busy = Busy::new(block, area);
            (*area).stream.from = From { pc, sp, node: [0; 2] };
            // The context of a stream that goes on here says what the pending bits would say.
            if !stream::goes_on(block, area) {
                stream::flush(block, area);
            }
            (*area).stream.from = From::UNKNOWN;
        }
    }
}

/// Called when the pending bits are a word after the bit of a function that is left out, and has returned. No chunk can
/// begin at the code there. `sp`: as for [`flush_slow`].
pub unsafe extern "C" fn came_back_slow(_: usize, sp: usize) {
    let block = block();
    // SAFETY: this thread's block.
    unsafe {
        let area = ready(block, sp);
        if !area.is_null() {
            let _busy = Busy::new(block, area);
            stream::flush_here(block, area);
        }
    }
}

/// Called when the function that is entered is not in the cache, or there is no room for more. The address of the
/// function is [`ENTRY_LEN`] bytes before `return_address`.
pub unsafe extern "C" fn enter_slow(return_address: usize, sp: usize) {
    let block = block();
    let function = return_address - ENTRY_LEN as usize;
    // SAFETY: this thread's block.
    unsafe {
        let area = ready(block, sp);
        // The first event starts the tracer, which may leave the function out.
        if let Some(first) = choice::first_of(function) {
            // The stubs of all machines keep the place where they return to there.
            (sp as *mut usize).sub(1).write_volatile(first);
            return;
        }
        if area.is_null() {
            return;
        }
        let _busy = Busy::new(block, area);
        if (*area).stream.state == State::Recording {
            images::describe(function);
        }
        if (*area).stream.base == 0 {
            (*area).stream.base = sp;
        }
        stacks::entered(block, area);
        (*area).stream.from = From { pc: return_address, sp, node: [0; 2] };
        // The context of a stream that goes on here has the function.
        if !stream::goes_on(block, area) {
            // It goes into the cache of the chunk that the word is in.
            let cache = &(*area).fast.cache;
            cache[cache_index(function)].store(return_address, Ordering::Relaxed);
            stream::put(block, area, &[special(Special::Entered, function as u64)]);
        }
        (*area).stream.from = From::UNKNOWN;
    }
}

/// The area of the calling thread's stream, which has one.
///
/// # Safety
/// The thread has a stream.
pub unsafe fn here() -> *mut Area {
    // SAFETY: this thread's block.
    unsafe { ready(block(), stack_pointer()) }
}

/// Makes sure that the file, if there is one, has the image of a function.
pub fn describe(function: *const c_void) {
    if file::is_on(file::switches()) {
        images::describe(function.addr());
    }
}

/// See [`functions::LANDED`](crate::abi::trace::functions::LANDED). `pc` and `sp`: as for [`flush_slow`].
pub unsafe extern "C" fn landed(function: *const c_void, node: u32, pc: usize, sp: usize) {
    describe(function);
    let (function, node) = (function.addr() as u64, u64::from(node));
    let from = From { pc, sp, node: [function, node] };
    // SAFETY: this thread's block.
    unsafe {
        if lose_cancelled_change(block()) {
            // The progress of an interrupted entry is unknown.
            put(block(), from, &[special(Special::Gap, Gap::Interrupted as u64)]);
        }
        put(block(), from, &[special(Special::Landed, node), function]);
    }
}

/// Returns whether the thread may be cancelled at any instruction. Then a cancellation, which has led to a cleanup
/// here, may have ended a change of the stream in the middle, and the stream is given up.
///
/// # Safety
/// This thread's block. No change of the stream goes on.
unsafe fn lose_cancelled_change(block: *mut Block) -> bool {
    // SAFETY: by the contract.
    unsafe {
        let area = area::of(block);
        if area.is_null() || !(*outermost(block)).stream.cancelled_anywhere {
            return false;
        }
        if (*area).stream.outer.is_null() {
            stream::lose_if_changing(block, area);
        }
        true
    }
}

/// The area of the thread's own stream.
///
/// # Safety
/// This thread's block, which has an area.
unsafe fn outermost(block: *mut Block) -> *mut Area {
    // SAFETY: by the contract; areas of a thread lead to each other.
    unsafe {
        let mut area = area::of(block);
        while !(*area).stream.outer.is_null() {
            area = (*area).stream.outer;
        }
        area
    }
}

/// See [`functions::CANCEL_TYPE`](crate::abi::trace::functions::CANCEL_TYPE). The tracer cannot ask for the type later,
/// when it matters: while a function waits, some releases of glibc set another type.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_trace_cancel_type() {
    unsafe extern "C" {
        fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
    }
    const DEFERRED: c_int = 0;
    let mut kind = DEFERRED;
    // SAFETY: this thread's block; the type is restored.
    unsafe {
        pthread_setcanceltype(DEFERRED, &raw mut kind);
        if !area::of(block()).is_null() {
            (*outermost(block())).stream.cancelled_anywhere = kind != DEFERRED;
        }
        pthread_setcanceltype(kind, &raw mut kind);
    }
}

/// See [`functions::RETURNED`](crate::abi::trace::functions::RETURNED). `pc` and `sp`: as for [`flush_slow`].
pub unsafe extern "C" fn returned(
    number: *mut u64,
    function: *const c_void,
    node: u32,
    pc: usize,
    sp: usize,
) {
    let block = block();
    // SAFETY: this thread's block; `number` is the activation's.
    unsafe {
        if function.is_null() {
            let is_first = number.read_volatile() == 0;
            number.write_volatile(1);
            return put_jump(if is_first { Special::Kept } else { Special::Jumped }, sp);
        }
        if number.read_volatile() == 0 {
            (*block).jumps += 1;
            number.write_volatile((*block).jumps);
            return;
        }
        lose_cancelled_change(block);
        describe(function);
        let (function, node) = (function.addr() as u64, u64::from(node));
        let from = From { pc, sp, node: [function, node] };
        put(block, from, &[special(Special::Again, node), function, number.read_volatile()]);
    }
}

/// The program calls `setjmp`, and its caller's stack pointer is `sp`; for the runtime.
///
/// # Safety
/// Called by the runtime's `setjmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_kept(sp: usize) {
    // SAFETY: by the contract.
    unsafe { put_jump(Special::Kept, sp) };
}

/// The program calls `longjmp`, which sets the stack pointer to `sp`; for the runtime.
///
/// # Safety
/// Called by the runtime's `longjmp`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_jump(sp: usize) {
    // SAFETY: by the contract.
    unsafe { put_jump(Special::Jumped, sp) };
}

unsafe fn put_jump(kind: Special, sp: usize) {
    let block = block();
    // SAFETY: this thread's block.
    unsafe {
        if area::of(block).is_null() {
            return;
        }
        let area = ready(block, sp);
        // The place matters only if a function was entered.
        if !area.is_null() && (*area).stream.base != 0 {
            let _busy = Busy::new(block, area);
            if kind == Special::Jumped {
                (*area).stream.jumped = sp;
            }
            let below = (*area).stream.base.wrapping_sub(sp) as u64;
            stream::put_here(block, area, special(kind, below));
        }
    }
}

/// Calls `write` for the stream of the thread as it is now, if there is one.
fn write_now(write: impl FnOnce(*mut Block, *mut Area)) {
    let block = block();
    // SAFETY: this thread's block.
    unsafe {
        if area::of(block).is_null() {
            return;
        }
        let area = ready(block, stack_pointer());
        file::announce_exec();
        let _busy = Busy::new(block, area);
        write(block, area);
    }
}

/// See [`functions::SYNC`](crate::abi::trace::functions::SYNC).
///
/// # Safety
/// Called by emitted code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_sync() {
    // SAFETY: this thread's block, and its area.
    write_now(|block, area| unsafe { stream::sync(block, area) });
}

/// See [`functions::CAUGHT`](crate::abi::trace::functions::CAUGHT).
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_trace_caught() {
    let gap = special(Special::Gap, Gap::Caught as u64);
    // SAFETY: this thread's block, and its area.
    write_now(|block, area| unsafe { stream::put_here(block, area, gap) });
}

/// Writes the pending bits, for the C API. This does not end the stream: if the thread is killed later, the rest is not
/// known.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_trace_now() {
    // SAFETY: this thread's block, and its area.
    write_now(|block, area| unsafe { stream::put_here(block, area, special(Special::Flushed, 0)) });
}

/// Starts recording, or stops it; for the C API.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_trace_record(on: bool) {
    toggle::turn(on);
    let block = block();
    // SAFETY: this thread's block.
    unsafe {
        if !on && !area::of(block).is_null() {
            ready(block, stack_pointer());
        }
    }
}

/// Writes a mark; for the C API.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_trace_mark(value: u64) {
    // SAFETY: this thread's block.
    unsafe {
        let from = From { sp: stack_pointer(), ..From::UNKNOWN };
        let block = block();
        let area = ready(block, from.sp);
        if !area.is_null() {
            // After a start of recording, the mark is in the trace, although the active calls are not known here.
            let _busy = Busy::new(block, area);
            stream::goes_on(block, area);
        }
        put(block, from, &[special(Special::Mark, 0), value]);
    }
}
