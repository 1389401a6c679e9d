//! The profile's file: when it is written, and what.
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};

use super::records::{CONTEXTS, PEAK, UNKNOWN};
use crate::output::FileName;
use crate::profile::Writer;
use crate::sys;
use crate::when::{self, Kind};
use pcce_system::weak_address;

/// Names the file; a name that is used without it.
const VARIABLE: &core::ffi::CStr = c"PCCE_HEAP_PROFILE";
const DEFAULT: &core::ffi::CStr = c"pcce-heap.%p";
/// Names a signal on which a profile is written, by its number.
const SIGNAL: &core::ffi::CStr = c"PCCE_HEAP_SIGNAL";

static FILE: FileName = FileName::new();

/// Writes the profile as it is now. The last one of a forked child has a name of its own, or there is none.
fn write(number: u64) {
    if number == 0 && !FILE.is_wanted(true) {
        return;
    }
    let mut out = Writer::create(&FILE, number);
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    out.head("heap");
    out.member("peak_bytes", get(&PEAK));
    out.text(b"}\n");
    let mut contexts = 0;
    for record in CONTEXTS.values().chain([&UNKNOWN]) {
        if get(&record.allocations) == 0 {
            continue;
        }
        contexts += 1;
        let token = record.token.load(Ordering::Acquire);
        // SAFETY: it ends with a zero.
        out.context(
            (!token.is_null()).then(|| unsafe { core::ffi::CStr::from_ptr(token.cast()) }.to_bytes()),
        );
        out.member("allocations", get(&record.allocations));
        out.member("allocated", get(&record.allocated));
        out.member("frees", get(&record.frees));
        out.member("freed", get(&record.freed));
        let (blocks, bytes) = record.at_peak();
        out.member("peak_blocks", blocks);
        out.member("peak_bytes", bytes);
        out.member("own_peak_bytes", get(&record.own_peak));
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
    FILE.set_from(VARIABLE, Some(DEFAULT));
    // SAFETY: a plain call. What is registered first runs last.
    unsafe { sys::at_quick_exit(at_exit, null_mut()) };
    when::on_signals(Kind::Heap, write, Some(SIGNAL));
}

/// The wrappers refuse to link such a program; others may not know.
fn refuse_sanitizers() {
    // What each sanitizer with an allocator of its own exports. Looking it up by name would allocate.
    let sanitizer = weak_address!("__sanitizer_get_allocated_size");
    let scudo = weak_address!("__scudo_print_stats");
    if !sanitizer.is_null() || !scudo.is_null() {
        let message = "pcce: the program has a sanitizer that looks after the heap, and the heap profiler in its place: it \
                       would find nothing. Link it without `--pcce-heap` (libpcce_heap.a) or without the sanitizer\n";
        sys::write(libc::STDERR_FILENO, message.as_bytes());
        // SAFETY: ends the process.
        unsafe { sys::call(libc::SYS_exit_group, [1, 0, 0, 0, 0, 0]) };
    }
}

extern "C" fn at_exit(_: *mut c_void) {
    when::at_end(Kind::Heap);
}

/// Destructor of the program. Those of the libraries follow, and may free: what is registered while `exit` runs, runs
/// behind them.
///
/// # Safety
/// Called once, by `exit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_heap_end() {
    // SAFETY: a plain call.
    unsafe { sys::at_exit(at_exit, null_mut(), null_mut()) };
}

/// `_exit`. A forked child ends so where it could not start another program: it writes nothing.
///
/// # Safety
/// As `_exit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_exit_now(status: c_int) -> ! {
    if FILE.is_wanted(false) {
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
///
/// # Safety
/// As `_Exit`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_exit_at_once(status: c_int) -> ! {
    // SAFETY: passed on.
    unsafe { __pcce_exit_now(status) }
}
