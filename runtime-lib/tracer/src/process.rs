//! Beginnings and ends: of the process, its threads, and its forked children.

use core::ffi::{c_uint, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering};

use crate::abi::trace::{Block, Gap, Row, Special, special};
use crate::area::{self, __pcce_trace_empty, Area, State, block};
use crate::ends::{self, Ends};
use crate::forks::{self, is_foreign};
use crate::image::Image;
use crate::stream::{self, Busy};
use crate::{choice, early, events, file, handlers, images, sys, weak_address};

/// `PTHREAD_DESTRUCTOR_ITERATIONS`.
const DESTRUCTOR_ROUNDS: usize = 4;

/// Set by the thread that starts the tracer; and whether the start is complete.
static STARTED: AtomicBool = AtomicBool::new(false);
static READY: AtomicBool = AtomicBool::new(false);
/// The key of the destructor for threads, plus 1; 0 while there is none.
static KEY: AtomicU64 = AtomicU64::new(0);

/// The constructor, which earlier code calls, too. It is called by the exported name, so that of several tracers in a
/// process the executable's is started.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_trace_start() {
    if STARTED.swap(true, Ordering::AcqRel) {
        // Another thread is starting the tracer, or this has interrupted the start: then it is too early to record.
        for _ in 0..1000 {
            if READY.load(Ordering::Acquire) {
                break;
            }
            // SAFETY: a plain system call.
            unsafe { sys::call(libc::SYS_sched_yield, [0; 6]) };
        }
        return;
    }
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: plain calls. The function that is registered first runs last.
    unsafe {
        if libc::pthread_key_create(&raw mut key, Some(end_of_thread)) == 0 {
            // Released: libc's own record of the key is written before.
            KEY.store(u64::from(key) + 1, Ordering::Release);
        }
        ends::register(Ends::QuickExit);
    }
    forks::start();
    images::start();
    add_own_rows();
    file::start();
    // Without a file, recording cannot be switched on.
    let is_off = file::mapped().is_none() || choice::is_made();
    __pcce_trace_off.store(is_off.into(), Ordering::Relaxed);
    READY.store(true, Ordering::Release);
}

/// See [`OFF`](crate::abi::trace::OFF). It is 0 until that is known, since the first event may start the tracer.
#[unsafe(no_mangle)]
pub static __pcce_trace_off: AtomicU8 = AtomicU8::new(0);

// Each image has a pointer to it.
core::arch::global_asm!(
    ".pushsection .data.rel.ro.__pcce_trace_off_at,\"aw\",@progbits",
    ".globl __pcce_trace_off_at",
    ".hidden __pcce_trace_off_at",
    ".type __pcce_trace_off_at,@object",
    ".size __pcce_trace_off_at,8",
    ".p2align 3",
    "__pcce_trace_off_at:",
    ".quad __pcce_trace_off",
    ".popsection",
);

// Each image has rows of its functions, this one of no function: linkers give the section's bounds only if it is there.
core::arch::global_asm!(
    ".pushsection pcce_trace_rows,\"a\",@progbits",
    ".p2align 2",
    "__pcce_trace_no_row:",
    ".zero {size}",
    ".popsection",
    // Linkers keep it.
    ".pushsection .init_array.00001,\"aw\",@init_array",
    ".reloc ., BFD_RELOC_NONE, __pcce_trace_no_row",
    ".popsection",
    ".hidden __start_pcce_trace_rows",
    ".hidden __stop_pcce_trace_rows",
    size = const size_of::<Row>(),
);

fn add_own_rows() {
    unsafe extern "C" {
        static __start_pcce_trace_rows: Row;
        static __stop_pcce_trace_rows: Row;
    }
    let [begin, end] =
        [&raw const __start_pcce_trace_rows, &raw const __stop_pcce_trace_rows].map(|row| row.addr());
    if let Some(image) = Image::of(begin as *const u8) {
        choice::add(&image, begin, end);
    }
}

core::arch::global_asm!(
    ".pushsection .init_array.00001,\"aw\",@init_array",
    ".p2align 3",
    ".quad __pcce_trace_start",
    ".popsection",
    ".pushsection .fini_array.00001,\"aw\",@fini_array",
    ".p2align 3",
    ".quad __pcce_trace_end",
    ".popsection",
);

/// An area for a thread that has none. Null if there is no memory.
///
/// # Safety
/// This thread's block.
pub unsafe fn begin_thread(block: *mut Block) -> *mut Area {
    // This may come before libc is ready. If the environment cannot be read then, the constructor starts the tracer.
    if !READY.load(Ordering::Acquire) && early::read_environment() {
        __pcce_trace_start();
    }
    let area = area::new();
    if area.is_null() {
        return area;
    }
    // SAFETY: this thread's block. A signal handler may have been here first.
    unsafe {
        let slot = AtomicPtr::from_ptr((&raw mut (*block).stream).cast::<*mut Area>());
        if let Err(theirs) = slot.compare_exchange(null_mut(), area, Ordering::AcqRel, Ordering::Acquire) {
            area::give_back(area);
            return theirs;
        }
        keep(area);
    }
    area
}

/// The number and the position of the thread's stream; 0 and 0 if there is none. The runtime calls this where a thread
/// is created.
///
/// # Safety
/// There is room for both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_here(place: *mut [u64; 2]) {
    let block = block();
    // SAFETY: this thread's block; by the contract.
    unsafe {
        let area = area::of(block);
        let recorded = !area.is_null() && (*area).stream.state == State::Recording && !is_foreign(area);
        place.write(if recorded { [(*area).stream.number, stream::here(block, area)] } else { [0, 0] });
    }
}

/// The thread begins, and was created at this position. For the runtime.
///
/// # Safety
/// The numbers are of [`__pcce_trace_here`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_thread(parent: u64, position: u64) {
    let block = block();
    // SAFETY: this thread's block.
    unsafe {
        let there = area::of(block);
        if !there.is_null() {
            (*there).stream.announced = true;
            return;
        }
        let area = begin_thread(block);
        if !area.is_null() {
            (*area).stream.announced = true;
            (*area).stream.parent = parent;
            (*area).stream.parent_position = position;
        }
    }
}

/// The thread was ended in the middle, by `pthread_exit` or a cancellation: its activations are gone. For the runtime.
///
/// # Safety
/// Called by the runtime.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_unwound() {
    let block = block();
    // SAFETY: this thread's block.
    unsafe {
        if area::of(block).is_null() {
            return;
        }
        let area = handlers::abandon(block, area::of(block));
        // The thread may have been cancelled then.
        stream::lose_if_changing(block, area);
        let area = events::here();
        let _busy = Busy::new(block, area);
        stream::put(block, area, &[special(Special::Gap, Gap::Unwound as u64)]);
    }
}

/// Returns whether a thread that has ended was ended in the middle, if the runtime does not say so. The runtime says it
/// for threads that it has begun. The destructor of the initial thread is called in no other case.
unsafe fn is_unwound_unannounced(area: *const Area) -> bool {
    let is_left = weak_address!("__pcce_thread_is_left");
    // SAFETY: by the caller: this thread's area; the runtime's function of that name has the type.
    unsafe {
        let is_left =
            || !is_left.is_null() && transmute::<*const u8, unsafe extern "C" fn() -> bool>(is_left)();
        !(*area).stream.announced && (sys::gettid() == sys::getpid() || is_left())
    }
}

/// Has the destructor called (again).
unsafe fn keep(area: *mut Area) -> bool {
    let key = KEY.load(Ordering::Acquire);
    // SAFETY: a plain call.
    key != 0 && unsafe { libc::pthread_setspecific((key - 1) as c_uint, area.cast()) } == 0
}

/// The destructor of [`KEY`]. It acts in the last round, after all destructors of the program that do the same.
unsafe extern "C" fn end_of_thread(area: *mut c_void) {
    let area: *mut Area = area.cast();
    let block = block();
    // SAFETY: this thread's block and area.
    unsafe {
        (*area).stream.rounds += 1;
        if (*area).stream.rounds == 1 && is_unwound_unannounced(area) {
            __pcce_trace_unwound();
        }
        if (*area).stream.rounds < DESTRUCTOR_ROUNDS && keep(area) {
            return;
        }
        if area::of(block) != area {
            // A signal handler has ended the thread: its own stream, and those below, stay as they are.
            return;
        }
        {
            let _busy = Busy::new(block, area);
            stream::end(block, area);
        }
        (*block).cache = (&raw const __pcce_trace_empty).cast_mut().cast();
        (*block).pending = 1;
        AtomicPtr::from_ptr((&raw mut (*block).stream).cast::<*mut Area>())
            .store(null_mut(), Ordering::Release);
        let mut inner = (*area).stream.inner.load(Ordering::Acquire);
        area::give_back(area);
        while !inner.is_null() {
            let next = (*inner).stream.inner.load(Ordering::Acquire);
            if !is_foreign(inner) {
                let kept = &raw mut (*inner).stream.kept;
                stream::end(kept, inner);
            }
            area::give_back(inner);
            inner = next;
        }
    }
}
