//! The JSON form of Chrome's trace viewer ("Trace Event Format"), which many viewers read.

use std::io::{self, Write};

use super::Clock;
use crate::printable::json;
use crate::trace::event::{EventKind, NOT_KEPT};
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::views::show::heading;
use crate::trace::views::spans::{Change, Spans};

/// Writes some streams. Returns how many gaps were met.
pub fn chrome<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    out: &mut dyn Write,
) -> io::Result<u64> {
    let tables = &reader.programs.tables;
    let names: Vec<String> =
        (0..tables.callee_count() as u32).map(|callee| json(&tables.callee_name(callee))).collect();
    writeln!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut separator = "";
    let mut gaps = 0;
    for stream in streams {
        // Streams of signal handlers are rows of their own.
        let place = format!(r#""pid":{},"tid":{}"#, stream.process, stream.number);
        let name = json(&heading(reader, stream));
        writeln!(out, r#"{separator}{{"ph":"M","name":"thread_name",{place},"args":{{"name":{name}}}}}"#)?;
        separator = ",";
        let mut spans = Spans::default();
        let mut clock = Clock::new(reader);
        let mut replay = reader.replay(stream);
        let mut result = Ok(());
        while let Some(event) = replay.next() {
            let now = clock.now(&replay);
            let time = format!("{}.{:03}", now / 1000, now % 1000);
            spans.event(tables, &event, now, |change| {
                let written = match change {
                    Change::Begin(span) => {
                        let name = &names[span.callee as usize];
                        writeln!(out, r#",{{"ph":"B",{place},"ts":{time},"name":{name}}}"#)
                    }
                    Change::Found(..) => Ok(()),
                    Change::End(_) => writeln!(out, r#",{{"ph":"E",{place},"ts":{time}}}"#),
                };
                if let Err(error) = written
                    && result.is_ok()
                {
                    result = Err(error);
                }
            });
            std::mem::replace(&mut result, Ok(()))?;
            let instant = match event.kind {
                EventKind::Mark => format!("mark {}", event.value),
                EventKind::Gap(why) => why.to_string(),
                EventKind::Known if event.value == 1 => NOT_KEPT.to_owned(),
                EventKind::Handler => format!("signal {}", event.value),
                _ => continue,
            };
            let instant = json(&instant);
            writeln!(out, r#",{{"ph":"i","s":"t",{place},"ts":{time},"name":{instant}}}"#)?;
        }
        gaps += replay.finish()?;
    }
    writeln!(out, "]}}")?;
    Ok(gaps)
}
