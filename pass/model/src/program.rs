//! The program model: the facts about a module, without LLVM.
//!
//! Functions and calls are numbers, places in lists. The plugin keeps handles to their code in a table of the
//! same order. So everything that is made of a program can be tested on small programs.

use std::ops::{Index, IndexMut};

use pcce_encoding::{CallGraph, EdgeId, FlowBlock, FunctionId};
use serde::{Deserialize, Serialize};

use crate::profile::Matched;

/// The type of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct TypeId(pub u32);

/// A class of calls through pointers that may reach the same functions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Pointer {
    /// The type of the called functions.
    pub ty: TypeId,
    /// True if the pointer is from a C++ virtual table; none if that is unknown. Virtual calls reach only
    /// functions in virtual tables. Other calls do not reach functions whose address is in virtual tables
    /// only.
    pub is_virtual: Option<bool>,
}

/// The places of a function's address in the module, besides in calls of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AddressPlaces {
    /// In C++ virtual tables.
    pub in_table: bool,
    pub elsewhere: bool,
}

/// The kind of a call.
///
/// A kind goes from LLVM's instruction to the line of a decoded context. These are the stations, and the places to
/// change for a new kind. The compiler finds the matches at which each kind must decide, as they have no `_`.
///
/// 1. `facts/gather.rs` of the plugin finds the kind by the called operand (`facts/resolve.rs`). `llvm/instruction.rs`
///    says which opcodes are calls.
/// 2. [`CallKind::reach`] says what the call may reach. Silence, tail calls, the call graph and traces need only that.
/// 3. [`crate::plan`] decides the action, the kind of the site in the dictionary, and the edge. `slice.rs` writes the
///    action for the code generation after the link (`Does`), and `merge.rs` of `pass/link` resolves kinds that name
///    functions of other modules.
/// 4. `contexts/sequences.rs` of the plugin emits what an action needs ([`Action`](crate::plan::Action) says what the
///    action changes), and `tracing/gather.rs` names the event.
/// 5. `SiteKind` in `decoder/dictionary/src/schema.rs` is the kind of the site on disk; `docs/formats.md` describes it.
///    `images/symbols.rs` and `images/encodings.rs` of the decoder read it, and `show/graph.rs` and `cli/info.rs`
///    show it.
/// 6. `decode/mod.rs` and `decode/join.rs` of the decoder make pieces of a context of it (`Piece` in
///    `context/mod.rs`, with its class), and `context/frames.rs` frames of a piece. `FrameKind` has a value for each
///    boundary; `show/style.rs` has its text, and the guide's `messages.md` its meaning.
///
/// A kind that differs from another one only in how the compiler names the callee needs stations 1 to 3, and the name
/// of its event in station 4.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum CallKind {
    /// A direct call of an instrumented function whose definition here is the one that runs.
    Direct(#[serde(with = "number")] FunctionId),
    /// A direct call, by name, of an instrumented function of this library. Another image may define the name, too, and
    /// the loader then binds the library's calls to that image's function. The call goes through a word, which leads to
    /// this function or, if another one replaces it, to its stub
    /// ([`PlannedFunction::stub`](crate::plan::PlannedFunction::stub)).
    Replaceable(#[serde(with = "number")] FunctionId),
    /// A direct call that leaves the instrumented part of the module, and may call back.
    External(String),
    /// A direct call that leaves the instrumented part of the module, and is known not to call back.
    Silent(String),
    /// A `Silent` call that may allocate, in a program that records allocations: the runtime learns its site.
    Published(String),
    /// A call through a pointer.
    Indirect,
    /// Inline assembly that contains a call.
    Asm,
    /// A call that is replaced by one of the runtime.
    Runtime(RuntimeCall),
}

/// The code that a call may reach, and so what the analyses do with it. Several kinds of calls reach the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// This instrumented function.
    Function(FunctionId),
    /// This instrumented function, or another image's that replaces it.
    Replaceable(FunctionId),
    /// Each instrumented function that a pointer may lead to. The call has an edge if the graph has an open node.
    Pointer,
    /// Code that is not instrumented, and may call back. The call pushes.
    Outside,
    /// The runtime, which takes a context, or learns the site.
    Runtime,
    /// Code that is not instrumented, and does not call back.
    Nothing,
}

impl CallKind {
    /// The code that the call may reach.
    pub fn reach(&self) -> Reach {
        match self {
            Self::Direct(callee) => Reach::Function(*callee),
            Self::Replaceable(callee) => Reach::Replaceable(*callee),
            Self::Indirect => Reach::Pointer,
            Self::External(_) | Self::Asm => Reach::Outside,
            Self::Runtime(_) | Self::Published(_) => Reach::Runtime,
            Self::Silent(_) => Reach::Nothing,
        }
    }

    /// The callee, if the call is known to reach this instrumented function.
    pub fn callee(&self) -> Option<FunctionId> {
        match self.reach() {
            Reach::Function(callee) => Some(callee),
            Reach::Replaceable(_) | Reach::Pointer | Reach::Outside | Reach::Runtime | Reach::Nothing => None,
        }
    }

    /// The instrumented function to which the call's edge leads, if it is no call through a pointer.
    pub fn function(&self) -> Option<FunctionId> {
        match self.reach() {
            Reach::Function(callee) | Reach::Replaceable(callee) => Some(callee),
            Reach::Pointer | Reach::Outside | Reach::Runtime | Reach::Nothing => None,
        }
    }

    /// The name of a callee that is not instrumented in this module.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::External(name) | Self::Silent(name) | Self::Published(name) => Some(name),
            Self::Direct(_) | Self::Replaceable(_) | Self::Indirect | Self::Asm | Self::Runtime(_) => None,
        }
    }

    /// Returns whether the call runs one of the runtime's tasks. Such a call always pushes, in its own
    /// function.
    pub fn runs_task(&self) -> bool {
        matches!(self, Self::External(name) if name == pcce_abi::functions::TASK_RUN)
    }
}

/// libstdc++'s `std::thread::_M_start_thread`, which creates a thread. Its second argument is the thread's
/// state.
pub const STD_THREAD: &str =
    "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE";

/// Calls that the pass replaces by calls of the runtime with the site as a further argument.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
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
    /// `thrd_create`: creates a thread, in C11.
    ThrdCreate,
}

impl RuntimeCall {
    /// Finds the call by the callee's name and the number of arguments.
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
    /// The kind of the call.
    pub kind: CallKind,
    /// The number of its basic block.
    pub block: u32,
    /// True if its block ends with it: an invoke, or assembly that may jump.
    pub ends_block: bool,
    /// Expected executions for one activation of its function, or executions counted by a profile.
    pub frequency: f64,
    /// The type of the callee.
    pub ty: TypeId,
    /// For a call through a pointer: true if the pointer is from a C++ virtual table; none if that is
    /// unknown.
    pub is_virtual: Option<bool>,
    /// The pointer was compared with its probable targets, and is none of them.
    pub compared: bool,
    /// Code generation may turn the call into a jump.
    pub may_be_jump: bool,
    /// Set if code generation turns the call into a jump when nothing is done after it: its number among such
    /// calls of its function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sibling: Option<u32>,
    /// Set if the call has copies in its function: a number that all of them have ([`crate::copies`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<u32>,
    /// Derived: the group of the functions with tail calls that the call may reach without pushing 0, if
    /// there are any.
    #[serde(skip)]
    pub tail_group: Option<u32>,
    /// Derived: the call's edge in the call graph, which its copies have, too. Calls through pointers have one if the
    /// graph has an open node.
    #[serde(skip)]
    pub edge: Option<EdgeId>,
}

impl Call {
    /// A call in block 0 that is executed once, of which nothing else is known.
    pub fn new(kind: CallKind, ty: TypeId) -> Self {
        Self {
            kind,
            block: 0,
            ends_block: false,
            frequency: 1.0,
            ty,
            is_virtual: None,
            compared: false,
            may_be_jump: false,
            sibling: None,
            copy: None,
            tail_group: None,
            edge: None,
        }
    }
}

/// The callee of a call that must stay a tail call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TailCallee {
    /// A function of the program.
    Known(#[serde(with = "number")] FunctionId),
    /// Any function that a call through such a pointer may reach.
    Pointer(Pointer),
    /// A function by its name, which another module defines, or may define.
    Away { name: String, ty: TypeId },
}

/// How callers that neither push nor know the function's number may enter it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Unannounced {
    /// Not at all.
    Never,
    /// With any id. Its callers do nothing, since functions of its name do not call back; or no call is
    /// visible, since LLVM inserts it after the pass; or the function is a personality function. The function
    /// pushes at its own entry.
    #[serde(rename = "Anyhow")]
    AnyId,
    /// By an open call of an executable whose graph has an open node. The id is then the open node's, and
    /// positive. Ids of this module are not positive, and a caller that pushes enters with id 0.
    Open,
}

/// An instrumented function: the facts that its code shows, and those *derived* from all functions together
/// by [`crate::derive`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Function {
    /// Its linkage name.
    pub name: String,
    /// The linkage name in the source, if debug information has it: linking renames local functions of equal
    /// names.
    pub source_name: Option<String>,
    /// Linkage names of aliases by which other modules can call the function.
    pub aliases: Vec<String>,
    pub ty: TypeId,
    /// True if other modules can call it by name.
    pub external: bool,
    /// True if the module uses the function other than by calling it.
    pub address_taken: bool,
    /// The places of its address. Set in programs with an open node only.
    pub places: AddressPlaces,
    /// True if the module uses the function other than by direct calls in instrumented functions. Other
    /// modules do not count.
    pub otherwise_used: bool,
    /// True if code can be put before it that jumps elsewhere with the same arguments.
    pub can_be_diverted: bool,
    /// True if code can stand before its prologue, and calls can enter it behind that code.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_check_first: bool,
    /// Executions according to LLVM's own profile.
    pub entry_count: Option<f64>,
    /// True if it calls a function of the runtime that reads or writes the state as this function has it.
    pub reads_state: bool,
    /// True if it may write into a trace of calls: the tracer takes contexts where it begins a chunk.
    pub traced: bool,
    /// True if it makes calls that can return twice (`setjmp`, `vfork`).
    pub returns_twice: bool,
    /// True if its control flow cannot be followed in machine code.
    pub jumps_about: bool,
    /// The callees of its calls that must stay tail calls: it leaves its activation to them.
    pub tail_callees: Vec<TailCallee>,
    /// Its calls, in the order of the code. Calls that stay tail calls are not among them.
    pub calls: Vec<Call>,
    /// True if it is a push thunk ([`crate::thunks`]), which contexts do not show.
    pub push_thunk: bool,
    /// How callers that neither push nor know its number may enter it. `Open` is derived, and so is `Never`
    /// for a silent function.
    pub unannounced: Unannounced,
    /// Derived: true if the function is silent: no function that it calls, directly or not, can take a
    /// context, push, or call back. Nothing looks at the id there, so it need not say how the function was
    /// called. For a thread that is interrupted there, call sites are found by return addresses, up to the
    /// first function that is not silent.
    #[serde(skip)]
    pub silent: bool,
    /// Derived: the groups ([`Call::tail_group`]) whose functions may leave their activations to it.
    #[serde(skip)]
    pub tail_groups: Vec<u32>,
}

impl Function {
    /// Returns whether its check for open calls of other images can stand before its prologue, so that calls of its own
    /// image can enter it behind the check. The code of traces takes that place.
    pub fn checks_first(&self) -> bool {
        self.unannounced == Unannounced::Open && self.can_be_diverted && self.can_check_first && !self.traced
    }

    /// A local function without calls, of which nothing is known.
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
            can_check_first: false,
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

    /// Returns whether code of other modules may call the function. Only the start-up code calls `main`,
    /// unless a call or a pointer in the program shows otherwise.
    pub fn is_callable_by_name(&self) -> bool {
        self.external && self.name != "main"
    }
}

/// One source location of an instruction.
#[derive(PartialEq, Eq, Hash)]
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

/// Questions about the code. They are asked only where the answer matters, since there is much code.
pub trait Source {
    /// The source locations of a call, innermost first; empty without debug information.
    fn locations(&self, function: FunctionId, call: usize) -> Vec<SourceLocation>;
    /// Returns whether two calls of a function pass their arguments alike.
    fn pass_alike(&self, function: FunctionId, one: usize, other: usize) -> bool;
    /// The control flow of a function, by the numbers of its blocks.
    fn flow(&self, function: FunctionId) -> Vec<FlowBlock>;
    /// Returns whether a thunk could forward the call's arguments, and the callee does not look at its
    /// caller.
    fn fits_thunk(&self, function: FunctionId, call: usize) -> bool;
}

/// Serialises a function by its number.
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

/// The instrumented functions of a module, and their call graph.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// In the order of their ids in [`Program::graph`].
    pub functions: Vec<Function>,
    /// The call graph (pcce.txt, Definition 1). The open node, if there is one, comes after all functions.
    pub graph: CallGraph,
    /// The groups ([`Call::tail_group`]) whose functions may leave their activations to functions of other
    /// modules.
    pub leaving_groups: Vec<u32>,
    /// The counts of the profile of calls.
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
