//! The contexts of a function, by ranges of ids and the stack offsets that occur with them.

use super::edge_code::{HybridCode, HybridOptions};
use super::stack::Base;

/// The contexts of a function: blocks by ascending ids, which overlap only in different stack offsets.
#[derive(Clone, Debug, Default)]
pub(super) struct Region(Vec<Block>);

/// The ids `start..end`, and the stack offsets of the contexts that have one of them, ascending; none: all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) start: u64,
    end: u64,
    stack_offsets: Option<Vec<u64>>,
}

impl Block {
    fn conflicts(&self, other: &Self) -> bool {
        self.start < other.end
            && other.start < self.end
            && match (&self.stack_offsets, &other.stack_offsets) {
                (Some(ours), Some(theirs)) => ours.iter().any(|offset| theirs.binary_search(offset).is_ok()),
                _ => true,
            }
    }

    fn contains(&self, id: u64, stack_offset: Option<u64>) -> bool {
        (self.start..self.end).contains(&id)
            && match (&self.stack_offsets, stack_offset) {
                (Some(offsets), Some(offset)) => offsets.binary_search(&offset).is_ok(),
                _ => true,
            }
    }
}

impl Region {
    /// The contexts of a function without in-edges.
    pub(super) fn begun(base: Base) -> Self {
        match base {
            Base::Nowhere => Self::default(),
            Base::Known => Self(vec![Block { start: 0, end: 1, stack_offsets: Some(vec![0]) }]),
            Base::Unknown => Self(vec![Block { start: 0, end: 1, stack_offsets: None }]),
        }
    }

    /// The blocks that an edge with this code brings into its callee from this caller.
    pub(super) fn through(
        &self,
        code: HybridCode,
        frame_offset: Option<u32>,
    ) -> impl Iterator<Item = Block> + '_ {
        self.0.iter().map(move |block| {
            let added = match code {
                HybridCode::Add(value) => value,
                // Blocks of id 0 have no other id.
                HybridCode::Guarded(_) if block.start == 0 => 0,
                HybridCode::Guarded(value) => value,
                HybridCode::Push => unreachable!("sub-paths have no edges that push"),
            };
            let known = block.stack_offsets.as_ref().zip(frame_offset);
            // Fewer than 2³² calls of less than 2³² each.
            let further = |(offsets, frame): (&Vec<u64>, u32)| {
                offsets.iter().map(|offset| offset + u64::from(frame)).collect()
            };
            Block { start: block.start + added, end: block.end + added, stack_offsets: known.map(further) }
        })
    }

    /// The first of these blocks that has a context in common with this region.
    pub(super) fn conflict(&self, mut blocks: impl Iterator<Item = Block>) -> Option<Block> {
        blocks.find(|new| self.0.iter().any(|old| old.conflicts(new)))
    }

    /// Returns whether an edge with this code brings in ids that the function has already.
    pub(super) fn shares_ids(&self, caller: &Self, code: HybridCode) -> bool {
        let overlaps = |new: Block| self.0.iter().any(|old| new.start < old.end && old.start < new.end);
        caller.through(code, None).any(overlaps)
    }

    pub(super) fn extend(&mut self, blocks: impl Iterator<Item = Block>) {
        self.0.extend(blocks);
    }

    /// Returns whether some context may have this id and stack offset.
    pub(super) fn contains(&self, id: u64, stack_offset: Option<u64>) -> bool {
        self.0.iter().any(|block| block.contains(id, stack_offset))
    }

    /// Ids are below this.
    pub(super) fn end(&self) -> u64 {
        self.0.iter().map(|block| block.end).max().unwrap_or(0)
    }

    /// The stack offsets of the contexts in the first block, ascending; none: all.
    pub(super) fn first(&self) -> Option<&[u64]> {
        self.0.first().map_or(Some(&[]), |block| block.stack_offsets.as_deref())
    }

    /// The smallest stack offset of a context that has id 0, if all of them are known.
    pub(super) fn nearest_start(&self) -> Option<u64> {
        let block = self.0.iter().find(|block| block.start == 0)?;
        block.stack_offsets.as_ref()?.first().copied()
    }

    /// The same contexts, and perhaps more, in as many blocks as the options allow and one that holds the
    /// other ids.
    pub(super) fn bounded(self, options: &HybridOptions) -> Self {
        let Self(mut region) = self;
        region.sort_unstable_by_key(|block| (block.start, block.end));
        let mut blocks: Vec<Block> = Vec::new();
        for block in region {
            match blocks.last_mut() {
                Some(last) if (last.start, last.end) == (block.start, block.end) => {
                    let both = last.stack_offsets.take().zip(block.stack_offsets);
                    last.stack_offsets = both.map(|(mut ours, theirs)| {
                        ours.extend(theirs);
                        ours
                    });
                }
                _ => blocks.push(block),
            }
        }
        for block in &mut blocks {
            block.stack_offsets =
                block.stack_offsets.take().filter(|offsets| offsets.len() <= options.stack_offsets);
            if let Some(offsets) = &mut block.stack_offsets {
                offsets.sort_unstable();
            }
        }
        let rest = blocks.split_off(blocks.len().min(options.blocks.max(1)));
        if let Some(first) = rest.first() {
            let end = rest.iter().map(|block| block.end).fold(first.end, u64::max);
            blocks.push(Block { start: first.start, end, stack_offsets: None });
        }
        Self(blocks)
    }
}
