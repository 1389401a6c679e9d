//! Hybrid encoding (`--pcce-hybrid`, pcce.txt §6): the additions that it leaves out, and that frames of another layout
//! are refused. `programs` and `points::every_instruction` compare its contexts.

use std::fs;
use std::path::{Path, PathBuf};

use pcce_testsuite::{Output, artifact, command, folded, run, source, work_folder};
use serde_json::Value;

struct Built {
    program: PathBuf,
    tokens: Vec<String>,
    output: String,
}

/// Builds and runs `programs/offsets.c`.
fn build(folder: &Path, name: &str, flags: &[&str]) -> Built {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
    let (source, program) = (programs.join("offsets.c"), folder.join(name));
    let own = [source.to_str().unwrap(), "-o", program.to_str().unwrap(), "-O2", "-g", "-pthread"];
    run(&mut command(artifact("pcce-clang"), &[flags, &own].concat())).expect_success();
    let output = run(&mut command(&program, &[])).expect_success().stdout;
    let shown = output.lines().filter_map(|line| line.strip_prefix('@')?.split(' ').nth(1));
    let tokens = shown.map(str::to_owned).collect();
    let output = output.lines().filter(|line| !line.starts_with('@')).collect();
    Built { program, tokens, output }
}

fn decode(dictionary: &Path, tokens: &[String]) -> Output {
    let tokens = tokens.iter().map(String::as_str);
    let arguments: Vec<&str> =
        ["decode", "--format", "json", dictionary.to_str().unwrap()].into_iter().chain(tokens).collect();
    run(&mut command(artifact("pcce"), &arguments))
}

fn dictionary(built: &Built) -> Value {
    let json = built.program.with_extension("json");
    let [program, output] = [&built.program, &json].map(|path| path.to_str().unwrap());
    run(&mut command(artifact("pcce"), &["dict", program, "-o", output])).expect_success();
    serde_json::from_slice(&fs::read(json).unwrap()).unwrap()
}

/// The module's edges that add something: the value plus the callee's offset minus the caller's.
fn additions(dictionary: &Value) -> usize {
    let (module, encoding) = (&dictionary["modules"][0], &dictionary["encodings"][0]);
    let offset = |function: &Value| {
        encoding["functions"][function.as_u64().unwrap() as usize]["id_offset"].as_i64().unwrap()
    };
    let adds = encoding["edges"].as_array().unwrap().iter().filter(|edge| {
        let Some(value) = edge["code"]["add"].as_u64() else { return false };
        let site = &module["sites"][edge["site"].as_u64().unwrap() as usize];
        value as i64 + offset(&site["kind"]["direct"]) - offset(&site["function"]) != 0
    });
    adds.count()
}

#[test]
fn additions_are_left_out_and_contexts_stay_exact() {
    additions_are_left_out("--pcce-mode=lto");
}

/// The same for code that is generated between two links.
#[test]
fn additions_are_left_out_at_the_link() {
    additions_are_left_out("--pcce-mode=link");
}

fn additions_are_left_out(mode: &str) {
    let folder = work_folder(&format!("hybrid{mode}"));
    let basic = build(&folder, "basic", &[mode]);
    let hybrid = build(&folder, "hybrid", &[mode, "--pcce-hybrid"]);
    assert_eq!(basic.output, hybrid.output);
    let (without, with) = (dictionary(&basic), dictionary(&hybrid));
    assert_eq!(without["encodings"][0]["hybrid"], Value::Null);
    assert!(with["encodings"][0]["hybrid"]["rounds"].as_u64().is_some_and(|rounds| rounds > 0));
    let (before, after) = (additions(&without), additions(&with));
    assert!(after < before, "{after} additions, and {before} without stack offsets");

    let frames = |built: &Built, dictionary: &Path| -> Vec<Value> {
        let decoded = decode(dictionary, &built.tokens).expect_success().stdout;
        let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap()["frames"].take();
        decoded.lines().map(parse).collect()
    };
    let expected = frames(&basic, &basic.program);
    assert!(expected.len() >= 16);
    assert_eq!(frames(&hybrid, &hybrid.program), expected);
    assert_eq!(frames(&hybrid, &hybrid.program.with_extension("json")), expected);

    // Without the machine code the places of frames are not known. All that depends on them is unknown then, and the
    // rest is as before.
    let json = folder.join("without-code.json");
    let mut without_code = with;
    assert!(without_code["code"].take().is_string(), "there is machine code");
    fs::write(&json, serde_json::to_vec(&without_code).unwrap()).unwrap();
    let mut unknown = 0;
    for (found, expected) in std::iter::zip(frames(&hybrid, &json), expected) {
        let (found, expected) = (found.as_array().unwrap(), expected.as_array().unwrap());
        // At an interrupted point, code without the pass has no name either.
        let end = found.iter().position(|frame| frame["kind"] == "unknown" || frame["kind"] == "signal");
        let end = end.unwrap_or(found.len());
        assert_eq!(found[..end], expected[..end]);
        unknown += usize::from(found.iter().any(|frame| frame["kind"] == "unknown"));
    }
    assert!(unknown >= 4, "only {unknown} contexts depend on stack offsets");
}

#[test]
fn frames_of_other_code_are_refused() {
    let folder = work_folder("hybrid-refused");
    let basic = build(&folder, "basic", &[]);
    // The linker generates code without optimisation, but the pass has measured optimised code.
    let other = build(&folder, "other", &["--pcce-mode=lto", "--pcce-hybrid", "-Wl,--lto-CGO0"]);
    assert_eq!(other.output, basic.output);
    let json = dictionary(&other);
    let names = json["modules"][0]["names"].as_array().unwrap();
    for dictionary in [other.program.clone(), other.program.with_extension("json")] {
        let refused = decode(&dictionary, &other.tokens);
        assert_eq!(refused.status, 2, "{}", refused.describe());
        let text = format!("{}{}", refused.stdout, refused.stderr);
        let named = names
            .iter()
            .any(|name| text.contains(&format!("function {} has a stack frame", name.as_str().unwrap())));
        assert!(named && text.contains("--pcce-hybrid"), "{text}");
        assert!(!text.contains("\"frames\""), "{text}");
    }
}

/// `rec` calls itself through two functions with frames of different sizes, by the bits of the argument, and `bottom`
/// crashes.
const CRASHES: &str = source!("crash/hybrid_frames.c");

#[test]
fn crashes_are_found_by_stack_offsets() {
    crashes_are_found("--pcce-mode=lto");
    crashes_are_found("--pcce-mode=link");
}

fn crashes_are_found(mode: &str) {
    let folder = work_folder(&format!("hybrid-crashes{mode}"));
    let (source, program) = (folder.join("crashes.c"), folder.join("crashes"));
    fs::write(&source, CRASHES).unwrap();
    let flags = ["-O2", "-g", mode, "--pcce-hybrid", "--pcce-crash-report=stderr"];
    let own = [source.to_str().unwrap(), "-o", program.to_str().unwrap()];
    run(&mut command(artifact("pcce-clang"), &[&flags[..], &own].concat())).expect_success();
    for way in 0..8 {
        let crashed = run(&mut command(&program, &[&way.to_string()]));
        let report = folded(&folder, &["crashes"], &crashed.stderr);
        let expected = (0..3).map(|bit| if way >> bit & 1 == 1 { ";rec;b" } else { ";rec;a" });
        let expected = format!("context: main{};bottom", expected.collect::<String>());
        assert!(report.lines().any(|line| line == expected), "{expected}, not in\n{report}");
    }
}
