//! Traces from several runs: whether the merged trace is that of one run, and how much the busiest run writes, next to
//! what it would write if places were distributed as the paper does (distributed-program-tracing.txt, Figures 12 to 16,
//! Theorem 4).

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use object::{Object as _, ObjectSection as _};
use pcce::trace::{EventKind, NONE, Programs, Reader, TraceFile};
use pcce_dictionary::trace::{Kind, SECTION, parse};
use serde::{Deserialize, Serialize};

use super::declarations::declarations;
use crate::distribution::{
    Choices, Passed, Strategy, costs, cycles_without_choice, distribute, heaviest, optimal, unrealizable,
};
use crate::{checked, command, llvm};

/// Numbers of parts.
pub const PARTS: [usize; 3] = [2, 4, 6];
/// Sites of a profile at most (Figure 16).
pub const LIMITS: [Option<usize>; 5] = [Some(10), Some(20), Some(30), Some(40), None];
/// Machines of Figure 16.
pub const MACHINES: usize = 3;

/// Stands in front of each process of a workload: `$PCCE` collects its whole trace, which one program writes, and then
/// in parts. The trace of the first process balances them. The programs are made of what the link has kept in `$KEPT`.
/// The clock stands still (`$CLOCK`), and all runs have the same variables in the same order, of the same lengths:
/// Lua's seed depends on the clock and the address of the stack, gawk and make have a table of the variables. perl gets
/// the seed of its tables.
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
collect() {
    parts=$1
    shift
    if [ ! -e "$TRACES/000/$parts.split" ]; then
        "$PCCE" trace split "$1" --parts "$parts" --kept "$KEPT" $by > "$run/$parts.split" 2>&1
    fi
    env -u _ "$PCCE" trace collect --keep --parts "$parts" -o "$run/$parts" -- "$@" < "$input" > "$run/$parts.out" 2> "$run/$parts.err"
    echo $? > "$run/$parts.status"
}
by=
collect 1 "$@"
by="--by $run/1"
for number in $PARTS; do
    collect "$number" "$@"
done
cat "$run/1.out"
exit "$(cat "$run/1.status")"
"#;

/// A collection of a process's trace in so many parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Collected {
    pub parts: usize,
    /// Words that each part has written. Empty if there is no trace.
    pub written: Vec<u64>,
    /// The reason why there is none, or the difference from the whole run. Empty if all is well.
    pub wrong: String,
}

/// A process of a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    pub events: u64,
    /// Words of the whole trace.
    pub written: u64,
    /// One collection for each number of parts.
    pub collected: Vec<Collected>,
}

/// The cost of a strategy that distributes places.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Distributed {
    pub strategy: String,
    /// Events that the busiest run writes, for each number of runs ([`PARTS`]).
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
    /// By function, with [`MACHINES`] and profiles of these [`LIMITS`]: events of the busiest.
    pub bounded: Vec<u64>,
    /// Places; places with alternatives; choices between places; cycles without a choice. Each in the program, those
    /// that were executed, and their executions (Figure 12).
    pub entities: [[u64; 3]; 4],
    /// Events of a run that writes only the optimal witnesses (Theorem 4).
    pub optimal: u64,
    /// How many functions need other witnesses than those of Figure 11.
    pub incomplete: u64,
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
        let whole = run.join("1");
        let events = streams(program, &whole)?;
        functions.count(program, &whole)?;
        let collected =
            PARTS.map(|parts| collected(program, &run, parts, &events)).into_iter().collect::<Result<_>>()?;
        let events = events.iter().map(|(_, events, _)| events).sum();
        let written = words(&run.join("1.parts/part-1.trace"))?;
        parts.processes.push(Process { events, written, collected });
    }
    for (number, function) in (0..).zip(&functions.traced) {
        let activations = functions.activations(number);
        let of_function = functions.passed.get(&number);
        let placement = optimal(function, of_function.unwrap_or(&Passed::new()), activations);
        parts.optimal += placement.hits(function, activations);
        parts.incomplete += u64::from(placement.missing > 0);
        for (all, more) in parts.entities.iter_mut().zip(entities(function, activations)) {
            all.iter_mut().zip(more).for_each(|(all, more)| *all += more);
        }
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
            busiest: PARTS
                .map(|machines| busiest(strategy, machines, None))
                .into_iter()
                .collect::<Result<_>>()?,
            heaviest: heaviest(&functions, strategy),
        });
    }
    for limit in LIMITS {
        parts.bounded.push(busiest(Strategy::ByFunction, MACHINES, limit)?);
    }
    Ok(parts)
}

fn collected(program: &Path, run: &Path, parts: usize, whole: &[(u32, u64, u64)]) -> Result<Collected> {
    let file = |ending: &str| run.join(format!("{parts}{ending}"));
    let status = fs::read_to_string(file(".status")).context("how a collection ended")?;
    if status.trim() != "0" {
        let text = fs::read_to_string(file(".err"))?;
        let error = text.lines().find(|line| line.starts_with("error:")).unwrap_or("it says no reason");
        return Ok(Collected { parts, written: Vec::new(), wrong: error.to_owned() });
    }
    let same = streams(program, &file(""))? == whole;
    let wrong = if same { String::new() } else { "it is not what the whole run did".to_owned() };
    let part = |number| words(&file(".parts").join(format!("part-{number}.trace")));
    Ok(Collected { parts, written: (1..=parts).map(part).collect::<Result<_>>()?, wrong })
}

/// The words of a trace.
fn words(trace: &Path) -> Result<u64> {
    let file = TraceFile::open(trace).with_context(|| trace.display().to_string())?;
    Ok(file.streams.iter().flat_map(|stream| &stream.chunks).map(|chunk| chunk.words).sum())
}

/// What Figure 12 counts, of a function.
fn entities(function: &Choices, activations: u64) -> [[u64; 3]; 4] {
    let count = |node: u32| function.counts[node as usize];
    let of = |hits: &mut dyn Iterator<Item = u64>| {
        hits.fold([0; 3], |[all, executed, sum], hits| [all + 1, executed + u64::from(hits > 0), sum + hits])
    };
    let nodes = 0..function.next.len() as u32;
    let choices: Vec<u32> =
        (0..function.sets.len() as u32).filter(|&set| function.sets[set as usize].len() > 1).collect();
    let alternatives: BTreeSet<u32> =
        choices.iter().flat_map(|&set| &function.sets[set as usize]).copied().collect();
    let arrivals = |set: u32| {
        let before = nodes.clone().filter(|&node| function.next[node as usize] == Some(set));
        before.map(count).sum::<u64>() + if function.first == set { activations } else { 0 }
    };
    [
        of(&mut nodes.clone().map(count)),
        of(&mut alternatives.iter().map(|&node| count(node))),
        of(&mut choices.iter().map(|&set| arrivals(set))),
        of(&mut cycles_without_choice(function).into_iter().map(count)),
    ]
}

/// The functions of a program, with their executions.
struct Functions {
    traced: Vec<Choices>,
    names: Vec<String>,
    /// How often which node of a function was followed by which; its number of nodes stands for the entry.
    passed: HashMap<u32, Passed>,
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
        Ok(Self { traced, names, passed: HashMap::new(), entered, returned: 0, elsewhere: 0 })
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
            // The last node of each activation.
            let mut last: Vec<Option<u32>> = Vec::new();
            events(&mut |event| match event.kind {
                EventKind::Entered => self.entered[event.function as usize] += 1,
                EventKind::OpenReturned => self.returned += 1,
                EventKind::Landed | EventKind::Again | EventKind::Handler | EventKind::HandlerEnd => {
                    self.elsewhere += 1;
                }
                kind if kind.is_counted() && event.node != NONE => {
                    let (function, node) = (tables.function_of(event.node), tables.number_of(event.node));
                    let Some(choices) = self.traced.get_mut(function as usize) else { return };
                    choices.counts[node as usize] += 1;
                    let ends = choices.next[node as usize].is_none();
                    // A return has the depth of its call.
                    let depth = event.depth as usize + usize::from(kind == EventKind::Return);
                    last.resize(depth + 1, None);
                    let entry = choices.next.len() as u32;
                    let before = last[depth].replace(node).unwrap_or(entry);
                    if ends {
                        last[depth] = None;
                    }
                    *self.passed.entry(function).or_default().entry((before, node)).or_default() += 1;
                }
                _ => {}
            });
        })
    }

    /// How often a function was begun, as far as its activations have ended.
    fn activations(&self, function: u32) -> u64 {
        let function = &self.traced[function as usize];
        let ends = function.next.iter().zip(&function.counts).filter(|(next, _)| next.is_none());
        ends.map(|(_, count)| count).sum()
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
