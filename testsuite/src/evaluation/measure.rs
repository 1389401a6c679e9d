//! The steps of the evaluation of one program. The results of each are stored, and it runs again only when something
//! that it depends on has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::build::{Built, Workshop};
use super::call_graph::{self, Graph};
use super::callgrind::{self, Counts};
use super::declarations::{Adapted, Program, Variant};
use super::hybrid::{self, Hybrid};
use super::several_runs::{self, PARTS, Parts};
use super::store::{Store, fingerprint, fingerprint_file};
use super::traces::{self, Recorded};
use super::verified_numbers::Numbers;
use super::verify::{self, Verified};
use super::workload::{Printed, Runner, Usage};
use crate::checked;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// User time and memory, from interleaved runs.
    Time,
    /// Instructions and dynamic counts.
    Callgrind,
    /// Contexts compared, and their depths.
    Verify,
    /// The comparison of ways to capture.
    Captures,
    Decode,
    Hybrid,
    /// Traces of calls: their size, and whether they are right.
    Trace,
    Parts,
}

impl Step {
    /// All steps, by the names that a user gives them.
    pub const NAMES: [(&str, Step); 8] = [
        ("time", Step::Time),
        ("callgrind", Step::Callgrind),
        ("verify", Step::Verify),
        ("captures", Step::Captures),
        ("decode", Step::Decode),
        ("hybrid", Step::Hybrid),
        ("trace", Step::Trace),
        ("parts", Step::Parts),
    ];
}

#[derive(Debug)]
pub struct Evaluated<'a> {
    pub program: &'a Program,
    pub workshop: &'a Workshop,
    pub store: &'a Store,
    pub inputs: PathBuf,
    pub sources: PathBuf,
    pub scratch: PathBuf,
}

/// Interleaved runs of a variant and its baseline.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Times {
    /// A run of the baseline and one of the variant, in either order.
    pub pairs: Vec<(Usage, Usage)>,
}

impl Evaluated<'_> {
    /// The environment of a run of a build.
    pub fn runner<'r>(&'r self, built: &'r Built) -> Runner<'r> {
        Runner {
            program: self.program,
            executable: &built.executable,
            inputs: &self.inputs,
            sources: &self.sources,
            scratch: self.scratch.clone(),
            records: false,
            through: "",
            environment: built.environment(),
        }
    }

    /// The environment of a run of the variant.
    fn runner_of<'r>(&'r self, variant: &'r Variant, built: &'r Built) -> Runner<'r> {
        Runner { records: variant.records, through: &variant.through, ..self.runner(built) }
    }

    pub fn build(&self, variant: &Variant, verify: bool) -> Result<Built> {
        if let Some(adapted) = variant.adapted {
            return self.adapted(variant, adapted, verify);
        }
        if let Some(part) = variant.part {
            return self.part(variant, part, verify);
        }
        if !variant.trained {
            return self.build_with(variant, verify, "");
        }
        let profile = self.profile(variant, &self.program.workload.small)?;
        let flags = format!("{} --pcce-profile-use={}", variant.flags, profile.display());
        self.build_with(&Variant { flags, ..variant.clone() }, verify, &fingerprint_file(&profile)?)
    }

    /// A build, and the folder in which its links have kept what programs can be made again of.
    fn keeping(&self, variant: &Variant, verify: bool) -> Result<(Built, PathBuf)> {
        let kept = self.workshop.kept(&self.program.name, &variant.folder_name())?;
        let mut keeping = variant.clone();
        keeping.environment.insert("PCCE_KEEP".into(), kept.display().to_string());
        Ok((self.build_with(&keeping, verify, "")?, kept))
    }

    /// One of the programs that `pcce trace split` has made of a build.
    fn part(&self, variant: &Variant, (number, parts): (u32, u32), verify: bool) -> Result<Built> {
        let (whole, kept) = self.keeping(variant, verify)?;
        let mut split = Command::new(variant.tools.join("pcce"));
        split.args(["trace", "split", "--parts", &parts.to_string()]);
        split.arg("--kept").arg(&kept).arg(&whole.executable);
        checked("pcce trace split", split.output())?;
        let mut executable = whole.executable.clone().into_os_string();
        executable.push(format!(".pcce-part-{number}-of-{parts}"));
        let executable = PathBuf::from(executable);
        Ok(Built { fingerprint: fingerprint_file(&executable)?, executable, ..whole })
    }

    /// A build that `pcce adapt` has made again.
    fn adapted(&self, variant: &Variant, adapted: Adapted, verify: bool) -> Result<Built> {
        let workload = &self.program.workload;
        let learn =
            workload.learn.as_ref().filter(|_| adapted != Adapted::CountedSame).unwrap_or(&workload.small);
        let (before, kept) = self.keeping(variant, verify)?;
        let learnt = if adapted == Adapted::Learnt {
            let ordinary = if verify { self.keeping(variant, false)?.0 } else { before.clone() };
            self.learnt(variant, &ordinary, learn)?
        } else {
            self.profile(variant, learn)?
        };
        let compilers = self.workshop.compiler_fingerprint(variant)?;
        let tool = fingerprint_file(&variant.tools.join("pcce"))?;
        let depends = fingerprint([&before.fingerprint, &fingerprint_file(&learnt)?, &compilers, &tool]);
        let (name, step) = (variant.folder_name(), if verify { "adapt-verify" } else { "adapt" });
        if let Some(built) = self.store.get::<Built>(&self.program.name, &name, step, &depends)
            && built.images().all(Path::exists)
        {
            return Ok(built);
        }
        // It is adapted in a folder of its own.
        let folder = before.executable.with_extension(step);
        fs::create_dir_all(&folder)?;
        let executable = folder.join(before.executable.file_name().context("it has a name")?);
        let _ = fs::remove_file(&executable);
        fs::copy(&before.executable, &executable)?;
        let mut adapt = Command::new(variant.tools.join("pcce"));
        adapt.arg("adapt").arg(&executable).arg("--kept").arg(&kept).arg("--learnt").arg(&learnt);
        checked("pcce adapt", adapt.output())?;
        let built = Built { fingerprint: fingerprint_file(&executable)?, executable, ..before };
        self.store.put(&self.program.name, &name, step, &depends, &built)?;
        Ok(built)
    }

    /// The file of what a build learns of a workload, which runs for some seconds.
    fn learnt(&self, variant: &Variant, built: &Built, commands: &str) -> Result<PathBuf> {
        /// Seconds of user time.
        const ENOUGH: f64 = 20.0;
        let depends = fingerprint([&built.fingerprint, &self.program.workload_fingerprint(commands)?]);
        let (program, step, name) = (&self.program.name, "learnt", variant.folder_name());
        let file = self.workshop.profile(program, &format!("{name}-learnt"))?;
        if self.store.get::<PathBuf>(program, &name, step, &depends).is_none() || !file.exists() {
            let _ = fs::remove_file(&file);
            let mut runner = self.runner(built);
            runner.environment.push(("PCCE_LEARN".into(), file.clone().into()));
            let mut time = 0.0;
            while time < ENOUGH {
                let usage = runner.run(commands)?.0;
                time += usage.user + 0.01;
            }
            self.store.put(program, &name, step, &depends, &file)?;
        }
        Ok(file)
    }

    /// The profile that a build with counters writes for a workload.
    fn profile(&self, variant: &Variant, commands: &str) -> Result<PathBuf> {
        let name = format!("{}-counting", variant.name);
        let flags = format!("{} --pcce-profile-generate", variant.flags);
        let counting = Variant { name, flags, ..variant.clone() };
        let built = self.build_with(&counting, false, "")?;
        let depends = fingerprint([&built.fingerprint, &self.program.workload_fingerprint(commands)?]);
        let name = counting.folder_name();
        let file = self.workshop.profile(&self.program.name, &name)?;
        let (program, step) = (&self.program.name, "profile");
        if self.store.get::<PathBuf>(program, &name, step, &depends).is_none() || !file.exists() {
            let _ = fs::remove_file(&file);
            let mut runner = self.runner(&built);
            // All its processes write into one file.
            runner.environment.push(("PCCE_CALLS_PROFILE".into(), file.clone().into()));
            runner.run(commands)?;
            self.store.put(program, &name, step, &depends, &file)?;
        }
        Ok(file)
    }

    /// Builds the variant, whose flags name files with this fingerprint.
    pub fn build_with(&self, variant: &Variant, verify: bool, files: &str) -> Result<Built> {
        let depends = fingerprint([
            self.workshop.compiler_fingerprint(variant)?.as_str(),
            &self.program.sources.fingerprint()?,
            &self.program.prepare,
            &self.program.build,
            files,
        ]);
        let step = if verify { "build-verify" } else { "build" };
        let name = variant.folder_name();
        if let Some(built) = self.store.get::<Built>(&self.program.name, &name, step, &depends)
            && built.images().all(Path::exists)
        {
            return Ok(built);
        }
        let built = self.workshop.build(self.program, &self.sources, variant, verify)?;
        self.store.put(&self.program.name, &name, step, &depends, &built)?;
        Ok(built)
    }

    /// Checks that both builds print the same.
    pub fn compare_outputs(
        &self,
        baseline: (&Variant, &Built),
        variant: (&Variant, &Built),
    ) -> Result<Printed> {
        let mut printed = Vec::new();
        for (variant, built) in [baseline, variant] {
            for (step, commands) in
                [("output", &self.program.workload.run), ("output-small", &self.program.workload.small)]
            {
                let depends =
                    fingerprint([&built.fingerprint, &self.program.workload_fingerprint(commands)?]);
                let run = || self.runner_of(variant, built).printed(commands);
                let name = variant.folder_name();
                printed.push(self.store.step(&self.program.name, &name, step, &depends, run)?);
            }
        }
        if printed[0..2] != printed[2..4] {
            bail!(
                "{} ({}) prints something else than {}: {} bytes instead of {}",
                self.program.name,
                variant.0.name,
                baseline.0.name,
                printed[2].bytes,
                printed[0].bytes
            );
        }
        Ok(printed.swap_remove(0))
    }

    /// Runs the builds one after the other, `pairs` times, beginning with a different one each time. The first is the
    /// baseline of the others. Builds that have this number of pairs already are not run again.
    pub fn times(
        &self,
        baseline: (&Variant, &Built),
        variants: &[(&Variant, &Built)],
        pairs: usize,
        progress: &dyn Fn(usize),
    ) -> Result<Vec<Times>> {
        let commands = &self.program.workload.run;
        let workload = self.program.workload_fingerprint(commands)?;
        let depends = |built: &Built| fingerprint([&baseline.1.fingerprint, &built.fingerprint, &workload]);
        let stored = |(variant, built): &(&Variant, &Built)| {
            self.store
                .get::<Times>(&self.program.name, &variant.folder_name(), "time", &depends(built))
                .unwrap_or_default()
        };
        let mut times: Vec<Times> = variants.iter().map(stored).collect();
        let mut round = 0;
        loop {
            let short: Vec<usize> = (0..variants.len()).filter(|&i| times[i].pairs.len() < pairs).collect();
            let Some(done) = short.iter().map(|&i| times[i].pairs.len()).min() else { break };
            progress(done);
            // The baseline is number 0 of the round.
            let mut order: Vec<usize> = std::iter::once(0).chain(short.iter().map(|i| i + 1)).collect();
            let shift = round % order.len();
            order.rotate_left(shift);
            round += 1;
            let mut usages = vec![None; variants.len() + 1];
            for i in order {
                let (variant, built) = if i == 0 { baseline } else { variants[i - 1] };
                usages[i] = Some(self.runner_of(variant, built).run(commands)?.0);
            }
            let base = usages[0].context("the baseline ran")?;
            for &i in &short {
                times[i].pairs.push((base, usages[i + 1].context("the variant ran")?));
                let (variant, built) = variants[i];
                self.store.put(
                    &self.program.name,
                    &variant.folder_name(),
                    "time",
                    &depends(built),
                    &times[i],
                )?;
            }
        }
        for t in &mut times {
            t.pairs.truncate(pairs);
        }
        Ok(times)
    }

    /// Counts instructions, calls, updates and pushes.
    pub fn callgrind(&self, variant: &Variant, built: &Built) -> Result<Counts> {
        let commands = &self.program.workload.small;
        let depends = fingerprint([
            &built.fingerprint,
            &self.program.workload_fingerprint(commands)?,
            include_str!("callgrind.rs"),
        ]);
        let run = || callgrind::count(&self.runner_of(variant, built), &built.libraries, commands);
        self.store.step(&self.program.name, &variant.folder_name(), "callgrind", &depends, run)
    }

    /// Counts calls, and computes the possible effect of stack offsets.
    pub fn hybrid(&self, variant: &Variant, built: &Built) -> Result<Hybrid> {
        let commands = &self.program.workload.small;
        let encoding = super::store::fingerprint_file(&std::env::current_exe()?)?;
        let depends =
            fingerprint([&built.fingerprint, &self.program.workload_fingerprint(commands)?, &encoding]);
        let run = || {
            let profile = callgrind::profile(&self.runner_of(variant, built), &[], commands)?;
            hybrid::look(variant, &built.executable, &profile)
        };
        self.store.step(&self.program.name, &variant.folder_name(), "hybrid", &depends, run)
    }

    /// Reads the call graph of a build from its dictionary.
    pub fn graph(&self, variant: &Variant, built: &Built) -> Result<Graph> {
        let depends = fingerprint([built.fingerprint.as_str(), include_str!("call_graph.rs")]);
        let run = || call_graph::read(variant, built.images());
        self.store.step(&self.program.name, &variant.folder_name(), "graph", &depends, run)
    }

    /// Runs the variant in verify mode.
    ///
    /// # Errors
    /// If it fails, prints something else than `expected`, or there is a mismatch.
    pub fn verify(&self, variant: &Variant, expected: &Printed) -> Result<Verified> {
        let built = self.build(variant, true)?;
        let commands = &self.program.workload.run;
        let depends = fingerprint([
            &built.fingerprint,
            &self.program.workload_fingerprint(commands)?,
            &expected.sha256,
        ]);
        let run = || {
            let report = self.scratch.with_extension("report");
            let depths = self.scratch.with_extension("depths");
            let numbers = Numbers::new(&self.scratch)?;
            let mut runner = self.runner(&built);
            for (variable, file) in [("PCCE_VERIFY_REPORT", &report), ("PCCE_VERIFY_DEPTHS", &depths)] {
                let _ = fs::remove_file(file);
                runner.environment.push((variable.into(), file.into()));
            }
            runner.environment.extend(numbers.environment());
            let result = runner.printed(commands);
            let text = fs::read_to_string(&report).unwrap_or_default();
            let printed = result.with_context(|| text.clone())?;
            let mut verified = verify::read_report(&text)?;
            verified.depths = verify::read_depths(&fs::read_to_string(&depths).unwrap_or_default())?;
            verified.numbers = numbers.check(&variant.tools.join("pcce"), &built)?;
            ensure!(
                printed == *expected,
                "{} ({}) prints something else in verify mode",
                self.program.name,
                variant.name
            );
            Ok(verified)
        };
        self.store.step(&self.program.name, &variant.folder_name(), "verify", &depends, run)
    }

    /// Records traces of the workload, also in verify mode, and measures them.
    ///
    /// # Errors
    /// If a run fails or prints something else than `expected`, or if events differ from those that the reader shows.
    pub fn trace(&self, variant: &Variant, built: &Built, expected: &Printed) -> Result<Recorded> {
        let verifying = traces::is_read(variant).then(|| self.build(variant, true)).transpose()?;
        let commands = &self.program.workload.run;
        let depends = fingerprint([
            built.fingerprint.as_str(),
            verifying.as_ref().map_or("", |built| built.fingerprint.as_str()),
            &self.program.workload_fingerprint(commands)?,
            &expected.sha256,
            include_str!("traces.rs"),
        ]);
        let recorded = |built: &Built| {
            let mut runner = self.runner_of(variant, built);
            // A program in verify mode writes its report there, not into its output.
            runner
                .environment
                .push(("PCCE_VERIFY_REPORT".into(), self.scratch.with_extension("report").into()));
            let printed = runner.printed(commands)?;
            ensure!(printed == *expected, "{} ({}) prints something else", self.program.name, variant.name);
            traces::files_below(&runner.traces())
        };
        let run = || {
            let mut found = traces::size(&recorded(built)?)?;
            if let Some(verifying) = &verifying {
                let pcce = variant.tools.join("pcce");
                for trace in recorded(verifying)? {
                    traces::check(&pcce, &verifying.executable, &trace, &mut found)?;
                }
            }
            fs::remove_dir_all(&self.scratch)?;
            Ok(found)
        };
        self.store.step(&self.program.name, &variant.folder_name(), "trace", &depends, run)
    }

    /// Collects the traces of the small workload in parts.
    ///
    /// # Errors
    /// If a run fails, or prints something else than without the collection.
    pub fn parts(&self, variant: &Variant) -> Result<Parts> {
        let (built, kept) = &self.keeping(variant, false)?;
        let commands = &self.program.workload.small;
        let pcce = variant.tools.join("pcce");
        let depends = fingerprint([
            built.fingerprint.as_str(),
            &fingerprint_file(&pcce)?,
            &self.program.workload_fingerprint(commands)?,
            include_str!("several_runs.rs"),
            include_str!("../distribution/mod.rs"),
            include_str!("../distribution/optimal.rs"),
        ]);
        let run = || {
            let plain = self.runner(built).printed(commands)?;
            let collect = self.scratch.with_extension("collect");
            let clock = self.scratch.with_extension("clock.so");
            several_runs::prepare(&collect, &clock)?;
            let through = format!("'{}'", collect.display());
            let mut runner = Runner { through: &through, records: true, ..self.runner(built) };
            let numbers = PARTS.map(|parts| parts.to_string());
            runner.environment.push(("PARTS".into(), numbers.join(" ").into()));
            runner.environment.push(("PCCE".into(), pcce.clone().into()));
            runner.environment.push(("CLOCK".into(), clock.into()));
            runner.environment.push(("KEPT".into(), kept.into()));
            let printed = runner.printed(commands)?;
            ensure!(printed == plain, "{} prints something else when it is collected", self.program.name);
            let found = several_runs::look(&built.executable, &runner.traces())?;
            fs::remove_dir_all(&self.scratch)?;
            Ok(found)
        };
        self.store.step(&self.program.name, &variant.folder_name(), "parts", &depends, run)
    }
}
