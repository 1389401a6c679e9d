//! Runs that differ are never merged where their sameness is proven (`--prove`), and runs that do the same always are,
//! whatever the difference is and wherever it occurs. Of programs that share a trace, one run that differs is found, or
//! the trace is that of the others.
//! The expected result does not come from the tracer: each run leaves a hash of all its calls and returns, recorded by
//! `-finstrument-functions` (`traces/witness.c`). `make parts` makes many collections.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::evaluation::several_runs::streams;
use pcce_testsuite::{Output, artifact, command, llvm, repository, run, run_with_input, work_folder};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// Differences between the runs of a case, some of which occur by chance.
const DIFFERENT: [&str; 13] = [
    "flip", "swap", "longer", "deeper", "seed", "input", "time", "random", "process", "address", "queue",
    "timer", "build",
];
/// Things in runs that do the same.
const SAME: [&str; 13] = [
    "flip", "swap", "longer", "deeper", "seed", "input", "unused", "address", "threads", "signals",
    "children", "exits", "build",
];
/// Attempts until runs differ whose difference occurs by chance.
const ATTEMPTS: u32 = 20;

/// How the runs share the trace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// All run the same program, and their sameness is proven.
    Proven,
    /// Each runs a program of its own.
    Programs,
}

/// The numbers of parts.
const PARTS: std::ops::RangeInclusive<u32> = 2..=7;

/// The program, and another build of it.
struct Builds {
    program: PathBuf,
    other: PathBuf,
    way: Way,
}

impl Builds {
    fn new(folder: &Path, way: Way) -> Self {
        let traces = repository().join("testsuite/traces");
        let witness = folder.join("witness.o");
        let mut compile = command(llvm("clang"), &["-O1", "-c"]);
        run(compile.arg(traces.join("witness.c")).arg("-o").arg(&witness)).expect_success();
        let build = |name: &str, more: &[&str]| {
            let program = folder.join(name);
            let flags = ["--pcce-trace", "-g", "-O1", "-pthread", "-finstrument-functions"];
            let mut build = command(artifact("pcce-clang"), &[&flags, more].concat());
            build.args((way == Way::Programs).then_some("--pcce-keep"));
            build.arg(traces.join("ways.c")).arg(&witness).arg("-o").arg(&program);
            run(&mut build).expect_success();
            for parts in PARTS.filter(|_| way == Way::Programs) {
                let mut split = command(artifact("pcce"), &["trace", "split", "--parts", &parts.to_string()]);
                run(split.arg(&program)).expect_success();
            }
            program
        };
        Self { program: build("ways", &[]), other: build("other", &["-DANOTHER_BUILD"]), way }
    }

    /// The program that a run of this part, or without one a whole run, executes.
    fn of(&self, is_other: bool, part: Option<u32>, parts: u32) -> PathBuf {
        let program = if is_other { &self.other } else { &self.program };
        match part.filter(|_| self.way == Way::Programs) {
            Some(part) => format!("{}.pcce-part-{part}-of-{parts}", program.display()).into(),
            None => program.clone(),
        }
    }
}

/// The runs of one collection.
struct Case<'b> {
    builds: &'b Builds,
    folder: PathBuf,
    kind: &'static str,
    differs: bool,
    parts: u32,
    /// The runs with the other seed, input or build.
    others: Vec<u32>,
    steps: u32,
    place: u32,
    seed: u32,
    value: u64,
    input: String,
    /// The letter of the input that differs in these runs.
    letter: usize,
    /// Words of a chunk, if not the default.
    stress: Option<&'static str>,
    /// Addresses are the same in each run.
    fixed: bool,
}

impl<'b> Case<'b> {
    fn new(
        builds: &'b Builds,
        folder: &Path,
        kind: &'static str,
        differs: bool,
        random: &mut StdRng,
    ) -> Self {
        let parts = random.random_range(PARTS);
        // Some runs differ, one or several, but not all.
        let mut others = vec![random.random_range(1..=parts)];
        let one = random.random::<bool>();
        others.extend((1..=parts).filter(|_| !one && random.random::<bool>()));
        others.sort_unstable();
        others.dedup();
        if others.len() as u32 == parts {
            others.pop();
        }
        let steps: u32 = [0, 500, 20_000, 300_000][random.random_range(0..4)];
        // The first event, the last, or any.
        let place = match random.random_range(0..4) {
            0 => 0,
            1 => steps,
            _ => random.random_range(0..=steps),
        };
        let letters = random.random_range(1..3000);
        let input: String = (0..letters).map(|_| random.random_range('a'..='z')).collect();
        Self {
            builds,
            folder: folder.to_owned(),
            kind,
            differs,
            parts,
            others: if differs { others } else { Vec::new() },
            steps,
            place,
            seed: random.random(),
            value: random.random::<u64>() >> 1,
            letter: random.random_range(0..input.len()),
            input,
            stress: [None, Some("20")][random.random_range(0..2)],
            fixed: kind == "address" && !differs || kind != "address" && random.random(),
        }
    }

    fn describe(&self) -> String {
        format!(
            "{} steps {} place {} seed {} value {}, parts {}, others {:?}, stress {:?}, fixed {}",
            self.kind,
            self.steps,
            self.place,
            self.seed,
            self.value,
            self.parts,
            self.others,
            self.stress,
            self.fixed
        )
    }

    /// Runs one part, or without a part a whole run.
    fn run(&self, part: Option<u32>) {
        let other = part.is_some_and(|part| self.others.contains(&part));
        let program = self.builds.of(other && self.kind == "build", part, self.parts);
        let mut command = match self.fixed {
            true => command("setarch", &[std::env::consts::ARCH, "-R"]),
            false => command("env", &[]),
        };
        // Most kinds of difference use the number of flips of the lowest bit.
        let value = if other { self.value ^ 1 } else { self.value };
        let numbers =
            [self.steps.into(), self.place.into(), self.seed.into(), value].map(|n: u64| n.to_string());
        command.arg(program).arg(self.kind).args(numbers);
        // Names and values have one length: the stack is at the same place in each run.
        command.env("PCCE_TRACE", self.trace(part)).env("WITNESS", self.witness(part));
        let part_of = format!("{}/{}", part.unwrap_or_default(), self.parts);
        if self.builds.way == Way::Programs {
            command.env("WITNESS_NUMBERS", "1");
        }
        let is_part = part.is_some() && self.builds.way == Way::Proven;
        command.env(if is_part { "PCCE_TRACE_PART" } else { "PCCE_TRACE_NONE" }, part_of);
        if let Some(words) = self.stress {
            command.env("PCCE_TRACE_STRESS", words);
        }
        let mut input = self.input.clone();
        if other && self.kind == "input" {
            // The letters go up to y.
            let next = char::from(input.as_bytes()[self.letter] + 1);
            input.replace_range(self.letter..=self.letter, &next.to_string());
        }
        run_with_input(&mut command, if self.kind == "input" { &input } else { "" }).expect_success();
    }

    fn trace(&self, part: Option<u32>) -> PathBuf {
        self.folder.join(format!("trace-{}", part.unwrap_or_default()))
    }

    fn witness(&self, part: Option<u32>) -> PathBuf {
        self.folder.join(format!("witness-{}", part.unwrap_or_default()))
    }

    /// Runs all parts. Returns whether they differ, according to their witnesses.
    fn run_parts(&self) -> bool {
        let _ = fs::remove_dir_all(&self.folder);
        fs::create_dir_all(&self.folder).expect("a folder");
        let mut seen = Vec::new();
        for part in 1..=self.parts {
            self.run(Some(part));
            seen.push(fs::read(self.witness(Some(part))).expect("what it did"));
        }
        assert!(seen[0].len() >= 16 * 17, "{}: nothing was witnessed", self.describe());
        seen.iter().any(|one| *one != seen[0])
    }

    fn merged(&self) -> PathBuf {
        self.folder.join("merged")
    }

    fn merge(&self) -> Output {
        let mut merge = command(artifact("pcce"), &["trace", "merge", "-o"]);
        merge.arg(self.merged()).args((self.builds.way == Way::Proven).then_some("--prove"));
        merge.arg(&self.builds.program);
        run(merge.args((1..=self.parts).map(|part| self.trace(Some(part)))))
    }

    /// Returns whether all runs but one are known to do the same.
    fn is_alone(&self) -> bool {
        const KNOWN: [&str; 7] = ["flip", "swap", "longer", "deeper", "seed", "input", "build"];
        self.others.len() == 1 && self.parts > 2 && KNOWN.contains(&self.kind)
    }

    /// The merged trace and that of a whole run have the same events.
    fn is_whole(&self) -> bool {
        self.run(None);
        let [whole, merged] = [self.trace(None), self.merged()]
            .map(|path| streams(&self.builds.program, &path).expect("a trace"));
        !whole.is_empty() && whole == merged
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Collections of runs that differed, and those of them that were refused, by kind; with programs that share a
    /// trace, also those that were merged into what all other runs did.
    different: BTreeMap<&'static str, (u32, u32)>,
    /// Collections of runs that did the same, and those of them that were merged into what a whole run does.
    same: BTreeMap<&'static str, (u32, u32)>,
    wrong: Vec<String>,
    /// Collections that were to differ by chance, but did the same: these are merged, too.
    by_chance: u32,
}

impl Outcome {
    /// A collection whose runs differ, or do not, according to their witnesses.
    fn add(&mut self, case: &Case<'_>, differs: bool) {
        let answer = case.merge();
        let there = case.merged().exists();
        let messages = [
            "took different ways",
            "has not",
            "are not those of one build",
            "cannot be reported",
            "do not say what it did",
            "has another number of threads",
            "not the trace of that part's program",
        ];
        let right = match differs {
            true if answer.status == 0 && case.builds.way == Way::Programs => {
                there && case.is_alone() && case.is_whole()
            }
            true => {
                answer.status != 0 && !there && messages.iter().any(|words| answer.stderr.contains(words))
            }
            // Names of other lengths move the stack, and with it what depends on its addresses.
            false => {
                let elsewhere = case.builds.way == Way::Programs && case.kind == "address";
                answer.status == 0 && there && (case.differs || elsewhere || case.is_whole())
            }
        };
        let (all, good) =
            if differs { &mut self.different } else { &mut self.same }.entry(case.kind).or_default();
        *all += 1;
        *good += u32::from(right);
        if !right {
            let alone = differs && case.is_alone();
            self.wrong.push(format!(
                "{}: differs: {differs}, alone: {alone}; {}",
                case.describe(),
                answer.describe()
            ));
        }
    }
}

/// So many collections whose runs differ, and as many whose runs do not.
fn campaign(name: &str, way: Way, count: usize, seed: u64) -> Outcome {
    let folder = work_folder(name);
    let builds = Builds::new(&folder, way);
    let mut random = StdRng::seed_from_u64(seed);
    let mut outcome = Outcome::default();
    for number in 0..count {
        let kind = DIFFERENT[number % DIFFERENT.len()];
        for attempt in 0.. {
            let case = Case::new(&builds, &folder.join("case"), kind, true, &mut random);
            // Another build is refused, even if none of its differences was executed.
            if case.run_parts() || kind == "build" {
                outcome.add(&case, true);
                break;
            }
            // A coin may fall on the same side in all runs. Such runs must be merged, except for signals, which may
            // have come between the same two calls at other instructions.
            assert!(attempt < ATTEMPTS, "{kind}: the runs do not differ");
            outcome.by_chance += 1;
            if kind != "timer" {
                let answer = case.merge();
                if answer.status != 0 {
                    outcome.wrong.push(format!(
                        "{}: the same by chance; {}",
                        case.describe(),
                        answer.describe()
                    ));
                }
            }
        }
    }
    for number in 0..count {
        let kind = SAME[number % SAME.len()];
        let case = Case::new(&builds, &folder.join("case"), kind, false, &mut random);
        assert!(!case.run_parts(), "{}: the runs differ", case.describe());
        outcome.add(&case, false);
    }
    outcome
}

fn check(outcome: &Outcome, count: usize) {
    assert!(outcome.wrong.is_empty(), "{:#?}", outcome.wrong);
    let sum = |of: &BTreeMap<&str, (u32, u32)>| of.values().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let count = count as u32;
    assert_eq!((sum(&outcome.different), sum(&outcome.same)), ((count, count), (count, count)));
}

#[test]
fn runs_that_differ_are_refused_and_others_are_not() {
    check(&campaign("trace-ways", Way::Proven, DIFFERENT.len(), 1), DIFFERENT.len());
}

/// Of programs that share a trace, runs that do the same are put together. Where one of several differs, it is refused,
/// or the trace is that of the others. Where several differ, most are refused.
#[test]
fn programs_that_do_the_same_are_put_together() {
    let outcome = campaign("trace-ways-programs", Way::Programs, SAME.len(), 1);
    let wrong: Vec<_> =
        outcome.wrong.iter().filter(|wrong| !wrong.contains("differs: true, alone: false")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let refused: u32 = outcome.different.values().map(|(_, refused)| refused).sum();
    assert!(refused >= DIFFERENT.len() as u32 / 2, "{:?}", outcome.different);
}

#[test]
#[ignore = "takes minutes; `make parts` runs it"]
fn many_runs_that_differ_are_refused_and_others_are_not() {
    let number = |name: &str, or: u64| std::env::var(name).map_or(or, |n| n.parse().expect("a number"));
    let count = number("PCCE_PARTS_RUNS", 200) as usize;
    let seed = number("PCCE_PARTS_SEED", 2);
    let programs = campaign("trace-ways-programs-many", Way::Programs, count, seed);
    println!(
        "programs that share a trace, runs that differ: (collections, refused, or what the others did) {:?}",
        programs.different
    );
    println!("runs that do not: (collections, put together, and what a whole run did) {:?}", programs.same);
    let wrong: Vec<_> =
        programs.wrong.iter().filter(|wrong| !wrong.contains("differs: true, alone: false")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let outcome = campaign("trace-ways-many", Way::Proven, count, seed);
    println!("runs that differ: (collections, refused) {:?}", outcome.different);
    println!("runs that do not: (collections, put together, and what a whole run did) {:?}", outcome.same);
    println!("were to differ, but did the same by chance, and were put together: {}", outcome.by_chance);
    check(&outcome, count);
}
