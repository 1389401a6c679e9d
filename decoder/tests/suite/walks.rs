//! decode(encode(walk)) is the walk: random call graphs in one module or several, encoded as the pass or the link step
//! encodes them, and random walks through them that do what the instrumented code does: add, or push and start again at
//! 0.
//!
//! The walk itself is the oracle: it is a list of call sites, and knows nothing of ids.

use pcce::token::{BuildId, Capture, PushedFrame, Token};
use pcce::{Context, Decoder, FrameKind};
use pcce_dictionary::section::{self, Record};
use pcce_dictionary::{
    Dictionary, Edge, EncodedFunction, Encoding, Function, Linked, Location, Module, Site, SiteKind,
    from_json, linked, to_json,
};
use pcce_encoding::{CallGraph, EdgeCode, EdgeId, FunctionId, Options, PushReason, encode};
use proptest::prelude::*;

use crate::common::APP;

#[derive(Clone, Debug)]
struct Program {
    /// For each function: can be entered from outside; every call of it pushes.
    functions: Vec<(bool, bool)>,
    /// In which module each function is; the modules are encoded together.
    modules: Vec<usize>,
    /// Caller, callee, frequency; whether a call inside a module is one by name.
    calls: Vec<(usize, usize, f64, bool)>,
    /// Calls through pointers are open calls.
    open: bool,
    id_bits: u32,
}

/// Of one module, as compilers and full LTO encode it, or of several, as the link step does.
fn programs() -> impl Strategy<Value = Program> {
    (2_usize..12, prop_oneof![1 => Just(1), 2 => 2_usize..6]).prop_flat_map(|(count, modules)| {
        let call = (0..count, 0..count, 0.0..10.0, proptest::bool::weighted(0.2));
        (
            proptest::collection::vec((proptest::bool::weighted(0.2), proptest::bool::weighted(0.1)), count),
            proptest::collection::vec(0..modules, count),
            proptest::collection::vec(call, 0..40),
            any::<bool>(),
            prop_oneof![Just(64), 2_u32..6],
        )
            .prop_map(|(mut functions, modules, calls, open, id_bits)| {
                functions[0].0 = true;
                Program { functions, modules, calls, open, id_bits }
            })
    })
}

/// Where functions and sites are. Sites are counted as [`build`] makes them.
struct Places {
    /// The number in the module, and the one in the encoding.
    functions: Vec<(u32, u32)>,
    /// The same of the sites.
    sites: Vec<(u32, u32)>,
    /// Of each module's site array.
    addresses: Vec<u64>,
    site_modules: Vec<usize>,
}

impl Places {
    fn new(program: &Program) -> Self {
        let numbered = |modules: &[usize]| {
            let in_front = |at: usize, also: &dyn Fn(usize) -> bool| {
                modules[..at].iter().filter(|&&m| also(m)).count() as u32
            };
            let numbers = modules.iter().enumerate().map(|(at, &module)| {
                let own = in_front(at, &|m| m == module);
                (own, own + in_front(modules.len(), &|m| m < module))
            });
            numbers.collect::<Vec<_>>()
        };
        let site_modules: Vec<usize> =
            program.callers().into_iter().map(|caller| program.modules[caller]).collect();
        let count = 1 + program.modules.iter().max().unwrap();
        Self {
            functions: numbered(&program.modules),
            sites: numbered(&site_modules),
            // The linker puts them in any order.
            addresses: (0..count as u64).map(|module| 0x1000 * (1 + module * 3 % 7)).collect(),
            site_modules,
        }
    }

    fn address(&self, site: usize) -> u64 {
        self.addresses[self.site_modules[site]] + u64::from(self.sites[site].0)
    }
}

/// What the program is made into.
struct Built {
    dictionary: Dictionary,
    /// What each call adds, those through pointers last.
    constants: Vec<Option<u64>>,
    /// The addresses of the sites.
    sites: Vec<u64>,
    /// Of each function.
    rows: Vec<EncodedFunction>,
}

impl Program {
    /// The function of each site: of the calls, then for each function of a capture and a call through a pointer.
    fn callers(&self) -> Vec<usize> {
        let calls = self.calls.iter().map(|call| call.0);
        calls.chain((0..self.functions.len()).flat_map(|function| [function, function])).collect()
    }

    /// The callee of a call by name, which the link binds: each call that leaves its module is one.
    fn bound(&self, call: usize) -> Option<usize> {
        let &(caller, callee, _, by_name) = self.calls.get(call)?;
        (by_name || self.modules[caller] != self.modules[callee]).then_some(callee)
    }

    /// The modules. The line of a site's location is the site's number plus 1.
    fn symbols(&self, places: &Places) -> Vec<Module> {
        let module = |&sites_address: &u64| Module {
            name: format!("walk{sites_address:x}.c"),
            sites_address,
            files: vec!["walk.c".to_owned()],
            names: (0..self.functions.len()).map(|i| format!("f{i}")).collect(),
            ..Module::default()
        };
        let mut modules: Vec<Module> = places.addresses.iter().map(module).collect();
        for (name, &module) in (0..).zip(&self.modules) {
            modules[module].functions.push(Function { name, ..Function::default() });
        }
        for (at, caller) in self.callers().into_iter().enumerate() {
            let kind = match (self.bound(at), self.calls.get(at)) {
                (Some(callee), _) => SiteKind::External(callee as u32),
                (None, Some(&(_, callee, ..))) => SiteKind::Direct(Some(places.functions[callee].0)),
                (None, None) if (at - self.calls.len()).is_multiple_of(2) => SiteKind::Capture,
                (None, None) => SiteKind::Indirect,
            };
            let locations = vec![Location { name: caller as u32, file: 0, line: at as u32 + 1, column: 0 }];
            let function = places.functions[caller].0;
            let site = Site { function, kind, tail_group: None, locations };
            modules[places.site_modules[at]].sites.push(site);
        }
        modules
    }
}

/// What the pass or the link step makes of the program.
fn build(program: &Program) -> Built {
    let mut graph = CallGraph::new();
    let functions: Vec<_> =
        program.functions.iter().map(|(entry, required)| graph.add_function(*entry, *required)).collect();
    let mut edges: Vec<_> = program
        .calls
        .iter()
        .map(|&(caller, callee, frequency, _)| {
            graph.add_edge(functions[caller], functions[callee], frequency)
        })
        .collect();
    if program.open {
        let node = graph.add_open_node();
        for (function, (entry, _)) in functions.iter().zip(&program.functions) {
            if *entry {
                graph.add_open_target(*function, 0.1);
            }
            edges.push(graph.add_edge(*function, node, 1.0));
        }
    }
    let encoding = encode(&graph, &Options { id_bits: program.id_bits, known_starts: program.open });
    let places = Places::new(program);
    let edge = |(at, edge): (usize, &EdgeId)| {
        // Of the calls through pointers, after all others.
        let open = at.checked_sub(program.calls.len());
        let code = match encoding.edge(*edge) {
            EdgeCode::Add(value) if open.is_some() => pcce_dictionary::EdgeCode::Open(value),
            EdgeCode::Add(value) => pcce_dictionary::EdgeCode::Add(value),
            EdgeCode::Push(PushReason::Back) => pcce_dictionary::EdgeCode::Back,
            EdgeCode::Push(PushReason::Required) => pcce_dictionary::EdgeCode::Required,
            EdgeCode::Push(_) => pcce_dictionary::EdgeCode::Cut,
        };
        let site = open.map_or(at, |function| program.calls.len() + 2 * function + 1);
        let callee = program.bound(at).map(|callee| places.functions[callee].1);
        Edge { site: places.sites[site].1, callee, code }
    };
    let mut next = 1_u64;
    let mut rows = Vec::new();
    for &function in &functions {
        let num_cc = encoding.num_cc(function);
        let end = next.checked_add(num_cc).filter(|end| *end < 1 << 62);
        rows.push(EncodedFunction {
            num_cc,
            id_offset: encoding.offset(function) as i64,
            entry: encoding.is_entry(function),
            open: graph.is_open(function),
            range: end.map(|end| std::mem::replace(&mut next, end)),
        });
    }
    let mut in_order = rows.clone();
    for (row, (_, number)) in rows.iter().zip(&places.functions) {
        in_order[*number as usize] = *row;
    }
    let encoded = Encoding {
        module_count: places.addresses.len() as u32,
        open_num_cc: program.open.then(|| encoding.num_cc(FunctionId::new(functions.len() as u32))),
        functions: in_order,
        edges: edges.iter().enumerate().map(edge).collect(),
        ..Encoding::default()
    };
    let dictionary = Dictionary {
        build_id: APP.iter().map(|byte| format!("{byte:02x}")).collect(),
        program: "walk".to_owned(),
        modules: program.symbols(&places),
        encodings: vec![encoded],
        ..Dictionary::default()
    };
    // Without an open node, ids are negated.
    let sign = |constant: u64| if program.open { constant } else { constant.wrapping_neg() };
    let constants = edges.iter().map(|edge| encoding.constant(*edge).map(sign)).collect();
    let sites = (0..program.callers().len()).map(|site| places.address(site)).collect();
    Built { dictionary, constants, sites, rows }
}

/// Walks as `choices` say; the token at the end, and the lines of the sites, innermost first. Also the function where
/// it ends.
fn walk(program: &Program, built: &Built, choices: &[usize]) -> (Token, Vec<u32>, usize) {
    let calls = program.calls.len();
    let open_targets: Vec<usize> =
        (0..program.functions.len()).filter(|function| program.functions[*function].0).collect();
    let (mut function, mut id) = (0, 0_u64);
    let mut frames: Vec<PushedFrame> = Vec::new();
    let mut sites = Vec::new();
    let push = |frames: &mut Vec<PushedFrame>, site: usize, id| {
        let site = built.sites[site];
        match frames.last_mut() {
            Some(last) if (last.site, last.id) == (site, id) => last.count += 1,
            _ => frames.push(PushedFrame { image: 0, site, left: false, id, distance: 0, count: 1 }),
        }
    };
    for choice in choices {
        let out: Vec<usize> = (0..calls).filter(|call| program.calls[*call].0 == function).collect();
        // One choice more: a call through a pointer, of a function that can be entered.
        let chosen = choice % (out.len() + 1);
        let (edge, site) = match out.get(chosen) {
            Some(&call) => (call, call),
            None => (calls + function, calls + 2 * function + 1),
        };
        match built.constants.get(edge).copied().flatten() {
            Some(constant) => id = id.wrapping_add(constant),
            None => {
                push(&mut frames, site, id);
                id = 0;
            }
        }
        function = match out.get(chosen) {
            Some(&call) => program.calls[call].1,
            None => open_targets[choice / 64 % open_targets.len()],
        };
        sites.push(site as u32 + 1);
    }
    let capture = calls + 2 * function;
    sites.push(capture as u32 + 1);
    sites.reverse();
    frames.reverse();
    let capture = Some(Capture { image: 0, site: built.sites[capture], id, distance: 0 });
    let images = vec![BuildId::from_prefix(&APP)];
    (Token { images, capture, frames, ..Token::default() }, sites, function)
}

/// The context number where nothing was pushed.
fn number(program: &Program, row: &EncodedFunction, token: &Token) -> Option<u64> {
    let id = token.capture.filter(|_| token.frames.is_empty())?.id;
    let id = if program.open { id } else { id.wrapping_neg() };
    Some(row.range?.wrapping_add(id).wrapping_sub(row.id_offset as u64))
}

/// What the section of a program holds of the dictionary.
fn through_the_section(dictionary: &Dictionary) -> Dictionary {
    let section = linked::to_bytes(&dictionary.modules, &dictionary.encodings);
    let mut records = section::parse(&section).unwrap();
    let Some(Record::Linked(Linked { modules, encodings })) = records.pop() else { panic!("it is linked") };
    Dictionary { modules, encodings, ..dictionary.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn decoding_a_walk_gives_the_walk(
        program in programs(),
        walks in proptest::collection::vec(proptest::collection::vec(0_usize..10_000, 0..60), 1..5),
    ) {
        let built = build(&program);
        let dictionary = &built.dictionary;
        prop_assert_eq!(&from_json(&to_json(dictionary)).unwrap(), dictionary);
        prop_assert_eq!(&through_the_section(dictionary), dictionary);
        let decoder = Decoder::new(std::slice::from_ref(dictionary)).unwrap();
        let mut context = Context::default();
        for choices in walks {
            let (token, sites, function) = walk(&program, &built, &choices);
            decoder.decode(&Token::parse(token.encode()).unwrap(), &mut context).unwrap();
            let frames: Vec<_> = decoder.frames(&context).collect();
            prop_assert!(frames.iter().all(|frame| frame.kind == FrameKind::Call));
            let lines: Vec<_> = frames.iter().map(|frame| frame.line.unwrap()).collect();
            prop_assert_eq!(lines, &sites[..]);

            if let Some(number) = number(&program, &built.rows[function], &token) {
                decoder.decode_number(number, &mut context).unwrap();
                let lines: Vec<_> = decoder.frames(&context).skip(1).map(|frame| frame.line.unwrap()).collect();
                prop_assert_eq!(lines, &sites[1..]);
            }

            // Cut anywhere, it gives the beginning of the walk.
            let left = choices.len() % (token.frames.len() + 1);
            let lines = |token: &Token, context: &mut Context| {
                decoder.decode(&Token::parse(token.encode()).unwrap(), context).unwrap();
                let frames: Vec<_> = decoder.frames(context).collect();
                assert_eq!(frames.last().map(|frame| frame.kind), Some(FrameKind::Truncated));
                frames.iter().filter_map(|frame| frame.line).collect::<Vec<_>>()
            };
            if left < token.frames.len() {
                let mut frames = token.frames.clone();
                frames.truncate(left);
                let token = Token { frames, cut: true, start_missing: program.open, ..token };
                let shown = lines(&token, &mut context);
                prop_assert_eq!(&shown[..], &sites[..shown.len()]);
                let pushed: u64 = token.frames.iter().map(|frame| frame.count).sum();
                prop_assert!(shown.len() as u64 > pushed);
            }
        }
    }
}

#[test]
fn function_ids_are_indices() {
    // `build` relies on it.
    assert_eq!(FunctionId::new(7).index(), 7);
}
