//! Items grouped by a dense key.

/// Items of dense groups in two flat arrays (compressed sparse rows).
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    start: Vec<u32>,
    items: Vec<u32>,
}

impl Groups {
    /// Groups `(group, item)` pairs; the items of a group keep their order. Every group must be below
    /// `groups`.
    pub(crate) fn new(groups: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut start = vec![0u32; groups + 1];
        for (group, _) in pairs.clone() {
            start[group as usize + 1] += 1;
        }
        for group in 0..groups {
            start[group + 1] += start[group];
        }
        let mut items = vec![0; start[groups] as usize];
        let mut next = start.clone();
        for (group, item) in pairs {
            let slot = &mut next[group as usize];
            items[*slot as usize] = item;
            *slot += 1;
        }
        Self { start, items }
    }

    /// The items of one group.
    pub(crate) fn of(&self, group: usize) -> &[u32] {
        &self.items[self.start[group] as usize..self.start[group + 1] as usize]
    }
}
