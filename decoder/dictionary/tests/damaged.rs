//! Damaged and foreign input: an error that names what is wrong, never a panic, never a guess.

use pcce_dictionary::{DictionaryError, SCHEMA_VERSION, fragment, from_json};

const JSON: &[u8] = include_bytes!("golden/v1.json");
const SECTION: &[u8] = include_bytes!("golden/v1.fragment");

fn newer(error: &DictionaryError) -> bool {
    matches!(error, DictionaryError::Version { found: 2, supported: SCHEMA_VERSION })
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
    let text = std::str::from_utf8(JSON).unwrap().replacen("\"version\":1", "\"version\":2", 1);
    assert!(newer(&from_json(text.as_bytes()).unwrap_err()));
    // Whatever else a newer version holds.
    let error = from_json(br#"{"version":2,"modules":"elsewhere"}"#).unwrap_err();
    assert!(newer(&error));
    let message = error.to_string();
    assert!(message.contains("version 2") && message.contains("up to 1"), "{message}");
    assert!(matches!(from_json(br#"{"version":0}"#), Err(DictionaryError::Version { found: 0, .. })));
    for wrong in [&br#"{"version":-1}"#[..], br#"{"version":"1"}"#, b"{}", b"null", b"[]", &[0; 64]] {
        assert!(matches!(from_json(wrong), Err(DictionaryError::Syntax(_))), "{wrong:?}");
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
    changed[8] = 2;
    assert!(newer(&fragment::parse_section(&changed).unwrap_err()));
}

#[test]
fn padding_between_fragments_is_refused() {
    let error = fragment::parse_section(&[&[0; 8], SECTION].concat()).unwrap_err();
    assert!(error.to_string().contains("offset 0: no fragment starts here"), "{error}");
}
