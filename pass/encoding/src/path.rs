//! From an id back to its sub-path (the paper, §4, Algorithm 2), by tables that need not be trusted.
//!
//! [`PathDecoder`] checks first that rows describe an encoding: every id of every function then has exactly
//! one sub-path, and decoding always ends.

use thiserror::Error;

use crate::graph::FunctionId;
use crate::order;
use crate::table::{AddEdge, FunctionRow, TableError};

/// A call of a decoded sub-path. It may be an open call: the calls between it and the entry that it reached
/// are not reported.
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

/// The reason why there is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// No sub-path has this number and stack offset.
    #[error("there is no such sub-path")]
    NoSuchPath,
    /// Without the stack offset, several sub-paths are possible.
    #[error("the stack offset is not known, and the number stands for several sub-paths")]
    Ambiguous,
}

/// The reason why an id cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdError {
    /// The table has no such function.
    #[error("there is no function {function}: the table has {functions}")]
    NoSuchFunction {
        /// The function's number.
        function: usize,
        /// The number of functions in the table.
        functions: usize,
    },
    /// The function has no such id.
    #[error("function {function} has no id {id}: its ids are below {num_cc}")]
    NoSuchId {
        /// The function's number.
        function: usize,
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
    /// In-edges of function `f`: `in_edges[start[f]..start[f + 1]]`, by ascending value. Their ids and the
    /// dummy's, or the open node's, are all ids of `f`, each once. So the last edge whose value is not above
    /// an id is the one that it came in by, and where there is none, it is the dummy's or the open node's.
    start: Vec<u32>,
    in_edges: Vec<InEdge>,
}

impl PathDecoder {
    /// Checks a table and makes a decoder of it. `open_node` is the function that stands for the open node,
    /// if there is one.
    ///
    /// # Errors
    ///
    /// [`TableError`] with the first offence found, when the rows are not those of an encoding.
    pub fn new(
        functions: &[FunctionRow],
        open_node: Option<FunctionId>,
        edges: impl Iterator<Item = AddEdge>,
    ) -> Result<Self, TableError> {
        TableError::check_count("functions", functions.len())?;
        let open_node = open_node.map_or(usize::MAX, FunctionId::index);
        let open_num_cc = check_functions(functions, open_node)?;
        let mut rows: Vec<(AddEdge, u32)> = Vec::with_capacity(edges.size_hint().0.min(1 << 20));
        for (edge, row) in edges.enumerate() {
            TableError::check_count("edges", edge)?;
            check_edge(functions, edge, &row)?;
            rows.push((row, edge as u32));
        }
        TableError::check_count("edges", rows.len())?;
        rows.sort_unstable_by_key(|(row, number)| (row.callee, row.value, *number));
        let start = check_ids(functions, open_num_cc, &rows)?;
        let calls = rows.iter().map(|(row, _)| (row.caller.index() as u32, row.callee.index() as u32));
        let open =
            (0..).zip(functions).filter(|(_, row)| row.open).map(|(callee, _)| (open_node as u32, callee));
        order::topological(functions.len(), calls.chain(open))
            .map_err(|function| TableError::Cycle { function: function as usize })?;
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

    /// The calls of the sub-path that this id of the function stands for, from the function's own caller
    /// outwards to the call in the function where the sub-path starts; none if it starts in the function
    /// itself.
    ///
    /// # Errors
    ///
    /// [`IdError`] when there is no such function or it has no such id.
    #[inline]
    pub fn path(&self, function: FunctionId, id: u64) -> Result<Path<'_>, IdError> {
        self.path_from(None, function, id)
    }

    /// The calls of a sub-path that may be known to start in the function `start` with its id 0: the calls
    /// that led there belong to another sub-path. A path that does not come to that function ends where
    /// [`Self::path`] ends.
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

/// Checks what the rows of functions say of ids, and returns how many of them are the open node's in a
/// function that has such.
fn check_functions(functions: &[FunctionRow], open_node: usize) -> Result<u64, TableError> {
    if let Some(function) = functions.iter().position(|row| row.num_cc == 0) {
        return Err(TableError::NoIds { function });
    }
    let open_num_cc = functions.get(open_node).map_or(0, |row| row.num_cc);
    let not_open = |&(function, row): &(usize, &FunctionRow)| {
        row.open && (!row.entry || function == open_node || row.num_cc < open_num_cc || open_num_cc == 0)
    };
    match functions.iter().enumerate().find(not_open) {
        Some((function, _)) => Err(TableError::NotOpen { function }),
        None => Ok(open_num_cc),
    }
}

/// Checks that the ids that an edge brings in are ids of its callee.
fn check_edge(functions: &[FunctionRow], edge: usize, row: &AddEdge) -> Result<(), TableError> {
    row.check_ends(edge, functions.len())?;
    let [caller_num_cc, callee_num_cc] = [row.caller, row.callee].map(|f| functions[f.index()].num_cc);
    if row.value.checked_add(caller_num_cc).is_none_or(|end| end > callee_num_cc) {
        return Err(TableError::OutOfRange { edge, value: row.value, caller_num_cc, callee_num_cc });
    }
    Ok(())
}

/// Checks that each id of a function comes in once. `edges`: by callee and value, each with its place in the
/// table; each was checked. Returns where the edges of each function begin, and where the last ones end.
fn check_ids(
    functions: &[FunctionRow],
    open_num_cc: u64,
    edges: &[(AddEdge, u32)],
) -> Result<Vec<u32>, TableError> {
    let mut start = Vec::with_capacity(functions.len() + 1);
    let mut next = 0;
    for (function, &FunctionRow { num_cc, entry, open }) in functions.iter().enumerate() {
        start.push(next as u32);
        let mut covered = if open { open_num_cc } else { u64::from(entry) };
        while let Some((row, number)) = edges.get(next).filter(|(row, _)| row.callee.index() == function) {
            let id = row.value;
            if id < covered {
                return Err(TableError::Overlap { function, id, edge: *number as usize });
            }
            if id > covered {
                return Err(TableError::Gap { function, id: covered });
            }
            covered = id + functions[row.caller.index()].num_cc; // at most `num_cc`: the edge was checked
            next += 1;
        }
        if covered < num_cc {
            return Err(TableError::Gap { function, id: covered });
        }
    }
    start.push(next as u32);
    Ok(start)
}
