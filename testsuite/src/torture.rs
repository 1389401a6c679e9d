//! Crash torture: a program is killed by SIGSEGV at random instructions, and its crash report must say each time what gdb says of
//! the core file.
//!
//! One run of the program is interrupted again and again: after a random time, and a random number of single steps. At each
//! point a copy of the process (a `clone` that is put into it) gets the signal and dies of it, with report and core file; the
//! original goes on. gdb reads many core files in one go.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::libc;
use nix::sys::ptrace;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use object::{Object as _, ObjectSection as _};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::Deserialize;

use crate::chain::{Frame, add, decoded, is_push_thunk, show, symbolise};
use crate::evaluation::build::Workshop;
use crate::evaluation::inputs;
use crate::evaluation::program::{Program, Variant, workloads};
use crate::{artifact, command, llvm, repository, run_with_input, target};

/// So many core files are kept at a time.
const BATCH: usize = 100;
/// Each so many-th core file is read by `pcce core`, too: that takes as long as a hundred others.
const CORES: usize = 25;
/// In a program's folder: what it was built with.
const BUILT: &str = "built";
/// There, too: the mismatches.
const WRONG: &str = "wrong.txt";

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How often the program was killed.
    pub points: usize,
    /// Distinct instructions.
    pub instructions: BTreeSet<u64>,
    /// Points in code that is not instrumented.
    pub outside: usize,
    /// Calls in the chains, all together, and how many of them were inlined.
    pub calls: usize,
    /// See `calls`.
    pub inlined: usize,
    /// Points at which gdb's line of a call differed, and LLVM's symboliser agrees with the report, or the debug information has
    /// no line there.
    pub symboliser: usize,
    /// Points at which the report has functions that left by a tail call, which gdb cannot see.
    pub tail: usize,
    /// Points in the linker's stubs, which have no unwind tables: compared with gdb's backtrace behind the stub.
    pub stubs: usize,
    /// Points before or behind `main`, where there is no call to compare.
    pub outside_main: usize,
    /// Core files that `pcce core` has read, with the same chain.
    pub cores: usize,
    /// Where the report is missing or says something else.
    pub wrong: Vec<String>,
}

/// A backtrace that gdb printed.
#[derive(Debug, Deserialize)]
pub struct Backtrace {
    /// All threads.
    pub threads: Vec<BacktraceThread>,
}

/// One thread of it.
#[derive(Debug, Deserialize)]
pub struct BacktraceThread {
    /// The kernel's number.
    pub thread: i32,
    /// Innermost first.
    pub frames: Vec<BacktraceFrame>,
}

/// A frame of it.
#[derive(Debug, Deserialize)]
pub struct BacktraceFrame {
    /// Whether it is the innermost one, or was interrupted by a signal: not at a call.
    #[serde(default)]
    exact: bool,
    function: Option<String>,
    line: u64,
    inlined: bool,
    signal: bool,
    plain: bool,
    pc: u64,
}

/// gdb's backtraces of core files.
///
/// # Errors
/// If gdb fails.
pub fn backtraces(program: &Path, cores: &[PathBuf], folder: &Path) -> Result<Vec<Backtrace>> {
    let (list, out) = (folder.join("list"), folder.join("backtraces"));
    let names: String = cores.iter().map(|core| format!("{}\n", core.display())).collect();
    fs::write(&list, names)?;
    let script = repository().join("testsuite/crash/backtrace.py");
    let output = Command::new("gdb")
        .args(["-nx", "-q", "-batch"])
        // Reading those of the C library again and again takes longer than all else.
        .args(["-ex", "set debug-file-directory /nonexistent"])
        .arg(program)
        .arg("-x")
        .arg(script)
        .env("CORES", &list)
        .env("BACKTRACES", &out)
        .output();
    crate::checked("gdb", output)?;
    let text = fs::read_to_string(&out).context("gdb has printed nothing; is it built with Python?")?;
    let mut rows: Vec<Backtrace> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    for thread in rows.iter_mut().flat_map(|row| &mut row.threads) {
        thread.frames.retain(|frame| !frame.function.as_deref().is_some_and(is_push_thunk));
    }
    ensure!(rows.len() == cores.len(), "gdb has read {} of {} core files", rows.len(), cores.len());
    Ok(rows)
}

/// The chain of a backtrace; it ends with `outermost`.
#[must_use]
pub fn chain(frames: &[BacktraceFrame], outermost: &str) -> Vec<Frame> {
    let mut chain = Vec::new();
    for frame in frames {
        let function = frame.function.clone().unwrap_or_default();
        if frame.signal {
            chain.push(Frame::Boundary("signal".to_owned()));
        } else if frame.plain {
            add(&mut chain, Frame::Plain);
        } else {
            let last = function == outermost && !frame.inlined;
            chain.push(Frame::Call(function, frame.line, frame.inlined));
            if last {
                break;
            }
        }
    }
    chain
}

/// The addresses of a backtrace's functions; what a return address stands for ends in front of it.
fn lookups(frames: &[BacktraceFrame]) -> impl Iterator<Item = (u64, bool)> + '_ {
    let physical = frames.iter().filter(|f| !f.inlined);
    physical.map(|frame| (frame.pc - u64::from(!frame.exact), frame.plain))
}

/// The chain as LLVM's symboliser sees gdb's addresses.
fn by_symboliser(names: &HashMap<u64, Vec<Frame>>, frames: &[BacktraceFrame]) -> Vec<Frame> {
    let mut chain = Vec::new();
    for (address, plain) in lookups(frames) {
        let found = names.get(&address).filter(|_| !plain).cloned().unwrap_or_else(|| vec![Frame::Plain]);
        let last = found.last().is_some_and(|f| matches!(f, Frame::Call(name, ..) if name == "main"));
        found.into_iter().for_each(|f| add(&mut chain, f));
        if last {
            break;
        }
    }
    chain
}

/// Direct jumps and calls from one function to the beginning of another, and the functions that have ones through pointers.
#[derive(Debug, Default)]
struct Transfers {
    jumps: HashSet<(String, String)>,
    calls: HashSet<(String, String)>,
    jumps_through_pointers: HashSet<String>,
    calls_through_pointers: HashSet<String>,
}

impl Transfers {
    /// Those of a program, by LLVM's disassembler.
    fn of(executable: &Path) -> Result<Self> {
        let words = ["-d", "--no-show-raw-insn", "--no-leading-addr"];
        let output = Command::new(llvm("llvm-objdump")).args(words).arg(executable).output();
        let text = crate::checked("llvm-objdump", output)?.stdout;
        let mut transfers = Self::default();
        let mut function = String::new();
        for line in String::from_utf8_lossy(&text).lines() {
            if let Some(name) = line.strip_prefix('<').and_then(|line| line.strip_suffix(">:")) {
                name.clone_into(&mut function);
                continue;
            }
            let mut words = line.split_whitespace();
            let (instruction, target) = (words.next().unwrap_or(""), words.last().unwrap_or(""));
            if target.starts_with('*') {
                let set = match instruction {
                    "callq" | "call" => &mut transfers.calls_through_pointers,
                    _ => &mut transfers.jumps_through_pointers,
                };
                set.insert(function.clone());
                continue;
            }
            let Some(target) = target.strip_prefix('<').and_then(|t| t.strip_suffix('>')) else { continue };
            let pair = (function.clone(), target.to_owned());
            match instruction {
                "callq" | "call" => transfers.calls.insert(pair),
                _ if instruction.starts_with('j') => transfers.jumps.insert(pair),
                _ => false,
            };
        }
        Ok(transfers)
    }

    /// Whether the first function may leave by a jump to the second one.
    fn jump(&self, from: &str, to: &str) -> bool {
        self.jumps_through_pointers.contains(from)
            || self.jumps.contains(&(from.to_owned(), to.to_owned()))
            || thunks(&self.jumps, from).any(|thunk| self.call(thunk, to))
    }

    /// Whether the function may leave by a jump to one that pushes for it.
    fn jumps_to_thunk(&self, from: &str) -> bool {
        thunks(&self.jumps, from).next().is_some()
    }

    /// Whether the function may leave by a jump to one of a shared library.
    fn jumps_out(&self, from: &str) -> bool {
        self.jumps_through_pointers.contains(from)
            || self.jumps.iter().any(|(function, target)| function == from && target.ends_with("@plt"))
    }

    /// Whether the first function may call the second one.
    fn call(&self, from: &str, to: &str) -> bool {
        self.calls_through_pointers.contains(from)
            || self.calls.contains(&(from.to_owned(), to.to_owned()))
            || thunks(&self.calls, from).any(|thunk| self.call(thunk, to))
    }
}

/// What a function transfers control to that pushes for it.
fn thunks<'a>(transfers: &'a HashSet<(String, String)>, from: &'a str) -> impl Iterator<Item = &'a str> {
    transfers.iter().filter(move |(function, to)| function == from && is_push_thunk(to)).map(|(_, to)| &**to)
}

/// How a chain agrees with gdb's backtrace.
#[derive(Clone, Copy, Default)]
struct Agreement {
    /// Lines are those of the symboliser, or the debug information has none.
    lines: bool,
    /// The chain has functions in it that have left by a tail call.
    tail: bool,
}

/// Whether a chain is that of gdb's backtrace. The line of a call may be that of LLVM's symboliser, or another one where the debug
/// information has none: the compiler has made one call of several, and only the site tells which of them it was. The id
/// remembers functions that have left by a tail call; there must be such a jump, and a call of the function.
fn agreement(
    found: &[Frame],
    gdb: &[Frame],
    symboliser: &[Frame],
    transfers: &Transfers,
) -> Option<Agreement> {
    let (gdb, symboliser) = (groups(gdb), groups(symboliser));
    let mut found = groups(found).into_iter();
    let mut agreement = Agreement::default();
    // The last function that has a frame or had one.
    let mut inner: Option<&str> = None;
    // It is code that is not instrumented.
    let mut plain = false;
    if gdb.len() != symboliser.len() {
        return None;
    }
    for (gdb, symboliser) in gdb.into_iter().zip(symboliser) {
        let mut gone = false;
        loop {
            let group = found.next()?;
            let owner = owner(group);
            if let Some(lines) = same(group, gdb, symboliser) {
                agreement.lines |= lines;
                if gone && !transfers.call(owner?, inner?) {
                    return None;
                }
                (inner, plain) = (owner, *group == [Frame::Plain]);
                break;
            }
            let jumps = match inner {
                Some(inner) => transfers.jump(owner?, inner),
                None if plain => transfers.jumps_out(owner?),
                // Those are not shown.
                None => transfers.jumps_to_thunk(owner?),
            };
            if !jumps {
                return None;
            }
            (inner, gone, agreement.tail) = (owner, true, true);
        }
    }
    found.next().is_none().then_some(agreement)
}

/// The parts of a chain that are one function of the machine code each, with what is inlined there.
fn groups(chain: &[Frame]) -> Vec<&[Frame]> {
    chain.split_inclusive(|frame| !matches!(frame, Frame::Call(_, _, true))).collect()
}

/// The function of a part; None if it is a boundary.
fn owner(group: &[Frame]) -> Option<&str> {
    match group.last() {
        Some(Frame::Call(name, ..) | Frame::Tail(name)) => Some(name),
        _ => None,
    }
}

/// Whether the parts agree, and if so, whether there is a line that is not gdb's.
fn same(found: &[Frame], gdb: &[Frame], symboliser: &[Frame]) -> Option<bool> {
    if found == gdb {
        return Some(false);
    }
    // gdb knows of jumps, too, where the debug information lists them.
    if let ([Frame::Tail(name)], [.., Frame::Call(gone, ..)]) = (found, gdb) {
        return (name == gone).then_some(false);
    }
    // gdb takes what is inlined in a function that has nothing else to do for the function itself.
    if let ([inner @ .., Frame::Call(name, line, false)], Some((Frame::Call(a, own, true), rest))) =
        (gdb, found.get(..gdb.len()).and_then(<[Frame]>::split_last))
        && found == symboliser
        && (name, line) == (a, own)
        && inner == rest
    {
        return Some(true);
    }
    // A call that was made of several has lost what was inlined around them, too.
    if let (Some(Frame::Call(a, ..)), Some(Frame::Call(b, ..)), [Frame::Call(c, 0, false)]) =
        (found.last(), gdb.last(), symboliser)
    {
        return (a == b && a == c).then_some(true);
    }
    let all = found.len() == gdb.len()
        && found.len() == symboliser.len()
        && found.iter().zip(gdb).zip(symboliser).all(|frames| match frames {
            ((Frame::Call(name, line, inlined), Frame::Call(a, own, b)), Frame::Call(c, other, d)) => {
                (name, inlined) == (a, b)
                    && (name, inlined) == (c, d)
                    && (line == own || line == other || *other == 0)
            }
            ((found, gdb), _) => found == gdb,
        });
    all.then_some(true)
}

/// A program that is tortured. When it is dropped, its folder loses all but the executable and the list of mismatches: a few core
/// files, and the sources, take gigabytes.
pub struct Victim {
    /// Its name.
    pub name: String,
    /// `target/torture/NAME`.
    folder: PathBuf,
    executable: PathBuf,
    /// Where its code is, from and to.
    code: (u64, u64),
    /// The linker's stubs.
    stubs: Vec<(u64, u64)>,
    transfers: Transfers,
    commands: String,
    inputs: PathBuf,
}

impl Victim {
    /// Builds a program of the evaluation, optimised, as a whole.
    ///
    /// # Errors
    /// If it cannot be built.
    pub fn build(name: &str) -> Result<Self> {
        let root = target().join("torture").join(name);
        let program = Program::named(name)?;
        let workshop = Workshop::new(root.clone())?;
        let variant = Variant::named("lto", &target().join("release"))?;
        let executable = root.join("executables").join(name).join(variant.folder_name());
        let stamp = root.join(BUILT);
        let version = workshop.compiler_fingerprint(&variant)?;
        if !executable.exists() || !fs::read_to_string(&stamp).is_ok_and(|found| found == version) {
            let _ = fs::remove_file(&stamp);
            let sources = workshop.sources(&program, &variant)?;
            ensure!(workshop.build(&program, &sources, &variant, false)?.executable == executable);
            fs::write(&stamp, version)?;
        }
        let data = fs::read(&executable)?;
        let file = object::File::parse(&*data)?;
        let range = |s: object::Section<'_, '_>| (s.address(), s.address() + s.size());
        let code = file.sections().filter(|s| s.kind() == object::SectionKind::Text).map(range);
        let code = code.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).context("a program without code")?;
        let stubs = file.sections().filter(|s| s.name().is_ok_and(|name| name.starts_with(".plt")));
        Ok(Self {
            code,
            stubs: stubs.map(range).collect(),
            transfers: Transfers::of(&executable)?,
            name: name.to_owned(),
            folder: root.clone(),
            executable,
            commands: program.workload.small,
            inputs: inputs::folder(&root)?,
        })
    }

    /// An empty folder for a run.
    fn run_folder(&self) -> Result<PathBuf> {
        let folder = self.folder.join("run");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Writes the list of mismatches.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_wrong(&self, list: &str) -> Result<()> {
        Ok(fs::write(self.folder.join(WRONG), list)?)
    }

    /// Kills it at so many points.
    ///
    /// # Errors
    /// If the machine does not let it: no tracing, no core files.
    pub fn torture(&self, points: usize, seed: u64, mut progress: impl FnMut(&Outcome)) -> Result<Outcome> {
        let folder = self.run_folder()?;
        let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern")?;
        ensure!(
            !pattern.starts_with('|') && !pattern.contains('/'),
            "core files do not go to the folder of the program here (/proc/sys/kernel/core_pattern is {}); set it to `core`",
            pattern.trim()
        );
        let (_, most) = getrlimit(Resource::RLIMIT_CORE)?;
        setrlimit(Resource::RLIMIT_CORE, most, most)?;
        let mut outcome = Outcome::default();
        let mut random = StdRng::seed_from_u64(seed);
        let mut run: Option<Run> = None;
        while outcome.points < points {
            let mut deaths = Vec::new();
            while deaths.len() < BATCH.min(points - outcome.points) {
                let mut current = match run.take() {
                    Some(run) => run,
                    None => Run::start(self, &folder)?,
                };
                if let Some(stop) = current.stop(&mut random)? {
                    deaths.push(current.kill_copy(
                        stop,
                        &self.stubs,
                        &folder.join(format!("kept.{}", deaths.len())),
                    )?);
                    run = Some(current);
                }
            }
            self.judge(&deaths, &folder, &mut outcome)?;
            progress(&outcome);
        }
        Ok(outcome)
    }

    fn judge(&self, deaths: &[Death], folder: &Path, outcome: &mut Outcome) -> Result<()> {
        let cores: Vec<PathBuf> = deaths.iter().map(|d| d.core.clone()).collect();
        let gdb = backtraces(&self.executable, &cores, folder)?;
        let behind: Vec<PathBuf> = deaths.iter().filter_map(|d| d.behind.clone()).collect();
        let gdb_behind = match behind[..] {
            [] => Vec::new(),
            _ => backtraces(&self.executable, &behind, folder)?,
        };
        // Where there is no token, something that is none stands for it.
        let token = |d: &Death| if d.token.is_empty() { "0".to_owned() } else { d.token.clone() };
        let tokens: String = deaths.iter().map(|d| token(d) + "\n").collect();
        let mut pcce = command(artifact("pcce"), &["decode", "--format", "json"]);
        let traces = run_with_input(pcce.arg(&self.executable), &tokens).stdout;
        ensure!(traces.lines().count() == deaths.len(), "not every token was decoded");
        let whole = gdb.iter().map(|g| &g.threads[0].frames[..]);
        let callers = gdb_behind.iter().map(|g| &g.threads[0].frames[1..]);
        let addresses = whole.chain(callers).flat_map(lookups).map(|l| l.0);
        let in_program = |a: &u64| self.code.0 <= *a && *a < self.code.1;
        let names = symbolise(&self.executable, &addresses.filter(in_program).collect());
        let mut gdb_behind = gdb_behind.iter();
        for ((death, trace), gdb) in deaths.iter().zip(traces.lines()).zip(&gdb) {
            outcome.points += 1;
            outcome.instructions.insert(death.pc);
            let failed = format!("{{\"frames\":[{{\"kind\":{trace:?}}}]}}");
            let mut found = decoded(if trace.contains("\"frames\":") { trace } else { &failed });
            // Whether there was one is not known.
            found.retain(|f| *f != Frame::Tail(String::new()));
            let mut frames = &gdb.threads[0].frames[..];
            let mut expected = chain(frames, "main");
            let mut second = by_symboliser(&names, frames);
            if let Some(witness) = death.behind.as_ref().and_then(|_| gdb_behind.next()) {
                outcome.stubs += 1;
                frames = &witness.threads[0].frames[1..];
                expected = chain(frames, "main");
                second = by_symboliser(&names, frames);
                for chain in [&mut expected, &mut second] {
                    if chain.first() != Some(&Frame::Plain) {
                        chain.insert(0, Frame::Plain);
                    }
                }
            }
            let is_call = |f: &&Frame| matches!(f, Frame::Call(..));
            outcome.calls += found.iter().filter(is_call).count();
            outcome.inlined += found.iter().filter(|f| matches!(f, Frame::Call(_, _, true))).count();
            outcome.outside += usize::from(found.first() == Some(&Frame::Plain));
            let in_main = |f: &Frame| matches!(f, Frame::Call(name, _, false) if name == "main");
            let wrong = if !death.problem.is_empty() {
                Some(death.problem.clone())
            } else if !expected.last().is_some_and(in_main) && !expected.iter().any(|f| is_call(&f)) {
                outcome.outside_main += 1;
                found.iter().any(|f| is_call(&f)).then(|| "calls outside of main".to_owned())
            } else if let Some(how) = agreement(&found, &expected, &second, &self.transfers) {
                outcome.symboliser += usize::from(how.lines);
                outcome.tail += usize::from(how.tail);
                None
            } else {
                Some("another chain".to_owned())
            };
            if let Some(what) = wrong {
                outcome.wrong.push(format!(
                    "{} at {:#x}: {what}\n  token  {}\n  gdb    {}\n  llvm   {}\n  report {}",
                    self.name,
                    death.pc,
                    death.token,
                    show(&expected),
                    show(&second),
                    show(&found)
                ));
            } else if outcome.points % CORES == 1 {
                let mut pcce = command(artifact("pcce"), &["core", "--format", "json"]);
                let output = run_with_input(pcce.arg(&self.executable).arg(&death.core), "").expect_success();
                let document: serde_json::Value = serde_json::from_str(&output.stdout)?;
                let mut of_core = decoded(&document["threads"][0].to_string());
                of_core.retain(|f| *f != Frame::Tail(String::new()));
                if of_core == found {
                    outcome.cores += 1;
                } else {
                    outcome.wrong.push(format!(
                        "{} at {:#x}: pcce core\n  report {}\n  core   {}",
                        self.name,
                        death.pc,
                        show(&found),
                        show(&of_core)
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let kept = ["executables", BUILT, WRONG];
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if !kept.iter().any(|name| entry.file_name() == *name) {
                let path = entry.path();
                let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
            }
        }
    }
}

/// A copy of the program that was killed.
struct Death {
    pc: u64,
    token: String,
    core: PathBuf,
    /// A core file of the point behind the linker's stub.
    behind: Option<PathBuf>,
    /// What is wrong with the report.
    problem: String,
}

/// A run of the program.
struct Run {
    child: Child,
    pid: Pid,
    report: PathBuf,
    /// The address of a system call instruction.
    syscall: u64,
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Run {
    fn start(victim: &Victim, folder: &Path) -> Result<Self> {
        // On a busy machine a run may have ended before it is traced.
        for _ in 0..10 {
            if let Some(run) = Self::try_start(victim, folder)? {
                return Ok(run);
            }
        }
        bail!("{} did not start", victim.name)
    }

    fn try_start(victim: &Victim, folder: &Path) -> Result<Option<Self>> {
        let report = folder.join("report");
        let child = Command::new("sh")
            .args(["-c", &format!("exec {}", victim.commands)])
            .current_dir(folder)
            .env("EXE", &victim.executable)
            .env("INPUTS", &victim.inputs)
            .env("WORKLOADS", workloads())
            .env("PCCE_CRASH_REPORT", &report)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pid = Pid::from_raw(child.id() as i32);
        let name = fs::canonicalize(&victim.executable)?;
        let mut run = Self { child, pid, report, syscall: 0 };
        // Up to the program's own code: the shell is gone, the loader is done.
        for _ in 0..1000 {
            std::thread::sleep(Duration::from_millis(1));
            if !fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == name) {
                continue;
            }
            // Not before the handler is installed.
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
            if caught >> (libc::SIGILL - 1) & 1 == 0 {
                continue;
            }
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            if let Some(library) = maps.lines().find(|l| l.contains("/libc.so") && l.contains(" r-xp ")) {
                std::thread::sleep(Duration::from_millis(2));
                let options = ptrace::Options::PTRACE_O_TRACEFORK | ptrace::Options::PTRACE_O_EXITKILL;
                let found = run.find_syscall(library).and_then(|at| {
                    ptrace::seize(pid, options).context("tracing the program")?;
                    Ok(at)
                });
                return match found {
                    Ok(at) => {
                        run.syscall = at;
                        Ok(Some(run))
                    }
                    Err(_) if run.child.try_wait()?.is_some() => Ok(None),
                    Err(error) => Err(error),
                };
            }
        }
        Ok(None)
    }

    fn find_syscall(&self, mapping: &str) -> Result<u64> {
        let (from, rest) = mapping.split_once('-').context("a mapping")?;
        let (to, _) = rest.split_once(' ').context("a mapping")?;
        let (from, to) = (u64::from_str_radix(from, 16)?, u64::from_str_radix(to, 16)?);
        let mut memory = fs::File::open(format!("/proc/{}/mem", self.pid))?;
        memory.seek(SeekFrom::Start(from))?;
        let mut code = vec![0; (to - from) as usize];
        memory.read_exact(&mut code)?;
        let at = code.windows(2).position(|w| w == [0x0f, 0x05]).context("libc makes no system call")?;
        Ok(from + at as u64)
    }

    /// Stops the program at a random point; None if it has ended.
    fn stop(&mut self, random: &mut StdRng) -> Result<Option<libc::user_regs_struct>> {
        loop {
            std::thread::sleep(Duration::from_micros(random.random_range(20..1500)));
            if ptrace::interrupt(self.pid).is_err() || !self.stopped()? {
                return Ok(None);
            }
            for _ in 0..random.random_range(0..40) {
                ptrace::step(self.pid, None)?;
                if !self.stopped()? {
                    return Ok(None);
                }
            }
            let registers = ptrace::getregs(self.pid)?;
            // A system call that is to be started again.
            if (-600..0).contains(&(registers.rax as i64)) && registers.orig_rax as i64 >= 0 {
                ptrace::cont(self.pid, None)?;
                continue;
            }
            return Ok(Some(registers));
        }
    }

    /// Waits for the next stop. False if the program has ended.
    fn stopped(&self) -> Result<bool> {
        match waitpid(self.pid, Some(WaitPidFlag::__WALL))? {
            WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..) => Ok(true),
            WaitStatus::Exited(_, 0) => Ok(false),
            other => bail!("the program ended: {other:?}"),
        }
    }

    /// Makes a copy of the stopped program, and kills it. The program goes on.
    fn kill_copy(
        &mut self,
        registers: libc::user_regs_struct,
        stubs: &[(u64, u64)],
        core: &Path,
    ) -> Result<Death> {
        let _ = fs::remove_file(&self.report);
        let mut problem = self.copy_and_kill(registers, core)?;
        let report = fs::read_to_string(&self.report).unwrap_or_default();
        let line = |key: &str| report.lines().find_map(|line| line.strip_prefix(key)).unwrap_or("");
        if !line("signal: ").starts_with("SIGSEGV (11)") || line("end: ") != "complete" {
            problem = format!("{problem} the report is not whole: {report:?}");
        }
        // The linker's stubs have no unwind tables, what they jump to has.
        let mut behind = None;
        let in_stub = |at: u64| stubs.iter().any(|(from, to)| (*from..*to).contains(&at));
        if in_stub(registers.rip) {
            let mut registers = registers;
            while in_stub(registers.rip) {
                ptrace::step(self.pid, None)?;
                ensure!(self.stopped()?, "the program ended in a stub");
                registers = ptrace::getregs(self.pid)?;
            }
            let core =
                core.with_extension(format!("{}.behind", core.extension().unwrap_or_default().display()));
            self.copy_and_kill(registers, &core)?;
            behind = Some(core);
        }
        ptrace::cont(self.pid, None)?;
        let (pc, token) = (registers.rip, line("context: ").to_owned());
        Ok(Death { pc, token, core: core.to_owned(), behind, problem })
    }

    /// Returns what is wrong with the death.
    fn copy_and_kill(&self, registers: libc::user_regs_struct, core: &Path) -> Result<String> {
        let none = u64::MAX;
        let call = libc::user_regs_struct {
            rip: self.syscall,
            rax: libc::SYS_clone as u64,
            orig_rax: none,
            rdi: (libc::CLONE_PARENT | libc::SIGCHLD) as u64,
            rsi: 0,
            rdx: 0,
            r10: 0,
            r8: 0,
            ..registers
        };
        ptrace::setregs(self.pid, call)?;
        ptrace::step(self.pid, None)?;
        let status = waitpid(self.pid, Some(WaitPidFlag::__WALL))?;
        let WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_FORK) = status else {
            bail!("no copy was made: {status:?}")
        };
        let copy = Pid::from_raw(ptrace::getevent(self.pid)? as i32);
        ptrace::step(self.pid, None)?;
        ensure!(self.stopped()?, "the program ended");
        let registers = libc::user_regs_struct { orig_rax: none, ..registers };
        ptrace::setregs(self.pid, registers)?;
        let status = waitpid(copy, Some(WaitPidFlag::__WALL))?;
        ensure!(matches!(status, WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(..)), "{status:?}");
        ptrace::setregs(copy, registers)?;
        kill(copy, Signal::SIGSEGV)?;
        ptrace::detach(copy, None)?;
        let status = waitpid(copy, Some(WaitPidFlag::__WALL))?;
        let WaitStatus::Signaled(_, Signal::SIGSEGV, true) = status else {
            return Ok(format!("it died otherwise: {status:?};"));
        };
        let folder = self.report.with_file_name("");
        for name in ["core".to_owned(), format!("core.{copy}")] {
            if fs::rename(folder.join(name), core).is_ok() {
                return Ok(String::new());
            }
        }
        bail!("there is no core file in {}", folder.display())
    }
}

/// Makes a core file of a running process, with gdb.
///
/// # Errors
/// If gdb fails.
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

/// Compares what `pcce core` says of all threads of a core file with what gdb says. Returns how many threads agree, and
/// descriptions of the others.
///
/// # Errors
/// If a tool fails.
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
        // What created the thread is not on its stack.
        found.truncate(
            found.iter().position(|f| *f == Frame::Boundary("thread".to_owned())).unwrap_or(found.len()),
        );
        let mut expected = chain(&gdb.frames, "main");
        for chain in [&mut found, &mut expected] {
            if chain.len() > 1 && chain.last() == Some(&Frame::Plain) {
                chain.pop();
            }
        }
        // Only the names are compared: lines are those of the torture.
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

/// Core files of `xz` with four threads at random times: all threads are compared with gdb's backtraces. Returns how many threads
/// agree, and descriptions of the others.
///
/// # Errors
/// If it cannot be built, or a tool fails.
pub fn threads(cores: usize, seed: u64, mut progress: impl FnMut(usize)) -> Result<(usize, Vec<String>)> {
    let victim = Victim::build("xz")?;
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
