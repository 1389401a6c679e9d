//! The cases that `make test` takes of a test with many. `make test-all` takes all of them.

/// The variable that asks for all cases of all tests (`make test-all`).
const ALL_CASES: &str = "PCCE_ALL_CASES";

/// Returns whether no case is left out.
pub fn all_cases() -> bool {
    std::env::var_os(ALL_CASES).is_some()
}

/// The cases whose turn it is: those with even numbers. `first` is the number of the first case: where lists are
/// combined, the sum of the places in the other lists. Then each member comes with half of each other list.
pub fn in_turn<T>(first: usize, cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let numbered = (first..).zip(cases);
    numbered.filter(|(number, _)| all_cases() || number.is_multiple_of(2)).map(|(_, case)| case)
}
