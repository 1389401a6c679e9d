//! Static characteristics, as in pcce.txt Table 1, from a program's dictionary.
//!
//! "BL max ID" is what the original Ball-Larus numbering needs on the same acyclic graph (pcce.txt §2): it gives every
//! path from a root to a leaf a number of its own, where PCCE numbers the paths to each function by themselves.
//! Recursive calls end one path and start another in both.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use pcce_dictionary::{Edge, EdgeCode, Encoding, Function, Module, SiteKind};
use serde::{Deserialize, Serialize};

use super::declarations::Variant;
use crate::checked;

/// A program's call graph according to its dictionary.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Graph {
    /// Functions of all modules.
    pub nodes: u64,
    /// Direct calls of functions in the same module.
    pub edges: u64,
    /// Recursive calls: back edges, which push.
    pub recursive: u64,
    /// Edges cut because ids would not fit (selective reduction, pcce.txt §7).
    pub cut: u64,
    /// Functions that these edges lead to: the nodes of the paper's note under Table 1.
    pub reduced: u64,
    pub pointer_calls: u64,
    /// Calls of functions that are not in the module.
    pub external_calls: u64,
    /// The largest id of any function.
    pub max_id: u64,
    /// Direct calls that neither push nor add.
    #[serde(default)]
    pub free: u64,
    /// Direct calls that add.
    #[serde(default)]
    pub adding: u64,
    /// Rounds of code generation that have measured frames for a hybrid encoding.
    #[serde(default)]
    pub hybrid_rounds: Option<u64>,
    /// Functions whose frames the hybrid encoding relies on.
    #[serde(default)]
    pub frames: u64,
    /// The largest number of the Ball-Larus scheme. It overflows integers.
    pub ball_larus_max_id: f64,
}

/// Reads the dictionaries of an executable and its libraries, with the variant's own tools.
pub fn read<'a>(variant: &Variant, images: impl Iterator<Item = &'a Path>) -> Result<Graph> {
    let mut graph = Graph::default();
    for image in images {
        read_image(variant, image, &mut graph)?;
    }
    Ok(graph)
}

/// Adds the dictionary of an image.
fn read_image(variant: &Variant, executable: &Path, graph: &mut Graph) -> Result<()> {
    let json = std::env::temp_dir().join(format!("pcce-evaluation-{}.json", std::process::id()));
    let mut pcce = Command::new(variant.tools.join("pcce"));
    checked("pcce dict", pcce.arg("dict").arg(executable).arg("-o").arg(&json).output())?;
    let text = std::fs::read(&json);
    let _ = std::fs::remove_file(&json);
    let dictionary = pcce_dictionary::from_json(&text?)?;
    ensure!(!dictionary.modules.is_empty(), "the dictionary of {} has no modules", executable.display());
    for encoding in &dictionary.encodings {
        let modules = dictionary.modules.get(encoding.first_module as usize..);
        let modules = modules.and_then(|modules| modules.get(..encoding.module_count as usize));
        let modules = modules.context("an encoding's modules")?;
        add(graph, modules, encoding).with_context(|| modules[0].name.clone())?;
    }
    Ok(())
}

/// Adds an encoding and its modules.
fn add(graph: &mut Graph, modules: &[Module], encoding: &Encoding) -> Result<()> {
    let functions = &encoding.functions;
    let symbols: Vec<&Function> = modules.iter().flat_map(|module| &module.functions).collect();
    let nodes = symbols.len();
    ensure!(functions.len() == nodes, "an encoding has a row for each function");
    if let Some(hybrid) = &encoding.hybrid {
        graph.hybrid_rounds = graph.hybrid_rounds.max(Some(hybrid.rounds.into()));
        graph.frames += hybrid.stack_sizes.len() as u64;
    }
    let offset = |function: usize| functions[function].id_offset as u64;
    let is_thunk = |function: usize| symbols[function].push_thunk;
    graph.nodes += symbols.iter().filter(|function| !function.push_thunk).count() as u64;
    for num_cc in functions.iter().map(|function| function.num_cc).chain(encoding.open_num_cc) {
        graph.max_id = graph.max_id.max(num_cc.saturating_sub(1));
    }
    // The caller of each site, and the callee of a direct call.
    let mut sites: Vec<(usize, Option<usize>)> = Vec::new();
    let mut first = 0;
    for module in modules {
        for site in &module.sites {
            let callee = match site.kind {
                SiteKind::Direct(callee) => callee.map(|callee| first + callee as usize),
                SiteKind::External(_) | SiteKind::Replaced(_) | SiteKind::Indirect | SiteKind::Asm => None,
                SiteKind::Capture | SiteKind::Entry => None,
            };
            graph.pointer_calls += u64::from(site.kind == SiteKind::Indirect);
            graph.external_calls += u64::from(matches!(site.kind, SiteKind::External(_)));
            sites.push((first + site.function as usize, callee));
        }
        first += module.functions.len();
    }
    // The open node, which stands for callees that are not known, is the last one.
    let mut callees: Vec<Vec<usize>> = vec![Vec::new(); nodes + 1];
    let mut has_caller = vec![false; nodes + 1];
    // Edges at which a path ends and another one starts.
    let mut ends = vec![0u32; nodes + 1];
    let mut reduced = HashSet::new();
    let ends_of = |edge: &Edge| -> Result<(usize, Option<usize>)> {
        let &(caller, callee) = sites.get(edge.site as usize).context("an edge's site")?;
        let callee = edge.callee.map(|callee| callee as usize).or(callee);
        ensure!(caller < nodes && callee.is_none_or(|callee| callee < nodes), "a site's functions");
        Ok((caller, callee))
    };
    // A push in a thunk counts for the thunk's caller.
    let mut owners: Vec<usize> = (0..nodes).collect();
    for edge in &encoding.edges {
        if let (caller, Some(thunk)) = ends_of(edge)?
            && is_thunk(thunk)
        {
            owners[thunk] = caller;
        }
    }
    for edge in &encoding.edges {
        let (caller, callee) = ends_of(edge)?;
        if callee.is_some_and(is_thunk) {
            continue;
        }
        if let (EdgeCode::Add(value), Some(callee)) = (edge.code, callee) {
            let constant = value.wrapping_add(offset(callee)).wrapping_sub(offset(caller));
            *if constant == 0 { &mut graph.free } else { &mut graph.adding } += 1;
        }
        let caller = owners[caller];
        graph.edges += u64::from(callee.is_some());
        match edge.code {
            EdgeCode::Add(_) | EdgeCode::Open(_) => {
                let callee = callee.unwrap_or(nodes);
                callees[caller].push(callee);
                has_caller[callee] = true;
            }
            EdgeCode::Back | EdgeCode::Cut | EdgeCode::Required => {
                graph.recursive += u64::from(edge.code == EdgeCode::Back);
                if edge.code == EdgeCode::Cut {
                    graph.cut += 1;
                    reduced.insert(callee);
                }
                ends[caller] += 1;
            }
        }
    }
    graph.reduced += reduced.len() as u64;
    for (i, _) in functions.iter().enumerate().filter(|(_, function)| function.open) {
        callees[nodes].push(i);
        has_caller[i] = true;
    }
    let paths = count_paths(&callees, &ends).context("the graph without back edges has a cycle")?;
    let is_root = |i: usize| match functions.get(i) {
        Some(_) if is_thunk(i) => false,
        // The dummy in-edge makes a function a root, whoever else calls it.
        Some(function) => function.entry || !has_caller[i],
        None => false,
    };
    let roots: f64 = (0..=nodes).filter(|&i| is_root(i)).map(|i| paths[i]).sum();
    graph.ball_larus_max_id += (roots - 1.0).max(0.0);
    Ok(())
}

/// The number of paths from each node to an end, or `None` if there is a cycle.
fn count_paths(callees: &[Vec<usize>], ends: &[u32]) -> Option<Vec<f64>> {
    let mut waiting: Vec<usize> = callees.iter().map(Vec::len).collect();
    let mut callers: Vec<Vec<usize>> = vec![Vec::new(); callees.len()];
    for (caller, callees) in callees.iter().enumerate() {
        for &callee in callees {
            callers[callee].push(caller);
        }
    }
    let mut ready: Vec<usize> = (0..callees.len()).filter(|&i| waiting[i] == 0).collect();
    let mut paths: Vec<f64> = ends.iter().map(|&e| f64::from(e)).collect();
    let mut done = 0;
    while let Some(node) = ready.pop() {
        done += 1;
        if callees[node].is_empty() {
            paths[node] = paths[node].max(1.0);
        }
        for &caller in &callers[node] {
            paths[caller] += paths[node];
            waiting[caller] -= 1;
            if waiting[caller] == 0 {
                ready.push(caller);
            }
        }
    }
    (done == callees.len()).then_some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_of_pcce_figure_2() {
        // A calls B and C, these call D, D calls E and F: four paths, the largest number is 3.
        let callees = [vec![1, 2], vec![3], vec![3], vec![4, 5], vec![], vec![]];
        assert_eq!(count_paths(&callees, &[0; 6]).unwrap()[0], 4.0);
    }

    #[test]
    fn cycles_are_found() {
        assert!(count_paths(&[vec![1], vec![0]], &[0; 2]).is_none());
    }
}
