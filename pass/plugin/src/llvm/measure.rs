//! Copies of a module, whose code is generated to be measured.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::mem::ManuallyDrop;

use inkwell::llvm_sys::core::LLVMDisposeMemoryBuffer;
use inkwell::llvm_sys::prelude::*;
use pcce_model::hybrid::{FrameOffset, Measured};

use super::run::Run;
use super::shim::*;
use super::value::text;
use crate::error::Error;

/// A module as bitcode, of which copies are made.
pub struct Bitcode {
    buffer: LLVMMemoryBufferRef,
    identifier: String,
}

impl Drop for Bitcode {
    fn drop(&mut self) {
        // SAFETY: ours, and not used again.
        unsafe { LLVMDisposeMemoryBuffer(self.buffer) }
    }
}

impl Bitcode {
    /// # Safety
    /// The buffer is live, and the result's to dispose of.
    pub(super) unsafe fn new(buffer: LLVMMemoryBufferRef, identifier: String) -> Self {
        Self { buffer, identifier }
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: a live buffer, which stays as it is.
        unsafe {
            let start = inkwell::llvm_sys::core::LLVMGetBufferStart(self.buffer);
            std::slice::from_raw_parts(start.cast(), inkwell::llvm_sys::core::LLVMGetBufferSize(self.buffer))
        }
    }

    /// A copy of the module in a context of its own. LLVM's messages about it are not printed, and its
    /// context ends with it.
    ///
    /// # Errors
    /// LLVM cannot read its own bitcode.
    pub fn copy(&self, of: &Run) -> Result<ModuleCopy, Error> {
        // SAFETY: live bitcode; the name is copied.
        let raw = unsafe { pcce_shim_read(self.buffer, self.identifier.as_ptr(), self.identifier.len()) };
        if raw.is_null() {
            return Err(Error::NoCode { said: "LLVM cannot read the module that it wrote".to_owned() });
        }
        // SAFETY: a live module that is ours alone, and the analyses of the running pass.
        Ok(ModuleCopy { run: ManuallyDrop::new(unsafe { Run::new(raw, of.analyses) }) })
    }
}

/// Parameters of code generation.
#[derive(Clone, Copy)]
pub struct CodeGeneration {
    /// The code generator's level, 0 to 3.
    pub level: u32,
    /// The code is for an executable that is not position-independent; otherwise the module's flags decide.
    pub no_pie: bool,
}

/// A copy of a module, to be changed and measured.
pub struct ModuleCopy {
    run: ManuallyDrop<Run>,
}

impl Drop for ModuleCopy {
    fn drop(&mut self) {
        self.run.settle();
        // SAFETY: ours, and not used again.
        unsafe { pcce_shim_dispose_copy(self.run.analyses, self.run.raw()) }
    }
}

impl ModuleCopy {
    /// The run over it.
    pub fn run(&mut self) -> &mut Run {
        &mut self.run
    }

    /// Generates the copy's code, and measures the stack at its calls.
    ///
    /// # Errors
    /// LLVM cannot generate the code.
    pub fn measure(mut self, code: CodeGeneration) -> Result<Measured, Error> {
        #[derive(Default)]
        struct Found {
            measured: Measured,
            calls: BTreeSet<(String, String)>,
            error: String,
        }
        extern "C" fn on_call(
            found: *mut c_void,
            name: *const u8,
            len: usize,
            callee: *const u8,
            callee_len: usize,
            jump: bool,
            offset: i64,
        ) {
            // SAFETY: the shim hands on what it got from the call below, with two texts.
            let (found, name, callee) = unsafe {
                let callee = if callee_len > 0 { text(callee.cast(), callee_len) } else { String::new() };
                (&mut *found.cast::<Found>(), text(name.cast(), len), callee)
            };
            if !jump {
                let new = u32::try_from(offset).map_or(FrameOffset::Unknown, FrameOffset::Fixed);
                let all = found.measured.offsets.entry(name.clone()).or_insert(new);
                if *all != new {
                    let unknown = [*all, new].contains(&FrameOffset::Unknown);
                    *all = if unknown { FrameOffset::Unknown } else { FrameOffset::ByCall };
                }
            }
            let set = if jump { &mut found.measured.jumps } else { &mut found.calls };
            set.insert((name, callee));
        }
        extern "C" fn on_error(found: *mut c_void, message: *const u8, len: usize) {
            // SAFETY: as above.
            unsafe { (*found.cast::<Found>()).error = text(message.cast(), len) };
        }
        self.run.settle();
        let mut found = Found::default();
        let context = (&raw mut found).cast();
        // SAFETY: a live module of ours, which is not used after that; the callbacks are called with `found`
        // during the call.
        let done = unsafe {
            let CodeGeneration { level, no_pie } = code;
            let (module, level) = (self.run.raw(), level.min(3));
            pcce_shim_frame_offsets(self.run.analyses, module, level, no_pie, on_call, on_error, context)
        };
        let Found { mut measured, calls, error } = found;
        measured.jumps.retain(|jump| !calls.contains(jump));
        if done { Ok(measured) } else { Err(Error::NoCode { said: error }) }
    }
}
