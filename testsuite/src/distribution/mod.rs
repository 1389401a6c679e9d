//! The alternative to merged traces of several runs: sites are distributed to the runs, each of which writes only its
//! own sites (distributed-program-tracing.txt, §4).
//!
//! A *profile* is the set of sites that a run writes. Of sites that are alternatives to each other, all are written, as
//! in the paper's Figure 4 (b): the events of callees lie between two events of a function, so a later witness, as Ball
//! and Larus choose it, would not be the next event. [`unrealizable`] is the condition.

mod optimal;
mod realizable;
#[cfg(test)]
mod tests;

pub use optimal::{Passed, Placement, optimal, unbroken};
pub use realizable::{Gap, Witnesses, unrealizable};

use std::collections::{BTreeSet, HashMap};

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use petgraph::unionfind::UnionFind;

/// A function: the nodes that may follow each node, and the executions of each node.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Sets of nodes, one of which comes next.
    pub sets: Vec<Vec<u32>>,
    /// The set at the entry.
    pub first: u32,
    /// The set behind each node; `None` where the activation ends.
    pub next: Vec<Option<u32>>,
    /// True if only this function writes between the node and the next one: the node's callee is not traced.
    pub quiet: Vec<bool>,
    /// Executions of each node.
    pub counts: Vec<u64>,
}

/// A node of a function: both are indices.
pub type Site = (u32, u32);
/// The sites that one run writes.
pub type Profile = BTreeSet<Site>;

/// The division of sites into jobs, each of which one machine does (§4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// Each choice is a job, and so is each cycle without a choice.
    FineGrained,
    /// All sites of a function are a job.
    ByFunction,
    /// Choices that share a node or lie on the same cycle are a job.
    Optimised,
}

impl Strategy {
    pub const ALL: [Self; 3] = [Self::FineGrained, Self::ByFunction, Self::Optimised];
}

/// Sites that must be distinguished from each other, so that each two of them must be in one profile.
type Unit = Vec<Site>;

/// The profiles that each of `machines` is to run, of at most `limit` sites each, if there is one: the jobs go one
/// after the other to the machine that writes least so far (Figure 5).
///
/// # Panics
/// If there is no machine, or a limit of less than two.
pub fn distribute(
    functions: &[Choices],
    strategy: Strategy,
    machines: usize,
    limit: Option<usize>,
) -> Vec<Vec<Profile>> {
    assert!(machines > 0 && limit.is_none_or(|limit| limit > 1), "two sites are told from each other");
    let mut all: Vec<Vec<Profile>> = vec![Vec::new(); machines];
    let mut loads = vec![0; machines];
    for job in jobs(functions, strategy) {
        let least = (0..machines).min_by_key(|&machine| loads[machine]).unwrap_or_default();
        for unit in job {
            for unit in pieces(&unit, limit) {
                let profiles = &mut all[least];
                let fits = |profile: &Profile| {
                    let more = unit.iter().filter(|site| !profile.contains(site)).count();
                    limit.is_none_or(|limit| profile.len() + more <= limit)
                };
                if !profiles.last().is_some_and(fits) {
                    profiles.push(Profile::new());
                }
                let profile = profiles.last_mut().expect("there is one");
                for site in unit {
                    if profile.insert(site) {
                        loads[least] += count(functions, site);
                    }
                }
            }
        }
    }
    all
}

/// The number of events that each machine writes.
pub fn costs(functions: &[Choices], machines: &[Vec<Profile>]) -> Vec<u64> {
    let cost = |profile: &Profile| profile.iter().map(|&site| count(functions, site)).sum::<u64>();
    machines.iter().map(|profiles| profiles.iter().map(cost).sum()).collect()
}

/// The number of events of the heaviest job: a machine that does it writes no fewer.
pub fn heaviest(functions: &[Choices], strategy: Strategy) -> u64 {
    let cost = |job: &Vec<Unit>| {
        let sites: Profile = job.iter().flatten().copied().collect();
        sites.into_iter().map(|site| count(functions, site)).sum()
    };
    jobs(functions, strategy).iter().map(cost).max().unwrap_or_default()
}

fn count(functions: &[Choices], (function, node): Site) -> u64 {
    functions[function as usize].counts[node as usize]
}

/// Parts of a unit that fit in a profile. Each two of the unit's sites are in one of them.
fn pieces(unit: &Unit, limit: Option<usize>) -> Vec<Unit> {
    match limit {
        Some(limit) if unit.len() > limit => {
            let groups: Vec<&[Site]> = unit.chunks(limit / 2).collect();
            let pairs = (0..groups.len()).flat_map(|a| (a + 1..groups.len()).map(move |b| (a, b)));
            pairs.map(|(a, b)| [groups[a], groups[b]].concat()).collect()
        }
        _ => vec![unit.clone()],
    }
}

/// The jobs, each a list of units.
fn jobs(functions: &[Choices], strategy: Strategy) -> Vec<Vec<Unit>> {
    let mut all = Vec::new();
    for (number, function) in (0..).zip(functions) {
        let (components, cyclic) = components(function);
        let units = units(function, &components, &cyclic);
        let mut classes = UnionFind::<usize>::new(units.len());
        if strategy == Strategy::Optimised {
            // A unit that has the node or the cycle.
            let mut of_node: HashMap<u32, usize> = HashMap::new();
            let mut of_cycle: HashMap<u32, usize> = HashMap::new();
            for (unit, nodes) in units.iter().enumerate() {
                for &node in nodes {
                    classes.union(*of_node.entry(node).or_insert(unit), unit);
                    let component = components[node as usize];
                    if cyclic[component as usize] {
                        classes.union(*of_cycle.entry(component).or_insert(unit), unit);
                    }
                }
            }
        }
        let mut jobs: Vec<Vec<Unit>> = vec![Vec::new(); units.len()];
        for (unit, nodes) in units.into_iter().enumerate() {
            let job = match strategy {
                Strategy::FineGrained => unit,
                Strategy::ByFunction => 0,
                Strategy::Optimised => classes.find(unit),
            };
            jobs[job].push(nodes.into_iter().map(|node| (number, node)).collect());
        }
        all.extend(jobs.into_iter().filter(|job| !job.is_empty()));
    }
    all
}

/// Nodes that must be distinguished from each other, and one node of each cycle without such nodes.
fn units(function: &Choices, components: &[u32], cyclic: &[bool]) -> Vec<Vec<u32>> {
    let mut units: Vec<Vec<u32>> = function.sets.iter().filter(|set| set.len() > 1).cloned().collect();
    units.sort_unstable();
    units.dedup();
    units.extend(without_choice(function, components, cyclic).into_iter().map(|node| vec![node]));
    units
}

/// One node, with the fewest executions, of each cycle without a choice.
pub fn cycles_without_choice(function: &Choices) -> Vec<u32> {
    let (components, cyclic) = components(function);
    without_choice(function, &components, &cyclic)
}

fn without_choice(function: &Choices, components: &[u32], cyclic: &[bool]) -> Vec<u32> {
    let mut distinguished = vec![false; function.next.len()];
    let choices = function.sets.iter().filter(|set| set.len() > 1);
    choices.flatten().for_each(|&node| distinguished[node as usize] = true);
    // A cycle with a choice is counted by that. Other cycles have no way out, so they are whole
    // components.
    let mut least: HashMap<u32, Option<u32>> = HashMap::new();
    for node in 0..function.next.len() as u32 {
        let component = components[node as usize];
        if cyclic[component as usize] {
            let best = least.entry(component).or_insert(Some(node));
            let counts = |node: u32| function.counts[node as usize];
            match *best {
                _ if distinguished[node as usize] => *best = None,
                Some(other) if counts(node) < counts(other) => *best = Some(node),
                _ => {}
            }
        }
    }
    let mut alone: Vec<u32> = least.into_values().flatten().collect();
    alone.sort_unstable();
    alone
}

/// The strongly connected component of each node, and whether each component is a cycle.
fn components(function: &Choices) -> (Vec<u32>, Vec<bool>) {
    let mut graph = DiGraph::<u32, ()>::new();
    let places: Vec<_> = (0..function.next.len() as u32).map(|node| graph.add_node(node)).collect();
    for (node, next) in function.next.iter().enumerate() {
        for &to in next.iter().flat_map(|&set| &function.sets[set as usize]) {
            graph.update_edge(places[node], places[to as usize], ());
        }
    }
    let mut components = vec![0; function.next.len()];
    let mut cyclic = Vec::new();
    for component in tarjan_scc(&graph) {
        cyclic.push(component.len() > 1 || graph.contains_edge(component[0], component[0]));
        component.iter().for_each(|&place| components[graph[place] as usize] = cyclic.len() as u32 - 1);
    }
    (components, cyclic)
}
