//! Programs that the real libtool has built, which are not installed: a script stands in the place of each.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pcce_testsuite::{artifact, command, run, run_with_input, work_folder, write_files};

const LIBRARY: &str = "__attribute__((noinline)) int inner(const char *p) { return *p + 1; }\n\
    int outer(const char *p) { return inner(p) + 1; }\n";
const PROGRAM: &str = "int outer(const char *);\n\
    __attribute__((noinline)) static int work(const char *p) { return outer(p) + 1; }\n\
    int main(int count, char **words) { return work(count > 1 ? words[0] : 0) == 0; }\n";

#[test]
fn scripts_stand_for_their_programs() {
    let folder = work_folder("libtool");
    write_files(&folder, [("library.c", LIBRARY), ("program.c", PROGRAM)]);
    let compiler = artifact("pcce-clang").display().to_string();
    // As a configure script makes it.
    let script = fs::read_to_string("/usr/bin/libtool").expect("libtool is installed");
    let libtool = folder.join("libtool");
    let script = script.replacen("\nCC=\"gcc\"\n", &format!("\nCC=\"{compiler}\"\n"), 1);
    fs::write(&libtool, script.replacen("\nLTCC=\"gcc\"\n", &format!("\nLTCC=\"{compiler}\"\n"), 1)).unwrap();
    fs::set_permissions(&libtool, fs::Permissions::from_mode(0o755)).unwrap();
    let build = |mode: &str, words: &[&str]| {
        let own = ["--quiet", "--tag=CC", &format!("--mode={mode}"), &compiler, "-g", "-O1"];
        run(command(&libtool, &own).args(words).current_dir(&folder)).expect_success();
    };
    build("compile", &["-c", "library.c"]);
    build("compile", &["-c", "program.c"]);
    build("link", &["library.lo", "-o", "liblibrary.la", "-rpath", "/usr/local/lib"]);
    build("link", &["program.lo", "liblibrary.la", "-o", "program"]);
    let program = folder.join("program");
    assert!(fs::read(&program).unwrap().starts_with(b"#!"), "it is a script");
    let crashed = run(command(&program, &[]).env("PCCE_CRASH_REPORT", "stderr").current_dir(&folder));
    assert_ne!(crashed.status, 0);
    let report = folder.join("report");
    fs::write(&report, &crashed.stderr).unwrap();
    for words in [&["crash", "show"][..], &["filter"], &["decode"]] {
        let mut shown = command(artifact("pcce"), words);
        let shown = match words {
            ["decode"] => run_with_input(shown.arg(&program), &crashed.stderr),
            _ => run(shown.arg(&program).arg(&report)),
        };
        let shown = shown.expect_success().stdout;
        let frames = ["#0  inner at", "#1  outer at", "#2  work at", "#3  main at"];
        assert!(frames.iter().all(|frame| shown.contains(frame)), "{words:?}: {shown}");
    }
    // Behind `--` stand the words of another program.
    let link = run(command(artifact("pcce"), &["link", "--", "head", "-c", "2"]).arg(&program));
    assert_eq!(link.expect_success().stdout, "#!");
}

/// libtool drops flags that it does not know where it links a library.
#[test]
fn a_library_that_is_not_traced_is_named() {
    let folder = work_folder("libtool_untraced");
    write_files(&folder, [("library.c", LIBRARY), ("program.c", PROGRAM)]);
    let clang = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
    };
    let show = || {
        let trace = folder.join("trace");
        let _ = fs::remove_file(&trace);
        run(command(folder.join("program"), &["x"]).env("PCCE_TRACE", &trace).current_dir(&folder))
            .expect_success();
        let mut show = command(artifact("pcce"), &["trace", "show"]);
        run(show.arg(folder.join("program")).arg(&trace)).expect_success()
    };
    clang("-g -O1 --pcce-trace -fPIC -c library.c");
    clang("-g -shared library.o -o liblibrary.so");
    clang("-g -O1 --pcce-trace program.c -L. -llibrary -Wl,-rpath,. -o program");
    let shown = show();
    let expected =
        "liblibrary.so is instrumented, and was built without --pcce-trace: its calls are not in the trace";
    assert!(shown.stderr.contains(expected) && !shown.stdout.contains("inner at"), "{}", shown.describe());
    clang("-g --pcce-trace -shared library.o -o liblibrary.so");
    let shown = show();
    assert!(shown.stderr.is_empty() && shown.stdout.contains("inner at"), "{}", shown.describe());
    // Both name the flag that a program lacks.
    clang("-g program.c -L. -llibrary -Wl,-rpath,. -o program");
    for (words, flag) in [(&["trace", "show"][..], "--pcce-trace"), (&["heap", "report"], "--pcce-heap")] {
        let lacking =
            run(command(artifact("pcce"), words).arg(folder.join("program")).arg(folder.join("none")));
        let expected = format!("built without {flag}: both the compiler and the link need it");
        assert!(lacking.status == 2 && lacking.stderr.contains(&expected), "{}", lacking.describe());
    }
}

#[test]
fn a_program_that_was_given_as_a_report_is_refused() {
    let folder = work_folder("libtool_refused");
    write_files(&folder, [("program.c", "int main(void) { return 0; }\n")]);
    let program = folder.join("program");
    run(command(artifact("pcce-clang"), &[]).arg(folder.join("program.c")).arg("-o").arg(&program))
        .expect_success();
    let refused = run(command(artifact("pcce"), &["crash", "show"]).arg(&program));
    assert!(refused.status == 2 && refused.stdout.is_empty(), "{}", refused.stdout.len());
    assert!(
        refused.stderr.ends_with("program: this is a program, and no crash report was given\n"),
        "{}",
        refused.stderr
    );
}
