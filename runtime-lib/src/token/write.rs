//! From a context to its token.

use core::ffi::c_char;
use core::ptr::null;

use super::chain::{Element, Elements, Frames};
use super::images::{Images, place};
use super::writer::Writer;
use crate::abi::token::{PREFIXES, SITE_LEFT, WITH_OFFSETS, flag, kind, zigzag};
use crate::abi::{Frame, Link, SiteByte};
use crate::fiber::is_gone;
use crate::offset;
use crate::runtimes::{Runtimes, runtimes};
use crate::signal;
use crate::state::tls;
use crate::unwind::Interruption;

/// What one pass over the context found out.
struct Extent {
    /// Length of the whole token in characters.
    len: usize,
    /// Runs of equal frames that fit into the buffer.
    runs_that_fit: usize,
    /// Whether the shortest token (no frame) fits.
    fits_at_all: bool,
    damaged: bool,
    /// Whether there are more images than a token names.
    full: bool,
    /// Whether the token ends with a point whose id is not known.
    id_unknown: bool,
    /// Whether the ids of the outermost sub-path that was written count from those of a frame that was not; the same
    /// for the runs that fit.
    start_missing: bool,
    start_missing_if_cut: bool,
}

impl Extent {
    /// At a point that has the chain from `top` on: whether the token ends there.
    fn ends_at(&mut self, point: &Interruption, top: Link) -> bool {
        self.id_unknown = point.detached;
        self.damaged = point.detached && !point.is_whole() && !is_gone(top);
        point.detached
    }
}

/// What is to be written.
pub(super) struct Context<'a> {
    pub(super) capture: Capture<'a>,
    /// The id of the sub-path.
    pub(super) id: u64,
    pub(super) top: Link,
    /// Whether ids of the sub-path count from that of a frame, whether or not `top` leads there.
    pub(super) relative: bool,
    /// Whether the stack may be damaged, so that memory must be asked for before it is read.
    pub(super) suspect: bool,
}

/// Where the token is taken.
pub(super) enum Capture<'a> {
    /// In code that is not instrumented.
    None,
    /// At a capture site, in an activation with this canonical frame address; 0 where that is not needed.
    Site(*const u8, usize),
    /// At an interrupted point.
    Point(&'a Interruption),
}

/// Writes an interrupted point. `base`: from where stack offsets count in its sub-path, if they are written. False if
/// there are too many images.
fn write_point(
    out: &mut Writer,
    images: &mut Images,
    id: u64,
    point: &Interruption,
    base: Option<usize>,
) -> bool {
    let count = point.addresses().count() as u64;
    if let Some((first, last)) = point.left_out() {
        out.varint(point.end as u64);
        for number in [count, first as u64, (last - first) as u64] {
            out.varint(number);
        }
    } else {
        out.varint(count << 2 | point.end as u64);
    }
    out.varint(zigzag(id));
    let mut before = (usize::MAX, 0);
    for ((address, exact), cfa) in point.addresses().zip(point.frames()) {
        let Some((number, new)) = images.number(address as *const u8, true) else { return false };
        out.varint((number as u64) << 1 | u64::from(exact));
        images.name(number, new, out);
        let offset = images.offset(number, address);
        let from = if before.0 == number { before.1 } else { 0 };
        out.varint(zigzag(offset.wrapping_sub(from) as u64));
        if let Some(base) = base {
            out.varint(SiteByte::distance(cfa, base));
        }
        before = (number, offset);
    }
    true
}

/// Writes the token of a context with at most `max_runs` runs of equal frames.
///
/// # Safety
/// `buf` can take `capacity + 1` bytes or `capacity` is 0; the chain is intact unless it is called suspect.
#[inline(never)]
unsafe fn write(
    buf: *mut u8,
    capacity: usize,
    version: usize,
    flags: u8,
    context: &Context<'_>,
    max_runs: usize,
    limit: usize,
) -> (usize, Extent) {
    let mut images = Images::new();
    // SAFETY: passed on.
    let mut out = unsafe { Writer::new(buf, capacity, PREFIXES[version - 1].as_bytes()) };
    let mut extent = Extent {
        len: 0,
        runs_that_fit: 0,
        fits_at_all: false,
        damaged: false,
        full: false,
        id_unknown: false,
        start_missing: context.relative,
        start_missing_if_cut: context.relative,
    };
    out.byte(flags);
    let with_offsets = version == WITH_OFFSETS as usize;
    let detached = matches!(context.capture, Capture::Point(point) if point.detached);
    let top = if detached { Link::NULL } else { context.top };
    let mut elements = Elements::new(Frames::new(context.suspect), top);
    let base = if detached { 0 } else { elements.base(top) };
    match context.capture {
        Capture::None => {}
        Capture::Site(site, cfa) => {
            if let Some((number, new)) = images.number(site, false) {
                out.varint(number as u64);
                images.name(number, new, &mut out);
                out.varint(images.offset(number, site as usize) as u64);
                out.varint(zigzag(context.id));
                if with_offsets {
                    out.varint(elements.frames.distance(site, cfa, base));
                }
            }
        }
        // The first images of a token are never too many.
        Capture::Point(point) => {
            write_point(&mut out, &mut images, context.id, point, with_offsets.then_some(base));
            extent.ends_at(point, context.top);
        }
    }
    extent.fits_at_all = out.finished_len() <= limit;
    // What is not instrumented and has an id was reached by an open call of the executable's. If ids count from a
    // frame, the decoder finds out.
    let open = matches!(context.capture, Capture::None) && (context.id != 0 || context.relative);
    let mut next = match open {
        true => {
            let frame = Frame::new(context.top, context.id, null());
            Some(Element { link: context.top, frame, distance: 0, base })
        }
        false => elements.take(),
    };
    let mut runs = 0;
    let mut at;
    while let Some(Element { link, frame, distance, base }) = next
        && runs < max_runs
    {
        let mut count = 1u64;
        at = frame.prev;
        next = elements.take();
        if signal::is_site(frame.site()) {
            let Some(point) = elements.frames.point(link, frame.prev) else {
                extent.damaged = true;
                break;
            };
            out.varint(kind::SIGNAL);
            if !write_point(&mut out, &mut images, frame.id, &point, with_offsets.then_some(base)) {
                extent.full = true;
                break;
            }
            if extent.ends_at(&point, frame.prev) {
                next = None;
            }
        } else {
            while let Some(same) = &next
                && (same.frame.site(), same.frame.left(), same.frame.id, same.distance)
                    == (frame.site(), frame.left(), frame.id, distance)
            {
                count += 1;
                at = same.frame.prev;
                next = elements.take();
            }
            let Some((number, new)) = images.number(place(frame.site()), false) else {
                (extent.full, extent.damaged) = (images.is_full(), !images.is_full());
                break;
            };
            out.varint((number as u64) << version.min(2) | u64::from(count > 1));
            images.name(number, new, &mut out);
            let open = frame.site().is_null();
            let site = if open { 0 } else { images.offset(number, frame.site() as usize) as u64 };
            out.varint(if frame.left() { site | SITE_LEFT } else { site });
            out.varint(zigzag(frame.id));
            if with_offsets {
                out.varint(distance);
            }
            if count > 1 {
                out.varint(count);
            }
        }
        runs += 1;
        extent.start_missing = at.is_relative();
        if out.finished_len() <= limit {
            extent.runs_that_fit = runs;
            extent.start_missing_if_cut = extent.start_missing;
        }
    }
    extent.damaged |= elements.frames.damaged;
    let len = out.finish();
    extent.len = len;
    (len, extent)
}

/// Whether the chain has an interrupted point in it.
fn has_point(context: &Context<'_>) -> bool {
    let mut frames = Frames::new(context.suspect);
    let mut at = context.top;
    while let Some(frame) = frames.read(at) {
        if signal::is_site(frame.site()) {
            return true;
        }
        at = frame.prev;
    }
    false
}

/// Writes a context's token, as long as the buffer allows; returns the length of the whole.
///
/// # Safety
/// `buf` can take `size` bytes; the chain is intact unless it is called suspect.
pub(super) unsafe fn token(buf: *mut c_char, size: usize, flags: u8, context: &Context<'_>) -> usize {
    let buf = buf.cast::<u8>();
    let end = |len: usize| {
        if size > 0 {
            // SAFETY: len < size wherever this is called.
            unsafe { buf.add(len).write(0) };
        }
    };
    let version = match () {
        () if offset::is_used() => WITH_OFFSETS as usize,
        () if matches!(context.capture, Capture::Point(_)) || has_point(context) => 2,
        () => 1,
    };
    // SAFETY: this thread's block.
    let flags = if unsafe { (*tls()).left } != 0 { flags | flag::LEFT } else { flags };
    let runtimes = runtimes();
    let nothing = Context { capture: Capture::None, id: 0, top: Link::NULL, relative: false, suspect: false };
    let (flags, context) = match runtimes {
        Runtimes::One => (flags, context),
        Runtimes::Several => (flags | flag::OTHER_RUNTIME, context),
        Runtimes::Mixed => (flag::OTHER_RUNTIME, &nothing),
    };
    let limit = size.saturating_sub(1);
    // SAFETY: the caller's buffer, and `limit < size` or 0; the chain is as the caller says.
    let (written, extent) = unsafe { write(buf, limit, version, flags, context, usize::MAX, limit) };
    // Measured by that: a token that does not fit is cut between frames, and says so.
    if extent.len <= limit && !extent.damaged && !extent.full && !extent.id_unknown {
        end(written);
        return extent.len;
    }
    if !extent.fits_at_all {
        end(0);
        return extent.len;
    }
    let cut = extent.len > limit;
    let state = if extent.id_unknown { flag::OTHER_STATE } else { 0 };
    let (what, start_missing) = match () {
        () if cut => (flag::CUT, extent.start_missing_if_cut),
        () if extent.full => (flag::CUT, extent.start_missing),
        () if extent.damaged => (flag::DAMAGED | state, extent.start_missing),
        () => (state, false),
    };
    let flags = flags | what | if start_missing { flag::START_MISSING } else { 0 };
    let runs = if cut { extent.runs_that_fit } else { usize::MAX };
    // SAFETY: the caller's buffer; the measured length is at most `limit`, and `limit < size`.
    let (written, _) = unsafe { write(buf, limit, version, flags, context, runs, limit) };
    end(written);
    extent.len
}
