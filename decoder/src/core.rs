//! Core files: the contexts of a dead process's threads.
//!
//! A core file holds registers and the memory that the program had written; the rest is in the files of program and shared
//! libraries. From these, [`Core::report`] makes for each thread the token that `pcce_token_at` would have written: the
//! walk over the stack is the runtime library's own (`pcce_abi::unwind`). Nothing that is read is trusted: a chain of frames
//! counts as far as it lies on the stack on which the thread ran.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use object::LittleEndian as LE;
use object::elf;
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol, ReadCache, RelocationFlags, RelocationTarget};
use pcce_abi as abi;
use pcce_abi::layout;
use pcce_abi::unwind::{End, Interruption, Process, Registers, Tables};
use thiserror::Error;

use crate::code::tls_offset;
use crate::program::ELF_MAGIC;
use crate::report::{Report, Signal, Thread};
use crate::token::{BuildId, CodeAddress, MAX_FRAMES, Point, PointEnd, PushedFrame, Token};

/// Why a core file cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CoreError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {cause}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        cause: io::Error,
    },
    /// It is no ELF file, or a damaged one.
    #[error("{}: {cause}; copy it again", .path.display())]
    Elf {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: object::Error,
    },
    /// It is another kind of file.
    #[error("{}: not a core file of an x86-64 Linux program; the program comes first: pcce core PROGRAM CORE", .0.display())]
    NotACore(PathBuf),
    /// It has no thread in it.
    #[error("{}: it holds no thread's registers; it was cut, or is no process's core file", .0.display())]
    NoThread(PathBuf),
    /// The core is another program's.
    #[error("{}: the core file is of another build than {}: {what}; give the program that crashed", .core.display(), .program.display())]
    OtherProgram {
        /// The core file.
        core: PathBuf,
        /// The program.
        program: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// Nothing says where the threads' state is.
    #[error(
        "{}: nothing tells where its threads keep their contexts ({}): it was not built with the pass, or everything was stripped from it; give its debug file with --debug-file",
        .0.display(),
        abi::TLS_SYMBOL
    )]
    NoState(PathBuf),
    /// The program keeps its state in another way.
    #[error("{}: was built with another version of PCCE ({found}; this one reads {}); use that version's `pcce core`", .program.display(), abi::VERSION_SYMBOL)]
    OtherVersion {
        /// The program.
        program: PathBuf,
        /// The symbol that names its version.
        found: String,
    },
}

/// A core file, with the files of its images.
pub struct Core {
    path: PathBuf,
    cache: ReadCache<File>,
    /// Memory: address, size, offset in the file. By ascending address.
    segments: Vec<(u64, u64, u64)>,
    threads: Vec<State>,
    process: Option<i32>,
    signal: Option<Signal>,
    images: Vec<Image>,
}

/// A thread's registers.
struct State {
    number: i32,
    /// In the order of `NT_PRSTATUS` (`struct user_regs_struct`).
    registers: [u64; 27],
}

impl State {
    /// The registers in the order of the unwind tables.
    fn unwinding(&self) -> Registers {
        const ORDER: [usize; 17] = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16];
        Registers::all(ORDER.map(|i| self.registers[i]))
    }

    fn sp(&self) -> u64 {
        self.registers[19]
    }

    /// The thread pointer.
    fn fs_base(&self) -> u64 {
        self.registers[21]
    }
}

/// An executable or shared library of the process.
pub struct Image {
    /// Its file; none for the kernel's own.
    pub path: Option<PathBuf>,
    /// The file's content.
    pub bytes: Vec<u8>,
    start: u64,
    end: u64,
    bias: u64,
    /// What the loader would have put into memory, from `start` on.
    memory: Vec<u8>,
    index: Option<(u64, usize)>,
    build_id: BuildId,
}

impl Image {
    /// None if the file is no ELF file of this kind.
    fn new(path: Option<PathBuf>, bytes: Vec<u8>, start: u64) -> Option<Self> {
        /// Larger ones are not for programs.
        const MOST: u64 = 1 << 34;
        let header = elf::FileHeader64::<LE>::parse(&*bytes).ok()?;
        let programs = header.program_headers(LE, &*bytes).ok()?;
        let loads = || programs.iter().filter(|p| p.p_type(LE) == elf::PT_LOAD);
        let first = loads().map(|p| p.p_vaddr(LE)).min()? & !0xfff;
        let last = loads().map(|p| p.p_vaddr(LE).saturating_add(p.p_memsz(LE))).max()?;
        let filled = loads().map(|p| p.p_vaddr(LE).saturating_add(p.p_filesz(LE))).max()?;
        let size = filled.checked_sub(first).filter(|size| *size < MOST)?;
        let mut memory = vec![0; size as usize];
        for load in loads() {
            let at = (load.p_vaddr(LE) - first) as usize;
            let data = load.data(LE, &*bytes).ok()?;
            memory.get_mut(at..at + data.len())?.copy_from_slice(data);
        }
        let bias = start.wrapping_sub(first);
        let index = programs.iter().find(|p| p.p_type(LE) == elf::PT_GNU_EH_FRAME);
        let index = index.map(|p| (p.p_vaddr(LE).wrapping_add(bias), p.p_memsz(LE) as usize));
        let build_id = {
            let file = object::File::parse(&*bytes).ok()?;
            BuildId::from_prefix(file.build_id().ok().flatten().unwrap_or_default())
        };
        let end = start.saturating_add(last - first);
        Some(Self { path, start, end, bias, memory, index, build_id, bytes })
    }

    fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    fn tables(&self) -> Tables<'_> {
        let index = self.index.and_then(|(at, len)| {
            let from = usize::try_from(at.checked_sub(self.start)?).ok()?;
            Some((at as usize, self.memory.get(from..from.checked_add(len)?)?))
        });
        let (index_start, index) = index.unwrap_or_default();
        Tables { start: self.start as usize, image: &self.memory, index_start, index }
    }

    /// The address at run time of a symbol.
    fn symbol(&self, file: &[u8], name: &str) -> Option<u64> {
        let file = object::File::parse(file).ok()?;
        let symbol = file
            .symbols()
            .chain(file.dynamic_symbols())
            .find(|s| !s.is_undefined() && s.name() == Ok(name))?;
        Some(symbol.address().wrapping_add(self.bias))
    }
}

/// Where the threads' state is.
struct Places {
    /// Offset of the block from the thread pointer.
    block: u64,
    /// The site of signals' frames.
    signal_site: Option<u64>,
    /// Whether the program has a hybrid encoding.
    hybrid: bool,
    /// Then the canonical frame address of `main`, if it has been entered.
    main_base: Option<u64>,
}

/// The process at its end.
struct Snapshot<'c> {
    core: &'c Core,
}

impl<'c> Process<'c> for Snapshot<'c> {
    fn word(&mut self, address: usize) -> Option<u64> {
        if !address.is_multiple_of(8) {
            return None;
        }
        self.core.word(address as u64)
    }

    fn image(&mut self, address: usize) -> Option<Tables<'c>> {
        self.core.images.iter().find(|image| image.contains(address as u64)).map(Image::tables)
    }
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
        let mut segments = Vec::new();
        let mut notes = Notes::default();
        {
            let cache = &cache;
            if cache.read_bytes_at(0, 4).is_ok_and(|start| start != ELF_MAGIC)
                || cache.len().is_ok_and(|len| len < 64)
            {
                return Err(CoreError::NotACore(path.to_owned()));
            }
            let header = elf::FileHeader64::<LE>::parse(cache).map_err(damaged)?;
            if header.e_type(LE) != elf::ET_CORE || header.e_machine(LE) != elf::EM_X86_64 {
                return Err(CoreError::NotACore(path.to_owned()));
            }
            for program in header.program_headers(LE, cache).map_err(damaged)? {
                if program.p_type(LE) == elf::PT_LOAD && program.p_filesz(LE) > 0 {
                    segments.push((program.p_vaddr(LE), program.p_filesz(LE), program.p_offset(LE)));
                }
                let Some(mut list) = program.notes(LE, cache).map_err(damaged)? else { continue };
                while let Some(note) = list.next().map_err(damaged)? {
                    notes.read(note.n_type(LE).0, note.name(), note.desc());
                }
            }
        }
        segments.sort_unstable();
        if notes.threads.is_empty() {
            return Err(CoreError::NoThread(path.to_owned()));
        }
        let mut core = Self {
            path: path.to_owned(),
            cache,
            segments,
            threads: notes.threads,
            process: notes.process,
            signal: notes.signal,
            images: Vec::new(),
        };
        core.find_images(&notes.files, &notes.auxiliary, program, bytes)?;
        Ok(core)
    }

    /// The images whose files were found; the program is the first.
    #[must_use]
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
        let headers = auxiliary.get(&AT_PHDR).copied().unwrap_or(0);
        let own = files.iter().find(|m| (m.start..m.end).contains(&headers));
        // The program headers follow the ELF header.
        let start = own.map_or(headers & !0xfff, |m| m.start.wrapping_sub(m.offset));
        let main = Image::new(Some(program.to_owned()), bytes, start);
        let main = main.ok_or_else(|| other("that file is no x86-64 program"))?;
        if !self.fits(&main) {
            return Err(other("the program in memory has another build id"));
        }
        let mut images = vec![main];
        for mapping in files {
            let known = images.iter().any(|i| i.contains(mapping.start));
            let own = own.is_some_and(|own| own.name == mapping.name);
            if mapping.offset != 0 || known || own {
                continue;
            }
            let Ok(bytes) = fs::read(&mapping.name) else { continue };
            images.extend(
                Image::new(Some(mapping.name.clone()), bytes, mapping.start).filter(|i| self.fits(i)),
            );
        }
        // What the kernel puts into each process is in the core file only.
        if let Some(&start) = auxiliary.get(&AT_SYSINFO_EHDR)
            && let Some(&(address, size, offset)) = self.segments.iter().find(|s| s.0 == start)
            && let Ok(bytes) = (&self.cache).read_bytes_at(offset, size.min(1 << 20))
        {
            images.extend(Image::new(None, bytes.to_vec(), address));
        }
        self.images = images;
        Ok(())
    }

    /// Whether what the core file holds of an image's notes, its build id among them, is what the file says.
    fn fits(&self, image: &Image) -> bool {
        let Ok(header) = elf::FileHeader64::<LE>::parse(&*image.bytes) else { return false };
        let Ok(programs) = header.program_headers(LE, &*image.bytes) else { return false };
        programs.iter().filter(|p| p.p_type(LE) == elf::PT_NOTE).all(|note| {
            let Ok(data) = note.data(LE, &*image.bytes) else { return false };
            let address = note.p_vaddr(LE).wrapping_add(image.bias);
            self.memory(address, data.len() as u64).is_none_or(|memory| memory == data)
        })
    }

    /// Bytes that the core file holds.
    fn memory(&self, address: u64, len: u64) -> Option<&[u8]> {
        let after = self.segments.partition_point(|s| s.0 <= address);
        let (start, size, offset) = self.segments[..after].last()?;
        let at = address - start;
        if at.checked_add(len)? > *size {
            return None;
        }
        (&self.cache).read_bytes_at(offset.checked_add(at)?, len).ok()
    }

    fn word(&self, address: u64) -> Option<u64> {
        const PAGE: u64 = 4096;
        let page = address & !(PAGE - 1);
        let at = (address - page) as usize;
        // Pages, since each piece that is read is kept.
        let bytes = match self.memory(page, PAGE) {
            Some(bytes) => bytes.get(at..)?,
            None => match self.memory(address, 8) {
                Some(bytes) => bytes,
                None => {
                    let image = self.images.iter().find(|i| i.contains(address))?;
                    image.memory.get((address - image.start) as usize..)?
                }
            },
        };
        Some(u64::from_le_bytes(*bytes.first_chunk()?))
    }

    /// The segment with an address: all of the stack, for one in a stack.
    fn segment(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.segments.partition_point(|s| s.0 <= address);
        let &(start, size, _) = self.segments[..after].last()?;
        let end = start.saturating_add(size);
        (address < end).then_some((start, end))
    }

    /// The contexts of all threads. `debug` is the content of the program's debug file, if it has one.
    ///
    /// # Errors
    /// [`CoreError::NoState`] if the program does not say where they are, [`CoreError::OtherVersion`] if they are not where this version has
    /// them.
    pub fn report(&self, debug: Option<&[u8]>) -> Result<Report, CoreError> {
        let main = &self.images[0];
        let program = main.path.clone().unwrap_or_default();
        let versions = self.images.iter().map(|i| &*i.bytes).chain(debug);
        if let Some(found) = versions.filter_map(abi_version).find(|v| v != abi::VERSION_SYMBOL) {
            return Err(CoreError::OtherVersion { program, found });
        }
        let places = self.places(debug).ok_or_else(|| CoreError::NoState(program.clone()))?;
        let build_id = object::File::parse(&*main.bytes)
            .ok()
            .and_then(|f| f.build_id().ok().flatten().map(<[u8]>::to_vec))
            .unwrap_or_default();
        let threads = self
            .threads
            .iter()
            .map(|thread| Thread { number: thread.number, context: self.context(thread, &places) });
        Ok(Report {
            program: program.display().to_string(),
            build_id: build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            process: self.process,
            signal: self.signal,
            threads: threads.collect(),
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
            use object::ObjectSymbolTable;
            file.dynamic_relocations()?.find_map(|(address, relocation)| {
                let RelocationTarget::Symbol(index) = relocation.target() else { return None };
                let RelocationFlags::Elf { r_type } = relocation.flags() else { return None };
                let name = symbols.symbol_by_index(index).ok()?;
                if r_type != elf::R_X86_64_TPOFF64 || name.name() != Ok(abi::TLS_SYMBOL) {
                    return None;
                }
                let word = self.word(address.wrapping_add(image.bias))?;
                Some(word.wrapping_sub(relocation.addend() as u64))
            })
        })
    }

    /// The token of a thread, and behind `+` those of its creation.
    fn context(&self, thread: &State, places: &Places) -> Option<String> {
        let block = thread.fs_base().wrapping_add(places.block);
        let field = |offset: u64| self.word(block.wrapping_add(offset));
        let (id, top) = (field(layout::TLS_ID)?, field(layout::TLS_TOP)?);
        let own = (field(layout::TLS_STACK_LOW)?, field(layout::TLS_STACK_HIGH)?);
        let mut walk =
            Walk { core: self, places, token: Token::default(), stack: self.stack(thread.sp(), own) };
        walk.token.with_offsets = places.hybrid;
        walk.token.left = field(layout::TLS_LEFT & !7)?.to_le_bytes()[(layout::TLS_LEFT & 7) as usize] != 0;
        walk.thread(thread.unwinding(), id, top);
        let mut word = walk.token.encode();
        if let Some(creation) = field(layout::TLS_CREATION).and_then(|record| self.creation(record)) {
            word.push('+');
            word.push_str(&creation);
        }
        Some(word)
    }

    /// The bounds of the stack on which a thread runs, as far as they are known. `own`: those that it keeps itself.
    fn stack(&self, sp: u64, own: (u64, u64)) -> Option<(u64, u64)> {
        if own.1 != 0 && own.1 != u64::MAX && own.0 <= sp && sp < own.1 {
            return Some(own);
        }
        // A segment of its own is one stack. Those of several threads may be neighbours.
        (own.1 == 0 || own.1 == u64::MAX).then(|| self.segment(sp))?
    }

    fn creation(&self, record: u64) -> Option<String> {
        let len = self.word(record.checked_add(layout::CREATION_LEN)?)?;
        if record == 0 || len == 0 || len > layout::CREATION_SIZE - layout::CREATION_TEXT {
            return None;
        }
        let text = self.memory(record + layout::CREATION_TEXT, len)?;
        let allowed = |c: &u8| c.is_ascii_alphanumeric() || b"-_.+~".contains(c);
        text.iter().all(allowed).then(|| String::from_utf8_lossy(text).into_owned())
    }
}

/// The symbol that names the version of the runtime in a file.
fn abi_version(bytes: &[u8]) -> Option<String> {
    let prefix = abi::VERSION_SYMBOL.trim_end_matches(|c: char| c.is_ascii_digit());
    let file = object::File::parse(bytes).ok()?;
    let mut symbols = file.symbols().chain(file.dynamic_symbols()).filter_map(|symbol| symbol.name().ok());
    symbols.find(|name| name.starts_with(prefix)).map(str::to_owned)
}

/// On the way from a thread's registers to its token: what the runtime does in `token.rs`.
struct Walk<'c> {
    core: &'c Core,
    places: &'c Places,
    token: Token,
    stack: Option<(u64, u64)>,
}

/// The frame to which a link leads ([`abi::Link`]).
fn frame(link: u64) -> u64 {
    link & !layout::RELATIVE
}

/// The site of a pushed frame without the marks.
fn unmarked(site: u64) -> u64 {
    site & ((1 << layout::MARKS_SHIFT) - 1)
}

impl Walk<'_> {
    fn thread(&mut self, registers: Registers, id: u64, top: u64) {
        let sp = registers.sp() as u64;
        let frame = frame(top);
        let point = Interruption::walk(registers, frame as usize, &mut Snapshot { core: self.core });
        // The owner of the innermost frame is an activation here, or both are on one stack.
        let together = self.stack.is_some_and(|(low, high)| low <= sp && sp <= frame && frame < high);
        let followed = top == 0 || point.end == End::Pushed || together;
        let detached = point.detached || !followed;
        let id = self.base(top).filter(|_| followed || frame == top).map(|base| id.wrapping_sub(base));
        let base = if detached { 0 } else { self.offset_base(top) };
        self.token.point = Some(self.point(id.unwrap_or(0), &point, base));
        self.token.other_state = point.is_whole() || id.is_none();
        self.token.damaged = detached && !point.is_whole();
        self.token.start_missing = self.token.damaged && frame != top;
        if !detached {
            self.frames(top);
        }
    }

    /// What the ids of the sub-path count from that a link's frame begins.
    fn base(&self, link: u64) -> Option<u64> {
        let id = frame(link).checked_add(layout::FRAME_ID)?;
        if frame(link) == link { Some(0) } else { self.core.word(id) }
    }

    /// Adds the frames that a link leads to, as far as they can be followed.
    fn frames(&mut self, top: u64) {
        let mut link = top;
        let mut count = 1;
        while link != 0 {
            let next = if count < MAX_FRAMES { self.next_frame(link) } else { None };
            let (prev, goes_on) = next.unwrap_or((link, false));
            if !goes_on {
                self.token.damaged = true;
                self.token.start_missing = frame(prev) != prev;
                return;
            }
            link = prev;
            count += 1;
        }
    }

    /// Adds the frame that a link leads to. Returns the frame's own link, and whether that can be followed; None if the frame is none.
    fn next_frame(&mut self, link: u64) -> Option<(u64, bool)> {
        let at = frame(link);
        let word = |i: u64| self.core.word(at.checked_add(i * 8)?);
        let (prev, id, marked) = (word(0)?, word(1)?, word(2)?);
        let (site, left) = (unmarked(marked), (marked >> layout::MARKS_SHIFT) as u8 & layout::LEFT != 0);
        let to = frame(prev);
        // A link leads upwards; only that of a signal handler on its own stack may lead anywhere on the thread's.
        let inside = |a: u64| self.stack.is_some_and(|(low, high)| (low..high).contains(&a));
        let possible = if inside(at) { at < to && inside(to) } else { at < to || inside(to) };
        let possible = prev == 0 || possible;
        let id = id.wrapping_sub(self.base(prev).filter(|_| possible || to == prev)?);
        if Some(site) == self.places.signal_site {
            let process = &mut Snapshot { core: self.core };
            let registers = word(4).and_then(|c| Registers::interrupted(process, c as usize))?;
            let point = Interruption::walk(registers, to as usize, process);
            let before = self.token.frames.len();
            let base = if point.detached { 0 } else { self.offset_base(prev) };
            let row = self.point(id, &point, base);
            self.token.signals.push((before, row));
            return Some((prev, possible && !point.detached));
        }
        let image = self.core.images.iter().find(|i| i.contains(site))?;
        let needed = self.site_byte(site) & abi::HybridSite::NEEDS_OFFSET != 0;
        let distance =
            if needed { abi::HybridSite::distance(at as usize, self.offset_base(prev) as usize) } else { 0 };
        let (number, site) = (self.image(image.build_id), site.wrapping_sub(image.bias));
        let since_signal = self.token.signals.last().map_or(0, |s| s.0) < self.token.frames.len();
        match self.token.frames.last_mut().filter(|_| since_signal) {
            Some(last)
                if (last.image, last.site, last.left, last.id, last.distance)
                    == (number, site, left, id, distance) =>
            {
                last.count += 1;
            }
            _ => self.token.frames.push(PushedFrame { image: number, site, left, id, distance, count: 1 }),
        }
        Some((prev, possible))
    }

    /// The byte of a site ([`abi::HybridSite`]); 0 in programs without a hybrid encoding.
    fn site_byte(&self, site: u64) -> u8 {
        let word = if self.places.hybrid { self.core.word(site & !7) } else { None };
        word.unwrap_or(0).to_le_bytes()[(site & 7) as usize]
    }

    /// Where distances count from in the sub-path above a link; 0 if that is not known.
    fn offset_base(&self, link: u64) -> u64 {
        let at = frame(link);
        if link == 0 {
            let inside = |base: &u64| self.stack.is_some_and(|(low, high)| (low..high).contains(base));
            return self.places.main_base.filter(inside).unwrap_or(0);
        }
        let site = at.checked_add(layout::FRAME_SITE).and_then(|site| self.core.word(site)).unwrap_or(0);
        let known = self.site_byte(unmarked(site)) & abi::HybridSite::KNOWN_BASE != 0;
        if known { at } else { 0 }
    }

    /// `base`: where distances count from.
    fn point(&mut self, id: u64, walked: &Interruption, base: u64) -> Point {
        let addresses = walked.addresses().zip(walked.frames()).map(|((address, exact), cfa)| {
            let distance = if self.places.hybrid { abi::HybridSite::distance(cfa, base as usize) } else { 0 };
            let address = address as u64;
            let image = self.core.images.iter().find(|i| i.contains(address));
            let (id, bias) = image.map_or((BuildId::default(), 0), |i| (i.build_id, i.bias));
            CodeAddress { image: self.image(id), address: address.wrapping_sub(bias), exact, distance }
        });
        let addresses = addresses.collect();
        let end = match walked.end {
            End::Pushed => PointEnd::Pushed,
            End::Outermost => PointEnd::Outermost,
            End::Bound => PointEnd::Bound,
            End::Lost => PointEnd::Lost,
        };
        Point { id, addresses, end }
    }

    /// The number of an image in the token.
    fn image(&mut self, id: BuildId) -> u32 {
        let images = &mut self.token.images;
        let number = images.iter().position(|known| *known == id).unwrap_or_else(|| {
            images.push(id);
            images.len() - 1
        });
        number as u32
    }
}

/// A part of a file in memory.
struct Mapping {
    start: u64,
    end: u64,
    /// In the file, in bytes.
    offset: u64,
    name: PathBuf,
}

/// What the notes of a core file say.
#[derive(Default)]
struct Notes {
    threads: Vec<State>,
    process: Option<i32>,
    signal: Option<Signal>,
    auxiliary: HashMap<u64, u64>,
    files: Vec<Mapping>,
}

impl Notes {
    fn read(&mut self, kind: u32, name: &[u8], content: &[u8]) {
        const NT_PRSTATUS: u32 = 1;
        const NT_PRPSINFO: u32 = 3;
        const NT_AUXV: u32 = 6;
        const NT_FILE: u32 = 0x4649_4c45;
        const NT_SIGINFO: u32 = 0x5349_4749;
        if name != b"CORE" {
            return;
        }
        let long = |at: usize| {
            let bytes = content.get(at..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let int = |at: usize| Some(i32::from_le_bytes(*content.get(at..)?.first_chunk()?));
        match kind {
            // `struct elf_prstatus`: signal at 12, thread at 32, registers from 112 on.
            NT_PRSTATUS => {
                let registers: Option<Vec<u64>> = (0..27).map(|i| long(112 + i * 8)).collect();
                let registers = registers.and_then(|r| r.try_into().ok());
                if let (Some(number), Some(registers)) = (int(32), registers) {
                    if self.threads.is_empty() && self.signal.is_none() {
                        let number =
                            content.get(12..14).map_or(0, |b| i32::from(i16::from_le_bytes([b[0], b[1]])));
                        self.signal = (number != 0).then_some(Signal {
                            number,
                            code: None,
                            address: None,
                            sender: None,
                        });
                    }
                    self.threads.push(State { number, registers });
                }
            }
            NT_PRPSINFO => self.process = int(24),
            NT_AUXV => {
                let pairs = content.chunks_exact(16).map(|pair| {
                    let word = |at: usize| u64::from_le_bytes(*pair[at..].first_chunk().expect("8 bytes"));
                    (word(0), word(8))
                });
                self.auxiliary.extend(pairs);
            }
            // `siginfo_t`: signal, error, code; the address or the sender at 16. There is one a process, or one a thread.
            NT_SIGINFO if self.threads.len() < 2 => {
                if let (Some(number @ 1..), Some(code)) = (int(0), int(8)) {
                    let fault = code > 0 && code != 0x80 && matches!(number, 4 | 5 | 7 | 8 | 11);
                    let sent = matches!(code, 0 | -1 | -6);
                    self.signal = Some(Signal {
                        number,
                        code: Some(code),
                        address: long(16).filter(|_| fault),
                        sender: int(16).filter(|_| sent),
                    });
                }
            }
            NT_FILE => self.files = mappings(content).unwrap_or_default(),
            _ => {}
        }
    }
}

/// Count, size of a page; for each mapping start, end, offset in pages; then the names.
fn mappings(content: &[u8]) -> Option<Vec<Mapping>> {
    use std::os::unix::ffi::OsStrExt;
    let mut words = content.chunks_exact(8).map(|w| u64::from_le_bytes(*w.first_chunk().expect("8 bytes")));
    let (count, page) = (usize::try_from(words.next()?).ok()?, words.next()?);
    let names = content.get(count.checked_mul(24)?.checked_add(16)?..)?;
    let mut names = names.split(|byte| *byte == 0);
    (0..count)
        .map(|_| {
            Some(Mapping {
                start: words.next()?,
                end: words.next()?,
                offset: words.next()?.checked_mul(page)?,
                name: std::ffi::OsStr::from_bytes(names.next()?).into(),
            })
        })
        .collect()
}
