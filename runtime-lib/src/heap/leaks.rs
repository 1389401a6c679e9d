//! Leaks: the blocks to which nothing points any more, found by a conservative scan as the program ends.
//!
//! Blocks are found by their headers, whose checks depend on their addresses: all writable memory is searched for
//! headers. Every word outside of blocks that looks like an address in a block keeps that block alive, and so does
//! every such word in a block that is alive. The other blocks have leaked. glibc's own memory keeps nothing alive:
//! blocks that were freed still hold addresses.
//!
//! During the scan the other threads are stopped by a signal, which also puts their registers into memory.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::slice;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pcce_system::machine::{PAGE_SIZE, stack_pointer};
use pcce_system::maps::{Mapping, each_line};
use pcce_system::settled::has_smallest_pages;

use super::{__libc_malloc, Block, HEADER, Header, single};
use crate::Registers;
use crate::image::Image;
use crate::machine::here;
use crate::signal::set_action;
use crate::sys::{self, Action};

/// The stack pointer of the thread that ends the program, at its call of the runtime.
static STACK: AtomicUsize = AtomicUsize::new(0);
/// The registers of that thread at the same point. The scan includes this memory.
static REGISTERS: Kept = Kept(UnsafeCell::new(MaybeUninit::uninit()));

struct Kept(UnsafeCell<MaybeUninit<Registers>>);

// SAFETY: written by the thread that ends the program, and read only by the scan.
unsafe impl Sync for Kept {}

/// Remembers the stack and the registers of the function into which this is inlined. The stack below belongs to the
/// runtime, which has left addresses of blocks there earlier.
#[inline(always)]
pub fn remember_here() {
    // SAFETY: one thread ends the program.
    unsafe { REGISTERS.0.get().write(MaybeUninit::new(here())) };
    STACK.store(stack_pointer(), Ordering::Relaxed);
}

/// The limits of a scan.
pub struct Gaps {
    /// Blocks that are not freed, and were not found.
    pub blocks: u64,
    /// Threads that did not stop: blocks that only their registers point to may count as leaked.
    pub threads: u32,
}

/// Counts each block that has leaked in its record. `live` is the number of blocks that are not freed. None if the
/// system does not say what is mapped, or has no memory.
#[inline(never)]
pub fn scan(live: u64) -> Option<Gaps> {
    let stopped = stop_threads();
    let found = Memory::read().and_then(|memory| {
        let blocks = memory.blocks(live)?;
        memory.mark(&blocks);
        for place in (0..blocks.len).map(|number| blocks.place(number)).filter(|place| !place.is_alive) {
            place.block.record.leaked_blocks.fetch_add(1, Ordering::Relaxed);
            place.block.record.leaked_bytes.fetch_add(place.block.size as u64, Ordering::Relaxed);
        }
        Some(live.saturating_sub(blocks.len as u64))
    });
    STOPPED.store(0, Ordering::Release);
    found.map(|blocks| Gaps { blocks, threads: stopped })
}

// Memory.

/// Memory that can be written.
#[derive(Clone, Copy)]
struct Region {
    low: usize,
    high: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// glibc allocates from it.
    Heap,
    /// The data of libc, which include those of glibc's allocator.
    Libc,
    /// The stack of the process's first thread.
    Stack,
    Other,
}

/// The kernel's default limit of mappings of a process.
const MAPPINGS: usize = 1 << 16;
const WORD: usize = size_of::<usize>();

/// An array that is mapped by itself, so that the scan can leave it out.
struct Array<T> {
    start: *mut T,
    room: usize,
}

impl<T: Copy> Array<T> {
    fn new(room: usize) -> Option<Self> {
        let start = sys::map(room * size_of::<T>(), libc::MAP_NORESERVE).cast::<T>();
        (!start.is_null()).then_some(Self { start, room })
    }

    /// # Safety
    /// The place is in the array.
    unsafe fn set(&self, at: usize, value: T) {
        // SAFETY: by the contract.
        unsafe { self.start.add(at).write(value) };
    }

    /// # Safety
    /// The first `len` values were written, and they do not change while the slice is used.
    unsafe fn first(&self, len: usize) -> &[T] {
        // SAFETY: by the contract.
        unsafe { slice::from_raw_parts(self.start, len) }
    }

    /// Returns the address after the array, for an address in it.
    fn end_if_in(&self, address: usize) -> Option<usize> {
        let (low, size) = (self.start as usize, (self.room * size_of::<T>()).next_multiple_of(PAGE_SIZE));
        (low..low + size).contains(&address).then_some(low + size)
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: ours, and no reference outlives the array.
        unsafe { sys::unmap(self.start.cast(), self.room * size_of::<T>()) };
    }
}

struct Memory {
    regions: Array<Region>,
    len: usize,
    /// The descriptor of `/proc/self/pagemap`, which says which pages were ever written to. Negative without it.
    pages: c_int,
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.pages >= 0 {
            sys::close(self.pages);
        }
    }
}

/// Returns whether glibc allocates from a mapping for threads: such heaps are aligned, and say how much of them can be
/// written (`heap_info`: arena, previous heap, size, size that can be written).
fn is_heap_of_threads(mapping: &Mapping<'_>) -> bool {
    const ALIGNMENT: usize = 64 << 20;
    // SAFETY: it can be read, and is no file.
    mapping.low.is_multiple_of(ALIGNMENT)
        && unsafe {
            let info = (mapping.low as *const [usize; 4]).read_volatile();
            info[0] != 0 && info[2..].contains(&(mapping.high - mapping.low))
        }
}

impl Memory {
    fn read() -> Option<Self> {
        let regions = Array::<Region>::new(MAPPINGS)?;
        let libc = Image::of(__libc_malloc as *const u8);
        let mut len = 0;
        let listed = each_line(1, |line| {
            let Some(mapping) = Mapping::parse(line).filter(|mapping| mapping.is_writable) else { return };
            let memory: [&[u8]; 2] = [b"/dev/shm/", b"/dev/zero"];
            let is_device = mapping.name.starts_with(b"/dev/")
                && !memory.iter().any(|name| mapping.name.starts_with(name));
            if is_device || len == MAPPINGS {
                return;
            }
            let kind = match mapping.name {
                b"[heap]" => Kind::Heap,
                b"[stack]" => Kind::Stack,
                b"" if is_heap_of_threads(&mapping) => Kind::Heap,
                _ if libc.as_ref().is_some_and(|libc| libc.contains(mapping.low as *const u8)) => Kind::Libc,
                _ => Kind::Other,
            };
            // SAFETY: in the array.
            unsafe { regions.set(len, Region { low: mapping.low, high: mapping.high, kind }) };
            len += 1;
        });
        if !listed || len == MAPPINGS {
            return None;
        }
        // SAFETY: a plain call.
        let pages = unsafe { sys::open(c"/proc/self/pagemap".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0) };
        Some(Self { regions, len, pages: pages as c_int })
    }

    fn regions(&self) -> &[Region] {
        // SAFETY: written by read().
        unsafe { self.regions.first(self.len) }
    }

    /// Calls `each` with the parts of a range of memory that were ever written to, page by page.
    fn each_part(&self, low: usize, high: usize, mut each: impl FnMut(usize, usize)) {
        const AT_ONCE: usize = 512;
        /// The page is in memory, or swapped out.
        const EXISTS: u64 = 3 << 62;
        let mut entries = [0_u64; AT_ONCE];
        let mut start = low;
        while start < high {
            let first = start / PAGE_SIZE;
            let count = (high.div_ceil(PAGE_SIZE) - first).min(AT_ONCE);
            let arguments = [self.pages as usize, entries.as_mut_ptr() as usize, count * 8, first * 8, 0, 0];
            // SAFETY: writes `count` entries at most.
            let read = unsafe { sys::call(libc::SYS_pread64, arguments) };
            let end = (first + count) * PAGE_SIZE;
            if read == (count * 8) as isize && has_smallest_pages() {
                for (page, _) in (first..).zip(&entries[..count]).filter(|(_, entry)| **entry & EXISTS != 0) {
                    each((page * PAGE_SIZE).max(low), ((page + 1) * PAGE_SIZE).min(high));
                }
            } else {
                each(start, end.min(high));
            }
            start = end;
        }
    }

    /// Finds the blocks.
    fn blocks(&self, live: u64) -> Option<Blocks> {
        // A block that a thread was about to allocate may not be counted yet.
        let room = live as usize + (1 << 10);
        let mut blocks = Blocks { places: Array::new(room)?, waiting: Array::new(room)?, len: 0 };
        for region in self.regions() {
            self.each_part(region.low, region.high, |low, high| {
                for at in (low.max(region.low + HEADER)..high).step_by(HEADER) {
                    // SAFETY: there is memory of the same mapping in front of it.
                    let found = unsafe { Header::find(at as *const u8) };
                    let is_whole = |block: &Block| {
                        at.checked_sub(block.offset).is_some_and(|base| base >= region.low)
                            && at.checked_add(block.size).is_some_and(|end| end <= region.high)
                    };
                    if let Some(block) = found.filter(is_whole)
                        && blocks.len < room
                    {
                        // SAFETY: there is room.
                        unsafe { blocks.places.set(blocks.len, Place { at, block, is_alive: false }) };
                        blocks.len += 1;
                    }
                }
            });
        }
        Some(blocks)
    }

    /// Marks the blocks that are alive.
    fn mark(&self, blocks: &Blocks) {
        let mut waiting = 0;
        let stack = match STACK.load(Ordering::Relaxed) {
            0 => stack_pointer(),
            stack => stack,
        };
        for region in self.regions().iter().filter(|region| region.kind != Kind::Heap) {
            let is_this = region.kind == Kind::Stack && (region.low..region.high).contains(&stack);
            let low = if is_this { stack & !(WORD - 1) } else { region.low };
            self.each_part(low, region.high, |low, high| {
                let mut at = low;
                while at < high {
                    let [a, b] = [self.regions.end_if_in(at), blocks.end_if_in(at)];
                    // The contents of a block count only if the block is alive.
                    let block = blocks.find(at).map(|place| blocks.place(place).end().next_multiple_of(WORD));
                    if let Some(end) = a.or(b).or(block) {
                        at = end;
                        continue;
                    }
                    // SAFETY: it can be read.
                    let word = unsafe { (at as *const usize).read_volatile() };
                    blocks.mark(word, region.kind, &mut waiting);
                    at += WORD;
                }
            });
        }
        while waiting > 0 {
            waiting -= 1;
            // SAFETY: written by Blocks::mark().
            let place = blocks.place(unsafe { *blocks.waiting.start.add(waiting) } as usize);
            let (low, high) = (place.at, place.at + place.block.size);
            let mut words = |low: usize, high: usize| {
                for at in (low.next_multiple_of(WORD)..high.saturating_sub(WORD - 1)).step_by(WORD) {
                    // SAFETY: in the block.
                    let word = unsafe { (at as *const usize).read_volatile() };
                    blocks.mark(word, Kind::Other, &mut waiting);
                }
            };
            // Asking the kernel takes longer than reading some pages.
            if place.block.size <= 16 * PAGE_SIZE {
                words(low, high)
            } else {
                self.each_part(low, high, words)
            }
        }
    }
}

// Blocks.

/// A block that was found.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    block: Block,
    is_alive: bool,
}

impl Place {
    /// The address after the last byte. An empty block has its first address.
    fn end(&self) -> usize {
        self.at + self.block.size.max(1)
    }
}

struct Blocks {
    /// Sorted by address.
    places: Array<Place>,
    len: usize,
    /// The numbers of blocks that are alive, and whose contents are still to be scanned.
    waiting: Array<u32>,
}

impl Blocks {
    fn place(&self, number: usize) -> Place {
        // SAFETY: the number is that of a place.
        unsafe { self.places.start.add(number).read() }
    }

    /// The number of the block with an address.
    fn find(&self, address: usize) -> Option<usize> {
        // SAFETY: written by Memory::blocks(); marks are set only while no such slice is used.
        let places = unsafe { self.places.first(self.len) };
        let (first, last) = (places.first()?, places.last()?);
        if address < first.at || address >= last.end() {
            return None;
        }
        let after = places.partition_point(|place| place.at <= address);
        after.checked_sub(1).filter(|&number| address < places[number].end())
    }

    fn end_if_in(&self, address: usize) -> Option<usize> {
        self.places.end_if_in(address).or_else(|| self.waiting.end_if_in(address))
    }

    /// Marks the block to which a word points, if there is one.
    fn mark(&self, word: usize, from: Kind, waiting: &mut usize) {
        let Some(number) = self.find(word) else { return };
        let place = self.place(number);
        if place.is_alive || from == Kind::Libc && word == next_chunk(&place) {
            return;
        }
        // SAFETY: places of the arrays; each block waits once.
        unsafe {
            (&raw mut (*self.places.start.add(number)).is_alive).write(true);
            self.waiting.set(*waiting, number as u32);
        }
        *waiting += 1;
    }
}

/// The address of glibc's chunk after that of a block. The last word of a block is the first word of that chunk, to
/// which the allocator's own lists point.
fn next_chunk(place: &Place) -> usize {
    let base = place.at - place.block.offset;
    // SAFETY: glibc has the size of each chunk there, and flags in its lowest bits.
    let size = unsafe { (base as *const usize).sub(1).read_volatile() } & !7;
    (base - 2 * WORD).wrapping_add(size)
}

// Threads.

/// The maximum number of threads that are stopped.
const THREADS: usize = 1 << 14;
/// 1 while the other threads are to stay where they are.
static STOPPED: AtomicU32 = AtomicU32::new(0);
/// The number of threads that do.
static STAYING: AtomicU32 = AtomicU32::new(0);

fn pause() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 500_000 };
    // SAFETY: reads a time.
    unsafe { sys::call(libc::SYS_nanosleep, [&raw const time as usize, 0, 0, 0, 0, 0]) };
}

unsafe extern "C" fn on_stop(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: this thread's.
    let errno = unsafe { *libc::__errno_location() };
    STAYING.fetch_add(1, Ordering::AcqRel);
    while STOPPED.load(Ordering::Acquire) == 1 {
        pause();
    }
    // SAFETY: this thread's.
    unsafe { *libc::__errno_location() = errno };
}

/// Stops the other threads. Returns how many do not; 1 if that is not known.
fn stop_threads() -> u32 {
    /// The maximum number of lists of threads: a thread may be created while others stop.
    const ROUNDS: usize = 8;
    /// The maximum number of pauses in a round.
    const PAUSES: u32 = 1000;
    if single() {
        return 0;
    }
    let (Some(asked), own) = (Array::<c_int>::new(THREADS), sys::gettid()) else { return 1 };
    let (mut len, mut signal) = (0, None);
    STOPPED.store(1, Ordering::Release);
    for _ in 0..ROUNDS {
        let before = len;
        let listed = sys::each_thread(|thread| {
            // SAFETY: `len` were written.
            let known = unsafe { asked.first(len) }.contains(&thread);
            if thread == own || known || len == THREADS {
                return;
            }
            let signal = *signal.get_or_insert_with(stopping_signal);
            let arguments = [sys::getpid() as usize, thread as usize, signal as usize, 0, 0, 0];
            // SAFETY: the signal has a handler of ours, or is 0; in the array.
            unsafe {
                sys::call(libc::SYS_tgkill, arguments);
                asked.set(len, thread);
            }
            len += 1;
        });
        if listed.is_err() {
            return 1;
        }
        let staying = || STAYING.load(Ordering::Acquire) as usize >= len;
        (0..PAUSES).take_while(|_| !staying()).for_each(|_| pause());
        if len == before || !staying() {
            break;
        }
    }
    len as u32 - STAYING.load(Ordering::Acquire).min(len as u32)
}

/// A signal that the program does not use, which gets the handler [`on_stop`]; 0 if there is none.
fn stopping_signal() -> c_int {
    const LAST: c_int = 64;
    const FIRST: c_int = 35;
    // SAFETY: a handler of ours.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_stop as *const () as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO | libc::SA_ONSTACK;
        (&raw mut action.sa_mask).cast::<u64>().write(!0);
        let is_free =
            |signal: &c_int| Action::of(*signal).is_some_and(|action| action.handler == libc::SIG_DFL);
        (FIRST..=LAST).rev().find(is_free).filter(|signal| set_action(*signal, &action)).unwrap_or(0)
    }
}
