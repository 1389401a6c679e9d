//! Hybrid encoding: edges that need no update, since the stack offset tells the contexts apart (the paper, §6, Algorithm 4).
//!
//! The *offset* of a function's activation is the distance from where its sub-path's first activation begins to where it
//! begins itself: the sum of the frame offsets of the calls between. A program knows it without work. So two contexts of
//! a function may share an id if their offsets differ, and an in-edge may add nothing where the contexts that it brings in
//! differ from those of the other in-edges in id or offset. With recursion offsets count from the beginning of the
//! sub-path, whose dummy in-edge has id 0 and offset 0.
//!
//! The paper keeps, for each function, the offsets of the contexts with id 0 (`ImCC`), and assumes nothing of those of other
//! ids. Then an edge whose caller has other ids can be free for id 0 only, and must test for that (case (c) of its Figure 6). Here
//! a function has a few *blocks*, each a range of ids with the offsets that occur with them; the first is `ImCC`.
//! With more than that one, edges of case (c) turn out to be free without a test.
//!
//! Functions have offsets of ids as well ([`Encoding::offset`]), which make a forest of edges free whatever their values are. So
//! an edge that closes a cycle with edges of the forest gets the value that makes it free, too, if it causes no
//! conflict; else 0, so that others may become free later, if that causes none. Ids must tell whether they are 0 where a test
//! is made, so this does not go together with tests.
//!
//! Numbers of contexts are those of [`Encoding`]. An edge keeps its addition value or gets a smaller one.

use std::cmp::Reverse;

use thiserror::Error;

use crate::decode::{AddEdge, Call, FunctionRow, TableError};
use crate::encoding::{EdgeCode, Encoding};
use crate::graph::{CallGraph, EdgeId, FunctionId, Groups};
use crate::number::heat;
use crate::offset::{self, Forest};

/// What is known of the stack at calls, and where sub-paths begin.
#[derive(Clone, Debug)]
pub struct Stack {
    frames: Vec<Option<u32>>,
    unknown_base: Vec<bool>,
    numbers_only: Vec<bool>,
    varying: Vec<bool>,
}

impl Stack {
    /// Nothing is known of any call; every sub-path that begins outside the graph begins where it is known.
    pub fn new(graph: &CallGraph) -> Self {
        let (frames, unknown_base) = (vec![None; graph.edges()], vec![false; graph.functions()]);
        let [numbers_only, varying] = [(); 2].map(|()| vec![false; graph.functions()]);
        Self { frames, unknown_base, numbers_only, varying }
    }

    /// Says how far below the caller's activation that of the callee begins, whenever the call is made (the paper's stack
    /// frame offset), in any unit.
    ///
    /// # Panics
    ///
    /// When there is no such edge.
    pub fn set_frame(&mut self, edge: EdgeId, offset: u32) {
        self.frames[edge.index()] = Some(offset);
    }

    /// Takes back what [`Self::set_frame`] has said.
    ///
    /// # Panics
    ///
    /// When there is no such edge.
    pub fn clear_frame(&mut self, edge: EdgeId) {
        self.frames[edge.index()] = None;
    }

    /// Says that the function may be entered from outside the graph where nobody knows the distance to anything else on
    /// the stack. Contexts that begin so must be told apart by ids alone.
    ///
    /// # Panics
    ///
    /// When there is no such function.
    pub fn set_unknown_base(&mut self, function: FunctionId) {
        self.unknown_base[function.index()] = true;
    }

    /// Says that the function's frames differ from one activation to the next in the same context. Where its calls lead, offsets are not to be
    /// looked at: equal contexts would have different ones.
    ///
    /// # Panics
    ///
    /// When there is no such function.
    pub fn set_varying(&mut self, function: FunctionId) {
        self.varying[function.index()] = true;
    }

    /// Says that contexts of the function must be told apart by ids alone, wherever they begin.
    ///
    /// # Panics
    ///
    /// When there is no such function.
    pub fn set_numbers_only(&mut self, function: FunctionId) {
        self.numbers_only[function.index()] = true;
    }
}

/// What may be chosen about a hybrid encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HybridOptions {
    /// Of how many ranges of ids a function's offsets are known, at least 1; of the others every offset is expected.
    pub blocks: usize,
    /// How many offsets of one range are known; with more, every offset is expected.
    pub offsets: usize,
    /// Whether edges may be free for id 0 only, at the cost of a test ([`HybridCode::Guarded`]), and functions have no
    /// offsets of ids. With 1 block, this is the paper's Algorithm 4.
    pub guards: bool,
}

impl Default for HybridOptions {
    fn default() -> Self {
        Self { blocks: 8, offsets: 64, guards: false }
    }
}

/// What a call site does with the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HybridCode {
    /// Adds this value before the call and takes it away after it, as [`EdgeCode::Add`] does: what the program adds is
    /// [`Hybrid::constant`].
    Add(u64),
    /// Does the same, but only if the id is not 0 (case (c)).
    Guarded(u64),
    /// Pushes, as [`EdgeCode::Push`] says.
    Push,
}

/// A code for every edge such that function, id, offset and pushed frames name the calling context exactly.
#[derive(Clone, Debug)]
pub struct Hybrid {
    paths: Paths,
    callees: Vec<u32>,
    /// Offsets of ids.
    offsets: Vec<u64>,
    /// Edges that are calls; those of the open node come behind.
    calls: u32,
}

/// The contexts of all functions.
#[derive(Clone, Debug)]
struct Paths {
    codes: Vec<HybridCode>,
    frames: Vec<Option<u32>>,
    callers: Vec<u32>,
    /// In-edges that do not push, the open node's included.
    in_edges: Groups,
    regions: Vec<Region>,
    bases: Vec<Base>,
    /// Functions with an id that has several contexts, which offsets tell apart.
    shared: Vec<bool>,
}

/// The contexts of a function: blocks by ascending ids, which overlap only in different offsets.
type Region = Vec<Block>;

/// The ids `start..end`, and the offsets of the contexts that have one of them, ascending; none: all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    start: u64,
    end: u64,
    offsets: Option<Vec<u64>>,
}

impl Block {
    fn conflicts(&self, other: &Self) -> bool {
        self.start < other.end
            && other.start < self.end
            && match (&self.offsets, &other.offsets) {
                (Some(ours), Some(theirs)) => ours.iter().any(|offset| theirs.binary_search(offset).is_ok()),
                _ => true,
            }
    }

    fn contains(&self, id: u64, offset: Option<u64>) -> bool {
        (self.start..self.end).contains(&id)
            && match (&self.offsets, offset) {
                (Some(offsets), Some(offset)) => offsets.binary_search(&offset).is_ok(),
                _ => true,
            }
    }
}

/// Where a sub-path that begins in a function begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// None begins there.
    Nowhere,
    /// At offset 0.
    Known,
    /// Nobody knows.
    Unknown,
}

impl Base {
    fn begins(self, offset: Option<u64>) -> bool {
        match self {
            Base::Nowhere => false,
            Base::Known => offset.is_none_or(|offset| offset == 0),
            Base::Unknown => true,
        }
    }
}

/// Decides for every edge of an encoding whether its addition is needed. `encoding` must be one of `graph`.
///
/// Takes time and memory near-linear in functions and edges, for given options.
///
/// # Panics
///
/// When `stack` is of a graph of another size.
pub fn hybrid(graph: &CallGraph, encoding: &Encoding, stack: &Stack, options: &HybridOptions) -> Hybrid {
    let calls = graph.edges();
    assert_eq!((calls, graph.functions()), (stack.frames.len(), stack.unknown_base.len()));
    let graph = &graph.with_open_edges();
    let mut frames = stack.frames.clone();
    frames.resize(graph.edges(), Some(0));
    let value = |edge: u32| match encoding.codes.get(edge as usize) {
        Some(&EdgeCode::Add(value)) => Some(value),
        Some(EdgeCode::Push(_)) => None,
        None => Some(0),
    };

    // Offsets count from the caller's frame where a sub-path begins, so that one must be known, too.
    let mut unknown_base = stack.unknown_base.clone();
    for edge in (0..calls).filter(|&edge| value(edge as u32).is_none() && frames[edge].is_none()) {
        unknown_base[graph.callee[edge] as usize] = true;
    }
    // The dummy in-edge of functions that open calls may reach is the open node's.
    if let Some(open) = graph.open {
        let unknown =
            |function: usize| unknown_base[function] && graph.is_open(FunctionId::new(function as u32));
        unknown_base[open as usize] |= (0..graph.functions()).any(unknown);
    }
    let mut adds: Vec<(u64, u32)> =
        (0..graph.edges() as u32).filter_map(|edge| Some((value(edge)?, edge))).collect();
    adds.sort_unstable();
    let ends = |&(_, edge): &(u64, u32)| (graph.caller[edge as usize], graph.callee[edge as usize]);
    let in_edges = Groups::new(graph.functions(), adds.iter().map(|add| (ends(add).1, add.1)));
    let out_edges = Groups::new(graph.functions(), adds.iter().map(|add| (ends(add).0, add.1)));
    let order = order(graph.functions(), &in_edges, &out_edges, |edge| graph.callee[edge as usize]);
    debug_assert_eq!(order.len(), graph.functions(), "the edges that do not push are acyclic");

    // Below a call whose frame offset nobody knows, the contexts above are told by ids alone.
    let mut by_id = stack.numbers_only.clone();
    let mut varying = stack.varying.clone();
    for &function in &order {
        let reached = if varying[function] { out_edges.of(function) } else { &[] };
        for callee in reached.iter().map(|&edge| graph.callee[edge as usize] as usize) {
            varying[callee] = true;
            by_id[callee] = true;
        }
    }
    for edge in (0..graph.edges()).filter(|&edge| frames[edge].is_none()) {
        by_id[graph.caller[edge] as usize] = true;
    }
    for &function in order.iter().rev() {
        let callees = out_edges.of(function).iter().map(|&edge| graph.callee[edge as usize]);
        by_id[function] |= callees.into_iter().any(|callee| by_id[callee as usize]);
    }

    // So are those below a known start whose base is not known: whatever leads there from elsewhere has other offsets.
    let mut below: Vec<bool> =
        (0..graph.functions()).map(|function| unknown_base[function] && !encoding.fixed[function]).collect();
    for &function in &order {
        if !below[function] {
            continue;
        }
        by_id[function] = true;
        for &edge in out_edges.of(function) {
            below[graph.callee[edge as usize] as usize] = true;
        }
    }

    let bases: Vec<Base> = (0..graph.functions())
        .map(|function| match (encoding.entry[function], unknown_base[function]) {
            (false, _) => Base::Nowhere,
            (true, false) => Base::Known,
            (true, true) => Base::Unknown,
        })
        .collect();

    let numbered: Vec<EdgeCode> =
        (0..graph.edges()).map(|edge| *encoding.codes.get(edge).unwrap_or(&EdgeCode::Add(0))).collect();
    let weights = &encoding.weights;
    let mut hottest_first: Vec<u32> = (0..graph.edges() as u32).collect();
    hottest_first.sort_unstable_by_key(|&edge| (Reverse(heat(graph, weights, edge)), edge));
    let (_, in_forest) = offset::offsets(graph, &hottest_first, &numbered, &encoding.fixed, encoding.spread);
    let mut forest = Forest::new(&encoding.fixed, encoding.spread);
    let mut codes: Vec<HybridCode> =
        (0..graph.edges() as u32).map(|edge| value(edge).map_or(HybridCode::Push, HybridCode::Add)).collect();
    let mut regions: Vec<Region> = vec![Region::new(); graph.functions()];
    let mut shared = vec![false; graph.functions()];
    for function in order {
        let through_open = in_edges.of(function).first().is_some_and(|&edge| graph.is_open_edge(edge));
        let mut region = if through_open { Region::new() } else { begun(bases[function]) };
        // Whoever an open call reaches may be of another module, which sees by the id that it was one.
        let fixed = by_id[function] || graph.open == Some(function as u32);
        for &edge in in_edges.of(function) {
            let from = graph.caller[edge as usize];
            let caller = &regions[from as usize];
            let frame = frames[edge as usize];
            let HybridCode::Add(value) = codes[edge as usize] else { unreachable!("in-edges add") };
            let fits = |&code: &HybridCode| {
                !brings_in(caller, code, frame)
                    .any(|block| region.iter().any(|other| other.conflicts(&block)))
            };
            // What makes the edge free, if the offsets of both ends are known.
            let (one, other) = (forest.find(from), forest.find(function as u32));
            let difference = one.1.wrapping_sub(other.1);
            let free = (one.0 == other.0 && !options.guards).then_some(HybridCode::Add(difference));
            let guarded = options.guards.then_some(HybridCode::Guarded(value));
            let wanted =
                [free, Some(HybridCode::Add(0)), guarded].into_iter().flatten().filter(|code| match code {
                    // Ids stay below those of the in-edges to come.
                    HybridCode::Add(wanted) => *wanted <= value,
                    _ => value > 0,
                });
            let code = wanted.filter(|_| !fixed).find(fits).unwrap_or(HybridCode::Add(value));
            if let (HybridCode::Add(value), true) = (code, in_forest[edge as usize]) {
                forest.join(from, function as u32, value.wrapping_neg());
            }
            codes[edge as usize] = code;
            shared[function] |= shared[from as usize] || overlaps(&region, caller, code);
            region.extend(brings_in(caller, code, frame));
        }
        regions[function] = bounded(region, options);
    }

    let valued: Vec<EdgeCode> = std::iter::zip(&codes, &numbered)
        .map(
            |(code, &numbered)| {
                if let HybridCode::Add(value) = *code { EdgeCode::Add(value) } else { numbered }
            },
        )
        .collect();
    let offsets = match options.guards {
        true => vec![0; graph.functions()],
        false => offset::offsets(graph, &hottest_first, &valued, &encoding.fixed, encoding.spread).0,
    };
    let paths = Paths { codes, frames, callers: graph.caller.clone(), in_edges, regions, bases, shared };
    Hybrid { paths, callees: graph.callee.clone(), offsets, calls: calls as u32 }
}

impl Hybrid {
    /// What the call site does.
    pub fn edge(&self, edge: EdgeId) -> HybridCode {
        self.paths.codes[edge.index()]
    }

    /// The offsets of the contexts that have id 0, ascending (the paper's `ImCC`); none if any is possible.
    pub fn implicit(&self, function: FunctionId) -> Option<&[u64]> {
        self.paths.regions[function.index()].first().map_or(Some(&[]), |block| block.offsets.as_deref())
    }

    /// The numbers of the function's contexts are below this, which is at least 1.
    pub fn num_cc(&self, function: FunctionId) -> u64 {
        self.paths.regions[function.index()].iter().map(|block| block.end).fold(1, u64::max)
    }

    /// Whether the function has a number that stands for several contexts, so that a capture needs the stack offset as well.
    pub fn needs_offset(&self, function: FunctionId) -> bool {
        self.paths.shared[function.index()]
    }

    /// Whether nobody knows where on the stack the sub-paths begin that have number 0 in the function.
    pub fn has_unknown_base(&self, function: FunctionId) -> bool {
        self.paths.bases[function.index()] == Base::Unknown
    }

    /// How far below the caller's activation that of the callee begins, if that is known.
    pub fn frame(&self, edge: EdgeId) -> Option<u32> {
        self.paths.frames[edge.index()]
    }

    /// The calls of the sub-path that has this number and stack offset in the function, innermost first; none if no sub-path has. An
    /// open call is one: what lies between it and the entry that it reached is not told.
    ///
    /// If the sub-path began at an unknown base, any offset will do.
    pub fn path(&self, function: FunctionId, number: u64, offset: u64) -> Option<Vec<EdgeId>> {
        let (mut function, mut id, mut offset) = (function.index(), number, Some(offset));
        let mut path = Vec::new();
        // Edges that do not push are acyclic.
        while let Some((edge, id_before, offset_before)) = self.paths.enters(function, id, offset).next() {
            if edge < self.calls {
                path.push(EdgeId::new(edge));
            }
            (function, id, offset) = (self.paths.callers[edge as usize] as usize, id_before, offset_before);
        }
        (id == 0 && self.paths.bases[function].begins(offset)).then_some(path)
    }

    /// The offset of ids of the function, modulo 2⁶⁴: the id that the program keeps is a number plus this. 0 for entries, and
    /// with guards.
    pub fn offset(&self, function: FunctionId) -> u64 {
        self.offsets[function.index()]
    }

    /// What the call site adds, modulo 2⁶⁴, if it does not push; with [`HybridCode::Guarded`], if the id is not 0.
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

    /// Makes the encoding do what this one does. It must be the one that was given to [`hybrid`], without guards.
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

impl Paths {
    /// The in-edges by which a context may have come, each with the id and offset in the caller; none if the sub-path begins here. With an offset
    /// there is one at most; without an offset, which calls of unknown frame offset leave, one unless the function [`shares`](Self::shared) the id.
    fn enters(
        &self,
        function: usize,
        id: u64,
        offset: Option<u64>,
    ) -> impl Iterator<Item = (u32, u64, Option<u64>)> + '_ {
        self.in_edges.of(function).iter().filter_map(move |&edge| {
            let before = match self.codes[edge as usize] {
                HybridCode::Guarded(_) if id == 0 => 0,
                HybridCode::Guarded(value) => id.checked_sub(value).filter(|&before| before != 0)?,
                HybridCode::Add(value) => id.checked_sub(value)?,
                HybridCode::Push => return None,
            };
            // Offsets from an unknown base may be anything.
            let above = offset
                .zip(self.frames[edge as usize])
                .map(|(offset, frame)| offset.wrapping_sub(frame.into()));
            let region = &self.regions[self.callers[edge as usize] as usize];
            region.iter().any(|block| block.contains(before, above)).then_some((edge, before, above))
        })
    }
}

/// What a table says about one edge that adds, and the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackEdge {
    /// The edge.
    pub add: AddEdge,
    /// How far below the caller's activation that of the callee begins, if that is known.
    pub frame: Option<u32>,
}

/// Why there is no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// No sub-path has this number and offset.
    #[error("there is no such sub-path")]
    NoSuchPath,
    /// Without the offset, several may be meant.
    #[error("the stack offset is not known, and the number stands for several sub-paths")]
    Ambiguous,
}

/// A checked table that decodes numbers and stack offsets of a hybrid encoding: what [`PathDecoder`](crate::decode::PathDecoder) is for
/// others. [`HybridOptions::default`] made the encoding.
#[derive(Clone, Debug)]
pub struct StackPathDecoder {
    paths: Paths,
    /// Labels of the edges.
    sites: Vec<u32>,
    open_node: usize,
}

impl StackPathDecoder {
    /// Checks a table and makes a decoder of it. `unknown_base`: of the functions, whether nobody knows where the sub-paths begin that begin there
    /// ([`Hybrid::has_unknown_base`]). `open_node` is the function that stands for the open node, if there is one.
    ///
    /// # Errors
    ///
    /// [`TableError`] with the first offence found, when the rows are not those of an encoding. Numbers without a path are none: such a table
    /// has gaps.
    pub fn new(
        functions: &[FunctionRow],
        unknown_base: &[bool],
        open_node: Option<FunctionId>,
        edges: impl Iterator<Item = StackEdge>,
    ) -> Result<Self, TableError> {
        let options = HybridOptions::default();
        let too_large = |what, count| TableError::TooLarge { what, count };
        if u32::try_from(functions.len()).is_err() {
            return Err(too_large("functions", functions.len()));
        }
        let open_node = open_node.map_or(usize::MAX, FunctionId::index);
        let not_open = |&(function, row): &(usize, &FunctionRow)| {
            row.open && (!row.entry || function == open_node || open_node >= functions.len())
        };
        if let Some((function, _)) = functions.iter().enumerate().find(not_open) {
            return Err(TableError::NotOpen { function });
        }
        let mut edges: Vec<StackEdge> = edges.collect();
        for (edge, row) in edges.iter().enumerate() {
            let missing = [row.add.caller, row.add.callee].into_iter().find(|f| f.index() >= functions.len());
            if let Some(function) = missing {
                let function = function.index();
                return Err(TableError::NoSuchFunction { edge, function, functions: functions.len() });
            }
        }
        let calls = edges.len();
        // The open node's edges add nothing.
        edges.extend((0..).map(FunctionId::new).zip(functions).filter(|(_, row)| row.open).map(
            |(callee, _)| {
                let caller = FunctionId::new(open_node as u32);
                StackEdge { add: AddEdge { caller, callee, value: 0, site: u32::MAX }, frame: Some(0) }
            },
        ));
        if u32::try_from(edges.len()).is_err() {
            return Err(too_large("edges", edges.len()));
        }
        let mut by_value: Vec<u32> = (0..edges.len() as u32).collect();
        by_value.sort_by_key(|&edge| edges[edge as usize].add.value);
        let caller = |edge: u32| edges[edge as usize].add.caller.index();
        let callee = |edge: u32| edges[edge as usize].add.callee.index() as u32;
        let in_edges = Groups::new(functions.len(), by_value.iter().map(|&edge| (callee(edge), edge)));
        let out_edges =
            Groups::new(functions.len(), by_value.iter().map(|&edge| (caller(edge) as u32, edge)));
        let order = order(functions.len(), &in_edges, &out_edges, callee);
        if order.len() < functions.len() {
            let mut ordered = vec![false; functions.len()];
            order.iter().for_each(|&function| ordered[function] = true);
            let function = ordered.iter().position(|ordered| !ordered).expect("some are missing");
            return Err(TableError::Cycle { function });
        }
        let bases: Vec<Base> = std::iter::zip(functions, unknown_base)
            .map(|(row, unknown)| match (row.entry, unknown) {
                (false, _) => Base::Nowhere,
                (true, false) => Base::Known,
                (true, true) => Base::Unknown,
            })
            .collect();
        let mut regions = vec![Region::new(); functions.len()];
        let mut shared = vec![false; functions.len()];
        for function in order {
            let num_cc = functions[function].num_cc;
            let mut region = if functions[function].open { Region::new() } else { begun(bases[function]) };
            for &edge in in_edges.of(function) {
                let StackEdge { add, frame } = edges[edge as usize];
                let from = &regions[caller(edge)];
                let (edge, end) = (edge as usize, from.iter().map(|block| block.end).fold(0, u64::max));
                if add.value.checked_add(end).is_none_or(|end| end > num_cc) {
                    let caller_num_cc = functions[add.caller.index()].num_cc;
                    let value = add.value;
                    return Err(TableError::OutOfRange { edge, value, caller_num_cc, callee_num_cc: num_cc });
                }
                let code = HybridCode::Add(add.value);
                let conflict = brings_in(from, code, frame)
                    .find_map(|new| region.iter().any(|old| old.conflicts(&new)).then_some(new.start));
                if let Some(id) = conflict {
                    return Err(TableError::Overlap { function, id, edge });
                }
                shared[function] |= shared[add.caller.index()] || overlaps(&region, from, code);
                region.extend(brings_in(from, code, frame));
            }
            regions[function] = bounded(region, &options);
        }
        let codes = edges.iter().map(|edge| HybridCode::Add(edge.add.value)).collect();
        let frames = edges.iter().map(|edge| edge.frame).collect();
        let callers = edges.iter().map(|edge| edge.add.caller.index() as u32).collect();
        let sites = edges[..calls].iter().map(|edge| edge.add.site).collect();
        let paths = Paths { codes, frames, callers, in_edges, regions, bases, shared };
        Ok(Self { paths, sites, open_node })
    }

    /// Whether the function has numbers that stand for several sub-paths.
    pub fn needs_offset(&self, function: FunctionId) -> bool {
        self.paths.shared[function.index()]
    }

    /// Goes through the calls of the sub-path that this number of the function stands for, innermost first. `start`: where the sub-path starts, if
    /// that is known ([`PathDecoder::path_from`](crate::decode::PathDecoder::path_from)). `offset`: how far below the beginning of the sub-path's first
    /// activation that of the function begins, if that is known.
    ///
    /// # Errors
    ///
    /// [`PathError`]; calls that were told before belong to no path.
    pub fn path_from(
        &self,
        start: Option<FunctionId>,
        function: FunctionId,
        number: u64,
        offset: Option<u64>,
        mut call: impl FnMut(Call),
    ) -> Result<(), PathError> {
        let (mut function, mut id) = (function.index(), number);
        if function >= self.paths.regions.len() {
            return Err(PathError::NoSuchPath);
        }
        // A sub-path that is known to start somewhere looks like any other one that has come there with number 0.
        let above = |start: usize| {
            let first = self.paths.regions.get(start)?.iter().find(|block| block.start == 0)?;
            first.offsets.as_ref()?.first().copied()
        };
        let mut offset = match start {
            Some(start) => above(start.index()).zip(offset).map(|(above, offset)| above.wrapping_add(offset)),
            None => offset,
        };
        while id != 0 || start.is_none_or(|start| start.index() != function) {
            let mut ways = self.paths.enters(function, id, offset);
            let Some((edge, id_before, offset_before)) = ways.next() else {
                let starts = id == 0 && self.paths.bases[function].begins(offset);
                return if starts { Ok(()) } else { Err(PathError::NoSuchPath) };
            };
            if ways.next().is_some() {
                return Err(PathError::Ambiguous);
            }
            // Without an offset it may start here as well.
            if id == 0 && offset.is_none() && self.paths.bases[function] != Base::Nowhere && !self.opens(edge)
            {
                return Err(PathError::Ambiguous);
            }
            (function, id, offset) = (self.paths.callers[edge as usize] as usize, id_before, offset_before);
            if let Some(&site) = self.sites.get(edge as usize) {
                call(Call { site, caller: FunctionId::new(function as u32), id });
            }
        }
        Ok(())
    }

    /// Whether it is an edge of the open node, whose dummy in-edge is that of the callee.
    fn opens(&self, edge: u32) -> bool {
        self.paths.callers[edge as usize] as usize == self.open_node
    }
}

/// What is known of the contexts of a function without in-edges.
fn begun(base: Base) -> Region {
    match base {
        Base::Nowhere => Region::new(),
        Base::Known => vec![Block { start: 0, end: 1, offsets: Some(vec![0]) }],
        Base::Unknown => vec![Block { start: 0, end: 1, offsets: None }],
    }
}

/// Whether an edge with this code brings in ids that the function has already.
fn overlaps(region: &[Block], caller: &[Block], code: HybridCode) -> bool {
    brings_in(caller, code, None)
        .any(|new| region.iter().any(|old| new.start < old.end && old.start < new.end))
}

/// Functions such that callers, by edges that do not push, come before callees; without those on cycles and what these lead to.
fn order(functions: usize, in_edges: &Groups, out_edges: &Groups, callee: impl Fn(u32) -> u32) -> Vec<usize> {
    let mut waiting: Vec<usize> = (0..functions).map(|function| in_edges.of(function).len()).collect();
    let mut order: Vec<usize> = (0..functions).filter(|&function| waiting[function] == 0).collect();
    let mut done = 0;
    while let Some(&function) = order.get(done) {
        done += 1;
        for &edge in out_edges.of(function) {
            let callee = callee(edge) as usize;
            waiting[callee] -= 1;
            if waiting[callee] == 0 {
                order.push(callee);
            }
        }
    }
    order
}

/// The blocks that an edge with this code brings into its callee.
fn brings_in(caller: &[Block], code: HybridCode, frame: Option<u32>) -> impl Iterator<Item = Block> + '_ {
    caller.iter().map(move |block| {
        let added = match code {
            HybridCode::Add(value) => value,
            // Blocks of id 0 have no other id.
            HybridCode::Guarded(_) if block.start == 0 => 0,
            HybridCode::Guarded(value) => value,
            HybridCode::Push => unreachable!("sub-paths have no edges that push"),
        };
        let known = block.offsets.as_ref().zip(frame);
        // Fewer than 2³² calls of less than 2³² each.
        let offsets =
            known.map(|(offsets, frame)| offsets.iter().map(|offset| offset + u64::from(frame)).collect());
        Block { start: block.start + added, end: block.end + added, offsets }
    })
}

/// The same contexts, and perhaps more, in as many blocks as the options allow and one that holds the other ids.
fn bounded(mut region: Region, options: &HybridOptions) -> Region {
    region.sort_unstable_by_key(|block| (block.start, block.end));
    let mut blocks = Region::new();
    for block in region {
        match blocks.last_mut() {
            Some(last) if (last.start, last.end) == (block.start, block.end) => {
                last.offsets = last.offsets.take().zip(block.offsets).map(|(mut ours, theirs)| {
                    ours.extend(theirs);
                    ours
                });
            }
            _ => blocks.push(block),
        }
    }
    for block in &mut blocks {
        block.offsets = block.offsets.take().filter(|offsets| offsets.len() <= options.offsets);
        if let Some(offsets) = &mut block.offsets {
            offsets.sort_unstable();
        }
    }
    let rest = blocks.split_off(blocks.len().min(options.blocks.max(1)));
    if let Some(first) = rest.first() {
        let end = rest.iter().map(|block| block.end).fold(first.end, u64::max);
        blocks.push(Block { start: first.start, end, offsets: None });
    }
    blocks
}
