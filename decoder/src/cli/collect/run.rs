//! The run of one part.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::folder::Folder;
use crate::cli::split::program_of;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ended {
    /// By itself, with this exit status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl Ended {
    fn new(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => Self::Signal(signal),
            None => Self::Status(status.code().unwrap_or(-1)),
        }
    }

    /// Returns whether it was ended from outside: by SIGHUP, SIGINT, SIGKILL, SIGTERM or SIGXCPU.
    pub(super) fn is_from_outside(self) -> bool {
        matches!(self, Self::Signal(1 | 2 | 9 | 15 | 24))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "ended with status {status}"),
            Self::Signal(signal) => write!(f, "been ended by signal {signal}"),
        }
    }
}

/// Runs a part, and records how it ended.
pub(super) fn run(folder: &Folder, part: u32) -> anyhow::Result<()> {
    let plan = &folder.plan;
    if !(1..=plan.parts).contains(&part) {
        bail!("there is no part {part} of {}", plan.parts);
    }
    let lock = folder.path.join(format!("part-{}.lock", folder.number(part)));
    let file = File::create(&lock).with_context(|| lock.display().to_string())?;
    if file.try_lock().is_err() {
        bail!("part {part} is being run by another process");
    }
    folder.forget(part);
    let trace = folder.trace(part);
    if trace.exists() {
        fs::remove_file(&trace).with_context(|| trace.display().to_string())?;
    }
    let create = |path: &std::path::Path| File::create(path).with_context(|| path.display().to_string());
    let own = if plan.prove { plan.program.clone() } else { program_of(&plan.program, part, plan.parts) };
    let mut command = program(&own, &plan.program)?;
    command.args(&plan.arguments).env_clear().envs(plan.environment.iter().cloned());
    command.env("PCCE_TRACE", &trace);
    if plan.prove {
        command.env("PCCE_TRACE_PART", format!("{}/{}", folder.number(part), plan.parts));
    }
    match &plan.folder {
        Some(folder) => command.current_dir(folder),
        None => {
            let own = folder.own(part);
            if own.exists() {
                fs::remove_dir_all(&own).with_context(|| own.display().to_string())?;
            }
            fs::create_dir(&own).with_context(|| own.display().to_string())?;
            command.current_dir(own)
        }
    };
    command.stdout(create(&folder.out(part))?).stderr(create(&folder.err(part))?);
    match folder.input() {
        Some(input) => command.stdin(File::open(&input).with_context(|| input.display().to_string())?),
        None => command.stdin(Stdio::null()),
    };
    let status = command.status().with_context(|| format!("{}: cannot be run", own.display()))?;
    folder.set_ended(part, Ended::new(status))
}

/// The command that runs a program under this name, with the same addresses in each run, if the system allows it.
fn program(own: &Path, name: &Path) -> anyhow::Result<Command> {
    let setarch = || {
        let mut command = Command::new("setarch");
        command.args([std::env::consts::ARCH, "-R"]);
        command
    };
    let works = setarch().arg("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !works {
        let mut command = Command::new(own);
        command.arg0(name);
        return Ok(command);
    }
    let mut command = setarch();
    command.arg(std::env::current_exe().context("the command itself")?);
    command.args(["trace", "run-as"]).args([own, name]);
    Ok(command)
}

/// Becomes a program, under another name. Programs see the name: it must be the same in all runs.
pub(super) fn run_as(own: &Path, name: &Path, arguments: &[OsString]) -> anyhow::Error {
    let error = Command::new(own).arg0(name).args(arguments).exec();
    anyhow::Error::new(error).context(own.display().to_string())
}
