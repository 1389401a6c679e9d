//! The profile of calls: what one that the program wrote says of a module (the plugin lets it write
//! one).
//!
//! Both runs of the pass come after inlining, so with the same flags and sources they see the same calls. Where the
//! sources have changed, functions are found by their names, and the calls in them by the functions they call.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pcce_dictionary::calls::{self, Calls};
use pcce_encoding::{EdgeId, Encoding, FunctionId};

use crate::error::Error;
use crate::program::{CallKind, Function, Program};

/// The calls of a function that are counted, ⟨place in its calls, callee⟩: direct ones of functions that are not
/// silent, and those through pointers.
pub fn counted<'a>(
    functions: &'a [Function],
    function: &'a Function,
) -> impl Iterator<Item = (usize, Option<&'a str>)> {
    function.calls.iter().enumerate().filter_map(|(i, call)| match call.kind {
        CallKind::Direct(callee) => {
            let callee = &functions[callee.index()];
            (!callee.silent).then_some((i, Some(&*callee.name)))
        }
        CallKind::Indirect => Some((i, None)),
        _ => None,
    })
}

/// A call through a pointer that pushes is worth a comparison with a target that gets one of so many calls: the
/// comparison costs about an addition, and a push that is saved four, but for the addition of the direct call.
const WORTH: f64 = 3.0;

/// A profile, by the functions' names.
#[derive(Clone)]
pub struct Profile {
    path: PathBuf,
    functions: HashMap<String, Vec<(String, calls::Function)>>,
}

/// What a profile says of a module.
#[derive(Clone, Debug, Default)]
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
    pub fn load(path: &Path) -> Result<Self, Error> {
        let (file, option) = (path.to_owned(), "profile-use");
        let text = std::fs::read(path).map_err(|cause| Error::Unreadable { file, option, cause })?;
        let damaged = |cause| Error::Profile { file: path.to_owned(), cause };
        Ok(Self::new(path.to_owned(), Calls::read(&text).map_err(damaged)?))
    }

    /// What was read from `path`.
    pub fn new(path: PathBuf, profile: Calls) -> Self {
        let mut functions: HashMap<String, Vec<_>> = HashMap::new();
        for (module, function) in profile.merged().functions {
            functions.entry(function.function.clone()).or_default().push((module, function));
        }
        Self { path, functions }
    }

    /// Looks the functions up that are not silent. `module`: of each function, the name of its module.
    pub fn find<'a>(&self, module: impl Fn(usize) -> &'a str, functions: &[Function]) -> Matched {
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
            let best = named.max_by_key(|(_, (from, f))| (is_same(f), from == module(i), f.count));
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
                 than when it was made, which were found by their callees as far as possible; make a new profile of \
                 this source for the best result",
                self.path.display()
            )
        })
    }

    /// Which calls through pointers that push are worth comparing with the functions that they reach most, since
    /// calling those directly is expected to cost less: from the last call to the first, as the profile's list keeps
    /// its places in front of what is inserted; of one call the hottest target first, which is the first to be
    /// compared. `is_exact`: whether the definition of a callee is the one that runs, and callers can name it.
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
            // Of several modules' functions of a name, the one that pointers may reach.
            if function.external || function.otherwise_used {
                *known = id;
            }
        }
        // First as edges of a graph: a direct call may push as well, or make others push.
        let mut graph = program.graph.clone();
        let mut candidates = Vec::new();
        for (id, function) in program.iter() {
            let Some(found) = self.record(program, id) else { continue };
            for (number, (call, callee)) in counted(&program.functions, function).enumerate() {
                let pushes = |edge: EdgeId| encoding.edge(edge).pushes();
                if callee.is_some() || !function.calls[call].edge.is_none_or(pushes) {
                    continue;
                }
                let calls::Call(_, all, targets) = &found.calls[number];
                let mut targets: Vec<_> = targets.iter().filter(|(_, count)| count <= all).collect();
                targets.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
                let mut left = *all;
                for (name, count) in targets {
                    let Some(&callee) = index.get(&**name) else { continue };
                    let target = &program[callee];
                    let worth = *count as f64 * WORTH >= left as f64;
                    if !worth || target.ty != function.calls[call].ty || !is_exact(callee) {
                        break;
                    }
                    left -= (*count).min(left);
                    let edge = (!target.silent).then(|| {
                        let entries = program.counts.functions[id.index()].unwrap_or(1.0).max(1.0);
                        graph.add_edge(id, callee, *count as f64 / entries)
                    });
                    candidates.push((Candidate { function: id, call, number, callee, count: *count }, edge));
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

    /// Lets the profile have the direct calls of these candidates, which were compared, in front of the calls through
    /// pointers. They are in the order of [`Profile::candidates`].
    pub fn insert(&mut self, program: &Program, compared: &[Candidate]) {
        for targets in compared.chunk_by(|a, b| (a.function, a.number) == (b.function, b.number)) {
            let Candidate { function, mut number, .. } = targets[0];
            let record = program.counts.exact[function.index()].expect("a candidate was found by its record");
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

    /// What the profile has of the function, if its calls there are those that it has.
    fn record(&self, program: &Program, function: FunctionId) -> Option<&calls::Function> {
        let number = program.counts.exact[function.index()]?;
        Some(&self.functions[&program[function].name][number].1)
    }
}

/// A call through a pointer that is worth a comparison with one of its targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The function that calls.
    pub function: FunctionId,
    /// The call's place in the function's calls.
    pub call: usize,
    /// Among those that are counted.
    number: usize,
    /// The target.
    pub callee: FunctionId,
    /// How often it was reached.
    pub count: u64,
}

impl Matched {
    /// Without a profile.
    pub fn none(_: &[Function]) -> Self {
        Self::default()
    }

    /// The same where a call was compared with a target of this candidate, for which there is a direct call at this
    /// place now.
    pub fn compare(&mut self, candidate: &Candidate, direct: usize) {
        let caller = candidate.function.index();
        self.calls.insert((caller, direct), candidate.count as f64);
        if let Some(left) = self.calls.get_mut(&(caller, candidate.call)) {
            *left = (*left - candidate.count as f64).max(0.0);
        }
    }

    /// How often calls that are not in the profile's modules, or through pointers, entered each function.
    pub fn entered_openly(&self, functions: &[Function]) -> Vec<f64> {
        let mut entered: Vec<f64> = self.functions.iter().map(|count| count.unwrap_or(0.0)).collect();
        for (&(caller, call), count) in &self.calls {
            if let CallKind::Direct(callee) = functions[caller].calls[call].kind {
                entered[callee.index()] -= count;
            }
        }
        entered.into_iter().map(|count| count.max(0.0)).collect()
    }
}
