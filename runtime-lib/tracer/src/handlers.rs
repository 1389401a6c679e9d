//! Signal handlers: each level of them has a stream of its own, since a handler may interrupt any instruction.
//!
//! The runtime's trampoline, which calls the handlers that instrumented code installs, also calls
//! [`__pcce_trace_handler`] and [`__pcce_trace_handler_end`]. The block of the interrupted stream is put aside, and
//! comes back as it was. Other handlers may interrupt this, too: they find the level in [`Block::stream`], which is
//! changed before the rest of the block is replaced, and after it has come back. In between, the block is not the
//! level's ([`AWAY`]): a handler that interrupts there does not touch the block that is kept for the level.
//!
//! A handler that is left by a jump has no end. The next call of the tracer sees that by the stack pointer
//! ([`leave_dead`]).

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering, compiler_fence};

use crate::abi::trace::{Block, Gap, Special, special};
use crate::area::{self, Area, From, State, block};
use crate::events;
use crate::forks;
use crate::last;
use crate::machine::stored;
use crate::stream::{self, Busy};

/// [`Stream::busy`](crate::area::Stream::busy) while the block is not, or not wholly, the stream's.
const AWAY: u64 = u64::MAX;

/// Before a handler runs. `pc`: the interrupted instruction. `frame`: a place on the stack in the activation that calls
/// the handler. `low` and `high`: the alternate stack that this is on, or 0.
///
/// # Safety
/// Called by the runtime's trampoline.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_handler(
    signal: c_int,
    pc: usize,
    frame: usize,
    low: usize,
    high: usize,
) {
    let block = block();
    // SAFETY: this thread's block, and the areas of its streams.
    unsafe {
        let Some(outer) = area(block, frame) else { return };
        // Its position in the process's parent is no longer valid.
        (*outer).stream.fork.is_known &= forks::begin_at(block, outer, pc);
        let busy = (*outer).stream.busy.load(Ordering::Acquire);
        let found = match busy {
            _ if (*outer).stream.state != State::Recording || forks::is_foreign(outer) => None,
            AWAY => None,
            0 if stored(pc) => Some(stream::here(block, outer) & !0xff),
            0 => Some(stream::here(block, outer)),
            before => Some(before - 1),
        };
        let number = if found.is_some() { (*outer).stream.number } else { 0 };
        let Some(inner) = inner(outer) else { return };
        if stored(pc) {
            // The interrupted instruction will do this again. A handler that interrupts here must find the same.
            (&raw mut (*block).pending).write_volatile(1);
        }
        let as_found = &raw mut (*inner).stream.found;
        copy(block, as_found);
        if busy != AWAY {
            // Else the kept block is the stream's, and the thread's block is not, or not wholly.
            copy(as_found, &raw mut (*outer).stream.kept);
        }
        (*inner).stream.busy.store(AWAY, Ordering::Release);
        set_stream(block, inner);
        let stream = &raw mut (*inner).stream;
        (*stream).frame = frame;
        (*stream).interrupted = pc;
        (*stream).jumped = 0;
        (*stream).alternate = [low, high];
        if forks::is_foreign(inner) || forks::is_orphan(stream) {
            // The stream has not begun in this process.
            stream::lose(&raw mut (*stream).kept, inner);
            (*stream).busy.store(AWAY, Ordering::Release);
            (*stream).begin = 0;
            (*stream).parent = number;
            (*stream).parent_position = found.unwrap_or(0);
            (*stream).kept.cache = (&raw mut (*inner).fast.cache).cast();
            // Its events in a parent are in another stream.
            ((*stream).kept.events, (*stream).kept.hash, (*stream).kept.jumps) = (0, 0, 0);
        }
        copy_but_stream(&raw const (*stream).kept, block);
        (*stream).busy.store(0, Ordering::Release);
        let group = [special(Special::Handler, signal as u64), number, found.unwrap_or(0)];
        events::put(block, From { sp: frame - 1, ..From::UNKNOWN }, &group);
    }
}

/// After the handler has returned.
///
/// # Safety
/// Called by the runtime's trampoline, with the same frame.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_handler_end(frame: usize) {
    let block = block();
    // SAFETY: this thread's block, and the areas of its streams.
    unsafe {
        leave_dead(block, frame - 1);
        let area = area::of(block);
        if !area.is_null() && (*area).stream.frame == frame {
            let at = (*area).stream.interrupted;
            leave(block, area, special(Special::HandlerEnd, 0));
            forks::begin_at(block, area::of(block), at);
        }
    }
}

/// The area of the interrupted stream.
unsafe fn area(block: *mut Block, frame: usize) -> Option<*mut Area> {
    // SAFETY: by the caller.
    unsafe {
        leave_dead(block, frame - 1);
        let area = area::of(block);
        let area = if area.is_null() { crate::process::begin_thread(block) } else { area };
        (!area.is_null()).then_some(area)
    }
}

/// The area of the next level.
unsafe fn inner(outer: *mut Area) -> Option<*mut Area> {
    // SAFETY: by the caller: this thread's. A handler that interrupts here may be first.
    unsafe {
        let slot: &AtomicPtr<Area> = &(*outer).stream.inner;
        let there = slot.load(Ordering::Acquire);
        if !there.is_null() {
            return Some(there);
        }
        let new = area::new();
        if new.is_null() {
            return None;
        }
        (*new).stream.level = (*outer).stream.level + 1;
        (*new).stream.outer = outer;
        match slot.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(new),
            Err(theirs) => {
                area::give_back(new);
                Some(theirs)
            }
        }
    }
}

/// The stream of a handler ends for now, with a word, and the interrupted one comes back.
unsafe fn leave(block: *mut Block, area: *mut Area, word: u64) {
    // SAFETY: by the caller: the block's area, of a level from 1 on.
    unsafe {
        if (*area).stream.state != State::New {
            let busy = Busy::new(block, area);
            stream::put(block, area, &[word]);
            // The mark stays until the block is away: the loss by a jump in between is reported once.
            core::mem::forget(busy);
        }
        (*area).stream.busy.store(AWAY, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        copy(block, &raw mut (*area).stream.kept);
        come_back(block, area);
    }
}

/// The interrupted stream of the level below comes back.
unsafe fn come_back(block: *mut Block, area: *mut Area) {
    // SAFETY: by the caller: the block's area, of a level from 1 on, which is [`AWAY`].
    unsafe {
        let stream = &raw mut (*area).stream;
        (*stream).frame = 0;
        let outer = (*stream).outer;
        let is_away = (*outer).stream.busy.load(Ordering::Relaxed) == AWAY;
        let back = if is_away { &raw const (*stream).found } else { &raw const (*outer).stream.kept };
        copy_but_stream(back, block);
        set_stream(block, outer);
    }
}

/// A handler's activation is gone, or will not be returned to.
unsafe fn leave_for_good(block: *mut Block, area: *mut Area) {
    // SAFETY: by the caller: the block's area, of a level from 1 on.
    unsafe {
        let interrupted = (*area).stream.interrupted;
        leave(block, area, special(Special::Gap, Gap::Left as u64));
        // Bits that were being appended there are lost.
        if (*area::of(block)).stream.busy.load(Ordering::Relaxed) == 0 {
            (*block).pending = last::settled(block, interrupted).unwrap_or(1);
        }
        let mut outer = area::of(block);
        while (*outer).stream.busy.load(Ordering::Relaxed) == AWAY {
            lose_away(block, outer);
            outer = area::of(block);
        }
        if (*outer).stream.busy.load(Ordering::Relaxed) != 0 {
            // The handler had interrupted a change of the stream.
            stream::lose(block, outer);
        }
        // The thread goes on elsewhere, and no word says how far the stream had come.
        let _busy = Busy::new(block, outer);
        stream::put(block, outer, &[special(Special::Gap, Gap::Interrupted as u64)]);
        let jumped = core::mem::take(&mut (*area).stream.jumped);
        if jumped != 0 {
            (*outer).stream.jumped = jumped;
            let below = (*outer).stream.base.wrapping_sub(jumped) as u64;
            stream::put(block, outer, &[special(Special::Jumped, below)]);
        }
    }
}

/// A handler's stream was interrupted where it began or ended, and will not go on with that.
unsafe fn lose_away(block: *mut Block, area: *mut Area) {
    // SAFETY: by the caller: the block's area, of a level from 1 on, which is [`AWAY`].
    unsafe {
        stream::lose(&raw mut (*area).stream.kept, area);
        (*area).stream.busy.store(AWAY, Ordering::Relaxed);
        come_back(block, area);
    }
}

/// Leaves the handlers whose activations are gone, since they were left by a jump. `sp`: the stack pointer of running
/// code, or a little less.
///
/// # Safety
/// This thread's block.
pub unsafe fn leave_dead(block: *mut Block, sp: usize) {
    // SAFETY: by the contract.
    unsafe {
        loop {
            let area = area::of(block);
            if area.is_null() || (*area).stream.frame == 0 {
                return;
            }
            if (*area).stream.busy.load(Ordering::Relaxed) == AWAY {
                // This has interrupted the beginning or the end of a handler's stream, which will go on.
                return;
            }
            let [low, high] = (*area).stream.alternate;
            let is_off_stack = high != 0 && !(low..high).contains(&sp);
            if !is_off_stack && sp <= (*area).stream.frame {
                return;
            }
            leave_for_good(block, area);
        }
    }
}

/// Gives up the streams of handlers, which go to another stack and may come back, or are gone: the stream of the thread
/// itself goes on. Returns its area.
///
/// # Safety
/// This thread's block, and its area.
pub unsafe fn abandon(block: *mut Block, mut area: *mut Area) -> *mut Area {
    // SAFETY: by the contract.
    unsafe {
        while !(*area).stream.outer.is_null() {
            match (*area).stream.busy.load(Ordering::Relaxed) {
                AWAY => lose_away(block, area),
                _ => leave_for_good(block, area),
            }
            area = area::of(block);
        }
        area
    }
}

/// The streams of the levels below end: the process ends in a handler.
///
/// # Safety
/// This thread's area.
pub unsafe fn end_outer(area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        let mut interrupted = (*area).stream.interrupted;
        let mut outer = (*area).stream.outer;
        while !outer.is_null() {
            if (*outer).stream.busy.load(Ordering::Relaxed) == 0 && (*outer).stream.state == State::Recording
            {
                let kept = &raw mut (*outer).stream.kept;
                (*kept).pending = last::settled(kept, interrupted).unwrap_or(1);
                // The stream ends at the interrupted point.
                stream::put(kept, outer, &[special(Special::Gap, Gap::Interrupted as u64)]);
                stream::end(kept, outer);
            }
            interrupted = (*outer).stream.interrupted;
            outer = (*outer).stream.outer;
        }
    }
}

unsafe fn copy(from: *const Block, to: *mut Block) {
    // SAFETY: by the caller.
    unsafe { to.write_volatile(from.read_volatile()) }
}

/// Copies everything except [`Block::stream`].
unsafe fn copy_but_stream(from: *const Block, to: *mut Block) {
    // SAFETY: by the caller. Volatile: handlers may interrupt.
    unsafe {
        (&raw mut (*to).pending).write_volatile((*from).pending);
        (&raw mut (*to).next).write_volatile((*from).next);
        (&raw mut (*to).end).write_volatile((*from).end);
        (&raw mut (*to).cache).write_volatile((*from).cache);
        (&raw mut (*to).events).write_volatile((*from).events);
        (&raw mut (*to).hash).write_volatile((*from).hash);
        (&raw mut (*to).jumps).write_volatile((*from).jumps);
    }
}

unsafe fn set_stream(block: *mut Block, area: *mut Area) {
    compiler_fence(Ordering::SeqCst);
    // SAFETY: by the caller.
    unsafe { (&raw mut (*block).stream).write_volatile(area.cast()) };
    compiler_fence(Ordering::SeqCst);
}
