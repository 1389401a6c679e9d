//! `docs/evaluation.md` says what `docs/evaluation.json` has.

use std::fs;

use pcce_testsuite::evaluation::data::Data;
use pcce_testsuite::evaluation::papers::Papers;

#[test]
fn the_document_is_that_of_the_data() {
    let data = Data::read(&Data::file()).expect("the data");
    let report = data.report().expect("the declarations");
    let text = report.markdown(&data.origins(), &Papers::read().expect("the papers' figures"), &[]);
    let found = fs::read_to_string(Data::document()).expect("the document");
    assert!(text == found, "docs/evaluation.md is not what `evaluate --write` writes");
}

/// What is written is read again as the same.
#[test]
fn the_data_is_kept() {
    let text = fs::read_to_string(Data::file()).expect("the data");
    let data = Data::read(&Data::file()).expect("the data");
    assert!(!data.programs.is_empty());
    assert_eq!(data.json().expect("it can be written"), text);
}
