//! Tokens: a context as printable text (`docs/formats.md`), written without allocation, locks or
//! tables of the process, so that signal handlers may do it.

mod chain;
mod images;
mod state;
#[cfg(test)]
mod tests;
pub mod watch;
mod write;
mod writer;
use core::ffi::c_char;
use core::ptr::null;

pub use self::chain::{interrupted, task};
pub use self::state::State;
use self::state::interrupted_at;
use self::watch::{Taken, show};
use self::write::{Capture, Context, token};
use crate::abi::Link;
use crate::abi::token::flag;
use crate::fiber::{followed, followed_from, is_unknown, relative};
use crate::machine::here;
use crate::own::Own;
use crate::state::current;
use crate::unwind::{self, Interruption, MAX_ACTIVATIONS, Unwind as _};
use crate::{Native, Registers};
use pcce_system::machine::stack_pointer;

/// The token of the current context at `site`, which is null where that is not known. See `pcce_token` in the header.
///
/// # Safety
/// `buf` can take `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_token(buf: *mut c_char, size: usize, site: *const u8) -> usize {
    // SAFETY: passed on.
    unsafe { token_at_site(buf, size, site, 0) }
}

/// The same at a site whose function needs stack offsets. `cfa` is the canonical frame address of its activation.
///
/// # Safety
/// `buf` can take `size` bytes.
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

/// Both, by no name: another runtime may have theirs ([`crate::runtimes`]).
unsafe fn token_at_site(buf: *mut c_char, size: usize, site: *const u8, cfa: usize) -> usize {
    let (id, found) = current();
    let top = followed(found);
    // SAFETY: passed on.
    let Some(id) = relative(id, found, top) else { return unsafe { pcce_token(buf, size) } };
    if site.is_null() && top.is_null() && id == 0 {
        if size > 0 {
            // SAFETY: by the contract.
            unsafe { buf.write(0) };
        }
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

/// The public entry. The pass replaces calls of it in instrumented code, so who arrives here is code that is not
/// instrumented. What called that may have changed the id: it is described as an interrupted point is.
///
/// # Safety
/// `buf` can take `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcce_token(buf: *mut c_char, size: usize) -> usize {
    // SAFETY: passed on.
    unsafe { token_of_caller(buf, size) }
}

/// What [`pcce_token`] does, for the caller of the function into which this is inlined.
///
/// # Safety
/// `buf` can take `size` bytes.
#[inline(always)]
pub unsafe fn token_of_caller(buf: *mut c_char, size: usize) -> usize {
    let Some((state, point)) = outside() else {
        if size > 0 {
            // SAFETY: by the contract.
            unsafe { buf.write(0) };
        }
        return 0;
    };
    // SAFETY: passed on.
    unsafe {
        let len = walked_token(buf, size, point, state, flag::POINT);
        show(Taken::Point { pc: 0, sp: stack_pointer() }, buf, size);
        len
    }
}

/// The point in code that is not instrumented at which the function was called into which this is inlined. None where
/// nothing instrumented is known to be active.
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

/// The token of an interrupted point, by code that is instrumented at `site`, or is not if that is null. See
/// `pcce_token_at` in the header.
///
/// # Safety
/// `buf` can take `size` bytes.
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
        return unsafe { point_token(buf, size, (registers, MAX_ACTIVATIONS), state, flag::POINT) };
    }
    // What an instrumented handler does that the trampoline did not call, changes the state.
    let other = if site.is_null() { 0 } else { flag::OTHER_STATE };
    let known = unwind::find(here(), pc, sp, &mut Own::new());
    let registers = known.unwrap_or(Registers::at(pc, sp));
    // SAFETY: passed on.
    unsafe { point_token(buf, size, (registers, MAX_ACTIVATIONS), state, flag::POINT | other) }
}

/// The token of the point that a signal interrupted in this thread, for a handler that is not instrumented. `overflow`:
/// the stack is full. `most`: so many activations are walked at most.
///
/// # Safety
/// `buf` can take `size` bytes; `context` is what the kernel gave to the handler.
pub unsafe fn interrupted_token(
    buf: *mut c_char,
    size: usize,
    context: *const libc::ucontext_t,
    overflow: bool,
    most: usize,
) -> usize {
    /// The stack pointer of a full stack is at most so far below its end.
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
    unsafe { point_token(buf, size, (registers, most), state, flag::POINT) }
}

/// # Safety
/// `buf` can take `size` bytes.
unsafe fn point_token(
    buf: *mut c_char,
    size: usize,
    (registers, most): (Registers, usize),
    mut state: State,
    flags: u8,
) -> usize {
    let point = state.walk(registers, most);
    // SAFETY: passed on.
    unsafe {
        let len = walked_token(buf, size, point, state, flags);
        show(Taken::Point { pc: registers.pc(), sp: registers.sp() }, buf, size);
        len
    }
}

/// # Safety
/// `buf` can take `size` bytes.
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
    // The innermost addresses tell most. SAFETY: `size` is not 0.
    while 0 < size && size <= len && unsafe { *buf == 0 } && point.shorten() {
        write(&point);
    }
    len
}

/// The public entry. The pass replaces calls of it in instrumented code.
///
/// # Safety
/// `buf` can take `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcce_token_at(buf: *mut c_char, size: usize, pc: *const u8, sp: *const u8) -> usize {
    // SAFETY: passed on.
    unsafe { __pcce_token_at(buf, size, pc, sp, null()) }
}
