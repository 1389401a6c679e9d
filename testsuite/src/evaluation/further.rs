//! The instructions that a variant executes beyond its baseline, by function and by class: where the costs are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::callgrind::{Counts, OfFunction};
use crate::machine::Class;

/// A number of further instructions for each class, in the order of [`Class::ALL`].
type ByClass = [i64; Class::ALL.len()];

/// The further instructions of a program and of the libraries that are built with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Further {
    /// The further instructions of all functions.
    pub all: ByClass,
    /// The functions with most further instructions.
    pub functions: Vec<Function>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// The name that the linker knows.
    pub name: String,
    pub entries: u64,
    pub classes: ByClass,
}

impl Further {
    /// The number of functions that are kept.
    const FUNCTIONS: usize = 8;

    /// Compares the counts of both builds. Functions with the same name are the same: code that only one build has
    /// inlined counts less in one function, and more in another.
    pub fn new(baseline: &Counts, variant: &Counts) -> Self {
        let mut all = ByClass::default();
        let mut functions: BTreeMap<String, Function> = BTreeMap::new();
        let mut add = |sign: i64, counted: &BTreeMap<String, OfFunction>| {
            for (name, of) in counted {
                let known = name.split(".llvm.").next().unwrap_or(name);
                let function = functions.entry(known.to_owned()).or_insert_with(|| Function {
                    name: known.to_owned(),
                    entries: 0,
                    classes: ByClass::default(),
                });
                function.entries = of.entries.max(function.entries);
                for ((own, all), count) in function.classes.iter_mut().zip(&mut all).zip(of.classes) {
                    *own += sign * count as i64;
                    *all += sign * count as i64;
                }
            }
        };
        add(-1, &baseline.functions);
        add(1, &variant.functions);
        let mut functions: Vec<_> = functions.into_values().collect();
        functions.sort_by_key(|function| std::cmp::Reverse(function.sum()));
        functions.truncate(Self::FUNCTIONS);
        Self { all, functions }
    }
}

impl Function {
    pub fn sum(&self) -> i64 {
        self.classes.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_with_most_further_instructions_come_first() {
        let counts = |functions: &[(&str, u64, [u64; 6])]| Counts {
            functions: functions
                .iter()
                .map(|&(name, entries, classes)| (name.to_owned(), OfFunction { entries, classes }))
                .collect(),
            ..Counts::default()
        };
        let plain = counts(&[("f", 2, [0, 0, 4, 10, 4, 2]), ("g.llvm.1", 1, [0, 0, 0, 5, 1, 0])]);
        let with = counts(&[
            ("f", 2, [4, 0, 6, 10, 4, 2]),
            ("g.llvm.2", 1, [0, 8, 0, 4, 1, 0]),
            ("__pcce_token", 1, [0, 1, 0, 0, 0, 0]),
        ]);
        let further = Further::new(&plain, &with);
        assert_eq!(further.all, [4, 9, 2, -1, 0, 0]);
        let found: Vec<_> = further.functions.iter().map(|f| (&*f.name, f.entries, f.sum())).collect();
        assert_eq!(found, [("g", 1, 7), ("f", 2, 6), ("__pcce_token", 1, 1)]);
    }
}
