//! `pcce trace collect` on a real Slurm, with three nodes on this host (`testsuite/slurm/cluster`), and with GNU
//! parallel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::pcce_trace;
use pcce_testsuite::{Output, artifact, command, repository, run, source, work_folder};

/// A program that does the same in each run, and takes as many seconds as its argument says.
const SLOW: &str = source!("slurm/slow.c");

fn program(folder: &Path) -> PathBuf {
    let (source, program) = (folder.join("slow.c"), folder.join("slow"));
    fs::write(&source, SLOW).expect("a file");
    let mut build =
        command(artifact("pcce-clang"), &["--pcce-trace", "--pcce-keep", "--pcce-verify", "-O1", "-g"]);
    run(build.arg(&source).arg("-o").arg(&program)).expect_success();
    program
}

/// The cluster runs until this is dropped.
struct Cluster {
    folder: PathBuf,
}

impl Cluster {
    fn start(name: &str) -> Self {
        let cluster = Self { folder: work_folder(name) };
        run(cluster.script("start").arg(&cluster.folder)).expect_success();
        cluster
    }

    fn script(&self, what: &str) -> Command {
        let mut script = command(repository().join("testsuite/slurm/cluster"), &[what]);
        // The daemons keep running, and must not hold the pipes of this process.
        script.stdout(Stdio::null());
        script
    }

    fn conf(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    fn collect(&self, parts: u32, options: &[&str], to: &Path, program: &[&str]) -> Command {
        let mut collect = command(artifact("pcce"), &["trace", "collect", "--engine", "slurm", "--parts"]);
        collect.arg(parts.to_string()).args(options).arg("-o").arg(to).arg("--").args(program);
        collect.env("SLURM_CONF", self.conf()).env("PCCE_VERIFY_REPORT", to.with_extension("verify"));
        collect
    }

    /// Runs a command of Slurm. Returns its output.
    fn ask(&self, words: &[&str]) -> String {
        run(command(words[0], &words[1..]).env("SLURM_CONF", self.conf())).stdout
    }

    /// Kills a node, with all that runs on it.
    fn kill_node(&self, number: u32) {
        run(self.script("kill").arg(&self.folder).arg(number.to_string())).expect_success();
    }

    fn start_node(&self, number: u32) {
        let mut node = command("slurmd", &["-N", &format!("node{number}")]);
        run(node.env("SLURM_CONF", self.conf()).stdout(Stdio::null())).expect_success();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.script("stop").arg(&self.folder).status();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn check(program: &Path, trace: &Path) {
    let checked = pcce_trace(&["check"], program, trace).expect_success();
    assert!(checked.stdout.contains(", 0 chunks do not match"), "{}", checked.stdout);
    let events: u64 = checked.stdout.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    assert!(events > 100_000, "{events}");
}

/// A whole collection on three nodes.
#[test]
fn a_job_array_collects_a_trace() {
    let cluster = Cluster::start("slurm/short");
    let folder = work_folder("slurm-short");
    let program = program(&folder);
    let to = folder.join("trace");
    let dry = run(&mut cluster.collect(4, &["--dry-run"], &to, &[text(&program)])).expect_success();
    assert!(dry.stdout.contains("--array=1,2,3,4") && dry.stdout.contains("--no-requeue"), "{}", dry.stdout);
    let collected = run(&mut cluster.collect(4, &[], &to, &[text(&program)])).expect_success();
    assert!(collected.stderr.contains("from 4 runs"), "{}", collected.stderr);
    check(&program, &to);
}

/// One of three nodes is killed while it runs a part. The command reports it, and the same command continues.
#[test]
#[ignore = "takes minutes; `make slurm` runs it"]
fn a_killed_node_is_no_end() {
    let rounds: u32 = std::env::var("PCCE_SLURM_ROUNDS").map_or(1, |n| n.parse().expect("a number"));
    let cluster = Cluster::start("slurm/killed");
    let folder = work_folder("slurm-killed");
    let program = program(&folder);
    for round in 0..rounds {
        let node = 1 + round % 3;
        let to = folder.join(format!("trace{round}"));
        let words = [text(&program), "8"];
        let mut first = cluster.collect(6, &[], &to, &words);
        let child = first.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pcce");
        let name = format!("node{node}");
        let is_running = || cluster.ask(&["squeue", "-h", "-r", "-t", "R", "-w", &name, "-o", "%A"]);
        let begun = Instant::now();
        while is_running().trim().is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no part runs on {name}");
            thread::sleep(Duration::from_millis(100));
        }
        thread::sleep(Duration::from_secs(2));
        cluster.kill_node(node);
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        eprintln!("round {round}, {name} killed: {said}");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no result") && said.contains("the same command"), "{said}");
        cluster.start_node(node);
        let second: Output = run(&mut cluster.collect(6, &[], &to, &words)).expect_success();
        assert!(second.stderr.contains("are there already"), "{}", second.stderr);
        eprintln!("then: {}", second.stderr);
        check(&program, &to);
    }
}

/// A cancelled task is reported, and the same command runs it again.
#[test]
#[ignore = "takes minutes; `make slurm` runs it"]
fn a_cancelled_task_is_run_again() {
    let cluster = Cluster::start("slurm/cancelled");
    let folder = work_folder("slurm-cancelled");
    let program = program(&folder);
    let to = folder.join("trace");
    let words = [text(&program), "6"];
    let mut first = cluster.collect(3, &[], &to, &words);
    let child = first.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pcce");
    let job = folder.join("trace.parts/slurm-job");
    let begun = Instant::now();
    while cluster.ask(&["squeue", "-h", "-r", "-t", "R", "-o", "%A"]).lines().count() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the parts do not run");
        thread::sleep(Duration::from_millis(100));
    }
    let job = fs::read_to_string(&job).expect("a number");
    let _ = cluster.ask(&["scancel", &format!("{job}_2")]);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("part 2 has no result"), "{said}");
    let second = run(&mut cluster.collect(3, &[], &to, &words)).expect_success();
    assert!(second.stderr.contains("2 of 3 parts are there already"), "{}", second.stderr);
    check(&program, &to);
}

#[test]
fn gnu_parallel_collects_a_trace() {
    let folder = work_folder("slurm-parallel");
    let program = program(&folder);
    let to = folder.join("a trace");
    let mut collect =
        command(artifact("pcce"), &["trace", "collect", "--engine", "parallel", "--parts", "5"]);
    collect.arg("-o").arg(&to).arg("--").arg(&program);
    let collected = run(collect.env("PCCE_VERIFY_REPORT", folder.join("verify"))).expect_success();
    assert!(collected.stderr.contains("from 5 runs"), "{}", collected.stderr);
    check(&program, &to);
}
