//! Compares the code generated from the bitcode in objects with the plain compiler's, for the programs of the
//! evaluation: `make same-code`.
//!
//! Each program is built once, and the commands of its compilers are recorded. Then each module is compared
//! ([`pcce_testsuite::same_code`]) with some sets of flags after its own flags, in turn, so that a program of several
//! modules meets all sets.

use std::collections::BTreeMap;
use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use pcce_testsuite::driver::{Progress, exit};
use pcce_testsuite::evaluation::build::Workshop;
use pcce_testsuite::evaluation::declarations::{Program, Variant};
use pcce_testsuite::same_code::{Compilation, FLAGS, Outcome, compare, sets_of};
use pcce_testsuite::target;
use rayon::prelude::*;

/// Compares the code generated from the bitcode in objects with the plain compiler's.
#[derive(Parser)]
struct Arguments {
    /// Programs of the evaluation, separated by blanks; all in C and C++ without it
    #[arg(long, value_delimiter = ' ')]
    programs: Vec<String>,
    /// With how many of the sets of flags each module is compared
    #[arg(long, default_value_t = 3)]
    sets: usize,
}

fn main() -> ExitCode {
    exit("same_code", run(&Arguments::parse()))
}

/// The numbers of comparisons with a set of flags: the same code, other code, not compiled.
type Counts = BTreeMap<&'static str, [u64; 3]>;

fn run(arguments: &Arguments) -> Result<bool> {
    let root = target().join("same_code");
    let workshop = Workshop::new(root.clone())?;
    let variant = Variant::named("plain-module", &target().join("release"))?;
    let programs: Vec<Program> = match &arguments.programs[..] {
        [] => Program::all()?.into_iter().filter(|program| !program.rust).collect(),
        names => names.iter().map(|name| Program::named(name)).collect::<Result<_>>()?,
    };
    let progress = Progress::new(programs.len(), "programs");
    let mut total = Counts::new();
    for program in &programs {
        progress.say(&format!("{}: building", program.name));
        let sources = workshop.sources(program, &variant)?;
        let commands = workshop.commands(program, &sources, &variant)?;
        let modules: Vec<_> = commands
            .iter()
            .filter_map(|command| Some((command, Compilation::read(&command.words)?)))
            .collect();
        progress.say(&format!("{}: {} modules", program.name, modules.len()));
        let compared: Vec<(&'static str, String, Outcome)> = modules
            .par_iter()
            .enumerate()
            .map(|(number, (command, compilation))| {
                let scratch = root.join("scratch").join(format!("{}-{number}", program.name));
                fs::create_dir_all(&scratch)?;
                let compiler = if command.cxx { "clang++" } else { "clang" };
                let mut found = Vec::new();
                for flags in sets_of(number, arguments.sets)? {
                    let mut words = compilation.words.clone();
                    words.extend(flags.split(' ').map(Into::into));
                    let source = compilation.source.display().to_string();
                    let outcome = compare(compiler, &words, &command.folder, &scratch);
                    found.push((flags, source, outcome.with_context(|| format!("{words:?}"))?));
                }
                fs::remove_dir_all(&scratch)?;
                Ok(found)
            })
            .collect::<Result<Vec<_>>>()?
            .concat();
        let mut counts = [0; 3];
        for (flags, source, outcome) in compared {
            let kind = match &outcome {
                Outcome::Same => 0,
                Outcome::Differs(_) => 1,
                Outcome::NotCompiled => 2,
            };
            counts[kind] += 1;
            total.entry(flags).or_default()[kind] += 1;
            if let Outcome::Differs(what) = outcome {
                println!("{}: {source} {flags}: {what}", program.name);
            }
        }
        let [same, differ, not_compiled] = counts;
        progress.line(&format!(
            "{}: {} modules, {same} comparisons of the same code, {differ} of other code, {not_compiled} not compiled",
            program.name,
            modules.len()
        ));
        progress.done();
        fs::remove_dir_all(root.join("build").join(&program.name))?;
    }
    progress.end();
    let differ: u64 = total.values().map(|counts| counts[1]).sum();
    for (flags, [same, differs, not_compiled]) in &total {
        println!("{flags}: same {same}, other {differs}, not compiled {not_compiled}");
    }
    println!("{} of {} sets of flags, {differ} comparisons of other code", total.len(), FLAGS.len());
    Ok(differ == 0)
}
