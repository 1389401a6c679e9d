//! Counters of how often functions and calls are executed, for [`pcce_model::Profile`].

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pcce_abi as abi;
use pcce_dictionary::calls;
use pcce_encoding::FunctionId;

use crate::handles::Code;
use crate::llvm::{Address, Constant, Module};
use pcce_model::{Function, Program, counted};

/// A function with its counted calls, each with the name of its callee; none for a call through a pointer.
pub type Counted<'a> = (FunctionId, Vec<(usize, Option<&'a str>)>);

/// Makes a module that is encoded by itself count, and write its counts to the file.
pub fn count<'m>(module: Module<'m>, program: &Program, code: &Code<'m>, file: &Path) {
    let functions = program.iter().filter(|(_, function)| !function.silent);
    let functions = functions.map(|(id, function)| (id, counted(&program.functions, function).collect()));
    let functions: Vec<_> = functions.collect();
    let reached = names(module, program, code);
    add(module, program, code, (&module.identifier(), &functions), reached, file);
}

/// Makes a module count these functions. `name` is the module's name in the profile. `reached` has the names
/// of the functions that pointers may reach, and their number.
pub fn add<'m>(
    module: Module<'m>,
    program: &Program,
    code: &Code<'m>,
    (name, functions): (&str, &[Counted<'_>]),
    (names, reached): (Address<'m>, u64),
    file: &Path,
) {
    let text = calls::template(
        name,
        functions
            .iter()
            .map(|(id, calls)| (&*program[*id].name, calls.iter().map(|&(_, callee)| callee).collect())),
    );
    let count: usize = functions.iter().map(|(_, calls)| 1 + calls.len()).sum();
    let (i64, ptr) = (module.i64(), module.ptr());
    let counters =
        module.add_internal("__pcce_counters", module.array_type(i64, count as u64), false).address();

    let b = module.builder();
    let mut next = 0;
    let mut increment = |at: &dyn Fn()| {
        at();
        let counter = module.const_offset(counters, next * 8);
        next += 1;
        b.store(b.add(b.load_word(counter), module.const_i64(1)), counter);
    };
    let calls_through_pointers =
        functions.iter().flat_map(|(_, calls)| calls).filter(|(_, callee)| callee.is_none()).count();
    let target_count = (calls_through_pointers * abi::TARGETS) as u64;
    let target_size = size_of::<abi::TargetCount>() as u64;
    let targets =
        module.add_internal("__pcce_targets", module.array_type(i64, target_count * target_size / 8), false);
    let record = module.external_function(abi::functions::COUNTS_TARGET, None, &[ptr, ptr]);
    let mut next_targets = 0;
    for (id, calls) in functions {
        increment(&|| _ = b.prologue(code.function(*id).value.entry().first_after_pads()));
        for &(call, callee) in calls {
            let instruction = code.call(*id, call);
            increment(&|| _ = b.before(*instruction, *instruction));
            let pointer = instruction.called().as_address().filter(|_| callee.is_none());
            if let Some(pointer) = pointer {
                let place = module.const_offset(targets.address(), next_targets * target_size);
                next_targets += abi::TARGETS as u64;
                b.call(record, &[place, pointer]);
            }
        }
    }

    let fields: [Constant<'_>; 10] = [
        module.null().into(),
        counters.into(),
        module.const_i64(count as u64).into(),
        targets.address().into(),
        module.const_i64(target_count).into(),
        names.into(),
        module.const_i64(reached).into(),
        constant(module, "__pcce_counts_text", &text).into(),
        module.const_i64(text.len() as u64).into(),
        constant(module, "__pcce_counts_file", file.as_os_str().as_bytes()).into(),
    ];
    let ty = module.struct_type(&[ptr, ptr, i64, ptr, i64, ptr, i64, ptr, i64, ptr]);
    let counts = module.add_internal("__pcce_counts", ty, false);
    counts.initialize(module.const_struct(&fields));
    module.call_at_start_and_end(abi::functions::COUNTS_START, abi::functions::COUNTS_END, counts.address());
}

fn constant<'m>(module: Module<'m>, name: &str, text: &[u8]) -> Address<'m> {
    let variable = module.add_internal(name, module.bytes(text.len() as u64 + 1), true);
    variable.initialize(module.const_string(text));
    variable.address()
}

/// The names of the functions of the module that pointers may reach, and their number.
fn names<'m>(module: Module<'m>, program: &Program, code: &Code<'m>) -> (Address<'m>, u64) {
    let ptr = module.ptr();
    let reached: Vec<(FunctionId, &Function)> =
        program.iter().filter(|(_, function)| function.external || function.address_taken).collect();
    let mut texts = Vec::new();
    let mut starts = Vec::with_capacity(reached.len());
    for (_, function) in &reached {
        starts.push(texts.len() as u64);
        texts.extend(calls::json(&function.name).bytes().chain([0]));
    }
    let texts = constant(module, "__pcce_target_texts", &texts);
    let name_type = module.struct_type(&[ptr, ptr]);
    let names =
        module.add_internal("__pcce_target_names", module.array_type(name_type, reached.len() as u64), true);
    let rows: Vec<Constant<'_>> = reached
        .iter()
        .zip(starts)
        .map(|((id, _), start)| {
            let function = code.function(*id).value.address();
            module.const_struct(&[function.into(), module.const_offset(texts, start).into()])
        })
        .collect();
    names.initialize(module.const_array(name_type, &rows));
    (names.address(), reached.len() as u64)
}
