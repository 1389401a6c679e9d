//! The lines of a report.
use core::ffi::{CStr, c_int};

use super::memory::settings;
use super::{SI_KERNEL, wait};
use crate::output::{Decimal, How};
use crate::sys;

/// Lines on their way to the report.
pub(super) struct Out {
    descriptor: c_int,
    buffer: [u8; 256],
    len: usize,
}

impl Out {
    pub(super) fn open() -> Self {
        let opened = || settings().file.open(How::AppendAtOnce, 0).unwrap_or(libc::STDERR_FILENO);
        let descriptor = settings().descriptor().unwrap_or_else(opened);
        Self { descriptor, buffer: [0; 256], len: 0 }
    }

    /// Says on standard error in which file the report is, if it is in one.
    pub(super) fn tell(&self) {
        if settings().descriptor().is_none() && self.descriptor != libc::STDERR_FILENO {
            settings().file.tell(b"pcce: the crash report is in ", 0, 0);
        }
    }

    pub(super) fn text(&mut self, text: &[u8]) {
        for &byte in text {
            if self.len == self.buffer.len() {
                self.flush();
            }
            self.buffer[self.len] = byte;
            self.len += 1;
        }
    }

    pub(super) fn flush(&mut self) {
        let len = core::mem::take(&mut self.len);
        write(self.descriptor, &self.buffer[..len]);
    }

    pub(super) fn line(&mut self) {
        self.text(b"\n");
    }

    /// A text of unknown origin.
    pub(super) fn name(&mut self, name: &[u8]) {
        for &byte in name {
            self.text(&[if byte < b' ' || byte == 0x7f { b'?' } else { byte }]);
        }
    }

    /// The target of a symbolic link.
    pub(super) fn link(&mut self, link: &CStr) {
        let mut path = [0_u8; 1024];
        let len = sys::read_link(link, &mut path);
        self.name(if len > 0 { &path[..len as usize] } else { b"unknown" });
    }

    /// The number of a process or a thread.
    pub(super) fn number(&mut self, number: c_int) {
        match number {
            ..=0 => self.text(b"unknown"),
            _ => self.decimal(number.into()),
        }
    }

    pub(super) fn decimal(&mut self, number: i64) {
        if number < 0 {
            self.text(b"-");
        }
        self.text(Decimal::of(number.unsigned_abs()).text());
    }

    pub(super) fn hexadecimal(&mut self, number: u64, width: u32) {
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(width);
        for digit in (0..digits).rev() {
            self.text(&[b"0123456789abcdef"[(number >> (digit * 4) & 15) as usize]]);
        }
    }

    pub(super) fn signal(&mut self, signal: c_int, code: c_int) {
        let name: &[u8] = match signal {
            libc::SIGSEGV => b"SIGSEGV",
            libc::SIGABRT => b"SIGABRT",
            libc::SIGBUS => b"SIGBUS",
            libc::SIGFPE => b"SIGFPE",
            _ => b"SIGILL",
        };
        self.text(name);
        self.text(b" (");
        self.decimal(signal.into());
        self.text(b"), code ");
        self.decimal(code.into());
        let meaning: &[u8] = match (signal, code) {
            (_, libc::SI_USER) => b"SI_USER",
            (_, libc::SI_QUEUE) => b"SI_QUEUE",
            (_, libc::SI_TKILL) => b"SI_TKILL",
            (_, SI_KERNEL) => b"SI_KERNEL",
            (libc::SIGSEGV, 1) => b"SEGV_MAPERR",
            (libc::SIGSEGV, 2) => b"SEGV_ACCERR",
            (libc::SIGBUS, 1) => b"BUS_ADRALN",
            (libc::SIGBUS, 2) => b"BUS_ADRERR",
            (libc::SIGFPE, 1) => b"FPE_INTDIV",
            (libc::SIGILL, 2) => b"ILL_ILLOPN",
            _ => return,
        };
        self.text(b" (");
        self.text(meaning);
        self.text(b")");
    }

    /// `thread: NUMBER NAME`.
    pub(super) fn thread(&mut self, thread: c_int) {
        self.text(b"thread: ");
        self.number(thread);
        let mut name = [0_u8; 16];
        let len = sys::read_of_thread(thread, b"comm", &mut name);
        let len = name[..len].iter().position(|c| *c == b'\n').unwrap_or(len);
        if len > 0 {
            self.text(b" ");
            self.name(&name[..len]);
        }
        self.line();
    }

    pub(super) fn context(&mut self, word: &[u8]) {
        self.text(b"context: ");
        if word.is_empty() {
            self.text(b"none");
        } else {
            self.flush();
            write(self.descriptor, word);
        }
        self.line();
    }
}

fn write(descriptor: c_int, mut bytes: &[u8]) {
    let mut tries = 0;
    while !bytes.is_empty() && tries < 1000 {
        let written = sys::write(descriptor, bytes);
        match usize::try_from(written) {
            Ok(written) => bytes = &bytes[written.min(bytes.len())..],
            // The reader of the pipe does not read at the moment.
            Err(_) if written == -(libc::EAGAIN as isize) || written == -(libc::EINTR as isize) => {
                tries += 1;
                wait(1_000_000, 1_000_000, || false);
            }
            Err(_) => return,
        }
    }
}
