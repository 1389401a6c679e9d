//! Which functions anything reaches that is not encoded: code of other modules, pointers, the dynamic linker.
//!
//! Modules say what they reach otherwise than by calls that the step sees, in a section of addresses, and what their
//! assembly may name. Of code without the pass nothing says so: whatever could be the address of a function is taken
//! for one, in code and data. To believe one too many costs a little, and to miss one would make wrong contexts. In
//! code of the modules, calls are known.

use std::collections::{BTreeMap, HashSet};

use pcce_abi::stub;
use pcce_dictionary::code;
use pcce_model::CallKind;

use crate::Error;
use crate::image::{Image, Section};
use crate::modules::{Modules, Place};

/// Functions that are reached, by their addresses.
#[derive(Debug, Default)]
pub struct References {
    /// By other images, by name.
    pub exported: HashSet<u64>,
    /// By code that is not encoded, or through pointers.
    pub taken: HashSet<u64>,
    /// Functions that make streams are imported.
    pub makes_streams: bool,
    /// Functions that set handlers of C++ are imported.
    pub sets_handlers: bool,
}

/// Sections whose addresses of functions are for unwinding only.
const UNWINDING: [&str; 3] = [".eh_frame", ".eh_frame_hdr", ".gcc_except_table"];

/// The functions, to be looked up quickly.
struct Functions<'a> {
    modules: &'a Modules,
    begins: Begins,
}

impl Functions<'_> {
    fn begin(&self, address: u64) -> bool {
        self.begins.contain(address)
    }
}

/// Where functions begin.
#[derive(Default)]
struct Begins {
    first: u64,
    /// Whether one begins at an address, from the first one on.
    table: Vec<bool>,
    /// Those behind the table.
    beyond: HashSet<u64>,
}

impl Begins {
    /// Bytes of the table, at most: a file says how far functions are from each other.
    const TABLE: u64 = 1 << 27;

    /// `addresses`: ascending.
    fn new(addresses: impl DoubleEndedIterator<Item = u64> + Clone) -> Self {
        let (Some(first), Some(last)) = (addresses.clone().next(), addresses.clone().next_back()) else {
            return Self::default();
        };
        let mut begins = Self { first, ..Self::default() };
        begins.table.resize((last - first).min(Self::TABLE - 1) as usize + 1, false);
        for address in addresses {
            match begins.table.get_mut((address - first) as usize) {
                Some(begin) => *begin = true,
                None => _ = begins.beyond.insert(address),
            }
        }
        begins
    }

    fn contain(&self, address: u64) -> bool {
        let at = address.wrapping_sub(self.first);
        match self.table.get(at as usize) {
            Some(&begins) => begins,
            None => self.beyond.contains(&address),
        }
    }
}

/// Finds the references.
///
/// # Errors
/// A section cannot be read.
pub fn find(image: &Image, modules: &Modules) -> Result<References, Error> {
    let mut found = References {
        exported: image.exported.iter().copied().collect(),
        makes_streams: image.imported.iter().any(|name| pcce_model::makes_streams(name)),
        sets_handlers: image.imported.iter().any(|name| pcce_model::sets_handlers(name)),
        ..References::default()
    };
    let functions = Functions { modules, begins: Begins::new(modules.owners.keys().copied()) };
    found.taken.extend(image.relocated.iter().copied().filter(|&address| functions.begin(address)));
    found.taken.extend(stated(image, modules)?.into_iter().filter(|&address| functions.begin(address)));
    let covered = covered(image, modules);
    for section in &image.sections {
        match section.is_code {
            true => scan_code(image, section, &functions, &covered, &mut found.taken),
            false if UNWINDING.contains(&&*section.name) => {}
            false => scan_data(image, section, &functions, &mut found.taken),
        }
    }
    Ok(found)
}

/// What the modules say that they reach.
fn stated(image: &Image, modules: &Modules) -> Result<Vec<u64>, Error> {
    let section = image.debug_section(code::REACHED_SECTION)?;
    let words = section.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
    let mut stated: Vec<u64> = words.collect();
    let assembly = || modules.list.iter().map(|module| &module.facts.assembly);
    if assembly().any(|assembly| assembly.opaque) {
        stated.extend(modules.owners.keys());
    }
    let names: HashSet<&str> = assembly().flat_map(|assembly| &assembly.names).map(|name| &**name).collect();
    if !names.is_empty() {
        // The linker may have put a wrapper into the place of what was named, or what it wraps.
        let plain = |name: &str| {
            let name = name.split('@').next().unwrap_or(name);
            names.contains(name)
                || name.strip_prefix("__wrap_").is_some_and(|name| names.contains(name))
                || names.contains(&*format!("__real_{name}"))
        };
        stated.extend(image.symbols_named(plain)?);
    }
    Ok(stated)
}

/// What is known of a range of code.
enum Covered {
    /// A function of a module.
    Function(Place),
    /// A stub.
    Stub,
}

/// The code of the modules, by its beginning: the end, and what it is.
fn covered(image: &Image, modules: &Modules) -> BTreeMap<u64, (u64, Covered)> {
    let functions = modules.owners.iter().filter_map(|(&address, &place)| {
        let size = *image.sizes.get(&address)?;
        Some((address, (address.saturating_add(size), Covered::Function(place))))
    });
    let stubs =
        modules.stubs.values().map(|&stub| (stub, (stub.saturating_add(stub::LEN as u64), Covered::Stub)));
    functions.chain(stubs).collect()
}

fn scan_data(image: &Image, section: &Section, functions: &Functions<'_>, taken: &mut HashSet<u64>) {
    let content = image.content(section);
    for word in content.windows(8).step_by(4) {
        let address = u64::from_le_bytes(word.try_into().expect("8 bytes"));
        if functions.begin(address) {
            taken.insert(address);
        }
    }
    // Tables of distances: from where they stand, or from the table's beginning.
    for (word, place) in content.chunks_exact(4).zip((section.addresses.start..).step_by(4)) {
        let distance = i64::from(i32::from_le_bytes(word.try_into().expect("4 bytes")));
        let symbols = image.data.partition_point(|&symbol| symbol <= place);
        for base in image.data[..symbols].last().into_iter().chain([&place]) {
            let address = base.wrapping_add_signed(distance);
            if functions.begin(address) {
                taken.insert(address);
            }
        }
    }
}

fn scan_code(
    image: &Image,
    section: &Section,
    functions: &Functions<'_>,
    covered: &BTreeMap<u64, (u64, Covered)>,
    taken: &mut HashSet<u64>,
) {
    let content = image.content(section);
    for (at, word) in content.windows(4).enumerate() {
        let word = u32::from_le_bytes(word.try_into().expect("4 bytes"));
        if image.is_fixed && functions.begin(word.into()) {
            taken.insert(word.into());
        }
        let address = section.addresses.start.wrapping_add(at as u64);
        let target = address.wrapping_add(4).wrapping_add_signed((word as i32).into());
        if !functions.begin(target) || word == 0 && !reaches_next(&content[..at]) {
            continue;
        }
        let own = covered.range(..=address).next_back().filter(|(_, (end, _))| address < *end);
        let known = match own {
            Some((_, (_, Covered::Stub))) => true,
            Some((&start, (_, Covered::Function(place)))) => {
                // A call, or a jump of a loop to the function's beginning.
                match at.checked_sub(1).map_or(0, |before| content[before]) {
                    0xe8 => calls(functions.modules, *place, target),
                    0xe9 | 0x80..=0x8f => target == start,
                    _ => false,
                }
            }
            None => false,
        };
        if !known {
            taken.insert(target);
        }
    }
}

/// Whether a distance of 0 can belong to an instruction that ends so, and reaches what follows: a call, a jump, or one
/// that computes an address. Elsewhere zeros are padding.
fn reaches_next(before: &[u8]) -> bool {
    match before {
        [.., 0xe8 | 0xe9] | [.., 0x0f, 0x80..=0x8f] => true,
        // The byte of a memory operand that counts from the instruction's end.
        [.., operand] => operand & 0xc7 == 0x05,
        [] => false,
    }
}

/// Whether the function calls the one at this address by itself.
fn calls(modules: &Modules, (module, function): Place, address: u64) -> bool {
    let module = &modules.list[module];
    let calls = &module.facts.functions[function].calls;
    // What assembly calls is not known.
    calls.iter().all(|call| call.kind != CallKind::Asm)
        && calls.iter().any(|call| match call.kind {
            CallKind::Direct(callee) => module.addresses[callee.index()] == address,
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However far functions are from each other, each is found, and the table stays small.
    #[test]
    fn functions_are_found_wherever_they_are() {
        let addresses =
            [0x1000, 0x1010, 0x1000 + Begins::TABLE - 1, 0x1000 + Begins::TABLE, 1 << 41, u64::MAX];
        let begins = Begins::new(addresses.into_iter());
        assert!(addresses.iter().all(|&address| begins.contain(address)));
        let others = [0, 0xfff, 0x1001, 0xfff + (1 << 41), 1 + Begins::TABLE, u64::MAX - 1];
        assert!(!others.iter().any(|&address| begins.contain(address)));
        assert_eq!(begins.table.len() as u64, Begins::TABLE);
        assert!(!Begins::new([].into_iter()).contain(0));
    }
}
