//! Encodes a large call graph and decodes a million ids of it; prints seconds and peak memory.
//!
//! `cargo run --release -p pcce-encoding --example large [FUNCTIONS [EDGES]]`, 100,000 and 1,000,000 unless
//! told.
//!
//! The graph is the same on every run. Functions stand in an order, and most calls lead forward to a function
//! nearby, as in real programs; a tenth lead to a few hundred popular functions near the end, a twentieth
//! back, which makes one component of most functions, and frequencies spread over six decades.

use std::time::Instant;

use pcce_encoding::decode::{AddEdge, FunctionRow, PathDecoder};
use pcce_encoding::{CallGraph, EdgeCode, EdgeId, FunctionId, Options, PushReason, encode};

/// A linear congruential generator (Knuth's MMIX constants), for the same graph everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((u128::from(self.0) * bound as u128) >> 64) as usize
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse().expect("numbers of functions and edges"));
    let functions: usize = arguments.next().unwrap_or(100_000).max(2);
    let edges: usize = arguments.next().unwrap_or(1_000_000);

    let mut random = Random(1);
    let mut graph = CallGraph::new();
    for function in 0..functions {
        graph.add_function(function == 0 || random.below(20) == 0, random.below(200) == 0);
    }
    let popular = functions.div_ceil(300);
    for _ in 0..edges {
        let caller = random.below(functions);
        let near = 1 + random.below(functions.div_ceil(50));
        let callee = match random.below(20) {
            0 => caller.saturating_sub(near),
            1 | 2 => functions - 1 - random.below(popular),
            _ => (caller + near).min(functions - 1),
        };
        let in_loop = if random.below(50) == 0 { 32.0 } else { 1.0 };
        let frequency = in_loop * 0.1f64.powi(random.below(6) as i32) * (1 + random.below(9)) as f64 / 10.0;
        graph.add_edge(FunctionId::new(caller as u32), FunctionId::new(callee as u32), frequency);
    }

    for id_bits in [64, 32] {
        let start = Instant::now();
        let encoding = encode(&graph, &Options { id_bits, ..Options::default() });
        println!("{id_bits} bits: encoded in {:.3} s", start.elapsed().as_secs_f64());
        println!("{:?}", encoding.summary());
        let share = |pushes: &dyn Fn(EdgeCode) -> bool| {
            let weights = (0..edges as u32).map(EdgeId::new).filter(|&edge| pushes(encoding.edge(edge)));
            weights.map(|edge| encoding.edge_weight(edge)).sum::<f64>()
        };
        for reason in [PushReason::Back, PushReason::Cut, PushReason::Required] {
            let pushed = share(&|code| code == EdgeCode::Push(reason));
            println!("{reason:?}: {:.3} % of the expected calls", pushed / share(&|_| true) * 100.0);
        }

        let rows: Vec<FunctionRow> = (0..functions as u32)
            .map(FunctionId::new)
            .map(|f| FunctionRow { num_cc: encoding.num_cc(f), entry: encoding.is_entry(f), open: false })
            .collect();
        let adding = (0..edges as u32).filter_map(|site| {
            let edge = EdgeId::new(site);
            let EdgeCode::Add(value) = encoding.edge(edge) else { return None };
            Some(AddEdge { caller: graph.caller(edge), callee: graph.callee(edge), value, site })
        });
        let start = Instant::now();
        let decoder = PathDecoder::new(&rows, None, adding).expect("an encoding is a table");
        println!("table checked in {:.3} s", start.elapsed().as_secs_f64());

        let tokens: Vec<(FunctionId, u64)> = (0..1_000_000)
            .map(|_| {
                let function = random.below(functions);
                (FunctionId::new(function as u32), random.below(rows[function].num_cc as usize) as u64)
            })
            .collect();
        let start = Instant::now();
        let steps: usize =
            tokens.iter().map(|&(f, id)| decoder.path(f, id).expect("an id of f").count()).sum();
        println!("{} ids, {steps} calls decoded in {:.3} s", tokens.len(), start.elapsed().as_secs_f64());
    }
    // Linux only; elsewhere the figure is left out.
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        status.lines().filter(|line| line.starts_with("VmHWM")).for_each(|line| println!("{line}"));
    }
}
