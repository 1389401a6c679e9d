//! Modules before and after the pass: each `ir/*.ll` names its passes and the expected result.
//!
//! - `; PASSES: …` a pipeline for `opt`; several lines are several runs;
//! - `; CHECK…:` lines for LLVM's FileCheck. A run whose last option is, say, `whole-program` uses the lines
//!   `; WHOLE-PROGRAM…:` if the file has some, the others `; CHECK…:` (`no-silent`: `; NO-SILENT…:`);
//! - `; FAILS` the run must fail, and the lines are for its error message;
//! - `; LLVM: 19` only this version reads the file.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::{artifact, command, llvm, llvm_version, run, run_with_input};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("ir");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|file| file.expect("can be read").path())
        .filter(|path| path.extension().is_some_and(|e| e == "ll"))
        .collect();
    files.sort();
    files
}

/// Runs one pipeline over a file. Returns what is wrong.
fn check(path: &Path, text: &str, passes: &str) -> Result<String, String> {
    let plugin = format!("-load-pass-plugin={}", artifact("libpcce_pass.so").display());
    let mut opt = command(llvm("opt"), &[&plugin, &format!("-passes={passes}"), "-S", "-o", "-"]);
    let output = run(opt.arg(path));
    let fails = text.lines().any(|line| line.trim() == "; FAILS");
    if (output.status != 0) != fails {
        return Err(output.describe());
    }
    let last = passes.trim_end_matches('>').rsplit([';', '<']).next().unwrap_or("").to_uppercase();
    let last = last.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let own = text.contains(&format!("; {last}:")) || text.contains(&format!("; {last}-LABEL:"));
    let prefix = if own { last } else { "CHECK".to_owned() };
    let result = if fails { &output.stderr } else { &output.stdout };
    let mut filecheck =
        command(llvm("FileCheck"), &[&format!("--check-prefix={prefix}"), "--dump-input=never"]);
    let found = run_with_input(filecheck.arg(path), result);
    if found.status == 0 { Ok(prefix) } else { Err(format!("{passes}: {}", found.describe())) }
}

#[test]
fn every_module_becomes_what_its_comments_say() {
    let mut wrong = String::new();
    let files = files();
    assert!(files.len() >= 10, "only {files:?}");
    for path in files {
        let text = fs::read_to_string(&path).expect("can be read");
        let version = text.lines().find_map(|line| line.strip_prefix("; LLVM:")).map(str::trim);
        if version.is_some_and(|version| version != llvm_version()) {
            continue;
        }
        let runs: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("; PASSES:")).map(str::trim).collect();
        assert!(!runs.is_empty(), "{} has no PASSES", path.display());
        let mut used = BTreeSet::new();
        for passes in runs {
            match check(&path, &text, passes) {
                Ok(prefix) => _ = used.insert(prefix),
                Err(error) => wrong += &format!("{}: {error}\n", path.display()),
            }
        }
        // Lines that no run looks at would check nothing.
        for line in text.lines().filter_map(|line| line.strip_prefix("; ")) {
            let Some((word, _)) = line.split_once(':') else { continue };
            let prefix = ["-LABEL", "-NEXT", "-SAME", "-NOT", "-DAG"]
                .iter()
                .find_map(|end| word.strip_suffix(end))
                .unwrap_or(word);
            let is_prefix = prefix.chars().all(|c| matches!(c, 'A'..='Z' | '0'..='9' | '-'))
                && !["PASSES", "LLVM"].contains(&prefix);
            if is_prefix && wrong.is_empty() {
                assert!(used.contains(prefix), "{}: no run looks at `{line}`", path.display());
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// The pass is part of LLVM's pipelines, also where passes are skipped. Lists of passes do not have it, nor has a list
/// that ends with ThinLTO's pipeline of -O0, which asks no plugin.
#[test]
fn only_whole_pipelines_bring_the_pass() {
    let plugin = format!("-load-pass-plugin={}", artifact("libpcce_pass.so").display());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("ir/calls.ll");
    let lists =
        ["globaldce", "elim-avail-extern,globaldce", "lowertypetests,globaldce,elim-avail-extern,globaldce"];
    let pipelines =
        ["thinlto<O0>", "globaldce,thinlto<O0>", "thinlto<O2>", "default<O0>", "default<O2>", "lto<O0>"];
    for (passes, brings) in
        lists.map(|list| (list, false)).into_iter().chain(pipelines.map(|name| (name, true)))
    {
        for limit in ["-1", "0"] {
            let (passes, limit) = (format!("-passes={passes}"), format!("-opt-bisect-limit={limit}"));
            let mut opt = command(llvm("opt"), &[&plugin, &passes, &limit, "-S"]);
            let module = run(opt.arg(&file)).expect_success().stdout;
            assert_eq!(module.matches("\n@__pcce_abi =").count(), usize::from(brings), "{passes} {limit}");
        }
    }
}

/// The environment variable with options, as linker and compiler pass it on.
#[test]
fn options_of_the_environment_are_checked_too() {
    let plugin = format!("-load-pass-plugin={}", artifact("libpcce_pass.so").display());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("ir/whole_program.ll");
    let mut opt = command(llvm("opt"), &[&plugin, "-passes=pcce", "-S", "-o", "-"]);
    // The harness clears the variable, so a shell sets it.
    let _ = opt.arg(&file);
    let line: Vec<String> = std::iter::once(opt.get_program())
        .chain(opt.get_args())
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    let with = |options: &str| {
        run(&mut command("sh", &["-c", &format!("PCCE_OPTIONS='{options}' {}", line.join(" "))]))
    };
    let bad = with("verify;no-such-option");
    assert_ne!(bad.status, 0);
    assert!(bad.stderr.contains("unexpected argument 'no-such-option'"), "{}", bad.stderr);
    assert!(with("verify").expect_success().stdout.contains("__pcce_verify_enter"));
    assert!(!with("").expect_success().stdout.contains("call void @__pcce_verify_enter"));
}

/// A target that the program does not have, a misspelt one perhaps, is reported only where the whole program is known.
#[test]
fn targets_that_the_program_does_not_have_are_named() {
    let plugin = format!("-load-pass-plugin={}", artifact("libpcce_pass.so").display());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("ir/targets.ll");
    let warnings = |options: &str| {
        let passes =
            format!("-passes=pcce<{options}target=log_write;target=app::Store::put;target=app::Store::get>");
        let mut opt = command(llvm("opt"), &[&plugin, &passes, "-disable-output"]);
        run(opt.arg(&file)).expect_success().stderr
    };
    let said = warnings("whole-program;");
    assert!(said.contains("target app::Store::get: the program neither defines nor calls"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(warnings(""), "");
}

/// Frames of a module are known only where its code can be generated. Otherwise the encoding does without them.
#[test]
fn frames_of_other_machines_are_not_known() {
    let module = |triple: &str| {
        format!(
            "target triple = \"{triple}\"\ndeclare void @g()\n\
             define void @f() uwtable {{\n  call void @g()\n  call void @g()\n  ret void\n}}\n"
        )
    };
    let plugin = format!("-load-pass-plugin={}", artifact("libpcce_pass.so").display());
    let said = |triple: &str, options: &str| {
        let passes = format!("-passes=pcce<{options}>");
        let mut opt = command(llvm("opt"), &[&plugin, &passes, "-S"]);
        run_with_input(&mut opt, &module(triple)).expect_success().stderr
    };
    let hybrid = "whole-program;executable;hybrid;target=absent";
    let both = said("riscv64-linux-gnu", hybrid);
    assert!(both.contains("the option hybrid has no effect"), "{both}");
    assert!(both.contains("the module is not for x86-64"), "{both}");
    // Every other message appears once, although copies are instrumented, too.
    assert_eq!(both.lines().count(), 2, "{both}");
    let one = said("x86_64-linux-gnu", hybrid);
    assert!(one.contains("target absent"), "{one}");
    assert_eq!(one.lines().count(), 1, "{one}");
    // Only whole executables get the hybrid encoding. Elsewhere the option is refused with a message.
    for others in
        ["hybrid", "whole-program;shared;hybrid", "whole-program;executable;hybrid;profile-generate=p"]
    {
        let other = said("x86_64-linux-gnu", others);
        assert!(other.contains("the option hybrid has no effect"), "{others}: {other}");
        assert_eq!(other.lines().count(), 1, "{other}");
    }
}
