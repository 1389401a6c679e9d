//! The in-edges in verify mode's tables ([`pcce_abi::tables`]): how an encoded call becomes a row.

use pcce_abi::tables::{Edge, Function};
use pcce_dictionary::EdgeCode;

/// Adds an encoded call to the tables. `edge` holds everything about the call except its start. `open` is the index of
/// the open node. `starts` gets the sites of direct calls that push, with their callees, where there is an open node.
pub fn add_edge(
    functions: &mut [Function],
    starts: &mut Vec<(u64, usize)>,
    open: Option<usize>,
    code: EdgeCode,
    edge: Edge,
) {
    let (start, callee) = match code {
        EdgeCode::Add(start) => (start, edge.callee),
        EdgeCode::Open(start) => (start, open),
        EdgeCode::Back | EdgeCode::Cut | EdgeCode::Required => {
            starts.extend(edge.callee.filter(|_| open.is_some()).map(|callee| (edge.site, callee)));
            return;
        }
    };
    if let Some(callee) = callee {
        functions[callee].in_edges.push(Edge { start, ..edge });
    }
}
