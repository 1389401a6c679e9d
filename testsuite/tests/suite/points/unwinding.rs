//! Contexts while an exception or a jump is delivered, also at each instruction of the unwinder.

use std::collections::HashMap;
use std::path::Path;

use pcce_testsuite::turns::in_turn;
use pcce_testsuite::{artifact, command, include, repository, run, run_with_input, work_folder};

/// The contexts of tokens or numbers.
fn contexts<'t>(program: &Path, numbers: &Path, tokens: &[&'t str]) -> HashMap<&'t str, String> {
    let mut tokens = tokens.to_vec();
    tokens.sort_unstable();
    tokens.dedup();
    let mut pcce = command(artifact("pcce"), &["decode", "--format", "folded", "--short", "--numbers"]);
    let decoded = run_with_input(pcce.arg(numbers).arg(program), &tokens.join("\n")).expect_success().stdout;
    assert_eq!(tokens.len(), decoded.lines().count());
    let contexts = decoded.lines().map(|line| line.rsplit_once(' ').expect("a context and its number").0);
    tokens.into_iter().zip(contexts.map(str::to_owned)).collect()
}

/// Some instructions before the unwinder leaves its own frames, it gives them another frame's registers and return
/// address. A jump arrives with the state of its start. The contexts there are right, or say that calls are not known,
/// and nothing is damaged. A handler's own token says the same as the one that it asks for.
#[test]
fn no_frame_is_wrong_while_an_exception_or_a_jump_is_delivered() {
    let work = work_folder("delivered");
    let source = repository().join("testsuite/stepping/delivered.cpp").display().to_string();
    let include = include("runtime-lib/include");
    for (flags, arguments) in in_turn(
        0,
        [
            ("-O2 --pcce-mode=link", &[][..]),
            ("-O0 --pcce-mode=link", &["thread"]),
            ("-O1 --pcce-mode=lto -fno-omit-frame-pointer", &["thread"]),
            ("-O2 --pcce-mode=lto -static", &[]),
            ("-O0 --pcce-mode=module", &[]),
            ("-O2 --pcce-mode=lto --pcce-hybrid", &[]),
        ],
    ) {
        let program = work.join("program");
        let words = ["-g", "-pthread", &include, &source, "-o", &program.display().to_string()];
        let mut build = command(artifact("pcce-clang++"), &words);
        run(build.args(flags.split(' '))).expect_success();
        let numbers = work.join("numbers");
        let _ = std::fs::remove_file(&numbers);
        let mut start = command(&program, arguments);
        let output = run(start.env("PCCE_NUMBERS", &numbers)).expect_success().stdout;
        let points: Vec<Vec<&str>> = output.lines().map(|line| line.split(' ').collect()).collect();
        let tokens: Vec<&str> = points.iter().flat_map(|words| &words[1..]).copied().collect();
        let contexts = contexts(&program, &numbers, &tokens);
        let outermost = if arguments.is_empty() { "main" } else { "steps" };
        let mut unknown = 0;
        for point in &points {
            let active: usize = point[0].parse().expect("a number");
            let [context, own, numbered] = [1, 2, 3].map(|i| contexts[point[i]].as_str());
            let frames: Vec<&str> = context.split(';').collect();
            let count = |name: &str| frames.iter().filter(|frame| **frame == name).count();
            let is_unknown = context.contains("<unknown calls");
            unknown += usize::from(is_unknown);
            // The program counts a call from some instructions behind its beginning to some before its end.
            let most = count("climb") <= active + 1 && count("main") <= 1 && count("once") <= 1;
            let all = is_unknown || count("climb") >= active && frames[0] == outermost;
            let is_healthy = !context.contains("damaged") && !context.contains("left by");
            assert!(most && all && is_healthy, "{flags}: {active} of climb in {context}, {}", point[1]);
            let expected = format!("{context};<signal handler called>;trap");
            assert_eq!((own, numbered), (&*expected, &*expected), "{flags}: {point:?}");
        }
        assert!(points.len() > 50_000, "{flags}: {} points", points.len());
        assert!(unknown * 20 < points.len(), "{flags}: {unknown} of {} points are not known", points.len());
    }
}
