//! What was measured, as tables and as JSON.

mod measured;
mod parts;
mod tables;
mod traces;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;

pub use self::measured::{Measured, line};
use super::captures::{DepthCost, Point};
use super::charts::Chart;
use super::decode::DecodeRate;
use super::papers::Papers;
use super::program::{Program, Variant};

/// The comparison of ways to capture.
#[derive(Clone, Debug, Default)]
pub struct CaptureResults {
    /// What the ways are, by name.
    pub notes: BTreeMap<String, String>,
    /// One capture.
    pub by_depth: Vec<DepthCost>,
    /// Curves, by program.
    pub curves: Vec<(String, Vec<Point>)>,
}

/// The results of an evaluation.
#[derive(Clone, Debug)]
pub struct Report {
    machine: String,
    /// The variants, in the order in which they were named.
    pub variants: Vec<Variant>,
    pairs: usize,
    programs: Vec<(Program, BTreeMap<String, Measured>)>,
    /// Captures.
    pub captures: CaptureResults,
    /// The decoder's speed.
    pub decode: Option<DecodeRate>,
    /// Programs that failed, and how.
    pub failures: Vec<(String, String)>,
}

impl Report {
    /// Of an evaluation on this machine.
    #[must_use]
    pub fn new(machine: String, variants: Vec<Variant>, pairs: usize) -> Report {
        let (programs, captures, failures) = (Vec::new(), CaptureResults::default(), Vec::new());
        Report { machine, variants, pairs, programs, captures, decode: None, failures }
    }

    /// Adds what was measured of a program, by variant, and its capture curves.
    pub fn add(&mut self, program: &Program, measured: BTreeMap<String, Measured>, points: Vec<Point>) {
        if !points.is_empty() {
            self.captures.curves.push((program.name.clone(), points));
        }
        self.programs.push((program.clone(), measured));
    }

    /// What was measured in a variant, by program.
    pub fn of<'a>(&'a self, variant: &'a Variant) -> impl Iterator<Item = (&'a Program, &'a Measured)> {
        self.programs.iter().filter_map(|(p, m)| Some((p, m.get(&variant.name)?)))
    }

    /// As Markdown, with links to the charts. `command` is what made it.
    #[must_use]
    pub fn markdown(&self, command: &str, papers: &Papers, charts: &[Chart]) -> String {
        let mut out = format!(
            "# Evaluation\n\nMade by `{command}` on: {}.\n\n\
             Programs are Debian's source packages, built with the same flags in each variant and run on generated inputs; \
             `testsuite/evaluation` declares them. Each variant prints what its baseline prints. Ratios are variant to baseline. User \
             times are medians of {} interleaved pairs, with the interval that holds the true median with 95 % confidence; the \
             shortest runs are compared beside them, since disturbances only add. Instructions and counts are callgrind's, of a \
             smaller workload. A push and its pop are one push, and two id updates where they store the id, too. Code is all machine code, the runtime library's \
             included; memory is the peak of the largest process; build is the user time of compiling and linking. Contexts are \
             compared in verify mode, at every function entry of the whole workload.\n",
            self.machine, self.pairs
        );
        for variant in &self.variants {
            let _ = write!(
                out,
                "\n## Costs of `{}`: {}\n\nFlags: `{}`, against `{}`.\n\n",
                variant.name,
                variant.note,
                variant.flags,
                variant.baseline.as_deref().unwrap_or_default()
            );
            self.costs(variant, &mut out);
            self.frames(variant, &mut out);
            self.hybrid(variant, &mut out);
        }
        if let Some(variant) = self.variants.first() {
            self.characteristics(variant, papers, &mut out);
        }
        self.traces(&mut out);
        self.parts(&mut out);
        self.captures(&mut out);
        if let Some(rate) = &self.decode {
            let _ = write!(
                out,
                "\n## Decoding\n\n`pcce decode`, {} contexts of Lua, {} different, {:.1} frames each; millions in a second of user \
                 time:\n\n",
                rate.tokens, rate.distinct, rate.frames_per_token
            );
            for (format, rate) in &rate.per_second {
                let _ = writeln!(out, "- {format}: {:.2}", rate / 1e6);
            }
        }
        if !charts.is_empty() {
            out += "\n## Charts\n";
            for chart in charts {
                let _ = write!(out, "\n![{}](charts/{})\n", chart.title, chart.file);
            }
        }
        for (program, failure) in &self.failures {
            let _ = write!(out, "\n{program} failed:\n\n```text\n{failure}\n```\n");
        }
        out
    }

    /// As JSON, with everything measured.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let programs: Vec<_> = self
            .programs
            .iter()
            .map(|(program, measured)| {
                let variants: serde_json::Map<_, _> = measured
                    .iter()
                    .map(|(name, m)| {
                        let value = json!({
                            "build": m.built,
                            "pairs": m.times.as_ref().map(|t| &t.pairs),
                            "counts": m.counts,
                            "verify": m.verified,
                            "graph": m.graph,
                            "hybrid": m.hybrid,
                            "trace": m.recorded,
                            "parts": m.parts,
                        });
                        (name.clone(), value)
                    })
                    .collect();
                json!({ "name": program.name, "set": program.set.name(), "variants": variants })
            })
            .collect();
        let variants: serde_json::Map<_, _> = self
            .variants
            .iter()
            .map(|v| (v.name.clone(), json!({ "flags": v.flags, "baseline": v.baseline })))
            .collect();
        json!({
            "machine": self.machine,
            "pairs": self.pairs,
            "variants": variants,
            "programs": programs,
            "captures": { "by_depth": self.captures.by_depth, "curves": self.captures.curves },
            "decode": self.decode,
            "failures": self.failures,
        })
    }
}
