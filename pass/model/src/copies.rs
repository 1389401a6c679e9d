//! Copies of a call, as the compiler makes them where it unrolls a loop or duplicates a block.
//!
//! Copies are one call of the source, so their contexts are one context for people, and should have one number. They
//! share a site, and an edge of the call graph. The source is known by its debug information. Calls of one function are
//! taken for copies if nothing that is shown tells them apart: they have the same callee and the same locations,
//! innermost to outermost, with columns. (Two calls in one macro have the location where it is used. They count as one,
//! too.) Without locations, each call is by itself.

use std::collections::HashMap;

use pcce_encoding::FunctionId;

use crate::program::{CallKind, Function, Source, SourceLocation, TypeId};

/// The properties that copies have in common, besides their locations.
type Like<'f> = (&'f CallKind, TypeId, Option<bool>, bool);

/// Numbers the calls that have copies in their function ([`Call::copy`](crate::Call::copy)).
pub fn find(functions: &mut [Function], source: &dyn Source) {
    for (id, function) in (0..).map(FunctionId::new).zip(functions) {
        let mut alike: HashMap<Like<'_>, Vec<usize>> = HashMap::new();
        for (c, call) in function.calls.iter().enumerate() {
            alike.entry((&call.kind, call.ty, call.is_virtual, call.compared)).or_default().push(c);
        }
        let mut several: Vec<Vec<usize>> = Vec::new();
        for calls in alike.into_values().filter(|calls| calls.len() > 1) {
            let mut places: HashMap<Vec<SourceLocation>, Vec<usize>> = HashMap::new();
            for call in calls {
                places.entry(source.locations(id, call)).or_default().push(call);
            }
            for (_, mut calls) in places.into_iter().filter(|(locations, _)| !locations.is_empty()) {
                let first = calls[0];
                calls.retain(|&call| source.pass_alike(id, first, call));
                several.extend((calls.len() > 1).then_some(calls));
            }
        }
        several.sort_unstable();
        for (copy, calls) in (0..).zip(several) {
            calls.into_iter().for_each(|call| function.calls[call].copy = Some(copy));
        }
    }
}

impl Function {
    /// The copies of this call of the function, itself included.
    pub fn copies(&self, call: usize) -> impl Iterator<Item = usize> {
        let of = &self.calls[call];
        let is_copy = move |&other: &usize| {
            let other = &self.calls[other];
            other.copy == of.copy && other.kind == of.kind && other.compared == of.compared
        };
        // Most calls have no copies.
        let range = if of.copy.is_some() { 0..self.calls.len() } else { call..call + 1 };
        range.filter(is_copy)
    }

    /// The first copy of the call, which may be the call itself.
    pub fn first_copy(&self, call: usize) -> usize {
        self.copies(call).next().unwrap_or(call)
    }
}
