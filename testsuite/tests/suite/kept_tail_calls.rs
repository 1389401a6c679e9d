//! The tail calls that the pass takes for jumps, in generated functions: code generation must make jumps of them all.

use std::collections::HashMap;
use std::fs;

use pcce_testsuite::{artifact, command, llvm, run, work_folder};

const HEAD: &str = "target triple = \"x86_64-unknown-linux-gnu\"\n\
    target datalayout = \"e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128\"\n\
    @table = global ptr null\n";

/// What a function can have: an attribute, a local variable, a calling convention, its result, its parameters, and
/// what stands behind its call. The first of each is the plain one.
const ATTRIBUTES: [&str; 13] = [
    "",
    "\"stackrealign\"",
    "alignstack(16)",
    "alignstack(32)",
    "\"no-realign-stack\"",
    "\"disable-tail-calls\"=\"true\"",
    "\"no_caller_saved_registers\"",
    "\"no_callee_saved_registers\"",
    "\"frame-pointer\"=\"all\"",
    "\"split-stack\"",
    "sspreq",
    "uwtable",
    "strictfp",
];
const VARIABLES: [&str; 6] = [
    "",
    "%v = alloca i64, align 16",
    "%v = alloca i64, align 32",
    "%v = alloca [4096 x i8], align 64",
    "%n = load i64, ptr @table\n  %v = alloca i8, i64 %n, align 16",
    "%n = load i64, ptr @table\n  %v = alloca i8, i64 %n, align 64",
];
const CONVENTIONS: [&str; 13] = [
    "",
    "fastcc",
    "coldcc",
    "tailcc",
    "swiftcc",
    "swifttailcc",
    "preserve_mostcc",
    "preserve_allcc",
    "preserve_nonecc",
    "x86_64_sysvcc",
    "win64cc",
    "x86_vectorcallcc",
    "x86_regcallcc",
];
/// Attributes of the function's result, and of its call's, and the type.
const RESULTS: [(&str, &str, &str); 12] = [
    ("", "", "void"),
    ("", "", "i32"),
    ("zeroext", "zeroext", "i1"),
    ("zeroext", "", "i1"),
    ("", "zeroext", "i1"),
    ("signext", "", "i8"),
    ("inreg", "", "i32"),
    ("noalias nonnull", "", "ptr"),
    ("", "", "x86_fp80"),
    ("", "", "{ i64, double }"),
    ("", "", "i128"),
    ("", "", "<4 x float>"),
];
const PARAMETERS: [&str; 13] = [
    "",
    "i32 %a",
    "ptr %a",
    "ptr sret(i64) %a",
    "ptr byval(i64) %a",
    "ptr swiftself %a",
    "ptr swiftasync %a",
    "ptr nest %a",
    "i32 inreg %a",
    "x86_fp80 %a",
    "<8 x float> %a",
    "i32 %a, i32 %b, i32 %c, i32 %d, i32 %e, i32 %f",
    "i32 %a, i32 %b, i32 %c, i32 %d, i32 %e, i32 %f, i32 %g",
];
const BUNDLES: [&str; 2] = ["", " [ \"deopt\"(i32 1) ]"];

/// A function that ends with a call of itself, or through a pointer that may lead to it.
fn function(number: usize, chosen: [usize; 6], is_direct: bool) -> String {
    let [attribute, variable, convention, result, parameters, bundle] = chosen;
    let ((of_function, of_call, ty), parameters) = (RESULTS[result], PARAMETERS[parameters]);
    let (attribute, convention, bundle) = (ATTRIBUTES[attribute], CONVENTIONS[convention], BUNDLES[bundle]);
    let variable = match VARIABLES[variable] {
        "" => String::new(),
        text => format!("  {text}\n  store volatile i8 1, ptr %v\n"),
    };
    let callee = if is_direct { format!("@f{number}") } else { "%p".to_owned() };
    let (set, value) = if ty == "void" { ("", "") } else { ("%r = ", " %r") };
    format!(
        "define {convention} {of_function} {ty} @f{number}({parameters}) nounwind {attribute} {{\n{variable}  \
         %p = load ptr, ptr @table\n  {set}tail call {convention} {of_call} {ty} {callee}({parameters}){bundle}\n  \
         ret {ty}{value}\n}}\n"
    )
}

#[test]
fn tail_calls_that_are_kept_become_jumps() {
    let mut module = HEAD.to_owned();
    let mut count = 0;
    let mut add = |chosen: [usize; 6]| {
        for is_direct in [true, false] {
            module += &function(count, chosen, is_direct);
            count += 1;
        }
    };
    for attribute in 0..ATTRIBUTES.len() {
        for variable in 0..VARIABLES.len() {
            add([attribute, variable, 0, 0, 0, 0]);
        }
    }
    for (convention, name) in CONVENTIONS.iter().enumerate() {
        for result in 0..RESULTS.len() {
            for (parameters, given) in PARAMETERS.iter().enumerate() {
                let is_invalid = (given.contains("sret") && result != 0)
                    || (given.contains("swift") && *name == "preserve_nonecc")
                    // LLVM 19 passes them on the stack of the x87, and then crashes in some runs.
                    || (given.contains("x86_fp80") && *name == "x86_vectorcallcc");
                if !is_invalid {
                    add([0, 0, convention, result, parameters, 0]);
                }
            }
        }
    }
    for bundle in 0..BUNDLES.len() {
        add([0, 0, 0, 0, 0, bundle]);
    }
    let addresses: Vec<String> = (0..count).map(|number| format!("ptr @f{number}")).collect();
    module += &format!("@all = global [{count} x ptr] [{}]\n", addresses.join(", "));
    let folder = work_folder("kept_tail_calls");
    let (file, marked) = (folder.join("module.ll"), folder.join("marked.ll"));
    fs::write(&file, module).expect("room on the disk");
    let plugin = format!("-load-pass-plugin={}", artifact("libpcce_pass.so").display());
    let mut opt = command(llvm("opt"), &[&plugin, "-passes=pcce<no-silent>", "-S", "-o"]);
    let _ = run(opt.arg(&marked).arg(&file)).expect_success();
    let marked = fs::read_to_string(folder.join("marked.ll")).expect("opt has written it");
    let assembly =
        run(command(llvm("llc"), &["-O2", "-o", "-"]).arg(folder.join("marked.ll"))).expect_success();
    let code: HashMap<&str, &str> =
        assembly.stdout.split("# -- Begin function f").filter_map(|text| text.split_once('\n')).collect();
    let mut kept = 0;
    for text in marked.split("\ndefine ").skip(1) {
        let text = text.split("\n}").next().unwrap_or(text);
        let number =
            text.split_once("@f").and_then(|(_, rest)| rest.split_once('(')).map(|(number, _)| number);
        let (Some(number), true) = (number, text.contains("!pcce.tail")) else { continue };
        kept += 1;
        let code = code[number].split("# -- End function").next().unwrap_or_default();
        assert!(code.contains("# TAILCALL"), "f{number} has no jump:\n{text}\n{code}");
    }
    assert!(kept > count / 5, "only {kept} of {count}");
}
