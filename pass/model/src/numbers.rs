//! Places at which functions take context numbers (`pcce_context()`), and their ranges of numbers.
//!
//! Inlining makes one function of several, so that a function and its id do not tell contexts apart. A place is the
//! captures of a function with one inline stack, and has a range of its own: a number below 2⁶³ alone identifies place
//! and context (pcce.txt §3, lucce.txt §3, where each function has one range).

use std::collections::HashMap;

use pcce_abi as abi;
use pcce_dictionary::Location;
use pcce_encoding::{EdgeId, Encoding, FunctionId};

use crate::hybrid::Used;
use crate::program::{CallKind, Program, RuntimeCall};

/// A place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    pub function: FunctionId,
    /// One of its captures, by place in the function's calls.
    pub call: usize,
    /// The first number of its range; none if the process gives the numbers.
    pub range: Option<u64>,
    /// All its captures are in the line of `call`.
    pub line: bool,
}

/// The places of a program.
#[derive(Default)]
pub struct Numbers {
    places: Vec<Place>,
    /// For each capture, its place.
    of: HashMap<(FunctionId, usize), usize>,
}

/// The number of a capture's place, for the code there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capture {
    /// The capture that represents the place, by place in the function's calls.
    pub call: usize,
    /// The number that is added to the id to make a context number; [`abi::NO_RANGE`] without a range.
    pub base: u64,
}

/// Captures with one key are one place. The key is the innermost function with its file, and the other locations; if
/// lines count, it is all locations.
type Key<'l> = (Option<(u32, u32)>, &'l [Location]);

impl Numbers {
    /// Finds the places, and gives them ranges. `by_line`: a place has one line. `locations` are those of a call, by
    /// function and place in its calls, innermost first.
    ///
    /// Small ranges come first: a number with fewer digits leaves more room for the number of a chain of frames beside
    /// it. If not all fit below 2⁶³, the rarest places have none. In libraries, no place has a range: nothing would
    /// tell the numbers of one image from those of another.
    pub fn new<'l>(
        program: &Program,
        encoding: &Encoding,
        used: Option<&Used>,
        by_line: bool,
        locations: impl Fn(FunctionId, usize) -> &'l [Location],
    ) -> Self {
        let mut numbers = Self::default();
        let whole = program.graph.open_node().is_some();
        // In the other functions, stack offsets tell contexts apart.
        let by_id = |id| used.is_none_or(|used| !used.hybrid.needs_stack_offset(id));
        let mut weights = vec![0.0; program.functions.len()];
        for edge in (0..program.graph.edges() as u32).map(EdgeId::new) {
            // The open node comes last.
            if let Some(weight) = weights.get_mut(program.graph.callee(edge).index()) {
                *weight += encoding.edge_weight(edge);
            }
        }
        // For each place, its expected executions, and the locations of its first capture.
        let mut found: Vec<(f64, &[Location])> = Vec::new();
        for (function, facts) in program.iter() {
            let has_range = whole && by_id(function);
            // A number that the process gives has the site in it, with its line.
            let exact = by_line || !has_range;
            let mut known: HashMap<Key<'_>, usize> = HashMap::new();
            for (c, call) in facts.calls.iter().enumerate() {
                if !matches!(call.kind, CallKind::Runtime(RuntimeCall::Context)) {
                    continue;
                }
                let locations = locations(function, c);
                let key = match locations {
                    [inner, callers @ ..] if !exact => (Some((inner.name, inner.file)), callers),
                    all => (None, all),
                };
                let place = *known.entry(key).or_insert_with(|| {
                    let range = has_range.then_some(0);
                    numbers.places.push(Place { function, call: c, range, line: true });
                    found.push((0.0, locations));
                    numbers.places.len() - 1
                });
                found[place].0 += call.frequency * weights[function.index()].max(1.0);
                numbers.places[place].line &= found[place].1 == locations;
                numbers.of.insert((function, c), place);
            }
        }
        let executions = |place: &usize| found[*place].0;
        let num_cc = |place: usize| encoding.num_cc(numbers.places[place].function);
        let mut by_use: Vec<usize> =
            (0..numbers.places.len()).filter(|&place| numbers.places[place].range.is_some()).collect();
        by_use.sort_by(|a, b| executions(b).total_cmp(&executions(a)));
        // Number 0 means "no context".
        let mut all = 1_u64;
        let mut fits = Vec::with_capacity(by_use.len());
        for place in by_use {
            if let Some(end) = all.checked_add(num_cc(place)).filter(|&end| end <= abi::INTERNED) {
                all = end;
                fits.push(place);
            }
        }
        fits.sort_by_key(|&place| (num_cc(place), place));
        let mut next = 1_u64;
        let mut ranges = vec![None; numbers.places.len()];
        for place in fits {
            ranges[place] = Some(next);
            next += num_cc(place);
        }
        for (place, range) in numbers.places.iter_mut().zip(ranges) {
            place.range = range;
        }
        numbers
    }

    /// The places, in the order of the program.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The number of a capture's place; none for another call.
    pub fn of(&self, encoding: &Encoding, function: FunctionId, call: usize) -> Option<Capture> {
        let place = &self.places[*self.of.get(&(function, call))?];
        let base = place.range.map_or(abi::NO_RANGE, |range| range.wrapping_sub(encoding.offset(function)));
        Some(Capture { call: place.call, base })
    }
}
