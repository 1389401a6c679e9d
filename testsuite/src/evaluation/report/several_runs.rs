//! The tables of traces from several runs (after distributed-program-tracing.txt, Figures 12 to 16).

use std::fmt::Write as _;

use super::super::several_runs::{Collected, LIMITS, MACHINES, PARTS, Parts};
use super::Report;
use super::tables::number as number_text;

impl Report {
    pub(super) fn parts(&self, out: &mut String) {
        let all: Vec<(&str, &Parts)> = self
            .variants
            .iter()
            .flat_map(|variant| self.of(variant))
            .filter_map(|(program, measured)| Some((program.name.as_str(), measured.parts.as_ref()?)))
            .collect();
        if all.is_empty() {
            return;
        }
        let numbers = PARTS.map(|parts| parts.to_string());
        let heads = numbers.join(" | ");
        let lines = "---|".repeat(numbers.len());
        let _ = write!(
            out,
            "\n## Traces from several runs\n\nEach process of the small workload, collected by two, four and six \
             programs (`pcce trace split --by` the first process's trace), and compared with a whole run of it, event \
             for event: `=`, or what is not so. Behind it what the busiest program writes, in percent of the whole \
             trace. Each decision is written by two programs, and entries from unknown code by all of them.\n\n\
             | program | processes | events | {heads} |\n|---|---|---|{lines}\n"
        );
        let mut wrong = Vec::new();
        for (name, parts) in &all {
            let events: u64 = parts.processes.iter().map(|process| process.events).sum();
            let mut row = format!("| {name} | {} | {events} |", parts.processes.len());
            for number in PARTS {
                let of_number = || collected(parts, number);
                let bad: Vec<&Collected> = of_number().filter(|one| !one.wrong.is_empty()).collect();
                let text = if bad.is_empty() { "=".to_owned() } else { format!("{} not", bad.len()) };
                let share = number_text(share(parts, number), 1);
                let _ = write!(row, " {text} {share} |");
                wrong.extend(bad.iter().map(|one| format!("- {name}, {number} parts: {}\n", one.wrong)));
            }
            let _ = writeln!(out, "{row}");
        }
        let mean = |of: &dyn Fn(&Parts) -> f64| {
            all.iter().map(|(_, parts)| of(parts)).sum::<f64>() / all.len() as f64
        };
        let mut row = "| **mean** | | |".to_owned();
        for number in PARTS {
            // Only programs whose runs are all equal count.
            let shares: Vec<f64> = all.iter().filter_map(|(_, parts)| share(parts, number)).collect();
            let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
            let _ = write!(row, " {mean:.1} |");
        }
        let _ = writeln!(out, "{row}\n{}", wrong.concat());

        let _ = write!(
            out,
            "Figures 13 to 15: events that the busiest run writes, in percent of those of one run, if places are \
             distributed by the paper's strategies. Weights are the counts of the same run (its *trace profile*). *Floor*: \
             the heaviest job, which nobody can share.\n\n\
             | program | events of one | strategy | floor | {heads} |\n|---|---|---|---|{lines}\n"
        );
        let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        let strategies = all[0].1.strategies.len();
        for (name, parts) in &all {
            for found in &parts.strategies {
                let floor = percent(found.heaviest, parts.alone);
                let mut row = format!("| {name} | {} | {} | {floor:.1} |", parts.alone, found.strategy);
                for &busiest in &found.busiest {
                    let _ = write!(row, " {:.1} |", percent(busiest, parts.alone));
                }
                let _ = writeln!(out, "{row}");
            }
        }
        for strategy in 0..strategies {
            let floor = mean(&|parts| percent(parts.strategies[strategy].heaviest, parts.alone));
            let mut row = format!("| **mean** | | {} | {floor:.1} |", all[0].1.strategies[strategy].strategy);
            for at in 0..numbers.len() {
                let of = |parts: &Parts| percent(parts.strategies[strategy].busiest[at], parts.alone);
                let _ = write!(row, " {:.1} |", mean(&of));
            }
            let _ = writeln!(out, "{row}");
        }

        let entities =
            ["places", "with alternatives", "choices", "cycles"].map(|text| format!("{text} S/C/H"));
        let _ = write!(
            out,
            "\nFigure 12: how many there are in the program (S), were executed (C), and how often (H). A *choice* is \
             a set of places, one of which comes next; *cycles* are those without a choice. Behind it the witnesses \
             that one run executes: all places with alternatives, as here, and the optimal placement on nodes \
             (Theorem 4, Figure 11), with the counts of the same run as weights; and the number of functions in which \
             Figure 11 leaves out a witness.\n\n\
             | program | {} | alternatives | optimal | of it | left out in |\n|---|{}\n",
            entities.join(" | "),
            "---|".repeat(entities.len() + 4)
        );
        let mut ratios = Vec::new();
        for (name, parts) in &all {
            let entities = parts.entities.map(|[all, executed, hits]| format!("{all}/{executed}/{hits}"));
            let ratio = percent(parts.optimal, parts.alone);
            ratios.push(ratio);
            let _ = writeln!(
                out,
                "| {name} | {} | {} | {} | {ratio:.1} % | {} |",
                entities.join(" | "),
                parts.alone,
                parts.optimal,
                parts.incomplete
            );
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let _ = writeln!(out, "| **mean** | | | | | | | {mean:.1} % | |");

        let limits =
            LIMITS.map(|limit| limit.map_or("any".to_owned(), |limit| limit.to_string())).join(" | ");
        let _ = write!(
            out,
            "\nFigure 16: events that the busiest of {MACHINES} machines writes in all its runs, by function, with so \
             many places in a profile at most; and without a limit.\n\n\
             | program | {limits} |\n|---|{}\n",
            "---|".repeat(LIMITS.len())
        );
        for (name, parts) in &all {
            let mut row = format!("| {name} |");
            for events in &parts.bounded {
                let _ = write!(row, " {events} |");
            }
            let _ = writeln!(out, "{row}");
        }
    }
}

/// The collections with this number of parts.
fn collected(parts: &Parts, number: usize) -> impl Iterator<Item = &Collected> {
    parts.processes.iter().flat_map(|process| &process.collected).filter(move |one| one.parts == number)
}

/// What the busiest program of each collection writes, in percent of the whole traces; none if nothing was collected.
fn share(parts: &Parts, number: usize) -> Option<f64> {
    let (mut most, mut all) = (0, 0);
    for process in &parts.processes {
        let of_number = process.collected.iter().filter(|one| one.parts == number);
        if let Some(busiest) = of_number.filter_map(|one| one.written.iter().max()).next() {
            most += busiest;
            all += process.written;
        }
    }
    (all > 0).then(|| 100.0 * most as f64 / all as f64)
}
