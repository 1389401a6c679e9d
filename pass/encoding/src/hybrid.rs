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

use crate::encoding::{EdgeCode, Encoding};
use crate::graph::{CallGraph, EdgeId, FunctionId, Groups};
use crate::offset::{self, Forest};

/// What is known of the stack at calls, and where sub-paths begin.
#[derive(Clone, Debug)]
pub struct Stack {
    frames: Vec<Option<u32>>,
    unknown_base: Vec<bool>,
}

impl Stack {
    /// Nothing is known of any call; every sub-path that begins outside the graph begins where it is known.
    pub fn new(graph: &CallGraph) -> Self {
        Self { frames: vec![None; graph.edges()], unknown_base: vec![false; graph.functions()] }
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

    /// Says that the function may be entered from outside the graph where nobody knows the distance to anything else on
    /// the stack. Contexts that begin so must be told apart by ids alone.
    ///
    /// # Panics
    ///
    /// When there is no such function.
    pub fn set_unknown_base(&mut self, function: FunctionId) {
        self.unknown_base[function.index()] = true;
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
    codes: Vec<HybridCode>,
    frames: Vec<Option<u32>>,
    callers: Vec<u32>,
    callees: Vec<u32>,
    /// In-edges that do not push, the open node's included.
    in_edges: Groups,
    regions: Vec<Region>,
    bases: Vec<Base>,
    /// Offsets of ids.
    offsets: Vec<u64>,
    /// Edges that are calls; those of the open node come behind.
    calls: u32,
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
    let order = order(graph, &in_edges, &out_edges);

    // Below a call whose frame offset nobody knows, the contexts above are told by ids alone.
    let mut by_id = vec![false; graph.functions()];
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
    hottest_first
        .sort_unstable_by(|&a, &b| weights[b as usize].total_cmp(&weights[a as usize]).then(a.cmp(&b)));
    let (_, in_forest) = offset::offsets(graph, &hottest_first, &numbered, &encoding.fixed, u64::MAX);
    let mut forest = Forest::new(&encoding.fixed, u64::MAX);
    let mut codes: Vec<HybridCode> =
        (0..graph.edges() as u32).map(|edge| value(edge).map_or(HybridCode::Push, HybridCode::Add)).collect();
    let mut regions: Vec<Region> = vec![Region::new(); graph.functions()];
    for function in order {
        let mut region = Region::new();
        let through_open = in_edges.of(function).first().is_some_and(|&edge| graph.is_open_edge(edge));
        if bases[function] != Base::Nowhere && !through_open {
            let offsets = (bases[function] == Base::Known).then(|| vec![0]);
            region.push(Block { start: 0, end: 1, offsets });
        }
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
        false => offset::offsets(graph, &hottest_first, &valued, &encoding.fixed, u64::MAX).0,
    };
    let (callers, callees) = (graph.caller.clone(), graph.callee.clone());
    Hybrid { codes, frames, callers, callees, in_edges, regions, bases, offsets, calls: calls as u32 }
}

impl Hybrid {
    /// What the call site does.
    pub fn edge(&self, edge: EdgeId) -> HybridCode {
        self.codes[edge.index()]
    }

    /// The offsets of the contexts that have id 0, ascending (the paper's `ImCC`); none if any is possible.
    pub fn implicit(&self, function: FunctionId) -> Option<&[u64]> {
        self.regions[function.index()].first().map_or(Some(&[]), |block| block.offsets.as_deref())
    }

    /// The calls of the sub-path that has this number and stack offset in the function, innermost first; none if no sub-path has. An
    /// open call is one: what lies between it and the entry that it reached is not told.
    ///
    /// If the sub-path began at an unknown base, any offset will do.
    pub fn path(&self, function: FunctionId, number: u64, offset: u64) -> Option<Vec<EdgeId>> {
        let (mut function, mut id, mut offset) = (function.index(), number, Some(offset));
        let mut path = Vec::new();
        // Edges that do not push are acyclic.
        while let Some((edge, id_before, offset_before)) = self.enters(function, id, offset) {
            if edge < self.calls {
                path.push(EdgeId::new(edge));
            }
            (function, id, offset) = (self.callers[edge as usize] as usize, id_before, offset_before);
        }
        (id == 0 && self.bases[function].begins(offset)).then_some(path)
    }

    /// The in-edge by which a context came, with its id and offset in the caller; none if the sub-path begins here. Without
    /// an offset, which calls of unknown frame offset leave, the id is enough.
    fn enters(&self, function: usize, id: u64, offset: Option<u64>) -> Option<(u32, u64, Option<u64>)> {
        self.in_edges.of(function).iter().find_map(|&edge| {
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

    /// The offset of ids of the function, modulo 2⁶⁴: the id that the program keeps is a number plus this. 0 for entries, and
    /// with guards.
    pub fn offset(&self, function: FunctionId) -> u64 {
        self.offsets[function.index()]
    }

    /// What the call site adds, modulo 2⁶⁴, if it does not push; with [`HybridCode::Guarded`], if the id is not 0.
    pub fn constant(&self, edge: EdgeId) -> Option<u64> {
        let end = |ends: &[u32]| self.offsets[ends[edge.index()] as usize];
        match self.codes[edge.index()] {
            HybridCode::Add(value) | HybridCode::Guarded(value) => {
                Some(value.wrapping_add(end(&self.callees)).wrapping_sub(end(&self.callers)))
            }
            HybridCode::Push => None,
        }
    }

    /// Edges that add something: with or without a test.
    pub fn updates(&self) -> usize {
        (0..self.calls).filter(|&edge| !matches!(self.constant(EdgeId::new(edge)), None | Some(0))).count()
    }
}

/// Functions such that callers, by edges that do not push, come before callees.
fn order(graph: &CallGraph, in_edges: &Groups, out_edges: &Groups) -> Vec<usize> {
    let mut waiting: Vec<usize> =
        (0..graph.functions()).map(|function| in_edges.of(function).len()).collect();
    let mut order: Vec<usize> = (0..graph.functions()).filter(|&function| waiting[function] == 0).collect();
    let mut done = 0;
    while let Some(&function) = order.get(done) {
        done += 1;
        for &edge in out_edges.of(function) {
            let callee = graph.callee[edge as usize] as usize;
            waiting[callee] -= 1;
            if waiting[callee] == 0 {
                order.push(callee);
            }
        }
    }
    debug_assert_eq!(order.len(), graph.functions(), "the edges that do not push are acyclic");
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
