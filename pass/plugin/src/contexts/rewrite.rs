//! Carries out the plan: the module's tables and symbols, and the code of each function
//! ([`super::sequences`]).

use pcce_abi::{self as abi, layout, skeleton};
use pcce_encoding::FunctionId;
use pcce_options::PassOptions;

use super::sequences::Rewriter;
use super::values::Values;
use super::{emit, verify};
use crate::handles::{Code, SecondBodies};
use crate::llvm::{Address, Module};
use pcce_model::plan::{Plan, PlannedFunction};
use pcce_model::slice::Slice;
use pcce_model::thunks::Thunk;
use pcce_model::{Function, Program};

/// The module's own tables, and the symbols of the runtime that it uses.
pub struct Symbols<'m> {
    /// Address of `tls.id`; the block's address too.
    pub id: Address<'m>,
    /// Address of `tls.top`.
    pub top: Address<'m>,
    /// Address of `tls.call`, where calls are published.
    pub call: Option<Address<'m>>,
    /// The site array.
    pub sites: Address<'m>,
    /// The values that calls add, if they are bound later.
    pub values: Option<Values>,
    /// The symbols of verify mode.
    pub verify: Option<verify::Symbols<'m>>,
}

/// Rewrites the module. `sites_name` becomes the name of its site array.
pub fn rewrite<'m>(
    module: Module<'m>,
    program: &Program,
    plan: &Plan,
    bodies: Bodies<'_, 'm>,
    sites_name: &str,
    options: &PassOptions,
) {
    let symbols = symbols(module, program, plan, sites_name, options);
    if plan.encoding.hybrid.is_some() {
        emit::emit_hybrid(module);
    }
    replace(module, options);
    rewrite_functions(module, program, &plan.functions, bodies, &symbols);
    module.find_thread(symbols.id);
}

/// Rewrites a module by decisions of the link step, which also makes its tables. `id` is the module's,
/// `sites` the number of its sites. `slice` says how the module's code adds values, and finds the thread's block.
pub fn rewrite_by_slice<'m>(
    module: Module<'m>,
    program: &Program,
    planned: &[PlannedFunction],
    bodies: Bodies<'_, 'm>,
    (id, sites): (u64, usize),
    slice: &Slice,
    options: &PassOptions,
) {
    let tls = module.external_thread_local(abi::TLS_SYMBOL, layout::TLS_SIZE, layout::TLS_ALIGN);
    if let Some(offset) = slice.thread_offset {
        module.place_thread_local(tls, offset);
    }
    let sites = module.hidden_variable(&skeleton::sites_symbol(id), module.bytes(sites.max(1) as u64));
    let symbols = Symbols {
        id: module.const_offset(tls, layout::TLS_ID),
        top: module.const_offset(tls, layout::TLS_TOP),
        call: options.publish.then(|| module.const_offset(tls, layout::TLS_CALL)),
        sites,
        values: slice.widths.clone().map(Values::new),
        verify: options.common.verify.then(|| {
            let len = program.functions.len() * size_of::<abi::FunctionRecord>();
            let records = module.hidden_variable(&skeleton::records_symbol(id), module.bytes(len as u64));
            verify::Symbols::new(module, records, tls)
        }),
    };
    refer_to_runtime(module);
    replace(module, options);
    rewrite_functions(module, program, planned, bodies, &symbols);
    module.find_thread(symbols.id);
    symbols.values.iter().for_each(|values| values.emit(module));
}

/// Replaces functions by those of the runtime.
fn replace(module: Module<'_>, options: &PassOptions) {
    let common = &options.common;
    let ends = abi::REPLACED_ENDS.iter().filter(|_| common.verify || common.profile_generate.is_some());
    for (name, replacement) in abi::REPLACED.iter().chain(ends) {
        module.replace_declaration(name, replacement);
    }
}

fn rewrite_functions<'m>(
    module: Module<'m>,
    program: &Program,
    planned: &[PlannedFunction],
    (code, second): Bodies<'_, 'm>,
    symbols: &Symbols<'m>,
) {
    let builder = module.builder();
    for ((id, function), planned) in program.iter().zip(planned) {
        let rewrite = |function: &Function, code: &Code<'m>, stub: Option<u32>| {
            if !function.silent {
                strip_memory_attributes(code, id, planned);
            }
            Rewriter::new(&builder, symbols, function, planned, code, id).run(stub);
        };
        rewrite(function, code, planned.stub);
        if let Some(second) = second.filter(|second| second.has(id)) {
            let name = second.code.function(id).value.name();
            // Other images enter the first body.
            rewrite(&Function { name, ..function.clone() }, &second.code, None);
        }
    }
}

/// Refers to the runtime, so that objects of another ABI version do not link.
pub fn refer_to_runtime(module: Module<'_>) {
    let reference = module.add_internal("__pcce_abi", module.ptr(), true);
    reference.initialize(module.external_variable(abi::VERSION_SYMBOL, module.bytes(1)).into());
    module.retain(reference);
}

/// The first bodies of functions, and the second ones.
pub type Bodies<'a, 'm> = (&'a Code<'m>, Option<&'a SecondBodies<'m>>);

/// Makes the push thunks, in the order of their numbers.
pub fn make_thunks<'m>(code: &mut Code<'m>, second: Option<&mut SecondBodies<'m>>, thunks: &[Thunk]) {
    for thunk in thunks {
        code.make_push_thunk(thunk.caller, &thunk.calls, &thunk.name);
    }
    if let Some(second) = second {
        second.make_push_thunks(code, thunks.iter().map(|thunk| (thunk.caller, &*thunk.calls, &*thunk.name)));
    }
}

fn symbols<'m>(
    module: Module<'m>,
    program: &Program,
    plan: &Plan,
    sites_name: &str,
    options: &PassOptions,
) -> Symbols<'m> {
    // A string constant ends with a zero.
    let size = plan.symbols.sites.len().max(1) + usize::from(plan.site_bytes.is_some());
    let sites = module.add_internal(sites_name, module.bytes(size as u64), false);
    module.keep(sites);
    if let Some(bytes) = plan.site_bytes.as_ref().filter(|bytes| !bytes.is_empty()) {
        sites.initialize(module.const_string(bytes));
    }
    let sites = sites.address();
    let tls = module.external_thread_local(abi::TLS_SYMBOL, layout::TLS_SIZE, layout::TLS_ALIGN);
    let symbols = Symbols {
        id: module.const_offset(tls, layout::TLS_ID),
        top: module.const_offset(tls, layout::TLS_TOP),
        call: options.publish.then(|| module.const_offset(tls, layout::TLS_CALL)),
        sites,
        values: None,
        verify: options.common.verify.then(|| verify::symbols(module, program, plan, sites, tls)),
    };
    refer_to_runtime(module);
    symbols
}

/// Promises of functions and calls about memory.
pub const PROMISES: [&str; 2] = ["memory", "speculatable"];

/// Removes promises of the function and its calls about memory. They no longer hold: the calls update the
/// thread's block, and their callees may read it.
fn strip_memory_attributes(code: &Code<'_>, function: FunctionId, planned: &PlannedFunction) {
    for attribute in PROMISES {
        code.function(function).value.remove_attribute(attribute);
    }
    for call in &planned.calls {
        let instruction = code.call(function, call.call);
        let changes = call.replaceable || call.action.changes_block();
        let callee = instruction.called().as_function().filter(|_| changes);
        for attribute in PROMISES {
            instruction.remove_attribute(attribute);
            if let Some(callee) = callee {
                callee.remove_attribute(attribute);
            }
        }
    }
}
