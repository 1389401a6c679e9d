//! Dictionaries that contradict themselves, any dictionaries, and those whose encodings have several modules or epochs.

use pcce::decode::DecodeError;
use pcce::token::{BuildId, PushedFrame, Token};
use pcce::{Cause, Context, Decoder, FrameKind};
use pcce_dictionary::{
    Dictionary, Edge, EdgeCode, EncodedFunction, Encoding, Function, Hybrid, Location, Site, SiteKind,
};
use proptest::prelude::*;

use crate::common;
use crate::common::{app, lib, site, token};
use crate::words::frames_of;

#[test]
fn modules_without_dictionary() {
    let app_only = Decoder::new(&[app()]).unwrap();
    let crossing = token(
        Some((site::TAIL_CAPTURE, 0)),
        &[(site::LIB_POINTER, 0), (site::LIB_POINTER, 5), (site::LEAF_LIB_RUN, 0)],
    );
    assert_eq!(frames_of(&app_only, &crossing).unwrap(), "tail [unknown-module -] leaf:32 app::run(int):20");
    let mut context = Context::default();
    app_only.decode(&crossing, &mut context).unwrap();
    assert_eq!(context.missing().collect::<Vec<_>>(), [BuildId::from_prefix(&common::LIB)]);
    let module = app_only.frames(&context).find(|frame| frame.kind == FrameKind::UnknownModule).unwrap();
    assert_eq!(module.build_id, Some(BuildId::from_prefix(&common::LIB)));

    // The capture is in the module; what `tail`, which leaf called, has to do with it is not known.
    let inside = token(Some((site::LIB_CAPTURE, 0)), &[(site::LEAF_TAIL, 0)]);
    assert_eq!(
        frames_of(&app_only, &inside).unwrap(),
        "[unknown-module -] [unknown tail] leaf:30 app::run(int):20"
    );

    let lib_only = Decoder::new(&[lib()]).unwrap();
    let below = token(Some((site::MALLOC_CAPTURE, 0)), &[(site::MALLOC_ENTRY, 0), (site::LEAF_QSORT, 0)]);
    assert_eq!(frames_of(&lib_only, &below).unwrap(), "malloc:5 [unknown -] [unknown-module -]");
    let frame = |image, site| PushedFrame { image, site, left: false, id: 0, distance: 0, count: 1 };
    let images = vec![BuildId::from_prefix(&common::APP), BuildId::from_prefix(&common::LIB)];
    let entry = Token { images, frames: vec![frame(0, 1), frame(1, site::MALLOC_ENTRY)], ..Token::default() };
    assert!(matches!(frames_of(&lib_only, &entry), Err(DecodeError::NotEntered { .. })));
    assert_eq!(
        frames_of(&lib_only, &Token { frames: vec![frame(0, 1), frame(1, site::LIB_POINTER)], ..entry })
            .unwrap(),
        "[uninstrumented -] [unknown-module -] lib_run:3"
    );
}

#[test]
fn inconsistent_dictionaries_are_refused() {
    let refused = |change: &dyn Fn(&mut Dictionary)| {
        let mut dictionary = app();
        change(&mut dictionary);
        Decoder::new(&[dictionary]).expect_err("an inconsistent dictionary was accepted")
    };
    type Change<'a> = &'a dyn Fn(&mut Dictionary);
    let cases: &[(Change<'_>, &str)] = &[
        (&|d| d.build_id = String::new(), "its build id is \"\""),
        (&|d| d.build_id = "ABCD".to_owned(), "its build id is \"ABCD\""),
        (&|d| d.build_id = "abc".to_owned(), "its build id is \"abc\""),
        (&|d| d.modules[0].functions[1].name = 99, "function 1 names name 99, and there are 8"),
        (&|d| d.modules[0].sites[2].function = 4, "site 2 names function 4, and there are 4"),
        (&|d| d.modules[0].sites[2].kind = SiteKind::External(8), "site 2 names name 8"),
        (&|d| d.modules[0].sites[2].locations[0].file = 2, "a location of site 2 names file 2"),
        (&|d| d.modules[0].sites[2].locations[0].name = 8, "a location of site 2 names name 8"),
        (&|d| d.modules[0].sites[2].kind = SiteKind::Direct(Some(4)), "site 2 names function 4"),
        (&|d| d.encodings[0].edges[2].site = 12, "edge 2 names site 12, and there are 12"),
        (&|d| d.encodings[0].edges[2].site = 5, "edge 2 is at site 5, which is no call of that kind"),
        (&|d| d.encodings[0].edges[3].site = 9, "edge 3 is at site 9, which is no call of that kind"),
        (
            &|d| d.modules[0].sites[4].kind = SiteKind::Direct(None),
            "edge 4 is at site 4, which is no call of",
        ),
        (
            &|d| d.encodings[1].edges = vec![Edge { site: 0, callee: None, code: EdgeCode::Open(0) }],
            "edge 0 is at site 0",
        ),
        (&|d| d.encodings[0].edges[3].site = 2, "edge 3 is at site 2, which has another edge"),
        (&|d| d.encodings[0].edges[1].code = EdgeCode::Add(1), "id 1 of function 1"),
        (&|d| d.encodings[0].functions[3].num_cc = 0, "numCC is 0"),
        (&|d| d.encodings[0].functions[0].range = Some(0), "start at 0"),
        (
            &|d| d.encodings[0].functions[0].range = Some(u64::MAX),
            "numbers of function main start at 18446744073709551615",
        ),
        (&|d| d.encodings[0].functions[0].range = Some(1 << 63), "numbers of function main"),
        (&|d| drop(d.encodings.pop()), "module other.c: it has no encoding"),
        (&|d| d.encodings.push(d.encodings[1].clone()), "module other.c: it has two encodings"),
        (
            &|d| d.encodings[1].first_module = 2,
            "encoding 1 is of 1 modules from number 2 on, and there are 2",
        ),
        (&|d| d.encodings[1].first_module = u32::MAX, "encoding 1 is of 1 modules"),
        (&|d| d.encodings[0].module_count = 0, "encoding 0 is of 0 modules"),
        (&|d| d.encodings[0].functions.truncate(3), "its encoding has 3 functions, and there are 4"),
        (&|d| d.encodings[1].open_num_cc = Some(1), "another module has an open node"),
        (
            &|d| d.encodings[0].hybrid = Some(Hybrid { stack_sizes: vec![(4, 8)], ..Hybrid::default() }),
            "names function 4, and there are 4",
        ),
        (
            &|d| d.encodings[0].hybrid = Some(Hybrid { unknown_bases: vec![9], ..Hybrid::default() }),
            "an unknown base 0 names function 9",
        ),
        (
            &|d| d.encodings[0].hybrid = Some(Hybrid { stack_offsets: vec![(5, 8)], ..Hybrid::default() }),
            "names edge 5, and there are 5",
        ),
        (
            &|d| d.encodings[0].hybrid = Some(Hybrid { stack_offsets: vec![(1, 8); 2], ..Hybrid::default() }),
            "edge 1 twice",
        ),
        (&|d| d.modules[1].sites_address -= 1, "its site array at 0x400b with 1 sites overlaps"),
        (
            &|d| d.modules[0].sites_address = u64::MAX - 11,
            "overlaps another one, or the end of the address space",
        ),
        (&|d| d.modules[1].sites_address = d.modules[0].sites_address, "overlaps"),
    ];
    for (change, expected) in cases {
        let error = refused(change).to_string();
        assert!(error.contains(expected), "expected {expected}: {error}");
        assert!(error.starts_with("the dictionary of app") && error.contains("pcce dict"), "{error}");
    }
    assert!(refused(cases[3].0).to_string().contains("module main.c"));
    let error = Decoder::new(&[app(), app()]).unwrap_err();
    assert!(matches!(error.cause, Cause::SameBuildId(_)));
}

prop_compose! {
    /// Any module with small numbers, most of them out of range somewhere.
    fn any_dictionary()(
        functions in proptest::collection::vec(
            (0_u32..4, 0_u64..4, -1_i64..2, any::<[bool; 3]>(), proptest::option::of(any::<u64>())), 0..4,
        ),
        open_num_cc in proptest::option::of(0_u64..3),
        sites in proptest::collection::vec((0_u32..4, 0_u8..8, 0_u32..4, 0_usize..3), 0..8),
        edges in proptest::collection::vec((0_u32..8, 0_u8..8), 0..6),
        sites_address in prop_oneof![Just(common::MAIN), any::<u64>()],
    ) -> Dictionary {
        let mut dictionary = app();
        dictionary.encodings[0] = Encoding {
            module_count: 1,
            open_num_cc,
            functions: functions.iter().map(|&(_, num_cc, id_offset, [entry, open, _], range)| {
                EncodedFunction { num_cc, id_offset, entry, open, range }
            }).collect(),
            edges: edges.into_iter().map(|(site, code)| Edge {
                site,
                callee: None,
                code: match code {
                    0 => EdgeCode::Back,
                    1 => EdgeCode::Cut,
                    2 => EdgeCode::Required,
                    3 | 4 => EdgeCode::Open(u64::from(code) - 3),
                    value => EdgeCode::Add(u64::from(value) - 5),
                },
            }).collect(),
            ..Encoding::default()
        };
        let module = &mut dictionary.modules[0];
        module.sites_address = sites_address;
        module.functions = functions.into_iter()
            .map(|(name, _, _, [_, _, external], _)| Function {
                name,
                external,
                aliases: vec![name; usize::from(external)],
                ..Function::default()
            })
            .collect();
        module.sites = sites.into_iter().map(|(function, kind, name, locations)| Site {
            function,
            kind: match kind {
                0 => SiteKind::Direct(Some(name)),
                1 => SiteKind::External(name),
                6 => SiteKind::Replaced(name),
                2 => SiteKind::Indirect,
                3 => SiteKind::Asm,
                4 => SiteKind::Capture,
                5 => SiteKind::Direct(None),
                _ => SiteKind::Entry,
            },
            tail_group: None,
            locations: vec![Location { name, file: name % 3, line: 0, column: 0 }; locations],
        }).collect();
        dictionary
    }
}

proptest! {
    #[test]
    fn random_dictionaries_never_panic(
        dictionary in any_dictionary(),
        capture in proptest::option::of((0_u64..14, 0_u64..4)),
        frames in proptest::collection::vec((0_u64..14, 0_u64..4, 1_u64..4), 0..5),
    ) {
        if let Ok(decoder) = Decoder::new(&[dictionary]) {
            let pairs: Vec<_> = frames.iter().map(|(site, id, _)| (site + common::MAIN, *id)).collect();
            let mut token = token(capture.map(|(site, id)| (site + common::MAIN, id)), &pairs);
            for (frame, (_, _, count)) in token.frames.iter_mut().zip(&frames) {
                frame.count = *count;
            }
            let mut context = Context::default();
            if decoder.decode(&token, &mut context).is_ok() {
                prop_assert!(decoder.frames(&context).count() >= 1);
            }
        }
    }

    /// Any (site, id) pairs on the good dictionary: an error, or a trace with each frame's call in it.
    #[test]
    fn random_tokens_never_panic(
        capture in proptest::option::of((0_u64..14, 0_u64..4)),
        frames in proptest::collection::vec((0_u64..14, 0_u64..4, 1_u64..4), 0..5),
    ) {
        let decoder = Decoder::new(&[app(), lib()]).unwrap();
        let pairs: Vec<_> = frames.iter().map(|(site, id, _)| (site + common::MAIN, *id)).collect();
        let mut token = token(capture.map(|(site, id)| (site + common::MAIN, id)), &pairs);
        for (frame, (_, _, count)) in token.frames.iter_mut().zip(&frames) {
            frame.count = *count;
        }
        // With a repetition or without: the same.
        let expanded = Token {
            frames: token.frames.iter().flat_map(|frame| {
                std::iter::repeat_n(PushedFrame { count: 1, ..*frame }, frame.count as usize)
            }).collect(),
            ..token.clone()
        };
        prop_assert_eq!(frames_of(&decoder, &token), frames_of(&decoder, &expanded));
    }
}

/// Both modules of the program in one encoding: what a link would make that knows both.
fn linked() -> Dictionary {
    let mut dictionary = app();
    let other = dictionary.encodings.pop().unwrap();
    let encoding = &mut dictionary.encodings[0];
    encoding.module_count = 2;
    encoding.functions.extend(other.functions);
    // `leaf` calls `other` through a pointer, and adds.
    encoding.edges.push(Edge { site: 7, callee: None, code: EdgeCode::Open(1) });
    encoding.functions[4] = EncodedFunction { num_cc: 4, open: true, ..encoding.functions[4] };
    encoding.open_num_cc = Some(4);
    dictionary
}

#[test]
fn modules_of_one_encoding_have_one_table_of_paths() {
    let mut dictionary = linked();
    let open = |dictionary: &Dictionary, id| {
        let decoder = Decoder::new(std::slice::from_ref(dictionary)).unwrap();
        frames_of(&decoder, &token(Some((site::OTHER_CAPTURE, id)), &[]))
    };
    assert_eq!(open(&dictionary, 2).unwrap(), "other:3 leaf:33 app::run(int):20 main:10");
    assert_eq!(open(&dictionary, 3).unwrap(), "other:3 leaf:33 app::run(int):20 main:11");
    // Sites of the second module are numbered behind those of the first one.
    dictionary.encodings[0].edges.push(Edge { site: 12, callee: None, code: EdgeCode::Back });
    let error = Decoder::new(std::slice::from_ref(&dictionary)).unwrap_err().to_string();
    assert!(error.starts_with("the dictionary of app: edge 6 is at site 12"), "{error}");
}

#[test]
fn encodings_of_later_epochs_are_refused() {
    let text = serde_json::to_string(&app()).unwrap();
    let later = text.replacen("\"epoch\":0", "\"epoch\":1", 1);
    assert_ne!(text, later);
    let error = pcce_dictionary::from_json(&later.into_bytes()).unwrap_err().to_string();
    assert!(error.contains("epoch 1 is not known"), "{error}");
}
