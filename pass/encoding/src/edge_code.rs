//! The action of a call site on the id, and the options of an encoding.

/// The options of an encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Width of an id in the instrumented program, 1 to 64; values outside count as the nearest one inside.
    /// No function's `numCC` exceeds 2 to this power, nor, at 64 bits, 2⁶⁴ − 1.
    pub id_bits: u32,
    /// True if decoding knows in which function a sub-path starts that a back edge or a cut began, since the
    /// site of a direct call tells it. Beyond the paper: the way up ends at that function, whatever other
    /// contexts its ids have, so it needs no dummy in-edge, and its offset is free.
    pub known_starts: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { id_bits: 64, known_starts: false }
    }
}

/// The action of a call site on the id.
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

/// The reason why a call site pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PushReason {
    /// It closes a cycle of the call graph (the paper, §5).
    Back,
    /// It keeps the callee, or functions that the callee leads to, from having more contexts than ids can
    /// number (selective reduction; the paper, §7). Only graphs that do not fit have such edges.
    Cut,
    /// The graph demands it for every call of the callee.
    Required,
}
