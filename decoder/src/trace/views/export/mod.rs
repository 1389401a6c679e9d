//! Traces for other programs: trace viewers, flame graphs, and a picture.
//!
//! The clock is known where chunks begin and end. Between these, times go on evenly with what the thread has
//! written.
//!
//! A format of a trace viewer is a [`Viewer`] in a file here.

mod chrome;
mod folded;
mod perfetto;
mod speedscope;
mod timeline;

use std::io::{self, Write};

pub use chrome::chrome;
pub use folded::{Folded, folded};
pub use perfetto::perfetto;
pub use speedscope::speedscope;
pub use timeline::timeline;

use crate::trace::event::{EventKind, NOT_KEPT};
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::views::show::heading;
use crate::trace::views::spans::{Callee, Change, Spans};

/// A writer for a trace viewer, which shows the calls of each stream as spans. Times are in nanoseconds.
trait Viewer {
    /// Begins a stream, in a row of its own: signal handlers have streams, too.
    fn track(&mut self, stream: &Stream, name: &str, out: &mut dyn Write) -> io::Result<()>;
    /// A call begins.
    fn begin(&mut self, stream: &Stream, time: u64, callee: Callee, out: &mut dyn Write) -> io::Result<()>;
    /// The innermost call ends.
    fn end(&mut self, stream: &Stream, time: u64, out: &mut dyn Write) -> io::Result<()>;
    /// Something happens at a moment.
    fn instant(&mut self, stream: &Stream, time: u64, name: String, out: &mut dyn Write) -> io::Result<()>;
}

/// Writes some streams for a viewer. Returns the number of gaps.
fn write_spans<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    viewer: &mut impl Viewer,
    out: &mut dyn Write,
) -> io::Result<u64> {
    let (tables, start) = (&reader.programs.tables, reader.start());
    let mut gaps = 0;
    for stream in streams {
        viewer.track(stream, &heading(reader, stream), out)?;
        let mut spans = Spans::default();
        let mut time = 0;
        let mut replay = reader.replay(stream);
        while let Some(event) = replay.next() {
            // Each event is later than all before.
            time = replay.time().saturating_sub(start).max(time + 1);
            let mut result = Ok(());
            spans.event(tables, &event, time, |change| {
                if result.is_ok() {
                    result = match change {
                        Change::Begin(span) => viewer.begin(stream, time, span.callee, out),
                        Change::Found(..) => Ok(()),
                        Change::End(_) => viewer.end(stream, time, out),
                    };
                }
            });
            result?;
            let instant = match event.kind {
                EventKind::Mark => format!("mark {}", event.value),
                EventKind::Gap(cause) => cause.to_string(),
                EventKind::Known if event.value == 1 => NOT_KEPT.to_owned(),
                EventKind::Handler => format!("signal {}", event.value),
                _ => continue,
            };
            viewer.instant(stream, time, instant, out)?;
        }
        gaps += replay.finish()?;
    }
    Ok(gaps)
}
