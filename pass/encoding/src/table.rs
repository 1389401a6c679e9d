//! The rows of a table that describes an encoding, as a dictionary file holds them, and their errors.

use thiserror::Error;

use crate::graph::FunctionId;

/// The row of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionRow {
    /// How many ids the function has, at least 1.
    pub num_cc: u64,
    /// True if id 0 means that the sub-path starts in this function (the dummy in-edge).
    pub entry: bool,
    /// True if its smallest ids are those of the open node: an open call may reach it.
    pub open: bool,
}

/// The row of an edge that adds. Edges that push have no row: a sub-path never contains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddEdge {
    /// The function that contains the call site.
    pub caller: FunctionId,
    /// The function that is called.
    pub callee: FunctionId,
    /// The addition value.
    pub value: u64,
    /// A label chosen by the caller, which decoding returns.
    pub site: u32,
}

/// A reason why rows are not the table of an encoding. Edges are named by their place in the iteration, from
/// 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TableError {
    /// More functions or edges than 32-bit numbers can name.
    #[error("the table has {count} {what}, more than 32-bit ids can name")]
    TooLarge {
        /// "functions" or "edges".
        what: &'static str,
        /// How many there are, as far as they were read.
        count: usize,
    },
    /// An edge names a function that has no row.
    #[error("edge {edge} names function {function}, but there are only {functions} functions")]
    NoSuchFunction {
        edge: usize,
        /// The function's number.
        function: usize,
        /// How many rows of functions there are.
        functions: usize,
    },
    /// A function has no ids.
    #[error("function {function} has no ids: its numCC is 0")]
    NoIds {
        /// The function's number.
        function: usize,
    },
    /// The ids that come in by an edge are not all ids of the callee.
    #[error(
        "edge {edge} adds {value} to {caller_num_cc} ids of its caller, \
         which leaves the {callee_num_cc} ids of its callee"
    )]
    OutOfRange {
        edge: usize,
        /// Its addition value.
        value: u64,
        /// `numCC` of its caller.
        caller_num_cc: u64,
        /// `numCC` of its callee.
        callee_num_cc: u64,
    },
    /// A function has the ids of the open node, and there is none, or it is not an entry, or the open node
    /// itself.
    #[error("function {function} cannot have the ids of the open node")]
    NotOpen {
        /// The function's number.
        function: usize,
    },
    /// An id of a function would have two sub-paths.
    #[error(
        "id {id} of function {function} comes in by edge {edge}, but stands for another sub-path already"
    )]
    Overlap {
        /// The function's number.
        function: usize,
        id: u64,
        /// The second edge that it comes in by.
        edge: usize,
    },
    /// An id of a function would have no sub-path.
    #[error("id {id} of function {function} comes in by no edge")]
    Gap {
        /// The function's number.
        function: usize,
        /// The smallest such id.
        id: u64,
    },
    /// Edges that add form a cycle, so that decoding would not end.
    #[error("function {function} is on a cycle of edges that add")]
    Cycle {
        /// The smallest number of such a function.
        function: usize,
    },
}

impl TableError {
    /// Refuses more functions or edges than 32-bit numbers can name.
    pub(crate) fn check_count(what: &'static str, count: usize) -> Result<(), Self> {
        u32::try_from(count).map(|_| ()).map_err(|_| Self::TooLarge { what, count })
    }
}

impl AddEdge {
    /// Refuses an edge that names a function that has no row. `edge`: its place in the table.
    pub(crate) fn check_ends(&self, edge: usize, functions: usize) -> Result<(), TableError> {
        match [self.caller, self.callee].map(FunctionId::index).into_iter().find(|&f| f >= functions) {
            Some(function) => Err(TableError::NoSuchFunction { edge, function, functions }),
            None => Ok(()),
        }
    }
}
