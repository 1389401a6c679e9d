//! Threads: the context in which a thread was created, and an empty state for code that runs after its start routine.
//!
//! The pass replaces calls of `pthread_create` and `thrd_create` in instrumented code by the functions here, and has
//! [`__pcce_std_thread`] called before libstdc++'s `std::thread::_M_start_thread`. They write the token of the
//! creating context into a [`Creation`], a page of its own that belongs to the new thread and is given back when the
//! thread has ended. The new thread begins in [`__pcce_thread_start`], which calls the program's start routine.
//!
//! Executables also have such functions instead of libc's (`libpcce_libc.a`), for code that is not instrumented. The
//! threads that it creates have no token, but begin and end like others.
pub mod key;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, offset_of};
use core::ptr::{copy_nonoverlapping, null, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::abi::layout;
use crate::abi::token::SUBMITTED;
use crate::alternate;
use crate::own::Own;
use crate::signal::libcs;
use crate::state::tls;
use crate::sys;
use crate::task;
use crate::token::{self, __pcce_token};
use crate::tracer;
use pcce_system::machine::thread_pointer;

/// Size of a [`Creation`]: a page, so that creating a thread never calls the program's `malloc`.
const PAGE: usize = layout::CREATION_SIZE as usize;
/// Room for the thread's token.
const TEXT: usize = PAGE - 9 * size_of::<usize>();
/// Follows the last token where older ones were left out, for the creation of a thread and the submission of a task.
const CUT: [&[u8]; 2] = [b"+~", b"+@~"];
type Start = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// The creation of a thread: its context, and the start routine.
#[repr(C)]
pub struct Creation {
    /// For `std::thread`: libstdc++ takes the record for a `std::thread::_State`. Null where other code creates the
    /// thread, whose creation is then unknown.
    methods: *const Methods,
    pub start: Start,
    pub argument: *mut c_void,
    stack_size: usize,
    /// The number of calls of the key's destructor.
    rounds: usize,
    /// For crash reports; null without.
    alternate_stack: *mut c_void,
    len: usize,
    /// The token of the creating context, and after `+` those of the creations of its thread and further back.
    text: [u8; TEXT],
    /// The stream and the position in the trace of calls at the creation.
    trace: [u64; 2],
}

const _: () = assert!(
    size_of::<Creation>() == PAGE
        && offset_of!(Creation, len) as u64 == layout::CREATION_LEN
        && offset_of!(Creation, text) as u64 == layout::CREATION_TEXT
);

/// The virtual functions of `std::thread::_State`, in the order of the Itanium C++ ABI.
#[repr(C)]
struct Methods {
    destroy: unsafe extern "C" fn(*mut Creation),
    delete: unsafe extern "C" fn(*mut Creation),
    run: Start,
}

static METHODS: Methods = Methods { destroy: delete_state, delete: delete_state, run: __pcce_thread_start };

unsafe extern "C" {
    fn __pcce_thread_start(creation: *mut c_void) -> *mut c_void;
}

/// Called in the new thread before its start routine.
pub unsafe extern "C" fn enter(creation: *mut Creation) {
    // SAFETY: this thread's block, and its own record, which the destructor of the key gives back.
    unsafe {
        // The record of the outer call: libstdc++ has made it, and calls this function for it, too.
        let outer: *mut Creation = (*tls()).creation.cast();
        (*tls()).creation = creation.cast();
        own_stack(creation);
        if !(*creation).methods.is_null() {
            tracer::begin_thread((*creation).trace);
            (*creation).alternate_stack = alternate::begin_thread();
        }
        // Without memory for the value, the page is lost.
        key::keep(creation);
        if !outer.is_null() {
            give_back(outer);
        }
    }
}

/// The thread runs on its own stack. The whole stack counts, since destructors run after the start routine.
unsafe fn own_stack(creation: *const Creation) {
    // SAFETY: this thread's block and record.
    unsafe {
        (*tls()).stack_high = thread_pointer();
        (*tls()).stack_low = thread_pointer().saturating_sub((*creation).stack_size);
    }
}

/// Called when the start routine has ended in the middle: its activations and their frames are gone, and so is the
/// fiber in which it ended, if it was in one.
pub unsafe extern "C" fn leave() {
    // SAFETY: this thread's block and record.
    unsafe {
        own_stack((*tls()).creation.cast());
        tracer::unwound();
        key::forget_calls();
    }
}

/// Pages of threads that have ended, for the next ones: system calls would double the cost of short threads.
static SPARE: [AtomicPtr<Creation>; 16] = [const { AtomicPtr::new(null_mut()) }; 16];

/// A page for a record; null if there is no memory.
fn page() -> *mut Creation {
    if let Some(spare) = SPARE.iter().map(|s| s.swap(null_mut(), Ordering::Acquire)).find(|p| !p.is_null()) {
        return spare;
    }
    sys::map(PAGE, 0).cast()
}

#[inline(never)]
unsafe fn give_back(creation: *mut Creation) {
    let mut slots = SPARE.iter();
    let kept =
        slots.any(|s| s.compare_exchange(null_mut(), creation, Ordering::Release, Ordering::Relaxed).is_ok());
    if !kept {
        // SAFETY: by the caller: made by page(), and not used any more.
        unsafe { sys::unmap(creation.cast(), PAGE) };
    }
}

/// The record of a thread that is created at `site`, or by code without a site; null if there is no memory or no key.
unsafe fn new(
    start: Start,
    argument: *mut c_void,
    stack_size: usize,
    site: Option<*const u8>,
) -> *mut Creation {
    if !key::is_there() {
        return null_mut();
    }
    // SAFETY: the record is ours alone. `text` has room for what is copied.
    unsafe {
        let creation = page();
        if creation.is_null() {
            return null_mut();
        }
        (*creation).methods = if site.is_some() { &raw const METHODS } else { null() };
        (*creation).start = start;
        (*creation).argument = argument;
        (*creation).stack_size = stack_size;
        (*creation).trace = tracer::here();
        (*creation).rounds = 0;
        (*creation).alternate_stack = null_mut();
        (*creation).len = 0;
        if let Some(site) = site {
            let text: *mut u8 = (&raw mut (*creation).text).cast();
            __pcce_token(text.cast::<c_char>(), room(TEXT), site);
            (*creation).len = with_origin(text, TEXT);
        }
        creation
    }
}

/// Adds the origin of the thread to a token: the text of [`pcce_thread_token`]. Returns the whole length.
///
/// # Safety
/// `text` can take `size` bytes, and holds a token of the calling thread with a final zero, which leaves room for each
/// [`CUT`].
pub unsafe fn with_origin(text: *mut u8, size: usize) -> usize {
    // SAFETY: by the contract; what [`origin`] returns can be read.
    unsafe {
        let mut len = CStr::from_ptr(text.cast()).count_bytes();
        let (from, count) = origin();
        if count == 0 {
            return len;
        }
        text.add(len).write(b'+');
        len += 1;
        len += copy(from, count, text.add(len), size - len);
        // Nothing of it fits.
        if text.add(len - 1).read() == b'+' {
            let cut = cut(from);
            copy_nonoverlapping(cut.as_ptr(), text.add(len - 1), cut.len());
            len += cut.len() - 1;
        }
        len
    }
}

/// The room in a task, or a thread's record, for a token before the text that [`with_origin`] adds.
pub const fn room(size: usize) -> usize {
    size - CUT[1].len()
}

/// The origin of the calling thread's context: the text of the task that it runs, or of its creation, and its length.
unsafe fn origin() -> (*const u8, usize) {
    // SAFETY: this thread's block and record, and the task that runs. Volatile: end() may have been interrupted.
    unsafe {
        if let Some(task) = task::running() {
            return task;
        }
        let creation: *const Creation = (&raw const (*tls()).creation).read_volatile().cast();
        match creation.as_ref() {
            Some(creation) => (creation.text.as_ptr(), creation.len),
            None => (null(), 0),
        }
    }
}

/// The text that replaces tokens that do not fit. `text`: the first of them.
///
/// # Safety
/// The text is not empty.
unsafe fn cut(text: *const u8) -> &'static [u8] {
    // SAFETY: by the contract.
    CUT[usize::from(unsafe { text.read() } == SUBMITTED)]
}

/// Copies tokens that are joined by `+`, as many whole ones as fit into `size` bytes with a final zero. Returns the
/// length.
unsafe fn copy(from: *const u8, len: usize, to: *mut u8, size: usize) -> usize {
    // SAFETY: by the caller: `len` readable bytes, `size` writable ones.
    unsafe {
        if len < size {
            copy_nonoverlapping(from, to, len);
            return len;
        }
        let fits = |&end: &usize| from.add(end).read() == b'+' && end + cut(from.add(end + 1)).len() < size;
        let Some(end) = (1..size.min(len)).rev().find(fits) else { return 0 };
        copy_nonoverlapping(from, to, end);
        let cut = cut(from.add(end + 1));
        copy_nonoverlapping(cut.as_ptr(), to.add(end), cut.len());
        end + cut.len()
    }
}

/// The size of a stack that is made with `attributes`, which may be null.
unsafe fn stack_size(attributes: *const libc::pthread_attr_t) -> usize {
    let mut size = 0;
    // SAFETY: the program's attributes, or new ones, which hold the default.
    unsafe {
        if attributes.is_null() {
            let mut default = MaybeUninit::uninit();
            libc::pthread_attr_init(default.as_mut_ptr());
            libc::pthread_attr_getstacksize(default.as_ptr(), &raw mut size);
            libc::pthread_attr_destroy(default.as_mut_ptr());
        } else {
            libc::pthread_attr_getstacksize(attributes, &raw mut size);
        }
    }
    size
}

/// Before `std::thread::_M_start_thread` is called at `site`: puts a state of our own around the thread's.
///
/// # Safety
/// `state` is the `std::unique_ptr<std::thread::_State>` of the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_std_thread(state: *mut *mut c_void, site: *const u8) {
    // SAFETY: a `_State` begins with the pointer to its virtual functions.
    unsafe {
        let inner = *state;
        if inner.is_null() {
            return;
        }
        let methods: *const Methods = *inner.cast();
        let creation = new((*methods).run, inner, stack_size(null()), Some(site));
        if !creation.is_null() {
            *state = creation.cast();
        }
    }
}

/// The destructor of our state: called in the new thread after its start routine, or in the creating thread if there is
/// no new one.
unsafe extern "C" fn delete_state(creation: *mut Creation) {
    // SAFETY: by libstdc++: the state is deleted once.
    unsafe {
        let inner: *mut Creation = (*creation).argument.cast();
        let methods: *const Methods = *inner.cast();
        ((*methods).delete)(inner);
        if (*tls()).creation != creation.cast() {
            give_back(creation);
        }
    }
}

/// The token of the context in which the calling thread was created, or the task that it runs was submitted, and after
/// `+` the tokens further back. See the header.
///
/// # Safety
/// `buf` can take `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcce_thread_token(buf: *mut c_char, size: usize) -> usize {
    // SAFETY: by the contract; what origin() returns can be read.
    unsafe {
        let (text, len) = origin();
        token::end(buf, copy(text, len, buf.cast(), size), size);
        len
    }
}

/// [`pcce_thread_token`] for a thread whose memory may be damaged, and which was interrupted with this stack pointer.
/// Returns the length of the written text.
///
/// # Safety
/// `buf` can take `size` bytes.
pub unsafe fn origin_text(buf: *mut u8, size: usize, sp: usize) -> usize {
    // SAFETY: this thread's block; a record is a page, and readable as a whole or not at all.
    unsafe {
        if let Some(text) = task::running_at(sp) {
            return copy(text.bytes().as_ptr(), text.bytes().len(), buf, size);
        }
        let creation: *const Creation = (&raw const (*tls()).creation).read_volatile().cast();
        let page = creation as usize;
        if page == 0 || !page.is_multiple_of(PAGE) || !Own::new().readable(page) || (*creation).len > TEXT {
            return 0;
        }
        copy((&raw const (*creation).text).cast(), (*creation).len, buf, size)
    }
}

// The functions that create threads, instead of libc's.

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

/// Creates a thread by one of libc's functions, `by`, which gets the start routine and its argument. Both return 0 for
/// a new thread.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::vec;

    fn copied(text: &str, size: usize) -> String {
        let mut buffer = vec![b'#'; size];
        // SAFETY: both have their lengths.
        let len = unsafe { copy(text.as_ptr(), text.len(), buffer.as_mut_ptr(), size) };
        assert!(size == 0 || len < size, "no room for the final zero");
        assert!(buffer[len..].iter().all(|&b| b == b'#'));
        buffer.truncate(len);
        String::from_utf8(buffer).unwrap()
    }

    #[test]
    fn what_does_not_fit_is_cut_between_tokens() {
        assert_eq!(copied("aaa+bbb+ccc", 12), "aaa+bbb+ccc");
        assert_eq!(copied("aaa+bbb+ccc", 11), "aaa+bbb+~");
        assert_eq!(copied("aaa+bbb+ccc", 10), "aaa+bbb+~");
        assert_eq!(copied("aaa+bbb+ccc", 9), "aaa+~");
        assert_eq!(copied("aaa+bbb+ccc", 6), "aaa+~");
        assert_eq!(copied("aaa+bbb+~", 9), "aaa+~");
        assert_eq!(copied("aaa+@bb+ccc", 11), "aaa+@bb+~");
        assert_eq!(copied("aaa+@bb+ccc", 9), "aaa+@~");
        assert_eq!(copied("aaa+@bb+@~", 10), "aaa+@~");
        assert_eq!(copied("aaa+@bb+@~", 7), "aaa+@~");
        assert_eq!(copied("aaa+@bb+@~", 6), "");
        for size in 0..6 {
            assert_eq!(copied("aaa+bbb+ccc", size), "");
        }
    }

    #[test]
    fn a_chain_of_creations_is_bounded() {
        static SITE: u8 = 0;
        extern "C" fn start(_: *mut c_void) -> *mut c_void {
            null_mut()
        }
        // SAFETY: this thread's block.
        let old = unsafe { (*tls()).creation };
        let mut lengths = vec![];
        for i in 0..400usize {
            // SAFETY: this thread's block and records; the parent's is given back when its child has been made.
            unsafe {
                let creation = new(start, null_mut(), 0, Some(&raw const SITE));
                assert!(!creation.is_null());
                let parent = (*tls()).creation;
                if parent != old {
                    give_back(parent.cast());
                }
                (*tls()).creation = creation.cast();
                let text = String::from_utf8((&(*creation).text)[..(*creation).len].to_vec()).unwrap();
                lengths.push(text.len());
                let parts: std::vec::Vec<&str> = text.split('+').collect();
                let tokens = parts.iter().filter(|p| pcce::Token::parse(p).is_ok()).count();
                assert_eq!(tokens, parts.len() - usize::from(text.ends_with(r"+~")), "{text}");
                assert!(tokens == i + 1 || text.ends_with("+~"), "{i}: {text}");
            }
        }
        // SAFETY: the last record.
        unsafe {
            give_back((*tls()).creation.cast());
            (*tls()).creation = old;
        }
        assert!(*lengths.last().unwrap() < TEXT && *lengths.last().unwrap() > TEXT - 200);
    }
}
