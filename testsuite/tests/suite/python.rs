//! The decoder for Python, as a wheel that is installed into an environment of its own.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use pcce_testsuite::{artifact, command, repository, run, run_within, work_folder};

/// The interpreter of an environment in which the wheel is installed.
fn python() -> PathBuf {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let made = PYTHON.get_or_init(|| {
        let mut build = command(repository().join("scripts/build-wheel"), &[]);
        let built = run_within(&mut build, "", Duration::from_secs(1200)).unwrap_or_else(|e| panic!("{e}"));
        let wheel = built.expect_success().stdout;
        let folder = work_folder("python/environment");
        run(command("python3", &["-m", "venv"]).arg(&folder)).expect_success();
        let words = ["install", "--quiet", "--no-index", "--disable-pip-version-check", wheel.trim()];
        run(&mut command(folder.join("bin/pip"), &words)).expect_success();
        folder.join("bin/python3")
    });
    made.clone()
}

#[test]
fn the_wheel_decodes_what_the_command_decodes() {
    let folder = work_folder("python/decoding");
    let source = repository().join("testsuite/python/decoding.c");
    let pcce = |words: &[&str]| {
        let output = run(command(artifact("pcce"), words).current_dir(&folder)).expect_success();
        output.stdout.trim_end().to_owned()
    };
    let mut build = command(artifact("pcce-clang"), &["-g", "-O1", "-o", "program"]);
    run(build.arg(source).current_dir(&folder)).expect_success();
    let mut program = command(folder.join("program"), &[]);
    let printed = run(program.current_dir(&folder).env("PCCE_NUMBERS", "numbers")).expect_success().stdout;
    let [token, interned, number] = printed.lines().collect::<Vec<_>>()[..] else { panic!("{printed}") };
    fs::create_dir(folder.join("store")).expect("can be made");
    pcce(&["dict", "--store", "store", "program"]);
    let text = pcce(&["decode", "program", token]);
    let folded =
        |words: &[&str]| pcce(&[&["decode", "--format", "folded"], words].concat()).replace(" 1", "");
    let of_token = folded(&["program", token]);
    assert_eq!(folded(&["program", "--numbers", "numbers", interned]), of_token);
    let (script, of_number) =
        (repository().join("testsuite/python/decoding.py"), folded(&["program", number]));
    let mut check = command(python(), &[]);
    check
        .arg(script)
        .args(["program", "store", token, interned, number, "numbers", &text, &of_token, &of_number]);
    run(check.current_dir(&folder)).expect_success();
}
