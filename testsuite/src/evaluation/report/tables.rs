//! The tables of the report.
use std::fmt::Write as _;

use super::super::capture_cost::{DepthCost, Point};
use super::super::declarations::{Program, Set, Variant};
use super::super::hybrid::{Ways, Work};
use super::super::papers::{Papers, Pcce};
use super::super::statistics::geometric_mean;
use super::super::verify::Histogram;
use super::measured::Measured;
use super::{CaptureResults, Report};
use crate::machine::Class;
use pcce::names::{demangle, short};

impl Report {
    /// The papers' tables, with their figures of the same programs in parentheses.
    pub(super) fn characteristics(&self, variant: &Variant, papers: &Papers, out: &mut String) {
        let _ = write!(
            out,
            "\n## Static characteristics of `{}` (PCCE Table 1)\n\nIn parentheses what the paper has for its version of the \
             program, before inlining; here the graph is that of the whole program after inlining. BL: the numbering of Ball \
             and Larus on the same graph.\n\n\
             | program | nodes | edges | recursive calls | calls through pointers | our max ID | BL max ID | edges cut (to functions) | version in the paper |\n\
             |---|---|---|---|---|---|---|---|---|\n",
            variant.name
        );
        for (program, m) in self.of(variant) {
            let Some(graph) = &m.graph else { continue };
            let paper = papers.pcce.get(&program.name);
            let theirs =
                |of: &dyn Fn(&Pcce) -> String| paper.map(|p| format!(" ({})", of(p))).unwrap_or_default();
            let cells = [
                program.name.clone(),
                format!("{}{}", graph.nodes, theirs(&|p| p.nodes.to_string())),
                format!("{}{}", graph.edges, theirs(&|p| p.edges.to_string())),
                format!("{}{}", graph.recursive, theirs(&|p| p.recursive.to_string())),
                format!("{}{}", graph.pointer_calls, theirs(&|p| p.pointers.to_string())),
                format!("{}{}", large(graph.max_id as f64), theirs(&|p| p.max_id.clone())),
                format!("{}{}", large(graph.ball_larus_max_id), theirs(&|p| p.ball_larus.clone())),
                format!("{} ({})", graph.cut, graph.reduced),
                paper.map(|p| p.version.clone()).unwrap_or_default(),
            ];
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        let _ = write!(
            out,
            "\n## Dynamic characteristics of `{}` (PCCE Table 2, DACCE Table 1)\n\nAt every entry of a function that remains \
             after inlining. Pushed frames and plain stack as pairs; words: the id, and two for each pushed frame. In parentheses \
             the papers' figures: PCCE's for depths and contexts, those of DACCE's PCCE for rates.\n\n\
             | program | max depth: frames / plain | 90 % depth: frames / plain | distinct contexts | entries per second | pushes per second | mean frames | words per context | entries without frames |\n\
             |---|---|---|---|---|---|---|---|---|\n",
            variant.name
        );
        for (program, m) in self.of(variant) {
            let Some(verified) = &m.verified else { continue };
            let (plain, frames) = (&verified.depths.plain, &verified.depths.frames);
            let pcce = papers.pcce.get(&program.name);
            let dacce = papers.dacce.get(&program.name);
            let pair = |of: &dyn Fn(&Histogram) -> Option<u64>| {
                let text = |h| of(h).map_or("–".to_owned(), |d| d.to_string());
                format!("{} / {}", text(frames), text(plain))
            };
            let theirs = |text: Option<String>| text.map(|t| format!(" ({t})")).unwrap_or_default();
            let cells = [
                program.name.clone(),
                pair(&Histogram::max)
                    + &theirs(pcce.map(|p| format!("{} / {}", p.depth_max.0, p.depth_max.1))),
                pair(&|h| h.quantile(0.9))
                    + &theirs(pcce.map(|p| format!("{} / {}", p.depth_90.0, p.depth_90.1))),
                verified.distinct.to_string() + &theirs(pcce.map(|p| p.contexts.to_string())),
                m.entries_per_second().map(large).unwrap_or_default()
                    + &theirs(dacce.map(|d| large(d.calls as f64))),
                m.pushes_per_second().map(large).unwrap_or_default()
                    + &theirs(dacce.map(|d| large(d.pushes as f64))),
                number(frames.mean(), 2) + &theirs(dacce.map(|d| format!("{:.2}", d.depth))),
                number(frames.mean().map(|f| 1.0 + 2.0 * f), 2),
                frames.share_of_zero().map(|s| format!("{:.2} %", 100.0 * s)).unwrap_or_default(),
            ];
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
    }

    pub(super) fn captures(&self, out: &mut String) {
        let CaptureResults { notes, by_depth, curves } = &self.captures;
        if by_depth.is_empty() {
            return;
        }
        *out += "\n## Captures\n\n";
        for (way, note) in notes {
            let _ = writeln!(out, "- {way}: {note}");
        }
        let ways: Vec<&str> = distinct(by_depth.iter().map(|cost| cost.way.as_str()));
        for stack in ["chain", "recursion"] {
            let _ = write!(
                out,
                "\nNanoseconds for one capture, and with recording in the hash table, by the functions on the stack ({stack}):\n\n\
                 | depth | {} |\n|---|{}\n",
                ways.join(" | "),
                "---|".repeat(ways.len())
            );
            let of_stack =
                |way: &str| by_depth.iter().filter(move |c| c.stack == stack && c.way == way).collect();
            let columns: Vec<Vec<&DepthCost>> = ways.iter().map(|w| of_stack(w)).collect();
            for (row, first) in columns.first().into_iter().flatten().enumerate() {
                let cell = |c: &Vec<&DepthCost>| {
                    c.get(row).map(|c| format!("{:.1}, {:.1}", c.captured, c.recorded)).unwrap_or_default()
                };
                let cells: Vec<String> = columns.iter().map(cell).collect();
                let _ = writeln!(out, "| {} | {} |", first.depth, cells.join(" | "));
            }
        }
        for (program, points) in curves {
            let ways = distinct(points.iter().map(|point| point.way.as_str()));
            let _ = write!(
                out,
                "\n{program}: user time by capture rate, to the build that only counts entries; allocations, to the plain build. A \
                 way that would take more than fifteen times as long is left out.\n\n\
                 | captures at | captures | {} |\n|---|---|{}\n",
                ways.join(" | "),
                "---|".repeat(ways.len())
            );
            let mut rows: Vec<(String, Vec<&Point>)> = Vec::new();
            for point in points {
                let name = point.at.to_string();
                match rows.iter_mut().find(|r| r.0 == name) {
                    Some(row) => row.1.push(point),
                    None => rows.push((name, vec![point])),
                }
            }
            for (name, points) in rows {
                let captures = points.iter().map(|p| p.captures.0).max().unwrap_or(0);
                let cells: Vec<String> = ways
                    .iter()
                    .map(|way| {
                        let ratio = points.iter().find(|p| p.way == *way).and_then(|p| p.ratio());
                        number(ratio.map(|r| r.median), 3)
                    })
                    .collect();
                let _ = writeln!(out, "| {name} | {captures} | {} |", cells.join(" | "));
            }
        }
    }

    pub(super) fn costs(&self, variant: &Variant, out: &mut String) {
        *out += "| program | user time (95 % interval) | shortest run | instructions | calls (millions): direct / indirect / library | id updates per 1000 calls | per direct call | pushes per 1000 calls | code | without the runtime | memory | build | contexts compared | wrong |\n";
        *out += "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
        for set in Set::ALL.into_iter().filter(|&set| self.of_set(variant, set).next().is_some()) {
            self.costs_of_set(variant, set, out);
        }
    }

    /// The figures of the programs of a set.
    fn of_set<'a>(
        &'a self,
        variant: &'a Variant,
        set: Set,
    ) -> impl Iterator<Item = (&'a Program, &'a Measured)> {
        self.of(variant).filter(move |(program, _)| program.set == set)
    }

    fn costs_of_set(&self, variant: &Variant, set: Set, out: &mut String) {
        for (program, m) in self.of_set(variant, set) {
            let time = m
                .time_ratio()
                .map(|t| format!("{:.3} ({:.3} to {:.3})", t.median, t.interval.0, t.interval.1));
            let calls = m.counts.as_ref().map(|(_, c)| {
                let millions = |n: u64| format!("{:.2}", n as f64 / 1e6);
                let each = [c.direct_calls, c.indirect_calls, c.library_calls].map(millions);
                each.join(" / ")
            });
            let cells = [
                program.name.clone(),
                time.unwrap_or_default(),
                number(m.best_time_ratio(), 3),
                number(m.instruction_ratio(), 4),
                calls.unwrap_or_default(),
                number(m.per_thousand_calls(|c| c.id_updates), 0),
                number(m.updates_per_direct_call(), 2),
                number(m.per_thousand_calls(|c| c.pushes), 1),
                number(Some(m.code_ratio()), 3),
                number(m.own_code_ratio(), 3),
                number(m.memory_ratio(), 3),
                number(Some(m.build_ratio()), 3),
                m.verified.as_ref().map(|v| v.compared.to_string()).unwrap_or_default(),
                m.verified.as_ref().map(|v| v.mismatches.to_string()).unwrap_or_default(),
            ];
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        let mean = |of: &dyn Fn(&Measured) -> Option<f64>| {
            geometric_mean(self.of_set(variant, set).filter_map(|(_, m)| of(m)))
        };
        let verified = || self.of_set(variant, set).filter_map(|(_, m)| m.verified.as_ref());
        let compared: u64 = verified().map(|v| v.compared).sum();
        let wrong: u64 = verified().map(|v| v.mismatches).sum();
        let cells = [
            format!("**geometric mean**, sum ({})", set.name()),
            number(mean(&|m| Some(m.time_ratio()?.median)), 4),
            number(mean(&Measured::best_time_ratio), 4),
            number(mean(&Measured::instruction_ratio), 4),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            number(mean(&|m| Some(m.code_ratio())), 3),
            number(mean(&Measured::own_code_ratio), 3),
            number(mean(&Measured::memory_ratio), 3),
            number(mean(&|m| Some(m.build_ratio())), 3),
            compared.to_string(),
            wrong.to_string(),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }

    /// The functions with most further instructions, in the programs with the highest ratios.
    pub(super) fn further(&self, variant: &Variant, out: &mut String) {
        const PROGRAMS: usize = 6;
        let rows = self.of(variant).filter_map(|(program, m)| {
            Some((m.instruction_ratio()?, program, m.further.as_ref()?, m.counts.as_ref()?))
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        rows.truncate(PROGRAMS);
        if rows.is_empty() {
            return;
        }
        let classes = Class::ALL.map(|(_, name)| name).join(" | ");
        let _ = write!(
            out,
            "\n### Where `{}` pays\n\nThe programs that execute most further instructions, and in them the functions that \
             do. All numbers but the first two columns are further instructions, of the program by thousand of the \
             baseline's, of a function by call of it. Those of the runtime library have its functions' names.\n\n\
             | program, function | calls (thousands) | share | all | {classes} |\n|---|{}\n",
            variant.name,
            "---|".repeat(3 + Class::ALL.len())
        );
        for (_, program, further, (base, with)) in rows {
            let sum = with.instructions as f64 - base.instructions as f64;
            let mut row = |name: &str, calls: String, unit: f64, classes: &[i64]| {
                let all: i64 = classes.iter().sum();
                let each = classes.iter().map(|&n| format!("{:.1}", n as f64 / unit));
                let cells: Vec<String> = [
                    name.to_owned(),
                    calls,
                    format!("{:.0} %", all as f64 / sum * 100.0),
                    format!("{:.1}", all as f64 / unit),
                ]
                .into_iter()
                .chain(each)
                .collect();
                let _ = writeln!(out, "| {} |", cells.join(" | "));
            };
            let name = format!("**{}**", program.name);
            row(&name, String::new(), base.instructions as f64 / 1e3, &further.all);
            for function in
                further.functions.iter().filter(|function| function.entries > 0 && function.sum() > 0)
            {
                let name = format!("`{}`", short(&demangle(&function.name)).replace('|', "\\|"));
                let calls = format!("{:.0}", function.entries as f64 / 1e3);
                row(&name, calls, function.entries as f64, &function.classes);
            }
        }
    }

    /// The basis of a hybrid encoding.
    pub(super) fn frames(&self, variant: &Variant, out: &mut String) {
        let rows = self.of(variant).filter_map(|(program, m)| {
            let graph = m.graph.as_ref()?;
            Some((&program.name, graph, graph.hybrid_rounds?))
        });
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            return;
        }
        out.push_str(
            "\nRounds of measuring frames, functions whose frames are relied upon, and of the direct calls that do not push those that add nothing:\n\n\
             | program | rounds | frames | direct calls without addition |\n|---|---|---|---|\n",
        );
        for (program, graph, rounds) in rows {
            let share = 100.0 * graph.free as f64 / (graph.free + graph.adding).max(1) as f64;
            let calls = graph.free + graph.adding;
            let _ = writeln!(
                out,
                "| {program} | {rounds} | {} | {} of {calls} ({share:.1} %) |",
                graph.frames, graph.free
            );
        }
    }

    pub(super) fn hybrid(&self, variant: &Variant, out: &mut String) {
        if self.of(variant).all(|(_, m)| m.hybrid.is_none()) {
            return;
        }
        let _ = write!(
            out,
            "\n## What stack offsets would bring to `{}` (PCCE §6)\n\nOf the executed calls of instrumented functions and through \
             pointers, the share with an addition and its reversal; pairs: with the calls' counts as weights, and with equal weights. Basic: \
             without silent functions, offsets of ids and known starts. Callbacks by id: offsets are not used where functions that calls through pointers may \
             reach begin a sub-path. Algorithm 4: the paper's, with silent functions; and the share with a test. Executed: what this build does, half of the instructions that change the id by an addition.\n\n\
             | program | calls (millions) | in or of silent functions | without fixed frames | basic | pushes | today | pushes | today + stack offsets | callbacks by id | Algorithm 4 | tests | executed |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
            variant.name
        );
        for (program, m) in self.of(variant) {
            let Some(hybrid) = &m.hybrid else { continue };
            let share = |calls: u64| format!("{:.1} %", 100.0 * calls as f64 / hybrid.calls as f64);
            let pair = |of: &dyn Fn(&Ways) -> u64| {
                format!("{}, {}", share(of(&hybrid.counted)), share(of(&hybrid.equal)))
            };
            let additions = |of: &dyn Fn(&Ways) -> Work| pair(&|ways| of(ways).additions);
            let cells = [
                program.name.clone(),
                format!("{:.2}", hybrid.calls as f64 / 1e6),
                share(hybrid.silent),
                share(hybrid.without_frame),
                additions(&|w| w.basic),
                pair(&|w| w.basic.pushes),
                additions(&|w| w.today),
                pair(&|w| w.today.pushes),
                additions(&|w| w.hybrid),
                additions(&|w| w.by_id),
                additions(&|w| w.algorithm_4),
                pair(&|w| w.algorithm_4.tests),
                share(hybrid.executed_updates / 2),
            ];
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
    }
}

/// A number in full if that is short, else as a power of ten.
fn large(value: f64) -> String {
    if value < 1e7 { format!("{value:.0}") } else { format!("{value:.1e}") }
}

/// Each name once, in the order of their first occurrences.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    names.for_each(|name| {
        if !seen.contains(&name) {
            seen.push(name);
        }
    });
    seen
}

pub(super) fn number(value: Option<f64>, digits: usize) -> String {
    value.map(|v| format!("{v:.digits$}")).unwrap_or_default()
}
