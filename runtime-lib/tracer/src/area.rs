//! The tracer's data of a thread, for each level of its signal handlers: an [`Area`].

use core::ffi::c_int;
use core::mem::offset_of;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use pcce_system::machine::LARGEST_PAGE;
use pcce_system::thread_local_block;

use crate::abi::trace::{Block, CACHE, Chunk, Order};
use crate::ends::Ends;
use crate::forks::Fork;
use crate::parts::Kept;
use crate::stacks::Stacks;
use crate::sys;

/// The calling thread's block.
#[inline(always)]
pub fn block() -> *mut Block {
    thread_local_block!("__pcce_trace")
}

/// The data that emitted code and the stubs of [`machine`](crate::machine) read. It has pages of its own, which forked
/// children find empty, however they were forked: they must not write to their parents' chunks.
#[repr(C, align(4096))]
pub struct Fast {
    /// The target of [`Block::cache`]. A thread that loads a library removes entries.
    pub cache: [AtomicUsize; CACHE],
    /// Words from this place on are written by [`events`](crate::events). 0 in a new thread.
    pub limit: AtomicUsize,
    /// Not 0 as long as this is the process that began the stream.
    pub alive: AtomicUsize,
    /// The order of the functions in the cache.
    pub order: Order,
}

/// The target of [`Block::cache`] of new threads. It is never written.
#[repr(C)]
pub struct Empty([AtomicUsize; CACHE + 2]);

#[unsafe(no_mangle)]
pub static __pcce_trace_empty: Empty = Empty([const { AtomicUsize::new(0) }; CACHE + 2]);

/// Words in [`Stream::dummy`].
pub const DUMMY: usize = 376;
/// The maximum number of chunks of a ring.
pub const RING: usize = 16;

/// The place of a stream's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum State {
    /// Nowhere yet: the next chunk begins as [`Stream::begin`] says.
    New = 0,
    /// In a chunk.
    Recording = 1,
    /// In [`Stream::dummy`].
    Idle = 2,
}

/// The emitted code that has called the tracer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct From {
    /// The address where it goes on; 0: unknown.
    pub pc: usize,
    /// Its stack pointer there.
    pub sp: usize,
    /// The function and the node that it has passed to the tracer; 0 and 0 if the address determines them.
    pub node: [u64; 2],
}

impl From {
    pub const UNKNOWN: Self = Self { pc: 0, sp: 0, node: [0; 2] };
}

#[repr(C)]
pub struct Stream {
    pub state: State,
    /// 0: the thread's own stream; else a stream of signal handlers.
    pub level: u32,
    /// Its number in the file; 0 as long as it has none.
    pub number: u64,
    /// The sequence of the chunk.
    pub sequence: u64,
    /// The chunk; null if there is none.
    pub chunk: *mut Chunk,
    /// How the next chunk begins: [`BEGIN_ROOT`](crate::abi::trace::BEGIN_ROOT) and so on.
    pub begin: u32,
    /// How often recording had been started or stopped ([`file::switches`](crate::file::switches)).
    pub switches: u32,
    /// How many loads of libraries it knows of ([`Chunk::loads`]).
    pub loads: u64,
    /// The value of [`Fast::limit`], which other threads may set to 0.
    pub limit: usize,
    /// [`Chunk::parent`].
    pub parent: u64,
    /// [`Chunk::parent_position`].
    pub parent_position: u64,
    /// While the stream is changed, its [`position`](crate::abi::trace::position) before the change, plus 1. Else 0.
    pub busy: AtomicU64,
    /// The thread's block, while a signal handler has another stream.
    pub kept: Block,
    /// On levels from 1 on: the thread's block as the handler found it.
    pub found: Block,
    /// On levels from 1 on: the instruction that the handler has interrupted; 0 if it is unknown.
    pub interrupted: usize,
    /// The stack pointer at the target of the last `longjmp`; 0 if it was not called.
    pub jumped: usize,
    /// On levels from 1 on: the place on the stack where the handler begins; 0 while there is none.
    pub frame: usize,
    /// The alternate stack on which the handler runs; 0 and 0 if it runs on the stack of the interrupted code.
    pub alternate: [usize; 2],
    /// The level below.
    pub outer: *mut Area,
    /// The next level.
    pub inner: AtomicPtr<Area>,
    /// In a ring: the offsets of its chunks in the file.
    pub ring: [u64; RING],
    /// The emitted code that has called the tracer.
    pub from: From,
    pub stacks: Stacks,
    /// The stack pointer when a function was first entered from outside; 0 before.
    pub base: usize,
    /// The offset of the chunk in the file, in bytes.
    pub offset: u64,
    /// The size of the chunk in bytes.
    pub size: usize,
    /// The thread that has begun the stream.
    pub thread: c_int,
    /// The block of that thread; on levels from 1 on, perhaps the one that is kept.
    pub block: *mut Block,
    /// The state of a part of a run.
    pub part: Kept,
    /// The runtime has begun the thread, and says if it is ended in the middle.
    pub announced: bool,
    /// In a thread's own stream: the thread may be cancelled at any instruction.
    pub cancelled_anywhere: bool,
    /// How often the destructor of the thread's key was called.
    pub rounds: usize,
    /// In a child that was forked by a handler that had interrupted this stream: the stream's position at that time.
    pub fork: Fork,
    /// True in such a child, as long as it may go on with a change of the parent's stream: nothing of the change must
    /// get into the file.
    pub orphan: bool,
    /// The end of the process, if no event has come since.
    pub ends: Ends,
    /// Not 0 if the area is in use. The fields before this one are cleared when the area is taken.
    used: AtomicU32,
    /// The next of all areas. It does not change once the area is on the list: other threads follow it at any time.
    next: *mut Area,
    /// The place of words that are not recorded.
    pub dummy: [u64; DUMMY],
}

/// A stream with the data that emitted code reads.
#[repr(C)]
pub struct Area {
    /// Empty in forked children.
    pub fast: Fast,
    /// The rest of a page, where pages are larger.
    rest: [u8; LARGEST_PAGE - size_of::<Fast>()],
    pub stream: Stream,
}

const _: () = assert!(size_of::<Area>() == LARGEST_PAGE + 4096);

/// All areas that were ever made, the last one first: they are not given back to the system, but used again.
static ALL: AtomicPtr<Area> = AtomicPtr::new(null_mut());
/// The number of areas that are not in use.
static FREE: AtomicUsize = AtomicUsize::new(0);
/// The number of areas in use.
static USED: AtomicUsize = AtomicUsize::new(0);

/// The number of areas in use.
pub fn used() -> usize {
    USED.load(Ordering::Relaxed)
}

/// All areas that are in use, or were until now.
pub fn all() -> impl Iterator<Item = *mut Area> {
    let mut at = ALL.load(Ordering::Acquire);
    core::iter::from_fn(move || {
        while !at.is_null() {
            let area = at;
            // SAFETY: areas stay where they are.
            let stream = unsafe { &raw const (*area).stream };
            // SAFETY: the same.
            unsafe {
                at = (*stream).next;
                if (*stream).used.load(Ordering::Acquire) != 0 {
                    return Some(area);
                }
            }
        }
        None
    })
}

/// An area that is not in use.
fn free() -> Option<*mut Area> {
    let mut at = if FREE.load(Ordering::Relaxed) == 0 { null_mut() } else { ALL.load(Ordering::Acquire) };
    while !at.is_null() {
        // SAFETY: areas stay where they are.
        let stream = unsafe { &raw mut (*at).stream };
        // SAFETY: the same; only one thread can take it.
        unsafe {
            let used = &(*stream).used;
            if used.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                FREE.fetch_sub(1, Ordering::Relaxed);
                return Some(at);
            }
            at = (*stream).next;
        }
    }
    None
}

/// A stream that has not begun; null if there is no memory.
pub fn new() -> *mut Area {
    USED.fetch_add(1, Ordering::Relaxed);
    if let Some(area) = free() {
        // SAFETY: no other thread has it.
        unsafe {
            (&raw mut (*area).fast).write_bytes(0, 1);
            let start = (&raw mut (*area).stream).cast::<u8>();
            start.write_bytes(0, offset_of!(Stream, used));
        }
        return area;
    }
    let area: *mut Area = sys::map(size_of::<Area>(), 0).cast();
    if area.is_null() {
        USED.fetch_sub(1, Ordering::Relaxed);
        return area;
    }
    let arguments = [area as usize, LARGEST_PAGE, libc::MADV_WIPEONFORK as usize, 0, 0, 0];
    // SAFETY: memory of ours, all zero, that no other thread has yet.
    unsafe {
        sys::call(libc::SYS_madvise, arguments);
        (*area).stream.used.store(1, Ordering::Relaxed);
        let mut first = ALL.load(Ordering::Relaxed);
        loop {
            (*area).stream.next = first;
            match ALL.compare_exchange(first, area, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return area,
                Err(other) => first = other,
            }
        }
    }
}

/// Gives an area back.
///
/// # Safety
/// The area is of [`new`], and not in use any more.
pub unsafe fn give_back(area: *mut Area) {
    // SAFETY: by the contract.
    unsafe { (*area).stream.used.store(0, Ordering::Release) };
    FREE.fetch_add(1, Ordering::Relaxed);
    USED.fetch_sub(1, Ordering::Relaxed);
}

/// The area of the stream to which the block's words go; null in a new thread.
///
/// # Safety
/// This thread's block.
#[inline]
pub unsafe fn of(block: *const Block) -> *mut Area {
    // SAFETY: by the contract.
    unsafe { (*block).stream.cast() }
}
