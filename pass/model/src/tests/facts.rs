//! The derived facts of small programs.

use std::path::PathBuf;

use pcce_dictionary::calls::{self, Calls};
use pcce_encoding::EdgeId;

use crate::error::Error;
use crate::testing::*;
use crate::*;

/// Caller and callee of each edge.
fn edges(program: &Program) -> Vec<(usize, usize)> {
    let graph = &program.graph;
    let ends = |edge| (graph.caller(edge).index(), graph.callee(edge).index());
    (0..graph.edges() as u32).map(EdgeId::new).map(ends).collect()
}

fn silent(program: &Program) -> Vec<&str> {
    program.functions.iter().filter(|f| f.silent).map(|f| &*f.name).collect()
}

#[test]
fn functions_that_reach_nothing_unknown_are_silent() {
    let functions = [
        exported("main", &[direct(1), direct(3)]),
        local("two", &[direct(2), direct(2)]),
        local("one", &[direct(4), call(CallKind::Silent("strlen".into()))]),
        local("out", &[external("qsort"), direct(4)]),
        local("leaf", &[]),
        // Cycles: one that is closed, and one that is left.
        local("recursive", &[direct(5), direct(6)]),
        local("mutual", &[direct(5), direct(1)]),
        local("leaving", &[direct(8)]),
        local("left", &[direct(7), direct(3)]),
    ];
    let of = |silent| program(&Mode { silent, ..MODULE }, &functions);
    assert_eq!(silent(&of(false)), [""; 0]);
    let all = of(true);
    assert_eq!(silent(&all), ["two", "one", "leaf", "recursive", "mutual"]);
    // Only calls between functions that look are edges.
    assert_eq!(edges(&all), [(0, 3), (7, 8), (8, 7), (8, 3)]);
    assert_eq!(edges(&of(false)).len(), 13);
}

#[test]
fn tail_calls_of_silent_functions_are_silent() {
    let leave = |name, to| leaving(local(name, &[direct(1)]), TailCallee::Known(id(to)));
    let functions = [
        exported("main", &[direct(1), direct(3)]),
        leave("match", 2),
        leave("repeat", 1),
        leave("looking", 4),
        local("looks", &[call(CallKind::Runtime(RuntimeCall::Context))]),
    ];
    for open in [false, true] {
        let all = program(&Mode { silent: true, open, ..MODULE }, &functions);
        assert_eq!(silent(&all), ["match", "repeat"]);
        // A function on the cycle may have come back to itself.
        let left_to: Vec<bool> = all.functions.iter().map(|f| !f.tail_groups.is_empty()).collect();
        assert_eq!(left_to, [false, true, true, false, open], "{open}");
    }
}

#[test]
fn silent_functions_push_for_nobody() {
    let malloc =
        |name: &str, calls: &[Call]| Function { unannounced: Unannounced::AnyId, ..exported(name, calls) };
    let functions = [malloc("free", &[]), malloc("malloc", &[external("mmap")])];
    let all = program(&Mode { silent: true, ..MODULE }, &functions);
    assert_eq!(silent(&all), ["free"]);
    let entered: Vec<Unannounced> = all.functions.iter().map(|f| f.unannounced).collect();
    assert_eq!(entered, [Unannounced::Never, Unannounced::AnyId]);
}

#[test]
fn functions_that_keep_the_state_are_not_silent() {
    let plain = || local("f", &[]);
    let kept = [
        Function { reads_state: true, ..plain() },
        Function { returns_twice: true, ..plain() },
        leaving(plain(), away()),
        local("captures", &[call(CallKind::Runtime(RuntimeCall::Context))]),
    ];
    assert_eq!(silent(&program(&Mode { silent: true, ..MODULE }, &kept)), [""; 0]);
}

#[test]
fn functions_that_reach_no_target_are_silent() {
    let functions = [
        exported("main", &[direct(1), direct(2), direct(3)]),
        local("hits", &[direct(4)]),
        local("misses", &[]),
        local("anything", &[call(CallKind::Indirect)]),
        local("log_write", &[]),
    ];
    let wanted = Wanted { targets: ["log_write".to_owned()].into(), ..Wanted::default() };
    let targets = Targets::new(&wanted, false).expect("one target");
    let mode = Mode { targets: Some(&targets), ..EXECUTABLE };
    assert_eq!(silent(&program(&mode, &functions)), ["misses", "anything"]);
    // Now the pointer may lead to it.
    let mut pointed = functions.clone();
    pointed[4] = pointed_to(pointed[4].clone());
    assert_eq!(silent(&program(&mode, &pointed)), ["misses"]);
    // Other modules may have functions of this name, or call back.
    assert_eq!(silent(&program(&Mode { open: false, closed: false, ..mode }, &functions)), ["misses"]);
}

#[test]
fn calls_through_pointers_are_edges_to_the_open_node_of_an_executable() {
    let compared = Call { compared: true, ..call(CallKind::Indirect) };
    let functions = [
        exported("main", &[call(CallKind::Indirect), external("qsort"), compared]),
        pointed_to(local("handler", &[])),
        local("unreached", &[]),
        exported("api", &[]),
    ];
    let whole = program(&EXECUTABLE, &functions);
    let open = whole.graph.open_node().expect("an executable has one").index();
    assert_eq!(open, functions.len());
    assert_eq!(edges(&whole), [(0, open)]);
    // Nothing but the start-up code calls `main`.
    let reached: Vec<bool> = whole.iter().map(|(id, _)| whole.graph.is_open(id)).collect();
    assert_eq!(reached, [false, true, false, true]);
    assert_eq!(edges(&program(&MODULE, &functions)), []);
    assert_eq!(edges(&program(&Mode { publishes: true, ..EXECUTABLE }, &functions)), []);
}

#[test]
fn other_modules_enter_functions_of_a_module_unannounced() {
    let functions = [
        exported("api", &[]),
        pointed_to(local("handler", &[])),
        local("inner", &[]),
        Function { unannounced: Unannounced::AnyId, ..exported("malloc", &[]) },
    ];
    use Unannounced::{AnyId, Never, Open};
    let of = |mode| program(mode, &functions).functions.iter().map(|f| f.unannounced).collect::<Vec<_>>();
    assert_eq!(of(&MODULE), [Open, Open, Never, AnyId]);
    assert_eq!(of(&EXECUTABLE), [Never, Never, Never, AnyId]);
    let module = program(&MODULE, &functions);
    let entries: Vec<bool> = module.iter().map(|(id, _)| module.graph.is_entry(id)).collect();
    assert_eq!(entries, [true, true, false, true]);
}

/// Returns whether the call of function 1 must push.
fn must_push(mode: &Mode<'_>, callee: Function) -> bool {
    let program = program(mode, &[exported("main", &[direct(1)]), callee]);
    let encoding = pcce_encoding::encode(&program.graph, &pcce_encoding::Options::default());
    encoding.edge(program.functions[0].calls[0].edge.expect("an edge")).pushes()
}

#[test]
fn callers_push_for_functions_that_cannot_be_entered_with_an_id() {
    assert!(!must_push(&MODULE, local("f", &[])));
    assert!(must_push(&MODULE, Function { unannounced: Unannounced::AnyId, ..local("f", &[]) }));
    // The function pushes at its entry, since nothing can be put before it.
    assert!(must_push(&MODULE, Function { can_be_diverted: false, ..exported("f", &[]) }));
    assert!(!must_push(&MODULE, Function { can_be_diverted: false, ..local("f", &[]) }));
    assert!(!must_push(&EXECUTABLE, Function { can_be_diverted: false, ..exported("f", &[]) }));
    // The function leaves its activation: in a module, it must have begun the sub-path.
    assert!(must_push(&MODULE, leaving(local("f", &[]), away())));
}

#[test]
fn functions_that_leave_are_reached_by_open_calls() {
    let functions =
        [exported("main", &[direct(1)]), leaving(local("f", &[]), TailCallee::Known(id(2))), local("g", &[])];
    let whole = program(&EXECUTABLE, &functions);
    assert_eq!(edges(&whole), [(0, 3)]);
    assert!(whole.graph.is_open(id(1)));
}

#[test]
fn a_function_that_pushes_at_its_entry_cannot_leave() {
    let f = Function { unannounced: Unannounced::AnyId, ..leaving(local("malloc", &[]), away()) };
    let error = derive(vec![f], &MODULE, Matched::none).expect_err("its frame cannot be kept");
    assert!(matches!(&error, Error::FrameNotKept { function } if function == "malloc"), "{error}");
}

#[test]
fn groups_name_the_functions_that_may_replace_a_callee() {
    let pointer = Pointer { ty: TypeId(1), is_virtual: None };
    let mut reached = pointed_to(local("reached", &[]));
    reached.ty = TypeId(1);
    reached.places.elsewhere = true;
    let whole = program(
        &EXECUTABLE,
        &[
            exported("main", &[direct(1), direct(2), direct(3), direct(4), call(CallKind::Indirect)]),
            leaving(local("known", &[]), TailCallee::Known(id(4))),
            leaving(local("also_known", &[]), TailCallee::Known(id(4))),
            leaving(local("through", &[]), TailCallee::Pointer(pointer)),
            local("plain", &[]),
            reached,
        ],
    );
    let groups: Vec<Option<u32>> = whole.functions[0].calls.iter().map(|call| call.tail_group).collect();
    // Two calls with one group, since both end in `plain`; the function that the pointer calls leaves to no
    // other.
    assert_eq!(groups, [Some(0), Some(0), Some(1), None, None]);
    assert_eq!(whole.functions[4].tail_groups, [0]);
    assert_eq!(whole.functions[5].tail_groups, [1]);
    // A pointer may lead out of the module.
    assert_eq!(whole.leaving_groups, [1]);
}

#[test]
fn a_profile_says_how_often_calls_are_executed() {
    let functions = [exported("main", &[direct(1), call(CallKind::Indirect)]), pointed_to(local("f", &[]))];
    let counted = |function: &str, count, calls: &[(Option<&str>, u64)]| calls::Function {
        function: function.to_owned(),
        count,
        calls: calls
            .iter()
            .map(|&(callee, n)| calls::Call(callee.map(str::to_owned), n, Vec::new()))
            .collect(),
    };
    let main = counted("main", 2, &[(Some("f"), 10), (None, 4)]);
    let counts = Calls {
        functions: vec![("m.c".to_owned(), main), ("m.c".to_owned(), counted("f", 14, &[]))],
        by_site: false,
    };
    let profile = Profile::new(PathBuf::new(), counts);
    let program = derive(functions.to_vec(), &EXECUTABLE, |all| profile.find(|_| Some("m.c"), all))
        .expect("it is whole");
    let frequencies: Vec<f64> = program.functions[0].calls.iter().map(|call| call.frequency).collect();
    assert_eq!(frequencies, [5.0, 2.0]);
    assert_eq!(program.counts.entered_openly(&program.functions), [2.0, 4.0]);
    assert_eq!(profile.report("m.c", &program.counts), None);
}

/// A profile of contexts lists sites, those of calls without an edge, too. It tells which edges are hot, and not
/// how often an activation calls.
#[test]
fn contexts_tell_which_edges_are_hot() {
    let functions = [
        exported("main", &[direct(1), direct(2), direct(1), call(CallKind::Indirect)]),
        pointed_to(local("f", &[])),
        local("g", &[]),
    ];
    let site = |callee: Option<&str>, count| calls::Call(callee.map(str::to_owned), count, Vec::new());
    let sites = [site(Some("f"), 3), site(Some("puts"), 7), site(Some("f"), 40), site(None, 20)];
    let main = calls::Function { function: "main".to_owned(), count: 2, calls: sites.into() };
    let profile =
        Profile::new(PathBuf::new(), Calls { functions: vec![("m.c".to_owned(), main)], by_site: true });
    let program = derive(functions.to_vec(), &EXECUTABLE, |all| profile.find(|_| Some("m.c"), all))
        .expect("it is whole");
    let learnt: Vec<f64> = (0..4).map(|call| program.counts.learnt(0, call).unwrap()).collect();
    assert_eq!((learnt[0], learnt[2], learnt[3]), (1.5, 20.0, 10.0));
    assert!(learnt[1] > 0.0 && learnt[1] < 0.1, "{learnt:?}");
    assert!(program.functions[0].calls.iter().all(|call| call.frequency == 1.0));
    assert_eq!((program.counts.learnt(1, 0), profile.report("m.c", &program.counts)), (None, None));
}

/// Otherwise their contexts would differ: one copy calls a target directly, and another through the pointer.
#[test]
fn copies_of_a_call_are_compared_with_the_same_targets() {
    let pointer = |copy| Call { copy, ..call(CallKind::Indirect) };
    let functions = [
        exported("main", &[pointer(Some(0)), pointer(None), pointer(Some(0))]),
        local("g", &[]),
        local("h", &[]),
    ];
    let reached = |all, targets: &[(&str, u64)]| {
        let targets = targets.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
        calls::Call(None, all, targets)
    };
    let calls = vec![reached(50, &[("g", 50)]), reached(9, &[("h", 9)]), reached(10, &[("g", 2), ("h", 8)])];
    let of = |function: &str, calls| calls::Function { function: function.to_owned(), count: 1, calls };
    let all = [of("main", calls), of("g", Vec::new()), of("h", Vec::new())];
    let profile = Profile::new(
        PathBuf::new(),
        Calls { functions: all.map(|function| ("m.c".to_owned(), function)).into(), by_site: false },
    );
    let program =
        derive(functions.to_vec(), &MODULE, |all| profile.find(|_| Some("m.c"), all)).expect("it is one");
    let options = pcce_encoding::Options::default();
    let encoding = pcce_encoding::encode(&program.graph, &options);
    let found = profile.candidates(&program, &encoding, &options, |_| true);
    let found: Vec<(usize, usize, u64)> =
        found.iter().map(|found| (found.call, found.callee.index(), found.count)).collect();
    assert_eq!(found, [(2, 1, 2), (2, 2, 8), (1, 2, 9), (0, 1, 50), (0, 2, 0)]);
}

/// Strings of the C++ library are trusted if they call a copy of its own code, or functions that call nothing
/// back, but not if they may call a function that looks at the context. An instance of a template that the
/// library lacks is no member of its strings.
#[test]
fn strings_are_trusted_unless_what_they_call_may_look() {
    let lists = NoCallback::new(true, &Wanted::default(), false).trusting_cxx();
    let member = |rest: &str| format!("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE{rest}");
    let of = |name: &str, calls: &[Call]| exported(name, calls);
    let strings = |name: &str| lists.contains(name);
    let pointers = "12_M_constructIPKcEEvT_S8_St20forward_iterator_tag";
    let iterators = "12_M_constructIN9__gnu_cxx17__normal_iteratorIPKcS4_EEEEvT_SB_St20forward_iterator_tag";
    for exported in ["9_M_appendEPKcm", "C1EOS4_", "pLEc", "aSB5cxx11EOS4_", pointers, iterators] {
        assert!(strings(&member(exported)), "{exported}");
    }
    let own = "12_M_constructIN9__gnu_cxx17__normal_iteratorIP3ownSt6vectorIS7_SaIS7_EEEEEEvT_SB_St20forward_iterator_tag";
    for own in ["C2IS3_EEPKcRKS3_", "C1I3ownvEET_S7_RKS3_", own, "6insertI3ownEEvS7_T_SA_"] {
        assert!(!strings(&member(own)) && !lists.is_within_cxx(&member(own)), "{own}");
    }
    let (create, append) = (member("9_M_createERmm"), member("9_M_appendEPKcm"));
    let throws = external("_ZSt20__throw_length_errorPKc");
    let copy = [direct(1), throws, external("_Znwm"), external(&append)];
    let looking = [call(CallKind::Runtime(RuntimeCall::Token))];
    let looks = |calls: &[Call], inner: &[Call], name: &str| {
        lists.look_within_strings(&[of(name, calls), local("inner", inner)])
    };
    assert!(!looks(&copy, &[], &create));
    for inner in [&looking[..], &[external("unknown")], &[call(CallKind::Indirect)], &[call(CallKind::Asm)]] {
        assert!(looks(&copy, inner, &create));
        assert!(!looks(&copy, inner, &member("C2IS3_EEPKcRKS3_")));
        for called in ["_Znwm", "malloc", "__wrap_malloc", "__cxa_throw", "_ZSt20__throw_length_errorPKc"] {
            assert!(looks(&copy, inner, called), "{called}");
        }
    }
    // Other code can name it by an alias only.
    let hidden = Function { external: false, ..of(&create, &looking) };
    assert!(!lists.look_within_strings(std::slice::from_ref(&hidden)));
    let aliased = Function { aliases: vec![create.clone()], ..local("own", &looking) };
    assert!(lists.look_within_strings(&[aliased]));
    assert!(lists.look_within_strings(&[Function { otherwise_used: true, ..hidden }]));
}
