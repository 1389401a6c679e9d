//! Context numbers: `pcce_context()` and the interned numbers of chains of pushed frames.

use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::slice;

use crate::abi::{Frame, INTERNED, Link, NO_RANGE};
use crate::fiber::{Links, UNKNOWN_SITE, followed, is_unknown, relative};
use crate::intern::Interner;
use crate::own::Own;
use crate::place;
use crate::signal::{self, SignalFrame};
use crate::state::{current, tls};
use crate::sys;
use crate::token::{self, State};
use crate::unwind::{Interruption, Registers};

/// Chains of frames and whole contexts. A chain's key is (number of the chain outwards of its
/// innermost frame, name of the site, id); a context's is the same with its capture site and current id. The addresses of an
/// interrupted point are numbered as frames behind that of the signal, with the address in place of the site.
static CHAINS: Interner<()> = Interner::new();

/// The interned number of the chain that starts at `top`; 0 for no frame, and also if there is no
/// memory (then `None` says so).
///
/// Numbers are kept in the frames, so that only frames pushed since the last call cost anything. A chain is walked outwards up to
/// the first frame that has one, and numbered inwards. A signal handler that interrupts this may number the same frames, with the same
/// numbers.
///
/// # Safety
/// `top` is null or the calling thread's innermost frame, and the chain is intact.
pub unsafe fn chain_number(top: Link) -> Option<u64> {
    if top.is_null() {
        return Some(0);
    }
    // It belongs to all threads: its number is not kept in it.
    let unknown = || CHAINS.insert(&[0, UNKNOWN_SITE as u64, 0], ());
    if is_unknown(top) {
        return unknown();
    }
    let links = Links::new();
    let mut fresh = Fresh::new();
    let mut frame = top.frame();
    // SAFETY: every frame of an intact chain is a live object on this thread's stack.
    unsafe {
        let mut number = loop {
            if let Some(number) = Frame::number(frame) {
                break number;
            }
            if links.is_lost(Link::new(frame)) {
                break unknown()?;
            }
            fresh.add(frame)?;
            let outer = links.outer(frame);
            if outer.is_null() {
                break 0;
            }
            if is_unknown(outer) {
                break unknown()?;
            }
            frame = outer.frame();
        };
        for &frame in fresh.frames().iter().rev() {
            let (id, site) = ((*frame).id.wrapping_sub((*frame).prev.base()), (*frame).site());
            number = CHAINS.insert(&[number, place::name(site)?, id], ())?;
            if signal::is_site(site) {
                number = point_number(number, frame.cast())?;
            }
            Frame::set_number(frame, number);
        }
        Some(number)
    }
}

/// Frames that have no number yet, the innermost first.
struct Fresh {
    few: [MaybeUninit<*mut Frame>; Self::FEW],
    /// A mapping, where they are more.
    many: *mut *mut Frame,
    room: usize,
    count: usize,
}

impl Fresh {
    const FEW: usize = 32;

    #[inline(always)]
    fn new() -> Self {
        Self { few: [MaybeUninit::uninit(); Self::FEW], many: null_mut(), room: Self::FEW, count: 0 }
    }

    /// Adds a frame. None if there is no memory.
    #[inline(always)]
    fn add(&mut self, frame: *mut Frame) -> Option<()> {
        if self.count == self.room {
            self.grow()?;
        }
        // SAFETY: there is room.
        unsafe { self.start().add(self.count).write(frame) };
        self.count += 1;
        Some(())
    }

    fn start(&mut self) -> *mut *mut Frame {
        if self.many.is_null() { self.few.as_mut_ptr().cast() } else { self.many }
    }

    #[cold]
    fn grow(&mut self) -> Option<()> {
        let room = self.room * 16;
        let many = sys::map(room * size_of::<*mut Frame>(), 0).cast::<*mut Frame>();
        if many.is_null() {
            return None;
        }
        // SAFETY: `count` frames have been written, and the mapping has room for more.
        unsafe { many.copy_from_nonoverlapping(self.start(), self.count) };
        self.free();
        (self.many, self.room) = (many, room);
        Some(())
    }

    fn frames(&mut self) -> &[*mut Frame] {
        // SAFETY: as many have been written.
        unsafe { slice::from_raw_parts(self.start(), self.count) }
    }

    fn free(&mut self) {
        if !self.many.is_null() {
            // SAFETY: mapped with this size, and not used again.
            unsafe { sys::unmap(self.many.cast(), self.room * size_of::<*mut Frame>()) };
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
    let (context, top) = unsafe { ((*frame).context as usize, (*frame).frame.prev.frame().addr()) };
    let process = &mut Own::new();
    addresses_number(number, &Interruption::walk(Registers::interrupted(process, context)?, top, process))
}

/// Adds the addresses of a point to a number.
fn addresses_number(mut number: u64, point: &Interruption) -> Option<u64> {
    for (address, exact) in point.addresses() {
        number = CHAINS.insert(&[number, place::name(address as *const u8)?, exact.into()], ())?;
    }
    Some(number)
}

/// The context number at a capture site. `base` is what makes a number of the id in the site's function, [`NO_RANGE`] if the function has
/// none.
#[unsafe(no_mangle)]
pub extern "C" fn __pcce_context(site: *const u8, base: u64) -> u64 {
    let (id, found) = current();
    let top = followed(found);
    if top.is_null() && base != NO_RANGE {
        return base.wrapping_add(id);
    }
    let Some(id) = relative(id, found, top) else { return pcce_context() };
    // SAFETY: the calling thread's own chain, kept intact by emitted code.
    let chain = unsafe { chain_number(top) };
    let number = chain.and_then(|chain| CHAINS.insert(&[chain, place::name(site)?, id], ()));
    number.map_or(0, |n| n | INTERNED)
}

/// Where the thread is, as far as numbers tell contexts apart, when code that is not instrumented asks: ⟨number of the chain,
/// name of the site of the call that is published, id⟩. None if there is no memory.
#[inline]
pub fn outside() -> Option<[u64; 3]> {
    let (id, found) = current();
    let top = followed(found);
    let id = relative(id, found, top).unwrap_or(0);
    // SAFETY: this thread's block. Volatile, since emitted code of the same thread wrote it.
    let site = unsafe { (&raw const (*tls()).call).read_volatile() };
    // SAFETY: the calling thread's own chain, kept intact by emitted code.
    let chain = unsafe { chain_number(top) }?;
    Some([chain, if site.is_null() { 0 } else { place::name(site)? }, id])
}

/// The public entry. The pass replaces calls of it in instrumented code, so who arrives here is
/// code that is not instrumented: it is told apart by its return addresses.
#[unsafe(no_mangle)]
pub extern "C" fn pcce_context() -> u64 {
    let Some((State { id, top, .. }, point)) = token::outside() else { return 0 };
    // SAFETY: the calling thread's own chain, kept intact by emitted code.
    let chain = unsafe { chain_number(top) };
    let number = chain.and_then(|chain| addresses_number(CHAINS.insert(&[chain, 0, id], ())?, &point));
    number.map_or(0, |n| n | INTERNED)
}

#[cfg(test)]
mod tests {
    use super::*;
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
