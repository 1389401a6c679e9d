//! The profile of calls: what a program built to write one counts, and what the pass takes from one.
//!
//! Both runs of the pass come after inlining, so with the same flags and sources they see the same calls. Where the sources have changed,
//! functions are found by their names, and the calls in them by the functions they call.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pcce_abi as abi;
use pcce_dictionary::calls::{self, Calls};
use pcce_encoding::{EdgeId, Encoding, FunctionId};

use crate::analysis::{Analysis, CallKind, Function};
use crate::llvm::{Analyses, Module, Value};

/// The calls of a function that are counted, ⟨place in its calls, callee⟩: direct ones of functions that are not silent,
/// and those through pointers.
fn counted<'a>(
    functions: &'a [Function],
    function: &'a Function,
) -> impl Iterator<Item = (usize, Option<&'a str>)> {
    function.calls.iter().enumerate().filter_map(|(i, call)| match call.kind {
        CallKind::Direct(callee) if !functions[callee].silent => Some((i, Some(&*functions[callee].name))),
        CallKind::Indirect => Some((i, None)),
        _ => None,
    })
}

/// Makes the module count, and write its counts to the file.
pub fn count(module: Module, analysis: &Analysis, file: &Path) {
    let functions: Vec<(&Function, Vec<_>)> = analysis
        .functions
        .iter()
        .filter(|function| !function.silent)
        .map(|function| (function, counted(&analysis.functions, function).collect()))
        .collect();
    let text = calls::template(
        &module.identifier(),
        functions.iter().map(|(f, calls)| (&*f.name, calls.iter().map(|&(_, callee)| callee).collect())),
    );
    let count: usize = functions.iter().map(|(_, calls)| 1 + calls.len()).sum();
    let (i64, ptr) = (module.i64(), module.ptr());
    let counters = module.add_internal("__pcce_counters", module.array_type(i64, count as u64), false);

    let b = module.builder();
    let mut next = 0;
    let mut increment = |at: &dyn Fn()| {
        at();
        let counter = module.const_offset(counters, next * 8);
        next += 1;
        b.store(b.add(b.load(i64, counter), module.const_i64(1)), counter);
    };
    let calls_through_pointers =
        functions.iter().flat_map(|(_, calls)| calls).filter(|(_, callee)| callee.is_none()).count();
    let target_count = (calls_through_pointers * abi::TARGETS) as u64;
    let target_size = size_of::<abi::TargetCount>() as u64;
    let targets =
        module.add_internal("__pcce_targets", module.array_type(i64, target_count * target_size / 8), false);
    let record = module.external_function(abi::functions::COUNTS_TARGET, module.void(), &[ptr, ptr]);
    let mut next_targets = 0;
    for (function, calls) in &functions {
        increment(&|| _ = b.prologue(function.value.blocks()[0].first_after_pads()));
        for &(call, callee) in calls {
            let instruction = function.calls[call].instruction;
            increment(&|| _ = b.before(instruction, instruction));
            if callee.is_none() {
                let place = module.const_offset(targets, next_targets * target_size);
                next_targets += abi::TARGETS as u64;
                b.call(record, &[place, instruction.called()]);
            }
        }
    }

    let constant = |name: &str, text: &[u8]| {
        let variable = module.add_internal(name, module.bytes(text.len() as u64 + 1), true);
        variable.initialize(module.const_string(text));
        variable
    };
    // What a pointer may reach.
    let reached: Vec<&Function> =
        analysis.functions.iter().filter(|f| f.external || f.value.has_address_taken()).collect();
    let mut texts = Vec::new();
    let mut starts = Vec::with_capacity(reached.len());
    for function in &reached {
        starts.push(texts.len() as u64);
        texts.extend(calls::json(&function.name).bytes().chain([0]));
    }
    let texts = constant("__pcce_target_texts", &texts);
    let name_type = module.struct_type(&[ptr, ptr]);
    let names =
        module.add_internal("__pcce_target_names", module.array_type(name_type, reached.len() as u64), true);
    let rows: Vec<Value> = reached
        .iter()
        .zip(starts)
        .map(|(function, start)| module.const_struct(&[function.value, module.const_offset(texts, start)]))
        .collect();
    names.initialize(module.const_array(name_type, &rows));

    let fields = [
        module.null(),
        counters,
        module.const_i64(count as u64),
        targets,
        module.const_i64(target_count),
        names,
        module.const_i64(reached.len() as u64),
        constant("__pcce_counts_text", &text),
        module.const_i64(text.len() as u64),
        constant("__pcce_counts_file", file.as_os_str().as_bytes()),
    ];
    let ty = module.struct_type(&[ptr, ptr, i64, ptr, i64, ptr, i64, ptr, i64, ptr]);
    let counts = module.add_internal("__pcce_counts", ty, false);
    counts.initialize(module.const_struct(&fields));
    module.call_at_start_and_end(abi::functions::COUNTS_START, abi::functions::COUNTS_END, counts);
}

/// A call through a pointer that pushes is worth a comparison with a target that gets one of so many calls: the comparison costs about an
/// addition, and a push that is saved four, but for the addition of the direct call.
const WORTH: f64 = 3.0;

/// A profile, by the functions' names.
#[derive(Clone)]
pub struct Profile {
    path: String,
    functions: HashMap<String, Vec<(String, calls::Function)>>,
}

/// What a profile says of a module.
#[derive(Default)]
pub struct Matched {
    /// Executions of each function that was found; of the others nothing is known.
    pub functions: Vec<Option<f64>>,
    /// Executions of calls, by ⟨function, place in its calls⟩.
    pub calls: HashMap<(usize, usize), f64>,
    /// Of the functions whose calls are those of the profile: which one of this name there.
    exact: Vec<Option<usize>>,
    all: usize,
    missing: usize,
    changed: usize,
}

impl Profile {
    /// Reads the profile.
    ///
    /// # Errors
    /// That it cannot be read or is damaged, with its path.
    pub fn load(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let option = "named by the option profile-use";
        let text = std::fs::read(path).map_err(|e| format!("cannot read {shown}, {option}: {e}"))?;
        let profile = Calls::read(&text).map_err(|e| format!("{shown}, {option}: {e}"))?;
        let mut functions: HashMap<String, Vec<_>> = HashMap::new();
        for (module, function) in profile.merged().functions {
            functions.entry(function.function.clone()).or_default().push((module, function));
        }
        Ok(Self { path: shown.to_string(), functions })
    }

    /// Looks the functions up that are not silent.
    pub fn find(&self, module: &str, functions: &[Function]) -> Matched {
        let mut matched = Matched {
            functions: vec![None; functions.len()],
            exact: vec![None; functions.len()],
            ..Matched::default()
        };
        for (i, function) in functions.iter().enumerate().filter(|(_, function)| !function.silent) {
            matched.all += 1;
            let calls: Vec<_> = counted(functions, function).collect();
            let is_same = |found: &calls::Function| {
                found.calls.iter().map(|call| call.0.as_deref()).eq(calls.iter().map(|call| call.1))
            };
            // Local functions of several modules may have one name.
            let named = self.functions.get(&function.name).into_iter().flatten().enumerate();
            let best = named.max_by_key(|(_, (from, f))| (is_same(f), from == module, f.count));
            let Some((number, (_, found))) = best else {
                matched.missing += 1;
                continue;
            };
            let is_same = is_same(found);
            matched.exact[i] = is_same.then_some(number);
            matched.changed += usize::from(!is_same);
            // A child that was forked in the function counts its calls, and not that it was entered.
            let entered = found.count.max(found.calls.iter().any(|call| call.1 > 0).into());
            matched.functions[i] = Some(entered as f64);
            // The n-th call of a callee there is the n-th one here: of equal lists, each call is itself.
            let mut there: HashMap<Option<&str>, Vec<u64>> = HashMap::new();
            for call in found.calls.iter().rev() {
                there.entry(call.0.as_deref()).or_default().push(call.1);
            }
            for (call, callee) in calls {
                if let Some(count) = there.get_mut(&callee).and_then(Vec::pop) {
                    matched.calls.insert((i, call), count as f64);
                }
            }
        }
        matched
    }

    /// What was not found as it is in the profile, as a warning.
    pub fn report(&self, module: &str, matched: &Matched) -> Option<String> {
        let Matched { all, missing, changed, .. } = matched;
        (missing + changed > 0).then(|| {
            format!(
                "{module}: of {all} functions, {missing} are not in the profile {}, and {changed} have other calls \
                 than when it was made, which were found by their callees as far as possible; make a new profile of this \
                 source for the best result",
                self.path
            )
        })
    }

    /// Lets calls through pointers that push compare with the functions that they reach most, and call those directly, where that is
    /// expected to cost less. The profile then has the new calls. Returns whether there are any.
    pub fn compare(
        &mut self,
        analyses: Analyses,
        analysis: &Analysis,
        encoding: &Encoding,
        options: &pcce_encoding::Options,
        is_exact: impl Fn(Value) -> bool,
    ) -> bool {
        let index: HashMap<&str, usize> =
            analysis.functions.iter().enumerate().map(|(i, f)| (&*f.name, i)).collect();
        struct Candidate {
            function: usize,
            call: usize,
            /// Among those that are counted.
            number: usize,
            callee: usize,
            count: u64,
            edge: Option<EdgeId>,
        }
        // First as edges of a graph: a direct call may push as well, or make others push.
        let mut graph = analysis.graph.clone();
        let mut candidates = Vec::new();
        for (i, function) in analysis.functions.iter().enumerate() {
            let Some(found) = analysis.counts.exact[i].map(|n| &self.functions[&function.name][n].1) else {
                continue;
            };
            for (number, (call, callee)) in counted(&analysis.functions, function).enumerate() {
                let pushes = |edge: EdgeId| encoding.edge(edge).pushes();
                if callee.is_some() || !function.calls[call].edge.is_none_or(pushes) {
                    continue;
                }
                let calls::Call(_, all, targets) = &found.calls[number];
                let ty = function.calls[call].instruction.called_type();
                let mut targets: Vec<_> = targets.iter().filter(|(_, count)| count <= all).collect();
                targets.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
                let mut left = *all;
                for (name, count) in targets {
                    let Some(&callee) = index.get(&**name) else { continue };
                    let target = &analysis.functions[callee];
                    if *count as f64 * WORTH < left as f64
                        || target.value.function_type() != ty
                        || !is_exact(target.value)
                    {
                        break;
                    }
                    left -= (*count).min(left);
                    let edge = (!target.silent).then(|| {
                        let [from, to] = [i, callee].map(|i| FunctionId::new(i as u32));
                        let entries = analysis.counts.functions[i].unwrap_or(1.0).max(1.0);
                        graph.add_edge(from, to, *count as f64 / entries)
                    });
                    candidates.push(Candidate { function: i, call, number, callee, count: *count, edge });
                }
            }
        }
        let encoding = pcce_encoding::encode(&graph, options);
        let mut promoted = false;
        // From the last call to the first, as the profile's list keeps its places in front of what is inserted; of one call the
        // hottest target first, which is the first to be compared.
        for targets in candidates.chunk_by(|a, b| (a.function, a.number) == (b.function, b.number)).rev() {
            let Candidate { function, call, mut number, .. } = targets[0];
            let record = analysis.counts.exact[function].expect("as above");
            let function = &analysis.functions[function];
            let calls = &mut self.functions.get_mut(&function.name).expect("as above")[record].1.calls;
            for target in targets {
                let callee = &analysis.functions[target.callee];
                let pushes = |edge: EdgeId| encoding.edge(edge).pushes();
                if target.edge.is_some_and(pushes)
                    || !analyses.compare_target(function.calls[call].instruction, callee.value)
                {
                    continue;
                }
                promoted = true;
                calls[number].1 -= target.count.min(calls[number].1);
                if !callee.silent {
                    let direct = calls::Call(Some(callee.name.clone()), target.count, Vec::new());
                    calls.insert(number, direct);
                    number += 1;
                }
            }
        }
        promoted
    }
}

impl Matched {
    /// How often calls that are not in the profile's modules, or through pointers, entered each function.
    pub fn entered_openly(&self, functions: &[Function]) -> Vec<f64> {
        let mut entered: Vec<f64> = self.functions.iter().map(|count| count.unwrap_or(0.0)).collect();
        for (&(caller, call), count) in &self.calls {
            if let CallKind::Direct(callee) = functions[caller].calls[call].kind {
                entered[callee] -= count;
            }
        }
        entered.into_iter().map(|count| count.max(0.0)).collect()
    }
}
