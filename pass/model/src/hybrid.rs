//! Hybrid encoding: additions are left out where the stack offset tells contexts apart (pcce.txt §6).
//!
//! This module provides what `pcce-encoding` needs for it: how far the stack pointer is below a function's
//! canonical frame address at its calls, measured in the code that LLVM generates, and where sub-paths begin.
//! The measured offsets are assumptions about the final code. The caller measures again, and the decoder
//! compares them with the linked program.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use pcce_encoding::hybrid::{Hybrid, HybridOptions, Stack, hybrid};
use pcce_encoding::{Encoding, FunctionId};
use serde::{Deserialize, Serialize};

use crate::{CallKind, Function, Program, Reach, RuntimeCall, STD_THREAD, Unannounced};

/// The knowledge about the stack at calls.
#[derive(Default)]
pub struct Frames {
    /// Frame offsets in bytes, by the names of functions. The others are unknown.
    pub offsets: HashMap<String, u32>,
    /// Functions whose frames may have another size in each activation.
    pub varying: HashSet<String>,
    /// Pairs of caller and callee all of whose calls that may be jumps are jumps. The callee is empty for
    /// calls through pointers.
    pub jumps: HashSet<(String, String)>,
    /// The number of copies that were instrumented with offsets so far; none before offsets are measured.
    pub rounds: Option<u32>,
}

/// How far the stack pointer is below a function's canonical frame address at its calls: the *frame offset*.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameOffset {
    /// The same number of bytes at all calls. (Calls that became jumps do not count, and calls of inline
    /// assembly are not seen.)
    Fixed(u32),
    /// A fixed number of bytes at each call, but different ones: some calls have arguments on the stack.
    ByCall,
    /// Unknown, and perhaps different each time: the unwind tables do not count from the stack pointer, or
    /// there are none (`alloca`, large alignments, a frame pointer).
    Unknown,
}

/// The stack at the calls of a module, in the code that LLVM generates.
#[derive(Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The frame offset of each function in which a call remained, by the function's name.
    pub offsets: BTreeMap<String, FrameOffset>,
    /// Pairs of caller and callee all of whose calls became jumps, by name. The callee is empty for calls
    /// through pointers.
    pub jumps: BTreeSet<(String, String)>,
}

/// The names of functions in [`Frames`].
pub trait Names {
    fn of(&self, function: FunctionId) -> String;

    /// The name of a function where another one calls it.
    fn called(&self, _caller: FunctionId, callee: FunctionId) -> String {
        self.of(callee)
    }
}

impl Names for Program {
    fn of(&self, function: FunctionId) -> String {
        self[function].name.clone()
    }
}

/// The number of rounds without an end after which no offset is relied on.
pub const MOST_ROUNDS: u32 = 8;
/// The number of rounds in which changed offsets replace those of the round before. In later rounds, changed
/// offsets are dropped.
const PATIENT_ROUNDS: u32 = 3;

impl Frames {
    /// Learns from the measured code of an encoding that relied on `used`. Returns whether the code has the
    /// frames that the encoding relied on.
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
            // The encoding itself changes the frames, most of all in the first rounds.
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

    /// Drops all offsets.
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
    /// Pairs of caller and callee whose calls are assumed to become jumps; no callee for calls through
    /// pointers.
    pub jumps: Vec<(FunctionId, Option<FunctionId>)>,
    /// How often code was generated to measure the frames.
    pub rounds: u32,
}

/// Leaves out additions of the encoding. Returns none if nothing was measured, or if the module has no open
/// node, so that its callers are unknown.
///
/// A call that adds nothing and became a jump may stay one: its callee begins where the caller does. All
/// other calls without an addition are made to stay calls.
pub fn apply(program: &Program, encoding: &mut Encoding, frames: &Frames, names: &dyn Names) -> Option<Used> {
    let rounds = frames.rounds?;
    let open_node = program.graph.open_node()?;
    let mut stack = Stack::new(&program.graph);
    stack.set_unknown_base(open_node);
    let mut used = Vec::with_capacity(program.functions.len());
    let mut jumps = Vec::new();
    for (id, function) in program.iter() {
        let has_edges = function.calls.iter().any(|call| call.edge.is_some());
        let relied = has_edges && !function.jumps_about;
        let own = names.of(id);
        let frame = frames.offsets.get(&own).copied().filter(|_| relied);
        for (c, call) in function.calls.iter().enumerate() {
            let Some(edge) = call.edge else { continue };
            let callee = call.kind.callee();
            let name = callee.map(|callee| names.called(id, callee)).unwrap_or_default();
            if encoding.constant(edge) == Some(0)
                && function.copies(c).all(|copy| function.calls[copy].may_be_jump)
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
    // Other edges than before become free of additions. A jump that gets an addition becomes a call.
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
    /// The assumptions of the encoding.
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

/// Returns whether the function is `main`, called by the start-up code only.
pub fn is_main(program: &Program, function: FunctionId) -> bool {
    let calls = program.functions.iter().flat_map(|f| &f.calls);
    program[function].name == "main"
        && !program.graph.is_open(function)
        && !calls.into_iter().any(|call| call.kind == CallKind::Direct(function))
}

/// Returns whether contexts are taken in the function by other means than `pcce_context` and `pcce_token`.
/// Such captures do not know where the activation begins.
fn is_observed(function: &Function) -> bool {
    let observed = |kind: &CallKind| match kind.reach() {
        Reach::Runtime => !matches!(kind, CallKind::Runtime(RuntimeCall::Context | RuntimeCall::Token)),
        Reach::Outside => kind.name() == Some(STD_THREAD),
        Reach::Function(_) | Reach::Replaceable(_) | Reach::Pointer | Reach::Nothing => false,
    };
    function.reads_state
        || function.unannounced != Unannounced::Never
        || function.calls.iter().any(|call| observed(&call.kind))
}
