//! A run of a program, and the copies of it that are killed.
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rand::RngExt as _;
use rand::rngs::StdRng;

use super::victim::Victim;
use crate::evaluation::declarations::workloads;
use crate::machine::{Registers, SYSTEM_CALL};

/// A copy of the program that was killed.
pub(super) struct Death {
    pub(super) pc: u64,
    pub(super) token: String,
    pub(super) core: PathBuf,
    /// A core file of the point after the linker's stub, if the program was in one.
    pub(super) after_stub: Option<PathBuf>,
    /// The error in the report, empty if there is none.
    pub(super) problem: String,
}

pub(super) struct Run {
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
    pub(super) fn start(victim: &Victim, folder: &Path) -> Result<Self> {
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
        // Waits for the program's own code, after the shell and the loader.
        for _ in 0..1000 {
            std::thread::sleep(Duration::from_millis(1));
            if !fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == name) {
                continue;
            }
            // Waits for the handler.
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
        let at = code
            .windows(SYSTEM_CALL.len())
            .position(|w| w == SYSTEM_CALL)
            .context("libc makes no system call")?;
        Ok(from + at as u64)
    }

    /// Stops the program at a random point; None if it has ended.
    pub(super) fn stop(&mut self, random: &mut StdRng) -> Result<Option<Registers>> {
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
            let registers = Registers::of(self.pid)?;
            if registers.restarts_system_call() {
                ptrace::cont(self.pid, None)?;
                continue;
            }
            return Ok(Some(registers));
        }
    }

    /// Waits for the next stop. Returns false if the program has ended.
    fn stopped(&self) -> Result<bool> {
        match waitpid(self.pid, Some(WaitPidFlag::__WALL))? {
            WaitStatus::Stopped(..) | WaitStatus::PtraceEvent(..) => Ok(true),
            WaitStatus::Exited(_, 0) => Ok(false),
            other => bail!("the program ended: {other:?}"),
        }
    }

    /// Makes a copy of the stopped program, and kills it. The program goes on.
    pub(super) fn kill_copy(
        &mut self,
        registers: Registers,
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
        // The linker's stubs have no unwind tables, but their targets have.
        let mut after_stub = None;
        let in_stub = |at: u64| stubs.iter().any(|(from, to)| (*from..*to).contains(&at));
        if in_stub(registers.instruction()) {
            let mut registers = registers;
            while in_stub(registers.instruction()) {
                ptrace::step(self.pid, None)?;
                ensure!(self.stopped()?, "the program ended in a stub");
                registers = Registers::of(self.pid)?;
            }
            let core =
                core.with_extension(format!("{}.behind", core.extension().unwrap_or_default().display()));
            self.copy_and_kill(registers, &core)?;
            after_stub = Some(core);
        }
        ptrace::cont(self.pid, None)?;
        let (pc, token) = (registers.instruction(), line("context: ").to_owned());
        Ok(Death { pc, token, core: core.to_owned(), after_stub, problem })
    }

    /// Makes a copy and kills it. Returns how it died if not by the signal, else an empty text.
    fn copy_and_kill(&self, registers: Registers, core: &Path) -> Result<String> {
        registers.forking(self.syscall).set(self.pid)?;
        ptrace::step(self.pid, None)?;
        let status = waitpid(self.pid, Some(WaitPidFlag::__WALL))?;
        let WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_FORK) = status else {
            bail!("no copy was made: {status:?}")
        };
        let copy = Pid::from_raw(ptrace::getevent(self.pid)? as i32);
        ptrace::step(self.pid, None)?;
        ensure!(self.stopped()?, "the program ended");
        let registers = registers.outside_system_call();
        registers.set(self.pid)?;
        let status = waitpid(copy, Some(WaitPidFlag::__WALL))?;
        ensure!(matches!(status, WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(..)), "{status:?}");
        registers.set(copy)?;
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
