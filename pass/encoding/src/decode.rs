//! From an id back to its sub-path (the paper, §4, Algorithm 2), by tables that need not be trusted.
//!
//! [`PathDecoder`] is built from plain rows, as a dictionary file holds them, and checks first that they describe an
//! encoding: every id of every function then has exactly one sub-path, and decoding always ends.

use crate::FunctionId;
use thiserror::Error;

/// What a table says about one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionRow {
    /// How many ids the function has, at least 1.
    pub num_cc: u64,
    /// Whether id 0 means that the sub-path starts in this function (the dummy in-edge).
    pub entry: bool,
    /// Whether its smallest ids are those of the open node: an open call may reach it.
    pub open: bool,
}

/// What a table says about one edge that adds. Edges that push have no row: a sub-path never contains them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddEdge {
    /// The function that contains the call site.
    pub caller: FunctionId,
    /// The function that is called.
    pub callee: FunctionId,
    /// The addition value.
    pub value: u64,
    /// A label of the caller's choice, handed back by decoding.
    pub site: u32,
}

/// A call of a decoded sub-path. An open call is one: what lies between it and the entry that it reached is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The label of the edge.
    pub site: u32,
    /// The function that contains the call site.
    pub caller: FunctionId,
    /// The id in the caller.
    pub id: u64,
}

/// How a function was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// From outside the sub-path: by a call that pushed, or from outside the call graph.
    Root,
    /// By this call.
    Call(Call),
}

/// Why rows are not the table of an encoding. Edges are named by their place in the iteration, from 0.
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
        /// The edge.
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
        "edge {edge} adds {value} to {caller_num_cc} ids of its caller, which leaves the {callee_num_cc} ids of its callee"
    )]
    OutOfRange {
        /// The edge.
        edge: usize,
        /// Its addition value.
        value: u64,
        /// `numCC` of its caller.
        caller_num_cc: u64,
        /// `numCC` of its callee.
        callee_num_cc: u64,
    },
    /// A function has the ids of the open node, and there is none, or it is not an entry, or the open node itself.
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
        /// The id.
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
    #[error("function {function} is on a cycle of edges that add, or called from one")]
    Cycle {
        /// The smallest number of such a function.
        function: usize,
    },
}

/// Why there is nothing to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdError {
    /// The table has no such function.
    #[error("there is no function {function}: the table has {functions}")]
    NoSuchFunction {
        /// The function's number.
        function: usize,
        /// How many functions the table has.
        functions: usize,
    },
    /// The function has no such id.
    #[error("function {function} has no id {id}: its ids are below {num_cc}")]
    NoSuchId {
        /// The function's number.
        function: usize,
        /// The id.
        id: u64,
        /// `numCC` of the function.
        num_cc: u64,
    },
}

/// An edge as its callee sees it.
#[derive(Clone, Copy, Debug)]
struct InEdge {
    value: u64,
    caller: u32,
    site: u32,
}

/// A checked table that decodes ids.
///
/// A step costs a binary search among the in-edges of one function.
#[derive(Clone, Debug)]
pub struct PathDecoder {
    num_cc: Vec<u64>,
    /// Functions that open calls may reach.
    open: Vec<bool>,
    open_node: usize,
    /// In-edges of function `f`: `in_edges[start[f]..start[f + 1]]`, by ascending value. Their ids and the dummy's, or the
    /// open node's, are all ids of `f`, each once. So the last edge whose value is not above an id is the one that it
    /// came in by, and where there is none, it is the dummy's or the open node's.
    start: Vec<u32>,
    in_edges: Vec<InEdge>,
}

impl PathDecoder {
    /// Checks a table and makes a decoder of it. `open_node` is the function that stands for the open node, if there
    /// is one.
    ///
    /// # Errors
    ///
    /// [`TableError`] with the first offence found, when the rows are not those of an encoding.
    pub fn new(
        functions: &[FunctionRow],
        open_node: Option<FunctionId>,
        edges: impl Iterator<Item = AddEdge>,
    ) -> Result<Self, TableError> {
        let too_large = |what, count| TableError::TooLarge { what, count };
        if u32::try_from(functions.len()).is_err() {
            return Err(too_large("functions", functions.len()));
        }
        if let Some(function) = functions.iter().position(|row| row.num_cc == 0) {
            return Err(TableError::NoIds { function });
        }
        // Ids of the open node that a function has, 0 if it has none.
        let open_node = open_node.map_or(usize::MAX, FunctionId::index);
        let open_num_cc = functions.get(open_node).map_or(0, |row| row.num_cc);
        let not_open = |&(function, row): &(usize, &FunctionRow)| {
            row.open && (!row.entry || function == open_node || row.num_cc < open_num_cc || open_num_cc == 0)
        };
        if let Some((function, _)) = functions.iter().enumerate().find(not_open) {
            return Err(TableError::NotOpen { function });
        }
        let mut rows: Vec<(AddEdge, u32)> = Vec::with_capacity(edges.size_hint().0.min(1 << 20));
        for (edge, row) in edges.enumerate() {
            let number = u32::try_from(edge).map_err(|_| too_large("edges", edge))?;
            let num_cc = |function: FunctionId| match functions.get(function.index()) {
                Some(row) => Ok(row.num_cc),
                None => {
                    let function = function.index();
                    Err(TableError::NoSuchFunction { edge, function, functions: functions.len() })
                }
            };
            let (caller_num_cc, callee_num_cc) = (num_cc(row.caller)?, num_cc(row.callee)?);
            if row.value.checked_add(caller_num_cc).is_none_or(|end| end > callee_num_cc) {
                return Err(TableError::OutOfRange { edge, value: row.value, caller_num_cc, callee_num_cc });
            }
            rows.push((row, number));
        }
        u32::try_from(rows.len()).map_err(|_| too_large("edges", rows.len()))?;
        rows.sort_unstable_by_key(|(row, number)| (row.callee, row.value, *number));

        let mut start = Vec::with_capacity(functions.len() + 1);
        let mut next = 0;
        for (function, &FunctionRow { num_cc, entry, open }) in functions.iter().enumerate() {
            start.push(next as u32);
            let mut covered = if open { open_num_cc } else { u64::from(entry) };
            while let Some((row, number)) = rows.get(next).filter(|(row, _)| row.callee.index() == function) {
                let id = row.value;
                if id < covered {
                    return Err(TableError::Overlap { function, id, edge: *number as usize });
                }
                if id > covered {
                    return Err(TableError::Gap { function, id: covered });
                }
                covered = id + functions[row.caller.index()].num_cc; // at most `num_cc`, as checked above
                next += 1;
            }
            if covered < num_cc {
                return Err(TableError::Gap { function, id: covered });
            }
        }
        start.push(next as u32);
        check_acyclic(functions, open_node, &rows)?;
        let in_edges = rows
            .iter()
            .map(|(row, _)| InEdge { value: row.value, caller: row.caller.index() as u32, site: row.site })
            .collect();
        let num_cc = functions.iter().map(|row| row.num_cc).collect();
        let open = functions.iter().map(|row| row.open).collect();
        Ok(Self { num_cc, open, open_node, start, in_edges })
    }

    /// How the function was entered when it has this id.
    ///
    /// # Errors
    ///
    /// [`IdError`] when there is no such function or it has no such id.
    #[inline]
    pub fn caller(&self, function: FunctionId, id: u64) -> Result<Step, IdError> {
        self.check(function, id)?;
        Ok(self.step(function, id))
    }

    /// The calls of the sub-path that this id of the function stands for, from the function's own caller outwards to
    /// the call in the function where the sub-path starts; none if it starts in the function itself.
    ///
    /// # Errors
    ///
    /// [`IdError`] when there is no such function or it has no such id.
    #[inline]
    pub fn path(&self, function: FunctionId, id: u64) -> Result<Path<'_>, IdError> {
        self.path_from(None, function, id)
    }

    /// The same for a sub-path of which it may be known that it starts in the function `start` with its id 0: the calls that led
    /// there are another sub-path's. A path that does not come to that function ends where [`Self::path`] ends.
    ///
    /// # Errors
    ///
    /// [`IdError`] when there is no such function or it has no such id.
    #[inline]
    pub fn path_from(
        &self,
        start: Option<FunctionId>,
        function: FunctionId,
        id: u64,
    ) -> Result<Path<'_>, IdError> {
        self.check(function, id)?;
        Ok(Path { decoder: self, function, id, start })
    }

    #[inline]
    fn check(&self, function: FunctionId, id: u64) -> Result<(), IdError> {
        let number = function.index();
        match self.num_cc.get(number) {
            None => Err(IdError::NoSuchFunction { function: number, functions: self.num_cc.len() }),
            Some(&num_cc) if id >= num_cc => Err(IdError::NoSuchId { function: number, id, num_cc }),
            Some(_) => Ok(()),
        }
    }

    /// `function` and `id` must be in range; then those of the call are too.
    #[inline]
    fn step(&self, function: FunctionId, id: u64) -> Step {
        let function = function.index();
        let edges = &self.in_edges[self.start[function] as usize..self.start[function + 1] as usize];
        match edges.partition_point(|edge| edge.value <= id).checked_sub(1) {
            None if self.open[function] => self.step(FunctionId::new(self.open_node as u32), id),
            None => Step::Root,
            Some(last) => {
                let InEdge { value, caller, site } = edges[last];
                Step::Call(Call { site, caller: FunctionId::new(caller), id: id - value })
            }
        }
    }
}

/// The calls of a sub-path, innermost first. See [`PathDecoder::path`] and [`PathDecoder::path_from`].
#[derive(Clone, Debug)]
pub struct Path<'a> {
    decoder: &'a PathDecoder,
    function: FunctionId,
    id: u64,
    start: Option<FunctionId>,
}

impl Iterator for Path<'_> {
    type Item = Call;

    #[inline]
    fn next(&mut self) -> Option<Call> {
        if self.id == 0 && self.start == Some(self.function) {
            return None;
        }
        match self.decoder.step(self.function, self.id) {
            Step::Root => None,
            Step::Call(call) => {
                self.function = call.caller;
                self.id = call.id;
                Some(call)
            }
        }
    }
}

impl std::iter::FusedIterator for Path<'_> {}

/// Takes away functions that nothing calls until none is left, or only cycles and what they call.
fn check_acyclic(
    functions: &[FunctionRow],
    open_node: usize,
    rows: &[(AddEdge, u32)],
) -> Result<(), TableError> {
    let calls = rows.iter().map(|(row, _)| (row.caller.index() as u32, row.callee.index() as u32));
    let open = (0..functions.len()).filter(|&function| functions[function].open);
    let pairs = calls.chain(open.map(|function| (open_node as u32, function as u32)));
    let mut in_degree = vec![0u32; functions.len()];
    for (_, callee) in pairs.clone() {
        in_degree[callee as usize] += 1;
    }
    let out_edges = crate::graph::Groups::new(functions.len(), pairs);
    let mut free: Vec<usize> = (0..functions.len()).filter(|&function| in_degree[function] == 0).collect();
    while let Some(function) = free.pop() {
        for &callee in out_edges.of(function) {
            in_degree[callee as usize] -= 1;
            if in_degree[callee as usize] == 0 {
                free.push(callee as usize);
            }
        }
    }
    match in_degree.iter().position(|&degree| degree > 0) {
        Some(function) => Err(TableError::Cycle { function }),
        None => Ok(()),
    }
}
