//! Images: the executables and shared libraries in memory, found by address without allocation or locks.

use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::null;

use crate::abi::token::BUILD_ID_LEN;
use crate::settled::auxiliary;

/// `struct dl_find_object` of `<dlfcn.h>` (glibc 2.35 and later).
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
    name: *const c_char,
}

unsafe extern "C" {
    /// Finds the object that contains an address; async-signal-safe by glibc's documentation.
    fn _dl_find_object(pc: *const c_void, result: *mut DlFindObject) -> c_int;
}

/// An executable or shared library in memory.
#[derive(Clone, Copy)]
pub struct Image {
    /// The address where it is loaded.
    pub start: *const u8,
    /// One past its last byte.
    pub end: *const u8,
    /// The number that was added to the addresses in the file.
    pub load_bias: usize,
    /// The first bytes of its build id, then zeros.
    pub build_id: [u8; BUILD_ID_LEN],
    pub build_id_len: u8,
    /// The whole build id.
    whole_build_id: *const u8,
    whole_build_id_len: usize,
    /// The section `.eh_frame_hdr`, the index of the unwind tables; null without it.
    eh_frame_hdr: *const u8,
    eh_frame_hdr_len: usize,
    /// The path of its file as the loader has it: empty for the program itself, and null if it is unknown.
    pub file: *const c_char,
}

impl Image {
    /// Stands for addresses that no image contains. It has no name and starts at 0.
    pub const NONE: Self = Self {
        start: null(),
        end: null(),
        load_bias: 0,
        build_id: [0; BUILD_ID_LEN],
        build_id_len: 0,
        whole_build_id: null(),
        whole_build_id_len: 0,
        eh_frame_hdr: null(),
        eh_frame_hdr_len: 0,
        file: null(),
    };

    /// The start of the image that contains an address, if it starts with the file's header, as all shared libraries
    /// do. This costs a tenth of [`of`](Self::of).
    pub fn start_of(address: *const u8) -> Option<*const u8> {
        let start = find(address)?.map_start;
        // SAFETY: where an image is mapped, its first page is.
        unsafe { is_header(start.cast()) }.then_some(start)
    }

    /// The program itself.
    pub fn program() -> Option<Self> {
        Self::of(auxiliary(libc::AT_ENTRY) as *const u8)
    }

    /// The address to which the note of a runtime that is linked into the program refers (`.note.pcce`), if `mark`
    /// follows its first byte; None without a note. The program is found by the kernel's auxiliary vector, whatever
    /// loader asks.
    pub fn runtime_of_program(mark: &[u8; 7]) -> Option<*const u8> {
        const HEAD: [u32; 5] = [5, 16, 2, u32::from_le_bytes(*b"PCCE"), 0];
        let segments = auxiliary(libc::AT_PHDR) as *const libc::Elf64_Phdr;
        if segments.is_null() {
            return None;
        }
        // SAFETY: the kernel's auxiliary vector has the program headers of the program.
        let segments = unsafe { core::slice::from_raw_parts(segments, auxiliary(libc::AT_PHNUM)) };
        // SAFETY: they are those of the running program.
        let program = unsafe { Self::of_headers(segments, Self::NONE) }?;
        for segment in segments.iter().filter(|segment| segment.p_type == libc::PT_NOTE) {
            let start = program.load_bias.wrapping_add(segment.p_vaddr as usize) as *const u8;
            let len = segment.p_memsz as usize;
            if !program.contains(start) || len > program.end as usize - start as usize {
                continue;
            }
            // mold puts notes of different alignment into one segment, so they cannot be followed by their lengths.
            for at in (0..(len + 1).saturating_sub(size_of_val(&HEAD) + 16)).step_by(4) {
                // SAFETY: within the segment, which is loaded.
                unsafe {
                    let head = start.add(at).cast::<[u32; 5]>();
                    if head.read_unaligned() != HEAD {
                        continue;
                    }
                    // How far the mark and the beginning of the file were from here. Tools like patchelf move notes.
                    let here = head.add(1).cast::<u8>();
                    let [to_mark, to_start] = here.cast::<[isize; 2]>().read_unaligned();
                    let found = here.wrapping_offset(to_mark);
                    if program.is_marked(found, segments, mark) {
                        return Some(found);
                    }
                    let found = program.start.wrapping_offset(to_mark.wrapping_sub(to_start));
                    if program.is_marked(found, segments, mark) {
                        return Some(found);
                    }
                }
            }
        }
        None
    }

    /// Returns whether `mark` follows a byte of the image.
    #[inline(never)]
    fn is_marked(&self, at: *const u8, segments: &[libc::Elf64_Phdr], mark: &[u8; 7]) -> bool {
        let vaddr = (at as u64).wrapping_sub(self.load_bias as u64);
        let within =
            |s: &libc::Elf64_Phdr| s.p_type == libc::PT_LOAD && vaddr.wrapping_sub(s.p_vaddr) < s.p_memsz;
        // SAFETY: within a segment, which is loaded; its pages are larger than the mark, and the mark is aligned.
        at.cast::<u64>().is_aligned()
            && segments.iter().any(within)
            && unsafe { at.add(1).cast::<[u8; 7]>().read() == *mark }
    }

    /// The image that contains an address.
    pub fn of(address: *const u8) -> Option<Self> {
        let found = find(address)?;
        let start = found.map_start;
        let mut image = Self {
            start,
            end: found.map_end,
            // SAFETY: glibc's link map of a loaded object.
            load_bias: unsafe { (*found.link_map).load_bias },
            // SAFETY: the same.
            file: unsafe { (*found.link_map).name },
            ..Self::NONE
        };
        // SAFETY: the mapping starts with the object's first load segment. Only in static programs glibc has neither
        // that nor the load bias; there the kernel's auxiliary vector has the program headers.
        unsafe {
            let header = start.cast::<libc::Elf64_Ehdr>();
            if is_header(header) {
                let segments = header.byte_add((*header).e_phoff as usize).cast();
                image.read_segments(core::slice::from_raw_parts(segments, (*header).e_phnum.into()));
                return Some(image);
            }
            let segments = auxiliary(libc::AT_PHDR) as *const libc::Elf64_Phdr;
            if segments.is_null() {
                return Some(image);
            }
            let count = auxiliary(libc::AT_PHNUM);
            let program = Self::of_headers(core::slice::from_raw_parts(segments, count), image)?;
            program.contains(address).then_some(program)
        }
    }

    /// The image of the running program, by its program headers. `like` has the other fields.
    ///
    /// # Safety
    /// The headers are those of the running program.
    unsafe fn of_headers(segments: &[libc::Elf64_Phdr], like: Self) -> Option<Self> {
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
        unsafe { program.read_segments(segments) };
        Some(program)
    }

    /// Returns whether the address is in the image.
    pub fn contains(&self, address: *const u8) -> bool {
        self.start <= address && address < self.end
    }

    /// Returns whether it is [`NONE`](Self::NONE).
    pub fn is_none(&self) -> bool {
        self.end.is_null()
    }

    /// The first bytes of the ELF build id; none where the image has no build id.
    pub fn name(&self) -> &[u8] {
        &self.build_id[..self.build_id_len as usize]
    }

    /// The whole ELF build id; none where the image has no build id.
    pub fn whole_build_id(&self) -> &'static [u8] {
        if self.whole_build_id.is_null() {
            return &[];
        }
        // SAFETY: found in the loaded image.
        unsafe { core::slice::from_raw_parts(self.whole_build_id, self.whole_build_id_len) }
    }

    /// The section `.eh_frame_hdr`, and everything from the image's beginning to its end.
    pub fn unwind_tables(&self) -> Option<(&'static [u8], &'static [u8])> {
        let at = self.eh_frame_hdr;
        if at.is_null() || !self.contains(at) || self.eh_frame_hdr_len > self.end as usize - at as usize {
            return None;
        }
        // SAFETY: both lie in the image, and what the tables refer to is in its loaded, never written segments.
        unsafe {
            Some((
                core::slice::from_raw_parts(at, self.eh_frame_hdr_len),
                core::slice::from_raw_parts(self.start, self.end as usize - self.start as usize),
            ))
        }
    }

    /// Looks for `NT_GNU_BUILD_ID` in the image's note segments, and for the unwind tables. Fields of missing parts
    /// stay empty.
    ///
    /// # Safety
    /// The image is loaded, and the program headers are its own.
    unsafe fn read_segments(&mut self, segments: &[libc::Elf64_Phdr]) {
        const NT_GNU_BUILD_ID: u32 = 3;
        // SAFETY: bounded by the image's own headers; every address is checked to lie in the image.
        unsafe {
            for segment in segments {
                if segment.p_type == libc::PT_GNU_EH_FRAME {
                    self.eh_frame_hdr = self.load_bias.wrapping_add(segment.p_vaddr as usize) as *const u8;
                    self.eh_frame_hdr_len = segment.p_memsz as usize;
                }
                if segment.p_type != libc::PT_NOTE || self.build_id_len > 0 {
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
                    // After the last note there may be no padding: lld leaves it out.
                    if desc + desc_len as usize > end as usize - at as usize {
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
                        self.whole_build_id = at.add(desc);
                        self.whole_build_id_len = desc_len as usize;
                        break;
                    }
                    at = at.wrapping_add((desc + desc_len as usize).next_multiple_of(align));
                }
            }
        }
    }
}

fn find(address: *const u8) -> Option<DlFindObject> {
    let mut found = MaybeUninit::uninit();
    // SAFETY: the function takes any address and fills the result when it returns 0.
    unsafe { (_dl_find_object(address.cast(), found.as_mut_ptr()) == 0).then(|| found.assume_init()) }
}

/// # Safety
/// The page of `header` is readable.
unsafe fn is_header(header: *const libc::Elf64_Ehdr) -> bool {
    // SAFETY: by the contract; a page is larger than the header.
    (header as usize).is_multiple_of(4096) && unsafe { header.cast::<[u8; 4]>().read() == *b"\x7fELF" }
}
