//! Additions of the link step: comparisons of a call's pointer with its few probable targets, which are then
//! called directly, and push thunks. Both have sites, and thunks are functions of their modules, so the
//! modules' symbols grow.

use std::collections::{HashMap, HashSet};

use pcce_abi::skeleton;
use pcce_dictionary as dictionary;
use pcce_encoding::{Encoding, FlowBlock, FunctionId};
use pcce_model::plan::Action;
use pcce_model::replaceable;
use pcce_model::slice::{Comparison, Decided, Sites, Slice, SliceFunction, SliceThunk};
use pcce_model::thunks::{self, Thunk};
use pcce_model::{Call, CallKind, Jumps, Matched, Program, Source, SourceLocation, TypeId};

use crate::merge::Merged;
use crate::scratch::{Place, Scratch};
use crate::{Module, Order};

/// A call with more guesses is not compared.
const MAX_GUESSES: usize = 3;
/// In a library, a call with fewer expected executions for each activation of its function is not compared: a
/// comparison takes more code than a push thunk.
const MIN_FREQUENCY: f64 = 0.25;
/// The expected share of executions in which a compared pointer is none of the targets: LLVM's weight of an
/// unlikely branch.
const OTHER_TARGETS: f64 = 1.0 / (1 << 20) as f64;

/// The modules with their additions.
pub struct Added<'a> {
    modules: &'a [Module],
    /// The symbols of each module.
    pub symbols: Vec<dictionary::Module>,
    /// For each function of the program (thunks come last): its module, and its number there.
    places: Vec<Place>,
    /// The sites of each function's calls.
    sites: Vec<Vec<Option<Sites>>>,
    /// For functions with calls that stay tail calls because they are on cycles: these calls, by their places
    /// in the lists of the modules.
    kept_tails: HashMap<FunctionId, Vec<usize>>,
    /// For each module, the numbers of functions, sites and bytes of site arrays in the modules before it.
    before: Vec<Before>,
    /// For each module, the numbers of its names.
    names: Vec<HashMap<String, u32>>,
    /// The comparisons in each function.
    compared: HashMap<FunctionId, Vec<Comparison>>,
    /// Functions that need a name of their own: local ones that other modules call, and replaceable ones.
    labelled: HashSet<Place>,
    /// The functions that other images can name.
    exported: HashSet<Place>,
    thunks: Vec<Thunk>,
    /// For each module, the thunks of its functions.
    thunks_of: Vec<Vec<usize>>,
    /// The sites of functions' stubs.
    stubs: HashMap<FunctionId, u32>,
    /// Each function's calls that enter their callees behind the entry event or the check for open calls: their places,
    /// and the symbols of these places of the callees.
    calls_behind: HashMap<FunctionId, Vec<(u32, String)>>,
    /// The functions that calls enter so.
    behind_entry: HashMap<Place, String>,
    /// In a traced program, each function's calls of functions of libraries that call nothing back.
    silent_calls: HashMap<FunctionId, Vec<u32>>,
}

impl<'a> Added<'a> {
    /// Begins without additions, except the sites of stubs.
    pub fn new(modules: &'a [Module], scratch: &Scratch, merged: &Merged) -> Self {
        let sites =
            modules.iter().flat_map(|module| module.facts.iter().flat_map(|facts| facts.sites.clone()));
        let mut sites: Vec<Vec<Option<Sites>>> = sites.collect();
        let mut kept_of: HashMap<FunctionId, Vec<usize>> = HashMap::new();
        for &(caller, call) in merged.kept_tails.iter().rev() {
            sites[caller.index()].remove(call);
            kept_of.entry(caller).or_default().push(call);
        }
        let places = modules.iter().enumerate();
        let places = places.flat_map(|(m, module)| (0..module.functions().len()).map(move |f| (m, f)));
        let mut added = Self {
            modules,
            symbols: modules.iter().map(|module| module.symbols.clone()).collect(),
            places: places.collect(),
            sites,
            kept_tails: kept_of,
            before: Vec::new(),
            names: modules.iter().map(|module| numbers_of(&module.symbols.names)).collect(),
            compared: HashMap::new(),
            labelled: HashSet::new(),
            exported: scratch.exported(),
            thunks: Vec::new(),
            thunks_of: vec![Vec::new(); modules.len()],
            stubs: HashMap::new(),
            calls_behind: HashMap::new(),
            behind_entry: HashMap::new(),
            silent_calls: HashMap::new(),
        };
        for callee in replaceable::called(&merged.functions) {
            let (module, number) = added.places[callee.index()];
            let symbols = &mut added.symbols[module];
            let name = name(symbols, &mut added.names[module], &merged.functions[callee.index()].name);
            let site = new_site(symbols, number, dictionary::SiteKind::Replaced(name), Vec::new());
            added.stubs.insert(callee, site);
        }
        added
    }

    /// The functions of the program in the order of the dictionary, which goes by module.
    pub fn order_of_functions(&self) -> Vec<FunctionId> {
        let mut all: Vec<FunctionId> = (0..self.places.len() as u32).map(FunctionId::new).collect();
        all.sort_by_key(|id| self.places[id.index()]);
        all
    }

    /// The number of a function in the dictionary.
    pub fn number(&self, id: FunctionId) -> u32 {
        let (module, function) = self.places[id.index()];
        self.before[module].functions + function as u32
    }

    /// The number of the first site of the function's module, over all modules.
    pub fn first_site(&self, id: FunctionId) -> u32 {
        self.before[self.places[id.index()].0].sites
    }

    /// The offset of the site array of the function's module in the site arrays of all modules. No site array
    /// is empty.
    pub fn first_byte(&self, id: FunctionId) -> u32 {
        self.before[self.places[id.index()].0].bytes
    }

    /// Numbers functions and sites over all modules. Nothing may be added afterwards.
    pub fn number_all(&mut self) {
        let mut next = Before::default();
        self.before.clear();
        for symbols in &self.symbols {
            self.before.push(next);
            next.functions += symbols.functions.len() as u32;
            next.sites += symbols.sites.len() as u32;
            next.bytes += symbols.sites.len().max(1) as u32;
        }
    }

    /// The module of a function, and its number there.
    pub fn place(&self, id: FunctionId) -> Place {
        self.places[id.index()]
    }

    /// Returns whether pointers are compared.
    pub fn compares(&self) -> bool {
        !self.compared.is_empty()
    }

    /// The sites of a function's calls.
    pub fn sites_of(&self, id: FunctionId) -> &[Option<Sites>] {
        &self.sites[id.index()]
    }

    /// The function of the program at a place that is not a thunk's.
    fn at(&self, place: Place) -> FunctionId {
        let own = &self.places[..self.places.len() - self.thunks.len()];
        FunctionId::new(own.partition_point(|known| *known < place) as u32)
    }

    /// Compares calls through pointers that push, and are not compared yet, with the functions that they
    /// probably reach: functions of the call's type whose address is taken, if there are few. The functions get
    /// further calls, with the counts of the old ones.
    pub fn compare(
        &mut self,
        scratch: &Scratch,
        merged: &mut Merged,
        program: &Program,
        encoding: &Encoding,
        counts: &mut Matched,
    ) {
        let mut guesses: HashMap<TypeId, Vec<Guess>> = HashMap::new();
        for (id, function) in program.iter() {
            let place = self.places[id.index()];
            if merged.taken.contains(&place) && scratch.has(place) {
                let guess = self.guess(scratch, id, &function.name);
                guesses.entry(function.ty).or_default().push(guess);
            }
        }
        for (name, ty) in &merged.taken_outside {
            let guess = Guess { name: name.clone(), has_name: true, is_replaceable: false, place: None };
            guesses.entry(*ty).or_default().push(guess);
        }
        for (id, function) in program.iter() {
            for (c, call) in function.calls.iter().enumerate() {
                // In a library, which has no open node, each call through a pointer pushes.
                let frequency = || function.copies(c).map(|copy| function.calls[copy].frequency).sum::<f64>();
                let pushes = || match call.edge {
                    Some(edge) => encoding.edge(edge).pushes(),
                    None => frequency() >= MIN_FREQUENCY,
                };
                let is_compared = merged.functions[id.index()].calls[c].compared;
                if call.kind != CallKind::Indirect || is_compared || !pushes() {
                    continue;
                }
                let few = guesses.get(&call.ty).filter(|guesses| guesses.len() <= MAX_GUESSES);
                for guess in few.into_iter().flatten() {
                    let direct = merged.functions[id.index()].calls.len();
                    self.compare_with(merged, id, c, guess);
                    if let Some(count) = counts.calls.get_mut(&(id.index(), c)) {
                        let of_direct = *count * (1.0 - OTHER_TARGETS);
                        *count *= OTHER_TARGETS;
                        counts.calls.insert((id.index(), direct), of_direct);
                    }
                }
            }
        }
    }

    /// Returns whether all modules know a function by its name. A local function has no name in other
    /// modules.
    fn is_named(&self, scratch: &Scratch, place: Place) -> bool {
        let function = &self.modules[place.0].functions()[place.1];
        function.external && scratch.named(&function.name).eq([place])
    }

    fn guess(&self, scratch: &Scratch, id: FunctionId, name: &str) -> Guess {
        let place = self.place(id);
        let is_replaceable = scratch.is_library && self.exported.contains(&place);
        let has_name = !is_replaceable && self.is_named(scratch, place);
        Guess { name: name.to_owned(), has_name, is_replaceable, place: Some(place) }
    }

    /// Compares a call's pointer with a function of the program. Returns whether that is possible.
    pub fn compare_with_function(
        &mut self,
        scratch: &Scratch,
        merged: &mut Merged,
        caller: FunctionId,
        call: usize,
        callee: FunctionId,
    ) -> bool {
        let name = merged.functions[callee.index()].name.clone();
        let guess = self.guess(scratch, callee, &name);
        let before = merged.functions[caller.index()].calls.len();
        self.compare_with(merged, caller, call, &guess);
        merged.functions[caller.index()].calls.len() > before
    }

    fn compare_with(&mut self, merged: &mut Merged, caller: FunctionId, c: usize, guess: &Guess) {
        let (module, function) = self.places[caller.index()];
        let own = guess.place.filter(|place| place.0 == module && !guess.is_replaceable);
        let kind = match guess.place {
            Some(place) => CallKind::Direct(self.at(place)),
            None => CallKind::Silent(guess.name.clone()),
        };
        // A local function of another module gets a name, and so does one whose name may lead elsewhere.
        let elsewhere = guess.place.filter(|_| own.is_none() && !guess.has_name);
        let target = match elsewhere {
            Some((module, function)) => {
                skeleton::function_symbol(&guess.name, (self.modules[module].id, function as u32))
            }
            None => guess.name.clone(),
        };
        let Some(sites) = self.sites[caller.index()].get(c).copied().flatten() else { return };
        let symbols = &mut self.symbols[module];
        let kind_of_site = match own {
            Some((_, function)) => dictionary::SiteKind::Direct(Some(function as u32)),
            None => dictionary::SiteKind::External(name(symbols, &mut self.names[module], &guess.name)),
        };
        let calling = &mut merged.functions[caller.index()];
        let call = &mut calling.calls[c];
        let direct = Call {
            kind,
            is_virtual: None,
            compared: false,
            frequency: call.frequency * (1.0 - OTHER_TARGETS),
            ..call.clone()
        };
        call.compared = true;
        call.frequency *= OTHER_TARGETS;
        calling.calls.push(direct);
        let first = calling.first_copy(calling.calls.len() - 1);
        let known = self.sites[caller.index()].get(first).copied().flatten();
        let site = known.map_or_else(
            || {
                let locations = symbols.sites[sites.call as usize].locations.clone();
                new_site(symbols, function, kind_of_site, locations)
            },
            |copy| copy.call,
        );
        self.sites[caller.index()].push(Some(Sites { call: site, creation: None }));
        self.labelled.extend(elsewhere);
        let comparison = Comparison { call: c as u32, target, own: own.is_some() };
        self.compared.entry(caller).or_default().push(comparison);
    }

    /// Finds the calls of a traced program that lead to a recorded function of another module.
    pub fn record(&mut self, program: &Program) {
        let facts = self.modules.iter().map(|module| module.facts.as_ref());
        let recorded: Vec<HashSet<usize>> = facts
            .map(|facts| facts.iter().flat_map(|f| &f.recorded).map(|number| *number as usize).collect())
            .collect();
        for (id, function) in program.iter() {
            let module = self.places[id.index()].0;
            for (c, call) in function.calls.iter().enumerate() {
                let callee = match call.kind {
                    CallKind::Direct(callee) => callee,
                    CallKind::Silent(_) => {
                        self.silent_calls.entry(id).or_default().push(c as u32);
                        continue;
                    }
                    _ => continue,
                };
                let place = self.places[callee.index()];
                if place.0 == module
                    || !recorded[place.0].contains(&place.1)
                    || self.kept_tails.contains_key(&callee)
                {
                    continue;
                }
                let name = &program[callee].name;
                let symbol = skeleton::entered_symbol(name, (self.modules[place.0].id, place.1 as u32));
                self.calls_behind.entry(id).or_default().push((c as u32, symbol.clone()));
                self.behind_entry.insert(place, symbol);
            }
        }
    }

    /// Lets a library's own calls enter functions behind the check for open calls of the executable: no such call has
    /// entered the caller, whose id is that of an own function.
    pub fn pass_checks(&mut self, program: &Program) {
        let mut enter = Vec::new();
        for (id, function) in program.iter().filter(|(_, function)| !function.push_thunk) {
            let module = self.places[id.index()].0;
            for (c, call) in function.calls.iter().enumerate() {
                let Some(callee) = call.kind.function().filter(|callee| program[*callee].checks_first())
                else {
                    continue;
                };
                let place = self.places[callee.index()];
                // A replaceable call enters by the word of the callee's module.
                let by_word = call.kind.callee().is_none();
                let own = by_word || place.0 == module;
                let known = &self.modules[place.0].functions()[place.1];
                if own {
                    let label = || skeleton::checked_label(place.1 as u32);
                    self.behind_entry.entry(place).or_insert_with(label);
                } else if known.external {
                    self.behind_entry.insert(place, skeleton::checked_symbol(&known.name));
                }
                if !by_word && (own || known.external) {
                    enter.push((id, c as u32, place));
                }
            }
        }
        for (id, call, place) in enter {
            let symbol = self.behind_entry[&place].clone();
            self.calls_behind.entry(id).or_default().push((call, symbol));
        }
    }

    /// Moves cold pushes into thunks ([`thunks`]).
    pub fn outline(&mut self, program: &mut Program, encoding: &mut Encoding) {
        let answers = Answers { added: self, program: &program.clone() };
        self.thunks = thunks::outline(program, encoding, &answers);
        for (t, thunk) in self.thunks.iter().enumerate() {
            let (module, caller) = self.places[thunk.caller.index()];
            self.thunks_of[module].push(t);
            let symbols = &mut self.symbols[module];
            let number = symbols.functions.len();
            let row = dictionary::Function {
                name: name(symbols, &mut self.names[module], &thunk.name),
                push_thunk: true,
                ..dictionary::Function::default()
            };
            symbols.functions.push(row);
            let sites = self.sites[thunk.caller.index()][thunk.calls[0]].expect("what pushes has a site");
            // The caller's site becomes the site of the call of the thunk, and the thunk gets a site for the
            // original call.
            let site = &mut symbols.sites[sites.call as usize];
            let through = dictionary::SiteKind::Direct(Some(number as u32));
            let kind = std::mem::replace(&mut site.kind, through);
            debug_assert_eq!(site.function as usize, caller);
            let within = new_site(symbols, number, kind, Vec::new());
            self.places.push((module, number));
            self.sites.push(vec![Some(Sites { call: within, creation: None })]);
        }
    }

    /// The order for a module.
    pub fn order(&self, m: usize, open: bool, scratch: &Scratch, decided: &Decided<'_>) -> Order {
        let module = &self.modules[m];
        let first = self.at((m, 0)).index();
        let entry_sites = module.facts.iter().flat_map(|facts| &facts.entry_sites);
        let functions =
            entry_sites.zip(module.functions()).enumerate().map(|(f, (&entry_site, function))| {
                let id = FunctionId::new((first + f) as u32);
                let compared = self.compared.get(&id).cloned().unwrap_or_default();
                let kept = self.kept_tails.get(&id).map_or(&[][..], Vec::as_slice);
                let own_calls = function.calls.len() - kept.len();
                let sites = self.sites_of(id);
                let labelled = self.labelled.contains(&(m, f));
                let kept_tails = kept.iter().filter_map(|&call| function.calls[call].sibling).collect();
                SliceFunction {
                    labelled,
                    kept_tails,
                    stub: self.stubs.get(&id).copied(),
                    behind_entry: self.behind_entry.get(&(m, f)).cloned(),
                    calls_behind: self.calls_behind.get(&id).cloned().unwrap_or_default(),
                    silent_calls: self.silent_calls.get(&id).cloned().unwrap_or_default(),
                    ..decided.function(id, scratch.has((m, f)), sites, entry_site, own_calls, compared)
                }
            });
        let own = self.places.len() - self.thunks.len();
        let thunks = self.thunks_of[m].iter().map(|&thunk| (&self.thunks[thunk], own + thunk));
        let thunks = thunks.map(|(thunk, id)| SliceThunk {
            caller: (thunk.caller.index() - first) as u32,
            calls: thunk.calls.iter().map(|&call| call as u32).collect(),
            name: thunk.name.clone(),
            does: decided.call(
                FunctionId::new(id as u32),
                0,
                self.sites[id][0].expect("what pushes has a site"),
            ),
            needs_offset: decided.needs_offset(FunctionId::new(id as u32)),
        });
        Order {
            id: format!("{:016x}", module.id),
            name: module.name().to_owned(),
            slice: Slice {
                open,
                measured: false,
                functions: functions.collect(),
                thunks: thunks.collect(),
                counts: None,
                widths: None,
                thread_offset: scratch.thread_offset.as_ref().map(|(offset, _)| *offset),
            },
            sites: self.symbols[m].sites.len(),
            wanted: module.facts.as_ref().map(|facts| facts.wanted.clone()).unwrap_or_default(),
        }
    }

    /// Stores facts of the whole program in the symbols. `targeted`: only contexts of targets are known.
    pub fn update_symbols(&mut self, program: &Program, decided: &Decided<'_>, targeted: bool) {
        let mut jumps = Jumps::default();
        for (id, function) in program.iter() {
            let untouched = (0..function.calls.len()).filter(|&c| decided.action(id, c) == Action::None);
            untouched.for_each(|c| jumps.add(&function.calls[c]));
        }
        for (id, function) in program.iter() {
            let (module, number) = self.places[id.index()];
            let symbols = &mut self.symbols[module];
            let row = &mut symbols.functions[number];
            row.silent = function.silent;
            row.tail_groups.clone_from(&function.tail_groups);
            row.jumped_to = jumps.may_lead_to(id.index(), function);
            for (call, sites) in function.calls.iter().zip(&self.sites[id.index()]) {
                if let Some(sites) = sites {
                    symbols.sites[sites.call as usize].tail_group = call.tail_group;
                }
            }
        }
        for symbols in &mut self.symbols {
            symbols.leaving_groups.clone_from(&program.leaving_groups);
            symbols.targeted = targeted;
        }
    }
}

/// A probable target of pointers.
struct Guess {
    name: String,
    /// True if its name leads there from every module.
    has_name: bool,
    /// True if its name may lead to another image.
    is_replaceable: bool,
    /// Its place, if it is instrumented.
    place: Option<Place>,
}

/// The numbers of items in the modules before one.
#[derive(Clone, Copy, Default)]
struct Before {
    functions: u32,
    sites: u32,
    bytes: u32,
}

/// The number of each name; equal names have the number of the first.
fn numbers_of(names: &[String]) -> HashMap<String, u32> {
    names.iter().enumerate().rev().map(|(number, name)| (name.clone(), number as u32)).collect()
}

/// The number of a name in a module.
fn name(symbols: &mut dictionary::Module, numbers: &mut HashMap<String, u32>, name: &str) -> u32 {
    *numbers.entry(name.to_owned()).or_insert_with(|| {
        symbols.names.push(name.to_owned());
        symbols.names.len() as u32 - 1
    })
}

fn new_site(
    symbols: &mut dictionary::Module,
    function: usize,
    kind: dictionary::SiteKind,
    locations: Vec<dictionary::Location>,
) -> u32 {
    symbols.sites.push(dictionary::Site { function: function as u32, kind, tail_group: None, locations });
    symbols.sites.len() as u32 - 1
}

/// Answers questions about the code from the facts, for thunks.
struct Answers<'a> {
    added: &'a Added<'a>,
    program: &'a Program,
}

impl Source for Answers<'_> {
    fn locations(&self, _: FunctionId, _: usize) -> Vec<SourceLocation> {
        Vec::new()
    }

    fn pass_alike(&self, _: FunctionId, _: usize, _: usize) -> bool {
        false
    }

    fn flow(&self, _: FunctionId) -> Vec<FlowBlock> {
        Vec::new()
    }

    fn fits_thunk(&self, function: FunctionId, call: usize) -> bool {
        let facts = |id: FunctionId| {
            let (module, function) = self.added.place(id);
            Some((self.added.modules[module].facts.as_ref()?, function))
        };
        let fits = || {
            let mut call = call;
            // Calls that stay tail calls are not among the program's. The last of them comes first.
            for &kept in self.added.kept_tails.get(&function).into_iter().flatten().rev() {
                call += usize::from(kept <= call);
            }
            let (facts, function) = facts(function)?;
            facts.fits_thunk[function].get(call).copied()
        };
        let looks = |callee: FunctionId| {
            facts(callee).is_some_and(|(facts, function)| facts.look_at_caller.contains(&(function as u32)))
        };
        fits().unwrap_or(false) && !self.program[function].calls[call].kind.callee().is_some_and(looks)
    }
}
