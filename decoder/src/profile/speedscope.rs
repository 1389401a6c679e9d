//! Speedscope's file format (<https://www.speedscope.app/file-format-schema.json>): one profile for each
//! metric.

use std::io::{self, Write};

use serde::Serialize;

use super::{Metric, Stacks, Unit};
use crate::printable::json;

/// The members of a file that are always the same.
pub(crate) const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";
pub(crate) const EXPORTER: &str = concat!("pcce@", env!("CARGO_PKG_VERSION"));

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    exporter: &'static str,
    shared: Shared<'a>,
    profiles: Vec<Sampled<'a>>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    col: Option<u32>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampled<'a> {
    r#type: &'static str,
    name: &'a str,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

/// Writes those of the metrics that are additive.
pub fn write(stacks: &Stacks, metrics: &[Metric], name: &str, mut out: impl Write) -> io::Result<()> {
    let frames = stacks.frames.iter().map(|frame| Frame {
        name: &frame.name,
        file: frame.file.as_deref(),
        line: frame.line,
        col: frame.column,
    });
    let metrics = metrics.iter().enumerate().filter(|(_, metric)| metric.additive);
    let profiles = metrics.map(|(number, metric)| {
        let shown = || stacks.stacks.iter().filter(|stack| stack.values[number] > 0);
        let weights: Vec<u64> = shown().map(|stack| stack.values[number]).collect();
        Sampled {
            r#type: "sampled",
            name: metric.title,
            unit: match metric.unit {
                Unit::Count => "none",
                Unit::Bytes => "bytes",
                Unit::Nanoseconds => "nanoseconds",
            },
            start_value: 0,
            end_value: weights.iter().fold(0, |sum, &weight| sum.saturating_add(weight)),
            samples: shown().map(|stack| stack.frames.iter().rev().copied().collect()).collect(),
            weights,
        }
    });
    let file = File {
        schema: SCHEMA,
        name,
        exporter: EXPORTER,
        shared: Shared { frames: frames.collect() },
        profiles: profiles.collect(),
    };
    writeln!(out, "{}", json(&file))
}
