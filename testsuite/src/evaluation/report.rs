//! What was measured, as tables and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;

use super::build::Built;
use super::callgrind::Counts;
use super::captures::{DepthCost, Point};
use super::charts::Chart;
use super::decode::DecodeRate;
use super::graph::Graph;
use super::hybrid::{Hybrid, Ways, Work};
use super::measure::Times;
use super::papers::{Papers, Pcce};
use super::program::{Program, Variant};
use super::statistics::{Median, geometric_mean, median};
use super::verify::{Histogram, Verified};

/// Everything measured of one program in one variant.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The baseline's build, and the variant's.
    pub built: (Built, Built),
    /// Interleaved runs.
    pub times: Option<Times>,
    /// The baseline's dynamic counts, and the variant's.
    pub counts: Option<(Counts, Counts)>,
    /// Verify mode.
    pub verified: Option<Verified>,
    /// The call graph.
    pub graph: Option<Graph>,
    /// What stack offsets would bring.
    pub hybrid: Option<Hybrid>,
}

impl Measured {
    /// Builds, of which nothing is known yet.
    #[must_use]
    pub fn new(baseline: Built, variant: Built) -> Measured {
        let built = (baseline, variant);
        Measured { built, times: None, counts: None, verified: None, graph: None, hybrid: None }
    }

    /// User time, variant to baseline.
    #[must_use]
    pub fn time_ratio(&self) -> Option<Median> {
        let pairs = &self.times.as_ref()?.pairs;
        median(&pairs.iter().map(|(base, with)| with.user / base.user).collect::<Vec<_>>())
    }

    /// The shortest run of the variant to the shortest of the baseline: disturbances only add.
    #[must_use]
    pub fn best_time_ratio(&self) -> Option<f64> {
        let pairs = &self.times.as_ref()?.pairs;
        let best = |times: &mut dyn Iterator<Item = f64>| times.min_by(f64::total_cmp);
        Some(best(&mut pairs.iter().map(|p| p.1.user))? / best(&mut pairs.iter().map(|p| p.0.user))?)
    }

    /// Peak memory, variant to baseline.
    #[must_use]
    pub fn memory_ratio(&self) -> Option<f64> {
        let pairs = &self.times.as_ref()?.pairs;
        let ratios: Vec<f64> =
            pairs.iter().map(|(base, with)| with.peak_memory as f64 / base.peak_memory as f64).collect();
        Some(median(&ratios)?.median)
    }

    /// Instructions, variant to baseline.
    #[must_use]
    pub fn instruction_ratio(&self) -> Option<f64> {
        let (base, with) = self.counts.as_ref()?;
        Some(with.instructions as f64 / base.instructions as f64)
    }

    /// Machine code, variant to baseline.
    #[must_use]
    pub fn code_ratio(&self) -> f64 {
        self.built.1.code_size as f64 / self.built.0.code_size as f64
    }

    /// User time of the build, variant to baseline.
    #[must_use]
    pub fn build_ratio(&self) -> f64 {
        self.built.1.usage.user / self.built.0.usage.user
    }

    /// Stores to the id for each executed direct call.
    #[must_use]
    pub fn updates_per_direct_call(&self) -> Option<f64> {
        let counts = &self.counts.as_ref()?.1;
        Some(counts.id_updates as f64 / counts.direct_calls as f64)
    }

    /// User time of a run of the baseline, in seconds.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        let pairs = &self.times.as_ref()?.pairs;
        Some(median(&pairs.iter().map(|p| p.0.user).collect::<Vec<_>>())?.median)
    }

    /// Entries of the program's functions in a second of the baseline's user time.
    #[must_use]
    pub fn entries_per_second(&self) -> Option<f64> {
        Some(self.verified.as_ref()?.compared as f64 / self.seconds()?)
    }

    /// Pushes in such a second, where the whole workload pushes as often for each call as the small one.
    #[must_use]
    pub fn pushes_per_second(&self) -> Option<f64> {
        let counts = &self.counts.as_ref()?.1;
        let calls = counts.direct_calls + counts.indirect_calls;
        Some(self.entries_per_second()? * counts.pushes as f64 / calls as f64)
    }

    /// So many of `what`, for each thousand calls of any kind.
    fn per_thousand_calls(&self, what: impl Fn(&Counts) -> u64) -> Option<f64> {
        let counts = &self.counts.as_ref()?.1;
        Some(1000.0 * what(counts) as f64 / counts.calls() as f64)
    }
}

/// A line for a terminal.
#[must_use]
pub fn line(program: &str, variant: &str, measured: &Measured) -> String {
    let mut text = format!("{program} {variant}:");
    if let Some(ratio) = measured.instruction_ratio() {
        let _ = write!(text, " instructions {ratio:.4}");
    }
    if let Some(Median { median, interval: (low, high), .. }) = measured.time_ratio() {
        let best = measured.best_time_ratio().unwrap_or(f64::NAN);
        let _ = write!(text, " time {median:.3} ({low:.3} to {high:.3}, best {best:.3})");
    }
    if let (Some(updates), Some(pushes)) =
        (measured.per_thousand_calls(|c| c.id_updates), measured.per_thousand_calls(|c| c.pushes))
    {
        let _ = write!(text, " updates {updates:.0}‰ pushes {pushes:.0}‰");
    }
    let _ = write!(text, " code {:.3} build {:.3}", measured.code_ratio(), measured.build_ratio());
    if let Some(verified) = &measured.verified {
        let _ = write!(text, " verified {} ({} wrong)", verified.compared, verified.mismatches);
    }
    text
}

/// The comparison of ways to capture.
#[derive(Clone, Debug, Default)]
pub struct CaptureResults {
    /// What the ways are, by name.
    pub notes: BTreeMap<String, String>,
    /// One capture.
    pub by_depth: Vec<DepthCost>,
    /// Curves, by program.
    pub curves: Vec<(String, Vec<Point>)>,
}

/// The results of an evaluation.
#[derive(Clone, Debug)]
pub struct Report {
    machine: String,
    /// The variants, in the order in which they were named.
    pub variants: Vec<Variant>,
    pairs: usize,
    programs: Vec<(Program, BTreeMap<String, Measured>)>,
    /// Captures.
    pub captures: CaptureResults,
    /// The decoder's speed.
    pub decode: Option<DecodeRate>,
    /// Programs that failed, and how.
    pub failures: Vec<(String, String)>,
}

impl Report {
    /// Of an evaluation on this machine.
    #[must_use]
    pub fn new(machine: String, variants: Vec<Variant>, pairs: usize) -> Report {
        let (programs, captures, failures) = (Vec::new(), CaptureResults::default(), Vec::new());
        Report { machine, variants, pairs, programs, captures, decode: None, failures }
    }

    /// Adds what was measured of a program, by variant, and its capture curves.
    pub fn add(&mut self, program: &Program, measured: BTreeMap<String, Measured>, points: Vec<Point>) {
        if !points.is_empty() {
            self.captures.curves.push((program.name.clone(), points));
        }
        self.programs.push((program.clone(), measured));
    }

    /// What was measured in a variant, by program.
    pub fn of<'a>(&'a self, variant: &'a Variant) -> impl Iterator<Item = (&'a Program, &'a Measured)> {
        self.programs.iter().filter_map(|(p, m)| Some((p, m.get(&variant.name)?)))
    }

    /// As Markdown, with links to the charts. `command` is what made it.
    #[must_use]
    pub fn markdown(&self, command: &str, papers: &Papers, charts: &[Chart]) -> String {
        let mut out = format!(
            "# Evaluation\n\nMade by `{command}` on: {}.\n\n\
             Programs are Debian's source packages, built with the same flags in each variant and run on generated inputs; \
             `testsuite/evaluation` declares them. Each variant prints what its baseline prints. Ratios are variant to baseline. User \
             times are medians of {} interleaved pairs, with the interval that holds the true median with 95 % confidence; the \
             shortest runs are compared beside them, since disturbances only add. Instructions and counts are callgrind's, of a \
             smaller workload. A push and its pop are one push, and two id updates where they store the id, too. Code is all machine code, the runtime library's \
             included; memory is the peak of the largest process; build is the user time of compiling and linking. Contexts are \
             compared in verify mode, at every function entry of the whole workload.\n",
            self.machine, self.pairs
        );
        for variant in &self.variants {
            let _ = write!(
                out,
                "\n## Costs of `{}`: {}\n\nFlags: `{}`, against `{}`.\n\n",
                variant.name,
                variant.note,
                variant.flags,
                variant.baseline.as_deref().unwrap_or_default()
            );
            self.costs(variant, &mut out);
            self.frames(variant, &mut out);
            self.hybrid(variant, &mut out);
        }
        if let Some(variant) = self.variants.first() {
            self.characteristics(variant, papers, &mut out);
        }
        self.captures(&mut out);
        if let Some(rate) = &self.decode {
            let _ = write!(
                out,
                "\n## Decoding\n\n`pcce decode`, {} contexts of Lua, {} different, {:.1} frames each; millions in a second of user \
                 time:\n\n",
                rate.tokens, rate.distinct, rate.frames_per_token
            );
            for (format, rate) in &rate.per_second {
                let _ = writeln!(out, "- {format}: {:.2}", rate / 1e6);
            }
        }
        if !charts.is_empty() {
            out += "\n## Charts\n";
            for chart in charts {
                let _ = write!(out, "\n![{}](charts/{})\n", chart.title, chart.file);
            }
        }
        for (program, failure) in &self.failures {
            let _ = write!(out, "\n{program} failed:\n\n```text\n{failure}\n```\n");
        }
        out
    }

    /// The papers' tables, with their figures of the same programs in parentheses.
    fn characteristics(&self, variant: &Variant, papers: &Papers, out: &mut String) {
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

    fn captures(&self, out: &mut String) {
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

    fn costs(&self, variant: &Variant, out: &mut String) {
        *out += "| program | user time (95 % interval) | shortest run | instructions | calls (millions): direct / indirect / library | id updates per 1000 calls | per direct call | pushes per 1000 calls | code | memory | build | contexts compared | wrong |\n";
        *out += "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
        for (program, m) in self.of(variant) {
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
                number(m.memory_ratio(), 3),
                number(Some(m.build_ratio()), 3),
                m.verified.as_ref().map(|v| v.compared.to_string()).unwrap_or_default(),
                m.verified.as_ref().map(|v| v.mismatches.to_string()).unwrap_or_default(),
            ];
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        let mean = |of: &dyn Fn(&Measured) -> Option<f64>| {
            geometric_mean(self.of(variant).filter_map(|(_, m)| of(m)))
        };
        let compared: u64 = self.of(variant).filter_map(|(_, m)| Some(m.verified.as_ref()?.compared)).sum();
        let wrong: u64 = self.of(variant).filter_map(|(_, m)| Some(m.verified.as_ref()?.mismatches)).sum();
        let cells = [
            "**geometric mean**, sum".to_owned(),
            number(mean(&|m| Some(m.time_ratio()?.median)), 4),
            number(mean(&Measured::best_time_ratio), 4),
            number(mean(&Measured::instruction_ratio), 4),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            number(mean(&|m| Some(m.code_ratio())), 3),
            number(mean(&Measured::memory_ratio), 3),
            number(mean(&|m| Some(m.build_ratio())), 3),
            compared.to_string(),
            wrong.to_string(),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }

    /// What a hybrid encoding rests on.
    fn frames(&self, variant: &Variant, out: &mut String) {
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

    fn hybrid(&self, variant: &Variant, out: &mut String) {
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

    /// As JSON, with everything measured.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let programs: Vec<_> = self
            .programs
            .iter()
            .map(|(program, measured)| {
                let variants: serde_json::Map<_, _> = measured
                    .iter()
                    .map(|(name, m)| {
                        let value = json!({
                            "build": m.built,
                            "pairs": m.times.as_ref().map(|t| &t.pairs),
                            "counts": m.counts,
                            "verify": m.verified,
                            "graph": m.graph,
                            "hybrid": m.hybrid,
                        });
                        (name.clone(), value)
                    })
                    .collect();
                json!({ "name": program.name, "package": program.package, "variants": variants })
            })
            .collect();
        let variants: serde_json::Map<_, _> = self
            .variants
            .iter()
            .map(|v| (v.name.clone(), json!({ "flags": v.flags, "baseline": v.baseline })))
            .collect();
        json!({
            "machine": self.machine,
            "pairs": self.pairs,
            "variants": variants,
            "programs": programs,
            "captures": { "by_depth": self.captures.by_depth, "curves": self.captures.curves },
            "decode": self.decode,
            "failures": self.failures,
        })
    }
}

/// In full where that is short, else as a power of ten.
fn large(value: f64) -> String {
    if value < 1e7 { format!("{value:.0}") } else { format!("{value:.1e}") }
}

/// Each once, in the order in which they come first.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    names.for_each(|name| {
        if !seen.contains(&name) {
            seen.push(name);
        }
    });
    seen
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map(|v| format!("{v:.digits$}")).unwrap_or_default()
}
