//! Every change of the module in front of the analysis: after that, [`crate::facts`] only reads, and what follows from
//! the facts is made by [`crate::contexts`].
//!
//! The order is: calls that LLVM would insert later ([`insert_late_calls`], once, before copies of the module are
//! made), tail calls that stay, exceptions that leave ([`control_flow`]), and, once a first encoding tells which calls
//! push, comparisons of pointers with probable targets ([`targets`]). Push thunks are no preparation: which calls get
//! one is planned, and they change no other fact.

mod tail_calls;
pub mod targets;

use pcce_model::NoCallback;

use crate::facts::eligible::Eligibility;
use crate::facts::{Entered, entered_unpushed};
use crate::llvm::{Function, Module, Run};

/// Inserts calls that code generation would insert, as far as they can be: of functions' hooks (`mcount`,
/// `__cyg_profile_func_enter`) after inlining, and of functions that take the place of traps. Of the others the facts
/// know names. Returns whether there are any.
pub fn insert_late_calls(run: &mut Run) -> bool {
    run.insert_late_calls()
}

/// What the rest of the program says of the instrumented function of this number.
#[derive(Clone, Copy)]
pub struct Elsewhere<'a> {
    /// Exceptions may leave it to code that is not instrumented.
    pub escapes: bool,
    /// Its calls on cycles of tail calls through several modules ([`pcce_model::Call::sibling`]).
    pub kept_tails: &'a [u32],
}

/// Lets control leave functions only where the pass can see it. `open`: the call graph will have an open node.
pub fn control_flow<'e>(
    run: &mut Run,
    no_callback: &NoCallback,
    entered: &Entered,
    (open, elsewhere): (bool, impl Fn(usize) -> Elsewhere<'e>),
) {
    // Those that callers may enter without having pushed do so at their entry: they have to pop.
    let unpushed = entered_unpushed(run.module(), no_callback, entered);
    tail_calls::unmark_inner_calls(run.module());
    tail_calls::keep_in_cycles(run.module(), &unpushed);
    tail_calls::keep(run.module(), &Eligibility::new(run.module(), open), |number| {
        elsewhere(number).kept_tails
    });
    // Where a variable is told at the beginning of a landing pad with phis, code generation of LLVM 19 puts the copies
    // for the phis in front of the pad's label, and exceptions miss them. The pass leaves it more copies to make.
    run.module().functions().into_iter().filter(|f| f.has_body()).for_each(Function::untell_in_pads);
    // Who catches may be code that is not instrumented, and goes on: what it called must leave the state as it found
    // it, also where it throws.
    run.catch_escapes(|module| {
        let eligibility = Eligibility::new(module, open);
        let numbered = eligibility.instrumented(module).enumerate();
        numbered.filter(|(number, _)| elsewhere(*number).escapes).map(|(_, function)| function).collect()
    });
}

/// Gives each invoke a place of its own where control goes on when it returns.
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
