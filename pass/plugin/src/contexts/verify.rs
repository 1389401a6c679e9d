//! The module's tables for verify mode: for each function a record with its in-edges, by which the runtime decodes
//! contexts while the program runs.

use std::collections::{BTreeMap, HashMap};

use pcce_abi::{self as abi, layout};

use super::plan::{Action, Plan};
use crate::facts::Program;
use crate::llvm::{Callee, Module, Value};

/// What verify mode uses of the runtime, and its tables of the module.
pub struct Symbols {
    /// One `abi::FunctionRecord` for each function.
    pub records: Value,
    /// At each entry.
    pub enter: Callee,
    /// Before each return.
    pub exit: Callee,
    /// Before a call that stays a tail call.
    pub leave: Callee,
    /// Where control comes back without a return.
    pub resume: Callee,
    /// Address of `tls.shadow`.
    pub shadow: Value,
}

/// An in-edge of a function's record, with the places of its functions in the plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct InEdge {
    start: u64,
    constant: u64,
    caller: usize,
    site: u32,
    callee: Option<u32>,
}

/// A table of rows that belong to functions, one behind the other.
struct Table {
    address: Value,
    /// Where the rows of each function begin, in rows; and where the last ones end.
    starts: Vec<u64>,
}

impl Table {
    fn count(&self, function: usize) -> u64 {
        self.starts[function + 1] - self.starts[function]
    }
}

/// What the tables are made of.
struct Maker<'a> {
    module: Module,
    plan: &'a Plan,
    sites: Value,
    records: Value,
    /// The open node has the last record.
    open: Option<usize>,
    count: usize,
}

/// Makes the tables. `sites`: the module's site array; `tls`: the thread's block.
pub fn symbols(module: Module, program: &Program, plan: &Plan, sites: Value, tls: Value) -> Symbols {
    let (i64, ptr, void) = (module.i64(), module.ptr(), module.void());
    let record_type =
        module.struct_type(&[ptr, i64, i64, i64, i64, i64, ptr, ptr, ptr, ptr, i64, i64, ptr, i64]);
    let open = plan.dictionary.open_num_cc.map(|_| plan.functions.len());
    let count = plan.functions.len() + usize::from(open.is_some());
    let records = module.add_internal("__pcce_functions", module.array_type(record_type, count as u64), true);
    let maker = Maker { module, plan, sites, records, open, count };

    let (starts, start_count) = maker.starts();
    let edges = maker.in_edges();
    let groups = maker.tail_groups();
    let names = maker.names(program);
    let rows: Vec<Value> = (0..count)
        .map(|i| {
            let function = plan.dictionary.functions.get(i);
            let entry_site = plan.functions.get(i).and_then(|f| f.entry_site);
            module.const_struct(&[
                module.const_offset(edges.address, edges.starts[i] * size_of::<abi::InEdge>() as u64),
                module.const_i64(edges.count(i)),
                module.const_i64(function.is_none_or(|f| f.entry).into()),
                module.const_i64(function.is_some_and(|f| f.open).into()),
                module.const_i64(function.map_or(0, |f| f.offset as u64)),
                module.const_i64(function.is_some_and(|f| f.silent).into()),
                module.const_offset(names.address, names.starts[i]),
                entry_site.map_or(module.null(), |site| maker.site(site)),
                open.map_or(module.null(), |open| maker.record(open)),
                starts,
                module.const_i64(start_count),
                module.const_i64(plan.functions.get(i).is_some_and(|f| f.needs_offset).into()),
                module.const_offset(groups.address, groups.starts[i] * size_of::<u64>() as u64),
                module.const_i64(groups.count(i)),
            ])
        })
        .collect();
    records.initialize(module.const_array(record_type, &rows));
    Symbols {
        records,
        enter: module.external_function(abi::functions::VERIFY_ENTER, void, &[ptr, ptr]),
        exit: module.external_function(abi::functions::VERIFY_EXIT, void, &[ptr]),
        leave: module.external_function(abi::functions::VERIFY_LEAVE, void, &[ptr]),
        resume: module.external_function(abi::functions::VERIFY_RESUME, void, &[ptr]),
        shadow: module.const_offset(tls, layout::TLS_SHADOW),
    }
}

impl Maker<'_> {
    fn record(&self, function: usize) -> Value {
        self.module.const_offset(self.records, (function * size_of::<abi::FunctionRecord>()) as u64)
    }

    fn site(&self, site: u32) -> Value {
        self.module.const_offset(self.sites, site.into())
    }

    /// Where the sub-paths start that direct calls of a whole program begin, and how many they are.
    fn starts(&self) -> (Value, u64) {
        let module = self.module;
        let adds =
            |code| matches!(code, pcce_dictionary::EdgeCode::Add(_) | pcce_dictionary::EdgeCode::Open(_));
        let pushes = self.plan.dictionary.edges.iter().filter(|edge| self.open.is_some() && !adds(edge.code));
        let pushes: BTreeMap<u32, u32> = pushes.filter_map(|edge| Some((edge.site, edge.callee?))).collect();
        let row = |(&site, &callee)| module.const_struct(&[self.site(site), self.record(callee as usize)]);
        let rows: Vec<Value> = pushes.iter().map(row).collect();
        let row_type = module.struct_type(&[module.ptr(), module.ptr()]);
        let table =
            module.add_internal("__pcce_starts", module.array_type(row_type, rows.len() as u64), true);
        table.initialize(module.const_array(row_type, &rows));
        (table, rows.len() as u64)
    }

    /// The in-edges that add, of each function in the order of their values.
    fn in_edges(&self) -> Table {
        let (module, dictionary) = (self.module, &self.plan.dictionary);
        let mut in_edges: Vec<Vec<InEdge>> = vec![Vec::new(); self.count];
        let calls = self.plan.functions.iter().flat_map(|f| &f.calls);
        let constants: HashMap<u32, u64> = calls
            .filter_map(|call| match call.action {
                Action::Add(constant) => Some((call.site, constant)),
                _ => None,
            })
            .collect();
        for edge in &dictionary.edges {
            let (start, callee) = match edge.code {
                pcce_dictionary::EdgeCode::Add(start) => (start, edge.callee.map(|f| f as usize)),
                pcce_dictionary::EdgeCode::Open(start) => (start, self.open),
                _ => continue,
            };
            if let Some(callee) = callee {
                let caller = dictionary.sites[edge.site as usize].function as usize;
                let constant = constants.get(&edge.site).copied().unwrap_or(0);
                in_edges[callee].push(InEdge {
                    start,
                    constant,
                    caller,
                    site: edge.site,
                    callee: edge.callee,
                });
            }
        }
        let mut rows = Vec::new();
        let mut starts = vec![0];
        for list in &mut in_edges {
            list.sort_unstable();
            rows.extend(list.iter().map(|edge| {
                let group = dictionary.sites[edge.site as usize].tail_group;
                module.const_struct(&[
                    module.const_i64(edge.start),
                    module.const_i64(edge.constant),
                    self.record(edge.caller),
                    self.site(edge.site),
                    module.const_i64(group.map_or(abi::NO_GROUP, u64::from)),
                    edge.callee.map_or(module.null(), |callee| self.record(callee as usize)),
                ])
            }));
            starts.push(rows.len() as u64);
        }
        let (i64, ptr) = (module.i64(), module.ptr());
        let row_type = module.struct_type(&[i64, i64, ptr, ptr, i64, ptr]);
        let address =
            module.add_internal("__pcce_in_edges", module.array_type(row_type, rows.len() as u64), true);
        address.initialize(module.const_array(row_type, &rows));
        Table { address, starts }
    }

    /// The groups of functions of which one may have left its frame to the function; of the open node, to another module.
    fn tail_groups(&self) -> Table {
        let (module, dictionary) = (self.module, &self.plan.dictionary);
        let mut rows = Vec::new();
        let mut starts = vec![0];
        let lists = dictionary.functions.iter().map(|f| &f.tail_groups);
        for list in lists.chain(self.open.map(|_| &dictionary.leaving_groups)) {
            rows.extend(list.iter().map(|&group| module.const_i64(group.into())));
            starts.push(rows.len() as u64);
        }
        let i64 = module.i64();
        let address =
            module.add_internal("__pcce_tail_groups", module.array_type(i64, rows.len() as u64), true);
        address.initialize(module.const_array(i64, &rows));
        Table { address, starts }
    }

    /// The names, each with a zero behind it; the open node's is empty.
    fn names(&self, program: &Program) -> Table {
        let mut names = String::new();
        let mut starts = Vec::with_capacity(self.count);
        for function in &program.functions {
            starts.push(names.len() as u64);
            names.push_str(&function.name);
            names.push('\0');
        }
        starts.push(names.len() as u64);
        let module = self.module;
        let address = module.add_internal("__pcce_names", module.bytes(names.len() as u64 + 1), true);
        address.initialize(module.const_string(names.as_bytes()));
        Table { address, starts }
    }
}
