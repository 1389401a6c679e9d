//! The scratch file: the first link's output, made of skeletons.

use std::collections::{HashMap, HashSet};

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SectionKind};
use pcce_abi::machine::Machine;
use pcce_abi::machine::objects::{ObjectCode, ThreadOffset, ThreadSegment};
use pcce_abi::skeleton::{HEADER_LEN, NO_FUNCTION};

use crate::Error;
use crate::Module;

/// A function of a module: the index of the module, and of the function in the module.
pub type Place = (usize, usize);

/// A linked file of skeletons.
pub struct Scratch {
    /// True if it is a shared library.
    pub is_library: bool,
    /// The owners of bodies, by address.
    owners: HashMap<u64, Place>,
    /// The addresses that the calls of each body reach, in the order of the skeleton.
    calls: HashMap<Place, Vec<u64>>,
    /// Addresses of symbols.
    symbols: HashMap<String, Vec<u64>>,
    /// Dynamic symbols with their addresses; 0 for those that the file does not define.
    dynamic: Vec<(String, u64)>,
    /// Addresses of resolvers, which choose the function of a name (`ifunc`).
    resolvers: HashSet<u64>,
    /// Addresses at which the loader and the system enter the file.
    entries: Vec<u64>,
    /// The widths of values that its machine tells apart.
    pub value_widths: &'static [u8],
    /// How far the thread's block is from the thread pointer, in bytes, if code is better if it knows.
    pub thread_offset: Option<(u32, &'static ThreadOffset)>,
}

impl Scratch {
    /// Reads the file that was linked from the skeletons `modules`.
    ///
    /// # Errors
    /// The file is no executable and no shared library, or has a function more than once.
    pub fn read(bytes: &[u8], modules: &[Module]) -> Result<Self, Error> {
        let damaged = |what: object::read::Error| Error::NotElf(what.to_string());
        let file = object::read::elf::ElfFile64::<Endianness>::parse(bytes).map_err(damaged)?;
        let endian = file.endian();
        let header = file.elf_header();
        let is_program = file.elf_program_headers().iter().any(|s| s.p_type(endian) == elf::PT_INTERP);
        let is_library = match header.e_type(endian) {
            elf::ET_EXEC => false,
            elf::ET_DYN => !is_program && !is_static_pie(&file),
            _ => return Err(Error::NotLinked),
        };
        let mut scratch = Self {
            is_library,
            owners: HashMap::new(),
            calls: HashMap::new(),
            symbols: HashMap::new(),
            dynamic: Vec::new(),
            resolvers: HashSet::new(),
            entries: vec![header.e_entry(endian)],
            value_widths: object_code(&file)?.value_widths,
            thread_offset: None,
        };
        let ids: HashMap<u64, usize> = modules.iter().enumerate().map(|(m, module)| (module.id, m)).collect();
        let machine = object_code(&file)?;
        for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
            let code = section.data().map_err(damaged)?;
            scratch.find_bodies(machine, section.address(), code, &ids, modules)?;
        }
        let marks = |symbol: &object::read::elf::ElfSymbol64<'_, '_>| {
            symbol.is_local()
                && symbol.elf_symbol().st_type() == elf::STT_NOTYPE
                && symbol.name().is_ok_and(machine.marks_contents)
        };
        // The value of a thread-local symbol is no address.
        let is_placed = |symbol: &object::read::elf::ElfSymbol64<'_, '_>| {
            !symbol.is_undefined() && symbol.kind() != object::SymbolKind::Tls && !marks(symbol)
        };
        for symbol in file.symbols().filter(is_placed) {
            let Ok(name) = symbol.name() else { continue };
            if symbol.elf_symbol().st_type() == elf::STT_GNU_IFUNC {
                scratch.resolvers.insert(symbol.address());
            }
            scratch.symbols.entry(name.to_owned()).or_default().push(symbol.address());
        }
        for symbol in file.dynamic_symbols() {
            let address = if symbol.is_undefined() { 0 } else { symbol.address() };
            scratch.dynamic.push((symbol.name().unwrap_or_default().to_owned(), address));
        }
        scratch.entries.extend(dynamic_entries(&file));
        if !is_library && let Some(limit) = &machine.thread_offset {
            let offset = thread_offset(&file, machine).filter(|offset| *offset < 1 << limit.bits);
            scratch.thread_offset = offset.map(|offset| (offset, limit));
        }
        Ok(scratch)
    }

    fn find_bodies(
        &mut self,
        machine: &ObjectCode,
        start: u64,
        code: &[u8],
        ids: &HashMap<u64, usize>,
        modules: &[Module],
    ) -> Result<(), Error> {
        let mut at = 0;
        while let Some(next) = memchr::memmem::find(&code[at..], &machine.mark) {
            at += next;
            let Some(header) = code.get(at..at + HEADER_LEN) else { break };
            let number = u32::from_le_bytes(header[4..8].try_into().expect("4 bytes"));
            let id = u64::from_le_bytes(header[8..16].try_into().expect("8 bytes"));
            let body = at;
            at += machine.mark.len();
            let Some(&m) = ids.get(&id).filter(|_| number != NO_FUNCTION) else { continue };
            let Some(function) = modules[m].functions().get(number as usize) else {
                return Err(Error::Facts {
                    module: modules[m].name().to_owned(),
                    cause: format!("its code has a function {number}"),
                });
            };
            let place = (m, number as usize);
            let address = start + body as u64;
            let mut calls = Vec::new();
            for call in 0..pcce_model::slice::called(function).len() {
                let from = body + HEADER_LEN + call * machine.no_call.len();
                let end = from + machine.no_call.len();
                let target =
                    code.get(from..end).and_then(|call| (machine.call_target)(call, start + end as u64));
                // If the callee is missing, the linker has written something else.
                calls.push(target.unwrap_or(0));
            }
            if self.calls.insert(place, calls).is_some() {
                return Err(Error::LinkedTwice {
                    function: function.name.clone(),
                    module: modules[m].name().to_owned(),
                });
            }
            self.owners.insert(address, place);
        }
        Ok(())
    }

    /// Returns whether the module's body of the function is in the file.
    pub fn has(&self, place: Place) -> bool {
        self.calls.contains_key(&place)
    }

    /// The callee of a call of a body, by its place in the skeleton; none if it is no function of a skeleton.
    pub fn callee(&self, caller: Place, call: usize) -> Option<Place> {
        self.owners.get(self.calls.get(&caller)?.get(call)?).copied()
    }

    /// The functions that have a name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = Place> {
        let addresses = self.symbols.get(name).into_iter().flatten();
        addresses.filter_map(|address| self.owners.get(address).copied())
    }

    /// The functions with a name for which `is_one` holds, with that name. Resolvers do not count.
    pub fn called_so(&self, is_one: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, Place)> {
        let symbols = self.symbols.iter().flat_map(|(name, places)| places.iter().map(move |at| (name, at)));
        let all = symbols.chain(self.dynamic.iter().map(|(name, address)| (name, address)));
        let places = all.filter(move |(name, at)| is_one(name) && !self.resolvers.contains(at));
        places.filter_map(|(name, at)| Some((&**name, *self.owners.get(at)?)))
    }

    /// The names of functions, each with its functions, and the number of other addresses that have the name.
    pub fn owned(&self) -> impl Iterator<Item = (&str, Vec<Place>, usize)> {
        self.symbols.iter().filter_map(|(name, addresses)| {
            let addresses: HashSet<&u64> = addresses.iter().collect();
            let places: Vec<Place> = addresses.iter().filter_map(|at| self.owners.get(at).copied()).collect();
            let others = addresses.len() - places.len();
            (!name.is_empty() && !places.is_empty()).then_some((&**name, places, others))
        })
    }

    /// The functions that a library exports, by name, without names that several functions have or that a resolver
    /// answers. Another image may define the name, too, and replace the function.
    pub fn replaceable(&self) -> HashMap<&str, Place> {
        let mut found: HashMap<&str, Option<Place>> = HashMap::new();
        let defined = self.dynamic.iter().filter(|(_, address)| self.is_library && *address != 0);
        for (name, address) in defined {
            let place = self.owners.get(address).filter(|_| !self.resolvers.contains(address)).copied();
            found.entry(name).and_modify(|known| *known = known.filter(|_| *known == place)).or_insert(place);
        }
        found.into_iter().filter_map(|(name, place)| Some((name, place?))).collect()
    }

    /// The functions that other images can name.
    pub fn exported(&self) -> HashSet<Place> {
        self.dynamic.iter().filter_map(|(_, address)| self.owners.get(address).copied()).collect()
    }

    /// The functions at which the loader or the system enters the file.
    pub fn entries(&self) -> impl Iterator<Item = Place> {
        self.entries.iter().filter_map(|address| self.owners.get(address).copied())
    }

    /// The names of all symbols that are not local to a module, whether the file defines them or not.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.symbols.keys().map(String::as_str).chain(self.dynamic.iter().map(|(name, _)| &**name))
    }
}

/// The machine of a linked file.
///
/// # Errors
/// The pass does not know the machine.
pub fn object_code(
    file: &object::read::elf::ElfFile64<'_, Endianness>,
) -> Result<&'static ObjectCode, Error> {
    let machine = file.elf_header().e_machine(file.endian());
    let known = Machine::of_elf(machine.0).map(|machine| &machine.objects);
    known.ok_or_else(|| Error::NotElf(format!("its machine is {}", machine.0)))
}

/// How far the thread's block is from the thread pointer, if it is in this executable.
fn thread_offset(file: &object::read::elf::ElfFile64<'_, Endianness>, machine: &ObjectCode) -> Option<u32> {
    let endian = file.endian();
    let is_block = |symbol: &object::read::elf::ElfSymbol64<'_, '_>| {
        symbol.kind() == object::SymbolKind::Tls
            && !symbol.is_undefined()
            && symbol.name() == Ok(pcce_abi::TLS_SYMBOL)
    };
    let symbol = file.symbols().find(is_block)?;
    let segment = file.elf_program_headers().iter().find(|s| s.p_type(endian) == elf::PT_TLS)?;
    let segment = ThreadSegment {
        start: segment.p_vaddr(endian),
        size: segment.p_memsz(endian),
        align: segment.p_align(endian).max(1),
    };
    let start = (machine.thread_storage)(&segment)?;
    u32::try_from(start.checked_add_unsigned(symbol.address())?).ok()
}

/// A static position-independent executable has no interpreter; its dynamic section identifies it.
fn is_static_pie(file: &object::read::elf::ElfFile64<'_, Endianness>) -> bool {
    let endian = file.endian();
    let data = file.data();
    let dynamic = file.elf_program_headers().iter().find_map(|s| s.dynamic(endian, data).ok().flatten());
    dynamic.into_iter().flatten().any(|entry| {
        entry.d_tag.get(endian) == elf::DT_FLAGS_1 && entry.d_val.get(endian) & elf::DF_1_PIE.0 != 0
    })
}

/// The functions that the loader calls at the start and at the end, except those in arrays.
fn dynamic_entries(file: &object::read::elf::ElfFile64<'_, Endianness>) -> Vec<u64> {
    let endian = file.endian();
    let data = file.data();
    let dynamic = file.elf_program_headers().iter().find_map(|s| s.dynamic(endian, data).ok().flatten());
    let entries = dynamic.into_iter().flatten();
    let called = entries.filter(|entry| [elf::DT_INIT, elf::DT_FINI].contains(&entry.d_tag.get(endian)));
    called.map(|entry| entry.d_val.get(endian)).collect()
}
