//! One program of all modules, its encoding, and what is done at each call.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use pcce_dictionary as dictionary;
use pcce_encoding::{EdgeId, Encoding, FunctionId, Rule};
use pcce_model::link::{CodeOfCall, LIBRARY_ID_BITS, Shape};
use pcce_model::{
    AddressPlaces, Call, CallKind, Function, Matched, Mode, NoCallback, Program, TailCallee, TypeId,
    Unannounced, Wanted, derive, ranges,
};

use crate::Error;
use crate::image::Image;
use crate::modules::{Modules, stub_target};
use crate::references::References;

/// What is done with a stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StubAction {
    /// Nothing: it jumps to the callee.
    Leave,
    /// The call goes to this address instead.
    Direct(u64),
    /// The call goes through the pointer instead.
    DirectPointer,
    /// It pushes; relative: the id stays where it is.
    Push {
        /// Whether the push leaves the id alone.
        relative: bool,
        /// Where it goes then; none if the pointer says.
        callee: Option<u64>,
    },
    /// It adds.
    Add {
        /// What.
        value: u64,
        /// Where it goes then; none if the pointer says.
        callee: Option<u64>,
    },
}

/// What is done in the program.
pub struct Bound {
    /// The program of all modules.
    pub program: Program,
    /// The first function of each module.
    pub bases: Vec<usize>,
    /// What each call adds for which that is open: by ⟨function of the program, place in its calls⟩.
    pub values: HashMap<(usize, usize), u64>,
    /// What is done with each stub that is in the file.
    pub stubs: BTreeMap<(usize, u32), StubAction>,
    /// What makes context numbers of the ids of each function of the program.
    pub number_bases: Vec<u64>,
    /// What the dictionary says of the encoding.
    pub encoding_rows: dictionary::Encoding,
}

/// Encodes the program.
///
/// # Errors
/// Those of the model.
pub fn bind(image: &Image, modules: &Modules, references: &References) -> Result<Bound, Error> {
    let merged = merge(image, modules, references)?;
    let options = &modules.list[0].facts.options;
    let is_library = image.is_library;
    let mode = Mode {
        open: !is_library,
        publishes: options.publishes,
        silent: options.silent,
        targets: None,
        closed: false,
    };
    let mut program = derive(merged.functions, &mode, Matched::none)?;
    let id_bits = if is_library { options.id_bits.min(LIBRARY_ID_BITS) } else { options.id_bits };
    let encode = |program: &Program| {
        let options = pcce_encoding::Options { id_bits, known_starts: !is_library, dear_open_pushes: true };
        pcce_encoding::encode(&program.graph, &options)
    };
    let calls = Calls { modules, bases: &merged.bases, is_library };
    let adding = calls.set_rules(&mut program);
    let encoding = encode(&program);
    if adding.iter().any(|&edge| encoding.edge(edge).pushes()) {
        return Err(Error::NoRoom);
    }
    let values = calls.values(&program, &encoding);
    let stubs = calls.stubs(&program, &encoding, &values, &merged.targets);
    let ranges = ranges::ranges(&program, &encoding, None);
    let number_bases =
        program.iter().map(|(id, _)| ranges::base(&encoding, id, ranges[id.index()])).collect();
    let encoding_rows = calls.rows(&program, &encoding, &ranges);
    Ok(Bound { program, bases: merged.bases, values, stubs, number_bases, encoding_rows })
}

/// The functions of all modules, one behind the other.
struct Merged {
    functions: Vec<Function>,
    bases: Vec<usize>,
    /// Where the stubs lead that are in the file.
    targets: HashMap<(usize, u32), u64>,
}

fn merge(image: &Image, modules: &Modules, references: &References) -> Result<Merged, Error> {
    let mut bases = Vec::with_capacity(modules.list.len());
    let mut next = 0;
    for module in &modules.list {
        bases.push(next);
        next += module.facts.functions.len();
    }
    let targets: HashMap<(usize, u32), u64> =
        modules.stubs.iter().filter_map(|(&stub, &at)| Some((stub, stub_target(image, at)?))).collect();
    let streams = references.makes_streams || modules.list.iter().any(|module| module.facts.makes_streams);
    let mut no_callback = NoCallback::new(!image.is_library && !streams, &Wanted::default(), false);
    if !references.sets_handlers && !modules.list.iter().any(|module| module.facts.sets_handlers) {
        no_callback = no_callback.trusting_cxx();
    }
    let owner = |m: usize, code: &CodeOfCall| {
        let target = targets.get(&(m, code.stub?))?;
        modules.owners.get(target).copied()
    };
    let mut types: HashMap<&str, TypeId> = HashMap::new();
    let mut functions = Vec::with_capacity(next);
    let mut pushed_to = HashSet::new();
    let mut named = Named::default();
    for (m, module) in modules.list.iter().enumerate() {
        let facts = &module.facts;
        let mut renumbered = Vec::with_capacity(facts.types.len());
        for ty in &facts.types {
            let next = TypeId(types.len() as u32);
            renumbered.push(*types.entry(ty).or_insert(next));
        }
        let number = |callee: FunctionId| FunctionId::new((bases[m] + callee.index()) as u32);
        for (f, function) in facts.functions.iter().enumerate() {
            let mut new = function.clone();
            new.ty = renumbered[function.ty.0 as usize];
            for to in &mut new.tail_callees {
                match to {
                    TailCallee::Known(callee) => *callee = number(*callee),
                    TailCallee::Pointer(pointer) => pointer.ty = renumbered[pointer.ty.0 as usize],
                    TailCallee::Away { ty, .. } => *ty = renumbered[ty.0 as usize],
                }
            }
            for (call, code) in new.calls.iter_mut().zip(&facts.calls[f]) {
                call.ty = renumbered[call.ty.0 as usize];
                let leaves_module = matches!(call.kind, CallKind::External(_));
                match (&call.kind, owner(m, code)) {
                    (CallKind::Direct(callee), _) => call.kind = CallKind::Direct(number(*callee)),
                    // Who leaves its activation to others marks the frame of a push, which tells that it did.
                    (CallKind::External(_), Some((owner, callee)))
                        if !modules.list[owner].facts.functions[callee].leaves() =>
                    {
                        call.kind = CallKind::Direct(FunctionId::new((bases[owner] + callee) as u32));
                    }
                    (CallKind::External(_), Some((owner, callee))) => {
                        pushed_to.insert(bases[owner] + callee);
                    }
                    _ => {}
                }
                // Where a push in the code stores 0, the id alone has to tell where the sub-path begins: the frame may
                // be missing in a token, and only of relative pushes the token says that.
                if let (CallKind::Direct(callee), Shape::Pushes) = (&call.kind, code.shape)
                    && (facts.for_library || leaves_module)
                {
                    pushed_to.insert(callee.index());
                }
            }
            if function.external && modules.owns((m, f)) {
                named.add(number(FunctionId::new(f as u32)), &new);
            }
            let pushes_itself = function.unannounced == Unannounced::Anyhow;
            new.pushes = pushes_itself || facts.calls[f].iter().any(|code| code.shape == Shape::Pushes);
            reach(&mut new, modules, references, (m, f), image.is_library);
            // Code that may be a library's needs no push for what it does at an entry.
            new.can_be_diverted |= image.is_library;
            functions.push(new);
        }
    }
    if no_callback.trusts_strings() && no_callback.look_within_strings(&functions) {
        no_callback = no_callback.without_strings();
    }
    for (m, module) in modules.list.iter().enumerate().filter(|(_, module)| !module.facts.options.publishes) {
        let facts = &module.facts;
        for (function, codes) in functions[bases[m]..].iter_mut().zip(&facts.calls) {
            for (call, code) in function.calls.iter_mut().zip(codes) {
                if let CallKind::External(name) = &mut call.kind
                    && owner(m, code).is_none()
                    && no_callback.contains(name)
                {
                    call.kind = CallKind::Silent(std::mem::take(name));
                }
            }
        }
    }
    pushed_to.extend(add_tail_callees(&mut functions, &named).iter().map(|callee| callee.index()));
    for entered in pushed_to {
        functions[entered].otherwise_used = true;
    }
    Ok(Merged { functions, bases, targets })
}

/// The functions that modules of the image can name.
#[derive(Default)]
struct Named {
    by_name: HashMap<String, Vec<FunctionId>>,
    by_type: HashMap<TypeId, Vec<FunctionId>>,
}

impl Named {
    fn add(&mut self, id: FunctionId, function: &Function) {
        for name in function.aliases.iter().chain([&function.name]) {
            let name = name.strip_prefix("__wrap_").unwrap_or(name);
            self.by_name.entry(name.to_owned()).or_default().push(id);
        }
        self.by_type.entry(function.ty).or_default().push(id);
    }

    /// Whom a tail call to a function of another module may reach: those of its name (`--wrap` adds to names), or any
    /// of its type where the linker alone knows the name (`--defsym`).
    fn reached(&self, to: &TailCallee) -> &[FunctionId] {
        let TailCallee::Away { name, ty } = to else { return &[] };
        let name = name.strip_prefix("__real_").unwrap_or(name);
        self.by_name.get(name).or_else(|| self.by_type.get(ty)).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Says of functions that leave to a name of another module which ones of the image that may be. Returns these.
fn add_tail_callees(functions: &mut [Function], named: &Named) -> BTreeSet<FunctionId> {
    let mut left_to = BTreeSet::new();
    for function in functions {
        let reached = function.tail_callees.iter().flat_map(|to| named.reached(to));
        let callees: BTreeSet<FunctionId> = reached.copied().collect();
        function.tail_callees.extend(callees.iter().map(|&callee| TailCallee::Known(callee)));
        left_to.extend(callees);
    }
    left_to
}

/// Says who reaches the function.
fn reach(
    function: &mut Function,
    modules: &Modules,
    references: &References,
    place: (usize, usize),
    is_library: bool,
) {
    if !modules.owns(place) {
        // It is not in the program.
        function.calls.clear();
        function.tail_callees.clear();
        (function.external, function.otherwise_used) = (false, false);
        return;
    }
    let address = modules.list[place.0].addresses[place.1];
    let taken = references.taken.contains(&address);
    let exported = references.exported.contains(&address);
    if function.name == "main" && !is_library {
        // The start-up code reaches it.
        function.external = true;
        return;
    }
    if function.external {
        let elsewhere = taken || exported || function.otherwise_used;
        function.places = AddressPlaces { in_table: elsewhere, elsewhere };
    }
    function.external = exported;
    function.otherwise_used |= taken;
}

/// The calls of the program, and what stands around them in the code.
struct Calls<'a> {
    modules: &'a Modules,
    bases: &'a [usize],
    is_library: bool,
}

impl<'a> Calls<'a> {
    /// Where a function of the program is.
    fn place(&self, function: FunctionId) -> (usize, usize) {
        let module = self.bases.partition_point(|&base| base <= function.index()) - 1;
        (module, function.index() - self.bases[module])
    }

    /// The calls of a function with their code; none of one that is not in the program.
    fn of(
        &self,
        function: FunctionId,
        calls: &'a [Call],
    ) -> impl Iterator<Item = (usize, &'a Call, CodeOfCall)> + use<'a> {
        let (module, place) = self.place(function);
        let row = &self.modules.list[module].facts.calls[place];
        calls.iter().zip(row).enumerate().map(|(c, (call, code))| (c, call, *code))
    }

    /// Says what the code has decided about edges. Returns those that must add.
    fn set_rules(&self, program: &mut Program) -> Vec<EdgeId> {
        let mut adding = Vec::new();
        for (id, function) in pcce_model::ids(&program.functions) {
            for (_, call, code) in self.of(id, &function.calls) {
                let Some(edge) = call.edge else { continue };
                let rule = match (code.shape, code.stub) {
                    (Shape::Pushes, _) => Rule::Pushes,
                    (Shape::Tail, Some(_)) => Rule::Detour,
                    (_, Some(_)) => Rule::Free,
                    (_, None) => {
                        adding.push(edge);
                        Rule::Adds
                    }
                };
                program.graph.set_rule(edge, rule);
            }
        }
        adding
    }

    fn values(&self, program: &Program, encoding: &Encoding) -> HashMap<(usize, usize), u64> {
        let mut values = HashMap::new();
        for (id, function) in program.iter() {
            for (c, call, code) in self.of(id, &function.calls) {
                let value = call.edge.and_then(|edge| encoding.constant(edge)).unwrap_or(0);
                if matches!(code.shape, Shape::Bound | Shape::Tail) && value != 0 {
                    // Ids of libraries are not positive.
                    let value = if self.is_library { value.wrapping_neg() } else { value };
                    values.insert((id.index(), c), value);
                }
            }
        }
        values
    }

    fn stubs(
        &self,
        program: &Program,
        encoding: &Encoding,
        values: &HashMap<(usize, usize), u64>,
        targets: &HashMap<(usize, u32), u64>,
    ) -> BTreeMap<(usize, u32), StubAction> {
        let mut stubs = BTreeMap::new();
        for (id, function) in program.iter() {
            let (module, _) = self.place(id);
            for (c, call, code) in self.of(id, &function.calls) {
                let Some(stub) = code.stub.map(|stub| (module, stub)) else { continue };
                if !self.modules.stubs.contains_key(&stub) {
                    continue;
                }
                let callee = targets.get(&stub).copied();
                let direct = callee.map_or(StubAction::DirectPointer, StubAction::Direct);
                let silent = matches!(call.kind, CallKind::Direct(callee) if program[callee].silent);
                let adds = call.edge.is_some_and(|edge| !encoding.edge(edge).pushes());
                // Who leaves its activation to another function marks the frame of a push that stores 0.
                // In libraries no push is relative: who finds one was reached by an open call of an executable.
                let relative = matches!(call.kind, CallKind::Direct(_) | CallKind::Indirect)
                    && call.tail_group.is_none()
                    && !self.is_library;
                let action = match (code.shape, &call.kind) {
                    // The push is in the code.
                    (Shape::Pushes, _) => StubAction::Leave,
                    (_, CallKind::Silent(_)) => direct,
                    _ if silent => direct,
                    (Shape::Tail, _) if adds => match values.get(&(id.index(), c)) {
                        Some(&value) => StubAction::Add { value, callee },
                        None => direct,
                    },
                    _ if adds => direct,
                    _ => StubAction::Push { relative, callee },
                };
                stubs.insert(stub, action);
            }
        }
        stubs
    }

    /// What the dictionary says.
    fn rows(&self, program: &Program, encoding: &Encoding, ranges: &[Option<u64>]) -> dictionary::Encoding {
        let mut first_sites = Vec::with_capacity(self.modules.list.len());
        let mut next = 0;
        for module in &self.modules.list {
            first_sites.push(next);
            next += module.symbols.sites.len() as u32;
        }
        let open_node = program.graph.open_node();
        let mut rows = dictionary::Encoding {
            epoch: dictionary::STATIC,
            first_module: 0,
            module_count: self.modules.list.len() as u32,
            open_num_cc: open_node.map(|node| encoding.num_cc(node)),
            ..dictionary::Encoding::default()
        };
        for (id, function) in program.iter() {
            rows.functions.push(dictionary::EncodedFunction {
                num_cc: encoding.num_cc(id),
                id_offset: encoding.offset(id) as i64,
                entry: encoding.is_entry(id),
                open: program.graph.is_open(id),
                range: ranges[id.index()],
            });
            let (module, _) = self.place(id);
            for (_, call, code) in self.of(id, &function.calls) {
                let Some((edge, site)) = call.edge.zip(code.site) else { continue };
                let open_call = Some(program.graph.callee(edge)) == open_node;
                let by_name = matches!(
                    self.modules.list[module].symbols.sites[site as usize].kind,
                    dictionary::SiteKind::External(_)
                );
                let callee = match call.kind {
                    CallKind::Direct(callee) if by_name => Some(callee.index() as u32),
                    _ => None,
                };
                rows.edges.push(dictionary::Edge {
                    site: first_sites[module] + site,
                    callee,
                    code: pcce_model::plan::described(encoding.edge(edge), open_call),
                });
            }
        }
        rows
    }
}
