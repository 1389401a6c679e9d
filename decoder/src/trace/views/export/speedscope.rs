//! Speedscope's file format (<https://www.speedscope.app/file-format-schema.json>): an evented profile for each
//! stream. In Speedscope each call that begins must end. It knows no moments: they become calls that take no time.

use std::collections::HashMap;
use std::io::{self, Write};

use super::{Exported, Viewer, write_spans};
use crate::printable::json;
use crate::profile::speedscope::{EXPORTER, SCHEMA};
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::tables::Tables;
use crate::trace::views::named::Met;
use crate::trace::views::spans::{Callee, Span};

/// Writes some streams. Returns the counts of what was met.
pub fn speedscope<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    exported: &Exported,
    out: &mut dyn Write,
) -> io::Result<Met> {
    let mut viewer = Speedscope {
        tables: &reader.programs.tables,
        frames: Vec::new(),
        callees: HashMap::new(),
        moments: HashMap::new(),
        open: Vec::new(),
        any_profile: false,
        any_event: false,
        time: 0,
    };
    writeln!(out, r#"{{"$schema":"{SCHEMA}","exporter":"{EXPORTER}","profiles":["#)?;
    let met = write_spans(reader, streams, exported, &mut viewer, out)?;
    viewer.end_profile(out)?;
    writeln!(out, r#"],"shared":{{"frames":["#)?;
    for (number, name) in viewer.frames.iter().enumerate() {
        let separator = if number == 0 { "" } else { "," };
        writeln!(out, r#"{separator}{{"name":{name}}}"#)?;
    }
    writeln!(out, "]}}}}")?;
    Ok(met)
}

struct Speedscope<'t> {
    tables: &'t Tables,
    /// The names of frames, in JSON. The maps have the indices of callees and of moments.
    frames: Vec<String>,
    callees: HashMap<Callee, usize>,
    moments: HashMap<String, usize>,
    /// The frames that are open, outermost first.
    open: Vec<usize>,
    any_profile: bool,
    /// True if the profile has an event.
    any_event: bool,
    /// The time of the last event.
    time: u64,
}

impl Speedscope<'_> {
    fn event(&mut self, kind: char, frame: usize, time: u64, out: &mut dyn Write) -> io::Result<()> {
        self.time = time;
        let separator = if std::mem::replace(&mut self.any_event, true) { "," } else { "" };
        writeln!(out, r#"{separator}{{"type":"{kind}","frame":{frame},"at":{time}}}"#)
    }

    /// Ends the profile of a stream, and the calls that are still active in it.
    fn end_profile(&mut self, out: &mut dyn Write) -> io::Result<()> {
        while let Some(frame) = self.open.pop() {
            self.event('C', frame, self.time, out)?;
        }
        if self.any_profile { writeln!(out, r#"],"endValue":{}}}"#, self.time) } else { Ok(()) }
    }
}

impl Viewer for Speedscope<'_> {
    fn track(&mut self, _: &Stream, name: &str, out: &mut dyn Write) -> io::Result<()> {
        self.end_profile(out)?;
        let separator = if std::mem::replace(&mut self.any_profile, true) { "," } else { "" };
        (self.any_event, self.time) = (false, 0);
        let name = json(&name);
        let profile = r#""type":"evented","unit":"nanoseconds","startValue":0"#;
        writeln!(out, r#"{separator}{{{profile},"name":{name},"events":["#)
    }

    fn begin(&mut self, _: &Stream, span: &Span, out: &mut dyn Write) -> io::Result<()> {
        let frame = *self.callees.entry(span.callee).or_insert_with(|| {
            self.frames.push(json(&self.tables.callee_name(span.callee)));
            self.frames.len() - 1
        });
        self.open.push(frame);
        self.event('O', frame, span.start, out)
    }

    fn end(&mut self, _: &Stream, time: u64, _: &Span, out: &mut dyn Write) -> io::Result<()> {
        let frame = self.open.pop().expect("what ends has begun");
        self.event('C', frame, time, out)
    }

    fn instant(&mut self, _: &Stream, time: u64, name: String, out: &mut dyn Write) -> io::Result<()> {
        let frame = *self.moments.entry(name).or_insert_with_key(|name| {
            self.frames.push(json(name));
            self.frames.len() - 1
        });
        self.event('O', frame, time, out)?;
        self.event('C', frame, time, out)
    }
}
