//! Some thousand mutated inputs for each target. `make fuzz` gives them many more.

use pcce_fuzz::{TARGETS, Target};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const INPUTS: usize = 4_000;

/// Some changes of the kinds that damage files: other bytes, pieces lost, doubled, or of another file.
fn mutate(random: &mut StdRng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut input = seeds[random.random_range(0..seeds.len())].clone();
    for _ in 0..random.random_range(1..5) {
        let at = random.random_range(0..=input.len());
        let end = at + random.random_range(0..=(input.len() - at).min(9));
        match random.random_range(0..6) {
            0 => input.truncate(at),
            1 => drop(input.drain(at..end)),
            2 => {
                let piece = input[at..end].to_vec();
                input.splice(at..at, piece);
            }
            3 => {
                let other = &seeds[random.random_range(0..seeds.len())];
                let from = random.random_range(0..=other.len());
                input.splice(at..end, other[from..].iter().copied().take(9));
            }
            4 if at < input.len() => input[at] = random.random(),
            _ if at < input.len() => input[at] ^= 1 << random.random_range(0..8),
            _ => input.push(random.random()),
        }
    }
    input
}

fn check(target: &Target) {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{}", target.name);
    seeds.iter().for_each(|seed| (target.check)(seed));
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..INPUTS {
        let input = mutate(&mut random, &seeds);
        let result = std::panic::catch_unwind(|| (target.check)(&input));
        assert!(result.is_ok(), "target {}, input {input:?}", target.name);
    }
}

#[test]
fn mutated_inputs() {
    // One thread for each target; a thread that panics makes the test fail when the scope ends.
    std::thread::scope(|scope| TARGETS.iter().for_each(|target| drop(scope.spawn(|| check(target)))));
}
