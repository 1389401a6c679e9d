//! The module's tables for verify mode: for each function, a record with its in-edges. The runtime decodes
//! contexts with them while the program runs.

use std::collections::HashMap;

use pcce_abi::tables::{self, Edge, Place, Table, WORD, Word};
use pcce_abi::{self as abi, functions, layout};
use pcce_dictionary::SiteKind;
use pcce_model::Program;
use pcce_model::plan::Plan;
use pcce_model::verify::add_edge;

use crate::llvm::{Address, Callee, Constant, Module, Variable};

/// The module's tables for verify mode, and the functions of the runtime that it calls.
pub struct Symbols<'m> {
    /// One `abi::FunctionRecord` for each function.
    pub records: Address<'m>,
    /// Called at each entry.
    pub enter: Callee<'m>,
    /// Called before each return.
    pub exit: Callee<'m>,
    /// Called before a call that stays a tail call.
    pub leave: Callee<'m>,
    /// Called where control arrives without a return.
    pub resume: Callee<'m>,
    /// Called after `pcce_context()`.
    pub number: Callee<'m>,
    /// Address of `tls.shadow`.
    pub shadow: Address<'m>,
}

/// Makes the tables. `sites` is the module's site array, `tls` the thread's block.
pub fn symbols<'m>(
    module: Module<'m>,
    program: &Program,
    plan: &Plan,
    sites: Address<'m>,
    tls: Address<'m>,
) -> Symbols<'m> {
    Symbols::new(module, make_tables(module, &contents(program, plan), sites), tls)
}

impl<'m> Symbols<'m> {
    /// Takes the records of the tables, and the thread's block.
    pub fn new(module: Module<'m>, records: Address<'m>, tls: Address<'m>) -> Self {
        let ptr = module.ptr();
        Self {
            records,
            enter: module.external_function(functions::VERIFY_ENTER, None, &[ptr, ptr]),
            exit: module.external_function(functions::VERIFY_RETURN, None, &[ptr]),
            leave: module.external_function(functions::VERIFY_LEAVE, None, &[ptr]),
            resume: module.external_function(functions::VERIFY_RESUME, None, &[ptr]),
            number: module.external_function(functions::VERIFY_NUMBER, None, &[module.i64(), ptr]),
            shadow: module.const_offset(tls, layout::TLS_SHADOW),
        }
    }
}

/// Puts the tables into the module. Returns the address of the records.
fn make_tables<'m>(module: Module<'m>, contents: &tables::Program, sites: Address<'m>) -> Address<'m> {
    let variable = |name, table| {
        module.add_internal(name, module.array_type(module.i64(), contents.len(table) as u64), true)
    };
    let records = variable("__pcce_functions", Table::Records);
    records.set_section(abi::RECORDS_SECTION, align_of::<abi::FunctionRecord>() as u32);
    let in_edges = variable("__pcce_in_edges", Table::InEdges);
    let starts = variable("__pcce_starts", Table::Starts);
    let groups = variable("__pcce_tail_groups", Table::Groups);
    let text = contents.names();
    let names = module.add_internal("__pcce_names", module.bytes(text.len() as u64 + 1), true);
    names.initialize(module.const_string(&text));
    let row = |table: Variable<'m>, index: usize, size: usize| {
        module.const_offset(table.address(), (index * size) as u64)
    };
    let address = |place| match place {
        Place::Record(function) => row(records, function, size_of::<abi::FunctionRecord>()),
        Place::Site(site) => module.const_offset(sites, site),
        Place::InEdge(index) => row(in_edges, index, size_of::<abi::InEdge>()),
        Place::Starts => starts.address(),
        Place::Group(index) => row(groups, index, WORD),
        Place::Name(byte) => row(names, byte, 1),
    };
    let all = [
        (records, Table::Records),
        (in_edges, Table::InEdges),
        (starts, Table::Starts),
        (groups, Table::Groups),
    ];
    for (variable, table) in all {
        let mut words: Vec<Constant<'_>> = Vec::with_capacity(contents.len(table));
        contents.words(table, |word| {
            let word = match word {
                Word::Number(number) => module.const_i64(number),
                Word::To(None) => module.const_i64(0),
                Word::To(Some(place)) => {
                    module.const_distance(row(variable, words.len(), WORD), address(place))
                }
            };
            words.push(word.into());
        });
        variable.initialize(module.const_array(module.i64(), &words));
    }
    records.address()
}

/// The plan of the module's functions in the form of the tables. The open node comes last. Sites are numbered
/// as in the site array.
fn contents(program: &Program, plan: &Plan) -> tables::Program {
    let open = plan.encoding.open_num_cc.map(|_| plan.functions.len());
    let function = |(i, function): (usize, &pcce_model::Function)| {
        let (symbols, encoded, planned) =
            (&plan.symbols.functions[i], &plan.encoding.functions[i], &plan.functions[i]);
        tables::Function {
            name: function.name.replace('\0', "?"),
            entry: encoded.entry,
            reached: encoded.open,
            offset: encoded.id_offset as u64,
            silent: symbols.silent,
            shared: planned.needs_offset,
            entry_site: planned.entry_site.map(u64::from),
            in_edges: Vec::new(),
            groups: symbols.tail_groups.iter().copied().map(u64::from).collect(),
        }
    };
    let mut functions: Vec<tables::Function> = program.functions.iter().enumerate().map(function).collect();
    functions.extend(open.map(|_| tables::Function {
        entry: true,
        groups: plan.symbols.leaving_groups.iter().copied().map(u64::from).collect(),
        ..tables::Function::default()
    }));
    let calls = plan.functions.iter().flat_map(|f| &f.calls);
    let constants: HashMap<u32, u64> = calls.map(|call| (call.site, call.action.added())).collect();
    let mut starts = Vec::new();
    for edge in &plan.encoding.edges {
        let site = &plan.symbols.sites[edge.site as usize];
        let row = Edge {
            start: 0,
            constant: constants.get(&edge.site).copied().unwrap_or(0),
            caller: site.function as usize,
            site: edge.site.into(),
            group: site.tail_group.map(u64::from),
            callee: match site.kind {
                SiteKind::Direct(callee) => callee.map(|callee| callee as usize),
                _ => None,
            },
        };
        add_edge(&mut functions, &mut starts, open, edge.code, row);
    }
    starts.sort_unstable();
    starts.dedup();
    tables::Program::new(functions, open, starts)
        .expect("names have no zero, and a plan names its own functions")
}
