//! Folded stacks, and flame graphs made of them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use inferno::flamegraph::color::{BasicPalette, Palette};
use inferno::flamegraph::{self, Options, TextTruncateDirection};

use super::report::amount;
use super::{Kind, Stacks, Unit};
use crate::printable::printable;

/// One line for each stack of function names: `outermost;…;innermost value`, in alphabetical order. Stacks
/// whose value is 0 are left out.
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
pub fn folded(stacks: &Stacks, metric: usize, mut out: impl Write) -> io::Result<()> {
    lines(stacks, metric).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Writes a flame graph (SVG).
///
/// # Errors
/// Errors of `out`, and an error that says so if there is nothing to show.
pub fn graph(
    stacks: &Stacks,
    kind: Kind,
    number: usize,
    program: &str,
    mut out: impl Write,
) -> io::Result<()> {
    let metric = &kind.metrics()[number];
    let lines = lines(stacks, number);
    if lines.is_empty() {
        return Err(io::Error::other(format!("there is nothing to show: {} are 0", metric.title)));
    }
    let mut options = Options::default();
    let program = printable(program);
    options.title = format!("{program}: {}", metric.title);
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
    // The least important part of a name is at its end if it has parameters, and otherwise at its start: the scopes.
    let parameters = stacks.frames.iter().any(|frame| frame.name.contains('('));
    options.text_truncate_direction =
        if parameters { TextTruncateDirection::Right } else { TextTruncateDirection::Left };
    let mut picture = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut picture)?;
    let picture = String::from_utf8_lossy(&picture);
    let values = stacks.stacks.iter().map(|stack| stack.values[number]);
    let total = amount(values.fold(0, u64::saturating_add), metric.unit);
    out.write_all(named(&picture, &format!("{program}, {total}")).as_bytes())
}

/// The picture with a name for the frame of the whole program, and with the word "Search" as dark as other words.
fn named(picture: &str, program: &str) -> String {
    let picture = picture.replacen(FAINT, "#search { text-anchor:end;", 1);
    // A function may have this name, but its percentage has decimals.
    let mut roots = picture.match_indices(ROOT).filter(|(at, _)| {
        let title = picture[*at..].split("</title>").next().unwrap_or_default();
        title.ends_with(", 100%)")
    });
    let Some((at, _)) = roots.next() else { return picture };
    format!("{}<title>{} ({}", &picture[..at], escaped(program), &picture[at + ROOT.len()..])
}

/// The beginning of the title of the whole program's frame.
const ROOT: &str = "<title>all (";
/// The library's style of the word "Search".
const FAINT: &str = "#search { text-anchor:end; opacity:0.1;";

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
