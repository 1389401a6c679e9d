//! The costs and the benefits of the encoding, on real programs: `make evaluate`.
//!
//! Without arguments it evaluates all programs in all variants. Figures of the same executables and workloads are
//! not measured again. Everything goes below `target/evaluation`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::Parser;
use nix::fcntl::{Flock, FlockArg};
use pcce_testsuite::driver::{Progress, exit, names};
use pcce_testsuite::evaluation::build::{Built, Workshop};
use pcce_testsuite::evaluation::capture_cost::Captures;
use pcce_testsuite::evaluation::data::{Data, Origin};
use pcce_testsuite::evaluation::declarations::{Program, Variant};
use pcce_testsuite::evaluation::further::Further;
use pcce_testsuite::evaluation::measure::{Evaluated, Step};
use pcce_testsuite::evaluation::papers::Papers;
use pcce_testsuite::evaluation::report::{self, Measured, Report};
use pcce_testsuite::evaluation::store::Store;
use pcce_testsuite::evaluation::{charts, decode_speed, inputs, spec, traces};
use pcce_testsuite::{llvm, llvm_of_rustc, revision, target};

/// Builds programs of Debian plain and with the pass, runs both, and compares.
#[derive(Parser)]
struct Arguments {
    /// Programs, separated by blanks; all without it. FILE.toml declares one that is not among them.
    #[arg(long, value_delimiter = ' ')]
    programs: Vec<String>,
    /// Variants, separated by blanks; all without it. NAME@FOLDER uses the tools in that folder, and NAME:NUMBER
    /// shuffles the functions, in another way for each number.
    #[arg(long, value_delimiter = ' ')]
    variants: Vec<String>,
    /// What to measure, separated by blanks: time, callgrind, verify, captures, decode, trace, parts, hybrid; all but
    /// hybrid without it.
    #[arg(long, value_delimiter = ' ')]
    steps: Vec<String>,
    /// Interleaved pairs of runs.
    #[arg(long, default_value_t = 7)]
    pairs: usize,
    /// The folder with the wrapper compilers; target/release without it.
    #[arg(long)]
    tools: Option<PathBuf>,
    /// Put what was measured into docs/evaluation.json, and write docs/evaluation.md, too.
    #[arg(long)]
    docs: bool,
    /// The commit that the tools were built from; the one that is checked out without it.
    #[arg(long)]
    revision: Option<String>,
    /// Measure nothing: write docs/evaluation.md from docs/evaluation.json.
    #[arg(long, conflicts_with_all = ["programs", "variants", "steps", "docs"])]
    write: bool,
    /// Measure nothing: print the tables of results of SPEC CPU 2017 in CSV (testsuite/evaluation/spec/pcce.cfg). To be
    /// given for each variant and its baseline.
    #[arg(long, value_name = "VARIANT=FILE", conflicts_with_all = ["programs", "variants", "steps", "docs", "write"])]
    spec: Vec<String>,
}

impl Arguments {
    /// The command for make that means the same.
    fn command(&self) -> String {
        let mut command = "make evaluate".to_owned();
        let lists = [("PROGRAMS", &self.programs), ("VARIANTS", &self.variants), ("STEPS", &self.steps)];
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            command += &format!(" {name}=\"{}\"", list.join(" "));
        }
        command + &format!(" PAIRS={}", self.pairs)
    }
}

fn main() -> ExitCode {
    exit("evaluate", run(&Arguments::parse()))
}

/// Writes the document about all known figures.
fn write_document(data: &Data) -> Result<()> {
    let report = data.report()?;
    let text = report.markdown(&data.origins(), &Papers::read()?, &[]);
    Ok(fs::write(Data::document(), text)?)
}

fn run(arguments: &Arguments) -> Result<bool> {
    if arguments.write {
        return write_document(&Data::read(&Data::file())?).map(|()| true);
    }
    let tools = arguments.tools.clone().unwrap_or_else(|| target().join("release"));
    if !arguments.spec.is_empty() {
        print!("{}", spec::tables(&arguments.spec, &tools)?);
        return Ok(true);
    }
    let root = target().join("evaluation");
    let mut programs = Vec::new();
    for name in names(&arguments.programs) {
        programs.push(Program::named(&name)?);
    }
    for program in &programs {
        ensure!(
            program.has_tools(),
            "{} needs tools for rustc's LLVM: LLVM={}",
            program.name,
            llvm_of_rustc()
        );
    }
    if programs.is_empty() {
        programs = Program::all()?.into_iter().filter(Program::has_tools).collect();
    }
    if arguments.docs {
        let own = names(&arguments.programs).into_iter().find(|name| name.ends_with(".toml"));
        ensure!(own.is_none(), "--docs: the document is about the evaluation's programs only");
    }
    let mut wanted = names(&arguments.variants);
    if wanted.is_empty() {
        wanted = Variant::all_names()?;
    }
    let mut variants = Vec::new();
    for name in &wanted {
        let variant = Variant::named(name, &tools)?;
        ensure!(variant.baseline.is_some(), "`{name}` is what others are compared with; name one of those");
        variants.push(variant);
    }
    let mut steps = Vec::new();
    for name in names(&arguments.steps) {
        let step = Step::NAMES.iter().find(|(n, _)| *n == name);
        let all = Step::NAMES.map(|(n, _)| n).join(", ");
        steps.push(step.with_context(|| format!("there is no step `{name}`; there are: {all}"))?.1);
    }
    if steps.is_empty() {
        steps = Step::NAMES.map(|(_, step)| step).into_iter().filter(|&step| step != Step::Hybrid).collect();
    }

    let workshop = Workshop::new(root.clone())?;
    let store = Store::new(root.join("results"));
    let progress = Progress::new(programs.len(), "programs");
    progress.say("inputs");
    let inputs = inputs::folder(&root)?;
    let mut report = Report::new(variants.clone());
    let mut failed = false;
    let captures =
        steps.contains(&Step::Captures).then(|| Captures::new(root.join("captures"), &tools)).transpose()?;
    if let Some(captures) = &captures {
        progress.say("captures by depth");
        report.captures.notes = captures.notes();
        report.captures.by_depth = captures.by_depth(&workshop, &store)?;
    }
    for program in &programs {
        let plain = Variant::named("plain", &tools)?;
        progress.say(&format!("{}: waiting for another evaluation of it", program.name));
        let _lock = lock(&root.join("locks").join(&program.name))?;
        progress.say(&format!("{}: sources", program.name));
        let measured = workshop.sources(program, &plain).and_then(|sources| {
            let evaluated = Evaluated {
                program,
                workshop: &workshop,
                store: &store,
                inputs: inputs.clone(),
                sources,
                scratch: root.join("scratch").join(&program.name),
            };
            let variants: Vec<Variant> = variants.iter().filter(|v| program.takes(v)).cloned().collect();
            let measured = measure(&evaluated, &variants, &steps, arguments.pairs, &tools, &progress)?;
            let mut points = Vec::new();
            if let (Some(captures), true) = (&captures, program.captures) {
                let plain = evaluated.build(&plain, false)?;
                let say = |what: &str| progress.say(&format!("{}: {what}", program.name));
                points = captures.curves(&evaluated, &plain, arguments.pairs, &say)?;
            }
            if steps.contains(&Step::Decode) && program.name == decode_speed::PROGRAM {
                progress.say(&format!("{}: decode", program.name));
                report.decode = Some(decode_speed::rate(&evaluated, &variants[0])?);
            }
            Ok((measured, points))
        });
        match measured {
            Ok((measured, points)) => report.add(program, measured, points),
            Err(e) => {
                failed = true;
                progress.line(&format!("{}: FAILED: {e:#}", program.name));
                report.failures.push((program.name.clone(), format!("{e:#}")));
            }
        }
        progress.done();
    }
    progress.end();
    let charts = charts::draw(&report, &root.join("charts")).context("drawing the charts")?;
    let file = root.join("report.md");
    let machine = machine()?;
    let preface = format!("Made by `{}` on: {machine}.\n", arguments.command());
    fs::write(&file, report.markdown(&preface, &Papers::read()?, &charts))?;
    let revision = arguments.revision.clone().map_or_else(revision, Ok)?;
    let origin = Origin { revision, machine };
    let mut data = Data::default();
    data.add(&report, &origin);
    fs::write(root.join("results.json"), data.json()?)?;
    if arguments.docs {
        let _lock = lock(&root.join("locks/data"))?;
        let mut all = Data::read(&Data::file())?;
        all.add(&report, &origin);
        fs::write(Data::file(), all.json()?)?;
        write_document(&all)?;
    }
    eprintln!("wrote {}, with results.json and charts beside it", file.display());
    Ok(!failed)
}

fn measure(
    evaluated: &Evaluated,
    variants: &[Variant],
    steps: &[Step],
    pairs: usize,
    tools: &Path,
    progress: &Progress,
) -> Result<BTreeMap<String, Measured>> {
    let name = &evaluated.program.name;
    // Variants with one baseline are run together.
    let mut groups: BTreeMap<&str, Vec<&Variant>> = BTreeMap::new();
    for variant in variants {
        groups.entry(variant.baseline.as_deref().unwrap_or_default()).or_default().push(variant);
    }
    let mut results = BTreeMap::new();
    for (baseline, variants) in groups {
        let baseline = Variant::named(baseline, tools)?;
        let mut built: Vec<(&Variant, Built)> = Vec::new();
        for variant in std::iter::once(&baseline).chain(variants.iter().copied()) {
            progress.say(&format!("{name} {}: build", variant.name));
            built.push((variant, evaluated.build(variant, false)?));
        }
        let both: Vec<(&Variant, &Built)> = built.iter().map(|(v, b)| (*v, b)).collect();
        let (base, others) = (both[0], &both[1..]);
        let mut printed = None;
        for &other in others {
            progress.say(&format!("{name} {}: output", other.0.name));
            printed = Some(evaluated.compare_outputs(base, other)?);
        }
        let printed = printed.context("a group has variants")?;
        let mut measured: Vec<Measured> =
            others.iter().map(|(_, b)| Measured::new(base.1.clone(), (*b).clone())).collect();
        for (&(variant, built), measured) in others.iter().zip(&mut measured) {
            if variant.uses_wrapper() {
                measured.graph = Some(evaluated.graph(variant, built)?);
            }
        }
        if steps.contains(&Step::Callgrind) {
            progress.say(&format!("{name} {}: callgrind", base.0.name));
            let base = evaluated.callgrind(base.0, base.1)?;
            for (&(variant, built), measured) in others.iter().zip(&mut measured) {
                progress.say(&format!("{name} {}: callgrind", variant.name));
                let counts = evaluated.callgrind(variant, built)?;
                measured.further = Some(Further::new(&base, &counts));
                measured.counts = Some((base.clone(), counts));
            }
        }
        if steps.contains(&Step::Hybrid) {
            for (&(variant, built), measured) in others.iter().zip(&mut measured) {
                progress.say(&format!("{name} {}: hybrid", variant.name));
                measured.hybrid = Some(evaluated.hybrid(variant, built)?);
            }
        }
        if steps.contains(&Step::Time) {
            let rounds = |done| progress.say(&format!("{name}: pair {} of {pairs}", done + 1));
            let times = evaluated.times(base, others, pairs, &rounds)?;
            for (times, measured) in times.into_iter().zip(&mut measured) {
                measured.times = Some(times);
            }
        }
        if steps.contains(&Step::Verify) {
            for (&(variant, _), measured) in others.iter().zip(&mut measured) {
                progress.say(&format!("{name} {}: verify mode", variant.name));
                measured.verified = Some(evaluated.verify(variant, &printed)?);
            }
        }
        if steps.contains(&Step::Trace) {
            let records = |(other, _): &(&(&Variant, &Built), &mut Measured)| other.0.records;
            for (&(variant, built), measured) in others.iter().zip(&mut measured).filter(records) {
                progress.say(&format!("{name} {}: traces", variant.name));
                measured.recorded = Some(evaluated.trace(variant, built, &printed)?);
            }
        }
        if steps.contains(&Step::Parts) {
            let records = |(other, _): &(&(&Variant, &Built), &mut Measured)| {
                traces::is_read(other.0)
                    && other.0.part.is_none()
                    && other.0.flags.contains("--pcce-mode=link")
            };
            for (&(variant, _), measured) in others.iter().zip(&mut measured).filter(records) {
                progress.say(&format!("{name} {}: traces from several runs", variant.name));
                measured.parts = Some(evaluated.parts(variant)?);
            }
        }
        for (&(variant, _), measured) in others.iter().zip(measured) {
            progress.line(&report::line(name, &variant.name, &measured));
            results.insert(variant.name.clone(), measured);
        }
    }
    Ok(results)
}

/// Holds the file locked until the value is dropped: builds and runs of a program use folders of its name.
fn lock(path: &Path) -> Result<Flock<fs::File>> {
    fs::create_dir_all(path.parent().context("has a parent")?)?;
    let file = fs::File::create(path).with_context(|| path.display().to_string())?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, e)| anyhow!("{}: {e}", path.display()))
}

/// Machine and versions.
fn machine() -> Result<String> {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let first = |program: &Path| -> Result<String> {
        let output =
            Command::new(program).arg("--version").output().with_context(|| program.display().to_string())?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or("").to_owned())
    };
    Ok(format!(
        "{} ({cores} cores), {}, {}",
        model.trim_start_matches([' ', '\t', ':']),
        first(&llvm("clang"))?,
        first(Path::new("valgrind"))?
    ))
}
