//! Numbers of verify mode, decoded after the end of the program and compared with its shadow stack.
//!
//! A program in verify mode compares the number of every function entry with that of the first entry with the same
//! shadow stack. Here each of these first entries is decoded (`pcce verified`), so all numbers are checked.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use super::build::Built;
use crate::{checked, command, files};

/// The results of all processes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Decoded {
    pub contexts: u64,
    /// Contexts of silent functions, in which no number is taken.
    pub silent: u64,
    /// Contexts that were decoded and compared.
    pub decoded: u64,
    pub calls: u64,
    /// Contexts in which calls are missing, as a boundary says.
    pub partly: u64,
    /// Bytes of the file of numbers.
    pub bytes: u64,
}

/// If the file is larger, every tenth context is decoded.
const LARGE: u64 = 1 << 28;

/// The files that the processes of a workload write.
pub struct Numbers {
    folder: PathBuf,
    numbers: PathBuf,
}

impl Numbers {
    /// Makes room for them beside `scratch`.
    pub fn new(scratch: &Path) -> Result<Self> {
        let folder = scratch.with_extension("contexts");
        let numbers = scratch.with_extension("numbers");
        let _ = fs::remove_dir_all(&folder);
        let _ = fs::remove_file(&numbers);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self { folder, numbers })
    }

    pub fn environment(&self) -> [(String, OsString); 2] {
        let contexts = self.folder.join("%p");
        [
            ("PCCE_VERIFY_CONTEXTS".into(), contexts.into()),
            ("PCCE_NUMBERS".into(), self.numbers.clone().into()),
        ]
    }

    /// Decodes and compares, and removes the files.
    ///
    /// # Errors
    /// If a context differs from that of the shadow stack, with the output of `pcce`.
    pub fn check(&self, pcce: &Path, built: &Built) -> Result<Decoded> {
        let mut all = Decoded { bytes: fs::metadata(&self.numbers)?.len(), ..Decoded::default() };
        for contexts in files(&self.folder)? {
            let step = if fs::metadata(&contexts)?.len() > LARGE { "10" } else { "1" };
            let mut verified = command(pcce, &["verified", "--step", step, "--numbers"]);
            verified.arg(&self.numbers);
            for library in &built.libraries {
                verified.arg("--dict").arg(library);
            }
            let output = verified.arg(&built.executable).arg(&contexts).output();
            let output = checked("pcce verified", output)?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let words = text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
            let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().context(text.clone())?;
            let [contexts, silent, decoded, calls, partly, 0] = numbers[..] else { anyhow::bail!(text) };
            all.contexts += contexts;
            all.silent += silent;
            all.decoded += decoded;
            all.calls += calls;
            all.partly += partly;
        }
        // In small programs no function takes a context: then all functions are silent.
        ensure!(all.decoded + all.silent > 0, "no context was looked at");
        fs::remove_dir_all(&self.folder)?;
        fs::remove_file(&self.numbers)?;
        Ok(all)
    }
}
