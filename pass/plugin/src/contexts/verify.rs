//! The module's tables for verify mode: for each function a record with its in-edges, by which the runtime decodes
//! contexts while the program runs.

use std::collections::{BTreeMap, HashMap};

use pcce_abi::{self as abi, layout};

use crate::llvm::{Address, Callee, Constant, Module};
use pcce_model::Program;
use pcce_model::plan::{Action, Plan};

/// What verify mode uses of the runtime, and its tables of the module.
pub struct Symbols<'m> {
    /// One `abi::FunctionRecord` for each function.
    pub records: Address<'m>,
    /// At each entry.
    pub enter: Callee<'m>,
    /// Before each return.
    pub exit: Callee<'m>,
    /// Before a call that stays a tail call.
    pub leave: Callee<'m>,
    /// Where control comes back without a return.
    pub resume: Callee<'m>,
    /// Address of `tls.shadow`.
    pub shadow: Address<'m>,
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
struct Table<'m> {
    address: Address<'m>,
    /// Where the rows of each function begin, in rows; and where the last ones end.
    starts: Vec<u64>,
}

impl Table<'_> {
    fn count(&self, function: usize) -> u64 {
        self.starts[function + 1] - self.starts[function]
    }
}

/// What the tables are made of.
struct Maker<'a, 'm> {
    module: Module<'m>,
    plan: &'a Plan,
    sites: Address<'m>,
    records: Address<'m>,
    /// The open node has the last record.
    open: Option<usize>,
    count: usize,
}

/// Makes the tables. `sites`: the module's site array; `tls`: the thread's block.
pub fn symbols<'m>(
    module: Module<'m>,
    program: &Program,
    plan: &Plan,
    sites: Address<'m>,
    tls: Address<'m>,
) -> Symbols<'m> {
    let (i64, ptr) = (module.i64(), module.ptr());
    let record_type =
        module.struct_type(&[ptr, i64, i64, i64, i64, i64, ptr, ptr, ptr, ptr, i64, i64, ptr, i64]);
    let open = plan.encoding.open_num_cc.map(|_| plan.functions.len());
    let count = plan.functions.len() + usize::from(open.is_some());
    let records = module.add_internal("__pcce_functions", module.array_type(record_type, count as u64), true);
    let table = records;
    let records = records.address();
    let maker = Maker { module, plan, sites, records, open, count };

    let (starts, start_count) = maker.starts();
    let edges = maker.in_edges();
    let groups = maker.tail_groups();
    let names = maker.names(program);
    let rows: Vec<Constant<'_>> = (0..count)
        .map(|i| {
            let function = plan.symbols.functions.get(i);
            let encoded = plan.encoding.functions.get(i);
            let entry_site = plan.functions.get(i).and_then(|f| f.entry_site);
            module.const_struct(&[
                module.const_offset(edges.address, edges.starts[i] * size_of::<abi::InEdge>() as u64).into(),
                module.const_i64(edges.count(i)).into(),
                module.const_i64(encoded.is_none_or(|f| f.entry).into()).into(),
                module.const_i64(encoded.is_some_and(|f| f.open).into()).into(),
                module.const_i64(encoded.map_or(0, |f| f.id_offset as u64)).into(),
                module.const_i64(function.is_some_and(|f| f.silent).into()).into(),
                module.const_offset(names.address, names.starts[i]).into(),
                entry_site.map_or(module.null(), |site| maker.site(site)).into(),
                open.map_or(module.null(), |open| maker.record(open)).into(),
                starts.into(),
                module.const_i64(start_count).into(),
                module.const_i64(plan.functions.get(i).is_some_and(|f| f.needs_offset).into()).into(),
                module.const_offset(groups.address, groups.starts[i] * size_of::<u64>() as u64).into(),
                module.const_i64(groups.count(i)).into(),
            ])
        })
        .collect();
    table.initialize(module.const_array(record_type, &rows));
    Symbols {
        records,
        enter: module.external_function(abi::functions::VERIFY_ENTER, None, &[ptr, ptr]),
        exit: module.external_function(abi::functions::VERIFY_EXIT, None, &[ptr]),
        leave: module.external_function(abi::functions::VERIFY_LEAVE, None, &[ptr]),
        resume: module.external_function(abi::functions::VERIFY_RESUME, None, &[ptr]),
        shadow: module.const_offset(tls, layout::TLS_SHADOW),
    }
}

impl<'m> Maker<'_, 'm> {
    fn record(&self, function: usize) -> Address<'m> {
        self.module.const_offset(self.records, (function * size_of::<abi::FunctionRecord>()) as u64)
    }

    fn site(&self, site: u32) -> Address<'m> {
        self.module.const_offset(self.sites, site.into())
    }

    /// The function that a site calls directly.
    fn callee(&self, site: u32) -> Option<u32> {
        match self.plan.symbols.sites[site as usize].kind {
            pcce_dictionary::SiteKind::Direct(callee) => callee,
            _ => None,
        }
    }

    /// Where the sub-paths start that direct calls of a whole program begin, and how many they are.
    fn starts(&self) -> (Address<'m>, u64) {
        let module = self.module;
        let adds =
            |code| matches!(code, pcce_dictionary::EdgeCode::Add(_) | pcce_dictionary::EdgeCode::Open(_));
        let pushes = self.plan.encoding.edges.iter().filter(|edge| self.open.is_some() && !adds(edge.code));
        let pushes: BTreeMap<u32, u32> =
            pushes.filter_map(|edge| Some((edge.site, self.callee(edge.site)?))).collect();
        let row = |(&site, &callee)| {
            module.const_struct(&[self.site(site).into(), self.record(callee as usize).into()])
        };
        let rows: Vec<Constant<'_>> = pushes.iter().map(row).collect();
        let row_type = module.struct_type(&[module.ptr(), module.ptr()]);
        let table =
            module.add_internal("__pcce_starts", module.array_type(row_type, rows.len() as u64), true);
        table.initialize(module.const_array(row_type, &rows));
        (table.address(), rows.len() as u64)
    }

    /// The in-edges that add, of each function in the order of their values.
    fn in_edges(&self) -> Table<'m> {
        let (module, symbols) = (self.module, &self.plan.symbols);
        let mut in_edges: Vec<Vec<InEdge>> = vec![Vec::new(); self.count];
        let calls = self.plan.functions.iter().flat_map(|f| &f.calls);
        let constants: HashMap<u32, u64> = calls
            .filter_map(|call| match call.action {
                Action::Add(constant) => Some((call.site, constant)),
                _ => None,
            })
            .collect();
        for edge in &self.plan.encoding.edges {
            let called = self.callee(edge.site);
            let (start, callee) = match edge.code {
                pcce_dictionary::EdgeCode::Add(start) => (start, called.map(|f| f as usize)),
                pcce_dictionary::EdgeCode::Open(start) => (start, self.open),
                _ => continue,
            };
            if let Some(callee) = callee {
                let caller = symbols.sites[edge.site as usize].function as usize;
                let constant = constants.get(&edge.site).copied().unwrap_or(0);
                in_edges[callee].push(InEdge { start, constant, caller, site: edge.site, callee: called });
            }
        }
        let mut rows = Vec::new();
        let mut starts = vec![0];
        for list in &mut in_edges {
            list.sort_unstable();
            rows.extend(list.iter().map(|edge| {
                let group = symbols.sites[edge.site as usize].tail_group;
                module.const_struct(&[
                    module.const_i64(edge.start).into(),
                    module.const_i64(edge.constant).into(),
                    self.record(edge.caller).into(),
                    self.site(edge.site).into(),
                    module.const_i64(group.map_or(abi::NO_GROUP, u64::from)).into(),
                    edge.callee.map_or(module.null(), |callee| self.record(callee as usize)).into(),
                ])
            }));
            starts.push(rows.len() as u64);
        }
        let (i64, ptr) = (module.i64(), module.ptr());
        let row_type = module.struct_type(&[i64, i64, ptr, ptr, i64, ptr]);
        let address =
            module.add_internal("__pcce_in_edges", module.array_type(row_type, rows.len() as u64), true);
        address.initialize(module.const_array(row_type, &rows));
        Table { address: address.address(), starts }
    }

    /// The groups of functions of which one may have left its frame to the function; of the open node, to another
    /// module.
    fn tail_groups(&self) -> Table<'m> {
        let (module, symbols) = (self.module, &self.plan.symbols);
        let mut rows = Vec::new();
        let mut starts = vec![0];
        let lists = symbols.functions.iter().map(|f| &f.tail_groups);
        for list in lists.chain(self.open.map(|_| &symbols.leaving_groups)) {
            rows.extend(list.iter().map(|&group| Constant::from(module.const_i64(group.into()))));
            starts.push(rows.len() as u64);
        }
        let i64 = module.i64();
        let address =
            module.add_internal("__pcce_tail_groups", module.array_type(i64, rows.len() as u64), true);
        address.initialize(module.const_array(i64, &rows));
        Table { address: address.address(), starts }
    }

    /// The names, each with a zero behind it; the open node's is empty.
    fn names(&self, program: &Program) -> Table<'m> {
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
        Table { address: address.address(), starts }
    }
}
