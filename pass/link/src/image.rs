//! The linked file: its sections and symbols, and its bytes by address.

use std::collections::HashMap;
use std::ops::Range;

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SectionFlags, SectionKind, SymbolKind,
};

use pcce_abi::layout;

use crate::Error;
use crate::code::Id;

/// A section that is loaded.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its addresses.
    pub addresses: Range<u64>,
    /// Where its bytes begin in the file.
    pub offset: usize,
    /// Whether it holds code.
    pub is_code: bool,
    /// Its name.
    pub name: String,
}

/// A linked file.
pub struct Image {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The loaded sections that have bytes in the file, by address.
    pub sections: Vec<Section>,
    /// Symbols of functions: sizes by address.
    pub sizes: HashMap<u64, u64>,
    /// Addresses of other symbols, ascending.
    pub data: Vec<u64>,
    /// Addresses of the functions that it exports.
    pub exported: Vec<u64>,
    /// Names of the functions that it imports.
    pub imported: Vec<String>,
    /// Values of symbols of the project.
    symbols: HashMap<String, u64>,
    /// A word that holds how far the thread's block is from the thread pointer, where that is known at run time only.
    block_word: Option<u64>,
    /// Whether it is a shared library.
    pub is_library: bool,
    /// Whether its addresses are those of the process.
    pub is_fixed: bool,
    /// Where relocations put an address of the file.
    pub relocated: Vec<u64>,
    /// The offset of a thread-local symbol's value 0 from the thread pointer.
    thread_base: i64,
}

impl Image {
    /// Reads a file.
    ///
    /// # Errors
    /// What it is not.
    pub fn new(bytes: Vec<u8>) -> Result<Self, Error> {
        let damaged = |what: object::read::Error| Error::NotElf(what.to_string());
        let file = object::read::elf::ElfFile64::<Endianness>::parse(&*bytes).map_err(damaged)?;
        let endian = file.endian();
        let header = file.elf_header();
        if header.e_machine(endian) != elf::EM_X86_64 || endian != Endianness::Little {
            return Err(Error::NotElf("another machine".to_owned()));
        }
        let segments = file.elf_program_headers();
        let is_program = segments.iter().any(|s| s.p_type(endian) == elf::PT_INTERP);
        let is_fixed = header.e_type(endian) == elf::ET_EXEC;
        let is_pie = header.e_type(endian) == elf::ET_DYN && (is_program || is_static_pie(&file));
        let is_library = header.e_type(endian) == elf::ET_DYN && !is_pie;
        if !is_fixed && !is_pie && !is_library {
            return Err(Error::NotLinked);
        }
        let thread = segments.iter().find(|s| s.p_type(endian) == elf::PT_TLS);
        let thread_base = thread.map_or(0, |s| {
            let align = s.p_align(endian).max(1);
            -(s.p_memsz(endian).next_multiple_of(align) as i64)
        });
        let mut image = Self {
            bytes: Vec::new(),
            sections: Vec::new(),
            sizes: HashMap::new(),
            data: Vec::new(),
            exported: Vec::new(),
            imported: Vec::new(),
            symbols: HashMap::new(),
            block_word: None,
            is_library,
            is_fixed,
            relocated: Vec::new(),
            thread_base,
        };
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            let allocated = sh_flags.contains(elf::SHF_ALLOC);
            let Some((offset, size)) = section.file_range().filter(|_| allocated && section.address() != 0)
            else {
                continue;
            };
            let end = offset.checked_add(size).filter(|&end| end <= bytes.len() as u64);
            if end.is_none() || section.address().checked_add(size).is_none() {
                return Err(Error::NotElf("a section ends behind the file".to_owned()));
            }
            image.sections.push(Section {
                addresses: section.address()..section.address() + size,
                offset: offset as usize,
                is_code: section.kind() == SectionKind::Text,
                name: section.name().unwrap_or_default().to_owned(),
            });
        }
        image.sections.sort_unstable_by_key(|section| section.addresses.start);
        for symbol in file.symbols() {
            let name = symbol.name().unwrap_or_default();
            if symbol.kind() == SymbolKind::Text && symbol.address() != 0 {
                let size = image.sizes.entry(symbol.address()).or_default();
                *size = symbol.size().max(*size);
            }
            if symbol.kind() != SymbolKind::Text && !symbol.is_undefined() {
                image.data.push(symbol.address());
            }
            if name.starts_with("__pcce_") && !symbol.is_undefined() {
                image.symbols.insert(name.to_owned(), symbol.address());
            }
        }
        image.data.sort_unstable();
        for symbol in file.dynamic_symbols().filter(|s| s.kind() == SymbolKind::Text || s.is_undefined()) {
            match symbol.is_undefined() {
                true => image.imported.extend(symbol.name().map(str::to_owned)),
                false => image.exported.push(symbol.address()),
            }
        }
        for (address, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let object::RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            match (r_type, relocation.target()) {
                (elf::R_X86_64_RELATIVE | elf::R_X86_64_IRELATIVE, _) => {
                    image.relocated.push(relocation.addend() as u64);
                }
                (elf::R_X86_64_TPOFF64, object::RelocationTarget::Symbol(symbol))
                    if relocation.addend() == 0 =>
                {
                    let symbol = file.dynamic_symbol_table().and_then(|s| s.symbol_by_index(symbol).ok());
                    if symbol.is_some_and(|symbol| symbol.name() == Ok(pcce_abi::TLS_SYMBOL)) {
                        image.block_word = Some(address);
                    }
                }
                _ => {}
            }
        }
        drop(file);
        image.bytes = bytes;
        Ok(image)
    }

    /// The content of a section that is not loaded; empty if there is none.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn debug_section(&self, name: &str) -> Result<Vec<u8>, Error> {
        let damaged = |what: object::read::Error| Error::NotElf(format!("section {name}: {what}"));
        let file = object::read::elf::ElfFile64::<Endianness>::parse(&*self.bytes).map_err(damaged)?;
        let Some(section) = file.section_by_name(name) else { return Ok(Vec::new()) };
        section.uncompressed_data().map(std::borrow::Cow::into_owned).map_err(damaged)
    }

    /// The addresses of the symbols with such names.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn symbols_named(&self, is_such: impl Fn(&str) -> bool) -> Result<Vec<u64>, Error> {
        let damaged = |what: object::read::Error| Error::NotElf(what.to_string());
        let file = object::read::elf::ElfFile64::<Endianness>::parse(&*self.bytes).map_err(damaged)?;
        let named = file.symbols().filter(|symbol| symbol.name().is_ok_and(&is_such));
        Ok(named.map(|symbol| symbol.address()).collect())
    }

    /// The value of one of the project's symbols.
    ///
    /// # Errors
    /// There is none.
    pub fn symbol(&self, name: &'static str) -> Result<u64, Error> {
        self.symbols.get(name).copied().ok_or(Error::NoSymbol(name))
    }

    /// Where the id is in the thread's block.
    ///
    /// # Errors
    /// The block is neither in this file, nor is a word for its place.
    pub fn id(&self) -> Result<Id, Error> {
        if self.is_library {
            return self.block_word.map(Id::Word).ok_or(Error::NotReferred(pcce_abi::TLS_SYMBOL));
        }
        let value = self.symbol(pcce_abi::TLS_SYMBOL)?.wrapping_add(layout::TLS_ID);
        i32::try_from(self.thread_base.wrapping_add(value as i64))
            .map(Id::At)
            .map_err(|_| Error::NoSymbol(pcce_abi::TLS_SYMBOL))
    }

    fn section(&self, address: u64) -> Option<&Section> {
        let after = self.sections.partition_point(|section| section.addresses.start <= address);
        self.sections[..after].last().filter(|section| section.addresses.contains(&address))
    }

    /// The bytes from an address to the end of its section; empty if there is none.
    pub fn at(&self, address: u64) -> &[u8] {
        let Some(section) = self.section(address) else { return &[] };
        let from = (address - section.addresses.start) as usize;
        let len = (section.addresses.end - section.addresses.start) as usize;
        &self.bytes[section.offset + from..section.offset + len]
    }

    /// The bytes of a section.
    pub fn content(&self, section: &Section) -> &[u8] {
        let len = (section.addresses.end - section.addresses.start) as usize;
        &self.bytes[section.offset..section.offset + len]
    }

    /// Overwrites bytes, which are there.
    pub fn overwrite(&mut self, address: u64, bytes: &[u8]) {
        let section = self.section(address).expect("what is overwritten was read");
        let from = section.offset + (address - section.addresses.start) as usize;
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
    }
}

/// A static executable at any address has no interpreter; its dynamic section says what it is.
pub fn is_static_pie(file: &object::read::elf::ElfFile64<'_, Endianness>) -> bool {
    let endian = file.endian();
    let data = file.data();
    let dynamic = file.elf_program_headers().iter().find_map(|s| s.dynamic(endian, data).ok().flatten());
    dynamic.into_iter().flatten().any(|entry| {
        entry.d_tag.get(endian) == elf::DT_FLAGS_1 && entry.d_val.get(endian) & elf::DF_1_PIE.0 != 0
    })
}

/// The functions that the loader calls at the start and at the end, but for those of arrays.
pub fn dynamic_entries(file: &object::read::elf::ElfFile64<'_, Endianness>) -> Vec<u64> {
    let endian = file.endian();
    let data = file.data();
    let dynamic = file.elf_program_headers().iter().find_map(|s| s.dynamic(endian, data).ok().flatten());
    let entries = dynamic.into_iter().flatten();
    let called = entries.filter(|entry| [elf::DT_INIT, elf::DT_FINI].contains(&entry.d_tag.get(endian)));
    called.map(|entry| entry.d_val.get(endian)).collect()
}
