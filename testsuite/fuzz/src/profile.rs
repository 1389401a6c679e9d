//! Profiles that programs write, and what is made of them.

use pcce::Token;
use pcce::profile::{Profile, Stacks, flame, pprof, speedscope};

use crate::{Target, decoder, token};

pub(crate) const TARGET: Target = Target { name: "profile", seeds, check };

fn seeds() -> Vec<Vec<u8>> {
    let tokens: Vec<String> = token::tokens().iter().map(Token::encode).collect();
    let profile = |kind: &str, line: fn(&str) -> String| {
        let mut text = format!(
            "{{\"profile\":\"{kind}\",\"version\":1,\"build_id\":\"a001020304050607\",\"process\":7}}\n"
        );
        for token in &tokens {
            text += &line(&format!("{token:?}"));
        }
        text += &line("null");
        text += &format!("{{\"end\":true,\"contexts\":{}}}\n", tokens.len() + 1);
        text.into_bytes()
    };
    vec![
        profile("heap", |token| {
            format!(
                "{{\"token\":{token},\"allocations\":3,\"allocated\":30,\"frees\":1,\"freed\":10,\"peak_blocks\":2,\"peak_bytes\":20,\"own_peak_bytes\":20}}\n"
            )
        }),
        profile("cpu", |token| format!("{{\"token\":{token},\"samples\":5,\"nanoseconds\":1000}}\n")),
    ]
}

fn check(input: &[u8]) {
    let profile = match Profile::read(input) {
        Ok(profile) => profile,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    for metric in 0..profile.kind.metrics().len() {
        let _ = profile.total(metric);
    }
    let stacks = match Stacks::decode(&profile, decoder()) {
        Ok(stacks) => stacks,
        Err((_, failure)) => return assert!(!failure.to_string().is_empty()),
    };
    let mut out = Vec::new();
    flame::folded(&stacks, 0, &mut out).expect("memory can be written");
    pprof::write(&stacks, profile.kind, "app", &profile.build_id, &mut out).expect("memory can be written");
    out.clear();
    speedscope::write(&stacks, profile.kind, "app", &mut out).expect("memory can be written");
    let _: serde_json::Value = serde_json::from_slice(&out).expect("one document of JSON");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutations of what is refused would show little.
    #[test]
    fn seeds_are_profiles() {
        for seed in seeds() {
            assert_eq!(Profile::read(&seed).unwrap().contexts.len(), token::tokens().len() + 1);
        }
    }
}
