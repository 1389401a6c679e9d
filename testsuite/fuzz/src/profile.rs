//! Profiles that programs write, and the commands' outputs for them.

use std::sync::OnceLock;

use pcce::profile::{Profile, Stacks, flame, pprof, speedscope};
use pcce::style::Style;
use serde_json::{Value, json};

use crate::edits::{self, lines};
use crate::{Target, decoder, token};

pub(crate) const TARGET: Target = Target { name: "profile", seeds, check };

/// The first byte of an input tells its kind: a file, or edits of one of [`documents`].
const FILE: u8 = 0;
const EDITS: [u8; 2] = [1, 2];

fn heading(kind: &str) -> Value {
    json!({"profile": kind, "version": 1, "build_id": "a001020304050607", "process": 7})
}

/// A profile of each kind: its lines but the last one.
fn documents() -> &'static [Value; 2] {
    static DOCUMENTS: OnceLock<[Value; 2]> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        let tokens: Vec<Value> = token::tokens().iter().map(|token| token.encode().into()).collect();
        let profile = |kind, line: fn(&Value) -> Value| {
            let contexts = tokens.iter().chain([&Value::Null]).map(line);
            [heading(kind)].into_iter().chain(contexts).collect()
        };
        [
            profile("heap", |token| {
                json!({
                    "token": token, "allocations": 3, "allocated": 30, "frees": 1, "freed": 10,
                    "peak_blocks": 2, "peak_bytes": 20, "own_peak_bytes": 20
                })
            }),
            profile("cpu", |token| json!({"token": token, "samples": 5, "nanoseconds": 1000})),
        ]
    })
}

/// A document as a file, whose last line counts the others.
fn text(document: &Value) -> Vec<u8> {
    let count = document.as_array().map_or(0, |lines| lines.len().saturating_sub(1));
    [lines(document), format!("{{\"end\":true,\"contexts\":{count}}}\n").into_bytes()].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (form, document) in EDITS.into_iter().zip(documents()) {
        seeds.push([&[FILE], &*text(document)].concat());
        seeds.push(vec![form]);
        seeds.extend(edits::seeds(document).map(|edit| [&[form], &edit[..]].concat()));
    }
    seeds
}

fn check(input: &[u8]) {
    let edited;
    let bytes = match input {
        [FILE, bytes @ ..] => bytes,
        [form, changes @ ..] if EDITS.contains(form) => {
            edited = text(&edits::edited(&documents()[usize::from(form - EDITS[0])], changes));
            &edited
        }
        _ => return,
    };
    let profile = match Profile::read(bytes) {
        Ok(profile) => profile,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for metric in 0..profile.metrics().len() {
        let _ = profile.total(metric);
    }
    let stacks = match Stacks::decode(&profile, decoder(), &Style::default()) {
        Ok(stacks) => stacks,
        Err((_, failure)) => return assert!(!failure.to_string().is_empty()),
    };
    let mut out = Vec::new();
    flame::folded(&stacks, 0, &mut out).expect("memory can be written");
    pprof::write(&stacks, profile.metrics(), "app", &profile.build_id, &mut out)
        .expect("memory can be written");
    out.clear();
    speedscope::write(&stacks, profile.metrics(), "app", &mut out).expect("memory can be written");
    let _: serde_json::Value = serde_json::from_slice(&out).expect("one document of JSON");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutations of a refused profile would test little.
    #[test]
    fn seeds_are_profiles() {
        for document in documents() {
            assert_eq!(Profile::read(&text(document)).unwrap().records.len(), token::tokens().len() + 1);
        }
    }
}
