//! From a number and a stack offset back to the sub-path, by tables that need not be trusted.

use super::edge_code::{HybridCode, HybridOptions};
use super::paths::{Enter, Paths};
use super::region::Region;
use super::stack::Base;
use crate::graph::FunctionId;
use crate::groups::Groups;
use crate::order;
use crate::path::{Call, PathError};
use crate::table::{AddEdge, FunctionRow, TableError};

/// An edge of a table that adds, with its frame offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackEdge {
    pub add: AddEdge,
    /// How far below the caller's activation that of the callee begins, if that is known.
    pub frame_offset: Option<u32>,
}

/// A checked table that decodes numbers and stack offsets of a hybrid encoding, made with
/// [`HybridOptions::default`]. [`PathDecoder`](crate::decode::PathDecoder) decodes those of other encodings.
#[derive(Clone, Debug)]
pub struct StackPathDecoder {
    paths: Paths,
    /// Labels of the edges.
    sites: Vec<u32>,
    open_node: usize,
}

impl StackPathDecoder {
    /// Checks a table and makes a decoder of it. `unknown_base` has for each function whether it is unknown
    /// where on the stack its sub-paths begin
    /// ([`Hybrid::has_unknown_base`](super::Hybrid::has_unknown_base)). `open_node` is the function that
    /// stands for the open node, if there is one.
    ///
    /// # Errors
    ///
    /// [`TableError`] with the first offence found, when the rows are not those of an encoding. Numbers
    /// without a path are none: such a table has gaps.
    pub fn new(
        functions: &[FunctionRow],
        unknown_base: &[bool],
        open_node: Option<FunctionId>,
        edges: impl Iterator<Item = StackEdge>,
    ) -> Result<Self, TableError> {
        TableError::check_count("functions", functions.len())?;
        let open_node = open_node.map_or(usize::MAX, FunctionId::index);
        check_open(functions, open_node)?;
        let mut edges: Vec<StackEdge> = edges.collect();
        for (edge, row) in edges.iter().enumerate() {
            row.add.check_ends(edge, functions.len())?;
        }
        let sites = edges.iter().map(|edge| edge.add.site).collect();
        // The open node's edges add nothing.
        for (callee, _) in (0..).map(FunctionId::new).zip(functions).filter(|(_, row)| row.open) {
            let caller = FunctionId::new(open_node as u32);
            let add = AddEdge { caller, callee, value: 0, site: u32::MAX };
            edges.push(StackEdge { add, frame_offset: Some(0) });
        }
        TableError::check_count("edges", edges.len())?;
        let bases =
            std::iter::zip(functions, unknown_base).map(|(row, unknown)| Base::new(row.entry, *unknown));
        let paths = paths(functions, bases.collect(), &edges)?;
        Ok(Self { paths, sites, open_node })
    }

    /// Returns whether the function has numbers that stand for several sub-paths.
    pub fn needs_stack_offset(&self, function: FunctionId) -> bool {
        self.paths.shared[function.index()]
    }

    /// Goes through the calls of the sub-path that this number of the function stands for, innermost first.
    /// `start`: where the sub-path starts, if that is known
    /// ([`PathDecoder::path_from`](crate::decode::PathDecoder::path_from)). `stack_offset`: how far below the
    /// beginning of the sub-path's first activation that of the function begins, if that is known.
    ///
    /// # Errors
    ///
    /// [`PathError`]; calls that were reported before it belong to no path.
    pub fn path_from(
        &self,
        start: Option<FunctionId>,
        function: FunctionId,
        number: u64,
        stack_offset: Option<u64>,
        mut call: impl FnMut(Call),
    ) -> Result<(), PathError> {
        let (mut function, mut id) = (function.index(), number);
        if function >= self.paths.regions.len() {
            return Err(PathError::NoSuchPath);
        }
        let mut stack_offset = match start {
            // A sub-path that is known to start somewhere looks like any other one that has come there with
            // number 0.
            Some(start) => {
                let above = self.paths.regions.get(start.index()).and_then(Region::nearest_start);
                above.zip(stack_offset).map(|(above, offset)| above.wrapping_add(offset))
            }
            None => stack_offset,
        };
        while id != 0 || start.is_none_or(|start| start.index() != function) {
            let mut ways = self.paths.enters(function, id, stack_offset);
            let Some(Enter { edge, caller, id: id_before, stack_offset: offset_before }) = ways.next() else {
                let starts = id == 0 && self.paths.bases[function].begins(stack_offset);
                return if starts { Ok(()) } else { Err(PathError::NoSuchPath) };
            };
            if ways.next().is_some() {
                return Err(PathError::Ambiguous);
            }
            // Without a stack offset it may start here as well. The dummy in-edge of the callees of the open
            // node is that node's.
            let may_start = self.paths.bases[function] != Base::Nowhere && caller != self.open_node;
            if id == 0 && stack_offset.is_none() && may_start {
                return Err(PathError::Ambiguous);
            }
            (function, id, stack_offset) = (caller, id_before, offset_before);
            if let Some(&site) = self.sites.get(edge as usize) {
                call(Call { site, caller: FunctionId::new(function as u32), id });
            }
        }
        Ok(())
    }
}

/// Functions with ids of an open node must be entries, and there must be one, another function.
fn check_open(functions: &[FunctionRow], open_node: usize) -> Result<(), TableError> {
    let not_open = |&(function, row): &(usize, &FunctionRow)| {
        row.open && (!row.entry || function == open_node || open_node >= functions.len())
    };
    match functions.iter().enumerate().find(not_open) {
        Some((function, _)) => Err(TableError::NotOpen { function }),
        None => Ok(()),
    }
}

/// The contexts of all functions, if no two of them have one number and stack offset.
fn paths(functions: &[FunctionRow], bases: Vec<Base>, edges: &[StackEdge]) -> Result<Paths, TableError> {
    let options = HybridOptions::default();
    let caller = |edge: u32| edges[edge as usize].add.caller.index();
    let callee = |edge: u32| edges[edge as usize].add.callee.index();
    let mut by_value: Vec<u32> = (0..edges.len() as u32).collect();
    by_value.sort_by_key(|&edge| edges[edge as usize].add.value);
    let in_edges = Groups::new(functions.len(), by_value.iter().map(|&edge| (callee(edge) as u32, edge)));
    let calls = (0..edges.len() as u32).map(|edge| (caller(edge) as u32, callee(edge) as u32));
    let order = order::topological(functions.len(), calls)
        .map_err(|function| TableError::Cycle { function: function as usize })?;
    let mut regions = vec![Region::default(); functions.len()];
    let mut shared = vec![false; functions.len()];
    for function in order.into_iter().map(|function| function as usize) {
        let FunctionRow { num_cc, open, .. } = functions[function];
        let mut region = if open { Region::default() } else { Region::begun(bases[function]) };
        for &edge in in_edges.of(function) {
            let StackEdge { add, frame_offset } = edges[edge as usize];
            let above = &regions[caller(edge)];
            let (edge, code) = (edge as usize, HybridCode::Add(add.value));
            if add.value.checked_add(above.end()).is_none_or(|end| end > num_cc) {
                let caller_num_cc = functions[add.caller.index()].num_cc;
                let value = add.value;
                return Err(TableError::OutOfRange { edge, value, caller_num_cc, callee_num_cc: num_cc });
            }
            if let Some(block) = region.conflict(above.through(code, frame_offset)) {
                return Err(TableError::Overlap { function, id: block.start, edge });
            }
            shared[function] |= shared[add.caller.index()] || region.shares_ids(above, code);
            region.extend(above.through(code, frame_offset));
        }
        regions[function] = region.bounded(&options);
    }
    let codes = edges.iter().map(|edge| HybridCode::Add(edge.add.value)).collect();
    let frame_offsets = edges.iter().map(|edge| edge.frame_offset).collect();
    let callers = edges.iter().map(|edge| edge.add.caller.index() as u32).collect();
    Ok(Paths { codes, frame_offsets, callers, in_edges, regions, bases, shared })
}
