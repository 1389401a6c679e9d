//! The heap profile: every allocation, by its context, with no sampling.
//!
//! In programs that are linked with `--pcce-heap`, the functions here are the allocation functions: the build script
//! renames `__pcce_malloc` to `malloc`, and so on. The program's definitions serve the whole process, libc included,
//! and they call glibc's own by the names that glibc has for this purpose (`__libc_malloc`).
//!
//! Each block has a [`Header`] in front of it that names the record of its context, so a block is freed without any
//! table: that costs 16 bytes a block, in a cache line that the allocator touches in any case. Blocks without a header
//! that fits their address are not ours, and left to glibc.
//!
//! The context is that of the innermost activation of instrumented code, which is known exactly: its call either
//! pushed, and the frame names the site, or the pass published the site ([`Tls::call`](crate::abi::Tls::call)). If
//! neither is the case, although the id says that there is an instrumented activation, the context is unknown.

mod leaks;
mod pool;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use pcce_system::machine::PAGE_SIZE;
use pcce_system::weak_address;

use crate::context;
use crate::intern::Interner;
use crate::output::{FileName, Text, complain, variable};
use crate::profile::{Arena, Writer};
use crate::state::tls;
use crate::sys;
use crate::token::__pcce_token;
use crate::when::{self, Kind};

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut u8;
    fn __libc_calloc(count: usize, size: usize) -> *mut u8;
    fn __libc_realloc(block: *mut u8, size: usize) -> *mut u8;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut u8;
    fn __libc_free(block: *mut u8);
    /// Not 0 while the process has one thread. It becomes 0 only before a thread is created.
    static __libc_single_threaded: c_char;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_malloc(size: usize) -> *mut u8 {
    // SAFETY: a plain call, with room for the header.
    unsafe { allocated(__libc_malloc(size.saturating_add(HEADER)), size, HEADER) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_calloc(count: usize, size: usize) -> *mut u8 {
    let size = count.saturating_mul(size);
    // SAFETY: as in malloc().
    unsafe { allocated(__libc_calloc(1, size.saturating_add(HEADER)), size, HEADER) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_free(at: *mut u8) {
    if at.is_null() {
        return;
    }
    // SAFETY: by the caller, a block.
    unsafe {
        let Some(block) = Header::read(at) else { return __libc_free(at) };
        Header::clear(at);
        block.record.remove_block(block.size);
        change_live(0, block.size as u64);
        __libc_free(at.sub(block.offset));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_realloc(at: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: by the caller, null or a block.
    unsafe {
        if at.is_null() {
            return __pcce_malloc(size);
        }
        let Some(old) = Header::read(at) else { return __libc_realloc(at, size) };
        if size == 0 {
            __pcce_free(at);
            return null_mut();
        }
        let base = if old.offset == HEADER {
            // From here on the old block may be another thread's.
            Header::clear(at);
            __libc_realloc(at.sub(HEADER), size.saturating_add(HEADER))
        } else {
            let base = __libc_malloc(size.saturating_add(HEADER));
            if !base.is_null() {
                base.add(HEADER).copy_from_nonoverlapping(at, old.size.min(size));
                Header::clear(at);
                __libc_free(at.sub(old.offset));
            }
            base
        };
        if base.is_null() {
            Header::write(at.sub(old.offset), old);
            return base;
        }
        let record = record();
        old.record.remove_block(old.size);
        record.add_block(size);
        change_live(size as u64, old.size as u64);
        Header::write(base, Block { record, size, offset: HEADER })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_reallocarray(at: *mut u8, count: usize, size: usize) -> *mut u8 {
    let Some(size) = count.checked_mul(size) else {
        fail(libc::ENOMEM);
        return null_mut();
    };
    // SAFETY: passed on.
    unsafe { __pcce_realloc(at, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_memalign(alignment: usize, size: usize) -> *mut u8 {
    // As glibc does with an alignment that cannot be rounded up to a power of two.
    if alignment > TOO_LARGE / 2 {
        fail(libc::EINVAL);
        return null_mut();
    }
    let offset = alignment.max(HEADER).next_power_of_two();
    // SAFETY: as in malloc(); the block is at a multiple of the offset, with room in front.
    unsafe { allocated(__libc_memalign(offset, size.saturating_add(offset)), size, offset) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_aligned_alloc(alignment: usize, size: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe { __pcce_memalign(alignment, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_posix_memalign(to: *mut *mut u8, alignment: usize, size: usize) -> c_int {
    if !alignment.is_power_of_two() || alignment < size_of::<usize>() {
        return libc::EINVAL;
    }
    // SAFETY: by the caller.
    unsafe {
        let errno = *libc::__errno_location();
        let at = __pcce_memalign(alignment, size);
        fail(errno);
        if at.is_null() {
            return libc::ENOMEM;
        }
        to.write(at);
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_valloc(size: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe { __pcce_memalign(PAGE_SIZE, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_pvalloc(size: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe { __pcce_memalign(PAGE_SIZE, size.checked_next_multiple_of(PAGE_SIZE).unwrap_or(usize::MAX)) }
}

/// The size that was asked for: the program may use no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_malloc_usable_size(at: *mut u8) -> usize {
    if at.is_null() {
        return 0;
    }
    // SAFETY: by the caller, a block; of glibc's function of this type.
    unsafe {
        if let Some(block) = Header::read(at) {
            return block.size;
        }
        let theirs = libc::dlsym(libc::RTLD_NEXT, c"malloc_usable_size".as_ptr());
        if theirs.is_null() {
            return 0;
        }
        let theirs: unsafe extern "C" fn(*mut u8) -> usize = core::mem::transmute(theirs);
        theirs(at)
    }
}

// Blocks, and the headers in front of them.

/// The header in front of a block.
#[repr(C)]
struct Header {
    /// The record, and in the upper bits [`Block::offset`] as a power of two.
    record: u64,
    /// The requested size, and in the upper bits [`Header::check`].
    size: u64,
}

const HEADER: usize = size_of::<Header>();
const LOW: u64 = (1 << 48) - 1;
/// A size that glibc does not allocate.
const TOO_LARGE: usize = usize::MAX / 2;

/// A block with a header.
#[derive(Clone, Copy)]
struct Block {
    record: &'static Record,
    size: usize,
    /// The distance from the start of glibc's block, in bytes.
    offset: usize,
}

impl Header {
    /// A checksum that depends on the address, so that a copied header is not valid. Never 0, the value that glibc has
    /// in these bits.
    fn check(at: usize, record: u64, size: u64) -> u64 {
        let mixed = (at as u64 ^ record.rotate_left(17) ^ size).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed >> 48 | 1
    }

    /// Writes the header of a block that is `offset` bytes after `base`, and returns the block.
    #[inline(always)]
    unsafe fn write(base: *mut u8, block: Block) -> *mut u8 {
        // SAFETY: by the caller, there is room for it in front of the block.
        unsafe {
            let at = base.add(block.offset);
            let record =
                block.record as *const Record as u64 | u64::from(block.offset.trailing_zeros()) << 48;
            let size = block.size as u64;
            let check = Self::check(at as usize, record, size);
            at.cast::<Header>().sub(1).write(Header { record, size: size | check << 48 });
            at
        }
    }

    /// The block at `at`, if it is ours.
    #[inline(always)]
    unsafe fn read(at: *mut u8) -> Option<Block> {
        // SAFETY: what glibc gave has its own header there.
        let header = unsafe { at.cast::<Header>().sub(1).read() };
        let size = header.size & LOW;
        if header.size >> 48 != Self::check(at as usize, header.record, size) {
            return None;
        }
        // SAFETY: written by write().
        let record = unsafe { &*((header.record & LOW) as *const Record) };
        Some(Block { record, size: size as usize, offset: 1 << (header.record >> 48) })
    }

    /// The block at `at`, where any memory may be. None if there is no valid header with the address of a record.
    unsafe fn find(at: *const u8) -> Option<Block> {
        // SAFETY: by the caller, there is memory in front of it.
        let header = unsafe { at.cast::<Header>().sub(1).read_volatile() };
        let (size, shift) = (header.size & LOW, header.record >> 48);
        let record = (header.record & LOW) as *const Record;
        let is_ours = header.size >> 48 != 0
            && header.size >> 48 == Self::check(at as usize, header.record, size)
            && (HEADER.trailing_zeros().into()..48).contains(&shift)
            && is_record(record);
        // SAFETY: it is one.
        is_ours.then(|| Block { record: unsafe { &*record }, size: size as usize, offset: 1 << shift })
    }

    /// Invalidates the header: the block is freed.
    #[inline(always)]
    unsafe fn clear(at: *mut u8) {
        // SAFETY: a block of ours.
        unsafe { (&raw mut (*at.cast::<Header>().sub(1)).size).write_volatile(0) };
    }
}

fn fail(error: c_int) {
    // SAFETY: this thread's.
    unsafe { *libc::__errno_location() = error };
}

/// A new block of `size` bytes at `offset` in glibc's block.
#[inline(always)]
unsafe fn allocated(base: *mut u8, size: usize, offset: usize) -> *mut u8 {
    if base.is_null() {
        return base;
    }
    let record = record();
    record.add_block(size);
    change_live(size as u64, 0);
    // SAFETY: by the caller.
    unsafe { Header::write(base, Block { record, size, offset }) }
}

// Records: allocations by context.

static TOKENS: Arena = Arena::new();
/// The contexts, by [`context::outside`].
static CONTEXTS: Interner<Record> = Interner::new();
/// For blocks whose context could not be numbered, since there was no memory, and for those whose context is not known.
static UNKNOWN: Record = Record::new();
/// For the block that libstdc++ keeps for exceptions.
static POOL: Record = Record::new();

/// Bytes that are allocated, and their maximum so far.
static LIVE: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);
/// Counts the peaks: how often [`PEAK`] grew.
static PEAKS: AtomicU64 = AtomicU64::new(0);

/// A longer token is cut: its outermost frames are left out.
const MAX_TOKEN: usize = 16 << 10;

/// The allocations of one context.
struct Record {
    token: AtomicPtr<u8>,
    allocations: AtomicU64,
    allocated: AtomicU64,
    frees: AtomicU64,
    freed: AtomicU64,
    /// The most bytes of this context that were allocated at one time.
    own_peak: AtomicU64,
    /// [`PEAKS`] when `peak_blocks` and `peak_bytes` were written.
    peak: AtomicU64,
    /// Blocks and bytes of this context that were allocated at the peak with the number `peak`. If that is not the last
    /// peak, the context has not changed since the last one.
    peak_blocks: AtomicU64,
    peak_bytes: AtomicU64,
    /// Blocks and bytes to which nothing points as the program ends, if leaks are looked for.
    leaked_blocks: AtomicU64,
    leaked_bytes: AtomicU64,
}

/// Returns whether no other thread can interfere.
#[inline(always)]
fn single() -> bool {
    // SAFETY: glibc writes it before there is a second thread.
    unsafe { (&raw const __libc_single_threaded).read_volatile() != 0 }
}

/// Adds, and returns the sum. In a process of one thread without the cost of an atomic addition.
#[inline(always)]
fn add(to: &AtomicU64, value: u64) -> u64 {
    if single() {
        let sum = to.load(Ordering::Relaxed).wrapping_add(value);
        to.store(sum, Ordering::Relaxed);
        sum
    } else {
        to.fetch_add(value, Ordering::Relaxed).wrapping_add(value)
    }
}

#[inline(always)]
fn raise(to: &AtomicU64, value: u64) -> bool {
    let old = to.load(Ordering::Relaxed);
    if value <= old {
        return false;
    }
    if single() {
        to.store(value, Ordering::Relaxed);
        true
    } else {
        to.fetch_max(value, Ordering::Relaxed) < value
    }
}

/// Changes [`LIVE`]. The records have been changed already.
#[inline(always)]
fn change_live(added: u64, removed: u64) {
    let live = add(&LIVE, added.wrapping_sub(removed));
    if added > removed && raise(&PEAK, live) {
        add(&PEAKS, 1);
    }
}

impl Record {
    const fn new() -> Self {
        Self {
            token: AtomicPtr::new(null_mut()),
            allocations: AtomicU64::new(0),
            allocated: AtomicU64::new(0),
            frees: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            own_peak: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            peak_blocks: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            leaked_blocks: AtomicU64::new(0),
            leaked_bytes: AtomicU64::new(0),
        }
    }

    /// Blocks and bytes that are allocated now.
    fn live(&self) -> (u64, u64) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (
            get(&self.allocations).wrapping_sub(get(&self.frees)),
            get(&self.allocated).wrapping_sub(get(&self.freed)),
        )
    }

    /// Blocks and bytes that were allocated at the last peak.
    fn at_peak(&self) -> (u64, u64) {
        if self.peak.load(Ordering::Acquire) == PEAKS.load(Ordering::Relaxed) {
            (self.peak_blocks.load(Ordering::Relaxed), self.peak_bytes.load(Ordering::Relaxed))
        } else {
            self.live()
        }
    }

    /// Keeps the amounts that were allocated at the last peak; to be called before they change. Changes that other
    /// threads make at the same moment may be included or not.
    #[inline(always)]
    fn keep_peak(&self) {
        let peaks = PEAKS.load(Ordering::Relaxed);
        if self.peak.load(Ordering::Relaxed) != peaks {
            let (blocks, bytes) = self.live();
            self.peak_blocks.store(blocks, Ordering::Relaxed);
            self.peak_bytes.store(bytes, Ordering::Relaxed);
            self.peak.store(peaks, Ordering::Release);
        }
    }

    /// Moves a block of this size to another record, which is empty. False if the counts do not include such a block.
    /// The process has one thread.
    fn move_block(&self, to: &Self, size: u64) -> bool {
        self.keep_peak();
        let counts: [(&AtomicU64, u64); 5] = [
            (&self.allocations, 1),
            (&self.allocated, size),
            (&self.own_peak, size),
            (&self.peak_blocks, 1),
            (&self.peak_bytes, size),
        ];
        let theirs = [&to.allocations, &to.allocated, &to.own_peak, &to.peak_blocks, &to.peak_bytes];
        let is_there = counts.iter().all(|(count, part)| count.load(Ordering::Relaxed) >= *part);
        if is_there {
            for ((count, part), other) in counts.into_iter().zip(theirs) {
                count.fetch_sub(part, Ordering::Relaxed);
                other.store(part, Ordering::Relaxed);
            }
            to.peak.store(self.peak.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        is_there
    }

    #[inline(always)]
    fn add_block(&self, size: usize) {
        self.keep_peak();
        add(&self.allocations, 1);
        let allocated = add(&self.allocated, size as u64);
        // Signed: since the addition, other threads may have allocated and freed further blocks.
        let live = allocated.wrapping_sub(self.freed.load(Ordering::Relaxed));
        if live as i64 > 0 {
            raise(&self.own_peak, live);
        }
    }

    #[inline(always)]
    fn remove_block(&self, size: usize) {
        self.keep_peak();
        add(&self.frees, 1);
        add(&self.freed, size as u64);
    }
}

/// Returns whether a record is at an address.
fn is_record(at: *const Record) -> bool {
    core::ptr::eq(at, &UNKNOWN) || core::ptr::eq(at, &POOL) || CONTEXTS.holds(at)
}

/// The record of the current context.
#[inline(always)]
fn record() -> &'static Record {
    let Some(key) = context::outside() else { return &UNKNOWN };
    // The innermost activation of instrumented code made a call that was not published, and pushed nothing.
    if key[1] == 0 && key[2] != 0 {
        return &UNKNOWN;
    }
    let Some(record) = CONTEXTS.value(&key, Record::new) else { return &UNKNOWN };
    if record.token.load(Ordering::Relaxed).is_null() {
        name_record(record);
    }
    record
}

/// Writes the token of the current context, which is the context of the record.
#[cold]
#[inline(never)]
fn name_record(record: &Record) {
    let mut buffer = [0; 512];
    // SAFETY: this thread's block; the buffers have their sizes. Two threads write two tokens, and one of them is lost.
    unsafe {
        let site = (*tls()).call;
        let len = __pcce_token(buffer.as_mut_ptr(), buffer.len(), site);
        let size = (len + 1).min(MAX_TOKEN);
        let text = TOKENS.take(size);
        if text.is_null() {
            return;
        }
        if len < buffer.len() {
            text.copy_from_nonoverlapping(buffer.as_ptr().cast(), size);
        } else {
            __pcce_token(text.cast(), size, site);
        }
        let _ = record.token.compare_exchange(null_mut(), text, Ordering::Release, Ordering::Relaxed);
    }
}

// The profile's file: when it is written, and what.

/// The variable that names the file, and the name if the variable is not set.
const VARIABLE: &CStr = c"PCCE_HEAP_PROFILE";
const DEFAULT_FILE: &CStr = c"pcce-heap.%p";
/// The variable with the number of a signal on which a profile is written.
const SIGNAL_VARIABLE: &CStr = c"PCCE_HEAP_SIGNAL";

/// The variable that asks for the blocks that have leaked.
const LEAKS_VARIABLE: &CStr = c"PCCE_HEAP_LEAKS";

static FILE: FileName = FileName::new();
static FINDS_LEAKS: AtomicBool = AtomicBool::new(false);

/// Finds the blocks that have leaked. False if the system does not say what is mapped.
fn find_leaks() -> bool {
    let records = || CONTEXTS.values().chain([&UNKNOWN, &POOL]);
    let live = records().map(|record| record.live().0).fold(0, u64::wrapping_add);
    let gaps = leaks::scan(live);
    let mut message = Text::<256>::new();
    match &gaps {
        None => message
            .put(b"pcce: leaks are not told from what is alive: the system does not say what is mapped\n"),
        Some(gaps) => {
            if gaps.blocks > 0 {
                message.put(b"pcce: ");
                message.number(gaps.blocks);
                message.put(b" blocks that are not freed were not found, and count as alive\n");
            }
            if gaps.threads > 0 {
                message.put(b"pcce: ");
                message.number(gaps.threads.into());
                message.put(
                    b" threads did not stop for the scan: what only their registers hold counts as leaked\n",
                );
            }
        }
    }
    if !message.bytes().is_empty() {
        complain(message.bytes());
    }
    gaps.is_some()
}

/// Writes the profile as it is now. The last profile of a forked child has a name of its own, or is not written.
fn write_file(number: u64) {
    if number == 0 && !FILE.is_wanted(true) {
        return;
    }
    let with_leaks = number == 0 && FINDS_LEAKS.load(Ordering::Relaxed) && find_leaks();
    let mut out = Writer::create(&FILE, number);
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    out.head("heap");
    out.member("peak_bytes", get(&PEAK));
    if with_leaks {
        out.text(b",\"leaks\":true");
    }
    out.text(b"}\n");
    let mut contexts = 0;
    for record in CONTEXTS.values().chain([&UNKNOWN, &POOL]) {
        if get(&record.allocations) == 0 {
            continue;
        }
        contexts += 1;
        let token = record.token.load(Ordering::Acquire);
        if core::ptr::eq(record, &POOL) {
            out.context(Some(b""));
            out.text(b",\"name\":\"pool of libstdc++ for exceptions\"");
        } else {
            // SAFETY: it ends with a zero.
            out.context((!token.is_null()).then(|| unsafe { CStr::from_ptr(token.cast()) }.to_bytes()));
        }
        out.member("allocations", get(&record.allocations));
        out.member("allocated", get(&record.allocated));
        out.member("frees", get(&record.frees));
        out.member("freed", get(&record.freed));
        let (blocks, bytes) = record.at_peak();
        out.member("peak_blocks", blocks);
        out.member("peak_bytes", bytes);
        out.member("own_peak_bytes", get(&record.own_peak));
        if with_leaks {
            out.member("leaked_blocks", get(&record.leaked_blocks));
            out.member("leaked_bytes", get(&record.leaked_bytes));
        }
        out.text(b"}\n");
    }
    out.finish(contexts);
}

/// Constructor of the program.
///
/// # Safety
/// Called once, by the loader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_heap_start() {
    refuse_sanitizers();
    FILE.set_from(VARIABLE, Some(DEFAULT_FILE));
    pool::name();
    let value = variable(LEAKS_VARIABLE);
    // SAFETY: a text of the environment.
    FINDS_LEAKS.store(!value.is_null() && unsafe { *value } != 0, Ordering::Relaxed);
    // SAFETY: a plain call. The function that is registered first runs last.
    unsafe { sys::at_quick_exit(at_exit, null_mut()) };
    when::on_signals(Kind::Heap, write_file, Some(SIGNAL_VARIABLE));
}

/// Ends a program that has another allocator of its own. The wrappers refuse to link it; other tools do not know.
fn refuse_sanitizers() {
    // Each sanitizer with an allocator of its own exports one of these. A lookup by name would allocate.
    let sanitizer = weak_address!("__sanitizer_get_allocated_size");
    let scudo = weak_address!("__scudo_print_stats");
    if !sanitizer.is_null() || !scudo.is_null() {
        let message = "pcce: the program has a sanitizer that looks after the heap, and the heap profiler in its place: it \
                       would find nothing. Link it without `--pcce-heap` (libpcce_heap.a) or without the sanitizer\n";
        complain(message.as_bytes());
        // SAFETY: ends the process.
        unsafe { sys::call(libc::SYS_exit_group, [1, 0, 0, 0, 0, 0]) };
    }
}

extern "C" fn at_exit(_: *mut c_void) {
    leaks::remember_here();
    when::at_end(Kind::Heap);
}

/// Destructor of the program. The destructors of the libraries follow, and may free blocks. A handler that is
/// registered here, while `exit` runs, runs after them.
///
/// # Safety
/// Called once, by `exit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_heap_end() {
    // SAFETY: a plain call.
    unsafe { sys::at_exit(at_exit, null_mut(), null_mut()) };
}

/// `_exit`. A forked child that could not start another program ends by `_exit`: it writes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_exit_now(status: c_int) -> ! {
    if FILE.is_wanted(false) {
        leaks::remember_here();
        when::at_end(Kind::Heap);
    }
    loop {
        for end in [libc::SYS_exit_group, libc::SYS_exit] {
            // SAFETY: a plain system call.
            unsafe { sys::call(end, [status as usize, 0, 0, 0, 0, 0]) };
        }
    }
}

/// `_Exit`, the same in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_exit_at_once(status: c_int) -> ! {
    // SAFETY: passed on.
    unsafe { __pcce_exit_now(status) }
}
