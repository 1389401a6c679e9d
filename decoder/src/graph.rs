//! The call graph of a dictionary for Graphviz: numCC of each function, addition values and pushes of its calls, and the heat of a
//! profile.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt::Write as _;

use pcce_dictionary::{Dictionary, EdgeCode, SiteKind};
use thiserror::Error;

use crate::names::demangle;
use crate::printable::printable;
use crate::profile::Stacks;
use crate::profile::report::amount;
use crate::profile::{Metric, Unit};
use crate::trace::FrameKind;

/// What is drawn.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only functions around the one with this name, in the source or in the object file.
    pub around: Option<String>,
    /// So many calls away from it, in both directions.
    pub depth: usize,
    /// With a profile and without `around`, only functions that have at least so many percent of the whole, and calls
    /// that are in the profile.
    pub min_percent: f64,
}

/// Why nothing is drawn.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// There is no such function.
    #[error("no function is named {name}{}", hint(.similar))]
    NoFunction {
        /// The name that was asked for.
        name: String,
        /// Functions whose names contain it.
        similar: Vec<String>,
    },
}

fn hint(names: &[String]) -> String {
    match names {
        [] => "; names are those of the source, or of the object file".to_owned(),
        _ => format!("; there are {}", names.join(", ")),
    }
}

/// A function: number of the module, number in it.
type Node = (usize, usize);

/// The calls of one function by another.
#[derive(Default)]
struct Calls {
    /// What the calls add, in their order.
    added: Vec<u64>,
    /// Calls that push.
    pushes: usize,
}

/// Values of a profile by name: of functions and everything they call, of functions alone, and of calls.
#[derive(Default)]
struct Heat<'a> {
    total: u64,
    inclusive: HashMap<&'a str, u64>,
    own: HashMap<&'a str, u64>,
    calls: HashMap<(&'a str, &'a str), u64>,
}

impl<'a> Heat<'a> {
    fn of(stacks: &'a Stacks, metric: usize) -> Self {
        let mut heat = Self::default();
        for stack in &stacks.stacks {
            let value = stack.values[metric];
            heat.total = heat.total.saturating_add(value);
            // Functions of the call graph: what was inlined is part of its caller.
            let names: Vec<&str> = stack
                .frames
                .iter()
                .map(|&frame| &stacks.frames[frame as usize])
                .filter(|frame| frame.kind == FrameKind::Call && !frame.inlined)
                .map(|frame| &*frame.linkage_name)
                .collect();
            if let Some(first) = names.first() {
                *heat.own.entry(first).or_default() += value;
            }
            let mut seen = HashSet::new();
            for name in &names {
                if seen.insert(name) {
                    *heat.inclusive.entry(name).or_default() += value;
                }
            }
            let pairs: HashSet<_> = names.windows(2).map(|two| (two[1], two[0])).collect();
            for pair in pairs {
                *heat.calls.entry(pair).or_default() += value;
            }
        }
        heat
    }

    fn percent(&self, value: Option<&u64>) -> f64 {
        value.map_or(0.0, |value| *value as f64 * 100.0 / self.total.max(1) as f64)
    }
}

/// A call graph that is drawn, and how many functions there are in it and in all.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// The text for `dot`.
    pub dot: String,
    /// Functions drawn.
    pub shown: usize,
    /// Functions in all.
    pub all: usize,
}

/// Draws the call graph of a dictionary that a [`Decoder`](crate::Decoder) has accepted.
///
/// # Errors
/// [`GraphError`].
pub fn draw(
    dictionary: &Dictionary,
    profile: Option<(&Stacks, usize, &Metric)>,
    selection: &Selection,
) -> Result<Drawing, GraphError> {
    let linkage = |node: Node| {
        let module = &dictionary.modules[node.0];
        &*module.names[module.functions[node.1].name as usize]
    };
    let calls = calls(dictionary);
    let all: Vec<Node> = (dictionary.modules.iter().enumerate())
        .flat_map(|(m, module)| {
            let functions = module.functions.iter().enumerate();
            functions.filter(|(_, function)| !function.push_thunk).map(move |(f, _)| (m, f))
        })
        .collect();
    let heat = profile.map(|(stacks, metric, _)| Heat::of(stacks, metric));
    let hot = |node: Node| {
        heat.as_ref()
            .is_none_or(|heat| heat.percent(heat.inclusive.get(linkage(node))) >= selection.min_percent)
    };
    let mut centre = BTreeSet::new();
    let shown: BTreeSet<Node> = match &selection.around {
        None => all.iter().copied().filter(|&node| hot(node)).collect(),
        Some(name) => {
            let is_named = |node: Node| {
                let (linkage, source) = (linkage(node), demangle(linkage(node)));
                linkage == name || source == *name || without_parameters(&source) == name
            };
            centre.extend(all.iter().copied().filter(|&node| is_named(node)));
            if centre.is_empty() {
                let mut names: Vec<_> = all.iter().map(|&node| demangle(linkage(node))).collect();
                names.retain(|candidate| candidate.contains(name.as_str()));
                names.sort_unstable();
                names.dedup();
                names.truncate(5);
                return Err(GraphError::NoFunction { name: name.clone(), similar: names });
            }
            around(&centre, &calls, selection.depth)
        }
    };

    let mut dot = String::from("digraph calls {\n");
    dot.push_str("  graph [fontname=\"sans-serif\", fontsize=12, labelloc=t, ranksep=0.45, nodesep=0.25");
    let mut title = format!("{}: {} of {} functions", dictionary.program, shown.len(), all.len());
    if let (Some(heat), Some((_, _, metric))) = (&heat, &profile) {
        let _ = write!(title, "; heat: {}, {} in all", metric.title, amount(heat.total, metric.unit));
    }
    let _ = writeln!(dot, ", label={}];", quoted(&title));
    dot.push_str("  node [shape=box, style=\"rounded,filled\", fillcolor=white, color=\"#5a5a5a\", fontname=\"sans-serif\", fontsize=11];\n");
    dot.push_str("  edge [color=\"#5a5a5a\", fontname=\"sans-serif\", fontsize=9, arrowsize=0.7];\n");
    let mut arrows: Vec<(Node, Node, String)> = Vec::new();
    for (&(from, to), calls) in &calls {
        if !shown.contains(&from) || !shown.contains(&to) {
            continue;
        }
        let mut width = String::new();
        if let Some(heat) = &heat {
            match heat.calls.get(&(linkage(from), linkage(to))) {
                None if selection.around.is_none() => continue,
                value => width = pen(heat.percent(value)),
            }
        }
        let arrow = arrow(from, to);
        if !calls.added.is_empty() {
            let label = added(&calls.added);
            arrows.push((from, to, format!("{arrow} [label={}{width}];", quoted(&label))));
        }
        if calls.pushes > 0 {
            let label =
                if calls.pushes == 1 { "push".to_owned() } else { format!("push × {}", calls.pushes) };
            arrows.push((
                from,
                to,
                format!(
                    "{arrow} [label={}, style=dashed, color=\"#b03020\", fontcolor=\"#b03020\"{width}];",
                    quoted(&label)
                ),
            ));
        }
    }
    // Calls that only the profile knows: through pointers, or through code that is not instrumented.
    if let Some(heat) = &heat {
        let mut nodes: HashMap<&str, Node> = HashMap::new();
        for &node in &shown {
            nodes.insert(linkage(node), node);
        }
        let mut dynamic = BTreeMap::new();
        for ((from, to), value) in &heat.calls {
            if let (Some(&from), Some(&to)) = (nodes.get(from), nodes.get(to))
                && !calls.contains_key(&(from, to))
            {
                dynamic.insert((from, to), value);
            }
        }
        for ((from, to), value) in dynamic {
            let (arrow, width) = (arrow(from, to), pen(heat.percent(Some(value))));
            arrows.push((from, to, format!("{arrow} [style=dotted, color=\"#2050a0\"{width}];")));
        }
    }
    for node in ordered(&shown, &arrows, |node| linkage(node) == "main") {
        let module = &dictionary.modules[node.0];
        let function = &module.functions[node.1];
        let mut label = wrapped(&demangle(linkage(node)));
        let _ = write!(label, "\nnumCC {}", amount(function.num_cc, Unit::Count));
        let mut attributes = String::new();
        if let Some(heat) = &heat {
            let inclusive = heat.percent(heat.inclusive.get(linkage(node)));
            let own = heat.percent(heat.own.get(linkage(node)));
            let _ = write!(label, "\n{inclusive:.1} %");
            if own >= 0.05 {
                let _ = write!(label, ", itself {own:.1} %");
            }
            let _ = write!(attributes, ", fillcolor=\"{}\"", colour(inclusive));
        }
        let open = pointers(dictionary, node);
        if open > 0 {
            let _ = write!(label, "\ncalls pointers at {open} place{}", if open == 1 { "" } else { "s" });
        }
        if function.entry {
            attributes.push_str(", peripheries=2");
        }
        if centre.contains(&node) {
            attributes.push_str(", penwidth=2.5, color=black");
        }
        let _ = writeln!(dot, "  f{}_{} [label={}{attributes}];", node.0, node.1, quoted(&label));
    }
    for (_, _, arrow) in &arrows {
        dot.push_str(arrow);
        dot.push('\n');
    }
    dot.push_str("}\n");
    Ok(Drawing { dot, shown: shown.len(), all: all.len() })
}

/// The calls between functions of the dictionary, in other modules by name. What thunks push for others is theirs.
fn calls(dictionary: &Dictionary) -> BTreeMap<(Node, Node), Calls> {
    let mut by_name: HashMap<&str, Node> = HashMap::new();
    for (m, module) in dictionary.modules.iter().enumerate() {
        for (f, function) in module.functions.iter().enumerate().filter(|(_, function)| function.external) {
            for &name in std::iter::once(&function.name).chain(&function.aliases) {
                by_name.insert(&module.names[name as usize], (m, f));
            }
        }
    }
    let mut calls: BTreeMap<(Node, Node), Calls> = BTreeMap::new();
    for (m, module) in dictionary.modules.iter().enumerate() {
        let caller_of = |site: u32| module.sites[site as usize].function as usize;
        let is_thunk = |callee: u32| module.functions[callee as usize].push_thunk;
        let mut callers: Vec<usize> = (0..module.functions.len()).collect();
        for edge in &module.edges {
            if let Some(thunk) = edge.callee.filter(|&callee| is_thunk(callee)) {
                callers[thunk as usize] = caller_of(edge.site);
            }
        }
        for edge in module.edges.iter().filter(|edge| !edge.callee.is_some_and(is_thunk)) {
            let caller = callers[caller_of(edge.site)];
            // Calls through pointers reach no function that is known.
            let Some(callee) = edge.callee else { continue };
            let entry = calls.entry(((m, caller), (m, callee as usize))).or_default();
            match edge.code {
                EdgeCode::Add(value) | EdgeCode::Open(value) => entry.added.push(value),
                EdgeCode::Back | EdgeCode::Cut | EdgeCode::Required => entry.pushes += 1,
            }
        }
        for site in &module.sites {
            if let SiteKind::External(name) = site.kind
                && let Some(&callee) = by_name.get(&*module.names[name as usize])
            {
                calls.entry(((m, callers[site.function as usize]), callee)).or_default().pushes += 1;
            }
        }
    }
    calls
}

/// Callers before callees as far as it goes, from `main` on: where there are cycles, `dot` puts at the top what comes first.
fn ordered(
    shown: &BTreeSet<Node>,
    arrows: &[(Node, Node, String)],
    is_main: impl Fn(Node) -> bool,
) -> Vec<Node> {
    let mut callees: HashMap<Node, Vec<Node>> = HashMap::new();
    for &(from, to, _) in arrows {
        callees.entry(from).or_default().push(to);
    }
    let mut order = Vec::with_capacity(shown.len());
    let mut seen = HashSet::new();
    let (first, others): (Vec<Node>, Vec<Node>) = shown.iter().partition(|&&node| is_main(node));
    for start in first.into_iter().chain(others) {
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            if seen.insert(node) {
                order.push(node);
                queue.extend(callees.get(&node).into_iter().flatten());
            }
        }
    }
    order
}

/// The functions at most `depth` calls away.
fn around(centre: &BTreeSet<Node>, calls: &BTreeMap<(Node, Node), Calls>, depth: usize) -> BTreeSet<Node> {
    let mut neighbours: HashMap<Node, Vec<Node>> = HashMap::new();
    for &(from, to) in calls.keys() {
        neighbours.entry(from).or_default().push(to);
        neighbours.entry(to).or_default().push(from);
    }
    let mut found = centre.clone();
    let mut queue: VecDeque<(Node, usize)> = centre.iter().map(|&node| (node, 0)).collect();
    while let Some((node, distance)) = queue.pop_front() {
        if distance == depth {
            continue;
        }
        for &next in neighbours.get(&node).into_iter().flatten() {
            if found.insert(next) {
                queue.push_back((next, distance + 1));
            }
        }
    }
    found
}

fn arrow(from: Node, to: Node) -> String {
    format!("  f{}_{} -> f{}_{}", from.0, from.1, to.0, to.1)
}

/// The width of an arrow.
fn pen(percent: f64) -> String {
    format!(", penwidth={:.1}", 1.0 + percent / 20.0)
}

/// How many of the function's calls go through pointers.
fn pointers(dictionary: &Dictionary, node: Node) -> usize {
    let sites = dictionary.modules[node.0].sites.iter();
    sites.filter(|site| site.function as usize == node.1 && site.kind == SiteKind::Indirect).count()
}

/// What calls add: the values, the first few where there are many.
fn added(values: &[u64]) -> String {
    const FEW: usize = 2;
    let mut text: Vec<String> =
        values.iter().take(FEW).map(|&value| format!("+{}", amount(value, Unit::Count))).collect();
    if values.len() > FEW {
        text.push(format!("… ({} calls)", values.len()));
    }
    text.join(" ")
}

/// The name of a C++ function without its parameters.
fn without_parameters(name: &str) -> &str {
    name.split_once('(').map_or(name, |(start, _)| start)
}

/// Long names on several lines.
fn wrapped(name: &str) -> String {
    const WIDTH: usize = 40;
    const MOST: usize = 160;
    let mut text = String::new();
    let mut column = 0;
    for (number, c) in printable(name).chars().enumerate() {
        if number == MOST {
            text.push('…');
            break;
        }
        text.push(c);
        column += 1;
        if column >= WIDTH && matches!(c, ',' | ':' | '<' | '(' | '_' | ' ') {
            text.push('\n');
            column = 0;
        }
    }
    text
}

/// A quoted string of the DOT language.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// From white over yellow to red.
fn colour(percent: f64) -> String {
    // Small shares must be told apart, too.
    let share = (percent / 100.0).clamp(0.0, 1.0).sqrt();
    let green = 255.0 - 150.0 * share;
    let blue = 255.0 - 215.0 * share.min(1.0);
    format!("#ff{:02x}{:02x}", green as u8, blue as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_for_dot() {
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
        assert_eq!(wrapped("operator<<(int)\u{7}"), "operator<<(int)\\u{7}");
        assert!(wrapped(&"ab,".repeat(100)).lines().count() > 3);
    }

    #[test]
    fn few_values_are_shown() {
        assert_eq!(added(&[0, 1_000]), "+0 +1,000");
        assert_eq!(added(&[0, 1, 2, 3, 4]), "+0 +1 … (5 calls)");
    }
}
