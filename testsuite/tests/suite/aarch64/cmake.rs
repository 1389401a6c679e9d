//! CMake projects for AArch64, by the toolchain file of an installation.

use std::path::Path;
use std::process::Command;

use pcce_testsuite::runner::{AARCH64, command_on};
use pcce_testsuite::{command, install_for, repository, run, work_folder};

use crate::cmake::{check_app, clang, configure};

/// With the wrappers as compilers, and with clang and `pcce_instrument`.
#[test]
fn projects_are_built_with_the_toolchain_file() {
    let work = work_folder("aarch64-cmake");
    let prefix = work.join("prefix");
    install_for(&prefix, AARCH64.triple);
    let toolchain = prefix.join("lib/cmake/PCCE/aarch64-linux-gnu.cmake").display().to_string();

    let wrapped = work.join("wrapped");
    let mut cmake = command("cmake", &["-G", "Ninja", "--toolchain", &toolchain, "-S"]);
    cmake.arg(repository().join("testsuite/projects/cmake")).arg("-B").arg(&wrapped);
    build(cmake.args(["C", "CXX"].map(|of| format!("-DCMAKE_{of}_FLAGS=-O2 -g --pcce-verify"))), &wrapped);
    check_app(&wrapped.join("app"), &wrapped.join("libshapes.so"), Some(&AARCH64));

    let launched = work.join("launched");
    let words = ["-G", "Ninja", "--toolchain", &toolchain, "-DOPTIONS=VERIFY"];
    let [c, cxx] = clang();
    build(&mut configure(&prefix, &launched, [&c, &cxx], &words), &launched);
    check_app(&launched.join("shapes/app"), &launched.join("shapes/libshapes.so"), Some(&AARCH64));
    let plain = run(&mut command_on(Some(&AARCH64), &launched.join("plain"), &[])).expect_success();
    assert_eq!(plain.stdout, "[] 0\n");
}

fn build(configure: &mut Command, folder: &Path) {
    run(configure).expect_success();
    run(command("cmake", &["--build"]).arg(folder)).expect_success();
}
