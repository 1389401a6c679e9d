//! Damaged and foreign input: an error that names what is wrong, never a panic, never a guess.

use pcce_dictionary::{DictionaryError, fragment, from_json};
use serde_json::Value;

const JSON: &[u8] = include_bytes!("golden/v2.json");
const V1: &[u8] = include_bytes!("golden/v1.json");
const SECTION: &[u8] = include_bytes!("golden/v2.fragment");

fn newer(error: &DictionaryError) -> bool {
    matches!(error, DictionaryError::Version { found: 3 })
}

#[test]
fn every_truncated_dictionary_is_refused() {
    assert!(matches!(from_json(b""), Err(DictionaryError::Empty)));
    for json in [JSON, V1] {
        for length in 1..json.len() {
            let error = from_json(&json[..length]).unwrap_err();
            assert!(matches!(error, DictionaryError::Syntax(_)), "{length}: {error}");
        }
    }
}

#[test]
fn text_behind_a_dictionary_is_refused() {
    assert!(from_json(&[JSON, b" \n"].concat()).is_ok());
    assert!(matches!(from_json(&[JSON, b"{"].concat()), Err(DictionaryError::Syntax(_))));
}

#[test]
fn other_versions_are_refused_by_number() {
    let text = std::str::from_utf8(JSON).unwrap().replacen("\"version\":2", "\"version\":3", 1);
    assert!(newer(&from_json(text.as_bytes()).unwrap_err()));
    // Whatever else a newer version holds.
    let error = from_json(br#"{"version":3,"modules":"elsewhere"}"#).unwrap_err();
    assert!(newer(&error));
    let message = error.to_string();
    assert!(
        message.contains("version 3") && message.contains("versions 1 to 2; use the pcce of"),
        "{message}"
    );
    assert!(matches!(from_json(br#"{"version":0}"#), Err(DictionaryError::Version { found: 0, .. })));
    for wrong in [&br#"{"version":-1}"#[..], br#"{"version":"1"}"#, b"{}", b"null", b"[]", &[0; 64]] {
        assert!(matches!(from_json(wrong), Err(DictionaryError::Syntax(_))), "{wrong:?}");
    }
}

/// The JSON pointers of all objects in a document.
fn objects(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| objects(item, &format!("{at}/{i}"), found));
        }
        Value::Object(members) => {
            found.push(at.to_owned());
            members.iter().for_each(|(name, item)| objects(item, &format!("{at}/{name}"), found));
        }
        _ => {}
    }
}

/// Each member must be there, and no other: what a reader does not know may change what others mean.
#[test]
fn members_too_many_or_too_few_are_refused() {
    let document: Value = serde_json::from_slice(JSON).unwrap();
    let mut found = Vec::new();
    objects(&document, "", &mut found);
    assert!(found.len() > 30);
    let refused = |at: &str, change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
        let mut changed = document.clone();
        change(changed.pointer_mut(at).and_then(Value::as_object_mut).unwrap());
        let result = from_json(&serde_json::to_vec(&changed).unwrap());
        assert!(matches!(result, Err(DictionaryError::Syntax(_))), "{at}: {changed}");
    };
    for at in &found {
        refused(at, &|object| _ = object.insert("later".to_owned(), Value::Null));
        for name in document.pointer(at).unwrap().as_object().unwrap().keys() {
            refused(at, &|object| _ = object.remove(name));
        }
    }
}

#[test]
fn changed_bytes_of_a_dictionary_never_panic() {
    for (json, at) in [JSON, V1].into_iter().flat_map(|json| (0..json.len()).map(move |at| (json, at))) {
        for bit in 0..8 {
            let mut changed = json.to_vec();
            changed[at] ^= 1 << bit;
            let _ = from_json(&changed);
        }
    }
}

#[test]
fn every_truncated_section_is_refused() {
    let first = fragment::HEADER_LEN + u32::from_le_bytes(SECTION[12..16].try_into().unwrap()) as usize;
    for length in 0..SECTION.len() {
        match fragment::parse_section(&SECTION[..length]) {
            // Between two fragments.
            Ok(modules) => assert_eq!(modules.len(), if length == 0 { 0 } else { 1 }),
            Err(DictionaryError::Fragment { offset, .. }) => {
                assert_eq!(offset, if length < first { 0 } else { first });
            }
            Err(other) => panic!("{other}"),
        }
        assert_eq!(fragment::parse_section(&SECTION[..length]).is_ok(), length == 0 || length == first);
    }
}

#[test]
fn changed_bytes_of_a_section_are_refused() {
    let address = fragment::SITES_ADDRESS_OFFSET;
    for at in 0..fragment::HEADER_LEN + 40 {
        let mut changed = SECTION.to_vec();
        changed[at] ^= 0x11;
        let result = fragment::parse_section(&changed);
        // The linker fills in the address, so no checksum can cover it.
        assert_eq!(result.is_ok(), (address..address + 8).contains(&at), "byte {at}");
    }
}

#[test]
fn fragments_of_other_versions_are_refused_by_number() {
    let mut changed = SECTION.to_vec();
    changed[8] = 3;
    let error = fragment::parse_section(&changed).unwrap_err();
    assert!(matches!(error, DictionaryError::FragmentVersion { offset: 0, found: 3, .. }), "{error}");
    assert!(error.to_string().contains("schema version 3, and this pcce reads versions 1 to 2"), "{error}");
}

#[test]
fn padding_between_fragments_is_refused() {
    let error = fragment::parse_section(&[&[0; 8], SECTION].concat()).unwrap_err();
    assert!(error.to_string().contains("offset 0: no fragment starts here"), "{error}");
}
