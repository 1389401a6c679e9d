//! The schema: the symbols of an image, and separately their encodings.
//!
//! Version 3 gives ranges of numbers to places ([`Encoding::places`]). In version 2, which is read, too, functions have
//! them ([`EncodedFunction::range`]).
//!
//! The *symbols* of an image are what exists in it: its modules, with their functions and sites, and its
//! machine code. An [`Encoding`] gives the ids of the program their meaning, for some of the modules.
//!
//! A document must have every member, and no others: a reader that does not know a member refuses the document,
//! since the member may change the meaning of others. Values that are unknown, or do not exist, are `null` or an
//! empty list.

use serde::{Deserialize, Deserializer, Serialize};

/// The version that is written.
pub const VERSION: u32 = 3;
/// The oldest version that is read.
pub const OLDEST: u32 = 2;

/// The dictionary of one linked program or shared library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dictionary {
    /// Schema version; always the first member of the document.
    pub version: u32,
    /// The ELF build id (`NT_GNU_BUILD_ID`) of the program, in lower-case hexadecimal digits.
    pub build_id: String,
    /// File name of the program, without its folder. For people only.
    pub program: String,
    /// One entry for each instrumented module that was linked.
    pub modules: Vec<Module>,
    /// The encodings of the modules. Each module is in one.
    pub encodings: Vec<Encoding>,
    /// The program's machine code, compressed ([`code::to_text`](crate::code::to_text)); none where it was
    /// not at hand.
    #[serde(deserialize_with = "required")]
    pub code: Option<String>,
}

impl Default for Dictionary {
    fn default() -> Self {
        Self {
            version: VERSION,
            build_id: String::new(),
            program: String::new(),
            modules: Vec::new(),
            encodings: Vec::new(),
            code: None,
        }
    }
}

/// The part of a dictionary that comes from one object file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fragment {
    pub module: Module,
    /// Its encodings, each as if the module were the first one of the image.
    pub encodings: Vec<Encoding>,
}

/// A module in an object file of link mode, which the link step encodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unlinked {
    pub module: Module,
    /// The facts that only the link step needs: a JSON document as text.
    #[serde(deserialize_with = "text")]
    pub facts: String,
}

/// The record of the link step, with all modules that it has encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Linked {
    /// The modules, with the addresses of their site arrays.
    pub modules: Vec<Module>,
    /// Their encodings, as if they were the first ones of the image.
    pub encodings: Vec<Encoding>,
}

/// The symbols of one instrumented module: a translation unit, or a whole program under LTO.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Module {
    /// The module's identifier in LLVM, usually the source file.
    pub name: String,
    /// The producer: release of the pass and version of LLVM. For people only.
    pub producer: String,
    /// The pass options that were in force. For people, and for `pcce verified`.
    pub options: Vec<String>,
    /// Link-time address of the module's site array. Site `i` is named by `sites_address + i`. Filled in from
    /// the header of the module's record; a module whose code was discarded by the linker has 0.
    pub sites_address: u64,
    /// True if only contexts of chosen functions are wanted (targeted mode): then silent functions may have
    /// called functions of other modules without a push.
    pub targeted: bool,
    /// File names, as in the debug information (absolute where the compiler knew the folder).
    pub files: Vec<String>,
    /// Linkage names of the functions of the module and of those inlined into them.
    pub names: Vec<String>,
    pub functions: Vec<Function>,
    /// The sites, in the order of their addresses.
    pub sites: Vec<Site>,
    /// The groups of functions ([`Site::tail_group`]) of which one may leave its activation to a function of
    /// another encoding.
    pub leaving_groups: Vec<u32>,
    /// Functions with a body that are not instrumented, by reason.
    pub skipped: Vec<Skipped>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Linkage name, as an index into [`Module::names`].
    pub name: u32,
    /// Linkage names of its aliases by which other modules can call it, too, as indices into
    /// [`Module::names`]. For instance, the complete constructor of a C++ class usually is an alias of the
    /// base constructor.
    pub aliases: Vec<u32>,
    /// True if other modules can call it by name.
    pub external: bool,
    /// True if nothing in it can take a context, push or call back, so that the id while it runs is that of
    /// the call in the first caller that is not silent.
    pub silent: bool,
    /// True if it is one of the pass's own: it pushes, and calls what its caller would have called. Contexts
    /// do not show it.
    pub push_thunk: bool,
    /// True if a jump may lead to it that was a call in the source. If that call does nothing to the id, contexts
    /// have the call nevertheless, but return addresses do not show it.
    pub jumped_to: bool,
    /// The groups of functions ([`Site::tail_group`]) of which one may have left its activation to this
    /// function, by tail calls.
    pub tail_groups: Vec<u32>,
}

/// A place in an instrumented function that is named by an address (of the site array).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// The instrumented function that contains the site: index into [`Module::functions`].
    pub function: u32,
    pub kind: SiteKind,
    /// The number of the group of functions that the call may reach and that make tail calls which leave no
    /// frame, if there are such functions. Only calls that leave the id alone, or add to it, have one. Groups are
    /// numbered over all modules of an encoding.
    #[serde(deserialize_with = "required")]
    pub tail_group: Option<u32>,
    /// Debug locations, innermost first: the location itself, then the call site into which it was inlined,
    /// and so on up to the location in [`Site::function`]. Empty without debug information.
    pub locations: Vec<Location>,
}

/// The kinds of sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SiteKind {
    /// A direct call of an instrumented function of the module: index into [`Module::functions`]. None if the
    /// dictionary does not say which.
    Direct(Option<u32>),
    /// A direct call of a function outside the module, or of one that is not instrumented: its linkage name,
    /// as an index into [`Module::names`].
    External(u32),
    /// The call in a function's stub, of the function of another image that replaces it: the linkage name, as an index
    /// into [`Module::names`]. The ids in the stub are those of the function, and contexts leave the stub out.
    Replaced(u32),
    /// A call through a pointer.
    Indirect,
    /// A call made by inline assembly.
    Asm,
    /// A call of `pcce_token` or `pcce_context`, or one that creates a thread.
    Capture,
    /// The function's own entry, for functions that callers may enter without having pushed (such as a
    /// replacement of `malloc`): the pushed id belongs to an unknown function.
    Entry,
}

/// One source location; `[name, file, line, column]` in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "[u32; 4]", into = "[u32; 4]")]
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

impl From<[u32; 4]> for Location {
    fn from([name, file, line, column]: [u32; 4]) -> Self {
        Self { name, file, line, column }
    }
}

impl From<Location> for [u32; 4] {
    fn from(Location { name, file, line, column }: Location) -> Self {
        [name, file, line, column]
    }
}

/// Functions that the pass did not instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    pub reason: SkipReason,
    pub functions: u32,
}

/// The reasons why a function with a body is not instrumented. Calls of it are calls of external code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// `available_externally`: another module's copy runs.
    OtherCopy,
    /// `naked`: its body is assembly.
    Naked,
    /// A coroutine that is not split yet.
    Coroutine,
    /// Part of the runtime.
    Runtime,
    /// An ifunc resolver: it runs before thread-local storage exists.
    IfuncResolver,
    /// It makes calls that must stay tail calls, and takes arguments that a push before its entry cannot pass on.
    TailCalls,
    /// `_Unwind_Resume`: landing pads end in it, and one of its own would.
    ResumesUnwinding,
}

impl SkipReason {
    /// A phrase about the functions, for messages.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::OtherCopy => "available_externally: another module's copy runs",
            Self::Naked => "naked: the body is assembly",
            Self::Coroutine => "a coroutine that is not split yet",
            Self::Runtime => "part of the runtime",
            Self::IfuncResolver => "an ifunc resolver: runs before thread-local storage exists",
            Self::ResumesUnwinding => "landing pads end in it",
            Self::TailCalls => "makes tail calls, and cannot be entered through a push",
        }
    }
}

/// Always 0 in a document: every encoding was made before the program started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Epoch;

impl From<Epoch> for u32 {
    fn from(Epoch: Epoch) -> Self {
        0
    }
}

impl TryFrom<u32> for Epoch {
    type Error = String;

    fn try_from(number: u32) -> Result<Self, String> {
        if number == 0 { Ok(Self) } else { Err(format!("epoch {number} is not known")) }
    }
}

/// An encoding of modules of an image: no sub-path leads from one encoding into another.
///
/// Functions and sites are numbered over all modules of the encoding, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encoding {
    pub epoch: Epoch,
    /// The first of its modules: index into [`Dictionary::modules`].
    pub first_module: u32,
    /// The number of its modules.
    pub module_count: u32,
    /// `numCC` of the open node, if there is one: it stands for all functions that calls with unknown callees reach.
    /// Only executables have one.
    #[serde(deserialize_with = "required")]
    pub open_num_cc: Option<u64>,
    /// One row for each function.
    pub functions: Vec<EncodedFunction>,
    pub edges: Vec<Edge>,
    /// The places at which context numbers are taken.
    pub places: Vec<NumberPlace>,
    /// The assumptions of a hybrid encoding (pcce.txt §6). In one, numbers of a function may stand for several
    /// sub-paths, which differ in their stack offsets.
    #[serde(deserialize_with = "required")]
    pub hybrid: Option<Hybrid>,
}

/// The encoding of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncodedFunction {
    /// Number of encodings of the function's sub-paths (`numCC`), which are numbered `0..num_cc`.
    pub num_cc: u64,
    /// The program's ids in the function are these numbers plus this, modulo 2⁶⁴, and negated in encodings
    /// without an open node. 0 for entries.
    pub id_offset: i64,
    /// True if the function can be entered with id 0 (it has the dummy in-edge, pcce.txt §5). The dummy
    /// in-edge, where there is one, has the value 0.
    pub entry: bool,
    /// True if open calls may reach it: its smallest ids are then those of the open node, which has the dummy
    /// in-edge.
    pub open: bool,
    /// Version 2: first number of the range in which `pcce_context()` shifts this function's ids, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<u64>,
}

/// A document of version 2 in the form of the newest one.
pub(crate) fn from_version_2(document: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut document: serde_json::Value = serde_json::from_slice(document)?;
    let encodings = document.get_mut("encodings").and_then(serde_json::Value::as_array_mut);
    for encoding in encodings.into_iter().flatten().filter_map(serde_json::Value::as_object_mut) {
        encoding.insert("places".to_owned(), serde_json::Value::Array(Vec::new()));
    }
    serde_json::to_vec(&document)
}

/// A place at which a function takes context numbers: its captures (`pcce_context()`) with one inline stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumberPlace {
    /// One of its captures. The site's locations are those of the place.
    pub site: u32,
    /// First number of the range in which `pcce_context()` shifts the function's ids here; none where the process gives
    /// the numbers.
    #[serde(deserialize_with = "required")]
    pub base: Option<u64>,
    /// True if all its captures are in the line of that one.
    pub line: bool,
}

/// A call that has an addition value, or pushes because of the numbering.
///
/// A direct call from one instrumented function of the encoding to another always has one, unless one of them
/// is silent, and so has a call by name that the link has bound to a function of the encoding; any other call
/// only if there is an open node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The call site. Its function is the caller.
    pub site: u32,
    /// The callee, if the link has bound the call to a function of the encoding. Only calls by name
    /// ([`SiteKind::External`]) have one. Without it, the callee is that of the direct call, or the open
    /// node.
    #[serde(deserialize_with = "required")]
    pub callee: Option<u32>,
    /// The action at the call.
    pub code: EdgeCode,
}

/// The action on the context at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeCode {
    /// The addition value, from numbers of the caller to numbers of the callee (pcce.txt, Algorithm 1). The
    /// program adds it plus the callee's [`id_offset`](EncodedFunction::id_offset) minus the caller's.
    Add(u64),
    /// The addition value of an open call: the edge leads to the open node.
    Open(u64),
    /// A back edge: the call pushes (pcce.txt, Algorithm 3).
    Back,
    /// An edge cut because `numCC` would not fit (pcce.txt §7): the call pushes.
    Cut,
    /// The callee requires a push: it makes calls that must stay tail calls, or callers that do not push may
    /// enter it.
    Required,
}

/// The assumptions of a hybrid encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hybrid {
    /// The number of times that code was generated to measure stacks. For people only.
    pub rounds: u32,
    /// The stack sizes of functions on which the encoding relies: the distance of the stack pointer below the
    /// canonical frame address at the function's calls. ⟨function, bytes⟩.
    pub stack_sizes: Vec<(u32, u32)>,
    /// Functions whose sub-paths with number 0 may begin at an unknown place on the stack.
    pub unknown_bases: Vec<u32>,
    /// The distance from the caller's activation down to that of the callee, where it is known; 0 for a jump.
    /// ⟨index into [`Encoding::edges`], bytes⟩.
    pub stack_offsets: Vec<(u32, u32)>,
}

/// Reads a member that must be there, even if it is `null`.
fn required<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

/// Reads a JSON document as text. It takes no more memory than its text, whatever the document holds.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
    Ok(Box::<str>::from(raw).into_string())
}
