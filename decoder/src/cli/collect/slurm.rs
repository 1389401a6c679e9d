//! Slurm: the parts are an array of jobs.
//!
//! Slurm is asked for the state of the jobs only. The folder says how they ended, so no accounting is needed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::engine::{runner, words};
use super::folder::Folder;
use crate::cli::note;

/// The time from one question to Slurm to the next.
const POLL: Duration = Duration::from_secs(1);
/// How often the folder is looked at after the end of the last job: files may appear late on shared file systems.
const LATE: u32 = 10;
/// How often in a row Slurm may fail to answer.
const SILENT: u32 = 60;

/// The command that submits the parts.
pub(super) fn submit(path: &Path, parts: u32, missing: &[u32], jobs: Option<u32>) -> anyhow::Result<Command> {
    let numbers: Vec<String> = missing.iter().map(u32::to_string).collect();
    let most = jobs.map(|jobs| format!("%{jobs}")).unwrap_or_default();
    let mut command = Command::new("sbatch");
    command.args(["--parsable", "--no-requeue", "--job-name=pcce-trace"]);
    command.arg(format!("--array={}{most}", numbers.join(",")));
    command.arg(format!("--chdir={}", path.display()));
    let width = parts.to_string().len();
    command.arg(format!("--output={}", path.join(format!("part-%{width}a.log")).display()));
    command.arg(format!("--wrap=exec {} \"$SLURM_ARRAY_TASK_ID\"", words(&runner(path)?)));
    Ok(command)
}

/// Submits the parts, and waits for them. If an earlier command's jobs have not ended, waits for those instead.
pub(super) fn run(
    folder: &Folder,
    missing: &[u32],
    jobs: Option<u32>,
    show_progress: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let kept = folder.path.join("slurm-job");
    let earlier = fs::read_to_string(&kept).ok().filter(|job| states(job).is_ok_and(|s| !s.is_empty()));
    let job = match earlier {
        Some(job) => {
            note(&format!("job {job} of an earlier command is there still: waiting for it"));
            job
        }
        None => {
            let mut command = submit(&folder.path, folder.plan.parts, missing, jobs)?;
            let output = command.output().context("sbatch cannot be run: is Slurm installed here?")?;
            if !output.status.success() {
                bail!("sbatch: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
            // With several clusters, a semicolon and the job's cluster follow the number.
            let answer = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            let job = answer.split(';').next().unwrap_or_default().to_owned();
            folder.write("slurm-job", job.as_bytes())?;
            job
        }
    };
    let mut silent = 0;
    loop {
        match states(&job) {
            Ok(states) if states.is_empty() => break,
            Ok(states) => {
                silent = 0;
                show_progress(&format!("(Slurm's job {job}: {})", summary(&states)));
            }
            Err(error) => {
                silent += 1;
                if silent == SILENT {
                    return Err(error.context(format!(
                        "Slurm does not answer; its job {job} may be running yet: the same command waits for it"
                    )));
                }
            }
        }
        thread::sleep(POLL);
    }
    for _ in 0..LATE {
        if missing.iter().all(|&part| folder.ended(part).is_some()) {
            break;
        }
        show_progress("");
        thread::sleep(POLL / 2);
    }
    for &part in missing.iter().filter(|&&part| folder.ended(part).is_none()) {
        let state = final_state(&job, part).unwrap_or_else(|| "not known any more".to_owned());
        note(&format!("part {part}: Slurm's job {job}_{part} is {state} ({})", folder.log(part).display()));
    }
    let _ = fs::remove_file(&kept);
    Ok(())
}

/// The states, and their reasons, of the tasks of a job that have not ended.
fn states(job: &str) -> anyhow::Result<Vec<String>> {
    let output = Command::new("squeue").args(["-h", "-r", "-o", "%T %r", "-j", job]).output();
    let output = output.context("squeue cannot be run")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() && !said.contains("Invalid job id") {
        bail!("squeue: {}", said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// How many tasks are in which state, and why they wait.
fn summary(states: &[String]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for state in states.iter().map(|state| state.trim_end_matches(" None")) {
        match counts.iter_mut().find(|(other, _)| *other == state) {
            Some((_, count)) => *count += 1,
            None => counts.push((state, 1)),
        }
    }
    let counts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    counts.join(", ").to_lowercase()
}

/// How a task ended, as long as Slurm knows it.
fn final_state(job: &str, part: u32) -> Option<String> {
    let task = format!("{job}_{part}");
    let output =
        Command::new("squeue").args(["-h", "-r", "-t", "all", "-o", "%T", "-j", &task]).output().ok()?;
    let state = String::from_utf8_lossy(&output.stdout).trim().to_lowercase();
    (!state.is_empty()).then_some(state)
}
