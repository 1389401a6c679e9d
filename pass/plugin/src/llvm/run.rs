//! A run of the pass over a module: the objects that LLVM lends, and the deletion of what was replaced.

use std::cell::RefCell;
use std::ffi::c_void;

use inkwell::llvm_sys::core::LLVMDeleteInstruction;
use inkwell::llvm_sys::prelude::*;

use super::module::Module;
use super::shim::*;
use super::{Function, Instruction};
use crate::error::Error;

/// A module that LLVM lends to a run of the pass, with its analyses.
///
/// All handles into the module borrow from here. While there are any, nothing that they could lead to is
/// deleted: instructions that were replaced are taken out of their blocks, and deleted when the run has ended
/// or is borrowed exclusively. Methods that let LLVM itself delete instructions borrow it exclusively.
pub struct Run {
    module: LLVMModuleRef,
    pub(super) analyses: *mut c_void,
    /// Instructions that were replaced.
    pub(super) unlinked: RefCell<Vec<LLVMValueRef>>,
    /// Blocks that lost a predecessor.
    pub(super) left: RefCell<Vec<LLVMBasicBlockRef>>,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.settle();
    }
}

impl Run {
    /// # Safety
    /// `module` is a live module, which this thread alone may change until the result is dropped, and
    /// `analyses` the `FunctionAnalysisManager` of the running pass.
    pub unsafe fn new(module: LLVMModuleRef, analyses: *mut c_void) -> Self {
        Self { module, analyses, unlinked: RefCell::default(), left: RefCell::default() }
    }

    pub fn module(&self) -> Module<'_> {
        Module(self)
    }

    pub(super) fn raw(&self) -> LLVMModuleRef {
        self.module
    }

    /// Deletes what was replaced.
    pub fn settle(&mut self) {
        for block in self.left.get_mut().drain(..) {
            // SAFETY: a live block: no function of the fence deletes one. No handle is left to what is
            // deleted.
            unsafe { pcce_shim_fold_phis(block) }
        }
        for instruction in self.unlinked.get_mut().drain(..) {
            // SAFETY: an instruction without block and uses, which is here once, and to which no handle is
            // left.
            unsafe { LLVMDeleteInstruction(instruction) }
        }
    }

    /// Inserts calls that code generation would insert: calls of functions' hooks (`mcount`,
    /// `__cyg_profile_func_enter`) after inlining, and of functions that replace traps. Returns whether there
    /// are any.
    pub fn insert_late_calls(&mut self) -> bool {
        self.settle();
        // SAFETY: live module and analyses; no handle is left to what is deleted.
        unsafe { pcce_shim_insert_late_calls(self.analyses, self.raw()) }
    }

    /// Gives each of these functions that code of other modules can call a landing pad for exceptions that
    /// leave it: all its calls that may throw become invokes.
    pub fn catch_escapes(&mut self, choose: impl for<'m> FnOnce(Module<'m>) -> Vec<Function<'m>>) {
        let functions: Vec<LLVMValueRef> = choose(self.module()).iter().map(|f| f.raw()).collect();
        self.settle();
        let added = !functions.is_empty();
        for function in functions {
            // SAFETY: live functions with bodies, the running pass's analyses. No handle is left to calls,
            // which are deleted, and functions are not.
            unsafe { pcce_shim_catch_escapes(self.analyses, function) }
        }
        if added {
            // SAFETY: live module.
            unsafe { pcce_shim_distrust_replaceable(self.raw()) }
        }
    }

    /// Checks the module with LLVM's verifier.
    ///
    /// # Errors
    /// The verifier's message.
    pub fn verify(&mut self) -> Result<(), Error> {
        self.settle();
        self.module().llvm().verify().map_err(|said| Error::Broken { said: said.to_string() })
    }

    /// Takes an unused instruction out of its block.
    pub(super) fn unlink(&self, instruction: Instruction<'_>) {
        // SAFETY: a live instruction in a block, which becomes one without; it is deleted when no handle to
        // it is left.
        unsafe { pcce_shim_unlink(instruction.raw()) }
        self.unlinked.borrow_mut().push(instruction.value());
    }
}
