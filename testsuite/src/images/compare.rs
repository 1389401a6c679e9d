//! What each scheme would push, and how long contexts would be, by a run's own calls.

use std::collections::BTreeMap;

use anyhow::Result;
use pcce::trace::TraceFile;
use serde::Serialize;

use super::adaptive::Adaptive;
use super::calls::{Call, Calls, Step, Way};
use super::graph::{Edge, Graph, crossings, paper, whole};
use super::program::{Action, Process};

/// What is compared: today's pushes, and who pushes no more.
pub const SCHEMES: [&str; 5] = [
    "today",
    "crossings on no cycle are encoded",
    "crossings are encoded, the coldest of each cycle pushes",
    "every call is encoded, the coldest of each cycle pushes",
    "mixed radix: crossings whose product fits",
];
const RADIX: usize = 4;

/// Calls of a kind.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Kind {
    /// Calls.
    pub calls: u64,
    /// Those that push today.
    pub pushes: u64,
    /// Of these, the first ones of an activation, which cost more than others.
    pub first: u64,
    /// Those that would push if every call was encoded.
    pub still: u64,
    /// Those on a cycle of the process's call graph.
    pub on_cycles: u64,
}

/// A scheme's figures.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Scheme {
    /// What it is.
    pub name: &'static str,
    /// Calls between images that push.
    pub crossing_pushes: u64,
    /// All pushes.
    pub pushes: u64,
    /// Frames of a context, in the mean of all entries of functions that are not silent.
    pub frames: f64,
    /// Words of a token: the id, and a site and an id for each frame.
    pub words: f64,
}

/// A point of an encoding that goes on while the program runs (dacce.txt, Fig. 9).
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Point {
    /// Calls so far.
    pub calls: u64,
    /// Nodes that are encoded.
    pub nodes: usize,
    /// Edges that are encoded.
    pub edges: usize,
    /// The largest id.
    pub largest: u64,
}

/// A row of dacce.txt's Table 1.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// Nodes, edges and the largest id of the graph at the end.
    pub nodes: usize,
    /// See `nodes`.
    pub edges: usize,
    /// See `nodes`.
    pub largest: u64,
    /// Calls of traced functions.
    pub calls: u64,
    /// Pushes, and frames of a context in the mean of all calls.
    pub pushes: u64,
    /// See `pushes`.
    pub depth: f64,
    /// How often the graph was encoded, and how long that took in microseconds.
    pub encodings: usize,
    /// See `encodings`.
    pub cost: u128,
    /// How it went on.
    pub progress: Vec<Point>,
}

/// What was found of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Comparison {
    /// The images and their largest numCC.
    pub images: Vec<(String, u64)>,
    /// Gaps in the trace.
    pub gaps: u64,
    /// Calls of traced functions, by the way they went.
    pub kinds: BTreeMap<String, Kind>,
    /// Calls of plain code that push; it calls back or not.
    pub plain_pushes: u64,
    /// Calls within images that add something, and take it away behind.
    pub additions: u64,
    /// Entries of functions that are not silent.
    pub moments: u64,
    /// Calls that these are inside of, in the mean.
    pub stack: f64,
    /// Below how many frames half of these are, nine of ten and 99 of 100: today, and with every call encoded.
    pub quantiles: [[usize; 3]; 2],
    /// The schemes.
    pub schemes: Vec<Scheme>,
    /// The whole process, encoded as in the paper.
    pub row: Row,
}

/// An activation, or unknown code.
#[derive(Clone, Copy, Default)]
struct Active {
    frames: [u32; SCHEMES.len()],
    /// What mixed radix has: the number of the contexts further out, and that within the image.
    outer: u128,
    number: u128,
    /// How many numbers within the image there are in this sub-path.
    space: u128,
    /// Of unknown code: without its push.
    below: [u32; SCHEMES.len()],
    calls: u32,
    /// It has pushed.
    pushed: bool,
}

impl Active {
    /// A sub-path begins in the callee.
    fn begin(&mut self, outer: u128, digit: Digit) {
        (self.outer, self.number, self.space) = (outer, 0, digit.space);
    }
}

/// What mixed radix needs of an edge.
#[derive(Clone, Copy, Default)]
struct Digit {
    /// Its number among the crossings into the callee's image.
    number: u128,
    /// How many these are.
    count: u128,
    /// How many numbers there are in sub-paths that begin in the callee.
    space: u128,
}

/// Most frames that are told apart in quantiles.
const MOST: usize = 4096;

/// Replays a trace, once to know its graph, once to count.
///
/// # Errors
/// Those of reading the trace.
pub fn compare(process: &Process, trace: &TraceFile) -> Result<Comparison> {
    let mut graph = Graph::default();
    let mut calls = Calls::new(process);
    calls.replay(trace, |step| {
        if let Step::Enter(call) = step {
            graph.add(process, &call);
        }
    })?;
    let gaps = calls.gaps;
    let cyclic = graph.on_cycles(|edge| whole(edge).or(edge.silent.then_some(pcce_encoding::Rule::Free)));
    let by_crossing = graph.encode(crossings);
    let by_call = graph.encode(whole);
    let pushes: Vec<[u32; SCHEMES.len()]> = (0..graph.edges.len())
        .map(|number| {
            let edge = &graph.edges[number];
            let now = edge.pushes;
            let free = |pushes: bool| if edge.way.crosses() { u32::from(pushes) } else { now };
            let all = if edge.way == Way::FromPlain { now } else { u32::from(by_call.pushes[number]) };
            [now, free(cyclic[number]), free(by_crossing.pushes[number]), all, now]
        })
        .collect();
    let digits = digits(process, &graph);
    let mut totals = Totals { first: vec![0; graph.edges.len()], ..Totals::default() };
    let mut adaptive = Adaptive::default();
    let mut stack: Vec<Active> = Vec::new();
    let mut seen = Graph::default();
    Calls::new(process).replay(trace, |step| match step {
        Step::Cut(to) => {
            stack.truncate(to);
            adaptive.cut(to);
        }
        Step::Unknown { pushes, leaves } => {
            let mut active = stack.last().copied().unwrap_or_default();
            if leaves {
                stack.pop();
            }
            active.below = active.frames;
            if pushes {
                totals.unknown_pushes += 1;
                active.frames.iter_mut().for_each(|frames| *frames += 1);
            }
            // What it has been called by has pushed before, or does so for the first time.
            if let Some(caller) = stack.last_mut() {
                caller.pushed |= pushes;
            }
            stack.push(active);
            adaptive.unknown(leaves);
        }
        Step::Enter(call) => {
            let edge = seen.add(process, &call);
            let active = totals.enter(&stack, &call, edge, pushes[edge as usize], digits[edge as usize]);
            if call.leaves {
                stack.pop();
            } else if let Some(caller) = stack.last_mut() {
                caller.pushed |= call.action == Action::Push;
            }
            if !process.functions[call.callee as usize].silent {
                totals.moment(&active);
            }
            stack.push(active);
            adaptive.enter(&seen, edge, call.leaves);
        }
    })?;
    let mut result = Comparison { gaps, ..summary(process, &graph, &cyclic, &totals.first, &by_call.pushes) };
    result.plain_pushes = totals.unknown_pushes - totals.known_pushes;
    result.moments = totals.moments;
    result.stack = totals.stack as f64 / totals.moments.max(1) as f64;
    result.quantiles = [0, 1].map(|which| quantiles(&totals.histograms[which]));
    for (scheme, name) in SCHEMES.into_iter().enumerate() {
        let pushes_of = |edges: &dyn Fn(&Edge) -> bool| -> u64 {
            let chosen = graph.edges.iter().zip(&pushes).filter(|(edge, _)| edges(edge));
            // What goes through plain code is counted there.
            chosen.filter(|(e, _)| e.way != Way::FromPlain).map(|(e, p)| e.count * u64::from(p[scheme])).sum()
        };
        let crossing_pushes =
            if scheme == RADIX { totals.radix_pushes } else { pushes_of(&|edge| edge.way.crosses()) };
        let others = pushes_of(&|edge| !edge.way.crosses()) + result.plain_pushes;
        let frames = totals.frames[scheme] as f64 / totals.moments.max(1) as f64;
        let pushes = crossing_pushes + others;
        result.schemes.push(Scheme { name, crossing_pushes, pushes, frames, words: 1.0 + 2.0 * frames });
    }
    let at_end = graph.encode(paper);
    result.row = adaptive.row(&graph, at_end.largest);
    Ok(result)
}

/// What is known without a second look.
fn summary(process: &Process, graph: &Graph, cyclic: &[bool], first: &[u64], still: &[bool]) -> Comparison {
    let images = process.images.iter().map(|image| (image.name.clone(), image.ids)).collect();
    let mut result = Comparison { images, ..Comparison::default() };
    for (number, edge) in graph.edges.iter().enumerate() {
        let image = |function: u32| process.functions.get(function as usize).map(|function| function.image);
        let side = |function| match image(function).map(|image| process.images[image as usize].open) {
            Some(true) => "executable",
            Some(false) => "module",
            None => "plain code",
        };
        let kind = match edge.way {
            Way::Inside | Way::InsideUnbound => format!("{:?}, {}", edge.way, side(edge.caller)),
            way => format!("{way:?}, {} to {}", side(edge.caller), side(edge.callee)),
        };
        let kind = result.kinds.entry(kind).or_default();
        kind.calls += edge.count;
        kind.pushes += edge.count * u64::from(edge.pushes);
        kind.first += first[number];
        kind.still += edge.count * u64::from(still[number]);
        kind.on_cycles += edge.count * u64::from(cyclic[number]);
        if let Action::Add(_, true) | Action::Open(_, true) = edge.action
            && edge.pushes == 0
        {
            result.additions += edge.count;
        }
    }
    result
}

fn digits(process: &Process, graph: &Graph) -> Vec<Digit> {
    let image = |edge: &Edge| process.functions[edge.callee as usize].image as usize;
    let mut counts = vec![0; process.images.len()];
    let mut digits = Vec::with_capacity(graph.edges.len());
    for edge in &graph.edges {
        let Some(callee) = process.functions.get(edge.callee as usize) else {
            digits.push(Digit::default());
            continue;
        };
        let count = &mut counts[image(edge)];
        digits.push(Digit { number: *count, count: 0, space: u128::from(callee.largest) + 1 });
        *count += u128::from(edge.way.crosses());
    }
    for (digit, edge) in digits.iter_mut().zip(&graph.edges).filter(|(_, edge)| edge.way.crosses()) {
        digit.count = counts[image(edge)];
    }
    digits
}

fn quantiles(histogram: &[u64]) -> [usize; 3] {
    let all: u64 = histogram.iter().sum();
    [0.5, 0.9, 0.99].map(|share| {
        let mut below = 0;
        let reached = histogram.iter().position(|count| {
            below += count;
            below as f64 >= share * all as f64
        });
        reached.unwrap_or_default()
    })
}

#[derive(Default)]
struct Totals {
    moments: u64,
    stack: u64,
    frames: [u64; SCHEMES.len()],
    histograms: [Vec<u64>; 2],
    radix_pushes: u64,
    /// By edge.
    first: Vec<u64>,
    /// Pushes before calls of unknown code, and those of them that turned out to enter a traced function.
    unknown_pushes: u64,
    known_pushes: u64,
}

impl Totals {
    fn enter(
        &mut self,
        stack: &[Active],
        call: &Call,
        edge: u32,
        pushes: [u32; SCHEMES.len()],
        digit: Digit,
    ) -> Active {
        let base = stack.last().copied().unwrap_or_default();
        let unknown = !matches!(call.way, Way::Inside | Way::FromPlain);
        if unknown && call.action == Action::Push {
            self.known_pushes += 1;
        }
        let from = if unknown { base.below } else { base.frames };
        // What comes from plain code has the frame of the push before that.
        let pushes = if call.way == Way::FromPlain { [0; SCHEMES.len()] } else { pushes };
        let open = matches!(call.action, Action::Open(..));
        self.first[edge as usize] += u64::from(call.pushes > 0 && (open || !base.pushed));
        let mut active = Active { calls: base.calls + 1, pushed: false, ..base };
        for (scheme, frames) in active.frames.iter_mut().enumerate() {
            *frames = from[scheme] + pushes[scheme];
        }
        match call.action {
            _ if call.way.crosses() && call.pushes > 0 => {
                let product = (base.outer * base.space.max(1) + base.number) * digit.count + digit.number;
                let fits = product.checked_mul(digit.space).is_some_and(|product| product >> 63 == 0);
                active.begin(if fits { product } else { 0 }, digit);
                match fits {
                    true => active.frames[RADIX] = from[RADIX],
                    false => self.radix_pushes += 1,
                }
            }
            Action::Add(value, _) | Action::Open(value, _) => active.number += u128::from(value),
            Action::Push => active.begin(0, digit),
            Action::Nothing if call.way == Way::FromPlain => active.begin(0, digit),
            Action::Nothing => {}
        }
        active
    }

    fn moment(&mut self, active: &Active) {
        self.moments += 1;
        self.stack += u64::from(active.calls);
        for (sum, frames) in self.frames.iter_mut().zip(active.frames) {
            *sum += u64::from(frames);
        }
        for (histogram, scheme) in self.histograms.iter_mut().zip([0, 3]) {
            histogram.resize(MOST, 0);
            histogram[(active.frames[scheme] as usize).min(MOST - 1)] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crossing(pushes: u32) -> Call {
        let action = if pushes > 0 { Action::Push } else { Action::Add(1, true) };
        let way = if pushes > 0 { Way::ByName } else { Way::Inside };
        Call { caller: 0, site: 0, callee: 1, way, action, pushes, leaves: false, through: None }
    }

    #[test]
    fn a_product_that_does_not_fit_pushes() {
        let mut totals = Totals { first: vec![0], ..Totals::default() };
        let digit = Digit { number: 1, count: 2, space: 1 << 41 };
        let unknown = |below: &Active| Active { below: below.frames, ..*below };
        let inner = totals.enter(&[], &crossing(0), 0, [0; SCHEMES.len()], digit);
        assert_eq!(inner.number, 1);
        let crossed = totals.enter(&[unknown(&inner)], &crossing(1), 0, [1; SCHEMES.len()], digit);
        assert_eq!((crossed.outer, crossed.space, crossed.frames), (3, 1 << 41, [1, 1, 1, 1, 0]));
        // 3 * 2^41 contexts with 2^41 in the sub-path that begins are too many.
        let again = totals.enter(&[unknown(&crossed)], &crossing(1), 0, [1; SCHEMES.len()], digit);
        assert_eq!((again.outer, again.frames), (0, [2, 2, 2, 2, 1]));
        assert_eq!((totals.radix_pushes, totals.first[0]), (1, 2));
    }

    #[test]
    fn quantiles_are_of_all() {
        assert_eq!(quantiles(&[50, 40, 9, 1]), [0, 1, 2]);
        assert_eq!(quantiles(&[]), [0; 3]);
    }
}
