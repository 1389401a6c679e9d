//! The safe interface to LLVM: typed handles with safe methods over inkwell, the C API for what inkwell
//! lacks, and the shim for what both lack.
//!
//! All `unsafe` code of the crate is here and in the entry points of `lib.rs`. The safe methods are sound for
//! three reasons. All handles borrow from a [`Run`], which is made of a module that LLVM keeps alive and
//! lends to this thread alone. Nothing that a handle leads to is deleted while the handle exists ([`Run`]).
//! And each handle is of the kind that its type says. inkwell's own handles stay within this folder, since
//! they can delete values. inkwell panics about types that it does not know, so values of the program are an
//! [`Operand`], of which only the kind is asked.

mod builder;
mod function;
mod instruction;
mod measure;
mod module;
mod run;
mod shim;
mod value;

use std::ffi::{CStr, c_void};

pub use builder::{Builder, byte_directive};
pub use function::{Block, Function, Reference};
pub use inkwell::llvm_sys::LLVMModule;
pub use inkwell::values::InstructionOpcode as Opcode;
pub use instruction::{Call, Instruction, TailCall};
pub use measure::{Bitcode, CodeGeneration};
pub use module::Module;
pub use run::Run;
pub use value::{Address, Alias, Callee, Constant, LinkageFacts, Operand, Signature, Type, Variable, Word};

/// Registers the pass with a `llvm::PassBuilder`.
///
/// # Safety
/// `builder` is the pass builder that LLVM handed to the plugin.
pub unsafe fn register(builder: *mut c_void) {
    // SAFETY: by the contract.
    unsafe { shim::pcce_shim_register(builder) }
}

/// The version of LLVM whose headers the plugin was built with.
pub fn version() -> &'static str {
    // SAFETY: a string literal of the shim.
    unsafe { CStr::from_ptr(shim::pcce_shim_llvm_version()) }.to_str().unwrap_or("?")
}

/// The version of LLVM that is running.
pub fn host_version() -> String {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: three words of ours. Every LLVM from 16 on has the function.
    unsafe { inkwell::llvm_sys::core::LLVMGetVersion(&mut major, &mut minor, &mut patch) };
    format!("{major}.{minor}.{patch}")
}
