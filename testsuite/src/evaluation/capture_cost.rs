//! The cost of captures: `pcce_context()` against ways to walk the stack, all recording into the same hash table
//! (`testsuite/evaluation/capture`).
//!
//! Curves by capture rate compare captures at every n-th entry of a function with the same build without captures
//! ("nothing"), which has the counter at each entry, too: the ratio includes the encoding (or the frame pointers) and
//! the captures. Captures at every allocation are compared with the plain build. The cost of one capture is measured
//! by the depth of the stack.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};

use super::build::Built;
use super::declarations::{Variant, declarations};
use super::measure::Evaluated;
use super::statistics::{Median, median};
use super::store::{Store, fingerprint, fingerprint_file};
use super::workload::Usage;
use crate::{checked, llvm};

/// Entries from one capture to the next, from rare to frequent.
pub const PERIODS: [u64; 6] = [100_000, 10_000, 1000, 100, 10, 1];
/// A way is not measured at rates at which the ratio of its expected time to the program's is larger than this.
const LIMIT: f64 = 15.0;
/// Pairs of runs for each point of the curves at most: there are many points, and they differ by more than the noise.
/// The cost of captures at allocations is within the noise of so few pairs.
const CURVE_PAIRS: usize = 3;
/// The way that the others are compared with.
const NOTHING: &str = "nothing";
/// The way that is for allocations only.
const TARGETED: &str = "pcce-targeted";

/// Places of captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// No captures: the cost of being prepared for them.
    Never,
    /// At every n-th entry of a function.
    Entries(u64),
    Allocations,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Never => write!(f, "never"),
            At::Entries(1) => write!(f, "every entry"),
            At::Entries(n) => write!(f, "every {n}th entry"),
            At::Allocations => write!(f, "every allocation"),
        }
    }
}

/// Runs of one way at one rate, each next to a run of the baseline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    pub way: String,
    pub at: At,
    /// Captures in a run, and distinct contexts among them.
    pub captures: (u64, u64),
    /// A run of the baseline, and one of this way.
    pub pairs: Vec<(Usage, Usage)>,
}

impl Point {
    /// User time, relative to the baseline.
    pub fn ratio(&self) -> Option<Median> {
        median(&self.pairs.iter().map(|(base, with)| with.user / base.user).collect::<Vec<_>>())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DepthCost {
    pub way: String,
    /// `chain` (no recursion) or `recursion`.
    pub stack: String,
    /// Functions on the stack.
    pub depth: u64,
    /// Nanoseconds.
    pub captured: f64,
    /// Nanoseconds with recording in the hash table.
    pub recorded: f64,
}

/// The folder with the sources that are compiled for captures.
#[derive(Debug)]
pub struct Captures {
    folder: PathBuf,
    ways: Vec<Variant>,
}

fn sources() -> PathBuf {
    declarations().join("capture")
}

/// Changes with the sources in `testsuite/evaluation/capture`.
fn sources_fingerprint() -> Result<String> {
    let mut parts = Vec::new();
    for entry in fs::read_dir(sources())? {
        parts.push(fs::read(entry?.path())?);
    }
    parts.sort();
    Ok(fingerprint(parts))
}

impl Captures {
    /// Compiles the common sources of all captures into `folder`.
    ///
    /// # Errors
    /// If it does not compile; libunwind's header may be missing.
    pub fn new(folder: PathBuf, tools: &Path) -> Result<Captures> {
        fs::create_dir_all(&folder)?;
        let record = Command::new(llvm("clang"))
            .args(["-O2", "-c", "-o"])
            .arg(folder.join("record.o"))
            .arg(sources().join("record.c"))
            .output();
        checked("record.c (it needs libunwind-dev: scripts/setup evaluate)", record)?;
        Ok(Captures { folder, ways: Variant::captures(tools)? })
    }

    /// The flags that add captures to a program: at function entries, or else at allocations.
    fn variant(&self, evaluated: &Evaluated, way: &Variant, entries: bool) -> Result<Variant> {
        let mut variant = way.clone();
        let what = if entries { "entries" } else { "allocations" };
        variant.name = format!("capture-{what}-{}", way.name);
        let (sources, folder) = (sources(), &self.folder);
        let no_callback = sources.join("no-callback");
        if way.uses_wrapper() {
            variant.flags += &format!(" --pcce-no-callback='{}'", no_callback.display());
        }
        let record = folder.join("record.o");
        if entries {
            // The hook itself must not have a hook.
            let hook = folder.join(format!("entry-{}.o", way.name));
            evaluated.workshop.compile(&variant, &sources.join("entry.c"), &hook)?;
            variant.flags += &format!(
                " -fsanitize-coverage=func,trace-pc -fno-sanitize-link-runtime -Wl,'{}'",
                hook.display()
            );
        } else {
            variant.flags += &format!(" -include '{}'", sources.join("allocation.h").display());
        }
        variant.flags += &format!(" -Wl,'{}' -lunwind", record.display());
        Ok(variant)
    }

    /// The capture curves of a program: by rate of function entries, then for allocations.
    pub fn curves(
        &self,
        evaluated: &Evaluated,
        plain: &Built,
        pairs: usize,
        progress: &dyn Fn(&str),
    ) -> Result<Vec<Point>> {
        let mut points = Vec::new();
        let sources = sources_fingerprint()?;
        for entries in [true, false] {
            let mut builds = Vec::new();
            let other = if entries { TARGETED } else { NOTHING };
            for way in self.ways.iter().filter(|w| w.name != other) {
                let variant = self.variant(evaluated, way, entries)?;
                progress(&format!("{}: build", variant.name));
                let built = evaluated.build_with(&variant, false, &sources)?;
                builds.push((way.name.clone(), built));
            }
            let baseline = if entries {
                let nothing = builds.iter().find(|(name, _)| name == NOTHING);
                nothing.with_context(|| format!("variants.toml has no way `{NOTHING}`"))?.1.clone()
            } else {
                plain.clone()
            };
            let rates: Vec<At> = if entries {
                std::iter::once(At::Never).chain(PERIODS.map(At::Entries)).collect()
            } else {
                vec![At::Allocations]
            };
            let pairs = if entries { pairs.min(CURVE_PAIRS) } else { pairs };
            let mut slow: Vec<String> = Vec::new();
            for at in rates {
                let measured = |(name, _): &&(String, Built)| !slow.contains(name) && name != NOTHING;
                let now: Vec<&(String, Built)> = builds.iter().filter(measured).collect();
                for point in self.points(evaluated, &baseline, &now, at, pairs, progress)? {
                    // The next rate is ten times as high.
                    if point.ratio().is_some_and(|r| 1.0 + (r.median - 1.0) * 10.0 > LIMIT) {
                        slow.push(point.way.clone());
                    }
                    points.push(point);
                }
            }
        }
        Ok(points)
    }

    fn points(
        &self,
        evaluated: &Evaluated,
        baseline: &Built,
        builds: &[&(String, Built)],
        at: At,
        pairs: usize,
        progress: &dyn Fn(&str),
    ) -> Result<Vec<Point>> {
        let commands = &evaluated.program.workload.run;
        let mut depends =
            vec![baseline.fingerprint.clone(), evaluated.program.workload_fingerprint(commands)?];
        depends.extend(builds.iter().map(|(_, b)| b.fingerprint.clone()));
        depends.push(pairs.to_string());
        let step = format!("captures-{}", at.to_string().replace(' ', "-"));
        evaluated.store.step(&evaluated.program.name, "captures", &step, &fingerprint(&depends), || {
            let mut points: Vec<Point> = builds
                .iter()
                .map(|(way, _)| Point { way: way.clone(), at, captures: (0, 0), pairs: Vec::new() })
                .collect();
            for pair in 0..pairs {
                progress(&format!("captures, {at}: pair {} of {pairs}", pair + 1));
                let mut usages = vec![None; builds.len() + 1];
                let mut order: Vec<usize> = (0..usages.len()).collect();
                order.rotate_left(pair % usages.len());
                for i in order {
                    let built = if i == 0 { baseline } else { &builds[i - 1].1 };
                    let mut runner = evaluated.runner(built);
                    let report = evaluated.scratch.with_extension("captures");
                    let _ = fs::remove_file(&report);
                    runner.environment.push(("CAPTURE_REPORT".into(), OsString::from(&report)));
                    if let (At::Entries(period), true) = (at, i > 0) {
                        runner.environment.push(("CAPTURE_PERIOD".into(), period.to_string().into()));
                    }
                    usages[i] = Some(runner.run(commands)?.0);
                    if i > 0 {
                        points[i - 1].captures = read_captures(&report)?;
                    }
                }
                let base = usages[0].context("the baseline ran")?;
                for (point, usage) in points.iter_mut().zip(&usages[1..]) {
                    point.pairs.push((base, usage.context("the build ran")?));
                }
            }
            Ok(points)
        })
    }

    /// The cost of one capture by the depth of the stack.
    pub fn by_depth(&self, workshop: &super::build::Workshop, store: &Store) -> Result<Vec<DepthCost>> {
        let mut costs = Vec::new();
        for way in self.ways.iter().filter(|w| w.name != NOTHING && w.name != TARGETED) {
            let mut variant = way.clone();
            if way.uses_wrapper() {
                variant.flags +=
                    &format!(" --pcce-no-callback='{}'", sources().join("no-callback").display());
            }
            variant.flags += &format!(
                " -std=c++17 -ftemplate-depth=1100 -Wl,'{}' -lunwind",
                self.folder.join("record.o").display()
            );
            let executable = self.folder.join(format!("depth-{}", way.name));
            workshop.link(&variant, &sources().join("depth.cpp"), &executable)?;
            let run = || {
                let output = checked("depth", Command::new(&executable).output())?.stdout;
                let text = String::from_utf8(output)?;
                text.lines().map(|line| read_cost(&way.name, line)).collect::<Result<Vec<_>>>()
            };
            let depends = fingerprint_file(&executable)?;
            costs.extend(store.step("captures", &way.name, "depth", &depends, run)?);
        }
        Ok(costs)
    }

    /// The ways, with their descriptions.
    pub fn notes(&self) -> BTreeMap<String, String> {
        self.ways.iter().map(|w| (w.name.clone(), w.note.clone())).collect()
    }
}

fn read_cost(way: &str, line: &str) -> Result<DepthCost> {
    let words: Vec<&str> = line.split(' ').collect();
    let [stack, depth, captured, recorded] = words[..] else { bail!("{line}") };
    Ok(DepthCost {
        way: way.to_owned(),
        stack: stack.to_owned(),
        depth: depth.parse()?,
        captured: captured.parse()?,
        recorded: recorded.parse()?,
    })
}

/// Captures and distinct contexts, over the processes of a workload.
fn read_captures(report: &Path) -> Result<(u64, u64)> {
    let text = fs::read_to_string(report).context("the program with captures reported nothing")?;
    let mut sum = (0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [captures, distinct, lost] = words[..] else { bail!("{line}") };
        if lost != "0" {
            bail!("the hash table of captures is full: {line}");
        }
        sum.0 += captures.parse::<u64>()?;
        sum.1 += distinct.parse::<u64>()?;
    }
    Ok(sum)
}
