//! Contexts at any instruction of programs in link mode whose calls in tail position are jumps: through stubs that add.

use std::path::{Path, PathBuf};

use pcce_testsuite::chain::{Frame, decoded, show, symbolise};
use pcce_testsuite::{artifact, command, repository, run, run_with_input, work_folder};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("stepping")
}

/// Who calls whom in `stepping/jumped.c` and `stepping/jumped_other.c`.
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

/// Link mode: stubs that add for calls in tail position, where what called or jumped there may have left. The
/// unwinder does not see who has left; what it sees must be shown, and what is shown beside that must be calls of the
/// program.
#[test]
fn every_point_of_calls_that_are_jumps() {
    let include = format!("-I{}", repository().join("runtime-lib/include").display());
    let sources = ["jumped.c", "jumped_other.c"].map(|source| folder().join(source).display().to_string());
    for (name, flags, bias) in [
        ("O2", &["-O2", "-pie"][..], "(unsigned long)&__executable_start"),
        ("O1", &["-O1", "-fno-pie", "-no-pie", "-fuse-ld=bfd"], "0UL"),
        ("Os", &["-Os", "-pie", "-fuse-ld=bfd"], "(unsigned long)&__executable_start"),
        // Values of more than 31 bits, added by code that updates call.
        ("wide", &["-O2", "-DLEVELS", "-fno-pie", "-no-pie"], "0UL"),
        ("thin", &["-O2", "-flto=thin"], "(unsigned long)&__executable_start"),
    ] {
        let work = work_folder(&format!("anywhere/jumped-{name}"));
        let program = work.join("program");
        let (bias, to) = (format!("-DSTEP_BIAS={bias}"), program.display().to_string());
        let own =
            ["--pcce-mode=link", "-g", "-Wall", "-w", &include, &bias, &sources[0], &sources[1], "-o", &to];
        let _ = run(&mut command(artifact("pcce-clang"), &[flags, &own].concat())).expect_success();
        let output = run(&mut command(&program, &[])).expect_success();
        let lines: Vec<Vec<&str>> = output.stdout.lines().map(|l| l.split(' ').collect()).collect();
        let parse = |a: &&str| u64::from_str_radix(a, 16).expect("hexadecimal digits");
        let addresses: Vec<Vec<u64>> = lines
            .iter()
            .map(|l| {
                l[2..].iter().enumerate().map(|(i, a)| parse(a).wrapping_sub(u64::from(i > 0))).collect()
            })
            .collect();
        let names = symbolise(&program, &addresses.iter().flatten().copied().collect());
        let tokens: String = lines.iter().map(|l| format!("{}\n", l[0])).collect();
        let mut pcce = command(artifact("pcce"), &["decode", "--format", "json"]);
        let traces = run_with_input(pcce.arg(&program), &tokens).expect_success().stdout;
        let (mut unknown, mut jumped, mut stubs) = (0, 0, 0);
        for ((line, addresses), json) in lines.iter().zip(&addresses).zip(traces.lines()) {
            let found = decoded(json);
            let call = |frame: &Frame| match frame {
                Frame::Call(name, ..) => Some(name.clone()),
                _ => None,
            };
            let mut seen = Vec::new();
            for frame in addresses.iter().filter_map(|address| names.get(address)).flatten() {
                seen.extend(call(frame));
                stubs += usize::from(*frame == Frame::Plain && !seen.is_empty());
                if seen.last().is_some_and(|name| name == "main") {
                    break;
                }
            }
            let case = || format!("{name}, at {} ({}): {}\n  seen {seen:?}", line[2], line[0], show(&found));
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
        println!(
            "jumped-{name}: {} points, {unknown} unknown, {jumped} with jumps, {stubs} in stubs",
            lines.len()
        );
        assert!(lines.len() > 1000 && jumped > 100 && stubs > 50, "{name}: {} {jumped} {stubs}", lines.len());
        assert_eq!(unknown, 0, "{name}: of {}", lines.len());
    }
}
