//! Where the no-ops of the modules are in the linked file, and whose bodies of functions.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions};
use memchr::memmem;
use pcce_abi::FunctionRecord;
use pcce_abi::no_op::{self, Kind, Name};

use crate::Error;
use crate::image::Image;
use crate::modules::{LinkModule, Modules, Place};

/// No-ops whose name is that of several modules.
type Shared = Vec<(u64, Name)>;

/// Finds the no-ops of the modules. `left_out`: those of which the linker has left out the sites, by their names.
///
/// # Errors
/// Nothing tells whose a no-op is, or it is one of those.
pub fn find(image: &Image, modules: &mut Modules, left_out: &HashMap<u32, String>) -> Result<(), Error> {
    let mut names: HashMap<u32, Vec<usize>> = HashMap::new();
    for (i, module) in modules.list.iter().enumerate() {
        names.entry(module.facts.module).or_default().push(i);
    }
    let finder = memmem::Finder::new(&no_op::OPCODE);
    let mut shared: Shared = Vec::new();
    for section in image.sections.iter().filter(|section| section.is_code) {
        let content = image.content(section);
        for at in finder.find_iter(content) {
            let Some(from) = at.checked_sub(no_op::PREFIXES) else { continue };
            let name =
                content.get(from..from + no_op::LEN).and_then(|bytes| Name::of(bytes.try_into().ok()?));
            let Some(name) = name else { continue };
            let address = section.addresses.start + from as u64;
            match (names.get(&name.module).map(Vec::as_slice), left_out.get(&name.module)) {
                (None, None) => {}
                (None, Some(module)) => return Err(Error::NoSites { module: module.clone() }),
                (Some(&[module]), None) => add(image, modules, (address, name), module),
                (Some(_), _) => shared.push((address, name)),
            }
        }
    }
    tell_apart(image, modules, &names, &shared)
}

fn add(image: &Image, modules: &mut Modules, (address, name): (u64, Name), module: usize) {
    let facts = &modules.list[module];
    match name.kind {
        Kind::Update if (name.index as usize) < facts.facts.updates.len() => {
            let before = facts.update_len() - no_op::LEN;
            let start = address.wrapping_sub(before as u64);
            if before == 0 || image.at(start).starts_with(&no_op::LIBRARY_PREFIXES) {
                modules.updates.insert(start, (module, name.index));
            }
        }
        Kind::Stub if (name.index as usize) < facts.stub_calls.len() => {
            modules.stubs.insert((module, name.index), address);
        }
        Kind::Stub if name.index as usize == facts.stub_calls.len() => {
            let len = facts.facts.room as usize * no_op::WIDE_LEN;
            let rest = image.at(address).get(..len).and_then(|room| room.get(no_op::LEN..));
            if rest.is_some_and(|rest| rest.iter().all(|&byte| byte == 0xcc)) {
                modules.room.extend((address..address + len as u64).step_by(no_op::WIDE_LEN));
            }
        }
        _ => {}
    }
}

/// Finds out to which module each no-op belongs that has the name of several ones: an update is in the code of its
/// function, and a stub is called there.
fn tell_apart(
    image: &Image,
    modules: &mut Modules,
    names: &HashMap<u32, Vec<usize>>,
    shared: &Shared,
) -> Result<(), Error> {
    let stubs = shared.iter().filter(|(_, name)| name.kind == Kind::Stub).map(|&(address, _)| address);
    let uses = uses(image, &stubs.collect());
    for &(address, name) in shared {
        let function = |module: usize| {
            let module = &modules.list[module];
            let index = name.index as usize;
            let function = match name.kind {
                Kind::Update => module.facts.updates.get(index)?.function as usize,
                Kind::Stub => module.stub_calls.get(index)?.0,
            };
            code_of(image, module.addresses[function])
        };
        let places = match name.kind {
            Kind::Update => vec![address],
            Kind::Stub => uses.get(&address).cloned().unwrap_or_default(),
        };
        let is_in = |&module: &usize| {
            function(module).is_some_and(|code| places.iter().any(|place| code.contains(place)))
        };
        let candidates = &names[&name.module];
        let owners: Vec<usize> = candidates.iter().copied().filter(is_in).collect();
        match *owners {
            [owner] => add(image, modules, (address, name), owner),
            // A stub that nothing uses.
            _ if places.is_empty() => {}
            _ => {
                let name = |module: Option<&usize>| {
                    module.map(|&module| modules.list[module].symbols.name.clone()).unwrap_or_default()
                };
                return Err(Error::SameName {
                    module: name(candidates.last()),
                    other: name(candidates.first()),
                });
            }
        }
    }
    Ok(())
}

/// The code of the function that begins there, as far as its symbol tells.
fn code_of(image: &Image, address: u64) -> Option<Range<u64>> {
    Some(address..address.checked_add(*image.sizes.get(&address)?)?)
}

/// The places in the code that seem to refer to these addresses.
fn uses(image: &Image, addresses: &HashSet<u64>) -> HashMap<u64, Vec<u64>> {
    let mut uses: HashMap<u64, Vec<u64>> = HashMap::new();
    if addresses.is_empty() {
        return uses;
    }
    for section in image.sections.iter().filter(|section| section.is_code) {
        for (at, target) in targets(image.content(section), section.addresses.start) {
            if addresses.contains(&target) {
                uses.entry(target).or_default().push(at);
            }
        }
    }
    uses
}

/// What each four bytes of code would refer to if an instruction ended with them and counted from its end, with their
/// address.
pub fn targets(content: &[u8], start: u64) -> impl Iterator<Item = (u64, u64)> {
    content.windows(4).zip(start..).map(|(word, at)| {
        let distance = i32::from_le_bytes(word.try_into().expect("4 bytes"));
        (at, at.wrapping_add(4).wrapping_add_signed(distance.into()))
    })
}

/// Says whose bodies are in the file. Linkers may let the address of a body that was dropped be that of the one that
/// was kept.
pub fn find_owners(image: &Image, modules: &mut Modules) {
    let updates = modules.updates.values().map(|&(module, number)| {
        (module, modules.list[module].facts.updates[number as usize].function as usize)
    });
    // Stubs are dropped together with their callers.
    let stubs = modules
        .stubs
        .keys()
        .map(|&(module, number)| (module, modules.list[module].stub_calls[number as usize].0));
    let seen: HashSet<Place> = updates.chain(stubs).collect();
    let mut claims: BTreeMap<u64, Vec<Place>> = BTreeMap::new();
    for (m, module) in modules.list.iter().enumerate() {
        for (f, &address) in module.addresses.iter().enumerate().filter(|(_, address)| **address != 0) {
            claims.entry(address).or_default().push((m, f));
        }
    }
    for (address, claims) in claims {
        let shown = || claims.iter().copied().find(|place| seen.contains(place));
        let owner = match *claims {
            [place] => place,
            // One that shows neither sites nor a record shows no module.
            _ => shown().or_else(|| by_references(image, modules, address, &claims)).unwrap_or(claims[0]),
        };
        modules.owners.insert(address, owner);
    }
}

/// Whose sites, or whose records of verify mode, the code at the address refers to.
fn by_references(image: &Image, modules: &Modules, address: u64, claims: &[Place]) -> Option<Place> {
    let size = image.sizes.get(&address).copied().unwrap_or(0);
    let code = image.at(address);
    let code = &code[..code.len().min(size as usize)];
    let mut referred = Vec::new();
    for instruction in &mut Decoder::with_ip(64, code, address, DecoderOptions::NONE) {
        if instruction.is_ip_rel_memory_operand() {
            referred.push(instruction.ip_rel_memory_address());
        }
        if image.is_fixed {
            let immediates = (0..instruction.op_count()).filter_map(|i| instruction.try_immediate(i).ok());
            referred.extend(immediates);
        }
    }
    let refers = |&(module, _): &Place| {
        let LinkModule { symbols, facts, records, .. } = &modules.list[module];
        let from = |start: u64, len: usize| start..start.saturating_add(len as u64);
        let sites = from(symbols.sites_address, symbols.sites.len());
        // Without optimisation, the code adds to the address of the first one.
        let records = records.map(|at| from(at, facts.functions.len() * size_of::<FunctionRecord>()));
        let is_its = |at: &u64| sites.contains(at) || records.as_ref().is_some_and(|r| r.contains(at));
        referred.iter().any(is_its)
    };
    claims.iter().copied().find(refers)
}
