//! The environment before libc has it: functions of `.preinit_array`, which run before everything else, need it.

use core::ffi::{CStr, c_char, c_int};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::output::is_privileged;
use crate::sys;

/// Texts with a final zero each, one after the other, up to an empty one; null before [`read_environment`].
static ENVIRONMENT: AtomicPtr<c_char> = AtomicPtr::new(null_mut());

/// More bytes than an environment can have by the kernel's limits.
const MAX_SIZE: usize = 16 << 20;

/// From here on, variables that libc does not have are looked up in the environment with which the process was started.
/// False if that cannot be read.
pub fn read_environment() -> bool {
    if !ENVIRONMENT.load(Ordering::Acquire).is_null() {
        return true;
    }
    // SAFETY: the path ends with a zero.
    let file = unsafe { sys::open(c"/proc/self/environ".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0) };
    let Ok(file) = c_int::try_from(file).map_err(drop).and_then(|file| (file >= 0).then_some(file).ok_or(()))
    else {
        return false;
    };
    // Only pages that are written to take up memory.
    let memory: *mut u8 = sys::map(MAX_SIZE, libc::MAP_NORESERVE).cast();
    let mut len = 0;
    while !memory.is_null() && len + 2 < MAX_SIZE {
        // SAFETY: memory of ours, all zero; two zeros stay after it.
        let rest = unsafe { core::slice::from_raw_parts_mut(memory.add(len), MAX_SIZE - 2 - len) };
        match usize::try_from(sys::read(file, rest)) {
            Ok(read @ 1..) => len += read,
            _ => break,
        }
    }
    sys::close(file);
    ENVIRONMENT.store(memory.cast(), Ordering::Release);
    len > 0
}

/// The value of a variable in that environment; null if there is none.
pub(crate) fn variable(name: &CStr) -> *const c_char {
    let mut at = ENVIRONMENT.load(Ordering::Acquire).cast_const();
    if at.is_null() || is_privileged() {
        return null();
    }
    loop {
        // SAFETY: texts with a final zero each, and an empty one after them.
        let text = unsafe { CStr::from_ptr(at) }.to_bytes();
        if text.is_empty() {
            return null();
        }
        if text.strip_prefix(name.to_bytes()).is_some_and(|rest| rest.first() == Some(&b'=')) {
            return at.wrapping_add(name.count_bytes() + 1);
        }
        at = at.wrapping_add(text.len() + 1);
    }
}
