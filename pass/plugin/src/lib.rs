//! The pass plugin of PCCE for LLVM: precise calling context encoding (Sumner et al., ICSE 2010).
//!
//! A run over a module has four stages ([`pass`]). [`prepare`] changes the module so that all calls are
//! visible. [`facts`] reads it and makes the call graph, which `pcce-encoding` numbers. [`contexts`] plans
//! the actions at each call, changes the code, and puts the dictionary into the object file. With the option
//! `hybrid`, copies of the module first go through all stages, and their code is measured
//! ([`contexts::frame_offsets`]). The pass runs after inlining: last in the pipeline of a module, last at
//! link time for a whole program, or where `opt -passes=pcce` puts it.
//!
//! Panics do not cross the boundary to LLVM: they become errors of the compiler.

mod capture;
mod contexts;
mod error;
mod facts;
mod generate;
mod handles;
mod llvm;
mod machine;
mod pass;
mod places;
mod prepare;
mod tracing;

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::llvm::{LLVMModule, Run};
use crate::pass::Phase;

/// The version of [`PassPluginLibraryInfo`]. The headers that the shim is compiled against have the same.
const API_VERSION: u32 = if cfg!(plugin_api_2) { 2 } else { 1 };

/// The result of `llvmGetPassPluginInfo`: LLVM's structure of the same name.
#[repr(C)]
pub struct PassPluginLibraryInfo {
    api_version: u32,
    plugin_name: *const c_char,
    plugin_version: *const c_char,
    register: extern "C" fn(*mut c_void),
    /// Called before code generation, if it is set.
    #[cfg(plugin_api_2)]
    pre_code_gen: Option<extern "C" fn()>,
}

/// The entry point that LLVM looks up in a pass plugin.
///
/// In an LLVM of another version than its headers, the plugin would use objects with the wrong layout, this
/// function's result included. So it ends the process with an error message.
#[unsafe(no_mangle)]
pub extern "C" fn llvmGetPassPluginInfo() -> PassPluginLibraryInfo {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    extern "C" fn register(builder: *mut c_void) {
        // SAFETY: LLVM calls this with the pass builder.
        unsafe { llvm::register(builder) }
    }
    let (own, host) = (llvm::version(), llvm::host_version());
    if major(own) != major(&host) {
        eprintln!(
            "error: pcce: this plugin is for LLVM {}, and LLVM {host} has loaded it; use the plugin for the compiler's \
             or linker's own version (`make build LLVM={}`; supported are {})",
            major(own),
            major(&host),
            env!("PCCE_LLVM_VERSIONS"),
        );
        std::process::exit(1);
    }
    PassPluginLibraryInfo {
        api_version: API_VERSION,
        plugin_name: c"pcce".as_ptr(),
        plugin_version: VERSION.as_ptr().cast(),
        register,
        #[cfg(plugin_api_2)]
        pre_code_gen: None,
    }
}

/// The part of a version before the first dot.
fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or(version)
}

/// Returns whether this compiler only generates code, by the orders of the link step.
#[unsafe(no_mangle)]
extern "C" fn pcce_rs_generates() -> bool {
    pass::generates()
}

/// Runs the pass on a module. Returns whether it was changed.
///
/// # Safety
/// Called by the shim only, with a live module, a phase, the pipeline's optimisation level, `options_len`
/// bytes of text, and the function analyses of the running pass manager.
#[unsafe(no_mangle)]
unsafe extern "C" fn pcce_rs_run(
    module: *mut LLVMModule,
    phase: u32,
    opt_level: u32,
    options: *const c_char,
    options_len: usize,
    analyses: *mut c_void,
) -> bool {
    // SAFETY: by the contract.
    let (mut run, parameters) = unsafe {
        let parameters = if options_len == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(options.cast::<u8>(), options_len)
        };
        (Run::new(module, analyses), String::from_utf8_lossy(parameters))
    };
    let phase = match phase {
        0 => Phase::Module,
        1 => Phase::LinkTime,
        2 => Phase::Explicit,
        4 => Phase::End,
        5 => Phase::Slice,
        _ => Phase::Print,
    };
    let result = catch_unwind(AssertUnwindSafe(|| pass::run(&mut run, phase, opt_level, &parameters)));
    match result {
        Ok(Ok(changed)) => changed,
        Ok(Err(error)) => {
            run.module().emit_error(&format!("pcce: {error}"));
            false
        }
        Err(_) => {
            run.module().emit_error(
                "pcce: internal error of the pass (see the panic message above); please report it",
            );
            true
        }
    }
}
