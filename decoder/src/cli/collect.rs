//! `pcce trace collect`: programs that share a trace are run, and the parts are put together
//! (distributed-program-tracing.txt). The runs leave their files in a folder beside the trace, so the same command can
//! continue after an interruption.

mod engine;
mod folder;
mod proven;
mod run;
mod slurm;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use indicatif::HumanBytes;
use pcce::trace::proven::PartsError as ProvenError;
use pcce::trace::{PartFile, PartsError, Split, merge};

use self::folder::{Folder, Plan};
use self::run::Ended;
use super::profile::spare_inputs;
use super::split::{open_or_make, programs_of};
use super::{Status, note};

pub(super) const COLLECT_HELP: &str = "The program is linked with --pcce-keep. Of it, N programs are made, each of which records a part of its calls
(`pcce trace split`), unless they are there already. Each is run once, with the same arguments, environment and standard
input. The runs must do the same; if one did not, it is told where, and there is no trace. Addresses are not random in
the runs (setarch -R).

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
    /// Run the program itself, in any mode, and prove that the runs did the same: each decides and checks the whole
    /// trace, and writes a part of it
    #[arg(long)]
    pub prove: bool,
    /// Keep what the runs leave
    #[arg(long)]
    pub keep: bool,
    /// Print what would be run
    #[arg(long)]
    pub dry_run: bool,
    /// The trace to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// The program, built with --pcce-trace and linked with --pcce-keep, and its arguments
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
    /// The parts, in their order: files that PCCE_TRACE named in runs of PROGRAM.pcce-part-1-of-N and so on
    #[arg(required = true, value_name = "PART")]
    pub parts: Vec<PathBuf>,
    /// The parts are of runs of PROGRAM itself, with PCCE_TRACE_PART=1/N and so on
    #[arg(long)]
    pub prove: bool,
    /// The trace to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}

/// Runs the parts that are missing, and puts all together.
pub fn collect(args: &CollectArgs) -> anyhow::Result<Status> {
    let chooses = |name: &&&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if let Some(name) = ["PCCE_TRACE_ONLY", "PCCE_TRACE_SKIP"].iter().find(chooses).filter(|_| !args.prove) {
        bail!("{name} is set: functions can be chosen with --prove only");
    }
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
    let split = if args.prove { None } else { Some(open_or_make(&plan.program, args.parts)?) };
    let folder = Folder::open(path, plan)?;
    let missing = folder.missing(args.parts);
    if missing.len() < args.parts as usize {
        note(&format!("{} of {} parts are there already", args.parts as usize - missing.len(), args.parts));
    }
    engine::run(args, &folder, &missing)?;
    check_ends(&folder)?;
    let files: Vec<PathBuf> = (1..=args.parts).map(|part| folder.trace(part)).collect();
    let result = match &split {
        Some(split) => put_together(split, &files, &args.output),
        None => proven::put_together(&folder.plan.program, &files, &args.output),
    };
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
    let cut = match (error.downcast_ref(), error.downcast_ref()) {
        (Some(PartsError::Cut { part, .. }), _) | (_, Some(ProvenError::Cut { part, .. })) => Some(*part),
        (Some(PartsError::NoPart(path)), _) | (_, Some(ProvenError::NoPart(path))) => {
            (1..=args.parts).find(|part| folder.trace(*part) == *path)
        }
        _ => None,
    };
    cut.map_or(Ok(()), |part| folder.run_again(part))?;
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

/// Becomes the program of a part, under the name of the whole program.
pub fn run_as(own: &Path, name: &Path, arguments: &[OsString]) -> anyhow::Result<Status> {
    Err(run::run_as(own, name, arguments))
}

/// Puts parts together that were run without `collect`.
pub fn merge_parts(args: &MergeArgs) -> anyhow::Result<Status> {
    spare_inputs(&args.output)?;
    if args.prove {
        return proven::put_together(&args.program, &args.parts, &args.output);
    }
    let programs = programs_of(&args.program, args.parts.len() as u32);
    let split = Split::open(&args.program, &programs).context("`pcce trace split` makes these programs")?;
    put_together(&split, &args.parts, &args.output)
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

fn put_together(split: &Split, files: &[PathBuf], to: &Path) -> anyhow::Result<Status> {
    let open = |(number, path): (usize, &PathBuf)| PartFile::open(split, number, path);
    let parts = files.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>()?;
    let error = match merge(split, &parts, to) {
        Ok(done) => {
            let (sum, most) =
                (done.kept.iter().sum::<u64>(), done.kept.iter().max().copied().unwrap_or_default());
            let share = if sum == 0 { 0.0 } else { 100.0 * most as f64 / sum as f64 };
            note(&format!(
                "{}: {} of bits from {} runs; the busiest wrote {share:.1} % of what all wrote",
                to.display(),
                HumanBytes(8 * done.words),
                files.len()
            ));
            if done.open > 0 {
                note("the program was ended by a signal, or without its last calls being written");
            }
            return Ok(Status::Done);
        }
        Err(error) => error,
    };
    let place = match &error {
        PartsError::Differ(difference) => {
            super::message("the runs took different ways");
            note(&format!("{}: it was noticed in this call, or somewhat later:", difference.thread));
            &difference.place
        }
        PartsError::Lost { place, .. } => {
            super::message(&error.to_string());
            place
        }
        _ => return Err(error.into()),
    };
    for (number, frame) in place.iter().enumerate() {
        eprintln!("    #{number:<3}{frame}");
    }
    Ok(Status::Mismatch)
}
