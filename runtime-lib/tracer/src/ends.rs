//! The end of the process, in handlers that `exit` and `quick_exit` call last.
//!
//! The last call cannot be known: handlers that destructors register, and other handlers, are called after the tracer's
//! own. So a stream that has ended only rests. Code that still runs is entered from outside, where it finds no cache,
//! or by a jump; both lead to the tracer. Then the stream goes on, without an end, and the tracer's handler is
//! registered again: it is called next, after the running one.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::abi::trace::{Block, OPEN};
use crate::area::{self, Area, State, Stream, block};
use crate::forks::is_foreign;
use crate::parts::{self, Part};
use crate::stream::{self, Busy};
use crate::{events, file, handlers, last, stacks, sys};

/// The state of a stream's end: the function that has caused it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Ends {
    /// The stream has not ended.
    Not = 0,
    /// `exit`.
    Exit = 1,
    /// `quick_exit`.
    QuickExit = 2,
}

/// The destructor. The destructors of the libraries follow, and then handlers that are registered while `exit` runs.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_trace_end() {
    register(Ends::Exit);
}

/// Registers the handler of the end again, for the same function. If all handlers have run, it is not called.
pub fn register(ends: Ends) {
    // SAFETY: plain calls.
    unsafe {
        match ends {
            Ends::Not => 0,
            Ends::Exit => sys::at_exit(end_of_process, null_mut(), null_mut()),
            Ends::QuickExit => sys::at_quick_exit(end_of_quick_process, null_mut()),
        };
    }
}

extern "C" fn end_of_process(_: *mut c_void) {
    end_by(Ends::Exit);
}

extern "C" fn end_of_quick_process(_: *mut c_void) {
    end_by(Ends::QuickExit);
}

fn end_by(ends: Ends) {
    let block = block();
    // SAFETY: this thread's block, and its area.
    unsafe {
        let area = area::of(block);
        // Nothing to write if no event has come since the last time.
        if !area.is_null() && (*area).stream.ends == Ends::Not {
            let area = events::here();
            end_handlers(area);
            handlers::end_outer(area);
            let _busy = Busy::new(block, area);
            rest(block, area, ends);
        }
    }
    last::of_others();
}

/// Writes that the stream has ended, and gives back the rest of its chunk.
///
/// # Safety
/// The area is that of the block's stream.
pub unsafe fn rest(block: *mut Block, area: *mut Area, ends: Ends) {
    // SAFETY: by the contract.
    unsafe {
        let stream = &raw mut (*area).stream;
        if ends == Ends::Not || (*stream).state != State::Recording {
            return;
        }
        stream::sync(block, area);
        if (*stream).state == State::Recording {
            if Part::wanted().is_none() {
                stream::give_back_behind(block, stream);
            }
            (*stream).ends = ends;
            (*area).fast.limit.store(0, Ordering::Relaxed);
            stacks::set_trap(block);
        }
    }
}

/// Continues a stream that rests.
///
/// # Safety
/// The area is that of the block's stream, which rests.
pub unsafe fn go_on(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        let stream = &raw mut (*area).stream;
        let ends = core::mem::replace(&mut (*stream).ends, Ends::Not);
        take_back(stream);
        if Part::wanted().is_some() || file::take_again((*stream).offset, (*stream).size as u64) {
            stream::rearm(block, area);
            stacks::keep_trap(block, area);
        } else {
            sys::unmap((*stream).chunk.cast(), (*stream).size);
            (*stream).chunk = null_mut();
            (*stream).switches = file::switches();
            stream::idle(block, area);
        }
        register(ends);
    }
}

/// Takes back the end of a stream, which has a chunk.
unsafe fn take_back(stream: *mut Stream) {
    // SAFETY: by the caller: the chunk is mapped.
    unsafe {
        parts::has_no_end(stream);
        (&raw mut (*(*stream).chunk).end).write_volatile(OPEN);
    }
}

/// See [`functions::GOES_ON`](crate::abi::trace::functions::GOES_ON).
///
/// # Safety
/// Called by emitted code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_goes_on() {
    // SAFETY: this thread's block, and its area.
    unsafe {
        if !area::of(block()).is_null() {
            let area = events::here();
            if !area.is_null() && (*area).stream.state == State::Recording {
                take_back(&raw mut (*area).stream);
            }
        }
    }
}

/// Ends the streams of the handlers that have interrupted the stream of this area, so that a part describes their last
/// chunks, too. Handlers that interrupt meanwhile find none of them.
unsafe fn end_handlers(area: *mut Area) {
    // SAFETY: by the caller: this thread's area, and with it those of its handlers.
    unsafe {
        // Handlers that come later have streams of their own.
        let slot: &AtomicPtr<Area> = &(*area).stream.inner;
        let mut inner = slot.swap(null_mut(), Ordering::AcqRel);
        while !inner.is_null() {
            if !is_foreign(inner) {
                stream::end(&raw mut (*inner).stream.kept, inner);
            }
            inner = (*inner).stream.inner.load(Ordering::Acquire);
        }
    }
}
