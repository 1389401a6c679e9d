//! From ids back to sub-paths, by tables that need not be trusted: tables of a basic encoding
//! ([`PathDecoder`]), and of a hybrid one ([`StackPathDecoder`]). [`SubPaths`] is either of them, so that
//! callers need not know the kind.

use crate::graph::FunctionId;
pub use crate::hybrid::decode::{StackEdge, StackPathDecoder};
pub use crate::path::{Call, IdError, Path, PathDecoder, PathError, Step};
pub use crate::table::{AddEdge, FunctionRow, TableError};

/// A decoder of the sub-paths of a table, of either kind.
#[derive(Clone, Debug)]
pub enum SubPaths {
    /// By their numbers.
    Numbers(PathDecoder),
    /// By numbers and stack offsets: the encoding is hybrid.
    StackOffsets(StackPathDecoder),
}

impl SubPaths {
    /// Returns whether stack offsets may be needed to tell sub-paths apart.
    #[inline]
    pub fn use_stack_offsets(&self) -> bool {
        matches!(self, Self::StackOffsets(_))
    }

    /// Goes through the calls of the sub-path that this number of the function stands for, innermost first.
    /// `start`: where the sub-path starts, if that is known ([`PathDecoder::path_from`]). `stack_offset`: how
    /// far below the beginning of the sub-path's first activation that of the function begins, if that is
    /// known.
    ///
    /// # Errors
    ///
    /// [`PathError`]; calls that were reported before it belong to no path.
    #[inline]
    pub fn path_from(
        &self,
        start: Option<FunctionId>,
        function: FunctionId,
        number: u64,
        stack_offset: Option<u64>,
        call: impl FnMut(Call),
    ) -> Result<(), PathError> {
        match self {
            Self::Numbers(paths) => {
                let path = paths.path_from(start, function, number).map_err(|_| PathError::NoSuchPath)?;
                path.for_each(call);
                Ok(())
            }
            Self::StackOffsets(paths) => {
                // Code may have moved the stack pointer without recording it. If the number alone is
                // unambiguous, it counts.
                let alone = paths.path_from(start, function, number, None, |_| {});
                let stack_offset = stack_offset.filter(|_| alone == Err(PathError::Ambiguous));
                paths.path_from(start, function, number, stack_offset, call)
            }
        }
    }
}
