//! pprof's file format: a gzip-compressed protocol buffer. The messages have the numbers and types of pprof's
//! `profile.proto`, without the fields that are never written.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::{Metric, Stacks, Unit};

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    r#type: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
    #[prost(int64, tag = "3")]
    column: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// The string table: equal strings have equal numbers, and the empty one has 0.
struct Strings<'a> {
    list: Vec<String>,
    index: HashMap<&'a str, i64>,
}

impl<'a> Strings<'a> {
    fn number(&mut self, text: &'a str) -> i64 {
        *self.index.entry(text).or_insert_with(|| {
            self.list.push(text.to_owned());
            self.list.len() as i64 - 1
        })
    }
}

/// Writes those of the metrics that are additive. `program` and `build_id` are those of the program.
pub fn write(
    stacks: &Stacks,
    metrics: &[Metric],
    program: &str,
    build_id: &str,
    out: impl Write,
) -> io::Result<()> {
    let mut strings = Strings { list: vec![String::new()], index: HashMap::from([("", 0)]) };
    let metrics: Vec<_> = metrics.iter().enumerate().filter(|(_, metric)| metric.additive).collect();
    let sample_type = metrics.iter().map(|(_, metric)| ValueType {
        r#type: strings.number(metric.pprof),
        unit: strings.number(match metric.unit {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Nanoseconds => "nanoseconds",
        }),
    });
    let sample_type: Vec<_> = sample_type.collect();
    let mapping = Mapping {
        id: 1,
        filename: strings.number(program),
        build_id: strings.number(build_id),
        has_functions: true,
        has_filenames: true,
        has_line_numbers: true,
        has_inline_frames: true,
    };
    let mut functions: HashMap<(&str, &str, &str), u64> = HashMap::new();
    let mut function = Vec::new();
    let mut location = Vec::with_capacity(stacks.frames.len());
    for (frame, id) in stacks.frames.iter().zip(1..) {
        let file = frame.file.as_deref().unwrap_or_default();
        let function_id = *functions.entry((&frame.name, &frame.linkage_name, file)).or_insert_with(|| {
            let id = function.len() as u64 + 1;
            function.push(Function {
                id,
                name: strings.number(&frame.name),
                system_name: strings.number(&frame.linkage_name),
                filename: strings.number(file),
            });
            id
        });
        let number = |number: Option<u32>| i64::from(number.unwrap_or(0));
        let line = Line { function_id, line: number(frame.line), column: number(frame.column) };
        location.push(Location { id, mapping_id: 1, line: vec![line] });
    }
    let sample = stacks.stacks.iter().map(|stack| Sample {
        location_id: stack.frames.iter().map(|&frame| u64::from(frame) + 1).collect(),
        value: metrics
            .iter()
            .map(|&(number, _)| i64::try_from(stack.values[number]).unwrap_or(i64::MAX))
            .collect(),
    });
    let file = File {
        default_sample_type: sample_type[0].r#type,
        sample_type,
        sample: sample.collect(),
        mapping: vec![mapping],
        location,
        function,
        string_table: strings.list,
    };
    let mut out = GzEncoder::new(out, Compression::default());
    out.write_all(&file.encode_to_vec())?;
    out.finish()?.flush()
}
