//! Compressed traces: what the tracer compresses while programs run is complete.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use pcce::trace::{Programs, Reader, TablesCause, TablesError, TraceFile, check};
use pcce_testsuite::turns::all_cases;
use pcce_testsuite::{Output, artifact, command, llvm, repository, run, work_folder, write_files};

/// A program in verify mode that calls for about a second, in two processes with three threads each.
fn busy() -> &'static Path {
    static BUSY: OnceLock<PathBuf> = OnceLock::new();
    BUSY.get_or_init(|| {
        let program = work_folder("trace-compress-program").join("busy");
        let mut build =
            command(artifact("pcce-clang"), &["--pcce-trace", "--pcce-verify", "-O2", "-pthread"]);
        let _ = build.arg(repository().join("testsuite/traces/busy.c")).arg("-o").arg(&program);
        run(&mut build).expect_success();
        program
    })
}

/// Starts it with further variables.
fn start(trace: &Path, rounds: &str, more: &[(&str, &str)]) -> Child {
    let mut program = command(busy(), &[rounds]);
    let _ = program.env("PCCE_TRACE", trace).env("PCCE_TRACE_STRESS", "20").envs(more.iter().copied());
    let _ = program.env("PCCE_VERIFY_REPORT", trace.with_extension("report"));
    let mut child = program.stdout(Stdio::null()).process_group(0).spawn().expect("the program starts");
    let has_begun = || fs::metadata(trace).is_ok_and(|metadata| metadata.len() > 1 << 20);
    while !has_begun() && child.try_wait().expect("a child").is_none() {
        thread::sleep(Duration::from_millis(1));
    }
    child
}

fn pcce(words: &[&str], files: &[&Path]) -> Output {
    run(command(artifact("pcce"), &[&["trace"], words].concat()).args(files))
}

/// How many events of the whole trace match.
fn events(trace: &Path) -> u64 {
    let checked = pcce(&["check"], &[busy(), trace]);
    let first = checked.stdout.lines().next().unwrap_or_default();
    assert!(first.contains(", 0 chunks do not match"), "{}", checked.describe());
    first.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

#[test]
fn a_running_programs_trace_is_compressed_whole() {
    let folder = work_folder("trace-compress/running");
    let (whole, trace, packed) = (folder.join("whole"), folder.join("trace"), folder.join("trace.zst"));
    assert!(start(&whole, "300", &[]).wait().expect("it ends").success());
    let mut program = start(&trace, "300", &[]);
    let mut compress = command(artifact("pcce"), &["trace", "compress"]).arg(&trace).spawn().expect("pcce");
    thread::sleep(Duration::from_millis(300));
    assert!(program.try_wait().expect("a child").is_none(), "the program was too fast for this test");
    let so_far = fs::metadata(&packed).expect("it is begun").len();
    assert!(so_far > 1 << 10, "chunks that have ended are compressed at once: {so_far}");
    assert!(program.wait().expect("it ends").success());
    assert!(compress.wait().expect("it ends").success());
    assert!(!trace.exists());
    assert_eq!(events(&packed), events(&whole));
    assert!(fs::metadata(&packed).unwrap().len() < fs::metadata(&whole).unwrap().len() / 10);

    // A file that zstd has compressed is a trace, too.
    let plain = folder.join("plain");
    run(command("zstd", &["-q", "-d", "-o"]).arg(&plain).arg(&packed)).expect_success();
    assert_eq!(events(&plain), events(&whole));
    let shown = |trace: &Path| pcce(&["show"], &[busy(), trace]).expect_success().stdout;
    assert_eq!(shown(&plain), shown(&packed));
    fs::remove_dir_all(folder).unwrap();
}

/// The next run begins its trace anew in the same place while the one before is still being compressed.
#[test]
fn the_next_runs_trace_is_not_removed() {
    let folder = work_folder("trace-compress/next");
    let (trace, packed) = (folder.join("trace"), folder.join("trace.zst"));
    for _ in 0..8 {
        let mut program = start(&trace, "40", &[]);
        let mut compress =
            command(artifact("pcce"), &["trace", "compress"]).arg(&trace).spawn().expect("pcce");
        while !packed.exists() && compress.try_wait().expect("a child").is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(program.wait().expect("it ends").success());
        assert!(start(&trace, "40", &[]).wait().expect("it ends").success());
        assert!(compress.wait().expect("it ends").success());
        // It has its own file, or goes on with the first one's.
        let all: Vec<u64> =
            [&trace, &packed].into_iter().filter(|file| file.exists()).map(|file| events(file)).collect();
        assert!(all.len() == 2, "one of two traces is lost: {all:?}");
        fs::remove_file(&trace).unwrap();
        fs::remove_file(&packed).unwrap();
    }
}

/// The file is empty when it is first looked at. Then it has no more than its head, for a constructor of code without
/// the pass sleeps; the program counts in that later.
#[test]
fn a_trace_is_compressed_from_before_its_first_chunk_on() {
    let folder = work_folder("trace-compress/early");
    let sources = [
        (
            "slow.c",
            "#include <unistd.h>\n__attribute__((constructor)) static void slow(void) { usleep(500000); }\n",
        ),
        (
            "main.c",
            "__attribute__((noinline)) static void f(void) { __asm__(\"\"); }\nint main(void) { f(); f(); }\n",
        ),
    ];
    write_files(&folder, sources);
    run(command(llvm("clang"), &["-c", "slow.c"]).current_dir(&folder)).expect_success();
    let words = ["--pcce-trace", "-O1", "main.c", "slow.o", "-o", "program"];
    run(command(artifact("pcce-clang"), &words).current_dir(&folder)).expect_success();
    let (program, trace, packed) = (folder.join("program"), folder.join("trace"), folder.join("trace.zst"));
    // A program that starts creates the file before it writes the head.
    File::create(&trace).unwrap();
    let mut compress = command(artifact("pcce"), &["trace", "compress"]).arg(&trace).spawn().expect("pcce");
    thread::sleep(Duration::from_millis(100));
    run(command(&program, &[]).env("PCCE_TRACE", &trace)).expect_success();
    assert!(compress.wait().expect("it ends").success());
    let shown = pcce(&["show"], &[&program, &packed]).expect_success().stdout;
    assert!(shown.contains("main") && shown.matches("    f\n").count() == 2, "{shown}");
    let file = TraceFile::open(&packed).expect("a trace");
    assert_eq!((file.cut, file.lost, file.streams.len()), (0, 0, 1));
    // The head that `zstd` unpacks is that of the end.
    let plain = folder.join("plain");
    run(command("zstd", &["-q", "-d", "-o"]).arg(&plain).arg(&packed)).expect_success();
    assert_eq!(pcce(&["show"], &[&program, &plain]).expect_success().stdout, shown);
}

#[test]
fn a_killed_programs_trace_is_compressed_as_far_as_it_goes() {
    let folder = work_folder("trace-compress/killed");
    for round in 0..5 {
        let trace = folder.join("trace");
        let mut program = start(&trace, "2000", &[]);
        let mut compress =
            command(artifact("pcce"), &["trace", "compress"]).arg(&trace).spawn().expect("pcce");
        thread::sleep(Duration::from_millis(60 * round));
        // Both processes.
        run(&mut command("kill", &["-9", "--", &format!("-{}", program.id())])).expect_success();
        let _ = program.wait().expect("it ends");
        assert!(compress.wait().expect("it ends").success());
        let packed = folder.join("trace.zst");
        assert!(events(&packed) > 1000);
        fs::remove_file(packed).unwrap();
    }
}

/// Stopping the compressor leaves two traces, each of which can be read. The program goes on unharmed.
#[test]
fn compressing_can_be_stopped() {
    let folder = work_folder("trace-compress/stopped");
    let (trace, packed) = (folder.join("trace"), folder.join("trace.zst"));
    for signal in ["-TERM", "-HUP"] {
        let mut program = start(&trace, "20000", &[]);
        let mut compress = command(artifact("pcce"), &["trace", "compress"]);
        let compress = compress.arg(&trace).stderr(Stdio::piped()).spawn().expect("pcce");
        thread::sleep(Duration::from_millis(200));
        run(&mut command("kill", &[signal, &compress.id().to_string()])).expect_success();
        let stopped = compress.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&stopped.stderr);
        assert!(stopped.status.code() == Some(2) && said.contains("compressing was stopped"), "{said}");
        assert!(program.try_wait().expect("a child").is_none(), "the program was too fast for this test");
        // Both processes.
        run(&mut command("kill", &["-9", "--", &format!("-{}", program.id())])).expect_success();
        let _ = program.wait().expect("it ends");
        for file in [&packed, &trace] {
            // All that can be compared is right.
            let _ = events(file);
            let report = pcce(&["report"], &[busy(), file]);
            let is_said = report.status == 2 && report.stderr.contains("something is missing");
            let count =
                report.stdout.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or_default();
            assert!(is_said && count > 1000, "{}", report.describe());
        }
        fs::remove_file(&trace).unwrap();
        fs::remove_file(&packed).unwrap();
    }
    // If no space was given back, the file is as before.
    let mut program = start(&trace, "20", &[]);
    assert!(program.wait().expect("it ends").success());
    let before = events(&trace);
    let mut compress = command(artifact("pcce"), &["trace", "compress"]).arg(&trace).spawn().expect("pcce");
    let _ = run(&mut command("kill", &["-TERM", &compress.id().to_string()]));
    let _ = compress.wait().expect("it ends");
    assert_eq!(events(if trace.exists() { &trace } else { &packed }), before);
}

#[test]
fn a_ring_is_compressed_when_the_program_has_ended() {
    let folder = work_folder("trace-compress/ring");
    let (trace, packed) = (folder.join("trace"), folder.join("trace.zst"));
    let mut program = start(&trace, "300", &[("PCCE_TRACE_RING", "256K")]);
    let refused = pcce(&["compress"], &[&trace]);
    assert!(refused.status == 2 && refused.stderr.contains("keeps a ring in it"), "{}", refused.describe());
    assert!(trace.exists() && !packed.exists());
    assert!(program.wait().expect("it ends").success());
    let before = pcce(&["show"], &[busy(), &trace]);
    let _ = pcce(&["compress"], &[&trace]).expect_success();
    let after = pcce(&["show"], &[busy(), &packed]);
    assert_eq!((before.status, &before.stdout), (after.status, &after.stdout));
}

#[test]
fn what_is_no_trace_is_left_alone() {
    let folder = work_folder("trace-compress/others");
    let (other, trace, packed) = (folder.join("other"), folder.join("trace"), folder.join("trace.zst"));
    fs::write(&other, "text\n").unwrap();
    let refused = pcce(&["compress"], &[&other]);
    assert!(refused.status == 2 && refused.stderr.contains("this is no trace"), "{}", refused.describe());
    assert!(other.exists());
    assert!(start(&trace, "2", &[]).wait().expect("it ends").success());
    fs::write(&packed, "mine\n").unwrap();
    let refused = pcce(&["compress"], &[&trace]);
    assert!(refused.status == 2 && refused.stderr.contains("File exists"), "{}", refused.describe());
    assert!(trace.exists() && fs::read(&packed).unwrap() == b"mine\n");
    fs::remove_file(&packed).unwrap();
    let _ = pcce(&["compress"], &[&trace]).expect_success();
    let again = pcce(&["compress"], &[&packed]);
    assert!(again.status == 2 && again.stderr.contains("compressed already"), "{}", again.describe());

    // Without its table of contents, or damaged: no event appears that was not there.
    let bytes = fs::read(&packed).unwrap();
    fs::write(&packed, &bytes[..bytes.len() - 20]).unwrap();
    let cut = pcce(&["show"], &[busy(), &packed]);
    assert!(cut.status == 2 && cut.stderr.contains("`zstd -d`"), "{}", cut.describe());
    let (mut read, tried) = (0, if all_cases() { 300 } else { 100 });
    for at in (0..bytes.len()).step_by(bytes.len() / tried + 1) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let Ok(file) = TraceFile::from_bytes(damaged) else { continue };
        let programs = match Programs::load(&[&file], busy(), &[], &[]) {
            Ok(programs) => programs,
            // The name of the program is damaged.
            Err(TablesError { cause: TablesCause::OtherBuild { .. }, .. }) => continue,
            Err(error) => panic!("byte {at}: {error}"),
        };
        let reader = Reader::new(&file, &programs);
        let checked = check(&reader, &file.streams).expect("it is in memory");
        assert_eq!(checked.streams.mismatches + checked.chunks.mismatches, 0, "byte {at}: {checked:?}");
        read += 1;
    }
    assert!(read > tried / 3, "{read}");
}
