//! `docs/packages.md` says what `docs/packages.json` has.

use std::fs;

use pcce_testsuite::packages::record::Record;

#[test]
fn the_document_is_that_of_the_record() {
    let record = Record::read().expect("the record");
    let document = fs::read_to_string(Record::document()).expect("the document");
    assert!(document == record.markdown(), "docs/packages.md is not what `make packages DOCS=1` writes");
    let kept = fs::read_to_string(Record::file()).expect("the record");
    assert_eq!(record.json().expect("it can be written"), kept);
    assert!(kept.contains("\"lua\": {"), "{kept}");
}
