//! Core files: the contexts of a dead process's threads.
//!
//! A core file holds registers and the memory that the program had written; the rest is in the files of
//! program and shared libraries. From these, [`Core::report`] makes for each thread the token that
//! `pcce_token_at` would have written: the walk over the stack is the runtime library's own
//! (`pcce_abi::unwind`). No content is trusted: a chain of frames counts as far as it lies on the stack on
//! which the thread ran.

mod chains;
pub mod crash_report;
mod error;
mod image;
mod notes;
mod trace;
mod walk;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use object::LittleEndian as LE;
use object::elf;
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol, ObjectSymbolTable, ReadCache, RelocationFlags, RelocationTarget};
use pcce_abi as abi;
use pcce_abi::layout;

use self::crash_report::{Context, Report, Signal, Thread};
pub use self::error::CoreError;
pub use self::image::Image;
use self::image::abi_version;
use self::notes::{Mapping, Notes, State};
pub use self::trace::CoreTrace;
use crate::code::elf::ELF_MAGIC;
use crate::code::elf::tls_offset;
use crate::code::machine::{self, Machine, Relocation};
use crate::token::to_hex;

/// A core file, with the files of its images.
pub struct Core {
    path: PathBuf,
    machine: &'static dyn Machine,
    cache: ReadCache<File>,
    /// Memory: address, size, offset in the file. By ascending address.
    segments: Vec<(u64, u64, u64)>,
    /// The ranges of executable memory.
    executable: Vec<std::ops::Range<u64>>,
    threads: Vec<State>,
    process: Option<i32>,
    signal: Option<Signal>,
    /// The files that were mapped.
    files: Vec<Mapping>,
    images: Vec<Image>,
    left: Left,
}

/// The amounts that may still be read of the process. They bound the time for a small file that refers to itself
/// again and again.
struct Left {
    /// Pushed frames, of all threads. Each takes words of its own.
    frames: Cell<u64>,
    tables: Cell<u64>,
}

/// Bytes of unwind tables that the walks over all stacks may read.
const MAX_TABLES: u64 = 1 << 28;
/// Bytes of shared libraries that are read.
const MAX_LIBRARIES: u64 = 1 << 28;

/// Takes `count` from `left`. Returns false if less is left.
fn take(left: &Cell<u64>, count: u64) -> bool {
    let rest = left.get().checked_sub(count);
    left.set(rest.unwrap_or(0));
    rest.is_some()
}

/// The places of the threads' state.
struct Places {
    /// Offset of the block from the thread pointer.
    block: u64,
    signal_site: Option<u64>,
    /// True if the program has a hybrid encoding.
    hybrid: bool,
    /// With a hybrid encoding: the canonical frame address of `main`, if it has been entered.
    main_base: Option<u64>,
}

impl Core {
    /// Opens a core file of `program`, whose content is `bytes`.
    ///
    /// # Errors
    /// [`CoreError`]; never panics, whatever the bytes.
    pub fn open(path: &Path, program: &Path, bytes: Vec<u8>) -> Result<Self, CoreError> {
        let file = File::open(path).map_err(|cause| CoreError::Io { path: path.to_owned(), cause })?;
        let damaged = |cause| CoreError::Elf { path: path.to_owned(), cause };
        let cache = ReadCache::new(file);
        let (mut segments, mut executable) = (Vec::new(), Vec::new());
        let mut notes = Notes::default();
        let len = (&cache).len().unwrap_or(0);
        let mut notes_left = len;
        let machine;
        {
            let cache = &cache;
            if cache.read_bytes_at(0, 4).is_ok_and(|start| start != ELF_MAGIC) || len < 64 {
                return Err(CoreError::NotACore(path.to_owned()));
            }
            let header = elf::FileHeader64::<LE>::parse(cache).map_err(damaged)?;
            let known = machine::of(header.e_machine(LE)).filter(|_| header.e_type(LE) == elf::ET_CORE);
            machine = known.ok_or_else(|| CoreError::NotACore(path.to_owned()))?;
            for program in header.program_headers(LE, cache).map_err(damaged)? {
                if program.p_type(LE) == elf::PT_LOAD && program.p_filesz(LE) > 0 {
                    segments.push((program.p_vaddr(LE), program.p_filesz(LE), program.p_offset(LE)));
                }
                if program.p_type(LE) == elf::PT_LOAD && program.p_flags(LE).contains(elf::PF_X) {
                    let start = program.p_vaddr(LE);
                    executable.push(start..start.saturating_add(program.p_memsz(LE)));
                }
                if program.p_type(LE) == elf::PT_NOTE {
                    // Segments share no bytes of the file.
                    let Some(left) = notes_left.checked_sub(program.p_filesz(LE)) else { continue };
                    notes_left = left;
                }
                let Some(mut list) = program.notes(LE, cache).map_err(damaged)? else { continue };
                while let Some(note) = list.next().map_err(damaged)? {
                    notes.read(machine, note.n_type(LE).0, note.name(), note.desc());
                }
            }
        }
        segments.sort_unstable();
        if notes.threads.is_empty() {
            return Err(CoreError::NoThread(path.to_owned()));
        }
        let mut core = Self {
            path: path.to_owned(),
            machine,
            cache,
            segments,
            executable,
            threads: notes.threads,
            process: notes.process,
            signal: notes.signal,
            files: Vec::new(),
            images: Vec::new(),
            left: Left { frames: Cell::new(1 + len / layout::FRAME_SIZE), tables: Cell::new(MAX_TABLES) },
        };
        core.find_images(&notes.files, &notes.auxiliary, program, bytes)?;
        core.files = notes.files;
        Ok(core)
    }

    /// The images whose files were found; the program is the first.
    pub fn images(&self) -> &[Image] {
        &self.images
    }

    fn find_images(
        &mut self,
        files: &[Mapping],
        auxiliary: &HashMap<u64, u64>,
        program: &Path,
        bytes: Vec<u8>,
    ) -> Result<(), CoreError> {
        const AT_PHDR: u64 = 3;
        const AT_SYSINFO_EHDR: u64 = 33;
        let other =
            |what| CoreError::OtherProgram { core: self.path.clone(), program: program.to_owned(), what };
        let no_program = || format!("that file is no {} program", abi::machine::NAMES);
        let headers = auxiliary.get(&AT_PHDR).copied().unwrap_or(0);
        let own = files.iter().find(|m| (m.start..m.end).contains(&headers));
        // The program headers follow the ELF header.
        let start = own.map_or(headers & !0xfff, |m| m.start.wrapping_sub(m.offset));
        let main = Image::new(Some(program.to_owned()), bytes, start);
        let main = main.ok_or_else(|| other(no_program()))?;
        if !self.fits(&main) {
            return Err(other("the program in memory has another build id".to_owned()));
        }
        let mut images = vec![main];
        let mut left = MAX_LIBRARIES;
        let mut known = HashSet::new();
        for mapping in files {
            let own = own.is_some_and(|own| own.name == mapping.name);
            if mapping.offset != 0 || own || images.iter().any(|i| i.contains(mapping.start)) {
                continue;
            }
            // Pipes and devices may have no end. A file counts once, even if it has several names.
            let Ok(name) = fs::canonicalize(&mapping.name) else { continue };
            let Ok(about) = fs::metadata(&name) else { continue };
            if !about.is_file() || about.len() > left || !known.insert(name) {
                continue;
            }
            let Ok(bytes) = fs::read(&mapping.name) else { continue };
            left = left.saturating_sub(bytes.len() as u64);
            images.extend(
                Image::new(Some(mapping.name.clone()), bytes, mapping.start).filter(|i| self.fits(i)),
            );
        }
        // The image that the kernel puts into each process is in the core file only.
        if let Some(&start) = auxiliary.get(&AT_SYSINFO_EHDR)
            && let Some(&(address, size, offset)) = self.segments.iter().find(|s| s.0 == start)
            && let Ok(bytes) = (&self.cache).read_bytes_at(offset, size.min(1 << 20))
        {
            images.extend(Image::new(None, bytes.to_vec(), address));
        }
        self.images = images;
        Ok(())
    }

    /// Returns whether the notes of an image, its build id among them, are the same in the core file, as far as
    /// that has them.
    fn fits(&self, image: &Image) -> bool {
        let Ok(header) = elf::FileHeader64::<LE>::parse(&*image.bytes) else { return false };
        let Ok(programs) = header.program_headers(LE, &*image.bytes) else { return false };
        /// Bounds on the notes of an image. Real ones have some hundred bytes.
        const MAX_NOTE: u64 = 1 << 16;
        const MAX_NOTES: usize = 16;
        let notes = programs.iter().filter(|p| p.p_type(LE) == elf::PT_NOTE);
        notes.filter(|note| note.p_filesz(LE) <= MAX_NOTE).take(MAX_NOTES).all(|note| {
            let Ok(data) = note.data(LE, &*image.bytes) else { return false };
            let address = note.p_vaddr(LE).wrapping_add(image.bias);
            self.memory(address, data.len() as u64).is_none_or(|memory| memory == data)
        })
    }

    /// The offset of an address in the core file, and the number of bytes from there to the end of the segment.
    fn place(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.segments.partition_point(|s| s.0 <= address);
        let (start, size, offset) = self.segments[..after].last()?;
        let at = address - start;
        Some((offset.checked_add(at)?, size.checked_sub(at).filter(|rest| *rest > 0)?))
    }

    /// Bytes that the core file holds.
    fn memory(&self, address: u64, len: u64) -> Option<&[u8]> {
        let (offset, rest) = self.place(address)?;
        if len > rest {
            return None;
        }
        (&self.cache).read_bytes_at(offset, len).ok()
    }

    fn word(&self, address: u64) -> Option<u64> {
        let written = self.written_word(address);
        written.or_else(|| {
            let image = self.images.iter().find(|i| i.contains(address))?;
            Some(u64::from_le_bytes(*image.bytes_at(address)?.first_chunk()?))
        })
    }

    /// A word that the core file holds.
    fn written_word(&self, address: u64) -> Option<u64> {
        const PAGE: u64 = 4096;
        let (offset, _) = self.place(address).filter(|place| place.1 >= 8)?;
        // Whole pages are read, since the cache keeps each piece that was read.
        let page = offset & !(PAGE - 1);
        let bytes = match (&self.cache).read_bytes_at(page, PAGE) {
            Ok(bytes) if offset - page <= PAGE - 8 => &bytes[(offset - page) as usize..],
            // The word is at the file's end, or crosses the end of a page.
            _ => (&self.cache).read_bytes_at(offset, 8).ok()?,
        };
        Some(u64::from_le_bytes(*bytes.first_chunk()?))
    }

    /// The segment with an address. If the address is in a stack, this is the whole stack.
    fn segment(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.segments.partition_point(|s| s.0 <= address);
        let &(start, size, _) = self.segments[..after].last()?;
        let end = start.saturating_add(size);
        (address < end).then_some((start, end))
    }

    /// The contexts of all threads. `debug` is the content of the program's debug file, if it has one.
    ///
    /// # Errors
    /// [`CoreError::NoState`] if the program does not say where its threads keep their contexts,
    /// [`CoreError::OtherVersion`] if another version of the runtime keeps them, [`CoreError::NoThreadPointer`] if the
    /// core file does not say where a thread's own variables are.
    pub fn report(&self, debug: Option<&[u8]>) -> Result<Report, CoreError> {
        let main = &self.images[0];
        let program = main.path.clone().unwrap_or_default();
        let versions = self.images.iter().map(|i| &*i.bytes).chain(debug);
        if let Some(found) = versions.filter_map(abi_version).find(|v| v != abi::VERSION_SYMBOL) {
            return Err(CoreError::OtherVersion { program, found });
        }
        if let Some(thread) = self.threads.iter().find(|thread| thread.registers.thread_pointer.is_none()) {
            return Err(CoreError::NoThreadPointer { core: self.path.clone(), thread: thread.number });
        }
        let places = self.places(debug).ok_or_else(|| CoreError::NoState(program.clone()))?;
        let build_id = object::File::parse(&*main.bytes)
            .ok()
            .and_then(|f| f.build_id().ok().flatten().map(<[u8]>::to_vec))
            .unwrap_or_default();
        let threads = self.threads.iter().map(|thread| Thread {
            number: Some(thread.number),
            context: self.context(thread, &places).map_or_else(Context::default, Context::Token),
            ..Thread::default()
        });
        Ok(Report {
            program: program.display().to_string(),
            build_id: to_hex(&build_id),
            process: self.process,
            trace: self.trace(debug).map(|trace| trace.path.display().to_string()),
            signal: self.signal,
            threads: threads.collect(),
            incomplete: Vec::new(),
            is_whole: true,
        })
    }

    fn places(&self, debug: Option<&[u8]>) -> Option<Places> {
        let main = &self.images[0];
        let files = || debug.into_iter().chain([&*main.bytes]);
        let in_program = files().find_map(|bytes| tls_offset(&object::File::parse(bytes).ok()?));
        let block = in_program.map(|offset| offset as u64).or_else(|| self.block_of_library())?;
        let signal_site = files()
            .find_map(|bytes| main.symbol(bytes, abi::SIGNAL_SITE_SYMBOL))
            .or_else(|| self.images.iter().find_map(|i| i.symbol(&i.bytes, abi::SIGNAL_SITE_SYMBOL)));
        let hybrid = files().any(|bytes| main.symbol(bytes, abi::HYBRID_SYMBOL).is_some());
        let main_base = files()
            .find_map(|bytes| main.symbol(bytes, abi::MAIN_BASE_SYMBOL))
            .or_else(|| self.images.iter().find_map(|i| i.symbol(&i.bytes, abi::MAIN_BASE_SYMBOL)));
        let main_base = main_base.filter(|_| hybrid).and_then(|address| self.word(address));
        Some(Places { block, signal_site, hybrid, main_base })
    }

    /// The loader writes the offset of the block into the images that refer to it by name.
    fn block_of_library(&self) -> Option<u64> {
        self.images.iter().find_map(|image| {
            let file = object::File::parse(&*image.bytes).ok()?;
            let symbols = file.dynamic_symbol_table()?;
            file.dynamic_relocations()?.find_map(|(address, relocation)| {
                let RelocationTarget::Symbol(index) = relocation.target() else { return None };
                let RelocationFlags::Elf { r_type } = relocation.flags() else { return None };
                let name = symbols.symbol_by_index(index).ok()?;
                let is_offset = self.machine.relocation(r_type) == Relocation::ThreadOffset;
                if !is_offset || name.name() != Ok(abi::TLS_SYMBOL) {
                    return None;
                }
                let word = self.word(address.wrapping_add(image.bias))?;
                Some(word.wrapping_sub(relocation.addend() as u64))
            })
        })
    }
}
