//! Some dozen generated programs of each generator. `make soak` checks more.

use pcce_testsuite::generated::{Builds, Generator, Verdict, check};
use pcce_testsuite::{target, turns};
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

/// Two of three modes in verify mode. With the variable for all cases, each mode with and without it.
fn builds() -> Builds {
    if turns::all_cases() { Builds::All } else { Builds::Turns }
}

/// Checks the programs of the seeds from 1 on: `all` of them with the variable for all cases, or the first `some`. At
/// most a third may be without a comparison: some of csmith's programs do not end.
fn check_first(generator: Generator, some: u64, all: u64) {
    let last = if turns::all_cases() { all } else { some };
    let seeds: Vec<u64> = (1..=last).collect();
    let least = if generator == Generator::Csmith { seeds.len() * 2 / 3 } else { seeds.len() };
    check_seeds(generator, seeds, least);
}

fn check_seeds(generator: Generator, seeds: Vec<u64>, least: usize) {
    let builds = builds();
    let verdicts: Vec<Verdict> = seeds
        .into_par_iter()
        .map(|seed| {
            let name = format!("{}-{seed}", generator.name());
            let verdict = check(generator, seed, builds, &target().join("testsuite/generated").join(&name));
            if let Verdict::Different(text) = &verdict {
                eprintln!("{name}: {text}");
            }
            verdict
        })
        .collect();
    assert!(!verdicts.iter().any(|v| matches!(v, Verdict::Different(_))), "programs differ; see above");
    let same = verdicts.iter().filter(|v| matches!(v, Verdict::Same { compared: 1.., .. })).count();
    assert!(same >= least, "only {same} programs could be compared");
}

#[test]
fn csmith() {
    check_first(Generator::Csmith, 12, 36);
}

#[test]
fn cxx() {
    check_first(Generator::Cxx, 6, 24);
}

#[test]
fn outside() {
    check_first(Generator::Outside, 3, 12);
}

/// Programs that have shown faults: chunks that begin in landing pads, functions in link mode whose module is not known
/// by their calls, and exceptions of types that are not caught.
#[test]
fn cxx_that_differed() {
    check_seeds(Generator::Cxx, vec![52016, 52155, 52870], 3);
}

/// Programs whose landing pads were entered behind copies that LLVM 19 had put in front of them.
#[test]
fn outside_that_differed() {
    check_seeds(Generator::Outside, vec![9008, 9029], 2);
}
