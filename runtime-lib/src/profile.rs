//! What the profilers share: memory that is never given back, and the file that a profile is written to
//! (`docs/formats.md`). Nothing here allocates but with `mmap`, or takes a lock: signal handlers may write profiles.

use core::ffi::{CStr, c_char, c_int};
use core::ptr::{copy_nonoverlapping, null, null_mut};
use core::slice;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use crate::digits::Decimal;
use crate::image::Image;
use crate::sys;

unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

/// The value of a variable of the environment; null if there is none, and in programs that run with other rights than
/// those of who started them, for whom they would write files.
pub fn variable(name: &CStr) -> *const c_char {
    // SAFETY: a plain call.
    unsafe { secure_getenv(name.as_ptr()) }
}

/// The environment as constructors get it.
pub type Environment = *const *const c_char;

/// The same for a constructor: where the environment has nothing for the runtime, as in nearly all runs, libc need not be asked.
///
/// # Safety
/// The environment is the one that the constructor got.
pub unsafe fn variable_at_start(name: &CStr, mut environment: Environment) -> *const c_char {
    // SAFETY: by the contract: texts with a final zero, and behind the last one null.
    unsafe {
        while !environment.is_null() && !(*environment).is_null() {
            // Read as far as it is equal, which its final zero is not.
            let byte = |i: usize| (*environment).add(i).read() as u8;
            if byte(0) == b'P' && byte(1) == b'C' && byte(2) == b'C' && byte(3) == b'E' && byte(4) == b'_' {
                return variable(name);
            }
            environment = environment.add(1);
        }
    }
    null()
}

/// A block of memory: the first word counts the bytes used, itself included.
struct Block(AtomicUsize);

const BLOCK: usize = 1 << 20;

/// Memory that only grows.
pub struct Arena(AtomicPtr<Block>);

impl Arena {
    /// An empty one.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// So many bytes, all zero; null if there is no memory, or they are more than [`Arena::MOST`].
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

    /// The most that can be taken at once.
    pub const MOST: usize = BLOCK / 2;
}

/// The name of a profile's file, as it was asked for when the process started; `%p` in it stands for the process.
pub struct FileName {
    text: [AtomicI32; Self::MOST / 4],
    /// The process that was started with the name; its forked children are others.
    process: AtomicI32,
}

impl FileName {
    /// Longer names, with their folder, are cut.
    const MOST: usize = 2048;

    /// No name.
    pub const fn new() -> Self {
        Self { text: [const { AtomicI32::new(0) }; Self::MOST / 4], process: AtomicI32::new(0) }
    }

    fn text(&self) -> *mut u8 {
        self.text.as_ptr().cast_mut().cast()
    }

    /// Remembers the value of a variable of the environment, or a name that is used without it; in the working directory, which the
    /// program may leave. Once, at the start.
    pub fn set(&self, name: &CStr, default: &CStr) {
        // SAFETY: nobody else reads or writes; the last byte stays zero.
        unsafe {
            let value = variable(name);
            let value = if value.is_null() || *value == 0 { default.as_ptr() } else { value };
            let mut len = 0;
            let value = CStr::from_ptr(value).to_bytes();
            if value[0] != b'/' {
                len = sys::working_directory(slice::from_raw_parts_mut(self.text(), Self::MOST - 2));
                if len > 0 {
                    self.text().add(len).write(b'/');
                    len += 1;
                }
            }
            let rest = value.len().min(Self::MOST - 1 - len);
            copy_nonoverlapping(value.as_ptr(), self.text().add(len), rest);
            self.text().add(len + rest).write(0);
            self.process.store(sys::getpid(), Ordering::Relaxed);
        }
    }

    /// Whether this process, at its end, writes a profile: a forked child does if it gets a name of its own.
    pub fn is_wanted(&self, by_exit: bool) -> bool {
        let child = sys::getpid() != self.process.load(Ordering::Relaxed);
        // SAFETY: it ends with a zero.
        let text = unsafe { CStr::from_ptr(self.text().cast()) }.to_bytes();
        !text.is_empty() && (!child || by_exit && text.windows(2).any(|two| two == b"%p"))
    }

    /// Makes the file; `number` follows the name if it is not 0.
    pub fn create(&self, number: u64) -> Writer {
        self.open(number, libc::O_TRUNC)
    }

    /// Opens the file, behind whatever other processes have written, which wait with theirs for the end of this.
    pub fn append(&self) -> Writer {
        let writer = self.open(0, libc::O_APPEND);
        let arguments = [writer.file as usize, libc::LOCK_EX as usize, 0, 0, 0, 0];
        // A signal handler of the program's may run meanwhile.
        // SAFETY: our own file, or an error. Closing it ends the lock.
        while unsafe { sys::call(libc::SYS_flock, arguments) } == -(libc::EINTR as isize) {}
        writer
    }

    fn open(&self, number: u64, how: c_int) -> Writer {
        let mut path = Text::<{ FileName::MOST + 64 }>::new();
        // SAFETY: it ends with a zero.
        let mut text = unsafe { CStr::from_ptr(self.text().cast()) }.to_bytes().iter();
        while let Some(&byte) = text.next() {
            if byte == b'%' && text.as_slice().first() == Some(&b'p') {
                text.next();
                path.number(sys::getpid() as u64);
            } else {
                path.put(&[byte]);
            }
        }
        if number != 0 {
            path.put(b".");
            path.number(number);
        }
        path.put(b"\0");
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC | how;
        // SAFETY: the text ends with a zero.
        let file = unsafe { sys::open(path.bytes().as_ptr().cast::<c_char>(), flags, 0o666) };
        if file < 0 {
            let mut message = Text::<{ FileName::MOST + 256 }>::new();
            message.put(b"pcce: cannot write the profile ");
            message.put(&path.bytes()[..path.len - 1]);
            message.put(b": error ");
            message.number(file.unsigned_abs() as u64);
            message.put(b"\n");
            write_all(libc::STDERR_FILENO, message.bytes());
        }
        Writer { file: file as c_int, text: Text::new() }
    }
}

/// Bytes up to a limit; what does not fit is left out.
struct Text<const MOST: usize> {
    bytes: [u8; MOST],
    len: usize,
}

impl<const MOST: usize> Text<MOST> {
    const fn new() -> Self {
        Self { bytes: [0; MOST], len: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn put(&mut self, bytes: &[u8]) {
        for (to, &from) in self.bytes[self.len..].iter_mut().zip(bytes) {
            *to = from;
            self.len += 1;
        }
    }

    fn number(&mut self, number: u64) {
        self.put(Decimal::of(number).text());
    }
}

/// Writes a profile.
pub struct Writer {
    file: c_int,
    text: Text<2048>,
}

impl Writer {
    /// Text that needs no quoting.
    pub fn text(&mut self, text: &[u8]) {
        for part in text.chunks(512) {
            if self.text.len + part.len() > self.text.bytes.len() {
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
        // SAFETY: a plain lookup.
        let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as *const u8;
        for byte in Image::of(entry).iter().flat_map(|image| image.name()) {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            self.text(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
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

    /// A number.
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

    /// The last line: how many contexts there were.
    pub fn finish(mut self, contexts: u64) {
        self.text(b"{\"end\":true");
        self.member("contexts", contexts);
        self.text(b"}\n");
        self.close();
    }

    /// Nothing follows.
    pub fn close(mut self) {
        self.flush();
        if self.file >= 0 {
            sys::close(self.file);
        }
    }

    fn flush(&mut self) {
        if self.file >= 0 {
            write_all(self.file, self.text.bytes());
        }
        self.text.len = 0;
    }
}

fn write_all(file: c_int, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let written = sys::write(file, bytes);
        match usize::try_from(written) {
            Ok(0) => return,
            Ok(written) => bytes = &bytes[written..],
            Err(_) if written == -(libc::EINTR as isize) => {}
            Err(_) => return,
        }
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

    #[test]
    fn text_that_does_not_fit_is_left_out() {
        let mut short = Text::<3>::new();
        short.put(b"abcdef");
        assert_eq!(short.bytes(), b"abc");
    }
}
