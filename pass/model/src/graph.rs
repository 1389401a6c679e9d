//! From the functions to the call graph (pcce.txt, Definition 1): entries, edges, and expected executions of
//! edges.

use std::collections::HashMap;

use pcce_encoding::{CallGraph, FunctionId};

use crate::error::Error;
use crate::profile::Matched;
use crate::program::{CallKind, Function, Program, Reach, TypeId, Unannounced, ids};
use crate::{Mode, silent, tail_calls};

/// How often an open call is expected to reach a function that it has never reached in the profile, relative
/// to the expectation without a profile.
const NEVER_SEEN: f64 = 1e-6;

/// Makes the call graph, and derives the facts about functions that follow from all of them together.
/// `counts` returns how often functions and calls were executed; it is called when silent functions are
/// marked. A function without a count has the count of LLVM's own profile or estimates.
///
/// # Errors
/// A function can be neither instrumented nor left out without wrong contexts.
pub fn derive(
    mut functions: Vec<Function>,
    mode: &Mode<'_>,
    counts: impl FnOnce(&[Function]) -> Matched,
) -> Result<Program, Error> {
    match mode.targets {
        Some(targets) => silent::mark_untargeted(&mut functions, mode.closed, targets),
        None if mode.silent => silent::mark_closed(&mut functions),
        None => {}
    }
    let counts = counts(&functions);
    let mut graph = CallGraph::new();
    for (i, function) in functions.iter_mut().enumerate() {
        let count = counts.functions.get(i).copied().flatten();
        add_function(&mut graph, function, mode.open, count)?;
    }
    if mode.open {
        graph.add_open_node();
        add_open_targets(&mut graph, &functions, &counts);
    }
    set_counted(&mut functions, &counts);
    add_edges(&mut graph, &mut functions, mode, &counts);
    let leaving_groups = tail_calls::find_groups(&mut functions, mode.open);
    Ok(Program { functions, graph, leaving_groups, counts })
}

/// Adds the function to the graph, and decides whether open calls of other modules may enter it.
fn add_function(
    graph: &mut CallGraph,
    function: &mut Function,
    open: bool,
    count: Option<f64>,
) -> Result<(), Error> {
    // A silent function may be entered with any id.
    if function.silent {
        function.unannounced = Unannounced::Never;
    }
    let pushes_itself = function.unannounced == Unannounced::AnyId;
    // Tail calls of a silent function do not matter.
    let leaves = function.leaves() && !function.silent;
    if pushes_itself && leaves {
        return Err(Error::FrameNotKept { function: function.name.clone() });
    }
    // Any use other than the callee of an edge: by another module, a pointer, an alias, a constructor table,
    // or a caller that is not instrumented.
    let entry = function.external || function.otherwise_used;
    if entry && !open && !pushes_itself && !function.silent {
        function.unannounced = Unannounced::Open;
    }
    // A function with tail calls leaves its activation to their callees, which start a sub-path where the
    // function did. So it must have started one itself, or have been reached by an open call, as they are. A
    // function that pushes at its entry because it cannot be diverted has a frame with an open call's id, or
    // 0.
    let frame_at_entry = function.unannounced == Unannounced::Open && !function.can_be_diverted;
    let required_push = pushes_itself || frame_at_entry || (leaves && !open);
    let id = graph.add_function(entry, required_push);
    // A silent function has no edges.
    if let Some(count) = count.or(function.entry_count).filter(|_| !function.silent) {
        graph.set_count(id, count);
    }
    Ok(())
}

/// Adds the targets of open calls. A call through a pointer is expected to reach each function of its type
/// equally often, and functions of other types rarely.
fn add_open_targets(graph: &mut CallGraph, functions: &[Function], counts: &Matched) {
    let mut targets: HashMap<TypeId, Vec<FunctionId>> = HashMap::new();
    for (id, function) in ids(functions) {
        let reached = function.otherwise_used || function.leaves() || function.is_callable_by_name();
        if reached && !function.silent {
            targets.entry(function.ty).or_default().push(id);
        }
    }
    let mut open_calls: HashMap<TypeId, usize> = HashMap::new();
    let calls = functions.iter().flat_map(|function| &function.calls);
    for call in calls.filter(|call| call.kind == CallKind::Indirect) {
        *open_calls.entry(call.ty).or_default() += 1;
    }
    let calls: usize = open_calls.values().sum();
    let entered = counts.entered_openly(functions);
    let all_entered: f64 = entered.iter().sum();
    for (ty, of_this_type) in targets {
        let of_type = open_calls.get(&ty).copied().unwrap_or(0) as f64;
        for &function in &of_this_type {
            let expected = (of_type + 0.01) / (calls.max(1) * of_this_type.len()) as f64;
            let share = if all_entered > 0.0 {
                entered[function.index()] / all_entered + expected * NEVER_SEEN
            } else {
                expected
            };
            graph.add_open_target(function, share);
        }
    }
}

/// Replaces the expected executions of calls by those that the profile has counted.
fn set_counted(functions: &mut [Function], counts: &Matched) {
    // Contexts do not tell how often an activation calls.
    for (&(caller, call), &calls) in counts.calls.iter().filter(|_| !counts.by_site) {
        if let Some(&Some(entries)) = counts.functions.get(caller)
            && calls + entries > 0.0
        {
            functions[caller].calls[call].frequency = calls / entries.max(1.0);
        }
    }
}

fn add_edges(graph: &mut CallGraph, functions: &mut [Function], mode: &Mode<'_>, counts: &Matched) {
    let open_node = graph.open_node();
    let facts: Vec<(bool, bool)> = functions.iter().map(|f| (f.silent, f.leaves())).collect();
    for (from, caller) in (0..).map(FunctionId::new).zip(functions).filter(|(_, caller)| !caller.silent) {
        for c in 0..caller.calls.len() {
            let call = &caller.calls[c];
            let to = match call.kind.reach() {
                Reach::Function(callee) => {
                    let (silent, leaves) = facts[callee.index()];
                    if silent {
                        continue;
                    }
                    open_node.filter(|_| leaves).unwrap_or(callee)
                }
                // A silent callee has an edge, too: its stub needs the context.
                Reach::Replaceable(callee) => callee,
                // Calls that leave the program by name have no edges, nor has assembly: they may switch
                // stacks, and only a push restores what was there before. A heap profiler takes contexts in
                // code that is not instrumented, where only a push names the site. A call whose pointer was
                // compared with its known targets is cold: it pushes.
                Reach::Pointer if !mode.publishes && !call.compared => match open_node {
                    Some(node) => node,
                    None => continue,
                },
                Reach::Pointer | Reach::Outside | Reach::Runtime | Reach::Nothing => continue,
            };
            let first = caller.first_copy(c);
            if first < c {
                caller.calls[c].edge = caller.calls[first].edge;
                continue;
            }
            let frequency =
                |copy: usize| counts.learnt(from.index(), copy).unwrap_or(caller.calls[copy].frequency);
            let frequency = caller.copies(c).map(frequency).sum();
            caller.calls[c].edge = Some(graph.add_edge(from, to, frequency));
        }
    }
}
