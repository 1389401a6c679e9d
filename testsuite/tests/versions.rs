//! The build for the second version of LLVM is what it says, and neither build's plugin runs in the other LLVM: who
//! tries reads both versions.
#![cfg(feature = "llvm22")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pcce_testsuite::{artifact, command, llvm_of, run, target, work_folder};

/// The plugin for LLVM 19, whose target folder holds that for 22.
fn plugin_19() -> PathBuf {
    let path = target().parent().expect("a folder in another").join("release/libpcce_pass.so");
    assert!(path.exists(), "{} is missing; run `make build` first", path.display());
    path
}

fn source(folder: &Path) -> PathBuf {
    let source = folder.join("main.c");
    fs::write(&source, "int main(void) { return 0; }\n").expect("the folder is ours");
    source
}

#[test]
fn a_plugin_for_another_llvm_names_both_versions() {
    let folder = work_folder("versions/mismatch");
    let source = source(&folder);
    for (own, host, plugin) in [("19", "22", plugin_19()), ("22", "19", artifact("libpcce_pass.so"))] {
        let bitcode = folder.join(format!("{host}.o"));
        let clang = llvm_of(host, "clang");
        let _ =
            run(command(&clang, &["-O1", "-flto", "-c", "-o"]).arg(&bitcode).arg(&source)).expect_success();
        let out = folder.join(format!("{host}.out"));
        let plugin = plugin.display();
        let mut compile = command(&clang, &["-c", &format!("-fpass-plugin={plugin}"), "-o"]);
        compile.arg(&out).arg(&source);
        let mut opt =
            command(llvm_of(host, "opt"), &[&format!("-load-pass-plugin={plugin}"), "-passes=pcce", "-o"]);
        opt.arg(&out).arg(&bitcode);
        let mut lld =
            command(llvm_of(host, "ld.lld"), &["-r", &format!("--load-pass-plugin={plugin}"), "-o"]);
        lld.arg(&out).arg(&bitcode);
        for tool in [&mut compile, &mut opt, &mut lld] {
            refuses(tool, &format!("error: pcce: this plugin is for LLVM {own}, and LLVM {host}."));
            assert!(!out.exists(), "{tool:?} leaves an output");
        }
    }
}

fn refuses(tool: &mut Command, message: &str) {
    let output = run(tool);
    assert!(output.status == 1 && output.stderr.lines().count() == 1, "{}", output.describe());
    assert!(output.stderr.starts_with(message), "{}", output.describe());
}

#[test]
fn the_build_is_for_this_llvm() {
    let folder = work_folder("versions/own");
    let source = source(&folder);
    for mode in ["lto", "module"] {
        let program = folder.join(mode);
        let mut build = command(artifact("pcce-clang"), &[&format!("--pcce-mode={mode}"), "-o"]);
        let _ = run(build.arg(&program).arg(&source)).expect_success();
        let info = run(command(artifact("pcce"), &["info"]).arg(&program)).expect_success().stdout;
        assert!(info.contains(", LLVM 22."), "{mode}: {info}");
        assert!(info.contains("  clang-22 "), "{mode}: {info}");
    }
}
