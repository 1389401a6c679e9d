//! The modules of the file: what their objects carry, and where their functions are.

use std::collections::{BTreeMap, HashMap};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use pcce_abi::{BASES_ADDRESS_SECTION, RECORDS_ADDRESS_SECTION, no_op};
use pcce_dictionary::section::{self, Record};
use pcce_dictionary::{Module, code};
use pcce_encoding::FunctionId;
use pcce_model::link::Facts;
use pcce_model::{CallKind, Function, Pointer, TailCallee, TypeId};

use crate::image::Image;
use crate::{Error, no_ops};

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
    /// Where verify mode's records of its functions are, if it has them.
    pub records: Option<u64>,
    /// Where the first word is that makes context numbers of ids, if it has some.
    pub number_bases: Option<u64>,
}

impl LinkModule {
    /// Length of its updates in bytes.
    pub fn update_len(&self) -> usize {
        if self.facts.for_library { no_op::LIBRARY_LEN } else { no_op::LEN }
    }
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
    /// Where there is room for additions of more than 31 bits.
    pub room: Vec<u64>,
}

impl Modules {
    /// Whether each was compiled with these options of the wrapper.
    ///
    /// # Errors
    /// [`Error::Without`].
    pub fn have(&self, asked_for: &[String]) -> Result<(), Error> {
        self.list.iter().try_for_each(|module| has(&module.symbols, asked_for.iter().map(String::as_str)))
    }

    /// Whether the module's body of the function is the one in the file.
    pub fn owns(&self, (module, function): Place) -> bool {
        let address = self.list[module].addresses[function];
        self.owners.get(&address) == Some(&(module, function))
    }

    /// Where calls enter the function at this address that need no check: behind its entry, if it has one.
    pub fn behind_entry(&self, image: &Image, address: u64) -> u64 {
        let has_entry = self
            .owners
            .get(&address)
            .is_some_and(|&(module, function)| self.list[module].facts.entries.contains(&(function as u32)));
        match has_entry && no_op::begins_with_entry(image.at(address)) {
            true => address + no_op::ENTRY_LEN as u64,
            false => address,
        }
    }
}

/// Whether a module was compiled with these options of the wrapper.
///
/// # Errors
/// [`Error::Without`].
pub fn has<'a>(module: &Module, asked_for: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    for option in asked_for {
        // A heap profile asks the pass for this.
        let of_pass = if option == "heap" { "publish" } else { option };
        let is_it = |given: &String| given.split('=').next() == Some(of_pass);
        if !module.options.iter().any(is_it) {
            return Err(Error::Without { module: module.name.clone(), option: option.to_owned() });
        }
    }
    Ok(())
}

/// Reads the modules.
///
/// # Errors
/// Records that cannot be read, or do not go together.
pub fn read(image: &Image) -> Result<Modules, Error> {
    let rows = code::parse_section(&image.debug_section(code::SECTION)?)?;
    let mut addresses: HashMap<u64, Vec<u64>> = rows.into_iter().filter(|row| row.0 != 0).collect();
    let records = table_addresses(image, RECORDS_ADDRESS_SECTION)?;
    let number_bases = table_addresses(image, BASES_ADDRESS_SECTION)?;
    let (mut list, mut fragments): (Vec<LinkModule>, _) = (Vec::new(), Vec::new());
    let mut left_out: HashMap<u32, String> = HashMap::new();
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
        let bad = |cause: String| Error::Facts { module: unlinked.module.name.clone(), cause };
        let facts: Facts = serde_json::from_str(&unlinked.facts).map_err(|error| bad(error.to_string()))?;
        check(&facts, &unlinked.module).map_err(|what| bad(what.to_owned()))?;
        // A module that the linker has left out.
        let Some(addresses) = addresses.remove(&unlinked.module.sites_address) else {
            left_out.insert(facts.module, unlinked.module.name);
            continue;
        };
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
        if image.is_library && !facts.for_library {
            return Err(Error::NotForLibrary { module: unlinked.module.name });
        }
        let sites = unlinked.module.sites_address;
        let (records, number_bases) = (records.get(&sites).copied(), number_bases.get(&sites).copied());
        list.push(LinkModule {
            symbols: unlinked.module,
            facts,
            addresses,
            stub_calls,
            records,
            number_bases,
        });
    }
    if list.is_empty() && left_out.is_empty() {
        return Err(Error::Nothing);
    }
    let mut modules = Modules {
        list,
        fragments,
        owners: BTreeMap::new(),
        updates: BTreeMap::new(),
        stubs: HashMap::new(),
        room: Vec::new(),
    };
    no_ops::find(image, &mut modules, &left_out)?;
    if modules.list.is_empty() {
        return Err(Error::LeftOut);
    }
    no_ops::find_owners(image, &mut modules);
    Ok(modules)
}

/// Where each module has a table, by the address of its site array, as this section says.
fn table_addresses(image: &Image, section: &str) -> Result<HashMap<u64, u64>, Error> {
    let rows = image.debug_section(section)?;
    let words = rows.chunks_exact(16).map(|row| row.split_at(8));
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    Ok(words.map(|(sites, table)| (word(sites), word(table))).collect())
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
        if row.iter().filter_map(|call| call.site).any(|site| site as usize >= symbols.sites.len()) {
            return Err("a site is missing");
        }
    }
    check_numbers(&facts.functions, &facts.types)?;
    if facts.entries.last().is_some_and(|&function| function as usize >= count) {
        return Err("a function with an entry is missing");
    }
    let known = facts.updates.iter().all(|update| {
        let row = facts.calls.get(update.function as usize).map_or(0, Vec::len);
        [update.left, update.entered].into_iter().flatten().all(|call| (call as usize) < row)
            && (update.function as usize) < count
    });
    if known { Ok(()) } else { Err("an update's call is missing") }
}

/// Whether the numbers of types and callees name what is there.
pub(crate) fn check_numbers(functions: &[Function], types: &[String]) -> Result<(), &'static str> {
    let is_type = |ty: TypeId| (ty.0 as usize) < types.len();
    let is_function = |callee: FunctionId| callee.index() < functions.len();
    for function in functions {
        let left_to = function.tail_callees.iter().filter_map(|to| match to {
            TailCallee::Known(_) => None,
            TailCallee::Pointer(Pointer { ty, .. }) | TailCallee::Away { ty, .. } => Some(*ty),
        });
        if !function.calls.iter().map(|call| call.ty).chain([function.ty]).chain(left_to).all(is_type) {
            return Err("a type is missing");
        }
        let known = function.calls.iter().all(|call| match call.kind {
            CallKind::Direct(callee) => is_function(callee),
            _ => true,
        });
        let tails = function.tail_callees.iter().all(|to| match to {
            TailCallee::Known(callee) => is_function(*callee),
            _ => true,
        });
        if !known || !tails {
            return Err("a callee is missing");
        }
    }
    Ok(())
}

/// Where a stub jumps to; none if it does not, or through a pointer.
pub fn stub_target(image: &Image, stub: u64) -> Option<u64> {
    let at = stub + pcce_abi::stub::JUMP as u64;
    match image.at(at) {
        [0xe9, rest @ ..] => {
            let distance = i32::from_le_bytes(rest.get(..4)?.try_into().ok()?);
            Some(at.wrapping_add(5).wrapping_add_signed(distance.into()))
        }
        _ => None,
    }
}

/// A call or jump to an address that it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Which of the two.
    pub kind: BranchKind,
    /// Behind its last byte; its last four are the distance from there.
    pub end: u64,
    /// Where it leads.
    pub target: u64,
}

/// What a branch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchKind {
    /// A call, of five bytes.
    Call,
    /// A jump, of five bytes.
    Jump,
    /// A jump on a condition.
    Conditional,
}

impl Branch {
    fn of(instruction: &Instruction) -> Option<Self> {
        let kind = match (instruction.flow_control(), instruction.len()) {
            (FlowControl::Call, 5) => BranchKind::Call,
            (FlowControl::UnconditionalBranch, 5) => BranchKind::Jump,
            (FlowControl::ConditionalBranch, 6) => BranchKind::Conditional,
            _ => return None,
        };
        let near = instruction.op0_kind() == OpKind::NearBranch64;
        near.then(|| Self { kind, end: instruction.next_ip(), target: instruction.near_branch_target() })
    }
}

/// The first call from an address on, if it is one of `callee`, and nothing else can come in between.
pub fn call_of(image: &Image, from: u64, callee: u64) -> Option<Branch> {
    let code = image.at(from);
    let code = &code[..code.len().min(1 << 12)];
    for instruction in &mut Decoder::with_ip(64, code, from, DecoderOptions::NONE) {
        match instruction.flow_control() {
            FlowControl::Next if !instruction.is_invalid() => {}
            FlowControl::Call => return Branch::of(&instruction).filter(|call| call.target == callee),
            _ => return None,
        }
    }
    None
}

/// The calls and jumps of a function, of which its symbol tells the size, to addresses of which this is true.
pub fn branches_to(image: &Image, function: u64, is_target: impl Fn(u64) -> bool) -> Vec<Branch> {
    let size = image.sizes.get(&function).copied().unwrap_or(0);
    let code = image.at(function);
    let code = &code[..code.len().min(size as usize)];
    let mut branches = Vec::new();
    for instruction in &mut Decoder::with_ip(64, code, function, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            break;
        }
        branches.extend(Branch::of(&instruction).filter(|branch| is_target(branch.target)));
    }
    branches
}
