//! The code of a module, by the plan of its program. The pass runs over bitcode that [`crate::capture`] has
//! kept, and carries out the decisions of the link step ([`pcce_model::slice`]).

use std::collections::HashMap;
use std::path::Path;

use pcce_abi::skeleton;
use pcce_encoding::FunctionId;
use pcce_model::slice::{Slice, SliceCounts, planned};
use pcce_model::{CallKind, Program, Wanted};

use crate::capture::emit_id;
use crate::contexts::{count, emit, rewrite};
use crate::error::Error;
use crate::handles::{Code, FunctionCode};
use crate::llvm::{Call, CodeGeneration, Module, Run, byte_directive};
use crate::pass::{Job, fnv1a};
use crate::prepare::{self, Elsewhere};
use crate::tracing;

/// The decisions of the link step for a module, as a document.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The module's id, in hexadecimal digits.
    id: String,
    /// Its name in messages. (LLVM's name is that of the file with the bitcode.)
    name: String,
    /// The decisions.
    slice: Slice,
    /// The number of sites of the module.
    sites: usize,
    /// A hash of everything that the code is made of. The object repeats it.
    key: String,
    /// The optimisation level of code generation, 0 to 3.
    level: u32,
    /// The names that options gave when the module was compiled.
    pub wanted: Wanted,
}

impl Order {
    /// Reads the order for the module `NAME.bc` from `NAME.json` in the folder. (One compiler makes the code
    /// of several modules.) `identifier` is the module's file.
    ///
    /// # Errors
    /// The document is missing or damaged.
    pub fn read(folder: &Path, identifier: &str) -> Result<Self, Error> {
        let bad = |what: String| Error::Slice { module: identifier.to_owned(), what };
        let name = Path::new(identifier).with_extension("json");
        let file = folder.join(name.file_name().unwrap_or_default());
        let order = std::fs::read(&file).map_err(|cause| bad(format!("{}: {cause}", file.display())))?;
        serde_json::from_slice(&order).map_err(|error| bad(error.to_string()))
    }
}

/// Rewrites the module as ordered.
///
/// # Errors
/// The order is for another module.
pub fn generate(job: &Job<'_>, run: &mut Run, order: &Order) -> Result<(), Error> {
    let bad = |what: String| Error::Slice { module: job.identifier.clone(), what };
    let &Order { ref id, ref name, ref slice, ref key, sites, .. } = order;
    let id = u64::from_str_radix(id, 16).map_err(|error| bad(error.to_string()))?;
    prepare::insert_late_calls(run);
    job.prepare(run, |number| match slice.functions.get(number) {
        Some(function) => Elsewhere { escapes: function.escapes, kept_tails: &function.kept_tails },
        None => Elsewhere { escapes: false, kept_tails: &[] },
    });
    let module = run.module();
    if let Some((mut program, mut code)) = job.gather_alone(module)? {
        // The facts are those of the module as it was compiled.
        let same = code.functions().iter().map(|function| function.calls.len() as u32);
        if !same.eq(slice.functions.iter().map(|function| function.own_calls)) {
            return Err(bad("its functions have other calls".to_owned()));
        }
        let compared = compare(module, &code, slice);
        if compared.is_some()
            && let Some(again) = job.gather_alone(module)?
        {
            (program, code) = again;
        }
        // The program uses another module's body of these functions.
        let is_dropped = |number: usize, code: &Code<'_>| {
            slice.functions.get(number).is_some_and(|function| !function.kept)
                && code.functions()[number].value.is_in_group()
        };
        let mut warnings = Vec::new();
        let traced = job.options.common.trace.map(|_| {
            let left_out = (0..code.functions().len()).map(|number| is_dropped(number, &code)).collect();
            let names = (&**name, fnv1a(&id.to_le_bytes(), b"trace"));
            job.trace(
                module,
                &with_silent(&program, slice),
                &code,
                names,
                (left_out, elsewhere(slice, &program)),
                &mut warnings,
            )
        });
        let mut traced = traced.transpose()?;
        for warning in warnings {
            eprintln!("warning: pcce: {name}: {warning}");
        }
        let places = Places::new(&code, compared);
        let place = |function: usize, call: u32| places.find(function, call);
        let (functions, thunks) =
            planned(slice, &mut program.functions, place, &code).map_err(|what| bad(what.to_owned()))?;
        let mut bodies = traced.as_mut().and_then(tracing::Before::bodies);
        rewrite::make_thunks(&mut code, bodies.as_deref_mut(), &thunks);
        let bodies = bodies.as_deref();
        if let (Some(counts), Some(file)) = (&slice.counts, &job.options.common.profile_generate) {
            let counted =
                counted(counts, &code).ok_or_else(|| bad("a call that is counted is missing".to_owned()))?;
            let names = module.hidden_variable(skeleton::TARGET_NAMES, module.ptr());
            count::add(module, &program, &code, (name, &counted), (names, counts.reached), file);
        }
        rewrite::rewrite_by_slice(
            module,
            &program,
            &functions,
            (&code, bodies),
            (id, sites),
            slice,
            job.options,
        );
        if job.options.common.trace.is_none() {
            enter_behind(module, slice, &code, place).ok_or_else(|| bad("a call is missing".to_owned()))?;
        }
        let dropped = |number: usize| is_dropped(number, &code);
        let sites = skeleton::sites_symbol(id);
        emit::emit_addresses(module, (&code, bodies), &sites, |number| !dropped(number));
        if let Some(traced) = traced {
            tracing::finish(module, traced, &functions, &sites);
        }
        for (number, _) in (0..).zip(&slice.functions).filter(|(_, decided)| decided.labelled) {
            let value = code.functions()[number as usize].value;
            let function = &program.functions[number as usize].name;
            module.add_hidden_alias(&skeleton::function_symbol(function, (id, number)), value);
        }
        job.emit_paths(module);
        let numbers = (0..code.functions().len()).filter(|&number| dropped(number));
        numbers.for_each(|number| code.functions()[number].value.declare());
    }
    if slice.measured {
        let code = CodeGeneration { level: order.level, no_pie: false };
        let measured = module.bitcode().copy(run)?.measure(code)?;
        let measured = serde_json::to_vec(&measured).expect("text serialises");
        module.append_asm(&format!(
            ".pushsection {},\"e\",@progbits\n{}\n.popsection\n",
            skeleton::FRAMES_SECTION,
            byte_directive(&measured)
        ));
    }
    emit_id(module, skeleton::CODE_SECTION, skeleton::CODE_MAGIC, id);
    module.append_asm(&format!(
        ".pushsection {},\"e\",@progbits\n{}\n.popsection\n",
        skeleton::KEY_SECTION,
        byte_directive(key.as_bytes())
    ));
    if cfg!(debug_assertions) || job.options.check {
        run.verify()?;
    }
    Ok(())
}

/// The program, with the calls marked that call nothing back, as the link step knows.
fn with_silent(program: &Program, slice: &Slice) -> Program {
    let mut program = program.clone();
    for (function, decided) in program.functions.iter_mut().zip(&slice.functions) {
        for &call in &decided.silent_calls {
            if let Some(call) = function.calls.get_mut(call as usize)
                && let CallKind::External(name) = &mut call.kind
            {
                call.kind = CallKind::Silent(std::mem::take(name));
            }
        }
    }
    program
}

/// Makes calls enter their callees behind the check for open calls of other images. None if the code lacks one of the
/// calls.
fn enter_behind<'m>(
    module: Module<'m>,
    slice: &Slice,
    code: &Code<'m>,
    place: impl Fn(usize, u32) -> Option<usize>,
) -> Option<()> {
    for (number, decided) in slice.functions.iter().enumerate() {
        for (call, symbol) in &decided.calls_behind {
            match place(number, *call) {
                Some(at) => module.enter_elsewhere(code.call(FunctionId::new(number as u32), at), symbol),
                // A comparison was not possible for the types, so that there is no direct call.
                None if *call >= decided.own_calls => {}
                None => return None,
            }
        }
    }
    Some(())
}

/// The calls and functions of the module that are recorded in several modules.
fn elsewhere(slice: &Slice, program: &Program) -> tracing::Elsewhere {
    let mut elsewhere = tracing::Elsewhere::default();
    for ((number, _), decided) in program.iter().zip(&slice.functions) {
        let calls = decided.calls_behind.iter();
        elsewhere.calls.extend(calls.map(|(call, symbol)| ((number, *call as usize), symbol.clone())));
        let symbol = decided.behind_entry.iter().cloned();
        elsewhere.entered.extend(symbol.map(|symbol| (number, symbol)));
    }
    elsewhere
}

/// The functions and calls that the module counts; none if the code lacks one of the calls.
fn counted<'a>(counts: &'a SliceCounts, code: &Code<'_>) -> Option<Vec<count::Counted<'a>>> {
    let functions = counts.functions.iter().map(|function| {
        let number = FunctionId::new(function.function);
        let has = code.functions().get(number.index())?.calls.len();
        let calls = function.calls.iter().map(|(call, callee)| (*call as usize, callee.as_deref()));
        let calls: Vec<_> = calls.collect();
        calls.iter().all(|&(call, _)| call < has).then_some((number, calls))
    });
    functions.collect()
}

/// The calls of each function in the order of the slice: its own, and the direct calls of comparisons.
type Calls<'m> = Vec<Vec<Option<Call<'m>>>>;

/// Makes the comparisons of pointers. None if the slice has no comparison: then the calls are those of the
/// code.
fn compare<'m>(module: Module<'m>, code: &Code<'m>, slice: &Slice) -> Option<Calls<'m>> {
    if slice.functions.iter().all(|function| function.compared.is_empty()) {
        return None;
    }
    let own = |function: &FunctionCode<'m>| function.calls.iter().copied().map(Some).collect();
    let mut calls: Calls<'m> = code.functions().iter().map(own).collect();
    for (calls, decided) in calls.iter_mut().zip(&slice.functions) {
        for comparison in &decided.compared {
            let call = calls.get(comparison.call as usize).copied().flatten();
            let compared = |call| module.compare_with(call, &comparison.target, comparison.own);
            calls.push(call.and_then(compared));
        }
    }
    Some(calls)
}

/// Translates calls of the slice into places among the calls of the code.
struct Places {
    /// Places by function and call; none if both orders are the same.
    moved: Option<Vec<Vec<Option<usize>>>>,
    counts: Vec<usize>,
}

impl Places {
    fn new(code: &Code<'_>, calls: Option<Calls<'_>>) -> Self {
        let counts = code.functions().iter().map(|function| function.calls.len()).collect();
        let moved = calls.map(|calls| {
            let rows = calls.into_iter().zip(code.functions()).map(|(calls, function)| {
                let places: HashMap<Call<'_>, usize> =
                    function.calls.iter().enumerate().map(|(place, call)| (*call, place)).collect();
                calls.into_iter().map(|call| places.get(&call?).copied()).collect()
            });
            rows.collect()
        });
        Self { moved, counts }
    }

    fn find(&self, function: usize, call: u32) -> Option<usize> {
        let call = call as usize;
        match &self.moved {
            Some(moved) => *moved.get(function)?.get(call)?,
            None => Some(call).filter(|&call| self.counts.get(function).is_some_and(|&count| call < count)),
        }
    }
}
