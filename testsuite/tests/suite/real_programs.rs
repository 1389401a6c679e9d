//! Real programs in link mode and one of the other modes, with verify mode on every function entry: the output is that
//! of the plain build, and every context matches. Configure scripts run with the wrappers, too. The programs that take
//! longest to build are built in the other mode, and at their own level, only with the variable for all cases.

use std::ffi::OsString;
use std::fs;

use pcce_testsuite::evaluation::build::Workshop;
use pcce_testsuite::evaluation::declarations::{Program, Variant};
use pcce_testsuite::evaluation::workload::Runner;
use pcce_testsuite::evaluation::{inputs, verify};
use pcce_testsuite::{target, turns};

/// Checks a program in link mode at -O1; with the variable for all cases in another mode, too, and as its build says.
fn check_long(name: &str, mode: &str) -> anyhow::Result<()> {
    match turns::all_cases() {
        true => check(name, mode),
        false => check_in(name, &["link"], " -O1"),
    }
}

fn check(name: &str, mode: &str) -> anyhow::Result<()> {
    check_in(name, &["link", mode], "")
}

fn check_in(name: &str, modes: &[&str], flags: &str) -> anyhow::Result<()> {
    let root = target().join("real");
    let program = Program::named(name)?;
    let workshop = Workshop::new(root.clone())?;
    let inputs = inputs::folder(&root)?;
    let mut expected = None;
    for variant in ["plain"].iter().chain(modes) {
        let mut variant = Variant::named(variant, &target().join("release"))?;
        variant.flags += flags;
        let sources = workshop.sources(&program, &variant)?;
        let instrumented = variant.baseline.is_some();
        let built = workshop.build(&program, &sources, &variant, instrumented)?;
        let scratch = root.join("scratch").join(name);
        let report = scratch.with_extension("report");
        let _ = fs::remove_file(&report);
        let runner = Runner {
            program: &program,
            executable: &built.executable,
            inputs: &inputs,
            sources: &sources,
            scratch,
            records: false,
            through: "",
            environment: vec![("PCCE_VERIFY_REPORT".into(), OsString::from(&report))],
        };
        let printed = runner.printed(&program.workload.small)?;
        let expected = expected.get_or_insert_with(|| printed.clone());
        assert_eq!(
            printed, *expected,
            "{name} ({}) prints something else than the plain build",
            variant.name
        );
        if instrumented {
            let verified = verify::read_report(&fs::read_to_string(&report)?)?;
            assert_eq!(verified.mismatches, 0, "{name} ({})", variant.name);
            assert!(verified.compared > 1000, "{name} ({}): {verified:?}", variant.name);
            eprintln!("{name} ({}): {verified:?}", variant.name);
        }
    }
    Ok(())
}

#[test]
fn bzip2() -> anyhow::Result<()> {
    check("bzip2", "lto")
}

#[test]
fn lua() -> anyhow::Result<()> {
    check("lua", "module")
}

#[test]
fn sqlite3() -> anyhow::Result<()> {
    check_long("sqlite3", "lto")
}

#[test]
fn minisat() -> anyhow::Result<()> {
    check("minisat", "module")
}

#[test]
fn xz() -> anyhow::Result<()> {
    check_long("xz", "module")
}

#[test]
fn gzip() -> anyhow::Result<()> {
    check_long("gzip", "lto")
}
