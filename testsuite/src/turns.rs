//! The cases that `make test` takes of a test with many. `make test-all` takes all of them.

/// The variable that asks for all cases of all tests (`make test-all`).
const ALL_CASES: &str = "PCCE_ALL_CASES";

/// Returns whether no case is left out.
pub fn all_cases() -> bool {
    std::env::var_os(ALL_CASES).is_some()
}

/// Returns whether it is a case's turn: that of every second number. The number of a case that combines members of
/// several lists is the sum of their places, so that each member comes with half of each other list.
pub fn has_turn(number: usize) -> bool {
    all_cases() || number.is_multiple_of(2)
}

/// The cases whose turn it is, by their places in the list: the first, the third, and so on.
pub fn in_turn<T>(cases: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    cases.into_iter().step_by(if all_cases() { 1 } else { 2 })
}
