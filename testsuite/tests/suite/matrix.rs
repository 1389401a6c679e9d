//! Some of the cases of `make matrix`: each attribute, and some flags with one program.

use std::sync::Mutex;

use pcce_testsuite::matrix::{Case, Counts, Mode, cases};
use pcce_testsuite::turns::all_cases;
use pcce_testsuite::work_folder;
use rayon::iter::{IndexedParallelIterator as _, IntoParallelRefIterator as _, ParallelIterator as _};

/// Checks cases: each in all modes, or the nth in the nth mode.
fn check(name: &str, cases: &[Case], all_modes: bool) -> Counts {
    let work = work_folder(&format!("matrix/{name}"));
    let all = Mutex::new((Counts::default(), Vec::new()));
    cases.par_iter().enumerate().for_each(|(i, case)| {
        let modes = if all_modes { &Mode::ALL[..] } else { &Mode::ALL[i % 4..][..1] };
        let result = case.check(modes, &work.join(i.to_string()));
        let mut all = all.lock().expect("nobody has panicked");
        match result {
            Ok(counts) => all.0 += counts,
            Err(text) => all.1.push(text),
        }
    });
    let (counts, wrong) = all.into_inner().expect("nobody has panicked");
    println!("{name}: {counts:?}");
    assert!(wrong.is_empty(), "in {}\n{}", work.display(), wrong.join("\n"));
    // With more lost points a case would show little.
    assert!(counts.lost * 10 <= counts.points, "{counts:?}");
    assert!(counts.whole * 10 >= counts.points * 9, "{counts:?}");
    counts
}

#[test]
fn attributes_of_functions() {
    let cases: Vec<Case> = cases(1).into_iter().filter(Case::is_of_attributes).collect();
    let counts = check("attributes", &cases, true);
    assert_eq!(counts.builds, 8);
}

#[test]
fn some_flags() {
    // Each program and each level is among the sets of flags.
    let known = cases(1).into_iter().filter(|case| !case.is_of_attributes() && !case.is_listed());
    let counts = check("flags", &known.step_by(if all_cases() { 11 } else { 23 }).collect::<Vec<_>>(), false);
    assert!(counts.builds >= 7 && counts.points > 700, "{counts:?}");
}

#[test]
fn passes_of_llvm_behind_the_pass() {
    let behind = ["-hot-cold-split", "-enable-merge-functions"];
    let known = cases(1).into_iter().filter(|case| behind.iter().any(|flag| case.flags.contains(flag)));
    let counts = check("behind", &known.collect::<Vec<_>>(), all_cases());
    assert!(counts.builds == if all_cases() { 21 } else { 6 } && counts.points > 400, "{counts:?}");
}
