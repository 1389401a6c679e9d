//! Damaged and foreign input: an error that names what is wrong, never a panic, never a guess.

use pcce_dictionary::{DictionaryError, Encoding, Module, fragment, from_json, linked, section, unlinked};
use serde_json::Value;

const JSON: &[u8] = include_bytes!("../golden/v3.json");
const SECTION: &[u8] = include_bytes!("../golden/v3.section");

fn newer(error: &DictionaryError) -> bool {
    matches!(error, DictionaryError::Version { found: 4 })
}

#[test]
fn every_truncated_dictionary_is_refused() {
    assert!(matches!(from_json(b""), Err(DictionaryError::Empty)));
    for length in 1..JSON.len() {
        let error = from_json(&JSON[..length]).unwrap_err();
        assert!(matches!(error, DictionaryError::Syntax(_)), "{length}: {error}");
    }
}

#[test]
fn text_behind_a_dictionary_is_refused() {
    assert!(from_json(&[JSON, b" \n"].concat()).is_ok());
    assert!(matches!(from_json(&[JSON, b"{"].concat()), Err(DictionaryError::Syntax(_))));
}

#[test]
fn other_versions_are_refused_by_number() {
    let text = std::str::from_utf8(JSON).unwrap().replacen("\"version\":3", "\"version\":4", 1);
    assert!(newer(&from_json(text.as_bytes()).unwrap_err()));
    // Other members of a newer version may have any shape.
    let error = from_json(br#"{"version":4,"modules":"elsewhere"}"#).unwrap_err();
    assert!(newer(&error));
    let message = error.to_string();
    assert!(
        message.contains("version 4") && message.contains("reads versions 2 to 3; use the pcce of"),
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

/// Each member must be there, and no other: an unknown member may change the meaning of others.
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
    for at in 0..JSON.len() {
        for bit in 0..8 {
            let mut changed = JSON.to_vec();
            changed[at] ^= 1 << bit;
            let _ = from_json(&changed);
        }
    }
}

/// The offsets at which the records of the section begin, and at which the last one ends.
fn bounds() -> Vec<usize> {
    let mut bounds = vec![0];
    while let Some(&start) = bounds.last().filter(|start| **start < SECTION.len()) {
        let length = u32::from_le_bytes(SECTION[start + 12..start + 16].try_into().unwrap());
        bounds.push(start + section::HEADER_LEN + length as usize);
    }
    bounds
}

#[test]
fn every_truncated_section_is_refused() {
    let bounds = bounds();
    assert_eq!((bounds.len(), bounds[4]), (5, SECTION.len()));
    for length in 0..SECTION.len() {
        let whole = bounds.iter().rposition(|bound| *bound <= length).unwrap();
        match section::parse(&SECTION[..length]) {
            // The cut is between two records.
            Ok(records) => assert_eq!((records.len(), bounds[whole]), (whole, length)),
            Err(DictionaryError::Fragment { offset, .. }) => {
                assert_eq!(offset, bounds[whole]);
                assert_ne!(offset, length);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn changed_bytes_of_a_section_are_refused() {
    let bounds = bounds();
    for (record, start) in bounds[..4].iter().enumerate() {
        for at in 0..section::HEADER_LEN + 40 {
            let mut changed = SECTION.to_vec();
            changed[start + at] ^= 0x11;
            let result = section::parse(&changed);
            // The linker fills in the address, so no checksum can cover it. A linked record has none.
            let address = section::SITES_ADDRESS_OFFSET..section::SITES_ADDRESS_OFFSET + 8;
            assert_eq!(result.is_ok(), record < 3 && address.contains(&at), "record {record}, byte {at}");
        }
    }
}

#[test]
fn records_of_other_versions_are_refused_by_number() {
    let bounds = bounds();
    for &offset in &bounds[..4] {
        let refused = |version: u8| {
            let mut changed = SECTION.to_vec();
            changed[offset + 8] = version;
            section::parse(&changed).unwrap_err()
        };
        let error = refused(4);
        let DictionaryError::FragmentVersion { offset: at, found: 4, .. } = error else { panic!("{error}") };
        assert_eq!(at, offset);
        assert!(
            error.to_string().contains("schema version 4, and this pcce reads versions 2 to 3"),
            "{error}"
        );
        // Version 1 has fragments only.
        assert!(
            offset < bounds[2] || matches!(refused(1), DictionaryError::FragmentVersion { found: 1, .. })
        );
    }
}

#[test]
fn linked_records_that_contradict_themselves_are_refused() {
    let refused = |section: &[u8]| section::parse(section).unwrap_err().to_string();
    let modules = [Module::default(), Module::default()];
    let of = |first_module, module_count| {
        linked::to_bytes(&modules, &[Encoding { first_module, module_count, ..Encoding::default() }])
    };
    // These encodings would be of modules after the record.
    for (first, count) in [(0, 3), (1, 2), (2, 1), (u32::MAX, u32::MAX)] {
        let message = refused(&of(first, count));
        let expected = format!(
            "offset 0: an encoding of {count} modules from number {first} on in a linked record of 2"
        );
        assert!(message.contains(&expected), "{message}");
    }
    let good = of(0, 2);
    assert_eq!(section::parse(&good).unwrap().len(), 1);
    let message = refused(&[&good[..], &good].concat());
    assert!(message.contains(&format!("offset {}: a second linked record", good.len())), "{message}");
}

/// Payloads that are whole, but of another kind than their records.
#[test]
fn payloads_of_another_kind_are_refused() {
    let module = Module::default();
    let records = [
        fragment::to_bytes(&module, &[]),
        unlinked::to_bytes(&module, &()),
        linked::to_bytes(&[module], &[]),
    ];
    for (kind, other) in (0..3).flat_map(|kind| (0..3).map(move |other| (kind, other))) {
        let mut record = records[kind].clone();
        record[0..8].copy_from_slice(&records[other][0..8]);
        assert_eq!(section::parse(&record).is_ok(), kind == other, "{kind} as {other}");
    }
}

#[test]
fn padding_between_fragments_is_refused() {
    let error = section::parse(&[&[0; 8], SECTION].concat()).unwrap_err();
    assert!(error.to_string().contains("offset 0: no record of a dictionary starts here"), "{error}");
}
