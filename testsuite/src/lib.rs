//! Harness of the end-to-end tests: finds the files of `make build`, compiles programs with the wrappers, runs them
//! with a time limit, and decodes their output.
//!
//! The tests use the finished tools as a user does, as processes; nothing of them is linked in here. Programs that a
//! test compiles are files of a folder beside `src` ([`source!`]).
//!
//! | tests in `tests/suite`, programs in `src/bin` | subject |
//! |---|---|
//! | `programs.rs` | `programs/` with directives in comments ([`directives`] is their reference) |
//! | `ir.rs` | `ir/`: modules before and after the pass |
//! | `points/`, `bin/torture.rs` | contexts at any instruction, crash reports and core files, compared with other unwinders ([`chain`], [`torture`]) |
//! | `trace/` | traces of calls; [`trace_words`] reads the file without the product's reader |
//! | `link/`, `bin/same_code.rs` | link mode, and code generated from the bitcode in objects ([`same_code`]) |
//! | `matrix.rs`, `bin/matrix.rs` | many flags and attributes, compared with backtraces ([`matrix`]) |
//! | `generated.rs`, `bin/soak.rs` | random programs, by csmith and by generators of this project ([`generated`]) |
//! | `profiles.rs`, `call_profiles.rs` | heap profiles next to valgrind, CPU profiles, counts of calls |
//! | `verify_mode.rs` | verify mode finds mismatches |
//! | `thrown.rs` | where exceptions were thrown |
//! | `versions.rs`, `rust.rs` | the build for another LLVM beside that for the first, and Rust programs, which need it |
//! | `real_programs.rs`, `cmake.rs`, `bin/evaluate.rs`, `bin/packages.rs` | programs and builds of other projects ([`evaluation`], [`packages`]) |
//! | `install.rs`, `guide.rs`, `documents.rs` | what is installed, and what the documents say |

pub mod chain;
pub mod chosen_traces;
pub mod directives;
pub mod distribution;
pub mod driver;
pub mod evaluation;
pub mod generated;
pub mod machine;
pub mod matrix;
pub mod packages;
pub mod runner;
pub mod same_code;
pub mod torture;
pub mod trace_words;
pub mod turns;
pub mod verified_captures;

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context as _, ensure};

/// The text of a file of `testsuite/`.
#[macro_export]
macro_rules! source {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", $path))
    };
}

/// Time limit of a process in the tests, on a machine with other load.
const TIME_LIMIT: Duration = Duration::from_secs(100);

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is a folder of it").to_owned()
}

/// The flag for headers in a folder of the repository.
pub fn include(folder: &str) -> String {
    format!("-I{}", repository().join(folder).display())
}

/// The commit that is checked out.
pub fn revision() -> anyhow::Result<String> {
    let mut git = Command::new("git");
    let output = git.args(["rev-parse", "--short=9", "HEAD"]).current_dir(repository()).output()?;
    ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The folder for everything generated.
pub fn target() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(target) => repository().join(target),
        None => repository().join("target"),
    }
}

/// Installs the files of `make build`.
pub fn install(prefix: &Path) {
    install_for(prefix, "");
}

/// Installs the files of `make build TARGET=…`.
pub fn install_for(prefix: &Path, machine: &str) {
    let mut install = Command::new(repository().join("scripts/install"));
    install.env("PREFIX", prefix).env("CARGO_TARGET_DIR", target()).env_remove("DESTDIR");
    run(install.env("TARGET", machine)).expect_success();
}

/// A file of `make build`, by its name in `target/release`.
///
/// # Panics
/// If it is not there: without it a test would show nothing.
pub fn artifact(name: &str) -> PathBuf {
    let path = target().join("release").join(name);
    assert!(path.exists(), "{} is missing; run `make build` first", path.display());
    path
}

/// A program of the test suite, by its name. Cargo builds it together with the tests or the program that calls it.
pub fn own_program(name: &str) -> PathBuf {
    target().join(if cfg!(debug_assertions) { "debug" } else { "release" }).join(name)
}

/// The major version of the LLVM that `make build` has made the plugin for.
pub fn llvm_version() -> String {
    let version = fs::read_to_string(artifact("llvm-version")).expect("can be read");
    version.trim().to_owned()
}

/// The major version of rustc's own LLVM.
pub fn llvm_of_rustc() -> u32 {
    let version = run(&mut command("rustc", &["-vV"])).expect_success().stdout;
    let llvm = version.lines().find_map(|line| line.strip_prefix("LLVM version: "));
    llvm.and_then(|v| v.split('.').next()?.parse().ok()).expect("rustc tells the version of its LLVM")
}

/// A tool of the LLVM with [`llvm_version`], by its name without version.
pub fn llvm(name: &str) -> PathBuf {
    llvm_of(&llvm_version(), name)
}

/// A tool of any LLVM, by its name without version.
pub fn llvm_of(version: &str, name: &str) -> PathBuf {
    let path = Path::new("/usr/lib").join(format!("llvm-{version}/bin")).join(name);
    assert!(path.exists(), "{} is missing; run `scripts/setup test {version}` first", path.display());
    path
}

/// An empty folder for a test of this name.
pub fn work_folder(name: &str) -> PathBuf {
    let folder = target().join("testsuite").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap_or_else(|e| panic!("cannot make {}: {e}", folder.display()));
    folder
}

/// Writes files into a folder, each given by its name and its text.
pub fn write_files(folder: &Path, files: impl IntoIterator<Item = (impl AsRef<Path>, impl AsRef<[u8]>)>) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
}

/// The result of a process.
#[derive(Clone, Debug)]
pub struct Output {
    /// The command line, for messages.
    pub command: String,
    /// Exit status; `128 + n` for signal n, as shells do.
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// The output of a process that must have succeeded.
    ///
    /// # Panics
    /// If it did not, with everything it said.
    pub fn expect_success(self) -> Self {
        assert!(self.status == 0, "{}", self.describe());
        self
    }

    /// Command, status and standard error, for messages.
    pub fn describe(&self) -> String {
        format!("`{}` ended with status {}\n{}", self.command, self.status, self.stderr)
    }
}

pub fn command(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Runs a command with nothing on its standard input.
pub fn run(command: &mut Command) -> Output {
    run_with_input(command, "")
}

/// Runs a command with a text on its standard input. It is killed when the time limit is over.
///
/// # Panics
/// If the command cannot be started, or takes too long.
pub fn run_with_input(command: &mut Command, input: &str) -> Output {
    run_within(command, input, TIME_LIMIT).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs a command with a text on its standard input. It is killed when the time is over.
///
/// # Errors
/// If it is not over within the time: the command, and its standard error.
pub fn run_within(command: &mut Command, input: &str, time: Duration) -> Result<Output, String> {
    let line = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ");
    // Variables of a developer's environment, and earlier tests, must not decide what is tested.
    if !command.get_envs().any(|(name, _)| name == "PCCE_CACHE") {
        command.env("PCCE_CACHE", "");
    }
    command.env_remove("PCCE_OPTIONS").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|e| panic!("cannot start `{line}`: {e}"));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut stdin = child.stdin.take().expect("piped");
    let (status, stdout, stderr) = thread::scope(|scope| {
        // The child may end before it has read everything.
        scope.spawn(move || std::io::Write::write_all(&mut stdin, input.as_bytes()));
        let stdout = scope.spawn(move || read(stdout.expect("piped")));
        let stderr = scope.spawn(move || read(stderr.expect("piped")));
        let status = wait(&mut child, time);
        (status, stdout.join().expect("reads"), stderr.join().expect("reads"))
    });
    match status {
        Some(status) => Ok(Output { command: line, status, stdout, stderr }),
        None => Err(format!("`{line}` took more than {time:?}\n{stderr}")),
    }
}

/// The files of a folder.
pub fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// A declaration in TOML, and its name, which is that of its file.
pub fn declaration<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<(String, T)> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let declared = toml::from_str(&text).with_context(|| path.display().to_string())?;
    Ok((path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), declared))
}

/// The output of `pcce trace export --format json` for a trace, with an event per line ([`json_lines`]).
pub fn export_events(program: &Path, trace: &Path) -> Output {
    let mut export = command(artifact("pcce"), &["trace", "export", "--format", "json"]);
    run(export.arg(program).arg(trace))
}

/// The documents of a text with one per line.
pub fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a document")).collect()
}

/// The output of a command that must have succeeded.
///
/// # Errors
/// With the end of what it wrote to standard error.
pub fn checked(what: &str, output: std::io::Result<process::Output>) -> anyhow::Result<process::Output> {
    let output = output.with_context(|| what.to_owned())?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let tail: Vec<&str> = text.lines().rev().take(20).collect();
        let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
        anyhow::bail!("{what}: {}\n{tail}", output.status);
    }
    Ok(output)
}

fn read(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).expect("pipes can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn wait(child: &mut Child, time: Duration) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return status.code().or(status.signal().map(|signal| 128 + signal));
        }
        if start.elapsed() > time {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(3));
    }
}

/// Runs a program of a folder, and returns its output with folded contexts. The dictionaries of its libraries are in
/// the folder, and its report of verify mode is `report` there.
pub fn folded_with_libraries(folder: &Path, program: &str) -> String {
    let mut process = command(folder.join(program), &[]);
    let process = process.current_dir(folder).env("LD_LIBRARY_PATH", folder);
    let lines = run(process.env("PCCE_VERIFY_REPORT", folder.join("report"))).expect_success().stdout;
    folded(folder, &[program, "--dicts", "."], &lines)
}

/// Decodes the tokens of a text, and folds their contexts. `images` are the program and its libraries in a folder, with
/// options of `pcce filter`.
pub fn folded(folder: &Path, images: &[&str], text: &str) -> String {
    let mut filter = command(artifact("pcce"), &["filter", "--format", "folded"]);
    run_with_input(filter.args(images).current_dir(folder), text).expect_success().stdout
}
