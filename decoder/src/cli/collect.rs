//! `pcce trace collect`: a program is run several times, each run keeps a part of its trace, and the parts
//! are put together (distributed-program-tracing.txt). The runs leave their files in a folder beside the trace,
//! so the same command can continue after an interruption.

mod engine;
mod folder;
mod run;
mod slurm;

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use indicatif::HumanBytes;
use pcce::style::Style;
use pcce::trace::{Difference, PartFile, PartsError, Programs, What, merge};

use self::folder::{Folder, Plan};
use self::run::Ended;
use super::profile::spare_inputs;
use super::{Status, note};

pub(super) const COLLECT_HELP: &str = "The command is run once for each part, with the same arguments, environment and standard input. The runs must do the
same; if one did not, it is told where, and there is no trace. Addresses are not random in the runs (setarch -R).

Parts that are there are not run again: the same command goes on after an interruption. What the runs leave is in
FILE.parts, and is removed at the end. sbatch and GNU parallel read their own variables (SBATCH_PARTITION, PARALLEL).

Exit status: 0 if the trace is written, 1 if the runs took different ways, 2 otherwise.

Examples:
  pcce trace collect --parts 6 -o app.trace -- ./app input
  pcce trace collect --parts 6 --engine slurm -o app.trace -- ./app input < data
  pcce trace show app app.trace";

/// What `collect` needs.
#[derive(Args)]
pub struct CollectArgs {
    /// How many times the program is run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub parts: u32,
    /// Who runs it
    #[arg(long, value_enum, default_value_t = Engine::Local)]
    pub engine: Engine,
    /// So many runs at a time [default: local, parallel: one for each processor; slurm: as it likes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
    /// Each run begins in an empty folder of its own
    #[arg(long)]
    pub own_folders: bool,
    /// Keep what the runs leave
    #[arg(long)]
    pub keep: bool,
    /// Print what would be run
    #[arg(long)]
    pub dry_run: bool,
    /// The trace to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// The program, built with --pcce-trace, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Who runs the program.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Processes here
    Local,
    /// GNU parallel
    Parallel,
    /// An array of jobs of Slurm; the folder of the trace must be shared with its nodes
    Slurm,
}

/// What `merge` needs.
#[derive(Args)]
pub struct MergeArgs {
    /// The program
    pub program: PathBuf,
    /// The parts, in their order: files that PCCE_TRACE named in runs with PCCE_TRACE_PART=1/N, 2/N and so on
    #[arg(required = true, value_name = "PART")]
    pub parts: Vec<PathBuf>,
    /// The trace to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Runs the parts that are missing, and puts all together.
pub fn collect(args: &CollectArgs) -> anyhow::Result<Status> {
    let plan = Plan::new(args)?;
    let path = folder::beside(&args.output)?;
    if args.dry_run {
        let missing: Vec<u32> = match Folder::existing(&path)? {
            Some(folder) => folder.missing(args.parts),
            None => (1..=args.parts).collect(),
        };
        engine::print(args, &path, &missing)?;
        return Ok(Status::Done);
    }
    let folder = Folder::open(path, plan)?;
    let missing = folder.missing(args.parts);
    if missing.len() < args.parts as usize {
        note(&format!("{} of {} parts are there already", args.parts as usize - missing.len(), args.parts));
    }
    engine::run(args, &folder, &missing)?;
    check_ends(&folder)?;
    let files: Vec<PathBuf> = (1..=args.parts).map(|part| folder.trace(part)).collect();
    let result = put_together(Path::new(&folder.plan.program), &files, &args.output);
    let error = match result {
        Ok(status) => {
            if status == Status::Done {
                copy(&folder.out(1), &mut io::stdout().lock())?;
                copy(&folder.err(1), &mut io::stderr().lock())?;
                if !args.keep {
                    fs::remove_dir_all(&folder.path)
                        .with_context(|| format!("{}: cannot be removed", folder.path.display()))?;
                }
            } else {
                note(&format!(
                    "what the runs left is in {}; delete it to run all again",
                    folder.path.display()
                ));
            }
            return Ok(status);
        }
        Err(error) => error,
    };
    // The next call of the same command runs such a part again.
    match error.downcast_ref() {
        Some(PartsError::Cut { part, .. }) => folder.run_again(*part)?,
        Some(PartsError::NoPart(path)) => {
            let is_it = |part: &u32| folder.trace(*part) == *path;
            if let Some(part) = (1..=args.parts).find(is_it) {
                folder.run_again(part)?;
            }
        }
        _ => {}
    }
    let go_on = format!("the parts are kept in {}; the same command goes on", folder.path.display());
    Err(error.context(go_on))
}

fn copy(path: &Path, to: &mut dyn io::Write) -> anyhow::Result<()> {
    let mut file = fs::File::open(path).with_context(|| path.display().to_string())?;
    io::copy(&mut file, to).context("what the program wrote")?;
    Ok(())
}

/// Runs one part of a collection. Engines start this command.
pub fn collect_part(path: &Path, part: u32) -> anyhow::Result<Status> {
    let folder = Folder::existing(path)?.with_context(|| format!("{}: there is no plan", path.display()))?;
    run::run(&folder, part)?;
    Ok(Status::Done)
}

/// Puts parts together that were run without `collect`.
pub fn merge_parts(args: &MergeArgs) -> anyhow::Result<Status> {
    spare_inputs(&args.output)?;
    put_together(&args.program, &args.parts, &args.output)
}

/// Checks that all runs have ended, and in the same way.
fn check_ends(folder: &Folder) -> anyhow::Result<()> {
    let mut lost = Vec::new();
    let mut ended: Vec<(Ended, Vec<u32>)> = Vec::new();
    for part in 1..=folder.plan.parts {
        match folder.ended(part).filter(|ended| !ended.is_from_outside()) {
            None => {
                folder.forget(part);
                lost.push(part);
            }
            Some(end) => match ended.iter_mut().find(|(other, _)| *other == end) {
                Some((_, parts)) => parts.push(part),
                None => ended.push((end, vec![part])),
            },
        }
    }
    if let Some(&first) = lost.first() {
        bail!(
            "{} no result: lost, cancelled, killed, or not started{}; the same command runs {} again",
            has(&lost),
            folder.say_log(first),
            if lost.len() == 1 { "it" } else { "them" }
        );
    }
    // Such runs must be named before the parts are compared: they lack the events after their end.
    let stopped: Vec<(u32, String)> =
        (1..=folder.plan.parts).filter_map(|part| Some((part, folder.stopped(part)?))).collect();
    if let Some((_, why)) = stopped.first() {
        let parts: Vec<u32> = stopped.iter().map(|&(part, _)| part).collect();
        for &part in &parts {
            folder.run_again(part)?;
        }
        bail!(
            "{} not a whole trace: its run says `{why}`; make room on the disk of {}, and the same command runs {} again",
            has(&parts),
            folder.path.display(),
            if parts.len() == 1 { "it" } else { "them" }
        );
    }
    if let [(one, first), (two, second), ..] = &ended[..] {
        bail!(
            "the runs ended differently: {} {one}, {} {two}{}; delete {} to run all again",
            has(first),
            has(second),
            folder.say_log(second[0]),
            folder.path.display()
        );
    }
    for part in 1..=folder.plan.parts {
        if !folder.trace(part).exists() {
            folder.forget(part);
            bail!(
                "part {part} has recorded nothing: was the program built with --pcce-trace?{}",
                folder.say_log(part)
            );
        }
    }
    if let [(end, _)] = &ended[..]
        && *end != Ended::Status(0)
    {
        note(&format!("each run has {end}"));
    }
    Ok(())
}

fn has(parts: &[u32]) -> String {
    let numbers: Vec<String> = parts.iter().map(u32::to_string).collect();
    match parts {
        [one] => format!("part {one} has"),
        _ => format!("parts {} have", numbers.join(", ")),
    }
}

fn put_together(program: &Path, files: &[PathBuf], to: &Path) -> anyhow::Result<Status> {
    let count = files.len() as u32;
    let open = |(part, path): (u32, &PathBuf)| PartFile::open(path, part, count);
    let parts = (0..).zip(files).map(open).collect::<Result<Vec<_>, _>>()?;
    match merge(&parts, to) {
        Ok(done) => {
            let most = done.kept.iter().max().copied().unwrap_or_default();
            let share = if done.words == 0 { 0.0 } else { 100.0 * most as f64 / done.words as f64 };
            note(&format!(
                "{}: {} of bits from {count} runs; the busiest kept {share:.1} %",
                to.display(),
                HumanBytes(8 * done.words)
            ));
            if done.open > 0 {
                note("the program was ended by a signal: the last of each thread is not in the trace");
            }
            Ok(Status::Done)
        }
        Err(PartsError::Differ(difference)) => {
            report_difference(&difference, &parts, program);
            Ok(Status::Mismatch)
        }
        Err(error) => Err(error.into()),
    }
}

/// Reports the places where runs took different paths.
fn report_difference(difference: &Difference, parts: &[PartFile], program: &Path) {
    let names = difference.groups.iter().map(|group| {
        let numbers: Vec<String> = group.iter().map(u32::to_string).collect();
        format!("{} {}", if group.len() == 1 { "that of part" } else { "those of parts" }, numbers.join(", "))
    });
    let names: Vec<String> = names.collect();
    super::message(&format!("the runs took different ways: {}", names.join("; and ")));
    let traces: Vec<_> = parts.iter().map(|part| &part.file).collect();
    let programs = Programs::load(&traces, program, &[], &[]).unwrap_or_default();
    note(&match difference.what {
        What::Words { sequence, from, to } => format!(
            "{}: chunk {sequence}, between its words {from} and {to}",
            difference.heading(parts, &programs)
        ),
        _ => format!(
            "{}: it begins in some of the runs only, or at different places of them",
            difference.heading(parts, &programs)
        ),
    });
    if let Some(frames) = difference.place(parts, &programs) {
        note(
            "they did the same up to this place, and what they did next, within some hundred events, is not:",
        );
        let style = Style { colour: io::stderr().is_terminal(), ..Style::default() };
        for (number, frame) in frames.iter().enumerate() {
            eprintln!("    #{number:<3}{}", style.line(frame));
        }
    }
}
