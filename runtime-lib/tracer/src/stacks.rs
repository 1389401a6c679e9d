//! Stacks to which the program switches by itself. Emitted code calls the tracer where it leaves a stack, and where it
//! has come back to it: the activation that does so keeps the number of its stack. The next event says whether the
//! thread has come to a new stack, where a function is entered, or to an old one ([`Special::Back`]).
//!
//! The place of the switch between `pcce_fiber_save` and `pcce_fiber_restore` is unknown, unless it is a call that
//! emitted code knows. Bits that are pending there may be of either stack: they are kept if such a call comes, and else
//! left out.
//!
//! Unless said otherwise, the contract of unsafe functions is that the block is the calling thread's, and the area that
//! of its stream.

use core::ffi::c_void;

use crate::abi::trace::{Block, Special, special};
use crate::area::{self, __pcce_trace_empty, Area, block};
use pcce_system::machine::stack_pointer;

use crate::events::{self, describe, ready};
use crate::handlers;
use crate::stream::{self, Busy};

/// The stacks of a stream.
#[repr(C)]
pub struct Stacks {
    /// The number that marks the stream's stack numbers in activations: the number of the stream, or of the stream from
    /// which it was forked.
    family: u32,
    /// The last number that was given.
    given: u32,
    /// The point from which the thread may leave its stack unannounced; its number is 0 if it may not.
    saved: Saved,
    /// True if the thread has left a stack, and no event of the other one has come.
    has_left: bool,
    /// True if the thread is on another stack than that on which the stream began.
    away: bool,
    /// The number of the stack to which the thread has come back, as activations have it, as long as it has not left
    /// that again.
    on: u64,
}

/// A call of `pcce_fiber_save`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Saved {
    number: u32,
    node: u32,
    function: usize,
    /// Verify mode: events and their hash.
    events: u64,
    hash: u64,
    /// How many numbers were given to calls that may return again.
    jumps: u64,
}

/// In the numbers that activations have: it is the stack on which the stream began.
const HOME: u64 = 1 << 63;

impl Stacks {
    /// Returns whether the thread is on another stack than that on which the stream began, as far as it has said so.
    pub fn is_away(&self) -> bool {
        self.away
    }

    /// Returns whether the stack may have been left.
    pub fn may_be_left(&self) -> bool {
        self.saved.number != 0
    }

    /// The stacks of a stream that has known one only.
    pub const NONE: Self = Self {
        family: 0,
        given: 0,
        saved: Saved { number: 0, node: 0, function: 0, events: 0, hash: 0, jumps: 0 },
        has_left: false,
        away: false,
        on: 0,
    };

    /// The stacks of a forked child: its activations are the parent's, whose stream has this number.
    pub fn of_child(&self, parent: u64) -> Self {
        let family = if self.family == 0 { parent as u32 } else { self.family };
        Self { family, given: self.given, away: self.away, ..Self::NONE }
    }

    /// A new number, as activations keep it, and as the stream has it.
    fn number(&mut self, stream: u64) -> (u64, u32) {
        if self.family == 0 {
            self.family = stream as u32;
        }
        self.given += 1;
        let home = if self.away { 0 } else { HOME };
        (u64::from(self.family) << 32 | u64::from(self.given) | home, self.given)
    }
}

/// Has the next function that is entered come to the tracer, by an empty cache.
///
/// # Safety
/// This thread's block.
pub unsafe fn set_trap(block: *mut Block) {
    // SAFETY: by the contract.
    unsafe { (*block).cache = (&raw const __pcce_trace_empty).cast_mut().cast() };
}

/// Ends the trap: functions that are entered are looked up in the cache again.
unsafe fn take_trap(block: *mut Block, area: *mut Area) {
    // SAFETY: by the caller: this thread's block and area.
    unsafe { (*block).cache = (&raw mut (*area).fast.cache).cast() };
}

/// Sets the trap again, after a change of the block's cache, if the stack was left, or may be left.
pub unsafe fn keep_trap(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        let stacks = &raw const (*area).stream.stacks;
        if (*stacks).has_left || (*stacks).may_be_left() {
            set_trap(block);
        }
    }
}

/// A function was entered from outside, and its event comes next.
pub unsafe fn entered(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        if core::mem::take(&mut (*area).stream.stacks.has_left) {
            take_trap(block, area);
        }
    }
}

/// Writes that a stack is left in a call, by the call's function and node.
unsafe fn leave(block: *mut Block, area: *mut Area, function: usize, node: u32, number: u32) {
    // SAFETY: by the caller: this thread's block and area.
    unsafe {
        let stacks = &raw mut (*area).stream.stacks;
        (*stacks).saved.number = 0;
        (*stacks).has_left = true;
        (*stacks).away = true;
        (*stacks).on = 0;
        let group = [special(Special::Left, node.into()), function as u64, number.into()];
        stream::put(block, area, &group);
        set_trap(block);
    }
}

/// The thread may have left its stack since it was allowed to: drops the events since then.
pub unsafe fn leave_saved(block: *mut Block, area: *mut Area) {
    // SAFETY: by the contract.
    unsafe {
        let saved = (*area).stream.stacks.saved;
        (*block).pending = 1;
        (*block).events = saved.events;
        (*block).hash = saved.hash;
        // Events that were left out have given numbers, which are lost.
        match saved.jumps == (*block).jumps {
            true => leave(block, area, saved.function, saved.node, saved.number),
            false => leave(block, area, 0, 0, 0),
        }
    }
}

/// The area of a stream whose pending bits are of the stack that the thread leaves now, or may leave, by an announced
/// call. Null if there is none.
unsafe fn leaving(block: *mut Block) -> *mut Area {
    // SAFETY: this thread's block, and its area.
    unsafe {
        let area = area::of(block);
        if !area.is_null() {
            (*area).stream.stacks.saved.number = 0;
        }
        ready(block, stack_pointer())
    }
}

/// See [`functions::SWITCH`](crate::abi::trace::functions::SWITCH).
///
/// # Safety
/// Called by emitted code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_switch(number: *mut u64, function: *const c_void, node: u32) {
    let block = block();
    // SAFETY: this thread's block; `number` is the activation's.
    unsafe {
        number.write(0);
        let area = leaving(block);
        if area.is_null() {
            return;
        }
        if (*area).stream.level > 0 {
            let area = handlers::abandon(block, area);
            let _busy = Busy::new(block, area);
            return leave(block, area, 0, 0, 0);
        }
        describe(function);
        let _busy = Busy::new(block, area);
        let (own, stack) = (*area).stream.stacks.number((*area).stream.number);
        number.write(own);
        leave(block, area, function.addr(), node, stack);
    }
}

/// See [`functions::SAVE`](crate::abi::trace::functions::SAVE).
///
/// # Safety
/// Called by emitted code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_save(number: *mut u64, function: *const c_void, node: u32) {
    let block = block();
    // SAFETY: this thread's block; `number` is the activation's.
    unsafe {
        number.write(0);
        let area = leaving(block);
        if area.is_null() || (*area).stream.level > 0 {
            return;
        }
        describe(function);
        let _busy = Busy::new(block, area);
        stream::put(block, area, &[]);
        let (own, stack) = (*area).stream.stacks.number((*area).stream.number);
        number.write(own);
        let Block { events, hash, jumps, .. } = *block;
        let saved = Saved { number: stack, node, function: function.addr(), events, hash, jumps };
        (*area).stream.stacks.saved = saved;
        set_trap(block);
    }
}

/// See [`functions::BACK`](crate::abi::trace::functions::BACK).
///
/// # Safety
/// Called by emitted code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_trace_back(number: *const u64, function: *const c_void, node: u32) {
    let block = block();
    // SAFETY: this thread's block; `number` is the activation's.
    unsafe {
        let number = number.read();
        let is_there = |stacks: &Stacks| stacks.on == number && !stacks.may_be_left();
        let area = area::of(block);
        // In a handler nothing was saved.
        if !area.is_null() && is_there(&(*area).stream.stacks) && (number != 0 || (*area).stream.level > 0) {
            return;
        }
        let area = events::ready(block, stack_pointer());
        if area.is_null() {
            return;
        }
        describe(function);
        let _busy = Busy::new(block, area);
        let stacks = &raw mut (*area).stream.stacks;
        let is_own = (number & !HOME) >> 32 == u64::from((*stacks).family);
        (*stacks).away = !is_own || number & HOME == 0;
        let stack = if is_own { number & 0xffff_ffff } else { 0 };
        (*stacks).has_left = false;
        (*stacks).on = number;
        stream::put(block, area, &[special(Special::Back, node.into()), function.addr() as u64, stack]);
        take_trap(block, area);
    }
}
