//! Calls that may become jumps.

use std::collections::HashSet;

use crate::{Call, CallKind, Function, TypeId};

/// Where calls lead that code generation may make jumps of.
#[derive(Default)]
pub struct Jumps {
    callees: HashSet<usize>,
    types: HashSet<TypeId>,
}

impl Jumps {
    /// Adds a call behind which nothing is done.
    pub fn add(&mut self, call: &Call) {
        match call.kind {
            _ if !call.may_be_jump => {}
            CallKind::Direct(callee) => _ = self.callees.insert(callee.index()),
            CallKind::Indirect => _ = self.types.insert(call.ty),
            _ => {}
        }
    }

    /// Whether one of them may lead to the function of this number.
    pub fn may_lead_to(&self, number: usize, function: &Function) -> bool {
        let by_pointer = function.external || function.address_taken || function.otherwise_used;
        self.callees.contains(&number)
            || by_pointer && self.types.contains(&function.ty)
            || !function.tail_groups.is_empty()
    }
}
