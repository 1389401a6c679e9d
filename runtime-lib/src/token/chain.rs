//! The chain of pushed frames. Memory is checked before it is read where the stack may be damaged.

use core::ptr::null;

use crate::abi::{Frame, Link, SiteByte};
use crate::fiber::{Links, is_unknown};
use crate::offset;
use crate::own::Own;
use crate::signal::SignalFrame;
use crate::unwind::{Interruption, Process, Unwind as _};
use crate::{Native, Registers};

/// The maximum number of activations that are walked at the point where a handler was called: contexts of handlers are
/// taken often.
const BELOW_HANDLERS: usize = 1 << 14;

/// A reader of the chain.
pub(super) struct Frames {
    pub(super) links: Links,
    pub(super) suspect: bool,
    pub(super) process: Own,
    /// True if the chain ended in something that is no frame.
    pub(super) damaged: bool,
    /// A frame met before: a damaged chain may be a ring. After `limit` further steps, another frame becomes the mark.
    pub(super) mark: *const Frame,
    pub(super) steps: u64,
    pub(super) limit: u64,
}

impl Frames {
    pub(super) fn new(suspect: bool) -> Self {
        Self {
            links: Links::new(),
            suspect,
            process: Own::new(),
            damaged: false,
            mark: null(),
            steps: 0,
            limit: 1,
        }
    }

    /// Reads a frame, with the id of its sub-path; None at the end.
    pub(super) fn read(&mut self, link: Link) -> Option<Frame> {
        if link.is_null() {
            return None;
        }
        let frame = link.frame();
        if !self.suspect {
            // SAFETY: a live frame of this thread's chain.
            return unsafe {
                let (prev, lost) = self.links.outer(frame);
                if lost {
                    self.damaged = true;
                    return None;
                }
                Some(Frame::new(prev, (*frame).id.wrapping_sub(prev.base()), (*frame).marked_site))
            };
        }
        let mut word = |i: usize| self.process.word((frame as usize).wrapping_add(i * 8));
        let words = (|| Some([word(0)?, word(1)?, word(2)?]))();
        if self.mark == frame.cast_const() {
            self.damaged = true;
            return None;
        }
        self.steps += 1;
        if self.steps == self.limit {
            (self.mark, self.steps, self.limit) = (frame, 0, self.limit * 2);
        }
        // A frame of zeros is nearly always one that was overwritten with zeros.
        let words = words.filter(|words| *words != [0; 3]);
        self.damaged |= words.is_none();
        let [_, id, site] = words?;
        // SAFETY: its words are readable.
        let (prev, lost) = unsafe { self.links.outer(frame) };
        let base = self.base(prev).filter(|_| !lost);
        self.damaged |= base.is_none();
        Some(Frame::new(prev, id.wrapping_sub(base?), site as *const u8))
    }

    /// The address from which stack offsets count in the sub-path above a link, which leads to the frame, if any.
    fn offset_base(&mut self, link: Link, frame: Option<&Frame>) -> usize {
        let missing = frame.is_none() && !link.is_null();
        let site = frame.map_or(null(), Frame::site);
        if missing { 0 } else { offset::base(link, site, self.suspect.then_some(&mut self.process)) }
    }

    /// How far a place in the function of a site is below the base of its sub-path, in words.
    pub(super) fn distance(&mut self, site: *const u8, place: usize, base: usize) -> u64 {
        offset::distance(site, place, base, self.suspect.then_some(&mut self.process))
    }

    /// The base from which the ids of a sub-path count; None if the frame that has it cannot be read.
    pub(super) fn base(&mut self, link: Link) -> Option<u64> {
        let id = link.frame().addr() + core::mem::offset_of!(Frame, id);
        if link.is_relative() { self.process.word(id) } else { Some(0) }
    }

    /// The address of the `ucontext_t` in a signal's frame.
    pub(super) fn context(&mut self, link: Link) -> Option<usize> {
        let context = link.frame().addr().wrapping_add(core::mem::offset_of!(SignalFrame, context));
        self.process.word(context).map(|context| context as usize)
    }

    /// The point that was interrupted where a signal's frame was pushed.
    pub(super) fn point(&mut self, link: Link, prev: Link) -> Option<Interruption> {
        let context = self.context(link)?;
        interrupted(context, prev, &mut self.process)
    }
}

/// The point that a signal interrupted. `context`: the pointer in the signal's frame; null if a sanitizer has called
/// the handler late. `prev`: the link to the innermost frame at the point.
pub fn interrupted(context: usize, prev: Link, process: &mut Own) -> Option<Interruption> {
    // An address where no code can be, so that nothing more is found.
    let registers = if context == 0 { Registers::at(1, 0) } else { Native::interrupted(process, context)? };
    let mut point = Interruption::walk(registers, prev.frame().addr(), BELOW_HANDLERS, process);
    point.detached |= is_unknown(prev);
    Some(point)
}

/// The task that the innermost such frame of a chain runs: its address is stored after the frame. The first link of the
/// chain can be followed. `suspect`: the stack may be damaged.
pub fn task(top: Link, suspect: bool) -> Option<usize> {
    let mut frames = Frames::new(suspect);
    let mut at = top;
    while let Some(frame) = frames.read(at) {
        let process = suspect.then_some(&mut frames.process);
        if offset::flags(frame.site(), process) & SiteByte::RUNS_TASK != 0 {
            // Memory of the same activation as the frame.
            return frames.process.word(at.frame().wrapping_add(1).addr()).map(|word| word as usize);
        }
        at = frame.prev;
    }
    None
}

pub(super) struct Element {
    /// The link that leads to it.
    pub(super) link: Link,
    /// The frame, with the id of its sub-path.
    pub(super) frame: Frame,
    /// Its stack offset, in words; 0 where that is not known, or not needed.
    pub(super) distance: u64,
    /// The address from which stack offsets count in its sub-path.
    pub(super) base: usize,
}

/// The frames of a chain one by one.
pub(super) struct Elements {
    pub(super) frames: Frames,
    pub(super) next: Option<(Link, Frame)>,
}

impl Elements {
    pub(super) fn new(mut frames: Frames, top: Link) -> Self {
        let next = frames.read(top).map(|frame| (top, frame));
        Self { frames, next }
    }

    /// The address from which stack offsets count in the sub-path above the next element, to which this link leads.
    pub(super) fn base(&mut self, link: Link) -> usize {
        self.frames.offset_base(link, self.next.as_ref().map(|(_, frame)| frame))
    }

    #[inline(never)]
    pub(super) fn take(&mut self) -> Option<Element> {
        let (link, frame) = self.next.take()?;
        let outer = frame.prev;
        self.next = self.frames.read(outer).map(|frame| (outer, frame));
        let base = self.base(outer);
        let distance = self.frames.distance(frame.site(), link.frame().addr(), base);
        Some(Element { link, frame, distance, base })
    }
}
