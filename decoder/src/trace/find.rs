//! Contexts of single events.

use std::io::{self, Write};

use super::context::context;
use super::event::{Event, EventKind};
use super::file::Stream;
use super::machine::Machine;
use super::reader::Reader;
use super::show::heading;
use crate::render::{json_frame, json_string};
use crate::style::Style;

/// Writes the context of an event.
pub(super) fn write_context(
    reader: &Reader<'_>,
    stream: &Stream,
    machine: &Machine<'_>,
    event: &Event,
    style: &Style,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let frames = context(&reader.programs.tables, event, machine.stack());
    let mut line = String::new();
    if json {
        for frame in &frames {
            line.push(if line.is_empty() { '[' } else { ',' });
            json_frame(frame, &mut line);
        }
        if line.is_empty() {
            line.push('[');
        }
        return writeln!(
            out,
            r#"{{"thread":{},"process":{},"level":{},"stream":{},"event":{},"kind":{},"frames":{line}]}}"#,
            stream.thread,
            stream.process,
            stream.level,
            stream.number,
            machine.events(),
            json_string(event.kind.name()),
        );
    }
    writeln!(out, "event {} of {}:", machine.events(), heading(reader, stream))?;
    for (number, frame) in frames.iter().enumerate() {
        line.clear();
        style.frame(frame, 0, &mut line);
        writeln!(out, "#{number:<3}{line}")?;
    }
    writeln!(out)
}

/// Writes each call of some functions, by callee, with its context. Returns how many there are, and how many gaps
/// were met.
///
/// # Errors
/// Those of reading the trace, and of `out`.
pub fn find<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    functions: &[bool],
    style: &Style,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<(u64, u64)> {
    let tables = &reader.programs.tables;
    let (mut found, mut gaps) = (0, 0);
    for stream in streams {
        let mut machine = reader.machine(stream);
        while let Some(event) = machine.next() {
            let callee = match event.kind {
                EventKind::Call | EventKind::Entered | EventKind::Leave => event.function,
                EventKind::Open | EventKind::Closed | EventKind::Twice | EventKind::LeaveOpen => {
                    tables.callee_of(event.node)
                }
                _ => continue,
            };
            if functions[callee as usize] {
                found += 1;
                write_context(reader, stream, &machine, &event, style, json, out)?;
            }
        }
        gaps += machine.finish()?;
    }
    Ok((found, gaps))
}

/// Writes the context of an event of a stream. Returns whether there is such an event, and how
/// many gaps are in front of it.
///
/// # Errors
/// Those of reading the trace, and of `out`.
pub fn at<'t>(
    reader: &Reader<'t>,
    stream: &'t Stream,
    number: u64,
    style: &Style,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<(bool, u64)> {
    let mut machine = reader.machine(stream);
    while let Some(event) = machine.next() {
        if event.kind.is_counted() && machine.events() == number {
            write_context(reader, stream, &machine, &event, style, json, out)?;
            return Ok((true, machine.finish()?));
        }
    }
    Ok((false, machine.finish()?))
}
