//! Contexts at any instruction of AArch64: the programs of `stepping/` in the emulator.
//! `points/every_instruction.rs` steps through them on this machine.

use std::path::Path;

use pcce_testsuite::runner::{AARCH64, step};
use pcce_testsuite::turns::{all_cases, in_turn};
use pcce_testsuite::{artifact, command, include, run, work_folder};

use crate::points::every_instruction::compare_output;

const PIE: &str = "-DSTEP_BIAS=(unsigned long)&__executable_start";

#[test]
fn points_are_what_an_unwinder_finds() {
    let signed = "-mbranch-protection=standard";
    for (name, source, flags) in in_turn(
        0,
        [
            ("link", "mixed.c", &["-O2"][..]),
            ("module", "switches.c", &["-O2", "--pcce-mode=module"]),
            ("link-switches", "switches.c", &["-O1"]),
            ("lto-O0", "mixed.c", &["-O0", "--pcce-mode=lto"]),
            ("thrown-signed", "thrown.cpp", &["-O2", signed]),
            ("switches-O0", "switches.c", &["-O0", "-fomit-frame-pointer"]),
            ("switches-Os", "switches.c", &["-Os", "--pcce-mode=lto", signed]),
            ("hybrid", "mixed.c", &["-O2", "--pcce-hybrid"]),
        ],
    ) {
        let program = work_folder("aarch64-stepping").join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("stepping").join(source);
        let is_cxx = source.extension().is_some_and(|extension| extension == "cpp");
        // A point takes ten milliseconds, most of them in the handler, which the emulator translates anew. Nearly all
        // instructions of a throw are libgcc's, whose unwinder does not know itself everywhere.
        let (every, limit) = match (is_cxx, all_cases()) {
            (false, false) => ([200, 17], 10_000),
            (false, true) => ([60, 5], 30_000),
            (true, false) => ([300, 2], 25_000),
            (true, true) => ([100, 1], 60_000),
        };
        let compiler = artifact(if is_cxx { "pcce-clang++" } else { "pcce-clang" });
        let (target, include) = (AARCH64.flag(), include("runtime-lib/include"));
        let own =
            ["-g", "-Wall", "-fPIE", "-pie", "-fno-optimize-sibling-calls", &target, &include, PIE, "-o"];
        run(command(compiler, &[flags, &own].concat()).arg(&program).arg(source)).expect_success();
        let output =
            step(&AARCH64, &program, every, limit).unwrap_or_else(|error| panic!("{name}: {error:#}"));
        // Where the unwinder knows no caller, as in linkers' stubs, the caller of the instruction before would count.
        let lines = output.lines().filter(|line| line.split(' ').count() > 3);
        let output: String = lines.map(|line| format!("{line}\n")).collect();
        let counts = compare_output(name, &output, &program, &program, &["main"], false);
        assert!(counts.points > 120, "{name}: only {} points", counts.points);
        // Compilers merge the ends of cases that have added different values: for an instruction or two, a register has
        // the id, and nothing tells which case it was.
        assert!(counts.unknown * 50 < counts.points, "{name}: {} of {}", counts.unknown, counts.points);
    }
}
