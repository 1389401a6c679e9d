//! Calls that stay tail calls, and calls that may become jumps.
//!
//! A tail call leaves no frame, and contexts must say so. If a push has begun the sub-path, the function that
//! makes the tail call marks the frame. Open calls push nothing: there the dictionary says which functions
//! may have replaced the callee ([`find_groups`]). For that, a call through a pointer may reach any function
//! of its type whose address such a pointer may hold.
//!
//! Nothing can be undone after a tail call, so an ordinary tail call that is instrumented needs stack. Where
//! ordinary tail calls alone make a cycle, the plain program recurses in constant stack, to any depth. There
//! the calls stay tail calls, like those that the language guarantees ([`keep_in_cycles`]). Which calls
//! through pointers are on a cycle is guessed by types and by the places of addresses. A wrong guess changes
//! which frames are kept, not whether contexts are right.

use std::collections::{BTreeSet, HashMap, HashSet};

use pcce_encoding::{CallGraph, FunctionId, edges_on_cycles};

use crate::program::{AddressPlaces, Call, Function, Pointer, Reach, TailCallee, TypeId, Unannounced, ids};

/// The kinds of pointers that may hold the address of a function of this type in these places.
pub fn pointers_to(ty: TypeId, places: AddressPlaces) -> impl Iterator<Item = Pointer> {
    let AddressPlaces { in_table, elsewhere } = places;
    let ways = [(in_table, Some(true)), (elsewhere, Some(false)), (in_table || elsewhere, None)];
    let held = ways.into_iter().filter(|(held, _)| *held);
    held.map(move |(_, is_virtual)| Pointer { ty, is_virtual })
}

/// The functions that tail calls reach from each function.
struct Ways<'a> {
    functions: &'a [Function],
    by_pointer: HashMap<Pointer, Vec<FunctionId>>,
}

/// The functions that tail calls reach, and whether they may reach functions of other modules.
type Reached = (BTreeSet<FunctionId>, bool);

impl<'a> Ways<'a> {
    fn new(functions: &'a [Function]) -> Self {
        let mut by_pointer: HashMap<Pointer, Vec<FunctionId>> = HashMap::new();
        for (id, function) in ids(functions) {
            // Other modules may put its address anywhere.
            let places = match function.external {
                true => AddressPlaces { in_table: true, elsewhere: true },
                false => function.places,
            };
            for pointer in pointers_to(function.ty, places) {
                by_pointer.entry(pointer).or_default().push(id);
            }
        }
        Self { functions, by_pointer }
    }

    fn targets_of(&self, pointer: Pointer) -> &[FunctionId] {
        self.by_pointer.get(&pointer).map(Vec::as_slice).unwrap_or_default()
    }

    /// The functions that the tail calls of these functions reach, directly and indirectly.
    fn reached(&self, from: &[FunctionId]) -> Reached {
        let (mut found, mut away) = (BTreeSet::new(), false);
        let mut waiting = from.to_vec();
        while let Some(function) = waiting.pop() {
            for way in &self.functions[function.index()].tail_callees {
                let targets = match way {
                    TailCallee::Known(callee) => std::slice::from_ref(callee),
                    TailCallee::Pointer(pointer) => self.targets_of(*pointer),
                    TailCallee::Away { .. } => &[],
                };
                away |= !matches!(way, TailCallee::Known(_));
                waiting.extend(targets.iter().filter(|&&target| found.insert(target)));
            }
        }
        (found, away)
    }
}

/// Sets [`Call::tail_group`] and [`Function::tail_groups`]. Returns the groups whose functions may leave
/// their activations to functions of other modules. Without an open node (`open`), only silent functions are
/// reached without a push.
pub fn find_groups(functions: &mut [Function], open: bool) -> Vec<u32> {
    let ways = Ways::new(functions);
    // Functions that reach the same functions are one group: contexts need no finer distinction.
    let mut groups: HashMap<Reached, u32> = HashMap::new();
    let mut number = |from: &[FunctionId]| {
        let reached = ways.reached(from);
        let next = groups.len() as u32;
        (reached.1 || !reached.0.is_empty()).then(|| *groups.entry(reached).or_insert(next))
    };
    let mut pointers: HashMap<Pointer, Option<u32>> = HashMap::new();
    let mut found = Vec::new();
    for (i, function) in functions.iter().enumerate() {
        for (c, call) in function.calls.iter().enumerate() {
            let group = match call.kind.reach() {
                Reach::Pointer if open => {
                    let pointer = Pointer { ty: call.ty, is_virtual: call.is_virtual };
                    *pointers.entry(pointer).or_insert_with(|| number(ways.targets_of(pointer)))
                }
                Reach::Function(callee) => {
                    let leaves = functions[callee.index()].leaves();
                    let unpushed = open || functions[callee.index()].silent;
                    (leaves && unpushed).then(|| number(&[callee])).flatten()
                }
                Reach::Replaceable(_) | Reach::Pointer | Reach::Outside | Reach::Runtime | Reach::Nothing => {
                    None
                }
            };
            found.extend(group.map(|group| (i, c, group)));
        }
    }
    for (i, c, group) in found {
        functions[i].calls[c].tail_group = Some(group);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by_key(|(_, group)| *group);
    let mut leaving = Vec::new();
    for ((reached, away), group) in groups {
        for function in reached {
            functions[function.index()].tail_groups.push(group);
        }
        leaving.extend(away.then_some(group));
    }
    leaving
}

/// Returns for each of these calls, which may be jumps, whether it is on a cycle of such calls. `functions`
/// has the types of the functions, and the places of their addresses.
pub fn on_cycles(
    functions: &[(TypeId, AddressPlaces)],
    calls: impl Iterator<Item = (FunctionId, TailCallee)>,
) -> Vec<bool> {
    let mut graph = CallGraph::new();
    for _ in functions {
        graph.add_function(false, false);
    }
    let elsewhere = graph.add_function(false, false);
    // Calls through pointers that may reach the same functions share a node.
    let mut pointers: HashMap<Pointer, FunctionId> = HashMap::new();
    let mut count = 0;
    for (caller, callee) in calls {
        let callee = match callee {
            TailCallee::Known(callee) => callee,
            TailCallee::Pointer(pointer) => {
                *pointers.entry(pointer).or_insert_with(|| graph.add_function(false, false))
            }
            TailCallee::Away { .. } => elsewhere,
        };
        graph.add_edge(caller, callee, 1.0);
        count += 1;
    }
    for (number, &(ty, places)) in (0..).zip(functions) {
        for pointer in pointers_to(ty, places) {
            if let Some(&node) = pointers.get(&pointer) {
                graph.add_edge(node, FunctionId::new(number), 1.0);
            }
        }
    }
    // The edges of the calls were added first.
    let mut on_cycle = edges_on_cycles(&graph);
    on_cycle.truncate(count);
    on_cycle
}

/// Keeps calls that are on cycles through several modules as tail calls; each module has found the cycles of
/// its own. `open`: the graph will have an open node. Returns the calls that were taken out of the functions'
/// lists, by their places there.
pub fn keep_in_cycles(functions: &mut [Function], open: bool) -> Vec<(FunctionId, usize)> {
    let places: Vec<_> = functions.iter().map(|function| (function.ty, function.places)).collect();
    let mut calls = Vec::new();
    for (number, function) in (0..).zip(&*functions) {
        // A function that callers enter without a push pops at its end, and one that cannot be diverted would
        // not be instrumented.
        if function.unannounced != Unannounced::Never || !open && !function.can_be_diverted {
            continue;
        }
        for (c, call) in function.calls.iter().enumerate().filter(|(_, call)| call.sibling.is_some()) {
            let callee = match call.kind.reach() {
                Reach::Function(callee) => TailCallee::Known(callee),
                Reach::Pointer => TailCallee::Pointer(Pointer { ty: call.ty, is_virtual: call.is_virtual }),
                Reach::Replaceable(_) | Reach::Outside | Reach::Runtime | Reach::Nothing => continue,
            };
            calls.push(((FunctionId::new(number), c), callee));
        }
    }
    // Existing tail calls may be part of such a cycle.
    let left = functions.iter().enumerate().flat_map(|(number, function)| {
        let number = FunctionId::new(number as u32);
        function.tail_callees.iter().map(move |callee| (number, callee.clone()))
    });
    let all = calls.iter().map(|((caller, _), callee)| (*caller, callee.clone())).chain(left);
    let on_cycle = on_cycles(&places, all);
    let kept = calls.into_iter().zip(on_cycle).filter_map(|(call, on_cycle)| on_cycle.then_some(call));
    let (kept, callees): (Vec<_>, Vec<_>) = kept.unzip();
    for (&(caller, c), callee) in kept.iter().zip(callees).rev() {
        let function = &mut functions[caller.index()];
        function.calls.remove(c);
        function.tail_callees.push(callee);
    }
    kept
}

/// The targets of calls that code generation may turn into jumps.
#[derive(Default)]
pub struct Jumps {
    callees: HashSet<usize>,
    types: HashSet<TypeId>,
}

impl Jumps {
    /// Adds a call after which nothing is done.
    pub fn add(&mut self, call: &Call) {
        match call.kind.reach() {
            _ if !call.may_be_jump => {}
            Reach::Function(callee) => _ = self.callees.insert(callee.index()),
            Reach::Pointer => _ = self.types.insert(call.ty),
            Reach::Replaceable(_) | Reach::Outside | Reach::Runtime | Reach::Nothing => {}
        }
    }

    /// Returns whether one of the calls may reach the function of this number.
    pub fn may_lead_to(&self, number: usize, function: &Function) -> bool {
        let by_pointer = function.external || function.address_taken || function.otherwise_used;
        self.callees.contains(&number)
            || by_pointer && self.types.contains(&function.ty)
            || !function.tail_groups.is_empty()
    }
}
