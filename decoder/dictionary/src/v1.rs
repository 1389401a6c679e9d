//! Schema version 1, frozen: what it says is read by making version 2 of it (`upgrade`), and nothing writes it any
//! more.

use serde::{Deserialize, Serialize};

/// The version.
pub const VERSION: u32 = 1;

/// The dictionary of one linked program or shared library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dictionary {
    /// Schema version; always the first member of the document.
    pub version: u32,
    /// The ELF build id (`NT_GNU_BUILD_ID`) of the program, in lower-case hexadecimal digits.
    pub build_id: String,
    /// File name of the program, without its folder. For people only.
    pub program: String,
    /// One entry for each instrumented module that was linked.
    pub modules: Vec<Module>,
    /// The program's machine code, compressed ([`code::to_text`](crate::code::to_text)); none where it was not at hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// One instrumented module: a translation unit, or a whole program under LTO.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// The module's identifier in LLVM, usually the source file.
    pub name: String,
    /// What wrote it: release of the pass and version of LLVM.
    pub producer: String,
    /// The pass options that were in force.
    pub options: Vec<String>,
    /// Link-time address of the module's site array. Site `i` is named by `sites_address + i`.
    /// Filled in from the fragment's header; a module whose code was discarded by the linker has 0.
    pub sites_address: u64,
    /// `numCC` of the open node, if the module has one: it stands for whatever a call whose callee is not known
    /// reaches. Only executables have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_num_cc: Option<u64>,
    /// In modules with a hybrid encoding (pcce.txt §6), how often code was generated to measure frames. Numbers of a
    /// function may then stand for several sub-paths, which the stack offset tells apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hybrid_rounds: Option<u32>,
    /// File names, as in the debug information (absolute where the compiler knew the folder).
    pub files: Vec<String>,
    /// Linkage names of the functions of the module and of those inlined into them.
    pub names: Vec<String>,
    /// The instrumented functions.
    pub functions: Vec<Function>,
    /// The sites, in the order of their addresses.
    pub sites: Vec<Site>,
    /// The groups of functions ([`Site::tail_group`]) of which one may leave its frame to a function of another module.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaving_groups: Vec<u32>,
    /// The edges of the call graph inside the module.
    pub edges: Vec<Edge>,
}

/// An instrumented function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Linkage name, as an index into [`Module::names`].
    pub name: u32,
    /// Number of encodings of the function's sub-paths (`numCC`), which are numbered `0..num_cc`.
    pub num_cc: u64,
    /// The program's ids in the function are these numbers plus the offset, modulo 2⁶⁴, and negated in modules without
    /// an open node. 0 for entries.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: i64,
    /// Whether the function can be entered with id 0 (it has the dummy in-edge, pcce.txt §5).
    /// The dummy in-edge, where there is one, has the value 0.
    pub entry: bool,
    /// Whether open calls may reach it: its smallest ids are then those of the open node, which has the dummy in-edge.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// Whether nothing in it can take a context, push or call back, so that the id while it runs is that of the call in
    /// the first caller that is not silent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
    /// Whether other modules can call it by name.
    pub external: bool,
    /// Whether it is one of the pass's own: it pushes, and calls what its caller would have called. Contexts do not
    /// show it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub push_thunk: bool,
    /// The groups of functions ([`Site::tail_group`]) of which one may have left its frame to this function, by tail
    /// calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tail_groups: Vec<u32>,
    /// Whether a jump may lead to it that was a call in the source. Where that call does nothing to the id, contexts
    /// know it all the same, but
    /// return addresses do not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub jumped_to: bool,
    /// In dictionaries of earlier builds: whether tail calls that leave no frame may reach it, from whatever call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tail_called: bool,
    /// Linkage names of its aliases by which other modules can call it, too, as indices into [`Module::names`]. For
    /// instance, the complete constructor of a C++ class usually is an alias of the base constructor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<u32>,
    /// First number of the range in which `pcce_context()` shifts this function's ids, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<u64>,
    /// Hybrid encoding: whether sub-paths with number 0 may begin at a place on the stack that nobody knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown_base: bool,
    /// Hybrid encoding: how far below the function's canonical frame address the stack pointer is at its calls, where
    /// the encoding relies on that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_offset: Option<u32>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// A place in an instrumented function that is named by an address (of the site array).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The instrumented function that contains the site: index into [`Module::functions`].
    pub function: u32,
    /// What happens there.
    pub kind: SiteKind,
    /// In executables with an open node: the number of the group of functions that the call may reach and that make
    /// tail calls which leave no frame, if there
    /// are such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail_group: Option<u32>,
    /// Debug locations, innermost first: the location itself, then the call site into which it was
    /// inlined, and so on up to the location in [`Site::function`]. Empty without debug information.
    pub locations: Vec<Location>,
}

/// What happens at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SiteKind {
    /// A direct call of an instrumented function of the module; the edge tells which.
    Direct,
    /// A direct call of a function outside the module, or of one that is not instrumented:
    /// its linkage name, as an index into [`Module::names`].
    External(u32),
    /// A call through a pointer.
    Indirect,
    /// A call made by inline assembly.
    Asm,
    /// A call of `pcce_token` or `pcce_context`, or one that creates a thread.
    Capture,
    /// A call that installs a signal handler, in dictionaries of earlier builds. A frame with such a site was pushed
    /// when the handler was called: the id is that of the interrupted function, which is not known.
    Signal,
    /// The function's own entry, for functions that callers may enter without having pushed
    /// (such as a replacement of `malloc`): the pushed id belongs to an unknown function.
    Entry,
}

/// One source location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// The source function whose code this is: linkage name, as an index into [`Module::names`].
    pub name: u32,
    /// Index into [`Module::files`].
    pub file: u32,
    /// Line, from 1; 0 where the compiler gave none.
    pub line: u32,
    /// Column, from 1; 0 where the compiler gave none.
    pub column: u32,
}

/// A call of an instrumented function that has an addition value or pushes because of the numbering.
///
/// A direct call from one instrumented function of the module to another always has one; any other call only if
/// the module has an open node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// The call site (its function is the caller): index into [`Module::sites`].
    pub site: u32,
    /// The callee of a direct call: index into [`Module::functions`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callee: Option<u32>,
    /// What is done at the call.
    pub code: EdgeCode,
    /// Hybrid encoding: how far below the caller's activation that of the callee begins, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<u32>,
}

/// What is done to the context at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeCode {
    /// The addition value, from numbers of the caller to numbers of the callee (pcce.txt, Algorithm 1). The program
    /// adds it plus the callee's offset minus the caller's.
    Add(u64),
    /// The addition value of an open call: the edge leads to the open node.
    Open(u64),
    /// A back edge: the call pushes (pcce.txt, Algorithm 3).
    Back,
    /// An edge cut because `numCC` would not fit (pcce.txt §7): the call pushes.
    Cut,
    /// The callee requires a push: it makes calls that must stay tail calls, or callers that
    /// do not push may enter it.
    Required,
}
