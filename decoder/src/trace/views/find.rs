//! Contexts of single events.

use std::io::{self, Write};

use serde::Serialize;

use super::context::context;
use super::named::{Met, Named};
use super::show::heading;
use crate::context::Frame;
use crate::printable;
use crate::show::folding::Folding;
use crate::show::style::Style;
use crate::trace::event::{Event, EventKind};
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::replay::Replay;

pub(in crate::trace) fn write_context(
    reader: &Reader<'_>,
    stream: &Stream,
    replay: &Replay<'_>,
    event: &Event,
    style: &Style,
    json: bool,
    mut out: &mut dyn Write,
) -> io::Result<()> {
    let frames = context(&reader.programs.tables, event, replay.stack());
    if json {
        #[derive(Serialize)]
        struct Line<'a> {
            thread: u32,
            process: u32,
            level: u32,
            stream: u64,
            event: u64,
            kind: &'static str,
            frames: &'a [Frame<'a>],
        }
        let Stream { thread, process, level, number: stream, .. } = *stream;
        let (event, kind) = (replay.events(), event.kind.name());
        let line = Line { thread, process, level, stream, event, kind, frames: &frames };
        return writeln!(out, "{}", printable::json(&line));
    }
    writeln!(out, "event {} of {}:", replay.events(), heading(reader, stream))?;
    let mut folding = Folding::default();
    for (number, frame) in frames.iter().enumerate() {
        let (number, line) = (format!("#{number:<3}"), style.line(frame) + "\n");
        let parts = [&[], number.as_bytes(), line.as_bytes()];
        folding.line(&style.hidden, style.hidden.by(frame), parts, &mut out)?;
    }
    folding.end(&style.hidden, b"", &mut out)?;
    writeln!(out)
}

/// Writes each call of some functions with its context.
pub fn find<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    functions: &Named,
    style: &Style,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<Met> {
    let tables = &reader.programs.tables;
    let mut met = Met::default();
    for stream in streams {
        let mut replay = reader.replay(stream);
        let mut pending = false;
        // A call whose callee is not known yet: if it is a traced function of the name, its entry is the same
        // call.
        let mut held: Option<(u32, Vec<u8>)> = None;
        while let Some(event) = replay.next() {
            met.event(tables, functions, &event, &mut pending);
            let is_called = functions.is_called(tables, &event);
            if let Some((depth, text)) = held.take()
                && !(is_called && event.kind == EventKind::Entered && event.depth == depth + 1)
            {
                out.write_all(&text)?;
            }
            if is_called && event.kind == EventKind::Open {
                let (_, text) = held.insert((event.depth, Vec::new()));
                write_context(reader, stream, &replay, &event, style, json, text)?;
            } else if is_called {
                write_context(reader, stream, &replay, &event, style, json, out)?;
            }
        }
        if let Some((_, text)) = held {
            out.write_all(&text)?;
        }
        met.gaps += replay.finish()?;
    }
    Ok(met)
}

/// Writes the context of an event of a stream. Returns whether the stream has the event, and how many gaps come
/// before it. A part that a ring has not kept is no gap here.
pub fn at<'t>(
    reader: &Reader<'t>,
    stream: &'t Stream,
    number: u64,
    style: &Style,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<(bool, u64)> {
    let mut replay = reader.replay(stream);
    while let Some(event) = replay.next() {
        if event.kind.is_counted() && replay.events() == number {
            let mut text = Vec::new();
            write_context(reader, stream, &replay, &event, style, json, &mut text)?;
            // The next event shows whether the named function was entered.
            if event.kind == EventKind::Open
                && let Some(entered) = replay.next()
                && entered.kind == EventKind::Entered
                && reader.programs.tables.calls(event.node, entered.function)
            {
                text.clear();
                write_context(reader, stream, &replay, &event, style, json, &mut text)?;
            }
            out.write_all(&text)?;
            return Ok((true, replay.finish()? - replay.cut_off()));
        }
    }
    Ok((false, replay.finish()? - replay.cut_off()))
}
