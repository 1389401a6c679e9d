//! The differences of two profiles of one kind: by function, and by context.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;

use super::report::{OfFunction, Selection, amount, functions, write_frames};
use super::{Kind, Metric, Profile, Stack, StackFrame, Stacks, Unit};
use crate::context::FrameKind;
use crate::printable::{self, printable};
use crate::show::style::Style;

/// A profile, with its contexts.
#[derive(Clone, Copy)]
pub struct Side<'p> {
    pub profile: &'p Profile,
    pub stacks: &'p Stacks,
}

/// A number in the old profile and in the new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Pair {
    old: u64,
    new: u64,
}

impl Pair {
    fn distance(self) -> u64 {
        self.new.abs_diff(self.old)
    }

    /// The new number less the old one, as text.
    fn change(self, unit: Unit) -> String {
        let sign = match self.new.cmp(&self.old) {
            std::cmp::Ordering::Less => "-",
            std::cmp::Ordering::Equal => "",
            std::cmp::Ordering::Greater => "+",
        };
        format!("{sign}{}", amount(self.distance(), unit))
    }
}

/// A function that differs.
#[derive(Debug, Serialize)]
struct Function<'p> {
    function: &'p str,
    #[serde(rename = "self")]
    own: Pair,
    total: Pair,
}

/// A context that differs.
struct Change<'p> {
    /// The values in both profiles, in the order of the metrics.
    values: Vec<Pair>,
    stack: &'p Stack,
    stacks: &'p Stacks,
}

/// The metrics that both profiles have.
#[must_use]
pub fn metrics(old: Side<'_>, new: Side<'_>) -> &'static [Metric] {
    let [old, new] = [old, new].map(|side| side.profile.metrics());
    if old.len() < new.len() { old } else { new }
}

/// The functions that differ, by the difference of their own values, the largest first.
fn functions_that_differ<'p>(old: Side<'p>, new: Side<'p>, by: usize) -> Vec<Function<'p>> {
    let mut found: Vec<Function<'p>> = Vec::new();
    let mut index = HashMap::new();
    for (side, is_new) in [(old, false), (new, true)] {
        for OfFunction { function, own, total } in functions(side.profile.kind, side.stacks, by) {
            let at = *index.entry(function).or_insert_with(|| {
                found.push(Function { function, own: Pair::default(), total: Pair::default() });
                found.len() - 1
            });
            let Function { own: own_pair, total: total_pair, .. } = &mut found[at];
            for (pair, value) in [(own_pair, own), (total_pair, total)] {
                *if is_new { &mut pair.new } else { &mut pair.old } = value;
            }
        }
    }
    found.retain(|function| function.own.distance() > 0 || function.total.distance() > 0);
    found.sort_by_key(|function| std::cmp::Reverse((function.own.distance(), function.total.distance())));
    found
}

/// The parts of a frame that are compared. Frames of different builds are compared without their places.
type Key<'p> = (FrameKind, &'p str, Option<(Option<&'p str>, Option<u32>, Option<u32>)>);

/// The contexts that differ, the largest difference first. Contexts of two builds are equal if their functions are:
/// lines move. Samples fall on any line of the innermost function, so that line does not count.
fn contexts_that_differ<'p>(old: Side<'p>, new: Side<'p>, by: usize) -> Vec<Change<'p>> {
    let is_one_build = old.profile.build_id == new.profile.build_id;
    let mut found: Vec<Change<'p>> = Vec::new();
    let mut index: HashMap<Vec<Key<'p>>, usize> = HashMap::new();
    for (side, is_new) in [(old, false), (new, true)] {
        for stack in &side.stacks.stacks {
            let frames = stack.frames.iter().map(|&frame| &side.stacks.frames[frame as usize]);
            let key = frames.enumerate().map(|(depth, frame)| {
                let exact = is_one_build && (depth > 0 || side.profile.kind != Kind::Cpu);
                let place = exact.then_some((frame.file.as_deref(), frame.line, frame.column));
                (frame.kind, &*frame.name, place)
            });
            let at = *index.entry(key.collect()).or_insert_with(|| {
                let values = vec![Pair::default(); stack.values.len()];
                found.push(Change { values, stack, stacks: side.stacks });
                found.len() - 1
            });
            for (pair, value) in found[at].values.iter_mut().zip(&stack.values) {
                let sum = if is_new { &mut pair.new } else { &mut pair.old };
                *sum = sum.saturating_add(*value);
            }
        }
    }
    found.retain(|change| change.values[by].distance() > 0);
    found.sort_by_key(|change| std::cmp::Reverse(change.values[by].distance()));
    found
}

/// Writes the differences as text. `style`: of names, and of calls that are folded.
pub fn text(
    old: Side<'_>,
    new: Side<'_>,
    program: &str,
    selection: Selection,
    style: &Style,
    mut out: impl Write,
) -> io::Result<()> {
    let (kind, metrics) = (old.profile.kind, metrics(old, new));
    let by = &metrics[selection.by];
    let name = if kind == Kind::Heap { "heap" } else { "CPU" };
    let [first, second] = [old, new].map(|side| side.profile.process);
    writeln!(out, "{name} profiles of {}: process {first}, then process {second}", printable(program))?;
    for (number, metric) in metrics.iter().enumerate().filter(|(_, metric)| metric.additive) {
        let pair = Pair { old: old.profile.total(number), new: new.profile.total(number) };
        let [old, new] = [pair.old, pair.new].map(|value| amount(value, metric.unit));
        writeln!(out, "  {:<29} {old:>18} {new:>18} {:>18}", metric.title, pair.change(metric.unit))?;
    }
    if by.additive {
        let functions = functions_that_differ(old, new, selection.by);
        let shown = functions.len().min(selection.top);
        heading("function", shown, functions.len(), by.title, &mut out)?;
        if shown > 0 {
            writeln!(out, "\n{:>18} {:>18}", "self", "with callees")?;
        }
        for function in &functions[..shown] {
            let [own, total] = [function.own, function.total].map(|pair| pair.change(by.unit));
            writeln!(out, "{own:>18} {total:>18}  {}", style.fitted(function.function, 39))?;
        }
    }
    let changes = contexts_that_differ(old, new, selection.by);
    let shown = changes.len().min(selection.top);
    heading("context", shown, changes.len(), by.title, &mut out)?;
    for (number, change) in (1..).zip(&changes[..shown]) {
        let pair = change.values[selection.by];
        let [old, new] = [pair.old, pair.new].map(|value| amount(value, by.unit));
        writeln!(out, "\n{number}. {} (from {old} to {new})", pair.change(by.unit))?;
        write_frames(change.stacks, change.stack, &style.hidden, &mut out)?;
    }
    Ok(())
}

/// Writes the number of differences.
fn heading(what: &str, shown: usize, all: usize, title: &str, out: &mut impl Write) -> io::Result<()> {
    match all {
        0 => writeln!(out, "\nno {what} differs in {title}"),
        _ => {
            writeln!(out, "\n{shown} of {} {what}s that differ, by {title}", amount(all as u64, Unit::Count))
        }
    }
}

#[derive(Serialize)]
struct JsonChange<'p> {
    values: serde_json::Map<String, serde_json::Value>,
    frames: Vec<&'p StackFrame>,
}

/// Writes one object a line: the totals and the functions that differ, then the contexts that differ.
pub fn json(
    old: Side<'_>,
    new: Side<'_>,
    program: &str,
    selection: Selection,
    mut out: impl Write,
) -> io::Result<()> {
    let metrics = metrics(old, new);
    let pair = |pair: Pair| serde_json::json!(pair);
    let totals: serde_json::Map<_, _> = (metrics.iter().enumerate())
        .filter(|(_, metric)| metric.additive)
        .map(|(number, metric)| {
            let sums = Pair { old: old.profile.total(number), new: new.profile.total(number) };
            (metric.name.to_owned(), pair(sums))
        })
        .collect();
    let functions = match metrics[selection.by].additive {
        true => functions_that_differ(old, new, selection.by),
        false => Vec::new(),
    };
    let changes = contexts_that_differ(old, new, selection.by);
    let shown = &changes[..changes.len().min(selection.top)];
    let heading = serde_json::json!({
        "profile": old.profile.kind.name(),
        "program": program,
        "build_id": { "old": old.profile.build_id, "new": new.profile.build_id },
        "process": { "old": old.profile.process, "new": new.profile.process },
        "totals": totals,
        "by": metrics[selection.by].name,
        "contexts": changes.len(),
        "shown": shown.len(),
        "functions": functions.get(..selection.top).unwrap_or(&functions),
    });
    writeln!(out, "{}", printable::json(&heading))?;
    for change in shown {
        let values = metrics.iter().zip(&change.values);
        let values = values.map(|(metric, &value)| (metric.name.to_owned(), pair(value))).collect();
        let frames = change.stack.frames.iter().map(|&frame| &change.stacks.frames[frame as usize]).collect();
        writeln!(out, "{}", printable::json(&JsonChange { values, frames }))?;
    }
    Ok(())
}
