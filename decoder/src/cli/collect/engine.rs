//! The engines that run the parts.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::folder::Folder;
use super::{CollectArgs, Engine, slurm};

/// The time from one look at the progress of the runs to the next.
const POLL: Duration = Duration::from_millis(200);

/// Runs the missing parts. Their results are in the folder.
pub(super) fn run(args: &CollectArgs, folder: &Folder, missing: &[u32]) -> anyhow::Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let progress = ProgressBar::new(missing.len() as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} runs {msg}");
    progress.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    progress.tick();
    let show_progress = |more: &str| {
        let done = missing.iter().filter(|&&part| folder.ended(part).is_some()).count();
        progress.set_position(done as u64);
        progress.set_message(more.to_owned());
    };
    let result = match args.engine {
        Engine::Local => local(folder, missing, jobs(args), &show_progress),
        Engine::Parallel => {
            let mut command = parallel(&folder.path, missing, jobs(args))?;
            let log = folder.path.join("parallel.log");
            let log = File::create(&log).with_context(|| log.display().to_string())?;
            let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn();
            let child = child.context("GNU parallel cannot be run: install the package `parallel`")?;
            wait(child, &show_progress)
        }
        Engine::Slurm => slurm::run(folder, missing, args.jobs, &show_progress),
    };
    progress.finish_and_clear();
    result
}

/// Prints what would be run.
pub(super) fn print(args: &CollectArgs, path: &Path, missing: &[u32]) -> anyhow::Result<()> {
    match args.engine {
        Engine::Local => {
            for &part in missing {
                println!("{}", words(&part_command(path, part)?));
            }
        }
        Engine::Parallel => println!("{}", words(&parallel(path, missing, jobs(args))?)),
        Engine::Slurm => println!("{}", words(&slurm::submit(path, args.parts, missing, args.jobs)?)),
    }
    Ok(())
}

fn jobs(args: &CollectArgs) -> usize {
    args.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), |jobs| jobs as usize)
}

/// The command that runs a part, without the part's number.
pub(super) fn runner(path: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("the path of pcce")?);
    command.args(["trace", "collect-part"]).arg(path);
    Ok(command)
}

fn part_command(path: &Path, part: u32) -> anyhow::Result<Command> {
    let mut command = runner(path)?;
    command.arg(part.to_string());
    Ok(command)
}

fn local(folder: &Folder, missing: &[u32], jobs: usize, show_progress: &dyn Fn(&str)) -> anyhow::Result<()> {
    let waiting = Mutex::new(missing.iter());
    let next = || waiting.lock().ok().and_then(|mut parts| parts.next().copied());
    let run_all = || -> anyhow::Result<()> {
        while let Some(part) = next() {
            let log = folder.log(part);
            let log = File::create(&log).with_context(|| log.display().to_string())?;
            // The folder says how it ended.
            let mut command = part_command(&folder.path, part)?;
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).status()?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.clamp(1, missing.len())).map(|_| scope.spawn(run_all)).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            show_progress("");
            thread::sleep(POLL);
        }
        let mut ended = workers.into_iter().map(|worker| worker.join());
        ended.try_for_each(|ended| ended.unwrap_or_else(|_| bail!("a thread panicked")))
    })
}

fn parallel(path: &Path, missing: &[u32], jobs: usize) -> anyhow::Result<Command> {
    let mut command = Command::new("parallel");
    command.args(["--will-cite", "--halt", "never", "--jobs"]).arg(jobs.to_string());
    let run = runner(path)?;
    command.arg(words(&run)).arg(":::").args(missing.iter().map(u32::to_string));
    Ok(command)
}

/// Waits for an engine's process.
fn wait(mut child: Child, show_progress: &dyn Fn(&str)) -> anyhow::Result<()> {
    while child.try_wait()?.is_none() {
        show_progress("");
        thread::sleep(POLL);
    }
    Ok(())
}

/// A command in the syntax of a shell.
pub(super) fn words(command: &Command) -> String {
    let quoted = |word: &std::ffi::OsStr| {
        let word = word.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let all: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    all.join(" ")
}
