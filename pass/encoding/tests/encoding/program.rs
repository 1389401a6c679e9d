//! An instrumented program, simulated: it calls and returns, and keeps id and stack as the emitted code
//! would.

use pcce_encoding::decode::{AddEdge, FunctionRow, PathDecoder};
use pcce_encoding::{EdgeCode, Encoding, PushReason};

use crate::checker::{Model, added, edge, function};

pub struct Program<'a> {
    model: &'a Model,
    encoding: &'a Encoding,
    /// A number plus the function's offset.
    pub id: u64,
    /// Saved id and pushing edge.
    pub stack: Vec<(u64, usize)>,
    /// What really happened: where it began, and each open call with the id and the stack's height before it.
    begin: usize,
    /// Edge, callee, id and height.
    calls: Vec<(usize, usize, u64, usize)>,
}

impl<'a> Program<'a> {
    pub fn new(model: &'a Model, encoding: &'a Encoding, begin: usize) -> Self {
        Self { model, encoding, id: 0, stack: Vec::new(), begin, calls: Vec::new() }
    }

    pub fn function(&self) -> usize {
        self.calls.last().map_or(self.begin, |&(_, callee, ..)| callee)
    }

    /// `target` chooses what an open call reaches.
    pub fn call(&mut self, call: usize, target: usize) {
        assert_eq!(self.model.edges[call].0, self.function());
        let mut callee = self.model.edges[call].1;
        if self.model.open == Some(callee) {
            let targets = self.model.open_targets();
            let Some(&target) = targets.get(target % targets.len().max(1)) else { return };
            callee = target;
        }
        self.calls.push((call, callee, self.id, self.stack.len()));
        match self.encoding.constant(edge(call)) {
            Some(constant) => self.id = self.id.wrapping_add(constant),
            None => {
                self.stack.push((self.id, call));
                self.id = 0;
            }
        }
    }

    pub fn ret(&mut self) {
        let Some((call, _, id, height)) = self.calls.pop() else { return };
        match self.encoding.constant(edge(call)) {
            Some(constant) => self.id = self.id.wrapping_sub(constant),
            None => self.id = self.stack.pop().expect("a push was made").0,
        }
        assert_eq!((self.id, self.stack.len()), (id, height), "a call leaves the state as it found it");
    }

    /// Where a sub-path starts that this edge began, if that is told.
    fn known_start(&self, pushed: usize) -> Option<usize> {
        let callee = self.model.edges[pushed].1;
        let required = EdgeCode::Push(PushReason::Required);
        let told = self.model.known_starts && self.encoding.edge(edge(pushed)) != required;
        (told && self.model.open != Some(callee)).then_some(callee)
    }

    /// Decodes function, id and stack (the paper, Algorithm 3, DecodeStack), and compares with what really
    /// happened.
    pub fn check(&self, decoder: &PathDecoder) {
        let mut decoded = Vec::new(); // edges, innermost first
        let (mut at, mut id) = (self.function(), self.id);
        for depth in (0..=self.stack.len()).rev() {
            let pushed = depth.checked_sub(1).map(|outer| self.stack[outer].1);
            let start = pushed.and_then(|pushed| self.known_start(pushed));
            let offset = |n: usize| self.encoding.offset(function(n));
            let number = id.wrapping_add(start.map_or(0, offset)).wrapping_sub(offset(at));
            let path = decoder.path_from(start.map(function), function(at), number);
            for call in path.expect("the number is one of the function's") {
                decoded.push(call.site as usize);
                at = call.caller.index();
            }
            if depth > 0 {
                let (saved, pushed) = self.stack[depth - 1];
                let callee = self.model.edges[pushed].1;
                let leads = callee == at || self.model.open == Some(callee);
                assert!(leads, "the sub-path begins where the push leads");
                decoded.push(pushed);
                (at, id) = (self.model.edges[pushed].0, saved);
            }
        }
        assert_eq!(at, self.begin);
        assert!(
            decoded.iter().rev().eq(self.calls.iter().map(|(edge, ..)| edge)),
            "{decoded:?} {:?}",
            self.calls
        );
    }
}

pub fn rows(model: &Model, encoding: &Encoding) -> (Vec<FunctionRow>, Vec<AddEdge>) {
    let targets = model.open_targets();
    let functions = (0..model.functions.len())
        .map(|n| FunctionRow {
            num_cc: encoding.num_cc(function(n)),
            entry: encoding.is_entry(function(n)),
            open: targets.contains(&n),
        })
        .collect();
    let edges = model
        .edges
        .iter()
        .enumerate()
        .filter_map(|(e, &(caller, callee, _))| {
            let value = added(encoding, e)?;
            Some(AddEdge { caller: function(caller), callee: function(callee), value, site: e as u32 })
        })
        .collect();
    (functions, edges)
}

pub fn decoder(model: &Model, encoding: &Encoding) -> PathDecoder {
    let (functions, edges) = rows(model, encoding);
    PathDecoder::new(&functions, model.open.map(function), edges.into_iter()).expect("an encoding is a table")
}
