//! Folded stacks, for flame graphs: how many events each context had.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::printable::printable;
use crate::style::Style;
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::spans::{Change, Spans};

/// Contexts beyond so many are counted with their callers.
const MAX_CONTEXTS: usize = 1 << 20;

/// A tree of contexts: each is a callee below another context.
struct Contexts {
    /// Parent, callee, and events of its own.
    rows: Vec<(u32, u32, u64)>,
    numbers: HashMap<(u32, u32), u32>,
}

impl Contexts {
    fn below(&mut self, parent: u32, callee: u32) -> u32 {
        if let Some(&number) = self.numbers.get(&(parent, callee)) {
            return number;
        }
        if self.rows.len() >= MAX_CONTEXTS {
            return parent;
        }
        let number = self.rows.len() as u32;
        self.rows.push((parent, callee, 0));
        self.numbers.insert((parent, callee), number);
        number
    }
}

/// Writes the contexts of some streams. Returns how many gaps were met.
///
/// # Errors
/// Those of reading the trace, and of `out`.
pub fn folded<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<u64> {
    let tables = &reader.programs.tables;
    let mut contexts = Contexts { rows: vec![(0, u32::MAX, 0)], numbers: HashMap::new() };
    let mut gaps = 0;
    for stream in streams {
        let mut spans = Spans::default();
        let mut machine = reader.machine(stream);
        let mut active = vec![0];
        for event in machine.by_ref() {
            if event.kind.is_counted() {
                contexts.rows[*active.last().unwrap_or(&0) as usize].2 += 1;
            }
            spans.event(tables, &event, 0, |change| match change {
                Change::Begin(span) => {
                    let parent = *active.last().unwrap_or(&0);
                    active.push(contexts.below(parent, span.callee));
                }
                Change::End(_) => {
                    active.pop();
                }
            });
        }
        gaps += machine.finish()?;
    }
    let mut path = Vec::new();
    for (number, &(_, callee, events)) in contexts.rows.iter().enumerate() {
        if events == 0 || callee == u32::MAX {
            continue;
        }
        path.clear();
        let mut at = number;
        while at != 0 {
            path.push(contexts.rows[at].1);
            at = contexts.rows[at].0 as usize;
        }
        let names = path.iter().rev().map(|callee| {
            let name = tables.callee_name(*callee);
            // The separator of folded stacks; Rust's array types have it.
            printable(&style.name(name)).replace(';', ":")
        });
        writeln!(out, "{} {events}", names.collect::<Vec<_>>().join(";"))?;
    }
    Ok(gaps)
}
