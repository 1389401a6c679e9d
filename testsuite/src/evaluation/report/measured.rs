//! Everything measured of one program in one variant.
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::super::build::Built;
use super::super::call_graph::Graph;
use super::super::callgrind::Counts;
use super::super::further::Further;
use super::super::hybrid::Hybrid;
use super::super::measure::Times;
use super::super::several_runs::Parts;
use super::super::statistics::{Median, median};
use super::super::traces::Recorded;
use super::super::verify::Verified;

/// Everything measured of one program in one variant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The baseline's build, and the variant's.
    pub built: (Built, Built),
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
    /// The baseline's dynamic counts, and the variant's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<(Counts, Counts)>,
    /// The differences between these counts, by function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub further: Option<Further>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Verified>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Graph>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hybrid: Option<Hybrid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Parts>,
}

impl Measured {
    /// Builds without figures.
    pub fn new(baseline: Built, variant: Built) -> Measured {
        let built = (baseline, variant);
        Measured {
            built,
            times: None,
            counts: None,
            further: None,
            verified: None,
            graph: None,
            hybrid: None,
            recorded: None,
            parts: None,
        }
    }

    /// Takes over the figures of `newer`. Returns the names of its steps.
    pub fn replace(&mut self, newer: Self) -> Vec<&'static str> {
        fn replace<T>(
            steps: &mut Vec<&'static str>,
            name: &'static str,
            known: &mut Option<T>,
            newer: Option<T>,
        ) {
            if newer.is_some() {
                *known = newer;
                steps.push(name);
            }
        }
        let mut steps = vec!["build"];
        self.built = newer.built;
        replace(&mut steps, "time", &mut self.times, newer.times);
        if newer.counts.is_some() {
            self.further = newer.further;
        }
        replace(&mut steps, "callgrind", &mut self.counts, newer.counts);
        replace(&mut steps, "verify", &mut self.verified, newer.verified);
        replace(&mut steps, "graph", &mut self.graph, newer.graph);
        replace(&mut steps, "hybrid", &mut self.hybrid, newer.hybrid);
        replace(&mut steps, "trace", &mut self.recorded, newer.recorded);
        replace(&mut steps, "parts", &mut self.parts, newer.parts);
        steps
    }

    /// User time, variant to baseline.
    pub fn time_ratio(&self) -> Option<Median> {
        let pairs = &self.times.as_ref()?.pairs;
        median(&pairs.iter().map(|(base, with)| with.user / base.user).collect::<Vec<_>>())
    }

    /// Processor time (user and system), variant to baseline.
    pub fn processor_time_ratio(&self) -> Option<f64> {
        let pairs = &self.times.as_ref()?.pairs;
        let ratios: Vec<f64> =
            pairs.iter().map(|(base, with)| (with.user + with.system) / (base.user + base.system)).collect();
        Some(median(&ratios)?.median)
    }

    /// The shortest run of the variant to the shortest of the baseline: disturbances only add.
    pub fn best_time_ratio(&self) -> Option<f64> {
        let pairs = &self.times.as_ref()?.pairs;
        let best = |times: &mut dyn Iterator<Item = f64>| times.min_by(f64::total_cmp);
        Some(best(&mut pairs.iter().map(|p| p.1.user))? / best(&mut pairs.iter().map(|p| p.0.user))?)
    }

    /// Peak memory, variant to baseline.
    pub fn memory_ratio(&self) -> Option<f64> {
        let pairs = &self.times.as_ref()?.pairs;
        let ratios: Vec<f64> =
            pairs.iter().map(|(base, with)| with.peak_memory as f64 / base.peak_memory as f64).collect();
        Some(median(&ratios)?.median)
    }

    /// Instructions, variant to baseline.
    pub fn instruction_ratio(&self) -> Option<f64> {
        let (base, with) = self.counts.as_ref()?;
        Some(with.instructions as f64 / base.instructions as f64)
    }

    /// Machine code, variant to baseline.
    pub fn code_ratio(&self) -> f64 {
        self.built.1.code_size as f64 / self.built.0.code_size as f64
    }

    /// Machine code without the runtime library's, variant to baseline. `None` if it was not counted separately.
    pub fn own_code_ratio(&self) -> Option<f64> {
        let (base, with) = &self.built;
        let own = with.code_size - with.runtime_size;
        (with.runtime_size > 0).then(|| own as f64 / base.code_size as f64)
    }

    /// User time of the build, variant to baseline.
    pub fn build_ratio(&self) -> f64 {
        self.built.1.usage.user / self.built.0.usage.user
    }

    /// Stores to the id for each executed direct call.
    pub fn updates_per_direct_call(&self) -> Option<f64> {
        let counts = &self.counts.as_ref()?.1;
        Some(counts.id_updates as f64 / counts.direct_calls as f64)
    }

    /// User time of a run of the baseline, in seconds.
    pub fn seconds(&self) -> Option<f64> {
        let pairs = &self.times.as_ref()?.pairs;
        Some(median(&pairs.iter().map(|p| p.0.user).collect::<Vec<_>>())?.median)
    }

    /// Entries of the program's functions in a second of the baseline's user time.
    pub fn entries_per_second(&self) -> Option<f64> {
        Some(self.verified.as_ref()?.compared as f64 / self.seconds()?)
    }

    /// Pushes in a second of the baseline's user time, assuming that the whole workload pushes as often for each call
    /// as the small one.
    pub fn pushes_per_second(&self) -> Option<f64> {
        let counts = &self.counts.as_ref()?.1;
        let calls = counts.direct_calls + counts.indirect_calls;
        Some(self.entries_per_second()? * counts.pushes as f64 / calls as f64)
    }

    /// Executions of `what` for each thousand calls of any kind.
    pub(super) fn per_thousand_calls(&self, what: impl Fn(&Counts) -> u64) -> Option<f64> {
        let counts = &self.counts.as_ref()?.1;
        Some(1000.0 * what(counts) as f64 / counts.calls() as f64)
    }
}

/// A line for a terminal.
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
    let _ = write!(text, " code {:.3}", measured.code_ratio());
    if let Some(own) = measured.own_code_ratio() {
        let _ = write!(text, " ({own:.3} without the runtime)");
    }
    let _ = write!(text, " build {:.3}", measured.build_ratio());
    if let Some(recorded) = &measured.recorded {
        let Recorded { bytes, compressed, events, chunks, wrong, missing } = recorded;
        let _ = write!(text, " recorded {bytes} bytes (zstd {compressed})");
        let _ = write!(
            text,
            ", {events} events compared, {chunks} chunks from their own beginning, {wrong} wrong"
        );
        let _ = write!(text, " {}", missing.trim_end());
    }
    if let Some(verified) = &measured.verified {
        let _ = write!(text, " verified {} ({} wrong)", verified.compared, verified.mismatches);
    }
    text
}
