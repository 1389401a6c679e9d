//! The tables of recorded traces (after casper.txt, Tables 1 to 4 and Fig. 10).

use std::fmt::Write as _;

use super::super::declarations::Variant;
use super::super::statistics::geometric_mean;
use super::super::traces::Recorded;
use super::Report;
use super::measured::Measured;
use super::tables::number;

/// The common baseline: every call and return, 4 bytes each.
const ALL: &str = "trace-fi";

impl Report {
    fn recorded(&self, program: &str, variant: &Variant) -> Option<&Recorded> {
        self.found(program, variant)?.recorded.as_ref()
    }

    pub(super) fn traces(&self, out: &mut String) {
        let recording: Vec<&Variant> =
            self.variants.iter().filter(|v| self.of(v).any(|(_, m)| m.recorded.is_some())).collect();
        if recording.is_empty() {
            return;
        }
        let names: Vec<String> = recording.iter().map(|v| format!("`{}`", v.name)).collect();
        let lines = "---|".repeat(2 * recording.len());
        let _ = write!(
            out,
            "\n## Traces of calls (Casper Tables 1 to 4)\n\nWhat the whole workload records: millions of bytes, and behind `zstd -3`. \
             Events are those that verify mode compared; each chunk is read from its own beginning, too.\n\n\
             | program | events | chunks | wrong | {} |\n|---|---|---|---|{lines}\n",
            names.iter().map(|name| format!("{name} | zstd")).collect::<Vec<_>>().join(" | ")
        );
        let millions = |bytes: u64| format!("{:.2}", bytes as f64 / 1e6);
        let names = || {
            let all = self.programs.iter().map(|(program, _)| program.name.as_str());
            all.filter(|name| recording.iter().any(|variant| self.recorded(name, variant).is_some()))
        };
        let sum = |variant: &Variant, of: &dyn Fn(&Recorded) -> u64| -> u64 {
            self.of(variant).filter_map(|(_, m)| m.recorded.as_ref()).map(of).sum()
        };
        for name in names() {
            let found: Vec<Option<&Recorded>> =
                recording.iter().map(|&variant| self.recorded(name, variant)).collect();
            let checked = found.iter().flatten().find(|r| r.events > 0);
            let count = |of: &dyn Fn(&Recorded) -> u64| checked.map_or(String::new(), |r| of(r).to_string());
            let mut cells =
                vec![name.to_owned(), count(&|r| r.events), count(&|r| r.chunks), count(&|r| r.wrong)];
            for recorded in found {
                cells.push(recorded.map_or(String::new(), |r| millions(r.bytes)));
                cells.push(recorded.map_or(String::new(), |r| millions(r.compressed)));
            }
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        let all = |of: &dyn Fn(&Recorded) -> u64| -> u64 { recording.iter().map(|v| sum(v, of)).sum() };
        let mut cells = vec!["**sum**".to_owned(), all(&|r| r.events).to_string()];
        cells.extend([all(&|r| r.chunks).to_string(), all(&|r| r.wrong).to_string()]);
        let total = recording.iter().find(|variant| variant.name == ALL);
        for variant in &recording {
            for of in [(|r| r.bytes) as fn(&Recorded) -> u64, |r| r.compressed] {
                // Only programs that both variants have recorded count.
                let share = |total: &Variant| {
                    let both = names().filter_map(|name| {
                        Some((self.recorded(name, variant)?, self.recorded(name, total)?))
                    });
                    let (some, all) =
                        both.fold((0, 0), |sums, (some, all)| (sums.0 + of(some), sums.1 + of(all)));
                    some as f64 / all as f64
                };
                let share = total.map_or(String::new(), |total| format!(" ({:.1} %)", 100.0 * share(total)));
                cells.push(millions(sum(variant, &of)) + &share);
            }
        }
        let _ = writeln!(out, "| {} |", cells.join(" | "));
        self.trace_costs(out);
    }

    /// Instructions and processor time, relative to the baseline.
    fn trace_costs(&self, out: &mut String) {
        let variants: Vec<&Variant> = self.variants.iter().filter(|variant| is_of_traces(variant)).collect();
        let is_known = |m: &Measured| m.counts.is_some() || m.times.is_some();
        if !variants.iter().any(|variant| self.of(variant).any(|(_, m)| is_known(m))) {
            return;
        }
        let names: Vec<String> = variants.iter().map(|v| format!("`{}`", v.name)).collect();
        let _ = write!(
            out,
            "\nInstructions (small workload) and processor time (user and system, whole workload, the file written), to the \
             program without the pass:\n\n| program | {} |\n|---|{}\n",
            names.iter().map(|name| format!("{name} | time")).collect::<Vec<_>>().join(" | "),
            "---|".repeat(2 * variants.len())
        );
        for (program, _) in &self.programs {
            let of_program = variants.iter().map(|variant| self.found(&program.name, variant));
            if !of_program.clone().flatten().any(is_known) {
                continue;
            }
            let mut cells = vec![program.name.clone()];
            for found in of_program {
                cells.push(number(found.and_then(Measured::instruction_ratio), 3));
                cells.push(number(found.and_then(Measured::processor_time_ratio), 3));
            }
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        let mut cells = vec!["**geometric mean**".to_owned()];
        for variant in &variants {
            let mean = |of: &dyn Fn(&Measured) -> Option<f64>| {
                geometric_mean(self.of(variant).filter_map(|(_, m)| of(m)))
            };
            cells.push(number(mean(&Measured::instruction_ratio), 3));
            cells.push(number(mean(&Measured::processor_time_ratio), 3));
        }
        let _ = writeln!(out, "| {} |", cells.join(" | "));
        // All instructions that the baseline does not execute, in the programs that have counts of both.
        let further = |m: &Measured| -> Option<i64> {
            let (base, with) = m.counts.as_ref()?;
            Some(with.instructions as i64 - base.instructions as i64)
        };
        let share = |variant: &Variant, total: &Variant| -> Option<f64> {
            let both = self
                .of(variant)
                .filter_map(|(program, m)| Some((further(m)?, further(self.found(&program.name, total)?)?)));
            let (some, all) = both.fold((0, 0), |sums, (some, all)| (sums.0 + some, sums.1 + all));
            (all > 0).then(|| some as f64 / all as f64)
        };
        if let Some(total) = variants.iter().find(|variant| variant.name == ALL) {
            let shares = variants.iter().map(|variant| number(share(variant, total), 2) + " | ");
            let _ = writeln!(
                out,
                "| **further instructions, of `{ALL}`'s** | {}",
                shares.collect::<Vec<_>>().join("| ")
            );
        }
    }
}

/// Returns whether the variant is compared with other ways to record what a program does.
pub(super) fn is_of_traces(variant: &Variant) -> bool {
    variant.records || variant.name.starts_with("trace")
}
