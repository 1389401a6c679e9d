//! Counts of executed lines, for programs that record their blocks, in the format of lcov's tracefiles (`man
//! geninfo`).

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::printable::printable;
use crate::trace::event::EventKind;
use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::tables::Tables;

#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// By function, how often it was entered.
    entered: Vec<u64>,
    /// By node, how often its lines were executed.
    lines: Vec<u64>,
    pub gaps: u64,
}

/// Counts the blocks of some streams.
pub fn coverage<'t>(
    reader: &Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
) -> io::Result<Coverage> {
    let tables = &reader.programs.tables;
    let (entered, lines) = (vec![0; tables.function_count()], vec![0; tables.node_count()]);
    let mut coverage = Coverage { entered, lines, gaps: 0 };
    for stream in streams {
        let mut replay = reader.replay(stream);
        while let Some(event) = replay.next() {
            if let Some((call, _)) = replay.passed(&event) {
                coverage.lines[call as usize] += 1;
            }
            match event.kind {
                EventKind::Block => coverage.lines[event.node as usize] += 1,
                EventKind::Call | EventKind::Entered | EventKind::Leave => {
                    coverage.entered[event.function as usize] += 1;
                }
                _ => {}
            }
        }
        coverage.gaps += replay.finish()?;
    }
    Ok(coverage)
}

/// A file: functions by name, with line and count; lines with their counts.
#[derive(Default)]
struct File<'t> {
    functions: BTreeMap<&'t str, (u32, u64)>,
    lines: BTreeMap<u32, u64>,
}

impl Coverage {
    /// Writes the counts as a tracefile.
    pub fn write(&self, tables: &Tables, out: &mut dyn Write) -> io::Result<()> {
        let mut files: BTreeMap<&str, File<'_>> = BTreeMap::new();
        for function in 0..tables.function_count() as u32 {
            // A line of one inlined copy may be in several blocks of a function. It was executed as often as the
            // block that was executed most.
            let mut lines: BTreeMap<(u32, u32, u32), u64> = BTreeMap::new();
            for node in tables.nodes_of(function) {
                for &line in tables.lines(node) {
                    let count = lines.entry(line).or_default();
                    *count = (*count).max(self.lines[node as usize]);
                }
            }
            let first = tables.nodes_of(function).flat_map(|node| tables.lines(node)).next();
            if let Some(&(file, line, _)) = first {
                let name = tables.linkage_name(tables.name_of(function));
                let count = self.entered[function as usize];
                let known = files.entry(tables.file(file)).or_default().functions.entry(name);
                known.or_insert((line, 0)).1 += count;
            }
            for ((file, line, _), count) in lines {
                *files.entry(tables.file(file)).or_default().lines.entry(line).or_default() += count;
            }
        }
        for (path, File { functions, lines }) in files {
            writeln!(out, "TN:\nSF:{}", printable(path))?;
            for (name, (line, _)) in &functions {
                writeln!(out, "FN:{line},{}", printable(name))?;
            }
            for (name, (_, count)) in &functions {
                writeln!(out, "FNDA:{count},{}", printable(name))?;
            }
            let hit = functions.values().filter(|(_, count)| *count > 0).count();
            writeln!(out, "FNF:{}\nFNH:{hit}", functions.len())?;
            for (line, count) in &lines {
                writeln!(out, "DA:{line},{count}")?;
            }
            let hit = lines.values().filter(|count| **count > 0).count();
            writeln!(out, "LF:{}\nLH:{hit}\nend_of_record", lines.len())?;
        }
        Ok(())
    }
}
