//! The report of an evaluation, as tables and as JSON.

mod measured;
mod several_runs;
mod tables;
mod traces;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

pub use self::measured::{Measured, line};
use self::traces::is_of_traces;
use super::capture_cost::{DepthCost, Point};
use super::charts::Chart;
use super::declarations::{Program, Variant};
use super::decode_speed::DecodeRate;
use super::papers::Papers;

/// The comparison of ways to capture.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CaptureResults {
    /// Descriptions of the ways, by name.
    pub notes: BTreeMap<String, String>,
    /// One capture.
    pub by_depth: Vec<DepthCost>,
    pub curves: Vec<(String, Vec<Point>)>,
}

/// The width of prose.
const COLUMNS: usize = 110;

/// The method, for the head of the report.
const HOW: &str = "\
Programs are Debian's source packages, built with the same flags in each variant and run on generated
inputs; `testsuite/evaluation` declares them. Each variant prints what its baseline prints. Ratios are
variant to baseline. User times are medians of interleaved pairs, with the interval that holds the true
median with 95 % confidence. The shortest runs are compared beside them, since disturbances only add.
Instructions and counts are callgrind's, of a smaller workload. A push and its pop are one push, and two id
updates where they store the id, too. Code is all machine code, the runtime library's included; the column
behind it is without that. Memory is the peak of the largest process; build is the user time of compiling and
linking. Contexts are compared in verify mode, at every function entry of the whole workload.
";

#[derive(Clone, Debug)]
pub struct Report {
    /// The variants, in the order in which they were named.
    pub variants: Vec<Variant>,
    programs: Vec<(Program, BTreeMap<String, Measured>)>,
    pub captures: CaptureResults,
    pub decode: Option<DecodeRate>,
    /// Programs that failed, and how.
    pub failures: Vec<(String, String)>,
}

impl Report {
    /// The empty report of an evaluation in these variants.
    pub fn new(variants: Vec<Variant>) -> Report {
        let (programs, captures, failures) = (Vec::new(), CaptureResults::default(), Vec::new());
        Report { variants, programs, captures, decode: None, failures }
    }

    /// Adds the figures of a program, by variant, and its capture curves.
    pub fn add(&mut self, program: &Program, measured: BTreeMap<String, Measured>, points: Vec<Point>) {
        if !points.is_empty() {
            self.captures.curves.push((program.name.clone(), points));
        }
        self.programs.push((program.clone(), measured));
    }

    /// The figures of all programs in a variant.
    pub fn of<'a>(&'a self, variant: &'a Variant) -> impl Iterator<Item = (&'a Program, &'a Measured)> {
        self.programs.iter().filter_map(|(p, m)| Some((p, m.get(&variant.name)?)))
    }

    /// The figures of a program in a variant.
    fn found(&self, program: &str, variant: &Variant) -> Option<&Measured> {
        self.programs.iter().find(|(known, _)| known.name == program)?.1.get(&variant.name)
    }

    /// As Markdown, with links to the charts. `origin` describes the origins of the figures.
    pub fn markdown(&self, origin: &str, papers: &Papers, charts: &[Chart]) -> String {
        let mut out = format!("# Evaluation\n\n{origin}\n{HOW}");
        for variant in self.variants.iter().filter(|variant| !is_of_traces(variant)) {
            let _ = write!(
                out,
                "\n## Costs of `{}`: {}\n\nFlags: `{}`, against `{}`.\n\n",
                variant.name,
                variant.note,
                variant.flags,
                variant.baseline.as_deref().unwrap_or_default()
            );
            self.costs(variant, &mut out);
            self.further(variant, &mut out);
            self.frames(variant, &mut out);
            self.hybrid(variant, &mut out);
        }
        if let Some(variant) = self.variants.iter().find(|variant| !is_of_traces(variant)) {
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
        out = wrapped(&out);
        for (program, failure) in &self.failures {
            let _ = write!(out, "\n{program} failed:\n\n```text\n{failure}\n```\n");
        }
        out
    }
}

/// The text with lines of at most [`COLUMNS`], except for rows and titles.
pub(crate) fn wrapped(text: &str) -> String {
    let options = textwrap::Options::new(COLUMNS).break_words(false);
    let lines = text.lines().map(|line| match line {
        row if row.starts_with(['|', '#']) => row.to_owned() + "\n",
        item if item.starts_with("- ") => {
            textwrap::fill(item, options.clone().subsequent_indent("  ")) + "\n"
        }
        line => textwrap::fill(line, &options) + "\n",
    });
    lines.collect()
}
