//! Random programs, each made from a seed: the instrumented builds must do what the plain build does, and verify mode
//! must find nothing. Every other seed has flags of the matrix ([`matrix::flags_for`]) as well. In verify mode the
//! tokens of the run and samples of its CPU time are compared with the shadow stack ([`verified_captures`]), and
//! programs are traced where they can be, with a check of the trace, and then with functions that are chosen at random
//! ([`chosen_traces`]).
//!
//! The generators: csmith, for C (the output of its programs depends on nearly everything that the compiler can break),
//! and two of this project, for C++: [`cxx`], whose programs take contexts that are known beforehand, and [`outside`],
//! whose calls and exceptions go through code without the pass, in one image or in two.

pub mod cxx;
mod outside;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::runner::{
    AARCH64, Emulated, check_report, command_on, compare_numbers, compile, decode, ordinary_lines,
    show_output_difference, shown_lines,
};
use crate::{
    Output, artifact, chosen_traces, command, llvm, matrix, repository, run, run_within, verified_captures,
};

/// The generator of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generator {
    /// csmith: C.
    Csmith,
    /// [`cxx`]: C++, with known contexts.
    Cxx,
    /// [`outside`]: C++, with code without the pass in between.
    Outside,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Builds {
    /// In each mode, with and without verify mode.
    All,
    /// In each mode, in two of them in verify mode: modes take turns.
    Turns,
    /// In one mode, with a trace and verify mode: modes, and calls or blocks, take turns.
    Traced,
    /// As [`Turns`](Self::Turns), for AArch64 in an emulator, without flags of the matrix.
    Emulated,
}

/// The result for a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same {
        /// Contexts that verify mode compared at function entries.
        compared: u64,
        /// Contexts that the program took, and whose decoded chains were the known ones.
        decoded: u64,
        /// Tokens and interrupted points that were compared with the shadow stack.
        captured: u64,
        /// Calls and returns in traces that verify mode compared.
        events: u64,
    },
    /// The plain build runs too long or crashes, or its output depends on the level of optimisation, as with some
    /// programs of csmith that do not end: there is nothing to compare with.
    Skipped,
    /// The error, with the build that shows it. The program stays in its folder.
    Different(String),
}

const LEVELS: [&str; 5] = ["-O0", "-O1", "-O2", "-Os", "-O3"];
const MODES: [&str; 3] = ["lto", "module", "link"];
/// Samples of CPU time per second, as many as a kernel's ticks allow: in verify mode each is compared with the shadow
/// stack.
const SAMPLES: &str = "10000";

/// Limit of processor time, in seconds, for the plain build. Processor time does not depend on the load of the machine.
const PLAIN_SECONDS: u64 = 1;
/// The limit for the other builds. Verify mode is slow, but a program that takes longer does not end.
const INSTRUMENTED_SECONDS: u64 = 100;
/// Limit for a program that waits for ever.
const WAITING: Duration = Duration::from_secs(600);

impl Builds {
    /// The machine, if it is another than this one.
    fn machine(self) -> Option<&'static Emulated> {
        (self == Self::Emulated).then_some(&AARCH64)
    }

    /// The modes, with whether verify mode is on, and the flag for its trace.
    fn of(self, seed: u64) -> (Vec<(&'static str, bool)>, &'static str) {
        let flag = |calls: bool| if calls { "--pcce-trace" } else { "--pcce-trace=blocks" };
        match self {
            Self::All => {
                let builds = MODES.iter().flat_map(|&mode| [(mode, false), (mode, true)]);
                (builds.collect(), flag(seed.is_multiple_of(2)))
            }
            Self::Turns | Self::Emulated => {
                let builds = MODES.iter().zip(seed..).map(|(&mode, turn)| (mode, !turn.is_multiple_of(3)));
                (builds.collect(), flag(seed.is_multiple_of(2)))
            }
            // Every other seed has further flags, in each mode, and with calls as with blocks.
            Self::Traced => {
                (vec![(MODES[(seed / 2 % 3) as usize], true)], flag((seed / 6).is_multiple_of(2)))
            }
        }
    }
}

struct Sources {
    files: Vec<PathBuf>,
    /// A file that is compiled without the pass in each build.
    plain_file: Option<PathBuf>,
    /// In builds with the pass, the first file and the one without it are a shared library, in a mode of its own.
    has_library: bool,
    flags: Vec<String>,
    /// The contexts of a program that takes some.
    model: Option<cxx::Model>,
}

impl Generator {
    /// The name on command lines and in folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Csmith => "csmith",
            Self::Cxx => "cxx",
            Self::Outside => "outside",
        }
    }

    fn generate(self, seed: u64, folder: &Path) -> Result<Sources, String> {
        let level = LEVELS[(seed % 5) as usize].to_owned();
        let include = |path: PathBuf| format!("-I{}", path.display());
        let write = |(name, text): &(String, String)| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
            Ok(path)
        };
        match self {
            Self::Csmith => {
                let file = folder.join("program.c");
                let mut csmith = command("csmith", &["--concise", "--max-funcs", "8"]);
                csmith.args(["--max-block-depth", "3", "--max-expr-complexity", "5"]);
                csmith.args(["--seed", &seed.to_string(), "--output"]).arg(&file);
                // The generator leaves a file `platform.info` in its folder.
                csmith.current_dir(folder);
                let output = run_within(&mut csmith, "", WAITING)?;
                if output.status != 0 {
                    return Err(output.describe());
                }
                let mut flags = vec![level, "-I/usr/include/csmith".into()];
                // Without inlining, more calls are left to encode.
                if seed / 5 % 2 == 1 {
                    flags.push("-fno-inline".into());
                }
                Ok(Sources { files: vec![file], plain_file: None, has_library: false, flags, model: None })
            }
            Self::Cxx => {
                let program = cxx::generate(seed);
                let files = program.files.iter().map(write).collect::<Result<Vec<_>, String>>()?;
                let plain_file = folder.join(cxx::PLAIN_FILE);
                let compiled = |f: &PathBuf| f.extension().is_some_and(|e| e == "cpp") && *f != plain_file;
                let files = files.into_iter().filter(compiled).collect();
                let flags = vec![
                    level,
                    "-std=c++17".into(),
                    "-pthread".into(),
                    include(repository().join("testsuite/programs")),
                    include(repository().join("runtime-lib/include")),
                ];
                let model = Some(program.model);
                Ok(Sources { files, plain_file: Some(plain_file), has_library: false, flags, model })
            }
            Self::Outside => {
                let files = outside::generate(seed);
                let mut files = files.iter().map(write).collect::<Result<Vec<_>, String>>()?;
                let plain_file = files.pop();
                let flags = vec![level, "-std=c++17".into()];
                Ok(Sources { files, plain_file, has_library: seed % 2 == 1, flags, model: None })
            }
        }
    }
}

/// Generates the program of `seed` in `folder`, which is emptied first, builds it plain and as `builds` says, and
/// compares. The folder stays only where something differs.
pub fn check(generator: Generator, seed: u64, builds: Builds, folder: &Path) -> Verdict {
    let _ = fs::remove_dir_all(folder);
    let made = fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()));
    let verdict = made
        .and_then(|()| compare_builds(generator, seed, builds, folder))
        .unwrap_or_else(Verdict::Different);
    match &verdict {
        Verdict::Different(text) => {
            let _ = fs::write(folder.join("difference.txt"), text);
        }
        _ => {
            let _ = fs::remove_dir_all(folder);
        }
    }
    verdict
}

fn compare_builds(generator: Generator, seed: u64, builds: Builds, folder: &Path) -> Result<Verdict, String> {
    let cxx = generator != Generator::Csmith;
    let mut sources = generator.generate(seed, folder)?;
    let on = builds.machine();
    sources.flags.extend(on.map(Emulated::flag));
    if sources.has_library {
        // Not all flags of the matrix are for libraries.
        sources.flags.push("-fPIC".into());
    } else if on.is_none() {
        sources.flags.extend(matrix::flags_for(seed, cxx));
    }
    let flags = [&sources.flags[..], &["-w".into(), "-g".into()]].concat();
    let plain = folder.join("plain");
    let mut link = Vec::new();
    let plain_compiler = llvm(if cxx { "clang++" } else { "clang" });
    let unit = |file: &PathBuf| -> (PathBuf, &[&str]) { (file.clone(), &[]) };
    let files: Vec<_> = sources.files.iter().map(unit).collect();
    if let Some(file) = &sources.plain_file {
        let object = file.with_extension("o");
        compile(&plain_compiler, &[unit(file)], &[&flags[..], &["-c".into()]].concat(), &[], &object)?;
        link.push(object.display().to_string());
    }
    let archive = on.map_or_else(|| artifact("libpcce_rt.a"), |machine| machine.artifact("libpcce_rt.a"));
    let runtime = [&link[..], &[archive.display().to_string()]].concat();
    compile(&plain_compiler, &files, &flags, &runtime, &plain)?;
    // An emulator is slower.
    let plain_seconds = if on.is_some() { 10 * PLAIN_SECONDS } else { PLAIN_SECONDS };
    let expected = run_for(&plain, on, plain_seconds, false, folder)?;
    if expected.status != 0 {
        return Ok(Verdict::Skipped);
    }
    if generator == Generator::Csmith && flags[0] != "-O0" {
        let unoptimised = folder.join("plain-O0");
        compile(&plain_compiler, &files, &[&flags[..], &["-O0".into()]].concat(), &runtime, &unoptimised)?;
        let output = run_for(&unoptimised, on, 5 * plain_seconds, false, folder)?;
        if (output.status, &output.stdout) != (expected.status, &expected.stdout) {
            return Ok(Verdict::Skipped);
        }
    }
    if let Some(model) = &sources.model {
        let names: Vec<String> = shown_lines(&expected)?.into_iter().map(|s| s.name).collect();
        model.order(&names).map_err(|e| format!("plain: the generator is wrong: {e}"))?;
    }
    let (mut all_compared, mut all_decoded, mut all_captured, mut all_events) = (0, 0, 0, 0);
    let (builds, trace) = builds.of(seed);
    for (i, (mode, verify)) in builds.into_iter().enumerate() {
        let name = format!("{mode}{}", if verify { "-verify" } else { "" });
        let mut flags = [&flags[..], &[format!("--pcce-mode={mode}")]].concat();
        if verify {
            flags.extend(["--pcce-verify".to_owned(), trace.to_owned()]);
        }
        let compiler = artifact(if cxx { "pcce-clang++" } else { "pcce-clang" });
        let executable = folder.join(&name);
        let wrong = |text: String| format!("{name} ({}):\n{text}", sources.flags.join(" "));
        let library = executable.with_extension("so");
        let build = |flags: &[String]| -> Result<(), String> {
            if !sources.has_library {
                return compile(&compiler, &files, flags, &link, &executable);
            }
            let of_library = MODES[(seed as usize / 2 + i) % MODES.len()];
            let further = [format!("--pcce-mode={of_library}"), "-shared".into()];
            compile(&compiler, &files[..1], &[flags, &further].concat(), &link, &library)?;
            let link = [library.display().to_string(), "-rdynamic".into()];
            compile(&compiler, &files[1..], flags, &link, &executable)
        };
        let mut compiled = build(&flags);
        let refused = |text: &String| text.contains("which traces of calls cannot tell");
        let traced = verify && !compiled.as_ref().is_err_and(refused);
        if verify && !traced {
            flags.pop();
            compiled = build(&flags);
        }
        compiled.map_err(wrong)?;
        let output = run_for(&executable, on, INSTRUMENTED_SECONDS, verify, folder).map_err(wrong)?;
        let mut text = String::new();
        if verify {
            all_compared += check_report(&report(&executable), false, &mut text);
            let images = [executable.as_path(), &library];
            // A library of which no function is instrumented has no dictionary.
            let has_dictionary = || {
                let dict = &["dict", &library.display().to_string(), "-o", "/dev/null"];
                run(&mut command(artifact("pcce"), dict)).status == 0
            };
            let two = sources.has_library && has_dictionary();
            let images = if two { &images[..] } else { &images[..1] };
            match verified_captures::compare(images, &verified_captures::file(&executable)) {
                Ok((equal, partly)) => all_captured += equal + partly,
                Err(error) => text.push_str(&error),
            }
        }
        if traced {
            all_events += check_trace(&executable, &mut text);
            if text.is_empty() {
                all_events += check_choices(&executable, on, folder, seed, &mut text);
            }
        }
        if output.status != expected.status || ordinary_lines(&output) != ordinary_lines(&expected) {
            show_output_difference(&output, expected.status, &ordinary_lines(&expected), &mut text);
        }
        if let Some(model) = &sources.model {
            all_decoded += check_contexts(model, &executable, &output, folder, &mut text);
        }
        if !text.is_empty() {
            return Err(wrong(text));
        }
    }
    Ok(Verdict::Same {
        compared: all_compared,
        decoded: all_decoded,
        captured: all_captured,
        events: all_events,
    })
}

fn report(executable: &Path) -> PathBuf {
    executable.with_extension("report")
}

/// The file of its numbers.
fn numbers(executable: &Path) -> PathBuf {
    executable.with_extension("numbers")
}

/// The trace of its calls.
fn trace(executable: &Path) -> PathBuf {
    executable.with_extension("trace")
}

/// Compares a trace with the counts of verify mode. Returns the number of events.
fn check_trace(executable: &Path, wrong: &mut String) -> u64 {
    let mut check = command(artifact("pcce"), &["trace", "check"]);
    let checked = run_within(check.arg(executable).arg(trace(executable)), "", WAITING);
    let output = match checked {
        Ok(output) => output,
        Err(error) => {
            let _ = writeln!(wrong, "{error}");
            return 0;
        }
    };
    // 2: something is missing. Code that is not traced has caught an exception, and it is not known which activation
    // did.
    let all_chunks = [" 0 chunks do not match", ", 0 do not match"];
    let matches = output.stdout.lines().zip(all_chunks).all(|(line, expected)| line.contains(expected));
    if !matches!(output.status, 0 | 2) || output.stdout.is_empty() || !matches {
        let _ = writeln!(wrong, "{}", output.describe());
    }
    output.stdout.split(' ').next().and_then(|events| events.parse().ok()).unwrap_or(0)
}

/// Compares its trace with those of functions that are chosen at random. Returns the number of events.
fn check_choices(
    executable: &Path,
    on: Option<&'static Emulated>,
    folder: &Path,
    seed: u64,
    wrong: &mut String,
) -> u64 {
    // Larger ones are told by the counts of verify mode alone.
    const MAX_SIZE: u64 = 2 << 20;
    let whole = trace(executable);
    if fs::metadata(&whole).is_ok_and(|file| file.len() > MAX_SIZE) {
        return 0;
    }
    let start = || command_for(executable, on, INSTRUMENTED_SECONDS, folder);
    let compared =
        chosen_traces::compare(executable, (&whole, &executable.with_extension("chosen")), start, seed);
    compared.unwrap_or_else(|error| {
        let _ = writeln!(wrong, "{error}");
        0
    })
}

/// Runs a program with a limit of processor time, in seconds; in verify mode with samples.
fn run_for(
    executable: &Path,
    on: Option<&'static Emulated>,
    seconds: u64,
    verify: bool,
    folder: &Path,
) -> Result<Output, String> {
    let mut command = command_for(executable, on, seconds, folder);
    if verify {
        command.env("PCCE_VERIFY_CAPTURES", verified_captures::file(executable));
        command.env("PCCE_SAMPLE", SAMPLES).env("PCCE_SAMPLE_PROFILE", "/dev/null");
    }
    run_within(&mut command, "", WAITING)
}

/// Starts a program with a limit of processor time, in seconds.
fn command_for(executable: &Path, on: Option<&'static Emulated>, seconds: u64, folder: &Path) -> Command {
    let limit = format!("--cpu={seconds}:{}", seconds + 5);
    let mut command = command("prlimit", &[&limit, "--core=0", "--"]);
    let program = command_on(on, executable, &[]);
    command.arg(program.get_program()).args(program.get_args());
    command.current_dir(folder).env("PCCE_VERIFY_REPORT", report(executable));
    command.env("PCCE_NUMBERS", numbers(executable)).env("PCCE_TRACE", trace(executable));
    // Chunks begin at many places, and are read from there.
    command.env("PCCE_TRACE_STRESS", "3");
    command
}

/// Decodes the tokens in the output and compares them with the model. Returns the number of contexts.
fn check_contexts(
    model: &cxx::Model,
    executable: &Path,
    output: &Output,
    folder: &Path,
    wrong: &mut String,
) -> u64 {
    let compare = |wrong: &mut String| -> Result<u64, String> {
        let shown = shown_lines(output)?;
        let names: Vec<String> = shown.iter().map(|s| s.name.clone()).collect();
        let order = model.order(&names)?;
        let decoded = decode(&[executable], &shown, Some(&numbers(executable)))?;
        for ((expected, frames), shown) in order.iter().zip(&decoded.tokens).zip(&shown) {
            if let Err(found) = expected.compare(frames, folder) {
                let _ = writeln!(wrong, "{}:\nexpected {expected}\nfound    {found}", shown.name);
            }
        }
        compare_numbers(&shown, &decoded, wrong);
        Ok(shown.len() as u64)
    };
    compare(wrong).unwrap_or_else(|error| {
        let _ = writeln!(wrong, "{error}");
        0
    })
}
