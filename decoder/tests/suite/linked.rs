//! Programs that were encoded as a whole at the link: encodings of several modules, with calls by name that the link
//! has bound.

use pcce::decode::DecodeError;
use pcce::graph::{Selection, draw};
use pcce::program::{ProgramError, dictionary};
use pcce::token::{CodeAddress, Point, PointEnd};
use pcce::{Context, Decoder, Token};
use pcce_dictionary::code::{Code, FunctionCode, Role, State, to_text};
use pcce_dictionary::{Dictionary, Edge, EdgeCode, Function, SiteKind, fragment, section, unlinked};

use crate::common::elf;
use crate::common::elf::{Compression, Kind};
use crate::common::linked;
use crate::common::linked::{LINKED, linked, site, token};
use crate::words::{frames_of, short_frame};

/// The site of frames that functions push which an open call has reached.
const OPEN_SITE: u64 = 0;

fn decoder(dictionary: Dictionary) -> Decoder {
    Decoder::new(&[dictionary]).unwrap()
}

/// The frames of a token of the program.
fn frames(capture: Option<(u64, u64)>, frames: &[(u64, u64)]) -> String {
    frames_of(&decoder(linked()), &token(capture, frames)).unwrap()
}

#[test]
fn sub_paths_lead_from_one_module_to_another() {
    assert_eq!(frames(Some((site::VISIT_CAPTURE, 3)), &[]), "visit:15 main:10");
    assert_eq!(frames(Some((site::VISIT_CAPTURE, 4)), &[]), "visit:15 main:11");
    assert_eq!(frames(Some((site::VISIT_CAPTURE, 5)), &[]), "visit:15 walk:13 main:12");
    assert_eq!(frames(Some((site::LEAF_CAPTURE, 3)), &[]), "leaf:12 visit:11 main:11");
    // By an open call.
    assert_eq!(frames(Some((site::LEAF_CAPTURE, 1)), &[]), "leaf:12 walk:14 main:12");
    // Out of the program, and into a module that was encoded when it was compiled.
    let below = [(site::LEAF_OUTSIDE, 2)];
    assert_eq!(
        frames(Some((site::APART_CAPTURE, 0)), &below),
        "apart:10 [uninstrumented outside] leaf:13 visit:11 main:10"
    );
}

#[test]
fn pushes_across_modules_tell_where_the_sub_path_starts() {
    // The id 0 of `leaf` would be that of an open call from outside.
    let walk = [(site::VISIT_WALK, 3)];
    assert_eq!(frames(Some((site::LEAF_CAPTURE, 0)), &walk), "leaf:12 visit:11 walk:13 visit:10 main:10");
    assert_eq!(
        frames(Some((site::LEAF_CAPTURE, 0)), &[(site::LEAF_WALK, 0), (site::VISIT_WALK, 4)]),
        "leaf:12 visit:11 walk:13 leaf:14 visit:11 walk:13 visit:10 main:11"
    );
    let repeated = [(site::VISIT_WALK, 1), (site::VISIT_WALK, 1), (site::VISIT_WALK, 5)];
    assert_eq!(
        frames(Some((site::WALK_CAPTURE, 0)), &repeated),
        "walk:15 visit:10 walk:13 visit:10 walk:13 visit:10 walk:13 main:12"
    );
    // Taken where nothing is instrumented: the link knows what was called, and not what happened then.
    assert_eq!(frames(None, &walk), "[uninstrumented -] [unknown walk] visit:10 main:10");
    // An open call of a sub-path that begins in `walk`.
    let mut open = token(Some((site::APART_CAPTURE, 0)), &[(OPEN_SITE, 1), (site::VISIT_WALK, 3)]);
    open.frames[0].id = 1_u64.wrapping_sub(4);
    assert_eq!(frames_of(&decoder(linked()), &open).unwrap(), "apart:10 walk:14 visit:10 main:10");
}

/// The callee of a push may leave its activation to another function, if its offset is 0.
#[test]
fn callees_that_left_are_named() {
    let mut dictionary = linked();
    dictionary.encodings[0].functions[1].id_offset = 0;
    let left = token(Some((site::LEAF_CAPTURE, 0)), &[(site::VISIT_WALK, 3)]);
    assert_eq!(frames_of(&decoder(dictionary), &left).unwrap(), "leaf:12 [tail walk] visit:10 main:10");
}

/// Groups are those of the encoding, whichever of its modules a function is in.
#[test]
fn functions_of_other_modules_leave_their_activations() {
    let open = token(Some((site::LEAF_CAPTURE, 1)), &[]);
    let with_groups = |of_leaf: &[u32], leaving: &[u32]| {
        let mut dictionary = linked();
        dictionary.modules[0].sites[4].tail_group = Some(1);
        dictionary.modules[1].functions[1].tail_groups = of_leaf.to_vec();
        dictionary.modules[1].leaving_groups = leaving.to_vec();
        frames_of(&decoder(dictionary), &open).unwrap()
    };
    assert_eq!(with_groups(&[1], &[]), "leaf:12 [tail -] walk:14 main:12");
    assert_eq!(with_groups(&[2], &[1]), "leaf:12 walk:14 main:12");
    // Into another encoding.
    let apart = token(Some((site::APART_CAPTURE, 0)), &[(OPEN_SITE, 1)]);
    let mut dictionary = linked();
    dictionary.modules[0].sites[4].tail_group = Some(1);
    assert_eq!(frames_of(&decoder(dictionary.clone()), &apart).unwrap(), "apart:10 walk:14 main:12");
    dictionary.modules[1].leaving_groups = vec![1];
    assert_eq!(frames_of(&decoder(dictionary), &apart).unwrap(), "apart:10 [tail -] walk:14 main:12");
}

#[test]
fn tokens_that_do_not_fit_are_refused() {
    let decoder = decoder(linked());
    let error = |token: &Token| frames_of(&decoder, token).unwrap_err();
    // A call that adds has pushed nothing.
    let added = error(&token(Some((site::VISIT_CAPTURE, 3)), &[(site::MAIN_VISIT, 0)]));
    assert!(added.to_string().contains("is a direct call that adds, and a call that pushes"), "{added}");
    let capture = error(&token(Some((site::VISIT_WALK, 3)), &[]));
    assert!(matches!(capture, DecodeError::SiteKind { expected: "a capture", .. }), "{capture}");
    // No sub-path that begins in `walk` leads to `visit` from `main`.
    let start = error(&token(Some((site::VISIT_CAPTURE, 0_u64.wrapping_sub(1))), &[(site::VISIT_WALK, 3)]));
    assert!(matches!(start, DecodeError::NoId { .. }), "{start}");
}

#[test]
fn context_numbers_are_those_of_the_encoding() {
    let decoder = decoder(linked());
    let mut context = Context::default();
    let mut decode = |number| {
        decoder.decode_number(number, &mut context).unwrap();
        decoder.frames(&context).map(|frame| short_frame(&frame)).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(decode(2), "walk main:12");
    assert_eq!(decode(4), "visit main:11");
    assert_eq!(decode(5), "visit walk:13 main:12");
    assert_eq!(decode(10), "leaf visit:11 walk:13 main:12");
    assert_eq!(decode(7), "leaf walk:14 main:12");
}

#[test]
fn callees_that_cannot_be_are_refused() {
    type Change<'a> = &'a dyn Fn(&mut Dictionary);
    let cases: &[(Change<'_>, &str)] = &[
        (&|d| d.encodings[0].edges[0].callee = Some(4), "edge 0 names function 4, and there are 4"),
        (&|d| d.encodings[0].edges[5].callee = Some(u32::MAX), "edge 5 names function 4294967295"),
        // Sites that tell their callee, or that nobody knows it.
        (&|d| d.encodings[0].edges[2].callee = Some(1), "edge 2 names a callee, and site 2 calls no name"),
        (&|d| d.encodings[0].edges[4].callee = Some(3), "edge 4 names a callee, and site 4 calls no name"),
        (&|d| d.encodings[0].edges[7].site = 8, "edge 7 names a callee, and site 8 calls no name"),
        (&|d| d.modules[0].sites[0].kind = SiteKind::Asm, "edge 0 names a callee, and site 0 calls no name"),
        // An open call, of what leaves by a tail call, where there is no open node.
        (
            &|d| {
                d.encodings[0].edges[0].code = EdgeCode::Open(0);
                d.encodings[0].open_num_cc = None;
            },
            "edge 0 is at site 0, which is no call of",
        ),
        (&|d| d.encodings[0].edges[0].callee = None, "edge 0 is at site 0, which is no call of that kind"),
        // The numbers are checked as those of other edges.
        (&|d| d.encodings[0].edges[0].callee = Some(3), "id 0 of function 2 comes in by no edge"),
        (&|d| d.encodings[0].edges[5].code = EdgeCode::Add(0), "which leaves the 1 ids of its callee"),
    ];
    for (change, expected) in cases {
        let mut dictionary = linked();
        change(&mut dictionary);
        let error = Decoder::new(&[dictionary]).unwrap_err().to_string();
        assert!(error.contains(expected), "expected {expected}: {error}");
        assert!(error.starts_with("the dictionary of linked: "), "{error}");
    }
    // The link may bind a call to a function of the caller's own module.
    let mut dictionary = linked();
    dictionary.modules[0].sites[2].kind = SiteKind::External(1);
    dictionary.encodings[0].edges[2].callee = Some(1);
    let decoder = decoder(dictionary);
    let own = token(Some((site::WALK_CAPTURE, 4)), &[]);
    assert_eq!(frames_of(&decoder, &own).unwrap(), "walk:15 main:12");
}

/// Function `i` of the encoding begins at `0x1000 * (i + 1)`: its id has 2 added from 0x20 on, and behind 0x15 it calls
/// something.
fn code() -> Code {
    let names = ["main", "walk", "visit", "leaf"];
    let row = |i: u32| FunctionCode {
        start: 0x1000 * u64::from(i + 1),
        len: 0x80,
        part: false,
        second: false,
        name: i,
        role: Role::Instrumented(i / 2, i % 2),
        states: vec![(0, State::Added(0)), (0x20, State::Added(2))],
        lines: vec![],
        calls: vec![(0x15, 0)],
        frame_offset: None,
        frame_position: None,
        stays: false,
    };
    Code { names: names.map(str::to_owned).into(), functions: (0..4).map(row).collect(), ..Code::default() }
}

#[test]
fn interrupted_points_are_in_any_module() {
    let decoder = decoder(Dictionary { code: Some(to_text(&code())), ..linked() });
    let at = |address, exact| CodeAddress { image: 0, address, exact, distance: 0 };
    let point = |id, addresses: &[CodeAddress], end, frames: &[(u64, u64)]| {
        let point = Some(Point { id, addresses: addresses.to_vec(), left_out: None, end });
        frames_of(&decoder, &Token { point, ..token(None, frames) }).unwrap()
    };
    // In `leaf`, at its entry and where it has added 2.
    let ends = PointEnd::Bound;
    assert_eq!(point(3, &[at(0x4000, true)], ends, &[]), "leaf visit:11 main:11");
    assert_eq!(point(5, &[at(0x4020, true)], ends, &[]), "leaf visit:11 main:11");
    // In `visit`, below a push of `visit`.
    assert_eq!(
        point(1, &[at(0x3000, true)], ends, &[(site::VISIT_WALK, 3)]),
        "visit walk:13 visit:10 main:10"
    );
    // In code that is not instrumented, called through a pointer by the function that has pushed the innermost frame.
    assert_eq!(
        point(0, &[at(0x9000, true), at(0x3015, false)], PointEnd::Pushed, &[(site::VISIT_WALK, 4)]),
        "[uninstrumented -] [tail -] visit main:11"
    );
}

/// A program with a linked record, as the link step leaves it, and a fragment.
fn program() -> Vec<u8> {
    elf::program(&linked(), &LINKED)
}

#[test]
fn linked_records_are_read() {
    assert_eq!(dictionary(&program(), "linked").unwrap(), linked());
    let json = pcce_dictionary::to_json(&linked());
    assert_eq!(pcce_dictionary::from_json(&json).unwrap(), linked());
    // Fragments in front of it.
    let mut other = linked();
    other.modules.rotate_right(1);
    other.encodings.rotate_right(1);
    (other.encodings[0].first_module, other.encodings[1].first_module) = (0, 1);
    let found = dictionary(&elf::program(&other, &LINKED), "linked").unwrap();
    assert_eq!(found, other);
    let visit = token(Some((site::VISIT_CAPTURE, 4)), &[]);
    assert_eq!(frames_of(&decoder(found), &visit).unwrap(), "visit:15 main:11");
}

/// A program with a module that is not encoded.
fn unlinked_program(address: u64) -> Vec<u8> {
    let module = &linked().modules[0];
    let mut bytes = unlinked::to_bytes(module, &serde_json::json!({"any": [1, 2]}));
    let at = section::SITES_ADDRESS_OFFSET;
    bytes[at..at + 8].copy_from_slice(&address.to_le_bytes());
    let apart = fragment::to_bytes(&linked().modules[2], &[]);
    bytes.extend(apart);
    elf::elf(Some(&bytes), Some(&LINKED), Compression::None, Kind::Executable)
}

#[test]
fn modules_that_are_not_encoded_are_refused() {
    let error = dictionary(&unlinked_program(linked::A), "app").unwrap_err();
    assert!(matches!(error, ProgramError::Unlinked), "{error}");
    assert_eq!(
        error.to_string(),
        "parts of the program were compiled by an earlier release, and are not encoded; compile them again"
    );
    // Whose code the linker has left out needs none.
    let error = dictionary(&unlinked_program(0), "app").unwrap_err();
    assert!(matches!(error, ProgramError::NoModule), "{error}");
    // Also where the step was run before the program was linked again with another object.
    let mut bytes = elf::section(&linked());
    let mut record = unlinked::to_bytes(&linked().modules[0], &());
    record[section::SITES_ADDRESS_OFFSET] = 1;
    bytes.extend(record);
    let program = elf::elf(Some(&bytes), Some(&LINKED), Compression::Zlib, Kind::Shared);
    assert!(matches!(dictionary(&program, "app"), Err(ProgramError::Unlinked)));
}

#[test]
fn the_call_graph_leads_across_modules() {
    let dot = draw(&linked(), None, &Selection { encoding: true, ..Selection::default() }).unwrap().dot;
    for arrow in [
        "f0_0 -> f1_0 [label=\"+0 +1\"];",
        "f0_0 -> f0_1 [label=\"+0\"];",
        "f0_1 -> f1_0 [label=\"+2\"];",
        "f1_0 -> f0_1 [label=\"push\", style=dashed",
        "f1_1 -> f0_1 [label=\"push\", style=dashed",
        "f1_0 -> f1_1 [label=\"+2\"];",
    ] {
        assert!(dot.contains(arrow), "{arrow}: {dot}");
    }
    // A call of a silent function does nothing, which only the link could know.
    let mut dictionary = linked();
    dictionary.modules[1].functions.push(Function {
        name: 3,
        external: true,
        silent: true,
        ..Function::default()
    });
    let silent = |dictionary: &Dictionary| {
        let dot = draw(dictionary, None, &Selection { encoding: true, ..Selection::default() }).unwrap().dot;
        dot.contains("f1_1 -> f1_2")
    };
    let row = dictionary.encodings[0].functions[0];
    dictionary.encodings[0].functions.push(row);
    assert!(!silent(&dictionary));
    // If it is bound, it does something.
    dictionary.encodings[0].edges.push(Edge { site: 9, callee: Some(4), code: EdgeCode::Required });
    assert!(silent(&dictionary));
}
