//! Reads the code of the instrumented functions. Nothing is changed.

use std::collections::{HashMap, HashSet};

use pcce_encoding::FunctionId;

use super::eligible::Eligibility;
use super::program::{
    AddressPlaces, Call, CallKind, Function, Pointer, RuntimeCall, TailCallee, TypeId, Unannounced,
};
use super::resolve::{Target, resolve};
use super::{NoCallback, assembly};
use crate::code::{Code, FunctionCode};
use crate::llvm::{Analyses, Module, TailCall, Type, Value};
use llvm_sys::LLVMOpcode;

/// Functions of the C library that return twice. The front end says so of them, but not with `-fno-builtin` (clang's Builtins.td).
const RETURNS_TWICE: [&str; 7] =
    ["setjmp", "_setjmp", "sigsetjmp", "__sigsetjmp", "savectx", "vfork", "getcontext"];

/// Functions of the runtime that read or write the state as the calling function has it: nothing is done around their
/// calls.
const TRANSPARENT: [&str; 4] =
    ["pcce_fiber_save", "pcce_fiber_restore", "pcce_thread_token", "pcce_install_crash_handler"];

/// What is known of the module besides its code.
pub struct Knowledge<'a> {
    /// Functions that do not call back.
    pub no_callback: &'a NoCallback,
    /// The module is the whole program after link-time resolution, so a definition in a comdat group is the one that was
    /// kept.
    pub whole_program: bool,
    /// The call graph will have an open node.
    pub open: bool,
    /// Functions that callers may enter without having pushed.
    pub unpushed: &'a HashSet<Value>,
}

/// Numbers the functions that are instrumented, and reads their calls.
pub fn gather(module: Module, analyses: Analyses, knowledge: &Knowledge<'_>) -> (Vec<Function>, Code) {
    let values: Vec<Value> = Eligibility::new(module, knowledge.open).instrumented(module).collect();
    let index = values.iter().copied().zip((0..).map(FunctionId::new)).collect();
    let mut aliases: HashMap<Value, Vec<String>> = HashMap::new();
    for alias in module.aliases() {
        if !alias.linkage().local {
            aliases.entry(alias.aliased()).or_default().push(alias.name());
        }
    }
    let mut reader = Reader {
        knowledge,
        index,
        builtin_jumps: builtin_jumps(module),
        types: HashMap::new(),
        direct_uses: vec![0; values.len()],
    };
    let mut functions = Vec::with_capacity(values.len());
    let mut code = Vec::with_capacity(values.len());
    for value in values {
        let (mut function, places) = reader.read(value, &analyses.block_frequencies(value));
        function.aliases = aliases.remove(&value).unwrap_or_default();
        functions.push(function);
        code.push(places);
    }
    for ((function, code), uses) in functions.iter_mut().zip(&code).zip(reader.direct_uses) {
        function.otherwise_used = code.value.use_count() > uses;
    }
    (functions, Code::new(analyses, code))
}

fn builtin_jumps(module: Module) -> HashMap<Value, bool> {
    let of_name = |value: Value| {
        let name = value.name();
        Some((value, name.strip_prefix("llvm.eh.sjlj.")? == "setjmp"))
    };
    module.functions().into_iter().filter_map(of_name).collect()
}

struct Reader<'a> {
    knowledge: &'a Knowledge<'a>,
    index: HashMap<Value, FunctionId>,
    /// Intrinsics for `__builtin_setjmp` and its like, and whether it is that one.
    builtin_jumps: HashMap<Value, bool>,
    types: HashMap<Type, TypeId>,
    /// How many direct calls of each function there are in instrumented ones.
    direct_uses: Vec<usize>,
}

impl Reader<'_> {
    fn read(&mut self, value: Value, frequencies: &[f64]) -> (Function, FunctionCode) {
        let mut function = self.facts(value);
        let mut code = FunctionCode::new(value);
        for ((number, block), &frequency) in (0..).zip(value.blocks()).zip(frequencies) {
            if block.is_landing_pad() {
                code.comes_back.push(block);
            }
            let mut tail: Option<Value> = None;
            for instruction in block.instructions() {
                match instruction.opcode() {
                    LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke => {}
                    LLVMOpcode::LLVMCallBr => function.jumps_about = true,
                    LLVMOpcode::LLVMRet => {
                        code.exits.push(tail.unwrap_or(instruction));
                        continue;
                    }
                    LLVMOpcode::LLVMResume => {
                        code.exits.push(instruction);
                        continue;
                    }
                    LLVMOpcode::LLVMIndirectBr => {
                        function.jumps_about = true;
                        continue;
                    }
                    _ => continue,
                }
                if instruction.tail_call() == TailCall::Must {
                    tail = Some(instruction);
                    function.tail_callees.push(self.tail_callee(instruction));
                } else if let Some(kind) = self.kind(instruction, &mut function, &mut code) {
                    let call = self.call(instruction, kind, number, frequency);
                    function.calls.push(call);
                    code.calls.push(instruction);
                }
            }
        }
        function.returns_twice = !code.returns_twice.is_empty();
        function.jumps_about |= function.returns_twice;
        (function, code)
    }

    /// What is known of a function without a look at its body.
    fn facts(&mut self, value: Value) -> Function {
        let external = !value.linkage().local;
        let places = |value: Value| {
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
            entry_count: value.entry_count(),
            unannounced: if unpushed { Unannounced::Anyhow } else { Unannounced::Never },
            ..Function::new(value.name(), self.type_id(value.function_type()))
        }
    }

    fn type_id(&mut self, ty: Type) -> TypeId {
        let next = TypeId(self.types.len() as u32);
        *self.types.entry(ty).or_insert(next)
    }

    fn call(&mut self, instruction: Value, kind: CallKind, block: u32, frequency: f64) -> Call {
        let indirect = kind == CallKind::Indirect;
        Call {
            block,
            ends_block: instruction.opcode() != LLVMOpcode::LLVMCall,
            frequency,
            ty: self.type_id(instruction.called_type()),
            is_virtual: if indirect { instruction.is_virtual_call() } else { None },
            compared: indirect && instruction.is_compared(),
            may_be_jump: instruction.tail_call() == TailCall::May,
            tail_group: None,
            edge: None,
            kind,
        }
    }

    fn tail_callee(&mut self, call: Value) -> TailCallee {
        match resolve(call.called(), false) {
            Target::Function { value, .. } => {
                self.index.get(&value).map_or(TailCallee::Away, |&callee| TailCallee::Known(callee))
            }
            Target::Pointer | Target::Asm(_) | Target::Intrinsic(_) => TailCallee::Pointer(Pointer {
                ty: self.type_id(call.called_type()),
                is_virtual: call.is_virtual_call(),
            }),
        }
    }

    /// What the call is; none if it is none that the pass knows. What it says of the function is noted there.
    fn kind(&mut self, call: Value, function: &mut Function, code: &mut FunctionCode) -> Option<CallKind> {
        match resolve(call.called(), self.knowledge.whole_program) {
            Target::Asm(text) => {
                if !assembly::may_call(&text) {
                    return None;
                }
                if call.opcode() == LLVMOpcode::LLVMCallBr {
                    code.comes_back.extend(call.successors());
                }
                Some(CallKind::Asm)
            }
            Target::Intrinsic(value) => {
                if let Some(&returns_twice) = self.builtin_jumps.get(&value) {
                    function.jumps_about = true;
                    // The intrinsic does not say so.
                    code.returns_twice.extend(returns_twice.then_some(call));
                }
                None
            }
            Target::Pointer => Some(CallKind::Indirect),
            Target::Function { value, exact } => {
                let name = value.name();
                let declaration = value.linkage().declaration;
                if call.call_has_attribute("returns_twice")
                    || value.has_attribute("returns_twice")
                    || declaration && RETURNS_TWICE.contains(&name.as_str())
                {
                    code.returns_twice.push(call);
                }
                if declaration && TRANSPARENT.contains(&name.as_str()) {
                    function.reads_state = true;
                    return None;
                }
                Some(self.direct(call, (value, exact), name, declaration))
            }
        }
    }

    /// What a call is of the function that it names.
    fn direct(
        &mut self,
        call: Value,
        (callee, exact): (Value, bool),
        name: String,
        declaration: bool,
    ) -> CallKind {
        let no_callback = self.knowledge.no_callback;
        match (self.index.get(&callee), RuntimeCall::of(&name, call.argument_count())) {
            (_, Some(runtime)) if declaration => CallKind::Runtime(runtime),
            (Some(&number), _) if exact => {
                self.direct_uses[number.index()] += usize::from(call.called() == callee);
                CallKind::Direct(number)
            }
            // Not LLVM's `nocallback`, which clang makes of `__attribute__((leaf))`: it
            // promises nothing about a callee that another module defines and instruments.
            _ if declaration && no_callback.contains(&name) => match no_callback.is_published(&name) {
                true => CallKind::Published(name),
                false => CallKind::Silent(name),
            },
            _ => CallKind::External(name),
        }
    }
}
