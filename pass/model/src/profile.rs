//! The profile of calls that a program has written, matched with a module. (The plugin inserts the code that
//! writes it.)
//!
//! Both runs of the pass come after inlining, so with the same flags and sources they see the same calls. If
//! the sources have changed, functions are found by their names, and the calls in them by the functions they
//! call.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use pcce_dictionary::calls::{self, Calls};
use pcce_encoding::{EdgeId, Encoding, FunctionId};

use crate::error::Error;
use crate::program::{Function, Program, Reach};

/// The counted calls of a function, as ⟨place in its calls, callee⟩: direct calls of functions that are not
/// silent, and calls through pointers.
pub fn counted<'a>(
    functions: &'a [Function],
    function: &'a Function,
) -> impl Iterator<Item = (usize, Option<&'a str>)> {
    function.calls.iter().enumerate().filter_map(|(i, call)| match call.kind.reach() {
        Reach::Function(callee) => {
            let callee = &functions[callee.index()];
            (!callee.silent).then_some((i, Some(&*callee.name)))
        }
        Reach::Pointer => Some((i, None)),
        Reach::Replaceable(_) | Reach::Outside | Reach::Runtime | Reach::Nothing => None,
    })
}

/// A call through a pointer that pushes is compared with a target that receives at least one in this number
/// of its calls. The comparison costs about one addition. It saves a push, worth four, less the addition of
/// the direct call.
const MAX_CALLS_PER_HIT: f64 = 3.0;

/// A call that contexts have not shown is expected so much less often than the compiler estimates.
const UNSEEN: f64 = 1.0 / 1024.0;

/// A profile of calls, by the names of functions.
#[derive(Clone)]
pub struct Profile {
    path: PathBuf,
    /// The profile lists call sites ([`Calls::by_site`]).
    by_site: bool,
    functions: HashMap<String, Vec<(String, calls::Function)>>,
}

/// The counts of a profile for the functions of a module.
#[derive(Clone, Debug, Default)]
pub struct Matched {
    /// Executions of each function; none for a function that is not in the profile.
    pub functions: Vec<Option<f64>>,
    /// Executions of calls, by ⟨function, place in its calls⟩.
    pub calls: HashMap<(usize, usize), f64>,
    /// For each function whose calls are the same in the profile: its index among the profile's functions of
    /// this name.
    exact: Vec<Option<usize>>,
    /// The profile lists call sites ([`Calls::by_site`]).
    pub by_site: bool,
    /// From such a profile: the functions, with the calls that they have here.
    arranged: HashMap<usize, calls::Function>,
    all: usize,
    missing: usize,
    changed: usize,
}

impl Profile {
    /// Reads the profile.
    ///
    /// # Errors
    /// The file cannot be read or is damaged; the error has its path.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let (file, option) = (path.to_owned(), "profile-use");
        let text = std::fs::read(path).map_err(|cause| Error::Unreadable { file, option, cause })?;
        let damaged = |cause| Error::Profile { file: path.to_owned(), cause };
        Ok(Self::new(path.to_owned(), Calls::read(&text).map_err(damaged)?))
    }

    /// Indexes a profile that was read from `path`.
    pub fn new(path: PathBuf, profile: Calls) -> Self {
        let mut functions: HashMap<String, Vec<_>> = HashMap::new();
        let by_site = profile.by_site;
        for (module, function) in profile.merged().functions {
            functions.entry(function.function.clone()).or_default().push((module, function));
        }
        Self { path, by_site, functions }
    }

    /// Looks up the functions that are not silent. `module` gives the name of each function's module; none if
    /// the linker has taken another module's body of the function.
    pub fn find<'a>(&self, module: impl Fn(usize) -> Option<&'a str>, functions: &[Function]) -> Matched {
        let mut matched = Matched {
            functions: vec![None; functions.len()],
            exact: vec![None; functions.len()],
            by_site: self.by_site,
            ..Matched::default()
        };
        for (i, function) in functions.iter().enumerate().filter(|(_, function)| !function.silent) {
            let Some(module) = module(i) else { continue };
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
            if self.by_site {
                matched.functions[i] = Some(found.count.max(1) as f64);
                let arranged = arranged(found, functions, function);
                for ((call, _), counted) in calls.iter().zip(&arranged.calls) {
                    let unseen = function.calls[*call].frequency * found.count as f64 * UNSEEN;
                    matched.calls.insert((i, *call), (counted.1 as f64).max(unseen));
                }
                matched.arranged.insert(i, arranged);
                continue;
            }
            let is_same = is_same(found);
            matched.exact[i] = is_same.then_some(number);
            matched.changed += usize::from(!is_same);
            // A child that was forked in the function counts the function's calls, but not its entry.
            let entered = found.count.max(found.calls.iter().any(|call| call.1 > 0).into());
            matched.functions[i] = Some(entered as f64);
            // The n-th call of a callee in the profile is the n-th one here. In equal lists, each call
            // matches itself.
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

    /// A warning about functions that are missing in the profile, or differ from it.
    pub fn report(&self, module: &str, matched: &Matched) -> Option<String> {
        let Matched { all, missing, changed, .. } = matched;
        // Contexts never show all functions.
        (missing + changed > 0 && !self.by_site).then(|| {
            format!(
                "{module}: of {all} functions, {missing} are not in the profile {}, and {changed} have other calls \
                 than when it was made, which were found by their callees as far as possible; make a new profile of \
                 this source for the best result",
                self.path.display()
            )
        })
    }

    /// The calls through pointers that push and are worth comparing with the functions that they reach most,
    /// since direct calls are expected to cost less. Calls come from the last to the first, so that inserting
    /// calls keeps the places of those still to come. For one call, the hottest target comes first, and is
    /// compared first. `is_exact` returns whether the definition of a callee is the one that runs, and
    /// callers can name it.
    pub fn candidates(
        &self,
        program: &Program,
        encoding: &Encoding,
        options: &pcce_encoding::Options,
        is_exact: impl Fn(FunctionId) -> bool,
    ) -> Vec<Candidate> {
        let mut index: HashMap<&str, FunctionId> = HashMap::new();
        for (id, function) in program.iter() {
            let known = index.entry(&function.name).or_insert(id);
            // If functions of several modules have one name, the one that pointers may reach counts.
            if function.external || function.otherwise_used {
                *known = id;
            }
        }
        // The candidates are first tried as edges of a graph: a direct call may push as well, or make others
        // push.
        let mut graph = program.graph.clone();
        let mut candidates = Vec::new();
        let mut edges: HashMap<(FunctionId, usize, FunctionId), EdgeId> = HashMap::new();
        for (id, function) in program.iter() {
            let Some(found) = self.record(program, id) else { continue };
            // Copies of a call are compared with the same targets, in the same order.
            let mut all: HashMap<usize, (u64, BTreeMap<&str, u64>)> = HashMap::new();
            for ((call, _), calls::Call(_, count, targets)) in
                counted(&program.functions, function).zip(&found.calls)
            {
                let (of_call, of_targets) = all.entry(function.first_copy(call)).or_default();
                *of_call += count;
                let reached = targets.iter().filter(|(_, reached)| reached <= count);
                reached.for_each(|(name, reached)| *of_targets.entry(name).or_default() += reached);
            }
            for (number, (call, callee)) in counted(&program.functions, function).enumerate() {
                let pushes = |edge: EdgeId| encoding.edge(edge).pushes();
                if callee.is_some() || !function.calls[call].edge.is_none_or(pushes) {
                    continue;
                }
                let (of_all, targets) = &all[&function.first_copy(call)];
                let mut targets: Vec<_> = targets.iter().collect();
                targets.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
                let mut left = *of_all;
                for (&name, &of_copies) in targets {
                    let Some(&callee) = index.get(name) else { continue };
                    let target = &program[callee];
                    let worth = of_copies as f64 * MAX_CALLS_PER_HIT >= left as f64;
                    if !worth || target.ty != function.calls[call].ty || !is_exact(callee) {
                        break;
                    }
                    left -= of_copies.min(left);
                    let calls::Call(_, all, targets) = &found.calls[number];
                    let reached = targets.iter().find(|(target, count)| target == name && count <= all);
                    let count = reached.map_or(0, |(_, count)| *count);
                    let edge = (!target.silent).then(|| {
                        let entries = program.counts.functions[id.index()].unwrap_or(1.0).max(1.0);
                        *edges
                            .entry((id, function.first_copy(call), callee))
                            .or_insert_with(|| graph.add_edge(id, callee, of_copies as f64 / entries))
                    });
                    candidates.push((Candidate { function: id, call, number, callee, count }, edge));
                }
            }
        }
        let encoding = pcce_encoding::encode(&graph, options);
        let of_one_call =
            candidates.chunk_by(|(a, _), (b, _)| (a.function, a.number) == (b.function, b.number));
        let worth = of_one_call.rev().flatten().filter(|(_, edge)| {
            let pushes = |edge: EdgeId| encoding.edge(edge).pushes();
            !edge.is_some_and(pushes)
        });
        worth.map(|(candidate, _)| *candidate).collect()
    }

    /// Inserts the direct calls of the candidates that were compared before the calls through pointers. The
    /// candidates are in the order of [`Profile::candidates`].
    pub fn insert(&mut self, program: &Program, compared: &[Candidate]) {
        for targets in compared.chunk_by(|a, b| (a.function, a.number) == (b.function, b.number)) {
            let Candidate { function, mut number, .. } = targets[0];
            let Some(record) = program.counts.exact[function.index()] else { continue };
            let name = &program[function].name;
            let calls = &mut self.functions.get_mut(name).expect("as above")[record].1.calls;
            for target in targets {
                let callee = &program[target.callee];
                calls[number].1 -= target.count.min(calls[number].1);
                if !callee.silent {
                    let direct = calls::Call(Some(callee.name.clone()), target.count, Vec::new());
                    calls.insert(number, direct);
                    number += 1;
                }
            }
        }
    }

    /// The profile's record of the function, if it has the calls that the function has.
    fn record<'a>(&'a self, program: &'a Program, function: FunctionId) -> Option<&'a calls::Function> {
        if self.by_site {
            return program.counts.arranged.get(&function.index());
        }
        let number = program.counts.exact[function.index()]?;
        Some(&self.functions[&program[function].name][number].1)
    }
}

/// A function of a profile that lists call sites, with the calls that it has here: the n-th site with a callee is the
/// n-th one here. All that is known of a site's copies is with the first one.
fn arranged(found: &calls::Function, functions: &[Function], function: &Function) -> calls::Function {
    let mut there: HashMap<Option<&str>, Vec<&calls::Call>> = HashMap::new();
    for call in found.calls.iter().rev() {
        there.entry(call.0.as_deref()).or_default().push(call);
    }
    let calls = counted(functions, function).map(|(call, callee)| {
        let is_first = function.first_copy(call) == call;
        let site = is_first.then(|| there.get_mut(&callee).and_then(Vec::pop)).flatten();
        let none = || calls::Call(callee.map(str::to_owned), 0, Vec::new());
        site.cloned().unwrap_or_else(none)
    });
    calls::Function { calls: calls.collect(), ..found.clone() }
}

/// A call through a pointer that is worth a comparison with one of its targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The calling function.
    pub function: FunctionId,
    /// The call's place in the function's calls.
    pub call: usize,
    /// Its place among the counted calls.
    number: usize,
    /// The target.
    pub callee: FunctionId,
    /// How often the call reached the target.
    pub count: u64,
}

impl Matched {
    /// The counts without a profile.
    pub fn none(_: &[Function]) -> Self {
        Self::default()
    }

    /// The executions of a call for one of its function, if contexts have told them.
    pub fn learnt(&self, function: usize, call: usize) -> Option<f64> {
        let entries = self.functions.get(function).copied().flatten().filter(|_| self.by_site)?;
        Some(self.calls.get(&(function, call))? / entries)
    }

    /// Returns whether the executions of a call were counted.
    pub fn counted(&self, function: usize, call: usize) -> bool {
        !self.by_site && self.calls.contains_key(&(function, call))
    }

    /// Moves the counts of a candidate, which is compared now, to its direct call at the place `direct`.
    pub fn compare(&mut self, candidate: &Candidate, direct: usize) {
        let caller = candidate.function.index();
        self.calls.insert((caller, direct), candidate.count as f64);
        if let Some(left) = self.calls.get_mut(&(caller, candidate.call)) {
            *left = (*left - candidate.count as f64).max(0.0);
        }
    }

    /// How often each function was entered through pointers, or from outside the modules of the profile.
    pub fn entered_openly(&self, functions: &[Function]) -> Vec<f64> {
        let mut entered: Vec<f64> = self.functions.iter().map(|count| count.unwrap_or(0.0)).collect();
        for (&(caller, call), count) in &self.calls {
            if let Some(callee) = functions[caller].calls[call].kind.callee() {
                entered[callee.index()] -= count;
            }
        }
        entered.into_iter().map(|count| count.max(0.0)).collect()
    }
}
