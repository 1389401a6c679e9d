//! The files that the runtime writes: their names, and the one function that opens them.
//!
//! A variable of the environment is its user's wish: such a file is opened as a shell would do it. A name that is built
//! into the program was not chosen for the present folder, which may belong to another user: no link is followed there,
//! and only the owner may read the file. A program that runs with more rights than its user (`AT_SECURE`: set-user-ID,
//! capabilities) takes nothing from the environment, and uses only absolute names of those that are built in.
//!
//! Nothing here allocates or takes a lock: signal handlers open files, too.

#![allow(clippy::new_without_default, reason = "made in statics")]

use core::ffi::{CStr, c_char, c_int};
use core::ptr::{copy_nonoverlapping, null};
use core::slice;
use core::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use crate::early;
use crate::shared::identity;
use crate::sys;

unsafe extern "C" {
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

/// The value of a variable of the environment; null if there is none, and in programs that run with other rights than
/// their user's: they must not write files for that user.
pub fn variable(name: &CStr) -> *const c_char {
    // SAFETY: a plain call.
    let value = unsafe { secure_getenv(name.as_ptr()) };
    if value.is_null() { early::variable(name) } else { value }
}

/// The environment as constructors get it.
pub type Environment = *const *const c_char;

/// [`variable`] for a constructor. It asks libc only if the environment has a variable for the runtime, which is rare.
///
/// # Safety
/// The environment is the one that the constructor got.
#[inline(never)]
pub unsafe fn variable_at_start(name: &CStr, mut environment: Environment) -> *const c_char {
    // SAFETY: by the contract: texts with a final zero, and null after the last one.
    unsafe {
        while !environment.is_null() && !(*environment).is_null() {
            // Reading ends at the first difference, and so at the final zero.
            let byte = |i: usize| (*environment).add(i).read() as u8;
            if byte(0) == b'P' && byte(1) == b'C' && byte(2) == b'C' && byte(3) == b'E' && byte(4) == b'_' {
                return variable(name);
            }
            environment = environment.add(1);
        }
    }
    null()
}

/// Returns whether the program runs with more rights than its user.
pub(crate) fn is_privileged() -> bool {
    // SAFETY: a plain lookup.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The chooser of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum By {
    /// The program's builder, or this library.
    Program = 1,
    /// The user of the program, by a variable of the environment.
    User = 2,
}

/// The treatment of a file that is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// A new file replaces it.
    New,
    /// The file grows.
    Append,
    /// As [`Append`](Self::Append), without waiting for the reader of a pipe.
    AppendAtOnce,
    /// The file stays as it is, to be read and written.
    Shared,
    /// As [`Shared`](Self::Shared), but a file that is not there is an error, and no message is written.
    SharedAgain,
}

/// The name of a file, as it was requested when the process started; `%p` in it stands for the process.
pub struct FileName {
    text: [AtomicI32; Self::MAX_LEN / 4],
    /// A [`By`]; 0 until all of the name is written: other threads may look meanwhile.
    by: AtomicU8,
    /// The process that was started with the name; its forked children are others.
    process: AtomicI32,
}

impl FileName {
    /// The maximum length of a name with its folder, in bytes. Longer names are refused.
    const MAX_LEN: usize = 4096;

    /// No name.
    pub const fn new() -> Self {
        let text = [const { AtomicI32::new(0) }; Self::MAX_LEN / 4];
        Self { text, by: AtomicU8::new(0), process: AtomicI32::new(0) }
    }

    fn text(&self) -> *mut u8 {
        self.text.as_ptr().cast_mut().cast()
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the last byte stays zero.
        unsafe { CStr::from_ptr(self.text().cast()) }.to_bytes()
    }

    /// Returns whether there is a name.
    pub fn is_named(&self) -> bool {
        self.by.load(Ordering::Acquire) != 0
    }

    fn is_built_in(&self) -> bool {
        self.by.load(Ordering::Relaxed) == By::Program as u8
    }

    /// Remembers the value of a variable of the environment, or a name that is used without it, if there is one.
    pub fn set_from(&self, name: &CStr, default: Option<&CStr>) {
        let value = variable(name);
        // SAFETY: a text of the environment.
        let value = (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) });
        match (value.filter(|value| !value.is_empty()), default) {
            (Some(value), _) => self.set(value, By::User),
            (None, Some(default)) => self.set(default, By::Program),
            (None, None) => {}
        }
    }

    /// Remembers a name, with the working directory, which the program may leave. Called once, at the start.
    pub fn set(&self, name: &CStr, by: By) {
        let name = name.to_bytes();
        let relative = name.first() != Some(&b'/');
        if relative && by == By::Program && is_privileged() {
            return;
        }
        // SAFETY: no other thread writes, or reads before there is a name; the last byte stays zero.
        unsafe {
            let mut len = 0;
            if relative {
                len = sys::working_directory(slice::from_raw_parts_mut(self.text(), Self::MAX_LEN - 2));
                if len > 0 {
                    self.text().add(len).write(b'/');
                    len += 1;
                }
            }
            if len + name.len() >= Self::MAX_LEN {
                self.text().write_bytes(0, Self::MAX_LEN);
                complain(b"pcce: the name of a file to write is too long\n");
                return;
            }
            copy_nonoverlapping(name.as_ptr(), self.text().add(len), name.len());
            self.text().add(len + name.len()).write(0);
        }
        self.process.store(sys::getpid(), Ordering::Relaxed);
        self.by.store(by as u8, Ordering::Release);
    }

    /// Returns whether this process, at its end, writes the file: a forked child does if it gets a name of its own.
    pub fn is_wanted(&self, by_exit: bool) -> bool {
        if !self.is_named() {
            return false;
        }
        let child = !sys::is_process(self.process.load(Ordering::Relaxed));
        !child || by_exit && self.bytes().windows(2).any(|two| two == b"%p")
    }

    /// The name with a final zero; `number` follows it if it is not 0.
    fn path(&self, number: u64) -> Text<{ Self::MAX_LEN + 64 }> {
        let mut path = Text::new();
        let mut text = self.bytes().iter();
        while let Some(&byte) = text.next() {
            if byte == b'%' && text.as_slice().first() == Some(&b'p') {
                text.next();
                let number = match sys::getpid() {
                    ..=0 => self.process.load(Ordering::Relaxed),
                    number => number,
                };
                path.number(number.max(0) as u64);
            } else {
                path.put(&[byte]);
            }
        }
        if number != 0 {
            path.put(b".");
            path.number(number);
        }
        path.put(b"\0");
        path
    }

    /// Has forked children use the same name as this process.
    pub fn settle(&self) {
        let path = self.path(0);
        if path.bytes().len() <= Self::MAX_LEN {
            // SAFETY: as in set(); it has a final zero, and fits.
            unsafe { copy_nonoverlapping(path.bytes().as_ptr(), self.text(), path.bytes().len()) };
        }
    }

    /// Removes the name of a regular file, not of a link to one, so that another file may have it. False if it is still
    /// there.
    pub fn remove(&self) -> bool {
        let path = self.path(0);
        let mut about = core::mem::MaybeUninit::<libc::stat>::uninit();
        let name = path.bytes().as_ptr();
        // SAFETY: the text ends with a zero; writes what it has.
        unsafe {
            let flags = libc::AT_SYMLINK_NOFOLLOW as usize;
            let arguments =
                [libc::AT_FDCWD as usize, name as usize, about.as_mut_ptr() as usize, flags, 0, 0];
            let known = sys::call(libc::SYS_newfstatat, arguments) == 0;
            if !known || about.assume_init().st_mode & libc::S_IFMT != libc::S_IFREG {
                return false;
            }
            sys::unlink(name.cast()) == 0
        }
    }

    /// Returns whether the name leads to this open file. The error is the kernel's.
    pub fn leads_to(&self, file: c_int) -> Result<bool, c_int> {
        let there = match self.open(How::SharedAgain, 0) {
            Err(libc::ENOENT) => return Ok(false),
            there => there?,
        };
        let same = |a: (u64, u64, u64), b: (u64, u64, u64)| (a.0, a.1) == (b.0, b.1);
        let leads = identity(there).ok().zip(identity(file).ok()).is_some_and(|(a, b)| same(a, b));
        sys::close(there);
        Ok(leads)
    }

    /// Opens the file for writing; `number` follows its name if it is not 0. The error is the kernel's; the user has
    /// got a message.
    pub fn open(&self, how: How, number: u64) -> Result<c_int, c_int> {
        if !self.is_named() {
            return Err(libc::ENOENT);
        }
        let path = self.path(number);
        let built_in = self.is_built_in();
        let mut flags = libc::O_CLOEXEC | libc::O_NOCTTY;
        flags |= match how {
            How::Shared => libc::O_RDWR | libc::O_CREAT,
            How::SharedAgain => libc::O_RDWR,
            _ => libc::O_WRONLY | libc::O_CREAT,
        };
        flags |= match how {
            // A pipe is refused, and must not be waited for.
            How::Shared | How::SharedAgain => libc::O_NONBLOCK,
            How::New if built_in => libc::O_EXCL,
            How::New => libc::O_TRUNC,
            How::Append => libc::O_APPEND,
            How::AppendAtOnce => libc::O_APPEND | libc::O_NONBLOCK,
        };
        if built_in {
            flags |= libc::O_NOFOLLOW;
        }
        let name = path.bytes().as_ptr().cast::<c_char>();
        // SAFETY: the text ends with a zero.
        let file = unsafe {
            if built_in && how == How::New {
                // An earlier process with this number has left the file: remove the name, whatever it leads to.
                sys::unlink(name);
            }
            sys::open(name, flags, if built_in { 0o600 } else { 0o644 })
        };
        if file >= 0 {
            return Ok(file as c_int);
        }
        let error = -file as c_int;
        if how != How::SharedAgain {
            self.report_error(number, error);
        }
        Err(error)
    }

    /// Writes a message that the file cannot be written, or no further; the error is the kernel's.
    pub fn report_error(&self, number: u64, error: c_int) {
        self.tell(b"pcce: cannot write to ", number, error);
    }

    /// Writes a message that ends in the file's name and, unless it is 0, in the kernel's error.
    pub fn tell(&self, what: &[u8], number: u64, error: c_int) {
        let path = self.path(number);
        let mut message = Text::<{ Self::MAX_LEN + 256 }>::new();
        message.put(what);
        message.put(path.bytes().strip_suffix(b"\0").unwrap_or_default());
        if self.is_built_in() && error == libc::ELOOP {
            message.put(b", a symbolic link, which a name that is built into the program must not be");
        }
        if error != 0 {
            message.put(b": ");
            message.error(error);
        }
        message.put(b"\n");
        complain(message.bytes());
    }
}

/// Bytes up to a limit; bytes that do not fit are left out.
pub struct Text<const SIZE: usize> {
    bytes: [u8; SIZE],
    len: usize,
}

/// Adds the bytes that fit. One function serves texts of all sizes.
#[inline(never)]
fn append(to: &mut [u8], len: &mut usize, bytes: &[u8]) {
    for (to, &from) in to[*len..].iter_mut().zip(bytes) {
        *to = from;
        *len += 1;
    }
}

impl<const SIZE: usize> Text<SIZE> {
    pub const fn new() -> Self {
        Self { bytes: [0; SIZE], len: 0 }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The number of bytes that still fit.
    pub fn room(&self) -> usize {
        SIZE - self.len
    }

    #[inline(never)]
    pub fn put(&mut self, bytes: &[u8]) {
        append(&mut self.bytes, &mut self.len, bytes);
    }

    /// Adds a number, in decimal digits.
    pub fn number(&mut self, number: u64) {
        self.put(Decimal::of(number).text());
    }

    /// Adds an error of the system: its text, where it is one that files have, and its number.
    pub fn error(&mut self, error: c_int) {
        append_error(&mut self.bytes, &mut self.len, error);
    }
}

/// Adds an error. One function serves texts of all sizes.
#[inline(never)]
fn append_error(to: &mut [u8], len: &mut usize, error: c_int) {
    let text = ERRORS.iter().find(|(number, _)| *number == error);
    let (before, after): (&[u8], &[u8]) = match text {
        Some((_, text)) => {
            append(to, len, text);
            (b" (error ", b")")
        }
        None => (b"error ", b""),
    };
    append(to, len, before);
    append(to, len, Decimal::of(error as u64).text());
    append(to, len, after);
}

/// The errors that files have, in the words of the system.
const ERRORS: [(c_int, &[u8]); 21] = [
    (libc::EPERM, b"Operation not permitted"),
    (libc::ENOENT, b"No such file or directory"),
    (libc::EIO, b"Input/output error"),
    (libc::ENXIO, b"No such device or address"),
    (libc::EBADF, b"Bad file descriptor"),
    (libc::ENOMEM, b"Cannot allocate memory"),
    (libc::EACCES, b"Permission denied"),
    (libc::ENOTDIR, b"Not a directory"),
    (libc::EISDIR, b"Is a directory"),
    (libc::EINVAL, b"Invalid argument"),
    (libc::ENFILE, b"Too many open files in system"),
    (libc::EMFILE, b"Too many open files"),
    (libc::ETXTBSY, b"Text file busy"),
    (libc::EFBIG, b"File too large"),
    (libc::ENOSPC, b"No space left on device"),
    (libc::EROFS, b"Read-only file system"),
    (libc::EPIPE, b"Broken pipe"),
    (libc::ENAMETOOLONG, b"File name too long"),
    (libc::ENOSYS, b"Function not implemented"),
    (libc::ELOOP, b"Too many levels of symbolic links"),
    (libc::EDQUOT, b"Disk quota exceeded"),
];

/// Writes a message to standard error. If that is a pipe without a reader, or a file that may not become larger, no
/// signal ends the program: without the message it would not have written there.
pub fn complain(message: &[u8]) {
    write_all(libc::STDERR_FILENO, message);
}

/// Writes to a file, as much as possible, [`unsignalled`]. Returns 0, or an error number if not all was written.
pub fn write_all(file: c_int, bytes: &[u8]) -> c_int {
    unsignalled(file, bytes, None)
}

/// [`write_all`] at an offset of the file.
pub fn write_all_at(file: c_int, bytes: &[u8], at: u64) -> c_int {
    unsignalled(file, bytes, Some(at))
}

/// Writes without the signals by which the kernel would end a program that writes to a pipe without a reader, or whose
/// files may not become larger.
#[inline(never)]
fn unsignalled(file: c_int, bytes: &[u8], at: Option<u64>) -> c_int {
    const SIZE: usize = size_of::<u64>();
    let signals = 1_u64 << (libc::SIGXFSZ - 1) | 1 << (libc::SIGPIPE - 1);
    let (mut before, no_time) = (0_u64, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    let kept = &raw mut before as usize;
    let mask = |how: c_int, new: usize, old: usize| {
        // SAFETY: reads and writes sets of signals, as large as the kernel's.
        unsafe { sys::call(libc::SYS_rt_sigprocmask, [how as usize, new, old, SIZE, 0, 0]) }
    };
    let is_masked = mask(libc::SIG_BLOCK, &raw const signals as usize, kept) == 0;
    let error = write(file, bytes, at);
    if !is_masked {
        return error;
    }
    let raised = match error {
        libc::EFBIG => 1 << (libc::SIGXFSZ - 1),
        libc::EPIPE => 1 << (libc::SIGPIPE - 1),
        _ => 0,
    } & !before;
    if raised != 0 {
        let arguments = [&raw const raised as usize, 0, &raw const no_time as usize, SIZE, 0, 0];
        // SAFETY: takes the pending signal, if there is one.
        unsafe { sys::call(libc::SYS_rt_sigtimedwait, arguments) };
    }
    mask(libc::SIG_SETMASK, kept, 0);
    error
}

fn write(file: c_int, bytes: &[u8], at: Option<u64>) -> c_int {
    let is_placed = at.is_some();
    let mut done = 0;
    while done < bytes.len() {
        let (rest, at) = (&bytes[done..], at.map_or(0, |at| at as usize + done));
        let call = if is_placed { libc::SYS_pwrite64 } else { libc::SYS_write };
        // SAFETY: reads the bytes.
        let written =
            unsafe { sys::call(call, [file as usize, rest.as_ptr() as usize, rest.len(), at, 0, 0]) };
        match usize::try_from(written) {
            Ok(0) => return libc::EIO,
            Ok(written) => done += written,
            Err(_) if written == -(libc::EINTR as isize) => {}
            Err(_) => return -written as c_int,
        }
    }
    0
}

/// The two hexadecimal digits of a byte.
pub fn hexadecimal(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)])
}

/// The decimal digits of a number.
pub struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    pub fn of(number: u64) -> Self {
        let mut decimal = Self { digits: [0; 20], start: 20 };
        let mut rest = number;
        loop {
            decimal.start -= 1;
            decimal.digits[decimal.start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return decimal;
            }
        }
    }

    pub fn text(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_does_not_fit_is_left_out() {
        let mut short = Text::<3>::new();
        short.put(b"abcdef");
        assert_eq!(short.bytes(), b"abc");
    }

    #[test]
    fn names_that_are_too_long_are_none() {
        let name = FileName::new();
        let long = std::ffi::CString::new(std::vec![b'x'; FileName::MAX_LEN]).unwrap();
        name.set(&long, By::User);
        assert!(!name.is_named() && !name.is_wanted(true) && name.open(How::New, 0).is_err());
        name.set(c"/short", By::User);
        assert!(name.is_named());
    }

    #[test]
    fn numbers_are_written_in_full() {
        for number in [0, 7, 10, 12_345, u64::MAX] {
            assert_eq!(Decimal::of(number).text(), std::format!("{number}").as_bytes());
        }
    }
}
