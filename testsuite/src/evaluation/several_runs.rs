//! Traces from several runs: whether the merged trace is that of one run, and how much the busiest run writes, next to
//! what it would write if places were distributed (distributed-program-tracing.txt, Figures 13 to 16).

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use object::{Object as _, ObjectSection as _};
use pcce::trace::{EventKind, NONE, Programs, Reader, TraceFile};
use pcce_dictionary::trace::{Kind, SECTION, parse};
use serde::{Deserialize, Serialize};

use super::declarations::declarations;
use crate::distribution::{Choices, Strategy, costs, distribute, heaviest, unrealizable};
use crate::{checked, command, llvm};

/// Numbers of parts.
pub const PARTS: std::ops::RangeInclusive<usize> = 2..=7;
/// Sites of a profile at most (Figure 16).
pub const LIMITS: [usize; 4] = [10, 20, 30, 40];
/// Machines of Figure 16.
pub const MACHINES: usize = 3;

/// Stands in front of each process of a workload: `$PCCE` collects its trace in parts, and then in one, which is the
/// trace of the run as it was written. The clock stands still (`$CLOCK`), and all runs have the same variables in the
/// same order, of the same lengths: Lua's seed depends on the clock and the address of the stack, gawk and make have a
/// table of the variables. perl gets the seed of its tables.
pub const COLLECT: &str = r#"#!/bin/sh
number=0
until mkdir "$TRACES/$(printf %03d "$number")" 2> /dev/null; do number=$((number + 1)); done
run="$TRACES/$(printf %03d "$number")"
input=/dev/null
if [ -p /dev/stdin ] || [ -f /dev/stdin ]; then
    input="$run/input"
    cat > "$input"
fi
unset PCCE_TRACE
export LD_PRELOAD="$CLOCK" PERL_HASH_SEED=0
for parts in $PARTS; do
    env -u _ "$PCCE" trace collect --prove --parts "$parts" -o "$run/$parts" -- "$@" < "$input" > "$run/$parts.out" 2> "$run/$parts.err"
    echo $? > "$run/$parts.status"
done
exec env -u _ "$PCCE" trace collect --prove --keep --parts 1 -o "$run/1" -- "$@" < "$input"
"#;

/// A collection of a process's trace in so many parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Collected {
    pub parts: usize,
    /// Words that each part has kept. Empty if there is no trace.
    pub kept: Vec<u64>,
    /// The reason why there is none, or the difference from the whole run. Empty if all is well.
    pub wrong: String,
}

/// A process of a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    pub events: u64,
    /// One collection for each number of parts.
    pub collected: Vec<Collected>,
}

/// The cost of a strategy that distributes places.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Distributed {
    pub strategy: String,
    /// Events that the busiest of two, three … runs writes.
    pub busiest: Vec<u64>,
    /// Events of the heaviest job.
    pub heaviest: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Parts {
    pub processes: Vec<Process>,
    /// Events of a run that writes all places with alternatives.
    pub alone: u64,
    pub strategies: Vec<Distributed>,
    /// By function, with [`MACHINES`] and profiles of bounded size: events of the busiest.
    pub bounded: Vec<u64>,
}

/// The streams of a trace, in any order: their levels, how many events they have, and a hash of these.
pub fn streams(program: &Path, trace: &Path) -> Result<Vec<(u32, u64, u64)>> {
    let mut found = Vec::new();
    read(program, trace, |level, events| {
        let mut hasher = DefaultHasher::new();
        let mut count = 0;
        events(&mut |event| {
            count += 1;
            std::mem::discriminant(&event.kind).hash(&mut hasher);
            (event.depth, event.function, event.node).hash(&mut hasher);
            let is_value = matches!(event.kind, EventKind::Handler | EventKind::Mark);
            is_value.then_some(event.value).hash(&mut hasher);
        });
        found.push((level, count, hasher.finish()));
    })?;
    // Two threads may have begun in another order.
    found.sort_unstable();
    Ok(found)
}

/// Reads all events of a stream.
type Events<'a> = dyn FnMut(&mut dyn FnMut(&pcce::trace::Event)) + 'a;

fn read(program: &Path, trace: &Path, mut each: impl FnMut(u32, &mut Events<'_>)) -> Result<()> {
    let file = TraceFile::open(trace).with_context(|| trace.display().to_string())?;
    let programs = Programs::load(&[&file], program, &[], &[])?;
    let reader = Reader::new(&file, &programs);
    for stream in &file.streams {
        let mut replay = reader.replay(stream);
        each(stream.level, &mut |sink| {
            for event in replay.by_ref() {
                sink(&event);
            }
        });
        replay.finish()?;
    }
    Ok(())
}

/// Compares the files that [`COLLECT`] has left in a folder.
///
/// # Errors
/// If something cannot be read, or a distribution does not tell what it should.
pub fn look(program: &Path, folder: &Path) -> Result<Parts> {
    let mut runs: Vec<_> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    runs.sort();
    ensure!(!runs.is_empty(), "no process of the workload was collected");
    let mut functions = Functions::new(program)?;
    let mut parts = Parts::default();
    for run in runs {
        let whole = run.join("1.parts/part-1.trace");
        let events = streams(program, &whole)?;
        functions.count(program, &whole)?;
        let collected = PARTS.map(|parts| collected(program, &run, parts, &events)).collect::<Result<_>>()?;
        let events = events.iter().map(|(_, events, _)| events).sum();
        parts.processes.push(Process { events, collected });
    }
    let functions = functions.choices();
    parts.alone = costs(&functions, &distribute(&functions, Strategy::FineGrained, 1, None))[0];
    let busiest = |strategy, machines, limit| {
        let all = distribute(&functions, strategy, machines, limit);
        let profiles: Vec<_> = all.iter().flatten().collect();
        let gap = unrealizable(&functions, &profiles);
        ensure!(gap.is_none(), "{strategy:?}, {machines} machines, limit {limit:?}: {gap:?}");
        Ok(costs(&functions, &all).into_iter().max().unwrap_or_default())
    };
    for strategy in Strategy::ALL {
        parts.strategies.push(Distributed {
            strategy: format!("{strategy:?}"),
            busiest: PARTS.map(|machines| busiest(strategy, machines, None)).collect::<Result<_>>()?,
            heaviest: heaviest(&functions, strategy),
        });
    }
    for limit in LIMITS {
        parts.bounded.push(busiest(Strategy::ByFunction, MACHINES, Some(limit))?);
    }
    Ok(parts)
}

fn collected(program: &Path, run: &Path, parts: usize, whole: &[(u32, u64, u64)]) -> Result<Collected> {
    let file = |ending: &str| run.join(format!("{parts}{ending}"));
    let status = fs::read_to_string(file(".status")).context("how a collection ended")?;
    if status.trim() != "0" {
        let text = fs::read_to_string(file(".err"))?;
        let error = text.lines().find(|line| line.starts_with("error:")).unwrap_or("it says no reason");
        return Ok(Collected { parts, kept: Vec::new(), wrong: error.to_owned() });
    }
    let trace = file("");
    let same = streams(program, &trace)? == whole;
    let wrong = if same { String::new() } else { "it is not what the whole run did".to_owned() };
    let mut kept = vec![0; parts];
    for chunk in TraceFile::open(&trace)?.streams.iter().flat_map(|stream| &stream.chunks) {
        kept[(chunk.sequence % parts as u64) as usize] += chunk.words;
    }
    Ok(Collected { parts, kept, wrong })
}

/// The functions of a program, with their executions.
struct Functions {
    traced: Vec<Choices>,
    names: Vec<String>,
    /// Entries of each function from unknown code.
    entered: Vec<u64>,
    /// Returns of calls from unknown code, and other ways in which control came back to it.
    returned: u64,
    elsewhere: u64,
}

impl Functions {
    fn new(program: &Path) -> Result<Self> {
        let bytes = fs::read(program).with_context(|| program.display().to_string())?;
        let file = object::File::parse(&*bytes)?;
        let section = file.section_by_name(SECTION).with_context(|| format!("there is no {SECTION}"))?;
        let modules = parse(&section.uncompressed_data()?).map_err(|error| anyhow!("{error}"))?;
        let (mut traced, mut names) = (Vec::new(), Vec::new());
        for module in &modules {
            for function in &module.functions {
                let ends = |kind: &Kind| {
                    matches!(kind, Kind::Return | Kind::Leave(_) | Kind::LeaveOpen(_) | Kind::Resume)
                };
                traced.push(Choices {
                    sets: function.sets.clone(),
                    first: function.first,
                    next: function
                        .nodes
                        .iter()
                        .map(|node| (!ends(&node.kind)).then_some(node.next))
                        .collect(),
                    quiet: function.nodes.iter().map(|node| matches!(node.kind, Kind::Closed(_))).collect(),
                    counts: vec![0; function.nodes.len()],
                });
                names.push(module.names[function.name as usize].clone());
            }
        }
        let entered = vec![0; traced.len()];
        Ok(Self { traced, names, entered, returned: 0, elsewhere: 0 })
    }

    /// Counts the events of a trace.
    fn count(&mut self, program: &Path, trace: &Path) -> Result<()> {
        let file = TraceFile::open(trace)?;
        let programs = Programs::load(&[&file], program, &[], &[])?;
        let tables = &programs.tables;
        for (number, name) in (0..).zip(&self.names) {
            ensure!(tables.linkage_name(tables.name_of(number)) == name, "{name}: its tables are elsewhere");
        }
        read(program, trace, |_, events| {
            events(&mut |event| match event.kind {
                EventKind::Entered => self.entered[event.function as usize] += 1,
                EventKind::OpenReturned => self.returned += 1,
                EventKind::Landed | EventKind::Again | EventKind::Handler | EventKind::HandlerEnd => {
                    self.elsewhere += 1;
                }
                kind if kind.is_counted() && event.node != NONE => {
                    let function = tables.function_of(event.node) as usize;
                    if let Some(function) = self.traced.get_mut(function) {
                        function.counts[tables.number_of(event.node) as usize] += 1;
                    }
                }
                _ => {}
            });
        })
    }

    /// Adds a function for unknown code, in which each event may come in place of each other.
    fn choices(mut self) -> Vec<Choices> {
        let mut counts: Vec<u64> = self.entered.into_iter().filter(|&count| count > 0).collect();
        counts.extend([self.returned, self.elsewhere]);
        let nodes = counts.len();
        self.traced.push(Choices {
            sets: vec![(0..nodes as u32).collect()],
            first: 0,
            next: vec![None; nodes],
            quiet: vec![false; nodes],
            counts,
        });
        self.traced
    }
}

/// Writes the script that stands in front of programs, and builds the clock that stands still.
pub fn prepare(script: &Path, clock: &Path) -> Result<()> {
    let source = declarations().join("parts/clock.c");
    let built = command(llvm("clang"), &["-O1", "-shared", "-fPIC", "-o"]).arg(clock).arg(source).output();
    checked("clang", built)?;
    super::build::script(script, COLLECT)
}
