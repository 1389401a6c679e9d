//! Writes the bits that are pending in threads which cannot write them: the process crashes, or another thread ends it.
//! They go to the end of the chunk, as a [`Last`], and not among the words: the threads may go on.

use core::ffi::c_int;
use core::mem::{size_of, zeroed};
use core::sync::atomic::{AtomicBool, Ordering};

use crate::abi::trace::{Block, Chunk, LAST, Last};
use crate::area::{self, Area, State, block};
use crate::machine::{appended, stored};
use crate::{file, forks, parts, stream, sys};

/// [`__pcce_trace_last`] was called.
static CRASHED: AtomicBool = AtomicBool::new(false);

/// The process may end now, in a signal's handler that the runtime has not announced. `pc`: the interrupted
/// instruction.
///
/// # Safety
/// Called by the runtime's handler of crashes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_last(pc: usize) {
    CRASHED.store(true, Ordering::Relaxed);
    let own = block();
    // SAFETY: this thread's block, and the areas of its streams.
    unsafe {
        let (mut area, mut block, mut at) = (area::of(own), own.cast_const(), pc);
        while !area.is_null() {
            if let Some(place) = Place::of(area).filter(|_| !stored(at))
                && let Some(pending) = settled(block, at)
            {
                place.write(&*block, pending);
            }
            at = (*area).stream.interrupted;
            area = (*area).stream.outer;
            if !area.is_null() {
                block = &raw const (*area).stream.kept;
            }
        }
    }
}

/// The pending bits of a stream of this thread, which was interrupted at this instruction, below a leading one, without
/// bits that were being appended; None if that is not known.
///
/// # Safety
/// The block is the stream's, or kept for it.
pub unsafe fn settled(block: *const Block, at: usize) -> Option<u64> {
    // SAFETY: by the contract.
    let pending = unsafe { (*block).pending };
    appended(at).map(|bits| (pending >> bits).max(1))
}

/// A stream's chunk, which is in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    stream: u64,
    sequence: u64,
    chunk: *mut Chunk,
    /// The offset of [`Last`] in the file.
    at: u64,
}

impl Place {
    /// None if the stream has no chunk now, or its thread is changing it.
    unsafe fn of(area: *const Area) -> Option<Self> {
        // SAFETY: areas stay where they are.
        unsafe {
            let stream = &raw const (*area).stream;
            // The pending bits may be of another stack.
            let is_whole = !(*stream).stacks.may_be_left()
                && (*stream).busy.load(Ordering::Acquire) == 0
                && (&raw const (*stream).state).read_volatile() == State::Recording;
            let place = Self {
                stream: (&raw const (*stream).number).read_volatile(),
                sequence: (&raw const (*stream).sequence).read_volatile(),
                chunk: (&raw const (*stream).chunk).read_volatile(),
                at: (&raw const (*stream).offset).read_volatile() + (*stream).size as u64 - LAST,
            };
            (is_whole && !forks::is_foreign(area) && !parts::is_unkept(stream)).then_some(place)
        }
    }

    /// Writes the pending bits, or that there are none.
    fn write(&self, block: &Block, pending: u64) {
        let words = stream::words_in(self.chunk, block.next);
        file::put_at(&Last::new(self.stream, self.sequence, words, pending).to_bytes(), self.at);
    }
}

/// The process ends: writes the last bits of the threads that sleep. The last bits of running threads cannot be known.
pub fn of_others() {
    if CRASHED.load(Ordering::Relaxed) {
        // They sleep where they were interrupted.
        return;
    }
    for area in area::all() {
        // SAFETY: areas stay where they are.
        unsafe {
            let thread = (&raw const (*area).stream.thread).read_volatile();
            if (*area).stream.level == 0 && thread != 0 && thread != sys::gettid() {
                of_other(area, thread);
            }
        }
    }
}

/// Writes the last bits of another thread. If the block is the same a little later, and the thread slept both times,
/// nothing was being changed.
unsafe fn of_other(area: *const Area, thread: c_int) {
    let words = |block: &Block| {
        // SAFETY: words, without padding between them.
        unsafe { *core::ptr::from_ref(block).cast::<[u64; size_of::<Block>() / 8]>() }
    };
    // SAFETY: areas stay where they are; zeros are a block.
    unsafe {
        let [mut block, mut again]: [Block; 2] = zeroed();
        let at = (&raw const (*area).stream.block).read_volatile().addr();
        let place = Place::of(area);
        let slept = sleeps(thread) && read(at, &mut block) && sleeps(thread) && read(at, &mut again);
        if slept
            && words(&block) == words(&again)
            && block.stream.cast_const().cast() == area
            && let Some(place) = Place::of(area).filter(|now| place == Some(*now))
        {
            place.write(&block, block.pending);
        }
    }
}

fn read(at: usize, block: &mut Block) -> bool {
    // SAFETY: any bytes are a block.
    let bytes = unsafe {
        core::slice::from_raw_parts_mut(core::ptr::from_mut(block).cast::<u8>(), size_of::<Block>())
    };
    sys::copy_from(at, bytes)
}

/// Returns whether a thread waits in a call of the system.
fn sleeps(thread: c_int) -> bool {
    let mut text = [0; 128];
    let len = sys::read_of_thread(thread, b"stat", &mut text);
    // `1234 (name) S …`; a name may have brackets.
    let text = &text[..len];
    let end = text.iter().rposition(|&byte| byte == b')');
    end.and_then(|end| text.get(end + 1..end + 3)) == Some(b" S")
}
