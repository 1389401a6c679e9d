//! Contexts at any instruction of programs whose calls in tail position are jumps, and in silent functions.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::chain::{Frame, decode, decoded, is_push_thunk, show, symbolise};
use pcce_testsuite::{artifact, command, include, run, work_folder};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("stepping")
}

/// The output of a program that steps through itself.
struct Stepped {
    /// The lines of the points (`stepping/step.h`), in words.
    lines: Vec<Vec<String>>,
    /// The addresses of each point in the code, innermost first.
    addresses: Vec<Vec<u64>>,
    /// The symboliser's answers for them.
    names: HashMap<u64, Vec<Frame>>,
    found: Vec<Vec<Frame>>,
}

/// Builds a program, and steps through it. `bias` is the difference between its addresses in memory and in the file.
fn step(name: &str, flags: &[&str], bias: &str, sources: &[&str]) -> Stepped {
    let program = work_folder(&format!("anywhere/{name}")).join("program");
    let include = include("runtime-lib/include");
    let (bias, to) = (format!("-DSTEP_BIAS={bias}"), program.display().to_string());
    let sources: Vec<String> = sources.iter().map(|s| folder().join(s).display().to_string()).collect();
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let own = ["-g", "-Wall", "-w", &include, &bias, "-o", &to];
    run(&mut command(artifact("pcce-clang"), &[flags, &own, &sources].concat())).expect_success();
    let output = run(&mut command(&program, &[])).expect_success();
    let lines: Vec<Vec<String>> =
        output.stdout.lines().map(|l| l.split(' ').map(str::to_owned).collect()).collect();
    let parse = |a: &String| u64::from_str_radix(a, 16).expect("hexadecimal digits");
    let code = |(i, a): (usize, &String)| parse(a).wrapping_sub(u64::from(i > 0));
    let addresses: Vec<Vec<u64>> =
        lines.iter().map(|line| line[2..].iter().enumerate().map(code).collect()).collect();
    let names = symbolise(&program, &addresses.iter().flatten().copied().collect());
    let tokens: String = lines.iter().map(|l| format!("{}\n", l[0])).collect();
    let found: Vec<Vec<Frame>> = decode(&program, &tokens).lines().map(decoded).collect();
    assert_eq!(found.len(), lines.len());
    Stepped { lines, addresses, names, found }
}

/// The calls that the unwinder sees at a point, up to `main`.
fn seen(names: &HashMap<u64, Vec<Frame>>, addresses: &[u64]) -> Vec<String> {
    let mut seen = Vec::new();
    for frame in addresses.iter().filter_map(|address| names.get(address)).flatten() {
        seen.extend(call(frame));
        if seen.last().is_some_and(|name| name == "main") {
            break;
        }
    }
    seen
}

fn call(frame: &Frame) -> Option<String> {
    match frame {
        Frame::Call(name, ..) => Some(name.clone()),
        _ => None,
    }
}

/// The possible calls in `stepping/jumped.c` and `stepping/jumped_other.c`.
fn calls(caller: &str, callee: &str) -> bool {
    let level = |name: &str| name.strip_prefix('f').and_then(|level| level.parse::<u32>().ok());
    if let Some(at) = level(caller) {
        return level(callee) == Some(at + 1) || (at, callee) == (35, "bottom");
    }
    let callees: &[&str] = match caller {
        "main" => &["work", "f0"],
        "bottom" => &["work"],
        "work" => &["own", "both", "first", "second", "through", "far", "around"],
        "own" | "through" if callee == "both" => return true,
        "through" => &["noted", "other_noted", "first", "silent"],
        "far" => &["second"],
        "other_noted" => &["noted"],
        "quiet" => &["silent"],
        "both" => &["noted", "quiet"],
        "first" => &["noted", "both"],
        "second" => &["other_noted", "first"],
        "around" => &["through", "noted"],
        _ => &[],
    };
    callees.contains(&callee)
}

/// Link mode: calls in tail position, whose caller may have left. The unwinder does not see functions that have left.
/// The frames that it sees must be shown, and further ones must be calls of the program.
#[test]
fn every_point_of_calls_that_are_jumps() {
    for (name, flags, bias) in [
        ("O2", &["-O2", "-pie"][..], "(unsigned long)&__executable_start"),
        ("O1", &["-O1", "-fno-pie", "-no-pie", "-fuse-ld=bfd"], "0UL"),
        ("Os", &["-Os", "-pie", "-fuse-ld=bfd"], "(unsigned long)&__executable_start"),
        // Addition values of more than 31 bits.
        ("wide", &["-O2", "-DLEVELS", "-fno-pie", "-no-pie"], "0UL"),
        ("thin", &["-O2", "-flto=thin"], "(unsigned long)&__executable_start"),
    ] {
        let flags = [flags, &["--pcce-mode=link"]].concat();
        let sources = ["jumped.c", "jumped_other.c"];
        let Stepped { lines, addresses, names, found } =
            step(&format!("jumped-{name}"), &flags, bias, &sources);
        let (mut unknown, mut jumped) = (0, 0);
        for ((line, addresses), found) in lines.iter().zip(&addresses).zip(&found) {
            let seen = seen(&names, addresses);
            let case = || format!("{name}, at {} ({}): {}\n  seen {seen:?}", line[2], line[0], show(found));
            if found.iter().any(|frame| matches!(frame, Frame::Boundary(_))) {
                unknown += 1;
                if std::env::var_os("STEP_SHOW").is_some() {
                    eprintln!("{}", case());
                }
                continue;
            }
            let shown: Vec<String> = found.iter().filter_map(call).collect();
            let mut rest = shown.iter();
            assert!(seen.iter().all(|seen| rest.any(|shown| shown == seen)), "{}", case());
            jumped += usize::from(shown.len() > seen.len());
            assert_eq!(shown.last().map(String::as_str), Some("main"), "{}", case());
            for pair in found.windows(2) {
                let [Frame::Call(callee, ..), Frame::Call(caller, ..)] = pair else { continue };
                assert!(calls(caller, callee), "{}", case());
            }
        }
        println!("jumped-{name}: {} points, {unknown} unknown, {jumped} with jumps", lines.len());
        assert!(lines.len() > 1000 && jumped > 100, "{name}: {} {jumped}", lines.len());
        assert_eq!(unknown, 0, "{name}: of {}", lines.len());
    }
}

/// Silent functions on a cycle of tail calls: any number of them may have left before the one that was reached. The
/// context says so there, and nowhere else.
#[test]
fn every_point_of_silent_cycles_of_tail_calls() {
    for mode in ["lto", "module", "link"] {
        let flags = ["-O2", "-fno-pie", "-no-pie", &format!("--pcce-mode={mode}")];
        let Stepped { lines, addresses, names, found } =
            step(&format!("tails-{mode}"), &flags, "0UL", &["tails.c"]);
        let (mut said, mut not_said) = (0, 0);
        for ((line, addresses), found) in lines.iter().zip(&addresses).zip(&found) {
            let seen = seen(&names, addresses);
            // Push thunks are not shown, and push themselves. The unwinder fails in stubs.
            if seen.last().is_none_or(|name| name != "main") || found.first() == Some(&Frame::Plain) {
                continue;
            }
            let seen: Vec<&String> = seen.iter().filter(|name| !is_push_thunk(name)).collect();
            let mut expected = Vec::new();
            for name in &seen {
                let in_cycle = ["match", "repeat"].contains(&name.as_str());
                expected.push(name.as_str());
                expected.extend(in_cycle.then_some("<tail>"));
                said += usize::from(in_cycle);
                not_said += usize::from(!in_cycle);
            }
            let mut shown: Vec<&str> = found
                .iter()
                .map(|frame| match frame {
                    Frame::Call(name, ..) => name,
                    Frame::Tail(_) => "<tail>",
                    Frame::Plain => "<plain>",
                    Frame::Boundary(kind) => kind,
                })
                .collect();
            // A marked tail call is assumed to lead to `aside` through a pointer.
            if let Some(at) = shown.windows(2).position(|pair| pair == ["aside", "<tail>"]) {
                shown.remove(at + 1);
            }
            assert_eq!(shown, expected, "{mode}, at {} ({})", line[2], line[0]);
        }
        println!("tails-{mode}: {} points, {said} boundaries", lines.len());
        assert!(said > 500 && not_said > 500, "{mode}: {said} {not_said}");
    }
}

/// LLVM marks calls as tail calls anywhere in a function. Only a call with nothing behind it can become a jump, and
/// only for such a jump may the context of an interrupted callee lack a call.
#[test]
fn calls_with_something_behind_them_are_no_jumps() {
    let folder = work_folder("anywhere_jumps/behind");
    let source = |behind: &str| {
        format!(
            "static int (*volatile called)(int);
            static volatile int counter;
            __attribute__((noinline)) static int one(int n) {{ return n + counter; }}
            __attribute__((noinline)) static int two(int n) {{ return n - counter; }}
            __attribute__((noinline)) static int calls(int n) {{ return called(n) + counter; }}
            int main(int n, char **words) {{ called = n > 1 ? one : two; return calls(n){behind}; }}"
        )
    };
    for mode in ["lto", "module"] {
        for (behind, expected) in [("", true), (" + counter", false)] {
            fs::write(folder.join("jumps.c"), source(behind)).unwrap();
            let mode = format!("--pcce-mode={mode}");
            let words = ["-O2", &mode, "jumps.c", "-o", "jumps"];
            run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
            let dictionary = run(command(artifact("pcce"), &["dict", "jumps"]).current_dir(&folder));
            let dictionary: serde_json::Value =
                serde_json::from_str(&dictionary.expect_success().stdout).expect("JSON");
            let module = &dictionary["modules"][0];
            let name = |function: &serde_json::Value| {
                module["names"][function["name"].as_u64().expect("an index") as usize].clone()
            };
            let functions = module["functions"].as_array().expect("functions");
            let calls = functions.iter().find(|function| name(function) == "calls").expect("it is there");
            assert_eq!(calls["jumped_to"], expected, "{mode}{behind}: {functions:#?}");
        }
    }
}
