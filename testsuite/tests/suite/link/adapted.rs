//! Programs that `pcce adapt` has made again: contexts stay right, tokens of all versions decode, and what says nothing
//! of the program changes nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pcce_testsuite::{Output, artifact, command, files, repository, run, work_folder};

fn run_in(folder: &Path, program: impl AsRef<std::ffi::OsStr>, words: &str) -> Output {
    let words: Vec<&str> = words.split_whitespace().collect();
    run(command(program, &words).current_dir(folder))
}

fn pcce(folder: &Path, words: &str) -> Output {
    run_in(folder, artifact("pcce"), words)
}

/// Builds the program and its library in a folder, which keep their links.
fn build(folder: &Path, flags: &str) {
    let source = |name: &str| repository().join("testsuite/link/adapted").join(name).display().to_string();
    let wrapper = |words: &str| drop(run_in(folder, artifact("pcce-clang"), words).expect_success());
    wrapper(&format!(
        "--pcce-keep {flags} -O2 -fPIC -shared -Wl,-soname,libstep.so {} -o libstep.so",
        source("library.c")
    ));
    wrapper(&format!("--pcce-keep {flags} -O2 {} -L. -lstep -Wl,-rpath,$ORIGIN -o app", source("app.c")));
}

fn app(folder: &Path, words: &str) -> Output {
    run_in(folder, folder.join("app"), words)
}

/// What the app prints for both kinds of work, with tokens.
fn tokens(folder: &Path) -> String {
    ["pointers 40 loud", "tree 6 loud"].map(|words| app(folder, words).expect_success().stdout).concat()
}

/// The same, with the chains of calls in place of tokens.
fn chains(folder: &Path, log: &str) -> String {
    let mut filter = command(artifact("pcce"), &["filter", "--dicts", "pcce-dicts", "--format", "folded"]);
    let shown = pcce_testsuite::run_with_input(filter.current_dir(folder), log).expect_success().stdout;
    assert!(!shown.contains("pcce1."), "a token was not decoded: {shown}");
    shown
}

fn images(folder: &Path) -> Vec<Vec<u8>> {
    ["app", "libstep.so"].map(|name| fs::read(folder.join(name)).unwrap()).into()
}

/// Each version has the same contexts, for the work that it has learnt of and for another; verify mode finds nothing
/// wrong; the tokens of all versions are in one log. What was learnt of several versions goes together, and a library
/// may be made again before its program.
#[test]
fn versions_have_the_same_contexts() {
    for (name, flags) in
        [("plain", "-g"), ("verify", "-g --pcce-verify"), ("bare", "--pcce-no-callback=none")]
    {
        let folder = work_folder(&format!("adapted/{name}"));
        fs::write(folder.join("none"), "puts\n").unwrap();
        build(&folder, flags);
        let verified = |words: &str| {
            if name == "verify" {
                let report = folder.join("report");
                let _ = fs::remove_file(&report);
                let output = run(command(folder.join("app"), &words.split(' ').collect::<Vec<_>>())
                    .env("PCCE_VERIFY_REPORT", &report));
                let said = fs::read_to_string(report).unwrap_or_default();
                let is_right = output.status == 0 && said.lines().all(|line| line.ends_with(" 0 mismatches"));
                assert!(is_right && !said.is_empty(), "{}{said}", output.describe());
            }
        };
        let first = tokens(&folder);
        fs::write(folder.join("log"), &first).unwrap();
        let said = pcce(&folder, "adapt app libstep.so --learnt log").expect_success().stderr;
        assert!(said.contains("app: version 2"), "{said}");
        verified("pointers 5000");
        verified("tree 5000");
        let second = tokens(&folder);
        assert_ne!(first, second);
        let expected = chains(&folder, &first);
        assert!(expected.contains("main;walk;") && expected.contains("main;tree;tree;"), "{expected}");
        assert_eq!(expected, chains(&folder, &second), "{name}");
        let info = pcce(&folder, "info app").expect_success().stdout;
        let id = info.lines().find_map(|line| line.strip_prefix("build id    ")).unwrap().to_owned();
        assert!(
            info.contains("adapted     version 2;")
                && !info.contains(&format!("first one has build id {id}"))
        );
        assert!(info.contains("fit         100.0 %"), "{info}");
        // Once more, of both versions, and for other work.
        let other = app(&folder, "tree 40 loud").expect_success().stdout.repeat(9);
        fs::write(folder.join("more"), other + &second).unwrap();
        let _ = pcce(&folder, "adapt libstep.so app --learnt log more").expect_success();
        let third = tokens(&folder);
        verified("pointers 5000");
        assert_eq!(expected, chains(&folder, &third), "{name}");
        assert_eq!(expected.repeat(3), chains(&folder, &(first + &second + &third)), "{name}");
        // The first version is still there, and works.
        fs::rename(folder.join("app.pcce-before"), folder.join("app")).unwrap();
        assert_eq!(expected, chains(&folder, &tokens(&folder)), "{name}");
    }
}

/// An ordinary build learns, in several processes, which write into one file. Killed ones do no harm.
#[test]
fn a_program_learns_as_it_runs() {
    let folder = work_folder("adapted/learns");
    build(&folder, "-g");
    let learnt = folder.join("learnt");
    let start = |words: &[&str]| {
        let mut command = command(folder.join("app"), words);
        command.env("PCCE_LEARN", &learnt).stdout(Stdio::null()).spawn().unwrap()
    };
    let samples = || fs::read_to_string(&learnt).unwrap_or_default().matches("\"samples\":").count();
    while samples() < 20 {
        let mut both = [start(&["pointers", "200000"]), start(&["tree", "2000000"])];
        let mut killed: Vec<_> = (0..4).map(|_| start(&["pointers", "90000000"])).collect();
        killed.iter_mut().for_each(|process| process.kill().unwrap());
        killed.iter_mut().for_each(|process| drop(process.wait()));
        assert!(both.iter_mut().all(|process| process.wait().unwrap().success()));
    }
    // A process that was killed as it wrote leaves a part of a line.
    let mut text = fs::read(&learnt).unwrap();
    let cut = text.len() - 40;
    text.extend_from_within(..cut);
    text.extend_from_within(..);
    fs::write(&learnt, &text).unwrap();
    let before = chains_of(&folder);
    let _ = pcce(&folder, "adapt app --learnt learnt").expect_success();
    assert_eq!(before, chains_of(&folder));
    let info: serde_json::Value =
        serde_json::from_str(&pcce(&folder, "info app --format json").expect_success().stdout).unwrap();
    let share = |version: usize, what: &str| info["adapted"]["fit"][version][what].as_f64().unwrap();
    assert!(share(1, "found") > 0.9, "{info}");
    assert!(share(1, "push") <= share(0, "push"), "{info}");
    // Nothing is learnt by those that are not asked.
    assert!(!files(&folder).unwrap().iter().any(|file| file.to_string_lossy().contains("pcce-cpu")));
}

fn chains_of(folder: &Path) -> String {
    let _ = pcce(folder, "dict --store pcce-dicts app libstep.so").expect_success();
    chains(folder, &tokens(folder))
}

/// What says nothing of the program is refused, and nothing is changed.
#[test]
fn nothing_is_changed_for_nothing() {
    let folder = work_folder("adapted/refused");
    build(&folder, "-g");
    let before = images(&folder);
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("empty", "");
    write("text", "no token, pcce1.AAAA and pcce2.zzzz\n{\"token\":\"pcce1.AAA");
    let log = tokens(&folder);
    write("log", &log);
    let refused = |words: &str, text: &str| {
        let output = pcce(&folder, words);
        assert!(output.status == 2 && output.stderr.contains(text), "{text}: {}", output.describe());
        assert!(images(&folder) == before, "{words}");
        let left: Vec<PathBuf> = files(&folder).unwrap();
        assert!(!left.iter().any(|file| file.to_string_lossy().contains("pcce-adapted")), "{left:?}");
    };
    let none = "no call of";
    refused("adapt app --learnt empty", none);
    refused("adapt app --learnt text", none);
    refused("adapt app --learnt nowhere", "nowhere: cannot be read");
    refused("adapt text --learnt log", "not a program");
    // A build that is no version of this one.
    let other = work_folder("adapted/other");
    build(&other, "-g -O1");
    fs::write(folder.join("others"), tokens(&other)).unwrap();
    refused("adapt app --learnt others", none);
    fs::rename(folder.join("app.pcce-kept"), folder.join("kept")).unwrap();
    refused("adapt app --learnt log", "nothing was kept of");
    refused("adapt app --learnt log", "link it with --pcce-keep");
    // All images or none.
    refused("adapt libstep.so app --learnt log", "nothing was kept of");
    fs::copy(other.join("app.pcce-kept"), folder.join("app.pcce-kept")).unwrap();
    refused("adapt app --learnt log", "is of another build than");
    fs::rename(folder.join("kept"), folder.join("app.pcce-kept")).unwrap();
    // Both kinds of what is known.
    write("calls", "{\"profile\":\"calls\",\"version\":1,\"module\":\"\",\"functions\":0}\n");
    refused("adapt app --learnt log calls", "counts of calls and contexts do not go together");
    // A profile of calls that says nothing makes the same program.
    let said = pcce(&folder, "adapt app --learnt calls");
    assert!(
        said.status == 0 && said.stderr.contains("is encoded for this use already"),
        "{}",
        said.describe()
    );
    assert!(images(&folder) == before);
    // A damaged line among others does no harm, nor does what others have learnt.
    write(
        "mixed",
        &format!("{{\"token\":\"pcce1.AAA\n{log}{}", fs::read_to_string(folder.join("others")).unwrap()),
    );
    let said = pcce(&folder, "adapt app libstep.so --learnt mixed").expect_success().stderr;
    assert!(said.contains("% of what was learnt is of other builds, or damaged"), "{said}");
    assert_eq!(chains(&folder, &log), chains(&folder, &tokens(&folder)));
}

/// A process that runs goes on with the version that it has, and its tokens decode.
#[test]
fn a_running_program_goes_on() {
    let folder = work_folder("adapted/running");
    build(&folder, "-g");
    let log = tokens(&folder);
    fs::write(folder.join("log"), &log).unwrap();
    let mut slow = Command::new(folder.join("app"));
    let mut running = slow.args(["pointers", "400000"]).stdout(Stdio::piped()).spawn().unwrap();
    let _ = pcce(&folder, "adapt app libstep.so --learnt log").expect_success();
    let mut said = String::new();
    std::io::Read::read_to_string(running.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert!(running.wait().unwrap().success());
    assert!(said.contains("sum ") && chains(&folder, &said).contains("main;walk;"), "{said}");
}
