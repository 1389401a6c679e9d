//! Profiles of calls: counted exactly, added up, and used; and ids so narrow that calls must be cut.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use pcce_testsuite::{Output, artifact, command, repository, run, source, work_folder, write_files};

const MODES: [&str; 3] = ["lto", "module", "link"];

/// Compiles `profiles/calls.c`, or another source. Returns what the compiler prints.
fn compile(folder: &Path, mode: &str, flags: &[&str], program: &str) -> (PathBuf, Output) {
    let program = folder.join(program);
    let source = repository().join("testsuite/profiles/calls.c");
    let mode = format!("--pcce-mode={mode}");
    let mut compile = command(artifact("pcce-clang"), &["-O2", "-Wall", "-Wextra", "-Werror", &mode]);
    if !flags.iter().any(|flag| flag.ends_with(".c")) {
        compile.arg(source);
    }
    let output = run(compile.args(flags).arg("-o").arg(&program).current_dir(folder));
    (program, output)
}

fn build(folder: &Path, mode: &str, flags: &[&str], program: &str) -> PathBuf {
    let (program, output) = compile(folder, mode, flags, program);
    assert_eq!(output.expect_success().stderr, "");
    program
}

/// Runs a program that counts. Returns its profile.
fn counted(program: &Path, arguments: &[&str], profile: &str) -> PathBuf {
    let profile = program.with_file_name(profile);
    let _ = fs::remove_file(&profile);
    run(command(program, arguments).env("PCCE_CALLS_PROFILE", &profile)).expect_success();
    profile
}

fn merge(profiles: &[PathBuf], into: &Path) {
    run(command(artifact("pcce"), &["profile", "merge", "-o"]).arg(into).args(profiles)).expect_success();
}

/// The counts of a profile by function, and by ⟨caller, callee⟩. Calls through pointers have an empty callee.
fn counts(profile: &Path) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(profile).expect("a profile").lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let Some(function) = line["function"].as_str() else {
            assert_eq!(line["profile"], "calls");
            continue;
        };
        let mut add = |callee: &str, count: &serde_json::Value| {
            *counts.entry((function.to_owned(), callee.to_owned())).or_default() +=
                count.as_u64().expect("a number");
        };
        add("=", &line["count"]);
        for call in line["calls"].as_array().expect("calls") {
            add(call[0].as_str().unwrap_or(""), &call[1]);
        }
    }
    counts
}

/// How many contexts were compared in verify mode.
fn verified(program: &Path, arguments: &[&str]) -> u64 {
    let report = program.with_extension("report");
    let output = run(command(program, arguments)
        .env("PCCE_VERIFY_REPORT", &report)
        .env("PCCE_CALLS_PROFILE", program.with_extension("calls")));
    let text = fs::read_to_string(report).unwrap_or_default();
    assert_eq!(output.status, 0, "{}{text}", output.describe());
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(text.ends_with(" 0 mismatches\n"), "{text}");
    words[2].parse().expect("a number")
}

fn dictionary(program: &Path) -> serde_json::Value {
    let output = run(command(artifact("pcce"), &["dict"]).arg(program)).expect_success();
    serde_json::from_str(&output.stdout).expect("JSON")
}

/// The code of the edge between two functions.
fn code(program: &Path, caller: &str, callee: &str) -> serde_json::Value {
    let dictionary = dictionary(program);
    let (module, encoding) = (&dictionary["modules"][0], &dictionary["encodings"][0]);
    let name = |function: &serde_json::Value| {
        let function = &module["functions"][function.as_u64().expect("an index") as usize];
        module["names"][function["name"].as_u64().expect("an index") as usize]
            .as_str()
            .expect("a name")
            .to_owned()
    };
    let edges = encoding["edges"].as_array().expect("edges");
    let edge = edges.iter().find(|edge| {
        let site = &module["sites"][edge["site"].as_u64().expect("an index") as usize];
        let called = &site["kind"]["direct"];
        !called.is_null() && name(called) == callee && name(&site["function"]) == caller
    });
    edge.unwrap_or_else(|| panic!("no call of {callee} in {caller}"))["code"].clone()
}

fn expect(profile: &Path, expected: &[(&str, &str, u64)]) {
    let counts = counts(profile);
    for &(caller, callee, count) in expected {
        let found = counts.get(&(caller.into(), callee.into()));
        assert_eq!(found, Some(&count), "{caller} {callee} in {}: {counts:?}", profile.display());
    }
}

#[test]
fn counts_decide_which_call_is_free() {
    let free = serde_json::json!({"add": 0});
    for mode in MODES {
        let folder = work_folder(&format!("calls/use-{mode}"));
        let plain = build(&folder, mode, &[], "plain");
        assert_eq!(code(&plain, "seldom", "target"), free, "{mode}: the compiler's guess");
        let counting = build(&folder, mode, &["--pcce-profile-generate"], "counting");
        let one = counted(&counting, &["100"], "one");
        expect(
            &one,
            &[
                ("target", "=", 100),
                ("often", "target", 100),
                ("seldom", "target", 0),
                ("work", "often", 100),
            ],
        );
        // Processes that run at the same time neither mix nor lose lines, with a file for each or one for all.
        let several: Vec<PathBuf> = thread::scope(|scope| {
            let runs: Vec<_> = (1..=4)
                .map(|n| {
                    let counting = &counting;
                    scope.spawn(move || {
                        let file = counting.with_file_name("together");
                        let arguments = [n.to_string()];
                        let mut run_it = command(counting, &[]);
                        run(run_it.args(&arguments).env("PCCE_CALLS_PROFILE", file)).expect_success();
                        counted(counting, &[&arguments[0]], &format!("run-{n}"))
                    })
                })
                .collect();
            runs.into_iter().map(|run| run.join().expect("no panic")).collect()
        });
        let (merged, together) = (folder.join("merged"), folder.join("merged-together"));
        merge(&several, &merged);
        merge(&[folder.join("together")], &together);
        assert_eq!(fs::read_to_string(&merged).unwrap(), fs::read_to_string(&together).unwrap());
        expect(&merged, &[("main", "=", 4), ("work", "=", 4), ("often", "=", 10), ("often", "target", 10)]);

        let use_it = format!("--pcce-profile-use={}", merged.display());
        let using = build(&folder, mode, &[&use_it], "using");
        assert_eq!(code(&using, "often", "target"), free, "{mode}: the profile knows better");
        assert_ne!(code(&using, "seldom", "target"), free, "{mode}");
        let outputs = [&plain, &counting, &using].map(|program| {
            run(command(program, &["7"]).env("PCCE_CALLS_PROFILE", folder.join("last")))
                .expect_success()
                .stdout
        });
        assert!(outputs.iter().all(|output| output == "7 0\n"), "{outputs:?}");
        for flag in ["--pcce-profile-generate", &use_it] {
            let checked = build(&folder, mode, &["--pcce-verify", flag], "checked");
            assert!(verified(&checked, &["20", "fork"]) > 40, "{mode} {flag}");
        }
    }
}

#[test]
fn without_a_name_each_process_has_a_file() {
    let folder = work_folder("calls/names");
    let counting = build(&folder, "lto", &["--pcce-profile-generate"], "counting");
    for how in ["fork", "_exit"] {
        let place = folder.join(how);
        fs::create_dir_all(&place).expect("the folder is ours");
        run(command(&counting, &["10", how]).current_dir(&place)).expect_success();
        let mut files: Vec<PathBuf> =
            fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 2, "{how}: {files:?}");
        files.sort_by_key(|file| counts(file)[&("often".into(), "=".into())]);
        // Calls that the parent counted before the fork are counted once.
        expect(&files[0], &[("main", "=", 1), ("main", "", 1), ("work", "=", 1), ("often", "target", 10)]);
        expect(&files[1], &[("main", "=", 0), ("main", "", 0), ("work", "=", 1), ("often", "target", 20)]);
    }
    let named = build(&folder, "lto", &["--pcce-profile-generate=own.prof"], "named");
    run(command(&named, &["3"]).current_dir(&folder)).expect_success();
    expect(&folder.join("own.prof"), &[("often", "=", 3)]);
}

#[test]
fn a_profile_of_an_earlier_source_is_used_as_far_as_it_goes() {
    for mode in MODES {
        let folder = work_folder(&format!("calls/stale-{mode}"));
        let counting = build(&folder, mode, &["--pcce-profile-generate"], "counting");
        let profile = counted(&counting, &["100"], "profile");
        let use_it = format!("--pcce-profile-use={}", profile.display());
        let (using, output) = compile(&folder, mode, &["-DCHANGED", &use_it], "using");
        let output = output.expect_success();
        // `added` is new, and `work` calls it.
        let expected = "of 6 functions, 1 are not in the profile ";
        assert!(output.stderr.contains(expected), "{mode}: {}", output.stderr);
        assert!(
            output.stderr.contains(", and 1 have other calls than when it was made"),
            "{}",
            output.stderr
        );
        assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
        assert_eq!(code(&using, "often", "target"), serde_json::json!({"add": 0}), "{mode}");
        let checked = compile(&folder, mode, &["-DCHANGED", "--pcce-verify", &use_it], "checked").0;
        assert!(verified(&checked, &["20"]) > 40);
    }
}

#[test]
fn a_damaged_profile_is_an_error_that_names_it() {
    let folder = work_folder("calls/damaged");
    let counting = build(&folder, "lto", &["--pcce-profile-generate"], "counting");
    let whole = fs::read_to_string(counted(&counting, &["1"], "whole")).unwrap();
    for (name, text, message) in [
        ("cut", Some(&whole[..whole.len() - 20]), "the profile is damaged"),
        ("empty", Some(""), "the profile is empty"),
        ("other", Some("{\"profile\":\"heap\",\"version\":1}\n"), "a profile of kind `heap`"),
        ("missing", None, "cannot "),
    ] {
        let file = folder.join(name);
        if let Some(text) = text {
            fs::write(&file, text).expect("the folder is ours");
        }
        let use_it = format!("--pcce-profile-use={}", file.display());
        let merged = run(command(artifact("pcce"), &["profile", "merge"]).arg(&file));
        let outputs = MODES.map(|mode| compile(&folder, mode, &[&use_it], "none").1);
        for output in outputs.iter().chain([&merged]) {
            assert_ne!(output.status, 0, "{name}");
            let file = file.display().to_string();
            assert!(output.stderr.contains(&file), "{name}: {}", output.stderr);
            assert!(output.stderr.contains(message), "{name}: {}", output.stderr);
        }
    }
}

#[test]
fn shared_libraries_count_into_the_same_file() {
    for mode in MODES {
        let folder = work_folder(&format!("calls/library-{mode}"));
        let both = |flag: &str, kind: &str| {
            let library = format!("lib{kind}.so");
            let _ = build(&folder, mode, &["-DLIBRARY", "-shared", "-fPIC", flag], &library);
            let rpath = format!("-Wl,-rpath,{}", folder.display());
            let link = format!("-l{kind}");
            build(&folder, mode, &["-DUSES_LIBRARY", flag, "-L.", &link, &rpath], kind)
        };
        let profile = counted(&both("--pcce-profile-generate", "counting"), &["10"], "profile");
        expect(
            &profile,
            &[("often", "=", 10), ("library", "=", 1), ("library", "inner", 10), ("inner", "=", 10)],
        );
        let use_it = format!("--pcce-profile-use={}", profile.display());
        let output = run(&mut command(both(&use_it, "using"), &["10"])).expect_success();
        assert_eq!(output.stdout, "10 45\n");
        assert!(verified(&both("--pcce-verify", "checked"), &["10"]) > 20);
    }
}

#[test]
fn hot_targets_of_calls_that_push_are_called_directly() {
    let source = source!("calls/hot_targets.c");
    for mode in MODES {
        let folder = work_folder(&format!("calls/targets-{mode}"));
        fs::write(folder.join("targets.c"), source).expect("the folder is ours");
        let counting = build(&folder, mode, &["targets.c", "--pcce-profile-generate"], "counting");
        let profile = counted(&counting, &[], "profile");
        expect(&profile, &[("call", "", 102), ("hot", "=", 88), ("warm", "=", 12), ("cold", "=", 2)]);
        let text = fs::read_to_string(&profile).expect("a profile");
        assert!(text.contains(r#"[null,102,[["hot",88],["warm",12],["cold",2]]]"#), "{text}");
        let use_it = format!("--pcce-profile-use={}", profile.display());
        let using = build(&folder, mode, &["targets.c", &use_it], "using");
        assert_eq!(run(&mut command(&using, &[])).expect_success().stdout, "100\n");
        let direct = |program: &Path| {
            let sites = &dictionary(program)["modules"][0]["sites"];
            sites
                .as_array()
                .expect("sites")
                .iter()
                .filter(|site| site["kind"].get("direct").is_some())
                .count()
        };
        // In a module by itself, calls through pointers push. In the whole program they add, and the profile changes
        // nothing.
        let more = direct(&using) - direct(&build(&folder, mode, &["targets.c"], "plain"));
        assert_eq!(more > 0, mode == "module", "{mode}: {more}");
        if mode == "module" {
            assert!(code(&using, "call", "hot")["add"].is_u64());
            assert!(code(&using, "call", "warm")["add"].is_u64());
        }
        let checked = build(&folder, mode, &["targets.c", &use_it, "--pcce-verify"], "checked");
        assert_eq!(verified(&checked, &[]), 1 + 102 + 102 + 100);
    }
}

/// Two files have a function of a header, and the linker takes one of them. The profile has all that the program has.
#[test]
fn a_function_of_two_files_is_in_the_profile_once() {
    let folder = work_folder("calls/copies");
    write_files(
        &folder,
        [
            ("both.h", source!("calls/copies/both.h")),
            ("main.cpp", source!("calls/copies/main.cpp")),
            ("other.cpp", source!("calls/copies/other.cpp")),
        ],
    );
    let build = |flag: &str, program: &str| {
        let words = ["-O1", flag, "main.cpp", "other.cpp", "-o", program];
        run(command(artifact("pcce-clang++"), &words).current_dir(&folder)).expect_success()
    };
    build("--pcce-profile-generate", "counting");
    let profile = counted(&folder.join("counting"), &[], "profile");
    expect(&profile, &[("main", "_Z4bothi", 1), ("_Z5otheri", "_Z4bothi", 1), ("_Z4bothi", "_Z4bothi", 8)]);
    let built = build(&format!("--pcce-profile-use={}", profile.display()), "using");
    assert_eq!(built.stderr, "");
}

/// Calls from one module to another, and pointers that lead there, are counted like those within one module. Each mode
/// can use a profile of the other.
#[test]
fn modules_that_are_encoded_together_count_as_one() {
    let sources =
        [("main.c", source!("calls/two_modules/main.c")), ("other.c", source!("calls/two_modules/other.c"))];
    let folder = work_folder("calls/modules");
    write_files(&folder, sources);
    let build = |mode: &str, flag: &str| {
        let common = [&format!("--pcce-mode={mode}"), "-O1", "-fno-inline", "-w", flag];
        for (name, _) in sources {
            let mut compile = command(artifact("pcce-clang"), &common);
            run(compile.args(["-c", name]).current_dir(&folder)).expect_success();
        }
        let program = format!("{mode}{}", flag.split('=').next().unwrap());
        let mut link = command(artifact("pcce-clang"), &common);
        let link =
            run(link.args(["main.o", "other.o", "-o", &program]).current_dir(&folder)).expect_success();
        // The other mode has other names for local functions.
        assert!(link.stderr.is_empty() || !flag.contains(&format!("{mode}.calls")), "{mode} {flag}");
        folder.join(program)
    };
    // Linking renames local functions of equal names, and orders modules otherwise than LTO.
    let by_source = |profile: &Path| {
        let mut all: BTreeMap<(String, String), u64> = BTreeMap::new();
        for ((function, callee), count) in counts(profile) {
            let plain = |name: String| name.split('.').next().unwrap().to_owned();
            *all.entry((plain(function), plain(callee))).or_default() += count;
        }
        all
    };
    let profiles = ["lto", "link"].map(|mode| {
        let counting = build(mode, "--pcce-profile-generate");
        counted(&counting, &[], &format!("{mode}.calls"))
    });
    assert_eq!(by_source(&profiles[0]), by_source(&profiles[1]));
    expect(&profiles[1], &[("near", "same", 31), ("same", "far", 18), ("main", "", 18)]);
    let text = fs::read_to_string(&profiles[1]).expect("a profile");
    assert!(text.contains(r#"[["far",8],["near",1]]"#), "{text}");
    for profile in &profiles {
        let use_it = format!("--pcce-profile-use={}", profile.display());
        let using = ["lto", "link"].map(|mode| run(&mut command(build(mode, &use_it), &[])).expect_success());
        assert_eq!(using[0].stdout, using[1].stdout);
    }
    let use_it = format!("--pcce-profile-use={}", profiles[1].display());
    let verify = "--pcce-verify";
    for mode in ["lto", "link"] {
        let common = [&format!("--pcce-mode={mode}"), "-O1", "-fno-inline", "-w", &use_it, verify];
        let mut compile = command(artifact("pcce-clang"), &common);
        let compile = compile.args(["main.c", "other.c", "-o", "checked"]).current_dir(&folder);
        run(compile).expect_success();
        assert!(verified(&folder.join("checked"), &[]) > 100, "{mode}");
    }
}

#[test]
fn narrow_ids_push_and_stay_exact() {
    // 4¹⁰ contexts of the last function.
    let levels = 10;
    let mut source = String::from("#include <pcce.h>\n#include <stdio.h>\nstatic int contexts;\n");
    source += "__attribute__((noinline)) static void f0(void) { contexts += pcce_context() != 0; }\n";
    for level in 1..=levels {
        let call = format!("f{}(); __asm__ volatile(\"\" ::: \"memory\"); ", level - 1);
        source += &format!("__attribute__((noinline)) static void f{level}(void) {{ {} }}\n", call.repeat(4));
    }
    source += &format!("int main(void) {{ f{levels}(); printf(\"%d\\n\", contexts); return 0; }}\n");
    for mode in MODES {
        let folder = work_folder(&format!("calls/narrow-{mode}"));
        fs::write(folder.join("levels.c"), &source).expect("the folder is ours");
        let info = |bits: &str| {
            let bits = format!("--pcce-id-bits={bits}");
            let program = build(&folder, mode, &["levels.c", &bits], "narrow");
            let output = run(&mut command(&program, &[])).expect_success();
            assert_eq!(output.stdout, format!("{}\n", 1 << (2 * levels)), "{mode} {bits}");
            let info =
                run(command(artifact("pcce"), &["info", "--format", "json"]).arg(&program)).expect_success();
            let info: serde_json::Value = serde_json::from_str(&info.stdout).expect("JSON");
            let dictionary = &info["dictionary"];
            let number = |value: &serde_json::Value| value.as_u64().expect("a number");
            (
                number(&dictionary["max_num_cc"]["num_cc"]),
                number(&dictionary["edges"]["cut"]),
                number(&dictionary["edges"]["reduced"]),
            )
        };
        assert_eq!(info("63"), (1 << (2 * levels), 0, 0), "{mode}");
        let (max, cut, reduced) = info("8");
        assert!(max <= 1 << 8 && cut >= reduced && reduced > 0, "{mode}: {max} {cut} {reduced}");
        let checked = build(&folder, mode, &["levels.c", "--pcce-id-bits=8", "--pcce-verify"], "checked");
        // The sum of the entries of all functions.
        let entered: u64 = (0..=levels).map(|level| 1 << (2 * level)).sum();
        assert_eq!(verified(&checked, &[]), entered + 1);
    }
}
