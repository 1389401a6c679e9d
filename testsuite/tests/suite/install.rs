//! `make install`, `make uninstall` and `make deb`: an installation is complete, and works in its place.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pcce_testsuite::{artifact, command, llvm, llvm_version, repository, run, source, target, work_folder};

const FILTERED: &str = "1 main;work\n";

fn script(name: &str) -> Command {
    let mut script = Command::new(repository().join("scripts").join(name));
    script.env("CARGO_TARGET_DIR", target()).env_remove("DESTDIR").env_remove("PREFIX");
    script
}

/// Compiles a program with the wrapper in `bin`, and reads its token with the `pcce` there.
fn check_tools(bin: &Path, work: &Path) {
    fs::write(work.join("program.c"), source!("install/program.c")).expect("can be written");
    for (compiler, mode, language) in
        [("pcce-clang", "lto", "c"), ("pcce-clang++", "module", "c++"), ("pcce-clang", "module", "c")]
    {
        let mut compile = Command::new(bin.join(compiler));
        compile.args(["-g", "-O1", "-x", language, "program.c", "-o", "program"]).current_dir(work);
        run(compile.arg(format!("--pcce-mode={mode}"))).expect_success();
        check_program(bin, work);
    }
}

fn check_program(bin: &Path, work: &Path) {
    let log = run(&mut Command::new(work.join("program"))).expect_success().stdout;
    let mut filter = command(bin.join("pcce"), &["filter", "--format", "folded", "program"]);
    let filtered = pcce_testsuite::run_with_input(filter.current_dir(work), &log).expect_success();
    assert_eq!(filtered.stdout.replace("work(int)", "work"), FILTERED);
}

/// The files below `folder`, relative to it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("can be read").map(|entry| entry.expect("can be read")) {
            if entry.file_type().expect("is known").is_dir() {
                folders.push(entry.path());
            } else {
                found.push(entry.path().strip_prefix(folder).expect("is below").to_owned());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn an_installation_is_complete_and_goes_away() {
    let work = work_folder("install");
    let prefix = work.join("a prefix");
    run(script("install").env("PREFIX", &prefix)).expect_success();
    check_tools(&prefix.join("bin"), &work);

    // Without the wrappers. pkg-config escapes blanks for a shell.
    let mut shell = command("sh", &["-ec"]);
    shell
        .arg(r#"eval "$CLANG" -g -O1 -fpass-plugin="'$PLUGIN'" program.c -o program $(pkg-config --cflags --libs pcce)"#)
        .env("CLANG", llvm("clang"))
        .env("PLUGIN", prefix.join("lib/pcce/libpcce_pass.so"))
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    run(shell.current_dir(&work)).expect_success();
    check_program(&prefix.join("bin"), &work);

    // Each command has a manual page, and the shells complete it.
    let help = run(&mut command(artifact("pcce"), &["--help"])).expect_success().stdout;
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .map_while(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.contains(&"decode"), "{help}");
    let read = |name: &str| fs::read_to_string(prefix.join("share").join(name)).expect("is installed");
    let completion = read("bash-completion/completions/pcce.bash");
    for command in commands {
        assert!(read(&format!("man/man1/pcce-{command}.1")).contains(".SH SYNOPSIS"), "{command}");
        assert!(completion.contains(&format!("pcce,{command})")), "{command}");
    }
    let pages = read("doc/pcce/guide/SUMMARY.md");
    let pages = pages.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    for (page, _) in pages {
        assert!(!read(&format!("doc/pcce/guide/{page}")).contains("{{#include"), "{page}");
    }
    for wrapper in ["pcce-clang", "pcce-clang++"] {
        let page = read(&format!("man/man1/{wrapper}.1"));
        assert!(page.contains("pcce\\-mode"), "{wrapper}");
        for variable in variables_of_the_runtime() {
            assert!(page.contains(&format!(".TP\n\\fB{variable}\\fR\n")), "{variable}: {page}");
        }
        assert!(
            read(&format!("bash-completion/completions/{wrapper}.bash")).contains("--pcce-verify"),
            "{wrapper}"
        );
    }
    for template in files(&prefix).iter().filter(|file| file.to_string_lossy().ends_with(".cmake")) {
        let text = fs::read_to_string(prefix.join(template)).expect("is text");
        assert!(!text.contains("@LLVM@") && !text.contains("@VERSION@"), "{}", template.display());
    }

    run(script("install").arg("--remove").env("PREFIX", &prefix)).expect_success();
    let left = files(&prefix);
    assert!(left.is_empty(), "{left:?}");
}

/// The variables of the environment that the runtime reads.
fn variables_of_the_runtime() -> BTreeSet<String> {
    let source = repository().join("runtime-lib");
    let texts = files(&source).into_iter().filter(|file| file.extension().is_some_and(|e| e == "rs"));
    let texts = texts.map(|file| fs::read_to_string(source.join(file)).expect("is text"));
    let names: BTreeSet<String> = texts
        .flat_map(|text| {
            let strings = text.split("c\"PCCE_").skip(1);
            strings.filter_map(|rest| Some(format!("PCCE_{}", rest.split_once('"')?.0))).collect::<Vec<_>>()
        })
        .collect();
    assert!(names.contains("PCCE_SAMPLE") && names.len() >= 7, "{names:?}");
    names
}

#[test]
fn a_staged_installation_does_not_know_its_stage() {
    let stage = work_folder("stage");
    run(script("install").env("DESTDIR", &stage).env("PREFIX", "/opt/pcce")).expect_success();
    let module = fs::read_to_string(stage.join("opt/pcce/lib/pkgconfig/pcce.pc")).expect("is installed");
    assert!(module.starts_with("prefix=/opt/pcce\n"), "{module}");
    let output = run(script("install").env("DESTDIR", &stage).env("PREFIX", "opt"));
    assert!(output.status != 0 && output.stderr.contains("must be an absolute path"), "{}", output.stderr);
}

/// Unpacks the package into a folder. `make deb-check` installs it into a new Debian root.
#[test]
fn the_debian_packages_have_working_tools() {
    let work = work_folder("deb");
    let packages = run(&mut script("package-deb")).expect_success().stdout;
    let root = work.join("root");
    let mut depends = Vec::new();
    for package in packages.lines() {
        depends.push(run(&mut command("dpkg-deb", &["--field", package, "Depends"])).expect_success().stdout);
        run(command("dpkg-deb", &["--extract", package]).arg(&root)).expect_success();
    }
    let [runtime, libraries, development, tools] = &depends[..] else { panic!("{packages}") };
    assert!(libraries.starts_with("libpcce0.1 (= "), "{libraries}");
    for needed in
        ["pcce (= ", "libpcce-rt-dev (= ", &format!("clang-{0}, lld-{0}, ", llvm_version()), "libstdc++6"]
    {
        assert!(development.contains(needed), "{development}");
    }
    // Running programs and decoding need no compiler.
    for depends in [runtime, tools] {
        assert!(depends.contains("libc6 (>= 2.") && !depends.contains("clang"), "{depends}");
    }
    check_tools(&root.join("usr/bin"), &work);
    let text = |file: &Path| fs::read(root.join(file)).expect("can be read");
    // A path of this machine in the package would be wrong on the user's.
    let here = repository().to_string_lossy().into_owned();
    let names_here = |file: &PathBuf| text(file).windows(here.len()).any(|bytes| bytes == here.as_bytes());
    let naming: Vec<PathBuf> = files(&root)
        .into_iter()
        .filter(|file| fs::symlink_metadata(root.join(file)).expect("is there").is_file())
        .filter(names_here)
        .collect();
    assert!(naming.is_empty(), "{naming:?}");
}

/// The message of `scripts/setup` on a machine that has nothing, for a user who may not install.
fn setup(target: &str) -> String {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let bin = work_folder(&format!("install-setup-{target}"));
    for (name, text) in [("dpkg-query", "exit 1"), ("id", "echo 1000"), ("cargo", "")] {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("is ours");
    }
    symlink("/bin/bash", bin.join("bash")).expect("can be made");
    let output = run(script("setup").arg(target).env("PATH", &bin));
    assert_eq!(output.status, 1, "nothing can be installed");
    output.stderr
}

#[test]
fn building_needs_no_tools_of_tests_and_names_the_command_to_install_them() {
    let said = setup("build");
    let (_, packages) = said.split_once("as root: apt-get install ").expect("names the command");
    let packages: Vec<&str> = packages.split_whitespace().collect();
    assert_eq!(
        packages,
        ["clang-19", "lld-19", "llvm-19", "llvm-19-dev", "g++", "libc6-dev", "binutils", "make"]
    );
    assert!(setup("test").contains("csmith"));
}
