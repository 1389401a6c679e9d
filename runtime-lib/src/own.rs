//! The process of the runtime, as the walk over its stacks sees it: its memory, which may not be readable, and its
//! images.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};

use pcce_system::machine::PAGE_SIZE;

use crate::image::Image;
use crate::sys;
use crate::unwind::{Process, Tables};

/// True while a crash report is written. If the kernel refuses to check addresses, memory is then read without a check:
/// an invalid address ends only the report.
pub static MAY_FAIL: AtomicBool = AtomicBool::new(false);

pub struct Own {
    /// The page found readable last.
    page: usize,
    /// The image asked for last.
    image: Image,
}

impl Own {
    pub const fn new() -> Self {
        Self { page: 0, image: Image::NONE }
    }

    /// Returns whether the page of an address can be read.
    pub fn readable(&mut self, address: usize) -> bool {
        let page = address & !(PAGE_SIZE - 1);
        if page == 0 {
            return false;
        }
        if page != self.page {
            // The kernel reads a set of signals there before it checks the operation, which does not exist. SAFETY: the
            // call fails in any case, and changes nothing.
            let result =
                unsafe { sys::call(libc::SYS_rt_sigprocmask, [usize::MAX, address & !7, 0, 8, 0, 0]) };
            let readable = match -result as c_int {
                libc::EINVAL => true,
                libc::EFAULT => false,
                // A sandbox has refused that.
                _ => can_be_waited_for(address & !7),
            };
            if !readable {
                return false;
            }
            self.page = page;
        }
        true
    }
}

/// Checks a word by another system call: the kernel reads the word on which a thread would wait, with a timeout of 0.
#[cold]
fn can_be_waited_for(address: usize) -> bool {
    let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    let arguments = [address, operation, 0, &raw const no_time as usize, 0, 0];
    // SAFETY: reads one word, if it can.
    let result = unsafe { sys::call(libc::SYS_futex, arguments) };
    match -result as c_int {
        libc::EAGAIN | libc::ETIMEDOUT => true,
        libc::EFAULT => false,
        _ => MAY_FAIL.load(Ordering::Relaxed),
    }
}

impl Process<'static> for Own {
    // Copies of it would make each program larger.
    #[inline(never)]
    fn word(&mut self, address: usize) -> Option<u64> {
        if !address.is_multiple_of(8) || !self.readable(address) {
            return None;
        }
        // SAFETY: readable, and a word does not leave its page.
        Some(unsafe { (address as *const u64).read_volatile() })
    }

    fn image(&mut self, address: usize) -> Option<Tables<'static>> {
        if !self.image.contains(address as *const u8) {
            self.image = Image::of(address as *const u8)?;
        }
        let (index, image) = self.image.unwind_tables().unwrap_or((&[], &[]));
        Some(Tables { start: image.as_ptr() as usize, image, index_start: index.as_ptr() as usize, index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::here;
    use crate::unwind::{End, Interruption, MAX_ACTIVATIONS};
    use std::vec::Vec;

    #[inline(never)]
    fn walk() -> Interruption {
        Interruption::walk(here(), 0, MAX_ACTIVATIONS, &mut Own::new())
    }

    #[inline(never)]
    extern "C" fn compare(a: *const core::ffi::c_void, b: *const core::ffi::c_void) -> i32 {
        let found = walk();
        assert_eq!(found.end, End::Outermost, "{:x?}", found.addresses().collect::<Vec<_>>());
        a.cast::<i32>().cmp(&b.cast::<i32>()) as i32
    }

    #[test]
    fn a_walk_reaches_the_first_function_of_the_thread() {
        let found = walk();
        assert_eq!(found.end, End::Outermost, "{:x?}", found.addresses().collect::<Vec<_>>());
        let mut list = [3, 1, 2];
        // SAFETY: a plain call of libc.
        unsafe { libc::qsort(list.as_mut_ptr().cast(), 3, 4, Some(compare)) };
    }

    #[test]
    fn memory_is_asked_for() {
        let mut memory = Own::new();
        let word = 77_u64;
        assert_eq!(memory.word(&raw const word as usize), Some(77));
        for wild in [0, 8, 1, usize::MAX, usize::MAX & !7, 0x8000_0000_0000_0000, 0xdead_beef_0000] {
            assert_eq!(memory.word(wild), None);
        }
        assert_eq!(memory.word(&raw const word as usize), Some(77));
        assert!(can_be_waited_for(&raw const word as usize) && can_be_waited_for(&raw const ZERO as usize));
        assert!(!can_be_waited_for(8) && !can_be_waited_for(0xdead_beef_0000));
    }

    static ZERO: u64 = 0;
}
