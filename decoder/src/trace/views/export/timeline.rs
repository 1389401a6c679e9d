//! A picture of a trace: for each thread, the calls that were active over time, at the resolution of the picture.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::printable::printable;
use crate::show::style::short;
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::replay::Replay;
use crate::trace::views::named::Met;
use crate::trace::views::report::Totals;
use crate::trace::views::selection::{Selection, Step, walk};
use crate::trace::views::show::heading;
use crate::trace::views::spans::{Callee, Span};

/// Width of the picture, in pixels; each is a column of events.
const COLUMNS: u64 = 1200;
const ROW: usize = 14;
/// Deeper calls are not drawn one by one.
const MAX_ROWS: usize = 40;
const MARGIN: usize = 20;
/// Height of the texts above a thread.
const TITLE: usize = 34;
/// Width of a character, in pixels.
const CHARACTER: f64 = 6.2;
/// How many functions are listed below the threads.
const MAX_FUNCTIONS: usize = 12;
/// Bound on the threads that are drawn.
const MAX_STREAMS: usize = 32;

/// The calls of a thread, by column of the picture.
#[derive(Default)]
struct Columns {
    per_column: u64,
    /// The column that is being filled, and how much of it each callee had, by depth.
    column: u64,
    shares: Vec<HashMap<Callee, u64>>,
    /// By depth: the callee that had most of each column, where it had at least a quarter.
    rows: Vec<Vec<(u64, Callee)>>,
    deepest: u32,
    depths: Vec<u32>,
}

impl Columns {
    /// Adds a span that has lasted from its beginning, or the column's, to `now`.
    fn add(&mut self, span: &Span, now: u64) {
        let start = span.start.max(self.column * self.per_column);
        let depth = span.depth as usize;
        if depth >= MAX_ROWS || now <= start {
            return;
        }
        if self.shares.len() <= depth {
            self.shares.resize_with(depth + 1, HashMap::new);
        }
        *self.shares[depth].entry(span.callee).or_default() += now - start;
    }

    /// Ends all columns before the one of `now`.
    fn advance(&mut self, now: u64, open: &[Span]) {
        while (self.column + 1) * self.per_column <= now {
            let end = (self.column + 1) * self.per_column;
            let shown = open.partition_point(|span| (span.depth as usize) < MAX_ROWS);
            for span in &open[..shown] {
                self.add(span, end);
            }
            self.finish();
        }
    }

    fn finish(&mut self) {
        for (depth, shares) in self.shares.iter_mut().enumerate() {
            let most = shares.drain().max_by_key(|(callee, share)| (*share, *callee));
            if let Some((callee, share)) = most
                && share * 4 >= self.per_column
            {
                if self.rows.len() <= depth {
                    self.rows.resize_with(depth + 1, Vec::new);
                }
                self.rows[depth].push((self.column, callee));
            }
        }
        self.depths.push(self.deepest);
        self.deepest = 0;
        self.column += 1;
    }
}

/// Writes the picture, as SVG. Returns the counts of what was met.
pub fn timeline<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    selection: &Selection,
    out: &mut dyn Write,
) -> io::Result<Met> {
    let tables = &reader.programs.tables;
    let mut totals = Totals::new(tables);
    let mut drawn = Vec::new();
    let mut left_out = 0;
    let mut met = Met::default();
    for stream in streams {
        if drawn.len() >= MAX_STREAMS {
            left_out += 1;
            continue;
        }
        // The first reading counts the events, which gives the number of events for each column.
        let clock = |replay: &Replay<'_>| replay.events().saturating_sub(1);
        let mut range = None;
        walk(reader, stream, selection, &mut met, clock, |replay, now, step| {
            if let Step::Event(event) = step {
                totals.event(tables, &event, replay.events(), || 0);
                let (first, _) = range.unwrap_or((now, now));
                range = Some((first, replay.events()));
            }
            Ok(())
        })?;
        let Some((first, events)) =
            range.map(|(first, end)| (first, end - first)).filter(|range| range.1 > 0)
        else {
            continue;
        };
        let mut columns = Columns { per_column: events.div_ceil(COLUMNS), ..Columns::default() };
        let mut open: Vec<Span> = Vec::new();
        let clock = |replay: &Replay<'_>| replay.events().saturating_sub(1).saturating_sub(first);
        walk(reader, stream, selection, &mut Met::default(), clock, |_, now, step| {
            match step {
                Step::Begin(span) => open.push(span),
                Step::Found(span) => open.last_mut().expect("it has begun").callee = span.callee,
                Step::End => columns.add(&open.pop().expect("what ends has begun"), now + 1),
                Step::Event(event) => {
                    columns.advance(now, &open);
                    columns.deepest = columns.deepest.max(event.depth + 1);
                }
            }
            Ok(())
        })?;
        columns.finish();
        drawn.push((heading(reader, stream), events, columns));
    }
    let mut rows = totals.rows();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.own), row.callee));
    rows.truncate(MAX_FUNCTIONS);
    rows.retain(|row| row.own > 0);
    let name = |callee: Callee| printable(&short(tables.callee_name(callee))).into_owned();
    let all: u64 = drawn.iter().map(|(_, events, _)| events).sum();
    let mut body = String::new();
    let mut top = MARGIN;
    for (title, events, columns) in &drawn {
        top = thread(&mut body, top, title, *events, columns, &name);
    }
    let _ = write!(
        body,
        r#"<text class="title" x="{MARGIN}" y="{}">Functions with the most events</text>"#,
        top + 14
    );
    top += 24;
    for row in &rows {
        let percent = row.own as f64 * 100.0 / all.max(1) as f64;
        let _ = write!(
            body,
            r#"<rect x="{MARGIN}" y="{top}" width="12" height="12" fill="{}"/><text x="{}" y="{}">{} – {percent:.1} % of the events, {} calls</text>"#,
            colour(row.callee),
            MARGIN + 18,
            top + 10,
            escaped(&name(row.callee)),
            row.calls,
        );
        top += 18;
    }
    if left_out > 0 {
        let _ = write!(
            body,
            r#"<text x="{MARGIN}" y="{}">{left_out} more threads are not drawn</text>"#,
            top + 10
        );
        top += 18;
    }
    let (width, height) = (COLUMNS as usize + 2 * MARGIN, top + MARGIN);
    writeln!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">
<style>text{{font:11px sans-serif;fill:#222}}.title{{font-weight:bold;font-size:13px}}.note{{fill:#777}}rect:hover{{stroke:#000}}</style>
<rect width="100%" height="100%" fill="#fff"/>
{body}
</svg>"##
    )?;
    Ok(met)
}

/// Draws a thread from `top` on. Returns where the next one begins.
fn thread(
    body: &mut String,
    top: usize,
    title: &str,
    events: u64,
    columns: &Columns,
    name: &impl Fn(Callee) -> String,
) -> usize {
    let deepest = columns.depths.iter().copied().max().unwrap_or_default();
    let _ = write!(
        body,
        r#"<text class="title" x="{MARGIN}" y="{}">{}</text><text class="note" x="{MARGIN}" y="{}">{events} events from left to right, up to {deepest} calls deep</text>"#,
        top + 12,
        escaped(title),
        top + 27,
    );
    let top = top + TITLE;
    // The outermost call is at the top, as in a list of calls.
    let height = (deepest as usize).clamp(1, MAX_ROWS) * ROW;
    let used = events.div_ceil(columns.per_column) as usize;
    let scale = COLUMNS as f64 / used.max(1) as f64;
    let mut outline = format!("M{MARGIN},{top}");
    for (column, depth) in columns.depths.iter().enumerate().take(used) {
        let y = top + (*depth as usize).min(MAX_ROWS) * ROW;
        let x = |column: usize| MARGIN as f64 + column as f64 * scale;
        let _ = write!(outline, "L{:.1},{y}L{:.1},{y}", x(column), x(column + 1));
    }
    let _ = write!(body, r##"<path d="{outline}L{},{top}Z" fill="#e8e8ec"/>"##, MARGIN + COLUMNS as usize);
    for (depth, row) in columns.rows.iter().enumerate() {
        let mut at = 0;
        while let Some(&(first, callee)) = row.get(at) {
            let mut end = first;
            while row.get(at).is_some_and(|next| *next == (end, callee)) {
                end += 1;
                at += 1;
            }
            let (x, width) = (MARGIN as f64 + first as f64 * scale, (end - first) as f64 * scale);
            let y = top + depth * ROW;
            let whole = name(callee);
            let _ = write!(
                body,
                r#"<rect x="{x:.1}" y="{y}" width="{width:.1}" height="{}" fill="{}"><title>{}</title></rect>"#,
                ROW - 1,
                colour(callee),
                escaped(&whole),
            );
            let room = (width / CHARACTER) as usize;
            if room >= 4 {
                let shown: String = if whole.chars().count() > room {
                    whole.chars().take(room - 1).chain(['…']).collect()
                } else {
                    whole
                };
                let _ = write!(body, r#"<text x="{:.1}" y="{}">{}</text>"#, x + 2.0, y + 10, escaped(&shown));
            }
        }
    }
    top + height + MARGIN
}

/// A colour for a callee, light enough for text on it.
fn colour(callee: Callee) -> String {
    let hash = u64::from(callee).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("hsl({},{}%,{}%)", (hash >> 40) % 360, 55 + (hash >> 32) % 25, 68 + (hash >> 24) % 12)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
