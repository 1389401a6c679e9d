//! What was measured, as tables and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;

use super::build::Built;
use super::callgrind::Counts;
use super::measure::Times;
use super::program::{Program, Variant};
use super::statistics::{Median, geometric_mean, median};
use super::verify::Verified;

/// Everything measured of one program in one variant.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The baseline's build, and the variant's.
    pub built: (Built, Built),
    /// Interleaved runs.
    pub times: Option<Times>,
    /// The baseline's dynamic counts, and the variant's.
    pub counts: Option<(Counts, Counts)>,
    /// Verify mode.
    pub verified: Option<Verified>,
}

impl Measured {
    /// Builds, of which nothing is known yet.
    #[must_use]
    pub fn new(baseline: Built, variant: Built) -> Measured {
        Measured { built: (baseline, variant), times: None, counts: None, verified: None }
    }

    /// User time, variant to baseline.
    #[must_use]
    pub fn time_ratio(&self) -> Option<Median> {
        let pairs = &self.times.as_ref()?.pairs;
        median(&pairs.iter().map(|(base, with)| with.user / base.user).collect::<Vec<_>>())
    }

    /// The shortest run of the variant to the shortest of the baseline: disturbances only add.
    #[must_use]
    pub fn best_time_ratio(&self) -> Option<f64> {
        let pairs = &self.times.as_ref()?.pairs;
        let best = |times: &mut dyn Iterator<Item = f64>| times.min_by(f64::total_cmp);
        Some(best(&mut pairs.iter().map(|p| p.1.user))? / best(&mut pairs.iter().map(|p| p.0.user))?)
    }

    /// Peak memory, variant to baseline.
    #[must_use]
    pub fn memory_ratio(&self) -> Option<f64> {
        let pairs = &self.times.as_ref()?.pairs;
        let ratios: Vec<f64> =
            pairs.iter().map(|(base, with)| with.peak_memory as f64 / base.peak_memory as f64).collect();
        Some(median(&ratios)?.median)
    }

    /// Instructions, variant to baseline.
    #[must_use]
    pub fn instruction_ratio(&self) -> Option<f64> {
        let (base, with) = self.counts.as_ref()?;
        Some(with.instructions as f64 / base.instructions as f64)
    }

    /// Machine code, variant to baseline.
    #[must_use]
    pub fn code_ratio(&self) -> f64 {
        self.built.1.code_size as f64 / self.built.0.code_size as f64
    }

    /// User time of the build, variant to baseline.
    #[must_use]
    pub fn build_ratio(&self) -> f64 {
        self.built.1.usage.user / self.built.0.usage.user
    }

    /// Stores to the id for each executed direct call.
    #[must_use]
    pub fn updates_per_direct_call(&self) -> Option<f64> {
        let counts = &self.counts.as_ref()?.1;
        Some(counts.id_updates as f64 / counts.direct_calls as f64)
    }

    /// So many of `what`, for each thousand calls of any kind.
    fn per_thousand_calls(&self, what: impl Fn(&Counts) -> u64) -> Option<f64> {
        let counts = &self.counts.as_ref()?.1;
        Some(1000.0 * what(counts) as f64 / counts.calls() as f64)
    }
}

/// A line for a terminal.
#[must_use]
pub fn line(program: &str, variant: &str, measured: &Measured) -> String {
    let mut text = format!("{program} {variant}:");
    if let Some(ratio) = measured.instruction_ratio() {
        let _ = write!(text, " instructions {ratio:.4}");
    }
    if let Some(Median { median, interval: (low, high), .. }) = measured.time_ratio() {
        let best = measured.best_time_ratio().unwrap_or(f64::NAN);
        let _ = write!(text, " time {median:.3} ({low:.3} to {high:.3}, best {best:.3})");
    }
    if let (Some(updates), Some(pushes)) =
        (measured.per_thousand_calls(|c| c.id_updates), measured.per_thousand_calls(|c| c.pushes))
    {
        let _ = write!(text, " updates {updates:.0}‰ pushes {pushes:.0}‰");
    }
    let _ = write!(text, " code {:.3} build {:.3}", measured.code_ratio(), measured.build_ratio());
    if let Some(verified) = &measured.verified {
        let _ = write!(text, " verified {} ({} wrong)", verified.compared, verified.mismatches);
    }
    text
}

/// The results of an evaluation.
#[derive(Clone, Debug)]
pub struct Report {
    machine: String,
    variants: Vec<Variant>,
    pairs: usize,
    programs: Vec<(Program, BTreeMap<String, Measured>)>,
    /// Programs that failed, and how.
    pub failures: Vec<(String, String)>,
}

impl Report {
    /// Of an evaluation on this machine.
    #[must_use]
    pub fn new(machine: String, variants: Vec<Variant>, pairs: usize) -> Report {
        Report { machine, variants, pairs, programs: Vec::new(), failures: Vec::new() }
    }

    /// Adds what was measured of a program, by variant.
    pub fn add(&mut self, program: &Program, measured: BTreeMap<String, Measured>) {
        self.programs.push((program.clone(), measured));
    }

    fn of<'a>(&'a self, variant: &'a Variant) -> impl Iterator<Item = (&'a Program, &'a Measured)> {
        self.programs.iter().filter_map(|(p, m)| Some((p, m.get(&variant.name)?)))
    }

    /// As Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = format!("# Evaluation\n\n{}\n", self.machine);
        for variant in &self.variants {
            let _ = write!(
                out,
                "\n## `{}`: {}\n\nFlags: `{}`, against `{}`.\n\n",
                variant.name,
                variant.note,
                variant.flags,
                variant.baseline.as_deref().unwrap_or_default()
            );
            self.costs(variant, &mut out);
        }
        for (program, failure) in &self.failures {
            let _ = write!(out, "\n{program} failed:\n\n```text\n{failure}\n```\n");
        }
        out
    }

    fn costs(&self, variant: &Variant, out: &mut String) {
        *out += "| program | user time (95 % interval) | shortest run | instructions | calls (millions): direct / indirect / library | id updates per 1000 calls | per direct call | pushes per 1000 calls | code | memory | build | contexts compared | wrong |\n";
        *out += "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
        for (program, m) in self.of(variant) {
            let time = m
                .time_ratio()
                .map(|t| format!("{:.3} ({:.3} to {:.3})", t.median, t.interval.0, t.interval.1));
            let calls = m.counts.as_ref().map(|(_, c)| {
                let millions = |n: u64| format!("{:.2}", n as f64 / 1e6);
                let each = [c.direct_calls, c.indirect_calls, c.library_calls].map(millions);
                each.join(" / ")
            });
            let cells = [
                program.name.clone(),
                time.unwrap_or_default(),
                number(m.best_time_ratio(), 3),
                number(m.instruction_ratio(), 4),
                calls.unwrap_or_default(),
                number(m.per_thousand_calls(|c| c.id_updates), 0),
                number(m.updates_per_direct_call(), 2),
                number(m.per_thousand_calls(|c| c.pushes), 1),
                number(Some(m.code_ratio()), 3),
                number(m.memory_ratio(), 3),
                number(Some(m.build_ratio()), 3),
                m.verified.as_ref().map(|v| v.compared.to_string()).unwrap_or_default(),
                m.verified.as_ref().map(|v| v.mismatches.to_string()).unwrap_or_default(),
            ];
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        let mean = |of: &dyn Fn(&Measured) -> Option<f64>| {
            geometric_mean(self.of(variant).filter_map(|(_, m)| of(m)))
        };
        let compared: u64 = self.of(variant).filter_map(|(_, m)| Some(m.verified.as_ref()?.compared)).sum();
        let wrong: u64 = self.of(variant).filter_map(|(_, m)| Some(m.verified.as_ref()?.mismatches)).sum();
        let cells = [
            "**geometric mean**, sum".to_owned(),
            number(mean(&|m| Some(m.time_ratio()?.median)), 4),
            number(mean(&Measured::best_time_ratio), 4),
            number(mean(&Measured::instruction_ratio), 4),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            number(mean(&|m| Some(m.code_ratio())), 3),
            number(mean(&Measured::memory_ratio), 3),
            number(mean(&|m| Some(m.build_ratio())), 3),
            compared.to_string(),
            wrong.to_string(),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
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
                        });
                        (name.clone(), value)
                    })
                    .collect();
                json!({ "name": program.name, "package": program.package, "variants": variants })
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
            "failures": self.failures,
        })
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map(|v| format!("{v:.digits$}")).unwrap_or_default()
}
