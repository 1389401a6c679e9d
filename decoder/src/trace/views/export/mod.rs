//! Traces for other programs: trace viewers, flame graphs, and a picture.
//!
//! The clock is known where chunks begin and end. Between these, times are interpolated by the amount that the
//! thread has written.
//!
//! Each format of a trace viewer is a [`Viewer`], in a file of its own.

mod chrome;
mod folded;
mod page;
mod perfetto;
mod speedscope;
mod timeline;

use std::io::{self, Write};

pub use chrome::chrome;
pub use folded::{Folded, folded};
pub use page::page;
pub use perfetto::perfetto;
pub use speedscope::speedscope;
pub use timeline::timeline;

use crate::trace::event::{EventKind, NOT_KEPT};
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::replay::Replay;
use crate::trace::tables::{NONE, Tables};
use crate::trace::views::named::Met;
use crate::trace::views::selection::{Selection, Step, walk};
use crate::trace::views::show::heading;
use crate::trace::views::spans::Span;

/// A writer for a trace viewer, which shows the calls of each stream as spans. Times are in nanoseconds.
trait Viewer {
    /// Begins a stream, in a row of its own: signal handlers have streams, too.
    fn track(&mut self, stream: &Stream, name: &str, out: &mut dyn Write) -> io::Result<()>;
    /// A call begins, at its [`Span::start`].
    fn begin(&mut self, stream: &Stream, span: &Span, out: &mut dyn Write) -> io::Result<()>;
    /// The innermost call ends.
    fn end(&mut self, stream: &Stream, time: u64, span: &Span, out: &mut dyn Write) -> io::Result<()>;
    /// Something happens at a moment.
    fn instant(&mut self, stream: &Stream, time: u64, name: String, out: &mut dyn Write) -> io::Result<()>;
}

/// The calls that a trace viewer gets.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    pub selection: Selection,
    /// The fewest events that a call must have inside of it. Calls around a moment are exported in any case.
    pub least: u64,
}

/// A call that is active, and the number of events when it began.
struct Active {
    span: Span,
    events: u64,
}

/// Writes some streams for a viewer. Returns the counts of what was met.
fn write_spans<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    exported: &Exported,
    viewer: &mut impl Viewer,
    out: &mut dyn Write,
) -> io::Result<Met> {
    let start = reader.start();
    let mut met = Met::default();
    for stream in streams {
        viewer.track(stream, &heading(reader, stream), out)?;
        // The outermost `written` calls of `active` were written.
        let (mut active, mut written) = (Vec::<Active>::new(), 0);
        let mut time = 0;
        // Each event is later than all before.
        let clock = |replay: &Replay<'_>| {
            time = replay.time().saturating_sub(start).max(time + 1);
            time
        };
        walk(reader, stream, &exported.selection, &mut met, clock, |replay, now, step| {
            let events = replay.events();
            match step {
                Step::Begin(span) => active.push(Active { span, events }),
                Step::Found(span) => {
                    active.last_mut().expect("it has begun").span = span;
                    return Ok(());
                }
                Step::End => {
                    let call = active.pop().expect("what ends has begun");
                    if written > active.len() {
                        written = active.len();
                        viewer.end(stream, now, &call.span, out)?;
                    }
                    return Ok(());
                }
                Step::Event(_) => {}
            }
            let instant = match step {
                Step::Event(event) => match event.kind {
                    EventKind::Mark => Some(format!("mark {}", event.value)),
                    EventKind::Gap(cause) => Some(cause.to_string()),
                    EventKind::Known if event.value == 1 => Some(NOT_KEPT.to_owned()),
                    EventKind::Handler => Some(format!("signal {}", event.value)),
                    _ => None,
                },
                _ => None,
            };
            while let Some(call) = active.get(written)
                && (instant.is_some() || events - call.events >= exported.least)
            {
                viewer.begin(stream, &call.span, out)?;
                written += 1;
            }
            instant.map_or(Ok(()), |name| viewer.instant(stream, now, name, out))
        })?;
    }
    Ok(met)
}

/// The place of a call in the source, as ⟨file, line⟩; none if it is not known.
fn place(tables: &Tables, node: u32) -> Option<(&str, u32)> {
    let place = Some(node).filter(|node| *node != NONE).and_then(|node| tables.place(node).next())?;
    place.file.zip(place.line)
}
