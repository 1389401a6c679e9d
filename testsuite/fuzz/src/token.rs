//! Context tokens: as text, and as payloads with the right checksum, which no mutation of a text would hit.

use std::cell::RefCell;

use pcce::session::{Outcome, Session};
use pcce::token::{BuildId, CodeAddress, Point, PointEnd, PushedFrame, Token};
use pcce::{Context, render::Format};

use crate::common::code::MAIN_CODE;
use crate::common::{self, site, token};
use crate::{Target, decoder, oracle};

/// The first byte of an input tells its kind.
const TEXT: u8 = 0;
const PAYLOAD: [u8; 3] = [1, 2, 3];
/// Longer contexts are right if their start is.
const FRAMES: usize = 10_000;

pub(crate) const TARGET: Target = Target { name: "token", seeds, check };

/// Tokens of all kinds that the test program can write.
pub(crate) fn tokens() -> Vec<Token> {
    let mut all = vec![
        token(None, &[]),
        token(Some((site::LEAF_CAPTURE, 1)), &[]),
        token(Some((site::LEAF_CAPTURE, 0)), &[(site::RUN_RUN, 2)]),
        token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_TAIL, 1)]),
        token(Some((site::TAIL_CAPTURE, 0)), &[(site::LEAF_QSORT, 0), (site::RUN_RUN, 1)]),
        token(Some((site::LIB_CAPTURE, 0)), &[(site::LEAF_LIB_RUN, 2)]),
        token(Some((site::MALLOC_CAPTURE, 0)), &[(site::MALLOC_ENTRY, 0), (site::LIB_MALLOC, 0)]),
        token(Some((site::OTHER_CAPTURE, 0)), &[(site::LEAF_OTHER, 1)]),
        token(None, &[(site::LEAF_POINTER, 0), (site::LEAF_ASM, 1)]),
    ];
    let mut repeated = token(Some((site::LEAF_CAPTURE, 0)), &[(site::RUN_RUN, 0)]);
    repeated.frames[0] = PushedFrame { count: 40, ..repeated.frames[0] };
    repeated.cut = true;
    all.push(repeated);
    let cut = token(Some((site::LEAF_CAPTURE, 1)), &[(site::RUN_RUN, 1)]);
    all.push(Token { cut: true, start_missing: true, ..cut });
    let mut offsets = token(Some((site::LEAF_CAPTURE, 1)), &[(site::RUN_RUN, 2)]);
    offsets.with_offsets = true;
    offsets.frames[0].distance = 9;
    all.push(offsets);
    let mut point = token(None, &[(site::RUN_RUN, 2)]);
    let address = |image, address, exact| CodeAddress { image, address, exact, distance: 0 };
    point.point = Some(Point {
        id: 1,
        addresses: vec![
            address(0, MAIN_CODE + 0x310, true),
            address(1, 0x2000, false),
            address(0, MAIN_CODE + 0x115, false),
        ],
        left_out: Some((1, 1)),
        end: PointEnd::Pushed,
    });
    point.images = vec![BuildId::from_prefix(&common::APP), BuildId::from_prefix(&common::LIB)];
    let addresses = vec![address(1, 7, true)];
    point.signals = vec![(1, Point { id: 0, addresses, left_out: None, end: PointEnd::Lost })];
    all.push(point);
    all
}

fn seeds() -> Vec<Vec<u8>> {
    let texts: Vec<String> = tokens().iter().map(Token::encode).collect();
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for (text, other) in texts.iter().zip(texts.iter().cycle().skip(1)) {
        seeds.push([&[TEXT], text.as_bytes()].concat());
        seeds.push(format!("\0{text}+{other}+~").into_bytes());
        let (version, payload) = oracle::payload(text).expect("a token");
        seeds.push([&[version], &*payload].concat());
    }
    seeds.push(b"\x000x12".to_vec());
    seeds.push(b"\x00123456789".to_vec());
    seeds
}

fn check(input: &[u8]) {
    let text = match input {
        [TEXT, text @ ..] => text.to_vec(),
        [version, payload @ ..] if PAYLOAD.contains(version) => oracle::text(*version, payload).into_bytes(),
        _ => return,
    };
    match Token::parse(&text) {
        Ok(token) => {
            let again = token.encode();
            if again.as_bytes() != text {
                // A token of version 2 from which the points were cut.
                let cut = text.starts_with(b"pcce2.") && again.starts_with("pcce1.");
                assert!(
                    cut && Token::parse(&again) == Ok(token.clone()),
                    "it says something else than its bytes"
                );
            }
            let mut context = Context::default();
            match decoder().decode(&token, &mut context) {
                Ok(()) => oracle::check(&token, decoder().frames(&context).take(FRAMES)),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let mut json = Vec::new();
    thread_local! {
        static SESSION: RefCell<Session<'static>> =
            RefCell::new(Session::new(decoder(), Format::Json).with_limit(FRAMES as u64));
    }
    let outcome = SESSION.with_borrow_mut(|session| session.decode(&text, &mut json));
    let outcome = outcome.expect("memory can be written");
    let value: serde_json::Value = serde_json::from_slice(&json).expect("one document of JSON");
    assert_eq!(matches!(outcome, Outcome::Failed(_)), value["frames"].is_null(), "{value}");
}
