//! Folded stacks, for flame graphs: how many events each context had.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::printable::printable;
use crate::show::style::Style;
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::views::named::Met;
use crate::trace::views::selection::{Selection, Step, walk};

/// Further contexts are counted together, below each caller.
const MAX_CONTEXTS: usize = 1 << 20;
/// Stands for a callee: calls that are deeper than was asked for.
const DEEPER: u32 = u32::MAX;
/// Stands for a callee: contexts beyond [`MAX_CONTEXTS`].
const FURTHER: u32 = u32::MAX - 1;
/// Stands for a context: no active call is known.
const UNKNOWN: &str = "<not known>";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// Events in calls that are deeper than was asked for.
    pub deeper: u64,
    /// Events in contexts beyond those that are kept.
    pub further: u64,
    pub met: Met,
}

/// A context: a callee below another context.
struct Context {
    parent: u32,
    callee: u32,
    depth: u32,
    events: u64,
}

struct Contexts {
    rows: Vec<Context>,
    numbers: HashMap<(u32, u32), u32>,
    /// The greatest depth. The output may grow with its square: a line for each depth, with all callers.
    depth: u32,
}

impl Contexts {
    fn below(&mut self, parent: u32, callee: u32) -> u32 {
        let Context { callee: own, depth, .. } = self.rows[parent as usize];
        if depth > 0 && matches!(own, DEEPER | FURTHER) {
            return parent;
        }
        if let Some(&number) = self.numbers.get(&(parent, callee)) {
            return number;
        }
        let callee = match (depth >= self.depth, self.rows.len() >= MAX_CONTEXTS) {
            (true, _) => DEEPER,
            (_, true) => FURTHER,
            _ => callee,
        };
        let number = self.rows.len() as u32;
        let (rows, numbers) = (&mut self.rows, &mut self.numbers);
        *numbers.entry((parent, callee)).or_insert_with(|| {
            rows.push(Context { parent, callee, depth: depth + 1, events: 0 });
            number
        })
    }
}

/// Writes the contexts of some streams, each with at most `depth` calls.
pub fn folded<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
    selection: &Selection,
    depth: u32,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<Folded> {
    let tables = &reader.programs.tables;
    let root = Context { parent: 0, callee: 0, depth: 0, events: 0 };
    let mut contexts = Contexts { rows: vec![root], numbers: HashMap::new(), depth };
    let mut folded = Folded::default();
    for stream in streams {
        let mut active = vec![0];
        walk(
            reader,
            stream,
            selection,
            &mut folded.met,
            |_| 0,
            |_, _, step| {
                match step {
                    Step::Begin(span) => {
                        let parent = *active.last().unwrap_or(&0);
                        active.push(contexts.below(parent, span.callee));
                    }
                    Step::Found(span) => {
                        active.pop();
                        let parent = *active.last().unwrap_or(&0);
                        active.push(contexts.below(parent, span.callee));
                    }
                    Step::End => _ = active.pop(),
                    // The call of a chosen function is an event of its caller.
                    Step::Event(_) if active.len() == 1 && selection.functions.is_some() => {}
                    // An event belongs to the call that was active when it came.
                    Step::Event(event) => {
                        let innermost = *active.last().unwrap_or(&0);
                        contexts.rows[innermost as usize].events += u64::from(event.kind.is_counted());
                    }
                }
                Ok(())
            },
        )?;
    }
    let mut path = Vec::new();
    if contexts.rows[0].events > 0 {
        writeln!(out, "{UNKNOWN} {}", contexts.rows[0].events)?;
    }
    for (number, &Context { callee, events, .. }) in contexts.rows.iter().enumerate().skip(1) {
        if events == 0 {
            continue;
        }
        folded.deeper += if callee == DEEPER { events } else { 0 };
        folded.further += if callee == FURTHER { events } else { 0 };
        path.clear();
        let mut at = number;
        while at != 0 {
            path.push(contexts.rows[at].callee);
            at = contexts.rows[at].parent as usize;
        }
        let names = path.iter().rev().map(|callee| match *callee {
            DEEPER => "<deeper calls>".to_owned(),
            FURTHER => "<further calls>".to_owned(),
            // `;` separates the frames of folded stacks, and Rust's array types have it.
            callee => printable(&style.name(tables.callee_name(callee))).replace(';', ":"),
        });
        writeln!(out, "{} {events}", names.collect::<Vec<_>>().join(";"))?;
    }
    Ok(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_contexts_than_are_kept() {
        let root = Context { parent: 0, callee: 0, depth: 0, events: 0 };
        let mut contexts = Contexts { rows: vec![root], numbers: HashMap::new(), depth: 3 };
        let callees = 0..2 * MAX_CONTEXTS as u32;
        let below: Vec<u32> = callees.clone().map(|callee| contexts.below(0, callee)).collect();
        assert_eq!(contexts.rows.len(), MAX_CONTEXTS + 1);
        let last = below[below.len() - 1];
        assert_eq!(contexts.rows[last as usize].callee, FURTHER);
        assert_eq!(contexts.below(last, 7), last);
        // Contexts that are kept are found again.
        assert!(callees.zip(&below).all(|(callee, number)| contexts.below(0, callee) == *number));
    }

    #[test]
    fn what_is_deeper_is_counted_together() {
        let root = Context { parent: 0, callee: 0, depth: 0, events: 0 };
        let mut contexts = Contexts { rows: vec![root], numbers: HashMap::new(), depth: 2 };
        let second = contexts.below(0, 5);
        let second = contexts.below(second, 5);
        let (one, other) = (contexts.below(second, 6), contexts.below(second, 7));
        assert_eq!((one, contexts.rows[one as usize].callee), (other, DEEPER));
        assert_eq!(contexts.below(one, 5), one);
        assert_eq!(contexts.rows.len(), 4);
    }
}
