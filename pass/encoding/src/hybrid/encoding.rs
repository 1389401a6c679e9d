//! A hybrid encoding: the action of each call site, and the ids of each function.

use super::edge_code::HybridCode;
use super::paths::Paths;
use super::stack::Base;
use crate::edge_code::EdgeCode;
use crate::encoding::Encoding;
use crate::graph::{EdgeId, FunctionId};

/// A code for every edge such that function, id, stack offset and pushed frames name the calling context
/// exactly.
#[derive(Clone, Debug)]
pub struct Hybrid {
    pub(super) paths: Paths,
    pub(super) callees: Vec<u32>,
    pub(super) offsets: Vec<u64>,
    /// Edges that are calls; those of the open node come behind.
    pub(super) calls: u32,
}

impl Hybrid {
    /// The action of the call site.
    pub fn edge(&self, edge: EdgeId) -> HybridCode {
        self.paths.codes[edge.index()]
    }

    /// The stack offsets of the contexts that have id 0, ascending (the paper's `ImCC`); none if any is
    /// possible.
    pub fn implicit(&self, function: FunctionId) -> Option<&[u64]> {
        self.paths.regions[function.index()].first()
    }

    /// The numbers of the function's contexts are below this, which is at least 1.
    pub fn num_cc(&self, function: FunctionId) -> u64 {
        self.paths.regions[function.index()].end().max(1)
    }

    /// Returns whether the function has a number that stands for several contexts, so that a capture needs
    /// the stack offset as well.
    pub fn needs_stack_offset(&self, function: FunctionId) -> bool {
        self.paths.shared[function.index()]
    }

    /// Returns whether it is unknown where on the stack the sub-paths with number 0 in the function begin.
    pub fn has_unknown_base(&self, function: FunctionId) -> bool {
        self.paths.bases[function.index()] == Base::Unknown
    }

    /// How far below the caller's activation that of the callee begins, if that is known.
    pub fn frame_offset(&self, edge: EdgeId) -> Option<u32> {
        self.paths.frame_offsets[edge.index()]
    }

    /// The calls of the sub-path that has this number and stack offset in the function, innermost first; none
    /// if no sub-path has. An open call is one: what lies between it and the entry that it reached is not
    /// told.
    ///
    /// If the sub-path began at an unknown base, any stack offset will do.
    pub fn path(&self, function: FunctionId, number: u64, stack_offset: u64) -> Option<Vec<EdgeId>> {
        let (mut function, mut id, mut stack_offset) = (function.index(), number, Some(stack_offset));
        let mut path = Vec::new();
        // Edges that do not push are acyclic.
        while let Some(enter) = self.paths.enters(function, id, stack_offset).next() {
            if enter.edge < self.calls {
                path.push(EdgeId::new(enter.edge));
            }
            (function, id, stack_offset) = (enter.caller, enter.id, enter.stack_offset);
        }
        (id == 0 && self.paths.bases[function].begins(stack_offset)).then_some(path)
    }

    /// The offset of the function, modulo 2⁶⁴: the id that the program keeps is a number plus this. 0 for
    /// entries, and with guards.
    pub fn offset(&self, function: FunctionId) -> u64 {
        self.offsets[function.index()]
    }

    /// The number that the call site adds, modulo 2⁶⁴, if it does not push. With [`HybridCode::Guarded`], it
    /// is added if the id is not 0.
    pub fn constant(&self, edge: EdgeId) -> Option<u64> {
        let end = |function: u32| self.offsets[function as usize];
        match self.edge(edge) {
            HybridCode::Add(value) | HybridCode::Guarded(value) => Some(
                value
                    .wrapping_add(end(self.callees[edge.index()]))
                    .wrapping_sub(end(self.paths.callers[edge.index()])),
            ),
            HybridCode::Push => None,
        }
    }

    /// Makes the encoding do what this one does. It must be the one that was given to [`hybrid`], without
    /// guards.
    ///
    /// # Panics
    ///
    /// When it is of a graph of another size, or there are guards.
    pub fn apply(&self, encoding: &mut Encoding) {
        assert_eq!(encoding.codes.len(), self.calls as usize);
        for (code, &hybrid) in encoding.codes.iter_mut().zip(&self.paths.codes) {
            match hybrid {
                HybridCode::Add(value) => *code = EdgeCode::Add(value),
                HybridCode::Guarded(_) => panic!("an encoding has no guards"),
                HybridCode::Push => {}
            }
        }
        for function in 0..encoding.num_cc.len() {
            encoding.num_cc[function] = self.num_cc(FunctionId::new(function as u32));
        }
        encoding.offsets.clone_from(&self.offsets);
    }

    /// Edges that add something: with or without a test.
    pub fn updates(&self) -> usize {
        (0..self.calls).filter(|&edge| !matches!(self.constant(EdgeId::new(edge)), None | Some(0))).count()
    }
}
