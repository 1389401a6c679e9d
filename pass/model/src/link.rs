//! What an object of link mode carries, besides its symbols, for the step behind the link, which encodes all modules of
//! an image together.
//!
//! What a module can know by itself is in its code: which calls push since they close a cycle of the module. The values
//! of the other calls are *bound* behind the link: in front of such a call and behind it stands an *update*, a no-op
//! that the step overwrites with an addition to the id, or leaves. Calls that lead to other modules, or through a
//! pointer, go to a *stub* of their own, with a jump to the callee: there the step reads whom the linker has chosen,
//! and either lets the call reach the callee directly, or makes the stub push. Calls that code generation makes jumps
//! of have no updates, since nothing can stand behind a jump: they go to stubs that can add, too.
//!
//! An update or stub is a no-op of [`NO_OP`] bytes that names itself ([`name`]). So the step finds all that are in the
//! linked file, and only these, by looking at its code, whatever linkers and code generation have dropped, moved, or
//! written twice.
//!
//! Code compiled with `-fPIC` may become part of an executable or of a shared library; which one, the link shows. Its
//! pushes store id 0, as those of libraries do, and its functions that others may enter have an *entry*, which is
//! checked in libraries.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    Call, CallKind, Error, Function, Matched, Mode, NoCallback, Program, Source, Unannounced, derive, silent,
};
use pcce_abi::no_op::{INDEX_BITS, MODULE_BITS};
use pcce_encoding::FunctionId;

/// What an object carries.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// What the no-ops of this module have as its name.
    pub module: u32,
    /// The types of functions, as LLVM writes them; [`TypeId`](crate::TypeId) counts them.
    pub types: Vec<String>,
    /// The functions, with their calls.
    pub functions: Vec<Function>,
    /// What the code does at the calls of each function.
    pub calls: Vec<Vec<CodeOfCall>>,
    /// The updates, by their numbers.
    pub updates: Vec<Update>,
    /// How many additions of more than 31 bits there is room for ([`pcce_abi::no_op::WIDE_LEN`]), from a no-op on that
    /// is named as a stub behind the last one.
    pub room: u32,
    /// Whether the code may become part of a shared library.
    pub for_library: bool,
    /// The functions that begin with an entry ([`pcce_abi::no_op::ENTRY`]), by their numbers.
    pub entries: BTreeSet<u32>,
    /// Whether the module makes streams that call functions of the program.
    pub makes_streams: bool,
    /// Whether the module sets handlers of C++.
    pub sets_handlers: bool,
    /// What its assembly may name.
    pub assembly: Assembly,
    /// The options that decide what is encoded; all modules of an image have the same.
    pub options: Options,
}

/// What assembly may name: it is not read, but for its words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assembly {
    /// Whether it makes names of others, so that it may name anything.
    pub opaque: bool,
    /// Its words.
    pub names: BTreeSet<String>,
}

/// Options that must be the same in all modules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Width of ids.
    pub id_bits: u32,
    /// Functions that reach nothing unknown are silent.
    pub silent: bool,
    /// Calls that may allocate are published.
    pub publishes: bool,
    /// Verify mode.
    pub verify: bool,
    /// Stack offsets tell contexts apart, in an executable.
    pub hybrid: bool,
}

/// What stands around a call in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Nothing, or what no link changes.
    Plain,
    /// A push.
    Pushes,
    /// Updates.
    Bound,
    /// Nothing: code generation can make a jump of it. Its stub pushes or adds. (Not where the code may become part of
    /// a shared library: an addition takes more room there.)
    Tail,
}

/// What the code does at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeOfCall {
    /// What stands around it.
    pub shape: Shape,
    /// The number of the stub that it calls.
    pub stub: Option<u32>,
    /// The number of its site.
    pub site: Option<u32>,
}

/// A place where the id changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Update {
    /// Its function.
    pub function: u32,
    /// What this call has added is taken away.
    pub left: Option<u32>,
    /// What this call adds is added.
    pub entered: Option<u32>,
}

/// How a call can reach its callee through a stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Not at all.
    No,
    /// It can, and all arguments are in registers: the stub can push.
    Registers,
    /// It can, but arguments are on the stack: the stub can only jump.
    Stack,
}

/// In a shared library ids have fewer bits: there is no room for code that adds more than 31.
pub const LIBRARY_ID_BITS: u32 = 31;

/// Whether a function that may become part of a shared library needs a check of its entry there, since open calls of an
/// executable may reach it.
#[must_use]
pub fn may_be_entered(function: &Function) -> bool {
    (function.external || function.otherwise_used)
        && !function.silent
        && function.unannounced != Unannounced::Anyhow
}

/// Decides what stands around each call of a module, and which of them go through stubs. `by_itself`: how the module's
/// program is encoded alone. `no_callback`: whose lists name what may turn out not to call back. `for_library`: the
/// code may become part of a shared library.
///
/// # Errors
/// Those of [`derive()`].
pub fn shapes(
    (program, by_itself): (&Program, &pcce_encoding::Encoding),
    (mode, no_callback): (&Mode<'_>, &NoCallback),
    source: &dyn Source,
    (id_bits, for_library): (u32, bool),
) -> Result<Vec<Vec<CodeOfCall>>, Error> {
    let functions = &program.functions;
    // The module by itself: its cycles push. What is done at the entry needs no other call.
    let not_derived = |call: &Call| Call { edge: None, tail_group: None, ..call.clone() };
    let alone = functions.iter().map(|f| {
        let calls = f.calls.iter().map(not_derived).collect();
        Function { can_be_diverted: true, calls, ..f.clone() }
    });
    let closed: Vec<Function> = alone.collect();
    // Where open calls close a cycle, the coldest of its calls is best to push. Only the link knows these cycles. Here
    // open calls reach all that other modules may call, and in a second encoding nothing of that.
    let inside = |f: &Function| Function { external: f.external && f.name == "main", ..f.clone() };
    let hopeful = match for_library || !mode.silent {
        true => Vec::new(),
        // Most executables neither replace what allocates nor have streams of their own: what the lists name calls
        // nothing back.
        false => silent::supposing(&closed, |name| no_callback.lists(name)),
    };
    let whole = derive(closed.iter().map(inside).collect(), &Mode { open: true, ..*mode }, Matched::none)?;
    let alone = derive(closed, &Mode { open: false, ..*mode }, Matched::none)?;
    // What must add has to in any image.
    let (id_bits, known_starts) = match for_library {
        true => (id_bits.min(LIBRARY_ID_BITS), false),
        false => (id_bits, true),
    };
    let options = pcce_encoding::Options { id_bits, known_starts, ..pcce_encoding::Options::default() };
    let encoding = pcce_encoding::encode(&alone.graph, &options);
    let of_whole = pcce_encoding::Options { dear_open_pushes: true, ..options };
    let of_whole = pcce_encoding::encode(&whole.graph, &of_whole);
    let closes_own_cycle = |call: &Call| call.edge.is_some_and(|edge| encoding.edge(edge).pushes());
    // It pushes, unless the link finds that nothing looks.
    let may_be_silent = |id: FunctionId, c: usize| {
        hopeful.get(id.index()).is_some_and(|f| f.silent) && source.reach(id, c) == Reach::Registers
    };
    let closes_cycle = |id: FunctionId, c: usize| {
        let pushes = |program: &Program, encoding: &pcce_encoding::Encoding| {
            program[id].calls[c].edge.is_some_and(|edge| encoding.edge(edge).pushes())
        };
        !for_library && (pushes(&whole, &of_whole) || pushes(program, by_itself))
    };
    let mut stubs = 0;
    let mut new_stub = || {
        stubs += 1;
        Some(stubs - 1)
    };
    let mut shapes = Vec::with_capacity(functions.len());
    for (id, function) in alone.iter() {
        let mut row = Vec::with_capacity(function.calls.len());
        for (c, call) in function.calls.iter().enumerate() {
            let pushes = |pushes| if pushes { Shape::Pushes } else { Shape::Bound };
            let plain = CodeOfCall { shape: Shape::Plain, stub: None, site: None };
            row.push(match reached(&alone, function, call, mode) {
                _ if function.silent => plain,
                Reached::Nothing => plain,
                Reached::Unknown => CodeOfCall { shape: Shape::Pushes, ..plain },
                Reached::Own if closes_own_cycle(call) && !may_be_silent(id, c) => {
                    CodeOfCall { shape: Shape::Pushes, ..plain }
                }
                Reached::Own | Reached::Other
                    if !for_library
                        && source.is_tail_call(id, c)
                        && source.reach(id, c) == Reach::Registers =>
                {
                    CodeOfCall { shape: Shape::Tail, stub: new_stub(), ..plain }
                }
                Reached::Own
                    if (closes_cycle(id, c) || closes_own_cycle(call))
                        && source.reach(id, c) == Reach::Registers =>
                {
                    CodeOfCall { shape: Shape::Bound, stub: new_stub(), ..plain }
                }
                Reached::Own => CodeOfCall { shape: Shape::Bound, ..plain },
                // The link will hardly find another way, and a stub that calls a routine takes three times as long.
                Reached::Other if call.kind == CallKind::Indirect && closes_cycle(id, c) => {
                    CodeOfCall { shape: Shape::Pushes, ..plain }
                }
                Reached::Other => match source.reach(id, c) {
                    Reach::No => CodeOfCall { shape: Shape::Pushes, ..plain },
                    Reach::Stack if call.kind == CallKind::Indirect => {
                        CodeOfCall { shape: Shape::Pushes, ..plain }
                    }
                    reach => CodeOfCall { shape: pushes(reach == Reach::Stack), stub: new_stub(), ..plain },
                },
            });
        }
        shapes.push(row);
    }
    Ok(shapes)
}

/// Whom a call reaches, as far as its module knows.
enum Reached {
    /// Nothing that needs the id.
    Nothing,
    /// Code of which nothing is known, by a way that nobody sees.
    Unknown,
    /// A function of the module, which is no matter of the link's.
    Own,
    /// Whom the link knows.
    Other,
}

fn reached(program: &Program, function: &Function, call: &Call, mode: &Mode<'_>) -> Reached {
    match &call.kind {
        CallKind::Silent(_) | CallKind::Published(_) | CallKind::Runtime(_) => Reached::Nothing,
        CallKind::Direct(callee) if program[*callee].silent || function.silent => Reached::Nothing,
        // Open calls reach those that leave their activations to others.
        CallKind::Direct(callee) if program[*callee].leaves() => Reached::Other,
        CallKind::Direct(_) => Reached::Own,
        kind if kind.runs_task() => Reached::Unknown,
        CallKind::External(_) => Reached::Other,
        CallKind::Indirect if mode.publishes || call.compared => Reached::Unknown,
        CallKind::Indirect => Reached::Other,
        CallKind::Asm => Reached::Unknown,
    }
}

/// A name for a module: of a digest of its identifier and symbols the upper [`MODULE_BITS`] bits.
#[must_use]
pub fn module_name(digest: u64) -> u32 {
    (digest >> (64 - MODULE_BITS)) as u32
}

/// How many additions of more than 31 bits a module needs room for. In an executable its values are others, but about
/// as many are as wide as in one that is the module alone. Each is added and taken away.
#[must_use]
pub fn room(program: &Program, encoding: &pcce_encoding::Encoding) -> u32 {
    let calls = program.iter().flat_map(|(_, function)| &function.calls);
    let values = calls.filter_map(|call| encoding.constant(call.edge?));
    let wide = values.filter(|&value| i32::try_from(value as i64).is_err()).count();
    (wide * 5 / 2) as u32 + u32::from(wide > 0) * 64
}

/// Whether a module has too many updates or stubs for their numbers.
#[must_use]
pub fn too_many(updates: usize, stubs: usize) -> bool {
    updates.max(stubs) > 1 << INDEX_BITS
}
