//! Results on disk: one JSON file for each step, so that an interrupted evaluation continues.
//!
//! A file holds the fingerprint of everything that its figures depend on. A step runs again when that changes, and only
//! then.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A short name for the contents of all parts together.
pub fn fingerprint<T: AsRef<[u8]>>(parts: impl IntoIterator<Item = T>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// The fingerprint of a file.
pub fn fingerprint_file(path: &Path) -> Result<String> {
    Ok(fingerprint([fs::read(path).with_context(|| path.display().to_string())?]))
}

#[derive(Serialize, Deserialize)]
struct Stored<T> {
    fingerprint: String,
    value: T,
}

#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    pub fn new(folder: PathBuf) -> Self {
        Store { folder }
    }

    fn path(&self, program: &str, variant: &str, step: &str) -> PathBuf {
        self.folder.join(program).join(variant).join(step).with_extension("json")
    }

    /// The stored result of the step, if it has this fingerprint.
    pub fn get<T: DeserializeOwned>(
        &self,
        program: &str,
        variant: &str,
        step: &str,
        fingerprint: &str,
    ) -> Option<T> {
        let bytes = fs::read(self.path(program, variant, step)).ok()?;
        let stored: Stored<T> = serde_json::from_slice(&bytes).ok()?;
        (stored.fingerprint == fingerprint).then_some(stored.value)
    }

    /// Stores the result of the step.
    pub fn put<T: Serialize>(
        &self,
        program: &str,
        variant: &str,
        step: &str,
        fingerprint: &str,
        value: &T,
    ) -> Result<()> {
        let path = self.path(program, variant, step);
        fs::create_dir_all(path.parent().expect("has a parent"))?;
        let stored = Stored { fingerprint: fingerprint.to_owned(), value };
        // Atomically.
        let partial = path.with_extension("partial");
        fs::write(&partial, serde_json::to_vec_pretty(&stored)?)?;
        fs::rename(&partial, &path).with_context(|| path.display().to_string())?;
        Ok(())
    }

    /// The stored result of the step, or else that of `run`, which is stored.
    ///
    /// # Errors
    /// The errors of `run`, or if the result cannot be written.
    pub fn step<T: Serialize + DeserializeOwned>(
        &self,
        program: &str,
        variant: &str,
        step: &str,
        fingerprint: &str,
        run: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(value) = self.get(program, variant, step, fingerprint) {
            return Ok(value);
        }
        let value = run()?;
        self.put(program, variant, step, fingerprint, &value)?;
        Ok(value)
    }
}
