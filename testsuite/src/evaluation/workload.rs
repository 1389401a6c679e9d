//! Runs of workloads: in an empty folder, with their output, time and memory.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::build::script;
use super::declarations::{Program, workloads};
use crate::own_program;

/// The usage of a command and its children.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// User time in seconds.
    pub user: f64,
    /// Time in the kernel in seconds.
    pub system: f64,
    /// Time on the clock in seconds.
    pub elapsed: f64,
    /// Peak resident memory of the largest process, in bytes.
    pub peak_memory: u64,
}

/// The output of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Printed {
    /// Bytes on standard output.
    pub bytes: u64,
    pub sha256: String,
}

/// The environment of a program's runs: the executable, and the values of its workload's variables.
#[derive(Clone, Debug)]
pub struct Runner<'a> {
    pub program: &'a Program,
    /// The executable, or a script that runs it.
    pub executable: &'a Path,
    pub inputs: &'a Path,
    pub sources: &'a Path,
    /// A folder that is emptied for each run.
    pub scratch: PathBuf,
    /// True if it records a trace of calls.
    pub records: bool,
    /// The start of its command line ([`Variant`](super::declarations::Variant)).
    pub through: &'a str,
    pub environment: Vec<(String, OsString)>,
}

impl Runner<'_> {
    /// The folder in which a run leaves its traces of calls, one of each process that it starts.
    pub fn traces(&self) -> PathBuf {
        self.scratch.join("traces")
    }

    /// Runs the commands with their output in a file. Returns the usage, and that file.
    ///
    /// # Errors
    /// If they fail, with the end of what they wrote to standard error.
    pub fn run(&self, commands: &str) -> Result<(Usage, PathBuf)> {
        let _ = fs::remove_dir_all(&self.scratch);
        let folder = self.scratch.join("folder");
        fs::create_dir_all(&folder)?;
        let output = self.scratch.join("output");
        let errors = self.scratch.join("errors");
        let mut executable = self.executable.to_owned();
        if !self.through.is_empty() {
            executable = self.scratch.join("through");
            let text = format!("#!/bin/sh\nexec {} '{}' \"$@\"\n", self.through, self.executable.display());
            script(&executable, &text)?;
        }
        let mut environment: Vec<(String, OsString)> = vec![
            ("EXE".into(), executable.into()),
            ("INPUTS".into(), self.inputs.into()),
            ("WORKLOADS".into(), workloads().into()),
            ("SOURCES".into(), self.sources.into()),
            ("TZ".into(), "UTC".into()),
        ];
        if self.records {
            fs::create_dir_all(self.traces())?;
            environment.push(("PCCE_TRACE".into(), self.traces().join("%p").into()));
            environment.push(("TRACES".into(), self.traces().into()));
        }
        environment.extend(self.environment.iter().cloned());
        let shell = Shell { commands, folder: &folder, environment, output: &output, errors: &errors };
        let usage = shell
            .run()
            .with_context(|| format!("running {} ({})", self.program.name, self.executable.display()))?;
        Ok((usage, output))
    }

    /// Runs the commands and returns a summary of their output.
    pub fn printed(&self, commands: &str) -> Result<Printed> {
        let (_, output) = self.run(commands)?;
        let mut file = File::open(&output)?;
        let mut hash = Sha256::new();
        let mut bytes = 0;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let n = io::Read::read(&mut file, &mut buffer)?;
            if n == 0 {
                break;
            }
            bytes += n as u64;
            hash.update(&buffer[..n]);
        }
        if bytes == 0 {
            bail!("the workload of {} prints nothing, so nothing can be checked", self.program.name);
        }
        let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Printed { bytes, sha256 })
    }
}

/// Shell commands, and their environment.
#[derive(Clone, Debug)]
pub struct Shell<'a> {
    /// The commands; the first that fails ends them.
    pub commands: &'a str,
    /// The folder they start in.
    pub folder: &'a Path,
    pub environment: Vec<(String, OsString)>,
    /// The file for standard output.
    pub output: &'a Path,
    /// The file for standard error. It may be the same; the measurements are put beside it.
    pub errors: &'a Path,
}

impl Shell<'_> {
    /// Runs the commands.
    ///
    /// # Errors
    /// If one fails, with the end of what was written to standard error.
    pub fn run(&self) -> Result<Usage> {
        let usage = self.errors.with_extension("usage");
        let create = |path| File::options().create(true).append(true).open(path);
        for file in [self.output, self.errors, &usage] {
            let _ = fs::remove_file(file);
        }
        let status = Command::new(own_program("measured"))
            .arg(&usage)
            .args(["sh", "-ec", self.commands])
            // A variable that was set for another purpose must not change the result.
            .env_clear()
            .envs(["PATH", "HOME", "TMPDIR"].iter().filter_map(|name| Some((name, env::var_os(name)?))))
            .env("LC_ALL", "C")
            // Each build generates all of its code.
            .env("PCCE_CACHE", "")
            .envs(self.environment.iter().cloned())
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .stdout(create(self.output)?)
            .stderr(create(self.errors)?)
            .status()?;
        if !status.success() {
            let text = String::from_utf8_lossy(&fs::read(self.errors).unwrap_or_default()).into_owned();
            let tail: Vec<&str> = text.lines().rev().take(20).collect();
            bail!("{status}\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        let text = fs::read(&usage).with_context(|| usage.display().to_string())?;
        Ok(serde_json::from_slice(&text)?)
    }
}
