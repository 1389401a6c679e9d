//! An independent checker of encodings. It shares no code with the encoder or the path decoder.
//!
//! # What it proves
//!
//! Let `G = ⟨N, E⟩` be a call graph whose edges are call sites (the paper, Definition 1), and let each edge
//! `e` either add a value `c(e)` or push. The program keeps an id and a stack: it begins in a function with
//! id 0 and an empty stack; calling along an adding edge adds `c(e)` to the id, calling along a pushing edge
//! pushes `(id, e)` and sets the id to 0. The encoding of a context is the final stack and id. The encoding
//! is *valid* (Definition 3) when for every function `n` and all distinct contexts `x`, `y` of `n`, `En(x) ≠
//! En(y)`; and decodable when the context can be computed from `n` and `En(x)`.
//!
//! A *sub-path* of `n` is a sequence of adding edges that ends in `n` and begins in a function that can have
//! id 0 at its start: one that a pushing edge calls, or where a context can begin. It suffices to show
//!
//! 1. adding edges form no cycle, so that the sub-paths of each function are finitely many;
//!    With an open node, to which open calls lead, each entry has an edge from it that adds 0 and is no call;
//! 2. the functions where a sub-path may begin are known: those that are entries of the graph, have no callers, or
//!    are called by a pushing edge, and no others. If it is known for each sub-path that a back edge or a cut began
//!    where it did, the sub-path is the end of one that comes from further up, so these need not count;
//! 3. for each function `n`, the sets `{0}` (where sub-paths may begin in `n`) and `[c(e), c(e) +
//!    numCC(caller(e)))` for each adding edge `e` into `n` are disjoint and their union is `[0, numCC(n))`.
//!
//! By induction along 1, sub-paths of `n` and ids in `[0, numCC(n))` then correspond one to one, and a stack
//! of ids and edges names one sequence of sub-paths, hence one context. [`check`] establishes 1 to 3 for
//! graphs of any size; [`check_by_enumeration`] does not rely on the argument and lists sub-paths and
//! contexts of small graphs instead.
//!
//! [`check`] also holds the encoder to what it says about the choice of pushing edges: required ones push,
//! back edges close cycles of edges that are about as hot, cuts are made only if ids are too few, and hot
//! in-edges come first.

use std::collections::{HashMap, HashSet};

use pcce_encoding::{CallGraph, EdgeCode, EdgeId, Encoding, FunctionId, Options, PushReason, Rule, encode};

/// A call graph as plain values.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// For each function: entry, and whether calls of it must push.
    pub functions: Vec<(bool, bool)>,
    /// Caller, callee, frequency.
    pub edges: Vec<(usize, usize, f64)>,
    /// The open node, which must be an entry and no caller.
    pub open: Option<usize>,
    pub id_bits: u32,
    /// Executions of the functions in turn, over and over, where they are counted.
    pub counts: Vec<Option<f64>>,
    pub known_starts: bool,
    /// What is decided of the first edges before the numbering.
    pub rules: Vec<Rule>,
}

impl Model {
    pub fn encode(&self) -> Encoding {
        let Self { id_bits, known_starts, .. } = *self;
        encode(&self.graph(), &Options { id_bits, known_starts })
    }

    pub fn graph(&self) -> CallGraph {
        let mut graph = CallGraph::new();
        for (n, &(entry, required_push)) in self.functions.iter().enumerate() {
            if self.open == Some(n) {
                graph.add_open_node();
            } else {
                graph.add_function(entry, required_push);
                if self.open_target(n) {
                    graph.add_open_target(function(n), (n % 3) as f64 / 5.0); // any share
                }
            }
        }
        for (n, count) in (0..self.functions.len()).zip(self.counts.iter().cycle()) {
            if let &Some(count) = count {
                graph.set_count(function(n), count);
            }
        }
        for &(caller, callee, frequency) in &self.edges {
            graph.add_edge(function(caller), function(callee), frequency);
        }
        for (e, &rule) in self.rules.iter().enumerate() {
            graph.set_rule(edge(e), rule);
        }
        graph
    }

    /// Where a context can begin.
    pub fn roots(&self) -> Vec<usize> {
        let called: HashSet<usize> = self.edges.iter().map(|&(_, callee, _)| callee).collect();
        let root = |f: &usize| self.functions[*f].0 || !called.contains(f);
        (0..self.functions.len()).filter(root).collect()
    }

    /// Where a sub-path may start of which it is not known where it starts.
    pub fn unknown_starts(&self, encoding: &Encoding) -> Vec<bool> {
        let mut unknown = vec![false; self.functions.len()];
        self.roots().into_iter().for_each(|n| unknown[n] = true);
        for (e, &(_, callee, _)) in self.edges.iter().enumerate() {
            let told = self.known_starts && !is(encoding, e, PushReason::Required);
            unknown[callee] |= added(encoding, e).is_none() && !told;
        }
        unknown
    }

    fn counted(&self, n: usize) -> bool {
        self.counts.iter().cycle().nth(n).is_some_and(Option::is_some)
    }

    /// Functions that open calls may reach.
    pub fn open_targets(&self) -> Vec<usize> {
        (0..self.functions.len()).filter(|f| self.open_target(*f)).collect()
    }

    /// All entries, but some are entered from outside only.
    pub fn open_target(&self, n: usize) -> bool {
        self.open.is_some_and(|open| open != n) && self.functions[n].0 && n % 5 != 2
    }

    pub fn out_edges(&self) -> Vec<Vec<usize>> {
        let mut out = vec![Vec::new(); self.functions.len()];
        for (edge, &(caller, _, _)) in self.edges.iter().enumerate() {
            out[caller].push(edge);
        }
        out
    }

    pub fn in_edges(&self) -> Vec<Vec<usize>> {
        let mut into = vec![Vec::new(); self.functions.len()];
        for (edge, &(_, callee, _)) in self.edges.iter().enumerate() {
            into[callee].push(edge);
        }
        into
    }
}

pub fn function(index: usize) -> FunctionId {
    FunctionId::new(index as u32)
}

pub fn edge(index: usize) -> EdgeId {
    EdgeId::new(index as u32)
}

/// The addition value, if the edge adds.
pub fn added(encoding: &Encoding, index: usize) -> Option<u64> {
    match encoding.edge(edge(index)) {
        EdgeCode::Add(value) => Some(value),
        EdgeCode::Push(_) => None,
    }
}

/// The largest power of four, times a half, that is not above; 0 for 0.
fn power_of_four(weight: f64) -> f64 {
    f64::from_bits(weight.to_bits() >> 53 << 53)
}

fn is(encoding: &Encoding, index: usize, reason: PushReason) -> bool {
    encoding.edge(edge(index)) == EdgeCode::Push(reason)
}

/// Checks obligations 1 to 3, and the choice of pushing edges.
pub fn check(model: &Model, encoding: &Encoding) -> Result<(), String> {
    let checked = Checked::new(model, encoding);
    let callees_first = checked.acyclic()?;
    checked.starts()?;
    checked.ids(&callees_first)?;
    checked.cuts()?;
    checked.pushes()
}

/// What is being checked.
struct Checked<'a> {
    /// From its calls on, the edges of the open node are edges like others.
    model: Model,
    calls: usize,
    encoding: &'a Encoding,
    /// Where a sub-path may start of which it is not known where it starts.
    unknown_starts: Vec<bool>,
    in_edges: Vec<Vec<usize>>,
    out_edges: Vec<Vec<usize>>,
    /// The largest numCC that ids can number.
    limit: u128,
}

impl<'a> Checked<'a> {
    fn new(model_of_calls: &Model, encoding: &'a Encoding) -> Self {
        let mut model = model_of_calls.clone();
        model.edges.extend(model_of_calls.open_targets().into_iter().map(|f| {
            let open = model_of_calls.open.expect("has targets");
            (open, f, 0.0)
        }));
        Self {
            calls: model_of_calls.edges.len(),
            encoding,
            unknown_starts: model_of_calls.unknown_starts(encoding),
            in_edges: model.in_edges(),
            out_edges: model.out_edges(),
            limit: if model.id_bits >= 64 { u64::MAX.into() } else { 1 << model.id_bits.max(1) },
            model,
        }
    }

    fn added(&self, e: usize) -> Option<u64> {
        if e < self.calls { added(self.encoding, e) } else { Some(0) }
    }

    fn is(&self, e: usize, reason: PushReason) -> bool {
        e < self.calls && is(self.encoding, e, reason)
    }

    /// Neither a back edge nor required to push.
    fn may_add(&self, e: usize) -> bool {
        !self.is(e, PushReason::Back) && !self.is(e, PushReason::Required)
    }

    /// 1, by colouring: visiting a function that is being visited closes a cycle. Callers finish after
    /// callees.
    fn acyclic(&self) -> Result<Vec<usize>, String> {
        #[derive(Clone, Copy, PartialEq)]
        enum Colour {
            White,
            Grey,
            Black,
        }
        let mut colour = vec![Colour::White; self.model.functions.len()];
        let mut finished = Vec::new();
        for start in 0..self.model.functions.len() {
            let mut stack = vec![(start, 0)];
            while let Some((at, done)) = stack.pop() {
                if done == 0 && colour[at] != Colour::White {
                    continue;
                }
                colour[at] = Colour::Grey;
                let Some(&call) = self.out_edges[at].get(done) else {
                    colour[at] = Colour::Black;
                    finished.push(at);
                    continue;
                };
                stack.push((at, done + 1));
                if self.added(call).is_some() {
                    let callee = self.model.edges[call].1;
                    match colour[callee] {
                        Colour::White => stack.push((callee, 0)),
                        Colour::Grey => return Err(format!("edge {call} closes a cycle of adding edges")),
                        Colour::Black => {}
                    }
                }
            }
        }
        Ok(finished)
    }

    /// 2
    fn starts(&self) -> Result<(), String> {
        for (n, callers) in self.in_edges.iter().enumerate() {
            if self.unknown_starts[n] && self.encoding.offset(function(n)) != 0 {
                return Err(format!("function {n} is entered with id 0, and has an offset"));
            }
            let pushed = callers.iter().all(|&e| self.added(e).is_none());
            let entry = self.encoding.is_entry(function(n));
            if entry != (self.unknown_starts[n] || pushed) {
                return Err(format!("function {n}: is_entry is {entry}"));
            }
        }
        Ok(())
    }

    /// 3, with a numCC of our own.
    fn ids(&self, callees_first: &[usize]) -> Result<(), String> {
        let mut num_cc = vec![0u128; self.model.functions.len()];
        for &n in callees_first.iter().rev() {
            let mut ranges: Vec<(u128, u128)> = Vec::new();
            if self.encoding.is_entry(function(n)) && !self.model.open_target(n) {
                ranges.push((0, 1));
            }
            for &e in &self.in_edges[n] {
                if let Some(value) = self.added(e) {
                    ranges.push((u128::from(value), u128::from(value) + num_cc[self.model.edges[e].0]));
                }
            }
            ranges.sort_unstable();
            for &(from, to) in &ranges {
                if from != num_cc[n] {
                    return Err(format!("function {n}: range [{from}, {to}) follows [.., {})", num_cc[n]));
                }
                num_cc[n] = to;
            }
            let claimed = self.encoding.num_cc(function(n));
            if num_cc[n] == 0 || num_cc[n] > self.limit || num_cc[n] != u128::from(claimed) {
                let limit = self.limit;
                return Err(format!(
                    "function {n} has {} sub-paths, not {claimed}; limit {limit}",
                    num_cc[n]
                ));
            }
            self.in_order(n, &num_cc)?;
        }
        Ok(())
    }

    /// Hotter in-edges have smaller values, but for the sake of values that an instruction holds.
    fn in_order(&self, n: usize, num_cc: &[u128]) -> Result<(), String> {
        let small = 1 << 30;
        let mut calls: Vec<(u128, u128, f64)> = self.in_edges[n]
            .iter()
            .filter(|&&e| e < self.calls)
            .filter_map(|&e| {
                let caller = self.model.edges[e].0;
                // Estimates of one power of four are equal, where all values are small.
                let weight = self.encoding.edge_weight(edge(e));
                let exact = self.model.counted(caller) || num_cc[n] > small;
                let heat = if exact { weight } else { power_of_four(weight) };
                Some((self.added(e)?.into(), num_cc[caller], heat))
            })
            .collect();
        calls.sort_unstable_by_key(|&(value, ..)| value);
        let wrong = calls.windows(2).any(|pair| {
            let [(value, contexts, weight), (_, next_contexts, next_weight)] = *pair else { return false };
            let fewer = num_cc[n] > small && value + contexts <= small && contexts <= next_contexts;
            !fewer && weight < next_weight
        });
        if wrong { Err(format!("function {n}: in-edges are not in order: {calls:?}")) } else { Ok(()) }
    }

    /// Cuts are made if and only if something would not fit without them; sums stop above the limit.
    fn cuts(&self) -> Result<(), String> {
        let Self { ref model, ref in_edges, ref out_edges, limit, .. } = *self;
        let roots: HashSet<usize> = model.roots().into_iter().collect();
        let mut uncut = vec![0u128; model.functions.len()];
        let mut waiting: Vec<usize> =
            in_edges.iter().map(|edges| edges.iter().filter(|&&e| self.may_add(e)).count()).collect();
        let mut ready: Vec<usize> = (0..model.functions.len()).filter(|&n| waiting[n] == 0).collect();
        let mut next = 0;
        while next < ready.len() {
            let n = ready[next];
            next += 1;
            let told = |e: usize| model.known_starts && !self.is(e, PushReason::Required);
            let dummy = roots.contains(&n)
                || in_edges[n].iter().any(|&e| !self.may_add(e) && !told(e))
                || in_edges[n].iter().all(|&e| !self.may_add(e));
            uncut[n] = u128::from(dummy && !model.open_target(n));
            for &e in in_edges[n].iter().filter(|&&e| self.may_add(e)) {
                uncut[n] = (uncut[n] + uncut[model.edges[e].0]).min(limit + 1);
            }
            for &e in out_edges[n].iter().filter(|&&e| self.may_add(e)) {
                waiting[model.edges[e].1] -= 1;
                if waiting[model.edges[e].1] == 0 {
                    ready.push(model.edges[e].1);
                }
            }
        }
        if next < model.functions.len() {
            return Err("edges that add or are cut form a cycle".to_owned());
        }
        let cut = (0..model.edges.len()).any(|e| self.is(e, PushReason::Cut));
        // The open node leaves room in its targets.
        let room = limit >> (model.id_bits.clamp(1, 64) / 4);
        let most = |n: usize| if model.open == Some(n) { room } else { limit };
        if cut != (0..uncut.len()).any(|n| uncut[n] > most(n)) {
            let needed = uncut.iter().max();
            return Err(format!(
                "some edges are cut: {cut}; without cuts {needed:?} of {limit} ids are needed"
            ));
        }
        Ok(())
    }

    /// Required edges push, and back edges close cycles of edges that are about as hot.
    fn pushes(&self) -> Result<(), String> {
        for (e, &(caller, callee, _)) in self.model.edges[..self.calls].iter().enumerate() {
            let weight = self.encoding.edge_weight(edge(e));
            if !(weight >= 0.0 && weight.is_finite()) {
                return Err(format!("edge {e} has weight {weight}"));
            }
            if self.model.functions[callee].1 != self.is(e, PushReason::Required) {
                return Err(format!("edge {e}: {:?}", self.encoding.edge(edge(e))));
            }
            // Half its weight, as weights of one power of two count as equal; and so do those too small for
            // one. Open calls that are estimated count 16 times, and may be back edges for the sake of any
            // other.
            let to_open = |e: usize| self.model.open == Some(self.model.edges[e].1);
            let counted = |e: usize| self.model.counted(self.model.edges[e].0);
            let heat = |e: usize| {
                self.encoding.edge_weight(edge(e)) * if to_open(e) && !counted(e) { 16.0 } else { 1.0 }
            };
            let hot = |other: usize| {
                other >= self.calls
                    || weight < f64::MIN_POSITIVE
                    || heat(other) > heat(e) / 2.0
                    || to_open(e) && !to_open(other)
            };
            let back = self.is(e, PushReason::Back);
            let usable = |e: usize| self.may_add(e) && hot(e);
            if back && !reaches(&self.model, &self.out_edges, usable, callee, caller) {
                return Err(format!("back edge {e} closes no cycle of edges as hot as itself"));
            }
        }
        Ok(())
    }
}

/// Returns whether usable edges lead from one function to the other.
fn reaches(
    model: &Model,
    out_edges: &[Vec<usize>],
    usable: impl Fn(usize) -> bool,
    from: usize,
    to: usize,
) -> bool {
    let mut seen = HashSet::from([from]);
    let mut todo = vec![from];
    while let Some(at) = todo.pop() {
        if at == to {
            return true;
        }
        for &e in &out_edges[at] {
            if usable(e) && seen.insert(model.edges[e].1) {
                todo.push(model.edges[e].1);
            }
        }
    }
    false
}

/// Lists all sub-paths, and the contexts of up to `depth` calls, and looks for two with one encoding.
///
/// Does nothing for more than `most` sub-paths, and stops after `most` contexts.
pub fn check_by_enumeration(
    model: &Model,
    encoding: &Encoding,
    depth: usize,
    most: usize,
) -> Result<(), String> {
    let all: u128 = (0..model.functions.len()).map(|n| u128::from(encoding.num_cc(function(n)))).sum();
    if all > most as u128 {
        return Ok(());
    }
    let out_edges = model.out_edges();
    // What a call leads to: an open one, to each entry.
    let targets =
        |callee: usize| if model.open == Some(callee) { model.open_targets() } else { vec![callee] };

    // Sub-paths, as the id that each function has at their end. The open node's own are those of its targets.
    let open_num_cc = model.open.map_or(0, |open| u128::from(encoding.num_cc(function(open))));
    let mut ids: HashMap<(usize, u64), Vec<usize>> = HashMap::new();
    let mut todo: Vec<(usize, u64, Vec<usize>)> = (0..model.functions.len())
        .filter(|&n| encoding.is_entry(function(n)) && model.open != Some(n))
        .map(|n| (n, 0, vec![]))
        .collect();
    while let Some((at, id, path)) = todo.pop() {
        if id >= encoding.num_cc(function(at)) {
            return Err(format!("sub-path {path:?} has id {id} in function {at}"));
        }
        for &e in &out_edges[at] {
            if let Some(value) = added(encoding, e) {
                for callee in targets(model.edges[e].1) {
                    todo.push((callee, id + value, [&path[..], &[e]].concat()));
                }
            }
        }
        if let Some(other) = ids.insert((at, id), path.clone()) {
            return Err(format!("sub-paths {path:?} and {other:?} share id {id} in function {at}"));
        }
    }
    if ids.len() as u128 + open_num_cc != all {
        return Err(format!("there are {} sub-paths, not {all}", ids.len()));
    }

    // Contexts, shortest first.
    type Context = (usize, Vec<usize>); // where it begins, and the calls
    type Code = (Vec<(u64, usize)>, u64);
    let mut contexts: HashMap<(usize, Code), Context> = HashMap::new();
    let roots = model.roots().into_iter().filter(|&n| model.open != Some(n));
    let mut todo: Vec<(usize, Code, Context)> =
        roots.into_iter().map(|n| (n, (vec![], 0), (n, vec![]))).collect();
    let mut next = 0;
    while next < todo.len() && next < most {
        let (at, (stack, id), (begin, calls)) = todo[next].clone();
        next += 1;
        if calls.len() < depth {
            for &e in &out_edges[at] {
                let code = match added(encoding, e) {
                    Some(value) => (stack.clone(), id + value),
                    None => ([&stack[..], &[(id, e)]].concat(), 0),
                };
                for callee in targets(model.edges[e].1) {
                    todo.push((callee, code.clone(), (begin, [&calls[..], &[e]].concat())));
                }
            }
        }
        let context = (begin, calls);
        if let Some(other) = contexts.insert((at, (stack, id)), context.clone()) {
            return Err(format!("contexts {context:?} and {other:?} share an encoding"));
        }
    }
    Ok(())
}
