//! The end of threads: keys, whose destructors are called then.
//!
//! Threads that begin in the runtime's function keep their record in one key. In other threads, only the destructor of
//! another key shows that `pthread_exit` or a cancellation has ended their calls. That is the first key of the process,
//! so that its destructor comes before those of the program.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use super::{Creation, give_back};
use crate::abi::Link;
use crate::state::tls;
use crate::{alternate, sys, tracer};

/// The key whose destructor gives the record back, plus 1; 0 while there is none. A destructor does this, since
/// destructors of the program may ask for the thread's token.
static KEY: AtomicU64 = AtomicU64::new(0);
/// The first key, plus 1.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// `PTHREAD_DESTRUCTOR_ITERATIONS`.
const DESTRUCTOR_ROUNDS: usize = 4;
/// The number of keys for whose values glibc has room in each thread; it allocates memory for others.
const ROOM: u64 = 32;

/// Makes a key, unless it is there; false if there are too many.
fn make(key: &AtomicU64, end: unsafe extern "C" fn(*mut c_void)) -> bool {
    if key.load(Ordering::Acquire) != 0 {
        return true;
    }
    let mut new: libc::pthread_key_t = 0;
    // SAFETY: a plain call; no other thread has seen the key that loses the race.
    unsafe {
        if libc::pthread_key_create(&raw mut new, Some(end)) != 0 {
            return false;
        }
        // Released: libc's own record of the key is written before.
        if key.compare_exchange(0, u64::from(new) + 1, Ordering::AcqRel, Ordering::Acquire).is_err() {
            libc::pthread_key_delete(new);
        }
    }
    true
}

/// Returns whether the key of records is there.
pub fn is_there() -> bool {
    make(&KEY, end)
}

/// Has the destructor of a record called, or called again; false without memory.
pub fn keep(creation: *mut Creation) -> bool {
    // SAFETY: a plain call.
    unsafe {
        libc::pthread_setspecific((KEY.load(Ordering::Relaxed) - 1) as c_uint, creation.cast_const().cast())
            == 0
    }
}

/// Has [`ended`] called at the end of this thread, which did not begin in the runtime's function. A signal handler may
/// call this.
pub fn watch() {
    let key = FIRST.load(Ordering::Acquire);
    if (1..=ROOM).contains(&key) {
        // SAFETY: a plain call; any value that is not null.
        unsafe { libc::pthread_setspecific((key - 1) as c_uint, (&raw const FIRST).cast()) };
    }
}

/// The initial thread begins.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_threads_start(_: c_int) {
    crate::runtimes::look();
    if make(&FIRST, ended) {
        watch();
    }
}

/// The destructor of [`FIRST`].
unsafe extern "C" fn ended(_: *mut c_void) {
    // SAFETY: this thread's block; all of its calls have ended.
    unsafe {
        // The tracer knows the end of the initial thread by itself.
        if (*tls()).top != Link::NULL && sys::gettid() != sys::getpid() {
            tracer::unwound();
        }
        forget_calls();
    }
}

/// The destructor of [`KEY`]. It acts in the last round, after all destructors of the program that do the same.
unsafe extern "C" fn end(creation: *mut c_void) {
    let creation: *mut Creation = creation.cast();
    // SAFETY: the record of this thread.
    unsafe {
        (*creation).rounds += 1;
        if (*creation).rounds < DESTRUCTOR_ROUNDS && keep(creation) {
            return;
        }
        alternate::end_thread((*creation).alternate_stack);
        (&raw mut (*tls()).creation).write_volatile(null_mut());
        compiler_fence(Ordering::SeqCst);
        give_back(creation);
    }
}

/// Forgets the calls of this thread, which have ended unnoticed.
///
/// # Safety
/// The calls of the thread are over.
pub unsafe fn forget_calls() {
    // SAFETY: this thread's block.
    unsafe {
        let block = tls();
        (*block).top = Link::NULL;
        (*block).id = 0;
        (*block).shadow = null_mut();
        (*block).busy = 0;
        (*block).shadow_left = 0;
        (*block).call = null();
    }
}
