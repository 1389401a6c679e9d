//! Decoding of tokens and numbers on a dictionary made by hand: each rule, boundary and error.

use pcce::decode::DecodeError;
use pcce::render::{Format, Renderer};
use pcce::token::{BuildId, Token};
use pcce::{Context, Decoder, Frame, FrameKind};
use pcce_dictionary::{Dictionary, EdgeCode, Site, SiteKind};

use crate::common;
use crate::common::{app, lib, site, token};
use crate::words::{frames_of, short_frame};

fn decoder() -> Decoder {
    Decoder::new(&[app(), lib()]).unwrap()
}

fn decode(capture: Option<(u64, u64)>, frames: &[(u64, u64)]) -> String {
    frames_of(&decoder(), &token(capture, frames)).unwrap()
}

fn fails(capture: Option<(u64, u64)>, frames: &[(u64, u64)]) -> DecodeError {
    frames_of(&decoder(), &token(capture, frames)).unwrap_err()
}

#[test]
fn a_sub_path_ends_at_its_root() {
    assert_eq!(decode(Some((site::LEAF_CAPTURE, 0)), &[]), "helper:7i leaf:35 app::run(int):20");
    assert_eq!(decode(Some((site::LEAF_CAPTURE, 1)), &[]), "helper:7i leaf:35 app::run(int):20 main:10");
    assert_eq!(decode(Some((site::LEAF_CAPTURE, 2)), &[]), "helper:7i leaf:35 app::run(int):20 main:11");
}

#[test]
fn frames_are_given_in_full() {
    let decoder = decoder();
    let mut context = Context::default();
    decoder.decode(&token(Some((site::LEAF_CAPTURE, 2)), &[]), &mut context).unwrap();
    let frames: Vec<_> = decoder.frames(&context).collect();
    let call = Frame {
        kind: FrameKind::Call,
        function: Some("helper"),
        linkage_name: Some("helper"),
        file: Some("/src/helper.h"),
        line: Some(7),
        column: Some(9),
        certain: false,
        inlined: true,
        build_id: None,
    };
    assert_eq!(frames[0], call);
    let (function, linkage_name) = (Some("app::run(int)"), Some("_ZN3app3runEi"));
    let file = Some("/src/main.c");
    let expected =
        Frame { function, linkage_name, file, line: Some(20), column: Some(5), inlined: false, ..call };
    assert_eq!(frames[2], expected);
    assert_eq!(frames.len(), 4);
}

#[test]
fn pushes_join_sub_paths() {
    // main:10 → run → run (back edge) → leaf.
    assert_eq!(
        decode(Some((site::LEAF_CAPTURE, 0)), &[(site::RUN_RUN, 0), (site::RUN_RUN, 1)]),
        "helper:7i leaf:35 app::run(int):20 app::run(int):21 app::run(int):21 main:10"
    );
    // The cut edge; the site of the capture has no location.
    assert_eq!(
        decode(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_TAIL, 2)]),
        "tail leaf:30 app::run(int):20 main:11"
    );
    // A pointer's target and inline assembly's are known as the root.
    for (place, line) in [(site::LEAF_POINTER, 33), (site::LEAF_ASM, 34)] {
        assert_eq!(
            decode(Some((site::TAIL_CAPTURE, 0)), &[(place, 0)]),
            format!("tail leaf:{line} app::run(int):20")
        );
    }
}

#[test]
fn push_thunks_are_not_shown() {
    let mut dictionary = app();
    let module = &mut dictionary.modules[0];
    let leaf = module.names.iter().position(|name| name == "leaf").unwrap() as u32;
    module.functions.iter_mut().find(|function| function.name == leaf).unwrap().push_thunk = true;
    let decoder = Decoder::new(&[dictionary]).unwrap();
    let decode =
        |frames: &[(u64, u64)]| frames_of(&decoder, &token(Some((site::TAIL_CAPTURE, 0)), frames)).unwrap();
    assert_eq!(decode(&[(site::LEAF_TAIL, 2)]), "tail app::run(int):20 main:11");
    // Whether the call reached what runs is asked all the same.
    assert_eq!(decode(&[(site::LEAF_QSORT, 1)]), "tail [uninstrumented qsort] app::run(int):20 main:10");
}

#[test]
fn equal_frames_are_repeated() {
    let decoder = decoder();
    let mut repeated = token(Some((site::LEAF_CAPTURE, 0)), &[(site::RUN_RUN, 0), (site::RUN_RUN, 1)]);
    repeated.frames[0].count = 3;
    let single = token(
        Some((site::LEAF_CAPTURE, 0)),
        &[(site::RUN_RUN, 0), (site::RUN_RUN, 0), (site::RUN_RUN, 0), (site::RUN_RUN, 1)],
    );
    assert_eq!(frames_of(&decoder, &repeated), frames_of(&decoder, &single));
    // What lies above is asked for each: leaf's qsort calls back a function that ends in leaf again.
    let mut repeated = token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_QSORT, 1)]);
    repeated.frames[0].count = 2;
    assert_eq!(
        frames_of(&decoder, &repeated).unwrap(),
        "tail [uninstrumented qsort] leaf:31 app::run(int):20 main:10 [uninstrumented qsort] leaf:31 app::run(int):20 main:10"
    );
    // The trace of many is compact.
    repeated.frames[0].count = pcce::token::MAX_FRAMES;
    let mut context = Context::default();
    decoder.decode(&repeated, &mut context).unwrap();
    assert_eq!(decoder.frames(&context).take(1_000_000).count(), 1_000_000);
    // Repeated frames of a module without dictionary are one boundary.
    let decoder = Decoder::new(&[app()]).unwrap();
    let mut foreign =
        token(Some((site::TAIL_CAPTURE, 0)), &[(site::LIB_POINTER, 1), (site::LEAF_LIB_RUN, 0)]);
    foreign.frames[0].count = pcce::token::MAX_FRAMES - 1;
    assert_eq!(frames_of(&decoder, &foreign).unwrap(), "tail [unknown-module -] leaf:32 app::run(int):20");
}

#[test]
fn external_calls_join_if_the_names_match() {
    // Another module of the program, and another image.
    assert_eq!(
        decode(Some((site::OTHER_CAPTURE, 0)), &[(site::LEAF_OTHER, 0)]),
        "other:3 leaf:36 app::run(int):20"
    );
    assert_eq!(
        decode(Some((site::LIB_CAPTURE, 0)), &[(site::LEAF_LIB_RUN, 0)]),
        "lib_run:1 leaf:32 app::run(int):20"
    );
    // Code that is not instrumented called back.
    assert_eq!(
        decode(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_QSORT, 1)]),
        "tail [uninstrumented qsort] leaf:31 app::run(int):20 main:10"
    );
    // `other` is instrumented, so it must not be called uninstrumented.
    assert_eq!(
        decode(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_OTHER, 0)]),
        "tail [tail other] leaf:36 app::run(int):20"
    );
    // By the name of an alias.
    let mut dictionary = app();
    let other = std::mem::take(&mut dictionary.modules[1].functions[0].name);
    let alias = dictionary.modules[1].names.len() as u32;
    dictionary.modules[1].names.push("other_complete".to_owned());
    dictionary.modules[1].functions[0].name = alias;
    dictionary.modules[1].functions[0].aliases = vec![other];
    let decoder = Decoder::new(&[dictionary]).unwrap();
    assert_eq!(
        frames_of(&decoder, &token(Some((site::OTHER_CAPTURE, 0)), &[(site::LEAF_OTHER, 0)])).unwrap(),
        "other:3 leaf:36 app::run(int):20"
    );
    // Only functions that other modules can call match.
    let mut dictionary = app();
    dictionary.modules[1].functions[0].external = false;
    let decoder = Decoder::new(&[dictionary]).unwrap();
    assert_eq!(
        frames_of(&decoder, &token(Some((site::OTHER_CAPTURE, 0)), &[(site::LEAF_OTHER, 0)])).unwrap(),
        "other:3 [uninstrumented other] leaf:36 app::run(int):20"
    );
}

#[test]
fn a_direct_call_names_a_callee_that_is_gone() {
    // `tail` replaced itself by run.
    assert_eq!(
        decode(Some((site::LEAF_CAPTURE, 0)), &[(site::LEAF_TAIL, 0)]),
        "helper:7i leaf:35 app::run(int):20 [tail tail] leaf:30 app::run(int):20"
    );
}

#[test]
fn a_call_through_a_pointer_tells_where_a_frame_may_be_gone() {
    let call = token(Some((site::LEAF_CAPTURE, 0)), &[(site::LEAF_POINTER, 0)]);
    let mut dictionary = app();
    let straight = frames_of(&Decoder::new(&[dictionary.clone()]).unwrap(), &call).unwrap();
    assert_eq!(straight, "helper:7i leaf:35 app::run(int):20 leaf:33 app::run(int):20");
    let with_gap = "helper:7i leaf:35 app::run(int):20 [tail -] leaf:33 app::run(int):20";
    let of = |dictionary: &Dictionary, call: &Token| {
        frames_of(&Decoder::new(std::slice::from_ref(dictionary)).unwrap(), call).unwrap()
    };
    // The group of this call, and not one of others.
    dictionary.modules[0].sites[7].tail_group = Some(1);
    dictionary.modules[0].functions[1].tail_groups = vec![0, 2];
    assert_eq!(of(&dictionary, &call), straight);
    dictionary.modules[0].functions[1].tail_groups = vec![0, 1];
    assert_eq!(of(&dictionary, &call), with_gap);
    // To a function of another module.
    let crossing = token(Some((site::OTHER_CAPTURE, 0)), &[(site::LEAF_POINTER, 0)]);
    assert_eq!(of(&dictionary, &crossing), "other:3 leaf:33 app::run(int):20");
    dictionary.modules[0].leaving_groups = vec![1];
    assert_eq!(of(&dictionary, &crossing), "other:3 [tail -] leaf:33 app::run(int):20");
}

#[test]
fn a_frame_tells_that_the_callee_is_gone() {
    let of = |mut token: Token, thread: bool| {
        token.frames.iter_mut().for_each(|frame| frame.left = true);
        token.left = thread;
        let word = token.encode();
        assert_eq!(Token::parse(&word).as_ref(), Ok(&token));
        frames_of(&decoder(), &token).unwrap()
    };
    let through = |site| token(Some((site::LEAF_CAPTURE, 0)), &[(site, 0)]);
    let inner = "helper:7i leaf:35 app::run(int):20";
    assert_eq!(of(through(site::LEAF_POINTER), false), format!("{inner} [tail -] leaf:33 app::run(int):20"));
    // The function that was called has taken the context itself, in another activation.
    let itself = token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_TAIL, 0)]);
    assert_eq!(of(itself, false), "tail [tail tail] leaf:30 app::run(int):20");
    // Called back.
    let called_back = format!("{inner} [uninstrumented qsort] leaf:31 app::run(int):20");
    assert_eq!(of(through(site::LEAF_QSORT), false), called_back);
    // What the thread began with.
    assert_eq!(of(token(Some((site::LEAF_CAPTURE, 0)), &[]), true), format!("{inner} [tail -]"));
    let cut = Token { cut: true, ..token(Some((site::LEAF_CAPTURE, 0)), &[]) };
    assert_eq!(of(cut, true), format!("{inner} [truncated -]"));
}

/// A function of a library that left its activation, and whose frame says nothing else: the executable had pushed.
#[test]
fn a_mark_on_a_frame_that_says_nothing_else_is_not_lost() {
    let of = |dictionary: Dictionary, outer: u64| {
        let mut token = token(Some((site::LEAF_CAPTURE, 0)), &[(common::MAIN, 0), (outer, 0)]);
        (token.frames[0].site, token.frames[0].left) = (0, true);
        frames_of(&Decoder::new(&[dictionary]).unwrap(), &token).unwrap()
    };
    let inner = "helper:7i leaf:35 app::run(int):20";
    // The sub-path starts behind a direct call, of the very function that runs.
    assert_eq!(of(app(), site::RUN_RUN), format!("{inner} [tail -] app::run(int):21"));
    // A call through a pointer, of which it is known that what it reaches may leave: that is said once.
    let through = format!("{inner} [tail -] leaf:33 app::run(int):20");
    assert_eq!(of(app(), site::LEAF_POINTER), through);
    let mut dictionary = app();
    dictionary.modules[0].sites[7].tail_group = Some(1);
    dictionary.modules[0].functions[1].tail_groups = vec![1];
    assert_eq!(of(dictionary, site::LEAF_POINTER), through);
}

#[test]
fn without_capture() {
    assert_eq!(decode(None, &[]), "[uninstrumented -]");
    assert_eq!(decode(None, &[(site::LEAF_QSORT, 0)]), "[uninstrumented qsort] leaf:31 app::run(int):20");
    // The same of a call that was published.
    assert_eq!(decode(Some((site::LEAF_QSORT, 0)), &[]), "[uninstrumented qsort] leaf:31 app::run(int):20");
    assert_eq!(
        decode(Some((site::LEAF_OTHER, 0)), &[]),
        "[uninstrumented -] [unknown other] leaf:36 app::run(int):20"
    );
    assert_eq!(decode(None, &[(site::LEAF_POINTER, 0)]), "[uninstrumented -] leaf:33 app::run(int):20");
    assert_eq!(
        decode(None, &[(site::LEAF_OTHER, 0)]),
        "[uninstrumented -] [unknown other] leaf:36 app::run(int):20"
    );
    assert_eq!(
        decode(None, &[(site::LEAF_TAIL, 0)]),
        "[uninstrumented -] [unknown tail] leaf:30 app::run(int):20"
    );
    assert_eq!(decode(None, &[(site::MALLOC_ENTRY, 9)]), "[uninstrumented -] [unknown malloc] [unknown -]");
    assert_eq!(fails(None, &[(0x9999, 0)]), fails(None, &[(0x9999, 1)]));
}

#[test]
fn entered_functions() {
    let inside = Some((site::MALLOC_CAPTURE, 0));
    // The call right below is the caller: by name, or by the edge.
    assert_eq!(decode(inside, &[(site::MALLOC_ENTRY, 0), (site::LIB_MALLOC, 0)]), "malloc:5 lib_run:2");
    // Another id: somebody between did not push.
    assert_eq!(
        decode(inside, &[(site::MALLOC_ENTRY, 7), (site::LIB_MALLOC, 0)]),
        "malloc:5 [unknown malloc] lib_run:2"
    );
    // The function called, or one that it called back, called malloc.
    assert_eq!(
        decode(inside, &[(site::MALLOC_ENTRY, 0), (site::LEAF_QSORT, 0)]),
        "malloc:5 [unknown qsort] leaf:31 app::run(int):20"
    );
    assert_eq!(
        decode(inside, &[(site::MALLOC_ENTRY, 0), (site::LEAF_TAIL, 0)]),
        "malloc:5 [unknown tail] leaf:30 app::run(int):20"
    );
    assert_eq!(
        decode(inside, &[(site::MALLOC_ENTRY, 0), (site::LEAF_POINTER, 0)]),
        "malloc:5 [unknown -] leaf:33 app::run(int):20"
    );
    // Nothing below.
    assert_eq!(decode(inside, &[(site::MALLOC_ENTRY, 0)]), "malloc:5 [unknown -]");
    assert_eq!(decode(inside, &[(site::MALLOC_ENTRY, 7)]), "malloc:5 [unknown -]");
    // malloc again: the second one is named.
    assert_eq!(
        decode(inside, &[(site::MALLOC_ENTRY, 0), (site::MALLOC_ENTRY, 0), (site::LIB_MALLOC, 0)]),
        "malloc:5 [unknown malloc] lib_run:2"
    );
    let error = fails(Some((site::TAIL_CAPTURE, 0)), &[(site::MALLOC_ENTRY, 0)]);
    assert!(
        matches!(error, DecodeError::NotEntered { ref function, ref found } if function == "malloc" && found == "tail")
    );
}

#[test]
fn an_entered_function_with_a_required_push() {
    // A direct call of a function with an entry site pushes; it is the caller if the id is 0.
    let mut dictionary = app();
    dictionary.modules[0].sites[9] =
        Site { function: 3, kind: SiteKind::Entry, tail_group: None, locations: vec![] };
    dictionary.encodings[0].edges[4].code = EdgeCode::Required;
    let decoder = Decoder::new(&[dictionary]).unwrap();
    let entered =
        |id| token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_CAPTURE, id), (site::LEAF_TAIL, 0)]);
    assert_eq!(frames_of(&decoder, &entered(0)).unwrap(), "tail leaf:30 app::run(int):20");
    assert_eq!(frames_of(&decoder, &entered(1)).unwrap(), "tail [unknown tail] leaf:30 app::run(int):20");
}

#[test]
fn cut_and_damaged() {
    let decoder = decoder();
    let mut token = token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_POINTER, 0)]);
    token.cut = true;
    assert_eq!(frames_of(&decoder, &token).unwrap(), "tail leaf:33 app::run(int):20 [truncated -]");
    token.damaged = true;
    assert_eq!(
        frames_of(&decoder, &token).unwrap(),
        "tail leaf:33 app::run(int):20 [truncated -] [damaged -]"
    );
    token.cut = false;
    token.frames.clear();
    assert_eq!(frames_of(&decoder, &token).unwrap(), "tail [damaged -]");
    // The caller of an entered function is among what was cut.
    let mut token = common::token(Some((site::MALLOC_CAPTURE, 0)), &[(site::MALLOC_ENTRY, 0)]);
    token.cut = true;
    assert_eq!(frames_of(&decoder, &token).unwrap(), "malloc:5 [truncated -]");
}

#[test]
fn tokens_of_other_builds() {
    let lib_only = Decoder::new(&[lib()]).unwrap();
    let error = frames_of(&lib_only, &token(Some((site::TAIL_CAPTURE, 0)), &[])).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("a001020304050607") && text.contains("b001020304050607 (lib.so)"), "{text}");
    let mut nameless = token(Some((site::TAIL_CAPTURE, 0)), &[]);
    nameless.images[0] = BuildId::default();
    assert_eq!(frames_of(&lib_only, &nameless), Err(DecodeError::NoBuildId));
    // Not only the same start: a shorter id is another one.
    let mut shorter = token(Some((site::TAIL_CAPTURE, 0)), &[]);
    shorter.images[0] = BuildId::from_prefix(&common::APP[..7]);
    assert!(matches!(frames_of(&decoder(), &shorter), Err(DecodeError::OtherBuild { .. })));
}

#[test]
fn tokens_that_do_not_fit() {
    let capture = Some((site::LEAF_CAPTURE, 0));
    for address in [0, common::MAIN - 1, common::OTHER + 1, u64::MAX] {
        let mut token = token(capture, &[]);
        token.capture.as_mut().unwrap().site = address;
        let error = frames_of(&decoder(), &token).unwrap_err();
        assert!(matches!(error, DecodeError::NoSite { address: a, .. } if a == address), "{error}");
    }
    for (wrong, what) in
        [(site::LEAF_TAIL, "pushes"), (site::RUN_LEAF, "adds"), (site::LEAF_POINTER, "pointer")]
    {
        let error = fails(Some((wrong, 0)), &[]).to_string();
        assert!(error.contains(what) && error.contains("a capture is expected"), "{error}");
    }
    for (wrong, what) in [(site::LEAF_CAPTURE, "a capture"), (site::MAIN_RUN, "adds")] {
        let error = fails(capture, &[(wrong, 0)]).to_string();
        assert!(error.contains(what) && error.contains("a call that pushes is expected"), "{error}");
    }
    let no_id = |function: &str, id, num_cc| DecodeError::NoId { function: function.to_owned(), id, num_cc };
    assert_eq!(fails(Some((site::LEAF_CAPTURE, 3)), &[]), no_id("leaf", 3, 3));
    assert_eq!(fails(capture, &[(site::LEAF_POINTER, u64::MAX)]), no_id("leaf", u64::MAX, 3));
    // A direct call without an edge.
    let mut dictionary = app();
    dictionary.encodings[0].edges.remove(3);
    let decoder = Decoder::new(&[dictionary]).unwrap();
    let error = frames_of(&decoder, &token(capture, &[(site::RUN_RUN, 0)])).unwrap_err();
    assert!(error.to_string().contains("without an edge"), "{error}");
}

#[test]
fn numbers() {
    let decoder = decoder();
    let number = |number| {
        let mut context = Context::default();
        decoder.decode_number(number, &mut context)?;
        let frames: Vec<_> = decoder.frames(&context).map(|frame| short_frame(&frame)).collect();
        Ok(frames.join(" "))
    };
    assert_eq!(number(1).unwrap(), "main");
    assert_eq!(number(2).unwrap(), "app::run(int)");
    assert_eq!(number(4).unwrap(), "app::run(int) main:11");
    assert_eq!(number(6).unwrap(), "leaf app::run(int):20 main:10");
    assert_eq!(number(8).unwrap(), "tail");
    assert_eq!(number(0), Err(DecodeError::NoContext));
    assert_eq!(number(9), Err(DecodeError::NoRange { number: 9 }));
    let interned = 1 << 63;
    assert_eq!(number(interned), Err(DecodeError::Interned { number: interned }));
    assert_eq!(number(interned - 1), Err(DecodeError::NoRange { number: interned - 1 }));

    // Modules compiled apart may have the same ranges.
    let mut dictionary = app();
    dictionary.encodings[1].functions[0].range = Some(6);
    let decoder = Decoder::new(&[dictionary]).unwrap();
    let mut context = Context::default();
    let error = decoder.decode_number(6, &mut context).unwrap_err();
    let (first, second) = ("leaf".to_owned(), "other".to_owned());
    assert_eq!(error, DecodeError::Ambiguous { number: 6, first, second });
    assert_eq!(decoder.decode_number(7, &mut context), Ok(()));
    assert_eq!(decoder.decode_number(5, &mut context), Ok(()));
}

#[test]
fn formats() {
    let mut dictionary = app();
    dictionary.modules[0].names[2] = "leaf<[u8; 4]>\u{1b}".to_owned();
    let decoder = Decoder::new(&[dictionary]).unwrap();
    let mut token = token(Some((site::LEAF_CAPTURE, 1)), &[(site::LEAF_QSORT, 0)]);
    token.cut = true;
    let mut context = Context::default();
    decoder.decode(&token, &mut context).unwrap();
    let render = |format| {
        let mut out = Vec::new();
        let mut renderer = Renderer::new(&decoder, format);
        renderer.context(b"T", &context, &mut out).unwrap();
        renderer.context(b"T", &context, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let once = "#0  helper at /src/helper.h:7:9 [inlined]
#1  leaf<[u8; 4]>\\u{1b} at /src/main.c:35:5
#2  app::run(int) at /src/main.c:20:5
#3  main at /src/main.c:10:5
#4  <qsort, not instrumented>
#5  leaf<[u8; 4]>\\u{1b} at /src/main.c:31:5
#6  app::run(int) at /src/main.c:20:5
#7  <the token was cut here, further calls are missing>
";
    assert_eq!(render(Format::Text), format!("{once}\n{once}"));
    let once = "<the token was cut here, further calls are missing>;app::run(int);leaf<[u8: 4]>\\u{1b};<qsort, not instrumented>;main;app::run(int);leaf<[u8: 4]>\\u{1b};helper 1\n";
    assert_eq!(render(Format::Folded), once.repeat(2));
    let json = render(Format::Json);
    assert_eq!(json.lines().count(), 2);
    for line in json.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["token"], "T");
        let frames = value["frames"].as_array().unwrap();
        assert_eq!(frames.len(), 8);
        assert_eq!(
            frames[1],
            serde_json::json!({"kind": "call", "function": "leaf<[u8; 4]>\u{1b}", "file": "/src/main.c", "line": 35, "column": 5, "inlined": false})
        );
        assert_eq!(
            frames[4],
            serde_json::json!({"kind": "uninstrumented", "function": "qsort", "file": null, "line": null, "column": null, "inlined": false})
        );
    }
}

#[test]
fn text_numbers_of_long_traces() {
    let decoder = decoder();
    let mut token = token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_POINTER, 0)]);
    token.frames[0].count = 60;
    let mut context = Context::default();
    decoder.decode(&token, &mut context).unwrap();
    let mut out = Vec::new();
    Renderer::new(&decoder, Format::Text).context(b"", &context, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 121);
    for (line, start) in
        [(0, "#0  tail"), (9, "#9  "), (10, "#10 "), (99, "#99 "), (100, "#100 "), (120, "#120 ")]
    {
        assert!(lines[line].starts_with(start), "{}", lines[line]);
    }
}
