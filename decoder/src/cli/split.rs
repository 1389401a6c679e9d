//! `pcce trace split`: makes the programs that share a trace (distributed-program-tracing.txt), beside the program, by
//! `pcce-ld` from what its link has kept.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::Args;
use indicatif::ProgressBar;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};
use pcce::trace::{PartsError, Programs, Reader, Split, TraceFile, balance};
use pcce_dictionary::trace::Part;

use super::link::own_linker;
use super::{Status, note};

pub(super) const SPLIT_HELP: &str = "Each of the programs does what the program does, and records its share of the calls: PROGRAM.pcce-part-1-of-N, and so
on. `pcce trace collect` runs them, and makes them if they are not there. Link the program with --pcce-keep.

Examples:
  pcce trace split app --parts 6
  PCCE_TRACE=short.trace ./app short-input && pcce trace split app --parts 6 --by short.trace
  PCCE_TRACE=1.trace ./app.pcce-part-1-of-6 input     # and so on
  pcce trace merge app 1.trace 2.trace 3.trace 4.trace 5.trace 6.trace -o app.trace";

/// The arguments of `split`.
#[derive(Args)]
pub struct SplitArgs {
    /// The program, built with --pcce-trace and linked with --pcce-keep
    pub program: PathBuf,
    /// How many programs share the trace
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub parts: u32,
    /// A folder in which --pcce-keep=DIR keeps what programs are made of
    #[arg(long, value_name = "DIR")]
    pub kept: Vec<PathBuf>,
    /// A trace of the program, of a short run: each part gets about the same of what was recorded there
    #[arg(long, value_name = "TRACE")]
    pub by: Option<PathBuf>,
}

/// The program of a part, from 1.
pub(super) fn program_of(program: &Path, part: u32, parts: u32) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    let width = parts.to_string().len();
    name.push(format!(".pcce-part-{part:0width$}-of-{parts}"));
    name.into()
}

/// The programs of all parts, in their order.
pub(super) fn programs_of(program: &Path, parts: u32) -> Vec<PathBuf> {
    (1..=parts).map(|part| program_of(program, part, parts)).collect()
}

/// Makes the programs.
pub fn run(args: &SplitArgs) -> anyhow::Result<Status> {
    let seed = match &args.by {
        Some(trace) => balanced(&args.program, args.parts, trace)?,
        None => 0,
    };
    make(&args.program, args.parts, &args.kept, seed)?;
    Ok(Status::Done)
}

/// The seed with which parts have about the same of what a trace has.
fn balanced(program: &Path, parts: u32, trace: &Path) -> anyhow::Result<u64> {
    let file = TraceFile::open(trace).with_context(|| trace.display().to_string())?;
    let programs = Programs::load(&[&file], program, &[], &[])?;
    let found = balance(&Reader::new(&file, &programs), program, parts)?;
    note(&format!(
        "by {}, the busiest part records {:.1} % of what takes time; {:.1} % cannot be divided",
        trace.display(),
        100.0 * found.busiest,
        100.0 * found.heaviest
    ));
    Ok(found.seed)
}

/// Opens the programs that share the trace of a program. Makes them first if they are not there, or are of another
/// build.
pub(super) fn open_or_make(program: &Path, parts: u32) -> anyhow::Result<Split> {
    let programs = programs_of(program, parts);
    if programs.iter().all(|program| program.exists()) {
        match Split::open(program, &programs) {
            Err(PartsError::OtherProgram { .. }) => {}
            result => return Ok(result?),
        }
    }
    make(program, parts, &[], 0)
}

fn make(program: &Path, parts: u32, kept: &[PathBuf], seed: u64) -> anyhow::Result<Split> {
    let linker = own_linker()?;
    let folder = program.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(1 + u64::from(parts))
    } else {
        ProgressBar::hidden()
    };
    let sizes = tempfile::NamedTempFile::new()?.into_temp_path();
    let link = |part: Option<Part>| {
        let file = tempfile::Builder::new().prefix(".pcce-").tempfile_in(folder);
        let file = file.with_context(|| format!("{}: no program can be made there", folder.display()))?;
        let file = file.into_temp_path();
        let mut command = Command::new(&linker);
        command.arg("--pcce-relink").arg(program).arg("-o").arg(&*file);
        match part {
            Some(part) => command.args(["--part", &part.to_string(), "--sizes"]),
            None => command.arg("--sizes-to"),
        };
        command.arg(&*sizes);
        command.args(kept.iter().flat_map(|folder| [OsStr::new("--kept"), folder.as_os_str()]));
        let status = command.status().with_context(|| format!("cannot run `{}`", linker.display()))?;
        if !status.success() {
            bail!(
                "{}: its parts cannot be made; link it in link mode with --pcce-trace and --pcce-keep, and give \
                 `pcce trace split --kept DIR` if it keeps there",
                program.display()
            );
        }
        bar.inc(1);
        Ok(file)
    };
    // The program as it is says how large the sections of each object are.
    let addresses = Addresses::of(&link(None)?)?;
    let made = (0..parts).map(|number| link(Some(Part { number, count: parts, seed })));
    let made = made.collect::<anyhow::Result<Vec<_>>>()?;
    bar.finish_and_clear();
    let files: Vec<PathBuf> = made.iter().map(|file| file.to_path_buf()).collect();
    Split::open(program, &files)?;
    for (number, file) in (1..).zip(&files) {
        if let Some(name) = Addresses::of(file)?.difference(&addresses) {
            note(&format!(
                "part {number} has {name} at another address than the program: if the program orders by addresses, its \
                 parts may take other ways"
            ));
        }
    }
    let programs = programs_of(program, parts);
    for (file, program) in made.into_iter().zip(&programs) {
        file.persist(program).with_context(|| program.display().to_string())?;
    }
    note(&format!(
        "{}: {parts} programs share its trace: {} and so on",
        program.display(),
        programs[0].display()
    ));
    Ok(Split::open(program, &programs)?)
}

/// Where a program has its functions and data, and where its memory ends.
struct Addresses {
    /// By name, from the least address on.
    symbols: BTreeMap<String, Vec<u64>>,
    end: u64,
}

impl Addresses {
    fn of(program: &Path) -> anyhow::Result<Self> {
        let bytes = fs::read(program).with_context(|| program.display().to_string())?;
        let file = object::File::parse(&*bytes).with_context(|| program.display().to_string())?;
        let end = file.segments().map(|segment| segment.address() + segment.size()).max().unwrap_or_default();
        let mut symbols: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let defined = file.symbols().filter(|symbol| {
            matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data) && symbol.is_definition()
        });
        for symbol in defined {
            symbols.entry(symbol.name()?.to_owned()).or_default().push(symbol.address());
        }
        symbols.values_mut().for_each(|addresses| addresses.sort_unstable());
        Ok(Self { symbols, end })
    }

    /// The first name that has another address in another program, or a text for the end of its memory.
    fn difference(&self, other: &Self) -> Option<String> {
        let moved = self.symbols.iter().filter(|(name, at)| other.symbols.get(*name) != Some(at));
        let first = moved.min_by_key(|(_, at)| at.first().copied());
        let end = (self.end != other.end).then(|| "the end of its memory".to_owned());
        first.map(|(name, _)| name.clone()).or(end)
    }
}
