//! Tokens: a context as printable text (`docs/formats.md`), written without allocation, locks or
//! tables of the process, so that signal handlers may do it.

use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null;

use crate::abi::Frame;
use crate::fiber::{Links, followed};
use crate::state::current;

const PREFIX: &[u8] = b"pcce1.";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Bytes of the build id that go into a token.
const BUILD_ID_LEN: usize = 8;
/// Images that one token can name; a frame beyond them ends the token as damaged.
const MAX_IMAGES: usize = 64;

const FLAG_CAPTURE: u8 = 1;
const FLAG_CUT: u8 = 2;
const FLAG_DAMAGED: u8 = 4;

/// `struct dl_find_object` of `<dlfcn.h>` (glibc 2.35 and later, x86-64).
#[repr(C)]
struct DlFindObject {
    flags: u64,
    map_start: *const u8,
    map_end: *const u8,
    link_map: *const LinkMap,
    eh_frame: *const c_void,
    reserved: [u64; 7],
}

/// The public beginning of `struct link_map` of `<link.h>`.
#[repr(C)]
struct LinkMap {
    load_bias: usize,
}

unsafe extern "C" {
    /// Finds the object that contains an address; async-signal-safe by glibc's documentation.
    fn _dl_find_object(pc: *const c_void, result: *mut DlFindObject) -> c_int;
}

/// An executable or shared library in memory.
#[derive(Clone, Copy)]
pub struct Image {
    /// Where it is loaded.
    pub start: *const u8,
    /// One past its last byte.
    pub end: *const u8,
    /// What was added to the addresses in the file.
    pub load_bias: usize,
    /// The first bytes of its build id, then zeros.
    pub build_id: [u8; BUILD_ID_LEN],
    /// How many there are.
    pub build_id_len: u8,
}

impl Image {
    /// The image that holds an address.
    pub fn of(address: *const u8) -> Option<Self> {
        let mut found = MaybeUninit::<DlFindObject>::uninit();
        // SAFETY: the function takes any address and fills the result when it returns 0.
        let found = unsafe {
            if _dl_find_object(address.cast(), found.as_mut_ptr()) != 0 {
                return None;
            }
            found.assume_init()
        };
        let start = found.map_start;
        let mut image = Self {
            start,
            end: found.map_end,
            // SAFETY: glibc's link map of a loaded object.
            load_bias: unsafe { (*found.link_map).load_bias },
            build_id: [0; BUILD_ID_LEN],
            build_id_len: 0,
        };
        // SAFETY: the mapping starts with the object's first load segment, except in static programs, where glibc
        // tells neither that nor the load bias; the kernel tells where the program headers are.
        unsafe {
            let header = start.cast::<libc::Elf64_Ehdr>();
            if is_header(header) {
                let segments = header.byte_add((*header).e_phoff as usize).cast();
                image.read_build_id(core::slice::from_raw_parts(segments, (*header).e_phnum.into()));
                return Some(image);
            }
            let segments = libc::getauxval(libc::AT_PHDR) as *const libc::Elf64_Phdr;
            if segments.is_null() {
                return Some(image);
            }
            let count = libc::getauxval(libc::AT_PHNUM) as usize;
            let program = Self::program(core::slice::from_raw_parts(segments, count), image)?;
            program.contains(address).then_some(program)
        }
    }

    /// The program itself, by its program headers.
    ///
    /// # Safety
    /// They are those of the running program.
    unsafe fn program(segments: &[libc::Elf64_Phdr], like: Self) -> Option<Self> {
        let base = segments.as_ptr() as usize;
        let (mut first, mut last, mut load_bias) = (usize::MAX, 0, None);
        for segment in segments {
            match segment.p_type {
                libc::PT_LOAD => {
                    first = first.min(segment.p_vaddr as usize);
                    last = last.max((segment.p_vaddr + segment.p_memsz) as usize);
                }
                libc::PT_PHDR => load_bias = Some(base.wrapping_sub(segment.p_vaddr as usize)),
                _ => {}
            }
        }
        // Without PT_PHDR, the headers follow the ELF header at the beginning of the first segment.
        let header = (base & !0xfff) as *const libc::Elf64_Ehdr;
        // SAFETY: the page of the program headers is loaded.
        let follows = unsafe { is_header(header) };
        let load_bias = load_bias.or(follows.then(|| (header as usize).wrapping_sub(first & !0xfff)))?;
        let address = |vaddr: usize| load_bias.wrapping_add(vaddr) as *const u8;
        let mut program = Self { start: address(first), end: address(last), load_bias, ..like };
        // SAFETY: by the contract.
        unsafe { program.read_build_id(segments) };
        Some(program)
    }

    /// Whether it holds the address.
    pub fn contains(&self, address: *const u8) -> bool {
        self.start <= address && address < self.end
    }

    /// Looks for `NT_GNU_BUILD_ID` in the image's note segments. Leaves it empty where there is none.
    ///
    /// # Safety
    /// The image is loaded, and the program headers are its own.
    unsafe fn read_build_id(&mut self, segments: &[libc::Elf64_Phdr]) {
        const NT_GNU_BUILD_ID: u32 = 3;
        // SAFETY: bounded by the image's own headers; every address is checked to lie in the image.
        unsafe {
            for segment in segments {
                if segment.p_type != libc::PT_NOTE {
                    continue;
                }
                let mut at = (self.load_bias + segment.p_vaddr as usize) as *const u8;
                let end = at.wrapping_add(segment.p_memsz as usize);
                if !self.contains(at) || end > self.end {
                    continue;
                }
                while (end as usize).saturating_sub(at as usize) >= 12 {
                    let [name_len, desc_len, kind] = at.cast::<[u32; 3]>().read_unaligned();
                    let align = if segment.p_align == 8 { 8usize } else { 4 };
                    let desc = 12 + (name_len as usize).next_multiple_of(4);
                    let desc = if align == 8 { desc.next_multiple_of(8) } else { desc };
                    let next = (desc + desc_len as usize).next_multiple_of(align);
                    if next > end as usize - at as usize {
                        break;
                    }
                    if kind == NT_GNU_BUILD_ID
                        && name_len == 4
                        && at.add(12).cast::<[u8; 4]>().read() == *b"GNU\0"
                    {
                        let len = (desc_len as usize).min(BUILD_ID_LEN);
                        for k in 0..len {
                            self.build_id[k] = at.add(desc + k).read();
                        }
                        self.build_id_len = len as u8;
                        return;
                    }
                    at = at.add(next);
                }
            }
        }
    }
}

/// # Safety
/// The page of `header` is readable.
unsafe fn is_header(header: *const libc::Elf64_Ehdr) -> bool {
    // SAFETY: by the contract; a page is larger than the header.
    (header as usize).is_multiple_of(4096) && unsafe { header.cast::<[u8; 4]>().read() == *b"\x7fELF" }
}

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
    unsafe fn new(buf: *mut u8, capacity: usize) -> Self {
        let mut writer = Self { buf, capacity, len: 0, bits: 0, bit_count: 0, crc: !0 };
        for &c in PREFIX {
            writer.put(c);
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
        self.raw(byte);
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

    /// The number of the image that holds `address`, and whether it is new. None if no image
    /// holds it or there are too many.
    fn number(&mut self, address: *const u8) -> Option<(usize, bool)> {
        for i in 0..self.count {
            if self.get(i).contains(address) {
                return Some((i, false));
            }
        }
        if self.count == MAX_IMAGES {
            return None;
        }
        self.list[self.count].write(Image::of(address)?);
        self.count += 1;
        Some((self.count - 1, true))
    }

    fn get(&self, i: usize) -> &Image {
        debug_assert!(i < self.count);
        // SAFETY: the first `count` entries are initialised.
        unsafe { self.list[i].assume_init_ref() }
    }
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
}

/// Writes the token of (`site`, `id`, `top`) with at most `max_runs` runs of equal frames.
///
/// # Safety
/// `buf` can take `capacity + 1` bytes or `capacity` is 0; the chain at `top` is intact.
unsafe fn write(
    buf: *mut u8,
    capacity: usize,
    flags: u8,
    (site, id, top): (*const u8, u64, *mut Frame),
    max_runs: usize,
    limit: usize,
) -> (usize, Extent) {
    let mut images = Images::new();
    // SAFETY: passed on.
    let mut out = unsafe { Writer::new(buf, capacity) };
    let mut extent = Extent { len: 0, runs_that_fit: 0, fits_at_all: false, damaged: false };
    let name_image = |out: &mut Writer, images: &Images, number: usize, new: bool| {
        if new {
            let image = images.get(number);
            out.byte(image.build_id_len);
            for &byte in &image.build_id[..image.build_id_len as usize] {
                out.byte(byte);
            }
        }
    };
    let offset = |images: &Images, number: usize, site: *const u8| {
        (site as usize).wrapping_sub(images.get(number).load_bias) as u64
    };
    out.byte(flags);
    if flags & FLAG_CAPTURE != 0
        && let Some((number, new)) = images.number(site)
    {
        out.varint(number as u64);
        name_image(&mut out, &images, number, new);
        out.varint(offset(&images, number, site));
        out.varint(id);
    }
    extent.fits_at_all = out.finished_len() <= limit;
    let links = Links::new();
    let mut frame = top;
    let mut runs = 0;
    while !frame.is_null() && runs < max_runs {
        // SAFETY: a live frame of this thread's chain.
        let (frame_site, frame_id) = unsafe { ((*frame).site, (*frame).id) };
        let mut count = 0u64;
        // SAFETY: as above.
        while !frame.is_null() && unsafe { (*frame).site == frame_site && (*frame).id == frame_id } {
            count += 1;
            // SAFETY: as above.
            frame = unsafe { links.outer(frame) };
        }
        let Some((number, new)) = images.number(frame_site) else {
            extent.damaged = true;
            break;
        };
        out.varint((number as u64) << 1 | u64::from(count > 1));
        name_image(&mut out, &images, number, new);
        out.varint(offset(&images, number, frame_site));
        out.varint(frame_id);
        if count > 1 {
            out.varint(count);
        }
        runs += 1;
        if out.finished_len() <= limit {
            extent.runs_that_fit = runs;
        }
    }
    let len = out.finish();
    extent.len = len;
    (len, extent)
}

/// The token of the current context at `site`, which may be null for code that is not
/// instrumented. See `pcce_token` in the header.
///
/// # Safety
/// `buf` can take `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pcce_token(buf: *mut c_char, size: usize, site: *const u8) -> usize {
    let (id, top) = current();
    let top = followed(top);
    let buf = buf.cast::<u8>();
    let end = |len: usize| {
        if size > 0 {
            // SAFETY: len < size wherever this is called.
            unsafe { buf.add(len).write(0) };
        }
    };
    let state = (site, id, top);
    let flags = if site.is_null() { 0 } else { FLAG_CAPTURE };
    if site.is_null() && top.is_null() {
        end(0);
        return 0;
    }
    // Measured first, so that a token that does not fit is cut between frames and says so.
    let limit = size.saturating_sub(1);
    // SAFETY: capacity 0; the chain is the thread's own.
    let (_, extent) = unsafe { write(buf, 0, flags, state, usize::MAX, limit) };
    if !extent.fits_at_all {
        end(0);
        return extent.len;
    }
    let cut = extent.len > limit;
    let flags =
        flags | if cut { FLAG_CUT } else { 0 } | if extent.damaged && !cut { FLAG_DAMAGED } else { 0 };
    let runs = if cut { extent.runs_that_fit } else { usize::MAX };
    // SAFETY: the caller's buffer; the measured length is at most `limit`, and `limit < size`.
    let (written, _) = unsafe { write(buf, limit, flags, state, runs, limit) };
    end(written);
    extent.len
}

/// The public entry. The pass replaces calls of it in instrumented code.
///
/// # Safety
/// `buf` can take `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcce_token(buf: *mut c_char, size: usize) -> usize {
    // SAFETY: passed on.
    unsafe { __pcce_token(buf, size, null()) }
}

#[cfg(test)]
mod tests {
    //! Each test imitates what emitted code does: it fills frames on the stack and sets the thread's block.

    use super::*;
    use crate::fiber::ANYWHERE;
    use crate::state::tls;
    use core::ptr::null_mut;
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
            let prev = chain.last_mut().map_or(null_mut(), |f| &raw mut *f);
            chain.push(Frame { prev, id, site: site(s), handle: 0 });
        }
        chain
    }

    fn with_state<R>(id: u64, frames: &mut [Frame], then: impl FnOnce() -> R) -> R {
        // SAFETY: this thread's block; the frames outlive the call.
        unsafe {
            (*tls()).stack_high = ANYWHERE;
            (*tls()).id = id;
            (*tls()).top = frames.last_mut().map_or(null_mut(), |f| &raw mut *f);
            let result = then();
            (*tls()).id = 0;
            (*tls()).top = null_mut();
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
    fn a_frame_of_no_image_ends_the_token_as_damaged() {
        let mut frames = chain(&[(1, 1), (2, 2), (3, 3)]);
        frames[1].site = 16 as *const u8;
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
