//! The JSON form of Chrome's trace viewer ("Trace Event Format"), which many viewers read. A call is one complete
//! event, which is written when it ends: viewers sort events by their times.

use std::collections::HashMap;
use std::io::{self, Write};

use super::{Exported, Viewer, place, write_spans};
use crate::printable::json;
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::tables::Tables;
use crate::trace::views::named::Met;
use crate::trace::views::spans::Span;

/// Writes some streams. Returns the counts of what was met.
pub fn chrome<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    exported: &Exported,
    out: &mut dyn Write,
) -> io::Result<Met> {
    let tables = &reader.programs.tables;
    let names = (0..tables.callee_count() as u32).map(|callee| json(&tables.callee_name(callee)));
    let (names, places) = (names.collect(), HashMap::new());
    let mut viewer = Chrome { tables, names, places, row: String::new(), separator: "" };
    writeln!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let met = write_spans(reader, streams, exported, &mut viewer, out)?;
    writeln!(out, "]}}")?;
    Ok(met)
}

struct Chrome<'t> {
    tables: &'t Tables,
    /// By callee, its name in JSON.
    names: Vec<String>,
    /// By node, the member with its place.
    places: HashMap<u32, String>,
    /// The members that name the row of the stream.
    row: String,
    /// The text before the next stream.
    separator: &'static str,
}

/// A time, in microseconds.
fn micros(time: u64) -> String {
    format!("{}.{:03}", time / 1000, time % 1000)
}

impl Viewer for Chrome<'_> {
    fn track(&mut self, stream: &Stream, name: &str, out: &mut dyn Write) -> io::Result<()> {
        // Handlers have rows of their own, whose numbers no thread has.
        let thread = match stream.level {
            0 => u64::from(stream.thread),
            _ => (1 << 32) + stream.number,
        };
        self.row = format!(r#""pid":{},"tid":{thread}"#, stream.process);
        let (row, name, separator) = (&self.row, json(&name), self.separator);
        self.separator = ",";
        writeln!(out, r#"{separator}{{"ph":"M","name":"thread_name",{row},"args":{{"name":{name}}}}}"#)
    }

    fn begin(&mut self, _: &Stream, _: &Span, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _: &Stream, time: u64, span: &Span, out: &mut dyn Write) -> io::Result<()> {
        let at = self.places.entry(span.node).or_insert_with(|| {
            let place = place(self.tables, span.node).map(|(file, line)| format!("{file}:{line}"));
            place.map_or(String::new(), |place| format!(r#","args":{{"at":{}}}"#, json(&place)))
        });
        let (row, name) = (&self.row, &self.names[span.callee as usize]);
        let (start, len) = (micros(span.start), micros(time - span.start));
        writeln!(out, r#",{{"ph":"X",{row},"ts":{start},"dur":{len},"name":{name}{at}}}"#)
    }

    fn instant(&mut self, _: &Stream, time: u64, name: String, out: &mut dyn Write) -> io::Result<()> {
        let (row, at, name) = (&self.row, micros(time), json(&name));
        writeln!(out, r#",{{"ph":"i","s":"t",{row},"ts":{at},"name":{name}}}"#)
    }
}
