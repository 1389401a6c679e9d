//! Tokens: a context as printable text (`docs/formats.md`), written without allocation, locks or
//! tables of the process, so that signal handlers may do it.

use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::ptr::null;

use crate::abi::token::{ALPHABET, PREFIXES, SITE_LEFT, WITH_OFFSETS, flag, kind, zigzag};
use crate::abi::{Frame, HybridSite, Link};
use crate::fiber::{Links, followed, followed_from, is_lost, is_unknown, relative};
use crate::image::Image;
use crate::offset;
use crate::own::{self, Own};
use crate::signal::{self, SignalFrame};
use crate::state::{current, tls};
use crate::unwind::{self, End, Interruption, Process, Registers};

/// Images that one token can name; a frame beyond them ends the token as damaged.
const MAX_IMAGES: usize = 64;

/// Writes base64 characters behind the prefix, keeps the checksum, and counts what does not fit.
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
        // One stands for all that is in no file.
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

    fn get(&self, i: usize) -> &Image {
        debug_assert!(i < self.count);
        // SAFETY: the first `count` entries are initialised.
        unsafe { self.list[i].assume_init_ref() }
    }

    /// The image's name, if it is new in the token.
    fn name(&self, number: usize, new: bool, out: &mut Writer) {
        if new {
            let id = self.get(number).name();
            out.byte(id.len() as u8);
            for &byte in id {
                out.byte(byte);
            }
        }
    }

    /// The address in the file of the image. 0 where there is none: nobody could use it, and it would tell where the process has its memory.
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
    // SAFETY: a plain call. The program headers are part of a segment.
    unsafe { libc::getauxval(libc::AT_PHDR) as *const u8 }
}

/// What one pass over the context found out.
struct Extent {
    /// Length of the whole token in characters.
    len: usize,
    /// Runs of equal frames that fit into the buffer.
    runs_that_fit: usize,
    /// Whether the shortest token (no frame) fits.
    fits_at_all: bool,
    damaged: bool,
    /// Whether the ids of the outermost sub-path that was written count from those of a frame that was not; the same for the runs that fit.
    start_missing: bool,
    start_missing_if_cut: bool,
}

/// What is to be written.
struct Context<'a> {
    capture: Capture<'a>,
    /// The id of the sub-path.
    id: u64,
    top: Link,
    /// Whether ids of the sub-path count from that of a frame, whether or not `top` leads there.
    relative: bool,
    /// Whether the stack may be damaged, so that memory must be asked for before it is read.
    suspect: bool,
}

/// Where the token is taken.
enum Capture<'a> {
    /// In code that is not instrumented.
    None,
    /// At a capture site, in an activation with this canonical frame address; 0 where that is not needed.
    Site(*const u8, usize),
    /// At an interrupted point.
    Point(&'a Interruption),
}

/// The chain of frames, read with the care that is needed.
struct Frames {
    links: Links,
    suspect: bool,
    process: Own,
    /// Whether the chain ended in something that is no frame.
    damaged: bool,
    /// A frame met before, and how many frames after it the next one is put here: a damaged chain may be a ring.
    mark: *const Frame,
    steps: u64,
    limit: u64,
}

impl Frames {
    fn new(suspect: bool) -> Self {
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

    /// What a frame holds, with the id of its sub-path; None at the end.
    fn read(&mut self, link: Link) -> Option<Frame> {
        if link.is_null() {
            return None;
        }
        let frame = link.frame();
        if !self.suspect {
            // SAFETY: a live frame of this thread's chain.
            return unsafe {
                if self.links.is_lost(link) {
                    self.damaged = true;
                    return None;
                }
                let prev = self.links.outer(frame);
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
        self.damaged |= words.is_none();
        let [_, id, site] = words?;
        // SAFETY: its words are readable.
        let (prev, lost) = unsafe { (self.links.outer(frame), self.links.is_lost(link)) };
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
    fn distance(&mut self, site: *const u8, place: usize, base: usize) -> u64 {
        offset::distance(site, place, base, self.suspect.then_some(&mut self.process))
    }

    /// What the ids of a sub-path count from, though its frame may not be there.
    fn base(&mut self, link: Link) -> Option<u64> {
        let id = link.frame().addr() + core::mem::offset_of!(Frame, id);
        if link.is_relative() { self.process.word(id) } else { Some(0) }
    }

    /// The point that was interrupted where a signal's frame was pushed.
    fn point(&mut self, link: Link, prev: Link) -> Option<Interruption> {
        let context = link.frame().wrapping_add(1).cast::<*const libc::ucontext_t>();
        debug_assert_eq!(core::mem::offset_of!(SignalFrame, context), size_of::<Frame>());
        let context = self.process.word(context as usize)? as usize;
        let registers = Registers::interrupted(&mut self.process, context)?;
        Some(Interruption::walk(registers, prev.frame().addr(), &mut self.process))
    }
}

/// A frame of the chain.
struct Element {
    /// The link that leads to it.
    link: Link,
    /// What it holds, with the id of its sub-path.
    frame: Frame,
    /// Its stack offset, in words; 0 where that is not known, or not needed.
    distance: u64,
    /// The address from which stack offsets count in its sub-path.
    base: usize,
}

/// The frames of a chain one by one.
struct Elements {
    frames: Frames,
    next: Option<(Link, Frame)>,
}

impl Elements {
    /// From `top` on.
    fn new(mut frames: Frames, top: Link) -> Self {
        let next = frames.read(top).map(|frame| (top, frame));
        Self { frames, next }
    }

    /// The address from which stack offsets count in the sub-path above the next element, to which this link leads.
    fn base(&mut self, link: Link) -> usize {
        self.frames.offset_base(link, self.next.as_ref().map(|(_, frame)| frame))
    }

    #[inline(never)]
    fn take(&mut self) -> Option<Element> {
        let (link, frame) = self.next.take()?;
        let outer = frame.prev;
        self.next = self.frames.read(outer).map(|frame| (outer, frame));
        let base = self.base(outer);
        let distance = self.frames.distance(frame.site(), link.frame().addr(), base);
        Some(Element { link, frame, distance, base })
    }
}

/// Writes an interrupted point. `base`: from where stack offsets count in its sub-path, if they are written. False if there are too many images.
fn write_point(
    out: &mut Writer,
    images: &mut Images,
    id: u64,
    point: &Interruption,
    base: Option<usize>,
) -> bool {
    let count = point.addresses().count() as u64;
    out.varint(count << 2 | point.end as u64);
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
            out.varint(HybridSite::distance(cfa, base));
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
            extent.damaged = point.detached;
        }
    }
    extent.fits_at_all = out.finished_len() <= limit;
    // What is not instrumented and has an id was reached by an open call of the executable's. If ids count from a frame, the decoder finds out.
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
                extent.damaged = true;
                break;
            }
            if point.detached {
                extent.damaged = true;
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
                extent.damaged = true;
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
unsafe fn token(buf: *mut c_char, size: usize, flags: u8, context: &Context<'_>) -> usize {
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
    let limit = size.saturating_sub(1);
    // SAFETY: the caller's buffer, and `limit < size` or 0; the chain is as the caller says.
    let (written, extent) = unsafe { write(buf, limit, version, flags, context, usize::MAX, limit) };
    // Measured by that: a token that does not fit is cut between frames, and says so.
    if extent.len <= limit && !extent.damaged {
        end(written);
        return extent.len;
    }
    if !extent.fits_at_all {
        end(0);
        return extent.len;
    }
    let cut = extent.len > limit;
    let (what, start_missing) = match cut {
        true => (flag::CUT, extent.start_missing_if_cut),
        false => (flag::DAMAGED, extent.start_missing),
    };
    let flags = flags | what | if start_missing { flag::START_MISSING } else { 0 };
    let runs = if cut { extent.runs_that_fit } else { usize::MAX };
    // SAFETY: the caller's buffer; the measured length is at most `limit`, and `limit < size`.
    let (written, _) = unsafe { write(buf, limit, version, flags, context, runs, limit) };
    end(written);
    extent.len
}

/// The token of the current context at `site`, which is null where that is not known. See `pcce_token` in the header.
///
/// # Safety
/// `buf` can take `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_token(buf: *mut c_char, size: usize, site: *const u8) -> usize {
    // SAFETY: passed on.
    unsafe { __pcce_token_below(buf, size, site, 0) }
}

/// The same at a site whose function needs stack offsets. `cfa` is the canonical frame address of its activation.
///
/// # Safety
/// `buf` can take `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_token_below(
    buf: *mut c_char,
    size: usize,
    site: *const u8,
    cfa: usize,
) -> usize {
    let (id, found) = current();
    let top = followed(found);
    // SAFETY: passed on.
    let Some(id) = relative(id, found, top) else { return unsafe { pcce_token(buf, size) } };
    if site.is_null() && top.is_null() && id == 0 {
        if size > 0 {
            // SAFETY: by the contract.
            unsafe { buf.write(0) };
        }
        return 0;
    }
    let (flags, capture) =
        if site.is_null() { (0, Capture::None) } else { (flag::CAPTURE, Capture::Site(site, cfa)) };
    // SAFETY: passed on; the thread's own chain.
    unsafe {
        token(buf, size, flags, &Context { capture, id, top, relative: top.is_relative(), suspect: false })
    }
}

/// The public entry. The pass replaces calls of it in instrumented code, so who arrives here is code that is not instrumented.
/// What called that may have changed the id: it is described as an interrupted point is.
///
/// # Safety
/// `buf` can take `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcce_token(buf: *mut c_char, size: usize) -> usize {
    let Some((state, point)) = outside() else {
        if size > 0 {
            // SAFETY: by the contract.
            unsafe { buf.write(0) };
        }
        return 0;
    };
    // SAFETY: passed on.
    unsafe { walked_token(buf, size, point, state, flag::POINT) }
}

/// The point in code that is not instrumented at which the function was called into which this is inlined. None where nothing
/// instrumented is known to be active.
#[inline(always)]
pub fn outside() -> Option<(State, Interruption)> {
    let (id, top) = current();
    let mut state = State::new(id, top, followed(top));
    if state.top.is_null() && state.id == 0 {
        return None;
    }
    let mut point = state.walk(own::here());
    point.leave_first_out();
    Some((state, point))
}

/// The token of an interrupted point, by code that is instrumented at `site`, or is not if that is null. See
/// `pcce_token_at` in the header.
///
/// # Safety
/// `buf` can take `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_token_at(
    buf: *mut c_char,
    size: usize,
    pc: *const u8,
    sp: *const u8,
    site: *const u8,
) -> usize {
    let (pc, sp) = (pc as usize, sp as usize);
    let (id, top) = current();
    let state = State::new(id, top, followed(top));
    if let Some((registers, state)) = interrupted_at(state, pc, sp) {
        // SAFETY: passed on.
        return unsafe { point_token(buf, size, registers, state, flag::POINT) };
    }
    // What an instrumented handler does that the trampoline did not call, changes the state.
    let other = if site.is_null() { 0 } else { flag::OTHER_STATE };
    let known = unwind::find(own::here(), pc, sp, &mut Own::new());
    let registers = known.unwrap_or(Registers::at(pc, sp));
    // SAFETY: passed on.
    unsafe { point_token(buf, size, registers, state, flag::POINT | other) }
}

/// The state of a thread, its frames as far as they can be followed.
#[derive(Clone, Copy)]
pub struct State {
    /// The id of the sub-path.
    pub id: u64,
    /// The innermost pushed frame.
    pub top: Link,
    /// Whether the id counts from that of a frame.
    relative: bool,
    /// The id counts from that of this frame, of which nothing is known.
    lost: Option<Link>,
}

impl State {
    /// `id` and `top` as the thread's block has them, and what became of `top`.
    #[inline(always)]
    fn new(id: u64, top: Link, followed: Link) -> Self {
        if is_lost(top, followed) {
            return Self { id, top: followed, relative: true, lost: Some(top) };
        }
        // What is damaged, may be anywhere.
        let base = Frames::new(true).base(top);
        let lost = base.is_none().then_some(top);
        Self { id: id.wrapping_sub(base.unwrap_or(0)), top: followed, relative: top.is_relative(), lost }
    }

    /// The way from the activation with these registers outwards. If it leads to an owner of a lost frame, the id is known.
    #[inline(always)]
    fn walk(&mut self, registers: Registers) -> Interruption {
        let link = self.lost.unwrap_or(self.top);
        let point = Interruption::walk(registers, link.frame().addr(), &mut Own::new());
        if let Some(frame) = self.lost
            && point.end == End::Pushed
            && let Some(base) = Frames::new(true).base(frame)
        {
            (self.id, self.lost) = (self.id.wrapping_sub(base), None);
        }
        point
    }
}

/// If a handler that the trampoline called interrupted this point: its frame has the state and the registers there.
fn interrupted_at(state: State, pc: usize, sp: usize) -> Option<(Registers, State)> {
    let mut frames = Frames::new(true);
    let mut at = state.top;
    while let Some(frame) = frames.read(at) {
        if signal::is_site(frame.site()) {
            let context = at.frame().wrapping_add(1).cast::<*const libc::ucontext_t>();
            let context = frames.process.word(context as usize)? as usize;
            let registers = Registers::interrupted(&mut frames.process, context)?;
            if (registers.pc(), registers.sp()) == (pc, sp) {
                let (id, top) = (frame.id, frame.prev);
                return Some((registers, State { id, top, relative: top.is_relative(), lost: None }));
            }
        }
        at = frame.prev;
    }
    None
}

/// The token of the point that a signal interrupted in this thread, for a handler that is not instrumented. `overflow`: the stack
/// is full.
///
/// # Safety
/// `buf` can take `size` bytes; `context` is what the kernel gave to the handler.
pub unsafe fn interrupted_token(
    buf: *mut c_char,
    size: usize,
    context: *const libc::ucontext_t,
    overflow: bool,
) -> usize {
    /// The stack pointer of a full stack is at most so far below its end.
    const BELOW: usize = 1 << 16;
    let Some(registers) = Registers::interrupted(&mut Own::new(), context as usize) else { return 0 };
    let (id, top) = current();
    // Another handler may have called this one.
    let state = State::new(id, top, followed(top));
    let state = match interrupted_at(state, registers.pc(), registers.sp()) {
        Some((_, state)) => state,
        None => {
            let sp = registers.sp();
            let mut known = followed_from(sp, top);
            if overflow && is_unknown(known) {
                known = followed_from(sp.saturating_add(BELOW).min(top.frame().addr()), top);
            }
            State::new(id, top, known)
        }
    };
    // SAFETY: passed on.
    unsafe { point_token(buf, size, registers, state, flag::POINT) }
}

/// # Safety
/// `buf` can take `size` bytes.
unsafe fn point_token(
    buf: *mut c_char,
    size: usize,
    registers: Registers,
    mut state: State,
    flags: u8,
) -> usize {
    let point = state.walk(registers);
    // SAFETY: passed on.
    unsafe { walked_token(buf, size, point, state, flags) }
}

/// # Safety
/// `buf` can take `size` bytes.
unsafe fn walked_token(
    buf: *mut c_char,
    size: usize,
    mut point: Interruption,
    State { id, mut top, mut relative, lost }: State,
    mut flags: u8,
) -> usize {
    if point.is_whole() || lost.is_some() {
        flags |= flag::OTHER_STATE;
    }
    if point.is_whole() {
        (point.detached, top, relative) = (false, Link::NULL, false);
    }
    let write = |point: &Interruption| {
        let context = Context { capture: Capture::Point(point), id, top, relative, suspect: true };
        // SAFETY: passed on.
        unsafe { token(buf, size, flags, &context) }
    };
    let len = write(&point);
    // The innermost addresses tell most. SAFETY: `size` is not 0.
    while 0 < size && size <= len && unsafe { *buf == 0 } && point.shorten() {
        write(&point);
    }
    len
}

/// The public entry. The pass replaces calls of it in instrumented code.
///
/// # Safety
/// `buf` can take `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcce_token_at(buf: *mut c_char, size: usize, pc: *const u8, sp: *const u8) -> usize {
    // SAFETY: passed on.
    unsafe { __pcce_token_at(buf, size, pc, sp, null()) }
}

#[cfg(test)]
mod tests {
    //! Each test imitates what emitted code does: it fills frames on the stack and sets the thread's block.

    use super::*;
    use crate::fiber::ANYWHERE;
    use pcce::token::Token;
    use std::string::String;
    use std::vec::Vec;

    static SITES: [u8; 64] = [0; 64];

    fn site(i: usize) -> *const u8 {
        &raw const SITES[i]
    }

    /// A chain of frames, the outermost first; the last one is the innermost.
    fn chain(frames: &[(usize, u64)]) -> Vec<Frame> {
        let mut chain: Vec<Frame> = Vec::with_capacity(frames.len());
        for &(s, id) in frames {
            let prev = chain.last_mut().map_or(Link::NULL, |f| Link::new(f));
            chain.push(Frame::new(prev, id, site(s)));
        }
        chain
    }

    fn with_state<R>(id: u64, frames: &mut [Frame], then: impl FnOnce() -> R) -> R {
        // SAFETY: this thread's block; the frames outlive the call.
        unsafe {
            (*tls()).stack_high = ANYWHERE;
            (*tls()).id = id;
            (*tls()).top = frames.last_mut().map_or(Link::NULL, |f| Link::new(f));
            let result = then();
            (*tls()).id = 0;
            (*tls()).top = Link::NULL;
            result
        }
    }

    fn take(size: usize, capture: *const u8) -> (String, usize) {
        let mut buf = [0x7f_u8; 4096];
        // SAFETY: the buffer is larger than every size used here.
        let len = unsafe { __pcce_token(buf.as_mut_ptr().cast(), size, capture) };
        assert!(buf[size..].iter().all(|&b| b == 0x7f), "wrote behind the buffer of {size} bytes");
        let end = buf.iter().position(|&b| b == 0).unwrap_or(0);
        (String::from_utf8(buf[..end].to_vec()).unwrap(), len)
    }

    #[test]
    fn a_token_holds_site_id_and_frames() {
        let mut frames = chain(&[(3, 7), (4, 1 << 40), (4, 1 << 40), (4, 1 << 40), (9, 0)]);
        let (text, len) = with_state(u64::MAX, &mut frames, || take(4096, site(12)));
        assert_eq!(text.len(), len);
        let token = Token::parse(&text).unwrap();
        let base = token.capture.unwrap().site - 12;
        assert_eq!(token.capture.unwrap().id, u64::MAX);
        let got: Vec<_> = token.frames.iter().map(|f| (f.site - base, f.id, f.count)).collect();
        assert_eq!(got, [(9, 0, 1), (4, 1 << 40, 3), (3, 7, 1)]);
        assert_eq!((token.images.len(), token.cut, token.damaged), (1, false, false));
    }

    #[test]
    fn every_size_of_buffer_gives_a_valid_token_or_none() {
        let list: Vec<(usize, u64)> = (0..40).map(|i| (i, i as u64 * 1000)).collect();
        let mut frames = chain(&list);
        let (whole, len) = with_state(5, &mut frames, || take(4096, site(50)));
        let whole = Token::parse(&whole).unwrap();
        let mut longest = 0;
        for size in 0..=len + 1 {
            let (text, reported) = with_state(5, &mut frames, || take(size, site(50)));
            assert_eq!(reported, len);
            if text.is_empty() {
                assert_eq!(longest, 0, "nothing at {size}, though less room was enough before");
                continue;
            }
            let token = Token::parse(&text).unwrap();
            assert_eq!(token.cut, size <= len);
            assert_eq!(token.frames, whole.frames[..token.frames.len()]);
            assert!(token.frames.len() >= longest);
            longest = token.frames.len();
        }
        assert_eq!(longest, 40);
    }

    #[test]
    fn a_token_says_whether_ids_count_from_a_missing_frame() {
        // Ids count from every third frame.
        let relative = |i: usize| i.is_multiple_of(3);
        let mut frames: Vec<Frame> = Vec::with_capacity(12);
        for i in 0..12 {
            let link = if i > 0 && relative(i - 1) { Link::relative } else { Link::new };
            let prev = frames.last_mut().map_or(Link::NULL, |f| link(f));
            frames.push(Frame::new(prev, i as u64 * 1000, site(i)));
        }
        let len = with_state(5, &mut frames, || take(4096, site(50))).1;
        let mut seen = [0; 2];
        for size in 0..=len {
            let (text, _) = with_state(5, &mut frames, || take(size, site(50)));
            let Some(token) = (!text.is_empty()).then(|| Token::parse(&text).unwrap()) else { continue };
            assert!(token.cut);
            // The link to the innermost frame is plain.
            let missing = 11 - token.frames.len();
            assert_eq!(token.start_missing, relative(missing) && missing < 11, "{size}");
            seen[usize::from(token.start_missing)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 1), "{seen:?}");
        for damaged in 0..11 {
            let site = std::mem::replace(&mut frames[damaged].marked_site, 16 as *const u8);
            let (text, _) = with_state(5, &mut frames, || take(4096, self::site(50)));
            let token = Token::parse(&text).unwrap();
            assert_eq!((token.damaged, token.frames.len()), (true, 11 - damaged));
            assert_eq!(token.start_missing, relative(damaged));
            frames[damaged].marked_site = site;
        }
    }

    #[test]
    fn a_frame_of_no_image_ends_the_token_as_damaged() {
        let mut frames = chain(&[(1, 1), (2, 2), (3, 3)]);
        frames[1].marked_site = 16 as *const u8;
        let (text, _) = with_state(0, &mut frames, || take(4096, site(0)));
        let token = Token::parse(&text).unwrap();
        assert!(token.damaged);
        assert_eq!(token.frames.len(), 1);
    }

    #[test]
    fn no_context_is_an_empty_token() {
        assert_eq!(take(64, null()), (String::new(), 0));
        let mut frames = chain(&[(1, 1)]);
        let (text, _) = with_state(0, &mut frames, || take(4096, null()));
        assert_eq!(Token::parse(&text).unwrap().capture, None);
    }
}
