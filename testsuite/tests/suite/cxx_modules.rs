//! A named module of C++20 and its importer: contexts through functions, templates and virtual calls of the module, and
//! through its initializer.

use std::fs;

use pcce_testsuite::chain::decode;
use pcce_testsuite::directives::matches;
use pcce_testsuite::{artifact, command, include, run, source, work_folder};

const PROGRAM: &str = source!("cxx_modules/main.cpp");
/// The names and contexts of the output, in order. Names that belong to the module are as `c++filt` writes them.
const CHAINS: [(&str, &str); 4] = [
    (
        "plain",
        "leaf < plain < Global@shapes::Global < __cxx_global_var_init < initializer for module shapes < ...",
    ),
    ("virtual", "leaf < Shape::draw < Square::draw < main"),
    ("plain", "leaf < plain < draw@shapes < by_pointer < main"),
    (
        "virtual",
        "leaf < Shape::draw < Square::draw < main::$_0::operator() < void each@shapes<main::$_0> < main",
    ),
];

#[test]
fn contexts_through_a_module() {
    let folder = work_folder("cxx_modules");
    fs::write(folder.join("shapes.cppm"), source!("cxx_modules/shapes.cppm")).expect("can be written");
    fs::write(folder.join("main.cpp"), PROGRAM).expect("can be written");
    for mode in ["lto", "module"] {
        for level in ["-O0", "-O2"] {
            let mode_flag = format!("--pcce-mode={mode}");
            let include = include("testsuite/programs");
            let compile = |arguments: &[&str]| {
                let mut compiler =
                    command(artifact("pcce-clang++"), &["-std=c++20", "-g", level, &mode_flag]);
                compiler.current_dir(&folder).args(["--pcce-verify", "-fprebuilt-module-path=."]);
                run(compiler.arg(&include).args(arguments)).expect_success();
            };
            compile(&["-c", "shapes.cppm", "-fmodule-output=shapes.pcm", "-o", "shapes.o"]);
            compile(&["-c", "main.cpp", "-o", "main.o"]);
            compile(&["main.o", "shapes.o", "-o", "program"]);
            let (program, report) = (folder.join("program"), folder.join("report"));
            let _ = fs::remove_file(&report);
            let output = run(command(&program, &[]).env("PCCE_VERIFY_REPORT", &report)).expect_success();
            let report = fs::read_to_string(report).expect("verify mode reports");
            assert!(report.ends_with(" 0 mismatches\n"), "{mode} {level}: {report}");
            let shown: Vec<Vec<&str>> = output.stdout.lines().map(|l| l.split(' ').collect()).collect();
            let names: Vec<&str> = shown.iter().map(|words| &words[0][1..]).collect();
            assert_eq!(names, CHAINS.map(|(name, _)| name), "{mode} {level}");
            let tokens: String = shown.iter().map(|words| format!("{}\n", words[1])).collect();
            let decoded = decode(&program, &tokens);
            for ((name, chain), line) in CHAINS.iter().zip(decoded.lines()) {
                let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
                let frames = value["frames"].as_array().expect("frames");
                let short = |name: &str| name.split('(').next().unwrap_or(name).to_owned();
                let function = |frame: &serde_json::Value| match frame["function"].as_str() {
                    Some(name) if name.contains("operator()") => "main::$_0::operator()".to_owned(),
                    Some(name) => short(name),
                    None => frame["kind"].to_string(),
                };
                let found: Vec<String> = frames.iter().map(function).collect();
                assert!(matches(chain, &found), "{mode} {level}, {name}: expected {chain}, found {found:#?}");
            }
        }
    }
}
