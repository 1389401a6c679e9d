//! Joins all modules to one program, and finds out how it may be entered.

use std::collections::{BTreeSet, HashMap, HashSet};

use pcce_encoding::FunctionId;
use pcce_model::replaceable;
use pcce_model::slice::Options;
use pcce_model::slice::{Facts, called};
use pcce_model::{
    AddressPlaces, CallKind, Function, NoCallback, TailCallee, Targets, TypeId, Unannounced, Wanted,
    makes_streams, sets_handlers, tail_calls,
};

use crate::Error;
use crate::Module;
use crate::scratch::{Place, Scratch};

/// The functions of all modules, one module after the other.
pub struct Merged {
    pub functions: Vec<Function>,
    /// Calls that stay tail calls, by their places in the lists of their modules.
    pub kept_tails: Vec<(FunctionId, usize)>,
    /// The options of the modules.
    pub options: Options,
    /// Targeted mode: the functions whose contexts are wanted.
    pub targets: Option<Targets>,
    /// The names that options give for the whole program.
    pub wanted: Wanted,
    /// The functions whose address is in code or data of modules with the pass.
    pub taken: HashSet<Place>,
    /// Functions without the pass whose address is in such code or data, with their types, if they are known
    /// not to call back.
    pub taken_outside: Vec<(String, TypeId)>,
}

/// Joins the modules; none if they have no functions. `plain` are the names that objects without the pass
/// refer to.
///
/// # Errors
/// Modules have different options.
pub fn merge(
    scratch: &Scratch,
    modules: &[Module],
    plain: impl Iterator<Item = String>,
) -> Result<Option<Merged>, Error> {
    let mut with_facts = modules.iter().filter_map(|module| Some((module, module.facts.as_ref()?)));
    let Some((first, Facts { options, wanted, .. })) = with_facts.next() else { return Ok(None) };
    if let Some((other, _)) =
        with_facts.find(|(_, facts)| facts.options != *options || facts.wanted != *wanted)
    {
        return Err(Error::Options { module: other.name().to_owned(), other: first.name().to_owned() });
    }
    let mut bases = Vec::with_capacity(modules.len());
    let mut next = 0;
    for module in modules {
        bases.push(next);
        next += module.functions().len();
    }
    let mut no_callback = trusted(scratch, modules, wanted);
    let targets = Targets::new(wanted, options.publishes);
    let entered = Entered::find(scratch, modules, plain);
    let number = |(m, f): Place| FunctionId::new((bases[m] + f) as u32);
    let mut types: HashMap<&str, TypeId> = HashMap::new();
    let mut functions = Vec::with_capacity(next);
    let names = modules.iter().flat_map(|module| &module.names);
    let mut taken: HashSet<Place> = names.flat_map(|name| scratch.named(name)).collect();
    let mut taken_outside: Vec<(String, TypeId)> = Vec::new();
    let mut known_outside: HashSet<(&str, TypeId)> = HashSet::new();
    let with_facts = modules.iter().enumerate();
    let with_facts =
        with_facts.filter_map(|(m, module)| module.facts.as_ref().map(|facts| (m, module, facts)));
    for (m, module, facts) in with_facts {
        let mut renumbered = Vec::with_capacity(facts.types.len());
        for ty in &facts.types {
            let next = TypeId(types.len() as u32);
            renumbered.push(*types.entry(ty).or_insert(next));
        }
        let ty = |ty: TypeId| renumbered[ty.0 as usize];
        let own = |callee: FunctionId| number((m, callee.index()));
        if wanted.traces
            && let Some(function) = replaced(scratch, m, &facts.functions)
        {
            let (module, function) = (module.name().to_owned(), function.name.clone());
            return Err(Error::Replaced { module, function });
        }
        for (name, of_type) in &facts.declared {
            let ty = ty(*of_type);
            let is_outside = !options.publishes && scratch.named(name).next().is_none();
            if is_outside && known_outside.insert((name, ty)) {
                taken_outside.push((name.clone(), ty));
            }
        }
        taken.extend(facts.reached.iter().flat_map(|name| scratch.named(name)));
        for (f, function) in facts.functions.iter().enumerate() {
            let place = (m, f);
            taken.extend(function.address_taken.then_some(place));
            let mut new = function.clone();
            new.ty = ty(function.ty);
            let names = called(function);
            let callee = |name: &str| {
                let call = names.iter().position(|called| *called == name)?;
                scratch.callee(place, call).map(number)
            };
            for to in &mut new.tail_callees {
                match to {
                    TailCallee::Known(callee) => *callee = own(*callee),
                    TailCallee::Pointer(pointer) => pointer.ty = ty(pointer.ty),
                    TailCallee::Away { name, ty: called } => match callee(name) {
                        Some(callee) => *to = TailCallee::Known(callee),
                        None => *called = ty(*called),
                    },
                }
            }
            for call in &mut new.calls {
                call.ty = ty(call.ty);
                match &call.kind {
                    CallKind::Direct(callee) => call.kind = CallKind::Direct(own(*callee)),
                    CallKind::External(_) if call.kind.runs_task() => {}
                    CallKind::External(name) => {
                        if let Some(callee) = callee(name) {
                            call.kind = CallKind::Direct(callee);
                        }
                    }
                    // Only this step knows replaceable calls.
                    CallKind::Replaceable(callee) => call.kind = CallKind::Replaceable(own(*callee)),
                    CallKind::Silent(_) | CallKind::Published(_) => {}
                    CallKind::Indirect | CallKind::Asm | CallKind::Runtime(_) => {}
                }
            }
            entered.set(&mut new, place, scratch);
            functions.push(new);
        }
    }
    for (name, (m, f)) in scratch.called_so(|name| no_callback.names_of_c(name)) {
        let function = &functions[number((m, f)).index()];
        let mut names = function.aliases.iter().chain([&function.name]);
        if function.unannounced != Unannounced::AnyId && !names.any(|known| known == name) {
            let (module, function) = (modules[m].name().to_owned(), function.name.clone());
            return Err(Error::Listed { module, function, name: name.to_owned() });
        }
    }
    let looks = || match targets {
        // Targets select contexts; they do not say which functions look at them.
        Some(_) => functions.iter().any(|function| no_callback.replaces_within_strings(function)),
        None => no_callback.look_within_strings(&functions),
    };
    if no_callback.trusts_strings() && looks() {
        no_callback = no_callback.without_strings();
    }
    let calls_nothing = |name: &str| match options.publishes {
        true => no_callback.names_of_c(name),
        false => no_callback.contains(name),
    };
    // The remaining names are in no module.
    for call in functions.iter_mut().flat_map(|function| &mut function.calls) {
        if let CallKind::External(name) = &mut call.kind
            && calls_nothing(name)
        {
            call.kind = CallKind::Silent(std::mem::take(name));
        }
    }
    if !options.publishes {
        taken_outside.retain(|(name, _)| no_callback.contains(name));
    }
    // Traced calls stay as the modules have them.
    if !wanted.traces {
        replaceable::bind(&mut functions, own_replaceable(scratch, number));
    }
    let kept_tails = tail_calls::keep_in_cycles(&mut functions, !scratch.is_library);
    let (options, wanted) = (options.clone(), wanted.clone());
    Ok(Some(Merged { functions, kept_tails, options, targets, wanted, taken, taken_outside }))
}

/// The library's functions that other images may replace, by their names. The linker's `--wrap` binds a name otherwise
/// in other modules than in the function's own, where the stub is.
fn own_replaceable(scratch: &Scratch, number: impl Fn(Place) -> FunctionId) -> HashMap<String, FunctionId> {
    let is_wrap = |name: &&str| ["__wrap_", "__real_"].iter().any(|prefix| name.starts_with(prefix));
    let wrapped: HashSet<&str> =
        scratch.names().filter(is_wrap).map(|name| &name["__wrap_".len()..]).collect();
    let own = scratch.replaceable().into_iter().filter(|(name, _)| !wrapped.contains(name));
    own.map(|(name, place)| (name.to_owned(), number(place))).collect()
}

/// Finds a function that the module calls as its own, and whose name belongs to another function in this
/// program.
fn replaced<'f>(scratch: &Scratch, module: usize, functions: &'f [Function]) -> Option<&'f Function> {
    let calls = functions.iter().flat_map(|function| &function.calls);
    let callees = calls.filter_map(|call| Some(call.kind.callee()?.index()));
    let is_replaced = |callee: usize| {
        let mut named = scratch.named(&functions[callee].name).peekable();
        named.peek().is_some() && named.all(|place| place != (module, callee))
    };
    let mut external = callees.filter(|&callee| functions[callee].external);
    external.find(|&callee| is_replaced(callee)).map(|callee| &functions[callee])
}

/// The functions that do not call back in this program, before the code of its modules is considered.
fn trusted(scratch: &Scratch, modules: &[Module], wanted: &Wanted) -> NoCallback {
    let facts = || modules.iter().filter_map(|module| module.facts.as_ref());
    let streams = facts().any(|facts| facts.makes_streams) || scratch.names().any(makes_streams);
    let handlers = facts().any(|facts| facts.sets_handlers) || scratch.names().any(sets_handlers);
    let no_callback = NoCallback::new(!scratch.is_library && !streams, wanted, false);
    // Another image of a traced program may define a function of the C++ library (`operator new`), and be
    // traced, too.
    if handlers || wanted.traces { no_callback } else { no_callback.trusting_cxx() }
}

/// The functions that code outside the encoded modules can enter.
struct Entered {
    /// By names that other images know.
    exported: HashSet<Place>,
    /// By their addresses, or by names within this image.
    reached: HashSet<Place>,
    is_library: bool,
}

impl Entered {
    fn find(scratch: &Scratch, modules: &[Module], plain: impl Iterator<Item = String>) -> Self {
        let mut names: BTreeSet<String> = plain.collect();
        names.extend(modules.iter().flat_map(|module| module.names.iter().cloned()));
        let mut opaque = false;
        for facts in modules.iter().filter_map(|module| module.facts.as_ref()) {
            names.extend(facts.reached.iter().chain(&facts.assembly.names).cloned());
            opaque |= facts.assembly.opaque;
        }
        let mut reached: HashSet<Place> = scratch.entries().collect();
        for name in &names {
            // The linker's `--wrap` renames references.
            let wrapped = format!("__wrap_{name}");
            let real = name.strip_prefix("__real_").unwrap_or(name);
            for name in [name, &*wrapped, real] {
                reached.extend(scratch.named(name));
            }
        }
        if opaque {
            let functions = modules
                .iter()
                .enumerate()
                .flat_map(|(m, module)| (0..module.functions().len()).map(move |f| (m, f)));
            reached.extend(functions);
        }
        Self { exported: scratch.exported(), reached, is_library: scratch.is_library }
    }

    /// Stores in a function how it may be entered.
    fn set(&self, function: &mut Function, place: Place, scratch: &Scratch) {
        if !scratch.has(place) {
            // The function is not in the program.
            function.calls.clear();
            function.tail_callees.clear();
            (function.external, function.otherwise_used) = (false, false);
            function.address_taken = false;
            return;
        }
        let exported = self.exported.contains(&place);
        let elsewhere = exported || self.reached.contains(&place) || function.otherwise_used;
        if function.external {
            // A module knows only its own uses of the address.
            function.places = AddressPlaces { in_table: elsewhere, elsewhere };
        }
        // The start-up code reaches `main`.
        let is_main = function.name == "main" && !self.is_library;
        function.external = exported || is_main;
        function.otherwise_used |= self.reached.contains(&place);
    }
}
