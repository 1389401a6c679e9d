//! The adapters of loggers, with Debian's packages: `pcce/spdlog.h`, with it `pcce/fmt.h`, and `pcce/glog.h`.

use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::{artifact, command, folded, repository, run, work_folder};

/// Builds a program of `testsuite/loggers`, in verify mode, and returns its folder.
fn build(name: &str, folder: &str, flags: &[&str]) -> PathBuf {
    let folder = work_folder(&format!("loggers/{folder}"));
    let source = repository().join("testsuite/loggers").join(format!("{name}.cpp"));
    let words = ["-g", "-O1", "-pthread", "--pcce-verify", "-o", "program"];
    let mut build = command(artifact("pcce-clang++"), &words);
    run(build.arg(source).args(flags).current_dir(&folder)).expect_success();
    folder
}

/// Runs the program. Returns what it has written to standard output and error, with folded contexts.
fn lines(folder: &Path) -> Vec<String> {
    let mut program = command(folder.join("program"), &[]);
    let ran = run(program.env("PCCE_VERIFY_REPORT", folder.join("report"))).expect_success();
    let report = fs::read_to_string(folder.join("report")).expect("verify mode reports");
    assert!(report.ends_with(" 0 mismatches\n"), "{report}");
    folded(folder, &["program"], &(ran.stdout + &ran.stderr)).lines().map(str::to_owned).collect()
}

/// Lines with `name` have the context of the function of that name, and there are `count` of them.
fn check(lines: &[String], name: &str, count: usize) {
    let of_name: Vec<&String> = lines.iter().filter(|line| line.contains(&format!(" {name} "))).collect();
    assert_eq!(of_name.len(), count, "{name}: {:?}", lines.first());
    for line in of_name {
        let context = line.split_once(";").expect("a context").1;
        let is_of = |function: &str| context.split(';').any(|frame| frame.starts_with(function));
        assert!(is_of(&format!("{name}(int)")), "{line}");
        assert!(!is_of(if name == "west" { "east(int)" } else { "west(int)" }), "{line}");
    }
}

fn check_spdlog(folder: &str, flags: &[&str]) {
    let lines = lines(&build("spdlog", folder, flags));
    check(&lines, "west", 500);
    check(&lines, "east", 500);
    // spdlog's number of the thread is that of the thread that has logged.
    for line in lines.iter().filter(|line| !line.contains("Backtrace")) {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], words[1], "{line}");
    }
    let line = |what: &str| lines.iter().find(|line| line.contains(what)).expect("is logged").as_str();
    assert!(line(" kept").ends_with(" kept"), "{}", line(" kept"));
    assert!(line(" cloned").contains(" cloned main;"), "{}", line(" cloned"));
    let explicit = line(" explicit");
    assert!(explicit.contains(" main;by_hand() main;by_hand();"), "{explicit}");
}

#[test]
fn asynchronous_messages_of_spdlog_have_the_context_of_their_thread() {
    check_spdlog("spdlog", &["-lspdlog", "-lfmt"]);
    let flags =
        ["-DSPDLOG_SHARED_LIB", "-DSPDLOG_COMPILED_LIB", "-DSPDLOG_FMT_EXTERNAL", "-lspdlog", "-lfmt"];
    check_spdlog("spdlog-library", &[&["--pcce-mode=module"], &flags[..]].concat());
}

#[test]
fn messages_of_glog_have_contexts_and_its_prefix() {
    let folder = build("glog", "glog", &["-lglog"]);
    let lines = lines(&folder);
    check(&lines, "west", 100);
    check(&lines, "east", 100);
    assert!(lines.iter().any(|line| line == "bare"), "{:?}", lines.last());
    // Without the context, a prefix of glog's own has as many words, of the same lengths.
    let ours = lines.iter().find(|line| line.contains("west 0")).expect("is logged");
    let (prefix, _) = ours.split_once("] ").expect("a prefix");
    let shape: String = prefix.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    assert!(shape.starts_with("I99999999 99:99:99.999999 "), "{prefix}");
    assert!(shape.ends_with(" glog.cpp:9"), "{prefix}");
}

/// A program that has glog's header without prefixes is told what to do.
#[test]
fn the_order_of_headers_of_glog_is_explained() {
    let folder = work_folder("loggers/order");
    fs::write(folder.join("order.cpp"), "#include <glog/logging.h>\n#include <pcce/glog.h>\n")
        .expect("can be written");
    let said = run(command(artifact("pcce-clang++"), &["-c", "order.cpp"]).current_dir(&folder));
    assert!(said.status != 0 && said.stderr.contains("before <glog/logging.h>"), "{}", said.stderr);
}
