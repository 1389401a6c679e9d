//! A program that is killed.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use object::{Object as _, ObjectSection as _};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::agreement::{Transfers, agreement};
use super::backtrace::{Backtrace, backtraces, by_symboliser, chain, lookups};
use super::run::{Death, Run};
use super::{BATCH, BUILT, CORES, Outcome, WRONG};
use crate::chain::{Frame, decoded, show, symbolise};
use crate::evaluation::build::Workshop;
use crate::evaluation::declarations::{Program, Variant};
use crate::evaluation::inputs;
use crate::{artifact, command, run_with_input, target};

/// A program that is tortured. When it is dropped, its folder loses everything except the executable and the list of
/// mismatches: a few core files, and the sources, take gigabytes.
pub struct Victim {
    pub name: String,
    /// `target/torture/NAME`.
    folder: PathBuf,
    pub(super) executable: PathBuf,
    /// The range of its code.
    code: (u64, u64),
    stubs: Vec<(u64, u64)>,
    transfers: Transfers,
    pub(super) commands: String,
    pub(super) inputs: PathBuf,
}

impl Victim {
    /// Builds a program of the evaluation, optimised, in a variant of it.
    pub fn build(name: &str, variant: &str) -> Result<Self> {
        let root = target().join("torture").join(name);
        let program = Program::named(name)?;
        let workshop = Workshop::new(root.clone())?;
        let variant = Variant::named(variant, &target().join("release"))?;
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
    pub(super) fn run_folder(&self) -> Result<PathBuf> {
        let folder = self.folder.join("run");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Writes the list of mismatches.
    pub fn write_wrong(&self, list: &str) -> Result<()> {
        Ok(fs::write(self.folder.join(WRONG), list)?)
    }

    /// Kills the program at this number of points.
    ///
    /// # Errors
    /// If the machine does not allow tracing or core files.
    pub fn torture(&self, points: usize, seed: u64, mut progress: impl FnMut(&Outcome)) -> Result<Outcome> {
        let folder = self.run_folder()?;
        let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern")?;
        ensure!(
            !pattern.starts_with('|') && !pattern.contains('/'),
            "core files do not go to the folder of the program here (/proc/sys/kernel/core_pattern is {}); set it to `core`",
            pattern.trim()
        );
        let (_, hard_limit) = getrlimit(Resource::RLIMIT_CORE)?;
        setrlimit(Resource::RLIMIT_CORE, hard_limit, hard_limit)?;
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
        let backtraces =
            |cores: &[PathBuf]| -> Result<Vec<Backtrace>> { backtraces(&self.executable, cores, folder) };
        let gdb = backtraces(&cores)?;
        let after_stubs: Vec<PathBuf> = deaths.iter().filter_map(|d| d.after_stub.clone()).collect();
        let gdb_after_stubs = match after_stubs[..] {
            [] => Vec::new(),
            _ => backtraces(&after_stubs)?,
        };
        // A missing token is replaced by an invalid one.
        let token = |d: &Death| if d.token.is_empty() { "0".to_owned() } else { d.token.clone() };
        let tokens: String = deaths.iter().map(|d| token(d) + "\n").collect();
        let mut pcce = command(artifact("pcce"), &["decode", "--format", "json"]);
        let traces = run_with_input(pcce.arg(&self.executable), &tokens).stdout;
        ensure!(traces.lines().count() == deaths.len(), "not every token was decoded");
        let whole = gdb.iter().map(|g| &g.threads[0].frames[..]);
        let callers = gdb_after_stubs.iter().map(|g| &g.threads[0].frames[1..]);
        let addresses = whole.chain(callers).flat_map(lookups).map(|l| l.0);
        let in_program = |a: &u64| self.code.0 <= *a && *a < self.code.1;
        let names = symbolise(&self.executable, &addresses.filter(in_program).collect());
        let mut gdb_after_stubs = gdb_after_stubs.iter();
        for ((death, trace), gdb) in deaths.iter().zip(traces.lines()).zip(&gdb) {
            outcome.points += 1;
            outcome.instructions.insert(death.pc);
            let failed = format!("{{\"frames\":[{{\"kind\":{trace:?}}}]}}");
            let mut found = decoded(if trace.contains("\"frames\":") { trace } else { &failed });
            // Such a frame only says that there may have been a tail call.
            found.retain(|f| *f != Frame::Tail(String::new()));
            let mut frames = &gdb.threads[0].frames[..];
            let mut expected = chain(frames, "main");
            let mut second = by_symboliser(&names, frames);
            if let Some(witness) = death.after_stub.as_ref().and_then(|_| gdb_after_stubs.next()) {
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
