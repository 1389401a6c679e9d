//! Calls that stay tail calls leave no frame, and contexts must say so.
//!
//! Where a push has begun the sub-path, the function that makes the tail call marks the frame. Open calls push nothing:
//! there the dictionary tells which functions may stand in the place of what was called. For that, a call through a
//! pointer may reach any function of its type that others than direct calls can name.

use std::collections::{BTreeSet, HashMap};

use pcce_encoding::FunctionId;

use crate::program::{AddressPlaces, CallKind, Function, Pointer, TailCallee, TypeId, ids};

/// The calls that may reach a function of this type whose address is in these places.
pub fn pointers_to(ty: TypeId, places: AddressPlaces) -> impl Iterator<Item = Pointer> {
    let AddressPlaces { in_table, elsewhere } = places;
    let ways = [(in_table, Some(true)), (elsewhere, Some(false)), (in_table || elsewhere, None)];
    let held = ways.into_iter().filter(|(held, _)| *held);
    held.map(move |(_, is_virtual)| Pointer { ty, is_virtual })
}

/// Who reaches whom by calls that stay tail calls.
struct Ways<'a> {
    functions: &'a [Function],
    by_pointer: HashMap<Pointer, Vec<FunctionId>>,
}

/// The functions that tail calls reach, and whether that may be functions of other modules.
type Reached = (BTreeSet<FunctionId>, bool);

impl<'a> Ways<'a> {
    fn new(functions: &'a [Function]) -> Self {
        let mut by_pointer: HashMap<Pointer, Vec<FunctionId>> = HashMap::new();
        for (id, function) in ids(functions) {
            // Other modules do with it what they like.
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

    fn behind(&self, pointer: Pointer) -> &[FunctionId] {
        self.by_pointer.get(&pointer).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whom the tail calls of these functions reach, and those of whom they reach.
    fn reached(&self, from: &[FunctionId]) -> Reached {
        let (mut found, mut away) = (BTreeSet::new(), false);
        let mut waiting = from.to_vec();
        while let Some(function) = waiting.pop() {
            for way in &self.functions[function.index()].tail_callees {
                let targets = match way {
                    TailCallee::Known(callee) => std::slice::from_ref(callee),
                    TailCallee::Pointer(pointer) => self.behind(*pointer),
                    TailCallee::Away { .. } => &[],
                };
                away |= !matches!(way, TailCallee::Known(_));
                waiting.extend(targets.iter().filter(|&&target| found.insert(target)));
            }
        }
        (found, away)
    }
}

/// Sets [`Call::tail_group`](crate::Call::tail_group) and [`Function::tail_groups`]. Returns the groups of functions
/// that may leave their activations to functions of other modules. Without an open node (`open`) only silent functions
/// are reached without a push.
pub fn find(functions: &mut [Function], open: bool) -> Vec<u32> {
    let ways = Ways::new(functions);
    // Groups are told apart by whom they reach: that is all that contexts need.
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
            let group = match call.kind {
                CallKind::Indirect if open => {
                    let pointer = Pointer { ty: call.ty, is_virtual: call.is_virtual };
                    *pointers.entry(pointer).or_insert_with(|| number(ways.behind(pointer)))
                }
                CallKind::Direct(callee) => {
                    let leaves = functions[callee.index()].leaves();
                    let unpushed = open || functions[callee.index()].silent;
                    (leaves && unpushed).then(|| number(&[callee])).flatten()
                }
                _ => None,
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
