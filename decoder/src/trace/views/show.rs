//! A trace as an indented tree of calls.

use std::io::{self, Write};

use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use super::named::Met;
use super::selection::{Selection, within};
use super::spans::POINTER;
use crate::context::{Frame, FrameKind};
use crate::printable::{json, printable};
use crate::show::style::{Style, shortened};
use crate::trace::event::{End, Event, EventKind, NOT_KEPT};
use crate::trace::file::Stream;
use crate::trace::reader::{Reader, forked};
use crate::trace::replay::{Replay, UNKNOWN};
use crate::trace::tables::{NONE, Tables};

/// The number of columns that a line must have left for a further place of a call.
const MIN_COLUMNS: usize = 40;

/// Bound on the calls around the first event that are shown.
const MAX_ACTIVE: usize = 40;

/// Deeper calls are not indented further; their depth is shown.
const MAX_INDENT: u32 = 60;

/// The heading of a stream: thread and process, and where they come from.
pub fn heading(reader: &Reader<'_>, stream: &Stream) -> String {
    let mut text = format!("thread {} of process {}", stream.thread, stream.process);
    if stream.level > 0 {
        text += ", signal handlers";
        if stream.level > 1 {
            text += &format!(" of level {}", stream.level);
        }
    }
    // The parent of a handler's stream is the stream of the interrupted code, if it was not forked.
    let parent = reader.file.stream(stream.parent);
    if let Some(parent) = parent.filter(|_| stream.level == 0 || forked(stream).is_some()) {
        text += match parent.process == stream.process {
            true => ", created by thread ",
            false => ", forked from thread ",
        };
        text += &parent.thread.to_string();
    }
    text
}

/// Writes the events of some streams. Returns the counts of what was met, of [`Selection::functions`] if there are
/// some.
pub fn show<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    selection: &Selection,
    style: &Style,
    json: bool,
    out: &mut dyn Write,
) -> io::Result<Met> {
    let tables = &reader.programs.tables;
    let mut met = Met::default();
    let begin = reader.start();
    for stream in streams {
        let (begun, from) = selection.begin(reader, stream)?;
        if !json {
            writeln!(out, "{}:", heading(reader, stream))?;
        }
        let mut replay = begun.replay(reader, stream);
        let (mut inside, mut pending) = (None, false);
        let mut is_first = !json && selection.functions.is_none();
        let mut line = String::new();
        let mut last: Option<Event> = None;
        while let Some(event) = replay.next() {
            // The call that was reported has entered the function of that name.
            let is_reported = event.kind == EventKind::Entered
                && last.is_some_and(|last| {
                    last.kind == EventKind::Open
                        && last.depth + 1 == event.depth
                        && tables.calls(last.node, event.function)
                });
            last = Some(event);
            let base = match &selection.functions {
                None => Some(0),
                Some(functions) => {
                    met.event(tables, functions, &event, &mut pending);
                    within(tables, functions, &event, &mut inside)
                }
            };
            let Some(base) = base else { continue };
            let event_number = replay.events();
            let is_wanted = |number: u64, depth: u32| {
                number >= from
                    && selection.to.is_none_or(|to| number <= to)
                    && selection.depth.is_none_or(|most| depth.saturating_sub(base) < most)
            };
            let time = selection.times.then(|| replay.time().saturating_sub(begin));
            if selection.lines
                && !json
                && let Some((call, depth)) = replay.passed(&event)
                && !tables.lines(call).is_empty()
            {
                let before = event_number - u64::from(event.kind.is_counted());
                if is_wanted(before, depth) {
                    line.clear();
                    line.push_str(&start(base, time, begun.number(before), depth));
                    lines(tables, call, style, &mut line);
                    writeln!(out, "{line}")?;
                }
            }
            let shown =
                (selection.lines || event.kind != EventKind::Block) && is_wanted(event_number, event.depth);
            if !shown {
                if selection.to.is_some_and(|to| event_number > to) {
                    break;
                }
                continue;
            }
            line.clear();
            if std::mem::take(&mut is_first) && event_number > 1 {
                active(tables, &replay, event.depth, style, out)?;
            }
            match json {
                true => json_line(tables, stream, begun.number(event_number), &event, time, &mut line),
                false if is_reported => {}
                false => {
                    let start = start(base, time, begun.number(event_number), event.depth);
                    text_line(tables, &event, start, style, &mut line);
                }
            }
            out.write_all(line.as_bytes())?;
        }
        let (gaps, cut_off) = begun.gaps(&mut replay)?;
        met.gaps += gaps;
        met.cut_off += cut_off;
    }
    Ok(met)
}

/// Writes the calls around the first event that is shown. They were made before. `depth`: the event's.
fn active(
    tables: &Tables,
    replay: &Replay<'_>,
    depth: u32,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    // The first activation is that of the stream's first function, or of its caller.
    let around = replay.stack().len().saturating_sub(1).min(depth as usize);
    let left_out = (depth as usize).saturating_sub(MAX_ACTIVE);
    for level in 0..around {
        let line_start = indented(" ".repeat(10), level as u32);
        if left_out > 0 && (MAX_ACTIVE / 2..MAX_ACTIVE / 2 + left_out).contains(&level) {
            if level == MAX_ACTIVE / 2 {
                writeln!(out, "{line_start}… {left_out} calls [active]")?;
            }
            continue;
        }
        let event = replay.active_at(level + 1);
        if event.function == UNKNOWN || event.function == NONE && event.node == NONE {
            writeln!(out, "{line_start}<unknown calls>")?;
            continue;
        }
        let mut line = String::new();
        text_line(tables, &event, line_start, style, &mut line);
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// The beginning of a line: time, number, and indentation.
fn start(base: u32, time: Option<u64>, number: i64, depth: u32) -> String {
    let time = time.map_or(String::new(), |time| format!("{:>12.6} s ", time as f64 / 1e9));
    indented(format!("{time}{number:>8}  "), depth.saturating_sub(base))
}

fn indented(start: String, depth: u32) -> String {
    let start = start + &"  ".repeat(depth.min(MAX_INDENT) as usize);
    if depth > MAX_INDENT { start + &format!("({depth}) ") } else { start }
}

/// An event as a line with its number, without the end of the line; None if it has no line.
pub fn line_of(tables: &Tables, event: &Event, number: u64, style: &Style) -> Option<String> {
    let mut line = String::new();
    text_line(tables, event, start(0, None, number as i64, event.depth), style, &mut line);
    line.truncate(line.trim_end_matches('\n').len());
    (!line.is_empty()).then_some(line)
}

fn text_line(tables: &Tables, event: &Event, start: String, style: &Style, line: &mut String) {
    let indent = start.len();
    let boundary = |text: String| format!("{start}<{text}>\n");
    match event.kind {
        EventKind::Return | EventKind::OpenReturned | EventKind::Resume => {}
        EventKind::Block => {
            line.push_str(&start);
            lines(tables, event.node, style, line);
            line.push('\n');
        }
        EventKind::Call
        | EventKind::Closed
        | EventKind::Open
        | EventKind::ReturnsTwice
        | EventKind::Leave
        | EventKind::LeaveOpen => {
            line.push_str(&start);
            call(tables, event, style, indent, line);
            if matches!(event.kind, EventKind::Leave | EventKind::LeaveOpen) {
                line.push_str(" [tail call]");
            }
            line.push('\n');
        }
        EventKind::Active if event.node != NONE => {
            line.push_str(&start);
            let left = tables.was_left(event.node, event.function);
            match event.function {
                _ if !left => call(tables, event, style, indent, line),
                NONE => style.frame(&tables.frame(FrameKind::Tail, tables.callee(event.node)), indent, line),
                function => {
                    style.frame(&tables.frame(FrameKind::Call, Some(tables.name_of(function))), indent, line);
                    line.push_str(" [tail call]");
                }
            }
            line.push_str(if left && event.function == NONE { "\n" } else { " [active]\n" });
        }
        EventKind::Entered | EventKind::Active => {
            line.push_str(&start);
            style.frame(&tables.frame(FrameKind::Call, Some(tables.name_of(event.function))), indent, line);
            line.push_str(if event.kind == EventKind::Active { " [active]\n" } else { "\n" });
        }
        EventKind::Known if event.value == 1 => *line = boundary(NOT_KEPT.to_owned()),
        EventKind::Known if event.value == 2 => *line = boundary("back on a stack that was left".to_owned()),
        EventKind::Switched => *line = boundary("on another stack".to_owned()),
        EventKind::Known => *line = boundary("what is active is known again".to_owned()),
        EventKind::Landed | EventKind::Again => {
            let what = match event.kind {
                EventKind::Landed
                    if tables.only_next(event.node).is_some_and(|next| tables.passes_on(next)) =>
                {
                    "<exception passed on by "
                }
                EventKind::Landed => "<exception caught in ",
                _ => "<returned again in ",
            };
            line.push_str(&start);
            line.push_str(what);
            let place = tables.place(event.node).next();
            style.frame(&place.expect("each node has a place"), indent + what.len(), line);
            line.push_str(">\n");
        }
        EventKind::Handler => *line = boundary(format!("signal {}", event.value)),
        EventKind::HandlerEnd => *line = boundary("signal handler returned".to_owned()),
        EventKind::Forked => {
            let what = "forked by a signal handler, which had interrupted this: which of the calls next to this were made \
                        before is not known";
            *line = boundary(what.to_owned());
        }
        EventKind::Interrupted => {
            let what = "interrupted for good, by a signal handler or the end of the thread: calls that had to come next \
                        may have been made";
            *line = boundary(what.to_owned());
        }
        EventKind::Unwound => {
            *line = boundary("the thread was cancelled, or ended by pthread_exit".to_owned());
        }
        EventKind::HandlerLeft => *line = boundary("signal handler left by a jump".to_owned()),
        EventKind::Mark => *line = boundary(format!("mark {}", event.value)),
        EventKind::Gap(why) if event.value != 0 => {
            *line = boundary(format!("{why}: address {:#x}; unknown from here on", event.value));
        }
        EventKind::Gap(why) => *line = boundary(format!("{why}; unknown from here on")),
        EventKind::End(End::Ended) => *line = boundary("end".to_owned()),
        EventKind::End(End::Stopped) => {
            let what = "the process has ended, or crashed: calls that had to come next may have been made";
            *line = boundary(what.to_owned());
        }
        EventKind::End(End::Open) => *line = boundary("what came later is not recorded".to_owned()),
    }
}

/// Writes the lines that begin after a node: each file, and the numbers of its lines.
fn lines(tables: &Tables, node: u32, style: &Style, line: &mut String) {
    use std::fmt::Write as _;
    let mut last = None;
    let mut reported = Vec::new();
    for &(file, number, _) in tables.lines(node) {
        // A line that was inlined several times is reported once.
        if reported.contains(&(file, number)) {
            continue;
        }
        reported.push((file, number));
        let _ = match last.replace(file) == Some(file) {
            true => write!(line, ", {number}"),
            false => {
                line.push_str(if line.ends_with(' ') { "line " } else { "; " });
                write!(line, "{}:{number}", printable(&style.path(tables.file(file))))
            }
        };
    }
    if last.is_none() {
        line.push_str("no line");
    }
}

/// Writes the callee of a call and its place, with the functions into which the place was inlined.
fn call(tables: &Tables, event: &Event, style: &Style, indent: usize, line: &mut String) {
    let name = tables.callee(event.node);
    let bare = tables.frame(FrameKind::Call, name);
    let mut called = Frame { function: bare.function.or(Some(POINTER)), ..bare };
    for (number, place) in tables.place(event.node).enumerate() {
        let name = called.function.map(|name| if number > 0 { shortened(name) } else { name.into() });
        let mut indent = indent;
        if number > 0 {
            line.push_str(" in ");
            indent = style.width.map_or(0, |_| line.width());
            if style.width.is_some_and(|width| width < indent + MIN_COLUMNS) {
                line.push('…');
                break;
            }
        }
        let frame = Frame { file: place.file, line: place.line, column: place.column, ..called };
        style.frame(&Frame { function: name.as_deref(), ..frame }, indent, line);
        called = Frame { function: place.function, inlined: true, ..bare };
    }
}

/// An event as a line of JSON.
#[derive(Serialize)]
struct JsonLine<'a> {
    thread: u32,
    process: u32,
    level: u32,
    stream: u64,
    event: i64,
    depth: u32,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    about_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    #[serde(flatten)]
    more: Option<More<'a>>,
}

/// The member that only some kinds of events have.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum More<'a> {
    Why(String),
    Ended(bool),
    Value(u64),
    Frames(Vec<Frame<'a>>),
}

fn json_line(
    tables: &Tables,
    stream: &Stream,
    number: i64,
    event: &Event,
    about_ns: Option<u64>,
    line: &mut String,
) {
    let function = match event.kind {
        EventKind::Call
        | EventKind::Entered
        | EventKind::Leave
        | EventKind::Landed
        | EventKind::Again
        | EventKind::Return
        | EventKind::Resume => Some(tables.name_of(event.function)),
        EventKind::Active if event.function != NONE => Some(tables.name_of(event.function)),
        EventKind::Active if tables.was_left(event.node, NONE) => None,
        _ if event.node != NONE => tables.callee(event.node),
        _ => None,
    };
    let more = match event.kind {
        EventKind::Gap(cause) => Some(More::Why(cause.to_string())),
        EventKind::End(end) => Some(More::Ended(end == End::Ended)),
        EventKind::Mark | EventKind::Handler => Some(More::Value(event.value)),
        _ if event.node != NONE => Some(More::Frames(tables.place(event.node).collect())),
        _ => None,
    };
    line.push_str(&json(&JsonLine {
        thread: stream.thread,
        process: stream.process,
        level: stream.level,
        stream: stream.number,
        event: number,
        depth: event.depth,
        kind: event.kind.name(),
        about_ns,
        function: function.map(|name| tables.source_name(name)),
        more,
    }));
    line.push('\n');
}
