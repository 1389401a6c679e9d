//! Reports as text and as JSON.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::context::FrameKind;
use crate::printable::{self, printable};
use crate::show::folding::{Folding, Hidden};
use crate::show::style::Style;

use super::stacks::INDENT;
use super::{Kind, Profile, Stack, StackFrame, Stacks, Unit};

#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// The metric by which the contexts are sorted, by its number. Contexts where it is 0 are left out.
    pub by: usize,
    pub top: usize,
}

/// The selected stacks, the largest first; and the number of stacks before the selection of the `top` ones.
fn select(kind: Kind, stacks: &Stacks, selection: Selection) -> (Vec<Cow<'_, Stack>>, usize) {
    let all: Vec<Cow<'_, Stack>> = match kind {
        Kind::Heap => stacks.stacks.iter().map(Cow::Borrowed).collect(),
        Kind::Cpu => by_function(stacks).into_iter().map(Cow::Owned).collect(),
    };
    let mut sorted: Vec<_> = all.into_iter().filter(|stack| stack.values[selection.by] > 0).collect();
    // The sort is stable: stacks with equal values stay in the order of the file.
    sorted.sort_by_key(|stack| std::cmp::Reverse(stack.values[selection.by]));
    let all = sorted.len();
    sorted.truncate(selection.top);
    (sorted, all)
}

/// The stacks, in which the line of the innermost function does not count, since samples fall on any line of it.
/// Each has the line that was found most often.
fn by_function(stacks: &Stacks) -> Vec<Stack> {
    let mut sorted: Vec<&Stack> = stacks.stacks.iter().collect();
    sorted.sort_by_key(|stack| std::cmp::Reverse(stack.values[0]));
    let mut index = HashMap::new();
    let mut result: Vec<Stack> = Vec::new();
    for stack in sorted {
        let (innermost, callers) = stack.frames.split_first().expect("a stack has a frame");
        let innermost = &stacks.frames[*innermost as usize];
        let key = (innermost.kind, &innermost.name, &innermost.file, callers);
        let at = *index.entry(key).or_insert(result.len());
        match result.get_mut(at) {
            Some(whole) => {
                for (sum, value) in whole.values.iter_mut().zip(&stack.values) {
                    *sum = sum.saturating_add(*value);
                }
            }
            None => result.push(stack.clone()),
        }
    }
    result
}

/// A metric of one function.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct OfFunction<'s> {
    pub(super) function: &'s str,
    /// The value in the function itself, without functions that are inlined into it. In heap profiles: the memory for
    /// which it asked functions that are not instrumented, or hidden, like the allocator and the insides of containers.
    #[serde(rename = "self")]
    pub(super) own: u64,
    /// The value in it and in the functions that it calls. A recursive function counts once.
    pub(super) total: u64,
}

/// The functions of all stacks, by their own values, the largest first. Uninstrumented code without a known name is one
/// function.
pub(super) fn functions(kind: Kind, stacks: &Stacks, by: usize) -> Vec<OfFunction<'_>> {
    let mut index: HashMap<&str, usize> = HashMap::new();
    // Each function with the number of the last stack that was counted for it.
    let mut found: Vec<(OfFunction<'_>, usize)> = Vec::new();
    for (number, stack) in stacks.stacks.iter().enumerate() {
        let value = stack.values[by];
        let asks = |frame: &u32| {
            let frame = &stacks.frames[*frame as usize];
            frame.kind == FrameKind::Call && frame.hidden.is_none()
        };
        let own = match kind {
            Kind::Heap => stack.frames.iter().position(asks).unwrap_or(0),
            Kind::Cpu => 0,
        };
        for (depth, &frame) in stack.frames.iter().enumerate() {
            let name = &*stacks.frames[frame as usize].name;
            let at = *index.entry(name).or_insert_with(|| {
                found.push((OfFunction { function: name, own: 0, total: 0 }, usize::MAX));
                found.len() - 1
            });
            let (function, counted) = &mut found[at];
            if depth == own {
                function.own = function.own.saturating_add(value);
            }
            if std::mem::replace(counted, number) != number {
                function.total = function.total.saturating_add(value);
            }
        }
    }
    let mut found: Vec<_> = found.into_iter().map(|(function, _)| function).collect();
    found.retain(|function| function.total > 0);
    found.sort_by_key(|function| std::cmp::Reverse((function.own, function.total)));
    found
}

/// A number with separators and unit, as reports show it.
pub fn amount(value: u64, unit: Unit) -> String {
    let digits = |value: u64| {
        let digits = value.to_string();
        let mut text = String::new();
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        text
    };
    match unit {
        Unit::Count => digits(value),
        Unit::Bytes => format!("{} bytes", digits(value)),
        Unit::Nanoseconds => format!("{} ms", digits((value + 500_000) / 1_000_000)),
    }
}

/// Writes a report as text. `style`: of names, and of calls that are folded.
pub fn text(
    profile: &Profile,
    stacks: &Stacks,
    program: &str,
    selection: Selection,
    style: &Style,
    mut out: impl Write,
) -> io::Result<()> {
    let metrics = profile.metrics();
    let by = &metrics[selection.by];
    let program = printable(program);
    match profile.kind {
        Kind::Heap => {
            let line = |blocks: u64, bytes: u64| {
                format!("{:>15} in {} blocks", amount(bytes, Unit::Bytes), amount(blocks, Unit::Count))
            };
            let freed = profile.records.iter().fold((0u64, 0u64), |sum, record| {
                (sum.0.saturating_add(record.freed.0), sum.1.saturating_add(record.freed.1))
            });
            writeln!(out, "heap profile of {program}, process {}", profile.process)?;
            writeln!(out, "  allocated  {}", line(profile.total(5), profile.total(4)))?;
            writeln!(out, "  freed      {}", line(freed.0, freed.1))?;
            writeln!(out, "  not freed  {}", line(profile.total(3), profile.total(2)))?;
            if profile.has_leaks {
                writeln!(out, "  leaked     {}", line(profile.total(8), profile.total(7)))?;
            }
            writeln!(out, "  peak       {}", line(profile.total(1), profile.total(0)))?;
        }
        Kind::Cpu => {
            writeln!(out, "CPU profile of {program}, process {}", profile.process)?;
            let (time, samples) = (profile.total(0), profile.total(1));
            writeln!(
                out,
                "  {} in {} samples",
                amount(time, Unit::Nanoseconds),
                amount(samples, Unit::Count)
            )?;
        }
    }
    if by.additive {
        table(profile, stacks, selection, style, &mut out)?;
    }
    let (shown, all) = select(profile.kind, stacks, selection);
    let title = by.title;
    if shown.is_empty() {
        return writeln!(out, "\nno context has {title}");
    }
    writeln!(out, "\n{} of {} contexts, by {title}", shown.len(), amount(all as u64, Unit::Count))?;
    let total = profile.total(selection.by);
    for (number, stack) in (1..).zip(shown) {
        let value = stack.values[selection.by];
        write!(out, "\n{number}. {}", amount(value, by.unit))?;
        if by.additive {
            write!(out, " ({:.1} %)", value as f64 * 100.0 / total as f64)?;
        }
        writeln!(out)?;
        if profile.kind == Kind::Heap {
            let [peak, peak_blocks, live, live_blocks, allocated, allocations, own_peak, ref leaked @ ..] =
                stack.values[..]
            else {
                unreachable!("as many as there are metrics")
            };
            let of = |bytes: u64, blocks: u64| {
                let plural = if blocks == 1 { "" } else { "s" };
                format!("{} in {} block{plural}", amount(bytes, Unit::Count), amount(blocks, Unit::Count))
            };
            let leaked = match leaked {
                [bytes, blocks] => format!(", leaked {}", of(*bytes, *blocks)),
                _ => String::new(),
            };
            writeln!(
                out,
                "    peak {}; not freed {}{leaked}; allocated {}; at most {} at a time",
                of(peak, peak_blocks),
                of(live, live_blocks),
                of(allocated, allocations),
                amount(own_peak, Unit::Count),
            )?;
        }
        write_frames(stacks, &stack, &style.hidden, &mut out)?;
    }
    Ok(())
}

/// Writes the frames of a stack, one a line.
pub(super) fn write_frames(
    stacks: &Stacks,
    stack: &Stack,
    hidden: &Hidden,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut folding = Folding::default();
    for (number, &frame) in stack.frames.iter().enumerate() {
        let (number, frame) = (format!("#{number:<2} "), &stacks.frames[frame as usize]);
        let text = format!("{}\n", frame.text);
        let parts = [INDENT, &number, &text].map(str::as_bytes);
        folding.line(hidden, frame.hidden, parts, out)?;
    }
    folding.end(hidden, INDENT.as_bytes(), out)
}

/// Writes the table by function.
fn table(
    profile: &Profile,
    stacks: &Stacks,
    selection: Selection,
    style: &Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let by = &profile.metrics()[selection.by];
    let functions = functions(profile.kind, stacks, selection.by);
    if functions.is_empty() {
        return Ok(());
    }
    let shown = functions.len().min(selection.top);
    writeln!(out, "\n{shown} of {} functions, by {}", amount(functions.len() as u64, Unit::Count), by.title)?;
    writeln!(out, "\n{:>15}         {:>15}", "self", "with callees")?;
    let total = profile.total(selection.by);
    let share = |value: u64| format!("{:.1} %", value as f64 * 100.0 / total as f64);
    for OfFunction { function, own, total } in &functions[..shown] {
        let [own, total] = [*own, *total].map(|value| (amount(value, by.unit), share(value)));
        let function = style.fitted(function, 49);
        writeln!(out, "{:>15} {:>7} {:>15} {:>7}  {function}", own.0, own.1, total.0, total.1)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct JsonStack<'a> {
    values: serde_json::Map<String, serde_json::Value>,
    frames: Vec<&'a StackFrame>,
}

/// Writes one object a line: the totals, then the selected contexts.
pub fn json(
    profile: &Profile,
    stacks: &Stacks,
    program: &str,
    selection: Selection,
    mut out: impl Write,
) -> io::Result<()> {
    let metrics = profile.metrics();
    let (shown, all) = select(profile.kind, stacks, selection);
    let totals: serde_json::Map<_, _> = (metrics.iter().enumerate())
        .filter(|(_, metric)| metric.additive)
        .map(|(number, metric)| (metric.name.to_owned(), profile.total(number).into()))
        .collect();
    let functions = match metrics[selection.by].additive {
        true => functions(profile.kind, stacks, selection.by),
        false => Vec::new(),
    };
    let heading = serde_json::json!({
        "profile": profile.kind.name(),
        "program": program,
        "build_id": profile.build_id,
        "process": profile.process,
        "totals": totals,
        "by": metrics[selection.by].name,
        "contexts": all,
        "shown": shown.len(),
        "functions": functions.get(..selection.top).unwrap_or(&functions),
    });
    writeln!(out, "{}", printable::json(&heading))?;
    for stack in shown {
        let values =
            metrics.iter().zip(&stack.values).map(|(metric, &value)| (metric.name.to_owned(), value.into()));
        let frames = stack.frames.iter().map(|&frame| &stacks.frames[frame as usize]);
        let stack = JsonStack { values: values.collect(), frames: frames.collect() };
        writeln!(out, "{}", printable::json(&stack))?;
    }
    Ok(())
}
