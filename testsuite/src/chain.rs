//! Chains of calls from different sources, for comparison: the output of `pcce decode`, and the answers of LLVM's
//! symboliser.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use pcce_abi::functions;
use serde_json::Value;

use crate::{artifact, command, llvm, run_with_input};

/// A frame: function and line, or code that is not instrumented.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// Function, line, and whether it was inlined.
    Call(String, u64, bool),
    /// Code that is not instrumented.
    Plain,
    /// A function that left by a tail call. An empty name means that there may be such functions.
    Tail(String),
    /// Another boundary, by its kind.
    Boundary(String),
}

impl std::fmt::Display for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call(name, line, inlined) => {
                write!(f, "{name}:{line}{}", if *inlined { " (inlined)" } else { "" })
            }
            Self::Plain => f.write_str("<plain>"),
            Self::Tail(name) => write!(f, "<{name}, tail>"),
            Self::Boundary(kind) => write!(f, "<{kind}>"),
        }
    }
}

pub fn show(frames: &[Frame]) -> String {
    frames.iter().map(Frame::to_string).collect::<Vec<_>>().join(" < ")
}

/// Adds a frame. Neighbours that are not instrumented become one.
pub fn add(frames: &mut Vec<Frame>, frame: Frame) {
    if frame != Frame::Plain || frames.last() != Some(&Frame::Plain) {
        frames.push(frame);
    }
}

/// Returns whether a function of this name pushes for others: the pass's or the runtime's. Contexts do not show these.
pub fn is_push_thunk(name: &str) -> bool {
    [".pcce_push", functions::OPEN_THUNK, functions::STUB].iter().any(|part| name.contains(part))
}

/// The name of a function, from that of a part of it in the form of LLVM's symboliser: `f.__part.1`, `f() (.cold)`.
fn whole(name: &str) -> &str {
    let part = [" (.__part.", ".__part.", " (.cold", ".cold"].iter().filter_map(|part| name.find(part)).min();
    part.map_or(name, |at| &name[..at])
}

/// The source frames of addresses, innermost first, by LLVM's symboliser. Addresses in push thunks have none.
pub fn symbolise(program: &Path, addresses: &BTreeSet<u64>) -> HashMap<u64, Vec<Frame>> {
    let mut found = HashMap::new();
    for (address, symbols) in symbols(program, addresses) {
        let count = symbols.len();
        let name = |symbol: &Value| whole(symbol["FunctionName"].as_str().unwrap_or("")).to_owned();
        if symbols.is_empty() {
            found.insert(address, vec![Frame::Plain]);
            continue;
        }
        let shown = symbols.iter().enumerate().filter(|(_, symbol)| !is_push_thunk(&name(symbol)));
        let frames = shown.map(|(i, symbol)| {
            let name = name(symbol);
            // Code without debug information: the C library's, where it is linked statically, and the runtime.
            if symbol["StartLine"].as_u64().unwrap_or(0) == 0 {
                Frame::Plain
            } else {
                Frame::Call(
                    without_suffix(&name).to_owned(),
                    symbol["Line"].as_u64().unwrap_or(0),
                    i + 1 < count,
                )
            }
        });
        found.insert(address, frames.collect());
    }
    found
}

/// The functions of addresses by the symbol table alone, without debug information.
pub fn symbol_names(program: &Path, addresses: &BTreeSet<u64>) -> HashMap<u64, String> {
    let name = |symbols: Vec<Value>| {
        symbols.last()?["FunctionName"].as_str().map(|name| match name {
            name if is_push_thunk(name) => name.to_owned(),
            name => without_suffix(name).to_owned(),
        })
    };
    let names = symbols(program, addresses).into_iter();
    names.filter_map(|(address, symbols)| Some((address, name(symbols)?))).collect()
}

/// The answers of LLVM's symboliser, by address.
fn symbols(program: &Path, addresses: &BTreeSet<u64>) -> Vec<(u64, Vec<Value>)> {
    let input: String = addresses.iter().map(|a| format!("{a:#x}\n")).collect();
    let object = format!("--obj={}", program.display());
    let words = [&object, "--output-style=JSON", "--inlines", "--demangle", "--relative-address"];
    let mut symboliser = command(llvm("llvm-symbolizer"), &words);
    let output = run_with_input(&mut symboliser, &input).expect_success();
    let of_line = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("JSON");
        let address = value["Address"].as_str().expect("an address").trim_start_matches("0x");
        let address = u64::from_str_radix(address, 16).expect("hexadecimal digits");
        (address, value["Symbol"].as_array().cloned().unwrap_or_default())
    };
    output.stdout.lines().map(of_line).collect()
}

/// A symbol's name without LLVM's suffixes for copies of functions and for the calling convention `vectorcall`.
fn without_suffix(name: &str) -> &str {
    let name = name.split_once(" (.").map_or(name, |(name, _)| name);
    let name = name.split_once("@@").map_or(name, |(name, _)| name);
    // Demangled names have other dots.
    if name.contains('(') { name } else { name.split_once('.').map_or(name, |(name, _)| name) }
}

/// The functions of a context in the form of `pcce … --format json`, with boundaries in brackets. Neighbours that are
/// not instrumented become one: the number and the names of libc's internal functions differ.
pub fn functions(trace: &Value) -> Vec<String> {
    let name = |frame: &Value| match frame["kind"].as_str() {
        Some("call") => frame["function"].as_str().expect("a name").to_owned(),
        Some(kind) => format!("<{kind}>"),
        None => panic!("{frame}"),
    };
    let mut names: Vec<String> = trace["frames"].as_array().expect("frames").iter().map(name).collect();
    names.dedup_by(|a, b| a == b && *a == "<uninstrumented>");
    names
}

/// Decodes tokens, one per line, by a program. Returns a context in JSON per line.
pub fn decode(program: &Path, tokens: &str) -> String {
    decode_with(program, &[], tokens)
}

/// As [`decode`], by a program and its libraries.
pub fn decode_with(program: &Path, libraries: &[&Path], tokens: &str) -> String {
    let mut pcce = command(artifact("pcce"), &["decode", "--format", "json"]);
    pcce.arg(program);
    libraries.iter().for_each(|library| _ = pcce.arg("--dict").arg(library));
    run_with_input(&mut pcce, tokens).expect_success().stdout
}

/// The chain of a line of `pcce decode --format json`.
pub fn decoded(line: &str) -> Vec<Frame> {
    let value: Value = serde_json::from_str(line).expect("JSON");
    let mut frames = Vec::new();
    for frame in value["frames"].as_array().unwrap_or_else(|| panic!("{line}")) {
        let name = frame["function"].as_str().unwrap_or("").to_owned();
        let line = frame["line"].as_u64().unwrap_or(0);
        let kind = frame["kind"].as_str().expect("a kind");
        add(
            &mut frames,
            match kind {
                "call" => Frame::Call(name, line, frame["inlined"] == true),
                "uninstrumented" => Frame::Plain,
                "tail" => Frame::Tail(name),
                kind => Frame::Boundary(kind.to_owned()),
            },
        );
    }
    frames
}
