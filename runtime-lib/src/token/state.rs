//! The state of a thread where it is described by an interrupted point.

use super::chain::Frames;
use crate::abi::Link;
use crate::fiber::{is_lost, is_unknown};
use crate::own::Own;
use crate::signal;
use crate::unwind::{End, Interruption, Process, Unwind as _};
use crate::{Native, Registers};

/// The state of a thread, its frames as far as they can be followed.
#[derive(Clone, Copy)]
pub struct State {
    /// The id of the sub-path.
    pub id: u64,
    /// The innermost pushed frame.
    pub top: Link,
    /// Whether the id counts from that of a frame.
    pub(super) relative: bool,
    /// The id counts from that of this frame, of which nothing is known.
    pub(super) lost: Option<Link>,
}

impl State {
    /// `id` and `top` as the thread's block has them, and what became of `top`.
    #[inline(never)]
    pub(super) fn new(id: u64, top: Link, followed: Link) -> Self {
        if is_lost(top, followed) {
            return Self { id, top: followed, relative: true, lost: Some(top) };
        }
        // What is damaged, may be anywhere.
        let base = Frames::new(true).base(top);
        let lost = base.is_none().then_some(top);
        Self { id: id.wrapping_sub(base.unwrap_or(0)), top: followed, relative: top.is_relative(), lost }
    }

    /// Whether the id counts from that of a frame.
    pub fn is_relative(&self) -> bool {
        self.relative
    }

    /// Whether nothing is known of that frame.
    pub fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The way from the activation with these registers outwards. If it leads to an owner of a lost frame, the id is
    /// known. `most`: so many activations at most.
    #[inline(never)]
    pub(super) fn walk(&mut self, registers: Registers, most: usize) -> Interruption {
        let link = self.lost.unwrap_or(self.top);
        let mut point = Interruption::walk(registers, link.frame().addr(), most, &mut Own::new());
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

/// If a handler that the trampoline called interrupted this point: its frame has the state and the registers there.
pub(super) fn interrupted_at(state: State, pc: usize, sp: usize) -> Option<(Registers, State)> {
    let mut frames = Frames::new(true);
    let mut at = state.top;
    while let Some(frame) = frames.read(at) {
        if signal::is_site(frame.site()) {
            let context = at.frame().wrapping_add(1).cast::<*const libc::ucontext_t>();
            let context = frames.process.word(context as usize)? as usize;
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
