//! The JSON form of Chrome's trace viewer ("Trace Event Format"), which many viewers read.

use std::io::{self, Write};

use super::{Viewer, write_spans};
use crate::printable::json;
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::views::spans::Callee;

/// Writes some streams. Returns the number of gaps.
pub fn chrome<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    out: &mut dyn Write,
) -> io::Result<u64> {
    let tables = &reader.programs.tables;
    let names = (0..tables.callee_count() as u32).map(|callee| json(&tables.callee_name(callee)));
    let mut viewer = Chrome { names: names.collect(), row: String::new(), separator: "" };
    writeln!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let gaps = write_spans(reader, streams, &mut viewer, out)?;
    writeln!(out, "]}}")?;
    Ok(gaps)
}

struct Chrome {
    /// By callee, its name in JSON.
    names: Vec<String>,
    /// The members that name the row of the stream.
    row: String,
    /// The text in front of the next stream.
    separator: &'static str,
}

/// A time, in microseconds.
fn at(time: u64) -> String {
    format!(r#""ts":{}.{:03}"#, time / 1000, time % 1000)
}

impl Viewer for Chrome {
    fn track(&mut self, stream: &Stream, name: &str, out: &mut dyn Write) -> io::Result<()> {
        self.row = format!(r#""pid":{},"tid":{}"#, stream.process, stream.number);
        let (row, name, separator) = (&self.row, json(&name), self.separator);
        self.separator = ",";
        writeln!(out, r#"{separator}{{"ph":"M","name":"thread_name",{row},"args":{{"name":{name}}}}}"#)
    }

    fn begin(&mut self, _: &Stream, time: u64, callee: Callee, out: &mut dyn Write) -> io::Result<()> {
        let (row, at, name) = (&self.row, at(time), &self.names[callee as usize]);
        writeln!(out, r#",{{"ph":"B",{row},{at},"name":{name}}}"#)
    }

    fn end(&mut self, _: &Stream, time: u64, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, r#",{{"ph":"E",{},{}}}"#, self.row, at(time))
    }

    fn instant(&mut self, _: &Stream, time: u64, name: String, out: &mut dyn Write) -> io::Result<()> {
        let (row, at, name) = (&self.row, at(time), json(&name));
        writeln!(out, r#",{{"ph":"i","s":"t",{row},{at},"name":{name}}}"#)
    }
}
