//! Context numbers: `pcce_context()` and the interned numbers of chains of pushed frames.

use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::slice;

use crate::abi::numbers::{PointEnd, pair};
use crate::abi::{INTERNED, Link, NO_RANGE};
use crate::chains::{ADDRESS, CHAINS, END, LEFT, OFFSET, POINT, RANGE};
use crate::fiber::{Links, UNKNOWN_SITE, followed, is_gone, is_on_stack, is_unknown, relative};
use crate::offset;
use crate::own::Own;
use crate::place;
use crate::runtimes::jumps_are_seen;
use crate::signal::{self, SignalFrame};
use crate::state::{current, read, tls};
use crate::sys;
use crate::token::{self, State};
use crate::unwind::Interruption;

/// The interned number of the chain that starts at `top`; 0 for no frame. None if there is no memory.
///
/// Numbers are kept in the frames, so that only frames pushed since the last call cost anything. A chain is walked
/// outwards up to the first frame that has a number, and numbered inwards from there. A signal handler that interrupts
/// this may number the same frames, with the same numbers.
///
/// # Safety
/// `top` is null or the calling thread's innermost frame, and the chain is intact.
#[inline(never)]
pub unsafe fn chain_number(top: Link) -> Option<u64> {
    if top.is_null() {
        return Some(0);
    }
    if is_unknown(top) {
        return unknown_number(false);
    }
    let (links, mut link) = (Links::new(), top);
    let mut fresh = Fresh::new();
    // SAFETY: every frame of an intact chain is a live object on this thread's stack.
    unsafe {
        let mut number = loop {
            if let Some(number) = link.number() {
                break number;
            }
            let (outer, lost) = links.outer(link.frame());
            if lost {
                break unknown_number(true)?;
            }
            fresh.add(link)?;
            if outer.is_null() {
                break 0;
            }
            if is_unknown(outer) {
                break unknown_number(false)?;
            }
            link = outer;
        };
        for &link in fresh.links().iter().rev() {
            number = numbered_before(number, link).or_else(|| number_frame(number, link))?;
        }
        Some(number)
    }
}

/// The number of a chain that cannot be followed. The frame that stands for it belongs to all threads, so it does not
/// keep the number. `start_missing`: the ids of the next sub-path inwards count from a frame that cannot be followed.
fn unknown_number(start_missing: bool) -> Option<u64> {
    CHAINS.insert(&[0, UNKNOWN_SITE as u64, start_missing.into()], ())
}

/// Numbers the chain from a link on. `outer`: the number of the next frame outwards.
///
/// # Safety
/// The frame is on the calling thread's chain, which is intact.
unsafe fn number_frame(outer: u64, link: Link) -> Option<u64> {
    let frame = link.frame();
    // SAFETY: as in chain_number().
    unsafe {
        let (id, site) = ((*frame).id.wrapping_sub((*frame).prev.base()), (*frame).site());
        let mut number = CHAINS.insert(&[outer, marked(place::name(site)?, link), id], ())?;
        number = offset_number(number, offset::of_frame(frame))?;
        if signal::is_site(site) {
            number = point_number(number, frame.cast())?;
        }
        keep_number(link, number);
        Some(number)
    }
}

/// Keeps the number in the frame, unless the chain may lead to dead stack, where the program may have variables by now:
/// nobody sees the jump of an executable without the pass out of a library's activations.
///
/// # Safety
/// The frame is on the calling thread's chain.
unsafe fn keep_number(link: Link, number: u64) {
    if jumps_are_seen() {
        // SAFETY: by the contract.
        unsafe { link.keep_number(number) };
    }
}

/// Adds a stack offset to a number, where there is one.
#[inline(always)]
fn offset_number(number: u64, distance: u64) -> Option<u64> {
    if distance == 0 { Some(number) } else { CHAINS.insert(&[number, OFFSET, distance], ()) }
}

/// Links to frames that have no number yet, the innermost first.
struct Fresh {
    few: [MaybeUninit<Link>; Self::FEW],
    /// A mapping, where they are more.
    many: *mut Link,
    room: usize,
    count: usize,
}

impl Fresh {
    const FEW: usize = 32;

    #[inline(always)]
    fn new() -> Self {
        Self { few: [MaybeUninit::uninit(); Self::FEW], many: null_mut(), room: Self::FEW, count: 0 }
    }

    /// Adds a link. None if there is no memory.
    #[inline(always)]
    fn add(&mut self, link: Link) -> Option<()> {
        if self.count == self.room {
            self.grow()?;
        }
        // SAFETY: there is room.
        unsafe { self.start().add(self.count).write(link) };
        self.count += 1;
        Some(())
    }

    fn start(&mut self) -> *mut Link {
        if self.many.is_null() { self.few.as_mut_ptr().cast() } else { self.many }
    }

    #[cold]
    fn grow(&mut self) -> Option<()> {
        let room = self.room * 16;
        let many = sys::map(room * size_of::<Link>(), 0).cast::<Link>();
        if many.is_null() {
            return None;
        }
        // SAFETY: `count` links have been written, and the mapping has room for more.
        unsafe { many.copy_from_nonoverlapping(self.start(), self.count) };
        self.free();
        (self.many, self.room) = (many, room);
        Some(())
    }

    fn links(&mut self) -> &[Link] {
        // SAFETY: as many have been written.
        unsafe { slice::from_raw_parts(self.start(), self.count) }
    }

    fn free(&mut self) {
        if !self.many.is_null() {
            // SAFETY: mapped with this size, and not used again.
            unsafe { sys::unmap(self.many.cast(), self.room * size_of::<Link>()) };
        }
    }
}

impl Drop for Fresh {
    #[inline(always)]
    fn drop(&mut self) {
        self.free();
    }
}

/// Adds the interrupted point to the number of a signal's frame.
///
/// # Safety
/// A live frame of the calling thread.
#[cold]
unsafe fn point_number(number: u64, frame: *const SignalFrame) -> Option<u64> {
    // SAFETY: by the contract, and what the frame holds of the signal lives as long as it.
    let (context, prev) = unsafe { ((*frame).context as usize, (*frame).frame.prev) };
    let point = token::interrupted(context, prev, &mut Own::new())?;
    addresses_number(number, &point, is_gone(prev), false, prev.is_relative())
}

/// Adds the addresses of a point to a number. `gone`: if the chain does not belong to the activations at the point, it
/// may belong to calls that are over. `relative`: the id counts from the id in a frame.
fn addresses_number(
    mut number: u64,
    point: &Interruption,
    gone: bool,
    other_state: bool,
    relative: bool,
) -> Option<u64> {
    for (address, exact) in point.addresses() {
        let name = place::name(address as *const u8)?;
        number = CHAINS.insert(&[number, name | ADDRESS, exact.into()], ())?;
    }
    let left_out = point.left_out().map_or((0, 0), |(first, last)| (first as u8, last as u8));
    let detached = point.detached;
    let gone = detached && (gone || point.is_whole());
    let end = PointEnd { end: point.end as u8, detached, other_state, relative, left_out, gone };
    CHAINS.insert(&[number, END, end.bits()], ())
}

/// The context number at a capture site. `base` is added to the id in the site's function; [`NO_RANGE`] if the function
/// has no range of numbers.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_context(site: *const u8, base: u64) -> u64 {
    let block = tls();
    // SAFETY: this thread's block.
    let (id, top) = unsafe { read(block) };
    if base == NO_RANGE {
        return any_context(site, base, 0);
    }
    if top.is_null() {
        return base.wrapping_add(id);
    }
    // SAFETY: this thread's block; a frame on its stack is one of a live activation.
    unsafe {
        if is_on_stack(block, top) {
            let Some(chain) = top.number() else { return fresh_context(site, base, id, top) };
            if let Some(number) = pair(chain, base.wrapping_add(id.wrapping_sub(top.base()))) {
                return number;
            }
        }
    }
    any_context(site, base, 0)
}

/// [`__pcce_context`] where the thread's innermost frame has no number yet.
///
/// # Safety
/// The calling thread's id and `top`, which is on its stack.
#[inline(never)]
unsafe extern "C" fn fresh_context(site: *const u8, base: u64, id: u64, top: Link) -> u64 {
    // SAFETY: by the contract.
    let chain = unsafe { only_fresh(top) };
    // SAFETY: by the contract.
    let number = base.wrapping_add(id.wrapping_sub(unsafe { top.base() }));
    match chain.and_then(|chain| pair(chain, number)) {
        Some(number) => number,
        None => any_context(site, base, 0),
    }
}

/// [`__pcce_context`] at a site whose function needs stack offsets. `cfa` is the canonical frame address of its
/// activation.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_context_below(site: *const u8, cfa: usize) -> u64 {
    any_context(site, NO_RANGE, cfa)
}

/// [`__pcce_context`] for any state of the thread.
#[inline(never)]
fn any_context(site: *const u8, base: u64, cfa: usize) -> u64 {
    let (id, found) = current();
    let top = followed(found);
    let Some(id) = relative(id, found, top) else { return pcce_context() };
    // SAFETY: the calling thread's own chain, kept intact by emitted code.
    let Some(chain) = (unsafe { chain_number(top) }) else { return 0 };
    let number = if base == NO_RANGE {
        let number = place::name(site).and_then(|site| CHAINS.insert(&[chain, site, id], ()));
        // SAFETY: the calling thread's own chain, kept intact by emitted code.
        number.and_then(|number| offset_number(number, unsafe { offset::at(site, cfa, top) }))
    } else {
        let number = base.wrapping_add(id);
        if let Some(number) = pair(chain, number) {
            return number;
        }
        CHAINS.insert(&[chain, RANGE, number], ())
    };
    number.map_or(0, |n| n | INTERNED)
}

/// The fast path of [`chain_number`] for a frame without a number, which covers most calls: the frame is the only one
/// that was pushed since the last call, and an equal chain was numbered before. None otherwise.
///
/// # Safety
/// A frame on the calling thread's stack.
#[inline(always)]
unsafe fn only_fresh(top: Link) -> Option<u64> {
    let (links, frame) = (Links::new(), top.frame());
    // SAFETY: a frame on this thread's stack is one of a live activation, and so is the one that its link leads to
    // upwards.
    unsafe {
        let outer = (*frame).prev;
        let outer_number = match outer.is_null() {
            true => 0,
            false if links.is_plain(frame, outer) => outer.number()?,
            false => return None,
        };
        numbered_before(outer_number, top)
    }
}

/// The fast path of [`number_frame`], which covers most calls: an equal chain was numbered before. None otherwise.
///
/// # Safety
/// As for [`number_frame`].
#[inline(always)]
unsafe fn numbered_before(outer: u64, link: Link) -> Option<u64> {
    let frame = link.frame();
    // SAFETY: by the contract.
    unsafe {
        let site = (*frame).site();
        if signal::is_site(site) || offset::is_used() {
            return None;
        }
        let id = (*frame).id.wrapping_sub((*frame).prev.base());
        let (number, ()) = CHAINS.find(&[outer, marked(place::name_in_program(site)?, link), id])?;
        keep_number(link, number);
        Some(number)
    }
}

/// The name of a frame's site, with [`LEFT`] if the function that was entered has left its activation.
#[inline(always)]
fn marked(name: u64, link: Link) -> u64 {
    if link.left() { name | LEFT } else { name }
}

/// The context of a caller that is not instrumented, as far as numbers distinguish contexts: ⟨number of the chain, name
/// of the site of the call that is published, id⟩. None if there is no memory.
#[inline]
pub fn outside() -> Option<[u64; 3]> {
    let block = tls();
    // SAFETY: this thread's block. Volatile, since emitted code of the same thread wrote it.
    let (id, top, site) = unsafe {
        let (id, top) = read(block);
        (id, top, (&raw const (*block).call).read_volatile())
    };
    let site = if site.is_null() { 0 } else { place::name(site)? };
    if top.is_null() {
        return Some([0, site, id]);
    }
    // SAFETY: this thread's block; a frame on its stack is one of a live activation.
    let (chain, id) = unsafe {
        match is_on_stack(block, top).then(|| top.number()).flatten() {
            Some(chain) => (chain, id.wrapping_sub(top.base())),
            None => numbered(id, top)?,
        }
    };
    Some([chain, site, id])
}

/// From the id and the top in the thread's block: the number of the chain, and the id of the sub-path, 0 where that is
/// not known. None if there is no memory.
#[inline(never)]
fn numbered(id: u64, found: Link) -> Option<(u64, u64)> {
    // SAFETY: this thread's block; a frame on its stack is one of a live activation.
    unsafe {
        if is_on_stack(tls(), found)
            && let Some(chain) = only_fresh(found)
        {
            return Some((chain, id.wrapping_sub(found.base())));
        }
    }
    let top = followed(found);
    // SAFETY: the calling thread's own chain, kept intact by emitted code.
    let chain = unsafe { chain_number(top) }?;
    Some((chain, relative(id, found, top).unwrap_or(0)))
}

/// The public entry. The pass replaces calls of it in instrumented code, so the caller is not instrumented: its return
/// addresses distinguish it.
#[unsafe(no_mangle)]
pub extern "C" fn pcce_context() -> u64 {
    let Some((state, point)) = token::outside() else { return 0 };
    outside_number(state, point).map_or(0, |number| number | INTERNED)
}

/// The number of a point in code that is not instrumented, as the token would describe it. None if there is no memory.
fn outside_number(state: State, mut point: Interruption) -> Option<u64> {
    let other_state = point.detached || state.is_lost();
    let mut relative = state.is_relative();
    // SAFETY: the calling thread's own chain, kept intact by emitted code.
    let chain = if point.detached { 0 } else { unsafe { chain_number(state.top) }? };
    if point.is_whole() {
        (point.detached, relative) = (false, false);
    }
    let number = CHAINS.insert(&[chain, POINT, state.id], ())?;
    addresses_number(number, &point, is_gone(state.top), other_state, relative)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Frame;
    use std::vec::Vec;

    fn chain(ids: &[u64]) -> Vec<Frame> {
        linked(ids, Link::new)
    }

    fn linked(ids: &[u64], link: fn(*mut Frame) -> Link) -> Vec<Frame> {
        let mut chain: Vec<Frame> = Vec::with_capacity(ids.len());
        for &id in ids {
            let prev = chain.last_mut().map_or(Link::NULL, |f| link(f));
            chain.push(Frame::new(prev, id, 0x1000 as *const u8));
        }
        chain
    }

    fn number(frames: &mut [Frame]) -> u64 {
        let top = frames.last_mut().map_or(Link::NULL, |f| Link::new(f));
        // SAFETY: a whole chain that lives during the call.
        unsafe { chain_number(top) }.expect("there is memory")
    }

    #[test]
    fn equal_chains_have_equal_numbers_and_others_have_not() {
        let mut seen = std::collections::HashMap::new();
        for a in 0..20 {
            for b in 0..20 {
                for c in 0..3 {
                    let ids = [a, b, c];
                    let n = number(&mut chain(&ids));
                    assert_eq!(n, number(&mut chain(&ids)));
                    assert_eq!(seen.insert(n, ids), None);
                }
            }
        }
        assert_eq!(number(&mut []), 0);
    }

    #[test]
    fn ids_count_from_those_of_frames() {
        let expected = number(&mut chain(&[5, 7, 0]));
        assert_eq!(number(&mut linked(&[5, 12, 12], Link::relative)), expected);
        assert_ne!(number(&mut linked(&[5, 7, 0], Link::relative)), expected);
    }

    #[test]
    fn a_push_makes_a_number_invalid() {
        let mut frames = chain(&[90, 91]);
        let first = number(&mut frames);
        // Emitted code writes the site alone.
        let push =
            |frame: &mut Frame, site: usize| *frame = Frame { marked_site: site as *const u8, ..*frame };
        push(&mut frames[1], 0x1001);
        let second = number(&mut frames);
        assert_ne!(first, second);
        push(&mut frames[1], 0x1000);
        assert_eq!(number(&mut frames), first);
        assert_eq!(frames[1].site(), 0x1000 as *const u8);
    }

    #[test]
    fn a_million_frames_are_numbered_without_recursion() {
        let ids: Vec<u64> = (0..1_000_000).map(|i| i % 3).collect();
        let mut frames = chain(&ids);
        let first = number(&mut frames);
        assert_eq!(first, number(&mut frames));
    }
}
