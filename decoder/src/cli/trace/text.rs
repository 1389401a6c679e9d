//! The reports of `pcce trace`, as text and as JSON.

use std::io::{self, Write};

use pcce::printable::{self, printable};
use pcce::style::Style;
use pcce::trace::{self, Checked, Diff, Pair, Reader, Report, Rest, Side, Stats, Tables, Verified, heading};
use serde_json::json;

/// The calls of each function.
pub fn report(
    tables: &Tables,
    report: &Report,
    top: usize,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{} events, {} functions", report.events, report.rows.len())?;
    let titles = ["calls", "own events", "with callees", "about"];
    writeln!(out, "\n{:>14} {:>14} {:>14} {:>12}  function", titles[0], titles[1], titles[2], titles[3])?;
    for row in report.rows.iter().take(top) {
        let name = style.name(tables.callee_name(row.callee));
        let time = format!("{:.3} ms", row.time as f64 / 1e6);
        let name = printable(&name);
        writeln!(out, "{:>14} {:>14} {:>14} {time:>12}  {name}", row.calls, row.own, row.inclusive)?;
    }
    Ok(())
}

/// The calls of each function as JSON lines: the totals, then one object for each function.
pub fn report_json(tables: &Tables, report: &Report, top: usize, out: &mut dyn Write) -> io::Result<()> {
    let head = json!({ "events": report.events, "functions": report.rows.len(), "gaps": report.gaps });
    writeln!(out, "{}", printable::json(&head))?;
    for row in report.rows.iter().take(top) {
        let row = json!({
            "function": tables.callee_name(row.callee),
            "calls": row.calls,
            "own_events": row.own,
            "inclusive_events": row.inclusive,
            "about_ns": row.time,
        });
        writeln!(out, "{}", printable::json(&row))?;
    }
    Ok(())
}

/// The costs of a trace.
pub fn stats(
    tables: &Tables,
    stats: &Stats,
    top: usize,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let bits = stats.bits + 64 * stats.words;
    let per = |bits: u64| bits as f64 / stats.events.max(1) as f64;
    writeln!(out, "{} events in {} streams of {} chunks", stats.events, stats.streams, stats.chunks)?;
    writeln!(
        out,
        "{:.3} bits an event: {} bits that tell events apart, {} words about entries and jumps",
        per(bits),
        stats.bits,
        stats.words
    )?;
    writeln!(out, "{} bytes of chunks", stats.bytes)?;
    let percent = |cost: u64| cost as f64 * 100.0 / bits.max(1) as f64;
    if !stats.nodes.is_empty() {
        writeln!(out, "\n{:>14} {:>6}  places", "bits", "%")?;
    }
    for &(node, cost) in stats.nodes.iter().take(top) {
        let place = tables.place(node).next();
        let line = place.map(|place| style.line(&place)).unwrap_or_default();
        let what = tables.callee(node).map(|name| style.name(tables.source_name(name)).into_owned());
        let what = what.map_or_else(String::new, |name| format!(", call of {}", printable(&name)));
        writeln!(out, "{cost:>14} {:>6.1}  {line}{what}", percent(cost))?;
    }
    if !stats.functions.is_empty() {
        writeln!(out, "\n{:>14} {:>6}  functions: what they write themselves", "bits", "%")?;
    }
    for &(function, cost) in stats.functions.iter().take(top) {
        let name = style.name(tables.callee_name(function));
        writeln!(out, "{cost:>14} {:>6.1}  {}", percent(cost), printable(&name))?;
    }
    let spared: Vec<_> = stats.spared.iter().take(top).collect();
    if !spared.is_empty() {
        let names: Vec<&str> =
            spared.iter().map(|(function, _)| tables.linkage_name(tables.name_of(*function))).collect();
        let all = percent(spared.iter().map(|(_, bits)| bits).sum());
        writeln!(
            out,
            "\nPCCE_TRACE_SKIP={} would spare about {all:.0} % of the bits",
            printable(&names.join(","))
        )?;
    }
    if stats.verified.chunks > 0 {
        writeln!(out)?;
        verified(&stats.verified, out)?;
    }
    Ok(())
}

/// The costs of a trace as one JSON document.
pub fn stats_json(tables: &Tables, stats: &Stats, top: usize, out: &mut dyn Write) -> io::Result<()> {
    let places = stats.nodes.iter().take(top).map(|&(node, bits)| {
        let place = tables.place(node).next();
        json!({
            "bits": bits,
            "function": place.as_ref().and_then(|place| place.function),
            "file": place.as_ref().and_then(|place| place.file),
            "line": place.as_ref().and_then(|place| place.line),
            "calls": tables.callee(node).map(|name| tables.source_name(name)),
        })
    });
    let functions = stats.functions.iter().take(top);
    let functions =
        functions.map(|&(function, bits)| json!({ "bits": bits, "function": tables.callee_name(function) }));
    let spared = stats.spared.iter().take(top);
    let spared =
        spared.map(|&(function, bits)| json!({ "bits": bits, "function": tables.callee_name(function) }));
    let document = json!({
        "events": stats.events,
        "streams": stats.streams,
        "chunks": stats.chunks,
        "bytes": stats.bytes,
        "bits": stats.bits,
        "words": stats.words,
        "gaps": stats.gaps,
        "places": places.collect::<Vec<_>>(),
        "functions": functions.collect::<Vec<_>>(),
        "spared": spared.collect::<Vec<_>>(),
    });
    writeln!(out, "{}", printable::json(&document))
}

/// The comparisons of verify mode as one JSON document.
pub fn checked_json(checked: &Checked, out: &mut dyn Write) -> io::Result<()> {
    let verified = |verified: &Verified| {
        json!({
            "chunks": verified.chunks,
            "events": verified.events,
            "mismatches": verified.mismatches,
            "uncertain": verified.uncertain,
        })
    };
    let mut chunks = verified(&checked.chunks);
    chunks["partly"] = checked.partly.into();
    chunks["without_context"] = checked.without_context.into();
    let document = json!({
        "streams": verified(&checked.streams),
        "chunks": chunks,
        "gaps": checked.gaps,
    });
    writeln!(out, "{}", printable::json(&document))
}

fn verified(verified: &Verified, out: &mut dyn Write) -> io::Result<()> {
    let Verified { chunks, events, mismatches, uncertain, .. } = verified;
    write!(out, "{events} events of {chunks} chunks were compared, {mismatches} chunks do not match")?;
    if *uncertain > 0 {
        write!(out, "; {uncertain} cannot be compared")?;
    }
    writeln!(out)
}

/// The comparisons of verify mode.
pub fn checked(checked: &Checked, out: &mut dyn Write) -> io::Result<()> {
    verified(&checked.streams, out)?;
    let Verified { chunks, events, mismatches, uncertain, .. } = &checked.chunks;
    let Checked { partly, without_context, .. } = checked;
    if chunks + uncertain + without_context == 0 {
        return Ok(());
    }
    write!(
        out,
        "{events} events of {chunks} chunks, each read from its own beginning, {mismatches} do not match"
    )?;
    if *partly > 0 {
        write!(out, "; of {partly} only the innermost calls are known")?;
    }
    if *uncertain > 0 {
        write!(out, "; {uncertain} cannot be compared")?;
    }
    if *without_context > 0 {
        write!(out, "; {without_context} do not say what is active")?;
    }
    writeln!(out)
}

/// The differences of two runs.
pub fn diff(
    reader: &Reader<'_>,
    diff: &Diff<'_>,
    top: usize,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    for pair in &diff.pairs {
        let stream = pair.streams[0].or(pair.streams[1]);
        let Some(stream) = stream else { continue };
        let [one, two] = pair.events;
        let title = heading(reader, stream);
        match (&pair.parting, pair.streams) {
            (_, [None, _]) => writeln!(out, "{title}: only in the second run, {two} events")?,
            (_, [_, None]) => writeln!(out, "{title}: only in the first run, {one} events")?,
            (None, _) => writeln!(out, "{title}: the same {one} events")?,
            (Some(parting), _) => {
                let same = parting.same;
                writeln!(out, "{title}: the first {same} events are the same, of {one} and {two}")?;
                for (name, side) in ["first", "second"].iter().zip(&parting.sides) {
                    write_side(name, side.as_ref(), style, out)?;
                }
                write_hunks(&reader.programs.tables, pair, style, out)?;
            }
        }
        writeln!(out)?;
    }
    if diff.calls.is_empty() {
        return writeln!(out, "each function is called as often in both runs");
    }
    writeln!(out, "{:>14} {:>14} {:>14}  function", "first run", "second run", "more")?;
    for &(callee, [one, two]) in diff.calls.iter().take(top) {
        let name = style.name(reader.programs.tables.callee_name(callee));
        let more = i128::from(two) - i128::from(one);
        writeln!(out, "{one:>14} {two:>14} {more:>+14}  {}", printable(&name))?;
    }
    let left = diff.calls.len().saturating_sub(top);
    if left > 0 {
        writeln!(out, "and {left} more functions")?;
    }
    Ok(())
}

fn write_side(name: &str, side: Option<&Side<'_>>, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    let Some(side) = side else { return writeln!(out, "  the {name} run has no further event") };
    writeln!(out, "  the {name} run, event {}: {}", side.number, side.kind.words())?;
    for (number, frame) in side.frames.iter().enumerate() {
        writeln!(out, "    #{number:<3}{}", style.line(frame))?;
    }
    Ok(())
}

/// Bound on the lines of a difference that are shown.
const HUNK_LINES: usize = 8;

/// Writes the differences from where the runs part on, and where they meet again.
fn write_hunks(tables: &Tables, pair: &Pair<'_>, style: &Style, out: &mut dyn Write) -> io::Result<()> {
    if pair.hunks.is_empty() && pair.rest != Rest::Ended {
        return match pair.rest {
            Rest::Apart(events) => writeln!(out, "  within {events} events they do not meet again"),
            _ => Ok(()),
        };
    }
    writeln!(out, "  from there on, - what only the first run does, + what only the second does:")?;
    for hunk in &pair.hunks {
        for ((sign, events), &count) in ['-', '+'].iter().zip(&hunk.events).zip(&hunk.counts) {
            let mut lines = events.iter().filter_map(|(number, event)| {
                Some((event.kind.is_counted(), trace::line_of(tables, event, *number, style)?))
            });
            for (_, line) in lines.by_ref().take(HUNK_LINES) {
                writeln!(out, "  {sign} {line}")?;
            }
            if count > 0 && (lines.next().is_some() || count > events.len() as u64) {
                writeln!(out, "  {sign} … {count} events in all")?;
            }
        }
        if hunk.same > 0 {
            writeln!(out, "    the same {} events", hunk.same)?;
        }
    }
    match pair.rest {
        Rest::Ended => Ok(()),
        Rest::More => writeln!(out, "    and more differences (--hunks)"),
        Rest::Apart(events) => writeln!(out, "    and then within {events} events they do not meet again"),
    }
}

/// The differences of two runs as JSON lines: one object for each thread, then one for each function.
pub fn diff_json(reader: &Reader<'_>, diff: &Diff<'_>, out: &mut dyn Write) -> io::Result<()> {
    for pair in &diff.pairs {
        let side = |side: &Option<Side<'_>>| {
            side.as_ref().map(|side| {
                let frames: Vec<_> = side
                    .frames
                    .iter()
                    .map(|frame| {
                        json!({
                            "kind": frame.kind.name(), "function": frame.function, "file": frame.file,
                            "line": frame.line, "column": frame.column, "inlined": frame.inlined,
                        })
                    })
                    .collect();
                json!({ "event": side.number, "kind": side.kind.name(), "frames": frames })
            })
        };
        let thread = json!({
            "threads": pair.streams.map(|stream| stream.map(|stream| stream.thread)),
            "events": pair.events,
            "same": pair.parting.as_ref().map_or(pair.events[0], |parting| parting.same),
            "first": pair.parting.as_ref().and_then(|parting| side(&parting.sides[0])),
            "second": pair.parting.as_ref().and_then(|parting| side(&parting.sides[1])),
            "hunks": pair.hunks.iter().map(|hunk| json!({
                "first": hunk.events[0].first().map(|event| event.0), "first_events": hunk.counts[0],
                "second": hunk.events[1].first().map(|event| event.0), "second_events": hunk.counts[1],
                "same_behind": hunk.same,
            })).collect::<Vec<_>>(),
            "compared_to_the_end": pair.parting.is_none() || pair.rest == Rest::Ended,
        });
        writeln!(out, "{}", printable::json(&thread))?;
    }
    for &(callee, calls) in &diff.calls {
        let name = reader.programs.tables.callee_name(callee);
        writeln!(out, "{}", printable::json(&json!({ "function": name, "calls": calls })))?;
    }
    Ok(())
}
