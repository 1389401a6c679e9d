//! Where on the stack sub-paths begin.

/// Where a sub-path that begins in a function begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// None begins there.
    Nowhere,
    /// At stack offset 0.
    Known,
    /// Nobody knows.
    Unknown,
}

impl Base {
    /// Of a function: whether sub-paths begin there, and whether nobody knows where.
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
