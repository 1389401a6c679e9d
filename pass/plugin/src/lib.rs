//! The pass plugin of PCCE for LLVM: precise calling context encoding (Sumner et al., ICSE 2010).
//!
//! One run over a module: calls that LLVM would insert later are inserted, as far as they can be ([`inserted`] knows the others), [`analysis`] makes the call graph, `pcce-encoding` numbers it, [`known`] or, from counts, [`profile`] compares
//! calls through pointers that push with their probable targets, [`thunks`] takes cold pushes out of functions, [`plan`] says what happens at each call and writes the
//! dictionary, [`rewrite`] changes the code, [`emit`] puts the
//! dictionary into the object file. With the option `hybrid`, [`frames`] first lets copies of the module go through all of it, and looks at their code. The pass runs after inlining: last in the pipeline of a module, or last
//! at link time for a whole program, or where `opt -passes=pcce` puts it.
//!
//! Nothing here panics across the boundary to LLVM: a panic becomes a compiler error.

#[cfg(not(any(feature = "llvm19", feature = "llvm22")))]
compile_error!("choose the LLVM that will load the plugin by a feature: llvm19 or llvm22");
#[cfg(all(feature = "llvm19", feature = "llvm22"))]
compile_error!("the plugin is for one LLVM: add --no-default-features to --features llvm22");

#[cfg(feature = "llvm19")]
extern crate llvm_sys_19 as llvm_sys;
#[cfg(feature = "llvm22")]
extern crate llvm_sys_22 as llvm_sys;

mod analysis;
mod emit;
mod frames;
mod hybrid;
mod inserted;
mod known;
mod llvm;
mod plan;
mod profile;
mod rewrite;
mod tail;
mod thunks;
mod verify;

use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use llvm_sys::LLVMModule;
use pcce_options::PassOptions;

use crate::frames::Frames;
use crate::llvm::{Analyses, CodeGeneration, Module};

/// Named metadata of instrumented modules.
const MARKER: &str = "pcce.instrumented";

/// Where in the compilation the pass runs; the values are those of the shim.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Last in the pipeline of a module.
    Module = 0,
    /// Last in the pipeline of a whole program, at link time.
    LinkTime = 1,
    /// Named in a pipeline (`opt -passes=pcce`).
    Explicit = 2,
    /// Named `print<pcce-frames>`: prints the frame offsets of the module as it is, and leaves it alone.
    Print = 3,
}

/// The version of [`PassPluginLibraryInfo`].
const API_VERSION: u32 = if cfg!(feature = "llvm22") { 2 } else { 1 };

/// What `llvmGetPassPluginInfo` returns: LLVM's structure of the same name.
#[repr(C)]
pub struct PassPluginLibraryInfo {
    api_version: u32,
    plugin_name: *const c_char,
    plugin_version: *const c_char,
    register: extern "C" fn(*mut c_void),
    /// Called in front of code generation, if there is such a function.
    #[cfg(feature = "llvm22")]
    pre_code_gen: Option<extern "C" fn()>,
}

/// The entry point that LLVM looks up in a pass plugin.
///
/// In another LLVM than that of its headers the plugin would read and write objects that have another layout, this
/// function's own result included. So it ends the process, and says why.
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
            "error: pcce: this plugin is for LLVM {}, and LLVM {host} has loaded it; use the plugin for the compiler's or \
             linker's own version (`make build LLVM={}`; supported are 19 and 22)",
            major(own),
            major(&host),
        );
        std::process::exit(1);
    }
    PassPluginLibraryInfo {
        api_version: API_VERSION,
        plugin_name: c"pcce".as_ptr(),
        plugin_version: VERSION.as_ptr().cast(),
        register,
        #[cfg(feature = "llvm22")]
        pre_code_gen: None,
    }
}

/// The part of a version before the first dot.
fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or(version)
}

/// Runs the pass on a module. Returns whether it was changed.
///
/// # Safety
/// Called by the shim only: a live module, one of its phases, the pipeline's optimisation level, `options_len` bytes of text, and the
/// function analyses of the running pass manager.
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
    let (module, analyses, parameters) = unsafe {
        let parameters = if options_len == 0 {
            &[]
        } else {
            std::slice::from_raw_parts(options.cast::<u8>(), options_len)
        };
        (Module::new(module), Analyses::new(analyses), String::from_utf8_lossy(parameters))
    };
    let phase = match phase {
        0 => Phase::Module,
        1 => Phase::LinkTime,
        2 => Phase::Explicit,
        _ => Phase::Print,
    };
    let result = catch_unwind(AssertUnwindSafe(|| run(module, phase, opt_level, &parameters, analyses)));
    match result {
        Ok(Ok(changed)) => changed,
        Ok(Err(message)) => {
            module.emit_error(&format!("pcce: {message}"));
            false
        }
        Err(_) => {
            module.emit_error(
                "pcce: internal error of the pass (see the panic message above); please report it",
            );
            true
        }
    }
}

/// What all runs over a module and its copies are made with.
struct Job<'a> {
    identifier: String,
    options: &'a PassOptions,
    no_callback: analysis::NoCallback,
    targets: Option<analysis::Targets>,
    profile: Option<profile::Profile>,
    /// The module is the whole program after link-time resolution.
    whole_program: bool,
    /// It is the executable's: its graph has an open node.
    open: bool,
    /// How the module's code will be generated.
    code: CodeGeneration,
}

/// What instrumenting a module came to.
struct Outcome {
    /// Whether it was changed: there was a function to instrument.
    changed: bool,
    /// What the encoding relies on.
    used: Frames,
    /// What the user should know.
    warnings: Vec<String>,
}

fn run(
    module: Module,
    phase: Phase,
    opt_level: u32,
    parameters: &str,
    analyses: Analyses,
) -> Result<bool, String> {
    if phase == Phase::Print {
        return frames::print(module, analyses, CodeGeneration { level: opt_level, no_pie: false })
            .map(|()| false);
    }
    let of_environment = std::env::var_os(pcce_options::VARIABLE).unwrap_or_default();
    let options =
        PassOptions::read([parameters, &of_environment.to_string_lossy()]).map_err(|e| e.to_string())?;
    let identifier = module.identifier();
    if module.has_named_metadata(MARKER) {
        return Err(format!(
            "{identifier} is instrumented already; give the plugin to the compiler (-fpass-plugin) or to the linker \
             (--load-pass-plugin), not to both"
        ));
    }
    if phase == Phase::Module && module.has_flag("ThinLTO") {
        return Err(format!(
            "{identifier} is compiled for link-time optimisation (-flto); give the plugin to the linker instead \
             (-Wl,--load-pass-plugin=…), as pcce-clang does"
        ));
    }
    let inserted = module.insert_late_calls(analyses);
    let whole_program = phase == Phase::LinkTime || options.whole_program;
    // Users without the wrapper, which says what the link makes, compile with -fPIC what may be for a shared library. The
    // library's numbers and open calls would be told from the executable's by nothing.
    let for_library = module.has_flag("PIC Level") && !module.has_flag("PIE Level");
    let open = whole_program && options.makes_executable().unwrap_or(!for_library);
    let job = Job {
        identifier,
        no_callback: analysis::NoCallback::load(module, open, &options.common.no_callback, options.publish)?,
        targets: analysis::Targets::load(&options.common.targets, options.publish)?,
        profile: options.common.profile_use.as_deref().map(profile::Profile::load).transpose()?,
        whole_program,
        open,
        code: CodeGeneration {
            // As lld does.
            level: if phase == Phase::LinkTime { opt_level.max(2) } else { opt_level },
            no_pie: options.no_pie,
        },
        options: &options,
    };
    let mut warnings = Vec::new();
    // One command line is often for all of a program's libraries.
    for missing in job.targets.iter().filter(|_| job.open).flat_map(|targets| targets.missing_in(module)) {
        // Not an error: the function may have been inlined wherever it was called.
        warnings.push(format!(
            "target {missing}: the program neither defines nor calls a function of this name, or all its \
             calls were inlined; C++ names are written with their scopes and without parameters, as app::Log::write"
        ));
    }
    // Who counts need not be fast, and has other frames.
    let frames = if options.common.hybrid && job.open && options.common.profile_generate.is_none() {
        frames::find(&job, module, analyses, &mut warnings)?
    } else {
        Frames::default()
    };
    let outcome = instrument(&job, module, analyses, &frames)?;
    for warning in warnings.iter().chain(&outcome.warnings) {
        eprintln!("warning: pcce: {warning}");
    }
    Ok(inserted || outcome.changed)
}

/// Instruments the module, or a copy. `frames`: what is known of its code.
fn instrument(job: &Job, module: Module, analyses: Analyses, frames: &Frames) -> Result<Outcome, String> {
    let &Job { ref identifier, options, ref no_callback, whole_program, open, .. } = job;
    let mut outcome = Outcome { changed: false, used: Frames::default(), warnings: Vec::new() };
    tail::keep_in_cycles(module, no_callback);
    let mut profile = job.profile.clone();
    let request = analysis::Request {
        no_callback,
        whole_program,
        open,
        leaf_depth: options.leaf_depth(),
        targets: job.targets.as_ref(),
    };
    let mut analysis = analysis::analyse(module, analyses, &request, profile.as_ref())?;
    if analysis.functions.is_empty() {
        return Ok(outcome);
    }
    // The sign of an id tells the executable's from those of other modules.
    // A function of another module that is entered by a sub-path that is told apart by its start alone would find any sign.
    let of_ids =
        pcce_encoding::Options { id_bits: options.common.id_bits, known_starts: open && !options.basic };
    let encode = |graph: &pcce_encoding::CallGraph| {
        let mut encoding = pcce_encoding::encode(graph, &of_ids);
        if options.basic {
            encoding.drop_offsets();
        }
        encoding
    };
    let mut encoding = encode(&analysis.graph);
    // Who counts leaves the calls as they are, to find them so when the profile is used.
    let changes_calls = !options.basic && options.common.profile_generate.is_none();
    let compared = if let Some(profile) = &mut profile {
        outcome.warnings.extend(profile.report(identifier, &analysis.counts));
        let is_exact = |function| analysis::is_exact(function, whole_program);
        !options.basic && profile.compare(analyses, &analysis, &encoding, &of_ids, is_exact)
    } else {
        open && changes_calls && known::compare(module, analyses, no_callback, &analysis, &encoding)
    };
    if compared {
        analysis = analysis::analyse(module, analyses, &request, profile.as_ref())?;
        encoding = encode(&analysis.graph);
    }
    let producer = format!("pcce {}, LLVM {}", env!("CARGO_PKG_VERSION"), llvm::version());
    if changes_calls {
        thunks::outline(&mut analysis, &mut encoding);
    }
    let used = hybrid::apply(&analysis, &mut encoding, frames);
    if let Some(used) = &used {
        let name = |function: usize| analysis.functions[function].name.clone();
        let offsets = used.frames.iter().enumerate();
        outcome.used.offsets = offsets.filter_map(|(i, frame)| Some((name(i), (*frame)?))).collect();
        let callee = |to: Option<usize>| to.map(name).unwrap_or_default();
        outcome.used.jumps = used.jumps.iter().map(|&(from, to)| (name(from), callee(to))).collect();
    }
    let plan = plan::plan(&analysis, &encoding, used.as_ref(), options, identifier.clone(), producer);
    let fragment = pcce_dictionary::fragment::to_bytes(&plan.dictionary);
    let sites_name = format!("__pcce_sites.{:016x}", fnv1a(identifier.as_bytes(), &fragment));
    if let Some(file) = &options.common.profile_generate {
        profile::count(module, &analysis, file);
    }
    rewrite::rewrite(module, analyses, &analysis, &plan, &sites_name, options);
    emit::emit(module, &fragment, &sites_name);
    emit::emit_addresses(module, &analysis, &sites_name);
    let common = &options.common;
    for (symbol, path) in
        [(emit::CRASH_REPORT, &common.crash_report), (emit::VERIFY_REPORT, &common.verify_report)]
    {
        if let Some(path) = path {
            emit::emit_path(module, symbol, path);
        }
    }
    module.add_named_metadata(MARKER);
    if cfg!(debug_assertions) || options.check {
        module.verify().map_err(|e| format!("the instrumented module is broken, please report it: {e}"))?;
    }
    outcome.changed = true;
    Ok(outcome)
}

/// A name for the module's site array that other modules merged with it later do not have. FNV-1a, since the
/// name must be the same in every build.
fn fnv1a(a: &[u8], b: &[u8]) -> u64 {
    a.iter().chain(b).fold(0xcbf2_9ce4_8422_2325, |h, &x| (h ^ u64::from(x)).wrapping_mul(0x0100_0000_01b3))
}
