//! Compares the output of a program with its directives.
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::build::{build, ordinary_lines, shown_lines};
use super::{Case, Frame, Shown};
use crate::directives::{Program, matches};
use crate::{Output, artifact, command, run, run_with_input, verified_captures};

pub(super) fn check_case(
    program: &Program,
    case: &Case,
    (lines, status): &(Vec<String>, i32),
    folder: &Path,
) -> Result<(), String> {
    let built = build(program, &case.level, Some(case), case.on, folder)?;
    let report = folder.join(format!("{}.report", case.name()));
    let numbers = folder.join(format!("{}.numbers", case.name()));
    let captured = verified_captures::file(&report);
    let _ = fs::remove_file(&captured);
    let mut run_it = built.command(program);
    run_it.env("PCCE_VERIFY_CAPTURES", &captured);
    let output = run(run_it.env("PCCE_VERIFY_REPORT", &report).env("PCCE_NUMBERS", &numbers));
    let mut wrong = String::new();
    if case.verify {
        check_report(&report, program.is_cut(), &mut wrong);
    }
    if output.status != *status || ordinary_lines(&output) != *lines {
        show_output_difference(&output, *status, lines, &mut wrong);
    }
    let shown = shown_lines(&output)?;
    let libraries = program.libraries().into_iter().zip(&built.libraries).filter(|(l, _)| l.instrumented);
    let images: Vec<&Path> = std::iter::once(built.path.as_path())
        .filter(|_| program.is_instrumented())
        .chain(libraries.map(|(_, path)| path.as_path()))
        .collect();
    if let Err(error) = verified_captures::compare(&images, &captured) {
        let _ = writeln!(wrong, "captures: {error}");
    }
    match decode(&images, &shown, Some(&numbers)) {
        Ok(decoded) => compare(program, case, &shown, &decoded, &mut wrong),
        Err(error) => wrong.push_str(&error),
    }
    if wrong.is_empty() {
        // There are hundreds of programs, so only folders of failures stay.
        for file in [&built.path, &report, &numbers, &captured].into_iter().chain(&built.libraries) {
            let _ = fs::remove_file(file);
        }
        Ok(())
    } else {
        Err(wrong)
    }
}

pub(crate) fn show_output_difference(output: &Output, status: i32, lines: &[String], wrong: &mut String) {
    let _ = writeln!(
        wrong,
        "{}without the pass: status {status}, output\n{}\nwith it: output\n{}",
        output.describe(),
        lines.join("\n"),
        ordinary_lines(output).join("\n")
    );
}

/// Checks the report of verify mode: there were comparisons, and no mismatch. Only if `cut` is true may entries have
/// been left out. Returns the number of comparisons.
pub(crate) fn check_report(path: &Path, cut: bool, wrong: &mut String) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut compared = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["pcce", "verify:", n, "contexts", "compared,", _, "distinct,", "0", "mismatches"] => {
                compared += n.parse().unwrap_or(0);
            }
            ["pcce", "verify:", _, "of", "them", "cut,", ..] if cut => {}
            _ => {
                let _ = writeln!(wrong, "verify report: {line}");
            }
        }
    }
    if compared == 0 {
        let _ = writeln!(wrong, "verify mode compared nothing; its report is `{text}`");
    }
    compared
}

/// Numbers from here on are interned.
const FIRST_INTERNED: u64 = 1 << 63;

/// The frames of each token or number.
pub(crate) struct Decoded {
    pub(crate) tokens: Vec<Vec<Frame>>,
    /// Contexts of numbers below 2^63, and of all numbers if there is a file of numbers.
    numbers: Vec<Option<Vec<Frame>>>,
}

/// Decodes the tokens and numbers in the output. `file` is the file of numbers of the process, if it has written one.
pub(crate) fn decode(images: &[&Path], shown: &[Shown], file: Option<&Path>) -> Result<Decoded, String> {
    let known = |number: u64| number != 0 && (file.is_some() || number < FIRST_INTERNED);
    let mut input = String::new();
    for s in shown {
        if !s.token.is_empty() {
            let _ = writeln!(input, "{}", s.token);
        }
        if known(s.number) {
            let _ = writeln!(input, "{}", s.number);
        }
    }
    if let Some(s) = shown.iter().find(|s| s.token.is_empty() != (s.number == 0)) {
        return Err(format!("{}: token `{}` and number {}\n", s.name, s.token, s.number));
    }
    let mut pcce = command(artifact("pcce"), &["decode", "--format", "json"]);
    for (i, image) in images.iter().enumerate() {
        if i > 0 {
            pcce.arg("--dict");
        }
        pcce.arg(image);
    }
    if let Some(file) = file {
        pcce.arg("--numbers").arg(file);
    }
    let output = run_with_input(&mut pcce, &input);
    let mut lines = output.stdout.lines();
    let mut next = |text: &str| -> Result<Vec<Frame>, String> {
        let line = lines.next().ok_or_else(|| output.describe())?;
        let value: Value = serde_json::from_str(line).map_err(|e| format!("{e}: {line}"))?;
        if value["token"] != *text {
            return Err(format!("asked for {text}, got {line}"));
        }
        value["frames"]
            .as_array()
            .map(|frames| frames.iter().map(frame).collect())
            .ok_or_else(|| line.to_owned())
    };
    let mut decoded = Decoded { tokens: Vec::new(), numbers: Vec::new() };
    for s in shown {
        decoded.tokens.push(if s.token.is_empty() {
            vec![Frame { text: "<none>".to_owned(), file: None, line: None, inlined: false }]
        } else {
            next(&s.token)?
        });
        decoded.numbers.push(match known(s.number) {
            true => Some(next(&s.number.to_string())?),
            false => None,
        });
    }
    if output.status == 0 { Ok(decoded) } else { Err(output.describe()) }
}

fn frame(value: &Value) -> Frame {
    let function = value["function"].as_str();
    let inlined = value["inlined"] == true;
    let text = match (value["kind"].as_str().unwrap_or("no kind"), function) {
        ("call", Some(f)) if inlined => format!("inlined {f}"),
        ("call", Some(f)) => f.to_owned(),
        ("uninstrumented", f) => format!("<{}>", f.unwrap_or("?")),
        (kind, Some(f)) => format!("<{kind} {f}>"),
        (kind, None) => format!("<{kind}>"),
    };
    Frame { text, file: value["file"].as_str().map(str::to_owned), line: value["line"].as_u64(), inlined }
}

fn texts(frames: &[Frame]) -> Vec<String> {
    frames.iter().map(|f| f.text.clone()).collect()
}

/// A chain for a message, with long runs shortened.
fn show(frames: &[String]) -> String {
    let mut out: Vec<String> = Vec::new();
    for run in frames.chunk_by(|a, b| a == b) {
        out.push(if run.len() > 1 { format!("{}*{}", run[0], run.len()) } else { run[0].clone() });
    }
    out.join(" < ")
}

fn compare(program: &Program, case: &Case, shown: &[Shown], decoded: &Decoded, wrong: &mut String) {
    let facts = case.facts();
    let debug = case.shape != "nodebug";
    let of_name =
        |name: &str| -> Vec<usize> { (0..shown.len()).filter(|&i| shown[i].name == name).collect() };
    let chains = program.chains(&facts);
    for (name, expected) in &chains {
        let indices = of_name(name);
        if indices.is_empty() || (expected.len() > 1 && expected.len() != indices.len()) {
            let _ =
                writeln!(wrong, "{name}: shown {} times, {} chains expected", indices.len(), expected.len());
            continue;
        }
        for (k, &i) in indices.iter().enumerate() {
            let expected = expected.get(k).unwrap_or(&expected[0]);
            let expected = if debug { expected.clone() } else { without_inlined(expected) };
            let found = texts(&decoded.tokens[i]);
            if !matches(&expected, &found) {
                let _ = writeln!(wrong, "{name}: expected {expected}\n{name}: found    {}", show(&found));
            }
        }
    }
    for s in shown {
        if !chains.iter().any(|(name, _)| *name == s.name) {
            let _ = writeln!(wrong, "{}: there is no Chain directive for it", s.name);
        }
    }
    for (name, expected) in program.lines().into_iter().filter(|_| debug) {
        for i in of_name(&name) {
            let found: Vec<u64> = decoded.tokens[i].iter().map(|f| f.line.unwrap_or(0)).collect();
            if found != expected {
                let _ = writeln!(wrong, "{name}: expected lines {expected:?}, found {found:?}");
            }
        }
    }
    // If stack offsets distinguish contexts, numbers are interned.
    for name in program.fixed(&facts).into_iter().filter(|_| case.mode == "lto" && case.shape != "hybrid") {
        for i in of_name(&name) {
            if shown[i].number >= FIRST_INTERNED {
                let _ = writeln!(wrong, "{name}: its number {} is not a fixed one", shown[i].number);
            }
        }
    }
    compare_numbers(shown, decoded, wrong);
}

fn without_inlined(chain: &str) -> String {
    chain.split(" < ").filter(|word| !word.starts_with("inlined ")).collect::<Vec<_>>().join(" < ")
}

/// The frames, as far as a number determines them: lines of the innermost function may share a number, and it does not
/// say whether a tail call has left the thread's first function.
fn determined_by_number(frames: &[Frame]) -> Vec<Frame> {
    let mut frames = frames.to_vec();
    (frames[0].file, frames[0].line) = (None, None);
    frames.pop_if(|frame| frame.text == "<tail>");
    frames
}

/// Checks that numbers and tokens name the same contexts: equal tokens have equal numbers, equal numbers the same
/// callers (within a process), and a number decodes to the calls of its token.
pub(crate) fn compare_numbers(shown: &[Shown], decoded: &Decoded, wrong: &mut String) {
    let cut = |i: usize| decoded.tokens[i].last().is_some_and(|f| f.text == "<truncated>");
    let mut number_of: HashMap<(u64, &str), usize> = HashMap::new();
    let mut context_of: HashMap<(u64, u64), usize> = HashMap::new();
    // A number stands for the thread's own part of a context, without its creation.
    let across = |s: &Shown| s.token.contains('+');
    for (i, s) in shown.iter().enumerate().filter(|(i, s)| !cut(*i) && !across(s)) {
        let of_token = |i: usize| determined_by_number(&decoded.tokens[i]);
        let &mut token_first = number_of.entry((s.process, &s.token)).or_insert(i);
        if shown[token_first].number != s.number {
            let _ = writeln!(
                wrong,
                "{}: one token, two numbers: {} and {}",
                s.name, shown[token_first].number, s.number
            );
        }
        let &mut number_first = context_of.entry((s.process, s.number)).or_insert(i);
        if of_token(number_first) != of_token(i) {
            let _ = writeln!(
                wrong,
                "number {} is that of two contexts:\n{}\n{}",
                s.number,
                show(&texts(&decoded.tokens[number_first])),
                show(&texts(&decoded.tokens[i]))
            );
        }
        if let Some(frames) = &decoded.numbers[i]
            && determined_by_number(frames) != of_token(i)
        {
            let _ = writeln!(
                wrong,
                "{}: number {} decodes to {}, the token to {}",
                s.name,
                s.number,
                show(&texts(frames)),
                show(&texts(&decoded.tokens[i]))
            );
        }
    }
}
