//! The table of a program's machine code, from its file.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use object::{Object, ObjectSymbol};
use pcce_abi::functions::OPEN_THUNK;
use pcce_abi::trace::{self, RECORDING_BODY};
use pcce_dictionary::Module;
use pcce_dictionary::code::{Code, FunctionCode, Role, State};

use super::elf::{names_are_bounded, stored, tls_offset};
use super::flow::LandingPad;
use super::function::{CallTarget, Function, Surroundings};
use super::image::{Image, stubs};
use super::lines::{Lines, Named, Names};
use super::machine::Control;
use super::ranges::{Range, is_outlined, ranges, roles};
use super::unwind::unwind_tables;
use super::{findings, split_functions};

/// Bound on the bytes of an instruction.
const MAX_INSTRUCTION: usize = 16;

/// Makes the table of a linked program. `file` has its symbols and debug information, `loaded` its
/// instructions and unwind tables: the same file, or the stripped program beside its debug file. `addresses`:
/// the content of [`SECTION`](pcce_dictionary::code::SECTION).
pub(crate) fn build(
    file: &object::File<'_>,
    loaded: &object::File<'_>,
    modules: &[Module],
    addresses: &[(u64, Vec<u64>)],
) -> Code {
    let (Some(len), Some(_)) = (stored(file), stored(loaded)) else { return Code::default() };
    if !names_are_bounded(file) || !names_are_bounded(loaded) {
        return Code::default();
    }
    let Some(mut image) = Image::new(loaded, tls_offset(file)) else { return Code::default() };
    let unwind = unwind_tables(loaded);
    let mut ranges = ranges(file, &unwind, roles(modules, addresses), stubs(&image));
    let mut parts = split_functions::find(&mut ranges, file, &image);
    let mut name_at = named(file, &ranges, modules);
    for range in ranges.iter_mut().filter(|r| r.role == Role::Plain) {
        if range.symbol.is_some_and(is_outlined) {
            range.role = Role::Opaque;
            if let Some(code) = image.function(range) {
                image.outlined.insert(range.start, code);
            }
        } else if image.changes_id(range, name_at[&range.start].0) {
            range.role = Role::Opaque;
            image.opaque.insert(range.start);
        }
    }
    name_at.extend(inner_entries(file, &image, &ranges, &name_at));
    let mut table = Table { names: Names::new(), lines: Lines::new(file, len), rows: BTreeMap::new() };
    for range in &ranges {
        let name = table.names.number(name_at[&range.start]);
        table.rows.insert(range.start, row(range, name));
    }
    // Jump targets at which no known function begins.
    let mut elsewhere = BTreeSet::new();
    for (number, range) in ranges.iter().enumerate() {
        if !matches!(range.role, Role::Instrumented(..)) || range.part {
            continue;
        }
        let parts = parts.remove(&number).unwrap_or_default();
        let parts: Vec<&Range<'_>> =
            std::iter::once(range).chain(parts.iter().map(|&part| &ranges[part])).collect();
        let code: Vec<_> = parts.iter().map(|part| (part.start, image.code(part))).collect();
        let function = Function::new(image.machine, &code);
        if let Some(function) = &function {
            let unknown =
                function.exits().filter(|target| name_at.get(target).is_none_or(|name| name.0.is_empty()));
            elsewhere.extend(unknown);
        }
        let pads =
            |part: &&Range<'_>| unwind.get(&part.start).map_or(Some(&[][..]), |entry| entry.pads.as_deref());
        match (function, parts.iter().map(pads).collect::<Option<Vec<_>>>()) {
            (Some(function), Some(pads)) => {
                table.fill(&function, &image, &pads.concat(), range.start, &name_at);
            }
            _ => parts.iter().for_each(|part| table.fill_lines(part, name_at[&range.start].0)),
        }
    }
    // The code there may jump elsewhere, too.
    let mut known = elsewhere.clone();
    let mut read = BTreeSet::new();
    while let Some(target) = elsewhere.pop_first() {
        if image.is_stub(target) {
            continue;
        }
        let Some((start, len)) = table.lose(target, &image) else { continue };
        if !read.insert(start) {
            continue;
        }
        let bytes = image.bytes(start);
        let code = Function::new(image.machine, &[(start, bytes.get(..len as usize).unwrap_or_default())]);
        for next in code.iter().flat_map(Function::exits) {
            if name_at.get(&next).is_none_or(|name| name.0.is_empty()) && known.insert(next) {
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

/// The addresses at which calls by name enter functions of a program that writes traces. Functions that other code may
/// enter begin with a call of the tracer, or with the choice of a body; calls by name enter after that.
fn inner_entries<'a>(
    file: &object::File<'_>,
    image: &Image<'_>,
    ranges: &[Range<'_>],
    name_at: &BTreeMap<u64, Named<'a>>,
) -> Vec<(u64, Named<'a>)> {
    let enter = |s: &object::Symbol<'_, '_>| s.name() == Ok(trace::functions::ENTER) && !s.is_undefined();
    let enter = file.symbols().find(enter).map(|s| s.address());
    let seconds: HashMap<Role, u64> = ranges.iter().filter(|r| r.second).map(|r| (r.role, r.start)).collect();
    /// The most instructions that choose a body: those that load a byte, by a pointer where it is another image's, and
    /// compare it; then a jump.
    const CHOICE: usize = 5;
    let instruction_at = |at: u64| {
        let code = image.bytes(at);
        image.machine.instruction(at, code.get(..code.len().min(MAX_INSTRUCTION))?)
    };
    let chooses = |range: &Range<'_>| {
        let second = *seconds.get(&range.role).filter(|_| !range.second)?;
        let mut at = range.start;
        for _ in 0..CHOICE {
            let instruction = instruction_at(at)?;
            at = instruction.next();
            if instruction.jump_target() == Some(second) {
                return Some((at, name_at[&range.start]));
            }
        }
        None
    };
    let enters = |range: &Range<'_>| {
        let after = range.start.checked_add(image.machine.shared().entry_len)?;
        let mut call = instruction_at(range.start)?;
        while call.next() < after {
            call = instruction_at(call.next())?;
        }
        let enters = call.next() == after && enter.map(Control::Call) == Some(call.control);
        enters.then_some((after, name_at[&range.start]))
    };
    let instrumented = ranges.iter().filter(|r| matches!(r.role, Role::Instrumented(..)));
    instrumented.filter_map(|range| enters(range).or_else(|| chooses(range))).collect()
}

/// The row of a range of which nothing is known yet.
fn row(range: &Range<'_>, name: u32) -> FunctionCode {
    FunctionCode {
        start: range.start,
        len: range.len,
        name,
        role: range.role,
        part: range.part,
        second: range.second,
        states: Vec::new(),
        lines: Vec::new(),
        calls: Vec::new(),
        frame_offset: None,
        frame_position: None,
        stays: false,
    }
}

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

    /// Adds the findings about a function to the rows of all of its parts.
    fn fill(
        &mut self,
        function: &Function,
        image: &Image<'_>,
        pads: &[LandingPad],
        start: u64,
        name_at: &BTreeMap<u64, Named<'_>>,
    ) {
        let own_name = name_at.get(&start);
        let own = own_name.map_or("", |name| name.0);
        let is_own = |target: &u64| {
            let Some(name) = name_at.get(target) else { return false };
            let calls = name.0.strip_suffix(OPEN_THUNK);
            let calls = calls.map(|name| name.strip_suffix(RECORDING_BODY).unwrap_or(name));
            calls == Some(own) || function.is_outside(*target) && Some(name) == own_name
        };
        let inner_entry = name_at.range(start..).nth(1).filter(|(_, name)| Some(*name) == own_name);
        let inner_entry =
            inner_entry.map(|(address, _)| *address).filter(|address| function.contains(*address));
        let own_targets: Vec<u64> = function.jumps().filter(is_own).chain(inner_entry).collect();
        let findings = findings::findings(function, image, pads, &own_targets);
        // A jump to an address at which no function begins leads to more code of this one.
        let tail = |target| name_at.get(&target).is_some_and(|name| !name.0.is_empty());
        if function.exits().all(tail)
            && let Some(row) = self.row(start)
        {
            row.frame_offset = findings.frame_offset.known();
            row.frame_position = findings.frame_position.known();
            row.stays = findings.stays;
        }
        for (address, state) in function.instructions.iter().map(|i| i.address).zip(findings.states) {
            let place = self.lines.at(address, own, &mut self.names);
            let Some(row) = self.row(address) else { continue };
            let offset = (address - row.start) as u32;
            if row.states.last().map_or(State::Unknown, |s| s.1) != state {
                row.states.push((offset, state));
            }
            add_line(row, offset, place);
        }
        for (return_address, target) in function.calls() {
            let name = match target {
                CallTarget::Function(address) => name_at.get(&address).copied(),
                // The call goes through the word itself, without a stub of the linker.
                CallTarget::Word(address) => image.import(address).map(|name| (name, 0)),
                CallTarget::Unknown => None,
            };
            let name = name.filter(|name| !name.0.is_empty());
            let name = name.map_or(0, |name| self.names.number(name) + 1);
            // The byte before the return address belongs to the call.
            if let Some(row) = self.row(return_address - 1) {
                row.calls.push(((return_address - row.start) as u32, name));
            }
        }
    }

    /// Adds the lines of a range to its row. This needs no instructions, which may be unknown: contexts show the
    /// inlined calls in any case.
    fn fill_lines(&mut self, range: &Range<'_>, own: &str) {
        let end = range.start.saturating_add(range.len);
        for address in range.start..end {
            let place = self.lines.at(address, own, &mut self.names);
            let Some(row) = self.row(address) else { continue };
            let offset = (address - row.start) as u32;
            add_line(row, offset, place);
        }
    }

    /// Marks the code at an address as opaque: an instrumented function jumps there, and no function is known
    /// to begin there. Returns where that code is, if it is not part of another instrumented function.
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
        let range =
            Range { start: target, len, symbol: None, role: Role::Opaque, part: false, second: false };
        if !(1..=u64::from(u32::MAX)).contains(&len) {
            return None;
        }
        let name = self.names.number(("", 0));
        self.rows.insert(target, row(&range, name));
        Some((target, len))
    }
}

/// Adds the place of the code from an offset on to its row.
fn add_line(row: &mut FunctionCode, offset: u32, place: u32) {
    if row.lines.last().map_or(0, |line| line.1) != place {
        row.lines.push((offset, place));
    }
}

/// The names of all functions, by their addresses. Local namesakes are numbered from 1 on. Functions that other
/// images can call have number 0, and so have the stubs that lead to them.
fn named<'a>(
    file: &object::File<'_>,
    ranges: &[Range<'a>],
    modules: &'a [Module],
) -> BTreeMap<u64, Named<'a>> {
    let (mut local, mut global) = (HashSet::new(), HashSet::new());
    for symbol in file.symbols().chain(file.dynamic_symbols()).filter(|s| !s.is_undefined()) {
        if symbol.is_local() { &mut local } else { &mut global }.insert(symbol.address());
    }
    let instrumented =
        |range: &Range<'_>| Some(range.role).filter(|role| matches!(role, Role::Instrumented(..)));
    let mut counts: HashMap<&str, u32> = HashMap::new();
    // A second body is local, and counts as the function.
    let (mut seen, mut global_rows) = (HashSet::new(), HashSet::new());
    for range in ranges.iter().filter(|range| !range.part) {
        let row = instrumented(range);
        global_rows.extend(row.filter(|_| global.contains(&range.start) || !local.contains(&range.start)));
        if row.is_none_or(|row| seen.insert(row)) {
            *counts.entry(range.name(modules)).or_default() += 1;
        }
    }
    let (mut numbers, mut of_rows) = (HashMap::new(), HashMap::new());
    let mut named = BTreeMap::new();
    // A part may have a lower address than its function.
    let (parts, whole): (Vec<_>, Vec<_>) = ranges.iter().partition(|range| range.part);
    for range in whole.into_iter().chain(parts) {
        let name = range.name(modules);
        let row = instrumented(range);
        let is_namesake = local.contains(&range.start)
            && !global.contains(&range.start)
            && row.is_none_or(|row| !global_rows.contains(&row) && !of_rows.contains_key(&row))
            && !range.part
            && !name.is_empty()
            && counts.get(name).is_some_and(|&count| count > 1);
        let number = match is_namesake {
            true => {
                let last = numbers.entry(name).or_insert(0);
                *last += 1;
                *last
            }
            false => row.and_then(|row| of_rows.get(&row).copied()).unwrap_or(0),
        };
        of_rows.extend(row.map(|row| (row, number)));
        named.insert(range.start, (name, number));
    }
    named
}
