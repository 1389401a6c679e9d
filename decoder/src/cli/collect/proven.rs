//! Puts parts of one program together, whose sameness is proven (`--prove`).

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use pcce::style::Style;
use pcce::trace::Programs;
use pcce::trace::proven::{Difference, PartFile, PartsError, What, merge};

use crate::cli::{Status, message, note};

pub(super) fn put_together(program: &Path, files: &[PathBuf], to: &Path) -> anyhow::Result<Status> {
    let count = files.len() as u32;
    let open = |(part, path): (u32, &PathBuf)| PartFile::open(path, part, count);
    let parts = (0..).zip(files).map(open).collect::<Result<Vec<_>, _>>()?;
    match merge(&parts, to) {
        Ok(done) => {
            let most = done.kept.iter().max().copied().unwrap_or_default();
            let share = if done.words == 0 { 0.0 } else { 100.0 * most as f64 / done.words as f64 };
            note(&format!(
                "{}: {} of bits from {count} runs; the busiest kept {share:.1} %",
                to.display(),
                HumanBytes(8 * done.words)
            ));
            if done.open > 0 {
                note("the program was ended by a signal: the last of each thread is not in the trace");
            }
            Ok(Status::Done)
        }
        Err(PartsError::Differ(difference)) => {
            report_difference(&difference, &parts, program);
            Ok(Status::Mismatch)
        }
        Err(error) => Err(error.into()),
    }
}

/// Reports the places where runs took different paths.
fn report_difference(difference: &Difference, parts: &[PartFile], program: &Path) {
    let names = difference.groups.iter().map(|group| {
        let numbers: Vec<String> = group.iter().map(u32::to_string).collect();
        format!("{} {}", if group.len() == 1 { "that of part" } else { "those of parts" }, numbers.join(", "))
    });
    let names: Vec<String> = names.collect();
    message(&format!("the runs took different ways: {}", names.join("; and ")));
    let traces: Vec<_> = parts.iter().map(|part| &part.file).collect();
    let programs = Programs::load(&traces, program, &[], &[]).unwrap_or_default();
    note(&match difference.what {
        What::Words { sequence, from, to } => format!(
            "{}: chunk {sequence}, between its words {from} and {to}",
            difference.heading(parts, &programs)
        ),
        _ => format!(
            "{}: it begins in some of the runs only, or at different places of them",
            difference.heading(parts, &programs)
        ),
    });
    if let Some(frames) = difference.place(parts, &programs) {
        note(
            "they did the same up to this place, and what they did next, within some hundred events, is not:",
        );
        let style = Style { colour: io::stderr().is_terminal(), ..Style::default() };
        for (number, frame) in frames.iter().enumerate() {
            eprintln!("    #{number:<3}{}", style.line(frame));
        }
    }
}
