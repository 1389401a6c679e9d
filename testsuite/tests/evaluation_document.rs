//! `docs/evaluation.md` says what `docs/evaluation.json` has.

use std::fs;

use pcce_testsuite::evaluation::data::Data;
use pcce_testsuite::evaluation::papers::Papers;
use pcce_testsuite::evaluation::program::{Program, Set};
use pcce_testsuite::evaluation::report::Measured;
use pcce_testsuite::evaluation::statistics::geometric_mean;
use pcce_testsuite::repository;

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

/// Ratios of the programs of a set in a variant, the least first.
fn ratios(
    data: &Data,
    (set, count): (Set, usize),
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

/// What README and the guide say of costs is what was measured: first of the programs that a rule has drawn.
#[test]
fn figures_elsewhere_are_those_of_the_data() {
    let data = Data::read(&Data::file()).expect("the data");
    let mean =
        |of: &[(f64, String)]| geometric_mean(of.iter().map(|(ratio, _)| *ratio)).expect("there are some");
    let mut readme = Vec::new();
    let mut guide = Vec::new();
    for set in [(Set::Drawn, 8), (Set::Tuned, 18)] {
        let of_modes = [("link", "link mode"), ("lto", "lto mode")].map(|(variant, mode)| {
            let instructions = ratios(&data, set, variant, Measured::instruction_ratio);
            let (most, program) = &instructions[set.1 - 1];
            let mean_of_all = mean(&instructions);
            (
                format!("{mean_of_all:.3} times in {mode}, {most:.3} at most ({program})"),
                format!(
                    "in {mode} by {:.1} % in the geometric mean, and by {:.1} % at most ({program})",
                    (mean_of_all - 1.0) * 100.0,
                    (most - 1.0) * 100.0
                ),
            )
        });
        let [link, lto] = of_modes;
        readme.push(format!("{}. {}", link.0, lto.0));
        guide.push(format!("{}; {}", link.1, lto.1));
        let code = mean(&ratios(&data, set, "link", Measured::own_code_ratio));
        readme.push(format!("{code:.2} times in link mode"));
        guide.push(format!("by {:.0} %", (code - 1.0) * 100.0));
    }
    for variant in ["link", "lto"] {
        let verified = data.programs.values().filter_map(|of| of.get(variant)?.measured.verified.as_ref());
        let (compared, wrong) = verified.fold((0, 0), |(c, w), v| (c + v.compared, w + v.mismatches));
        assert!(compared > 1_000_000_000 && wrong == 0, "{variant}: {compared}, {wrong}");
    }
    for (file, sentences) in [("README.md", readme), ("docs/guide/src/cost.md", guide)] {
        let text = fs::read_to_string(repository().join(file)).expect("is there");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = text.replace(" - ", " ");
        let mut from = 0;
        for sentence in sentences {
            let found = text[from..].find(&sentence);
            assert!(found.is_some(), "{file} does not say \"{sentence}\", or not there");
            from += found.unwrap_or_default();
        }
    }
}
