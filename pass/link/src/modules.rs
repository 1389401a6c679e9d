//! The modules of the file: what their objects carry, and where their functions, updates and stubs are.

use std::collections::{BTreeMap, HashMap};

use iced_x86::{Decoder, DecoderOptions, FlowControl, OpKind};
use memchr::memmem;
use pcce_abi::no_op::{self, Kind, Name};
use pcce_dictionary::section::{self, Record};
use pcce_dictionary::{Module, code};
use pcce_model::CallKind;
use pcce_model::link::Facts;

use crate::image::Image;
use crate::{Error, references};

/// A function of a module: the module's place in the list, and the function's in the module.
pub type Place = (usize, usize);

/// A module that is to be encoded.
pub struct LinkModule {
    /// Its symbols.
    pub symbols: Module,
    /// What the pass noted for the step.
    pub facts: Facts,
    /// Where its functions are; 0 of those that are not in the file.
    pub addresses: Vec<u64>,
    /// The calls of its stubs, by their numbers.
    pub stub_calls: Vec<(usize, usize)>,
}

/// The modules of a file.
pub struct Modules {
    /// The modules that are in it.
    pub list: Vec<LinkModule>,
    /// The records of modules that are encoded already.
    pub fragments: Vec<pcce_dictionary::Fragment>,
    /// Whose bodies are at the addresses of functions.
    pub owners: BTreeMap<u64, Place>,
    /// Where updates are: ⟨module, number⟩.
    pub updates: BTreeMap<u64, (usize, u32)>,
    /// Where stubs are, by ⟨module, number⟩.
    pub stubs: HashMap<(usize, u32), u64>,
}

impl Modules {
    /// Whether the module's body of the function is the one in the file.
    pub fn owns(&self, (module, function): Place) -> bool {
        let address = self.list[module].addresses[function];
        self.owners.get(&address) == Some(&(module, function))
    }
}

/// Reads the modules.
///
/// # Errors
/// Records that cannot be read, or do not go together.
pub fn read(image: &Image) -> Result<Modules, Error> {
    let rows = code::parse_section(&image.debug_section(code::SECTION)?)?;
    let mut addresses: HashMap<u64, Vec<u64>> = rows.into_iter().filter(|row| row.0 != 0).collect();
    let (mut list, mut fragments): (Vec<LinkModule>, _) = (Vec::new(), Vec::new());
    let mut any = false;
    for record in section::parse(&image.debug_section(section::SECTION)?)? {
        let unlinked = match record {
            Record::Unlinked(unlinked) => unlinked,
            Record::Fragment(fragment) => {
                if fragment.encodings.iter().any(|encoding| encoding.open_num_cc.is_some()) {
                    return Err(Error::WholeProgram { module: fragment.module.name });
                }
                fragments.push(fragment);
                continue;
            }
            Record::Linked(_) => return Err(Error::Nothing),
        };
        any = true;
        let bad = |cause: String| Error::Facts { module: unlinked.module.name.clone(), cause };
        let facts: Facts = serde_json::from_str(&unlinked.facts).map_err(|error| bad(error.to_string()))?;
        check(&facts, &unlinked.module).map_err(|what| bad(what.to_owned()))?;
        // A module that the linker has left out.
        let Some(addresses) = addresses.remove(&unlinked.module.sites_address) else { continue };
        if addresses.len() != facts.functions.len() {
            return Err(bad("another number of functions".to_owned()));
        }
        let calls = facts.calls.iter().enumerate();
        let stubs = calls.flat_map(|(f, row)| {
            row.iter().enumerate().filter_map(move |(c, call)| call.stub.map(|stub| (stub, (f, c))))
        });
        let stub_calls: BTreeMap<u32, (usize, usize)> = stubs.collect();
        if !stub_calls.keys().copied().eq(0..stub_calls.len() as u32) {
            return Err(bad("stubs are not numbered".to_owned()));
        }
        let stub_calls = stub_calls.into_values().collect();
        if let Some(other) = list.first().filter(|other: &&LinkModule| other.facts.options != facts.options) {
            return Err(Error::Options { module: unlinked.module.name, other: other.symbols.name.clone() });
        }
        list.push(LinkModule { symbols: unlinked.module, facts, addresses, stub_calls });
    }
    if !any {
        return Err(Error::Nothing);
    }
    let mut modules =
        Modules { list, fragments, owners: BTreeMap::new(), updates: BTreeMap::new(), stubs: HashMap::new() };
    find_no_ops(image, &mut modules)?;
    find_owners(&mut modules)?;
    Ok(modules)
}

/// Whether the numbers in the facts name what is there.
fn check(facts: &Facts, symbols: &Module) -> Result<(), &'static str> {
    let count = facts.functions.len();
    if facts.calls.len() != count || symbols.functions.len() != count {
        return Err("lists of functions differ");
    }
    for (function, row) in facts.functions.iter().zip(&facts.calls) {
        if function.calls.len() != row.len() {
            return Err("lists of calls differ");
        }
        let types = function.calls.iter().map(|call| call.ty).chain([function.ty]);
        if types.into_iter().any(|ty| ty.0 as usize >= facts.types.len()) {
            return Err("a type is missing");
        }
        if row.iter().filter_map(|call| call.site).any(|site| site as usize >= symbols.sites.len()) {
            return Err("a site is missing");
        }
        let known = function.calls.iter().all(|call| match call.kind {
            CallKind::Direct(callee) => callee.index() < count,
            _ => true,
        });
        let tails = function.tail_callees.iter().all(|to| match to {
            pcce_model::TailCallee::Known(callee) => callee.index() < count,
            _ => true,
        });
        if !known || !tails {
            return Err("a callee is missing");
        }
    }
    let known = facts.updates.iter().all(|update| {
        let row = facts.calls.get(update.function as usize).map_or(0, Vec::len);
        [update.left, update.entered].into_iter().flatten().all(|call| (call as usize) < row)
            && (update.function as usize) < count
    });
    if known { Ok(()) } else { Err("an update's call is missing") }
}

/// Finds the no-ops of the modules.
fn find_no_ops(image: &Image, modules: &mut Modules) -> Result<(), Error> {
    let mut names: HashMap<u32, usize> = HashMap::new();
    for (i, module) in modules.list.iter().enumerate() {
        if let Some(other) = names.insert(module.facts.module, i) {
            return Err(Error::SameName {
                module: module.symbols.name.clone(),
                other: modules.list[other].symbols.name.clone(),
            });
        }
    }
    let finder = memmem::Finder::new(&no_op::OPCODE);
    for section in image.sections.iter().filter(|section| section.is_code) {
        let content = image.content(section);
        for at in finder.find_iter(content) {
            let Some(from) = at.checked_sub(no_op::PREFIXES) else { continue };
            let name =
                content.get(from..from + no_op::LEN).and_then(|bytes| Name::of(bytes.try_into().ok()?));
            let Some((name, &module)) = name.and_then(|name| Some((name, names.get(&name.module)?))) else {
                continue;
            };
            let address = section.addresses.start + from as u64;
            let facts = &modules.list[module];
            match name.kind {
                Kind::Update if (name.index as usize) < facts.facts.updates.len() => {
                    modules.updates.insert(address, (module, name.index));
                }
                Kind::Stub if (name.index as usize) < facts.stub_calls.len() => {
                    modules.stubs.insert((module, name.index), address);
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Says whose bodies are in the file. Linkers may let the address of a body that was dropped be that of the one that
/// was kept.
fn find_owners(modules: &mut Modules) -> Result<(), Error> {
    let mut seen: HashMap<Place, bool> = HashMap::new();
    for &(module, number) in modules.updates.values() {
        let update = modules.list[module].facts.updates[number as usize];
        seen.insert((module, update.function as usize), true);
    }
    let mut claims: BTreeMap<u64, Vec<Place>> = BTreeMap::new();
    for (m, module) in modules.list.iter().enumerate() {
        for (f, &address) in module.addresses.iter().enumerate().filter(|(_, address)| **address != 0) {
            claims.entry(address).or_default().push((m, f));
        }
    }
    for (address, claims) in claims {
        let shown = claims.iter().copied().find(|place| seen.contains_key(place));
        let owner = match (shown, &*claims) {
            (Some(place), _) | (None, &[place]) => place,
            (None, &[first, other, ..]) => {
                let looks = |(m, f): &Place| {
                    let module = &modules.list[*m];
                    module.facts.calls[*f].iter().any(|call| call.site.is_some())
                };
                if claims.iter().any(looks) {
                    let module = |place: Place| modules.list[place.0].symbols.name.clone();
                    let function = modules.list[first.0].facts.functions[first.1].name.clone();
                    return Err(Error::TwoBodies { function, module: module(first), other: module(other) });
                }
                first
            }
            (None, []) => continue,
        };
        modules.owners.insert(address, owner);
    }
    Ok(())
}

/// Where a stub jumps to; none if it does not, or through a pointer.
pub fn stub_target(image: &Image, stub: u64) -> Option<u64> {
    let at = stub + references::STUB_JUMP as u64;
    match image.at(at) {
        [0xe9, rest @ ..] => {
            let distance = i32::from_le_bytes(rest.get(..4)?.try_into().ok()?);
            Some(at.wrapping_add(5).wrapping_add_signed(distance.into()))
        }
        _ => None,
    }
}

/// The first call behind an update, if it is one of the stub, and nothing else can come in between.
pub fn call_of_stub(image: &Image, update: u64, stub: u64) -> Option<u64> {
    let from = update + no_op::LEN as u64;
    let code = image.at(from);
    let code = &code[..code.len().min(1 << 12)];
    let mut decoder = Decoder::with_ip(64, code, from, DecoderOptions::NONE);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        match instruction.flow_control() {
            FlowControl::Next if !instruction.is_invalid() => {}
            FlowControl::Call => {
                let is_stubs = instruction.op0_kind() == OpKind::NearBranch64
                    && instruction.near_branch64() == stub
                    && instruction.len() == 5;
                return is_stubs.then(|| instruction.ip());
            }
            _ => return None,
        }
    }
    None
}
