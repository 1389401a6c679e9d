//! The condition under which the runs of a distribution make the whole trace: Theorem 2 of
//! distributed-program-tracing.txt. It shares no code with the distribution.
//!
//! For each two targets of a predicate that lead back to it, Theorem 2 asks for one profile in which their witness sets
//! are disjoint, and *in which all witnesses of all profiles are*. Taken by the letter, the second half refuses the
//! distribution of Figure 4 that the paper calls realizable: a later diamond's witness in another profile is also the
//! first one there. The reconstruction of Figure 8 uses only the first half, so this is the condition here. Functions
//! may be called again, so each target leads back. Where other functions write, or the activation ends, any event may
//! come next, also a witness of the same function in another activation.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Choices, Profile};

/// The next event in the part of a run, from a node on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Witnesses {
    /// One of these nodes of the function.
    pub nodes: BTreeSet<u32>,
    /// Or any event.
    pub anything: bool,
}

impl Witnesses {
    /// The next event in a profile, from the node `from` of a function on.
    pub fn new(function: &Choices, number: u32, profile: &Profile, from: u32) -> Self {
        let mut found = Self { nodes: BTreeSet::new(), anything: false };
        let mut seen = BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(node) = waiting.pop() {
            if !seen.insert(node) {
                continue;
            }
            if profile.contains(&(number, node)) {
                found.nodes.insert(node);
                continue;
            }
            match function.next[node as usize] {
                Some(set) if function.quiet[node as usize] => waiting.extend(&function.sets[set as usize]),
                _ => found.anything = true,
            }
        }
        found
    }

    /// Returns whether the next event shows from which of the two it came.
    pub fn is_distinct_from(&self, other: &Self) -> bool {
        let known = |one: &Self| !one.anything && !one.nodes.is_empty();
        known(self) && known(other) && self.nodes.is_disjoint(&other.nodes)
    }
}

/// Two alternative nodes that no profile distinguishes, or a cycle that no profile sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gap {
    /// Of this function, these nodes.
    Pair(u32, [u32; 2]),
    /// A cycle of this function through this node.
    Cycle(u32, u32),
}

/// The gaps of a distribution; none if the profiles together make the whole trace.
pub fn unrealizable(functions: &[Choices], profiles: &[&Profile]) -> Option<Gap> {
    let mut having: HashMap<(u32, u32), Vec<usize>> = HashMap::new();
    for (number, profile) in profiles.iter().enumerate() {
        profile.iter().for_each(|&site| having.entry(site).or_default().push(number));
    }
    for (number, function) in (0..).zip(functions) {
        let mut asked = HashSet::new();
        for set in &function.sets {
            for (at, &a) in set.iter().enumerate() {
                for &b in set[at + 1..].iter().filter(|&&b| asked.insert((a.min(b), a.max(b)))) {
                    let distinguishes = |profile: usize| {
                        let of = |node| Witnesses::new(function, number, profiles[profile], node);
                        of(a).is_distinct_from(&of(b))
                    };
                    // A profile that has both is nearly always there, and distinguishes them.
                    let with_both = having.get(&(number, a)).into_iter().flatten().copied();
                    let mut with_both = with_both.filter(|&p| profiles[p].contains(&(number, b)));
                    if with_both.next().is_none() && !(0..profiles.len()).any(distinguishes) {
                        return Some(Gap::Pair(number, [a, b]));
                    }
                }
            }
        }
        for node in 0..function.next.len() as u32 {
            if comes_back(function, node, |node| having.contains_key(&(number, node))) {
                return Some(Gap::Cycle(number, node));
            }
        }
    }
    None
}

/// Returns whether there is a way from a node to itself that no profile sees.
fn comes_back(function: &Choices, start: u32, seen_by: impl Fn(u32) -> bool) -> bool {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![start];
    while let Some(node) = waiting.pop() {
        if seen_by(node) {
            continue;
        }
        for &next in function.next[node as usize].iter().flat_map(|&set| &function.sets[set as usize]) {
            if next == start && !seen_by(start) {
                return true;
            }
            if seen.insert(next) {
                waiting.push(next);
            }
        }
    }
    false
}
