//! From the module to the call graph: which functions are instrumented, what each call is, and
//! where control comes back.
//!
//! Nothing is changed here. The result names every place that the rewriting touches.

use std::collections::{HashMap, HashSet};

use llvm_sys::LLVMOpcode;
use pcce_encoding::{CallGraph, EdgeId};

use crate::llvm::{Analyses, Block, Module, TailCall, Value};

/// Functions known not to call back into the program (`data/no-callback.txt` and the user's files).
pub struct NoCallback(HashSet<String>);

impl NoCallback {
    /// The shipped list, and the files named by the user.
    ///
    /// # Errors
    /// A file that cannot be read, with the reason.
    pub fn load(files: &[String]) -> Result<Self, String> {
        let mut names = HashSet::new();
        let mut add = |text: &str| {
            for line in text.lines() {
                let line = line.split('#').next().unwrap_or("");
                names.extend(line.split_whitespace().map(str::to_owned));
            }
        };
        add(include_str!("../data/no-callback.txt"));
        for file in files {
            let text = std::fs::read_to_string(file)
                .map_err(|e| format!("cannot read {file}, named by the option no-callback: {e}"))?;
            add(&text);
        }
        Ok(Self(names))
    }

    fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// The functions of the module that other code reaches under a name of the list: so named, by an
    /// alias, or through the linker's `--wrap`.
    fn defined_in(&self, module: Module) -> HashSet<Value> {
        let mut found = HashSet::new();
        for global in module.functions().into_iter().chain(module.aliases()) {
            let name = global.name();
            if global.linkage().local || !self.contains(name.strip_prefix("__wrap_").unwrap_or(&name)) {
                continue;
            }
            let target = std::iter::successors(Some(global), |v| v.aliasee()).last();
            found.extend(target);
        }
        found
    }

    /// The functions of the module that callers may enter without having pushed: those, and personality functions,
    /// which the unwinder calls from wherever it was called last (a function that resumes unwinding does not push).
    pub fn entered_unpushed(&self, module: Module) -> HashSet<Value> {
        let mut found = self.defined_in(module);
        found.extend(module.functions().into_iter().filter_map(Value::personality));
        found
    }
}

/// What a call is.
pub enum CallKind {
    /// A direct call of an instrumented function whose definition here is the one that runs.
    Direct(EdgeId),
    /// A direct call that leaves the instrumented part of the module, and may call back.
    External(String),
    /// The same, known not to call back.
    Silent(String),
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
}

/// An instrumented function.
pub struct Function {
    /// The function.
    pub value: Value,
    /// Its linkage name.
    pub name: String,
    /// Whether other modules can call it by name.
    pub external: bool,
    /// Whether calls that must stay tail calls may reach it.
    pub tail_called: bool,
    /// Linkage names of its aliases by which other modules can call it, too.
    pub aliases: Vec<String>,
    /// Callers may enter it without having pushed, since its name is on the list of functions that
    /// do not call back, or it is a personality function: it pushes at its own entry.
    pub entry_push: bool,
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

/// The module's call graph and where its parts are in the code.
pub struct Analysis {
    /// Instrumented functions, in the order of their ids in [`Analysis::graph`].
    pub functions: Vec<Function>,
    /// The call graph (pcce.txt, Definition 1).
    pub graph: CallGraph,
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

/// Analyses a module.
///
/// `whole_program`: the module is the whole program after link-time resolution, so a definition
/// in a comdat group is the one that was kept.
///
/// # Errors
/// A function that cannot be instrumented nor left out without wrong contexts.
pub fn analyse(
    module: Module,
    analyses: Analyses,
    no_callback: &NoCallback,
    whole_program: bool,
) -> Result<Analysis, String> {
    let resolvers: HashSet<Value> = module.ifunc_resolvers().into_iter().collect();
    // `__builtin_setjmp`: the intrinsic does not say that it returns twice.
    let builtin_setjmp = module.functions().into_iter().find(|f| f.name() == "llvm.eh.sjlj.setjmp");
    let unpushed = no_callback.entered_unpushed(module);
    let mut aliases: HashMap<Value, Vec<String>> = HashMap::new();
    for alias in module.aliases() {
        if !alias.linkage().local
            && let Some(target) = std::iter::successors(Some(alias), |v| v.aliasee()).last()
        {
            aliases.entry(target).or_default().push(alias.name());
        }
    }
    let mut functions = Vec::new();
    let mut index = HashMap::new();
    for value in module.functions() {
        if !value.has_body() {
            continue;
        }
        let name = value.name();
        if skip_reason(value, &name, &resolvers).is_some() {
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
            tail_called: false,
            aliases: aliases.remove(&value).unwrap_or_default(),
            entry_push: unpushed.contains(&value),
            name,
            calls: Vec::new(),
            comes_back: Vec::new(),
            returns_twice: Vec::new(),
            exits: Vec::new(),
        });
    }

    // First all edges, as ⟨caller, callee, frequency⟩: the graph wants its functions complete.
    let mut edges: Vec<(usize, usize, f64)> = Vec::new();
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
                        {
                            functions[caller].returns_twice.push(instruction);
                        }
                        let declaration = value.linkage().declaration;
                        if value.linkage().declaration && TRANSPARENT.contains(&name.as_str()) {
                            continue;
                        }
                        let runtime = RuntimeCall::of(&name, instruction.argument_count());
                        match (index.get(&value), runtime) {
                            (_, Some(call)) if declaration => CallKind::Runtime(call),
                            (Some(&callee), _) if exact => {
                                direct_uses[callee] += usize::from(instruction.called() == value);
                                edges.push((caller, callee, frequency));
                                CallKind::Direct(EdgeId::new(edges.len() as u32 - 1))
                            }
                            // Not LLVM's `nocallback`, which clang makes of `__attribute__((leaf))`: it
                            // promises nothing about a callee that another module defines and instruments.
                            _ if declaration && no_callback.contains(&name) => CallKind::Silent(name),
                            _ => CallKind::External(name),
                        }
                    }
                };
                functions[caller].calls.push(Call { instruction, kind });
            }
        }
    }

    find_tail_called(&mut functions, &index);
    let mut graph = CallGraph::new();
    for (i, function) in functions.iter().enumerate() {
        if function.entry_push && must_tail[i] {
            return Err(format!(
                "function {} replaces a library function that callers are known to enter without a push, and it \
                 makes calls that must stay tail calls; its frame cannot be kept. Rename it, or compile it without \
                 the pass",
                function.name
            ));
        }
        // Any use that is not the callee of one of the edges: another module, a pointer, an alias, a
        // constructor table, or a caller that is not instrumented.
        let entry = function.external || function.value.use_count() > direct_uses[i];
        // A function that makes tail calls hands its own activation to their callees, which start
        // a sub-path where it did: so it must have started one.
        let id = graph.add_function(entry, function.entry_push || must_tail[i]);
        if let Some(count) = function.value.entry_count() {
            graph.set_count(id, count);
        }
    }
    for (caller, callee, frequency) in edges {
        let id = |i: usize| pcce_encoding::FunctionId::new(i as u32);
        graph.add_edge(id(caller), id(callee), frequency);
    }
    Ok(Analysis { functions, graph })
}

/// Sets [`Function::tail_called`]. A call through a pointer may reach any function of its type but those that only direct
/// calls in this module can name.
fn find_tail_called(functions: &mut [Function], index: &HashMap<Value, usize>) {
    let mut types = HashSet::new();
    let blocks: Vec<Block> = functions.iter().flat_map(|function| function.value.blocks()).collect();
    for call in blocks.into_iter().flat_map(Block::instructions) {
        if call.tail_call() != TailCall::Must {
            continue;
        }
        match resolve(call.called(), false) {
            Target::Function { value, .. } => {
                if let Some(&callee) = index.get(&value) {
                    functions[callee].tail_called = true;
                }
            }
            Target::Pointer => _ = types.insert(call.called_type()),
            Target::Asm(_) | Target::Intrinsic(_) => {}
        }
    }
    for function in functions {
        function.tail_called |= types.contains(&function.value.function_type())
            && (function.external || function.value.has_address_taken());
    }
}

enum Target {
    Asm(String),
    Intrinsic(Value),
    Pointer,
    Function { value: Value, exact: bool },
}

/// What a called operand is. `exact`: the definition in this module is the one that runs.
fn resolve(called: Value, whole_program: bool) -> Target {
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
