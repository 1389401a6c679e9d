//! The plan: what the rewriting does at each call, and the dictionary that describes it.
//!
//! Both are made from the same values in one place, so that the program and its dictionary
//! cannot tell different stories.

use std::collections::HashMap;

use pcce_dictionary as dictionary;
use pcce_encoding::{EdgeCode, Encoding, FunctionId, PushReason};
use pcce_runtime::abi;

use crate::analysis::{Analysis, CallKind, RuntimeCall, STD_THREAD};
use crate::llvm::Value;
use crate::options::Options;

/// What is done at a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Nothing: the addition value is 0, or the callee cannot call back.
    None,
    /// `id += value` before, `id -= value` after.
    Add(u64),
    /// A frame is pushed before and popped after.
    Push,
    /// The call is replaced by one of the runtime that is told the site.
    Replace(RuntimeCall),
    /// The runtime is told the site before, and after that the call is over.
    Publish,
}

/// A call, with what is done and the site's number.
pub struct PlannedCall {
    /// The call or invoke.
    pub instruction: Value,
    /// What is done.
    pub action: Action,
    /// The number of its site.
    pub site: u32,
    /// It creates a thread behind the back of the pass: the site where the context is taken before.
    pub creation_site: Option<u32>,
}

/// What is done in a function.
pub struct PlannedFunction {
    /// Its calls.
    pub calls: Vec<PlannedCall>,
    /// The site of its own entry, if it pushes there.
    pub entry_site: Option<u32>,
    /// First number of its range of context numbers; 0 if it has none.
    pub range: u64,
}

/// The plan for a module.
pub struct Plan {
    /// In the order of [`Analysis::functions`].
    pub functions: Vec<PlannedFunction>,
    /// The dictionary of the module, sites included: site `i` is byte `i` of the site array.
    pub dictionary: dictionary::Module,
}

/// Gives equal strings equal numbers.
#[derive(Default)]
struct Strings {
    list: Vec<String>,
    index: HashMap<String, u32>,
}

impl Strings {
    fn number(&mut self, s: &str) -> u32 {
        if let Some(&i) = self.index.get(s) {
            return i;
        }
        let i = u32::try_from(self.list.len()).expect("fewer strings than 2^32");
        self.list.push(s.to_owned());
        self.index.insert(s.to_owned(), i);
        i
    }
}

/// Makes the plan.
///
/// `whole_program`: context numbers of this module need not be told from those of another one.
pub fn plan(
    analysis: &Analysis,
    encoding: &Encoding,
    options: &Options,
    whole_program: bool,
    identifier: String,
    producer: String,
) -> Plan {
    let mut names = Strings::default();
    let mut files = Strings::default();
    let mut sites: Vec<dictionary::Site> = Vec::new();
    let mut edges = Vec::new();
    let mut functions = Vec::with_capacity(analysis.functions.len());
    // Number 0 means "no context", so ranges start at 1.
    let mut next_range = 1u64;
    let mut rows = Vec::with_capacity(analysis.functions.len());

    for (i, function) in analysis.functions.iter().enumerate() {
        let id = FunctionId::new(i as u32);
        let mut new_site = |kind, locations: Vec<dictionary::Location>| {
            sites.push(dictionary::Site { function: i as u32, kind, locations });
            u32::try_from(sites.len() - 1).expect("fewer sites than 2^32")
        };
        let mut captures_number = false;
        let mut calls = Vec::with_capacity(function.calls.len());
        for call in &function.calls {
            let (kind, action) = match &call.kind {
                CallKind::Silent(_) if !options.verify => continue,
                CallKind::Silent(name) => (dictionary::SiteKind::External(names.number(name)), Action::None),
                CallKind::Published(name) => {
                    (dictionary::SiteKind::External(names.number(name)), Action::Publish)
                }
                CallKind::External(name) => {
                    (dictionary::SiteKind::External(names.number(name)), Action::Push)
                }
                CallKind::Indirect => (dictionary::SiteKind::Indirect, Action::Push),
                CallKind::Asm => (dictionary::SiteKind::Asm, Action::Push),
                CallKind::Runtime(runtime) => {
                    captures_number |= *runtime == RuntimeCall::Context;
                    (dictionary::SiteKind::Capture, Action::Replace(*runtime))
                }
                CallKind::Direct(edge) => (
                    dictionary::SiteKind::Direct,
                    match encoding.edge(*edge) {
                        EdgeCode::Add(0) => Action::None,
                        EdgeCode::Add(value) => Action::Add(value),
                        EdgeCode::Push(_) => Action::Push,
                    },
                ),
            };
            let locations: Vec<_> = call
                .instruction
                .locations()
                .iter()
                .map(|l| dictionary::Location {
                    name: names.number(&l.name),
                    file: files.number(&l.file),
                    line: l.line,
                    column: l.column,
                })
                .collect();
            let creates = matches!(&call.kind, CallKind::External(name) if name == STD_THREAD);
            let creation_site = creates.then(|| new_site(dictionary::SiteKind::Capture, locations.clone()));
            let site = new_site(kind, locations);
            if let CallKind::Direct(edge) = call.kind {
                edges.push(dictionary::Edge {
                    site,
                    callee: analysis.graph.callee(edge).index() as u32,
                    code: match encoding.edge(edge) {
                        EdgeCode::Add(value) => dictionary::EdgeCode::Add(value),
                        EdgeCode::Push(PushReason::Back) => dictionary::EdgeCode::Back,
                        EdgeCode::Push(PushReason::Cut) => dictionary::EdgeCode::Cut,
                        EdgeCode::Push(PushReason::Required) => dictionary::EdgeCode::Required,
                    },
                });
            }
            calls.push(PlannedCall { instruction: call.instruction, action, site, creation_site });
        }
        let entry_site = function.entry_push.then(|| new_site(dictionary::SiteKind::Entry, Vec::new()));
        let num_cc = encoding.num_cc(id);
        // A range for each function that takes numbers, so that the number alone names function
        // and context; where they do not fit below 2^63 the number is interned instead.
        let mut range = 0;
        if captures_number
            && whole_program
            && let Some(end) = next_range.checked_add(num_cc).filter(|&end| end <= abi::INTERNED)
        {
            range = next_range;
            next_range = end;
        }
        // Other modules know an external function by its linkage name; nobody knows a local one.
        let source_name = if function.external { None } else { function.value.source_name() };
        rows.push(dictionary::Function {
            name: names.number(source_name.as_ref().unwrap_or(&function.name)),
            num_cc,
            entry: encoding.is_entry(id),
            external: function.external,
            tail_called: function.tail_called,
            aliases: function.aliases.iter().map(|alias| names.number(alias)).collect(),
            range: (range != 0).then_some(range),
        });
        functions.push(PlannedFunction { calls, entry_site, range });
    }
    Plan {
        functions,
        dictionary: dictionary::Module {
            name: identifier,
            producer,
            options: options.describe(),
            sites_address: 0,
            files: files.list,
            names: names.list,
            functions: rows,
            sites,
            edges,
        },
    }
}
