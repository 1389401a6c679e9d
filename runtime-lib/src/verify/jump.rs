//! What `longjmp` does to the shadow stack, where it goes to code that is not instrumented.

use core::mem::offset_of;

use crate::abi::{Frame, Link, Shadow};
use crate::fiber::{followed_from, is_unknown};
use crate::own::Own;
use crate::signal::{self, SignalFrame};
use crate::state::{current, tls};
use crate::unwind::Process as _;

/// Frames that are followed at most.
const MOST_FRAMES: u32 = 1 << 20;

/// The innermost record of an activation that goes on with the stack pointer `sp`, and the chain `top`.
pub(super) fn shadow_at(sp: usize, top: Link) -> *mut Shadow {
    // SAFETY: this thread's block.
    let mut shadow = unsafe { (*tls()).shadow };
    if shadow.is_null() {
        return shadow;
    }
    // What is active on another stack may lead to what was active on this one.
    let mut memory = Own::new();
    let mut word = |at: usize| memory.word(at);
    // A handler's records are not on the list of what it has interrupted.
    let mut at = current().1;
    for _ in 0..MOST_FRAMES {
        if at.is_null() || at == top || is_unknown(at) {
            break;
        }
        let frame = at.frame().addr();
        let (Some(prev), Some(site)) =
            (word(frame + offset_of!(Frame, prev)), word(frame + offset_of!(Frame, marked_site)))
        else {
            break;
        };
        if signal::is_site(Frame::new(Link::NULL, 0, site as *const u8).site()) {
            shadow = word(frame + offset_of!(SignalFrame, shadow)).unwrap_or(0) as *mut Shadow;
        }
        at = Link::new(prev as *mut Frame);
    }
    let is_outwards = |at: usize| !is_unknown(followed_from(at, Link::new(sp as *mut Frame)));
    while !shadow.is_null() && shadow.addr() < sp && is_outwards(shadow.addr()) {
        shadow = word(shadow.addr() + offset_of!(Shadow, prev)).unwrap_or(0) as *mut Shadow;
    }
    shadow
}
