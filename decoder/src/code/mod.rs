//! From a program's machine code to what contexts at any instruction need: which function an address is in, its source
//! lines, and what the function has done to the id there.

mod lines;
mod state;
pub(crate) mod table;

use std::collections::{BTreeMap, HashMap};

use gimli::{BaseAddresses, EhFrame, EndianSlice, LittleEndian, Reader, UnwindSection};
use object::elf;
use object::{
    Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget, SectionKind,
    SymbolKind,
};
use pcce_dictionary::Module;
use pcce_dictionary::code::{Code, FunctionCode, Role, State};

use self::lines::Lines;
use self::state::{LandingPad, Surroundings};
use crate::names;
use crate::program::content;

/// Name of the thread-local block.
const BLOCK: &str = pcce_abi::TLS_SYMBOL;

/// Makes the table of a linked program. `file` has its symbols and debug information, `loaded` its instructions and unwind
/// tables: the same file, or the stripped program beside its debug file. `addresses`: the content of
/// [`SECTION`](pcce_dictionary::code::SECTION).
pub(crate) fn build(
    file: &object::File<'_>,
    loaded: &object::File<'_>,
    modules: &[Module],
    addresses: &[(u64, Vec<u64>)],
) -> Code {
    let image = Image::new(loaded, tls_offset(file));
    let unwind = unwind_tables(loaded);
    let mut names = Names::default();
    let mut lines = Lines::new(file);
    let mut functions: Vec<FunctionCode> = Vec::new();
    let stubs = stubs(&image);
    let ranges = ranges(file, &unwind, roles(modules, addresses), &stubs);
    let name_at: BTreeMap<u64, String> = ranges.iter().map(|r| (r.start, r.name(modules))).collect();
    for range in &ranges {
        let mut row = FunctionCode {
            start: range.start,
            len: range.len,
            name: names.number(&name_at[&range.start]),
            role: range.role,
            states: Vec::new(),
            lines: Vec::new(),
            calls: Vec::new(),
            frame_offset: None,
            frame_position: None,
        };
        let bytes = image.bytes(range.start);
        let bytes = bytes.get(..range.len as usize).unwrap_or_default();
        match range.role {
            Role::Instrumented(..) => {
                let pads = unwind.get(&range.start).map_or(Some(&[][..]), |entry| entry.pads.as_deref());
                if let (Some(function), Some(pads)) = (state::Function::new(range.start, bytes), pads) {
                    let findings = function.findings(&image, pads);
                    // A jump to where no function begins, or to a cold part, leads to more code of this one.
                    let tail = |target| name_at.get(target).is_some_and(|name| !name.contains(".cold"));
                    if findings.exits.iter().all(tail) {
                        row.frame_offset = findings.frame_offset.known();
                        row.frame_position = findings.frame_position.known();
                    }
                    for (address, state) in function.addresses().zip(findings.states) {
                        let offset = (address - range.start) as u32;
                        if row.states.last().map_or(State::Unknown, |s| s.1) != state {
                            row.states.push((offset, state));
                        }
                        let place = lines.at(address, &mut names);
                        if row.lines.last().map_or(0, |l| l.1) != place {
                            row.lines.push((offset, place));
                        }
                    }
                    for (behind, target) in function.calls() {
                        let name = target.and_then(|t| name_at.get(&t)).filter(|name| !name.is_empty());
                        let name = name.map_or(0, |name| names.number(name) + 1);
                        row.calls.push(((behind - range.start) as u32, name));
                    }
                }
            }
            Role::Plain if bytes.contains(&0x64) || image.slots.values().next().is_some() => {
                let own = names::demangle(&name_at[&range.start]);
                let runtime = ["pcce_", "__pcce_", "<pcce_runtime"].iter().any(|p| own.starts_with(p));
                let opaque =
                    || state::Function::new(range.start, bytes).is_some_and(|f| f.names_block(&image));
                if !runtime && opaque() {
                    row.role = Role::Opaque;
                }
            }
            _ => {}
        }
        functions.push(row);
    }
    Code { files: lines.files, names: names.list, places: lines.places, functions }
}

/// Gives equal strings equal numbers.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    index: HashMap<String, u32>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.index.get(name) {
            return number;
        }
        let number = self.list.len() as u32;
        self.list.push(name.to_owned());
        self.index.insert(name.to_owned(), number);
        number
    }
}

/// What the dictionary says of addresses. Where a linker has put one function in the place of another, the first one
/// is it.
fn roles(modules: &[Module], addresses: &[(u64, Vec<u64>)]) -> BTreeMap<u64, Role> {
    let mut roles = BTreeMap::new();
    for (number, module) in modules.iter().enumerate() {
        let Some((_, list)) = addresses.iter().find(|(sites, _)| *sites == module.sites_address) else {
            continue;
        };
        if list.len() != module.functions.len() {
            continue;
        }
        for (function, &address) in list.iter().enumerate().filter(|(_, a)| **a != 0) {
            roles.entry(address).or_insert(Role::Instrumented(number as u32, function as u32));
        }
    }
    roles
}

/// Where a function is.
struct Range {
    start: u64,
    len: u64,
    symbol: Option<String>,
    role: Role,
}

impl Range {
    fn name(&self, modules: &[Module]) -> String {
        let row = match self.role {
            Role::Instrumented(module, function) => modules.get(module as usize).and_then(|module| {
                let name = module.functions.get(function as usize)?.name;
                module.names.get(name as usize).cloned()
            }),
            _ => None,
        };
        row.or_else(|| self.symbol.clone()).unwrap_or_default()
    }
}

/// All functions, by ascending address, without overlaps.
fn ranges(
    file: &object::File<'_>,
    unwind: &BTreeMap<u64, Unwind>,
    roles: BTreeMap<u64, Role>,
    stubs: &BTreeMap<u64, (u64, String)>,
) -> Vec<Range> {
    let mut symbols: BTreeMap<u64, (u64, String)> = stubs.clone();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        if symbol.kind() != SymbolKind::Text || symbol.is_undefined() || symbol.address() == 0 {
            continue;
        }
        let known = symbols.get(&symbol.address()).map_or(0, |s| s.0);
        if symbol.size() > known
            && let Ok(name) = symbol.name()
        {
            symbols.insert(symbol.address(), (symbol.size(), name.to_owned()));
        }
    }
    let mut starts: BTreeMap<u64, Range> = BTreeMap::new();
    for (&start, (len, name)) in &symbols {
        starts.insert(start, Range { start, len: *len, symbol: Some(name.clone()), role: Role::Plain });
    }
    for (&start, entry) in unwind {
        let role = Role::Plain;
        starts.entry(start).or_insert(Range { start, len: entry.len, symbol: None, role });
    }
    for (start, role) in roles {
        // A function without a length is not known well enough.
        if let Some(range) = starts.get_mut(&start) {
            range.role = role;
        }
    }
    let mut ranges: Vec<Range> = Vec::with_capacity(starts.len());
    for range in starts.into_values() {
        if range.len == 0 || range.len > u64::from(u32::MAX) || range.start.checked_add(range.len).is_none() {
            continue;
        }
        match ranges.last() {
            Some(last) if last.start + last.len > range.start => {
                // One inside another: an entry point of its own, or assembly. The instrumented one counts, and one with a
                // name: the unwind tables take all stubs of the linker together.
                if last.role == Role::Plain && (range.role != Role::Plain || last.symbol.is_none()) {
                    let last = ranges.last_mut().expect("there is one");
                    last.len = range.start - last.start;
                    ranges.push(range);
                }
            }
            _ => ranges.push(range),
        }
    }
    ranges
}

/// What the unwind tables say of a function.
struct Unwind {
    len: u64,
    /// None where they cannot be read.
    pads: Option<Vec<LandingPad>>,
}

fn unwind_tables(file: &object::File<'_>) -> BTreeMap<u64, Unwind> {
    let mut found = BTreeMap::new();
    let Some(section) = file.section_by_name(".eh_frame") else { return found };
    let Ok(data) = content(&section, ".eh_frame") else { return found };
    let mut bases = BaseAddresses::default().set_eh_frame(section.address());
    if let Some(text) = file.section_by_name(".text") {
        bases = bases.set_text(text.address());
    }
    let table = file.section_by_name(".gcc_except_table");
    let exceptions = table.as_ref().and_then(|t| Some((t.address(), t.data().ok()?)));
    let frame = EhFrame::new(&data, LittleEndian);
    let mut entries = frame.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let gimli::CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let start = fde.initial_address();
        let pads = match (fde.lsda(), exceptions) {
            (None, _) => Some(Vec::new()),
            (Some(gimli::Pointer::Direct(lsda)), Some((base, data))) => {
                let data = lsda.checked_sub(base).and_then(|at| data.get(at as usize..));
                data.and_then(|data| landing_pads(data, start).ok())
            }
            _ => None,
        };
        found.insert(start, Unwind { len: fde.len(), pads });
    }
    found
}

/// Reads the call sites of a language-specific data area (the Itanium C++ ABI's, which GCC and LLVM write for all languages).
fn landing_pads(data: &[u8], start: u64) -> gimli::Result<Vec<LandingPad>> {
    let mut data = EndianSlice::new(data, LittleEndian);
    let wrong = |encoding| gimli::Error::UnsupportedPointerEncoding(gimli::DwEhPe(encoding));
    let beginning = data.read_u8()?;
    if beginning != gimli::DW_EH_PE_omit.0 {
        return Err(wrong(beginning));
    }
    if data.read_u8()? != gimli::DW_EH_PE_omit.0 {
        data.read_uleb128()?;
    }
    let encoding = gimli::DwEhPe(data.read_u8()?);
    let len = data.read_uleb128()? as usize;
    data.truncate(len)?;
    let number = |data: &mut EndianSlice<'_, LittleEndian>| match encoding {
        gimli::DW_EH_PE_uleb128 => data.read_uleb128(),
        gimli::DW_EH_PE_udata4 => data.read_u32().map(u64::from),
        _ => Err(wrong(encoding.0)),
    };
    let mut pads = Vec::new();
    while !data.is_empty() {
        let (from, len, pad) = (number(&mut data)?, number(&mut data)?, number(&mut data)?);
        data.read_uleb128()?;
        let from = start.wrapping_add(from);
        if pad != 0 {
            pads.push(LandingPad { from, to: from.wrapping_add(len), pad: start.wrapping_add(pad) });
        }
    }
    Ok(pads)
}

/// The linked file as the data flow sees it.
struct Image<'f> {
    file: &'f object::File<'f>,
    /// Loaded sections with content: address, bytes.
    sections: Vec<(u64, &'f [u8])>,
    offset: Option<i64>,
    /// Words that hold the block's offset at run time, with what is added to it.
    slots: HashMap<u64, i64>,
    /// Addresses in data, ascending.
    taken: Vec<u64>,
    /// Words that hold the address of a function of another image.
    imports: HashMap<u64, String>,
}

impl<'f> Image<'f> {
    fn new(file: &'f object::File<'f>, offset: Option<i64>) -> Self {
        let mut sections: Vec<(u64, &[u8])> = file
            .sections()
            .filter(|s| !matches!(s.kind(), SectionKind::Debug | SectionKind::Metadata) && s.address() != 0)
            .filter_map(|s| Some((s.address(), s.data().ok().filter(|d| !d.is_empty())?)))
            .collect();
        sections.sort_unstable_by_key(|s| s.0);
        let mut image = Self {
            file,
            sections,
            offset,
            slots: HashMap::new(),
            taken: Vec::new(),
            imports: HashMap::new(),
        };
        image.read_relocations();
        if file.kind() == object::ObjectKind::Executable {
            image.scan_data();
        }
        image.taken.sort_unstable();
        image.taken.dedup();
        image
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
            match r_type {
                elf::R_X86_64_TPOFF64 if name == Some(BLOCK) => {
                    self.slots.insert(address, relocation.addend());
                }
                elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT => {
                    if let Some(name) = name {
                        self.imports.insert(address, name.to_owned());
                    }
                }
                elf::R_X86_64_RELATIVE => self.taken.push(relocation.addend() as u64),
                _ => {}
            }
        }
    }

    /// A program at fixed addresses has no relocations that tell which words are addresses.
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

    fn tls_slot(&self, address: u64) -> Option<i64> {
        if let Some(&addend) = self.slots.get(&address) {
            return Some(addend);
        }
        // A word that the linker filled in.
        let word = self.bytes(address).first_chunk::<8>().map(|w| i64::from_le_bytes(*w));
        (word.is_some() && word == self.offset).then_some(0)
    }

    fn address_taken(&self, from: u64, to: u64) -> Vec<u64> {
        let first = self.taken.partition_point(|a| *a < from);
        self.taken[first..].iter().copied().take_while(|a| *a < to).collect()
    }
}

/// The offset of the thread's block from the thread pointer, in bytes, in the image that defines it, if that is a program: its thread-local
/// storage ends at the thread pointer (System V psABI). None for other images.
pub fn tls_offset(file: &object::File<'_>) -> Option<i64> {
    let symbol = file
        .symbols()
        .chain(file.dynamic_symbols())
        .find(|s| s.kind() == SymbolKind::Tls && !s.is_undefined() && s.name() == Ok(BLOCK))?;
    let object::File::Elf64(elf_file) = file else { return None };
    let endian = elf_file.endian();
    let segment = elf_file.elf_program_headers().iter().find(|h| h.p_type.get(endian) == elf::PT_TLS)?;
    let (size, align) = (segment.p_memsz.get(endian), segment.p_align.get(endian).max(1));
    let end = segment.p_vaddr.get(endian).checked_add(size)?.checked_next_multiple_of(align)?;
    let start = segment.p_vaddr.get(endian);
    Some((symbol.address() as i64).wrapping_sub((end - start) as i64))
}

/// The linker's stubs for calls of other images' functions: address, length, name.
fn stubs(image: &Image<'_>) -> BTreeMap<u64, (u64, String)> {
    let mut stubs = BTreeMap::new();
    for section in image.file.sections() {
        let (Ok(name), Ok(data)) = (section.name(), section.data()) else { continue };
        if !matches!(name, ".plt" | ".plt.sec" | ".plt.got") {
            continue;
        }
        for (number, bytes) in data.chunks(16).enumerate() {
            let start = section.address().wrapping_add(number as u64 * 16);
            let slot = state::Function::new(start, bytes).and_then(|f| f.jumps_through());
            if let Some(name) = slot.and_then(|slot| image.imports.get(&slot)) {
                stubs.insert(start, (bytes.len() as u64, name.clone()));
            }
        }
    }
    stubs
}
