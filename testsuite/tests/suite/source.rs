//! The shape of the sources: lines of code have at most 120 columns, and prose has 110.
//!
//! Texts in quotation marks may be longer, so that a search for a message finds it. So may rows of tables, and
//! blocks of Markdown that are shown verbatim.

use std::path::Path;
use std::process::Command;

use pcce_testsuite::repository;

const CODE: usize = 120;
const PROSE: usize = 110;

/// A reader's position in a text of Rust or C.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Code,
    LineComment,
    Comment,
    /// In a text in quotation marks: whether backslashes escape, and how many `#` end it.
    Text(bool, usize),
}

/// The columns of each line outside of texts in quotation marks.
fn columns(source: &str, rust: bool) -> Vec<usize> {
    let mut widths = Vec::new();
    let mut place = Place::Code;
    for line in source.lines() {
        let chars: Vec<char> = line.chars().collect();
        let (mut width, mut at) = (0, 0);
        let is = |at: usize, text: &str| text.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
        while at < chars.len() {
            let mut taken = 1;
            match place {
                Place::Text(escapes, marks) => {
                    if escapes && chars[at] == '\\' {
                        taken = 2;
                    } else if is(at, &format!("\"{}", "#".repeat(marks))) {
                        taken = 1 + marks;
                        place = Place::Code;
                    }
                    at += taken;
                    continue;
                }
                Place::Code if is(at, "//") => place = Place::LineComment,
                Place::Code if is(at, "/*") => place = Place::Comment,
                Place::Comment if is(at, "*/") => (place, taken) = (Place::Code, 2),
                Place::Code if is(at, "'\"'") || is(at, "'\\") => taken = 3,
                Place::Code if chars[at] == '"' => {
                    let before = chars[..at].iter().rev();
                    let marks = before.clone().take_while(|c| **c == '#').count();
                    let raw = rust && before.clone().nth(marks) == Some(&'r');
                    let long = !rust && is(at.wrapping_sub(1), "R\"");
                    place = Place::Text(!raw && !long, if raw { marks } else { 0 });
                }
                _ => {}
            }
            width += taken;
            at += taken;
        }
        // A line comment ends with its line, and so does a text in C.
        if place == Place::LineComment || !rust && matches!(place, Place::Text(..)) {
            place = Place::Code;
        }
        // A row of a table in a comment, or a directive of a test program, is one line.
        let row = ["//! |", "/// |", "//# "].iter().any(|start| line.trim_start().starts_with(start));
        widths.push(if row { 0 } else { width });
    }
    widths
}

/// The columns of each line of Markdown that could be broken.
fn columns_of_prose(source: &str) -> Vec<usize> {
    let mut shown = false;
    let width = |line: &str| {
        let text = line.trim_start();
        shown ^= text.starts_with("```");
        let whole = shown || text.starts_with('|') || text.starts_with('#') || !text.contains(' ');
        if whole { 0 } else { line.chars().count() }
    };
    source.lines().map(width).collect()
}

fn wrong_with(name: &str, source: &str) -> Vec<String> {
    let ending = Path::new(name).extension().and_then(|e| e.to_str()).unwrap_or_default();
    let (widths, most) = match ending {
        "rs" => (columns(source, true), CODE),
        "c" | "cpp" | "h" => (columns(source, false), CODE),
        "md" => (columns_of_prose(source), PROSE),
        _ => return Vec::new(),
    };
    let wide = widths.into_iter().enumerate().filter(|(_, width)| *width > most);
    wide.map(|(i, width)| format!("{name}:{}: {width} columns, and {most} are allowed", i + 1)).collect()
}

#[test]
fn lines_are_short() {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(repository())
        .output()
        .expect("there is git");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let list = String::from_utf8(listed.stdout).expect("names are UTF-8");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for name in list.lines() {
        // A file that was deleted without a commit is listed, too.
        let Ok(source) = std::fs::read_to_string(repository().join(name)) else { continue };
        seen += 1;
        wrong.extend(wrong_with(name, &source));
    }
    assert!(seen > 100, "only {seen} files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_too_long_is_found() {
    let long = "x".repeat(121);
    let texts =
        format!("let a = \"{long}\"; // {}\nlet b = r#\"\n{long}\n\"#;\nlet c = '\"'; {long}\n", &long[..80]);
    assert_eq!(wrong_with("a.rs", &texts), ["a.rs:5: 134 columns, and 120 are allowed"]);
    assert_eq!(wrong_with("a.c", &format!("/* {long}\n\"{long}\" */\n")).len(), 2);
    let prose = format!("{}x\n| {long} |\n```\n{long} {long}\n```\n{}y\n", "x ".repeat(55), "x ".repeat(54));
    assert_eq!(wrong_with("a.md", &prose), ["a.md:1: 111 columns, and 110 are allowed"]);
}
