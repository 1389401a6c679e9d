//! Functions that the pass leaves as they are: counted by reason, in the dictionary and by `pcce info`.

use std::fs;

use pcce_testsuite::{artifact, command, run, source, work_folder};

#[test]
fn they_are_counted_by_reason() {
    let folder = work_folder("left_out");
    fs::write(folder.join("a.c"), source!("skipped/naked_and_resolver.c")).expect("the folder is ours");
    for mode in ["lto", "module"] {
        let mode = format!("--pcce-mode={mode}");
        let mut compiler = command(artifact("pcce-clang"), &[&mode, "-O2", "a.c", "-o", "program"]);
        run(compiler.current_dir(&folder)).expect_success();
        let program = folder.join("program");
        assert_eq!(run(&mut command(&program, &[])).expect_success().stdout, "5 1\n");
        let info = |flags: &[&str]| {
            run(command(artifact("pcce"), &["info"]).arg(&program).args(flags)).expect_success().stdout
        };
        let json: serde_json::Value = serde_json::from_str(&info(&["--format", "json"])).expect("JSON");
        let expected = serde_json::json!({"naked": 1, "ifunc_resolver": 1});
        assert_eq!(json["dictionary"]["skipped"], expected, "{mode}");
        let text = info(&[]);
        assert!(text.contains("\nskipped     1: naked: the body is assembly\n"), "{text}");
    }
}

/// The pass would give it a landing pad, which would end in it.
#[test]
fn programs_may_resume_unwinding_themselves() {
    let folder = work_folder("left_out_resumes");
    let source = pcce_testsuite::repository().join("testsuite/skipped/resumes.cpp");
    for mode in ["link", "lto", "module"] {
        for trace in [&[][..], &["--pcce-trace"]] {
            let program = folder.join(mode);
            let mut compiler = command(artifact("pcce-clang++"), &["-O1", "--pcce-verify"]);
            let compiler = compiler.arg(format!("--pcce-mode={mode}")).args(trace).arg(&source);
            run(compiler.arg("-o").arg(&program)).expect_success();
            assert_eq!(
                run(&mut command(&program, &[])).expect_success().stdout,
                "~D\ncaught\nresumed 1\n",
                "{mode}"
            );
        }
    }
}
