//! Profiles that instrumented programs write: measured values by context (`docs/formats.md`).
//!
//! [`Profile::read`] reads the file, [`Stacks::decode`] turns its tokens into stacks of frames; [`report`],
//! [`diff`], [`flame`], [`pprof`] and [`speedscope`] write them. The two kinds, heap and CPU, differ in their
//! [`Metric`]s only.

pub mod diff;
pub mod flame;
pub(crate) mod heat;
pub mod pprof;
pub mod report;
pub mod speedscope;
mod stacks;

use std::collections::HashMap;

use serde::Deserialize;
use thiserror::Error;

pub use stacks::{Stack, StackFrame, Stacks};

/// The version of the format that is read.
pub const VERSION: u32 = 1;

/// The kinds of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Heap,
    Cpu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Bytes,
    Nanoseconds,
}

/// A quantity that was measured in each context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name on the command line, and in JSON.
    pub name: &'static str,
    /// The name in pprof's files, where there is an established one.
    pub pprof: &'static str,
    /// The title in reports.
    pub title: &'static str,
    pub unit: Unit,
    /// True if the numbers of several contexts can be added.
    pub additive: bool,
}

const fn metric(name: &'static str, pprof: &'static str, title: &'static str, unit: Unit) -> Metric {
    Metric { name, pprof, title, unit, additive: true }
}

const HEAP: [Metric; 9] = [
    metric("peak", "peak_space", "bytes allocated at the peak", Unit::Bytes),
    metric("peak-blocks", "peak_objects", "blocks allocated at the peak", Unit::Count),
    metric("live", "inuse_space", "bytes not freed", Unit::Bytes),
    metric("live-blocks", "inuse_objects", "blocks not freed", Unit::Count),
    metric("allocated", "alloc_space", "bytes allocated in all", Unit::Bytes),
    metric("allocations", "alloc_objects", "allocations", Unit::Count),
    Metric {
        additive: false,
        ..metric("own-peak", "own_peak_space", "most bytes of one context at a time", Unit::Bytes)
    },
    metric("leaked", "leaked_space", "bytes to which nothing points", Unit::Bytes),
    metric("leaked-blocks", "leaked_objects", "blocks to which nothing points", Unit::Count),
];
/// The number of metrics of heap profiles without leaks.
const WITHOUT_LEAKS: usize = 7;

const CPU: [Metric; 2] = [
    metric("time", "cpu", "CPU time", Unit::Nanoseconds),
    metric("samples", "samples", "samples", Unit::Count),
];

impl Kind {
    /// All metrics that profiles of the kind may have; the first one is the most important.
    #[must_use]
    pub fn metrics(self) -> &'static [Metric] {
        match self {
            Self::Heap => &HEAP,
            Self::Cpu => &CPU,
        }
    }

    /// The name of the kind, in the file and as a command.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Cpu => "cpu",
        }
    }
}

/// Errors of reading a profile.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file is no profile.
    #[error("this is no profile: its first line is no heading ({0}); give the file that the program wrote")]
    Heading(String),
    #[error(
        "the profile has format version {0}, and this release reads version {VERSION}; use the release that \
         built the program"
    )]
    Version(u32),
    /// A kind that does not exist.
    #[error("the profile is of the unknown kind {0:?}; there are heap and cpu")]
    Kind(String),
    /// A line that cannot be read.
    #[error("line {line}: {cause}; the profile is damaged")]
    Line {
        /// The line's number, from 1.
        line: usize,
        cause: String,
    },
    /// The last line is missing.
    #[error("the profile is not whole: its last line is missing; the program was ended while it wrote")]
    Incomplete,
    /// The last line has another count of contexts than the file.
    #[error("the profile is damaged: it has {found} contexts, and should have {expected}")]
    Contexts {
        /// The count in the last line.
        expected: u64,
        found: usize,
    },
}

/// A context, with its measured values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The token; empty where there is no context, None where it is not known.
    pub token: Option<String>,
    /// A name for the values, where there is no context.
    pub name: Option<String>,
    /// The values of the metrics, in the order of [`Profile::metrics`].
    pub values: Vec<u64>,
    /// Allocations that were freed again, and their bytes, in heap profiles.
    pub freed: (u64, u64),
}

/// A profile as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub kind: Kind,
    /// The first bytes of the program's build id, in hexadecimal digits.
    pub build_id: String,
    pub process: u64,
    /// True if the program has distinguished leaked blocks from live ones.
    pub has_leaks: bool,
    /// The contexts, with their measured values. Equal contexts may come more than once.
    pub records: Vec<Record>,
}

#[derive(Deserialize)]
struct Heading {
    profile: String,
    version: u32,
    build_id: String,
    process: u64,
    #[serde(default)]
    leaks: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeapLine {
    token: Option<String>,
    name: Option<String>,
    allocations: u64,
    allocated: u64,
    frees: u64,
    freed: u64,
    peak_blocks: u64,
    peak_bytes: u64,
    own_peak_bytes: u64,
    leaked_blocks: Option<u64>,
    leaked_bytes: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuLine {
    token: Option<String>,
    samples: u64,
    nanoseconds: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    #[serde(rename = "end")]
    _end: bool,
    contexts: u64,
}

impl Profile {
    /// Reads a profile.
    ///
    /// # Errors
    /// [`ProfileError`]; never panics, whatever the text.
    pub fn read(text: &[u8]) -> Result<Self, ProfileError> {
        let mut lines = text.split(|&byte| byte == b'\n').enumerate();
        let (_, first) = lines.next().unwrap_or_default();
        let heading: Heading =
            serde_json::from_slice(first).map_err(|error| ProfileError::Heading(error.to_string()))?;
        if heading.version != VERSION {
            return Err(ProfileError::Version(heading.version));
        }
        let kind = match &*heading.profile {
            "heap" => Kind::Heap,
            "cpu" => Kind::Cpu,
            _ => return Err(ProfileError::Kind(heading.profile)),
        };
        let mut records = Vec::new();
        let mut end: Option<End> = None;
        for (number, line) in lines {
            let error = |cause: String| ProfileError::Line { line: number + 1, cause };
            if line.is_empty() && end.is_some() {
                continue;
            }
            if end.is_some() {
                return Err(error("there is something behind the last line".to_owned()));
            }
            // A file that was cut in the middle of a line.
            let whole = line.ends_with(b"}");
            if whole && line.starts_with(b"{\"end\"") {
                end = Some(serde_json::from_slice(line).map_err(|e| error(e.to_string()))?);
                continue;
            }
            let parsed = match kind {
                Kind::Heap => serde_json::from_slice::<HeapLine>(line).map(|line| line.record(heading.leaks)),
                Kind::Cpu => serde_json::from_slice::<CpuLine>(line).map(Record::from),
            };
            records.push(match parsed {
                Ok(record) => record,
                Err(_) if !whole => return Err(ProfileError::Incomplete),
                Err(e) => return Err(error(e.to_string())),
            });
        }
        let end = end.ok_or(ProfileError::Incomplete)?;
        if end.contexts != records.len() as u64 {
            return Err(ProfileError::Contexts { expected: end.contexts, found: records.len() });
        }
        let Heading { build_id, process, leaks, .. } = heading;
        Ok(Self { kind, build_id, process, has_leaks: leaks && kind == Kind::Heap, records })
    }

    /// The metrics that were measured in each context.
    #[must_use]
    pub fn metrics(&self) -> &'static [Metric] {
        match self.kind {
            Kind::Heap if !self.has_leaks => &HEAP[..WITHOUT_LEAKS],
            kind => kind.metrics(),
        }
    }

    /// The profile since an earlier one of the same process, for metrics that only grow.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut before: HashMap<&Option<String>, Vec<u64>> = HashMap::new();
        for record in &earlier.records {
            let sums = before.entry(&record.token).or_insert_with(|| vec![0; record.values.len()]);
            for (sum, value) in sums.iter_mut().zip(&record.values) {
                *sum = sum.saturating_add(*value);
            }
        }
        let mut records = self.records.clone();
        for record in &mut records {
            // Equal contexts may come more than once: each subtracts what is left of the earlier values.
            for (value, before) in
                record.values.iter_mut().zip(before.get_mut(&record.token).into_iter().flatten())
            {
                let both = (*value).min(*before);
                *value -= both;
                *before -= both;
            }
        }
        records.retain(|record| record.values.iter().any(|value| *value > 0));
        Self { records, ..self.clone() }
    }

    /// The sum of a metric, by its number.
    pub fn total(&self, metric: usize) -> u64 {
        self.records.iter().fold(0, |sum, record| sum.saturating_add(record.values[metric]))
    }
}

impl HeapLine {
    fn record(self, has_leaks: bool) -> Record {
        // Other threads went on while the profile was written, so one of the two counts may be ahead of the other.
        let (live, live_bytes) =
            (self.allocations.saturating_sub(self.frees), self.allocated.saturating_sub(self.freed));
        let mut values = vec![
            self.peak_bytes,
            self.peak_blocks,
            live_bytes,
            live,
            self.allocated,
            self.allocations,
            self.own_peak_bytes,
        ];
        if has_leaks {
            values.extend([self.leaked_bytes, self.leaked_blocks].map(Option::unwrap_or_default));
        }
        Record { token: self.token, name: self.name, values, freed: (self.frees, self.freed) }
    }
}

impl From<CpuLine> for Record {
    fn from(line: CpuLine) -> Self {
        Self { token: line.token, name: None, values: vec![line.nanoseconds, line.samples], freed: (0, 0) }
    }
}
