//! Debian's source packages in verify mode: `make packages N=3`, or `make packages PACKAGES="zlib bash"`.
//!
//! [`pcce_testsuite::packages`] does the work. Writes `target/packages/report.md` and `results.json`; the logs are
//! beside them. A package is not built again with the same tools. Exit status 1 if a package does not build, its tests
//! end otherwise than with plain clang, or a context mismatched.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use pcce_testsuite::driver::{Progress, exit, names};
use pcce_testsuite::packages::record::Record;
use pcce_testsuite::packages::{Build, Outcome, Package, Packages, differences};
use pcce_testsuite::{revision, target};
use serde_json::{Value, json};

/// Builds and tests Debian packages with the wrapper in verify mode.
#[derive(Parser)]
struct Arguments {
    /// How many, the quick ones first; all without it
    #[arg(long)]
    count: Option<usize>,
    /// Packages, separated by blanks; all without it
    #[arg(long, value_delimiter = ' ')]
    packages: Vec<String>,
    /// Modes, separated by blanks: link, lto, module; all without it
    #[arg(long, value_delimiter = ' ')]
    modes: Vec<String>,
    /// The folder with the wrapper compilers; target/release without it
    #[arg(long)]
    tools: Option<PathBuf>,
    /// Put what came of it into docs/packages.json, and write docs/packages.md, too
    #[arg(long)]
    docs: bool,
    /// The commit that the tools were built from; the one that is checked out without it
    #[arg(long)]
    revision: Option<String>,
}

fn main() -> ExitCode {
    exit("packages", run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<bool> {
    let root = target().join("packages");
    let tools = arguments.tools.clone().unwrap_or_else(|| target().join("release"));
    let tools = tools.canonicalize().with_context(|| tools.display().to_string())?;
    let mut chosen = Package::named(&names(&arguments.packages))?;
    chosen.truncate(arguments.count.unwrap_or(usize::MAX));
    let mut builds = Vec::new();
    for name in names(&arguments.modes) {
        let build = Build::INSTRUMENTED.into_iter().find(|build| build.name() == name);
        builds
            .push(build.with_context(|| format!("there is no mode `{name}`; there are: link, lto, module"))?);
    }
    if builds.is_empty() {
        builds.extend(Build::INSTRUMENTED);
    }
    builds.insert(0, Build::Plain);

    // Sources without a repository have none.
    let revision = match &arguments.revision {
        Some(given) => given.clone(),
        None if arguments.docs => revision()?,
        None => String::new(),
    };
    let packages = Packages::new(root.clone(), tools)?;
    let takes = |package: &Package, build: Build| build == Build::Plain || package.takes(build);
    let total = chosen.iter().map(|p| builds.iter().filter(|build| takes(p, **build)).count()).sum();
    let progress = Progress::new(total, "builds");
    let mut report = Report::default();
    // By package and build: a package is built again when a package that it needs is.
    let mut fingerprints: Vec<(&str, Build, String)> = Vec::new();
    for package in &chosen {
        let mut plain = None;
        for &build in builds.iter().filter(|build| takes(package, **build)) {
            let needs: Vec<String> = fingerprints
                .iter()
                .filter(|(name, of, _)| *of == build && package.needs.iter().any(|need| need == name))
                .map(|(_, _, fingerprint)| fingerprint.clone())
                .collect();
            let fingerprint = packages.fingerprint(package, build, &needs)?;
            let say = |step: &str| progress.say(&format!("{} {}: {step}", package.name, build.name()));
            let outcome = packages.outcome(package, build, &fingerprint, &say);
            progress.line(&report.add(package, build, &outcome, plain.as_ref()));
            if build == Build::Plain {
                plain = outcome.ok();
            } else if let (true, Some(plain), Ok(outcome)) = (arguments.docs, &plain, &outcome) {
                // Written at once, since all packages take hours.
                let mut record = Record::read()?;
                record.add(&package.name, build, &revision, plain, outcome);
                record.write()?;
            }
            fingerprints.push((&package.name, build, fingerprint));
            progress.done();
        }
    }
    progress.end();
    let file = root.join("report.md");
    fs::write(&file, report.markdown())?;
    fs::write(root.join("results.json"), serde_json::to_vec_pretty(&report.results)?)?;
    eprintln!("wrote {}, with results.json and logs beside it", file.display());
    Ok(!report.failed)
}

/// The results of all builds.
#[derive(Default)]
struct Report {
    /// The table's lines.
    rows: String,
    /// Errors and differences, in words.
    notes: String,
    results: Vec<Value>,
    failed: bool,
}

impl Report {
    /// Adds an outcome. Returns a line about it.
    fn add(
        &mut self,
        package: &Package,
        build: Build,
        outcome: &Result<Outcome>,
        plain: Option<&Outcome>,
    ) -> String {
        let name = format!("{} {}", package.name, build.name());
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(e) => {
                self.failed = true;
                let _ = writeln!(self.rows, "| {} | {} | no | | | | | |", package.name, build.name());
                let _ = writeln!(self.notes, "\n{name}: not built\n\n```text\n{e:#}\n```");
                self.results.push(
                    json!({ "package": package.name, "build": build.name(), "error": format!("{e:#}") }),
                );
                return format!("{name}: FAILED: {e:#}");
            }
        };
        let different = plain.map(|plain| differences(&plain.results, &outcome.results));
        let total = outcome.results.len();
        let tests = match &different {
            _ if build == Build::Plain => format!("{total}"),
            None => "nothing to compare with".to_owned(),
            Some(lines) if lines.is_empty() => format!("all of {total}"),
            Some(lines) => format!("{} of {total} differ", lines.len()),
        };
        let verified = &outcome.verified;
        let row = if build == Build::Plain {
            format!("{:.0} s | {tests} | | |", outcome.build.elapsed)
        } else {
            self.failed |=
                different.as_ref().is_none_or(|lines| !lines.is_empty()) || verified.mismatches > 0;
            format!(
                "{:.0} s | {tests} | {} | {} | {}",
                outcome.build.elapsed, verified.compared, verified.processes, verified.mismatches
            )
        };
        let _ = writeln!(self.rows, "| {} | {} | yes | {row} |", package.name, build.name());
        let mut list = |title: &str, lines: &mut dyn Iterator<Item = String>| {
            let lines: Vec<String> = lines.collect();
            if !lines.is_empty() {
                let _ = writeln!(self.notes, "\n{name}: {title}\n\n```text\n{}\n```", lines.join("\n"));
            }
        };
        if let Some(lines) = &different {
            list("results that differ from plain clang's", &mut lines.iter().cloned());
        }
        list("mismatches described", &mut outcome.described.iter().map(|(what, n)| format!("{n} × {what}")));
        self.results.push(json!({
            "package": package.name,
            "build": build.name(),
            "different": different,
            "outcome": outcome,
        }));
        format!("{name}: {row}")
    }

    fn markdown(&self) -> String {
        format!(
            "# Debian packages in verify mode\n\n\
             Made by `make packages`. Results of the package's own tests are compared with those under\n\
             plain clang. Contexts are those of all instrumented processes of build and tests.\n\n\
             | package | build | built | build time | tests as plain | contexts | processes | mismatches |\n\
             |---|---|---|---|---|---|---|---|\n{}{}",
            self.rows, self.notes
        )
    }
}
