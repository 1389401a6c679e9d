//! Contexts while an exception is delivered: at each instruction of the unwinder, too.

use std::collections::HashMap;

use pcce_testsuite::{artifact, command, repository, run, run_with_input, work_folder};

/// The unwinder gives its own frames another frame's registers and return address, some instructions before it leaves
/// them. What is shown there is right, or says that calls are not known.
#[test]
fn no_frame_is_wrong_while_an_exception_is_delivered() {
    let work = work_folder("delivered");
    let source = repository().join("testsuite/stepping/delivered.cpp").display().to_string();
    let include = format!("-I{}", repository().join("runtime-lib/include").display());
    for flags in [
        "-O2 --pcce-mode=link",
        "-O0 --pcce-mode=link",
        "-O2 --pcce-mode=lto -static",
        "-O1 --pcce-mode=lto -fno-omit-frame-pointer",
        "-O0 --pcce-mode=module",
    ] {
        let program = work.join("program").display().to_string();
        let words = ["-g", &include, &source, "-o", &program];
        let mut build = command(artifact("pcce-clang++"), &words);
        let _ = run(build.args(flags.split(' '))).expect_success();
        let output = run(&mut command(&program, &[])).expect_success().stdout;
        let points: Vec<(usize, &str)> = output
            .lines()
            .map(|line| line.split_once(' ').expect("a number and a token"))
            .map(|(active, token)| (active.parse().expect("a number"), token))
            .collect();
        let mut tokens: Vec<&str> = points.iter().map(|(_, token)| *token).collect();
        tokens.sort_unstable();
        tokens.dedup();
        let words = ["decode", &program, "--format", "folded", "--short"];
        let decoded = run_with_input(&mut command(artifact("pcce"), &words), &tokens.join("\n"));
        let decoded = decoded.expect_success().stdout;
        let contexts: HashMap<&str, &str> = tokens.iter().copied().zip(decoded.lines()).collect();
        assert_eq!(contexts.len(), decoded.lines().count());
        let mut unknown = 0;
        for &(active, token) in &points {
            let context = contexts[token].rsplit_once(' ').expect("a context and its number").0;
            let frames: Vec<&str> = context.split(';').collect();
            let count = |name: &str| frames.iter().filter(|frame| **frame == name).count();
            let is_unknown =
                ["<unknown calls", "<the stack was damaged"].iter().any(|said| context.contains(said));
            unknown += usize::from(is_unknown);
            // The program counts a call some instructions behind its beginning, and up to some before its end.
            let most = count("climb") <= active + 1 && count("main") <= 1 && count("once") <= 1;
            let all = is_unknown || count("climb") >= active && frames[0] == "main";
            assert!(
                most && all && !context.contains("left by"),
                "{flags}: {active} of climb in {context}, {token}"
            );
        }
        assert!(points.len() > 50_000, "{flags}: {} points", points.len());
        assert!(unknown * 20 < points.len(), "{flags}: {unknown} of {} points are not known", points.len());
    }
}
