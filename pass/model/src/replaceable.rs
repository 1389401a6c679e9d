//! Calls by name of a library's own functions that another image may replace ([`CallKind::Replaceable`]).

use std::collections::{BTreeSet, HashMap};

use pcce_encoding::FunctionId;

use crate::program::{CallKind, Function, Reach, Unannounced};

/// Makes the calls by these names replaceable. `own` are the functions of the library that have the names unless
/// another image replaces them.
pub fn bind(functions: &mut [Function], mut own: HashMap<String, FunctionId>) {
    own.retain(|name, id| {
        let function = &functions[id.index()];
        function.name == *name && has_stub(function)
    });
    for function in functions.iter_mut().filter(|function| !function.returns_twice) {
        for call in function.calls.iter_mut().filter(|call| !call.kind.runs_task()) {
            if let CallKind::External(name) = &call.kind
                && let Some(callee) = own.get(name)
            {
                call.kind = CallKind::Replaceable(*callee);
            }
        }
    }
}

/// Returns whether a function can have a stub. The stub hands on the arguments, and its name is made of the function's.
/// A function that pushes itself, or leaves its activation, must be called with a push in any case.
fn has_stub(function: &Function) -> bool {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"_.$".contains(&c);
    function.can_be_diverted
        && !function.leaves()
        && function.unannounced != Unannounced::AnyId
        && function.name.bytes().all(is_plain)
}

/// The functions that replaceable calls name.
pub fn called(functions: &[Function]) -> BTreeSet<FunctionId> {
    let calls = functions.iter().flat_map(|function| &function.calls);
    let callee = |reach| if let Reach::Replaceable(callee) = reach { Some(callee) } else { None };
    calls.filter_map(|call| callee(call.kind.reach())).collect()
}
