//! The linked file as the data flow sees it.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};

use object::{
    Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget, SectionKind,
};

use pcce_abi::TLS_SYMBOL;

use super::function::{Callee, Function, Surroundings};
use super::machine::{self, Machine, Relocation, ThreadReference};
use super::ranges::Range;
use crate::names;

/// The mangled names of the runtime library are shorter, in bytes.
const MAX_RUNTIME_NAME: usize = 1 << 12;

/// Bounds on the steps of the data flow over all functions of an image: for any image, and for each byte of it. Real
/// programs take one for each byte.
const STEPS: u64 = 1 << 26;
const STEPS_PER_BYTE: u64 = 16;

/// The linked file as the data flow sees it.
pub(super) struct Image<'f> {
    file: &'f object::File<'f>,
    pub(super) machine: &'static dyn Machine,
    /// Loaded sections with content: address, bytes.
    sections: Vec<(u64, &'f [u8])>,
    offset: Option<i64>,
    /// Words that hold the block's offset at run time, with the constant that is added to it.
    slots: HashMap<u64, i64>,
    /// Addresses in data, ascending.
    taken: Vec<u64>,
    /// Words that hold the address of a function of another image.
    imports: HashMap<u64, &'f str>,
    /// The ranges of the linker's stubs, by address.
    stubs: Vec<std::ops::Range<u64>>,
    /// Code that the machine outliner has taken out of functions.
    pub(super) outlined: HashMap<u64, Function>,
    /// Functions that may return with another id.
    pub(super) opaque: HashSet<u64>,
    /// The steps that the data flow over its functions may still take.
    steps: Cell<u64>,
}

impl<'f> Image<'f> {
    /// None if the file is of a machine that is not known.
    pub(super) fn new(file: &'f object::File<'f>, offset: Option<i64>) -> Option<Self> {
        let mut sections: Vec<(u64, &[u8])> = file
            .sections()
            .filter(|s| !matches!(s.kind(), SectionKind::Debug | SectionKind::Metadata) && s.address() != 0)
            .filter_map(|s| Some((s.address(), s.data().ok().filter(|d| !d.is_empty())?)))
            .collect();
        sections.sort_unstable_by_key(|s| s.0);
        let mut stubs: Vec<std::ops::Range<u64>> = file
            .sections()
            .filter(|s| s.name().is_ok_and(|name| name.starts_with(".plt") || name == ".iplt"))
            .map(|s| s.address()..s.address().saturating_add(s.size()))
            .collect();
        stubs.sort_unstable_by_key(|stubs| stubs.start);
        let mut image = Self {
            file,
            machine: machine::of_file(file)?,
            sections,
            offset,
            slots: HashMap::new(),
            taken: Vec::new(),
            imports: HashMap::new(),
            stubs,
            outlined: HashMap::new(),
            opaque: HashSet::new(),
            steps: Cell::new(0),
        };
        image.read_relocations();
        if file.kind() == object::ObjectKind::Executable {
            image.scan_data();
        }
        image.taken.sort_unstable();
        image.taken.dedup();
        let bytes = image.sections.iter().map(|section| section.1.len() as u64).sum::<u64>();
        image.steps = Cell::new(STEPS.saturating_add(bytes.saturating_mul(STEPS_PER_BYTE)));
        Some(image)
    }

    /// The bytes of a range, as far as the file has them.
    pub(super) fn code(&self, range: &Range) -> &[u8] {
        let bytes = self.bytes(range.start);
        bytes.get(..range.len as usize).unwrap_or_default()
    }

    /// The name of the function whose address the loader puts into the word at an address.
    pub(super) fn import(&self, word: u64) -> Option<&'f str> {
        self.imports.get(&word).copied()
    }

    /// Returns whether a linker's stub is at an address.
    pub(super) fn is_stub(&self, address: u64) -> bool {
        let after = self.stubs.partition_point(|stubs| stubs.start <= address);
        self.stubs[..after].last().is_some_and(|stubs| address < stubs.end)
    }

    /// Returns whether code that is not in the dictionary refers to the thread's block, and is not the runtime's.
    pub(super) fn changes_id(&self, range: &Range, name: &str) -> bool {
        let bytes = self.code(range);
        if !self.machine.may_address_thread(bytes) && self.slots.is_empty() {
            return false;
        }
        let is_block = |reference: ThreadReference| match reference {
            ThreadReference::Offset(offset) => self.offset == Some(offset),
            ThreadReference::Word(address) => self.tls_slot(address).is_some(),
        };
        let references = self.machine.thread_references(range.start, bytes).unwrap_or_default();
        if !references.into_iter().any(is_block) {
            return false;
        }
        let is_runtime =
            |name: String| ["pcce_", "__pcce_", "<pcce_runtime"].iter().any(|p| name.starts_with(p));
        !(name.len() < MAX_RUNTIME_NAME && is_runtime(names::demangle(name)))
    }

    pub(super) fn function(&self, range: &Range) -> Option<Function> {
        Function::new(self.machine, &[(range.start, self.code(range))])
    }

    fn read_relocations(&mut self) {
        let symbols = self.file.dynamic_symbol_table();
        for (address, relocation) in self.file.dynamic_relocations().into_iter().flatten() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            let name = match (relocation.target(), &symbols) {
                (RelocationTarget::Symbol(index), Some(symbols)) => {
                    symbols.symbol_by_index(index).ok().and_then(|s| s.name().ok())
                }
                _ => None,
            };
            match self.machine.relocation(r_type) {
                Relocation::ThreadOffset if name == Some(TLS_SYMBOL) => {
                    self.slots.insert(address, relocation.addend());
                }
                Relocation::Import => {
                    if let Some(name) = name {
                        self.imports.insert(address, name);
                    }
                }
                Relocation::Relative => self.taken.push(relocation.addend() as u64),
                Relocation::ThreadOffset | Relocation::Other => {}
            }
        }
    }

    /// Finds the words of data that may be addresses of code. A program at fixed addresses has no relocations
    /// for them.
    fn scan_data(&mut self) {
        let (mut low, mut high) = (u64::MAX, 0);
        for section in self.file.sections().filter(|s| s.kind() == SectionKind::Text) {
            low = low.min(section.address());
            high = high.max(section.address().saturating_add(section.size()));
        }
        for section in self.file.sections() {
            let data = matches!(
                section.kind(),
                SectionKind::Data | SectionKind::ReadOnlyData | SectionKind::ReadOnlyDataWithRel
            );
            if let (true, Ok(bytes)) = (data, section.data()) {
                let words = bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes")));
                self.taken.extend(words.filter(|word| (low..high).contains(word)));
            }
        }
    }
}

impl Surroundings for Image<'_> {
    fn bytes(&self, address: u64) -> &[u8] {
        let after = self.sections.partition_point(|s| s.0 <= address);
        let found = after.checked_sub(1).map(|i| self.sections[i]);
        found.and_then(|(start, data)| data.get((address - start) as usize..)).unwrap_or_default()
    }

    fn tls_offset(&self) -> Option<i64> {
        self.offset
    }

    fn callee(&self, address: u64) -> Callee<'_> {
        match self.outlined.get(&address) {
            Some(code) => Callee::Outlined(code),
            None if self.opaque.contains(&address) => Callee::Opaque,
            None => Callee::Function,
        }
    }

    fn tls_slot(&self, address: u64) -> Option<i64> {
        if let Some(&addend) = self.slots.get(&address) {
            return Some(addend);
        }
        // A word that the linker filled in.
        let word = self.bytes(address).first_chunk::<8>().map(|w| i64::from_le_bytes(*w));
        (word.is_some() && word == self.offset).then_some(0)
    }

    fn address_taken(&self, from: u64, to: u64) -> &[u64] {
        let first = self.taken.partition_point(|a| *a < from);
        let end = self.taken.partition_point(|a| *a < to);
        self.taken.get(first..end).unwrap_or_default()
    }

    fn spend(&self, steps: u64) -> bool {
        let left = self.steps.get().checked_sub(steps);
        self.steps.set(left.unwrap_or(0));
        left.is_some()
    }
}

/// The linker's stubs for calls of other images' functions: address, length, name.
pub(super) fn stubs<'f>(image: &Image<'f>) -> BTreeMap<u64, (u64, &'f str)> {
    let mut stubs = BTreeMap::new();
    for section in image.file.sections() {
        let (Ok(name), Ok(data)) = (section.name(), section.data()) else { continue };
        if !matches!(name, ".plt" | ".plt.sec" | ".plt.got") {
            continue;
        }
        let size = image.machine.stub_size(name, data);
        for (number, bytes) in data.chunks(size).enumerate() {
            let start = section.address().wrapping_add((number * size) as u64);
            let slot = Function::new(image.machine, &[(start, bytes)]).and_then(|f| f.jumps_through());
            if let Some(name) = slot.and_then(|slot| image.import(slot)) {
                stubs.insert(start, (bytes.len() as u64, name));
            }
        }
    }
    stubs
}
