//! What a call site does with the id, and what may be chosen about that.

/// What may be chosen about an encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Width of an id in the instrumented program, 1 to 64; values outside count as the nearest one inside. No
    /// function's `numCC` exceeds 2 to this power, nor, at 64 bits, 2⁶⁴ − 1.
    pub id_bits: u32,
    /// True if decoding is told in which function a sub-path starts that a back edge or a cut began, as the site of
    /// a direct call tells. Beyond the paper: the way up ends at that function, whatever else its ids stand for, so
    /// it needs no dummy in-edge, and its offset is free.
    pub known_starts: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { id_bits: 64, known_starts: false }
    }
}

/// What a call site does with the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EdgeCode {
    /// Adds this before the call and takes it away after it. 0 is no work at all.
    Add(u64),
    /// Saves id and site and sets the id to 0 before the call, and restores the id after it.
    Push(PushReason),
}

impl EdgeCode {
    /// Returns whether the call site pushes.
    pub fn pushes(self) -> bool {
        matches!(self, Self::Push(_))
    }
}

/// Why a call site pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PushReason {
    /// It closes a cycle of the call graph (the paper, §5).
    Back,
    /// It keeps the callee, or functions that the callee leads to, from having more contexts than ids can number
    /// (selective reduction; the paper, §7). Only graphs that do not fit have such edges.
    Cut,
    /// The graph demands it for every call of the callee.
    Required,
}
