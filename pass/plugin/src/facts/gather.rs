//! Reads the code of the instrumented functions. Nothing is changed.

use std::collections::{HashMap, HashSet};

use pcce_encoding::FunctionId;

use super::eligible::Eligibility;
use super::named::{Named, Uses};
use super::resolve::{Binding, Target, name_of, resolve};
use crate::handles::{Code, FunctionCode};
use crate::llvm::{self, Instruction, Module, Opcode, Signature, TailCall};
use crate::machine::Machine;
use pcce_model::{
    AddressPlaces, Call, CallKind, Function, NoCallback, Pointer, RuntimeCall, TailCallee, TypeId,
    Unannounced,
};

/// Functions of the C library that return twice. The front end marks them, but not with `-fno-builtin`
/// (clang's Builtins.td).
const RETURNS_TWICE: [&str; 7] =
    ["setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp", "savectx", "vfork", "getcontext"];

/// Functions of the runtime that read or write the calling function's state. Nothing is done around calls of
/// them.
const TRANSPARENT: [&str; 4] =
    ["pcce_fiber_save", "pcce_fiber_restore", "pcce_thread_token", "pcce_install_crash_handler"];

/// Knowledge about the module besides its code.
pub struct Knowledge<'a, 'm> {
    /// Functions that do not call back.
    pub no_callback: &'a NoCallback,
    /// A later step knows which of these functions the program defines itself.
    pub decided_later: bool,
    /// Says what decides which definition of a name runs.
    pub binding: Binding,
    /// The call graph will have an open node.
    pub open: bool,
    /// The code certainly belongs to an executable that is encoded as a whole.
    pub in_executable: bool,
    /// Functions that callers may enter without a push.
    pub unpushed: &'a HashSet<llvm::Function<'m>>,
}

/// The facts of a module.
pub struct Gathered<'m> {
    /// The instrumented functions.
    pub functions: Vec<Function>,
    /// The types of functions, as LLVM prints them, by their numbers.
    pub types: Vec<String>,
    /// The functions that other modules know as well, and their uses here.
    pub named: Vec<Named<'m>>,
}

/// The functions whose addresses a function returns; None where it is another address, or not known.
fn results(function: llvm::Function<'_>) -> Vec<Option<llvm::Function<'_>>> {
    let instructions = function.blocks().into_iter().flat_map(|block| block.instructions());
    instructions.filter_map(Instruction::returned).map(|returned| returned.aliased()).collect()
}

/// Numbers the instrumented functions, and reads their calls.
pub fn gather<'m>(module: Module<'m>, knowledge: &Knowledge<'_, 'm>) -> (Gathered<'m>, Code<'m>) {
    let values: Vec<llvm::Function<'m>> =
        Eligibility::new(module, knowledge.in_executable).instrumented(module).collect();
    let index = values.iter().copied().zip((0..).map(FunctionId::new)).collect();
    let mut aliases: HashMap<llvm::Function<'_>, Vec<String>> = HashMap::new();
    for alias in module.aliases() {
        if let Some(function) = alias.function().filter(|_| !alias.linkage().local) {
            aliases.entry(function).or_default().push(alias.name());
        }
    }
    for ifunc in module.ifuncs().into_iter().filter(|ifunc| !ifunc.local) {
        // If the resolver may choose code without the pass, that code may call another choice back.
        let chosen = results(ifunc.resolver);
        if chosen.iter().all(|chosen| chosen.is_some_and(|function| values.contains(&function))) {
            for function in chosen.into_iter().flatten().collect::<HashSet<_>>() {
                aliases.entry(function).or_default().push(ifunc.name.clone());
            }
        }
    }
    let mut reader = Reader {
        knowledge,
        machine: module.machine(),
        index,
        builtin_jumps: builtin_jumps(module),
        types: HashMap::new(),
        uses: Uses::default(),
    };
    let mut functions = Vec::with_capacity(values.len());
    let mut code = Vec::with_capacity(values.len());
    for value in values {
        let (mut function, places) = reader.read(value, &module.block_frequencies(value));
        function.aliases = aliases.remove(&value).unwrap_or_default();
        functions.push(function);
        code.push(places);
    }
    for (function, code) in functions.iter_mut().zip(&code) {
        function.otherwise_used = reader.uses.others(code.value.operand()) > 0;
    }
    let named = reader.uses.named(module, &reader.index);
    let mut types: Vec<(Signature<'_>, TypeId)> = reader.types.into_iter().collect();
    types.sort_unstable_by_key(|(_, id)| id.0);
    let types = types.into_iter().map(|(ty, _)| ty.text()).collect();
    (Gathered { functions, types, named }, Code::new(module, code))
}

fn builtin_jumps(module: Module<'_>) -> HashMap<llvm::Function<'_>, bool> {
    let is_setjmp = |name: String| Some(name.strip_prefix("llvm.eh.sjlj.")? == "setjmp");
    module.functions().into_iter().filter_map(|f| Some((f, is_setjmp(f.name())?))).collect()
}

struct Reader<'a, 'm> {
    knowledge: &'a Knowledge<'a, 'm>,
    machine: &'static dyn Machine,
    index: HashMap<llvm::Function<'m>, FunctionId>,
    /// The intrinsics of `__builtin_setjmp` and its like; true for the one that returns twice.
    builtin_jumps: HashMap<llvm::Function<'m>, bool>,
    types: HashMap<Signature<'m>, TypeId>,
    uses: Uses<'m>,
}

impl<'m> Reader<'_, 'm> {
    fn read(&mut self, value: llvm::Function<'m>, frequencies: &[f64]) -> (Function, FunctionCode<'m>) {
        let mut function = self.facts(value);
        let mut code = FunctionCode::new(value);
        let mut siblings = 0..;
        for ((number, block), &frequency) in (0..).zip(value.blocks()).zip(frequencies) {
            if block.is_landing_pad() {
                code.comes_back.push(block);
            }
            let mut tail: Option<Instruction<'m>> = None;
            for instruction in block.instructions() {
                match instruction.opcode() {
                    Opcode::Return => code.exits.push(tail.unwrap_or(instruction)),
                    Opcode::Resume => code.exits.push(instruction),
                    Opcode::IndirectBr | Opcode::CallBr => function.jumps_about = true,
                    _ => {}
                }
                let Some(call) = instruction.as_call() else { continue };
                let sibling = if call.is_sibling_call() { siblings.next() } else { None };
                if call.tail_call() == TailCall::Must {
                    tail = Some(instruction);
                    self.add_tail_callees(call, &mut function.tail_callees);
                } else if let Some(kind) = self.kind(call, &mut function, &mut code) {
                    self.uses.add(call, &kind);
                    function.calls.push(Call { sibling, ..self.call(call, kind, number, frequency) });
                    code.calls.push(call);
                }
            }
        }
        function.returns_twice = !code.returns_twice.is_empty();
        function.jumps_about |= function.returns_twice;
        (function, code)
    }

    /// The facts about a function that do not depend on its body.
    fn facts(&mut self, value: llvm::Function<'m>) -> Function {
        let external = !value.linkage().local;
        let places = |value: llvm::Function<'_>| {
            let (in_table, elsewhere) = value.address_places();
            AddressPlaces { in_table, elsewhere }
        };
        let unpushed = self.knowledge.unpushed.contains(&value);
        Function {
            source_name: value.source_name(),
            external,
            address_taken: value.has_address_taken(),
            places: if self.knowledge.open && !external { places(value) } else { AddressPlaces::default() },
            can_be_diverted: value.can_be_diverted(),
            can_check_first: value.can_check_first(),
            entry_count: value.entry_count(),
            unannounced: if unpushed { Unannounced::AnyId } else { Unannounced::Never },
            ..Function::new(value.name(), self.type_id(value.signature()))
        }
    }

    fn type_id(&mut self, ty: Signature<'m>) -> TypeId {
        let next = TypeId(self.types.len() as u32);
        *self.types.entry(ty).or_insert(next)
    }

    fn call(&mut self, call: llvm::Call<'m>, kind: CallKind, block: u32, frequency: f64) -> Call {
        let indirect = kind == CallKind::Indirect;
        Call {
            block,
            ends_block: call.opcode() != Opcode::Call,
            frequency,
            is_virtual: if indirect { call.is_virtual_call() } else { None },
            compared: indirect && call.is_compared(),
            may_be_jump: call.tail_call() == TailCall::May,
            ..Call::new(kind, self.type_id(call.signature()))
        }
    }

    fn add_tail_callees(&mut self, call: llvm::Call<'m>, to: &mut Vec<TailCallee>) {
        let ty = self.type_id(call.signature());
        match resolve(call.called(), self.knowledge.binding) {
            Target::Function { value, exact } => {
                let known = self.index.get(&value);
                to.extend(known.map(|&callee| TailCallee::Known(callee)));
                // Another module's function may run.
                let name = || name_of(call.called(), value);
                to.extend((known.is_none() || !exact).then(|| TailCallee::Away { name: name(), ty }));
            }
            Target::Pointer | Target::Asm(_) | Target::Intrinsic(_) => {
                to.push(TailCallee::Pointer(Pointer { ty, is_virtual: call.is_virtual_call() }));
            }
        }
    }

    /// The kind of the call; none if the pass ignores it. Facts that the call shows about its caller are
    /// stored in `function` and `code`.
    fn kind(
        &mut self,
        call: llvm::Call<'m>,
        function: &mut Function,
        code: &mut FunctionCode<'m>,
    ) -> Option<CallKind> {
        match resolve(call.called(), self.knowledge.binding) {
            Target::Asm(text) => {
                if !self.machine.may_call(&text) {
                    return None;
                }
                if call.opcode() == Opcode::CallBr {
                    code.comes_back.extend(call.successors());
                }
                Some(CallKind::Asm)
            }
            Target::Intrinsic(value) => {
                if let Some(&returns_twice) = self.builtin_jumps.get(&value) {
                    function.jumps_about = true;
                    // The intrinsic lacks the attribute `returns_twice`.
                    code.returns_twice.extend(returns_twice.then_some(call));
                }
                None
            }
            Target::Pointer => Some(CallKind::Indirect),
            Target::Function { value, exact } => {
                let name = value.name();
                let declaration = value.linkage().declaration;
                if call.has_attribute("returns_twice")
                    || value.has_attribute("returns_twice")
                    || declaration && RETURNS_TWICE.contains(&name.as_str())
                {
                    code.returns_twice.push(call);
                }
                if declaration && TRANSPARENT.contains(&name.as_str()) {
                    function.reads_state = true;
                    return None;
                }
                Some(self.direct(call, value, exact, name, declaration))
            }
        }
    }

    /// The kind of a call of a named function.
    fn direct(
        &mut self,
        call: llvm::Call<'m>,
        callee: llvm::Function<'m>,
        exact: bool,
        name: String,
        declaration: bool,
    ) -> CallKind {
        let Knowledge { no_callback, decided_later, .. } = *self.knowledge;
        match (self.index.get(&callee), RuntimeCall::of(&name, call.argument_count())) {
            (_, Some(runtime)) if declaration => CallKind::Runtime(runtime),
            (Some(&number), _) if exact => CallKind::Direct(number),
            // LLVM's `nocallback`, which clang makes of `__attribute__((leaf))`, is not used: it promises
            // nothing about a callee that another module defines and instruments.
            _ if declaration && no_callback.contains(&name) => match no_callback.is_published(&name) {
                true => CallKind::Published(name),
                false if decided_later => CallKind::External(name),
                false => CallKind::Silent(name),
            },
            _ => CallKind::External(name_of(call.called(), callee)),
        }
    }
}
