//! The call graph (the paper, §3, Definition 1) as flat arrays, and the dense ids that index them.

use crate::groups::Groups;

/// Largest frequency and function weight. Products of the two, and sums of such products over any graph that
/// ids can name, stay finite.
pub(crate) const MAX_WEIGHT: f64 = 1e100;

/// A function of a [`CallGraph`], counted from 0 in the order of [`CallGraph::add_function`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(u32);

/// A call site of a [`CallGraph`], counted from 0 in the order of [`CallGraph::add_edge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeId(u32);

impl FunctionId {
    /// The id with this number. Whether such a function exists is known only to the graph or table it is used
    /// with.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The number, for indexing arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl EdgeId {
    /// The id with this number. Whether such an edge exists is known only to the graph it is used with.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The number, for indexing arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A decision about a call site before the numbering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Nothing.
    #[default]
    Free,
    Pushes,
    /// The edge adds, whatever that costs elsewhere. Edges with this rule must be acyclic. Where ids are too
    /// few for them, they push all the same, so the caller must check the codes.
    Adds,
}

/// A call graph: functions, and one edge for each call site and callee (the paper's triple ⟨n, m, ℓ⟩,
/// Definition 1).
///
/// Two calls of one function by the same caller are two edges, and a function may call itself.
#[derive(Clone, Debug, Default)]
pub struct CallGraph {
    /// The open node, and for each function that open calls may reach, its share of open calls.
    pub(crate) open: Option<u32>,
    pub(crate) share: Vec<Option<f64>>,
    /// Counted executions of functions.
    pub(crate) counted: Vec<Option<f64>>,
    pub(crate) entry: Vec<bool>,
    pub(crate) required_push: Vec<bool>,
    pub(crate) caller: Vec<u32>,
    pub(crate) callee: Vec<u32>,
    pub(crate) frequency: Vec<f64>,
    pub(crate) rule: Vec<Rule>,
}

impl CallGraph {
    /// A graph without functions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function.
    ///
    /// `entry`: it can be entered with id 0 by something that is not an edge of this graph: a root, a
    /// function whose address is taken, an externally visible one, a thread's start. `required_push`: every
    /// call of it in this graph must push, whatever the numbering would say.
    ///
    /// # Panics
    ///
    /// When there are 2³² − 1 functions already.
    pub fn add_function(&mut self, entry: bool, required_push: bool) -> FunctionId {
        let id = next_id(self.entry.len());
        self.counted.push(None);
        self.entry.push(entry);
        self.share.push(None);
        self.required_push.push(required_push);
        FunctionId(id)
    }

    /// Sets the executions of the function in a profile, which replace an estimate from its callers. NaN and
    /// negative values count as 0, values above 10¹⁰⁰ as 10¹⁰⁰.
    ///
    /// # Panics
    ///
    /// When there is no such function.
    pub fn set_count(&mut self, function: FunctionId, count: f64) {
        self.counted[function.index()] = Some(weight(count));
    }

    /// Adds the open node. It stands for the callee of a call whose callee is unknown: one of its targets.
    ///
    /// Edges to it are *open calls*. They get addition values as other edges do, so that an open call need
    /// not push. The id with which it enters a target identifies the call site, whichever target that is (one
    /// addition value for all targets of a call, as in DeltaPath). All other callers enter a target with id
    /// 0.
    ///
    /// # Panics
    ///
    /// When the graph has an open node, or 2³² − 1 functions already.
    pub fn add_open_node(&mut self) -> FunctionId {
        assert!(self.open.is_none(), "a graph has one open node");
        let node = self.add_function(true, false);
        self.open = Some(node.0);
        node
    }

    /// Declares that open calls may reach the function, which makes it an entry. `share` is its share of an
    /// open call. The share only steers which edges become cheap. NaN and negative values count as 0, values
    /// above 10¹⁰⁰ as 10¹⁰⁰.
    ///
    /// # Panics
    ///
    /// When there is no such function, or it is the open node.
    pub fn add_open_target(&mut self, function: FunctionId, share: f64) {
        assert!(self.open != Some(function.0), "the open node is no target");
        self.entry[function.index()] = true;
        self.share[function.index()] = Some(weight(share));
    }

    /// Returns whether open calls may reach the function, so that its smallest ids are those of the open
    /// node.
    pub fn is_open(&self, function: FunctionId) -> bool {
        self.open.is_some() && self.share[function.index()].is_some()
    }

    /// Returns whether something that is no edge of the graph can enter the function with id 0, as
    /// [`Self::add_function`] and [`Self::add_open_target`] have said.
    pub fn is_entry(&self, function: FunctionId) -> bool {
        self.entry[function.index()]
    }

    /// The open node, if the graph has one.
    pub fn open_node(&self) -> Option<FunctionId> {
        self.open.map(FunctionId)
    }

    /// The graph with an edge from the open node to each function that open calls may reach, behind its own
    /// edges.
    pub(crate) fn with_open_edges(&self) -> Self {
        let mut graph = self.clone();
        let Some(open) = graph.open else { return graph };
        for (function, share) in (0..).map(FunctionId).zip(&self.share) {
            if let &Some(share) = share {
                graph.add_edge(FunctionId(open), function, share);
            }
        }
        graph
    }

    /// Returns whether the edge is one that [`Self::with_open_edges`] adds: no call site, but an addition of
    /// 0.
    pub(crate) fn is_open_edge(&self, edge: u32) -> bool {
        Some(self.caller[edge as usize]) == self.open
    }

    /// Adds a call site.
    ///
    /// `frequency`: expected executions of the site for one execution of its caller (block frequency). It
    /// only steers which edges become cheap. NaN and negative values count as 0, values above 10¹⁰⁰ as 10¹⁰⁰.
    ///
    /// # Panics
    ///
    /// When `caller` or `callee` is not a function of this graph, when `caller` is the open node, or when
    /// there are 2³² − 1 edges already.
    pub fn add_edge(&mut self, caller: FunctionId, callee: FunctionId, frequency: f64) -> EdgeId {
        for function in [caller, callee] {
            assert!(
                function.index() < self.functions(),
                "{function:?} is not in a graph of {}",
                self.functions()
            );
        }
        let id = next_id(self.caller.len());
        self.caller.push(caller.0);
        self.callee.push(callee.0);
        self.frequency.push(weight(frequency));
        self.rule.push(Rule::Free);
        EdgeId(id)
    }

    /// Decides about a call site before the numbering.
    ///
    /// # Panics
    ///
    /// When there is no such edge.
    pub fn set_rule(&mut self, edge: EdgeId, rule: Rule) {
        self.rule[edge.index()] = rule;
    }

    /// Adds functions in front of the open node, one in the middle of each call: the caller calls it, and the
    /// edge of the call, if it has one, begins there. Returns the edges of the new calls.
    pub(crate) fn interpose(&mut self, calls: &[(FunctionId, Option<EdgeId>)]) -> Vec<EdgeId> {
        let open = self.open.take().map(|open| open as usize);
        let at = open.unwrap_or(self.functions());
        let new = |i: usize| next_id(at + i);
        let count = calls.len();
        let splice = |rows: &mut Vec<bool>| drop(rows.splice(at..at, std::iter::repeat_n(false, count)));
        splice(&mut self.entry);
        splice(&mut self.required_push);
        self.counted.splice(at..at, std::iter::repeat_n(None, count));
        self.share.splice(at..at, std::iter::repeat_n(None, count));
        if let Some(open) = open {
            self.open = Some(new(count));
            for callee in self.callee.iter_mut().filter(|callee| **callee as usize == open) {
                *callee = new(count);
            }
        }
        let edges = calls.iter().enumerate().map(|(i, &(caller, edge))| {
            if let Some(edge) = edge {
                self.caller[edge.index()] = new(i);
            }
            self.add_edge(caller, FunctionId(new(i)), 0.0)
        });
        edges.collect()
    }

    /// How many functions there are.
    pub fn functions(&self) -> usize {
        self.entry.len()
    }

    /// How many edges there are.
    pub fn edges(&self) -> usize {
        self.caller.len()
    }

    /// The function that contains the call site.
    ///
    /// # Panics
    ///
    /// When `edge` is not an edge of this graph.
    pub fn caller(&self, edge: EdgeId) -> FunctionId {
        FunctionId(self.caller[edge.index()])
    }

    /// The function that the call site calls.
    ///
    /// # Panics
    ///
    /// When `edge` is not an edge of this graph.
    pub fn callee(&self, edge: EdgeId) -> FunctionId {
        FunctionId(self.callee[edge.index()])
    }

    /// Caller and callee of each edge.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        self.caller.iter().copied().zip(self.callee.iter().copied())
    }

    /// In-edges of each function, in ascending order.
    pub(crate) fn in_edges(&self) -> Groups {
        Groups::new(self.functions(), self.callee.iter().zip(0..).map(|(&function, edge)| (function, edge)))
    }
}

fn weight(given: f64) -> f64 {
    // The sum is for -0.0, whose bits are not in the order of the others'.
    if given.is_nan() { 0.0 } else { given.clamp(0.0, MAX_WEIGHT) + 0.0 }
}

/// The largest `u32` stays free, so that counts fit a `u32` too.
fn next_id(count: usize) -> u32 {
    u32::try_from(count).ok().filter(|&id| id < u32::MAX).expect("ids of functions and edges are 32-bit")
}
