//! From a program's machine code to what contexts at any instruction need: which function an address is in, its source
//! lines, and what the function has done to the id there.

mod lines;
mod parts;
mod ranges;
mod state;
pub(crate) mod table;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use gimli::{BaseAddresses, EhFrame, EndianSlice, LittleEndian, Reader, UnwindSection};
use object::elf;
use object::{
    Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget, SectionKind,
    SymbolKind,
};
use pcce_dictionary::Module;
use pcce_dictionary::code::{Code, FunctionCode, Role, State};

use self::lines::Lines;
use self::ranges::{Range, ranges, roles};
use self::state::{Called, LandingPad, Surroundings};
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
    let mut image = Image::new(loaded, tls_offset(file));
    let unwind = unwind_tables(loaded);
    let mut ranges = ranges(file, &unwind, roles(modules, addresses), &stubs(&image));
    let mut parts = parts::find(&mut ranges, file, &image);
    let name_at: BTreeMap<u64, String> = ranges.iter().map(|r| (r.start, r.name(modules))).collect();
    for range in ranges.iter_mut().filter(|r| r.role == Role::Plain) {
        if range.symbol.as_deref().is_some_and(parts::is_outlined) {
            range.role = Role::Opaque;
            if let Some(code) = state::Function::new(&[(range.start, image.code(range))]) {
                image.outlined.insert(range.start, code);
            }
        } else if image.changes_id(range, &name_at[&range.start]) {
            range.role = Role::Opaque;
            image.opaque.insert(range.start);
        }
    }
    let mut table = Table { names: Names::default(), lines: Lines::new(file), rows: BTreeMap::new() };
    for range in &ranges {
        let name = table.names.number(&name_at[&range.start]);
        table.rows.insert(range.start, row(range, name));
    }
    // Where code goes on that no range is known to be.
    let mut elsewhere = BTreeSet::new();
    for (number, range) in ranges.iter().enumerate() {
        if !matches!(range.role, Role::Instrumented(..)) || range.part {
            continue;
        }
        let parts = parts.remove(&number).unwrap_or_default();
        let parts: Vec<&Range> =
            std::iter::once(range).chain(parts.iter().map(|&part| &ranges[part])).collect();
        let code: Vec<_> = parts.iter().map(|part| (part.start, image.code(part))).collect();
        let Some(function) = state::Function::new(&code) else { continue };
        elsewhere.extend(function.exits().filter(|target| name_at.get(target).is_none_or(String::is_empty)));
        let pads =
            |part: &&Range| unwind.get(&part.start).map_or(Some(&[][..]), |entry| entry.pads.as_deref());
        if let Some(pads) = parts.iter().map(pads).collect::<Option<Vec<_>>>() {
            table.fill(&function, &image, &pads.concat(), range.start, &name_at);
        }
    }
    // That code may go on elsewhere, too.
    let mut known = elsewhere.clone();
    while let Some(target) = elsewhere.pop_first() {
        if image.is_stub(target) {
            continue;
        }
        let Some((start, len)) = table.lose(target, &image) else { continue };
        let bytes = image.bytes(start);
        let code = state::Function::new(&[(start, bytes.get(..len as usize).unwrap_or_default())]);
        for next in code.iter().flat_map(state::Function::exits) {
            if name_at.get(&next).is_none_or(String::is_empty) && known.insert(next) {
                elsewhere.insert(next);
            }
        }
    }
    let Table { names, lines, rows } = table;
    Code {
        files: lines.files,
        names: names.list,
        places: lines.places,
        functions: rows.into_values().collect(),
    }
}

/// The row of a range of which nothing is known yet.
fn row(range: &Range, name: u32) -> FunctionCode {
    FunctionCode {
        start: range.start,
        len: range.len,
        name,
        role: range.role,
        part: range.part,
        states: Vec::new(),
        lines: Vec::new(),
        calls: Vec::new(),
        frame_offset: None,
        frame_position: None,
    }
}

/// The table in the making.
struct Table {
    names: Names,
    lines: Lines,
    rows: BTreeMap<u64, FunctionCode>,
}

impl Table {
    /// The row of the range with this address.
    fn row(&mut self, address: u64) -> Option<&mut FunctionCode> {
        let row = self.rows.range_mut(..=address).next_back()?.1;
        (address - row.start < row.len).then_some(row)
    }

    /// Adds what the instructions of a function say, to the rows of all of its parts.
    fn fill(
        &mut self,
        function: &state::Function,
        image: &Image<'_>,
        pads: &[LandingPad],
        start: u64,
        name_at: &BTreeMap<u64, String>,
    ) {
        let findings = function.findings(image, pads);
        // A jump to where no function begins leads to more code of this one.
        let tail = |target| name_at.get(&target).is_some_and(|name| !name.is_empty());
        if function.exits().all(tail)
            && let Some(row) = self.row(start)
        {
            row.frame_offset = findings.frame_offset.known();
            row.frame_position = findings.frame_position.known();
        }
        for (address, state) in function.addresses().zip(findings.states) {
            let place = self.lines.at(address, &mut self.names);
            let Some(row) = self.row(address) else { continue };
            let offset = (address - row.start) as u32;
            if row.states.last().map_or(State::Unknown, |s| s.1) != state {
                row.states.push((offset, state));
            }
            if row.lines.last().map_or(0, |l| l.1) != place {
                row.lines.push((offset, place));
            }
        }
        for (behind, target) in function.calls() {
            let name = target.and_then(|t| name_at.get(&t)).filter(|name| !name.is_empty());
            let name = name.map_or(0, |name| self.names.number(name) + 1);
            // The byte in front belongs to the call.
            if let Some(row) = self.row(behind - 1) {
                row.calls.push(((behind - row.start) as u32, name));
            }
        }
    }

    /// Notes that an instrumented function goes on at an address where no function is known to begin. Returns where that code is, if
    /// it is none of another instrumented function.
    fn lose(&mut self, target: u64, image: &Image<'_>) -> Option<(u64, u64)> {
        let next = self.rows.range(target.checked_add(1)?..).next().map(|(start, _)| *start);
        if let Some(row) = self.row(target) {
            if row.role == Role::Plain {
                row.role = Role::Opaque;
            }
            return (row.role == Role::Opaque).then_some((row.start, row.len));
        }
        let end = target.saturating_add(image.bytes(target).len() as u64);
        let len = next.map_or(end, |next| next.min(end)) - target;
        let range = Range { start: target, len, symbol: None, role: Role::Opaque, part: false };
        if !(1..=u64::from(u32::MAX)).contains(&len) {
            return None;
        }
        let name = self.names.number("");
        self.rows.insert(target, row(&range, name));
        Some((target, len))
    }
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
                data.and_then(|data| landing_pads(data, lsda, start).ok())
            }
            _ => None,
        };
        found.insert(start, Unwind { len: fde.len(), pads });
    }
    found
}

/// Reads the call sites of the language-specific data area at an address, of the range that begins at `start` (the Itanium C++ ABI's, which GCC and LLVM write for all languages).
fn landing_pads(data: &[u8], address: u64, start: u64) -> gimli::Result<Vec<LandingPad>> {
    let len = data.len();
    let mut data = EndianSlice::new(data, LittleEndian);
    let wrong = |encoding| gimli::Error::UnsupportedPointerEncoding(gimli::DwEhPe(encoding));
    // Where a function has several parts, its landing pads are in one of them.
    let mut base = start;
    match gimli::DwEhPe(data.read_u8()?) {
        gimli::DW_EH_PE_omit => {}
        gimli::DW_EH_PE_absptr => base = data.read_u64()?,
        gimli::DW_EH_PE_pcrel => {
            let here = address.wrapping_add((len - data.len()) as u64);
            base = here.wrapping_add(data.read_u64()?);
        }
        other => return Err(wrong(other.0)),
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
            pads.push(LandingPad { from, to: from.wrapping_add(len), pad: base.wrapping_add(pad) });
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
    /// Where the linker's stubs are.
    stubs: Vec<std::ops::Range<u64>>,
    /// Code that the machine outliner has taken out of functions.
    outlined: HashMap<u64, state::Function>,
    /// Functions that may come back with another id.
    opaque: HashSet<u64>,
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
            stubs: file
                .sections()
                .filter(|s| s.name().is_ok_and(|name| name.starts_with(".plt") || name == ".iplt"))
                .map(|s| s.address()..s.address().saturating_add(s.size()))
                .collect(),
            outlined: HashMap::new(),
            opaque: HashSet::new(),
        };
        image.read_relocations();
        if file.kind() == object::ObjectKind::Executable {
            image.scan_data();
        }
        image.taken.sort_unstable();
        image.taken.dedup();
        image
    }

    /// The bytes of a range, as far as the file has them.
    fn code(&self, range: &Range) -> &[u8] {
        let bytes = self.bytes(range.start);
        bytes.get(..range.len as usize).unwrap_or_default()
    }

    /// Whether a linker's stub is at an address.
    fn is_stub(&self, address: u64) -> bool {
        self.stubs.iter().any(|stubs| stubs.contains(&address))
    }

    /// Whether a range that is not in the dictionary names the thread's block, and is none of the runtime's.
    fn changes_id(&self, range: &Range, name: &str) -> bool {
        let bytes = self.code(range);
        let may = bytes.contains(&0x64) || !self.slots.is_empty();
        let code = || state::Function::new(&[(range.start, bytes)]);
        let runtime =
            |name: String| ["pcce_", "__pcce_", "<pcce_runtime"].iter().any(|p| name.starts_with(p));
        may && code().is_some_and(|code| code.names_block(self)) && !runtime(names::demangle(name))
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

    fn called(&self, address: u64) -> Called<'_> {
        match self.outlined.get(&address) {
            Some(code) => Called::Outlined(code),
            None if self.opaque.contains(&address) => Called::Opaque,
            None => Called::Function,
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
            let slot = state::Function::new(&[(start, bytes)]).and_then(|f| f.jumps_through());
            if let Some(name) = slot.and_then(|slot| image.imports.get(&slot)) {
                stubs.insert(start, (bytes.len() as u64, name.clone()));
            }
        }
    }
    stubs
}
