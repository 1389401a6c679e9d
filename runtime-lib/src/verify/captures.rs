//! Captures: tokens and numbers as the program has taken them, each with the records of the shadow stack there, for
//! `pcce verified` to compare. So contexts of other places than function entries are compared, too: the call site of a
//! capture, and any instruction at which a signal struck.
//!
//! Each capture is a line, `capture KIND TOKEN ENTRY… END`:
//! - `KIND`: `s:SITE` for a capture by instrumented code, `p` for a point.
//! - `TOKEN`: a token, or `pcce:NUMBER@PROCESS`.
//! - `ENTRY`: a record, the innermost first: `SITE`, the call site, or `=NAME@SITE` where the site is missing, or may
//!   belong to a call that is over. `!`: the runtime called a signal handler here; further records are of the
//!   interrupted code.
//! - `END`: `.`, or `+` where there are more records, or `?` where further records are not known.
//!
//! A site is the beginning of its image's build id and its address in the image, both in hexadecimal digits:
//! `0fa2…+12`.
//!
//! Signal handlers write, too, and threads and processes into one file. So a line is made in memory of its own, and
//! written by one call, to a file that is open for that long only: the program may close all files, and use their
//! numbers for its own. The first failure writes a message, and ends the writing.

use core::ffi::{CStr, c_int};
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{MAX_FRAMES, busy};
use crate::Native;
use crate::abi::{Frame, FunctionRecord, Link, Shadow};
use crate::fiber::{ANYWHERE, followed_from, is_unknown};
use crate::image::Image;
use crate::output::{self, Decimal, FileName, How, complain, hexadecimal, write_all};
use crate::own::Own;
use crate::signal::{self, SignalFrame};
use crate::state::{current, tls};
use crate::sys;
use crate::token::{Taken, WATCH, Watch};
use crate::unwind::{Process as _, Unwind as _};
use pcce_system::machine::stack_pointer;

/// The variable that names the file.
const VARIABLE: &CStr = c"PCCE_VERIFY_CAPTURES";
/// The variable with a number: only captures whose numbers it divides are written.
const EVERY_VARIABLE: &CStr = c"PCCE_VERIFY_EVERY";
/// The maximum number of records in a line.
const MAX_RECORDS: usize = 4096;
/// The maximum length of a function's name.
const MAX_NAME: usize = 4096;
/// Room for a record with its name, each byte of which may take three.
const ENTRY: usize = 3 * MAX_NAME + 64;

static FILE: FileName = FileName::new();
static EVERY: AtomicU64 = AtomicU64::new(1);
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// True if something could not be written.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Has captures written, if the environment asks for it.
pub(super) fn start() {
    FILE.set_from(VARIABLE, None);
    if !FILE.is_named() {
        return;
    }
    let every = output::variable(EVERY_VARIABLE);
    if !every.is_null() {
        // SAFETY: a text of the environment.
        let every = sys::number(unsafe { CStr::from_ptr(every) });
        if every < 1 {
            let message = "pcce: PCCE_VERIFY_EVERY is no number from 1 on; no captures are written\n";
            complain(message.as_bytes());
            return;
        }
        EVERY.store(every as u64, Ordering::Relaxed);
    }
    let watch: Watch = watch;
    // Without `black_box` the compiler would call the function directly, since no other is ever stored, and all
    // programs would contain its code.
    // What it reads is written before.
    WATCH.store(core::hint::black_box(watch as *mut ()), Ordering::Release);
}

/// A number was taken at this site.
pub(super) fn number(number: u64, site: *const u8) {
    if !WATCH.load(Ordering::Acquire).is_null() {
        let (number, process) = (Decimal::of(number), Decimal::of(sys::getpid() as u64));
        captured(Taken::Site(site), &[b"pcce:", number.text(), b"@", process.text()]);
    }
}

fn watch(taken: Taken, token: &CStr) {
    if !token.is_empty() {
        captured(taken, &[token.to_bytes()]);
    }
}

/// Writes a capture, if it is one of those that are wanted.
fn captured(taken: Taken, token: &[&[u8]]) {
    if STOPPED.load(Ordering::Relaxed)
        || !TAKEN.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY.load(Ordering::Relaxed))
    {
        return;
    }
    // A signal handler may have interrupted work of verify mode.
    let write = || write(taken, token);
    if !busy(write) {
        write();
    }
}

fn write(taken: Taken, token: &[&[u8]]) {
    let size = token.iter().map(|part| part.len()).sum::<usize>() + MAX_RECORDS * 48 + 2 * ENTRY;
    let at = sys::map(size, 0).cast::<u8>();
    if at.is_null() {
        return stop(libc::ENOMEM);
    }
    let mut line = Line { at, len: 0, size, image: Image::NONE };
    line.put(b"capture ");
    match taken {
        Taken::Site(site) => {
            line.put(b"s:");
            line.site(site);
        }
        Taken::Point { .. } => line.put(b"p"),
    }
    line.put(b" ");
    token.iter().for_each(|part| line.put(part));
    line.put(b" ");
    let end = List::at(taken).write(&mut line);
    line.put(&[end, b'\n']);
    // Without waiting for the reader of a pipe.
    match FILE.open(How::AppendAtOnce, 0) {
        Ok(file) => {
            let error = write_all(file, line.bytes());
            sys::close(file);
            if error != 0 {
                stop(error);
            }
        }
        Err(_) => STOPPED.store(true, Ordering::Relaxed),
    }
    // SAFETY: mapped with this size, and not used again.
    unsafe { sys::unmap(at.cast(), size) };
}

#[cold]
fn stop(error: c_int) {
    if !STOPPED.swap(true, Ordering::Relaxed) {
        FILE.report_error(0, error);
    }
}

/// All records are there.
const WHOLE: u8 = b'.';
/// There are more records.
const MORE: u8 = b'+';
/// Further records are not known.
const UNKNOWN: u8 = b'?';

/// The activations at a capture, by the shadow stack. Memory is checked before it is read: the program may have
/// crashed.
struct List {
    memory: Own,
    /// The innermost record that was not written yet; 0 without one.
    shadow: usize,
    /// The program counter at the capture, or where a handler has interrupted the thread.
    pc: usize,
    /// The stack pointer there.
    sp: usize,
    /// Pushed frames further out, among which are those of handlers.
    top: Link,
}

/// The end of a handler's records.
#[derive(PartialEq, Eq)]
enum Next {
    /// Records of the interrupted functions follow.
    Interrupted,
    /// No records follow: these were no handler's.
    Nothing,
    Unknown,
}

impl List {
    fn at(taken: Taken) -> Self {
        // SAFETY: this thread's block; volatile, since signal handlers use it, too.
        let shadow = unsafe { (&raw const (*tls()).shadow).read_volatile() }.addr();
        let from = |pc, sp| Self { memory: Own::new(), shadow, pc, sp, top: current().1 };
        let Taken::Point { pc, sp } = taken else { return from(0, stack_pointer()) };
        let mut list = from(0, 0);
        while list.interrupted() == Next::Interrupted {
            if (list.pc, list.sp) == (pc, sp) {
                return list;
            }
        }
        from(pc, sp)
    }

    /// Goes to the code that the next handler has interrupted, by the frame that the runtime has pushed for the
    /// handler.
    fn interrupted(&mut self) -> Next {
        for _ in 0..MAX_FRAMES {
            if self.top.is_null() {
                return Next::Nothing;
            }
            let frame = self.top.frame().addr();
            let word = |offset: usize| (!is_unknown(self.top)).then(|| self.memory.word(frame + offset))?;
            let Some([prev, site]) = words([offset_of!(Frame, prev), offset_of!(Frame, marked_site)], word)
            else {
                return Next::Unknown;
            };
            self.top = Link::new(prev as *mut Frame);
            if signal::is_site(Frame::new(Link::NULL, 0, site as *const u8).site()) {
                let word = |offset: usize| self.memory.word(frame + offset);
                let kept = [offset_of!(SignalFrame, context), offset_of!(SignalFrame, shadow)];
                let Some([context, shadow]) = words(kept, word) else { return Next::Unknown };
                let registers = Native::interrupted(&mut self.memory, context as usize);
                let Some(registers) = registers else { return Next::Unknown };
                (self.shadow, self.pc, self.sp) = (shadow as usize, registers.pc(), registers.sp());
                return Next::Interrupted;
            }
        }
        Next::Unknown
    }

    /// Writes the records, and returns the character for their end.
    fn write(&mut self, line: &mut Line) -> u8 {
        let mut written = 0;
        loop {
            if !self.skip_ended() {
                return UNKNOWN;
            }
            let mut first = true;
            while self.shadow != 0 {
                if written == MAX_RECORDS || line.size - line.len < 2 * ENTRY {
                    return MORE;
                }
                if !self.record(line, first) {
                    return UNKNOWN;
                }
                (written, first) = (written + 1, false);
            }
            match self.interrupted() {
                Next::Interrupted if written == MAX_RECORDS => return MORE,
                Next::Interrupted => line.put(b"! "),
                Next::Nothing => return WHOLE,
                Next::Unknown => return UNKNOWN,
            }
            written += 1;
        }
    }

    /// Leaves out records of activations that are over: after `longjmp` and exceptions they are the innermost ones,
    /// below the stack pointer, until the activation that goes on drops them ([`super::__pcce_verify_resume`]). False
    /// if their contents are lost, or the stack is another one than theirs.
    fn skip_ended(&mut self) -> bool {
        let sp = self.sp;
        for _ in 0..MAX_FRAMES {
            let known = followed_from(sp, Link::new(self.shadow as *mut Frame));
            if self.shadow == 0 || self.shadow >= sp && !is_unknown(known) {
                return true;
            }
            // SAFETY: this thread's block.
            let stack = unsafe { (*tls()).stack_low..(*tls()).stack_high };
            let both = stack.contains(&self.shadow) && stack.contains(&sp);
            // A handler on this stack has written over them.
            if !both || self.shadow >= sp || stack.end == ANYWHERE || stack.contains(&stack_pointer()) {
                return false;
            }
            let Some(prev) = self.memory.word(self.shadow + offset_of!(Shadow, prev)) else { return false };
            self.shadow = prev as usize;
        }
        false
    }

    /// Writes a record, and goes to the next one outwards. False if it is not valid.
    fn record(&mut self, line: &mut Line, with_name: bool) -> bool {
        let fields = [offset_of!(Shadow, prev), offset_of!(Shadow, function), offset_of!(Shadow, site)];
        let record = self.shadow;
        let Some([prev, function, site]) = words(fields, |offset| self.memory.word(record + offset)) else {
            return false;
        };
        if with_name || site == 0 {
            line.put(b"=");
            if !self.name(line, function as *const FunctionRecord) {
                return false;
            }
            line.put(b"@");
        }
        line.site(site as *const u8);
        line.put(b" ");
        self.shadow = prev as usize;
        true
    }

    /// Writes the name of a function. False if there is no such function.
    fn name(&mut self, line: &mut Line, function: *const FunctionRecord) -> bool {
        let inside = |image: &Image| {
            image.contains(function.cast()) && image.contains(function.wrapping_add(1).cast())
        };
        let Some(image) = Image::of(function.cast()).filter(inside) else { return false };
        if !function.is_aligned() || !self.memory.readable(function.addr()) {
            return false;
        }
        // SAFETY: records are where an image has data, and this would be one.
        let mut at = unsafe { (*function).name.get() };
        for _ in 0..MAX_NAME {
            if !image.contains(at) || !self.memory.readable(at.addr()) {
                return false;
            }
            // SAFETY: readable.
            match unsafe { at.read() } {
                0 => return true,
                byte @ (..=b' ' | b'%' | b'@' | 0x7f..) => {
                    line.put(b"%");
                    line.put(&hexadecimal(byte));
                }
                byte => line.put(&[byte]),
            }
            at = at.wrapping_add(1);
        }
        false
    }
}

/// The words at some offsets; None if one of them cannot be read.
fn words<const N: usize>(
    offsets: [usize; N],
    mut word: impl FnMut(usize) -> Option<u64>,
) -> Option<[u64; N]> {
    let mut found = [0; N];
    for (found, offset) in found.iter_mut().zip(offsets) {
        *found = word(offset)?;
    }
    Some(found)
}

/// Text in memory that was mapped for it; bytes that do not fit are left out.
struct Line {
    at: *mut u8,
    len: usize,
    size: usize,
    /// The image of the site that was written last.
    image: Image,
}

impl Line {
    fn put(&mut self, bytes: &[u8]) {
        let len = bytes.len().min(self.size - self.len);
        // SAFETY: there is room.
        unsafe { self.at.add(self.len).copy_from_nonoverlapping(bytes.as_ptr(), len) };
        self.len += len;
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes were written.
        unsafe { core::slice::from_raw_parts(self.at, self.len) }
    }

    /// Writes a site; nothing for null.
    fn site(&mut self, site: *const u8) {
        if site.is_null() {
            return;
        }
        if !self.image.contains(site) {
            self.image = Image::of(site).unwrap_or(Image::NONE);
        }
        let image = self.image;
        image.name().iter().for_each(|&byte| self.put(&hexadecimal(byte)));
        self.put(b"+");
        let address = site.addr().wrapping_sub(image.load_bias).to_be_bytes();
        address.iter().skip_while(|&&byte| byte == 0).for_each(|&byte| self.put(&hexadecimal(byte)));
    }
}
