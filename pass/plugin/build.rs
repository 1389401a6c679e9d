//! Compiles the C++ shim against the headers of the LLVM that will load the plugin.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    // Functions of LLVM are looked up when they are first called: another version may lack some, and
    // `llvmGetPassPluginInfo` reports it before that.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,lazy");
    println!("cargo::rerun-if-changed=shim");
    println!("cargo::rerun-if-env-changed=LLVM_CONFIG");
    let supported: Vec<&str> = include_str!("../../scripts/llvm-versions").split_whitespace().collect();
    println!("cargo::rustc-env=PCCE_LLVM_VERSIONS={}", supported.join(" and "));
    let features =
        std::env::vars().filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_LLVM")?.to_owned()));
    let features: Vec<String> = features.collect();
    let [llvm] = &features[..] else {
        panic!(
            "choose the LLVM that will load the plugin by one feature, as --no-default-features --features llvm{}",
            supported.join(" or llvm")
        );
    };
    // The layout of the structure that the plugin returns to LLVM; the shim compares it with LLVM's headers.
    let plugin_api = if llvm.parse::<u32>().is_ok_and(|llvm| llvm >= 22) { "2" } else { "1" };
    println!("cargo::rustc-check-cfg=cfg(plugin_api_2)");
    if plugin_api == "2" {
        println!("cargo::rustc-cfg=plugin_api_2");
    }
    // Only the release build is loaded by LLVM. Clippy and unit tests use no C++, which takes most of the time.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        return;
    }
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
    assert!(major == Some(llvm), "{config} is of LLVM {version}; this plugin is for LLVM {llvm}");
    let mut sources: Vec<PathBuf> = ["shim", "shim/machine"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).expect("the folder is there"))
        .map(|file| file.expect("the folder can be read").path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "cpp"))
        .collect();
    sources.sort();
    // One translation unit reads LLVM's headers once, which takes a third of the time.
    let unit = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("shim.cpp");
    let includes: String = sources.iter().map(|source| format!("#include \"{}\"\n", source.display())).collect();
    std::fs::write(&unit, includes).expect("cargo's folder can be written");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file(unit)
        .include(".")
        .flag("-isystem")
        .flag(ask("--includedir"))
        .define("PCCE_PLUGIN_API", plugin_api)
        .flag("-fno-exceptions")
        .flag("-fno-rtti")
        .flag("-fvisibility=hidden")
        .warnings(true)
        .extra_warnings(false)
        .compile("pcce_shim");
}
