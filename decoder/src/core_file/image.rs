//! The files of a process: its program and shared libraries.

use std::path::PathBuf;

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Object, ObjectSymbol};
use pcce_abi as abi;
use pcce_abi::unwind::Tables;

use crate::code::elf::names_are_bounded;
use crate::token::BuildId;

/// An executable or shared library of the process.
pub struct Image {
    /// Its file. None for the image of the kernel (vDSO).
    pub path: Option<PathBuf>,
    pub bytes: Vec<u8>,
    pub(super) start: u64,
    end: u64,
    pub(super) bias: u64,
    /// The content of memory from `start` on, as the loader would have made it.
    memory: Vec<u8>,
    index: Option<(u64, usize)>,
    pub(super) build_id: BuildId,
}

impl Image {
    /// None if the file is no ELF file of this kind.
    pub(super) fn new(path: Option<PathBuf>, bytes: Vec<u8>, start: u64) -> Option<Self> {
        /// Bound on the gaps between segments, which serve to align them.
        const MAX_BETWEEN: u64 = 1 << 26;
        let header = elf::FileHeader64::<LE>::parse(&*bytes).ok()?;
        let programs = header.program_headers(LE, &*bytes).ok()?;
        let loads = || programs.iter().filter(|p| p.p_type(LE) == elf::PT_LOAD);
        let first = loads().map(|p| p.p_vaddr(LE)).min()? & !0xfff;
        let last = loads().map(|p| p.p_vaddr(LE).saturating_add(p.p_memsz(LE))).max()?;
        let filled = loads().map(|p| p.p_vaddr(LE).saturating_add(p.p_filesz(LE))).max()?;
        // Segments share no bytes of the file.
        let stored = loads().try_fold(0_u64, |sum, p| sum.checked_add(p.p_filesz(LE)))?;
        let most = bytes.len() as u64 + MAX_BETWEEN;
        let size = filled.checked_sub(first).filter(|size| *size <= most && stored <= most)?;
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
            if !names_are_bounded(&file) {
                return None;
            }
            BuildId::from_prefix(file.build_id().ok().flatten().unwrap_or_default())
        };
        let end = start.saturating_add(last - first);
        Some(Self { path, start, end, bias, memory, index, build_id, bytes })
    }

    /// One past the last address.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// The content of memory from an address on, as the loader has made it.
    pub(super) fn bytes_at(&self, address: u64) -> Option<&[u8]> {
        self.memory.get(usize::try_from(address.checked_sub(self.start)?).ok()?..)
    }

    pub(super) fn tables(&self) -> Tables<'_> {
        let index = self.index.and_then(|(at, len)| {
            let from = usize::try_from(at.checked_sub(self.start)?).ok()?;
            Some((at as usize, self.memory.get(from..from.checked_add(len)?)?))
        });
        let (index_start, index) = index.unwrap_or_default();
        Tables { start: self.start as usize, image: &self.memory, index_start, index }
    }

    /// The address at run time of a symbol.
    pub(super) fn symbol(&self, file: &[u8], name: &str) -> Option<u64> {
        let file = object::File::parse(file).ok()?;
        let symbol = file
            .symbols()
            .chain(file.dynamic_symbols())
            .find(|s| !s.is_undefined() && s.name() == Ok(name))?;
        Some(symbol.address().wrapping_add(self.bias))
    }
}

/// The symbol that names the version of the runtime in a file.
pub(super) fn abi_version(bytes: &[u8]) -> Option<String> {
    let prefix = abi::VERSION_SYMBOL.trim_end_matches(|c: char| c.is_ascii_digit());
    let file = object::File::parse(bytes).ok()?;
    let mut symbols = file.symbols().chain(file.dynamic_symbols()).filter_map(|symbol| symbol.name().ok());
    symbols.find(|name| name.starts_with(prefix)).map(str::to_owned)
}
