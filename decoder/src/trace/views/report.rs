//! Counts of calls and events by function.

use std::io;

use super::spans::{Callee, Change, Spans};
use crate::trace::event::{Event, EventKind};
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::tables::{NONE, Tables};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub callee: Callee,
    /// The number of its calls.
    pub calls: u64,
    /// Events in it: its calls and returns.
    pub own: u64,
    /// Events in it and in its callees.
    pub inclusive: u64,
    /// The approximate time that it and its callees have lasted, in nanoseconds
    /// ([`Replay::time`](super::Replay::time)).
    pub time: u64,
}

#[derive(Debug)]
pub(in crate::trace) struct Totals {
    rows: Vec<Row>,
    /// By callee, the number of its activations that are open.
    active: Vec<u32>,
    /// By callee, the time at which the outermost of these began.
    since: Vec<u64>,
    spans: Spans,
}

impl Totals {
    pub(in crate::trace) fn new(tables: &Tables) -> Self {
        let rows =
            (0..tables.callee_count()).map(|n| Row { callee: n as Callee, ..Row::default() }).collect();
        let count = tables.callee_count();
        Self { rows, active: vec![0; count], since: vec![0; count], spans: Spans::default() }
    }

    /// Counts an event. `events`: the number of events so far, with this one. `time`: the clock.
    #[inline]
    pub(in crate::trace) fn event(
        &mut self,
        tables: &Tables,
        event: &Event,
        events: u64,
        time: impl Fn() -> u64,
    ) {
        // A node is an event of the function that it is in.
        if event.kind.is_counted() && event.node != NONE {
            self.rows[tables.function_of(event.node) as usize].own += 1;
        }
        let is_call = !matches!(event.kind, EventKind::Active | EventKind::Landed | EventKind::Again);
        let (rows, active, since) = (&mut self.rows, &mut self.active, &mut self.since);
        self.spans.event(tables, event, events, |change| match change {
            Change::Begin(span) => {
                rows[span.callee as usize].calls += u64::from(is_call);
                if active[span.callee as usize] == 0 {
                    since[span.callee as usize] = time();
                }
                active[span.callee as usize] += 1;
            }
            Change::Found(span, before) => {
                let calls = u64::from(is_call);
                let [before, callee] = [before, span.callee].map(|callee| callee as usize);
                rows[before].calls -= calls;
                active[before] -= 1;
                rows[callee].calls += calls;
                if active[callee] == 0 {
                    since[callee] = since[before];
                }
                active[callee] += 1;
            }
            Change::End(span) => {
                let active = &mut active[span.callee as usize];
                *active -= 1;
                // Of a recursive function, only the outermost activation counts.
                if *active == 0 {
                    let row = &mut rows[span.callee as usize];
                    row.inclusive += events - span.start;
                    row.time += time().saturating_sub(since[span.callee as usize]);
                }
            }
        });
    }

    pub(in crate::trace) fn rows(self) -> Vec<Row> {
        self.rows
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The functions that were called, the most frequent first.
    pub rows: Vec<Row>,
    pub events: u64,
    pub gaps: u64,
}

/// Counts the calls of some streams.
pub fn report<'t>(reader: &Reader<'t>, streams: impl IntoIterator<Item = &'t Stream>) -> io::Result<Report> {
    let tables = &reader.programs.tables;
    let mut report = Report::default();
    let mut totals = Totals::new(tables);
    for stream in streams {
        let mut replay = reader.replay(stream);
        while let Some(event) = replay.next() {
            totals.event(tables, &event, replay.events(), || replay.time());
        }
        report.gaps += replay.finish()?;
        report.events += replay.events();
    }
    report.rows = totals.rows();
    report.rows.retain(|row| row.calls > 0 || row.own > 0);
    report.rows.sort_by_key(|row| (std::cmp::Reverse((row.calls, row.own)), row.callee));
    Ok(report)
}
