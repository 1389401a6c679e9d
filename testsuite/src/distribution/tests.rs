//! Tests of distributions against the condition and against their purpose: the parts of a random walk are merged
//! (distributed-program-tracing.txt, Figure 8), and make that walk.

use std::collections::{BTreeSet, VecDeque};

use proptest::prelude::*;

use super::{
    Choices, Gap, Passed, Placement, Profile, Site, Strategy as Way, Witnesses, costs, distribute, heaviest,
    optimal, unbroken, unrealizable,
};

/// A function whose nodes may be followed by these; 0 is the first one.
fn function(after: &[&[u32]]) -> Choices {
    let mut sets = vec![vec![0]];
    let next = after.iter().map(|nodes| {
        sets.push(nodes.to_vec());
        (!nodes.is_empty()).then_some(sets.len() as u32 - 1)
    });
    let next = next.collect();
    Choices { sets, first: 0, next, quiet: vec![true; after.len()], counts: vec![1; after.len()] }
}

fn profile(nodes: &[u32]) -> Profile {
    nodes.iter().map(|&node| (0, node)).collect()
}

/// Returns whether the parts of one function make the whole.
fn realizable(function: &Choices, profiles: &[&[u32]]) -> bool {
    let profiles: Vec<Profile> = profiles.iter().map(|nodes| profile(nodes)).collect();
    unrealizable(std::slice::from_ref(function), &profiles.iter().collect::<Vec<_>>()).is_none()
}

/// Figures 1 and 2: entry, b1, b2, b3, b4, b5, exit, where b2 is followed by b3 or b4, and b1 by b2 or exit.
#[test]
fn the_papers_examples_are_refused_and_accepted() {
    let loop_ = function(&[&[1], &[2, 6], &[3, 4], &[5], &[5], &[1], &[]]);
    assert!(!realizable(&loop_, &[&[0, 1, 2, 5], &[3, 6], &[4]]), "Figure 1");
    assert!(!realizable(&loop_, &[&[3], &[4]]), "Figure 2");
    assert!(realizable(&loop_, &[&[3, 4, 2, 6]]));
    // §4.1: each breaks the diamond and the cycle by itself.
    assert!(realizable(&loop_, &[&[3, 2, 5, 6], &[4, 2, 5, 6]]));
}

/// Figure 4, with the distribution that §4.1 calls realizable. b1 to b11 are 1 to 11, 12 is the exit.
#[test]
fn a_later_diamond_may_be_in_another_profile() {
    let figure = function(&[
        &[1],
        &[2, 12],
        &[3, 4],
        &[5],
        &[5],
        &[6, 7],
        &[11],
        &[8, 9],
        &[10],
        &[10],
        &[11],
        &[1],
        &[],
    ]);
    // The exit and its alternative, in one of them.
    let profiles: [&[u32]; 4] = [&[3, 4], &[6, 7], &[8, 9], &[2, 12]];
    assert!(realizable(&figure, &profiles));
    // By the letter of Theorem 2, all witnesses of all profiles would have to be in the one that distinguishes 3 from
    // 4.
    let first = |nodes: &[u32]| Witnesses::new(&figure, 0, &profile(nodes), 3).nodes;
    assert!(!first(profiles[1]).is_subset(&first(profiles[0])));
}

/// Events of other functions may come first.
#[test]
fn a_witness_behind_a_call_is_none() {
    let mut diamond = function(&[&[1, 2], &[3], &[4], &[0], &[0]]);
    assert!(realizable(&diamond, &[&[3, 4]]));
    diamond.quiet[1] = false;
    assert!(!realizable(&diamond, &[&[3, 4]]));
    assert!(realizable(&diamond, &[&[1, 4]]));
}

#[test]
fn a_cycle_that_no_profile_sees_is_refused() {
    let endless = function(&[&[1], &[0]]);
    let found = unrealizable(std::slice::from_ref(&endless), &[&profile(&[])]);
    assert_eq!(found, Some(Gap::Cycle(0, 0)));
    assert!(realizable(&endless, &[&[1]]));
}

/// Two choices on a cycle, one of them heavy, and one after the cycle.
#[test]
fn jobs_are_what_the_strategies_say() {
    let mut one = function(&[&[1, 2], &[3, 4], &[3, 4], &[0, 5], &[0, 5], &[6, 7], &[], &[]]);
    one.counts = vec![100, 60, 40, 70, 30, 1, 3, 5];
    let all = [one];
    let busiest =
        |way, machines| costs(&all, &distribute(&all, way, machines, None)).into_iter().max().unwrap();
    assert_eq!([1, 2].map(|n| busiest(Way::ByFunction, n)), [309, 309]);
    // {0, 5}, {1, 2}, {3, 4}, {6, 7}: 101, 100, 100, 8.
    assert_eq!(heaviest(&all, Way::FineGrained), 101);
    assert_eq!([1, 2, 3, 4].map(|n| busiest(Way::FineGrained, n)), [309, 200, 108, 101]);
    // The three nodes of the cycle are one job.
    assert_eq!(heaviest(&all, Way::Optimised), 301);
    assert_eq!(busiest(Way::Optimised, 2), 301);
}

/// Figure 10 (c): b1 is followed by b2, or at once by b3, which follows b2, too. Neither b1 nor b3 breaks this diamond,
/// however rare they are.
#[test]
fn an_edge_from_a_fork_to_its_join_is_no_witness() {
    let mut figure = function(&[&[1, 2], &[2], &[]]);
    figure.counts = vec![1, 100, 1];
    for joins in [[0], [2]] {
        assert_eq!(unbroken(&figure, &BTreeSet::from(joins)), Some(vec![1]));
    }
    // The way that leaves it out comes back.
    assert!(unbroken(&figure, &BTreeSet::from([1])).is_some_and(|cycle| cycle.len() == 3));
    let placement = optimal(&figure, &Passed::new(), 101);
    assert!(placement.witnesses.contains(&1) && unbroken(&figure, &placement.witnesses).is_none());
}

/// Figure 6 (a): three diamonds on a cycle. One node of each is enough, and one that sees the cycle.
#[test]
fn rare_nodes_are_the_witnesses() {
    let mut figure =
        function(&[&[1], &[2, 3], &[4], &[4], &[5, 6], &[7], &[7], &[8, 9], &[10], &[10], &[1, 11], &[]]);
    figure.counts = vec![1, 100, 90, 10, 100, 20, 80, 100, 30, 70, 100, 1];
    let next = |node: u32| figure.sets[figure.next[node as usize].unwrap() as usize].clone();
    let edges = (0..11).flat_map(|node| next(node).into_iter().map(move |to| (node, to)));
    let passed: Passed = edges
        .map(|(from, to)| {
            let counts = [from, to].map(|node| figure.counts[node as usize]);
            ((from, to), counts[0].min(counts[1]))
        })
        .collect();
    let placement = optimal(&figure, &passed, 1);
    assert_eq!(placement.missing, 0);
    assert!([3, 5, 8].iter().all(|node| placement.witnesses.contains(node)));
    // All places with alternatives are hit 501 times.
    assert!(placement.hits(&figure, 1) <= 10 + 20 + 30 + 100 + 2, "{placement:?}");
}

/// A random program: functions of up to 8 nodes, and the callee of each node.
#[derive(Clone, Debug)]
struct Program {
    functions: Vec<Choices>,
    calls: Vec<Vec<Option<u32>>>,
}

fn programs() -> impl Strategy<Value = Program> {
    let node = (prop::collection::btree_set(0u32..8, 0..4), any::<u8>(), 1u64..100);
    let function = prop::collection::vec(node, 1..8);
    prop::collection::vec(function, 1..4).prop_map(|drawn| {
        let count = drawn.len() as u32;
        let mut program = Program { functions: Vec::new(), calls: Vec::new() };
        for (number, nodes) in (0..).zip(drawn) {
            let len = nodes.len() as u32;
            let mut choices = Choices { sets: vec![(0..len.min(2)).collect()], ..Choices::default() };
            let mut calls = Vec::new();
            for (after, callee, count_of) in nodes {
                let mut set: Vec<u32> = after.into_iter().map(|node| node % len).collect();
                set.sort_unstable();
                set.dedup();
                // Calls go on to later functions, so that walks end.
                let callee = number + 1 + u32::from(callee) % 4;
                let calls_one = callee < count && !set.is_empty();
                calls.push(calls_one.then_some(callee));
                choices.quiet.push(!calls_one);
                choices.next.push((!set.is_empty()).then_some(choices.sets.len() as u32));
                choices.sets.push(set);
                choices.counts.push(count_of);
            }
            program.functions.push(choices);
            program.calls.push(calls);
        }
        program
    })
}

/// Walks through a program as `choose` says, which gets the function and the possible nodes. Stops after 200 events.
fn walk(program: &Program, mut choose: impl FnMut(u32, &[u32]) -> Option<u32>) -> Vec<Site> {
    let mut path = Vec::new();
    let mut stack = vec![(0, program.functions[0].first)];
    while let Some((function, set)) = stack.pop() {
        let set = &program.functions[function as usize].sets[set as usize];
        if set.is_empty() || path.len() == 200 {
            break;
        }
        let Some(node) = choose(function, set) else { break };
        path.push((function, node));
        if let Some(next) = program.functions[function as usize].next[node as usize] {
            stack.push((function, next));
            if let Some(callee) = program.calls[function as usize][node as usize] {
                stack.push((callee, program.functions[callee as usize].first));
            }
        }
    }
    path
}

fn random_walk(program: &Program, mut seed: u64) -> Vec<Site> {
    walk(program, |_, set| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some(set[(seed >> 33) as usize % set.len()])
    })
}

/// Figure 8: for each two possible nodes, a profile that distinguishes them excludes one.
fn put_together(program: &Program, profiles: &[&Profile], path: &[Site]) -> Vec<Site> {
    let part = |profile: &&Profile| path.iter().copied().filter(|site| profile.contains(site)).collect();
    let mut parts: Vec<VecDeque<Site>> = profiles.iter().map(part).collect();
    let mut left = path.len();
    walk(program, |function, set| {
        // The end of a walk is no witness: its place is given.
        left = left.checked_sub(1)?;
        let choices = &program.functions[function as usize];
        let loses = |node: u32, other: u32| {
            let of = |profile, node| Witnesses::new(choices, function, profile, node);
            // A profile that has both is preferred: if a walk was cut off, later events of the others are missing.
            let has_both = |&p: &usize| [node, other].iter().all(|&n| profiles[p].contains(&(function, n)));
            let distinguishes = |&p: &usize| of(profiles[p], node).is_distinct_from(&of(profiles[p], other));
            let chosen =
                (0..profiles.len()).find(has_both).or_else(|| (0..profiles.len()).find(distinguishes));
            let chosen = chosen.expect("a profile that tells them");
            // Nothing follows the last witness of a part: the part was cut off.
            !parts[chosen]
                .front()
                .is_some_and(|&(f, next)| f == function && of(profiles[chosen], node).nodes.contains(&next))
        };
        let node = set
            .iter()
            .copied()
            .find(|&node| set.iter().all(|&other| other == node || !loses(node, other)))?;
        for (part, profile) in parts.iter_mut().zip(profiles) {
            if profile.contains(&(function, node)) {
                part.pop_front();
            }
        }
        Some(node)
    })
}

fn ways() -> impl Strategy<Value = Way> {
    prop::sample::select(Way::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_is_distributed_makes_the_whole(
        program in programs(),
        way in ways(),
        machines in 1usize..8,
        limit in prop::option::of(2usize..6),
        seed in any::<u64>(),
    ) {
        let all = distribute(&program.functions, way, machines, limit);
        let profiles: Vec<&Profile> = all.iter().flatten().collect();
        prop_assert_eq!(unrealizable(&program.functions, &profiles), None);
        prop_assert_eq!(all.len(), machines);
        prop_assert!(profiles.iter().all(|profile| limit.is_none_or(|limit| profile.len() <= limit)));
        let path = random_walk(&program, seed);
        prop_assert_eq!(put_together(&program, &profiles, &path), path);
        if limit.is_none() {
            let costs = costs(&program.functions, &all);
            let one = self::costs(&program.functions, &distribute(&program.functions, way, 1, None))[0];
            // The busiest machine has no less than its share and the heaviest job, and no more than all.
            let busiest = costs.into_iter().max().unwrap();
            prop_assert!(busiest as usize * machines >= one as usize && busiest <= one);
            prop_assert!(busiest >= heaviest(&program.functions, way));
        }
    }

    /// The witnesses of one function, without its callees, tell which way was gone.
    #[test]
    fn optimal_witnesses_tell_the_way(program in programs(), seed in any::<u64>()) {
        for function in &program.functions {
            let passed: Passed = (0..64).map(|n| ((n / 8, n % 8), seed >> n & 7)).collect();
            let Placement { witnesses, .. } = optimal(function, &passed, seed % 100);
            prop_assert_eq!(unbroken(function, &witnesses), None);
            let entry = function.next.len() as u32;
            let after = |node: u32| match function.next.get(node as usize) {
                Some(None) => vec![entry],
                Some(Some(set)) => function.sets[*set as usize].clone(),
                None => function.sets[function.first as usize].clone(),
            };
            // The way through several activations.
            let mut draw = seed;
            let mut way = vec![entry];
            while way.len() < 60 {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let next = after(*way.last().unwrap());
                way.push(next[(draw >> 33) as usize % next.len()]);
            }
            let mut seen: VecDeque<u32> = way[1..].iter().copied().filter(|node| witnesses.contains(node)).collect();
            let mut told = vec![entry];
            while let Some(&witness) = seen.front() {
                let leads = |from: u32| {
                    let (mut waiting, mut known) = (vec![from], BTreeSet::new());
                    while let Some(node) = waiting.pop() {
                        if node == witness {
                            return true;
                        }
                        if known.insert(node) && !witnesses.contains(&node) {
                            waiting.extend(after(node));
                        }
                    }
                    false
                };
                let next: Vec<u32> = after(*told.last().unwrap()).into_iter().filter(|&node| leads(node)).collect();
                prop_assert_eq!(next.len(), 1);
                told.extend(&next);
                if next[0] == witness {
                    seen.pop_front();
                }
            }
            prop_assert!(way.starts_with(&told));
        }
    }

    /// A site that one profile has lost is missed, or it was not needed: then the parts make no wrong event.
    #[test]
    fn what_is_lost_is_missed(
        program in programs(),
        way in ways(),
        machines in 1usize..4,
        which in any::<prop::sample::Index>(),
        seed in any::<u64>(),
    ) {
        let mut all: Vec<Profile> = distribute(&program.functions, way, machines, None).concat();
        let sites: Vec<(usize, Site)> =
            all.iter().enumerate().flat_map(|(p, sites)| sites.iter().map(move |&site| (p, site))).collect();
        prop_assume!(!sites.is_empty());
        let (from, site) = sites[which.index(sites.len())];
        all[from].remove(&site);
        let profiles: Vec<&Profile> = all.iter().collect();
        if unrealizable(&program.functions, &profiles).is_none() {
            let path = random_walk(&program, seed);
            let made = put_together(&program, &profiles, &path);
            // A walk that was cut off may lack the witnesses of its last steps.
            prop_assert!(path.starts_with(&made));
        }
    }
}
