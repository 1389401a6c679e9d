//! Fibers: stacks to which the program switches by itself.
//!
//! The thread's block does not follow an unannounced switch of stacks. So a capture follows the chain of frames only
//! where it runs on the stack that is known to be the thread's current one, and the chain lies on that stack, too
//! ([`followed`]); everywhere else the chain ends in [`UNKNOWN`], an explicit boundary. The public functions announce
//! switches.
//!
//! After an exception or a jump, the chain still belongs to calls that are over, below the stack pointer. There it ends
//! in [`GONE_LINK`]: nothing is damaged, and nothing is known.
use core::ptr::{dangling, null_mut};

use crate::abi::chains::{self, GONE_ID};
use crate::abi::{Frame, Link, Shadow, Tls};
use crate::shadow::written;
use crate::state::tls;
use crate::thread::key;
use crate::{crash, sys};
use pcce_system::machine::stack_pointer;
use pcce_system::settled::auxiliary;

/// `struct pcce_fiber` of the header: the state of a fiber while another one runs.
#[repr(C)]
pub struct Fiber {
    id: u64,
    top: Link,
    shadow: *mut Shadow,
    stack_low: usize,
    stack_high: usize,
    reserved: [u64; 3],
}

/// [`stack_high`](crate::abi::Tls::stack_high) if nothing is known of the stack.
pub const ANYWHERE: usize = usize::MAX;

struct Shared([Frame; 2]);

// SAFETY: never written: it is in memory that can only be read.
unsafe impl Sync for Shared {}

/// The site of [`UNKNOWN`]: no image holds it, so a token ends there as damaged.
pub const UNKNOWN_SITE: *const u8 = dangling();
const _: () = assert!(align_of::<u8>() as u64 == chains::UNKNOWN);

/// Two frames that stand for others: for frames that must not be read, and for frames of calls that a jump or an
/// exception has left.
static UNKNOWN: Shared =
    Shared([Frame::new(Link::NULL, 0, UNKNOWN_SITE), Frame::new(Link::NULL, GONE_ID, UNKNOWN_SITE)]);

/// A link to the first of [`UNKNOWN`].
pub const UNKNOWN_LINK: Link = Link::new((&raw const UNKNOWN.0[0]).cast_mut());

/// A link to the second of [`UNKNOWN`].
pub const GONE_LINK: Link = Link::new((&raw const UNKNOWN.0[1]).cast_mut());

/// Returns whether `top` is one of [`UNKNOWN`].
pub fn is_unknown(top: Link) -> bool {
    top.frame().addr().wrapping_sub(UNKNOWN_LINK.frame().addr()) < size_of::<Shared>()
}

/// Returns whether `top`, which does not belong to the activations at a point, may belong to calls that are over: it is
/// [`GONE_LINK`], or nothing is known of the stack.
pub fn is_gone(top: Link) -> bool {
    // SAFETY: this thread's block.
    top.frame() == GONE_LINK.frame() || unsafe { (*tls()).stack_high } == ANYWHERE
}

/// `top` if its chain can be followed, else one of [`UNKNOWN`].
#[inline(always)]
pub fn followed(top: Link) -> Link {
    followed_from(stack_pointer(), top)
}

/// Returns whether the thread runs on the stack in its block, and `top` is a frame there. If not, [`followed`] may
/// still follow the chain.
///
/// # Safety
/// The calling thread's block.
#[inline(always)]
pub unsafe fn is_on_stack(block: *const Tls, top: Link) -> bool {
    // SAFETY: by the contract.
    unsafe { is_on_stack_from(block, stack_pointer(), top) }
}

#[inline(always)]
unsafe fn is_on_stack_from(block: *const Tls, sp: usize, top: Link) -> bool {
    let frame = top.frame().addr();
    // A frame belongs to an activation that is not over, so it lies above the stack pointer.
    // SAFETY: by the caller.
    unsafe { (*block).stack_low <= sp && sp <= frame && frame < (*block).stack_high }
}

/// [`followed`] for code that runs, or was interrupted, at the stack pointer `sp`.
#[inline(always)]
pub fn followed_from(sp: usize, top: Link) -> Link {
    // SAFETY: this thread's block.
    if top.is_null() || unsafe { is_on_stack_from(tls(), sp, top) } { top } else { followed_slowly(sp, top) }
}

/// The id of a sub-path: the id in the thread's block less the base from which it counts. `followed`: the result of
/// [`followed`] for `top`. None if the frame that has the base is unknown.
#[inline(always)]
pub fn relative(id: u64, top: Link, followed: Link) -> Option<u64> {
    // SAFETY: a frame that can be followed is one of a live activation.
    (!is_lost(top, followed)).then(|| id.wrapping_sub(unsafe { top.base() }))
}

/// Returns whether ids count from an unknown frame: `link` leads to the frame, and `followed` is the result of
/// [`followed`] for `link`.
#[inline(always)]
pub fn is_lost(link: Link, followed: Link) -> bool {
    link.is_relative() && is_unknown(followed)
}

/// The slow path of [`followed_from`]: the stack is not the one in the thread's block, or `top` is below the stack
/// pointer.
#[cold]
fn followed_slowly(sp: usize, top: Link) -> Link {
    let address = top.frame().addr();
    let (mut sp_known, mut top_known) = (false, false);
    let mut on = |low: usize, high: usize| {
        let inside = |place: usize| low <= place && place < high;
        (sp_known, top_known) = (sp_known | inside(sp), top_known | inside(address));
        inside(sp) && inside(address) && sp <= address
    };
    let block = tls();
    // SAFETY: this thread's block, and plain system calls.
    unsafe {
        // The main thread's stack grows down to the limit.
        let (low, high) = main_stack();
        if on(low, high) {
            (*block).stack_low = low;
            (*block).stack_high = high;
            return top;
        }
        if (*block).stack_high == 0 && sys::gettid() != sys::getpid() {
            // Code without the pass started the thread: nothing is known of its stack.
            (*block).stack_high = ANYWHERE;
            // A thread that has crashed may have lost the memory that this writes, and does not end by itself.
            if !crash::reports() {
                key::watch();
            }
        }
        if (*block).stack_high == ANYWHERE || on((*block).stack_low, (*block).stack_high) {
            return top;
        }
        // A signal handler on its own stack: the chain begins there, and goes on where the signal struck.
        if let Some(stack) = sys::alternate_stack() {
            let low = stack.ss_sp as usize;
            if on(low, low.saturating_add(stack.ss_size)) && stack.ss_flags & libc::SS_ONSTACK != 0 {
                return top;
            }
        }
    }
    if sp_known && top_known { GONE_LINK } else { UNKNOWN_LINK }
}

/// The links of a chain that can be [`followed`].
#[derive(Clone, Copy)]
pub struct Links {
    low: usize,
    high: usize,
}

impl Links {
    /// The links of this thread's chain.
    #[inline(always)]
    pub fn new() -> Self {
        // SAFETY: this thread's block.
        unsafe { Self { low: (*tls()).stack_low, high: (*tls()).stack_high } }
    }

    /// Returns whether a frame's link leads upwards on the thread's stack, as nearly all do. [`outer`](Self::outer) is
    /// then the link's target.
    #[inline(always)]
    pub fn is_plain(self, frame: *mut Frame, prev: Link) -> bool {
        self.low <= frame.addr() && frame < prev.frame() && prev.frame().addr() < self.high
    }

    /// The link to the next frame outwards, [`UNKNOWN_LINK`] if no frame can be there; and whether the id in `frame`
    /// counts from the id of such an unknown frame.
    ///
    /// # Safety
    /// `frame` can be read.
    #[inline(always)]
    pub unsafe fn outer(self, frame: *mut Frame) -> (Link, bool) {
        // SAFETY: by the contract.
        let prev = unsafe { (*frame).prev };
        let inside = |frame: *mut Frame| (self.low..self.high).contains(&(frame as usize));
        let to = prev.frame();
        // A link leads upwards; only that of a signal handler on its own stack may lead anywhere on the thread's.
        let possible = if inside(frame) { frame < to && inside(to) } else { frame < to || inside(to) };
        let follows =
            prev.is_null() || possible || to == GONE_LINK.frame() || self.high == ANYWHERE || self.high == 0;
        let outer = if follows { prev } else { UNKNOWN_LINK };
        (outer, is_lost(prev, outer))
    }
}

/// The bounds of the main thread's stack.
fn main_stack() -> (usize, usize) {
    /// Without a limit, other mappings are further away than this.
    const MAX_SIZE: u64 = 1 << 40;
    let mut limit = libc::rlimit { rlim_cur: MAX_SIZE, rlim_max: MAX_SIZE };
    let arguments = [0, libc::RLIMIT_STACK as usize, 0, &raw mut limit as usize, 0, 0];
    // SAFETY: writes a limit, unless the kernel refuses.
    unsafe { sys::call(libc::SYS_prlimit64, arguments) };
    // The kernel's random bytes are on the stack, above all that the process has put there.
    let end = auxiliary(libc::AT_RANDOM);
    (end.saturating_sub(limit.rlim_cur.min(MAX_SIZE) as usize), end)
}

/// Before the thread leaves the stack of `fiber`: keeps its state. See the header.
///
/// # Safety
/// `fiber` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcce_fiber_save(fiber: *mut Fiber) {
    // SAFETY: this thread's block; by the contract.
    unsafe {
        let block = tls();
        fiber.write(Fiber {
            id: (*block).id,
            top: (*block).top,
            shadow: (*block).shadow,
            stack_low: (*block).stack_low,
            stack_high: (*block).stack_high,
            reserved: [0; 3],
        });
        written(fiber.cast(), size_of::<Fiber>());
    }
}

/// After the thread has come back to the stack of `fiber`: puts its state back. See the header.
///
/// # Safety
/// `fiber` was written by [`pcce_fiber_save`] in the activation that calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcce_fiber_restore(fiber: *const Fiber) {
    // SAFETY: this thread's block, which is another one if the fiber moved; by the contract.
    unsafe {
        let block = tls();
        (*block).top = (*fiber).top;
        (*block).id = (*fiber).id;
        (*block).shadow = (*fiber).shadow;
        (*block).stack_low = (*fiber).stack_low;
        (*block).stack_high = (*fiber).stack_high;
    }
}

const _: () = assert!(size_of::<Fiber>() == 64);

/// Keeps the state in `found`, and begins the empty state of a fiber whose frames lie below `found`.
pub unsafe extern "C" fn begin(found: *mut Fiber) {
    // SAFETY: this thread's block; the frame of pcce_fiber_run().
    unsafe {
        pcce_fiber_save(found);
        let block = tls();
        (*block).top = Link::NULL;
        (*block).id = 0;
        (*block).shadow = null_mut();
        (*block).stack_low = 0;
        (*block).stack_high = found as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::null;

    #[test]
    fn links_lead_upwards_on_one_stack() {
        let new = || Frame::new(Link::NULL, 0, null());
        let mut stack: [Frame; 4] = core::array::from_fn(|_| new());
        let mut other: [Frame; 2] = core::array::from_fn(|_| new());
        let first = stack.as_mut_ptr();
        let frame = |i: usize| first.wrapping_add(i);
        let [low, high] = [frame(0) as usize, frame(4) as usize];
        let foreign = [&raw mut other[0], &raw mut other[1]];
        let follow = |links: Links, from: *mut Frame, to: Link| {
            // SAFETY: both are frames of the arrays above.
            unsafe {
                (*from).prev = to;
                links.outer(from)
            }
        };
        let outer = |links: Links, from: *mut Frame, to: *mut Frame| {
            let found = follow(links, from, Link::new(to));
            assert!(!found.1, "its id counts from 0");
            let relative = if to.is_null() { Link::NULL } else { Link::relative(to) };
            let (link, lost) = follow(links, from, relative);
            assert_eq!((link, lost), if is_unknown(found.0) { (found.0, true) } else { (relative, false) });
            found.0.frame()
        };
        let links = Links { low, high };
        assert_eq!(outer(links, frame(0), frame(1)), frame(1));
        assert_eq!(outer(links, frame(0), frame(3)), frame(3));
        assert_eq!(outer(links, frame(3), null_mut()), null_mut());
        // A link of a signal handler on a stack of its own.
        assert_eq!(outer(links, foreign[0], foreign[1]), foreign[1]);
        assert_eq!(outer(links, foreign[1], frame(2)), frame(2));
        for wrong in [frame(2), frame(1), frame(0), frame(4), foreign[0], foreign[1]] {
            assert!(is_unknown(Link::new(outer(links, frame(2), wrong))));
        }
        let anywhere = Links { low: 0, high: ANYWHERE };
        assert_eq!(outer(anywhere, frame(2), frame(1)), frame(1));
    }

    #[test]
    fn frames_below_the_stack_pointer_and_on_other_stacks_are_not_followed() {
        let old = Links::new();
        let set = |low: usize, high: usize| {
            // SAFETY: this thread's block.
            unsafe {
                (*tls()).stack_low = low;
                (*tls()).stack_high = high;
            }
        };
        let at = |address: usize| Link::new(address as *mut Frame);
        set(0x1000, 0x2000);
        assert_eq!(followed_from(0x1800, at(0x1900)), at(0x1900));
        assert_eq!(followed_from(0x1800, at(0x1901)), at(0x1901));
        assert_eq!(followed_from(0x1800, Link::NULL), Link::NULL);
        assert_eq!(followed_from(0x5000, Link::NULL), Link::NULL);
        for (sp, top) in
            [(0x1800, 0x1700), (0x1800, 0x2000), (0x1800, 0x900), (0x900, 0x1900), (0x2800, 0x2900)]
        {
            assert!(is_unknown(followed_from(sp, at(top))), "{sp:#x} {top:#x}");
        }
        set(old.low, old.high);
    }
}
