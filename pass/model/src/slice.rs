//! The decisions for one module of a program that is encoded before its code is generated.
//!
//! Each object carries the facts that the pass has read of its module ([`Facts`]), and its symbols. The link
//! step joins the facts of all linked modules, encodes the program, and cuts the result into one [`Slice`]
//! for each module. The code of a module depends on its slice and its bitcode only.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use pcce_encoding::{Encoding, FunctionId};

use crate::bound::Width;
use crate::hybrid::{self, Used};
use crate::numbers::{self, Numbers};
use crate::plan::{self, Action, NumberAt, PlannedCall, PlannedFunction, Push, place_frame};
use crate::states;
use crate::thunks::Thunk;
use crate::{
    Call, CallKind, Function, Program, RuntimeCall, Source, TailCallee, TypeId, Unannounced, Wanted,
};

/// The facts of a module, as its object carries them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// The types of functions, as LLVM prints them, by [`TypeId`].
    pub types: Vec<String>,
    /// The functions, with their calls.
    pub functions: Vec<Function>,
    /// The sites of the calls of each function.
    pub sites: Vec<Vec<Option<Sites>>>,
    /// The sites of the functions' own entries.
    pub entry_sites: Vec<Option<u32>>,
    /// For each call, whether a push thunk can forward it. The callee is assumed not to look at its caller.
    pub fits_thunk: Vec<Vec<bool>>,
    /// The functions that look at their callers.
    pub look_at_caller: Vec<u32>,
    /// The functions whose calls and returns are in a trace, and that leave their activations to no other function.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorded: Vec<u32>,
    /// Functions without a body here whose address the module takes, with their types.
    pub declared: Vec<(String, TypeId)>,
    /// Functions that other modules define, or may define, and that this one uses otherwise than by calls.
    pub reached: Vec<String>,
    /// True if the module makes streams that call functions of the program.
    pub makes_streams: bool,
    /// True if the module sets handlers of C++.
    pub sets_handlers: bool,
    /// The names that inline assembly may use.
    pub assembly: Assembly,
    /// The options that decide what is encoded; all modules of an image have the same.
    pub options: Options,
    /// Names that options give; all modules of an image have the same.
    pub wanted: Wanted,
}

/// The names that assembly may use. Assembly is not parsed: all of its words count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assembly {
    /// True if the assembly can make names out of others, so that it may use any name.
    pub opaque: bool,
    /// Its words.
    pub names: BTreeSet<String>,
}

/// The options that must be the same in all modules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// The width of ids, in bits.
    pub id_bits: u32,
    /// Functions that reach nothing unknown are silent.
    pub silent: bool,
    /// Calls that may allocate are published.
    pub publishes: bool,
    /// The program runs in verify mode.
    pub verify: bool,
    /// Context numbers tell lines apart.
    pub number_lines: bool,
    /// Stack offsets tell contexts apart. Executables only.
    pub hybrid: bool,
}

/// The sites of a call, by number in the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sites {
    /// The site of the call itself.
    pub call: u32,
    /// For a call that creates a thread without a runtime call: the site at which the context is taken before
    /// it.
    pub creation: Option<u32>,
}

/// The decisions for a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// The image has an open node, so it is an executable.
    pub open: bool,
    /// The object must describe the stack at its calls ([`crate::hybrid::Measured`]).
    pub measured: bool,
    /// In the order of the module's functions.
    pub functions: Vec<SliceFunction>,
    /// The push thunks of the module ([`crate::thunks`]).
    pub thunks: Vec<SliceThunk>,
    /// The functions to count, in a program that counts its calls.
    pub counts: Option<SliceCounts>,
    /// The widths of the values, if calls add values that are bound later. [`Does::Add`] then has places in
    /// this list.
    pub widths: Option<Vec<Width>>,
    /// How far the thread's block is from the thread pointer, in bytes, if the code relies on it.
    pub thread_offset: Option<u32>,
}

/// The functions of a module that are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceCounts {
    pub functions: Vec<CountedFunction>,
    /// The number of functions in the whole program that pointers may reach.
    pub reached: u64,
}

/// A function that is counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedFunction {
    /// Its number in the module.
    pub function: u32,
    /// Its counted calls, with the names of their callees.
    pub calls: Vec<(u32, Option<String>)>,
}

/// A push thunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceThunk {
    /// The calling function.
    pub caller: u32,
    /// The calls that go through the thunk, by their places in the caller's calls: one, and its copies.
    pub calls: Vec<u32>,
    pub name: String,
    /// The thunk's own call.
    pub does: SliceCall,
    /// Several contexts share its ids; stack offsets tell them apart.
    pub needs_offset: bool,
}

/// The decisions for a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceFunction {
    /// The module's body of the function is in the image.
    pub kept: bool,
    /// Code that is not instrumented may call the function, and catch exceptions that leave it.
    pub escapes: bool,
    /// The tables or other modules refer to the function by [`pcce_abi::skeleton::function_symbol`].
    pub labelled: bool,
    /// True if it is silent.
    pub silent: bool,
    /// How callers that did not push may enter the function.
    pub unannounced: Unannounced,
    /// True if a sub-path may begin in it.
    pub entry: bool,
    /// Several contexts share its ids; stack offsets tell them apart.
    pub needs_offset: bool,
    /// The function is `main`, which tells the runtime where its activation begins.
    pub begins_stack: bool,
    /// The site of the function's own entry.
    pub entry_site: Option<u32>,
    /// The site of the function's stub ([`PlannedFunction::stub`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stub: Option<u32>,
    /// The symbol of the place behind its entry, if calls of the image enter it there: behind its entry event
    /// ([`pcce_abi::skeleton::entered_symbol`]), or behind the check for open calls of other images
    /// ([`pcce_abi::skeleton::checked_symbol`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_entry: Option<String>,
    /// Its calls that enter functions at such places, and the symbols of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls_behind: Vec<(u32, String)>,
    /// In a traced program, its calls of functions of libraries that call nothing back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent_calls: Vec<u32>,
    /// The calls that stay tail calls because they are on cycles through several modules: their numbers among
    /// the function's sibling calls ([`Call::sibling`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_tails: Vec<u32>,
    /// The number of its other calls, without the direct calls of comparisons.
    pub own_calls: u32,
    /// Its calls that have a site.
    pub calls: Vec<SliceCall>,
    /// Comparisons of pointers with their probable targets. Each is inserted before its call, after the
    /// comparisons that precede it here.
    pub compared: Vec<Comparison>,
}

/// A comparison of the pointer of a call. If it is equal to the target, the function calls the target
/// directly. In [`SliceFunction::calls`], that direct call follows the function's own calls and the direct
/// calls of earlier comparisons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    pub call: u32,
    /// The name of the target.
    pub target: String,
    /// The target is the module's own function. Otherwise local functions of that name are not meant.
    pub own: bool,
}

/// The decisions for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceCall {
    /// Its place in the function's calls. The direct calls of comparisons come after the function's own.
    pub call: u32,
    pub sites: Sites,
    /// The action at the call.
    pub does: Does,
    /// The encoding relies on the call not becoming a jump.
    pub keeps_frame: bool,
    /// Another image may replace the callee ([`CallKind::Replaceable`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaceable: bool,
    /// For a call of `pcce_context()`: how its number is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<NumberAt>,
    /// Its executions for one activation of the function by a profile, in 256ths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<u32>,
}

/// The unit of [`SliceCall::counted`].
const COUNTED: f64 = 256.0;

/// The action at a call: [`Action`] in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    Nothing,
    /// Adds this to the id.
    Add(i64),
    /// Pushes and stores id 0.
    Push,
    /// Pushes and leaves the id alone.
    PushRelative,
    /// Replaces the call by one of the runtime.
    Replace(RuntimeCall),
    /// Publishes the call: the runtime learns its site.
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

/// The names of the functions that a function calls by name, or leaves its activation to, and that another
/// module may define: in the order of the calls in its skeleton.
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

/// The decisions that follow from a program's encoding, apart from the sites.
pub struct Decided<'a> {
    program: &'a Program,
    encoding: &'a Encoding,
    numbers: &'a Numbers,
    used: Option<&'a Used>,
}

impl<'a> Decided<'a> {
    /// Takes a program, its encoding, the places of its context numbers, and the
    /// hybrid encoding, if there is one.
    pub fn new(
        program: &'a Program,
        encoding: &'a Encoding,
        numbers: &'a Numbers,
        used: Option<&'a Used>,
    ) -> Self {
        Self { program, encoding, numbers, used }
    }

    /// Returns whether several contexts share a function's ids, so that stack offsets tell them apart.
    pub fn needs_offset(&self, function: FunctionId) -> bool {
        self.used.is_some_and(|used| used.hybrid.needs_stack_offset(function))
    }

    /// The frame offset that the encoding assumes at a call.
    pub fn frame_offset(&self, caller: FunctionId, call: usize) -> Option<u32> {
        self.used?.hybrid.frame_offset(self.program[caller].calls[call].edge?)
    }

    /// The decisions for a call with these sites.
    pub fn call(&self, caller: FunctionId, call: usize, sites: Sites) -> SliceCall {
        SliceCall {
            call: call as u32,
            sites,
            does: self.action(caller, call).into(),
            keeps_frame: self.frame_offset(caller, call).is_some_and(|offset| offset != hybrid::JUMP),
            replaceable: matches!(self.program[caller].calls[call].kind, CallKind::Replaceable(_)),
            number: None,
            counted: self.program.counts.counted(caller.index(), call).then(|| {
                let frequency = self.program[caller].calls[call].frequency;
                (frequency * COUNTED).ceil().min(f64::from(u32::MAX)) as u32
            }),
        }
    }

    /// The action at a call.
    pub fn action(&self, caller: FunctionId, call: usize) -> Action {
        let function = &self.program[caller];
        plan::action(self.program, self.encoding, function, &function.calls[call])
    }

    /// The decisions for a function with these sites. `own_calls` is the number of its calls without the
    /// direct calls of comparisons, which come after them.
    pub fn function(
        &self,
        id: FunctionId,
        kept: bool,
        sites: &[Option<Sites>],
        entry_site: Option<u32>,
        own_calls: usize,
        compared: Vec<Comparison>,
    ) -> SliceFunction {
        let function = &self.program[id];
        // A function that is not in the program has no calls left.
        let sites = &sites[..sites.len().min(function.calls.len())];
        let calls = sites.iter().enumerate().filter_map(|(c, sites)| Some(self.call(id, c, (*sites)?)));
        let mut calls: Vec<SliceCall> = calls.collect();
        for call in &mut calls {
            let number = |of: numbers::Capture| Some(NumberAt { site: sites[of.call]?.call, base: of.base });
            call.number = self.numbers.of(self.encoding, id, call.call as usize).and_then(number);
        }
        SliceFunction {
            kept,
            escapes: function.external || function.otherwise_used,
            labelled: false,
            silent: function.silent,
            unannounced: function.unannounced,
            entry: self.encoding.is_entry(id),
            needs_offset: self.needs_offset(id),
            begins_stack: self.used.is_some() && hybrid::is_main(self.program, id),
            // A function that turns out to be silent does not push.
            entry_site: entry_site.filter(|_| function.unannounced == Unannounced::AnyId),
            stub: None,
            behind_entry: None,
            calls_behind: Vec::new(),
            silent_calls: Vec::new(),
            kept_tails: Vec::new(),
            own_calls: own_calls as u32,
            calls,
            compared,
        }
    }
}

/// Plans the functions of a module by its slice. `functions` are the module's own: the decisions are stored
/// in them, and thunks are appended. `place` returns the place of a call of the slice among the function's
/// calls, by function and call; none if the code has no such call.
///
/// # Errors
/// The slice is for other functions.
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
        let calls: Option<Vec<usize>> = thunk.calls.iter().map(|&call| place(caller, call)).collect();
        let calls = calls.filter(|calls| !calls.is_empty()).ok_or("the call of a thunk is missing")?;
        let number = FunctionId::new((slice.functions.len() + i) as u32);
        let calling = functions.get_mut(caller).ok_or("the caller of a thunk is missing")?;
        let within = Call { block: 0, ends_block: false, ..calling.calls[calls[0]].clone() };
        for &call in &calls {
            calling.calls[call].kind = CallKind::Direct(number);
        }
        let new = Function {
            calls: vec![within],
            push_thunk: true,
            ..Function::new(thunk.name.clone(), calling.ty)
        };
        functions.push(new);
        thunks.push(Thunk { caller: FunctionId::new(thunk.caller), calls, name: thunk.name.clone() });
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
        let mut known = Vec::new();
        for row in rows {
            let call = match decided {
                Some(_) => place(i, row.call),
                None => Some(0),
            };
            let is_own = decided.is_none_or(|decided| row.call < decided.own_calls);
            let call = match call {
                Some(call) => call,
                None if is_own => return Err("a call is missing"),
                // The comparison was not possible for the types, so that there is no direct call.
                None => continue,
            };
            let action = Action::from(row.does);
            if let Some(counted) = row.counted {
                function.calls[call].frequency = f64::from(counted) / COUNTED;
                known.push(call);
            }
            calls.push(PlannedCall {
                runs_task: function.calls[call].kind.runs_task() && action.pushes(),
                creation_site: row.sites.creation,
                keeps_frame: row.keeps_frame,
                replaceable: row.replaceable,
                number: row.number,
                ..PlannedCall::new(call, action, row.sites.call)
            });
        }
        calls.sort_unstable_by_key(|call| call.call);
        let flow = LazyCell::new(|| {
            let mut flow = source.flow(FunctionId::new(i as u32));
            plan::set_counted(&mut flow, known.iter().map(|&call| &function.calls[call]));
            flow
        });
        let frame = place_frame(function, &calls, || &flow);
        let updates = states::keep(function, &mut calls, frame.as_ref(), || &flow);
        planned.push(PlannedFunction {
            calls,
            frame,
            updates,
            entry_site: decided.and_then(|decided| decided.entry_site),
            stub: decided.and_then(|decided| decided.stub),
            behind_check: decided
                .and_then(|decided| decided.behind_entry.clone())
                .filter(|_| function.checks_first()),
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
