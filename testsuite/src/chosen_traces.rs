//! Traces of functions that are chosen when the program starts (`PCCE_TRACE_ONLY`, `PCCE_TRACE_SKIP`), compared with
//! the trace of all functions: without what the other functions did, the events must be the same.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;

use crate::{artifact, command, json_lines, run};

/// An event: its kind, its function, and the line of its place in the source.
type Token = (String, String, u64);

/// The events of a stream, up to one behind which nothing is compared, and whether these are all.
type Events = (Vec<Token>, bool);

/// An activation, or a call of unknown code.
struct Active {
    function: String,
    is_recorded: bool,
    /// The event of its return to a function that is recorded.
    comes_back: Option<Token>,
}

/// The name of a function without parameters, as patterns have it.
fn name(event: &Value) -> String {
    let name = event["function"].as_str().unwrap_or_default();
    if name.starts_with('(') { name.to_owned() } else { name.split('(').next().unwrap_or(name).to_owned() }
}

fn token(event: &Value, kind: &str) -> Token {
    let has_line = !matches!(kind, "entered" | "return");
    let line = event["frames"][0]["line"].as_u64().filter(|_| has_line);
    (kind.to_owned(), name(event), line.unwrap_or(0))
}

/// The streams of a trace, in the order of their numbers.
fn streams(program: &Path, trace: &Path) -> Result<Vec<Vec<Value>>, String> {
    let mut show = command(artifact("pcce"), &["trace", "show", "--format", "json"]);
    let shown = run(show.arg(program).arg(trace));
    if !matches!(shown.status, 0 | 2) {
        return Err(shown.describe());
    }
    let mut streams: std::collections::BTreeMap<u64, Vec<Value>> = std::collections::BTreeMap::new();
    for event in json_lines(&shown.stdout) {
        streams.entry(event["stream"].as_u64().unwrap_or(0)).or_default().push(event);
    }
    Ok(streams.into_values().collect())
}

/// The functions that a trace has recorded.
fn recorded(streams: &[Vec<Value>]) -> BTreeSet<String> {
    let events = streams.iter().flatten();
    events
        .filter(|event| ["entered", "call"].contains(&event["kind"].as_str().unwrap_or("")))
        .map(name)
        .collect()
}

/// The events that a stream of a whole trace would have if only these functions were recorded.
fn only(events: &[Value], recorded: &BTreeSet<String>) -> Events {
    let mut tokens = Vec::new();
    let mut stack: Vec<Active> = Vec::new();
    for event in events {
        let kind = event["kind"].as_str().unwrap_or_default();
        let caller_is = stack.last().is_some_and(|active| active.is_recorded);
        match kind {
            "entered" | "call" => {
                let function = name(event);
                let is_recorded = recorded.contains(&function);
                match (kind, caller_is, is_recorded) {
                    ("call", true, true) => tokens.push(token(event, kind)),
                    ("call", true, false) => tokens.push(token(event, "open-call")),
                    (_, _, true) => tokens.push(token(event, "entered")),
                    _ => {}
                }
                let comes_back =
                    (kind == "call" && caller_is && !is_recorded).then(|| token(event, "open-return"));
                stack.push(Active { function, is_recorded, comes_back });
            }
            "return" | "open-return" => {
                let Some(left) = stack.pop() else { return (tokens, false) };
                if left.is_recorded {
                    tokens.push(("return".to_owned(), left.function, 0));
                }
                tokens.extend(left.comes_back);
            }
            "open-call" => {
                let comes_back = caller_is.then(|| token(event, "open-return"));
                tokens.extend(caller_is.then(|| token(event, kind)));
                stack.push(Active { function: String::new(), is_recorded: false, comes_back });
            }
            "closed-call" | "returns-twice" | "block" => {
                tokens.extend(caller_is.then(|| token(event, kind)));
            }
            "end" => return (tokens, true),
            _ => return (tokens, false),
        }
    }
    (tokens, false)
}

/// Runs a program again with functions that are chosen at random, several times. `start`: its command, to which the
/// variables for the trace `chosen` are added; `whole`: the trace of all its functions. Returns the number of events
/// that were compared.
///
/// # Errors
/// Says what differs.
pub fn compare(
    program: &Path,
    (whole, chosen): (&Path, &Path),
    start: impl Fn() -> Command,
    seed: u64,
) -> Result<u64, String> {
    const ROUNDS: usize = 3;
    let all = streams(program, whole)?;
    let functions = recorded(&all);
    let is_plain = |name: &&String| name.chars().all(|c| c.is_ascii_alphanumeric() || "_:~".contains(c));
    let names: Vec<&String> = functions.iter().filter(is_plain).collect();
    let mut random = StdRng::seed_from_u64(seed);
    let mut compared = 0;
    for _ in 0..ROUNDS {
        let share = [0.1, 0.3, 0.5, 0.8][random.random_range(0..4)];
        let (taken, left): (Vec<&String>, Vec<&String>) =
            names.iter().partition(|_| random.random::<f64>() < share);
        let (variable, list) = match random.random() {
            true => ("PCCE_TRACE_ONLY", taken),
            false => ("PCCE_TRACE_SKIP", left),
        };
        if list.is_empty() {
            continue;
        }
        let value = list.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(",");
        let _ = std::fs::remove_file(chosen);
        run(start().env("PCCE_TRACE", chosen).env(variable, &value));
        let wrong = |what: String| format!("{variable}={value}: {what}");
        let mut check = command(artifact("pcce"), &["trace", "check"]);
        let checked = run(check.arg(program).arg(chosen));
        if !checked.stdout.contains(", 0 chunks do not match") {
            return Err(wrong(checked.describe()));
        }
        let found = streams(program, chosen).map_err(wrong)?;
        // Some functions cannot be left out.
        let mut wanted = recorded(&found);
        match variable {
            "PCCE_TRACE_ONLY" => wanted.extend(list.into_iter().cloned()),
            _ => wanted.extend(functions.iter().filter(|name| !list.contains(name)).cloned()),
        }
        let expected: Vec<Events> = all.iter().map(|events| only(events, &wanted)).collect();
        // A thread of which nothing is recorded has no stream, so streams can be told only where all are known.
        let expected: Vec<Events> =
            expected.into_iter().filter(|(tokens, whole)| !tokens.is_empty() || !whole).collect();
        if expected.len() != found.len() {
            if expected.iter().all(|(_, whole)| *whole) {
                return Err(wrong(format!("{} streams, and not {}", found.len(), expected.len())));
            }
            continue;
        }
        for ((expected, is_whole), found) in expected.iter().zip(&found) {
            let kind = |event: &Value| event["kind"].as_str().unwrap_or_default().to_owned();
            let mut found: Vec<Token> =
                found.iter().filter(|e| e["kind"] != "end").map(|e| token(e, &kind(e))).collect();
            if !is_whole {
                found.truncate(expected.len());
            }
            if *expected != found {
                let same = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
                let near =
                    |tokens: &[Token]| format!("{:?}", tokens.iter().skip(same).take(3).collect::<Vec<_>>());
                let what = format!("event {same}: {}, and not {}", near(&found), near(expected));
                return Err(wrong(what));
            }
            compared += expected.len() as u64;
        }
    }
    Ok(compared)
}
