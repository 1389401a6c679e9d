//! A page for browsers that shows the calls of each stream over time, and can be zoomed. It needs no other file.

use std::io::{self, Write};

use serde_json::json;

use super::{Exported, Viewer, place, write_spans};
use crate::show::style::short;
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::tables::Tables;
use crate::trace::views::named::Met;
use crate::trace::views::spans::Span;

/// Bound on the calls in a page, as many as browsers can draw. The shortest calls are left out.
const MAX_CALLS: usize = 300_000;
/// Deeper calls are not in the page.
const MAX_DEPTH: u32 = 200;
/// Bound on the moments of a stream that are in the page.
const MAX_MOMENTS: usize = 1000;
/// The page; its data replaces the word [`DATA`].
const PAGE: &str = include_str!("page.html");
const DATA: &str = "@DATA@";

/// A call.
struct Call {
    start: u64,
    len: u64,
    depth: u32,
    callee: u32,
    node: u32,
}

/// The row of a stream.
struct Row {
    title: String,
    calls: Vec<Call>,
    moments: Vec<(u64, String)>,
}

/// Writes the page. Returns the counts of what was met.
pub fn page<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    exported: &Exported,
    out: &mut dyn Write,
) -> io::Result<Met> {
    let mut rows = Rows { rows: Vec::new(), count: 0, shortest: 0, left_out: 0, deeper: 0 };
    let met = write_spans(reader, streams, exported, &mut rows, &mut io::sink())?;
    rows.thin(MAX_CALLS);
    let data = rows.data(&reader.programs.tables).to_string();
    // Escaped, so that no text in the data ends the page's script.
    let page = PAGE.split_once(DATA).expect("the page has it");
    write!(out, "{}{}{}", page.0, data.replace('<', "\\u003c"), page.1)?;
    Ok(met)
}

struct Rows {
    rows: Vec<Row>,
    /// Calls in all rows.
    count: usize,
    /// Calls that last less are left out.
    shortest: u64,
    left_out: u64,
    /// Calls that are deeper than [`MAX_DEPTH`].
    deeper: u64,
}

impl Rows {
    /// Leaves the shortest calls out if there are more than `most`.
    fn thin(&mut self, most: usize) {
        if self.count <= most {
            return;
        }
        let mut lens: Vec<u64> = self.rows.iter().flat_map(|row| &row.calls).map(|call| call.len).collect();
        let (_, limit, _) = lens.select_nth_unstable(self.count - most);
        self.shortest = self.shortest.max(*limit + 1);
        for row in &mut self.rows {
            row.calls.retain(|call| call.len >= self.shortest);
        }
        let kept = self.rows.iter().map(|row| row.calls.len()).sum();
        self.left_out += (self.count - kept) as u64;
        self.count = kept;
    }

    fn data(&self, tables: &Tables) -> serde_json::Value {
        let (mut names, mut places) = (Numbers::default(), Numbers::default());
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                let mut calls: Vec<&Call> = row.calls.iter().collect();
                calls.sort_by_key(|call| (call.depth, call.start));
                let mut numbers = Vec::with_capacity(5 * calls.len());
                // A start is the difference from that of the call before, at the same depth.
                let (mut depth, mut start) = (u32::MAX, 0);
                for call in calls {
                    if std::mem::replace(&mut depth, call.depth) != call.depth {
                        start = 0;
                    }
                    let name = names.of(&short(tables.callee_name(call.callee)));
                    let at = place(tables, call.node)
                        .map_or(String::new(), |(file, line)| format!("{file}:{line}"));
                    let since = call.start - std::mem::replace(&mut start, call.start);
                    numbers.extend([u64::from(call.depth), since, call.len, name, places.of(&at)]);
                }
                json!({ "title": row.title, "calls": numbers, "moments": row.moments })
            })
            .collect();
        json!({
            "rows": rows, "names": names.texts, "places": places.texts, "leftOut": self.left_out,
            "shortest": self.shortest, "deeper": self.deeper, "deepest": MAX_DEPTH,
        })
    }
}

/// Texts and their numbers. Each text is stored once.
#[derive(Default)]
struct Numbers {
    texts: Vec<String>,
    numbers: std::collections::HashMap<String, u64>,
}

impl Numbers {
    fn of(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.texts.len() as u64;
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

impl Viewer for Rows {
    fn track(&mut self, _: &Stream, name: &str, _: &mut dyn Write) -> io::Result<()> {
        self.rows.push(Row { title: name.to_owned(), calls: Vec::new(), moments: Vec::new() });
        Ok(())
    }

    fn begin(&mut self, _: &Stream, _: &Span, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _: &Stream, time: u64, span: &Span, _: &mut dyn Write) -> io::Result<()> {
        let Span { callee, depth, node, start } = *span;
        let len = time - start;
        if depth >= MAX_DEPTH {
            self.deeper += 1;
            return Ok(());
        }
        if len < self.shortest {
            self.left_out += 1;
            return Ok(());
        }
        let row = self.rows.last_mut().expect("it has begun");
        row.calls.push(Call { start, len, depth, callee, node });
        self.count += 1;
        if self.count > 2 * MAX_CALLS {
            self.thin(MAX_CALLS);
        }
        Ok(())
    }

    fn instant(&mut self, _: &Stream, time: u64, name: String, _: &mut dyn Write) -> io::Result<()> {
        let row = self.rows.last_mut().expect("it has begun");
        if row.moments.len() < MAX_MOMENTS {
            row.moments.push((time, name));
        }
        Ok(())
    }
}
