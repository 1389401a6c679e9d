//! From a context to its token.

use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::ptr::null;

use pcce_system::settled::auxiliary;

use super::chain::{Element, Elements, Frames};
use crate::abi::token::{ALPHABET, PREFIXES, SITE_LEFT, WITH_OFFSETS, flag, kind, zigzag};
use crate::abi::{Frame, Link, SiteByte};
use crate::fiber::is_gone;
use crate::image::Image;
use crate::offset;
use crate::runtimes::{Runtimes, runtimes};
use crate::signal;
use crate::unwind::Interruption;

/// The result of one pass over the context.
struct Extent {
    /// Length of the whole token in characters.
    len: usize,
    /// Runs of equal frames that fit into the buffer.
    runs_that_fit: usize,
    /// True if the shortest token (no frame) fits.
    fits_at_all: bool,
    damaged: bool,
    /// True if there are more images than a token names.
    full: bool,
    /// True if the token ends with a point whose id is not known.
    id_unknown: bool,
    /// True if the ids of the outermost sub-path that was written count from a frame that was not written.
    start_missing: bool,
    /// [`start_missing`](Self::start_missing) if only the runs that fit are written.
    start_missing_if_cut: bool,
}

impl Extent {
    /// Notes a point with the chain from `top` on. Returns whether the token ends there.
    fn ends_at(&mut self, point: &Interruption, top: Link) -> bool {
        self.id_unknown = point.detached;
        self.damaged = point.detached && !point.is_whole() && !is_gone(top);
        point.detached
    }
}

/// The context that is to be written.
pub(super) struct Context<'a> {
    pub(super) capture: Capture<'a>,
    pub(super) id: u64,
    pub(super) top: Link,
    /// True if ids of the sub-path count from the id in a frame, whether or not `top` leads there.
    pub(super) relative: bool,
    /// True if the stack may be damaged, so that memory must be checked before it is read.
    pub(super) suspect: bool,
}

/// The place where the token is taken.
pub(super) enum Capture<'a> {
    /// In code that is not instrumented.
    None,
    /// At a capture site, in an activation with this canonical frame address; 0 where that is not needed.
    Site(*const u8, usize),
    Point(&'a Interruption),
}

/// Writes an interrupted point. `base`: the address from which stack offsets count in its sub-path, if they are
/// written. False if there are too many images.
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
    let with_offsets = version >= WITH_OFFSETS as usize;
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
    // Code that is not instrumented and has an id was reached by an open call of the executable's. If ids count from a
    // frame, the decoder finds that out.
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
                && (same.frame.site(), same.link.left(), same.frame.id, same.distance)
                    == (frame.site(), link.left(), frame.id, distance)
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
            out.varint(if link.left() { site | SITE_LEFT } else { site });
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

/// Returns whether the chain has an interrupted point in it, and whether the function with which it begins has left its
/// activation.
fn survey(context: &Context<'_>) -> (bool, bool) {
    let mut frames = Frames::new(context.suspect);
    let (mut at, mut has_point) = (context.top, false);
    while let Some(frame) = frames.read(at) {
        has_point |= signal::is_site(frame.site());
        at = frame.prev;
    }
    (has_point, at.is_null() && at.left())
}

/// Writes a context's token, as long as the buffer allows; returns the length of the whole.
///
/// # Safety
/// `buf` can take `size` bytes; the chain is intact unless it is called suspect.
pub(super) unsafe fn token(buf: *mut c_char, size: usize, flags: u8, context: &Context<'_>) -> usize {
    let text = buf;
    let buf = buf.cast::<u8>();
    // SAFETY: len < size wherever this is called.
    let end = |len: usize| unsafe { super::end(text, len, size) };
    let (has_point, left) = survey(context);
    let version = match () {
        () if offset::is_used() => WITH_OFFSETS as usize,
        () if matches!(context.capture, Capture::Point(_)) || has_point => 2,
        () => 1,
    };
    let flags = if left { flags | flag::LEFT } else { flags };
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
    // The first pass has measured the token: one that does not fit is cut between frames, and says so.
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

// The images that a token names.

/// Images that one token can name; a token with more is cut.
const MAX_IMAGES: usize = 64;

/// The images named so far in the token that is being written.
struct Images {
    list: [MaybeUninit<Image>; MAX_IMAGES],
    count: usize,
}

impl Images {
    const fn new() -> Self {
        Self { list: [const { MaybeUninit::uninit() }; MAX_IMAGES], count: 0 }
    }

    /// The number of the image that holds `address`, and whether it is new. None if there are too many, or no
    /// image holds it and `any` is false.
    fn number(&mut self, address: *const u8, any: bool) -> Option<(usize, bool)> {
        for i in 0..self.count {
            if self.get(i).contains(address) {
                return Some((i, false));
            }
        }
        let image = Image::of(address).or(any.then_some(Image::NONE))?;
        // One entry stands for all addresses in no file.
        if image.is_none()
            && let Some(i) = (0..self.count).find(|&i| self.get(i).is_none())
        {
            return Some((i, false));
        }
        if self.count == MAX_IMAGES {
            return None;
        }
        self.list[self.count].write(image);
        self.count += 1;
        Some((self.count - 1, true))
    }

    fn is_full(&self) -> bool {
        self.count == MAX_IMAGES
    }

    fn get(&self, i: usize) -> &Image {
        debug_assert!(i < self.count);
        // SAFETY: the first `count` entries are initialised.
        unsafe { self.list[i].assume_init_ref() }
    }

    /// Writes the image's name, if it is new in the token.
    fn name(&self, number: usize, new: bool, out: &mut Writer) {
        if new {
            let id = self.get(number).name();
            out.byte(id.len() as u8);
            for &byte in id {
                out.byte(byte);
            }
        }
    }

    /// The address in the file of the image. 0 without a file: the address would be of no use, and disclose where the
    /// process has its memory.
    fn offset(&self, number: usize, address: usize) -> usize {
        let image = self.get(number);
        if image.is_none() { 0 } else { address.wrapping_sub(image.load_bias) }
    }
}

/// An address in the image of a site. The open node of the executable, whose site is null, has site 0 there.
fn place(site: *const u8) -> *const u8 {
    if !site.is_null() {
        return site;
    }
    // The program headers are part of a segment.
    auxiliary(libc::AT_PHDR) as *const u8
}

// A token's characters.

/// Writes base64 characters after the prefix, keeps the checksum, and counts what does not fit.
struct Writer {
    buf: *mut u8,
    /// Characters that may be written, the final zero not counted.
    capacity: usize,
    /// Characters of the token so far, written or not.
    len: usize,
    bits: u32,
    bit_count: u32,
    crc: u32,
}

impl Writer {
    /// # Safety
    /// `buf` can take `capacity + 1` bytes, or `capacity` is 0.
    unsafe fn new(buf: *mut u8, capacity: usize, prefix: &[u8]) -> Self {
        let mut writer = Self { buf, capacity, len: 0, bits: 0, bit_count: 0, crc: !0 };
        for &c in prefix {
            writer.put(c);
            // From version 2 on the checksum covers the prefix.
            if prefix != PREFIXES[0].as_bytes() {
                writer.check(c);
            }
        }
        writer
    }

    fn put(&mut self, c: u8) {
        if self.len < self.capacity {
            // SAFETY: by new()'s contract there is room for `capacity` bytes.
            unsafe { self.buf.add(self.len).write(c) };
        }
        self.len += 1;
    }

    fn raw(&mut self, byte: u8) {
        self.bits = self.bits << 8 | u32::from(byte);
        self.bit_count += 8;
        while self.bit_count >= 6 {
            self.bit_count -= 6;
            self.put(ALPHABET[(self.bits >> self.bit_count & 63) as usize]);
        }
    }

    fn byte(&mut self, byte: u8) {
        self.check(byte);
        self.raw(byte);
    }

    fn check(&mut self, byte: u8) {
        // CRC-32 (IEEE, reflected), four bits at a time.
        const TABLE: [u32; 16] = {
            let mut table = [0u32; 16];
            let mut i = 0;
            while i < 16 {
                let mut c = i as u32;
                let mut k = 0;
                while k < 4 {
                    c = if c & 1 == 1 { 0xedb8_8320 ^ c >> 1 } else { c >> 1 };
                    k += 1;
                }
                table[i] = c;
                i += 1;
            }
            table
        };
        self.crc ^= u32::from(byte);
        self.crc = TABLE[(self.crc & 15) as usize] ^ self.crc >> 4;
        self.crc = TABLE[(self.crc & 15) as usize] ^ self.crc >> 4;
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// The length of the token if it ended here.
    fn finished_len(&self) -> usize {
        self.len + (self.bit_count as usize + 32).div_ceil(6)
    }

    fn finish(mut self) -> usize {
        for byte in (!self.crc).to_le_bytes() {
            self.raw(byte);
        }
        if self.bit_count > 0 {
            self.bits <<= 6 - self.bit_count;
            self.put(ALPHABET[(self.bits & 63) as usize]);
        }
        self.len
    }
}
