//! What is decided for one module of a program that is encoded before its code is generated.
//!
//! Each object carries what the pass has read of its module ([`Facts`]), with its symbols. The step at the link joins
//! the facts of all modules that are linked, encodes the program, and cuts what follows from that into one [`Slice`]
//! for each module. A slice and the module's bitcode are all that its code depends on.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use pcce_encoding::{Encoding, FunctionId};

use crate::bound::Width;
use crate::hybrid::{self, Used};
use crate::plan::{self, Action, PlannedCall, PlannedFunction, Push, chain, number_base, place_frame};
use crate::thunks::Thunk;
use crate::{
    Call, CallKind, Function, Program, RuntimeCall, Source, TailCallee, TypeId, Unannounced, Wanted,
};

/// What an object carries of its module.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// The types of functions, as LLVM writes them; [`TypeId`](crate::TypeId) counts them.
    pub types: Vec<String>,
    /// The functions, with their calls.
    pub functions: Vec<Function>,
    /// The sites of the calls of each function.
    pub sites: Vec<Vec<Option<Sites>>>,
    /// The sites of the functions' own entries.
    pub entry_sites: Vec<Option<u32>>,
    /// Which calls of each function a push thunk could hand on, if the callee does not look at its caller.
    pub fits_thunk: Vec<Vec<bool>>,
    /// The functions that look at their callers.
    pub look_at_caller: Vec<u32>,
    /// Functions without a body here whose address the module takes, with their types.
    pub declared: Vec<(String, TypeId)>,
    /// Functions of other modules, or that other modules may define, which this one uses otherwise than by calls.
    pub reached: Vec<String>,
    /// True if the module makes streams that call functions of the program.
    pub makes_streams: bool,
    /// True if the module sets handlers of C++.
    pub sets_handlers: bool,
    /// What its assembly may name.
    pub assembly: Assembly,
    /// The options that decide what is encoded; all modules of an image have the same.
    pub options: Options,
    /// Names that options give; all modules of an image have the same.
    pub wanted: Wanted,
}

/// What assembly may name: it is not read, but for its words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assembly {
    /// True if it makes names of others, so that it may name anything.
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

/// The sites of a call, by their numbers in the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sites {
    /// The call's own.
    pub call: u32,
    /// Of a call that creates a thread behind the back of the pass: where the context is taken before.
    pub creation: Option<u32>,
}

/// What is decided for a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// The image has an open node: it is an executable.
    pub open: bool,
    /// The object says how its calls leave the stack ([`crate::hybrid::Measured`]).
    pub measured: bool,
    /// In the order of the module's functions.
    pub functions: Vec<SliceFunction>,
    /// The push thunks of the module ([`crate::thunks`]).
    pub thunks: Vec<SliceThunk>,
    /// What is counted, in a program that counts its calls.
    pub counts: Option<SliceCounts>,
    /// The values that calls add are not known: [`Does::Add`] has places in this list, which says how wide they are.
    pub widths: Option<Vec<Width>>,
}

/// What a module counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceCounts {
    pub functions: Vec<CountedFunction>,
    /// How many functions pointers may reach, in the whole program.
    pub reached: u64,
}

/// A function that is counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedFunction {
    /// Its number in the module.
    pub function: u32,
    /// Its calls that are counted, and the names of those whom they call.
    pub calls: Vec<(u32, Option<String>)>,
}

/// A push thunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceThunk {
    /// The function that calls it.
    pub caller: u32,
    /// The call that goes through it: its place in the function's calls.
    pub call: u32,
    pub name: String,
    /// What it does.
    pub does: SliceCall,
    /// Its ids stand for several contexts, which stack offsets tell apart.
    pub needs_offset: bool,
}

/// What is decided for a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceFunction {
    /// The module's body of the function is in the image.
    pub kept: bool,
    /// Code that is not instrumented may call it, and so catch exceptions that leave it.
    pub escapes: bool,
    /// The tables or other modules refer to it, by [`pcce_abi::skeleton::function_symbol`].
    pub labelled: bool,
    /// True if it is silent.
    pub silent: bool,
    /// How it may be entered by those who did not push.
    pub unannounced: Unannounced,
    /// True if a sub-path may begin in it.
    pub entry: bool,
    /// What makes a context number of its ids; [`pcce_abi::NO_RANGE`] without a range.
    pub base: u64,
    /// Its ids stand for several contexts, which stack offsets tell apart.
    pub needs_offset: bool,
    /// It is `main`, which tells the runtime where its activation is.
    pub begins_stack: bool,
    /// The site of its own entry.
    pub entry_site: Option<u32>,
    /// Its calls that stay tail calls, since they are on cycles through several modules: their numbers among those
    /// that code generation makes jumps of ([`Call::sibling`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_tails: Vec<u32>,
    /// How many other calls it has, without those of comparisons.
    pub own_calls: u32,
    /// Its calls that have a site.
    pub calls: Vec<SliceCall>,
    /// Comparisons of pointers with functions that they probably lead to, each in front of the call and behind those
    /// before.
    pub compared: Vec<Comparison>,
}

/// A comparison of the pointer that a call goes through. Where it is equal, the function is called directly: that call
/// follows the function's own calls, and those of comparisons before, in [`SliceFunction::calls`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    pub call: u32,
    /// The name of the function that the pointer is compared with.
    pub target: String,
    /// It is the module's own; else no local function of that name is meant.
    pub own: bool,
}

/// What is done at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceCall {
    /// Its place in the function's calls; behind them come the direct calls of comparisons.
    pub call: u32,
    pub sites: Sites,
    /// What is done.
    pub does: Does,
    /// The encoding relies on the call being one, and no jump.
    pub keeps_frame: bool,
}

/// What is done at a call: [`Action`] in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    Nothing,
    /// This is added to the id.
    Add(i64),
    /// A push that stores id 0.
    Push,
    /// A push that leaves the id alone.
    PushRelative,
    /// The call becomes one of the runtime.
    Replace(RuntimeCall),
    /// The runtime is told the site.
    Publish,
}

impl From<Action> for Does {
    fn from(action: Action) -> Self {
        match action {
            Action::None => Self::Nothing,
            Action::Add(value) => Self::Add(value as i64),
            Action::Push(Push::Zero) => Self::Push,
            Action::Push(Push::Relative) => Self::PushRelative,
            Action::Replace(call) => Self::Replace(call),
            Action::Publish => Self::Publish,
        }
    }
}

impl From<Does> for Action {
    fn from(does: Does) -> Self {
        match does {
            Does::Nothing => Self::None,
            Does::Add(value) => Self::Add(value as u64),
            Does::Push => Self::Push(Push::Zero),
            Does::PushRelative => Self::Push(Push::Relative),
            Does::Replace(call) => Self::Replace(call),
            Does::Publish => Self::Publish,
        }
    }
}

/// The names that a function calls, or leaves to, and whose body another module may have: in the order of its calls in
/// the skeleton.
pub fn called(function: &Function) -> Vec<&str> {
    let calls = function.calls.iter().filter_map(|call| match &call.kind {
        CallKind::External(name) => Some(&**name),
        _ => None,
    });
    let left_to = function.tail_callees.iter().filter_map(|to| match to {
        TailCallee::Away { name, .. } => Some(&**name),
        _ => None,
    });
    let mut names: Vec<&str> = Vec::new();
    for name in calls.chain(left_to) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What a program's encoding says of its functions and calls, apart from the sites.
pub struct Decided<'a> {
    program: &'a Program,
    encoding: &'a Encoding,
    ranges: &'a [Option<u64>],
    used: Option<&'a Used>,
}

impl<'a> Decided<'a> {
    /// Of a program, its encoding, and the ranges of its context numbers ([`plan::number_ranges`]).
    /// `used`: what is left out of the encoding.
    pub fn new(
        program: &'a Program,
        encoding: &'a Encoding,
        ranges: &'a [Option<u64>],
        used: Option<&'a Used>,
    ) -> Self {
        Self { program, encoding, ranges, used }
    }

    /// Returns whether a function's ids stand for several contexts, which stack offsets tell apart.
    pub fn needs_offset(&self, function: FunctionId) -> bool {
        self.used.is_some_and(|used| used.hybrid.needs_stack_offset(function))
    }

    /// The frame offset that the encoding takes a call to have.
    pub fn frame_offset(&self, caller: FunctionId, call: usize) -> Option<u32> {
        self.used?.hybrid.frame_offset(self.program[caller].calls[call].edge?)
    }

    /// What is done at a call that has these sites.
    pub fn call(&self, (caller, call): (FunctionId, usize), sites: Sites) -> SliceCall {
        SliceCall {
            call: call as u32,
            sites,
            does: self.action(caller, call).into(),
            keeps_frame: self.frame_offset(caller, call).is_some_and(|offset| offset != hybrid::JUMP),
        }
    }

    /// What is done at a call.
    pub fn action(&self, caller: FunctionId, call: usize) -> Action {
        let function = &self.program[caller];
        plan::action(self.program, self.encoding, function, &function.calls[call])
    }

    /// What is decided for a function that has these sites, so many calls, and behind them those of comparisons.
    pub fn function(
        &self,
        id: FunctionId,
        kept: bool,
        (sites, entry_site): (&[Option<Sites>], Option<u32>),
        (own_calls, compared): (usize, Vec<Comparison>),
    ) -> SliceFunction {
        let function = &self.program[id];
        // Of a function that is not in the program no calls are left.
        let sites = &sites[..sites.len().min(function.calls.len())];
        let calls = sites.iter().enumerate().filter_map(|(c, sites)| Some(self.call((id, c), (*sites)?)));
        let calls: Vec<SliceCall> = calls.collect();
        // Nothing else has numbers.
        let numbers = calls.iter().any(|call| call.does == Does::Replace(RuntimeCall::Context));
        let base = || number_base(self.encoding, id, self.ranges[id.index()]);
        SliceFunction {
            kept,
            escapes: function.external || function.otherwise_used,
            labelled: false,
            silent: function.silent,
            unannounced: function.unannounced,
            entry: self.encoding.is_entry(id),
            base: if numbers { base() } else { pcce_abi::NO_RANGE },
            needs_offset: self.needs_offset(id),
            begins_stack: self.used.is_some() && hybrid::is_main(self.program, id),
            // One that turns out to be silent does not push.
            entry_site: entry_site.filter(|_| function.unannounced == Unannounced::Anyhow),
            kept_tails: Vec::new(),
            own_calls: own_calls as u32,
            calls,
            compared,
        }
    }
}

/// What is done in the functions of a module, by its slice. The functions are those that the slice is of, without
/// thunks: what was decided of them is set, and the thunks are added. `place`: where a call of the slice is among the
/// function's own, by the numbers of function and call; none if the code has no such call. `source`: what is asked of
/// the code.
///
/// # Errors
/// What in the slice does not fit the functions.
pub fn planned(
    slice: &Slice,
    functions: &mut Vec<Function>,
    place: impl Fn(usize, u32) -> Option<usize>,
    source: &dyn Source,
) -> Result<(Vec<PlannedFunction>, Vec<Thunk>), &'static str> {
    if slice.functions.len() != functions.len() {
        return Err("another number of functions");
    }
    let mut thunks = Vec::with_capacity(slice.thunks.len());
    for (i, thunk) in slice.thunks.iter().enumerate() {
        let caller = thunk.caller as usize;
        let call = place(caller, thunk.call).ok_or("the call of a thunk is missing")?;
        let number = FunctionId::new((slice.functions.len() + i) as u32);
        let calling = functions.get_mut(caller).ok_or("the caller of a thunk is missing")?;
        let through = Call { kind: CallKind::Direct(number), ..calling.calls[call].clone() };
        let within =
            Call { block: 0, ends_block: false, ..std::mem::replace(&mut calling.calls[call], through) };
        let new = Function {
            calls: vec![within],
            push_thunk: true,
            ..Function::new(thunk.name.clone(), calling.ty)
        };
        functions.push(new);
        thunks.push(Thunk { caller: FunctionId::new(thunk.caller), call, name: thunk.name.clone() });
    }
    let mut planned = Vec::with_capacity(functions.len());
    for (i, function) in functions.iter_mut().enumerate() {
        let decided = slice.functions.get(i);
        let rows = match decided {
            Some(decided) => {
                function.silent = decided.silent;
                function.unannounced = decided.unannounced;
                &decided.calls[..]
            }
            None => std::slice::from_ref(&slice.thunks[i - slice.functions.len()].does),
        };
        let mut calls = Vec::with_capacity(rows.len());
        for row in rows {
            let call = match decided {
                Some(_) => place(i, row.call),
                None => Some(0),
            };
            let is_own = decided.is_none_or(|decided| row.call < decided.own_calls);
            let call = match call {
                Some(call) => call,
                None if is_own => return Err("a call is missing"),
                // The types have not allowed the comparison, so that nobody makes its call.
                None => continue,
            };
            let action = Action::from(row.does);
            calls.push(PlannedCall {
                call,
                action,
                left: 0,
                stays: false,
                site: row.sites.call,
                runs_task: function.calls[call].kind.runs_task() && matches!(action, Action::Push(_)),
                creation_site: row.sites.creation,
                keeps_frame: row.keeps_frame,
            });
        }
        calls.sort_unstable_by_key(|call| call.call);
        let frame = place_frame(function, &calls, || source.flow(FunctionId::new(i as u32)));
        chain(function, &mut calls, frame.as_ref());
        planned.push(PlannedFunction {
            calls,
            frame,
            entry_site: decided.and_then(|decided| decided.entry_site),
            base: decided.map_or(pcce_abi::NO_RANGE, |decided| decided.base),
            leaves: match decided {
                Some(decided) => plan::leaves(decided.silent, slice.open, decided.entry),
                None => plan::leaves(false, slice.open, false),
            },
            needs_offset: match decided {
                Some(decided) => decided.needs_offset,
                None => slice.thunks[i - slice.functions.len()].needs_offset,
            },
            begins_stack: decided.is_some_and(|decided| decided.begins_stack),
        });
    }
    Ok((planned, thunks))
}
