//! All figures so far: `docs/evaluation.json`, from which `docs/evaluation.md` is written.
//!
//! An evaluation replaces its own figures, and leaves the rest. Each step of a program in a variant says which
//! revision of the project was measured, and on which machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::declarations::{Program, Variant};
use super::decode_speed::DecodeRate;
use super::report::{CaptureResults, Measured, Report};
use crate::repository;

/// The origin of a step's figures.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// The commit that the tools were built from.
    pub revision: String,
    /// Processor, cores, compiler.
    pub machine: String,
}

/// The known figures of a program in a variant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub measured: Measured,
    /// The origins of the figures, by step.
    pub origins: BTreeMap<String, Origin>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Data {
    pub programs: BTreeMap<String, BTreeMap<String, Entry>>,
    /// The comparison of ways to capture.
    pub captures: CaptureResults,
    pub decode: Option<DecodeRate>,
}

impl Data {
    pub fn file() -> PathBuf {
        repository().join("docs/evaluation.json")
    }

    /// The document that is written from it.
    pub fn document() -> PathBuf {
        repository().join("docs/evaluation.md")
    }

    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read(path).with_context(|| path.display().to_string())?;
        serde_json::from_slice(&text).with_context(|| path.display().to_string())
    }

    /// Adds the figures of an evaluation, which replace older ones.
    pub fn add(&mut self, report: &Report, origin: &Origin) {
        for variant in &report.variants {
            for (program, measured) in report.of(variant) {
                let mut measured = measured.clone();
                // Paths are those of one machine.
                for built in [&mut measured.built.0, &mut measured.built.1] {
                    built.executable = PathBuf::new();
                    built.libraries.clear();
                }
                // `further` has the part that is shown.
                if let Some((base, with)) = &mut measured.counts {
                    base.functions.clear();
                    with.functions.clear();
                }
                let variants = self.programs.entry(program.name.clone()).or_default();
                // A name with other tools means another build of the same variant.
                let name = variant.name.split('@').next().unwrap_or_default().to_owned();
                let entry = variants.entry(name).or_insert_with(|| Entry {
                    measured: Measured::new(measured.built.0.clone(), measured.built.1.clone()),
                    origins: BTreeMap::new(),
                });
                for step in entry.measured.replace(measured) {
                    entry.origins.insert(step.to_owned(), origin.clone());
                }
            }
        }
        let CaptureResults { notes, by_depth, curves } = &report.captures;
        if !by_depth.is_empty() {
            self.captures.notes.clone_from(notes);
            self.captures.by_depth.clone_from(by_depth);
        }
        for (program, points) in curves {
            self.captures.curves.retain(|(known, _)| known != program);
            self.captures.curves.push((program.clone(), points.clone()));
        }
        self.captures.curves.sort_by(|a, b| a.0.cmp(&b.0));
        if report.decode.is_some() {
            self.decode.clone_from(&report.decode);
        }
    }

    /// The text of the file: a line for each variant of a program, so that a change of one is a change of one line.
    pub fn json(&self) -> Result<String> {
        let mut out = "{\n\"programs\": {".to_owned();
        for (i, (program, variants)) in self.programs.iter().enumerate() {
            let _ = write!(out, "{}\n{}: {{", if i == 0 { "" } else { "," }, serde_json::to_string(program)?);
            for (i, (variant, entry)) in variants.iter().enumerate() {
                let comma = if i == 0 { "" } else { "," };
                let (name, entry) = (serde_json::to_string(variant)?, serde_json::to_string(entry)?);
                let _ = write!(out, "{comma}\n{name}: {entry}");
            }
            out += "\n}";
        }
        let (captures, decode) =
            (serde_json::to_string(&self.captures)?, serde_json::to_string(&self.decode)?);
        let _ = writeln!(out, "\n}},\n\"captures\": {captures},\n\"decode\": {decode}\n}}");
        Ok(out)
    }

    /// Everything, as a report.
    pub fn report(&self) -> Result<Report> {
        let mut variants = Vec::new();
        for name in Variant::all_names()? {
            if self.programs.values().any(|of| of.contains_key(&name)) {
                variants.push(Variant::named(&name, &repository())?);
            }
        }
        // The first variant is the one whose graphs are shown.
        variants.sort_by_key(|variant| variant.name != "lto");
        let mut report = Report::new(variants);
        for program in Program::all()? {
            let Some(entries) = self.programs.get(&program.name) else { continue };
            let measured =
                entries.iter().map(|(name, entry)| (name.clone(), entry.measured.clone())).collect();
            let curves = self.captures.curves.iter().find(|(name, _)| *name == program.name);
            report.add(&program, measured, curves.map(|(_, points)| points.clone()).unwrap_or_default());
        }
        report.captures.notes.clone_from(&self.captures.notes);
        report.captures.by_depth.clone_from(&self.captures.by_depth);
        report.decode.clone_from(&self.decode);
        Ok(report)
    }

    /// The origins of all figures: a list for the head of the document.
    pub fn origins(&self) -> String {
        let mut found: BTreeMap<&Origin, BTreeMap<(&str, &str), Vec<&str>>> = BTreeMap::new();
        for (program, variants) in &self.programs {
            for (variant, entry) in variants {
                for (step, origin) in &entry.origins {
                    let of_origin = found.entry(origin).or_default();
                    of_origin.entry((variant, step)).or_default().push(program);
                }
            }
        }
        let mut out = "What stands beside these figures is in [the notes](evaluation-notes.md).\n".to_owned();
        for (origin, steps) in found {
            let _ = writeln!(out, "\nRevision {}, on {}:\n", origin.revision, origin.machine);
            for ((variant, step), programs) in steps {
                let _ = writeln!(out, "- `{variant}`, {step}: {}", programs.join(", "));
            }
        }
        out
    }
}
