//! A profile by functions and calls, for pictures of the call graph.

use std::collections::{HashMap, HashSet};

use crate::context::FrameKind;

use super::Stacks;

/// Values of a profile by name: of functions and everything they call, of functions alone, and of calls.
#[derive(Default)]
pub(crate) struct Heat<'a> {
    pub(crate) total: u64,
    pub(crate) inclusive: HashMap<&'a str, u64>,
    pub(crate) own: HashMap<&'a str, u64>,
    pub(crate) calls: HashMap<(&'a str, &'a str), u64>,
}

impl<'a> Heat<'a> {
    pub(crate) fn of(stacks: &'a Stacks, metric: usize) -> Self {
        let mut heat = Self::default();
        for stack in &stacks.stacks {
            let value = stack.values[metric];
            heat.total = heat.total.saturating_add(value);
            // Functions of the call graph: an inlined function is a part of its caller.
            let names: Vec<&str> = stack
                .frames
                .iter()
                .map(|&frame| &stacks.frames[frame as usize])
                .filter(|frame| frame.kind == FrameKind::Call && !frame.inlined)
                .map(|frame| &*frame.linkage_name)
                .collect();
            if let Some(first) = names.first() {
                *heat.own.entry(first).or_default() += value;
            }
            let mut seen = HashSet::new();
            for name in &names {
                if seen.insert(name) {
                    *heat.inclusive.entry(name).or_default() += value;
                }
            }
            let pairs: HashSet<_> = names.windows(2).map(|two| (two[1], two[0])).collect();
            for pair in pairs {
                *heat.calls.entry(pair).or_default() += value;
            }
        }
        heat
    }

    /// A value as a share of the total.
    pub(crate) fn percent(&self, value: Option<&u64>) -> f64 {
        value.map_or(0.0, |value| *value as f64 * 100.0 / self.total.max(1) as f64)
    }
}
