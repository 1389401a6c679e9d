//! Numbers of call sites instead of codes, for comparison: *FI*, *BRI* and *Casper* of casper.txt, §6.
//! Functions that are called back are found as in §5.1: a word is set while a call with an unknown callee is
//! active.

use std::collections::HashSet;

use pcce_abi::trace::{self, functions};
use pcce_dictionary::trace::Kind;
use pcce_model::Program;
use pcce_options::TraceBaseline;
use pcce_tracing::{Baseline, Callee, numbered, place};

use super::gather::Traced;
use crate::handles::Code;
use crate::llvm::{Address, Function, Module};
use crate::places;

/// A placeholder for the code that writes a number.
const NUMBER: &str = "__pcce_trace_number";

/// Functions that may be called back, with their numbers.
pub struct Numbered<'m> {
    entered: Vec<(Function<'m>, u32)>,
}

/// Adds the part of the code that leaves blocks as they are. A site's number is that of its node among the
/// nodes of all functions, from 1. The numbers of functions follow.
pub fn insert<'m>(
    module: Module<'m>,
    program: &Program,
    code: &Code<'m>,
    functions: &[Traced<'m>],
    baseline: TraceBaseline,
) -> Numbered<'m> {
    let baseline = match baseline {
        TraceBaseline::Fi => Baseline::All,
        TraceBaseline::Bri => Baseline::Branches,
        TraceBaseline::Casper => Baseline::Casper,
    };
    let callee = |kind: Kind| match kind {
        Kind::Landing => Callee::NoSite,
        Kind::Return | Kind::Closed(_) | Kind::Resume | Kind::Block => Callee::Nobody,
        Kind::Call(callee) | Kind::Leave(callee) => Callee::Known(callee),
        Kind::Other(_) | Kind::Open(_) | Kind::ReturnsTwice(_) | Kind::LeaveOpen(_) => Callee::Unknown,
    };
    let sites: Vec<_> = functions
        .iter()
        .map(|traced| (&traced.flow, traced.nodes.iter().map(|node| callee(node.kind)).collect()))
        .collect();
    let builder = module.builder();
    let calling_back = word(module, CALLING_BACK);
    let mut next = 1;
    for (traced, writes) in functions.iter().zip(numbered(baseline, &sites)) {
        let same = place(&traced.flow).same;
        for ((node, writes), same) in traced.nodes.iter().zip(writes).zip(same) {
            if writes {
                builder.call_in_front_of(node.at, NUMBER, &[module.const_i32(next + same)], false);
            }
            let open = node.at.as_call().filter(|_| matches!(node.kind, Kind::Open(_)));
            if let Some(call) = open.filter(|_| baseline != Baseline::All) {
                builder.before(node.at, node.at).store(module.const_i64(1), calling_back);
                if let Some(behind) = places::behind(call) {
                    builder.before(behind, node.at).store(module.const_i64(0), calling_back);
                }
            }
        }
        next += traced.nodes.len() as u32;
    }
    let called_back =
        program.iter().filter(|(_, f)| f.external || f.otherwise_used || f.address_taken).map(|(id, _)| id);
    let entered = called_back.map(|id| (code.function(id).value, next + id.index() as u32));
    let entered = entered.filter(|_| baseline != Baseline::All).collect();
    Numbered { entered }
}

/// The offset of the word that is set while a call with an unknown callee is active. (With codes, it counts
/// the events of verify mode.)
const CALLING_BACK: u64 = std::mem::offset_of!(trace::Block, events) as u64;

fn word(module: Module<'_>, offset: u64) -> Address<'_> {
    let block = module.external_thread_local(trace::TLS_SYMBOL, trace::SIZE, trace::ALIGN);
    module.const_offset(block, offset)
}

/// Adds the part of the code that splits blocks.
pub fn finish<'m>(module: Module<'m>, numbered: &Numbered<'m>) {
    let alive: HashSet<Function<'m>> = module.functions().into_iter().collect();
    for &(function, number) in numbered.entered.iter().filter(|(function, _)| alive.contains(function)) {
        function.check(word(module, CALLING_BACK), NUMBER, module.const_i32(number));
    }
    let [next, end] = [std::mem::offset_of!(trace::Block, next), std::mem::offset_of!(trace::Block, end)]
        .map(|offset| word(module, offset as u64));
    module.write_numbers(NUMBER, next, end, functions::FLUSH);
}
