//! The knowledge about the stack that a hybrid encoding needs.

use crate::graph::{CallGraph, EdgeId, FunctionId};

/// The stack at calls, and the beginnings of sub-paths.
#[derive(Clone, Debug)]
pub struct Stack {
    pub(super) frame_offsets: Vec<Option<u32>>,
    pub(super) unknown_base: Vec<bool>,
    pub(super) numbers_only: Vec<bool>,
    pub(super) varying: Vec<bool>,
}

impl Stack {
    /// Nothing is known of any call. Every sub-path that begins outside the graph begins at a known place.
    pub fn new(graph: &CallGraph) -> Self {
        let (frame_offsets, unknown_base) = (vec![None; graph.edges()], vec![false; graph.functions()]);
        let [numbers_only, varying] = [(); 2].map(|()| vec![false; graph.functions()]);
        Self { frame_offsets, unknown_base, numbers_only, varying }
    }

    /// Sets how far below the caller's activation that of the callee begins, at each execution of the call
    /// (the paper's stack frame offset), in any unit.
    ///
    /// # Panics
    ///
    /// When there is no such edge.
    pub fn set_frame_offset(&mut self, edge: EdgeId, offset: u32) {
        self.frame_offsets[edge.index()] = Some(offset);
    }

    /// Clears the offset of [`Self::set_frame_offset`].
    ///
    /// # Panics
    ///
    /// When there is no such edge.
    pub fn clear_frame_offset(&mut self, edge: EdgeId) {
        self.frame_offsets[edge.index()] = None;
    }

    /// Declares that the function may be entered from outside the graph at an unknown distance to anything
    /// else on the stack. Contexts that begin so must be told apart by ids alone.
    ///
    /// # Panics
    ///
    /// When there is no such function.
    pub fn set_unknown_base(&mut self, function: FunctionId) {
        self.unknown_base[function.index()] = true;
    }

    /// Declares that the function's stack frames may differ between activations in the same context. Below
    /// its calls, offsets are not used: equal contexts would have different ones.
    ///
    /// # Panics
    ///
    /// When there is no such function.
    pub fn set_varying(&mut self, function: FunctionId) {
        self.varying[function.index()] = true;
    }

    /// Declares that contexts of the function must be told apart by ids alone, wherever they begin.
    ///
    /// # Panics
    ///
    /// When there is no such function.
    pub fn set_numbers_only(&mut self, function: FunctionId) {
        self.numbers_only[function.index()] = true;
    }
}

/// Where on the stack the sub-paths begin that start in a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// No sub-path starts there.
    Nowhere,
    /// At stack offset 0.
    Known,
    /// At an unknown place.
    Unknown,
}

impl Base {
    /// Takes whether sub-paths begin in a function, and whether it is unknown where on the stack.
    pub(super) fn new(entry: bool, unknown: bool) -> Self {
        match (entry, unknown) {
            (false, _) => Self::Nowhere,
            (true, false) => Self::Known,
            (true, true) => Self::Unknown,
        }
    }

    /// Returns whether a sub-path with this stack offset may begin there.
    pub(super) fn begins(self, stack_offset: Option<u64>) -> bool {
        match self {
            Self::Nowhere => false,
            Self::Known => stack_offset.is_none_or(|offset| offset == 0),
            Self::Unknown => true,
        }
    }
}
