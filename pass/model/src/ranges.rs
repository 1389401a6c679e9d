//! Ranges of context numbers.

use pcce_abi as abi;
use pcce_encoding::{Encoding, FunctionId};

use crate::hybrid::Used;
use crate::{CallKind, Function, Program, RuntimeCall};

/// Whether the function takes context numbers (`pcce_context()`).
#[must_use]
pub fn takes_numbers(function: &Function) -> bool {
    function.calls.iter().any(|call| matches!(call.kind, CallKind::Runtime(RuntimeCall::Context)))
}

/// Ranges of context numbers, one for each function of an executable that takes numbers, so that the number alone names
/// function and context. Small ranges come first: the fewer digits a number has, the more room is there for that of a
/// chain of frames beside it. Where a range does not fit below 2^63, the function has none, and its contexts are
/// interned.
#[must_use]
pub fn ranges(program: &Program, encoding: &Encoding, used: Option<&Used>) -> Vec<Option<u64>> {
    let mut ranges = vec![None; program.functions.len()];
    if program.graph.open_node().is_none() {
        return ranges;
    }
    let takes = |i: &usize| takes_numbers(&program.functions[*i]);
    let by_number = |i: &usize| used.is_none_or(|u| !u.hybrid.needs_stack_offset(FunctionId::new(*i as u32)));
    let num_cc = |i: usize| encoding.num_cc(FunctionId::new(i as u32));
    let mut functions: Vec<usize> = (0..ranges.len()).filter(takes).filter(by_number).collect();
    functions.sort_by_key(|&i| num_cc(i));
    // Number 0 means "no context".
    let mut next = 1_u64;
    for i in functions {
        let Some(end) = next.checked_add(num_cc(i)).filter(|&end| end <= abi::INTERNED) else { break };
        ranges[i] = Some(next);
        next = end;
    }
    ranges
}

/// What makes a number of a function's id, by the start of its range; [`abi::NO_RANGE`] without one.
#[must_use]
pub fn base(encoding: &Encoding, function: FunctionId, range: Option<u64>) -> u64 {
    range.map_or(abi::NO_RANGE, |range| range.wrapping_sub(encoding.offset(function)))
}
