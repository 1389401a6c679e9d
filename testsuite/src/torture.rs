//! Crash torture: a program is killed by SIGSEGV at random instructions, and each time its crash report must agree with
//! gdb's backtrace of the core file.
//!
//! One run of the program is interrupted again and again: after a random time, and a random number of single steps. At
//! each point a copy of the process (a `clone` that is put into it) gets the signal and dies of it, with report and
//! core file; the original goes on. gdb reads many core files in one go.

mod agreement;
mod backtrace;
mod run;
mod victim;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use self::agreement::{Transfers, agreement};
use self::backtrace::{backtraces, chain};
pub use self::victim::Victim;
use crate::chain::{Frame, decoded, show};
use crate::{artifact, command, run_with_input};

/// Core files that are kept at a time.
const BATCH: usize = 100;
/// Every n-th core file is read by `pcce core`, too, which takes as long as a hundred others.
const CORES: usize = 25;
/// A file in a program's folder: the fingerprint of its build.
const BUILT: &str = "built";
/// A file in the same folder: the mismatches.
const WRONG: &str = "wrong.txt";

#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Points at which the program was killed.
    pub points: usize,
    pub instructions: BTreeSet<u64>,
    /// Points in code that is not instrumented.
    pub outside: usize,
    /// Calls in all chains.
    pub calls: usize,
    /// Inlined ones among them.
    pub inlined: usize,
    /// Points at which gdb's line of a call differed, and LLVM's symboliser agrees with the report, or the debug
    /// information has no line there.
    pub symboliser: usize,
    /// Points at which the report has functions that left by a tail call, which gdb cannot see.
    pub tail: usize,
    /// Points in the linker's stubs, which have no unwind tables: compared with gdb's backtrace after the stub.
    pub stubs: usize,
    /// Points before or after `main`, where there is no call to compare.
    pub outside_main: usize,
    /// Core files that `pcce core` has read, with the same chain.
    pub cores: usize,
    /// Points where the report is missing or wrong.
    pub wrong: Vec<String>,
}

/// Makes a core file of a running process, with gdb.
pub fn core_of(process: u32, core: &Path) -> Result<()> {
    let save = format!("generate-core-file {}", core.display());
    let output = Command::new("gdb")
        .args(["-nx", "-q", "-batch", "-ex", "set debug-file-directory /nonexistent", "-ex", &save])
        .args(["-p", &process.to_string()])
        .output();
    crate::checked("gdb", output)?;
    ensure!(core.exists(), "gdb has written no core file");
    Ok(())
}

/// Compares the threads of a core file in `pcce core` and in gdb. Returns how many threads agree, and descriptions of
/// the others.
pub fn compare_core(program: &Path, core: &Path, folder: &Path) -> Result<(usize, Vec<String>)> {
    let gdb = backtraces(program, &[core.to_owned()], folder)?.pop().context("a backtrace")?;
    let mut pcce = command(artifact("pcce"), &["core", "--format", "json"]);
    let output = run_with_input(pcce.arg(program).arg(core), "").expect_success();
    let document: serde_json::Value = serde_json::from_str(&output.stdout)?;
    let threads = document["threads"].as_array().context("threads")?;
    ensure!(threads.len() == gdb.threads.len(), "{} threads, and {}", threads.len(), gdb.threads.len());
    let (mut agreed, mut wrong) = (0, Vec::new());
    for thread in threads {
        let gdb = gdb.threads.iter().find(|t| thread["thread"] == t.thread).context("an unknown thread")?;
        let mut found = decoded(&thread.to_string());
        found.retain(|f| !matches!(f, Frame::Tail(_)));
        // The creation of the thread is not on its stack.
        found.truncate(
            found.iter().position(|f| *f == Frame::Boundary("thread".to_owned())).unwrap_or(found.len()),
        );
        let mut expected = chain(&gdb.frames, "main");
        for chain in [&mut found, &mut expected] {
            if chain.len() > 1 && chain.last() == Some(&Frame::Plain) {
                chain.pop();
            }
        }
        // Only the names are compared: the torture compares lines.
        for frame in found.iter_mut().chain(&mut expected) {
            if let Frame::Call(_, line, _) = frame {
                *line = 0;
            }
        }
        let by_jumps = || -> Result<bool> {
            Ok(agreement(&found, &expected, &expected, &Transfers::of(program)?).is_some())
        };
        if found == expected || by_jumps()? {
            agreed += 1;
        } else {
            wrong.push(format!("thread {}\n  gdb  {}\n  pcce {}", gdb.thread, show(&expected), show(&found)));
        }
    }
    Ok((agreed, wrong))
}

/// Core files of `xz` with four threads at random times: all threads are compared with gdb's backtraces. Returns how
/// many threads agree, and descriptions of the others.
pub fn threads(cores: usize, seed: u64, mut progress: impl FnMut(usize)) -> Result<(usize, Vec<String>)> {
    let victim = Victim::build("xz", "lto")?;
    let folder = victim.run_folder()?;
    let mut random = StdRng::seed_from_u64(seed);
    let (mut agreed, mut wrong) = (0, Vec::new());
    for _ in 0..cores {
        let mut child = Command::new(&victim.executable)
            .args(["-T4", "--block-size=1MiB", "-9", "-c"])
            .arg(victim.inputs.join("text"))
            .stdout(Stdio::null())
            .spawn()?;
        std::thread::sleep(Duration::from_millis(random.random_range(50..1500)));
        let core = folder.join("core");
        let made = core_of(child.id(), &core);
        let _ = child.kill();
        child.wait()?;
        made?;
        let (threads, others) = compare_core(&victim.executable, &core, &folder)?;
        agreed += threads;
        wrong.extend(others);
        progress(wrong.len());
    }
    Ok((agreed, wrong))
}
