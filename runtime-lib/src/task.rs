//! Work that moves between threads (dacce.txt §5.3), and the contexts in which it was submitted.
//!
//! [`pcce_task_capture`] keeps the token of the current context, and those of its origin, in memory of the program's.
//! Instrumented code that calls [`pcce_task_run`](crate::abi::functions::TASK_RUN) pushes a frame, and stores the
//! task's address after it; the byte of the site says so ([`SiteByte::RUNS_TASK`](crate::abi::SiteByte::RUNS_TASK)).
//! So a thread runs a task exactly as long as that frame is on its chain. Exceptions, `longjmp` and the end of the
//! thread take it off as they do with all frames, fibers take it along, and nothing else has to be put back.

use core::ffi::c_char;
use core::mem::{offset_of, size_of};
use core::ptr::null;

use crate::abi::layout;
use crate::abi::token::SUBMITTED;
use crate::fiber::{followed, followed_from, is_unknown};
use crate::output::Text;
use crate::own::Own;
use crate::shadow::written;
use crate::state::current;
use crate::thread::{room, with_origin};
use crate::token::{self, __pcce_token, token_of_caller};
use crate::unwind::Process as _;

/// Room for the text of a task.
const TEXT: usize = (layout::TASK_SIZE - layout::TASK_TEXT) as usize;

/// `struct pcce_task` of the header.
#[repr(C)]
pub struct Task {
    len: usize,
    /// [`SUBMITTED`], the token of the submission, and after `+` the tokens of its thread's origin.
    text: [u8; TEXT],
}

const _: () = assert!(
    size_of::<Task>() as u64 == layout::TASK_SIZE
        && offset_of!(Task, len) as u64 == layout::TASK_LEN
        && offset_of!(Task, text) as u64 == layout::TASK_TEXT
);

/// Keeps the current context, at `site`, as that in which a task is submitted. See `pcce_task_capture` in the header.
///
/// # Safety
/// `task` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_task_capture(task: *mut Task, site: *const u8) {
    // SAFETY: by the contract.
    unsafe { capture(task, |buf, size| __pcce_token(buf, size, site)) }
}

/// The public entry. The pass replaces calls of it in instrumented code.
///
/// # Safety
/// `task` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcce_task_capture(task: *mut Task) {
    // SAFETY: by the contract.
    unsafe { capture(task, |buf, size| token_of_caller(buf, size)) }
}

/// # Safety
/// `task` is writable; `write` writes a token.
#[inline(always)]
unsafe fn capture(task: *mut Task, write: impl FnOnce(*mut c_char, usize) -> usize) {
    // SAFETY: by the contract. The text has room for its first byte, and what follows in the rest.
    unsafe {
        let text: *mut u8 = (&raw mut (*task).text).cast();
        text.write(SUBMITTED);
        let known = write(text.add(1).cast(), room(TEXT - 1)) > 0;
        // A token that does not fit at all is empty.
        let len = if known { with_origin(text.add(1), TEXT - 1) } else { 0 };
        (*task).len = if len > 0 && text.add(1).read() != b'+' { len + 1 } else { 0 };
        written(task.cast(), size_of::<Task>());
    }
}

/// The text of the innermost task that the calling thread runs, and its length: 0 if its submission is not known. None
/// if it runs none, or the frames of the stack are not known.
pub fn running() -> Option<(*const u8, usize)> {
    let top = followed(current().1);
    let task = if is_unknown(top) { None } else { token::task(top, false) }? as *const Task;
    // SAFETY: by the contract of pcce_task_run(), the task that is run; or null.
    match unsafe { task.as_ref() } {
        Some(task) if task.len <= TEXT => Some((task.text.as_ptr(), task.len)),
        _ => Some((null(), 0)),
    }
}

/// [`running`] for a thread whose memory may be damaged, and which was interrupted with this stack pointer.
pub fn running_at(sp: usize) -> Option<Text<TEXT>> {
    let top = followed_from(sp, current().1);
    let task = if is_unknown(top) { None } else { token::task(top, true) }?;
    let (mut process, mut text) = (Own::new(), Text::new());
    let len = process.word(task.wrapping_add(layout::TASK_LEN as usize)).map_or(0, |len| len as usize);
    let words = if len <= TEXT { len.div_ceil(size_of::<u64>()) } else { 0 };
    for at in (0..words).map(|i| layout::TASK_TEXT as usize + i * size_of::<u64>()) {
        let Some(word) = process.word(task.wrapping_add(at)) else { return Some(Text::new()) };
        text.put(&word.to_le_bytes()[..size_of::<u64>().min(len - text.bytes().len())]);
    }
    Some(text)
}
