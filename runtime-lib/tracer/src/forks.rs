//! Forked children: they have streams of their own, which begin at the position of their parents' streams, and never
//! write to those.
//!
//! The stream of the code that has called `fork` begins at once. If a signal's handler has called it, the interrupted
//! code may be anywhere, and its stream begins when it goes on: it may be at an instruction that has read the parent's
//! data from the block.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, Ordering};

use crate::abi::trace::{BEGIN_FORKED, BEGIN_INTERRUPTED, BEGIN_MIDDLE, Block, FULL};
use crate::area::{self, Area, State, Stream, block};
use crate::ends::{self, Ends};
use crate::stream::{self, Busy};
use crate::{apart, images, machine, sys};

/// This process.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// The tracer starts.
pub fn start() {
    PROCESS.store(sys::getpid(), Ordering::Relaxed);
    sys::around_fork(Some(before_fork), in_child);
}

/// Returns whether the area was made in another process, of which this is a child.
///
/// # Safety
/// The area is one of [`area::new`].
pub unsafe fn is_foreign(area: *const Area) -> bool {
    // SAFETY: areas stay where they are.
    unsafe { (*area).fast.alive.load(Ordering::Relaxed) == 0 }
}

/// Writes the pending bits, which are the parent's.
extern "C" fn before_fork() {
    let block = block();
    // SAFETY: this thread's block.
    unsafe {
        let area = area::of(block);
        if !area.is_null() && (*area).stream.state == State::Recording {
            let _busy = Busy::new(block, area);
            stream::put(block, area, &[]);
        }
    }
}

/// The stream goes on as another one, which begins where the parent's is.
extern "C" fn in_child() {
    let block = block();
    // SAFETY: this thread's block.
    unsafe {
        let area = area::of(block);
        notice_fork(area);
        if area.is_null() {
            return;
        }
        let recorded = (*area).stream.state == State::Recording;
        let [number, position] = [(*area).stream.number, stream::here(block, area)];
        let stacks = (*area).stream.stacks.of_child(number);
        let ends = (*area).stream.ends;
        stream::lose(block, area);
        (*area).stream.begin = BEGIN_MIDDLE;
        if recorded {
            (*area).stream.stacks = stacks;
            (*area).stream.begin = BEGIN_FORKED;
            (*area).stream.parent = number;
            (*area).stream.parent_position = position;
        }
        // By hand, since the system may not be able to empty the page.
        (&raw mut (*area).fast).write_bytes(0, 1);
        // The stream begins at once: a child may have no events before it ends.
        let _busy = Busy::new(block, area);
        if recorded {
            stream::begin(block, area);
        }
        if ends != Ends::Not {
            ends::rest(block, area, ends);
        }
    }
}

/// Notices that this process is a child of the known one, in which the other threads do not exist. `area`: the calling
/// thread's.
///
/// # Safety
/// This thread's area, or null.
pub unsafe fn notice_fork(area: *mut Area) {
    let process = sys::getpid();
    if PROCESS.swap(process, Ordering::Relaxed) == process {
        return;
    }
    images::forget();
    // SAFETY: areas stay where they are; those of this thread lead to each other.
    unsafe {
        let mut first = area;
        while !first.is_null() && !(*first).stream.outer.is_null() {
            first = (*first).stream.outer;
        }
        for other in area::all() {
            let mut own = first;
            while !own.is_null() && own != other {
                own = (*own).stream.inner.load(Ordering::Relaxed);
            }
            if own.is_null() {
                area::give_back(other);
            } else if own != area {
                // Their data is the parent's.
                (&raw mut (*own).fast).write_bytes(0, 1);
            }
        }
        let mut inner = area;
        while !inner.is_null() && !(*inner).stream.outer.is_null() {
            let outer = (*inner).stream.outer;
            Fork::keep(outer, (*inner).stream.interrupted);
            (*outer).stream.orphan |= (*outer).stream.busy.load(Ordering::Relaxed) != 0;
            inner = outer;
        }
        if inner != area {
            apart::keep();
        }
    }
}

/// Returns whether the stream is the parent's, and was being changed where the process was forked.
///
/// # Safety
/// The stream is this thread's.
pub unsafe fn is_orphan(stream: *const Stream) -> bool {
    // SAFETY: by the contract. Volatile: a handler forks.
    unsafe { (&raw const (*stream).orphan).read_volatile() }
}

/// The position of a stream when a handler interrupted it, which has forked this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Fork {
    /// The position is kept, or known to be unknown.
    is_settled: bool,
    pub is_known: bool,
    /// The number of pending bits that are the parent's.
    bits: u32,
    /// [`Block::next`], as long as these are pending.
    next: *mut u64,
    /// [`Chunk::parent_position`](crate::abi::trace::Chunk).
    position: u64,
}

impl Fork {
    /// No position.
    pub const NONE: Self =
        Self { is_settled: false, is_known: false, bits: 0, next: null_mut(), position: 0 };

    /// Keeps the position of an interrupted stream. `at`: the interrupted instruction.
    unsafe fn keep(area: *mut Area, at: usize) {
        // SAFETY: by the caller: this thread's area; no other code uses it.
        unsafe {
            let stream = &raw mut (*area).stream;
            let is_whole = (*stream).state == State::Recording
                && (*stream).busy.load(Ordering::Relaxed) == 0
                && !(*stream).stacks.may_be_left();
            // A process passes on the position that it has from its own parent.
            if core::mem::replace(&mut (*stream).fork.is_settled, true) || !is_whole {
                return;
            }
            let mut kept = (&raw const (*stream).kept).read();
            // Bits that are being appended are the child's, and the parent's.
            let Some(appended) = machine::appended(at) else { return };
            kept.pending = (kept.pending >> appended).max(1);
            (*stream).fork = Self {
                is_settled: true,
                is_known: true,
                bits: kept.pending.ilog2(),
                next: kept.next,
                position: stream::here(&raw const kept, area),
            };
        }
    }
}

/// Keeps the process from writing to its parent's chunks: a stream of the parent's becomes one of this process. It has
/// not begun; it begins at the position of the parent's, if that is known.
///
/// # Safety
/// The area is that of the block's stream.
pub unsafe fn adopt(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        let stream = &raw mut (*area).stream;
        if !(is_foreign(area) || is_orphan(stream)) || (*stream).state == State::New {
            return;
        }
        notice_fork(area);
        let Stream { number, busy, fork, ends, .. } = &*stream;
        let (number, busy, fork, ends) = (*number, busy.load(Ordering::Relaxed), *fork, *ends);
        let stacks = (*stream).stacks.of_child(number);
        let pending = (*block).pending.max(1);
        let parents = if (*block).next == fork.next { fork.bits } else { 0 };
        stream::lose(block, area);
        (*stream).busy.store(busy, Ordering::Relaxed);
        (*stream).begin = BEGIN_MIDDLE;
        if fork.is_known && pending.ilog2() >= parents {
            (*stream).stacks = stacks;
            (*stream).begin = BEGIN_INTERRUPTED;
            (*stream).parent = number;
            (*stream).parent_position = fork.position;
            let own = 1 << (pending.ilog2() - parents);
            (*block).pending = own | pending & (own - 1);
        }
        ends::register(ends);
    }
}

/// As [`adopt`], and begins the stream.
///
/// # Safety
/// As for [`adopt`].
pub unsafe fn begin(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        if is_foreign(area) && (*area).stream.state == State::Recording {
            adopt(block, area);
            stream::begin(block, area);
        }
    }
}

/// As [`begin`], for interrupted code that goes on at this instruction, unless it has read something of the block
/// there. Returns whether the stream is this process's.
///
/// # Safety
/// As for [`adopt`].
pub unsafe fn begin_at(block: *mut Block, area: *mut Area, at: usize) -> bool {
    // SAFETY: by the contract.
    unsafe {
        // If the pending bits are a full word, emitted code calls a stub next, which expects one.
        let waits = (*area).stream.busy.load(Ordering::Relaxed) != 0
            || (*block).pending >= FULL
            || machine::within(at);
        if is_foreign(area) && !waits {
            let _busy = Busy::new(block, area);
            begin(block, area);
        }
        !is_foreign(area)
    }
}
