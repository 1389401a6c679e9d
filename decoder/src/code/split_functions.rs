//! Functions in several parts: compilers move cold basic blocks, or all of them, away from the entry.
//!
//! LLVM gives each part a symbol: its function's name with one of [`SUFFIXES`], or with [`NUMBERED`] and a
//! number. Where several functions have that name, jumps show to which of them the part belongs. Otherwise the
//! part has no known function.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use object::{Object, ObjectSymbol, SymbolKind};
use pcce_dictionary::code::Role;

use super::image::Image;
use super::ranges::{Range, whole};

/// Finds the parts of instrumented functions: their indices, by the index of the function. Parts get the role
/// of their function. Parts whose function is unknown become opaque.
pub(super) fn find(
    ranges: &mut [Range<'_>],
    file: &object::File<'_>,
    image: &Image<'_>,
) -> BTreeMap<usize, Vec<usize>> {
    let mut parts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (number, range) in ranges.iter().enumerate().filter(|(_, r)| r.role == Role::Plain) {
        if let Some(whole) = range.symbol.and_then(whole) {
            parts.entry(whole).or_default().push(number);
        }
    }
    if parts.is_empty() {
        return BTreeMap::new();
    }
    let mut named: HashMap<&str, BTreeSet<usize>> = HashMap::new();
    for symbol in file.symbols().filter(|s| s.kind() == SymbolKind::Text && !s.is_undefined()) {
        if let Ok(name) = symbol.name()
            && parts.contains_key(name)
            && let Ok(number) = ranges.binary_search_by_key(&symbol.address(), |r| r.start)
        {
            named.entry(name).or_default().insert(number);
        }
    }
    let mut found = Vec::new();
    for (name, parts) in parts {
        let functions: Vec<usize> = named.remove(name).unwrap_or_default().into_iter().collect();
        match functions[..] {
            [one] => found.extend(parts.into_iter().map(|part| (part, Some(one)))),
            _ => found.extend(by_jumps(&functions, &parts, ranges, image)),
        }
    }
    let mut owned: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (part, function) in found {
        match function.map(|function| (function, ranges[function].role)) {
            Some((function, role @ Role::Instrumented(..))) => {
                ranges[part].role = role;
                ranges[part].part = true;
                owned.entry(function).or_default().push(part);
            }
            Some(_) => {}
            None => ranges[part].role = Role::Opaque,
        }
    }
    owned
}

/// Finds the owners of parts among functions of one name, by the jumps between them. None where that is not
/// clear.
fn by_jumps(
    functions: &[usize],
    parts: &[usize],
    ranges: &[Range<'_>],
    image: &Image<'_>,
) -> Vec<(usize, Option<usize>)> {
    // Both are by address, as the ranges are.
    debug_assert!(functions.is_sorted() && parts.is_sorted());
    let is_function = |number: &usize| functions.binary_search(number).is_ok();
    let mut all: Vec<usize> = functions.iter().chain(parts).copied().collect();
    all.sort_unstable();
    let at = |address: u64| {
        let found = all.partition_point(|&n| ranges[n].start <= address).checked_sub(1)?;
        let range = &ranges[all[found]];
        // A jump to the beginning of a function may be a call.
        let call = address == range.start && is_function(&all[found]);
        (address - range.start < range.len && !call).then_some(found)
    };
    // The group of each range, named by its smallest member.
    let mut groups: Vec<usize> = (0..all.len()).collect();
    for from in 0..all.len() {
        let range = &ranges[all[from]];
        let Some(code) = image.function(range) else { continue };
        for to in code.jumps().chain(code.falls_through_to()).filter_map(at) {
            let (from, to) = (root(&mut groups, from), root(&mut groups, to));
            groups[from.max(to)] = from.min(to);
        }
    }
    let mut owners: HashMap<usize, Vec<usize>> = HashMap::new();
    for (n, &number) in all.iter().enumerate().filter(|(_, number)| is_function(number)) {
        owners.entry(root(&mut groups, n)).or_default().push(number);
    }
    let parts = all.iter().enumerate().filter(|(_, number)| parts.binary_search(number).is_ok());
    let parts: Vec<(usize, usize)> = parts.map(|(n, &number)| (n, number)).collect();
    let owner = |group: usize| match owners.get(&group).map(Vec::as_slice) {
        Some(&[one]) => Some(one),
        _ => None,
    };
    parts.into_iter().map(|(n, number)| (number, owner(root(&mut groups, n)))).collect()
}

fn root(groups: &mut [usize], mut n: usize) -> usize {
    while groups[n] != n {
        groups[n] = groups[groups[n]];
        n = groups[n];
    }
    n
}
