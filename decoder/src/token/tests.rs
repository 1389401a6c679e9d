//! Tokens as texts and back, and texts that are not tokens.

use pcce_abi::token::{ALPHABET, PREFIXES, SITE_LEFT};
use proptest::prelude::*;

use super::*;

fn samples() -> Vec<Token> {
    let build_id = BuildId::from_prefix(&[0xab, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let library = BuildId::from_prefix(&[9, 8, 7]);
    let frame = |image, site, id, count| PushedFrame { image, site, left: false, id, distance: 0, count };
    let captured = Capture { image: 0, site: 0x1234, id: 77, distance: 0 };
    let capture = Some(captured);
    let address = |image, address, exact| CodeAddress { image, address, exact, distance: 0 };
    let point = |id, end| Point {
        id,
        addresses: vec![
            address(0, 0x1234, true),
            address(0, 0x1200, false),
            address(1, u64::MAX, false),
            address(0, 0, true),
        ],
        left_out: None,
        end,
    };
    vec![
        Token { images: vec![build_id], capture, ..Token::default() },
        Token { damaged: true, ..Token::default() },
        Token { damaged: true, start_missing: true, ..Token::default() },
        Token {
            images: vec![build_id, library],
            capture,
            frames: vec![
                frame(1, 0x20_0000, 5, 1),
                frame(1, 0x20_0000, 6, 1_000),
                frame(0, 0, 0, 1),
                PushedFrame { left: true, ..frame(0, !SITE_LEFT, u64::MAX, 2) },
            ],
            cut: true,
            start_missing: true,
            ..Token::default()
        },
        Token {
            images: vec![build_id, library],
            point: Some(point(7, PointEnd::Pushed)),
            other_state: true,
            frames: vec![frame(1, 0x20_0000, 5, 1), frame(0, 9, 6, 3), frame(0, 9, 7, 1)],
            signals: vec![
                (0, Point { left_out: Some((1, 3)), ..point(8, PointEnd::Outermost) }),
                (0, point(u64::MAX, PointEnd::Bound)),
                (3, Point { left_out: Some((2, 2)), ..point(0, PointEnd::Lost) }),
            ],
            ..Token::default()
        },
        Token {
            images: vec![build_id],
            capture: Some(Capture { distance: 300, ..captured }),
            frames: vec![PushedFrame { distance: 3, ..frame(0, 9, 6, 2) }, frame(0, 9, 7, 1)],
            signals: vec![(
                1,
                Point {
                    addresses: vec![CodeAddress { distance: 1 << 40, ..address(0, 5, true) }],
                    ..point(1, PointEnd::Pushed)
                },
            )],
            with_offsets: true,
            ..Token::default()
        },
        Token {
            images: vec![library],
            frames: (0..9).map(|i| frame(0, 0x4000 + i, i << i, 1)).collect(),
            ..Token::default()
        },
    ]
}

#[test]
fn encode_then_parse_gives_the_token() {
    for token in samples() {
        assert_eq!(Token::parse(token.encode()), Ok(token));
    }
}

#[test]
fn every_single_character_change_is_refused_and_told_from_foreign_characters() {
    for token in samples() {
        let text = token.encode();
        for at in 0..text.len() {
            for byte in (0..=0x7f).chain([0xff]) {
                let mut changed = text.clone().into_bytes();
                if changed[at] == byte {
                    continue;
                }
                changed[at] = byte;
                let error = Token::parse(&changed).expect_err("a changed token was accepted");
                let position = at + 1;
                if at < PREFIXES[0].len() {
                    assert!(
                        matches!(
                            error,
                            TokenError::NotAToken { .. }
                                | TokenError::NewerVersion { .. }
                                | TokenError::Checksum { .. }
                        ),
                        "{error:?}"
                    );
                } else if ALPHABET.contains(&byte) {
                    assert_eq!(error, TokenError::Checksum { length: text.len() });
                } else {
                    assert!(matches!(error, TokenError::Character { position: p, .. } if p == position));
                }
            }
        }
    }
}

#[test]
fn every_truncation_is_refused_and_called_one() {
    for token in samples() {
        let text = token.encode();
        for length in 0..text.len() {
            let error = Token::parse(&text[..length]).expect_err("a truncated token was accepted");
            match error {
                TokenError::Truncated { length: l } | TokenError::Checksum { length: l } => {
                    assert_eq!(l, length)
                }
                TokenError::NotAToken { .. } => assert_eq!(length, 0),
                other => panic!("{length} characters of {text}: {other:?}"),
            }
        }
    }
}

#[test]
fn longer_texts_are_refused() {
    for token in samples() {
        for more in ["A", "AA", "AAAA", "=", " ", "."] {
            assert!(Token::parse(token.encode() + more).is_err());
        }
    }
}

#[test]
fn newer_versions_are_named() {
    let found = |text: &str| match Token::parse(text) {
        Err(TokenError::NewerVersion { found }) => found,
        other => panic!("{text}: {other:?}"),
    };
    assert_eq!(found("pcce4.AAAA"), "4");
    assert_eq!(found("pcce12.!"), "12");
    for text in
        ["", "hello", "pcce", "pcce0.AAAA", "pcce1", "pcce1.", "pcceX.AAAA", "Pcce1.AAAA", "\u{1b}[31m"]
    {
        assert!(!matches!(Token::parse(text), Ok(_) | Err(TokenError::NewerVersion { .. })), "{text}");
    }
    let TokenError::NotAToken { start } = Token::parse("\u{1b}[31m").unwrap_err() else { panic!() };
    assert_eq!(start, "\\u{1b}[31m");
}

#[test]
fn malformed_payloads_with_a_good_checksum_are_refused() {
    let many = |bytes: &[u8]| Token::parse(encode_payload(bytes)).unwrap_err();
    let cases: &[(&[u8], &str)] = &[
        (&[8], "a flag that version 1 does not have"),
        (&[1], "the payload ends in the middle of a field"),
        (&[1, 0, 9], "a build id of more than 8 bytes"),
        (&[1, 0, 2, 1], "the payload ends in the middle of a build id"),
        (&[1, 0, 1, 1, 5], "the payload ends in the middle of a field"),
        (&[1, 1, 1, 1, 5, 5], "an image number out of order"),
        (&[1, 0, 1, 1, 0x80, 0, 5], "a number that is not in its shortest form"),
        (
            &[1, 0, 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 5],
            "a number of more than 64 bits",
        ),
        (&[0, 1, 1, 1, 5, 5, 1], "a repetition of less than 2"),
        (&[0, 1, 1, 1, 5, 5, 0], "a repetition of less than 2"),
        (&[0, 0, 1, 1, 5, 5, 0], "the payload ends in the middle of a field"),
    ];
    for (payload, expected) in cases {
        match many(payload) {
            TokenError::Malformed { what, .. } => assert_eq!(what, *expected, "{payload:?}"),
            other => panic!("{payload:?}: {other:?}"),
        }
    }
    let points: &[(&[u8], &str)] = &[
        (&[32], "a flag about missing frames, and none are missing"),
        (&[9], "a capture and an interrupted point"),
        (&[16], "a flag about an interrupted point, and no such point"),
        (&[8, 1, 0, 1, 0], "an interrupted point without an address"),
        (&[8, 1, 2, 0, 0], "an interrupted point that lacks addresses where there are none"),
        (&[8, 1, 2, 1, 1], "an interrupted point that lacks addresses where there are none"),
        (&[8, 1, 2, 1], "the payload ends in the middle of a field"),
        (&[8, 4, 0, 0], "the payload ends in the middle of a field"),
        (&[8, 4, 0, 1, 0], "the payload ends in the middle of a field"),
        (&[0, 3], "a frame of a kind that version 2 does not have"),
        (&[0, 6], "a frame of a kind that version 2 does not have"),
    ];
    for (payload, expected) in points {
        match Token::parse(encode_payload_of(2, payload)) {
            Err(TokenError::Malformed { what, .. }) => assert_eq!(what, *expected, "{payload:?}"),
            other => panic!("{payload:?}: {other:?}"),
        }
    }
    let mut token = samples().remove(3);
    token.frames[3].count = u64::MAX;
    assert!(matches!(Token::parse(token.encode()), Err(TokenError::TooManyFrames { .. })));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Token::parse(&bytes);
        for (version, prefix) in (1..).zip(PREFIXES) {
            let mut text = prefix.as_bytes().to_vec();
            text.extend_from_slice(&bytes);
            let _ = Token::parse(&text);
            // A good checksum takes the bytes to the field reader.
            let text = encode_payload_of(version, &bytes);
            if let Ok(token) = Token::parse(&text) {
                // A token without points needs no version 2.
                if version != 2 || token.point.is_some() || !token.signals.is_empty() {
                    prop_assert_eq!(token.encode(), text);
                }
            }
        }
    }

    #[test]
    fn random_alphabet_never_panics(bytes in proptest::collection::vec(0_usize..64, 0..200)) {
        let text: String = PREFIXES[1].chars().chain(bytes.iter().map(|i| ALPHABET[*i] as char)).collect();
        let _ = Token::parse(text);
    }
}
