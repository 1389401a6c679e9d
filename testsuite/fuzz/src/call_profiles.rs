//! Profiles of calls: a profile that was read does not change when it is written, read again, and added up.

use std::sync::OnceLock;

use pcce_dictionary::calls::Calls;
use serde_json::{Value, json};

use crate::Target;
use crate::edits::{self, lines};

pub(crate) const TARGET: Target = Target { name: "calls", seeds, check };

/// The first byte of an input tells its kind: a file, or edits of [`document`].
const FILE: u8 = 0;
const EDITS: u8 = 1;

/// The lines of a profile of two modules.
fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| {
        json!([
            {"profile": "calls", "version": 1, "module": "main.c", "functions": 2},
            {"function": "main", "count": 1, "calls": [["leaf", 2], [null, 3, [["leaf", 2], ["main", 1]]]]},
            {"function": "leaf", "count": 4, "calls": []},
            {"profile": "calls", "version": 1, "module": "other.c", "functions": 1},
            {"function": "other", "count": u64::MAX, "calls": [["main", 5]]},
        ])
    })
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![[&[FILE], &*lines(document())].concat(), vec![EDITS]];
    seeds.extend(edits::seeds(document()).map(|edit| [&[EDITS], &edit[..]].concat()));
    seeds
}

fn check(input: &[u8]) {
    let edited;
    let text = match input {
        [FILE, text @ ..] => text,
        [EDITS, changes @ ..] => {
            edited = lines(&edits::edited(document(), changes));
            &edited
        }
        _ => return,
    };
    let profile = match Calls::read(text) {
        Ok(profile) => profile,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let again = |profile: &Calls| {
        let mut text = Vec::new();
        profile.write(&mut text).expect("memory can be written");
        if text.is_empty() { Calls::default() } else { Calls::read(&text).expect("it was just written") }
    };
    assert_eq!(again(&profile), profile);
    let merged = profile.merged();
    assert_eq!(again(&merged).merged(), merged);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mutations of a refused profile would test little.
    #[test]
    fn the_seed_is_a_profile() {
        assert_eq!(Calls::read(&lines(document())).unwrap().functions.len(), 3);
    }
}
