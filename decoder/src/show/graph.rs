//! The call graph of a dictionary for Graphviz, with the heat of a profile, and with how it is encoded: numCC of
//! each function, addition values and pushes of its calls.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt::Write as _;

use pcce_dictionary::{Dictionary, EdgeCode, EncodedFunction, Function, SiteKind};
use thiserror::Error;

use crate::names::{Wanted, hint};
use crate::names::{demangle, short};
use crate::printable::printable;
use crate::profile::Stacks;
use crate::profile::heat::Heat;
use crate::profile::report::amount;
use crate::profile::{Metric, Unit};
use crate::show::standing::Standing;

#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only functions around the one with this name.
    pub around: Option<Wanted>,
    /// The distance from it, in calls, in both directions.
    pub depth: usize,
    /// With a profile and without `around`, only functions that have at least this percentage of the whole, and
    /// calls that are in the profile.
    pub min_percent: f64,
    /// True if the drawing also shows how the graph is encoded.
    pub encoding: bool,
}

/// The reason why nothing is drawn.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// There is no such function.
    #[error("{}", .standing.why(.name).unwrap_or_else(|| format!("no function is named {name}{}", hint(.similar))))]
    NoFunction {
        /// The name that was asked for.
        name: String,
        /// The dictionary's facts about functions of the name.
        standing: Standing,
        /// Functions whose names contain it, or are like it.
        similar: Vec<String>,
    },
}

/// A function: number of the module, number in it.
type Node = (usize, usize);

/// An edge at a site: the code, and the callee if the link has bound the call to it.
type SiteEdge = (EdgeCode, Option<Node>);

/// The calls of one function by another.
#[derive(Default)]
struct Calls {
    /// The values that the calls add, in their order.
    added: Vec<u64>,
    pushes: usize,
}

/// The drawing of a call graph, with the number of functions in it and in all.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// The text for `dot`.
    pub dot: String,
    pub shown: usize,
    pub all: usize,
    /// True if the function that was asked for is silent: its calls are not encoded, and it has no arrows.
    pub silent: bool,
}

/// Draws the call graph of a dictionary that a [`Decoder`](crate::Decoder) has accepted.
pub fn draw(
    dictionary: &Dictionary,
    profile: Option<(&Stacks, usize, &Metric)>,
    selection: &Selection,
) -> Result<Drawing, GraphError> {
    let graph = Graph {
        dictionary,
        calls: calls(dictionary),
        heat: profile.map(|(stacks, metric, _)| Heat::of(stacks, metric)),
    };
    let all = graph.functions();
    let (shown, centre) = graph.select(&all, selection)?;

    let mut dot = String::from("digraph calls {\n");
    dot.push_str("  graph [fontname=\"sans-serif\", fontsize=12, labelloc=t, ranksep=0.45, nodesep=0.25");
    let mut title = format!("{}: {} of {} functions", dictionary.program, shown.len(), all.len());
    if let (Some(heat), Some((_, _, metric))) = (&graph.heat, &profile) {
        let _ = write!(title, "; heat: {}, {} in all", metric.title, amount(heat.total, metric.unit));
    }
    let _ = writeln!(dot, ", label={}];", quoted(&title));
    dot.push_str("  node [shape=box, style=\"rounded,filled\", fillcolor=white, color=\"#5a5a5a\", fontname=\"sans-serif\", fontsize=11];\n");
    dot.push_str("  edge [color=\"#5a5a5a\", fontname=\"sans-serif\", fontsize=9, arrowsize=0.7];\n");
    let mut arrows = graph.arrows(&shown, selection);
    graph.add_dynamic_arrows(&shown, &mut arrows);
    let encoded = encoded(dictionary);
    for node in ordered(&shown, &arrows, |node| graph.linkage_name(node) == "main") {
        let encoded = Some(&encoded[node.0][node.1]).filter(|_| selection.encoding);
        graph.add_function(&mut dot, node, encoded, centre.contains(&node));
    }
    for (_, _, arrow) in &arrows {
        dot.push_str(arrow);
        dot.push('\n');
    }
    dot.push_str("}\n");
    let silent = centre.iter().any(|&node| graph.function(node).silent);
    Ok(Drawing { dot, shown: shown.len(), all: all.len(), silent })
}

/// The call graph of a dictionary, with the heat of a profile.
struct Graph<'d> {
    dictionary: &'d Dictionary,
    calls: BTreeMap<(Node, Node), Calls>,
    heat: Option<Heat<'d>>,
}

impl<'d> Graph<'d> {
    fn function(&self, node: Node) -> &'d Function {
        &self.dictionary.modules[node.0].functions[node.1]
    }

    fn linkage_name(&self, node: Node) -> &'d str {
        &self.dictionary.modules[node.0].names[self.function(node).name as usize]
    }

    /// All functions, except those that only push for others.
    fn functions(&self) -> Vec<Node> {
        let modules = self.dictionary.modules.iter().enumerate();
        modules
            .flat_map(|(m, module)| {
                let functions = module.functions.iter().enumerate();
                functions.filter(|(_, function)| !function.push_thunk).map(move |(f, _)| (m, f))
            })
            .collect()
    }

    /// The functions that are shown, and those that were asked for.
    fn select(
        &self,
        all: &[Node],
        selection: &Selection,
    ) -> Result<(BTreeSet<Node>, BTreeSet<Node>), GraphError> {
        let Some(name) = &selection.around else {
            let hot = |node: Node| {
                let inclusive = |heat: &Heat<'_>| heat.percent(heat.inclusive.get(self.linkage_name(node)));
                self.heat.as_ref().is_none_or(|heat| inclusive(heat) >= selection.min_percent)
            };
            return Ok((all.iter().copied().filter(|&node| hot(node)).collect(), BTreeSet::new()));
        };
        let is_named = |node: Node| {
            let linkage = self.linkage_name(node);
            name.fits(linkage, &demangle(linkage))
        };
        let centre: BTreeSet<Node> = all.iter().copied().filter(|&node| is_named(node)).collect();
        if centre.is_empty() {
            let names: Vec<String> = all.iter().map(|&node| demangle(self.linkage_name(node))).collect();
            let mut standing = Standing::default();
            standing.add_dictionary(self.dictionary, name);
            return Err(GraphError::NoFunction {
                name: name.text().to_owned(),
                standing,
                similar: name.similar(names.iter().map(String::as_str)),
            });
        }
        Ok((around(&centre, &self.calls, selection.depth), centre))
    }

    /// The calls of the dictionary between functions that are shown. With a profile and without
    /// [`Selection::around`], only those that are in the profile.
    fn arrows(&self, shown: &BTreeSet<Node>, selection: &Selection) -> Vec<(Node, Node, String)> {
        let mut arrows = Vec::new();
        for (&(from, to), calls) in &self.calls {
            if !shown.contains(&from) || !shown.contains(&to) {
                continue;
            }
            let mut width = String::new();
            if let Some(heat) = &self.heat {
                match heat.calls.get(&(self.linkage_name(from), self.linkage_name(to))) {
                    None if selection.around.is_none() => continue,
                    value => width = pen(heat.percent(value)),
                }
            }
            let arrow = arrow(from, to);
            if !selection.encoding {
                let attributes = width.strip_prefix(", ").map(|width| format!(" [{width}]"));
                arrows.push((from, to, format!("{arrow}{};", attributes.unwrap_or_default())));
                continue;
            }
            if !calls.added.is_empty() {
                let label = quoted(&added(&calls.added));
                arrows.push((from, to, format!("{arrow} [label={label}{width}];")));
            }
            if calls.pushes > 0 {
                let label =
                    if calls.pushes == 1 { "push".to_owned() } else { format!("push × {}", calls.pushes) };
                let label = quoted(&label);
                let colour = "color=\"#b03020\", fontcolor=\"#b03020\"";
                arrows.push((from, to, format!("{arrow} [label={label}, style=dashed, {colour}{width}];")));
            }
        }
        arrows
    }

    /// Adds calls that only the profile knows: through pointers, or through code that is not instrumented.
    fn add_dynamic_arrows(&self, shown: &BTreeSet<Node>, arrows: &mut Vec<(Node, Node, String)>) {
        let Some(heat) = &self.heat else { return };
        let mut nodes: HashMap<&str, Node> = HashMap::new();
        for &node in shown {
            nodes.insert(self.linkage_name(node), node);
        }
        let mut dynamic = BTreeMap::new();
        for ((from, to), value) in &heat.calls {
            if let (Some(&from), Some(&to)) = (nodes.get(from), nodes.get(to))
                && !self.calls.contains_key(&(from, to))
            {
                dynamic.insert((from, to), value);
            }
        }
        for ((from, to), value) in dynamic {
            let (arrow, width) = (arrow(from, to), pen(heat.percent(Some(value))));
            arrows.push((from, to, format!("{arrow} [style=dotted, color=\"#2050a0\"{width}];")));
        }
    }

    fn add_function(&self, dot: &mut String, node: Node, encoded: Option<&EncodedFunction>, asked_for: bool) {
        let name = self.linkage_name(node);
        let mut label = wrapped(&demangle(name));
        if let Some(encoded) = encoded {
            let _ = write!(label, "\nnumCC {}", amount(encoded.num_cc, Unit::Count));
        }
        let mut attributes = String::new();
        if let Some(heat) = &self.heat {
            let inclusive = heat.percent(heat.inclusive.get(name));
            let own = heat.percent(heat.own.get(name));
            let _ = write!(label, "\n{inclusive:.1} %");
            if own >= 0.05 {
                let _ = write!(label, ", itself {own:.1} %");
            }
            let _ = write!(attributes, ", fillcolor=\"{}\"", colour(inclusive));
        }
        let open = pointers(self.dictionary, node);
        if open > 0 {
            let _ = write!(label, "\ncalls pointers at {open} place{}", if open == 1 { "" } else { "s" });
        }
        if encoded.is_some_and(|encoded| encoded.entry) {
            attributes.push_str(", peripheries=2");
        }
        if asked_for {
            attributes.push_str(", penwidth=2.5, color=black");
        }
        let _ = writeln!(dot, "  f{}_{} [label={}{attributes}];", node.0, node.1, quoted(&label));
    }
}

/// The encoded functions of each module.
fn encoded(dictionary: &Dictionary) -> Vec<&[EncodedFunction]> {
    let mut rows: Vec<&[EncodedFunction]> = vec![&[]; dictionary.modules.len()];
    for encoding in &dictionary.encodings {
        let mut rest = &encoding.functions[..];
        for module in (encoding.first_module as usize..).take(encoding.module_count as usize) {
            (rows[module], rest) = rest.split_at(dictionary.modules[module].functions.len());
        }
    }
    rows
}

/// The edges at the sites of each module.
fn edges(dictionary: &Dictionary) -> Vec<Vec<Option<SiteEdge>>> {
    let mut edges: Vec<Vec<_>> =
        dictionary.modules.iter().map(|module| vec![None; module.sites.len()]).collect();
    for encoding in &dictionary.encodings {
        let first = encoding.first_module as usize;
        let count = encoding.module_count as usize;
        let functions: Vec<Node> = (first..)
            .zip(&dictionary.modules[first..][..count])
            .flat_map(|(m, module)| (0..module.functions.len()).map(move |f| (m, f)))
            .collect();
        let mut sites: Vec<&mut Option<_>> = edges[first..][..count].iter_mut().flatten().collect();
        for edge in &encoding.edges {
            let callee = edge.callee.map(|callee| functions[callee as usize]);
            *sites[edge.site as usize] = Some((edge.code, callee));
        }
    }
    edges
}

/// For each module that is encoded together with others, the first one of these.
fn linked(dictionary: &Dictionary) -> Vec<Option<u32>> {
    let mut linked = vec![None; dictionary.modules.len()];
    for encoding in dictionary.encodings.iter().filter(|encoding| encoding.module_count > 1) {
        let first = encoding.first_module;
        linked[first as usize..][..encoding.module_count as usize].fill(Some(first));
    }
    linked
}

/// The calls between functions of the dictionary. Calls by name lead where the link has bound them, or to the
/// function that has the name. The pushes of thunks count as those of the functions for which they push.
fn calls(dictionary: &Dictionary) -> BTreeMap<(Node, Node), Calls> {
    let mut by_name: HashMap<&str, Node> = HashMap::new();
    for (m, module) in dictionary.modules.iter().enumerate() {
        for (f, function) in module.functions.iter().enumerate().filter(|(_, function)| function.external) {
            for &name in std::iter::once(&function.name).chain(&function.aliases) {
                by_name.insert(&module.names[name as usize], (m, f));
            }
        }
    }
    // The link knows which functions of other modules are silent.
    let linked = linked(dictionary);
    let left_alone = |from: usize, to: Node| {
        linked[from].is_some()
            && linked[from] == linked[to.0]
            && dictionary.modules[to.0].functions[to.1].silent
    };
    let mut calls: BTreeMap<(Node, Node), Calls> = BTreeMap::new();
    for (m, (module, edges)) in dictionary.modules.iter().zip(edges(dictionary)).enumerate() {
        let is_thunk = |callee: u32| module.functions[callee as usize].push_thunk;
        let mut callers: Vec<usize> = (0..module.functions.len()).collect();
        for site in &module.sites {
            if let SiteKind::Direct(Some(thunk)) = site.kind
                && is_thunk(thunk)
            {
                callers[thunk as usize] = site.function as usize;
            }
        }
        for (site, edge) in module.sites.iter().zip(edges) {
            let caller = (m, callers[site.function as usize]);
            // Calls through pointers reach no function that is known.
            let (callee, code) = match (site.kind, edge) {
                (_, Some((code, Some(callee)))) => (callee, code),
                (SiteKind::Direct(Some(callee)), Some((code, None))) if !is_thunk(callee) => {
                    ((m, callee as usize), code)
                }
                (SiteKind::External(name), _) => match by_name.get(&*module.names[name as usize]) {
                    Some(&callee) if !left_alone(m, callee) => (callee, EdgeCode::Required),
                    _ => continue,
                },
                _ => continue,
            };
            let entry = calls.entry((caller, callee)).or_default();
            match code {
                EdgeCode::Add(value) | EdgeCode::Open(value) => entry.added.push(value),
                EdgeCode::Back | EdgeCode::Cut | EdgeCode::Required => entry.pushes += 1,
            }
        }
    }
    calls
}

/// The functions in an order from `main` on, with callers before callees as far as possible. Of a cycle, `dot` puts
/// the first function at the top.
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

fn pen(percent: f64) -> String {
    format!(", penwidth={:.1}", 1.0 + percent / 20.0)
}

/// The number of the function's calls through pointers.
fn pointers(dictionary: &Dictionary, node: Node) -> usize {
    let sites = dictionary.modules[node.0].sites.iter();
    sites.filter(|site| site.function as usize == node.1 && site.kind == SiteKind::Indirect).count()
}

/// The values that calls add; the first few where there are many.
fn added(values: &[u64]) -> String {
    const MAX_VALUES: usize = 2;
    let mut text: Vec<String> =
        values.iter().take(MAX_VALUES).map(|&value| format!("+{}", amount(value, Unit::Count))).collect();
    if values.len() > MAX_VALUES {
        text.push(format!("… ({} calls)", values.len()));
    }
    text.join(" ")
}

/// Breaks a long name into several lines. A very long one gets its short form first. No name within a name is cut.
fn wrapped(name: &str) -> String {
    const WIDTH: usize = 40;
    const MAX_LEN: usize = 160;
    let name = if name.chars().count() > MAX_LEN { short(name) } else { name.into() };
    let (mut text, mut column, mut length) = (String::new(), 0, 0);
    for part in printable(&name).split_inclusive([',', ':', '<', '(', ' ']) {
        let width = part.chars().count();
        // Both colons of `::` belong to the part before them.
        if column > 0 && column + width > WIDTH && part != ":" {
            text.push('\n');
            column = 0;
        }
        length += width;
        if length > MAX_LEN && !text.is_empty() {
            text.push('…');
            break;
        }
        text.push_str(part);
        column += width;
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

/// A colour from white over yellow to red.
fn colour(percent: f64) -> String {
    // Small shares must look different, too.
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
        let long = wrapped(&"ab,".repeat(100));
        assert!(long.lines().count() > 3 && long.ends_with(",…"), "{long}");
        let name = "app::Store<std::__cxx11::basic_string<char, std::char_traits<char> > >::add_a_very_long_name(int)";
        let lines = [
            "app::Store<std::__cxx11::basic_string<",
            "char, std::char_traits<char> > >::",
            "add_a_very_long_name(int)",
        ];
        assert_eq!(wrapped(name), lines.join("\n"));
        // Template arguments go before anything is cut.
        let longest = format!("app::Store<{}>::add(int)", "std::pair<int, int>, ".repeat(9));
        assert_eq!(wrapped(&longest), "app::Store::add");
        let one = "a".repeat(200);
        assert_eq!(wrapped(&one), one);
    }

    #[test]
    fn few_values_are_shown() {
        assert_eq!(added(&[0, 1_000]), "+0 +1,000");
        assert_eq!(added(&[0, 1, 2, 3, 4]), "+0 +1 … (5 calls)");
    }
}
