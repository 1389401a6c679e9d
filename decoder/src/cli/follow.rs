//! `pcce cpu follow`: shows how a running process uses its time. Now and then the signal of `PCCE_SAMPLE_SIGNAL`
//! asks the process for a profile, and each profile is compared with the one before.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use console::Term;
use pcce::profile::report::{self, Selection};
use pcce::profile::{Kind, Profile, ProfileError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::profile::{Images, metric};
use super::trace::until_ended;
use super::views::{FollowArgs, ReportFormat};
use super::{Status, note};

/// A process that samples its CPU time, and writes a profile on a signal.
struct Process {
    id: i32,
    /// Refers to this process, even after another process has got its number.
    handle: OwnedFd,
    signal: Signal,
    program: PathBuf,
    /// The file of its last profile: in one folder, or in another if it has changed its working directory.
    files: Vec<PathBuf>,
}

/// How a wait for a process ended.
#[derive(PartialEq, Eq)]
enum Wait {
    Over,
    ProcessEnded,
    Stopped,
}

impl Process {
    /// The longest time in which a process writes a profile.
    const TIMEOUT: Duration = Duration::from_secs(20);
    /// The time in which a process that a shell has just made starts its program, and the program handles the signal.
    const START: Duration = Duration::from_secs(2);

    fn find(id: i32) -> anyhow::Result<Self> {
        let number = Pid::from_raw(id).filter(|_| id > 0).context("a process has a number from 1 on")?;
        let handle = pidfd_open(number, PidfdFlags::empty())?;
        let since = Instant::now();
        loop {
            match Self::started(id, handle.try_clone()?) {
                Err(_) if since.elapsed() < Self::START => sleep(Duration::from_millis(20)),
                started => return started,
            }
        }
    }

    fn started(id: i32, handle: OwnedFd) -> anyhow::Result<Self> {
        let folder = PathBuf::from(format!("/proc/{id}"));
        let environment = fs::read(folder.join("environ")).context("its environment cannot be read")?;
        let variable = |name: &str| {
            let mut entries = environment.split(|&byte| byte == 0);
            let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
            value.filter(|value| !value.is_empty())
        };
        let signal = variable("PCCE_SAMPLE").and(variable("PCCE_SAMPLE_SIGNAL"));
        let Some(signal) = signal else {
            bail!(
                "it was not started with PCCE_SAMPLE and PCCE_SAMPLE_SIGNAL: start it with \
                 PCCE_SAMPLE=997 PCCE_SAMPLE_SIGNAL=10"
            );
        };
        let signal: Option<i32> = str::from_utf8(signal).ok().and_then(|signal| signal.trim().parse().ok());
        let status = fs::read_to_string(folder.join("status"))?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default();
        let is_caught = |&signal: &i32| (1..=64).contains(&signal) && caught >> (signal - 1) & 1 == 1;
        // Without a handler, the signal would end the process.
        let Some(signal) = signal.filter(is_caught).and_then(Signal::from_named_raw) else {
            bail!(
                "PCCE_SAMPLE_SIGNAL does not name a signal from 1 to 31 that it handles; is its program built with pcce?"
            );
        };
        let exe = folder.join("exe");
        // If the program's file was replaced since, `exe` still leads to the old one.
        let program = fs::read_link(&exe).ok().filter(|path| path.exists()).unwrap_or(exe);
        let name = variable("PCCE_SAMPLE_PROFILE").unwrap_or(b"pcce-cpu.%p");
        let name = with_number(name, id);
        let folders = [
            fs::read_link(folder.join("cwd")).ok(),
            variable("PWD").map(|folder| PathBuf::from(OsStr::from_bytes(folder))),
        ];
        let mut files: Vec<_> = folders.into_iter().flatten().map(|folder| folder.join(&name)).collect();
        files.dedup();
        Ok(Self { id, handle, signal, program, files })
    }

    /// Asks for a profile of the time up to now. None if the process has ended.
    fn profile(&self) -> anyhow::Result<Option<Profile>> {
        let before = self.numbered();
        match pidfd_send_signal(&self.handle, self.signal) {
            Err(Errno::SRCH) => return Ok(None),
            sent => sent?,
        }
        let since = Instant::now();
        let mut has_ended = false;
        loop {
            for (file, _) in self.numbered().difference(&before) {
                let text = pcce::load::read_file(file).with_context(|| file.display().to_string())?;
                match Profile::read(&text) {
                    Ok(profile) if profile.process == self.id as u64 && profile.kind == Kind::Cpu => {
                        // It was written for this program, which has read it.
                        fs::remove_file(file).with_context(|| file.display().to_string())?;
                        return Ok(Some(profile));
                    }
                    // The file is still being written.
                    Err(ProfileError::Incomplete | ProfileError::Heading(_)) | Ok(_) => {}
                    Err(error) => return Err(error).with_context(|| file.display().to_string()),
                }
            }
            if has_ended {
                return Ok(None);
            }
            has_ended = self.wait(Duration::from_millis(10))? == Wait::ProcessEnded;
            if since.elapsed() > Self::TIMEOUT {
                let files: Vec<_> = self.files.iter().map(|file| format!("{}.N", file.display())).collect();
                bail!(
                    "it has written no profile: {} is not there {} s after its signal; is it stopped, or is it a \
                     forked child, which is not sampled?",
                    files.join(" or "),
                    Self::TIMEOUT.as_secs(),
                );
            }
        }
    }

    /// The profiles of signals, and when each was written: an earlier process may have left one of the same name.
    fn numbered(&self) -> HashSet<(PathBuf, Option<SystemTime>)> {
        let mut found = HashSet::new();
        for file in &self.files {
            let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { continue };
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let entry_name = entry.file_name();
                let number = entry_name.as_bytes().strip_prefix(name.as_bytes());
                let number = number.and_then(|rest| rest.strip_prefix(b"."));
                if number.is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit)) {
                    let written = entry.metadata().and_then(|metadata| metadata.modified()).ok();
                    let _ = found.insert((folder.join(entry_name), written));
                }
            }
        }
        found
    }

    fn wait(&self, time: Duration) -> io::Result<Wait> {
        let mut ends = [PollFd::new(&self.handle, PollFlags::IN)];
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        match poll(&mut ends, Some(&time)) {
            Ok(0) => Ok(Wait::Over),
            Ok(_) => Ok(Wait::ProcessEnded),
            Err(Errno::INTR) => Ok(Wait::Stopped),
            Err(error) => Err(error.into()),
        }
    }

    /// The files of code that the process has mapped.
    fn mapped(&self) -> Vec<PathBuf> {
        let maps = fs::read(format!("/proc/{}/maps", self.id)).unwrap_or_default();
        let mut files: Vec<PathBuf> = Vec::new();
        for line in maps.split(|&byte| byte == b'\n') {
            // The path is the sixth word, and may have spaces.
            let is_code =
                line.split(|&byte| byte == b' ').nth(1).is_some_and(|rights| rights.contains(&b'x'));
            let path = line.iter().position(|&byte| byte == b'/').map(|at| &line[at..]);
            if let Some(path) = path.filter(|_| is_code).map(|path| PathBuf::from(OsStr::from_bytes(path)))
                && path != self.program
                && !files.contains(&path)
            {
                files.push(path);
            }
        }
        files
    }
}

/// The name with the number of the process for each `%p`, as the runtime writes it.
fn with_number(name: &[u8], id: i32) -> PathBuf {
    let mut path = Vec::new();
    let mut rest = name;
    while let Some(at) = memchr::memmem::find(rest, b"%p") {
        path.extend_from_slice(&rest[..at]);
        path.extend_from_slice(id.to_string().as_bytes());
        rest = &rest[at + 2..];
    }
    path.extend_from_slice(rest);
    PathBuf::from(OsStr::from_bytes(&path))
}

/// Shows how a process uses its time, until it ends or this process gets a signal to end.
pub fn follow(args: &FollowArgs) -> anyhow::Result<Status> {
    let of_process = || format!("process {}", args.process);
    let process = Process::find(args.process).with_context(of_process)?;
    let mut followed =
        Followed { images: Images::load(&process.program, &args.more)?, looked_at: HashSet::new() };
    let stopped = until_ended().context("signals cannot be handled")?;
    let (mut asked, mut before) = (Instant::now(), process.profile().with_context(of_process)?);
    while let Some(old) = before {
        let next = asked + args.every;
        loop {
            if stopped.load(Ordering::Relaxed) {
                return Ok(Status::Done);
            }
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() || process.wait(left)? == Wait::ProcessEnded {
                break;
            }
        }
        let since = std::mem::replace(&mut asked, Instant::now());
        before = process.profile().with_context(of_process)?;
        if let Some(new) = &before {
            followed.show(&process, &new.since(&old), asked - since, args)?;
        }
    }
    let whole = process.files.iter().find(|file| file.exists());
    let whole = whole.map(|file| format!("; the profile of all its time: {}", file.display()));
    note(&format!("process {} has ended{}", process.id, whole.unwrap_or_default()));
    Ok(Status::Done)
}

/// The program of the process that is followed, with its libraries.
struct Followed {
    images: Images,
    /// Files of the process that were added already, or are not instrumented libraries.
    looked_at: HashSet<PathBuf>,
}

impl Followed {
    fn show(
        &mut self,
        process: &Process,
        profile: &Profile,
        time: Duration,
        args: &FollowArgs,
    ) -> anyhow::Result<()> {
        let style = args.appearance.style(false)?;
        let of_process = || format!("process {}", process.id);
        self.images.check(profile).with_context(of_process)?;
        for file in process.mapped() {
            // Most libraries are not instrumented.
            if self.looked_at.insert(file.clone()) {
                let _ = self.images.add(file);
            }
        }
        let stacks = self.images.stacks(profile, &style).with_context(of_process)?;
        let program = &self.images.program().program;
        let (by, _) = metric(profile, args.by.as_deref())?;
        let selection = Selection { by, top: args.top };
        let mut text = Vec::new();
        match args.format {
            ReportFormat::Json => report::json(profile, &stacks, program, selection, &mut text)?,
            ReportFormat::Text => {
                writeln!(text, "the last {:.1} s", time.as_secs_f64())?;
                report::text(profile, &stacks, program, selection, &style, &mut text)?;
            }
        }
        write(&text, args.format).context("standard output")
    }
}

/// Writes a report. On a terminal it replaces the one before, and is cut to the screen.
fn write(text: &[u8], format: ReportFormat) -> io::Result<()> {
    let screen = Term::stdout();
    let mut out = io::stdout().lock();
    match screen.size_checked() {
        Some((rows, _)) if format == ReportFormat::Text && out.is_terminal() => {
            screen.clear_screen()?;
            let lines = text.split_inclusive(|&byte| byte == b'\n');
            for line in lines.take(usize::from(rows).saturating_sub(1)) {
                out.write_all(line)?;
            }
        }
        _ => {
            out.write_all(text)?;
            if format == ReportFormat::Text {
                out.write_all(b"\n")?;
            }
        }
    }
    out.flush()
}
