//! Precise calling context encoding: a call graph in, an encoding out, and the way back from an id to its
//! path.
//!
//! The method is that of Sumner et al., *Precise Calling Context Encoding* (ICSE 2010), called "the paper"
//! here: the acyclic part is its Algorithm 1 (§4), recursion its Algorithm 3 (§5), selective reduction its
//! §7, and decoding its Algorithm 2 (§4). This crate holds values and algorithms only. It never sees LLVM, a
//! file, a clock or a random number, and equal graphs give equal encodings on every machine.
//!
//! # What an encoding says
//!
//! The instrumented program keeps one number, `id`. A call site whose edge has the code [`EdgeCode::Add`]
//! adds a constant before the call and takes it away after it. The constant is the value of the edge or, with
//! fewer edges where it is not 0, [`Encoding::constant`]: then `id` is a function's number plus
//! [`Encoding::offset`]. One with [`EdgeCode::Push`] saves `id` and the site, sets `id` to 0, and restores it
//! after the call. Everything between two pushes is a *sub-path*: function and `id` name it exactly.
//!
//! In a function `f`, `id` is always below [`Encoding::num_cc`]`(f)`, and if `f` can be entered with id 0, by
//! a push or from outside the graph, then id 0 in `f` means exactly that: the sub-path starts here
//! ([`Encoding::is_entry`], the paper's dummy in-edge). Where decoding is told in which function a sub-path
//! starts, that function needs no such id ([`Options::known_starts`]).
//!
//! # Stages
//!
//! [`encode`] runs five of them, each a module: function weights (`weight`), back edges (`back`), then
//! numbering in topological order (`number`) with selective reduction (`reduce`), and offsets (`offset`);
//! components and orders of functions are petgraph's (`order`). All are iterative and near-linear in
//! functions plus edges. [`hybrid`] may leave out additions afterwards. Where in a function its frame is
//! begun, [`frame_places()`] says.
//!
//! ```
//! use pcce_encoding::{CallGraph, EdgeCode, Options, PushReason, encode};
//!
//! let mut graph = CallGraph::new();
//! let main = graph.add_function(true, false);
//! let walk = graph.add_function(false, false);
//! let call = graph.add_edge(main, walk, 1.0);
//! let recursion = graph.add_edge(walk, walk, 0.5);
//! let encoding = encode(&graph, &Options::default());
//! assert_eq!(encoding.edge(call), EdgeCode::Add(1)); // 0 is taken by the sub-path that the push starts
//! assert_eq!(encoding.edge(recursion), EdgeCode::Push(PushReason::Back));
//! assert_eq!(encoding.num_cc(walk), 2);
//! ```

#![forbid(unsafe_code)]

mod back;
pub mod decode;
mod edge_code;
mod encoding;
mod frame_places;
mod graph;
mod groups;
pub mod hybrid;
mod number;
mod offset;
mod order;
mod path;
mod reduce;
mod table;
mod weight;

pub use edge_code::{EdgeCode, Options, PushReason};
pub use encoding::{Encoding, Summary, encode};
pub use frame_places::{FlowBlock, FramePlace, Way, frame_places};
pub use graph::{CallGraph, EdgeId, FunctionId, Rule};
pub use order::edges_on_cycles;
