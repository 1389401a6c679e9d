//! Traces of numbers for comparison: 4 bytes for each call site (casper.txt §5.5, §6).

use std::collections::{BTreeSet, HashSet};

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;

use crate::flow::{Flow, Role};

/// The choice of sites that write their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Baseline {
    /// All of them: *FI*.
    All,
    /// Sites with alternatives: *BRI*.
    Branches,
    /// The sites that Casper's Algorithm 1 chooses.
    Casper,
}

/// The callee of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Callee {
    /// It is no site: a landing pad.
    NoSite,
    /// None in the program: a return, or a call of a function that calls nothing back.
    Nobody,
    /// The function of this index.
    Known(u32),
    /// An unknown function. Such sites always write their numbers (casper.txt §5.1, §5.2).
    Unknown,
}

/// The sites of each function that write their numbers.
#[must_use]
pub fn numbered(baseline: Baseline, functions: &[(&Flow, Vec<Callee>)]) -> Vec<Vec<bool>> {
    match baseline {
        Baseline::All => functions.iter().map(|(_, callees)| sites(callees)).collect(),
        Baseline::Branches => functions.iter().map(|(flow, callees)| branches(flow, callees)).collect(),
        Baseline::Casper => casper(functions),
    }
}

fn sites(callees: &[Callee]) -> Vec<bool> {
    callees.iter().map(|&callee| callee != Callee::NoSite).collect()
}

/// Sites with alternatives, sites with unknown callees, and one site on each cycle (casper.txt §3.5).
fn branches(flow: &Flow, callees: &[Callee]) -> Vec<bool> {
    let (sets, _, next) = flow.sets();
    let mut chosen: Vec<bool> = callees.iter().map(|&callee| callee == Callee::Unknown).collect();
    for &node in sets.iter().filter(|set| set.len() > 1).flatten() {
        chosen[node as usize] = true;
    }
    break_cycles(&sets, &next, &mut chosen);
    chosen.iter().zip(sites(callees)).map(|(&chosen, site)| chosen && site).collect()
}

/// Breaks endless loops of nodes without alternatives.
fn break_cycles(sets: &[Vec<u32>], next: &[u32], chosen: &mut [bool]) {
    let mut graph = DiGraph::<u32, ()>::new();
    let places: Vec<_> = (0..next.len() as u32).map(|node| graph.add_node(node)).collect();
    for node in (0..next.len()).filter(|&node| !chosen[node]) {
        if let [to] = *sets[next[node] as usize]
            && !chosen[to as usize]
        {
            graph.add_edge(places[node], places[to as usize], ());
        }
    }
    for component in tarjan_scc(&graph) {
        if component.len() > 1 || graph.contains_edge(component[0], component[0]) {
            component.into_iter().for_each(|place| chosen[graph[place] as usize] = true);
        }
    }
}

/// The first numbers that may come: numbers of sites in the program, and whether there may be none.
#[derive(Clone, Default, PartialEq, Eq)]
struct First {
    numbers: BTreeSet<u32>,
    nothing: bool,
}

impl First {
    fn add(&mut self, other: &Self) {
        self.numbers.extend(&other.numbers);
        self.nothing |= other.nothing;
    }

    /// Definition 6 (2).
    fn conflicts(&self, other: &Self) -> bool {
        self.nothing || other.nothing || !self.numbers.is_disjoint(&other.numbers)
    }
}

/// Algorithm 1. Calls that close a cycle of the call graph write their numbers.
fn casper(functions: &[(&Flow, Vec<Callee>)]) -> Vec<Vec<bool>> {
    let mut graph = DiGraph::<usize, ()>::new();
    let places: Vec<_> = (0..functions.len()).map(|function| graph.add_node(function)).collect();
    for (function, (_, callees)) in functions.iter().enumerate() {
        for callee in callees {
            if let Callee::Known(callee) = callee {
                graph.update_edge(places[function], places[*callee as usize], ());
            }
        }
    }
    let mut bases = vec![0; functions.len()];
    let mut sum = 0;
    for (base, (flow, _)) in bases.iter_mut().zip(functions) {
        *base = sum;
        sum += flow.roles.len() as u32;
    }
    let mut chosen = vec![Vec::new(); functions.len()];
    let mut firsts: Vec<Option<First>> = vec![None; functions.len()];
    for function in tarjan_scc(&graph).into_iter().flatten().map(|place| graph[place]) {
        let (flow, callees) = &functions[function];
        let (sets, first, next) = flow.sets();
        let mut solver = Function {
            base: bases[function],
            roles: &flow.roles,
            callees,
            known: &firsts,
            sets: &sets,
            next: &next,
            chosen: vec![false; callees.len()],
            firsts: vec![First::default(); callees.len()],
        };
        solver.solve();
        let all = solver.of_set(first);
        chosen[function] = solver.chosen;
        firsts[function] = Some(all);
    }
    chosen
}

/// A function that is being solved.
struct Function<'a> {
    base: u32,
    roles: &'a [Role],
    callees: &'a [Callee],
    /// The results of functions that are solved.
    known: &'a [Option<First>],
    sets: &'a [Vec<u32>],
    next: &'a [u32],
    chosen: Vec<bool>,
    /// The first numbers from each node on.
    firsts: Vec<First>,
}

impl Function<'_> {
    fn solve(&mut self) {
        let count = self.callees.len();
        for node in 0..count {
            let in_advance = match self.callees[node] {
                Callee::Unknown => true,
                Callee::Known(callee) => self.known[callee as usize].is_none(),
                Callee::Nobody | Callee::NoSite => false,
            };
            self.chosen[node] = in_advance;
        }
        break_cycles(self.sets, self.next, &mut self.chosen);
        self.fill();
        // Lines 6 to 11: nodes after which there may be nothing.
        let special: Vec<usize> =
            (0..count).filter(|&node| !self.chosen[node] && self.firsts[node].nothing).collect();
        special.iter().for_each(|&node| self.chosen[node] = self.callees[node] != Callee::NoSite);
        self.fill();
        self.cover();
        self.fill();
        let before = self.before();
        // Line 15: callees of the graph of sites first. The nodes of a block ascend.
        for node in special.into_iter().rev() {
            self.remove(node, &before);
        }
    }

    fn of_set(&self, set: u32) -> First {
        let mut all = First::default();
        self.sets[set as usize].iter().for_each(|&node| all.add(&self.firsts[node as usize]));
        all
    }

    /// The first numbers from a node on, computed from those of the next nodes.
    fn of_node(&self, node: usize) -> First {
        if self.chosen[node] {
            return First { numbers: [self.base + node as u32].into(), nothing: false };
        }
        if self.roles[node] == Role::Return {
            return First { numbers: BTreeSet::new(), nothing: true };
        }
        let callee = match self.callees[node] {
            Callee::Known(callee) => self.known[callee as usize].as_ref(),
            _ => None,
        };
        match callee {
            Some(first) if !first.nothing => first.clone(),
            first => {
                let mut all = self.of_set(self.next[node]);
                first.into_iter().for_each(|first| all.numbers.extend(&first.numbers));
                all
            }
        }
    }

    /// Computes the least fixpoint.
    fn fill(&mut self) {
        self.firsts = vec![First::default(); self.callees.len()];
        let before = self.before();
        let mut waiting: Vec<usize> = (0..self.callees.len()).collect();
        while let Some(node) = waiting.pop() {
            let first = self.of_node(node);
            if first != self.firsts[node] {
                self.firsts[node] = first;
                waiting.extend(before[node].iter().map(|&node| node as usize));
            }
        }
    }

    /// The nodes before each node.
    fn before(&self) -> Vec<Vec<u32>> {
        let mut before = vec![Vec::new(); self.callees.len()];
        for (node, &set) in (0..).zip(self.next) {
            self.sets[set as usize].iter().for_each(|&next| before[next as usize].push(node));
        }
        before
    }

    /// Lines 12 to 14: a cover of the conflicts (Definition 8), the site with the most of them first.
    fn cover(&mut self) {
        let mut conflicts: Vec<HashSet<u32>> = vec![HashSet::new(); self.callees.len()];
        for set in self.sets {
            for (i, &a) in set.iter().enumerate() {
                for &b in &set[i + 1..] {
                    if self.firsts[a as usize].conflicts(&self.firsts[b as usize]) {
                        conflicts[a as usize].insert(b);
                        conflicts[b as usize].insert(a);
                    }
                }
            }
        }
        loop {
            let free = (0..conflicts.len()).filter(|&node| !self.chosen[node]);
            let most = free.max_by_key(|&node| (conflicts[node].len(), std::cmp::Reverse(node)));
            let Some(most) = most.filter(|&node| !conflicts[node].is_empty()) else { return };
            self.chosen[most] = true;
            for other in std::mem::take(&mut conflicts[most]) {
                conflicts[other as usize].remove(&(most as u32));
            }
        }
    }

    /// Lines 15 to 19: the site writes nothing, if the next numbers can be determined without it.
    fn remove(&mut self, node: usize, before: &[Vec<u32>]) {
        self.chosen[node] = false;
        let mut old: Vec<(usize, First)> = Vec::new();
        let mut waiting = vec![node];
        let mut rounds = 0;
        let mut possible = true;
        while let Some(node) = waiting.pop() {
            rounds += 1;
            let first = self.of_node(node);
            if first == self.firsts[node] {
                continue;
            }
            // A loop of sites that write nothing: the site stays.
            if rounds > 1000 {
                possible = false;
                break;
            }
            old.push((node, std::mem::replace(&mut self.firsts[node], first)));
            waiting.extend(before[node].iter().map(|&node| node as usize).filter(|&n| !self.chosen[n]));
        }
        let changed: HashSet<u32> = old.iter().map(|(node, _)| *node as u32).collect();
        let has_no_conflict = |set: &Vec<u32>| {
            set.iter().filter(|node| changed.contains(node)).all(|&a| {
                let conflicts =
                    |b: u32| self.firsts[a as usize].conflicts(&self.firsts[b as usize]) && a != b;
                !set.iter().any(|&b| conflicts(b))
            })
        };
        let concerned = |set: &&Vec<u32>| set.len() > 1 && set.iter().any(|node| changed.contains(node));
        if !possible || !self.sets.iter().filter(concerned).all(has_no_conflict) {
            for (node, first) in old.into_iter().rev() {
                self.firsts[node] = first;
            }
            self.chosen[node] = true;
        }
    }
}
