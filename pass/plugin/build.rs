//! Compiles the C++ shim against the headers of the LLVM that will load the plugin.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    // Functions of LLVM are looked up when they are first called: another version may lack some, and
    // `llvmGetPassPluginInfo` reports it before that.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,lazy");
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-env-changed=LLVM_CONFIG");
    // lib.rs makes sure that there is exactly one.
    let features =
        std::env::vars().filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_LLVM")?.to_owned()));
    let llvm = features.max().unwrap_or_default();
    let config = std::env::var("LLVM_CONFIG").unwrap_or_else(|_| format!("llvm-config-{llvm}"));
    let ask = |what: &str| {
        let output = Command::new(&config).arg(what).output().unwrap_or_else(|e| {
            panic!(
                "{config} cannot be run ({e}); run scripts/setup build {llvm}, or apt-get install llvm-{llvm}-dev"
            )
        });
        assert!(output.status.success(), "{config} {what} failed");
        String::from_utf8(output.stdout).expect("llvm-config prints text").trim().to_owned()
    };
    let version = ask("--version");
    let major = version.split('.').next();
    assert!(major == Some(&*llvm), "{config} is of LLVM {version}; this plugin is for LLVM {llvm}");
    let mut sources: Vec<PathBuf> = ["shim", "shim/machine"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).expect("the folder is there"))
        .map(|file| file.expect("the folder can be read").path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "cpp"))
        .collect();
    sources.sort();
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .files(sources)
        .flag("-isystem")
        .flag(ask("--includedir"))
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        .flag("-fvisibility=hidden")
        .warnings(true)
        .extra_warnings(false)
        .compile("pcce_shim");
}
