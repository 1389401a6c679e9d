//! All changes of the module before the analysis. Afterwards [`crate::facts`] only reads, and
//! [`crate::contexts`] inserts code.
//!
//! The order is: calls that LLVM would insert later ([`insert_late_calls`], once, before copies of the module
//! are made); tail calls that stay, and exceptions that leave functions ([`control_flow`]); and, when a first
//! encoding shows which calls push, comparisons of pointers with probable targets ([`targets`]). Push thunks
//! are made elsewhere: they are part of the plan, and change no other fact.

mod tail_calls;
pub mod targets;

use pcce_model::NoCallback;

use crate::facts::eligible::Eligibility;
use crate::facts::{Entered, entered_unpushed};
use crate::llvm::{Function, Module, Run};

/// Inserts calls that code generation would insert, if possible: calls of functions' hooks (`mcount`,
/// `__cyg_profile_func_enter`) after inlining, and of functions that replace traps. The callees of other
/// inserted calls are known by name. Returns whether there are any.
pub fn insert_late_calls(run: &mut Run) -> bool {
    run.insert_late_calls()
}

/// Facts of the rest of the program about an instrumented function.
#[derive(Clone, Copy)]
pub struct Elsewhere<'a> {
    /// Exceptions may leave it into code that is not instrumented.
    pub escapes: bool,
    /// Its calls on cycles of tail calls through several modules ([`pcce_model::Call::sibling`]).
    pub kept_tails: &'a [u32],
}

/// Makes control leave functions only where the pass sees it. `open`: the call graph will have an open node.
pub fn control_flow<'e>(
    run: &mut Run,
    no_callback: &NoCallback,
    entered: &Entered,
    open: bool,
    elsewhere: impl Fn(usize) -> Elsewhere<'e>,
) {
    // Functions that callers may enter without a push push at their own entry, so they must pop.
    let unpushed = entered_unpushed(run.module(), no_callback, entered);
    tail_calls::unmark_inner_calls(run.module());
    tail_calls::keep_in_cycles(run.module(), &unpushed);
    tail_calls::keep(run.module(), &Eligibility::new(run.module(), open), |number| {
        elsewhere(number).kept_tails
    });
    // If a debug record describes a variable at the beginning of a landing pad with phis, code generation of
    // LLVM 19 puts the copies for the phis before the pad's label, where exceptions miss them. The pass makes
    // more such copies necessary.
    run.module().functions().into_iter().filter(|f| f.has_body()).for_each(Function::drop_debug_in_pads);
    // Code that is not instrumented may catch the exception and go on. So functions must leave the state as
    // they found it, even when they throw.
    run.catch_escapes(|module| {
        let eligibility = Eligibility::new(module, open);
        let numbered = eligibility.instrumented(module).enumerate();
        numbered.filter(|(number, _)| elsewhere(*number).escapes).map(|(_, function)| function).collect()
    });
}

/// Gives each invoke a block of its own for its normal return.
pub fn part_returns(module: Module<'_>) {
    for function in module.functions().into_iter().filter(|f| f.has_body()) {
        let blocks = function.blocks();
        for &block in &blocks {
            let invoke = block.terminator().as_call().and_then(|call| call.normal_destination());
            if let Some(destination) = invoke {
                destination.on_edge_from(block);
            }
        }
        if function.blocks().len() > blocks.len() {
            module.blocks_changed(function);
        }
    }
}
