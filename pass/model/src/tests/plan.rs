//! The plans of small programs, and their dictionaries.

use pcce_dictionary as dictionary;
use pcce_encoding::{EdgeId, Encoding, FlowBlock, FunctionId};
use pcce_options::PassOptions;

use crate::plan::{self, Action, Basis, Plan, PlannedCall, Push};
use crate::states::State;
use crate::testing::*;
use crate::{
    Call, CallKind, Function, Mode, Program, RuntimeCall, STD_THREAD, Source, SourceLocation, TypeId,
    Unannounced,
};
use crate::{copies, thunks};
use Action::{Add, None as Nothing};

/// Code with the same answers for all its functions and calls.
struct Stub {
    flow: Vec<FlowBlock>,
    fits_thunk: bool,
}

impl Source for Stub {
    fn locations(&self, function: FunctionId, call: usize) -> Vec<SourceLocation> {
        let name = format!("f{}", function.index());
        vec![SourceLocation { name, file: "a.c".to_owned(), line: call as u32, column: 1 }]
    }

    fn pass_alike(&self, _: FunctionId, _: usize, _: usize) -> bool {
        true
    }

    fn flow(&self, _: FunctionId) -> Vec<FlowBlock> {
        self.flow.clone()
    }

    fn fits_thunk(&self, _: FunctionId, _: usize) -> bool {
        self.fits_thunk
    }
}

/// One block.
fn straight() -> Stub {
    Stub { flow: vec![FlowBlock { frequency: 1.0, ..FlowBlock::default() }], fits_thunk: true }
}

fn options(given: &str) -> PassOptions {
    PassOptions::read([given]).expect("options of the plugin")
}

fn encode(program: &Program) -> Encoding {
    pcce_encoding::encode(&program.graph, &pcce_encoding::Options::default())
}

fn planned(program: &Program, encoding: &Encoding, given: &str, source: &dyn Source) -> Plan {
    let options = options(given);
    let basis = Basis { program, encoding, used: None, source, options: &options };
    plan::plan(&basis, "m.c".to_owned(), "test".to_owned())
}

fn plan_of(mode: &Mode<'_>, functions: &[Function]) -> Plan {
    let program = program(mode, functions);
    planned(&program, &encode(&program), "", &straight())
}

/// The actions at the calls of a function.
fn actions(plan: &Plan, function: usize) -> Vec<Action> {
    plan.functions[function].calls.iter().map(|call| call.action).collect()
}

/// The call that runs a task pushes in any mode, and its site says so to the runtime.
#[test]
fn calls_that_run_tasks_are_marked() {
    let functions = [exported("main", &[external("pcce_task_run"), external("f")]), exported("g", &[])];
    let plan = plan_of(&EXECUTABLE, &functions);
    assert_eq!(actions(&plan, 0), [Action::Push(Push::Zero); 2]);
    assert_eq!(plan.functions[0].calls.iter().map(|call| call.runs_task).collect::<Vec<_>>(), [true, false]);
    assert_eq!(plan.site_bytes, Some(vec![pcce_abi::SiteByte::RUNS_TASK, 0]));
    assert_eq!(plan_of(&EXECUTABLE, &two_ways()).site_bytes, None);
}

/// Two ways to a function: Fig. 1 of the paper in small.
fn two_ways() -> Vec<Function> {
    vec![
        exported("main", &[direct(1), direct(2)]),
        local("a", &[direct(2), direct(2)]),
        local("b", &[call(CallKind::Runtime(RuntimeCall::Token))]),
    ]
}

#[test]
fn calls_add_what_tells_them_apart_and_each_has_a_site() {
    let plan = plan_of(&EXECUTABLE, &two_ways());
    let (symbols, encoding) = (&plan.symbols, &plan.encoding);
    let sites: Vec<(u32, u32)> = symbols.sites.iter().map(|s| (s.function, s.locations[0].line)).collect();
    assert_eq!(sites, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]);
    assert_eq!(actions(&plan, 2), [Action::Replace(RuntimeCall::Token)]);
    let num_cc: Vec<u64> = encoding.functions.iter().map(|f| f.num_cc).collect();
    assert_eq!(num_cc, [1, 1, 3]);
    // The three ways to `b` have three numbers.
    let mut starts: Vec<u64> = encoding.edges[1..].iter().map(start).collect();
    starts.sort_unstable();
    assert_eq!(starts, [0, 1, 2]);
    // A call adds the start of its edge, corrected by the offsets of both functions.
    for (call, edge) in plan.functions.iter().flat_map(|f| &f.calls).zip(&encoding.edges) {
        let offset = |f: u32| encoding.functions[f as usize].id_offset as u64;
        let site = &symbols.sites[edge.site as usize];
        let dictionary::SiteKind::Direct(Some(callee)) = site.kind else {
            panic!("{site:?} is no direct call")
        };
        let constant = start(edge).wrapping_add(offset(callee)).wrapping_sub(offset(site.function));
        assert_eq!(call.action, if constant == 0 { Nothing } else { Add(constant) });
    }
}

/// The smallest id that an edge that adds brings to its callee.
fn start(edge: &dictionary::Edge) -> u64 {
    match edge.code {
        dictionary::EdgeCode::Add(start) | dictionary::EdgeCode::Open(start) => start,
        other => panic!("{other:?} adds nothing"),
    }
}

#[test]
fn ids_of_modules_are_not_positive() {
    let adds = |mode| {
        let plan = plan_of(mode, &two_ways());
        let calls: Vec<Action> = (0..2).flat_map(|f| actions(&plan, f)).collect();
        calls
            .into_iter()
            .filter_map(|a| if let Add(n) = a { Some(n as i64) } else { None })
            .collect::<Vec<_>>()
    };
    assert!(adds(&EXECUTABLE).iter().all(|&n| n > 0) && !adds(&EXECUTABLE).is_empty());
    assert!(adds(&MODULE).iter().all(|&n| n < 0) && !adds(&MODULE).is_empty());
}

#[test]
fn back_edges_push() {
    let functions = [exported("main", &[direct(1)]), local("f", &[direct(1)])];
    let whole = plan_of(&EXECUTABLE, &functions);
    assert_eq!(actions(&whole, 1), [Action::Push(Push::Relative)]);
    assert_eq!(whole.encoding.edges[1].code, dictionary::EdgeCode::Back);
    assert_eq!(actions(&plan_of(&MODULE, &functions), 1), [Action::Push(Push::Zero)]);
}

#[test]
fn open_calls_add_in_executables_and_push_in_modules() {
    let functions = [
        exported("main", &[call(CallKind::Indirect), call(CallKind::Indirect), external("qsort")]),
        pointed_to(local("handler", &[])),
    ];
    let whole = plan_of(&EXECUTABLE, &functions);
    let mut starts: Vec<u64> = whole.encoding.edges.iter().map(start).collect();
    starts.sort_unstable();
    // Id 0 is for a sub-path that begins in a target without an open call.
    assert_eq!(starts, [1, 2]);
    assert!(matches!(whole.encoding.edges[0].code, dictionary::EdgeCode::Open(_)));
    assert_eq!(whole.symbols.sites[0].kind, dictionary::SiteKind::Indirect);
    assert_eq!(whole.encoding.open_num_cc, Some(3));
    // A call that leaves the executable pushes 0: other modules look at the id.
    assert_eq!(actions(&whole, 0)[2], Action::Push(Push::Zero));
    let module = plan_of(&MODULE, &functions);
    assert_eq!(actions(&module, 0), [Action::Push(Push::Zero); 3]);
    assert_eq!(module.encoding.edges, []);
    assert_eq!(module.encoding.open_num_cc, None);
}

#[test]
fn nothing_is_done_around_silent_functions() {
    let functions = [
        exported("main", &[direct(1), call(CallKind::Silent("puts".into())), direct(2)]),
        local("leaf", &[call(CallKind::Silent("strlen".into()))]),
        local("out", &[external("qsort")]),
    ];
    let program = program(&Mode { silent: true, ..EXECUTABLE }, &functions);
    let silent = planned(&program, &encode(&program), "", &straight());
    assert_eq!(silent.functions[0].calls.len(), 1);
    assert_eq!(silent.functions[0].calls[0].call, 2);
    assert_eq!(silent.symbols.sites.len(), 2);
    assert!(silent.symbols.functions[1].silent);
    // Verify mode's list has all calls, and no more is done.
    let verify = planned(&program, &encode(&program), "verify", &straight());
    assert_eq!(actions(&verify, 0), [Nothing, Nothing, Nothing]);
    assert_eq!(actions(&verify, 1), [Nothing]);
    assert_eq!(verify.symbols.sites.len(), 5);
}

#[test]
fn pushes_are_required_of_callers_of_functions_that_leave() {
    let f = leaving(local("f", &[]), away());
    let module = plan_of(&MODULE, &[exported("main", &[direct(1)]), f.clone()]);
    assert_eq!(actions(&module, 0), [Action::Push(Push::Zero)]);
    assert_eq!(module.encoding.edges[0].code, dictionary::EdgeCode::Required);
    assert_eq!(module.functions[1].leaves, plan::Leaves::Marking);
    let whole = plan_of(&EXECUTABLE, &[exported("main", &[direct(1), direct(1)]), f]);
    // An open call has one number for all functions that it may reach, and its group names those that may
    // replace the callee.
    assert!(matches!(whole.encoding.edges[0].code, dictionary::EdgeCode::Open(_)));
    assert_eq!(whole.symbols.sites[0].tail_group, Some(0));
    assert_eq!(whole.symbols.leaving_groups, [0]);
    assert_eq!(whole.functions[1].leaves, plan::Leaves::MarkingAtZero);
    // Nothing but calls by their names reaches it.
    assert_eq!(whole.functions[0].leaves, plan::Leaves::MarkingAtZero);
}

#[test]
fn functions_that_may_be_entered_with_any_id_have_a_site_of_their_own() {
    let malloc = Function { unannounced: Unannounced::AnyId, ..exported("malloc", &[external("mmap")]) };
    let plan = plan_of(&EXECUTABLE, &[exported("main", &[direct(1)]), malloc]);
    assert_eq!(actions(&plan, 0), [Action::Push(Push::Relative)]);
    let site = plan.functions[1].entry_site.expect("it pushes at its entry");
    assert_eq!(plan.symbols.sites[site as usize].kind, dictionary::SiteKind::Entry);
    assert_eq!(plan.functions[0].entry_site, None);
}

#[test]
fn a_thread_is_created_where_the_context_is_taken_before() {
    let plan = plan_of(&EXECUTABLE, &[exported("main", &[external(STD_THREAD), external("f")])]);
    let calls = &plan.functions[0].calls;
    assert_eq!([calls[0].creation_site, calls[1].creation_site], [Some(0), None]);
    assert_eq!([calls[0].site, calls[1].site], [1, 2]);
    assert_eq!(plan.symbols.sites[0].kind, dictionary::SiteKind::Capture);
}

/// A function with three calls that add, the last two in these blocks, and their callee.
fn three_adding(first: u32, second: u32) -> Vec<Function> {
    let within = |block| Call { block, ..direct(1) };
    vec![exported("main", &[within(0), within(first), within(second)]), pointed_to(local("f", &[]))]
}

/// For each call, whether a state is kept before it, and the state that it needs after it.
fn kept(plan: &Plan) -> Vec<(bool, bool)> {
    let kept = |call: &PlannedCall| (call.before != State::Found, call.behind == call.needs());
    plan.functions[0].calls.iter().map(kept).collect()
}

#[test]
fn additions_stay_until_the_next_one_of_the_block() {
    let plan = plan_of(&MODULE, &three_adding(0, 0));
    assert_eq!(kept(&plan), [(false, true), (true, true), (true, false)]);
    // Not in functions that look at the state, or get another one.
    for special in [
        Function { reads_state: true, ..three_adding(0, 0)[0].clone() },
        Function { returns_twice: true, ..three_adding(0, 0)[0].clone() },
    ] {
        let plan = plan_of(&MODULE, &[special, three_adding(0, 0)[1].clone()]);
        assert_eq!(kept(&plan), [(false, false); 3]);
    }
    // Nor across a call that pushes.
    let mut functions = three_adding(0, 0);
    functions[0].calls[1] = external("qsort");
    assert_eq!(kept(&plan_of(&MODULE, &functions)), [(false, false); 3]);
}

#[test]
fn a_frame_stays_until_the_next_push() {
    let of = |mode, calls: &[Call]| kept(&plan_of(mode, &[exported("main", calls)]));
    let indirect = || Call::new(CallKind::Indirect, TypeId(0));
    let compared = || Call { compared: true, ..indirect() };
    let three = [external("a"), indirect(), external("b")];
    assert_eq!(of(&MODULE, &three), [(false, true), (true, true), (true, false)]);
    // A context is taken before the call.
    assert_eq!(of(&EXECUTABLE, &[external("a"), external(STD_THREAD)]), [(false, false); 2]);
    // A relative push needs the id.
    assert_eq!(
        of(&EXECUTABLE, &[compared(), external("a"), compared()]),
        [(false, true), (true, false), (false, false)]
    );
}

#[test]
fn the_frame_begins_before_loops_that_push() {
    // Block 0 leads to the loop of block 1, and that to block 2.
    let flow = vec![
        FlowBlock { frequency: 1.0, ways: vec![way(1, 1.0)], ..FlowBlock::default() },
        FlowBlock { frequency: 100.0, ways: vec![way(1, 0.99), way(2, 0.01)], ..FlowBlock::default() },
        FlowBlock { frequency: 1.0, ..FlowBlock::default() },
    ];
    let source = Stub { flow, fits_thunk: false };
    let pushes = Call { block: 1, frequency: 100.0, ..external("qsort") };
    let functions = [exported("main", &[pushes.clone(), pushes.clone()])];
    let of = |functions: &[Function]| {
        let program = program(&EXECUTABLE, functions);
        planned(&program, &encode(&program), "", &source).functions[0].frame.clone().expect("it pushes")
    };
    let begins = of(&functions);
    assert_eq!(begins.at_ends.into_iter().collect::<Vec<_>>(), [0]);
    assert!(begins.at_pushes.is_empty() && begins.on_ways.is_empty());
    // A function that may switch to another state begins its frame at each push.
    let begins = of(&[Function { reads_state: true, ..functions[0].clone() }]);
    assert_eq!(begins.at_pushes.into_iter().collect::<Vec<_>>(), [0, 1]);
    assert!(begins.at_ends.is_empty());
    assert!(plan_of(&EXECUTABLE, &two_ways()).functions[0].frame.is_none());
}

#[test]
fn an_addition_does_not_stay_where_the_frame_begins() {
    // The invoke that adds ends block 0. The frame of the later pushes begins before it.
    let flow = vec![
        FlowBlock { frequency: 1.0, ways: vec![way(1, 1.0)], ..FlowBlock::default() },
        FlowBlock { frequency: 100.0, ways: vec![way(1, 0.99), way(2, 0.01)], ..FlowBlock::default() },
        FlowBlock { frequency: 1.0, ..FlowBlock::default() },
    ];
    let source = Stub { flow, fits_thunk: false };
    let invoke = Call { ends_block: true, ..direct(1) };
    let pushes = Call { block: 1, frequency: 100.0, ..external("qsort") };
    let stays = |calls: &[Call]| {
        let program = program(&MODULE, &[exported("main", calls), pointed_to(local("f", &[]))]);
        kept(&planned(&program, &encode(&program), "", &source))[0].1
    };
    assert!(!stays(&[direct(1), invoke.clone(), pushes.clone()]));
    assert!(stays(&[direct(1), direct(1), invoke, pushes]));
}

#[test]
fn rare_pushes_go_through_thunks() {
    let cold = Call { frequency: 0.1, may_be_jump: true, ..external("report") };
    let functions = [
        exported("main", &[direct(1), direct(2)]),
        local("seldom", &[cold.clone(), cold.clone()]),
        local("often", &[Call { frequency: 0.9, ..cold.clone() }, cold]),
    ];
    let mut whole = program(&EXECUTABLE, &functions);
    let open = whole.graph.open_node().expect("an executable has one");
    let mut encoding = encode(&whole);
    let made = thunks::outline(&mut whole, &mut encoding, &straight());
    let names: Vec<&str> = made.iter().map(|thunk| &*thunk.name).collect();
    assert_eq!(names, ["seldom.pcce_push", "seldom.pcce_push.2"]);
    // Thunks come before the open node.
    assert_eq!(whole.functions.len(), 5);
    assert_eq!(whole.graph.open_node(), Some(FunctionId::new(open.index() as u32 + 2)));
    let plan = planned(&whole, &encoding, "", &straight());
    assert_eq!(actions(&plan, 1), [Nothing, Nothing]);
    assert_eq!(actions(&plan, 3), [Action::Push(Push::Zero)]);
    assert_eq!(actions(&plan, 2), [Action::Push(Push::Zero); 2]);
    assert!(plan.functions[1].frame.is_none() && plan.functions[3].frame.is_some());
    let thunk = &plan.symbols.functions[3];
    assert!(thunk.push_thunk && thunk.jumped_to);
    // A call does not go through a thunk if the callee could see it.
    let mut whole = program(&EXECUTABLE, &functions);
    assert_eq!(
        thunks::outline(&mut whole, &mut encoding.clone(), &Stub { fits_thunk: false, ..straight() }),
        []
    );
}

/// Three copies of a call.
fn copied(call: &Call, copy: u32) -> Vec<Call> {
    (0..3).map(|block| Call { block, copy: Some(copy), ..call.clone() }).collect()
}

#[test]
fn copies_of_a_call_are_one_edge_and_one_site() {
    let functions = [
        exported("main", &[copied(&direct(1), 0), vec![direct(1)], copied(&direct(1), 1)].concat()),
        local("f", &[copied(&external("qsort"), 0), copied(&call(CallKind::Asm), 0)].concat()),
    ];
    let program = program(&EXECUTABLE, &functions);
    assert_eq!(program.graph.edges(), 3);
    let source =
        Stub { flow: vec![FlowBlock { frequency: 1.0, ..FlowBlock::default() }; 3], fits_thunk: true };
    let encoding = encode(&program);
    let plan = planned(&program, &encoding, "", &source);
    let sites = |f: usize| plan.functions[f].calls.iter().map(|call| call.site).collect::<Vec<_>>();
    assert_eq!(sites(0), [0, 0, 0, 1, 2, 2, 2]);
    // The number alone does not make calls one: copies have the same callee.
    assert_eq!(sites(1), [3, 3, 3, 4, 4, 4]);
    assert_eq!(plan.encoding.edges.len(), 3);
    let actions = actions(&plan, 0);
    assert!(actions[..3].iter().all(|a| *a == actions[0]) && actions[4..].iter().all(|a| *a == actions[4]));
    assert_eq!(encoding.num_cc(FunctionId::new(1)), 3);
    // Executions of all copies count.
    assert!((encoding.edge_weight(EdgeId::new(0)) - 3.0 * encoding.edge_weight(EdgeId::new(1))).abs() < 1e-9);
}

#[test]
fn copies_of_a_call_go_through_one_thunk() {
    let cold = Call { frequency: 0.01, ..external("report") };
    let functions =
        [exported("main", &[direct(1)]), local("f", &[copied(&cold, 0), vec![cold.clone()]].concat())];
    let mut whole = program(&EXECUTABLE, &functions);
    let mut encoding = encode(&whole);
    let made = thunks::outline(&mut whole, &mut encoding, &straight());
    let calls: Vec<&[usize]> = made.iter().map(|thunk| &*thunk.calls).collect();
    assert_eq!(calls, [&[0, 1, 2][..], &[3]]);
    let source =
        Stub { flow: vec![FlowBlock { frequency: 1.0, ..FlowBlock::default() }; 3], fits_thunk: true };
    let plan = planned(&whole, &encoding, "", &source);
    assert_eq!(actions(&plan, 1), [Nothing; 4]);
    assert_eq!(plan.functions[1].calls.iter().map(|call| call.site).collect::<Vec<_>>(), [1, 1, 1, 2]);
    assert_eq!(plan.functions[2].calls[0].call, 0);
    assert!(whole.functions[2].calls[0].copy.is_none());
}

/// Calls, each with its line (0: unknown) and a number for the types of its arguments.
struct Lines(Vec<(u32, u32)>);

impl Source for Lines {
    fn locations(&self, _: FunctionId, call: usize) -> Vec<SourceLocation> {
        let line = self.0[call].0;
        let location = SourceLocation { name: "f".to_owned(), file: "a.c".to_owned(), line, column: 1 };
        (line > 0).then_some(location).into_iter().collect()
    }

    fn pass_alike(&self, _: FunctionId, one: usize, other: usize) -> bool {
        self.0[one].1 == self.0[other].1
    }

    fn flow(&self, _: FunctionId) -> Vec<FlowBlock> {
        Vec::new()
    }

    fn fits_thunk(&self, _: FunctionId, _: usize) -> bool {
        true
    }
}

#[test]
fn copies_call_the_same_in_the_same_place_and_in_the_same_way() {
    let found = |calls: &[Call], lines: &[(u32, u32)]| {
        let mut functions = [local("f", calls)];
        copies::find(&mut functions, &Lines(lines.to_vec()));
        functions[0].calls.iter().map(|call| call.copy).collect::<Vec<_>>()
    };
    let calls = [direct(0), external("g"), direct(0), external("g"), direct(0)];
    let lines = [(1, 0), (2, 0), (2, 0), (2, 0), (1, 0)];
    assert_eq!(found(&calls, &lines), [Some(0), Some(1), None, Some(1), Some(0)]);
    // Nothing is known of where they are.
    assert_eq!(found(&calls, &[(0, 0); 5]), [None; 5]);
    let variadic = [(1, 1), (2, 0), (1, 2), (3, 0), (1, 1)];
    assert_eq!(found(&calls, &variadic), [Some(0), None, None, None, Some(0)]);
}

#[test]
fn a_call_with_nothing_after_it_may_become_a_jump() {
    let jump = |call: Call| Call { may_be_jump: true, ..call };
    let functions = [
        exported("main", &[jump(direct(1)), direct(2), jump(direct(3)), direct(3)]),
        local("jumped_to", &[]),
        local("called", &[]),
        local("added", &[direct(3)]),
    ];
    let plan = plan_of(&EXECUTABLE, &functions);
    let jumped: Vec<bool> = plan.symbols.functions.iter().map(|f| f.jumped_to).collect();
    let free = actions(&plan, 0)[2] == Nothing;
    assert_eq!(jumped, [false, true, false, free]);
}
