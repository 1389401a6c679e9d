//! Compares decoded tokens with the addresses that libgcc's unwinder found.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::Counts;
use crate::chain::{Frame, add, decoded, is_push_thunk, show, symbol_names, symbolise};
use crate::machine::{Transfer, transfer};
use crate::{Output, artifact, command, llvm, run, run_with_input};

/// Compares the points in the output of a program. `lines`: whether its debug information has lines and inlined calls.
pub(super) fn compare_points(
    program: &Path,
    output: &Output,
    lines: bool,
    counts: &mut Counts,
) -> Result<(), String> {
    let shown: BTreeSet<&str> = output.stdout.lines().filter(|line| line.starts_with('%')).collect();
    let mut points = Vec::with_capacity(shown.len());
    let mut all = BTreeSet::new();
    for line in shown {
        let mut words = line.split(' ');
        let (name, token) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let numbers: Result<Vec<u64>, _> = words.map(|word| u64::from_str_radix(word, 16)).collect();
        let addresses = numbers.map_err(|e| format!("torn line `{line}`: {e}"))?;
        all.extend(addresses.iter().copied().filter(|&address| address != 0));
        points.push((name, token, addresses));
    }
    if points.is_empty() {
        return Err("no points to compare".into());
    }
    let tokens: String = points.iter().map(|(_, token, _)| format!("{token}\n")).collect();
    let mut pcce = command(artifact("pcce"), &["decode", "--format", "json"]);
    let output = run_with_input(pcce.arg(program), &tokens);
    if output.status != 0 {
        return Err(output.describe());
    }
    let traces: Vec<Vec<Frame>> = output.stdout.lines().map(decoded).collect();
    let frames = if lines {
        symbolise(program, &all)
    } else {
        let called = |frame: &Frame| matches!(frame, Frame::Call(..)).then(|| frame.clone());
        let of_traces = traces.iter().flatten().filter_map(called);
        let known: Vec<Frame> = of_traces.map(|frame| simplified(frame, false)).collect();
        let of_name = |name: String| {
            let frame = simplified(Frame::Call(name.clone(), 0, false), false);
            match () {
                () if is_push_thunk(&name) => Vec::new(),
                () if known.contains(&frame) => vec![frame],
                () => vec![Frame::Plain],
            }
        };
        symbol_names(program, &all).into_iter().map(|(address, name)| (address, of_name(name))).collect()
    };
    if traces.len() != points.len() {
        return Err(format!("{} tokens, {} traces", points.len(), traces.len()));
    }
    let mut jumping = None;
    let mut wrong = String::new();
    let mut wrongs = 0;
    for ((name, token, addresses), mut found) in points.iter().zip(traces) {
        let mut expected = Vec::new();
        for address in addresses {
            let plain = [Frame::Plain];
            let of_address = frames.get(address).map_or(&plain[..], Vec::as_slice);
            of_address.iter().for_each(|frame| add(&mut expected, simplified(frame.clone(), lines)));
        }
        if !lines {
            found.retain(|frame| !matches!(frame, Frame::Call(_, _, true)));
        }
        let mut found: Vec<Frame> = found.into_iter().map(|frame| simplified(frame, lines)).collect();
        trim(&mut expected);
        trim(&mut found);
        counts.points += 1;
        if found.iter().all(|f| matches!(f, Frame::Call(..) | Frame::Plain) || is_signal(f)) {
            counts.whole += 1;
        }
        if fits(&expected, &found, &BTreeSet::new())
            || fits(&expected, &found, jumping.get_or_insert_with(|| jumping_functions(program)))
        {
            continue;
        }
        // The unwinder fails in the linker's stubs, which have no tables, and where there are too many frames.
        if !expected.iter().any(ends_thread) {
            counts.lost += 1;
            continue;
        }
        wrongs += 1;
        if wrongs <= 3 {
            let (expected, found) = (show(&expected), show(&found));
            let _ = writeln!(wrong, "{name} {token}\n  expected {expected}\n  found    {found}");
        }
    }
    if wrongs == 0 { Ok(()) } else { Err(format!("{wrongs} of {} points:\n{wrong}", points.len())) }
}

/// A frame with the last part of the function's name. Demanglers write types in different ways.
fn simplified(frame: Frame, lines: bool) -> Frame {
    match frame {
        Frame::Call(name, line, inlined) => {
            Frame::Call(last_part(&name), if lines { line } else { 0 }, inlined)
        }
        other => other,
    }
}

/// The last part of a name, without parameters, arguments of templates, and return type.
fn last_part(name: &str) -> String {
    if name.contains(" thunk") {
        return "thunk".into();
    }
    let mut depth = 0;
    let mut part = String::new();
    for c in name.replace("->", "").chars() {
        match c {
            '(' | '<' | '{' | '[' => depth += 1,
            ')' | '>' | '}' | ']' => depth -= 1,
            _ if depth > 0 => {}
            ':' => part.clear(),
            _ => part.push(c),
        }
    }
    let part = part.strip_suffix(" const").unwrap_or(&part);
    let part = part.rsplit(' ').next().unwrap_or(part);
    // Linking renames local functions of equal names by numbers, and without debug information there is no other name.
    part.split('.').next().unwrap_or(part).to_owned()
}

/// Removes the callers of the outermost function, which are of no interest.
fn trim(frames: &mut Vec<Frame>) {
    while frames.last() == Some(&Frame::Plain) {
        frames.pop();
    }
}

fn is_signal(frame: &Frame) -> bool {
    matches!(frame, Frame::Boundary(kind) if kind == "signal")
}

/// The functions in which the programs' threads start, and those that run before and after `main`.
fn ends_thread(frame: &Frame) -> bool {
    let Frame::Call(name, ..) = frame else { return false };
    matches!(&**name, "main" | "thread" | "~Global" | "_M_run") || name.starts_with("_GLOBAL__sub_I")
}

/// Returns whether two frames are of one call. The line table may have no line for it, where code was moved.
fn is_same(expected: &Frame, found: &Frame) -> bool {
    match (expected, found) {
        (Frame::Call(e, 0, inlined), Frame::Call(f, _, found)) => e == f && inlined == found,
        _ => expected == found,
    }
}

/// The functions with a jump to another function: a tail call, perhaps.
fn jumping_functions(program: &Path) -> BTreeSet<String> {
    let mut objdump = command(llvm("llvm-objdump"), &["-d", "--no-show-raw-insn", "--demangle"]);
    let text = run(objdump.arg(program)).expect_success().stdout;
    let symbol = |line: &str| Some(line.split_once('<')?.1.rsplit_once('>')?.0.to_owned());
    let (mut found, mut function) = (BTreeSet::new(), String::new());
    for line in text.lines() {
        if line.ends_with(">:") {
            function = symbol(line).unwrap_or_default();
        } else if line.split('\t').any(|word| transfer(word) == Some(Transfer::Jump)) {
            let target = symbol(line);
            if target.is_none_or(|to| to.rsplit_once("+0x").map_or(&*to, |(to, _)| to) != function) {
                found.insert(last_part(&function));
            }
        }
    }
    found
}

/// Returns whether a decoded chain agrees with the expected one as far as it goes. The functions in `jumping` may have
/// left by a tail call, and then have no frame.
fn fits(expected: &[Frame], found: &[Frame], jumping: &BTreeSet<String>) -> bool {
    // The lengths of the beginnings of `expected` that fit the frames so far.
    let mut ends: BTreeSet<usize> = BTreeSet::from([0]);
    for (i, frame) in found.iter().enumerate() {
        let may_have_left = |of: &Frame| match of {
            Frame::Call(_, _, true) => None,
            Frame::Call(name, ..) => Some(jumping.contains(name)),
            _ => Some(false),
        };
        // Together with the calls that are inlined into it.
        let left = i > 0 && found[i..].iter().find_map(may_have_left) == Some(true);
        let mut next = BTreeSet::new();
        for &end in &ends {
            match frame {
                Frame::Call(..) => {
                    _ = expected.get(end).is_some_and(|e| is_same(e, frame)).then(|| next.insert(end + 1));
                    _ = left.then(|| next.insert(end));
                }
                // Code that is not instrumented may leave no frame (by a tail call), but hides no other.
                Frame::Plain => {
                    next.insert(end);
                    _ = (expected.get(end) == Some(&Frame::Plain)).then(|| next.insert(end + 1));
                }
                // A tail call leaves no frame.
                Frame::Tail(_) => _ = next.insert(end),
                // The frame that the kernel has made.
                boundary if is_signal(boundary) => {
                    next.insert(end);
                    _ = (expected.get(end) == Some(&Frame::Plain)).then(|| next.insert(end + 1));
                }
                Frame::Boundary(_) => next.extend(end..=expected.len()),
            }
        }
        ends = next;
    }
    ends.contains(&expected.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str) -> Frame {
        Frame::Call(name.to_owned(), 1, false)
    }

    #[test]
    fn names_have_last_parts() {
        for (name, part) in [
            ("f", "f"),
            ("f(int (*)(long))", "f"),
            ("void std::__invoke_impl<void, main::$_0>(std::__invoke_other, main::$_0&&)", "__invoke_impl"),
            ("main::$_0::operator()(int) const", "operator"),
            ("O1::~O1()::'lambda'(int)::operator()(int) const", "operator"),
            ("(anonymous namespace)::C<(int)1>::~C()", "~C"),
            ("spin.19", "spin"),
            ("non-virtual thunk to V0::walk(int, int)", "thunk"),
        ] {
            assert_eq!(last_part(name), part, "{name}");
        }
    }

    #[test]
    fn boundaries_hide_frames_and_nothing_else_does() {
        let boundary = || Frame::Boundary("unknown".into());
        let chain = [call("f"), call("g"), Frame::Plain, call("main")];
        let good: [&[Frame]; 5] = [
            &chain,
            &[call("f"), boundary(), call("main")],
            &[call("f"), boundary()],
            &[call("f"), call("g"), Frame::Plain, Frame::Tail(String::new()), call("main")],
            &[boundary(), call("g"), boundary()],
        ];
        for found in good {
            assert!(fits(&chain, found, &BTreeSet::new()), "{}", show(found));
        }
        let wrong: [&[Frame]; 7] = [
            &[call("f"), Frame::Plain, call("main")],
            &[call("f"), call("g"), call("main")],
            &[call("f"), call("g"), Frame::Plain],
            &[call("f"), call("h"), boundary()],
            &[call("f"), boundary(), call("f"), boundary()],
            &[call("f"), Frame::Tail(String::new()), Frame::Plain, call("main")],
            &[],
        ];
        for found in wrong {
            assert!(!fits(&chain, found, &BTreeSet::new()), "{}", show(found));
        }
        let jumping = BTreeSet::from(["h".to_owned()]);
        let left = [call("f"), call("h"), call("g"), Frame::Plain, call("main")];
        assert!(!fits(&chain, &left, &BTreeSet::new()) && fits(&chain, &left, &jumping));
        assert!(!fits(&chain, &[call("h"), call("f"), call("g"), Frame::Plain, call("main")], &jumping));
    }
}
