//! Tokens: a context as printable text (`docs/formats.md`), written without allocation, locks or
//! tables of the process, so that signal handlers may do it.
//!
//! Unless said otherwise, the contract of unsafe functions is that `buf` can take `size` bytes.

mod chain;
#[cfg(test)]
mod tests;
mod write;

use core::ffi::{CStr, c_char};
use core::mem::transmute;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use pcce_system::machine::stack_pointer;

use self::chain::Frames;
pub use self::chain::{interrupted, task};
use self::write::{Capture, Context, token};
use crate::abi::Link;
use crate::abi::token::flag;
use crate::fiber::{followed, followed_from, is_lost, is_unknown, relative};
use crate::machine::here;
use crate::own::Own;
use crate::shadow::written;
use crate::signal;
use crate::state::current;
use crate::unwind::{self, End, Interruption, MAX_ACTIVATIONS, Unwind as _};
use crate::{Native, Registers};

/// The token of the current context at `site`, which is null where that is not known. See `pcce_token` in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_token(buf: *mut c_char, size: usize, site: *const u8) -> usize {
    // SAFETY: passed on.
    unsafe { token_at_site(buf, size, site, 0) }
}

/// [`__pcce_token`] at a site whose function needs stack offsets. `cfa` is the canonical frame address of its
/// activation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_token_below(
    buf: *mut c_char,
    size: usize,
    site: *const u8,
    cfa: usize,
) -> usize {
    // SAFETY: passed on.
    unsafe { token_at_site(buf, size, site, cfa) }
}

/// Does the work of both. They do not call each other, since their names may lead to another runtime
/// ([`crate::runtimes`]).
unsafe fn token_at_site(buf: *mut c_char, size: usize, site: *const u8, cfa: usize) -> usize {
    let (id, found) = current();
    let top = followed(found);
    // SAFETY: passed on.
    let Some(id) = relative(id, found, top) else { return unsafe { pcce_token(buf, size) } };
    if site.is_null() && top.is_null() && id == 0 {
        // SAFETY: passed on.
        unsafe { end(buf, 0, size) };
        return 0;
    }
    let (flags, capture) =
        if site.is_null() { (0, Capture::None) } else { (flag::CAPTURE, Capture::Site(site, cfa)) };
    // SAFETY: passed on; the thread's own chain.
    unsafe {
        let context = Context { capture, id, top, relative: top.is_relative(), suspect: false };
        let len = token(buf, size, flags, &context);
        if !site.is_null() {
            show(Taken::Site(site), buf, size);
        }
        len
    }
}

/// Ends a text of this length, unless the size is 0.
///
/// # Safety
/// `buf` can take `size` bytes, and `len` is smaller than `size`, or `size` is 0.
#[inline(never)]
pub unsafe fn end(buf: *mut c_char, len: usize, size: usize) {
    if size > 0 {
        // SAFETY: by the contract.
        unsafe { buf.add(len).write(0) };
        written(buf.cast(), len + 1);
    }
}

/// The public entry. The pass replaces calls of it in instrumented code, so the caller is not instrumented. The
/// functions that called the caller may have changed the id: the context is described as an interrupted point.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcce_token(buf: *mut c_char, size: usize) -> usize {
    // SAFETY: passed on.
    unsafe { token_of_caller(buf, size) }
}

/// Does the work of [`pcce_token`] for the caller of the function into which this is inlined.
#[inline(always)]
pub unsafe fn token_of_caller(buf: *mut c_char, size: usize) -> usize {
    let Some((state, point)) = outside() else {
        // SAFETY: passed on.
        unsafe { end(buf, 0, size) };
        return 0;
    };
    // SAFETY: passed on.
    unsafe {
        let len = walked_token(buf, size, point, state, flag::POINT);
        show(Taken::Point { pc: 0, sp: stack_pointer() }, buf, size);
        len
    }
}

/// The point in code that is not instrumented where the function into which this is inlined was called. None if no
/// instrumented code is known to be active.
#[inline(always)]
pub fn outside() -> Option<(State, Interruption)> {
    let (id, top) = current();
    let mut state = State::new(id, top, followed(top));
    if state.top.is_null() && state.id == 0 {
        return None;
    }
    let mut point = state.walk(here(), MAX_ACTIVATIONS);
    point.leave_first_out();
    Some((state, point))
}

/// The token of an interrupted point, taken by instrumented code at `site`, or by other code if `site` is null. See
/// `pcce_token_at` in the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_token_at(
    buf: *mut c_char,
    size: usize,
    pc: *const u8,
    sp: *const u8,
    site: *const u8,
) -> usize {
    let (pc, sp) = (pc as usize, sp as usize);
    let (id, top) = current();
    let state = State::new(id, top, followed(top));
    if let Some((registers, state)) = interrupted_at(state, pc, sp) {
        // SAFETY: passed on.
        return unsafe { point_token(buf, size, registers, MAX_ACTIVATIONS, state, flag::POINT) };
    }
    // An instrumented handler that the trampoline did not call changes the state.
    let other = if site.is_null() { 0 } else { flag::OTHER_STATE };
    let known = unwind::find(here(), pc, sp, &mut Own::new());
    let registers = known.unwrap_or(Registers::at(pc, sp));
    // SAFETY: passed on.
    unsafe { point_token(buf, size, registers, MAX_ACTIVATIONS, state, flag::POINT | other) }
}

/// The token of the point that a signal interrupted in this thread, for a handler that is not instrumented. `overflow`:
/// the stack is full. At most `max_activations` are walked.
///
/// # Safety
/// `buf` can take `size` bytes; `context` is what the kernel gave to the handler.
pub unsafe fn interrupted_token(
    buf: *mut c_char,
    size: usize,
    context: *const libc::ucontext_t,
    overflow: bool,
    max_activations: usize,
) -> usize {
    /// The stack pointer of a full stack is at most this far below its end.
    const BELOW: usize = 1 << 16;
    let Some(registers) = Native::interrupted(&mut Own::new(), context as usize) else { return 0 };
    let (id, top) = current();
    // Another handler may have called this one.
    let state = State::new(id, top, followed(top));
    let state = match interrupted_at(state, registers.pc(), registers.sp()) {
        Some((_, state)) => state,
        None => {
            let sp = registers.sp();
            let mut known = followed_from(sp, top);
            if overflow && is_unknown(known) {
                known = followed_from(sp.saturating_add(BELOW).min(top.frame().addr()), top);
            }
            State::new(id, top, known)
        }
    };
    // SAFETY: passed on.
    unsafe { point_token(buf, size, registers, max_activations, state, flag::POINT) }
}

unsafe fn point_token(
    buf: *mut c_char,
    size: usize,
    registers: Registers,
    max_activations: usize,
    mut state: State,
    flags: u8,
) -> usize {
    let point = state.walk(registers, max_activations);
    // SAFETY: passed on.
    unsafe {
        let len = walked_token(buf, size, point, state, flags);
        show(Taken::Point { pc: registers.pc(), sp: registers.sp() }, buf, size);
        len
    }
}

unsafe fn walked_token(
    buf: *mut c_char,
    size: usize,
    mut point: Interruption,
    State { id, mut top, mut relative, lost }: State,
    mut flags: u8,
) -> usize {
    if point.detached || lost.is_some() {
        flags |= flag::OTHER_STATE;
    }
    if point.is_whole() {
        (point.detached, top, relative) = (false, Link::NULL, false);
    }
    let write = |point: &Interruption| {
        let context = Context { capture: Capture::Point(point), id, top, relative, suspect: true };
        // SAFETY: passed on.
        unsafe { token(buf, size, flags, &context) }
    };
    let len = write(&point);
    // The innermost addresses are the most important ones. SAFETY: `size` is not 0.
    while 0 < size && size <= len && unsafe { *buf == 0 } && point.shorten() {
        write(&point);
    }
    len
}

/// The public entry. The pass replaces calls of it in instrumented code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcce_token_at(buf: *mut c_char, size: usize, pc: *const u8, sp: *const u8) -> usize {
    // SAFETY: passed on.
    unsafe { __pcce_token_at(buf, size, pc, sp, null()) }
}

// The state of a thread at an interrupted point.

/// The state of a thread, with its frames as far as they can be followed.
#[derive(Clone, Copy)]
pub struct State {
    pub id: u64,
    pub top: Link,
    /// True if the id counts from the id in a frame.
    relative: bool,
    /// The frame from whose id the id counts, if nothing is known of that frame.
    lost: Option<Link>,
}

impl State {
    /// `id` and `top` as the thread's block has them, and the result of [`followed`] for `top`.
    #[inline(never)]
    fn new(id: u64, top: Link, followed: Link) -> Self {
        if is_lost(top, followed) {
            return Self { id, top: followed, relative: true, lost: Some(top) };
        }
        // A damaged link may lead anywhere.
        let base = Frames::new(true).base(top);
        let lost = base.is_none().then_some(top);
        Self { id: id.wrapping_sub(base.unwrap_or(0)), top: followed, relative: top.is_relative(), lost }
    }

    /// Returns whether the id counts from the id in a frame.
    pub fn is_relative(&self) -> bool {
        self.relative
    }

    /// Returns whether nothing is known of that frame.
    pub fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Walks from the activation with these registers outwards, over at most `max_activations`. If the walk reaches the
    /// activation of a lost frame, the id becomes known.
    #[inline(never)]
    fn walk(&mut self, registers: Registers, max_activations: usize) -> Interruption {
        let link = self.lost.unwrap_or(self.top);
        let mut point = Interruption::walk(registers, link.frame().addr(), max_activations, &mut Own::new());
        if let Some(frame) = self.lost
            && point.end == End::Pushed
            && let Some(base) = Frames::new(true).base(frame)
        {
            (self.id, self.lost) = (self.id.wrapping_sub(base), None);
        }
        point.detached |= is_unknown(self.top) && point.end != End::Pushed;
        point
    }
}

/// The registers and the state at a point, if a handler that the trampoline called interrupted it: its frame has them.
fn interrupted_at(state: State, pc: usize, sp: usize) -> Option<(Registers, State)> {
    let mut frames = Frames::new(true);
    let mut at = state.top;
    while let Some(frame) = frames.read(at) {
        if signal::is_site(frame.site()) {
            let context = frames.context(at)?;
            let registers = Native::interrupted(&mut frames.process, context)?;
            if (registers.pc(), registers.sp()) == (pc, sp) {
                let (id, top) = (frame.id, frame.prev);
                return Some((registers, State { id, top, relative: top.is_relative(), lost: None }));
            }
        }
        at = frame.prev;
    }
    None
}

// A function that looks at tokens as they are taken: verify mode's (`verify/captures.rs`), if the program has it.

/// The place where a token was taken.
#[derive(Clone, Copy)]
pub enum Taken {
    /// In instrumented code, at this site.
    Site(*const u8),
    /// At a point: where a signal has interrupted the thread, or, with the program counter 0, where code without the
    /// pass has asked.
    Point { pc: usize, sp: usize },
}

/// Looks at a token, which may be cut. It is called in signal handlers, too.
pub type Watch = fn(Taken, &CStr);

/// The [`Watch`]; null without one.
pub static WATCH: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Shows the token in a buffer.
///
/// # Safety
/// If the size is not 0, there is a text that ends with a zero.
#[inline(always)]
unsafe fn show(taken: Taken, buf: *const c_char, size: usize) {
    let watch = WATCH.load(Ordering::Acquire);
    if !watch.is_null() && size > 0 {
        // SAFETY: only a `Watch` is ever stored; by the contract.
        unsafe { transmute::<*mut (), Watch>(watch)(taken, CStr::from_ptr(buf)) };
    }
}
