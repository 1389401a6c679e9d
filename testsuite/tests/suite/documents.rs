//! `docs/evaluation.md` and `docs/packages.md` are what is written from the JSON beside them.

use std::fs;

use pcce_testsuite::evaluation::data::Data;
use pcce_testsuite::evaluation::declarations::{Program, Set};
use pcce_testsuite::evaluation::papers::Papers;
use pcce_testsuite::evaluation::report::Measured;
use pcce_testsuite::evaluation::statistics::geometric_mean;
use pcce_testsuite::packages::record::Record;
use pcce_testsuite::repository;

#[test]
fn the_evaluation_is_that_of_its_data() {
    let data = Data::read(&Data::file()).expect("the data");
    let report = data.report().expect("the declarations");
    let text = report.markdown(&data.origins(), &Papers::read().expect("the papers' figures"), &[]);
    let found = fs::read_to_string(Data::document()).expect("the document");
    assert!(text == found, "docs/evaluation.md is not what `evaluate --write` writes");
}

/// Reading and writing the data changes nothing.
#[test]
fn the_data_of_the_evaluation_are_kept() {
    let text = fs::read_to_string(Data::file()).expect("the data");
    let data = Data::read(&Data::file()).expect("the data");
    assert!(!data.programs.is_empty());
    assert_eq!(data.json().expect("it can be written"), text);
}

/// Ratios of the programs of a set in a variant, the smallest first.
fn ratios(
    data: &Data,
    set: Set,
    count: usize,
    variant: &str,
    of: impl Fn(&Measured) -> Option<f64>,
) -> Vec<(f64, String)> {
    let programs = Program::all().expect("the declarations");
    let of_set = programs.iter().filter(|program| program.set == set);
    let ratio = |program: &Program| of(&data.programs.get(&program.name)?.get(variant)?.measured);
    let mut ratios: Vec<_> = of_set.filter_map(|p| Some((ratio(p)?, p.name.clone()))).collect();
    assert_eq!(ratios.len(), count, "{variant}: {ratios:?}");
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    ratios
}

/// The costs in README and in the guide are the measured ones. Drawn programs come first.
#[test]
fn figures_elsewhere_are_those_of_the_data() {
    let data = Data::read(&Data::file()).expect("the data");
    let mean =
        |of: &[(f64, String)]| geometric_mean(of.iter().map(|(ratio, _)| *ratio)).expect("there are some");
    let mut readme = Vec::new();
    let mut guide = Vec::new();
    let sentences = |set: Set, count: usize, variant: &str, mode: &str| {
        let instructions = ratios(&data, set, count, variant, Measured::instruction_ratio);
        let (most, program) = &instructions[count - 1];
        let mean = mean(&instructions);
        let of_readme = format!("{mean:.3} times in {mode}, {most:.3} at most ({program})");
        let percent = [(mean - 1.0) * 100.0, (most - 1.0) * 100.0];
        let of_guide = format!(
            "in {mode} by {:.1} % in the geometric mean, and by {:.1} % at most ({program})",
            percent[0], percent[1]
        );
        (of_readme, of_guide)
    };
    for (set, count, variant, mode) in [
        (Set::Drawn, 8, "link", "link mode"),
        (Set::Drawn, 8, "lto", "lto mode"),
        (Set::Unseen, 9, "link", "link mode"),
        (Set::Tuned, 18, "link", "link mode"),
        (Set::Tuned, 18, "lto", "lto mode"),
    ] {
        let (of_readme, of_guide) = sentences(set, count, variant, mode);
        readme.push(of_readme);
        guide.push(of_guide);
    }
    for (variant, mode) in [("link", "link mode"), ("lto", "lto mode")] {
        let code = mean(&ratios(&data, Set::Drawn, 8, variant, Measured::own_code_ratio));
        readme.push(format!("{code:.2} times in {mode}"));
        guide.push(format!("in {mode} by {:.0} %", (code - 1.0) * 100.0));
    }
    for variant in ["link", "lto"] {
        let verified = data.programs.values().filter_map(|of| of.get(variant)?.measured.verified.as_ref());
        let (compared, wrong) = verified.fold((0, 0), |(c, w), v| (c + v.compared, w + v.mismatches));
        assert!(compared > 1_000_000_000 && wrong == 0, "{variant}: {compared}, {wrong}");
    }
    for (file, sentences) in [("README.md", readme), ("docs/guide/src/cost.md", guide)] {
        let text = fs::read_to_string(repository().join(file)).expect("is there");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut from = 0;
        for sentence in sentences {
            let found = text[from..].find(&sentence);
            assert!(found.is_some(), "{file} does not say \"{sentence}\", or not there");
            from += found.unwrap_or_default();
        }
    }
}

#[test]
fn the_packages_are_those_of_the_record() {
    let record = Record::read().expect("the record");
    let document = fs::read_to_string(Record::document()).expect("the document");
    assert!(document == record.markdown(), "docs/packages.md is not what `make packages DOCS=1` writes");
    let kept = fs::read_to_string(Record::file()).expect("the record");
    assert_eq!(record.json().expect("it can be written"), kept);
    assert!(kept.contains("\"lua\": {"), "{kept}");
}
