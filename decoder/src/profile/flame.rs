//! Folded stacks, and flame graphs made of them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use inferno::flamegraph::color::{BasicPalette, Palette};
use inferno::flamegraph::{self, Options};

use super::{Kind, Stacks, Unit};

/// One line for each stack of function names: `outermost;…;innermost value`, in alphabetical order. Stacks whose value
/// is 0 are left out.
#[must_use]
pub fn lines(stacks: &Stacks, metric: usize) -> Vec<String> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for stack in stacks.stacks.iter().filter(|stack| stack.values[metric] > 0) {
        let names: Vec<&str> =
            stack.frames.iter().rev().map(|&frame| &*stacks.frames[frame as usize].name).collect();
        let sum = sums.entry(names.join(";")).or_default();
        *sum = sum.saturating_add(stack.values[metric]);
    }
    sums.into_iter().map(|(names, sum)| format!("{names} {sum}")).collect()
}

/// Writes folded stacks.
///
/// # Errors
/// Those of `out`.
pub fn folded(stacks: &Stacks, metric: usize, mut out: impl Write) -> io::Result<()> {
    lines(stacks, metric).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Writes a flame graph (SVG).
///
/// # Errors
/// Those of `out`, and an error that says so if there is nothing to show.
pub fn graph(stacks: &Stacks, kind: Kind, number: usize, title: &str, out: impl Write) -> io::Result<()> {
    let metric = &kind.metrics()[number];
    let lines = lines(stacks, number);
    if lines.is_empty() {
        return Err(io::Error::other(format!("there is nothing to show: {} are 0", metric.title)));
    }
    let mut options = Options::default();
    options.title = title.to_owned();
    options.count_name = match metric.unit {
        Unit::Bytes => "bytes",
        Unit::Nanoseconds => "ms",
        Unit::Count => metric.title,
    }
    .to_owned();
    if metric.unit == Unit::Nanoseconds {
        options.factor = 1e-6;
    }
    // The usual colours: green for memory.
    options.colors = Palette::Basic(if kind == Kind::Heap { BasicPalette::Mem } else { BasicPalette::Hot });
    options.deterministic = true;
    options.hash = true;
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out)
}
