//! The ranges of a program's functions, and their roles in the dictionary.

use std::collections::{BTreeMap, HashMap};

use object::{Object, ObjectSymbol, SymbolKind};
use pcce_dictionary::Module;
use pcce_dictionary::code::Role;

use super::unwind::Unwind;

/// The roles that the dictionary gives to addresses. Where a linker has replaced one function by another, the
/// first one counts.
pub(super) fn roles(modules: &[Module], addresses: &[(u64, Vec<u64>)]) -> BTreeMap<u64, (Role, bool)> {
    let mut roles = BTreeMap::new();
    // A module has a second list if its functions have second bodies, which record.
    let mut lists: HashMap<u64, Vec<&[u64]>> = HashMap::new();
    for (sites, list) in addresses {
        lists.entry(*sites).or_default().push(list);
    }
    for (number, module) in modules.iter().enumerate() {
        let lists = lists.get(&module.sites_address).into_iter().flatten();
        for (nth, list) in lists.filter(|list| list.len() == module.functions.len()).enumerate() {
            for (function, &address) in list.iter().enumerate().filter(|(_, a)| **a != 0) {
                let role = Role::Instrumented(number as u32, function as u32);
                roles.entry(address).or_insert((role, nth > 0));
            }
        }
    }
    roles
}

/// The range of a function, or of a part of one.
pub(super) struct Range<'f> {
    pub(super) start: u64,
    pub(super) len: u64,
    pub(super) symbol: Option<&'f str>,
    pub(super) role: Role,
    /// True if it is a part of a function that begins elsewhere.
    pub(super) part: bool,
    /// True if it is the function's second body.
    pub(super) second: bool,
}

impl<'f> Range<'f> {
    /// The linkage name; empty if it has none.
    pub(super) fn name<'m: 'f>(&self, modules: &'m [Module]) -> &'f str {
        let row = match self.role {
            Role::Instrumented(module, function) => modules.get(module as usize).and_then(|module| {
                let name = module.functions.get(function as usize)?.name;
                module.names.get(name as usize).map(String::as_str)
            }),
            _ => None,
        };
        row.or(self.symbol).unwrap_or_default()
    }
}

/// All functions, by ascending address, without overlaps.
pub(super) fn ranges<'f>(
    file: &object::File<'f>,
    unwind: &BTreeMap<u64, Unwind>,
    roles: BTreeMap<u64, (Role, bool)>,
    stubs: BTreeMap<u64, (u64, &'f str)>,
) -> Vec<Range<'f>> {
    let mut symbols = stubs;
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        // Symbols of parts have no type.
        let part = || symbol.kind() == SymbolKind::Unknown && symbol.name().is_ok_and(is_part);
        let code = symbol.kind() == SymbolKind::Text || part();
        if !code || symbol.is_undefined() || symbol.address() == 0 {
            continue;
        }
        let known = symbols.get(&symbol.address()).map_or(0, |s| s.0);
        if symbol.size() > known
            && let Ok(name) = symbol.name()
            && !name.contains(pcce_abi::skeleton::FUNCTION_SYMBOLS)
        {
            symbols.insert(symbol.address(), (symbol.size(), name));
        }
    }
    let mut starts: BTreeMap<u64, Range> = BTreeMap::new();
    for (&start, (len, name)) in &symbols {
        starts.insert(
            start,
            Range { start, len: *len, symbol: Some(name), role: Role::Plain, part: false, second: false },
        );
    }
    for (&start, entry) in unwind {
        let role = Role::Plain;
        starts.entry(start).or_insert(Range {
            start,
            len: entry.len,
            symbol: None,
            role,
            part: false,
            second: false,
        });
    }
    for (start, role) in roles {
        // A function without a symbol and an unwind entry has no known length, and is left out.
        if let Some(range) = starts.get_mut(&start) {
            (range.role, range.second) = role;
        }
    }
    let mut ranges: Vec<Range<'f>> = Vec::with_capacity(starts.len());
    for range in starts.into_values() {
        if range.len == 0 || range.len > u64::from(u32::MAX) || range.start.checked_add(range.len).is_none() {
            continue;
        }
        match ranges.last() {
            Some(last) if last.start + last.len > range.start => {
                // One range inside another: a second entry point, or assembly. An instrumented range is kept,
                // and one with a name: the unwind tables have one entry for all stubs of the linker.
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

/// Suffixes of the symbols of parts (LLVM's `MachineBasicBlock::getSymbol`, `MachineFunctionSplitter`).
const SUFFIXES: [&str; 2] = [".cold", ".eh"];
const NUMBERED: &str = ".__part.";

/// The name of the function of which a symbol names a part.
pub(super) fn whole(symbol: &str) -> Option<&str> {
    let numbered = || {
        let (whole, number) = symbol.rsplit_once(NUMBERED)?;
        number.bytes().all(|b| b.is_ascii_digit()).then_some(whole)
    };
    SUFFIXES.iter().find_map(|suffix| symbol.strip_suffix(suffix)).or_else(numbered)
}

/// Returns whether a symbol names a part.
pub(super) fn is_part(symbol: &str) -> bool {
    whole(symbol).is_some()
}

/// Returns whether a symbol names code that LLVM's machine outliner took out of several functions.
pub(super) fn is_outlined(symbol: &str) -> bool {
    symbol.starts_with("OUTLINED_FUNCTION_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_parts() {
        for (symbol, expected) in [
            ("f.__part.12", Some("f")),
            ("f.cold", Some("f")),
            ("f.eh", Some("f")),
            ("f.llvm.1.__part.0", Some("f.llvm.1")),
            ("f", None),
            ("f.cold.1", None),
            ("f.__part.x", None),
        ] {
            assert_eq!(whole(symbol), expected, "{symbol}");
        }
        assert!(is_outlined("OUTLINED_FUNCTION_3") && !is_outlined("outlined"));
    }
}
