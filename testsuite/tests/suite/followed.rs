//! `pcce cpu follow`: what running programs use their time for.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use pcce_testsuite::{artifact, command, repository, run, work_folder};
use serde_json::Value;

/// Builds the server and its library.
fn build(folder: &Path, mode: &str) -> PathBuf {
    let sources = repository().join("testsuite/profiles");
    let mode = format!("--pcce-mode={mode}");
    let mut library = command(artifact("pcce-clang"), &["-g", "-O1", "-shared", "-fPIC", &mode]);
    run(library.arg(sources.join("plugin.c")).arg("-o").arg(folder.join("plugin.so"))).expect_success();
    let program = folder.join("server");
    let mut compile = command(artifact("pcce-clang"), &["-g", "-O1", &mode]);
    run(compile.arg(sources.join("server.c")).arg("-o").arg(&program)).expect_success();
    program
}

/// Starts a program in a folder, with samples and a profile of this name, or of the one without the variable.
fn start(program: &Path, folder: &Path, profile: Option<&str>) -> Child {
    let mut server = command(program, &[]);
    let _ = server.current_dir(folder).env("PCCE_SAMPLE", "997").env("PCCE_SAMPLE_SIGNAL", "10");
    let _ = server.envs(profile.map(|name| ("PCCE_SAMPLE_PROFILE", name))).stdout(Stdio::null());
    server.spawn().expect("the program starts")
}

fn follow(process: u32, words: &[&str]) -> Command {
    let mut follow = command(artifact("pcce"), &["cpu", "follow", &process.to_string()]);
    let _ = follow.args(words);
    follow
}

/// The functions of the next report, with their own time.
fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Vec<(String, u64)> {
    let heading = lines.by_ref().map(|line| line.expect("text")).find(|line| line.contains("\"functions\""));
    let heading: Value = serde_json::from_str(&heading.expect("a report")).expect("JSON");
    let functions = heading["functions"].as_array().expect("a list");
    let of = |function: &Value| {
        (
            function["function"].as_str().expect("a name").to_owned(),
            function["self"].as_u64().expect("a number"),
        )
    };
    functions.iter().map(of).filter(|(_, own)| *own > 0).collect()
}

/// Each report is of its own time only, and libraries that are loaded meanwhile are known.
#[test]
fn a_running_program_is_followed_to_its_end() {
    for (mode, profile) in [("link", None), ("lto", Some("%p.profile")), ("module", Some("profile"))] {
        let folder = work_folder(&format!("followed/{mode}"));
        let program = build(&folder, mode);
        // What earlier processes have left is not taken for this one's.
        fs::write(folder.join("profile.1"), "{\"profile\":\"cpu\"").unwrap();
        let mut server = start(&program, &folder, profile);
        let mut follow = follow(server.id(), &["--every", "0.4", "--format", "json"]);
        let mut follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pcce starts");
        let mut lines = BufReader::new(follow.stdout.take().expect("a pipe")).lines();
        let of_spinning = |found: &[(String, u64)], name: &str| {
            let all: u64 = found.iter().map(|(_, own)| own).sum();
            let own = found.iter().find(|(function, _)| function == name).map_or(0, |(_, own)| *own);
            own as f64 / all as f64
        };
        let found = next(&mut lines);
        // What is inlined is a function of its own.
        let is_first =
            |found: &[(String, u64)]| of_spinning(found, "spin") + of_spinning(found, "first") > 0.9;
        assert!(is_first(&found), "{mode}: {found:?}");
        let _ = File::create(folder.join("second")).unwrap();
        // One report has some of both.
        let _ = next(&mut lines);
        let found = next(&mut lines);
        let third = of_spinning(&found, "third");
        assert!(third > 0.2 && third < 0.8 && !is_first(&found), "{mode}: {found:?}");
        let _ = File::create(folder.join("end")).unwrap();
        assert!(server.wait().expect("it ends").success());
        let mut rest: Vec<String> = lines.map(|line| line.expect("text")).collect();
        rest.retain(|line| line.contains("\"functions\""));
        assert!(rest.len() <= 2, "{mode}: {rest:?}");
        let output = follow.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        let name = profile.unwrap_or("pcce-cpu.%p").replace("%p", &server.id().to_string());
        let whole = folder.join(&name);
        let expected = format!(
            "note: process {} has ended; the profile of all its time: {}\n",
            server.id(),
            whole.display()
        );
        assert!(output.status.success() && said == expected, "{mode}: {said}");
        // The whole is as without; what it has read is gone.
        run(command(artifact("pcce"), &["cpu", "report"]).arg(&program).arg(&whole)).expect_success();
        let left = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> =
            left.filter(|file| file.to_string_lossy().starts_with(&format!("{name}."))).collect();
        assert_eq!(left, [""; 0], "{mode}");
    }
}

/// A shell tells the number of a process that has not started its program yet.
#[test]
fn a_process_is_followed_from_its_beginning() {
    let folder = work_folder("followed/starting");
    let _ = build(&folder, "link");
    let script = "sleep 0.7; PCCE_SAMPLE=997 PCCE_SAMPLE_SIGNAL=10 exec ./server";
    let mut server =
        command("sh", &["-c", script]).current_dir(&folder).stdout(Stdio::null()).spawn().expect("sh starts");
    let mut follow = follow(server.id(), &["--every", "0.3", "--format", "json"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().expect("pcce starts");
    let mut lines = BufReader::new(follow.stdout.take().expect("a pipe")).lines();
    assert!(next(&mut lines).iter().any(|(function, _)| function == "spin"));
    let _ = File::create(folder.join("second")).unwrap();
    let _ = File::create(folder.join("end")).unwrap();
    assert!(server.wait().expect("it ends").success());
    assert!(follow.wait().expect("it ends").success());
}

/// What cannot be followed is named, and is not ended by a signal that it does not expect.
#[test]
fn other_processes_are_refused() {
    let folder = work_folder("followed/others");
    let mut plain = command("sleep", &["100"]).spawn().expect("sleep starts");
    let mut sampled = command("sleep", &["100"])
        .env("PCCE_SAMPLE", "997")
        .env("PCCE_SAMPLE_SIGNAL", "10")
        .current_dir(&folder)
        .spawn()
        .expect("sleep starts");
    for (process, expected) in [
        (plain.id(), "it was not started with PCCE_SAMPLE and PCCE_SAMPLE_SIGNAL"),
        (sampled.id(), "PCCE_SAMPLE_SIGNAL does not name a signal from 1 to 31 that it handles"),
        (i32::MAX as u32, "No such process"),
        (0, "a process has a number from 1 on"),
    ] {
        let refused = run(&mut follow(process, &[]));
        let head = format!("error: process {process}: {expected}");
        assert!(refused.status == 2 && refused.stderr.starts_with(&head), "{}", refused.describe());
    }
    for sleeping in [&mut plain, &mut sampled] {
        assert!(sleeping.try_wait().expect("a child").is_none());
        sleeping.kill().expect("it is there");
        let _ = sleeping.wait();
    }
}
