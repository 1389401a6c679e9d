//! Files that the runtime writes without a variable that asks for them: links at their names, their permissions, and
//! programs that run with more rights than the user who started them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use pcce_testsuite::{Output, artifact, command, include, repository, run, work_folder};

/// The user `nobody` in Debian.
const NOBODY: &str = "65534";
const CONTENT: &str = "precious";
const NAMES: [&str; 4] = ["pcce-heap.PID", "pcce-cpu.PID", "pcce-calls.PID", "report"];

fn build(folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let source = repository().join("testsuite/profiles/rights.c");
    let flags = ["-O2", "--pcce-heap", "--pcce-profile-generate", "--pcce-crash-report=report"];
    run(command(artifact("pcce-clang"), &flags).arg(source).arg("-o").arg(&program)).expect_success();
    program
}

/// Runs the program in a folder where all names of its files are links to a file that it must not touch.
fn run_among_links(folder: &Path, program: &Path, by: &str, arguments: &str) -> Output {
    let links: String =
        NAMES.iter().map(|name| format!("ln -s ../precious {}; ", name.replace("PID", "$$"))).collect();
    let script = format!("ulimit -c 0; cd {}; {links} exec {by} \"$0\" {arguments}", folder.display());
    run(command("sh", &["-c", &script]).arg(program).env("PCCE_SAMPLE", "1000"))
}

#[test]
fn built_in_names_are_not_followed_and_are_the_owners() {
    let work = work_folder("rights/links");
    fs::write(work.join("precious"), CONTENT).expect("room on the disk");
    let program = build(&work);
    for arguments in ["", "die"] {
        let folder = work.join(format!("run-{arguments}"));
        fs::create_dir(&folder).expect("a new one");
        let output = run_among_links(&folder, &program, "", arguments);
        assert_eq!(output.stdout, "0\n", "{}", output.describe());
        assert_eq!(fs::read_to_string(work.join("precious")).expect("it is there"), CONTENT);
        let files: Vec<_> = fs::read_dir(&folder).expect("a folder").map(|e| e.expect("an entry")).collect();
        assert_eq!(files.len(), NAMES.len(), "{files:?}");
        for file in files {
            let name = file.file_name().into_string().expect("letters");
            let file = fs::symlink_metadata(file.path()).expect("it is there");
            // A new file takes the place of the link. A file that grows is not opened.
            let written =
                arguments.is_empty() && (name.starts_with("pcce-heap") || name.starts_with("pcce-cpu"));
            assert_eq!(file.is_file(), written, "{name}");
            assert!(!written || file.len() > 0 && file.mode() & 0o777 == 0o600, "{name}: {:o}", file.mode());
        }
        let refused = if arguments.is_empty() { "pcce-calls." } else { "report" };
        let message = |line: &str| line.starts_with("pcce: cannot write to ") && line.contains(refused);
        assert!(output.stderr.lines().any(message), "{}", output.stderr);
        // The report is not lost.
        assert_eq!(output.stderr.contains("signal: SIGABRT"), arguments == "die", "{}", output.stderr);
    }
    // Without links, in a folder in which files are readable for all.
    let folder = work.join("plain");
    fs::create_dir(&folder).expect("a new one");
    let script = format!("umask 0; cd {}; $0; ulimit -c 0; $0 die; exec $0 die", folder.display());
    let _ = run(command("sh", &["-c", &script]).arg(&program).env("PCCE_SAMPLE", "1000"));
    let mut files = 0;
    for file in fs::read_dir(&folder).expect("a folder") {
        let file = file.expect("an entry");
        assert_eq!(file.metadata().expect("it is there").mode() & 0o777, 0o600, "{file:?}");
        files += 1;
    }
    assert_eq!(files, 4, "one of each kind");
    let report = fs::read_to_string(folder.join("report")).expect("a report");
    assert_eq!(report.matches("signal: SIGABRT").count(), 2, "{report}");
}

/// A user starts a program that runs as the superuser, and tries to choose what it writes.
#[test]
fn programs_with_more_rights_write_nothing_to_relative_names() {
    if fs::metadata("/proc/self").expect("Linux").uid() != 0 {
        eprintln!("NOT RUN: only the superuser can make a program that runs as the superuser for others");
        return;
    }
    // A folder that other users can enter, unlike perhaps the target folder.
    let work = std::env::temp_dir().join(format!("pcce-rights-{}", std::process::id()));
    let _ = fs::remove_dir_all(&work);
    fs::create_dir(&work).expect("a new one");
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    mode(&work, 0o755);
    let program = build(&work);
    mode(&program, 0o4755);
    let precious = work.join("precious");
    fs::write(&precious, CONTENT).expect("room on the disk");
    let as_nobody = format!("setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups");
    let mut privileged = true;
    for arguments in ["", "die"] {
        for with_links in [true, false] {
            let folder = work.join(format!("run-{arguments}-{with_links}"));
            fs::create_dir(&folder).expect("a new one");
            if with_links {
                symlink("../precious", folder.join("report")).expect("a link");
            }
            chown(&folder, Some(65534), Some(65534)).expect("the superuser may");
            let links = if with_links {
                "ln -sf ../precious pcce-heap.$$; ln -sf ../precious pcce-calls.$$;"
            } else {
                ""
            };
            let script = format!("ulimit -c 0; cd {}; {links} exec $0 {arguments}", folder.display());
            let script = format!("exec {as_nobody} sh -c '{script}' {}", program.display());
            let variables = ["PCCE_HEAP_PROFILE", "PCCE_CALLS_PROFILE", "PCCE_CRASH_REPORT", "PCCE_NUMBERS"];
            let environment = variables.map(|name| (name, "asked"));
            let output = run(command("sh", &["-c", &script]).env("PCCE_SAMPLE", "1000").envs(environment));
            if output.stdout != "1\n" {
                assert_eq!(output.stdout, "0\n", "{}", output.describe());
                privileged = false;
                continue;
            }
            assert_eq!(fs::read_to_string(&precious).expect("it is there"), CONTENT);
            let files: Vec<_> =
                fs::read_dir(&folder).expect("a folder").map(|e| e.expect("an entry")).collect();
            assert_eq!(files.len(), if with_links { 3 } else { 0 }, "{files:?}");
            assert!(files.iter().all(|f| f.file_type().is_ok_and(|t| t.is_symlink())), "{files:?}");
            assert_eq!(output.stderr, "", "{}", output.describe());
        }
    }
    fs::remove_dir_all(&work).expect("ours");
    if !privileged {
        eprintln!("NOT RUN: programs of the temporary folder do not get the rights of their owners");
    }
}

/// Addresses are random to make attacks hard, so tokens, which appear in logs, must not reveal them.
#[test]
fn tokens_do_not_tell_where_memory_lies() {
    let work = work_folder("rights/places");
    let include = include("runtime-lib/include");
    for mode in ["--pcce-mode=lto", "--pcce-mode=module"] {
        let program = work.join(mode);
        let source = repository().join("testsuite/programs/generated_code.c");
        let mut compile = command(artifact("pcce-clang"), &["-O2", "-g", &include, mode]);
        run(compile.arg(source).arg("-o").arg(&program)).expect_success();
        let tokens = || -> Vec<String> {
            let output = run(&mut command(&program, &[])).expect_success().stdout;
            output.lines().map(|line| line.split(' ').nth(1).expect("a token").to_owned()).collect()
        };
        let first = tokens();
        assert_eq!(first.len(), 2);
        for _ in 0..5 {
            assert_eq!(tokens(), first);
        }
    }
}

/// The kernel ends a process that writes beyond its limit on the size of files. What the runtime writes must not.
#[test]
fn files_that_may_not_grow_end_no_program() {
    let work = work_folder("file_rights/limit");
    std::fs::write(
        work.join("a.c"),
        "#include <stdio.h>\n#include <pcce.h>\n\
         __attribute__((noinline)) int f(int n) { return pcce_context() + (n ? f(n - 1) : 0); }\n\
         int main(void) { volatile int sum = 0; for (int i = 0; i < 3000; i++) sum += f(i % 50); puts(\"done\"); }\n",
    )
    .expect("the folder is ours");
    let profile = format!("--pcce-profile-generate={}", work.join("generated").display());
    for (name, flag) in
        [("plain", "-g"), ("verified", "--pcce-verify"), ("counted", &profile), ("heap", "--pcce-heap")]
    {
        let include = include("runtime-lib/include");
        let words = ["-O1", &include, flag, "a.c", "-o", name];
        run(command(artifact("pcce-clang"), &words).current_dir(&work)).expect_success();
        for variable in [
            "PCCE_NUMBERS",
            "PCCE_SAMPLE_PROFILE",
            "PCCE_HEAP_PROFILE",
            "PCCE_VERIFY_REPORT",
            "PCCE_CALLS_PROFILE",
        ] {
            for blocks in [0, 1] {
                let script = format!("ulimit -f {blocks}; exec ./{name}");
                let mut shell = command("sh", &["-c", &script]);
                shell.current_dir(&work).env(variable, work.join("file")).env("PCCE_SAMPLE", "997");
                let ran = run(&mut shell).expect_success();
                assert_eq!(ran.stdout, "done\n", "{name} {variable} {blocks}: {}", ran.stderr);
                let _ = std::fs::remove_file(work.join("file"));
            }
        }
        let script = format!("ulimit -f 0; PCCE_NUMBERS=file exec ./{name}");
        let said = run(command("sh", &["-c", &script]).current_dir(&work)).expect_success().stderr;
        assert!(said.contains("File too large"), "{name}: {said}");
    }
}
