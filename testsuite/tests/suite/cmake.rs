//! A CMake project with a static and a shared library, in all modes: built with the wrappers as its compilers and
//! nothing else, and by clang with an installed PCCE (`find_package`, `pcce_instrument`). It works, and a context that
//! crosses its libraries is decoded.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use pcce_testsuite::runner::{Emulated, command_on};
use pcce_testsuite::{artifact, checked, command, install, llvm, llvm_version, repository, run, target};

/// Runs the project's program, instrumented with `--pcce-verify`, on a machine, and decodes what it prints.
pub(crate) fn check_app(app: &Path, library: &Path, machine: Option<&Emulated>) {
    let report = app.with_extension("report");
    let _ = fs::remove_file(&report);
    let ran = command_on(machine, app, &[("PCCE_VERIFY_REPORT", report.clone().into())]).output();
    let printed =
        String::from_utf8(checked("app", ran).unwrap_or_else(|e| panic!("{e:#}")).stdout).expect("text");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!((lines[0], lines[2]), ("caught negative", "area 9"), "{printed}");
    let report = fs::read_to_string(&report).expect("verify mode reports");
    assert!(report.ends_with(" 0 mismatches\n"), "{report}");

    let decode = |more: &[&OsStr]| {
        let words = [&["decode".as_ref(), "--format".as_ref(), "folded".as_ref()], more].concat();
        let decoded =
            Command::new(artifact("pcce")).args(words).args([app.as_os_str(), lines[1].as_ref()]).output();
        let decoded = checked("pcce decode", decoded).unwrap_or_else(|e| panic!("{e:#}"));
        String::from_utf8(decoded.stdout).expect("text")
    };
    // The library is where the loader finds it.
    let decoded = decode(&[]);
    assert_eq!(decode(&["--dict".as_ref(), library.as_os_str()]), decoded);
    let frames: Vec<&str> = decoded.trim().trim_end_matches(" 1").split(';').collect();
    assert_eq!(frames.first(), Some(&"main"), "{decoded}");
    assert_eq!(frames.last(), Some(&"rectangle"), "{decoded}");
    assert!(frames.contains(&"measure(double, void (*)(double))"), "{decoded}");
    assert!(frames.contains(&"Square::area() const"), "{decoded}");
}

fn build_folder(name: &str) -> PathBuf {
    let build = target().join("cmake-project").join(name);
    let _ = fs::remove_dir_all(&build);
    build
}

fn with_wrappers(mode: &str) {
    let build = build_folder(mode);
    // CMake wants a compiler without arguments: the mode goes into the flags, for compiling and linking.
    let flags = format!("-O2 -g --pcce-mode={mode} --pcce-verify");
    let configured = Command::new("cmake")
        .args(["-G", "Ninja", "-S"])
        .arg(repository().join("testsuite/projects/cmake"))
        .arg("-B")
        .arg(&build)
        .arg(format!("-DCMAKE_C_COMPILER={}", artifact("pcce-clang").display()))
        .arg(format!("-DCMAKE_CXX_COMPILER={}", artifact("pcce-clang++").display()))
        .arg(format!("-DCMAKE_C_FLAGS={flags}"))
        .arg(format!("-DCMAKE_CXX_FLAGS={flags}"))
        .output();
    checked("cmake", configured).unwrap_or_else(|e| panic!("{e:#}"));
    let built = Command::new("cmake").arg("--build").arg(&build).output();
    checked("cmake --build", built).unwrap_or_else(|e| panic!("{e:#}"));
    check_app(&build.join("app"), &build.join("libshapes.so"), None);
}

#[test]
fn wrappers_lto() {
    with_wrappers("lto");
}

#[test]
fn wrappers_link() {
    with_wrappers("link");
}

#[test]
fn wrappers_module() {
    with_wrappers("module");
}

/// An installation for all tests of this file.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = target().join("testsuite/cmake-prefix");
        let _ = fs::remove_dir_all(&prefix);
        install(&prefix);
        prefix
    })
}

/// An archive of bitcode needs the archiver of this LLVM, which CMake finds by the compiler's name.
#[test]
fn archives_of_bitcode_are_made_by_this_llvm() {
    let build = build_folder("bitcode");
    let bin = prefix().join("bin");
    let mut configure = command("cmake", &["-G", "Ninja", "-S"]);
    configure.arg(repository().join("testsuite/projects/cmake")).arg("-B").arg(&build);
    for (language, compiler) in [("C", "pcce-clang"), ("CXX", "pcce-clang++")] {
        configure.arg(format!("-DCMAKE_{language}_COMPILER={}", bin.join(compiler).display()));
        configure.arg(format!(
            "-DCMAKE_{language}_FLAGS=-O2 -g --pcce-mode=lto -fno-fat-lto-objects --pcce-verify"
        ));
    }
    run(&mut configure).expect_success();
    let cache = fs::read_to_string(build.join("CMakeCache.txt")).expect("CMake writes it");
    assert!(cache.contains(&format!("CMAKE_AR:FILEPATH={}", bin.join("pcce-llvm-ar").display())), "{cache}");
    run(command("cmake", &["--build"]).arg(&build)).expect_success();
    check_app(&build.join("app"), &build.join("libshapes.so"), None);
}

/// `cmake` for the consumer project, with the compiler `clang` or another, and an installation.
pub(crate) fn configure(prefix: &Path, build: &Path, compilers: [&Path; 2], arguments: &[&str]) -> Command {
    let mut cmake = Command::new("cmake");
    cmake
        .arg("-S")
        .arg(repository().join("cmake/consumer"))
        .arg("-B")
        .arg(build)
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()))
        .arg(format!("-DSHAPES={}", repository().join("testsuite/projects/cmake").display()))
        .arg(format!("-DCMAKE_C_COMPILER={}", compilers[0].display()))
        .arg(format!("-DCMAKE_CXX_COMPILER={}", compilers[1].display()))
        .args(["-DCMAKE_C_FLAGS=-O2 -g", "-DCMAKE_CXX_FLAGS=-O2 -g"])
        .args(arguments);
    cmake
}

pub(crate) fn clang() -> [PathBuf; 2] {
    [llvm("clang"), llvm("clang++")]
}

fn consume(build: &Path, generator: &str, arguments: &[&str], ccache: Option<&Path>) {
    let [c, cxx] = clang();
    let mut commands = [
        configure(prefix(), build, [&c, &cxx], &[&["-G", generator], arguments].concat()),
        command("cmake", &["--build"]),
    ];
    commands[1].arg(build);
    for command in &mut commands {
        if let Some(cache) = ccache {
            command.env("CCACHE_DIR", cache).env_remove("CCACHE_DISABLE");
        }
        run(command).expect_success();
    }
    check_app(&build.join("shapes/app"), &build.join("shapes/libshapes.so"), None);
    assert_eq!(run(&mut Command::new(build.join("plain"))).expect_success().stdout, "[] 0\n");
    assert!(build.join("app.pcce.json").exists());
}

#[test]
fn find_package_lto_ninja() {
    consume(&build_folder("consumer-lto"), "Ninja", &["-DOPTIONS=MODE;lto;VERIFY;HYBRID"], None);
}

#[test]
fn find_package_ninja() {
    consume(&build_folder("consumer-link"), "Ninja", &["-DOPTIONS=VERIFY"], None);
}

/// ccache takes two compilations for the same only if all that the pass depends on is equal.
#[test]
fn find_package_module_make_ccache() {
    let build = build_folder("consumer-module");
    let cache = build_folder("ccache");
    let list = build.with_extension("list");
    fs::write(&list, "nothing_of_this_name\n").expect("can be written");
    let options = format!("-DOPTIONS=MODE;module;VERIFY;NO_CALLBACK;{}", list.display());
    let arguments = [&options, "-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"];
    let mut compiled = Vec::new();
    for round in 0..3 {
        if round == 2 {
            fs::write(&list, "nothing_of_this_other_name\n").expect("can be written");
        }
        let _ = fs::remove_dir_all(&build);
        consume(&build, "Unix Makefiles", &arguments, Some(&cache));
        let mut statistics = command("ccache", &["--print-stats"]);
        let statistics = run(statistics.env("CCACHE_DIR", &cache)).expect_success().stdout;
        let misses = statistics.lines().find_map(|line| line.strip_prefix("cache_miss\t"));
        compiled.push(misses.expect("ccache counts").parse::<u32>().expect("a number"));
    }
    // Five files, three of them instrumented.
    assert_eq!(compiled, [5, 5, 8]);
}

#[test]
fn errors_name_the_cause_and_the_cure() {
    let (c, cxx) = (Path::new("/usr/bin/gcc"), Path::new("/usr/bin/g++"));
    let wrappers = [artifact("pcce-clang"), artifact("pcce-clang++")];
    let [clang, clangxx] = clang();
    let cure = format!("-DCMAKE_CXX_COMPILER=clang++-{}", llvm_version());
    for (name, compilers, options, expected) in [
        ("gcc", [c, cxx], "-DOPTIONS=", vec!["GNU", cure.as_str()]),
        ("wrapper", [&wrappers[0], &wrappers[1]], "-DOPTIONS=", vec!["instruments every target by itself"]),
        ("mode", [&clang, &clangxx], "-DOPTIONS=MODE;thin", vec!["`thin`", "`link`, `lto` and `module`"]),
        ("target", [&clang, &clangxx], "-DOPTIONS=nowhere", vec!["no target `nowhere`"]),
    ] {
        let output = run(&mut configure(prefix(), &build_folder(name), compilers, &[options]));
        assert_ne!(output.status, 0, "{name}");
        // CMake breaks lines.
        let message = output.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in expected {
            assert!(message.contains(expected), "{name}: {message}");
        }
    }
}
