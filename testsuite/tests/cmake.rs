//! A CMake project with a static and a shared library, built with the wrappers as its compilers and nothing
//! else, in both modes: it works, and a context that crosses its libraries decodes.

use std::fs;
use std::process::Command;

use pcce_testsuite::checked;
use pcce_testsuite::{repository, target};

fn check(mode: &str) {
    let release = target().join("release");
    let build = target().join("cmake-project").join(mode);
    let _ = fs::remove_dir_all(&build);
    // CMake wants a compiler without arguments: the mode goes into the flags, for compiling and linking.
    let flags = format!("-O2 -g --pcce-mode={mode} --pcce-verify");
    let configured = Command::new("cmake")
        .args(["-G", "Ninja", "-S"])
        .arg(repository().join("testsuite/projects/cmake"))
        .arg("-B")
        .arg(&build)
        .arg(format!("-DCMAKE_C_COMPILER={}", release.join("pcce-clang").display()))
        .arg(format!("-DCMAKE_CXX_COMPILER={}", release.join("pcce-clang++").display()))
        .arg(format!("-DCMAKE_C_FLAGS={flags}"))
        .arg(format!("-DCMAKE_CXX_FLAGS={flags}"))
        .output();
    checked("cmake", configured).unwrap_or_else(|e| panic!("{e:#}"));
    let built = Command::new("cmake").arg("--build").arg(&build).output();
    checked("cmake --build", built).unwrap_or_else(|e| panic!("{e:#}"));

    let report = build.join("report");
    let ran = Command::new(build.join("app")).env("PCCE_VERIFY_REPORT", &report).output();
    let printed =
        String::from_utf8(checked("app", ran).unwrap_or_else(|e| panic!("{e:#}")).stdout).expect("text");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!((lines[0], lines[2]), ("caught negative", "area 9"), "{mode}: {printed}");
    let report = fs::read_to_string(&report).expect("verify mode reports");
    assert!(report.ends_with(" 0 mismatches\n"), "{mode}: {report}");

    let decoded = Command::new(release.join("pcce"))
        .args(["decode", "--format", "folded", "--dict"])
        .arg(build.join("libshapes.so"))
        .args([build.join("app").as_os_str(), lines[1].as_ref()])
        .output();
    let decoded =
        String::from_utf8(checked("pcce decode", decoded).unwrap_or_else(|e| panic!("{e:#}")).stdout)
            .expect("text");
    let frames: Vec<&str> = decoded.trim().trim_end_matches(" 1").split(';').collect();
    assert_eq!(frames.first(), Some(&"main"), "{mode}: {decoded}");
    assert_eq!(frames.last(), Some(&"rectangle"), "{mode}: {decoded}");
    assert!(frames.contains(&"measure(double, void (*)(double))"), "{mode}: {decoded}");
    assert!(frames.contains(&"Square::area() const"), "{mode}: {decoded}");
}

#[test]
fn lto() {
    check("lto");
}

#[test]
fn module() {
    check("module");
}
