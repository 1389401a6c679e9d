//! Programs of `programs/` for AArch64, in an emulator of processes. Their contexts are decoded on this machine, and
//! the traces of their calls are read here.

mod cmake;
mod cores;
mod debugger;
mod layout;
mod stepping;
mod tools;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pcce_testsuite::generated::{Builds, Generator, Verdict, check};
use pcce_testsuite::runner::{AARCH64, check_emulated, command_on};
use pcce_testsuite::turns::all_cases;
use pcce_testsuite::{
    Output, artifact, command, include, json_lines, llvm, repository, run, target, work_folder,
};
use serde_json::Value;

use crate::trace::switches::pieces_of;

/// One test for each program, so that they run side by side and fail apart.
macro_rules! programs {
    ($($(#[$attribute:meta])* $name:ident . $extension:ident),* $(,)?) => {
        $(#[test]
        $(#[$attribute])*
        fn $name() {
            let file = concat!("programs/", stringify!($name), ".", stringify!($extension));
            check_emulated(&Path::new(env!("CARGO_MANIFEST_DIR")).join(file), &AARCH64);
        })*
    };
}

programs! {
    acyclic.c,
    #[ignore]
    allocating.cpp,
    #[ignore]
    arguments.c,
    assembly.c,
    #[ignore]
    attributes.c,
    #[ignore]
    both_modes.c,
    #[ignore]
    by_value.c,
    callbacks.c,
    #[ignore]
    catching.cpp,
    #[ignore]
    coverage.c,
    coroutines.cpp,
    creation.c,
    #[ignore]
    coroutines_deep.cpp,
    #[ignore]
    deep.c,
    definitions.c,
    diverted.cpp,
    exceptions.cpp,
    fibers.c,
    #[ignore]
    fibers_unannounced.c,
    fibers_unwinding.cpp,
    forced.cpp,
    handled.c,
    #[ignore]
    handlers_reset.c,
    #[ignore]
    handlers.cpp,
    #[ignore]
    hooks.c,
    #[ignore]
    hooks_inlined.c,
    #[ignore]
    interposed.c,
    #[ignore]
    foreign_catch.cpp,
    #[ignore]
    joined.c,
    #[ignore]
    jump_pending.c,
    jumps.c,
    #[ignore]
    jumps_no_builtin.c,
    #[ignore]
    known.c,
    #[ignore]
    landed.c,
    #[ignore]
    leaf.c,
    #[ignore]
    left.c,
    #[ignore]
    left_apart.c,
    left_library.c,
    #[ignore]
    leaving.cpp,
    #[ignore]
    leaving_c.c,
    library.c,
    #[ignore]
    library_only.c,
    library_plain.c,
    #[ignore]
    logging.c,
    #[ignore]
    logging_streams.cpp,
    #[ignore]
    memory.c,
    modules.c,
    musttail.c,
    #[ignore]
    names.c,
    nested_jumps.c,
    #[ignore]
    noreturn.c,
    numbers.c,
    #[ignore]
    numbers_inlined.c,
    #[ignore]
    numbers_unrolled.c,
    #[ignore]
    objects.cpp,
    offsets.c,
    #[ignore]
    offsets_varying.c,
    #[ignore]
    operators.cpp,
    #[ignore]
    pointers.c,
    #[ignore]
    processes.c,
    recursion.c,
    relative.c,
    replaced.c,
    #[ignore]
    replaced_tail.c,
    runtime_calls.c,
    #[ignore]
    same_name.c,
    signals.c,
    #[ignore]
    startup.cpp,
    #[ignore]
    streams.c,
    #[ignore]
    strings.cpp,
    #[ignore]
    streams_library.c,
    #[ignore]
    table_only.c,
    tailcalls.c,
    #[ignore]
    targets_library.c,
    tasks.c,
    #[ignore]
    tasks_pool.cpp,
    templates.cpp,
    #[ignore]
    thread_end.c,
    thread_exit.cpp,
    #[ignore]
    thread_other.c,
    #[ignore]
    thread_starters.c,
    #[ignore]
    thread_stress.cpp,
    #[ignore]
    thin.cpp,
    #[ignore]
    thread_local.cpp,
    threads.cpp,
    #[ignore]
    throwers.cpp,
    #[ignore]
    thunks.c,
    #[ignore]
    threads_creation.cpp,
    #[ignore]
    traps.c,
    virtuals.cpp,
    wide_numbers.c,
}

/// Generated programs, with samples of their processor time: points at which signals strike. With the variable for all
/// cases, some dozen of each generator.
#[test]
fn generated() {
    let few = [(Generator::Csmith, 3..=3), (Generator::Cxx, 1..=1), (Generator::Outside, 2..=2)];
    let mut different = Vec::new();
    for (generator, few) in few {
        for seed in if all_cases() { 1..=24 } else { few } {
            let name = format!("generated-aarch64/{}-{seed}", generator.name());
            let verdict = check(generator, seed, Builds::Emulated, &target().join("testsuite").join(&name));
            // Some of csmith's programs do not end.
            let is_same = matches!(verdict, Verdict::Same { compared: 1.., .. })
                || generator == Generator::Csmith && verdict == Verdict::Skipped;
            different.extend((!is_same).then(|| format!("{name}: {verdict:?}")));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

const MODES: [&str; 3] = ["lto", "module", "link"];

/// A program that writes traces of its calls in verify mode, in a folder of its own.
struct Traced {
    folder: PathBuf,
}

impl Traced {
    fn new(name: &str) -> Self {
        Self { folder: work_folder(&format!("traces-aarch64/{name}")) }
    }

    /// Builds the program, or a library of it, from a source in `testsuite`.
    fn build(&self, source: &str, flags: &[&str], output: &str) {
        let compiler = if source.ends_with(".cpp") { "pcce-clang++" } else { "pcce-clang" };
        let fixed = ["--pcce-trace", "--pcce-verify", "-g", "-pthread", &AARCH64.flag()];
        let mut build = command(artifact(compiler), &fixed);
        build
            .args(flags)
            .arg(include("runtime-lib/include"))
            .arg(repository().join("testsuite").join(source));
        run(build.arg("-o").arg(self.folder.join(output))).expect_success();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts the program with a new trace.
    fn start(&self, words: &[&str], variables: &[(&str, &str)]) -> Command {
        let (trace, report) = (self.path("trace"), self.path("report"));
        let _ = fs::remove_file(&trace);
        let mut all: Vec<(&str, OsString)> =
            vec![("PCCE_TRACE", trace.into()), ("PCCE_VERIFY_REPORT", report.into())];
        all.extend(variables.iter().map(|&(name, value)| (name, value.into())));
        let mut start = command_on(Some(&AARCH64), &self.path("program"), &all);
        start.args(words).current_dir(&self.folder);
        start
    }

    fn run(&self, words: &[&str], variables: &[(&str, &str)]) -> Output {
        run(&mut self.start(words, variables)).expect_success()
    }

    fn pcce_trace(&self, words: &[&str]) -> Output {
        let mut pcce = command(artifact("pcce"), &["trace"]);
        run(pcce.args(words).args(["program", "trace"]).current_dir(&self.folder))
    }

    /// Compares the trace with the counts of verify mode, also from the beginnings of its chunks. Returns the number of
    /// events, and of chunks from whose beginnings it was read.
    fn check(&self, what: &str) -> [u64; 2] {
        let checked = self.pcce_trace(&["check", "--format", "json"]);
        let counts = json_lines(&checked.stdout).swap_remove(0);
        let (streams, chunks) = (&counts["streams"], &counts["chunks"]);
        for wrong in [&streams["mismatches"], &chunks["mismatches"]] {
            assert_eq!(*wrong, 0, "{what}: {} {}", checked.stdout, checked.describe());
        }
        [streams, chunks].map(|counts| counts["events"].as_u64().unwrap_or(0))
    }
}

/// Recursion, callbacks, exceptions, `longjmp`, tail calls, threads: every event, in its order. Chunks begin at many
/// places, and are read from there.
#[test]
fn traces_have_every_event() {
    const PROGRAMS: [(&str, &str); 10] = [
        ("callbacks.c", "lto"),
        ("exceptions.cpp", "module"),
        ("threads.cpp", "link"),
        ("acyclic.c", "link"),
        ("jumps.c", "link"),
        ("musttail.c", "module"),
        ("nested_jumps.c", "lto"),
        ("pointers.c", "module"),
        ("recursion.c", "link"),
        ("virtuals.cpp", "lto"),
    ];
    let (mut all, mut from_chunks) = (0, 0);
    for (name, own_mode) in PROGRAMS.into_iter().take(if all_cases() { PROGRAMS.len() } else { 3 }) {
        for mode in MODES.into_iter().filter(|mode| all_cases() || *mode == own_mode) {
            for (level, further) in [
                ("-O2", &[][..]),
                ("-O0", &["--pcce-trace=blocks"]),
                ("-O1", &["-mbranch-protection=standard"]),
                ("-O3", &["--pcce-trace=blocks", "-mbranch-protection=standard"]),
            ]
            .into_iter()
            .take(if all_cases() { 4 } else { 1 })
            {
                let what = format!("{name} {mode} {level}");
                let traced = Traced::new(name);
                let mode = format!("--pcce-mode={mode}");
                let flags = [&[&*mode, level], further].concat();
                traced.build(&format!("programs/{name}"), &flags, "program");
                for stress in ["0", "1"] {
                    traced.run(&[], &[("PCCE_TRACE_STRESS", stress)]);
                    let [events, chunks] = traced.check(&what);
                    assert!(events > 50, "{what}: {events} events");
                    (all, from_chunks) = (all + events, from_chunks + chunks);
                }
            }
        }
    }
    assert!(all > 10_000 && from_chunks > 5_000, "{all} events, {from_chunks} from chunks");
}

/// Calls between images, and a library's functions that other code enters.
#[test]
fn traces_have_the_calls_of_libraries() {
    for mode in MODES.into_iter().filter(|mode| all_cases() || *mode == "link") {
        let traced = Traced::new("relative.c");
        let mode = format!("--pcce-mode={mode}");
        let library = ["-shared", "-fPIC", "-O2", &mode];
        traced.build("programs/parts/relative_library.c", &library, "librelative_library.so");
        let search = format!("-L{}", traced.folder.display());
        let linked = ["-O2", &mode, &search, "-lrelative_library", "-rdynamic", "-Wl,-rpath,$ORIGIN"];
        traced.build("programs/relative.c", &linked, "program");
        traced.run(&[], &[]);
        let [events, _] = traced.check(&mode);
        assert!(events > 50, "{mode}: {events} events");
    }
}

/// A signal stops recording, and the next one starts it again, in all threads: what is recorded are pieces of the whole
/// trace.
#[test]
#[ignore]
fn a_signal_switches_traces() {
    let pieces = |traced: &Traced| pieces_of(&traced.pcce_trace(&["show", "--format", "json"]).stdout);
    let mut begun = 0;
    let cases = [("link", "-O2"), ("lto", "-O1"), ("module", "-O0")];
    for (mode, level) in cases.into_iter().take(if all_cases() { 3 } else { 1 }) {
        let traced = Traced::new("switched.c");
        traced.build("traces/switched.c", &[level, &format!("--pcce-mode={mode}")], "program");
        traced.run(&["0"], &[]);
        let threads = pieces(&traced);
        // Microseconds.
        traced.run(&["3000"], &[("PCCE_TRACE_SIGNAL", "14")]);
        for piece in pieces(&traced) {
            assert!(threads.iter().any(|thread| thread.contains(&piece)), "{mode} {level}: {piece}");
            begun += 1;
        }
        traced.check(mode);
    }
    assert!(begun > 5, "{begun}");
}

/// All registers are kept where emitted code calls the tracer, those of scalable vectors, too.
#[test]
fn the_tracer_keeps_all_registers() {
    let traced = Traced::new("registers");
    let source = repository().join("testsuite/src/machine/aarch64/registers.c");
    let mut clang = command(llvm("clang"), &[&AARCH64.flag(), "-O2", "-Wall", "-Werror", "-pthread", "-o"]);
    clang.arg(traced.path("program")).arg(source);
    clang.args(["libpcce_trace.a", "libpcce_rt.a"].map(|name| AARCH64.artifact(name)));
    run(&mut clang).expect_success();
    for (processor, kind) in [("cortex-a57", "neon"), ("max", "sve"), ("max,sve256=off", "sve")] {
        let mut start = traced.start(&[], &[("PCCE_TRACE_STRESS", "5")]);
        let output = run(start.env("QEMU_CPU", processor)).expect_success();
        assert_eq!(output.stdout, format!("20000 calls, {kind}\n"), "{processor}");
    }
}

/// Values that are in vector registers between calls that write bits.
#[test]
#[ignore]
fn traces_change_no_values() {
    for mode in MODES {
        let traced = Traced::new("floating.c");
        let mut plain = command(llvm("clang"), &[&AARCH64.flag(), "-O2", "-ffp-contract=off", "-o"]);
        plain.arg(traced.path("program")).arg(repository().join("testsuite/traces/floating.c"));
        run(&mut plain).expect_success();
        let expected = traced.run(&[], &[]).stdout;
        for flags in [&[][..], &["-march=armv8.2-a+sve"]] {
            let of_mode = format!("--pcce-mode={mode}");
            let flags = [&["-O2", "-ffp-contract=off", &*of_mode], flags].concat();
            traced.build("traces/floating.c", &flags, "program");
            let output = traced.run(&[], &[("PCCE_TRACE_STRESS", "1")]);
            assert_eq!(output.stdout, expected, "{mode}");
            traced.check(mode);
        }
    }
}

/// A handler forks at any instruction, also of the tracer. The parent's trace stays exact. A child's has what the child
/// did except for some calls next to that place, or says that it does not know.
#[test]
#[ignore]
fn traces_of_children_that_handlers_fork() {
    for mode in MODES {
        let traced = Traced::new("timed.c");
        traced.build("traces/timed.c", &["-O1", &format!("--pcce-mode={mode}")], "program");
        // A shorter time is over when a handler returns, so that all of them would interrupt the same place.
        let output = traced.run(&["25", "3000"], &[]);
        let numbers = |line: &str| line.split(' ').map(|n| n.parse().expect("a number")).collect();
        let made: Vec<Vec<i64>> = output.stdout.lines().map(numbers).collect();
        assert_eq!(made.len(), 26, "{mode}: {}", output.describe());
        let events = json_lines(&traced.pcce_trace(&["show", "--format", "json"]).stdout);
        let parent = events[0]["process"].as_i64().expect("a number");
        let mut known = 0;
        for made in &made {
            let own = |event: &&Value| event["process"] == made[0] && event["level"] == 0;
            let own: Vec<&Value> = events.iter().filter(own).collect();
            let is_known = own.iter().all(|event| event["kind"] != "gap");
            assert!(is_known || made[0] != parent, "{mode}: the parent");
            let most = if made[0] == parent { 0 } else { 12 };
            for (name, made) in ["one", "two", "compare"].into_iter().zip(&made[1..]).filter(|_| is_known) {
                let is_call = |event: &&&Value| {
                    event["function"] == name && (event["kind"] == "call" || event["kind"] == "entered")
                };
                let recorded = own.iter().filter(is_call).count() as i64;
                assert!(made.abs_diff(recorded) <= most, "{mode} {name}: {recorded}, not {made}");
            }
            known += usize::from(is_known);
        }
        assert!(known > 12, "{mode}: {known} children are known");
        traced.check(mode);
    }
}
