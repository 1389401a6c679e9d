//! The functions that create threads, in the place of libc's.

use core::ffi::{c_int, c_void};
use core::ptr::null;

use super::{__pcce_thread_start, Start, give_back, new, stack_size};
use crate::signal::libcs;

unsafe extern "C" {
    // libc's declaration has a start routine that is safe to call.
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: Start,
        argument: *mut c_void,
    ) -> c_int;
    fn thrd_create(thread: *mut libc::pthread_t, start: Start, argument: *mut c_void) -> c_int;
}

/// Creates a thread by one of libc's functions, which is handed what is to be called, and its argument. Both return 0
/// for a new thread.
#[inline(never)]
unsafe fn create(
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
    site: Option<*const u8>,
    by: &dyn Fn(Start, *mut c_void) -> c_int,
) -> c_int {
    // SAFETY: passed on; a record that no thread got is given back.
    unsafe {
        let creation = new(start, argument, stack_size(attributes), site);
        if creation.is_null() {
            return by(start, argument);
        }
        let result = by(__pcce_thread_start, creation.cast());
        if result != 0 {
            give_back(creation);
        }
        result
    }
}

type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, *mut c_void) -> c_int;

unsafe fn create_pthread(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
    site: Option<*const u8>,
) -> c_int {
    let libcs = libcs!(Create, pthread_create, "__pcce_libc_pthread_create");
    // SAFETY: passed on.
    unsafe {
        create(attributes, start, argument, site, &|start, argument| {
            libcs(thread, attributes, start, argument)
        })
    }
}

type CreateThrd = unsafe extern "C" fn(*mut libc::pthread_t, Start, *mut c_void) -> c_int;

unsafe fn create_thrd(
    thread: *mut libc::pthread_t,
    start: Start,
    argument: *mut c_void,
    site: Option<*const u8>,
) -> c_int {
    let libcs = libcs!(CreateThrd, thrd_create, "__pcce_libc_thrd_create");
    // SAFETY: passed on.
    unsafe { create(null(), start, argument, site, &|start, argument| libcs(thread, start, argument)) }
}

/// `pthread_create`, called at `site`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
    site: *const u8,
) -> c_int {
    // SAFETY: passed on.
    unsafe { create_pthread(thread, attributes, start, argument, Some(site)) }
}

/// `pthread_create`, called by other code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_other_pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: passed on.
    unsafe { create_pthread(thread, attributes, start, argument, None) }
}

/// `thrd_create` of C11, called at `site`. The start routine returns an `int`, in the same register.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_thrd_create(
    thread: *mut libc::pthread_t,
    start: Start,
    argument: *mut c_void,
    site: *const u8,
) -> c_int {
    // SAFETY: passed on.
    unsafe { create_thrd(thread, start, argument, Some(site)) }
}

/// `thrd_create`, called by other code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_other_thrd_create(
    thread: *mut libc::pthread_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: passed on.
    unsafe { create_thrd(thread, start, argument, None) }
}
