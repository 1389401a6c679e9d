//! Hybrid encoding: additions that are left out where the stack offset tells the contexts apart (pcce.txt §6).
//!
//! What `pcce-encoding` needs for it is known here: how far functions have the stack pointer below their canonical
//! frame address at calls, as measured in the code that LLVM generates, and where sub-paths begin. The measured offsets
//! are assumptions on what will be generated in the end: the caller measures again, and the decoder compares with the
//! linked program.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use pcce_encoding::hybrid::{Hybrid, HybridOptions, Stack, hybrid};
use pcce_encoding::{Encoding, FunctionId};
use serde::{Deserialize, Serialize};

use crate::{CallKind, Function, Program, RuntimeCall, STD_THREAD, Unannounced};

/// What is known of the stack at calls.
#[derive(Default)]
pub struct Frames {
    /// Frame offsets in bytes, of functions by name. Nothing is known of others.
    pub offsets: HashMap<String, u32>,
    /// Functions whose frames may be of another size each time.
    pub varying: HashSet<String>,
    /// Callers and callees where each call that may be a jump is one; an empty name for calls through pointers.
    pub jumps: HashSet<(String, String)>,
    /// How many copies were instrumented with offsets until they were found; none if nobody asked for them.
    pub rounds: Option<u32>,
}

/// How far the stack pointer is below a function's canonical frame address when it calls: its *frame offset*.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameOffset {
    /// So many bytes, whichever call is made. (Calls that became jumps do not count, and those of inline
    /// assembly are not seen.)
    Fixed(u32),
    /// So many at each call, but not the same at all of them: some have arguments on the stack.
    ByCall,
    /// The unwind tables do not count from the stack pointer, or there are none: frames with `alloca`, large
    /// alignments, a frame pointer. It may be another one each time.
    Unknown,
}

/// What the calls of a module do to the stack, in the code that LLVM generates.
#[derive(Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The frame offset of each function in which a call was left, by the function's name.
    pub offsets: BTreeMap<String, FrameOffset>,
    /// Callers and callees where each call became a jump, by their names; an empty one for calls through pointers.
    pub jumps: BTreeSet<(String, String)>,
}

/// What functions are called in [`Frames`].
pub trait Names {
    fn of(&self, function: FunctionId) -> String;

    /// The same where another one calls it.
    fn called(&self, _caller: FunctionId, callee: FunctionId) -> String {
        self.of(callee)
    }
}

impl Names for Program {
    fn of(&self, function: FunctionId) -> String {
        self[function].name.clone()
    }
}

/// After so many copies without an end, no offset is relied upon.
pub const MOST_ROUNDS: u32 = 8;
/// So many of them take the offsets of the copy before for what they are; from then on, those that have changed are not
/// relied upon.
const PATIENT_ROUNDS: u32 = 3;

impl Frames {
    /// Takes what was measured of code whose encoding relied on `used`. Returns whether that is what the code has.
    pub fn learn(&mut self, used: &Frames, measured: Measured) -> bool {
        let offset = |name: &String| match measured.offsets.get(name) {
            Some(&FrameOffset::Fixed(offset)) => Some(offset),
            _ => None,
        };
        let unknown = measured.offsets.iter().filter(|(_, offset)| **offset == FrameOffset::Unknown);
        let before = self.varying.len();
        self.varying.extend(unknown.map(|(name, _)| name.clone()));
        let Some(round) = self.rounds else {
            let names = measured.offsets.keys();
            self.offsets = names.filter_map(|name| Some((name.clone(), offset(name)?))).collect();
            self.jumps = measured.jumps.into_iter().collect();
            return false;
        };
        let mut settled = self.varying.len() == before;
        for (name, used) in &used.offsets {
            let found = offset(name);
            if found == Some(*used) {
                continue;
            }
            settled = false;
            // The encoding changes the frames itself, most of all at first.
            match found.filter(|_| round <= PATIENT_ROUNDS) {
                Some(offset) => self.offsets.insert(name.clone(), offset),
                None => self.offsets.remove(name),
            };
        }
        for jump in &used.jumps {
            if !measured.jumps.contains(jump) {
                settled = false;
                self.jumps.remove(jump);
            }
        }
        settled
    }

    /// No offset is relied upon any more.
    pub fn forget(&mut self) {
        self.offsets.clear();
        self.jumps.clear();
    }
}

/// A hybrid encoding, and what it relies on.
pub struct Used {
    /// The encoding.
    pub hybrid: Hybrid,
    /// The frame offset of each function, in the order of [`Program::functions`].
    pub frames: Vec<Option<u32>>,
    /// Callers and callees where calls are taken to become jumps; no callee of calls through pointers.
    pub jumps: Vec<(FunctionId, Option<FunctionId>)>,
    /// How often code was generated to measure them.
    pub rounds: u32,
}

/// Leaves out additions of the encoding. None if the module has no open node: who enters its functions, and from where,
/// is not known; or if nothing was measured.
///
/// A call that was free and became a jump may stay one: its callee begins where the caller does. Every other one
/// without an addition is made to stay a call.
pub fn apply(program: &Program, encoding: &mut Encoding, frames: &Frames, names: &dyn Names) -> Option<Used> {
    let rounds = frames.rounds?;
    let open_node = program.graph.open_node()?;
    let mut stack = Stack::new(&program.graph);
    stack.set_unknown_base(open_node);
    let mut used = Vec::with_capacity(program.functions.len());
    let mut jumps = Vec::new();
    for (id, function) in program.iter() {
        let edges = || function.calls.iter().filter_map(|call| Some((call, call.edge?)));
        let relied = edges().next().is_some() && !function.jumps_about;
        let own = names.of(id);
        let frame = frames.offsets.get(&own).copied().filter(|_| relied);
        for (call, edge) in edges() {
            let callee = match call.kind {
                CallKind::Direct(callee) => Some(callee),
                _ => None,
            };
            let name = callee.map(|callee| names.called(id, callee)).unwrap_or_default();
            if encoding.constant(edge) == Some(0)
                && call.may_be_jump
                && frames.jumps.contains(&(own.clone(), name))
            {
                stack.set_frame_offset(edge, JUMP);
                jumps.push((edge, (id, callee)));
            } else if let Some(frame) = frame {
                stack.set_frame_offset(edge, frame);
            }
        }
        used.push(frame);
        if frames.varying.contains(&own) {
            stack.set_varying(id);
        }
        if is_observed(function) {
            stack.set_numbers_only(id);
        }
        if program.graph.is_entry(id) && !is_main(program, id) {
            stack.set_unknown_base(id);
        }
    }
    // Other edges become free than were. A jump to which an addition comes is a call.
    let hybrid = loop {
        let hybrid = hybrid(&program.graph, encoding, &stack, &HybridOptions::default());
        let before = jumps.len();
        jumps.retain(|&(edge, (caller, _))| {
            let stays = hybrid.constant(edge) == Some(0);
            match used[caller.index()] {
                _ if stays => {}
                Some(frame) => stack.set_frame_offset(edge, frame),
                None => stack.clear_frame_offset(edge),
            }
            stays
        });
        if jumps.len() == before {
            break hybrid;
        }
    };
    hybrid.apply(encoding);
    Some(Used { hybrid, frames: used, jumps: jumps.into_iter().map(|(_, ends)| ends).collect(), rounds })
}

impl Used {
    /// What the encoding relies on.
    pub fn relied_on(&self, names: &dyn Names) -> Frames {
        let functions = (0..).map(FunctionId::new).zip(&self.frames);
        let jumps = self
            .jumps
            .iter()
            .map(|&(from, to)| (names.of(from), to.map(|to| names.called(from, to)).unwrap_or_default()));
        Frames {
            offsets: functions.filter_map(|(id, frame)| Some((names.of(id), (*frame)?))).collect(),
            jumps: jumps.collect(),
            ..Frames::default()
        }
    }
}

/// The frame offset of a call that is a jump.
pub const JUMP: u32 = 0;

/// Returns whether the function is `main`, and only the start-up code calls it.
pub fn is_main(program: &Program, function: FunctionId) -> bool {
    let calls = program.functions.iter().flat_map(|f| &f.calls);
    program[function].name == "main"
        && !program.graph.is_open(function)
        && !calls.into_iter().any(|call| call.kind == CallKind::Direct(function))
}

/// Returns whether contexts are taken in the function by others than `pcce_context` and `pcce_token`, who do not know
/// where its activation is.
fn is_observed(function: &Function) -> bool {
    let observed = |kind: &CallKind| match kind {
        CallKind::Published(_) => true,
        CallKind::Runtime(RuntimeCall::Context | RuntimeCall::Token) => false,
        CallKind::Runtime(_) => true,
        CallKind::External(name) => name == STD_THREAD,
        _ => false,
    };
    function.reads_state
        || function.unannounced != Unannounced::Never
        || function.calls.iter().any(|call| observed(&call.kind))
}
