//! Logs: a filter's output does not depend on where the text was cut into blocks, and a text without tokens does not
//! change.

use std::cell::RefCell;

use pcce::filter::{Failures, Filter, Words, tokens};
use pcce::render::Format;
use pcce::session::Session;

use crate::{Target, decoder, token};

pub(crate) const TARGET: Target = Target { name: "filter", seeds, check };

fn seeds() -> Vec<Vec<u8>> {
    let tokens: Vec<String> = token::tokens().iter().map(pcce::Token::encode).collect();
    let mut seeds: Vec<Vec<u8>> = tokens
        .iter()
        .map(|token| format!("a [{token}]\n{token}+{token} {token}+~\r\n").into_bytes())
        .collect();
    seeds.push(tokens.join("\n").into_bytes());
    seeds.push(b"\xff\npcce1.\npcce2.x pcce\n\n".to_vec());
    seeds
}

thread_local! {
    static FILTERS: RefCell<[Filter<'static>; 2]> = RefCell::new(
        [Format::Below, Format::InPlace].map(|format| Filter::new(Session::new(decoder(), format))),
    );
}

fn filtered(text: &[u8], blocks: &[&[u8]], filter: &mut Filter<'_>) -> Vec<u8> {
    filter.failures = Failures::default();
    let mut out = Vec::new();
    for block in blocks {
        filter.text(block, 1, &mut out, |_| {});
    }
    if tokens(text, Words::Tokens).next().is_none() {
        assert!(out == text && filter.failures.is_empty(), "a text without tokens stays");
    }
    out
}

fn check(text: &[u8]) {
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    FILTERS.with_borrow_mut(|filters| {
        for filter in filters {
            assert_eq!(filtered(text, &[text], filter), filtered(text, &lines, filter));
        }
    });
}
