//! The active functions where chunks of a trace begin: chunks of programs in verify mode are read from their
//! beginnings.

use std::fs;
use std::path::{Path, PathBuf};

use super::{pcce_trace, record};
use pcce_testsuite::{artifact, command, include, repository, run, source, work_folder};
use serde_json::Value;

/// Builds a program whose first chunks have so many words, and runs it. Returns the line of `pcce trace check` about
/// chunks, and its JSON document.
fn checked(source: &Path, flags: &[&str], words: &str, folder: &Path) -> (String, Value) {
    let (program, trace): (PathBuf, PathBuf) = (folder.join("program"), folder.join("trace"));
    let include = include("runtime-lib/include");
    let mut build = command(artifact("pcce-clang"), &["-g", "-O1", "-pthread", "--pcce-verify", &include]);
    run(build.args(flags).arg(source).arg("-o").arg(&program)).expect_success();
    record(command(&program, &[]).env("PCCE_TRACE_STRESS", words), &trace);
    let check = |format: &str| pcce_trace(&["check", "--format", format], &program, &trace).stdout;
    let line = check("text").lines().nth(1).unwrap_or_default().to_owned();
    (line, serde_json::from_str(&check("json")).expect("a document"))
}

/// With blocks, a function without calls writes events as well, and chunks begin in it.
#[test]
fn chunks_begin_in_functions_that_only_branch() {
    let folder = work_folder("traces/branches");
    let source = folder.join("branches.c");
    fs::write(&source, source!("traces/branches.c")).unwrap();
    for mode in ["--pcce-mode=lto", "--pcce-mode=module", "--pcce-mode=link"] {
        let (_, document) = checked(&source, &["--pcce-trace=blocks", mode], "3", &folder);
        let chunks = &document["chunks"];
        assert!(chunks["chunks"].as_u64() > Some(100), "{mode}: {chunks}");
        for none in ["mismatches", "partly", "uncertain", "without_context"] {
            assert_eq!(chunks[none], 0, "{mode}: {none} of {chunks}");
        }
    }
}

/// Where a chunk begins on a fiber, the functions outside of it are not known: the output tells of each chunk whether
/// it could be compared.
#[test]
fn chunks_that_cannot_be_compared_are_counted() {
    let source = repository().join("testsuite/programs/fibers_unannounced.c");
    let folder = work_folder("traces/fibers");
    let (line, document) = checked(&source, &["--pcce-trace", "--pcce-mode=module"], "2", &folder);
    let number = |what: &str| document["chunks"][what].as_u64().expect(what);
    assert!(number("uncertain") > 0 && number("uncertain") <= number("partly"), "{document}");
    let text = format!("; {} cannot be compared", number("uncertain"));
    assert!(line.contains(&text), "{line}");
}
