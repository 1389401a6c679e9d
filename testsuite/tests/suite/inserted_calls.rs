//! Functions that LLVM calls without a call in the source. A program's own definition of such a function must push at
//! its entry, so the pass must know all names of the LLVM in use. Nothing else shows that a newer LLVM inserts calls of
//! further functions.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use pcce_testsuite::{artifact, checked, llvm, machine, source, work_folder};

/// LLVM's libraries that insert calls behind the pass.
const LIBRARIES: [&str; 4] = ["Instrumentation", "CodeGen", "SelectionDAG", machine::CODE_GENERATOR];

/// Names in these libraries that are not functions called behind the pass. `*` stands for any ending.
const OTHERS: &str = "
    # data, sections, and what names of data begin with
    ___asan_gen_ ___asan_globals_registered ___memprof_default_options_str __anonymous_ __cfi_ __cfstring __command_line __constructor __data
    __destructor __dtrace __gc_ __guard_local __hwsan_ __imp_ __llvm __llvm_coverage_names __llvm_gcda __llvm_prf*
    __llvm_rtti_proxy __mod_init_func __mod_term_func __objc_ __odr_asan_gen_ __pointers __prefetch __prof* __ref_
    __safestack_unsafe_stack_ptr __security_cookie __stack_chk_guard __start_* __stop_* __wasm_lpad_context
    # instrumentation in front of the pass: these calls are seen
    __gcov_fork __llvm_covinit_functions __llvm_ctx_profile_* __llvm_gcov* __llvm_internal_gcov* __llvm_profile_*
    __poison_checker_assert __ubsan_*
    # of other systems and machines
    __emupac_* __fltused __local_stdio_* __main __security_check_cookie __stack_smash_handler
    # personality functions are known as such, the rest is what the libraries use themselves
    __gcc_personality_v0 __gxx_personality_v0 __gnat_eh_personality __objc_personality_v0 _Unwind_* __cxa_* __cxx_global_var_init __dso_handle
    __libc_single_threaded __once_proxy
    # parts of names, in code
    __x86_indirect_t
";

/// Operations for which code generation calls functions.
const OPERATIONS: &str = source!("inserted_calls/operations.c");

fn is_name(text: &[u8]) -> bool {
    let begins = text.starts_with(b"__") || text.starts_with(b"_Unwind_");
    let first = text.iter().find(|&&byte| byte != b'_');
    begins
        && first.is_some_and(u8::is_ascii_alphabetic)
        && text.len() < 100
        && text
            .iter()
            .all(|&byte| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'U')
}

fn in_libraries() -> BTreeSet<String> {
    let folder = checked("llvm-config", Command::new(llvm("llvm-config")).arg("--libdir").output())
        .unwrap_or_else(|e| panic!("{e:#}"));
    let folder = String::from_utf8(folder.stdout).expect("a path");
    let names_of = |library: &str| {
        let path = format!("{}/libLLVM{library}.a", folder.trim());
        let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let names = bytes.split(|&byte| byte == 0).filter(|text| is_name(text));
        names.map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
    };
    LIBRARIES.iter().flat_map(|library| names_of(library)).collect()
}

/// The names that code generation calls for the operations.
fn of_operations() -> BTreeSet<String> {
    let folder = work_folder("inserted");
    let source = folder.join("operations.c");
    fs::write(&source, OPERATIONS).expect("can be written");
    let mut names = BTreeSet::new();
    for level in ["-O0", "-O2"] {
        let object = source.with_extension("o");
        let compiled = Command::new(llvm("clang"))
            .args([level, "-w", "-fPIC", "-mcx16", "-fstack-protector-all", "-c", "-o"])
            .args([&object, &source])
            .output();
        checked("clang", compiled).unwrap_or_else(|e| panic!("{e:#}"));
        let listed = Command::new(llvm("llvm-nm")).args(["-u", "-j"]).arg(object).output();
        let listed = checked("nm", listed).unwrap_or_else(|e| panic!("{e:#}"));
        names.extend(String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned));
    }
    for data in ["variable", "use", "_GLOBAL_OFFSET_TABLE_"] {
        names.remove(data);
    }
    // The front end calls these by name, so the pass sees the calls.
    names.retain(|name| !matches!(&**name, "__muldc3" | "__divdc3"));
    assert!(names.contains("__divti3") && names.contains("memcpy") && names.len() > 60, "{names:?}");
    names
}

/// The functions that push at their entry, since they are not silent.
fn pushing(names: &BTreeSet<String>) -> BTreeSet<String> {
    let module = work_folder("inserted_names").join("names.ll");
    let definitions = names
        .iter()
        .map(|name| format!("define void @{name}() {{\n  call i64 @pcce_context()\n  ret void\n}}\n"));
    let text = format!(
        "target triple = \"{}\"\ndeclare i64 @pcce_context()\n{}",
        machine::TRIPLE,
        definitions.collect::<String>()
    );
    fs::write(&module, text).expect("can be written");
    let plugin = format!("-load-pass-plugin={}", artifact("libpcce_pass.so").display());
    let passed =
        Command::new(llvm("opt")).args([&plugin, "-passes=pcce", "-S", "-o", "-"]).arg(module).output();
    let passed = checked("opt", passed).unwrap_or_else(|e| panic!("{e:#}"));
    let passed = String::from_utf8(passed.stdout).expect("text");
    let functions = passed.split("\ndefine ").skip(1).filter(|function| function.contains("%pcce.entry = "));
    functions.map(|f| f.split(['@', '(']).nth(1).expect("a name").to_owned()).collect()
}

fn is_other(name: &str) -> bool {
    let others = OTHERS.lines().filter(|line| !line.contains('#')).flat_map(str::split_whitespace);
    others.into_iter().any(|other| match other.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == other,
    })
}

#[test]
fn every_name_that_llvm_calls_is_known() {
    let (libraries, operations) = (in_libraries(), of_operations());
    assert!(libraries.contains("__asan_init") && libraries.contains("__fentry__"), "{libraries:?}");
    let known = pushing(&libraries.union(&operations).cloned().collect());
    let missed: Vec<&String> = operations.difference(&known).collect();
    assert!(
        missed.is_empty(),
        "code generation calls them, pass/plugin/data/inserted*.txt lack them: {missed:?}"
    );
    let unknown: Vec<&String> = libraries.difference(&known).filter(|name| !is_other(name)).collect();
    assert!(
        unknown.is_empty(),
        "add them to pass/plugin/data/inserted*.txt, or to the others here: {unknown:?}"
    );
}
