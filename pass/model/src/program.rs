//! The program model: what the pass knows of a module, without LLVM.
//!
//! Functions and calls are numbers, places in lists. Handles to their code stand in a table beside them
//! (in the plugin), in the same order. So whatever is made of a program can be tested on a few lines of it.

use std::ops::{Index, IndexMut};

use pcce_encoding::{CallGraph, EdgeId, FlowBlock, FunctionId};
use serde::{Deserialize, Serialize};

use crate::profile::Matched;

/// A type of functions of the module.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct TypeId(pub u32);

/// Calls through pointers that may reach the same functions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Pointer {
    /// The type that they call.
    pub ty: TypeId,
    /// True if the pointer is from a C++ virtual table; None where nobody knows. Virtual calls reach only functions
    /// in virtual tables, and others none that are nowhere else.
    pub is_virtual: Option<bool>,
}

/// Where the module holds the address of a function, besides in calls of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AddressPlaces {
    /// In C++ virtual tables.
    pub in_table: bool,
    pub elsewhere: bool,
}

/// What a call is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CallKind {
    /// A direct call of an instrumented function whose definition here is the one that runs.
    Direct(#[serde(with = "number")] FunctionId),
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

impl CallKind {
    /// Returns whether it runs a task of the runtime's: such a call pushes always, where it stands.
    pub fn runs_task(&self) -> bool {
        matches!(self, Self::External(name) if name == pcce_abi::functions::TASK_RUN)
    }
}

/// libstdc++'s `std::thread::_M_start_thread`, which creates the thread of the state that is its second argument.
pub const STD_THREAD: &str =
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE";

/// Calls that the pass replaces by ones of the runtime, which are told the site too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RuntimeCall {
    /// `pcce_context`: takes the context number.
    Context,
    /// `pcce_token`: takes the token.
    Token,
    /// `pcce_token_at`: takes the token of an interrupted point.
    TokenAt,
    /// `pcce_task_capture`: takes the context in which a task is submitted.
    TaskCapture,
    /// `pthread_create`: creates a thread.
    PthreadCreate,
    /// `thrd_create`, the same in C11.
    ThrdCreate,
}

impl RuntimeCall {
    /// By the name of the function that is called and the number of its arguments.
    pub fn of(name: &str, arguments: u32) -> Option<Self> {
        match (name, arguments) {
            ("pcce_context", 0) => Some(Self::Context),
            ("pcce_token", 2) => Some(Self::Token),
            ("pcce_token_at", 4) => Some(Self::TokenAt),
            ("pcce_task_capture", 1) => Some(Self::TaskCapture),
            ("pthread_create", 4) => Some(Self::PthreadCreate),
            ("thrd_create", 3) => Some(Self::ThrdCreate),
            _ => None,
        }
    }
}

/// A call in an instrumented function.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Call {
    /// What it is.
    pub kind: CallKind,
    /// The number of its basic block.
    pub block: u32,
    /// True if its block ends with it: an invoke, or assembly that may jump.
    pub ends_block: bool,
    /// Expected executions for one activation of its function, or what a profile has counted.
    pub frequency: f64,
    /// The type of the function that it calls.
    pub ty: TypeId,
    /// Of a call through a pointer: whether that is from a C++ virtual table; None where nobody knows.
    pub is_virtual: Option<bool>,
    /// Its pointer was compared with its probable targets, and is none of them.
    pub compared: bool,
    /// Code generation may make a jump of it.
    pub may_be_jump: bool,
    /// Code generation makes a jump of it if nothing is done behind it: its number among such calls of its function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sibling: Option<u32>,
    /// Derived: the group of functions that it may reach and that make calls which must stay tail calls, if there are
    /// any, and it does not push 0.
    #[serde(skip)]
    pub tail_group: Option<u32>,
    /// Derived: its edge in the call graph. Calls through pointers have one if the graph has an open node.
    #[serde(skip)]
    pub edge: Option<EdgeId>,
}

/// Where a call leads that must stay a tail call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TailCallee {
    /// To this function.
    Known(#[serde(with = "number")] FunctionId),
    /// To any function that such a call may reach.
    Pointer(Pointer),
    /// To a function by its name, whose definition is in another module, or may be.
    Away { name: String, ty: TypeId },
}

/// How a function may be entered by callers that neither pushed nor know its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Unannounced {
    /// Not at all.
    Never,
    /// With any id: its callers do nothing, since functions of its name do not call back; or no caller is seen, since
    /// LLVM inserts the call behind the pass; or it is a personality function. It pushes at its own entry.
    Anyhow,
    /// By an open call of an executable whose graph has an open node: the id is that node's, and positive. Ids of
    /// this module are not, and who has pushed enters with id 0.
    Open,
}

/// An instrumented function: what its code says, and what follows from that of all together (*derived*, by
/// [`crate::derive`]).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Function {
    /// Its linkage name.
    pub name: String,
    /// The linkage name that it has in its source, if debug information tells: linking renames local functions of
    /// equal names.
    pub source_name: Option<String>,
    /// Linkage names of its aliases by which other modules can call it, too.
    pub aliases: Vec<String>,
    pub ty: TypeId,
    /// True if other modules can call it by name.
    pub external: bool,
    /// True if anything in the module uses it but to call it.
    pub address_taken: bool,
    /// Where its address is. Asked for in programs with an open node only.
    pub places: AddressPlaces,
    /// True if anything uses it but the direct calls of its name in instrumented functions: other modules do not
    /// count.
    pub otherwise_used: bool,
    /// True if code can be put in front of it that leads elsewhere with the same arguments.
    pub can_be_diverted: bool,
    /// Executions in LLVM's own profile.
    pub entry_count: Option<f64>,
    /// True if it calls a function of the runtime that reads or writes the state as it is here.
    pub reads_state: bool,
    /// True if it may write into a trace of calls: the tracer takes contexts where it begins a chunk.
    pub traced: bool,
    /// True if it makes calls that can return twice (`setjmp`, `vfork`).
    pub returns_twice: bool,
    /// True if control comes to places of it on ways that nobody can follow in its machine code.
    pub jumps_about: bool,
    /// Where its calls lead that must stay tail calls: it leaves its activation to their callees.
    pub tail_callees: Vec<TailCallee>,
    /// Its calls, in the order of the code. Calls that stay tail calls are not among them.
    pub calls: Vec<Call>,
    /// True if it is a push thunk ([`crate::thunks`]), which contexts do not show.
    pub push_thunk: bool,
    /// How it may be entered by those who did not push, nor know its number. `Open` is derived, and `Never` where it is
    /// silent.
    pub unannounced: Unannounced,
    /// Derived: whether it is silent: nothing that it calls, directly or not, can take a context, push, or call back.
    /// The id need not tell how it was called, since nothing looks; who interrupts the program there finds the
    /// call sites by return addresses, up to the first function that is not silent.
    #[serde(skip)]
    pub silent: bool,
    /// Derived: the groups ([`Call::tail_group`]) of functions that may leave their activations to it.
    #[serde(skip)]
    pub tail_groups: Vec<u32>,
}

impl Function {
    /// A local function that does nothing, of which nothing is known.
    pub fn new(name: String, ty: TypeId) -> Self {
        Self {
            name,
            source_name: None,
            aliases: Vec::new(),
            ty,
            external: false,
            address_taken: false,
            places: AddressPlaces::default(),
            otherwise_used: false,
            can_be_diverted: true,
            entry_count: None,
            reads_state: false,
            traced: false,
            returns_twice: false,
            jumps_about: false,
            tail_callees: Vec::new(),
            calls: Vec::new(),
            push_thunk: false,
            unannounced: Unannounced::Never,
            silent: false,
            tail_groups: Vec::new(),
        }
    }

    /// Returns whether it makes calls that must stay tail calls.
    pub fn leaves(&self) -> bool {
        !self.tail_callees.is_empty()
    }

    /// Returns whether code of other modules calls it. Nothing but the start-up code calls `main`, unless a call or a
    /// pointer in the program shows.
    pub fn is_callable_by_name(&self) -> bool {
        self.external && self.name != "main"
    }
}

/// One source location of an instruction.
#[derive(PartialEq, Eq)]
pub struct SourceLocation {
    /// Linkage name of the source function.
    pub name: String,
    /// File, with its folder where it is known.
    pub file: String,
    /// Line, 0 if unknown.
    pub line: u32,
    /// Column, 0 if unknown.
    pub column: u32,
}

/// What is asked of the code only where the answer matters, since there is much of it.
pub trait Source {
    /// The locations of a call, innermost first; empty without debug information.
    fn locations(&self, function: FunctionId, call: usize) -> Vec<SourceLocation>;
    /// The flow of control in a function, by the numbers of its blocks.
    fn flow(&self, function: FunctionId) -> Vec<FlowBlock>;
    /// Returns whether a function in between could hand on the call's arguments, and the callee does not look at its
    /// caller.
    fn fits_thunk(&self, function: FunctionId, call: usize) -> bool;
}

/// A function's number, in documents.
mod number {
    use pcce_encoding::FunctionId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(function: &FunctionId, serializer: S) -> Result<S::Ok, S::Error> {
        function.index().serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FunctionId, D::Error> {
        u32::deserialize(deserializer).map(FunctionId::new)
    }
}

/// The functions of a module that are instrumented, and their call graph.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// In the order of their ids in [`Program::graph`].
    pub functions: Vec<Function>,
    /// The call graph (pcce.txt, Definition 1). The open node, if there is one, comes after all functions.
    pub graph: CallGraph,
    /// The groups ([`Call::tail_group`]) of functions that may leave their activations to functions of other modules.
    pub leaving_groups: Vec<u32>,
    /// What the profile of calls says.
    pub counts: Matched,
}

impl Program {
    /// The functions with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (FunctionId, &Function)> {
        ids(&self.functions)
    }
}

/// Functions of a list with their ids.
pub fn ids(functions: &[Function]) -> impl Iterator<Item = (FunctionId, &Function)> {
    functions.iter().enumerate().map(|(i, function)| (FunctionId::new(i as u32), function))
}

impl Index<FunctionId> for Program {
    type Output = Function;

    fn index(&self, function: FunctionId) -> &Function {
        &self.functions[function.index()]
    }
}

impl IndexMut<FunctionId> for Program {
    fn index_mut(&mut self, function: FunctionId) -> &mut Function {
        &mut self.functions[function.index()]
    }
}
