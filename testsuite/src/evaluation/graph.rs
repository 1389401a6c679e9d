//! Static characteristics, as in pcce.txt Table 1, from a program's dictionary.
//!
//! "BL max ID" is what the original Ball-Larus numbering needs on the same acyclic graph (pcce.txt §2): it gives every
//! path from a root to a leaf a number of its own, where PCCE numbers the paths to each function by themselves.
//! Recursive calls end one path and start another in both.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::program::Variant;
use crate::checked;

/// What a dictionary says about a program's call graph.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Graph {
    /// Functions; with those of all modules.
    pub nodes: u64,
    /// Direct calls of functions in the same module.
    pub edges: u64,
    /// Recursive calls: back edges, which push.
    pub recursive: u64,
    /// Edges cut because ids would not fit (selective reduction, pcce.txt §7).
    pub cut: u64,
    /// Functions that they lead to: the nodes of the paper's note under Table 1.
    pub reduced: u64,
    /// Calls through pointers.
    pub pointer_calls: u64,
    /// Calls of functions that are not in the module.
    pub external_calls: u64,
    /// The largest id of any function.
    pub max_id: u64,
    /// Of the direct calls that do not push, those that add nothing.
    #[serde(default)]
    pub free: u64,
    /// Those that add something.
    #[serde(default)]
    pub adding: u64,
    /// In a hybrid encoding, how often code was generated to measure frames.
    #[serde(default)]
    pub hybrid_rounds: Option<u64>,
    /// Functions on whose frames it relies.
    #[serde(default)]
    pub frames: u64,
    /// The largest number of the Ball-Larus scheme. It overflows integers.
    pub ball_larus_max_id: f64,
}

/// Reads the dictionary in the executable, with the variant's own tools.
///
/// # Errors
/// If there is none, or it is not understood.
pub fn read(variant: &Variant, executable: &Path) -> Result<Graph> {
    let json = std::env::temp_dir().join(format!("pcce-evaluation-{}.json", std::process::id()));
    let mut pcce = Command::new(variant.tools.join("pcce"));
    checked("pcce dict", pcce.arg("dict").arg(executable).arg("-o").arg(&json).output())?;
    let text = std::fs::read(&json);
    let _ = std::fs::remove_file(&json);
    let dictionary: Value = serde_json::from_slice(&text?)?;
    let modules = dictionary["modules"].as_array().context("a dictionary has modules")?;
    ensure!(!modules.is_empty(), "the dictionary of {} has no modules", executable.display());
    let mut graph = Graph::default();
    for module in modules {
        add(&mut graph, module).with_context(|| format!("{}", module["name"]))?;
    }
    Ok(graph)
}

fn list<'a>(module: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    module[name].as_array().with_context(|| format!("a module has {name}"))
}

fn index(value: &Value) -> Option<usize> {
    value.as_u64().map(|i| i as usize)
}

fn add(graph: &mut Graph, module: &Value) -> Result<()> {
    let functions = list(module, "functions")?;
    let sites = list(module, "sites")?;
    let nodes = functions.len();
    graph.hybrid_rounds = graph.hybrid_rounds.max(module["hybrid_rounds"].as_u64());
    graph.frames += functions.iter().filter(|f| f["frame_offset"].is_u64()).count() as u64;
    let offset = |function: usize| functions[function]["offset"].as_i64().unwrap_or(0) as u64;
    let is_thunk = |function: usize| functions[function]["push_thunk"] == true;
    graph.nodes += (0..nodes).filter(|&function| !is_thunk(function)).count() as u64;
    let num_ccs = functions.iter().map(|f| f["num_cc"].as_u64());
    let open = module["open_num_cc"].as_u64();
    for num_cc in num_ccs.chain(open.map(Some)) {
        graph.max_id = graph.max_id.max(num_cc.context("numCC")?.saturating_sub(1));
    }
    for site in sites {
        match &site["kind"] {
            Value::String(kind) if kind == "indirect" => graph.pointer_calls += 1,
            Value::Object(kind) if kind.contains_key("external") => graph.external_calls += 1,
            _ => {}
        }
    }
    // The open node, which stands for callees that are not known, is the last one.
    let mut callees: Vec<Vec<usize>> = vec![Vec::new(); nodes + 1];
    let mut has_caller = vec![false; nodes + 1];
    // Edges at which a path ends and another one starts.
    let mut ends = vec![0u32; nodes + 1];
    let mut reduced = HashSet::new();
    let edges = list(module, "edges")?;
    let ends_of = |edge: &Value| -> Result<(usize, Option<usize>)> {
        let site = index(&edge["site"]).and_then(|s| sites.get(s)).context("an edge's site")?;
        let caller = index(&site["function"]).filter(|&f| f < nodes).context("a site's function")?;
        Ok((caller, index(&edge["callee"]).filter(|&f| f < nodes)))
    };
    // What a thunk pushes for its caller is the caller's.
    let mut owners: Vec<usize> = (0..nodes).collect();
    for edge in edges {
        if let (caller, Some(thunk)) = ends_of(edge)?
            && is_thunk(thunk)
        {
            owners[thunk] = caller;
        }
    }
    for edge in edges {
        let (caller, callee) = ends_of(edge)?;
        if callee.is_some_and(is_thunk) {
            continue;
        }
        if let (Some(value), Some(callee)) = (edge["code"]["add"].as_u64(), callee) {
            let constant = value.wrapping_add(offset(callee)).wrapping_sub(offset(caller));
            *if constant == 0 { &mut graph.free } else { &mut graph.adding } += 1;
        }
        let caller = owners[caller];
        graph.edges += u64::from(callee.is_some());
        match &edge["code"] {
            Value::Object(_) => {
                let callee = callee.unwrap_or(nodes);
                callees[caller].push(callee);
                has_caller[callee] = true;
            }
            code => {
                graph.recursive += u64::from(code == "back");
                if code == "cut" {
                    graph.cut += 1;
                    reduced.insert(callee);
                }
                ends[caller] += 1;
            }
        }
    }
    graph.reduced += reduced.len() as u64;
    for (i, function) in functions.iter().enumerate() {
        if function["open"] == true {
            callees[nodes].push(i);
            has_caller[i] = true;
        }
    }
    let paths = count_paths(&callees, &ends).context("the graph without back edges has a cycle")?;
    let is_root = |i: usize| match functions.get(i) {
        Some(_) if is_thunk(i) => false,
        // The dummy in-edge makes a function a root, whoever else calls it.
        Some(function) => function["entry"] == true || !has_caller[i],
        None => false,
    };
    let roots: f64 = (0..=nodes).filter(|&i| is_root(i)).map(|i| paths[i]).sum();
    graph.ball_larus_max_id += (roots - 1.0).max(0.0);
    Ok(())
}

/// The number of paths from each node to an end; none if there is a cycle.
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
