//! The common part of the profilers: memory that is never given back, and the text of a profile (`docs/formats.md`).
//! Nothing here takes a lock, or allocates other than with `mmap`: signal handlers may write profiles.

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::image::Image;
use crate::output::{Decimal, FileName, How, Text, hexadecimal, write_all};
use crate::sys;

/// A block of memory: the first word counts the bytes used, itself included.
struct Block(AtomicUsize);

const BLOCK: usize = 1 << 20;

/// Memory that only grows.
pub struct Arena(AtomicPtr<Block>);

impl Arena {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Takes `size` bytes, all zero; null if there is no memory, or `size` is more than [`Arena::MOST`].
    pub fn take(&self, size: usize) -> *mut u8 {
        let size = size.next_multiple_of(8);
        if size > Self::MOST {
            return null_mut();
        }
        loop {
            let block = self.0.load(Ordering::Acquire);
            if !block.is_null() {
                // SAFETY: blocks are never given back.
                let at = unsafe { (*block).0.fetch_add(size, Ordering::Relaxed) };
                if at + size <= BLOCK {
                    // SAFETY: in the block.
                    return unsafe { block.cast::<u8>().add(at) };
                }
            }
            let new = sys::map(BLOCK, 0).cast::<Block>();
            if new.is_null() {
                return null_mut();
            }
            // SAFETY: just made; given back if another thread's is taken.
            unsafe {
                (*new).0.store(size_of::<Block>(), Ordering::Relaxed);
                if self.0.compare_exchange(block, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                    sys::unmap(new.cast(), BLOCK);
                }
            }
        }
    }

    /// The most bytes that can be taken at once.
    pub const MOST: usize = BLOCK / 2;
}

pub struct Writer {
    name: &'static FileName,
    /// Follows the name of the file, if it is not 0.
    number: u64,
    file: c_int,
    /// The error number of a failed write; 0 without one.
    error: c_int,
    text: Text<2048>,
}

impl Writer {
    /// Makes the file; `number` follows its name if it is not 0.
    pub fn create(name: &'static FileName, number: u64) -> Self {
        Self::open(name, number, How::New)
    }

    /// Opens the file to append to it, and locks it: other processes write before or after this one.
    pub fn append(name: &'static FileName) -> Self {
        Self::open(name, 0, How::Append)
    }

    /// [`create`](Self::create) or [`append`](Self::append).
    #[inline(never)]
    pub fn open(name: &'static FileName, number: u64, how: How) -> Self {
        let file = name.open(how, number).unwrap_or(-1);
        let arguments = [file as usize, libc::LOCK_EX as usize, 0, 0, 0, 0];
        // SAFETY: our own file, or an error. Closing it ends the lock.
        let lock = || unsafe { sys::call(libc::SYS_flock, arguments) };
        // A signal handler of the program's may run meanwhile.
        while how == How::Append && lock() == -(libc::EINTR as isize) {}
        Self { name, number, file, error: 0, text: Text::new() }
    }

    /// Text that needs no quoting.
    pub fn text(&mut self, text: &[u8]) {
        for part in text.chunks(512) {
            if self.text.room() < part.len() {
                self.flush();
            }
            self.text.put(part);
        }
    }

    /// The first members of the first line, without the final brace.
    pub fn head(&mut self, kind: &str) {
        self.text(b"{\"profile\":\"");
        self.text(kind.as_bytes());
        self.text(b"\",\"version\":1,\"build_id\":\"");
        for byte in Image::program().iter().flat_map(|image| image.name()) {
            self.text(&hexadecimal(*byte));
        }
        self.text(b"\"");
        self.member("process", sys::getpid() as u64);
    }

    /// `,"name":number`.
    pub fn member(&mut self, name: &str, number: u64) {
        self.text(b",\"");
        self.text(name.as_bytes());
        self.text(b"\":");
        self.number(number);
    }

    pub fn number(&mut self, number: u64) {
        self.text(Decimal::of(number).text());
    }

    /// The start of a line with a context; None where it is not known.
    pub fn context(&mut self, token: Option<&[u8]>) {
        self.text(b"{\"token\":");
        match token {
            Some(token) => {
                self.text(b"\"");
                self.text(token);
                self.text(b"\"");
            }
            None => self.text(b"null"),
        }
    }

    /// Writes the last line, with the number of contexts.
    pub fn finish(mut self, contexts: u64) {
        self.text(b"{\"end\":true");
        self.member("contexts", contexts);
        self.text(b"}\n");
        self.close();
    }

    /// Closes the file.
    pub fn close(mut self) {
        self.flush();
        if self.error != 0 {
            self.name.report_error(self.number, self.error);
        }
        if self.file >= 0 {
            sys::close(self.file);
        }
    }

    fn flush(&mut self) {
        // A file with a hole would be worse than one that ends early.
        if self.file >= 0 && self.error == 0 {
            self.error = write_all(self.file, self.text.bytes());
        }
        self.text = Text::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_once() {
        static ARENA: Arena = Arena::new();
        let mut last = std::vec::Vec::new();
        for size in [1, 8, 100, Arena::MOST, Arena::MOST, 7, Arena::MOST - 8] {
            let at = ARENA.take(size);
            assert!(!at.is_null() && (at as usize).is_multiple_of(8), "{size}");
            // SAFETY: ours.
            unsafe { at.write_bytes(1, size) };
            last.push((at as usize, size));
        }
        last.sort_unstable();
        assert!(last.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "{last:?}");
        assert!(ARENA.take(Arena::MOST + 1).is_null());
    }
}
