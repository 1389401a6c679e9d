//! Interrupted points: from code addresses and the machine code's table to frames, and mutated tokens.

use pcce::token::{BuildId, CodeAddress, Point, PointEnd, PushedFrame};
use pcce::{Context, Decoder, Token};
use pcce_dictionary::Dictionary;
use pcce_dictionary::code::{Code, Role, to_text};
use proptest::prelude::*;

use crate::common::code::{MAIN_CODE, code};
use crate::common::{APP, app, site};

fn decoder() -> (Decoder, u64) {
    let mut dictionary = app();
    let code = code(&dictionary);
    dictionary.code = Some(to_text(&code));
    let plain = code.functions.iter().find(|f| f.role == Role::Plain).expect("there is one").start;
    (Decoder::new(&[dictionary]).expect("a good dictionary"), plain)
}

fn at(address: u64, exact: bool) -> CodeAddress {
    CodeAddress { image: 0, address, exact, distance: 0 }
}

fn token(point: Point, frames: &[(u64, u64)]) -> Token {
    Token {
        images: vec![BuildId::from_prefix(&APP)],
        point: Some(point),
        frames: frames
            .iter()
            .map(|&(site, id)| PushedFrame { image: 0, site, left: false, id, distance: 0, count: 1 })
            .collect(),
        ..Token::default()
    }
}

fn decode(decoder: &Decoder, token: &Token) -> String {
    let mut context = Context::default();
    if let Err(error) = decoder.decode(token, &mut context) {
        return error.to_string();
    }
    let frames: Vec<String> = decoder
        .frames(&context)
        .map(|f| format!("{}:{}", f.kind.name(), f.function.unwrap_or("-")))
        .collect();
    frames.join(" ")
}

#[test]
fn the_state_at_the_address_decides() {
    let (decoder, plain) = decoder();
    let main = MAIN_CODE;
    let point =
        |id, addresses: &[CodeAddress], end| Point { id, addresses: addresses.to_vec(), left_out: None, end };
    let lines = |id, offset, end| decode(&decoder, &token(point(id, &[at(main + offset, true)], end), &[]));
    // `main` has id 0 only.
    assert_eq!(lines(0, 0, PointEnd::Outermost), "call:main");
    assert_eq!(lines(0, 0x10, PointEnd::Outermost), "call:main");
    assert_eq!(lines(3, 0x20, PointEnd::Outermost), "call:plain call:main");
    assert_eq!(lines(4, 0x20, PointEnd::Outermost), "call:plain call:main unknown:-");
    assert_eq!(lines(3, 0x30, PointEnd::Outermost), "call:plain call:main unknown:-");
    assert_eq!(lines(0, 0x40, PointEnd::Outermost), "call:plain call:main unknown:-");
    // Code that is not instrumented, called at a return address; and one where there is no call.
    let called = |return_address| {
        let addresses = [at(plain, true), at(main + return_address, false)];
        decode(&decoder, &token(point(0, &addresses, PointEnd::Outermost), &[]))
    };
    assert_eq!(called(0x15), "uninstrumented:plain call:main");
    assert_eq!(called(0x16), "uninstrumented:plain unknown:-");
    // The end of the stack in front of the innermost frame: it is another stack's.
    let switched = token(point(0, &[at(main, true)], PointEnd::Outermost), &[(site::LEAF_QSORT, 0)]);
    assert!(
        decode(&decoder, &switched).starts_with("call:main unknown:qsort"),
        "{}",
        decode(&decoder, &switched)
    );
    // Code that changes the id and has no row: nothing is known behind it.
    let opaque = token(point(0, &[at(plain + 0x130, true)], PointEnd::Outermost), &[]);
    assert_eq!(decode(&decoder, &opaque), "unknown:-");
    let mut other = token(point(0, &[at(main, true)], PointEnd::Outermost), &[]);
    other.other_state = true;
    assert_eq!(decode(&decoder, &other), "call:main unknown:-");
}

#[test]
fn calls_through_pointers_tell_where_frames_may_be_gone() {
    let mut dictionary = app();
    let main = MAIN_CODE;
    dictionary.code = Some(to_text(&code(&dictionary)));
    let stack = |left| {
        // A silent function, called through a pointer by `leaf`, which has pushed.
        let addresses = [at(main + 0x310, true), at(main + 0x245, false)];
        let point = Point { id: 0, addresses: addresses.to_vec(), left_out: None, end: PointEnd::Pushed };
        let mut token = token(point, &[(site::LEAF_POINTER, 0)]);
        token.frames[0].left = left;
        token
    };
    let module = &mut dictionary.modules[0];
    module.functions[3].silent = true;
    let of = |dictionary: &Dictionary, left| {
        decode(&Decoder::new(std::slice::from_ref(dictionary)).expect("a good dictionary"), &stack(left))
    };
    let (inner, outer) = ("call:main", "call:plain call:main call:app::run(int)");
    assert_eq!(of(&dictionary, false), format!("{inner} {outer}"));
    assert_eq!(of(&dictionary, true), format!("{inner} tail:- {outer}"));
    dictionary.modules[0].functions[3].jumped_to = true;
    assert_eq!(of(&dictionary, false), format!("{inner} tail:- {outer}"));
}

#[test]
fn what_is_left_out_of_a_recursion_is_said() {
    let mut dictionary = app();
    dictionary.code = Some(to_text(&code(&dictionary)));
    dictionary.modules[0].functions[3].silent = true;
    let decoder = Decoder::new(std::slice::from_ref(&dictionary)).expect("a good dictionary");
    let recursion = at(MAIN_CODE + 0x310, true);
    let of = |left_out| {
        let addresses = vec![recursion, at(MAIN_CODE + 0x245, false)];
        let point = Point { id: 0, addresses, left_out, end: PointEnd::Pushed };
        decode(&decoder, &token(point, &[(site::LEAF_POINTER, 0)]))
    };
    let outer = "call:plain call:main call:app::run(int)";
    assert_eq!(of(None), format!("call:main {outer}"));
    assert_eq!(of(Some((1, 1))), format!("call:main unknown:- {outer}"));
}

#[test]
fn where_the_id_is_not_known_all_addresses_of_a_stack_stand_for_it() {
    let (decoder, plain) = decoder();
    let lines = |id, addresses: &[CodeAddress], end, other_state| {
        let point = Point { id, addresses: addresses.to_vec(), left_out: None, end };
        decode(&decoder, &Token { other_state, ..token(point, &[]) })
    };
    let function = |i: u64, offset| MAIN_CODE + 0x100 * i + offset;
    let stack =
        |offset| [at(function(1, offset), true), at(function(0, 0x45), false), at(plain + 0x15, false)];
    // Not known at that instruction, or in this token. (All code behind the calls is of `plain`, inlined into `main`.)
    let whole = "call:plain call:main call:plain call:main";
    assert_eq!(lines(77, &stack(0x30), PointEnd::Outermost, false), whole);
    assert_eq!(lines(77, &stack(0x20), PointEnd::Outermost, true), whole);
    // With a frame pushed there would be one.
    let first = "call:plain call:main unknown:-";
    assert_eq!(lines(0, &stack(0x40), PointEnd::Outermost, false), first);
    // The id is there, but it is none of the function's; the stack ends nowhere; there is more of it.
    for (offset, end, addresses) in [
        (0x20, PointEnd::Outermost, 3),
        (0x30, PointEnd::Outermost, 2),
        (0x30, PointEnd::Lost, 3),
        (0x30, PointEnd::Bound, 3),
    ] {
        assert_eq!(lines(77, &stack(offset)[..addresses], end, false), first, "{offset:#x}");
    }
}

#[test]
fn without_the_code_nothing_is_guessed() {
    let decoder = Decoder::new(&[app()]).expect("a good dictionary");
    let point =
        Point { id: 0, addresses: vec![at(MAIN_CODE, true)], left_out: None, end: PointEnd::Outermost };
    assert_eq!(decode(&decoder, &token(point, &[])), "unknown:-");
    let mut dictionary = app();
    dictionary.code = Some("nonsense!".to_owned());
    let decoder = Decoder::new(&[dictionary]).expect("it is read when it is needed");
    let point =
        Point { id: 0, addresses: vec![at(MAIN_CODE, true)], left_out: None, end: PointEnd::Outermost };
    assert!(decode(&decoder, &token(point, &[])).contains("machine code table"));
}

#[test]
fn damaged_tables_are_refused() {
    let good = code(&app());
    let wrong: [fn(&mut Code); 8] = [
        |c| c.places[0].caller = 1,
        |c| c.places[1].name = 1000,
        |c| c.functions[0].role = Role::Instrumented(9, 0),
        |c| c.functions[0].role = Role::Instrumented(0, 1000),
        |c| c.functions[0].lines[0].1 = 3,
        |c| c.functions[1].start = 0,
        |c| c.functions[0].calls[0].1 = 1000,
        |c| c.functions[0].states.swap(0, 1),
    ];
    for (number, change) in wrong.iter().enumerate() {
        let mut dictionary = app();
        let mut code = good.clone();
        change(&mut code);
        dictionary.code = Some(to_text(&code));
        let decoder = Decoder::new(&[dictionary]).expect("it is read when it is needed");
        let point =
            Point { id: 0, addresses: vec![at(MAIN_CODE, true)], left_out: None, end: PointEnd::Outermost };
        let message = decode(&decoder, &token(point, &[]));
        assert!(message.contains("write the dictionary again"), "{number}: {message}");
    }
}

fn end() -> impl Strategy<Value = PointEnd> {
    prop_oneof![
        Just(PointEnd::Pushed),
        Just(PointEnd::Outermost),
        Just(PointEnd::Bound),
        Just(PointEnd::Lost)
    ]
}

fn point() -> impl Strategy<Value = Point> {
    let address = (0_u64..0x900, any::<bool>(), any::<bool>())
        .prop_map(|(offset, exact, wild)| at(if wild { offset << 40 } else { MAIN_CODE + offset }, exact));
    let left_out = proptest::option::of((1_usize..4, 1_usize..4));
    (prop_oneof![0_u64..20, any::<u64>()], proptest::collection::vec(address, 1..8), left_out, end())
        .prop_map(|(id, addresses, left_out, end)| {
            let left_out = left_out.filter(|&(first, last)| first <= last && last < addresses.len());
            Point { id, addresses, left_out, end }
        })
}

proptest! {
    #[test]
    fn no_point_makes_the_decoder_panic(
        first in proptest::option::of(point()),
        signals in proptest::collection::vec((0_usize..4, point()), 0..3),
        frames in proptest::collection::vec((0_u64..0x40, 0_u64..20, 1_u64..4), 0..4),
        flags in 0_u8..8,
    ) {
        let (decoder, _) = decoder();
        let site = app().modules[0].sites_address;
        let mut signals = signals;
        signals.sort_by_key(|s| s.0);
        signals.retain(|s| s.0 <= frames.len());
        let token = Token {
            images: vec![BuildId::from_prefix(&APP)],
            point: first,
            frames: frames.iter().map(|&(s, id, count)| {
                PushedFrame { image: 0, site: site + s, left: false, id, distance: 0, count }
            }).collect(),
            signals,
            cut: flags & 1 == 1,
            damaged: flags & 2 == 2,
            start_missing: flags & 3 != 0 && flags & 4 == 4,
            ..Token::default()
        };
        let _ = decode(&decoder, &token);
        let text = token.encode();
        // A token without frames names no image.
        if token.point.is_some() || !token.frames.is_empty() || !token.signals.is_empty() {
            prop_assert_eq!(Token::parse(&text), Ok(token));
        }
    }
}
