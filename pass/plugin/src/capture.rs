//! Objects whose code is generated at the link. At the end of a module's pipeline, its bitcode and its facts
//! go into sections of the object, and a skeleton replaces its code ([`pcce_abi::skeleton`]).
//!
//! The module is the one that code generation gets, after all passes on IR. Its facts are read as they will
//! be when the pass rewrites it ([`crate::generate`]), except for landing pads, which depend on the whole
//! program.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use pcce_abi::skeleton;
use pcce_model::slice::{Facts, Sites, called};
use pcce_model::{TypeId, plan};

use crate::contexts::{emit, rewrite};
use crate::error::Error;
use crate::facts;
use crate::facts::eligible::Eligibility;
use crate::llvm::{Bitcode, Function, Module, Reference, Run, byte_directive};
use crate::machine::{Machine, Refer};
use crate::pass::{Job, Read, fnv1a, producer};
use crate::prepare;

/// The name of functions of a skeleton that have code because it contains assembly.
const ASSEMBLY: &str = "__pcce_assembly";

/// A label at the beginning of each body of a skeleton.
const LABEL: &str = "77";

/// The parts of a module that are kept to generate its code.
pub struct Kept {
    /// The command that compiled it, a JSON document.
    command: String,
    bitcode: Bitcode,
    /// A number that no other module has.
    pub id: u64,
}

/// Keeps a module as it is after all passes on IR.
pub fn kept(module: Module<'_>) -> Kept {
    module.name_globals();
    let command = std::env::var(pcce_options::COMMAND_VARIABLE).unwrap_or_default();
    let bitcode = module.bitcode();
    // Equal modules of a program have different ids, because their objects have different names. The id is in
    // the program, so it must not depend on the folder of the build.
    let document: serde_json::Value = serde_json::from_str(&command).unwrap_or_default();
    let text = |name: &str| Path::new(document[name].as_str().unwrap_or_default());
    let output = text("output").strip_prefix(text("folder")).unwrap_or(text("output"));
    let mut name = output.as_os_str().as_encoded_bytes().to_vec();
    if std::env::var_os(pcce_options::REPEATED_VARIABLE).is_some() {
        // Each compilation is a process, so its number and the time tell repeated ones apart.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        name.extend(time.to_le_bytes());
        name.extend(std::process::id().to_le_bytes());
    }
    let id = fnv1a(&name, bitcode.bytes());
    Kept { command, bitcode, id }
}

/// Captures the module.
///
/// # Errors
/// The module cannot be instrumented.
pub fn capture(job: &Job<'_>, run: &mut Run) -> Result<(), Error> {
    let Kept { command, bitcode, id } = kept(run.module());
    let names = run.module().symbol_names();
    prepare::insert_late_calls(run);
    job.prepare(run, |_| prepare::Elsewhere { escapes: false, kept_tails: &[] });
    let module = run.module();
    let facts = read(job, module)?;
    let bodies = bodies(job, module, facts.as_ref().map(|(facts, _)| facts), id);
    // Only the assembly of skeletons calls local functions. Code generation in the order of calls
    // (-enable-ipra) would leave out functions without callers.
    let mut local: Vec<_> = bodies.iter().map(|body| body.function).filter(|f| f.linkage().local).collect();
    local.extend(bodies.iter().filter_map(|body| body.assembly));
    module.keep_functions(&local);
    for Body { function, text, .. } in bodies {
        function.replace_body(&text);
    }
    module.drop_debug();
    module.embed(skeleton::BITCODE_SECTION, bitcode.bytes());
    module.embed(skeleton::COMMAND_SECTION, command.as_bytes());
    let names: String = names.iter().map(|name| format!("{name}\0")).collect();
    module.embed(skeleton::NAMES_SECTION, names.as_bytes());
    if let Some((facts, symbols)) = facts {
        // With this reference, the linker extracts the runtime at the same position as for the code to come.
        rewrite::refer_to_runtime(module);
        // The runtime refers to these symbols, and shared libraries define them, too: GNU ld refuses a
        // library's definition for a hidden symbol.
        job.emit_paths(module);
        module.embed(skeleton::FACTS_SECTION, &pcce_dictionary::unlinked::to_bytes(&symbols, &facts));
    }
    emit_id(module, skeleton::MODULE_SECTION, skeleton::MODULE_MAGIC, id);
    Ok(())
}

/// Records in the object the module that it belongs to.
pub fn emit_id(module: Module<'_>, section: &str, magic: [u8; 8], id: u64) {
    let row = [magic, id.to_le_bytes()].concat();
    module.append_asm(&format!(
        ".pushsection {section},\"\",@progbits\n{}\n.popsection\n",
        byte_directive(&row)
    ));
}

/// Reads the facts of the prepared module; none if it has no functions.
fn read(job: &Job<'_>, module: Module<'_>) -> Result<Option<(Facts, pcce_dictionary::Module)>, Error> {
    let Some(Read { program, types, named, code, encoding }) = job.read(module, &mut Vec::new())? else {
        return Ok(None);
    };
    let basis = plan::Basis {
        program: &program,
        encoding: &encoding,
        used: None,
        source: &code,
        options: job.options,
    };
    let mut plan = plan::plan(&basis, job.identifier.clone(), producer());
    plan.symbols.skipped = Eligibility::new(module, job.in_executable()).counts(module);
    let mut sites: Vec<Vec<Option<Sites>>> =
        program.functions.iter().map(|function| vec![None; function.calls.len()]).collect();
    for (row, planned) in sites.iter_mut().zip(&plan.functions) {
        for call in &planned.calls {
            row[call.call] = Some(Sites { call: call.site, creation: call.creation_site });
        }
    }
    let fits_thunk = program.iter().map(|(id, function)| {
        (0..function.calls.len()).map(|call| code.call(id, call).can_go_through_thunk()).collect()
    });
    let looking = (0..).zip(code.functions()).filter(|(_, function)| function.value.looks_at_caller());
    let mut types = types;
    let mut declared = Vec::new();
    for function in module.functions().into_iter().filter(|f| !f.has_body() && !f.is_intrinsic()) {
        if function.has_address_taken() {
            let ty = function.signature().text();
            let number = types.iter().position(|known| *known == ty).unwrap_or_else(|| {
                types.push(ty);
                types.len() - 1
            });
            declared.push((function.name(), TypeId(number as u32)));
        }
    }
    // Uses by name are read in the linked skeleton.
    let reached = named.iter().filter(|named| named.is_reached());
    let mut facts = Facts {
        types,
        sites,
        fits_thunk: fits_thunk.collect(),
        recorded: job.recorded(module, &program, &code),
        look_at_caller: looking.map(|(number, _)| number).collect(),
        declared,
        entry_sites: plan.functions.iter().map(|planned| planned.entry_site).collect(),
        reached: reached.filter_map(|named| named.value.assembly_name()).collect(),
        makes_streams: job.entered.makes_streams(),
        sets_handlers: job.entered.sets_handlers(),
        assembly: facts::assembly_names(module),
        options: job.link_options(),
        wanted: job.wanted.clone(),
        functions: program.functions,
    };
    for named in named.iter().filter(|named| !named.is_reached()) {
        if let Some(number) = named.number {
            facts.functions[number.index()].otherwise_used = false;
        }
    }
    Ok(Some((facts, plan.symbols)))
}

/// The replacement of a function's code.
struct Body<'m> {
    function: Function<'m>,
    /// A copy of the code, if it contains assembly, which may define names and sections that other modules
    /// use.
    assembly: Option<Function<'m>>,
    text: String,
}

/// The bodies that replace the functions' code.
fn bodies<'m>(job: &Job<'_>, module: Module<'m>, facts: Option<&Facts>, id: u64) -> Vec<Body<'m>> {
    let numbered: Vec<_> = Eligibility::new(module, job.in_executable()).instrumented(module).collect();
    let numbers: HashMap<Function<'m>, usize> = numbered.into_iter().zip(0..).collect();
    let functions = module.functions().into_iter().filter(|f| f.has_body() && !f.linkage().declaration);
    let machine = module.machine();
    let bodies = functions.map(|function| {
        let number = numbers.get(&function).copied();
        let called = number.zip(facts).map(|(number, facts)| called(&facts.functions[number]));
        let number = number.map_or(skeleton::NO_FUNCTION, |number| number as u32);
        let mut text = body(machine, number, id, &called.unwrap_or_default(), &function.references());
        let assembly = facts::has_assembly(function).then(|| function.copy(ASSEMBLY));
        if let Some(copy) = assembly {
            let _ = writeln!(text, "{}", machine.reference(Refer::Nothing, &copy.name(), LABEL));
        }
        Body { function, assembly, text }
    });
    bodies.collect()
}

/// Returns whether a name can be quoted in inline assembly, where some characters choose between dialects.
fn can_be_written(name: &str) -> bool {
    emit::can_be_written(name) && !name.contains(['{', '|', '}'])
}

fn body(machine: &dyn Machine, number: u32, id: u64, called: &[&str], references: &[Reference]) -> String {
    let code = &machine.shared().objects;
    let refer = |how: Refer, symbol: &str| machine.reference(how, symbol, LABEL);
    let header = [&code.mark[..], &number.to_le_bytes(), &id.to_le_bytes()].concat();
    let mut asm = format!("{LABEL}:\n{}\n", byte_directive(&header));
    let quoted = |name: &str| format!("\"{}\"", name.replace('$', "$$"));
    for name in called {
        let reference = references.iter().find(|reference| reference.name == *name);
        match reference.filter(|reference| can_be_written(&reference.assembly)) {
            Some(reference) => _ = writeln!(asm, "{}", refer(Refer::Call, &quoted(&reference.assembly))),
            None => _ = writeln!(asm, "{}", byte_directive(code.no_call)),
        }
    }
    // No other image can define a hidden symbol, so no linker leaves the reference open.
    let marker = skeleton::ENCODED_SYMBOL;
    let _ = writeln!(asm, ".hidden {marker}\n{}", refer(Refer::Data, marker));
    // The code to come refers to the runtime. The skeleton does, too, so that linkers extract members of its
    // archive at the same position.
    if number != skeleton::NO_FUNCTION {
        let _ = writeln!(asm, "{}", refer(Refer::Data, pcce_abi::VERSION_SYMBOL));
    }
    // All linkers accept these forms. Some reject a plain relocation against a symbol of another image.
    for reference in references.iter().filter(|reference| can_be_written(&reference.assembly)) {
        let name = quoted(&reference.assembly);
        if reference.weak {
            let _ = writeln!(asm, ".weak {name}");
        }
        let how = match reference {
            Reference { thread_local: true, .. } => Refer::ThreadLocal,
            Reference { local: true, .. } => Refer::Nothing,
            Reference { function: true, .. } if called.contains(&&*reference.name) => continue,
            Reference { function: true, .. } => Refer::Call,
            _ => Refer::Data,
        };
        let _ = writeln!(asm, "{}", refer(how, &name));
    }
    asm
}
