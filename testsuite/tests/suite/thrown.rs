//! Where exceptions were thrown: `pcce_thrown_token`, in programs that are linked with `--pcce-thrown`.

use pcce_testsuite::{artifact, command, llvm, repository, run, run_with_input, work_folder};

/// The contexts that the handlers show, as far as they are calls of the program.
const EXPECTED: &str = "nothing
thrown main;parse(int);deep(int);deep(int);deep(int)
library main;by_library()
again main;again(int);deep(int)
again main;again(int);deep(int);deep(int)
nothing
moved main::$_0::operator()() const
uncaught main;parse(int);deep(int)
";

#[test]
fn handlers_know_where_their_exception_was_thrown() {
    let folder = work_folder("thrown");
    let source = repository().join("testsuite/languages/thrown.cpp").display().to_string();
    for (number, flags) in [
        &["--pcce-mode=link", "-O2"][..],
        &["--pcce-mode=lto", "-O0"],
        &["--pcce-mode=module", "-O2", "-fomit-frame-pointer"],
        &["--pcce-mode=module", "-O0", "--pcce-verify"],
        &["-O2", "--pcce-heap", "-fuse-ld=lld"],
    ]
    .into_iter()
    .enumerate()
    {
        let program = folder.join(number.to_string());
        let mut build =
            command(artifact("pcce-clang++"), &["-g", "-pthread", "--pcce-thrown", &source, "-o"]);
        run(build.arg(&program).args(flags)).expect_success();
        let printed = run(command(&program, &[])
            .env("PCCE_HEAP_PROFILE", "/dev/null")
            .env("PCCE_VERIFY_REPORT", "/dev/null"));
        assert_eq!(printed.status, 3, "{flags:?}: {}", printed.describe());
        let mut filter = command(artifact("pcce"), &["filter", "--format", "folded"]);
        let text = run_with_input(filter.arg(&program), &printed.stdout).expect_success().stdout;
        let own = |line: &str| {
            let (what, calls) = line.split_once(' ').expect("a word, and a context or none");
            let calls = calls.split(';').filter(|call| !call.starts_with('<') && !call.contains("std::"));
            format!("{what} {}", calls.collect::<Vec<_>>().join(";")).trim_end().to_owned() + "\n"
        };
        let shown: String = text.lines().map(own).collect();
        assert_eq!(shown, EXPECTED, "{flags:?}\n{text}");
        let by = |what: &str| text.matches(&format!("<{what}")).count();
        let moved = by("std::rethrow_exception(");
        assert_eq!(
            (by("_Unwind_RaiseException,"), by("__cxa_throw,"), moved),
            (6, 4, 1),
            "{flags:?}\n{text}"
        );
    }
    // Nobody else has its own functions in the place of the unwinder's, whatever is linked and by whom.
    let other = repository().join("testsuite/profiles/heap.cpp").display().to_string();
    let program = folder.join("other").display().to_string();
    for linker in ["bfd", "lld", "mold"] {
        for kind in ["-static", "-static-libgcc", "-static-libstdc++", "-rdynamic"] {
            let linker = format!("-fuse-ld={linker}");
            let words = ["-O2", "-pthread", &linker, kind, &other, "-o", &program];
            run(&mut command(artifact("pcce-clang++"), &words)).expect_success();
            let symbols =
                run(&mut command(llvm("llvm-nm"), &["--defined-only", &program])).expect_success().stdout;
            assert!(
                symbols.contains("pcce_token_at") && !symbols.contains("pcce_thrown_token"),
                "{linker} {kind}"
            );
        }
    }
}
