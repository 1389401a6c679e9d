//! `pcce trace split`: makes the programs that share a trace (distributed-program-tracing.txt), beside the program, by
//! `pcce-ld` from what its link has kept.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::Args;
use indicatif::ProgressBar;
use object::LittleEndian;
use object::elf::{FileHeader64, PF_W, PF_X, PT_LOAD, ProgramHeader64};
use object::pod::bytes_of;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
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
        ProgressBar::new(2 * u64::from(parts))
    } else {
        ProgressBar::hidden()
    };
    let link = |number: u32, fill: u64| {
        let file = tempfile::Builder::new().prefix(".pcce-").tempfile_in(folder);
        let file = file.with_context(|| format!("{}: no program can be made there", folder.display()))?;
        let file = file.into_temp_path();
        let part = Part { number, count: parts, seed };
        let mut command = Command::new(&linker);
        command.arg("--pcce-relink").arg(program).arg("-o").arg(&*file);
        command.args(["--part", &part.to_string(), "--fill", &fill.to_string()]);
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
    let mut made = (0..parts).map(|number| link(number, 0)).collect::<anyhow::Result<Vec<_>>>()?;
    // Constants and variables are behind the code. They have the same addresses in all parts, so that programs that
    // order by addresses do the same.
    let end = |file: &Path| end_of_code(&fs::read(file).ok()?);
    let most = made.iter().map(|file| end(file)).chain([end(program)]).max().flatten().unwrap_or_default();
    for (number, file) in (0..).zip(&mut made) {
        let less = most - end(file).unwrap_or(most);
        if less > 0 {
            *file = link(number, less)?;
        }
    }
    bar.finish_and_clear();
    let files: Vec<PathBuf> = made.iter().map(|file| file.to_path_buf()).collect();
    Split::open(program, &files)?;
    let end = files.iter().map(|file| end_of_program(file)).chain([end_of_program(program)]).max().flatten();
    for file in &files {
        end_at(file, end).with_context(|| file.display().to_string())?;
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

type Segment = ProgramHeader64<LittleEndian>;

/// The segments of an ELF file that are loaded, each with the place of its header.
fn segments(file: &[u8]) -> Option<impl Iterator<Item = (u64, &Segment)>> {
    let header = FileHeader64::<LittleEndian>::parse(file).ok()?;
    let first = header.e_phoff(LittleEndian);
    let segments = (0..).zip(header.program_headers(LittleEndian, file).ok()?);
    let loaded = segments.filter(|(_, segment)| segment.p_type(LittleEndian) == PT_LOAD);
    Some(loaded.map(move |(index, segment)| (first + index * size_of::<Segment>() as u64, segment)))
}

/// The address after a segment's end.
fn end_of(segment: &Segment) -> u64 {
    segment.p_vaddr(LittleEndian).saturating_add(segment.p_memsz(LittleEndian))
}

/// The address after the end of a program's code.
fn end_of_code(file: &[u8]) -> Option<u64> {
    let code = segments(file)?.filter(|(_, segment)| segment.p_flags(LittleEndian).0 & PF_X.0 != 0);
    code.map(|(_, segment)| end_of(segment)).max()
}

/// The last segment, if it is writable, and the place of its header.
fn last_segment(file: &[u8]) -> Option<(u64, &Segment)> {
    let last = segments(file)?.max_by_key(|(_, segment)| segment.p_vaddr(LittleEndian))?;
    (last.1.p_flags(LittleEndian).0 & PF_W.0 != 0).then_some(last)
}

/// The address after the last segment's end.
fn end_of_program(program: &Path) -> Option<u64> {
    Some(end_of(last_segment(&fs::read(program).ok()?)?.1))
}

/// Makes a program take its memory up to this address. The heap begins behind it, so that blocks have the same
/// addresses in all parts, and programs that order by addresses do the same.
fn end_at(program: &Path, end: Option<u64>) -> io::Result<()> {
    let file = fs::read(program)?;
    if let (Some((at, segment)), Some(end)) = (last_segment(&file), end) {
        let mut segment = *segment;
        segment.p_memsz.set(LittleEndian, end - segment.p_vaddr(LittleEndian));
        let mut to = fs::OpenOptions::new().write(true).open(program)?;
        to.seek(SeekFrom::Start(at))?;
        to.write_all(bytes_of(&segment))?;
    }
    Ok(())
}
