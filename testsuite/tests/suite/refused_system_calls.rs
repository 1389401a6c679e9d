//! Programs in a sandbox that refuses one system call, from their start on or later: with each feature of the runtime
//! they end as without the pass, and a message says what is lost.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pcce_testsuite::{Output, artifact, command, llvm, repository, run, run_within, work_folder};

/// System calls of programs, with and without the runtime. A call that is not listed is refused at once, and must do no
/// harm.
const CALLS: [i64; 49] = [
    libc::SYS_mprotect,
    libc::SYS_rt_sigaction,
    libc::SYS_mmap,
    libc::SYS_getpid,
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_rt_sigprocmask,
    libc::SYS_write,
    libc::SYS_brk,
    libc::SYS_prlimit64,
    libc::SYS_pread64,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_sigaltstack,
    libc::SYS_clock_gettime,
    libc::SYS_gettid,
    libc::SYS_getcwd,
    libc::SYS_read,
    libc::SYS_munmap,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_getrandom,
    libc::SYS_execve,
    libc::SYS_arch_prctl,
    libc::SYS_access,
    libc::SYS_getdents64,
    libc::SYS_fallocate,
    libc::SYS_pwrite64,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_readlink,
    libc::SYS_fcntl,
    libc::SYS_tgkill,
    libc::SYS_tkill,
    libc::SYS_kill,
    libc::SYS_rt_sigreturn,
    libc::SYS_flock,
    libc::SYS_setitimer,
    libc::SYS_nanosleep,
    libc::SYS_unlink,
    libc::SYS_exit_group,
    libc::SYS_exit,
    libc::SYS_madvise,
    libc::SYS_readlinkat,
    libc::SYS_futex,
    libc::SYS_ftruncate,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_lseek,
];

/// Refuses everything but what a program needs to print a message and to end.
fn nearly_all() -> String {
    format!("!{},{},{}", libc::SYS_write, libc::SYS_rt_sigreturn, libc::SYS_exit_group)
}

struct Feature {
    name: &'static str,
    flag: Option<&'static str>,
    /// The variable with the file's name, and another one.
    file: &'static str,
    more: Option<(&'static str, &'static str)>,
    /// An argument of the program: the amount of work.
    work: &'static str,
    /// Arguments of the program: ways to end.
    ways: &'static [&'static str],
    /// Text in each complete file.
    whole: &'static str,
}

const FEATURES: [Feature; 7] = [
    Feature {
        name: "crash",
        flag: None,
        file: "PCCE_CRASH_REPORT",
        more: None,
        work: "0",
        ways: &["null", "abort", "sent", "thread-null", "own-null", "own-abort"],
        whole: "end: complete\n",
    },
    Feature {
        name: "heap",
        flag: Some("--pcce-heap"),
        file: "PCCE_HEAP_PROFILE",
        more: None,
        work: "0",
        ways: &["return", "now", "term"],
        whole: "{\"end\":true,",
    },
    Feature {
        name: "cpu",
        flag: None,
        file: "PCCE_SAMPLE_PROFILE",
        more: Some(("PCCE_SAMPLE", "1000")),
        work: "8000000",
        ways: &["return", "term"],
        whole: "{\"end\":true,",
    },
    Feature {
        name: "numbers",
        flag: None,
        file: "PCCE_NUMBERS",
        more: None,
        work: "0",
        ways: &["return"],
        whole: "PCCEnums",
    },
    Feature {
        name: "trace",
        flag: Some("--pcce-trace"),
        file: "PCCE_TRACE",
        more: None,
        work: "0",
        ways: &["return", "null"],
        whole: "PCCEtrac",
    },
    Feature {
        name: "verify",
        flag: Some("--pcce-verify"),
        file: "PCCE_VERIFY_REPORT",
        more: None,
        work: "0",
        ways: &["return", "now"],
        whole: " 0 mismatches\n",
    },
    Feature {
        name: "counts",
        flag: Some("--pcce-profile-generate"),
        file: "PCCE_CALLS_PROFILE",
        more: None,
        work: "0",
        ways: &["return", "now", "term"],
        whole: "{\"profile\":\"calls\",",
    },
];

fn build(folder: &Path, name: &str, compiler: PathBuf, flags: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let source = repository().join("testsuite/sandbox/refused.c");
    let mut compile = command(compiler, &["-g", "-O1", "-pthread", "-Wall", "-Wextra", "-Werror"]);
    run(compile.args(flags).arg(source).arg("-o").arg(&program)).expect_success();
    program
}

fn start(program: &Path, arguments: &[&str], environment: &[(&str, OsString)]) -> Output {
    let mut command = command(program, arguments);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    run_within(&mut command, "", Duration::from_secs(20))
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

#[test]
fn a_program_ends_as_without_the_pass() {
    let folder = work_folder("refused/calls");
    let plain = build(&folder, "plain", llvm("clang"), &[]);
    let file = folder.join("file");
    let mut expected: HashMap<Vec<String>, Output> = HashMap::new();
    let mut wrong = Vec::new();
    for feature in FEATURES {
        let flags: Vec<&str> = feature.flag.into_iter().chain(["-DPCCE"]).collect();
        let program = build(&folder, feature.name, artifact("pcce-clang"), &flags);
        let mut environment = vec![(feature.file, file.clone().into_os_string())];
        environment.extend(feature.more.map(|(name, value)| (name, value.into())));
        let one = CALLS.iter().flat_map(|call| [("early", call.to_string()), ("late", call.to_string())]);
        let others = format!("!{}", CALLS.map(|call| call.to_string()).join(","));
        let many = [("early", others.clone()), ("late", others), ("late", nearly_all())];
        let whats: Vec<_> = one.chain(many).collect();
        for ((moment, calls), way) in
            whats.iter().flat_map(|what| feature.ways.iter().map(move |&way| (what, way)))
        {
            let impossible = match calls.parse().unwrap_or(-1) {
                libc::SYS_execve => *moment == "early",
                // The program continues after each sample, and no program can without this call.
                libc::SYS_rt_sigreturn => feature.name == "cpu",
                // If libc cannot wait, it aborts, at the same time as the thread that crashes.
                libc::SYS_futex => way.starts_with("thread"),
                _ => false,
            };
            if impossible {
                continue;
            }
            let arguments = [*moment, calls, feature.work, way];
            let key = arguments.map(str::to_owned).to_vec();
            let plain = expected.entry(key).or_insert_with(|| start(&plain, &arguments, &[]));
            let _ = fs::remove_file(&file);
            let found = start(&program, &arguments, &environment);
            if (found.status, &found.stdout) != (plain.status, &plain.stdout) {
                wrong.push(format!(
                    "{} {arguments:?}: status {}, and plain {}; {:?}; {}",
                    feature.name, found.status, plain.status, found.stdout, found.stderr
                ));
            }
            // A report describes what kills the program, and a message is printed if it can be.
            let crashes = plain.status >= 128 || plain.stdout.contains("own");
            let nothing = feature.name == "crash" && !crashes || plain.stdout.is_empty();
            let bytes = fs::read(&file).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let whole = text.contains(feature.whole) || found.stderr.contains("end: complete\n");
            if !nothing && !whole && !found.stderr.contains("pcce: ") {
                wrong.push(format!("{} {arguments:?}: lost without a word", feature.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Starts the program, and waits until everything is refused.
fn in_sandbox(program: &Path) -> Child {
    let mut command = command(program, &["late", &nearly_all(), "100000000000", "return"]);
    let child =
        command.env("PCCE_CRASH_REPORT", "stderr").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("it starts");
    for _ in 0..2000 {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        if status.contains("Seccomp:\t2") {
            return child;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    panic!("it has no filter: {:?}", child.wait());
}

/// The handler cannot be removed then, and the program cannot send itself a signal.
#[test]
fn signals_from_outside_end_a_program_that_may_do_nothing() {
    use std::os::unix::process::ExitStatusExt;
    let folder = work_folder("refused/signals");
    let program = build(&folder, "program", artifact("pcce-clang"), &["-DPCCE"]);
    for signal in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTERM] {
        let mut child = in_sandbox(&program);
        kill(Pid::from_raw(child.id() as i32), signal).expect("it is there");
        let status = child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(signal as i32), "{signal}");
    }
}

/// A refused call is not taken for a file that the program has closed.
#[test]
fn messages_tell_refused_calls_from_closed_files() {
    let folder = work_folder("refused/messages");
    let program = build(&folder, "program", artifact("pcce-clang"), &["--pcce-trace", "-DPCCE"]);
    let calls = format!("{},{}", libc::SYS_fstat, libc::SYS_newfstatat);
    let environment = [("PCCE_TRACE", folder.join("trace").into_os_string())];
    let said = start(&program, &["late", &calls, "8000000", "return"], &environment).stderr;
    assert_eq!(
        said,
        "pcce: the trace: the system refuses a call that it needs: Operation not permitted (error 1); calls are not recorded from here on\n"
    );
}
