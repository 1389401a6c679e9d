//! From the module to the call graph: which functions are instrumented, what each call is, and
//! where control comes back.
//!
//! Nothing is changed here. The result names every place that the rewriting touches.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use llvm_sys::LLVMOpcode;
use pcce_encoding::{CallGraph, EdgeId, FunctionId};

use crate::inserted::{self, Inserted};
use crate::llvm::{Analyses, Block, Module, TailCall, Type, Value};
use crate::profile::{Matched, Profile};
use crate::tail;

/// The names of a list: one or more a line, `#` begins a comment.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace())
}

fn add_names(text: &str, to: &mut HashSet<String>) {
    to.extend(names(text).map(str::to_owned));
}

/// The functions whose contexts are wanted, by their names (*targeted mode*).
pub struct Targets(HashSet<String>);

impl Targets {
    /// From names and `@FILE`s with lists of them; None if there are none, and all contexts are wanted. `publish`: those of
    /// the calls that are published are, which takes no name.
    ///
    /// # Errors
    /// A file that cannot be read, with the reason.
    pub fn load(given: &[String], publish: bool) -> Result<Option<Self>, String> {
        let mut names = HashSet::new();
        for name in given {
            let Some(file) = name.strip_prefix('@') else {
                names.insert(name.clone());
                continue;
            };
            let text = std::fs::read_to_string(file)
                .map_err(|e| format!("cannot read {file}, named by the option target: {e}"))?;
            add_names(&text, &mut names);
        }
        Ok((publish || !given.is_empty()).then_some(Self(names)))
    }

    /// The targets of this linkage name: it, or the name in the source with its scopes, without parameters
    /// (`app::Log::write`).
    fn named(&self, linkage: &str) -> impl Iterator<Item = &str> {
        let in_source = linkage.starts_with("_Z").then(|| {
            let symbol = cpp_demangle::Symbol::new(linkage).ok()?;
            symbol.demangle_with_options(&cpp_demangle::DemangleOptions::new().no_params()).ok()
        });
        let names = [self.0.get(linkage), in_source.flatten().and_then(|name| self.0.get(&name))];
        names.into_iter().flatten().map(String::as_str)
    }

    fn contains(&self, linkage: &str) -> bool {
        self.named(linkage).next().is_some()
    }

    /// The targets that the module neither defines nor calls, in alphabetical order.
    pub fn missing_in(&self, module: Module) -> Vec<&str> {
        let mut missing: BTreeSet<&str> = self.0.iter().map(String::as_str).collect();
        for value in module.functions().into_iter().chain(module.aliases()) {
            let source = value.is_function().then(|| value.source_name()).flatten();
            for name in [Some(value.name()), source].into_iter().flatten() {
                for target in self.named(&name) {
                    missing.remove(target);
                }
            }
        }
        missing.into_iter().collect()
    }
}

/// What makes streams and conversions that call functions of the program (the last ones: libbsd's).
const STREAM_MAKERS: [&str; 7] = [
    "fopencookie",
    "register_printf_function",
    "register_printf_specifier",
    "register_printf_modifier",
    "register_printf_type",
    "funopen",
    "funopen2",
];

/// Functions known not to call back into the program (`data/no-callback.txt`, `data/streams.txt`, and the user's files).
pub struct NoCallback {
    names: HashSet<String>,
    /// Those that may call back through a program's own streams (`data/streams.txt`).
    streams: HashSet<String>,
    /// Whether calls of these do not call back: in an executable built as a whole that makes no such streams.
    trusts_streams: bool,
    /// Whether functions of this module whose address is taken may be called without a push: such an executable calls the
    /// streams that this module makes, or calls that LLVM inserts reach handlers that it sets.
    called_by_pointer: bool,
    inserted: Inserted,
    /// Those whose calls are published: that may allocate (`data/allocating.txt`, all of `streams`, and all of the user's files). Empty
    /// without the option `publish`.
    published: HashSet<String>,
}

impl NoCallback {
    /// The shipped lists, and the files named by the user. `open`: the module is an executable built as a whole.
    ///
    /// # Errors
    /// A file that cannot be read, with the reason.
    pub fn load(module: Module, open: bool, files: &[PathBuf], publish: bool) -> Result<Self, String> {
        let (mut names, mut streams, mut published) = (HashSet::new(), HashSet::new(), HashSet::new());
        add_names(include_str!("../data/no-callback.txt"), &mut names);
        add_names(include_str!("../data/streams.txt"), &mut streams);
        if publish {
            add_names(include_str!("../data/allocating.txt"), &mut published);
            published.extend(streams.iter().cloned());
        }
        for file in files {
            let text = std::fs::read_to_string(file).map_err(|e| {
                format!("cannot read {}, named by the option no-callback: {e}", file.display())
            })?;
            add_names(&text, &mut names);
            if publish {
                add_names(&text, &mut published);
            }
        }
        let makes_streams =
            module.functions().iter().any(|function| STREAM_MAKERS.contains(&&*function.name()));
        Ok(Self {
            names,
            streams,
            trusts_streams: open && !makes_streams,
            called_by_pointer: !open && makes_streams || inserted::sets_handlers(module),
            inserted: Inserted::load(module),
            published,
        })
    }

    /// Whether calls that may allocate are published.
    pub fn publishes(&self) -> bool {
        !self.published.is_empty()
    }

    /// Whether a function of this name is known not to call back.
    pub fn contains(&self, name: &str) -> bool {
        self.names.contains(name) || self.trusts_streams && self.streams.contains(name)
    }

    /// The functions of the module that other code reaches under a name of the lists: so named, by an
    /// alias, or through the linker's `--wrap`. Calls that LLVM inserts reach local ones, too.
    fn defined_in(&self, module: Module) -> HashSet<Value> {
        let mut found = HashSet::new();
        for global in module.functions().into_iter().chain(module.aliases()) {
            let name = global.name();
            let name = name.strip_prefix("__wrap_").unwrap_or(&name);
            let listed = self.names.contains(name) || self.streams.contains(name);
            if listed && !global.linkage().local || self.inserted.may_call(name) {
                found.insert(global.aliased());
            }
        }
        found
    }

    /// The functions of the module that callers may enter without having pushed: those, personality functions,
    /// which the unwinder calls from wherever it was called last (a function that resumes unwinding does not push), and handlers
    /// that the machine calls wherever it interrupts. And whatever such callers may call through pointers.
    pub fn entered_unpushed(&self, module: Module) -> HashSet<Value> {
        let mut found = self.defined_in(module);
        let functions = module.functions();
        found.extend(functions.iter().filter_map(|function| function.personality()));
        found.extend(functions.iter().filter(|f| f.has_body() && f.is_interrupt_handler()));
        if self.called_by_pointer {
            let keeps_frame = |function: &Value| {
                let mut instructions = function.blocks().into_iter().flat_map(Block::instructions);
                !instructions.any(|instruction| instruction.tail_call() == TailCall::Must)
            };
            let pointed_to = functions.iter().filter(|f| f.has_body() && f.has_address_taken());
            found.extend(pointed_to.copied().filter(keeps_frame));
        }
        found
    }
}

/// What a call is.
pub enum CallKind {
    /// A direct call of an instrumented function whose definition here is the one that runs: its place in
    /// [`Analysis::functions`].
    Direct(usize),
    /// A direct call that leaves the instrumented part of the module, and may call back.
    External(String),
    /// The same, known not to call back.
    Silent(String),
    /// The same, and it may allocate in a program that records allocations: the runtime is told the site.
    Published(String),
    /// A call through a pointer.
    Indirect,
    /// Inline assembly that contains a call.
    Asm,
    /// A call that becomes one of the runtime.
    Runtime(RuntimeCall),
}

/// libstdc++'s `std::thread::_M_start_thread`, which creates the thread of the state that is its second argument.
pub const STD_THREAD: &str =
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE";

/// Functions of the C library that return twice. The front end says so of them, but not with `-fno-builtin` (clang's Builtins.td).
const RETURNS_TWICE: [&str; 7] =
    ["setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp", "savectx", "vfork", "getcontext"];

/// Functions of the runtime that read or write the state as the calling function has it: nothing is done around their
/// calls.
const TRANSPARENT: [&str; 4] =
    ["pcce_fiber_save", "pcce_fiber_restore", "pcce_thread_token", "pcce_install_crash_handler"];

/// Calls that the pass replaces by ones of the runtime, which are told the site too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuntimeCall {
    /// `pcce_context`: takes the context number.
    Context,
    /// `pcce_token`: takes the token.
    Token,
    /// `pcce_token_at`: takes the token of an interrupted point.
    TokenAt,
    /// `pthread_create`: creates a thread.
    PthreadCreate,
    /// `thrd_create`, the same in C11.
    ThrdCreate,
}

impl RuntimeCall {
    /// By the name of the function that is called and the number of its arguments.
    fn of(name: &str, arguments: u32) -> Option<Self> {
        match (name, arguments) {
            ("pcce_context", 0) => Some(Self::Context),
            ("pcce_token", 2) => Some(Self::Token),
            ("pcce_token_at", 4) => Some(Self::TokenAt),
            ("pthread_create", 4) => Some(Self::PthreadCreate),
            ("thrd_create", 3) => Some(Self::ThrdCreate),
            _ => None,
        }
    }
}

/// A call in an instrumented function.
pub struct Call {
    /// The call or invoke.
    pub instruction: Value,
    /// What it is.
    pub kind: CallKind,
    /// Expected executions for one activation of its function, or what a profile has counted.
    pub frequency: f64,
    /// The group of functions that it may reach and that make calls which must stay tail calls, if there are any, and
    /// it does not push 0.
    pub tail_group: Option<u32>,
    /// Its edge in the call graph. Calls through pointers have one if the graph has an open node.
    pub edge: Option<EdgeId>,
}

/// How a function may be entered by callers that neither pushed nor know its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unannounced {
    /// Not at all.
    Never,
    /// With any id: its callers do nothing, since functions of its name do not call back; or no caller is seen, since LLVM inserts
    /// the call behind the pass; or it is a personality function. It pushes at its own entry.
    Anyhow,
    /// By an open call of an executable whose graph has an open node: the id is that node's, and positive. Ids of
    /// this module are not, and who has pushed enters with id 0.
    Open,
}

/// An instrumented function.
pub struct Function {
    /// The function.
    pub value: Value,
    /// Its linkage name.
    pub name: String,
    /// Whether other modules can call it by name.
    pub external: bool,
    /// How it may be entered by those who did not push, nor know its number.
    pub unannounced: Unannounced,
    /// Whether it is silent: nothing that it calls, directly or not, can take a context, push, or call back. The id
    /// need not tell how it was called, since nothing looks; who interrupts the program there finds the
    /// call sites by return addresses, up to the first function that is not silent.
    pub silent: bool,
    /// Whether it calls a function of the runtime that reads or writes the state as it is here.
    pub reads_state: bool,
    /// Whether it is a push thunk ([`crate::thunks`]), which contexts do not show.
    pub push_thunk: bool,
    /// The groups ([`Call::tail_group`]) of functions that may leave their activations to it.
    pub tail_groups: Vec<u32>,
    /// Whether it makes calls that must stay tail calls: it leaves its activation to their callees.
    pub leaves: bool,
    /// Linkage names of its aliases by which other modules can call it, too.
    pub aliases: Vec<String>,
    /// Its calls, in the order of the code. Calls that stay tail calls are not among them.
    pub calls: Vec<Call>,
    /// Blocks to which control may come without a return: those that begin with a landing pad, and those to which
    /// assembly that calls may jump.
    pub comes_back: Vec<Block>,
    /// Calls that can return twice (`setjmp`, `vfork`).
    pub returns_twice: Vec<Value>,
    /// The points just before the activation ends: `ret`, or the call that stays a tail call in front of it, and
    /// `resume`, where unwinding goes on.
    pub exits: Vec<Value>,
}

impl Function {
    /// Whether code of other modules calls it. Nothing but the start-up code calls `main`, unless a call or a pointer in
    /// the program shows.
    fn is_callable_by_name(&self) -> bool {
        self.external && self.name != "main"
    }
}

/// How often an open call is expected to reach a function that it has never reached in the profile, beside what is expected without
/// a profile.
const NEVER_SEEN: f64 = 1e-6;

/// The module's call graph and where its parts are in the code.
pub struct Analysis {
    /// Instrumented functions, in the order of their ids in [`Analysis::graph`].
    pub functions: Vec<Function>,
    /// The call graph (pcce.txt, Definition 1). The open node, if there is one, comes after all functions.
    pub graph: CallGraph,
    /// The groups ([`Call::tail_group`]) of functions that may leave their activations to functions of other modules.
    pub leaving_groups: Vec<u32>,
    /// What the profile of calls says.
    pub counts: Matched,
}

/// Why a function with a body is not instrumented. Calls of it are calls of external code.
fn skip_reason(function: Value, name: &str, resolvers: &HashSet<Value>) -> Option<&'static str> {
    if function.linkage().declaration {
        Some("available_externally: another module's copy runs")
    } else if function.has_attribute("naked") {
        Some("naked: its body is assembly")
    } else if function.has_attribute("presplitcoroutine") {
        Some("a coroutine that is not split yet")
    } else if name.starts_with("__pcce_") || name.starts_with("pcce_") {
        Some("part of the runtime")
    } else if resolvers.contains(&function) {
        Some("an ifunc resolver: runs before thread-local storage exists")
    } else {
        None
    }
}

/// Whether a call in the function must stay a tail call.
fn makes_tail_calls(function: Value) -> bool {
    let calls = function.blocks().into_iter().flat_map(Block::instructions);
    calls.filter(|i| i.opcode() == LLVMOpcode::LLVMCall).any(|call| call.tail_call() == TailCall::Must)
}

/// Whether the assembly may call something: any word with `call` in it, macros included, but for instructions that
/// enter the kernel or a hypervisor; and jumps to what is no label of its own, or to an address on the stack, as a switch of
/// stacks does. A push too many does no harm.
fn asm_calls(text: &str) -> bool {
    let is_call = |word: &str| {
        let word = word.to_ascii_lowercase();
        matches!(&*word, "ret" | "retq")
            || word.contains("call")
                && !matches!(&*word, "syscall" | "vmcall" | "vmmcall" | "tdcall" | "seamcall")
    };
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let jumps_out = |(at, jump): (usize, &str)| {
        let before = text[..at].chars().next_back();
        let rest = text[at + jump.len()..].trim_start_matches(['q', '\t', ' ']);
        // `1f`, `.Lx`, and labels that are operands of `asm goto`.
        let label = rest.starts_with(|c: char| c.is_ascii_digit())
            || rest.starts_with(".L")
            || rest
                .strip_prefix("${")
                .is_some_and(|r| r.split('}').next().is_some_and(|r| r.ends_with(":l")));
        !before.is_some_and(is_word) && !label
    };
    text.split(|c| !is_word(c)).any(is_call) || text.match_indices("jmp").any(jumps_out)
}

/// Marks functions that are at most `depth` calls away from the leaves, among calls whose callees are known.
fn mark_silent(functions: &mut [Function], must_tail: &[bool], depth: u32) {
    let mut callers = vec![Vec::new(); functions.len()];
    // Calls of functions not known to be silent yet; none for functions that cannot be.
    let mut waiting: Vec<Option<u32>> = Vec::with_capacity(functions.len());
    for (i, function) in functions.iter().enumerate() {
        let mut count = Some(0);
        for call in &function.calls {
            count = match call.kind {
                CallKind::Silent(_) => count,
                CallKind::Direct(callee) => {
                    callers[callee].push(i);
                    count.map(|n: u32| n + 1)
                }
                _ => None,
            };
        }
        let special = must_tail[i]
            || function.reads_state
            || function.unannounced == Unannounced::Anyhow
            || !function.returns_twice.is_empty();
        waiting.push(count.filter(|_| !special));
    }
    let mut leaves: Vec<usize> = (0..functions.len()).filter(|&i| waiting[i] == Some(0)).collect();
    for _ in 0..depth {
        let mut next = Vec::new();
        for leaf in leaves {
            functions[leaf].silent = true;
            for &caller in &callers[leaf] {
                if let Some(count) = &mut waiting[caller] {
                    *count -= 1;
                    if *count == 0 {
                        next.push(caller);
                    }
                }
            }
        }
        leaves = next;
    }
}

/// Marks functions that reach no target, by calls that may: those through pointers, of other modules, and of assembly may
/// reach whatever can be entered from outside, if `entered` says so of the function. What they reach in other modules of the
/// program is known of an executable built as a whole (`closed`) only: nothing.
fn mark_untargeted(
    functions: &mut [Function],
    must_tail: &[bool],
    entered: &[bool],
    closed: bool,
    targets: &Targets,
) {
    let mut callers = vec![Vec::new(); functions.len()];
    let mut unknown = Vec::new();
    let mut reaching = Vec::new();
    for (i, function) in functions.iter_mut().enumerate() {
        // A tail call is no call of the list.
        let mut calls_unknown = must_tail[i];
        let mut reaches = must_tail[i]
            || function.reads_state
            || function.unannounced == Unannounced::Anyhow
            // A signal handler that reaches a target may jump back, without a call that the function makes.
            || !function.returns_twice.is_empty()
            || function.aliases.iter().chain([&function.name]).any(|name| targets.contains(name))
            // Linking renames local functions of equal names.
            || function.value.source_name().is_some_and(|name| targets.contains(&name));
        for call in &function.calls {
            match &call.kind {
                CallKind::Direct(callee) => callers[*callee].push(i),
                CallKind::Silent(name) => reaches |= targets.contains(name),
                CallKind::External(name) => {
                    calls_unknown = true;
                    reaches |= targets.contains(name);
                }
                CallKind::Indirect | CallKind::Asm => calls_unknown = true,
                CallKind::Runtime(_) | CallKind::Published(_) => reaches = true,
            }
        }
        function.silent = true;
        reaches |= calls_unknown && !closed;
        if calls_unknown {
            unknown.push(i);
        }
        if reaches {
            reaching.push(i);
        }
    }
    while let Some(function) = reaching.pop() {
        if !std::mem::replace(&mut functions[function].silent, false) {
            continue;
        }
        reaching.append(&mut callers[function]);
        if entered[function] {
            reaching.append(&mut unknown);
        }
    }
}

/// What an analysis is made with.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Functions that do not call back.
    pub no_callback: &'a NoCallback,
    /// The module is the whole program after link-time resolution, so a definition in a comdat group is the one that was kept.
    pub whole_program: bool,
    /// It is the executable's, so that its calls through pointers need not push: a graph with an open node.
    pub open: bool,
    /// Functions so many calls above the leaves are silent; in targeted mode, instead, those that reach no target.
    pub leaf_depth: u32,
    /// In targeted mode.
    pub targets: Option<&'a Targets>,
}

/// Analyses a module. `profile`: how often functions and calls were executed; without it, LLVM's own profile or estimates tell.
///
/// # Errors
/// A function that cannot be instrumented nor left out without wrong contexts.
pub fn analyse(
    module: Module,
    analyses: Analyses,
    request: &Request<'_>,
    profile: Option<&Profile>,
) -> Result<Analysis, String> {
    let Request { no_callback, whole_program, open, leaf_depth, targets } = *request;
    let resolvers: HashSet<Value> = module.ifunc_resolvers().into_iter().collect();
    // `__builtin_setjmp`: the intrinsic does not say that it returns twice.
    let builtin_setjmp = module.functions().into_iter().find(|f| f.name() == "llvm.eh.sjlj.setjmp");
    let unpushed = no_callback.entered_unpushed(module);
    let mut aliases: HashMap<Value, Vec<String>> = HashMap::new();
    for alias in module.aliases() {
        if !alias.linkage().local {
            aliases.entry(alias.aliased()).or_default().push(alias.name());
        }
    }
    let mut functions = Vec::new();
    let mut index = HashMap::new();
    for value in module.functions() {
        if !value.has_body() {
            continue;
        }
        let name = value.name();
        // What cannot be called by a thunk of ours has a frame, which it cannot keep if it makes tail calls.
        let thunk = !open && !value.can_be_diverted() && makes_tail_calls(value);
        if thunk || skip_reason(value, &name, &resolvers).is_some() {
            continue;
        }
        // Who catches may be code that is not instrumented, and goes on: what it called must leave the state as it found
        // it, also where it throws.
        analyses.catch_escapes(value);
        let external = !value.linkage().local;
        index.insert(value, functions.len());
        functions.push(Function {
            value,
            external,
            silent: false,
            reads_state: false,
            unannounced: if unpushed.contains(&value) { Unannounced::Anyhow } else { Unannounced::Never },
            push_thunk: false,
            tail_groups: Vec::new(),
            leaves: false,
            aliases: aliases.remove(&value).unwrap_or_default(),
            name,
            calls: Vec::new(),
            comes_back: Vec::new(),
            returns_twice: Vec::new(),
            exits: Vec::new(),
        });
    }

    // First all edges, as ⟨caller, its call, callee, none if the call is open⟩: the graph wants its functions complete.
    let mut edges: Vec<(usize, usize, Option<usize>)> = Vec::new();
    let mut open_calls: HashMap<Type, usize> = HashMap::new();
    let mut direct_uses = vec![0usize; functions.len()];
    let mut must_tail = vec![false; functions.len()];
    for caller in 0..functions.len() {
        let frequencies = analyses.block_frequencies(functions[caller].value);
        for (block, frequency) in functions[caller].value.blocks().into_iter().zip(frequencies) {
            if block.is_landing_pad() {
                functions[caller].comes_back.push(block);
            }
            let mut tail: Option<Value> = None;
            for instruction in block.instructions() {
                match instruction.opcode() {
                    LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke | LLVMOpcode::LLVMCallBr => {}
                    LLVMOpcode::LLVMRet => {
                        functions[caller].exits.push(tail.unwrap_or(instruction));
                        continue;
                    }
                    LLVMOpcode::LLVMResume => {
                        functions[caller].exits.push(instruction);
                        continue;
                    }
                    _ => continue,
                }
                if instruction.tail_call() == TailCall::Must {
                    must_tail[caller] = true;
                    tail = Some(instruction);
                    continue;
                }
                let target = resolve(instruction.called(), whole_program);
                let kind = match target {
                    Target::Asm(text) if asm_calls(&text) => {
                        if instruction.opcode() == LLVMOpcode::LLVMCallBr {
                            functions[caller].comes_back.extend(instruction.successors());
                        }
                        CallKind::Asm
                    }
                    Target::Intrinsic(value) => {
                        if Some(value) == builtin_setjmp {
                            functions[caller].returns_twice.push(instruction);
                        }
                        continue;
                    }
                    Target::Asm(_) => continue,
                    Target::Pointer => CallKind::Indirect,
                    Target::Function { value, exact } => {
                        let name = value.name();
                        if instruction.call_has_attribute("returns_twice")
                            || value.has_attribute("returns_twice")
                            || value.linkage().declaration && RETURNS_TWICE.contains(&name.as_str())
                        {
                            functions[caller].returns_twice.push(instruction);
                        }
                        let declaration = value.linkage().declaration;
                        if value.linkage().declaration && TRANSPARENT.contains(&name.as_str()) {
                            functions[caller].reads_state = true;
                            continue;
                        }
                        let runtime = RuntimeCall::of(&name, instruction.argument_count());
                        match (index.get(&value), runtime) {
                            (_, Some(call)) if declaration => CallKind::Runtime(call),
                            (Some(&callee), _) if exact => {
                                direct_uses[callee] += usize::from(instruction.called() == value);
                                CallKind::Direct(callee)
                            }
                            // Not LLVM's `nocallback`, which clang makes of `__attribute__((leaf))`: it
                            // promises nothing about a callee that another module defines and instruments.
                            _ if declaration && no_callback.contains(&name) => {
                                if no_callback.published.contains(&name) {
                                    CallKind::Published(name)
                                } else {
                                    CallKind::Silent(name)
                                }
                            }
                            _ => CallKind::External(name),
                        }
                    }
                };
                let callee = match kind {
                    CallKind::Direct(callee) => Some(Some(callee)),
                    // Not calls that leave the program by name, nor assembly: they may switch stacks, and only a push
                    // puts back what was there before.
                    // A heap profiler asks in code that is not instrumented, where only a push names the site.
                    // What is left of one that was compared with its known targets is cold: it pushes.
                    CallKind::Indirect if open && !no_callback.publishes() => {
                        (!instruction.is_compared()).then_some(None)
                    }
                    _ => None,
                };
                if matches!(kind, CallKind::Indirect) {
                    *open_calls.entry(instruction.called_type()).or_default() += 1;
                }
                if let Some(callee) = callee {
                    edges.push((caller, functions[caller].calls.len(), callee));
                }
                functions[caller].calls.push(Call {
                    instruction,
                    kind,
                    frequency,
                    tail_group: None,
                    edge: None,
                });
            }
        }
    }

    // Any use that is not the callee of one of the edges: another module, a pointer, an alias, a
    // constructor table, or a caller that is not instrumented.
    let taken: Vec<bool> = functions
        .iter()
        .zip(&direct_uses)
        .map(|(function, &uses)| function.value.use_count() > uses)
        .collect();
    match targets {
        Some(targets) => {
            let entered: Vec<bool> =
                functions.iter().zip(&taken).map(|(f, &taken)| taken || f.is_callable_by_name()).collect();
            // What is not instrumented may allocate, too.
            let closed = open && !no_callback.publishes();
            mark_untargeted(&mut functions, &must_tail, &entered, closed, targets);
        }
        None => mark_silent(&mut functions, &must_tail, leaf_depth),
    }
    let counts = profile.map(|profile| profile.find(&module.identifier(), &functions)).unwrap_or_default();
    let mut graph = CallGraph::new();
    let mut targets: HashMap<Type, Vec<FunctionId>> = HashMap::new();
    for (i, function) in functions.iter_mut().enumerate() {
        let listed = function.unannounced == Unannounced::Anyhow;
        if listed && must_tail[i] {
            return Err(format!(
                "function {} is entered without a push (it replaces a library function that does not call back, or code \
                 that LLVM inserts calls it), and it makes calls that must stay tail calls; its frame cannot be \
                 kept. Rename it, or compile it without the pass",
                function.name
            ));
        }
        let entry = function.external || taken[i];
        if entry && !open && !listed && !function.silent {
            function.unannounced = Unannounced::Open;
        }
        // A function that makes tail calls hands its own activation to their callees, which start
        // a sub-path where it did: so it must have started one, or have been reached by an open call, as they are.
        // The frame that one pushes at its entry that cannot be diverted holds an open call's id, or 0.
        let frame_at_entry = function.unannounced == Unannounced::Open && !function.value.can_be_diverted();
        let id = graph.add_function(entry, listed || frame_at_entry || (must_tail[i] && !open));
        if function.silent {
            // No edges: nobody asks for its id.
            continue;
        }
        let count = counts.functions.get(i).copied().flatten();
        if let Some(count) = count.or_else(|| function.value.entry_count()) {
            graph.set_count(id, count);
        }
        if open && (taken[i] || must_tail[i] || function.is_callable_by_name()) {
            targets.entry(function.value.function_type()).or_default().push(id);
        }
    }
    if open {
        graph.add_open_node();
        // A call through a pointer is expected to reach each function of its type equally often; of others, few.
        let calls: usize = open_calls.values().sum();
        let entered = counts.entered_openly(&functions);
        let all_entered: f64 = entered.iter().sum();
        for (ty, of_this_type) in targets {
            let of_type = open_calls.get(&ty).copied().unwrap_or(0) as f64;
            for &function in &of_this_type {
                let expected = (of_type + 0.01) / (calls.max(1) * of_this_type.len()) as f64;
                let share = if all_entered > 0.0 {
                    entered[function.index()] / all_entered + expected * NEVER_SEEN
                } else {
                    expected
                };
                graph.add_open_target(function, share);
            }
        }
    }
    for (&(caller, call), &calls) in &counts.calls {
        if let Some(&Some(entries)) = counts.functions.get(caller)
            && calls + entries > 0.0
        {
            functions[caller].calls[call].frequency = calls / entries.max(1.0);
        }
    }
    for (caller, call, callee) in edges {
        if functions[caller].silent || callee.is_some_and(|callee| functions[callee].silent) {
            continue;
        }
        let from = FunctionId::new(caller as u32);
        let to = match callee.filter(|&callee| !open || !must_tail[callee]) {
            Some(callee) => FunctionId::new(callee as u32),
            None => graph.open_node().expect("a graph with open calls has an open node"),
        };
        let call = &mut functions[caller].calls[call];
        call.edge = Some(graph.add_edge(from, to, call.frequency));
    }
    for (function, leaves) in functions.iter_mut().zip(must_tail) {
        function.leaves = leaves;
    }
    let leaving_groups = if open { tail::find_groups(&mut functions, &index) } else { Vec::new() };
    Ok(Analysis { functions, graph, leaving_groups, counts })
}

/// What is called.
pub enum Target {
    Asm(String),
    Intrinsic(Value),
    Pointer,
    Function { value: Value, exact: bool },
}

/// Whether the function's definition in this module is the one that runs.
pub fn is_exact(function: Value, whole_program: bool) -> bool {
    matches!(resolve(function, whole_program), Target::Function { exact: true, .. })
}

/// What a called operand is. `exact`: the definition in this module is the one that runs.
pub fn resolve(called: Value, whole_program: bool) -> Target {
    if let Some(text) = called.asm_text() {
        return Target::Asm(text);
    }
    let exact = |v: Value| {
        let facts = v.linkage();
        facts.exact && (facts.local || !facts.comdat || whole_program)
    };
    let mut value = called;
    let mut all_exact = true;
    while let Some(aliasee) = value.aliasee() {
        all_exact &= exact(value);
        value = aliasee;
    }
    if !value.is_function() {
        Target::Pointer
    } else if value.is_intrinsic() {
        Target::Intrinsic(value)
    } else {
        Target::Function { value, exact: all_exact && exact(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assembly_that_may_call_is_found() {
        for calls in [
            "call f",
            "\tcallq *$0\n",
            "lcall *(%rax)",
            "CALL_NOSPEC rax",
            "mycall $0",
            "jmp *$0",
            "nop; jmpq *%rax",
            "push $1\njmp\tf",
            "syscall; call f",
        ] {
            assert!(asm_calls(calls), "{calls}");
        }
        for silent in [
            "",
            "# nothing",
            "syscall",
            "vmcall",
            "jmp 1f\n1:",
            "jmp .Lend",
            "2: jmpq 2b",
            "jmp ${2:l}",
            "fjmp x",
        ] {
            assert!(!asm_calls(silent), "{silent}");
        }
    }
}
