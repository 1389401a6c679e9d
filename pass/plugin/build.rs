//! Compiles the C++ shim against the headers of the LLVM that will load the plugin.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=shim/shim.cpp");
    println!("cargo::rerun-if-env-changed=LLVM_CONFIG");
    let config = std::env::var("LLVM_CONFIG").unwrap_or_else(|_| "llvm-config-19".to_owned());
    let ask = |what: &str| {
        let output = Command::new(&config).arg(what).output().unwrap_or_else(|e| {
            panic!("{config} cannot be run ({e}); run scripts/setup, or apt-get install llvm-19-dev")
        });
        assert!(output.status.success(), "{config} {what} failed");
        String::from_utf8(output.stdout).expect("llvm-config prints text").trim().to_owned()
    };
    let version = ask("--version");
    assert!(version.starts_with("19."), "{config} is of LLVM {version}; this plugin is for LLVM 19");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file("shim/shim.cpp")
        .flag("-isystem")
        .flag(ask("--includedir"))
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        .flag("-fvisibility=hidden")
        .warnings(true)
        .extra_warnings(false)
        .compile("pcce_shim");
}
