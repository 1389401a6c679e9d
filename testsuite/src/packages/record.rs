//! The record of all packages: `docs/packages.json`, and `docs/packages.md`, which is written from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::{Build, Outcome, differences};
use crate::evaluation::report::wrapped;
use crate::repository;

/// All packages by their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Record {
    packages: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Entry {
    /// The number of results of its tests under plain clang.
    results: usize,
    modes: BTreeMap<String, Row>,
}

/// A package in a mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    /// The commit that the tools were built from.
    revision: String,
    /// Processor time of the build in verify mode, relative to plain clang's.
    build: f64,
    /// Results that only one of the builds has.
    different: usize,
    /// Contexts compared in all processes of build and tests.
    contexts: u64,
    mismatches: u64,
    /// Truncated contexts: [`Outcome::cut`].
    #[serde(default, skip_serializing_if = "is_zero")]
    cut: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Record {
    pub fn file() -> PathBuf {
        repository().join("docs/packages.json")
    }

    /// The document that is written from it.
    pub fn document() -> PathBuf {
        repository().join("docs/packages.md")
    }

    /// Reads the record. It is empty if there is no file yet.
    pub fn read() -> Result<Record> {
        let file = Self::file();
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        serde_json::from_str(&text).with_context(|| file.display().to_string())
    }

    /// Writes the record, and its document.
    pub fn write(&self) -> Result<()> {
        fs::write(Self::file(), self.json()?).with_context(|| Self::file().display().to_string())?;
        fs::write(Self::document(), self.markdown()).with_context(|| Self::document().display().to_string())
    }

    /// Adds the outcome of a package in a mode of the wrapper, with tools of this commit.
    pub fn add(&mut self, package: &str, build: Build, revision: &str, plain: &Outcome, outcome: &Outcome) {
        let time = |outcome: &Outcome| outcome.build.user + outcome.build.system;
        let row = Row {
            revision: revision.to_owned(),
            build: (time(outcome) / time(plain) * 100.0).round() / 100.0,
            different: differences(&plain.results, &outcome.results).len(),
            contexts: outcome.verified.compared,
            mismatches: outcome.verified.mismatches,
            cut: outcome.cut,
        };
        let entry = self.packages.entry(package.to_owned()).or_default();
        entry.results = plain.results.len();
        entry.modes.insert(build.name().to_owned(), row);
    }

    /// The text of its file: a line for each package.
    pub fn json(&self) -> Result<String> {
        let mut out = "{".to_owned();
        for (i, (package, entry)) in self.packages.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let _ = write!(out, "{comma}\n\"{package}\": {}", serde_json::to_string(entry)?);
        }
        out += "\n}\n";
        Ok(out)
    }

    pub fn markdown(&self) -> String {
        let rows = || self.packages.values().flat_map(|entry| entry.modes.values());
        let contexts: u64 = rows().map(|row| row.contexts).sum();
        let mismatches: u64 = rows().map(|row| row.mismatches).sum();
        let mut out = format!(
            "# Packages of Debian\n\n\
             Written by `make packages DOCS=1` from `packages.json`. Each package was built by the wrapper in verify \
             mode, and ran its own tests. `testsuite/packages` says how. The table has the contexts that were \
             compared, in all processes of the build and of the tests. Results of the tests are compared with those \
             under plain clang. The build is the processor time of the build in verify mode, to plain clang's. An empty \
             cell was not run.\n\n\
             {} packages, {contexts} contexts, {mismatches} wrong.\n\n\
             | package | results | link | build | lto | build | module | build |\n\
             |---|---|---|---|---|---|---|---|\n",
            self.packages.len()
        );
        for (package, entry) in &self.packages {
            let _ = write!(out, "| {package} | {} |", entry.results);
            for build in [Build::Link, Build::Lto, Build::Module] {
                let _ = match entry.modes.get(build.name()) {
                    None => write!(out, " | |"),
                    Some(row) => write!(out, " {} | {:.2} |", row.cell(), row.build),
                };
            }
            out += "\n";
        }
        if rows().any(|row| row.cut > 0) {
            out += "\nContexts that are cut are not compared: on stacks of fibers, whose beginning nobody knows.\n";
        }
        out += "\nThe tools were built from these commits:\n\n";
        let revisions: BTreeSet<&str> = rows().map(|row| row.revision.as_str()).collect();
        for revision in revisions {
            let of = |(name, entry): (&String, &Entry)| {
                let modes = entry.modes.iter().filter(|(_, row)| row.revision == revision);
                let modes: Vec<&str> = modes.map(|(mode, _)| mode.as_str()).collect();
                (!modes.is_empty()).then(|| format!("{name} ({})", modes.join(" ")))
            };
            let packages: Vec<String> = self.packages.iter().filter_map(of).collect();
            let _ = writeln!(out, "- {revision}: {}", packages.join(", "));
        }
        wrapped(&out)
    }
}

impl Row {
    /// The contexts, and the errors.
    fn cell(&self) -> String {
        let mut cell = self.contexts.to_string();
        if self.mismatches > 0 {
            let _ = write!(cell, ", **{} wrong**", self.mismatches);
        }
        if self.cut > 0 {
            let _ = write!(cell, ", {} cut", self.cut);
        }
        if self.different > 0 {
            let _ = write!(cell, ", **{} results differ**", self.different);
        }
        cell
    }
}
