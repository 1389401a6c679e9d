//! The step between two links. It encodes a program whose content the first link has shown, and decides how
//! the code of each module is generated.
//!
//! 1. [`scratch`]: the output of the first link, made of skeletons ([`pcce_abi::skeleton`]). It shows which module's
//!    body of each function was kept, and which function each call by name reaches;
//! 2. [`merge`]: one program of all modules, and how code outside may enter it;
//! 3. [`added`]: calls that are compared, and push thunks, as in a program that is encoded as a whole;
//! 4. [`encode()`]: the program's encoding, and the decisions for each module ([`pcce_model::slice`]);
//! 5. [`tables`]: one object more for the second link: the dictionary, the site arrays, verify mode's tables;
//! 6. [`difference`]: whether the second link has made what was planned.
//!
//! Functions that code without the pass may reach are found by symbols: the undefined symbols of objects
//! without the pass, and the symbols that the image exports. Data is never read.

#![forbid(unsafe_code)]

mod added;
mod counts;
mod error;
mod frame_offsets;
mod merge;
mod scratch;
mod second;
mod tables;

use std::collections::BTreeMap;

use pcce_abi::machine::objects::ThreadOffset;
use pcce_abi::{SiteByte, skeleton};
use pcce_dictionary as dictionary;
use pcce_dictionary::section::{self, Record};
use pcce_encoding::{Encoding, FunctionId};
pub use pcce_model::Wanted;
use pcce_model::numbers::Numbers;
use pcce_model::plan::described;
use pcce_model::slice::{Decided, Facts, Slice};
use pcce_model::{
    Function, Matched, Mode, Pointer, Program, TailCallee, Targets, TypeId, derive, missing_target,
};
use serde::Serialize;

use added::Added;
use counts::Counts;
pub use error::Error;
pub use frame_offsets::measured;
pub use pcce_model::hybrid::{Frames, MOST_ROUNDS};
use pcce_model::hybrid::{Used, apply};
pub use scratch::Scratch;
pub use second::difference;

/// A skeleton that was linked.
pub struct Module {
    pub id: u64,
    /// Its symbols; none if it has no function to instrument.
    symbols: dictionary::Module,
    facts: Option<Facts>,
    /// The names in its object, if it has no functions. Its data may contain addresses of other modules'
    /// functions.
    names: Vec<String>,
    pub bitcode: Vec<u8>,
    /// The command that compiled it, a JSON document.
    pub command: Vec<u8>,
}

impl Module {
    /// Reads an object file.
    ///
    /// # Errors
    /// It is no skeleton, or damaged.
    pub fn read(id: u64, object: &[u8]) -> Result<Self, Error> {
        use object::{Object, ObjectSection, ObjectSymbol};
        let file = object::File::parse(object).map_err(|what| Error::NotElf(what.to_string()))?;
        let content = |name: &str| {
            let section = file.section_by_name(name);
            section.and_then(|section| section.data().ok()).map(<[u8]>::to_vec)
        };
        let missing = |section: &'static str| Error::Skeleton { id, section };
        let bitcode = content(skeleton::BITCODE_SECTION).ok_or(missing(skeleton::BITCODE_SECTION))?;
        let command = content(skeleton::COMMAND_SECTION).ok_or(missing(skeleton::COMMAND_SECTION))?;
        let Some(record) = content(skeleton::FACTS_SECTION) else {
            let symbols = file.symbols().filter(|symbol| !symbol.is_local());
            let names = symbols.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
            let symbols = dictionary::Module::default();
            return Ok(Self { id, symbols, facts: None, names, bitcode, command });
        };
        let records = section::parse(&record)?;
        let Some(Record::Unlinked(unlinked)) = records.into_iter().next() else {
            return Err(missing(skeleton::FACTS_SECTION));
        };
        let bad = |cause: String| Error::Facts { module: unlinked.module.name.clone(), cause };
        let facts: Facts = serde_json::from_str(&unlinked.facts).map_err(|error| bad(error.to_string()))?;
        check(&facts, &unlinked.module).map_err(|what| bad(what.to_owned()))?;
        Ok(Self { id, symbols: unlinked.module, facts: Some(facts), names: Vec::new(), bitcode, command })
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.symbols.name
    }

    /// Replaces the profile, the targets or the part of a trace that the module was compiled with.
    pub fn ask_for(&mut self, instead: &Wanted) {
        let Some(Facts { wanted, .. }) = &mut self.facts else { return };
        if instead.profile.is_some() {
            wanted.profile.clone_from(&instead.profile);
        }
        if !instead.targets.is_empty() {
            wanted.targets.clone_from(&instead.targets);
        }
        wanted.part = instead.part.or(wanted.part);
    }

    fn functions(&self) -> &[pcce_model::Function] {
        self.facts.as_ref().map_or(&[], |facts| &facts.functions)
    }
}

/// A module that was compiled for heap profiles.
pub fn with_heap(modules: &[Module]) -> Option<&Module> {
    modules.iter().find(|module| module.symbols.options.iter().any(|option| option == pcce_options::OF_HEAP))
}

/// Checks that all modules were compiled with these options of the wrapper.
///
/// # Errors
/// [`Error::Without`].
pub fn check_options<'a>(
    modules: &[Module],
    asked_for: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), Error> {
    for module in modules.iter().filter(|module| module.facts.is_some()) {
        for option in asked_for.clone() {
            let of_pass = if option == "heap" { pcce_options::OF_HEAP } else { option };
            let is_it = |given: &String| given.split('=').next() == Some(of_pass);
            if !module.symbols.options.iter().any(is_it) {
                let module = module.symbols.name.clone();
                return Err(Error::Without { module, option: option.to_owned() });
            }
        }
    }
    Ok(())
}

/// Checks that the numbers in the facts are in range.
fn check(facts: &Facts, symbols: &dictionary::Module) -> Result<(), &'static str> {
    let count = facts.functions.len();
    let lists = [facts.sites.len(), facts.entry_sites.len(), facts.fits_thunk.len(), symbols.functions.len()];
    if lists.iter().any(|&len| len != count) {
        return Err("lists of functions differ");
    }
    let sites = symbols.sites.len();
    if facts.declared.iter().any(|(_, ty)| ty.0 as usize >= facts.types.len()) {
        return Err("a type is missing");
    }
    for ((function, row), fits) in facts.functions.iter().zip(&facts.sites).zip(&facts.fits_thunk) {
        if [row.len(), fits.len()].iter().any(|&len| len != function.calls.len()) {
            return Err("lists of calls differ");
        }
        let is_site = |site: u32| (site as usize) < sites;
        let named = row.iter().flatten().flat_map(|sites| [Some(sites.call), sites.creation]);
        if !named.flatten().all(is_site) {
            return Err("a site is missing");
        }
    }
    match check_numbers(&facts.functions, &facts.types) {
        Ok(()) if facts.entry_sites.iter().flatten().all(|&site| (site as usize) < sites) => Ok(()),
        Ok(()) => Err("an entry's site is missing"),
        Err(what) => Err(what),
    }
}

/// Checks that the numbers of types and callees are in range.
fn check_numbers(functions: &[Function], types: &[String]) -> Result<(), &'static str> {
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
        let known = function.calls.iter().filter_map(|call| call.kind.function()).all(is_function);
        let tails = function.tail_callees.iter().all(|to| match to {
            TailCallee::Known(callee) => is_function(*callee),
            TailCallee::Pointer(_) | TailCallee::Away { .. } => true,
        });
        if !known || !tails {
            return Err("a callee is missing");
        }
    }
    Ok(())
}

/// The decisions for a module, as a document.
#[derive(Clone, Serialize)]
pub struct Order {
    /// The module's id, in hexadecimal digits.
    id: String,
    /// Its name in messages.
    name: String,
    /// The decisions.
    slice: Slice,
    /// The number of sites of the module.
    sites: usize,
    /// The names that its facts have from options.
    wanted: Wanted,
}

impl Order {
    /// The order without its values, which is the same in programs that differ in values only, and the values
    /// ([`Slice::unbind`]).
    pub fn without_values(&self, widths: &[u8]) -> (Self, Vec<i64>) {
        let mut order = self.clone();
        let values = order.slice.unbind(widths);
        (order, values)
    }
}

/// The inputs of the second link.
#[derive(Default)]
pub struct Encoded {
    /// The order for each module.
    pub orders: Vec<Order>,
    /// The additional object, as assembly.
    pub tables: String,
    /// The file [`DICTIONARY`] that the assembly includes.
    pub dictionary: Vec<u8>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The objects must describe their frames, and the program is encoded again with these frames.
    pub measured: bool,
    /// The frames that the encoding relies on.
    pub used: Frames,
    /// The widths of values that the program's machine tells apart.
    pub value_widths: &'static [u8],
}

impl Encoded {
    /// The result for modules that have no functions to instrument. Their code is generated as it is.
    fn without_functions(modules: &[Module]) -> Self {
        let order = |module: &Module| Order {
            id: format!("{:016x}", module.id),
            name: module.name().to_owned(),
            slice: Slice::default(),
            sites: 0,
            wanted: Wanted::default(),
        };
        let orders = modules.iter().map(order).collect();
        Self { orders, tables: tables::NO_CODE_ON_STACK.to_owned(), ..Self::default() }
    }
}

/// The name of the file that the additional object includes, in the folder in which it is assembled.
pub const DICTIONARY: &str = "dictionary";

/// The warning for a library that was compiled with `--pcce-hybrid`.
const NO_FRAMES: &str = "the option hybrid has no effect here: only an executable's code is generated ahead of its \
                         link, to see its frames";

/// Encodes the program. `plain` are the names that objects without the pass refer to. `frames` are the known
/// frames of the program's code.
///
/// # Errors
/// The model rejects the program, or modules do not go together.
pub fn encode(
    scratch: &Scratch,
    modules: &[Module],
    plain: impl Iterator<Item = String>,
    frames: &Frames,
) -> Result<Encoded, Error> {
    let Some(mut merged) = merge::merge(scratch, modules, plain)? else {
        return Ok(Encoded::without_functions(modules));
    };
    let open = !scratch.is_library;
    let options = &merged.options;
    let targets = merged.targets.take();
    let mode = Mode {
        open,
        publishes: options.publishes,
        silent: options.silent,
        targets: targets.as_ref(),
        closed: open && !options.publishes,
    };
    let numbering = pcce_encoding::Options { id_bits: options.id_bits, known_starts: open };
    let verify = options.verify;
    let counts = Counts::load(&merged, modules, scratch)?;
    let derived = |functions: &[Function], found: &dyn Fn(&[Function]) -> Matched| {
        let program = derive(functions.to_vec(), &mode, found)?;
        let encoding = pcce_encoding::encode(&program.graph, &numbering);
        Ok::<_, Error>((program, encoding))
    };
    let mut added = Added::new(modules, scratch, &merged);
    let (mut program, mut encoding) = derived(&merged.functions, &|all| counts.find(all))?;
    let report = counts.report(&program);
    // Programs that count calls keep them as they are, so that the profile matches later.
    if !merged.wanted.counts_calls {
        // Traced calls stay as the module has them: the codes of a trace are for these calls.
        if merged.wanted.traces {
            added.record(&program);
        } else {
            let found = counts.compare(&mut added, scratch, &mut merged, &program, &encoding, &numbering);
            if added.compares() {
                (program, encoding) = derived(&merged.functions, &|_| found.clone())?;
            }
        }
        added.outline(&mut program, &mut encoding);
        added.pass_checks(&program);
    }
    added.number_all();
    let measured = open && merged.options.hybrid;
    let names = frame_offsets::InModules { modules, added: &added, program: &program };
    let used = if measured { apply(&program, &mut encoding, frames, &names) } else { None };
    let relied_on = used.as_ref().map(|used| used.relied_on(&names)).unwrap_or_default();
    let locations = |id, call: usize| {
        let site = added.sites_of(id).get(call).copied().flatten();
        let sites = &added.symbols[added.place(id).0].sites;
        site.map_or(&[][..], |site| &sites[site.call as usize].locations[..])
    };
    let by_line = merged.options.number_lines;
    let numbers = Numbers::new(&program, &encoding, used.as_ref(), by_line, locations);
    let decided = Decided::new(&program, &encoding, &numbers, used.as_ref());
    let mut orders: Vec<Order> =
        (0..modules.len()).map(|m| added.order(m, open, scratch, &decided)).collect();
    orders.iter_mut().for_each(|order| order.slice.measured = measured);
    // Without names, the contexts of published calls are wanted, and of everything that code outside the
    // program calls.
    let targeted = open && targets.as_ref().is_some_and(Targets::are_named);
    added.update_symbols(&program, &decided, targeted);
    let whole = Whole {
        modules,
        added: &added,
        program: &program,
        encoding: &encoding,
        decided: &decided,
        thread_offset: scratch.thread_offset,
    };
    let rows = whole.rows(&numbers, used.as_ref());
    // Libraries often share the program's command line, so they do not report missing targets.
    let warnings = targets.iter().filter(|_| open).flat_map(|targets| missing(targets, &program, scratch));
    let no_frames = (merged.options.hybrid && !open).then(|| NO_FRAMES.to_owned());
    let warnings = warnings.chain(report).chain(no_frames).collect();
    let (mut tables, dictionary) = tables::assembly(&whole, rows, verify)?;
    if merged.wanted.counts_calls {
        tables += &counts::generate(&mut orders, modules, &program, &added, scratch);
    }
    let value_widths = scratch.value_widths;
    Ok(Encoded { orders, tables, dictionary, warnings, measured, used: relied_on, value_widths })
}

/// Returns warnings about targets that the program lacks.
fn missing(targets: &Targets, program: &Program, scratch: &Scratch) -> Vec<String> {
    let functions = program.functions.iter();
    let names = functions.flat_map(|f| f.aliases.iter().chain([&f.name]).chain(&f.source_name)).cloned();
    let missing = targets.missing(names.chain(scratch.names().map(str::to_owned)));
    missing.into_iter().map(missing_target).collect()
}

/// A program and the decisions for it.
struct Whole<'a> {
    modules: &'a [Module],
    added: &'a Added<'a>,
    program: &'a Program,
    encoding: &'a Encoding,
    decided: &'a Decided<'a>,
    thread_offset: Option<(u32, &'static ThreadOffset)>,
}

impl Whole<'_> {
    /// The calls of the program that have a site, in the order of the dictionary: caller, place in its calls,
    /// and the site's number over all modules. Copies of a call have its site.
    fn sites(&self) -> impl Iterator<Item = (FunctionId, usize, u32)> {
        self.added.order_of_functions().into_iter().flat_map(move |id| {
            let first = self.added.first_site(id);
            let calls = self.program[id].calls.len();
            // A function that is not in the program has no calls left.
            let sites = self.added.sites_of(id).iter().take(calls).enumerate();
            let sites = sites.filter(move |(c, _)| self.program[id].first_copy(*c) == *c);
            sites.filter_map(move |(c, sites)| Some((id, c, first + sites.as_ref()?.call)))
        })
    }

    /// The bytes of sites whose calls run tasks, as offsets in the site arrays of all modules.
    fn sites_of_tasks(&self) -> impl Iterator<Item = u32> {
        let runs = |&(id, c, _): &(FunctionId, usize, u32)| {
            self.program[id].calls[c].kind.runs_task() && self.decided.action(id, c).pushes()
        };
        self.sites().filter(runs).map(|(id, c, _)| {
            let site = self.added.sites_of(id)[c].expect("it has one").call;
            self.added.first_byte(id) + site
        })
    }

    /// The bytes that are not 0 of the site arrays of all modules, by offset.
    fn site_bytes(&self) -> BTreeMap<u32, u8> {
        let mut bytes = BTreeMap::new();
        let mut set = |site: u32, bit: u8| *bytes.entry(site).or_insert(0) |= bit;
        self.sites_of_tasks().for_each(|site| set(site, SiteByte::RUNS_TASK));
        for id in self.added.order_of_functions().into_iter().filter(|id| self.decided.needs_offset(*id)) {
            let (module, function) = self.added.place(id);
            let sites = (0..).zip(&self.added.symbols[module].sites);
            let own = sites.filter(|(_, site)| site.function as usize == function);
            own.for_each(|(site, _)| set(self.added.first_byte(id) + site, SiteByte::NEEDS_OFFSET));
        }
        for (id, c, _) in self.sites() {
            let known = self.decided.frame_offset(id, c).is_some();
            let is_direct = self.program[id].calls[c].kind.callee().is_some();
            if known && is_direct && self.decided.action(id, c).pushes() {
                let site = self.added.sites_of(id)[c].expect("it has one").call;
                set(self.added.first_byte(id) + site, SiteByte::KNOWN_BASE);
            }
        }
        bytes
    }

    /// The dictionary's description of the encoding.
    fn rows(&self, numbers: &Numbers, used: Option<&Used>) -> dictionary::Encoding {
        let Self { program, encoding, .. } = *self;
        let open_node = program.graph.open_node();
        let functions = self.added.order_of_functions().into_iter().map(|id| dictionary::EncodedFunction {
            num_cc: encoding.num_cc(id),
            id_offset: encoding.offset(id) as i64,
            entry: encoding.is_entry(id),
            open: program.graph.is_open(id),
            range: None,
        });
        let all_sites: Vec<&dictionary::Site> = self.added.symbols.iter().flat_map(|m| &m.sites).collect();
        let mut stack_offsets = Vec::new();
        let mut next = 0..;
        let edges = self.sites().filter_map(|(caller, c, site)| {
            let call = &program[caller].calls[c];
            let edge = call.edge?;
            let by_name = matches!(all_sites[site as usize].kind, dictionary::SiteKind::External(_));
            let callee = call.kind.function().filter(|_| by_name).map(|callee| self.added.number(callee));
            let open_call = Some(program.graph.callee(edge)) == open_node;
            let number: u32 = next.next()?;
            let bytes = self.decided.frame_offset(caller, c);
            stack_offsets.extend(bytes.map(|bytes| (number, bytes)));
            Some(dictionary::Edge { site, callee, code: described(encoding.edge(edge), open_call) })
        });
        let edges = edges.collect();
        let places = numbers.places().iter().map(|place| {
            let sites = self.added.sites_of(place.function)[place.call].expect("captures have sites");
            let site = self.added.first_site(place.function) + sites.call;
            dictionary::NumberPlace { site, base: place.range, line: place.line }
        });
        dictionary::Encoding {
            epoch: dictionary::Epoch,
            first_module: 0,
            module_count: self.modules.len() as u32,
            open_num_cc: open_node.map(|node| encoding.num_cc(node)),
            functions: functions.collect(),
            edges,
            places: places.collect(),
            hybrid: used.map(|used| frame_offsets::rows(self, used, stack_offsets)),
        }
    }
}
