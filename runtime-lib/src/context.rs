//! Context numbers: `pcce_context()` and the interned numbers of chains of pushed frames.

use crate::abi::{Frame, INTERNED, Link, NO_RANGE};
use crate::fiber::{Links, UNKNOWN_SITE, followed, is_unknown, relative};
use crate::intern::Interner;
use crate::own::Own;
use crate::place;
use crate::signal::{self, SignalFrame};
use crate::state::{current, tls};
use crate::token::{self, State};
use crate::unwind::{Interruption, Registers};

/// Chains of frames and whole contexts. A chain's key is (number of the chain outwards of its
/// innermost frame, name of the site, id); a context's is the same with its capture site and current id. The addresses of an
/// interrupted point are numbered as frames behind that of the signal, with the address in place of the site.
static CHAINS: Interner<()> = Interner::new();

/// The interned number of the chain that starts at `top`; 0 for no frame, and also if there is no
/// memory (then `None` says so).
///
/// Numbers are cached in the frames ([`Frame::handle`] holds `number << 1 | 1`), so that only frames pushed
/// since the last call cost anything. A chain is walked outwards and numbered inwards;
/// on the way out each frame's handle holds a pointer to the frame inside of it, which is
/// even and not 0. A signal handler that interrupts the walk may number the same frames: the
/// walk then starts again.
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
    let top = top.frame();
    loop {
        // SAFETY: every frame of an intact chain is a live object on this thread's stack.
        // Volatile, because signal handlers of this thread write handles too.
        unsafe {
            let handle = |f: *mut Frame| (&raw const (*f).handle).read_volatile();
            let set = |f: *mut Frame, h: u64| (&raw mut (*f).handle).write_volatile(h);
            if handle(top) & 1 == 1 {
                return Some(handle(top) >> 1);
            }
            if links.is_lost(Link::new(top)) {
                return unknown();
            }
            let mut frame = top;
            let mut number = loop {
                let outer = links.outer(frame);
                if outer.is_null() {
                    break 0;
                }
                if is_unknown(outer) || links.is_lost(outer) {
                    break unknown()?;
                }
                let outer = outer.frame();
                if handle(outer) & 1 == 1 {
                    break handle(outer) >> 1;
                }
                set(outer, frame as u64);
                frame = outer;
            };
            loop {
                let inner = if frame == top { 0 } else { handle(frame) };
                if inner & 1 == 1 {
                    break; // numbered meanwhile by a signal handler: start again
                }
                let id = (*frame).id.wrapping_sub((*frame).prev.base());
                number = CHAINS.insert(&[number, place::name((*frame).site)?, id], ())?;
                if signal::is_site((*frame).site) {
                    number = point_number(number, frame.cast())?;
                }
                set(frame, number << 1 | 1);
                if inner == 0 {
                    return Some(number);
                }
                frame = inner as *mut Frame;
            }
        }
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
            chain.push(Frame { prev, id, site: 0x1000 as *const u8, handle: 0 });
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
    fn a_walk_that_was_left_half_way_does_not_disturb_the_next() {
        let mut frames = chain(&[90, 91, 92, 93]);
        let expected = number(&mut chain(&[90, 91, 92, 93]));
        // A signal handler that leaves by siglongjmp leaves pointers inwards in the handles.
        for i in 0..3 {
            frames[i].handle = &raw const frames[i + 1] as u64;
        }
        assert_eq!(number(&mut frames), expected);
        // And one that returns has numbered frames that the interrupted walk has yet to reach.
        frames[3].handle = 0;
        frames[2].handle = 0;
        assert_eq!(number(&mut frames), expected);
    }

    #[test]
    fn a_million_frames_are_numbered_without_recursion() {
        let ids: Vec<u64> = (0..1_000_000).map(|i| i % 3).collect();
        let mut frames = chain(&ids);
        let first = number(&mut frames);
        assert_eq!(first, number(&mut frames));
    }
}
