//! Results of SPEC CPU 2017 with `testsuite/evaluation/spec/pcce.cfg`, as tables like those of the evaluation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use super::declarations::Variant;
use super::statistics::{geometric_mean, median};

/// A result of one benchmark: its run times in seconds, or SPEC's word for why there is none.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Times(Vec<f64>),
    Failed(String),
}

type Results = BTreeMap<String, Outcome>;

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().expect("one at least").push(c),
        }
    }
    fields
}

/// Reads the table with all runs of a result in CSV. Runs are those of base or, if none of these happened, those of
/// peak.
fn read(text: &str) -> Result<Results> {
    let table = text.split("\"Full Results Table\"").nth(1).context("no line `\"Full Results Table\"`")?;
    let table = table.split("\"Selected Results Table\"").next().unwrap_or(table);
    let mut lines = table.lines().skip_while(|line| !line.starts_with("Benchmark,"));
    let header = fields(lines.next().context("the table has no line that begins with `Benchmark,`")?);
    let column = |tune: &str, what: &str| {
        let is_it = |name: &String| name.trim_start_matches("Est. ") == format!("{tune} {what}");
        header.iter().position(is_it).with_context(|| format!("the table has no column `{tune} {what}`"))
    };
    let rows: Vec<Vec<String>> = lines.take_while(|line| !line.is_empty()).map(fields).collect();
    for tune in ["Base", "Peak"] {
        let (time, status) = (column(tune, "Run Time")?, column(tune, "Status")?);
        let mut results = Results::new();
        for row in &rows {
            let field = |at: usize| row.get(at).map_or("", String::as_str);
            match field(status) {
                "S" => {
                    let seconds =
                        field(time).parse().with_context(|| format!("{}: {}", row[0], field(time)))?;
                    match results.entry(row[0].clone()).or_insert(Outcome::Times(Vec::new())) {
                        Outcome::Times(times) => times.push(seconds),
                        Outcome::Failed(_) => {}
                    }
                }
                "NR" | "" => {}
                failed => _ = results.insert(row[0].clone(), Outcome::Failed(failed.to_owned())),
            }
        }
        if !results.is_empty() {
            return Ok(results);
        }
    }
    bail!("the table has no runs")
}

/// Makes the tables of results, each given as `VARIANT=FILE`: of each variant the ratios to its baseline's run times.
///
/// # Errors
/// A file cannot be read as a result, a variant is not known, or its baseline's result is not given.
pub fn tables(given: &[String], tools: &Path) -> Result<String> {
    let mut all = BTreeMap::new();
    let mut variants = Vec::new();
    for given in given {
        let (name, file) = given.split_once('=').with_context(|| format!("{given}: write VARIANT=FILE"))?;
        let text = fs::read_to_string(file).with_context(|| file.to_owned())?;
        let results = read(&text).with_context(|| format!("{file} is no result of SPEC CPU 2017 in CSV"))?;
        ensure!(all.insert(name.to_owned(), results).is_none(), "the variant {name} is given twice");
        // Not among ours: its contexts are compared, and its time says nothing.
        ensure!(name != "verify", "verify: what counts are its reports, pcce.verify in the run folders");
        variants.push(Variant::named(name, tools)?);
    }
    let mut out = String::new();
    let baselines: Vec<&Variant> = variants.iter().filter(|variant| variant.baseline.is_none()).collect();
    for variant in variants.iter().filter(|variant| variant.baseline.is_some()) {
        let baseline = variant.baseline.as_deref().unwrap_or_default();
        ensure!(
            all.contains_key(baseline),
            "{} is compared with {baseline}; give its result, too: --spec {baseline}=FILE",
            variant.name
        );
    }
    for baseline in baselines {
        let compared: Vec<&Variant> =
            variants.iter().filter(|variant| variant.baseline.as_ref() == Some(&baseline.name)).collect();
        let _ =
            write!(out, "Run times against `{}` ({}): medians, times.\n\n| |", baseline.name, baseline.note);
        compared.iter().for_each(|variant| out += &format!(" {} |", variant.name));
        let _ = writeln!(out, "\n|---|{}", "---|".repeat(compared.len()));
        let mut ratios = vec![Vec::new(); compared.len()];
        for (benchmark, before) in &all[&baseline.name] {
            let _ = write!(out, "| {benchmark} |");
            for (variant, ratios) in compared.iter().zip(&mut ratios) {
                let cell = match (before, all[&variant.name].get(benchmark)) {
                    (Outcome::Times(before), Some(Outcome::Times(after))) => {
                        let ratio = middle(after)? / middle(before)?;
                        ratios.push(ratio);
                        format!("{ratio:.3}")
                    }
                    (Outcome::Failed(why), _) => format!("{}: {why}", baseline.name),
                    (_, Some(Outcome::Failed(why))) => why.clone(),
                    (_, None) => "–".to_owned(),
                };
                let _ = write!(out, " {cell} |");
            }
            out.push('\n');
        }
        out += "| geometric mean |";
        for ratios in ratios {
            let mean =
                geometric_mean(ratios.iter().copied()).map_or("–".to_owned(), |mean| format!("{mean:.3}"));
            let _ = write!(out, " {mean} |");
        }
        out += "\n\n";
    }
    Ok(out.trim_end().to_owned() + "\n")
}

fn middle(times: &[f64]) -> Result<f64> {
    Ok(median(times).context("no run")?.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = "valid,0\n\n\"Full Results Table\"\n\n\
        Benchmark,\"Base # Copies\",\"Est. Base Run Time\",\"Est. Base Rate\",\"Base Selected\",\"Base Status\",\
        \"Peak # Copies\",\"Est. Peak Run Time\",\"Est. Peak Rate\",\"Peak Selected\",\"Peak Status\",Description\n\
        500.perlbench_r,1,30.5,5.2,0,S,,,,,NR,\"a, b\"\n500.perlbench_r,1,10.25,5.2,0,S,,,,,NR,\"c\"\n\
        502.gcc_r,1,,,0,CE,,,,,NR,\n505.mcf_r,,,,,NR,,,,,NR,\n\n\
        \"Selected Results Table\"\n\nBenchmark,\"Base # Copies\"\n500.perlbench_r,1\n";

    #[test]
    fn runs_are_read() {
        let results = read(RESULT).expect("a result");
        assert_eq!(
            results.into_iter().collect::<Vec<_>>(),
            [
                ("500.perlbench_r".to_owned(), Outcome::Times(vec![30.5, 10.25])),
                ("502.gcc_r".to_owned(), Outcome::Failed("CE".to_owned()))
            ]
        );
        let peak = RESULT
            .replace(",1,30.5,5.2,0,S,,,,,NR,", ",,,,,NR,1,30.5,5.2,0,S,")
            .replace(",S,,,,,NR", ",NR,,,,,NR");
        let peak = peak.replace("CE", "NR");
        assert_eq!(read(&peak).expect("a result").len(), 1, "{peak}");
        assert!(read("Benchmark,\n").is_err() && read(&RESULT.replace("Status", "State")).is_err());
        assert!(read(&RESULT.replace(",S,", ",NR,").replace("CE", "NR")).is_err());
    }
}
