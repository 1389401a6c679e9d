//! `pcce trace`.

mod args;
mod names;
mod signals;
mod text;

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, bail};
use indicatif::{HumanBytes, ProgressBar};
use pcce::style::Style;
use pcce::trace::export::Folded;
use pcce::trace::{
    self, Compression, Met, Programs, Reader, Selection, Stream, Tables, TraceFile, export, heading,
};

pub use self::args::{DiffArgs, ExportFormat, Places, TRACE_HELP, TraceAction, TraceArgs};
use self::names::Asked;
use super::collect;
use super::profile::output;
use super::views::ReportFormat;
use super::{Status, note};

/// Runs it.
pub fn run(action: &TraceAction) -> anyhow::Result<Status> {
    let args = match action {
        TraceAction::Diff(args) => return diff(args),
        TraceAction::Collect(args) => return collect::collect(args),
        TraceAction::Merge(args) => return collect::merge_parts(args),
        TraceAction::CollectPart { folder, part } => return collect::collect_part(folder, *part),
        TraceAction::Compress { trace, output } => return compress(trace, output.as_deref()),
        TraceAction::Show { args, .. }
        | TraceAction::Report { args, .. }
        | TraceAction::Export { args, .. }
        | TraceAction::Find { args, .. }
        | TraceAction::At { args, .. }
        | TraceAction::Stats { args, .. }
        | TraceAction::Check { args, .. }
        | TraceAction::Coverage(args) => args,
    };
    let file = open(&args.trace)?;
    let programs = load(&[&file], &args.program, &args.places)?;
    let reader = Reader::new(&file, &programs);
    let streams = streams(&file, args)?;
    let to_file = args.places.output.is_some();
    let json = |format: &ReportFormat| matches!(format, ReportFormat::Json);
    // These two are asked for what a ring has kept.
    let shows = matches!(action, TraceAction::Show { function: None, .. } | TraceAction::At { .. });
    let counted = if shows { &[][..] } else { &streams };
    let mut gaps = missing(&file, &args.trace, counted);
    let mut status = Status::Done;
    let write = |write: &mut dyn FnMut(&mut dyn std::io::Write) -> std::io::Result<()>| {
        output(args.places.output.as_deref(), |out| write(out))
    };
    match action {
        TraceAction::Show { lines, times, function, from, to, depth, last, format, appearance, .. } => {
            if *lines {
                needs_blocks(&programs.tables)?;
            }
            let function = function.as_deref().map(|name| Asked::new(&programs, name)).transpose()?;
            let selection = Selection {
                from: *from,
                to: *to,
                depth: *depth,
                last: *last,
                lines: *lines,
                times: *times,
                functions: function.as_ref().map(|function| function.named.clone()),
            };
            let style = appearance.style(to_file)?;
            let mut met = Met::default();
            write(&mut |out| {
                met = trace::show(&reader, streams.clone(), &selection, &style, json(format), out)?;
                Ok(())
            })?;
            gaps += if shows { met.gaps - met.cut_off } else { met.gaps };
            // Behind the last event that was asked for, nobody has looked.
            if let Some(function) = function.filter(|_| to.is_none()) {
                status = function.tell(&programs, args.thread, &met, gaps, true);
            }
        }
        TraceAction::Report { top, format, short, .. } => {
            let report = trace::report(&reader, streams)?;
            gaps += report.gaps;
            let style = Style { short: *short, ..Style::default() };
            let top = top.unwrap_or(usize::MAX);
            write(&mut |out| match format {
                ReportFormat::Text => text::report(&programs.tables, &report, top, &style, out),
                ReportFormat::Json => text::report_json(&programs.tables, &report, top, out),
            })?;
        }
        TraceAction::Export { format, short, depth, .. } => {
            let style = Style { short: *short, ..Style::default() };
            let mut folded = Folded::default();
            write(&mut |out| {
                let streams = streams.clone();
                gaps += match format {
                    ExportFormat::Perfetto => export::perfetto(&reader, streams, out),
                    ExportFormat::Chrome => export::chrome(&reader, streams, out),
                    ExportFormat::Folded => {
                        folded = export::folded(&reader, streams, *depth, &style, out)?;
                        Ok(folded.gaps)
                    }
                    ExportFormat::Svg => export::timeline(&reader, streams, out),
                    ExportFormat::Json => {
                        let all = Selection::default();
                        trace::show(&reader, streams, &all, &style, true, out).map(|met| met.gaps)
                    }
                }?;
                Ok(())
            })?;
            let Folded { deeper, further, .. } = folded;
            if deeper > 0 {
                note(&format!(
                    "{deeper} events in more than {depth} calls inside of each other are counted as <deeper calls>; \
                     --depth N keeps more of them apart"
                ));
            }
            if further > 0 {
                note(&format!(
                    "{further} events are counted as <further calls>: there are too many contexts"
                ));
            }
        }
        TraceAction::Find { function, format, appearance, .. } => {
            let function = Asked::new(&programs, function)?;
            let style = appearance.style(to_file)?;
            let mut met = Met::default();
            write(&mut |out| {
                met = trace::find(&reader, streams.clone(), &function.named, &style, json(format), out)?;
                Ok(())
            })?;
            gaps += met.gaps;
            status = function.tell(&programs, args.thread, &met, gaps, false);
        }
        TraceAction::At { event, format, appearance, .. } => {
            let style = appearance.style(to_file)?;
            let stream = *streams.first().context("the trace has no thread")?;
            let mut found = false;
            write(&mut |out| {
                let met;
                (found, met) = trace::at(&reader, stream, *event, &style, json(format), out)?;
                gaps += met;
                Ok(())
            })?;
            if !found {
                bail!("{} has no event {event}", heading(&reader, stream));
            }
        }
        TraceAction::Stats { top, format, appearance, .. } => {
            let style = appearance.style(to_file)?;
            let stats = trace::stats(&reader, streams)?;
            gaps += stats.gaps;
            write(&mut |out| match format {
                ReportFormat::Text => text::stats(&programs.tables, &stats, *top, &style, out),
                ReportFormat::Json => text::stats_json(&programs.tables, &stats, *top, out),
            })?;
        }
        TraceAction::Coverage(_) => {
            needs_blocks(&programs.tables)?;
            let coverage = trace::coverage(&reader, streams)?;
            gaps += coverage.gaps;
            write(&mut |out| coverage.write(&programs.tables, out))?;
        }
        TraceAction::Check { format, .. } => {
            let checked = trace::check(&reader, streams)?;
            gaps += checked.gaps;
            write(&mut |out| match format {
                ReportFormat::Text => text::checked(&checked, out),
                ReportFormat::Json => text::checked_json(&checked, out),
            })?;
            let both = [&checked.streams, &checked.chunks];
            if let Some((sequence, written, read)) = both.iter().find_map(|verified| verified.first) {
                super::message(&format!(
                    "chunk {sequence} does not match: the program had {written} events up to its end, and {read} were \
                     read"
                ));
            }
            if both.iter().any(|verified| verified.mismatches > 0) {
                status = Status::Mismatch;
            } else if both.iter().all(|verified| verified.chunks == 0) {
                bail!(
                    "{}: nothing can be compared; only programs in verify mode (--pcce-verify) write what it needs",
                    args.trace.display()
                );
            }
        }
        TraceAction::Diff(_)
        | TraceAction::Compress { .. }
        | TraceAction::Collect(_)
        | TraceAction::Merge(_)
        | TraceAction::CollectPart { .. } => {}
    }
    let complete = complete(gaps, "the trace");
    Ok(if status == Status::Done { complete } else { status })
}

/// The status of a command that has met so many gaps.
fn complete(gaps: u64, of: &str) -> Status {
    if gaps == 0 {
        return Status::Done;
    }
    note(&format!("something is missing in {of} at {gaps} places"));
    Status::Failed
}

/// Says what is missing in the file of a trace, and in the beginnings of the streams that are counted from
/// there. Returns at how many places the file lacks something.
fn missing(file: &TraceFile, path: &Path, counted: &[&Stream]) -> u64 {
    let cut_off = file.without_beginning(counted);
    if cut_off > 0 {
        note(&format!(
            "{}: it is a ring (PCCE_TRACE_RING): of {cut_off} threads, or of their signal handlers, what came before was \
             not kept",
            path.display()
        ));
    }
    let missing = file.missing();
    for (_, what) in &missing {
        note(&format!("{}: {what}", path.display()));
    }
    if file.without_end() > 0 {
        note(&format!(
            "{}: {} threads, or their signal handlers, have no end there: they were killed, or go on, and their last \
             events, of 62 bits at most, may not be written",
            path.display(),
            file.without_end()
        ));
    }
    missing.iter().map(|(places, _)| places).sum()
}

fn diff(args: &DiffArgs) -> anyhow::Result<Status> {
    let DiffArgs { program, one, two, places, top, format, appearance } = args;
    let traces = [open(one)?, open(two)?];
    let programs = load(&[&traces[0], &traces[1]], program, places)?;
    let readers = [0, 1].map(|side| Reader::new(&traces[side], &programs));
    let style = appearance.style(places.output.is_some())?;
    let diff = trace::diff([&readers[0], &readers[1]]).context("the traces cannot be read")?;
    output(places.output.as_deref(), |out| match format {
        ReportFormat::Text => text::diff(&readers[0], &diff, *top, &style, out),
        ReportFormat::Json => text::diff_json(&readers[0], &diff, out),
    })?;
    let all = |file: &TraceFile, path| missing(file, path, &file.streams.iter().collect::<Vec<_>>());
    let gaps = diff.gaps + all(&traces[0], one) + all(&traces[1], two);
    Ok(complete(gaps, "the traces"))
}

fn compress(path: &Path, output: Option<&Path>) -> anyhow::Result<Status> {
    let output = output.map_or_else(|| path.with_added_extension("zst"), Path::to_owned);
    let progress = ProgressBar::new_spinner();
    let stopped = signals::until_ended().context("signals cannot be handled")?;
    let mut tell = |done: Compression| {
        let Compression { read, written, is_used } = done;
        let waits = if is_used { "; the program runs" } else { "" };
        progress.set_message(format!("{} compressed to {}{waits}", HumanBytes(read), HumanBytes(written)));
        progress.tick();
        !stopped.load(Ordering::Relaxed)
    };
    let done = trace::compress(path, &output, &mut tell);
    progress.finish_and_clear();
    let Compression { read, written, .. } = done?;
    note(&format!("{}: {} compressed to {}", output.display(), HumanBytes(read), HumanBytes(written)));
    Ok(Status::Done)
}

fn open(path: &Path) -> anyhow::Result<TraceFile> {
    TraceFile::open(path).with_context(|| path.display().to_string())
}

fn load(traces: &[&TraceFile], program: &Path, places: &Places) -> anyhow::Result<Programs> {
    if let Some(folder) = places.dicts.iter().find(|folder| !folder.is_dir()) {
        bail!("--dicts {}: there is no such folder", folder.display());
    }
    let programs = Programs::load(traces, program, &places.more, &places.dicts)?;
    programs.useless.iter().for_each(|useless| note(useless));
    Ok(programs)
}

/// The streams that are asked for.
fn streams<'t>(file: &'t TraceFile, args: &TraceArgs) -> anyhow::Result<Vec<&'t Stream>> {
    let fits = |stream: &&Stream| args.thread.is_none_or(|thread| stream.thread == thread);
    let streams: Vec<_> = file.streams.iter().filter(fits).collect();
    if streams.is_empty()
        && let Some(thread) = args.thread
    {
        let mut threads: Vec<u32> = file.streams.iter().map(|stream| stream.thread).collect();
        threads.dedup();
        bail!("--thread {thread}: the trace has the threads {threads:?}");
    }
    Ok(streams)
}

/// Returns whether the program records its blocks.
fn needs_blocks(tables: &Tables) -> anyhow::Result<()> {
    if !tables.has_blocks() {
        bail!("the program records its calls only: build it with --pcce-trace=blocks");
    }
    Ok(())
}
