//! The way up from a context, by id and stack offset.

use super::edge_code::HybridCode;
use super::region::Region;
use super::stack::Base;
use crate::groups::Groups;

/// The contexts of all functions.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    pub(super) codes: Vec<HybridCode>,
    pub(super) frame_offsets: Vec<Option<u32>>,
    pub(super) callers: Vec<u32>,
    /// In-edges that do not push, the open node's included.
    pub(super) in_edges: Groups,
    pub(super) regions: Vec<Region>,
    pub(super) bases: Vec<Base>,
    /// Functions with an id that has several contexts, which stack offsets tell apart.
    pub(super) shared: Vec<bool>,
}

/// An in-edge by which a context may have come.
pub(super) struct Enter {
    pub(super) edge: u32,
    pub(super) caller: usize,
    /// In the caller.
    pub(super) id: u64,
    /// In the caller, if it is known.
    pub(super) stack_offset: Option<u64>,
}

impl Paths {
    /// The in-edges by which a context may have come; none if the sub-path begins here. With a stack offset
    /// there is one at most; without one, which calls of unknown frame offset leave, one unless the function
    /// shares the id.
    pub(super) fn enters(
        &self,
        function: usize,
        id: u64,
        stack_offset: Option<u64>,
    ) -> impl Iterator<Item = Enter> + '_ {
        self.in_edges.of(function).iter().filter_map(move |&edge| {
            let id = match self.codes[edge as usize] {
                HybridCode::Guarded(_) if id == 0 => 0,
                HybridCode::Guarded(value) => id.checked_sub(value).filter(|&id| id != 0)?,
                HybridCode::Add(value) => id.checked_sub(value)?,
                HybridCode::Push => return None,
            };
            // Stack offsets from an unknown base may be anything.
            let known = stack_offset.zip(self.frame_offsets[edge as usize]);
            let stack_offset = known.map(|(offset, frame)| offset.wrapping_sub(frame.into()));
            let caller = self.callers[edge as usize] as usize;
            let enters = self.regions[caller].contains(id, stack_offset);
            enters.then_some(Enter { edge, caller, id, stack_offset })
        })
    }
}
