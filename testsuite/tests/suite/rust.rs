//! A Rust program, `programs/contexts.rs`, with `pcce-clang` as the linker: its modules encoded each by itself, and as
//! a whole together with the standard library; at each level of optimisation, with both strategies for panics, names in
//! both manglings.

use std::fs;
use std::path::Path;

use pcce_testsuite::chain::decode;
use pcce_testsuite::directives::matches;
use pcce_testsuite::{artifact, command, llvm_of_rustc, llvm_version, repository, run, work_folder};

/// The names in the order of the output, each with the crate's functions in its context.
const CHAINS: [(&str, &str); 13] = [
    ("recursion", "show < recursion*3 < main"),
    ("square", "show < <Square as Shape>::area < measure < main"),
    ("rectangle", "show < <Rectangle as Shape>::area < measure < main"),
    ("closure", "show < main::{closure} < apply < main"),
    ("boxed", "show < main::{closure} < boxed < main"),
    ("sort", "show < main::{closure} < main"),
    (
        "drop",
        "show < <Guard as core::ops::drop::Drop>::drop < panics*2 < catches::{closure} < catches < main",
    ),
    ("drop", "show < <Guard as core::ops::drop::Drop>::drop < panics < catches::{closure} < catches < main"),
    ("caught", "show < catches < main"),
    ("thread", "show < main::{closure}"),
    ("drop", "show < <Guard as core::ops::drop::Drop>::drop < panics < main::{closure}"),
    ("main", "show < main"),
    ("hook", "show < main::{closure} < panics*2 < main"),
];

/// Names that are shown only if panics unwind.
const UNWINDING: [&str; 3] = ["drop", "caught", "thread"];

/// Returns whether the frame is of the crate, not of a library below or above it.
fn of_the_crate(frame: &&str) -> bool {
    frame.trim_start_matches('<').starts_with("contexts::")
}

/// One mangling numbers closures and names generic arguments. The name of the crate does not matter here.
fn short(frame: &str) -> String {
    let generic = frame.split_once("::<").map_or(frame, |(name, _)| name);
    let mut name = generic.replace("contexts::", "").replace("{{closure}}", "{closure}");
    while let Some(at) = name.find("{closure#") {
        let end = at + name[at..].find('}').expect("the brace is closed");
        name.replace_range(at..=end, "{closure}");
    }
    name
}

/// Compiles and runs the program. Returns its ordinary lines, and the tokens by name.
fn build_and_run(folder: &Path, name: &str, flags: &[&str]) -> (Vec<String>, Vec<(String, String)>) {
    let program = folder.join(name);
    let mut rustc = command("rustc", &["--edition=2024", "-g", "--crate-name=contexts"]);
    rustc.args(flags).arg("-o").arg(&program).arg(repository().join("testsuite/programs/contexts.rs"));
    run(&mut rustc).expect_success();
    let report = program.with_extension("report");
    let output = run(command(&program, &[]).env("PCCE_VERIFY_REPORT", &report)).expect_success();
    if flags.contains(&"link-arg=--pcce-verify") {
        let report = fs::read_to_string(report).expect("verify mode reports");
        let compared =
            report.strip_prefix("pcce verify: ").and_then(|l| l.split(' ').next()?.parse::<u64>().ok());
        // Most of the entries are in the unwinding of panics.
        let least = if flags.contains(&"panic=abort") { 10 } else { 1000 };
        assert!(compared > Some(least) && report.ends_with(" 0 mismatches\n"), "{name}: {report}");
    }
    let (shown, lines): (Vec<&str>, Vec<&str>) =
        output.stdout.lines().partition(|line| line.starts_with('@'));
    let shown = shown.iter().map(|line| line[1..].split_once(' ').expect("a name and a token"));
    (lines.into_iter().map(str::to_owned).collect(), shown.map(|(n, t)| (n.into(), t.into())).collect())
}

#[test]
fn contexts_of_a_rust_program() {
    let rustc = llvm_of_rustc();
    if llvm_version().parse::<u32>().is_ok_and(|lld| lld < rustc) {
        eprintln!(
            "not tested: rustc writes bitcode of LLVM {rustc}, which lld {} cannot read",
            llvm_version()
        );
        return;
    }
    let folder = work_folder("rust");
    let archive = format!("link-arg={}", artifact("libpcce_rt.a").display());
    let linker = format!("linker={}", artifact("pcce-clang").display());
    let own = ["-C", "linker-plugin-lto", "-C", &linker];
    let verify = ["-C", "link-arg=--pcce-verify"];
    let v0 = ["-C", "symbol-mangling-version=v0"];
    for panic in ["unwind", "abort"] {
        let panic_flag = format!("panic={panic}");
        let strategy = ["-C", &panic_flag];
        let chains: Vec<_> =
            CHAINS.iter().filter(|(name, _)| panic == "unwind" || !UNWINDING.contains(name)).collect();
        let plain = [&["-O", "-C", &archive][..], &strategy].concat();
        let (expected, tokens) = build_and_run(&folder, &format!("plain-{panic}"), &plain);
        assert!(
            tokens.len() == chains.len() && tokens.iter().all(|(_, token)| token.is_empty()),
            "{tokens:?}"
        );
        // Name, whether the standard library is compiled with the program, and flags.
        let mut variants = vec![("modules".to_owned(), false, [&own[..], &strategy, &["-O"], &v0].concat())];
        let levels = ["0", "1", "2", "3", "s", "z"].map(|level| (level, format!("opt-level={level}")));
        for (i, (level, flag)) in levels.iter().enumerate() {
            let flags = [&own[..], &strategy, &verify, &["-C", flag]].concat();
            // A whole program takes long, so each level is built once.
            if (i % 2 == 0) == (panic == "abort") {
                let mangling = if i % 3 == 0 { &v0[..] } else { &[] };
                let flags = [&flags[..], &["-C", "lto=fat"], mangling].concat();
                variants.push((format!("whole-{level}"), true, flags));
            }
            variants.push((format!("modules-{level}"), false, flags));
        }
        for (name, with_std, flags) in variants {
            let name = format!("{name}-{panic}");
            let (lines, tokens) = build_and_run(&folder, &name, &flags);
            assert_eq!(lines, expected, "{name}");
            check(&folder.join(&name), with_std, &chains, &tokens);
        }
    }
}

/// Decodes the program's tokens, and compares them.
fn check(program: &Path, with_std: bool, chains: &[&(&str, &str)], tokens: &[(String, String)]) {
    let at = program.display();
    let names: Vec<&str> = tokens.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, chains.iter().map(|(name, _)| *name).collect::<Vec<_>>(), "{at}");
    let lines: String = tokens.iter().map(|(_, token)| format!("{token}\n")).collect();
    let decoded = decode(program, &lines);
    for ((shown, chain), line) in chains.iter().zip(decoded.lines()) {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let frames = value["frames"].as_array().expect("frames");
        let functions: Vec<&str> = frames.iter().filter_map(|f| f["function"].as_str()).collect();
        let found: Vec<String> = functions.iter().copied().filter(of_the_crate).map(short).collect();
        assert!(matches(chain, &found), "{at}, {shown}: expected {chain}, found {functions:#?}");
        // Functions of the standard library stand between `main` and the start of the program.
        let boundary = frames.iter().any(|f| f["kind"] != "call");
        assert_eq!(boundary, !with_std && chain.ends_with(" main"), "{at}, {shown}: {functions:#?}");
    }
}
