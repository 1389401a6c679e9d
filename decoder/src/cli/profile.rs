//! `pcce heap` and `pcce cpu`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::iter;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pcce::Decoder;
use pcce::load::load;
use pcce::profile::diff::Side;
use pcce::profile::report::Selection;
use pcce::profile::{Kind, Metric, Profile, Stacks, diff, flame, pprof, report, speedscope};
use pcce::store::Store;
use pcce::style::Style;
use pcce_dictionary::Dictionary;

use super::Status;
use super::follow::follow;
use super::views::{CpuCommand, DiffArgs, ProfileCommand, ProfileView, ReportFormat};

/// A profile with its program.
pub struct Read {
    /// The profile, as the program wrote it.
    pub profile: Profile,
    /// Its contexts.
    pub stacks: Stacks,
    /// The dictionary of the program.
    pub dictionary: Dictionary,
}

/// A program, and libraries, whose profiles are decoded.
pub struct Images {
    /// The dictionary of the program, then those of libraries.
    dictionaries: Vec<Dictionary>,
    /// The file of each dictionary.
    files: Vec<PathBuf>,
    decoder: Decoder,
}

impl Images {
    /// Loads a program, and the libraries that are given.
    pub fn load(program: &Path, more: &[PathBuf]) -> anyhow::Result<Self> {
        let files: Vec<PathBuf> =
            iter::once(program).chain(more.iter().map(PathBuf::as_path)).map(Path::to_owned).collect();
        let dictionaries = files.iter().map(|file| load(file)).collect::<Result<Vec<_>, _>>()?;
        let decoder = Self::decoder(&dictionaries, &files)?;
        Ok(Self { dictionaries, files, decoder })
    }

    /// Adds a library.
    pub fn add(&mut self, file: PathBuf) -> anyhow::Result<()> {
        let dictionary = load(&file)?;
        self.dictionaries.push(dictionary);
        self.files.push(file);
        self.decoder = Self::decoder(&self.dictionaries, &self.files)?;
        Ok(())
    }

    fn decoder(dictionaries: &[Dictionary], files: &[PathBuf]) -> anyhow::Result<Decoder> {
        let mut decoder = Decoder::new(dictionaries)?;
        for (number, path) in files.iter().enumerate() {
            decoder.set_program(number, path.clone(), None);
        }
        Ok(decoder)
    }

    /// The program's dictionary.
    pub fn program(&self) -> &Dictionary {
        &self.dictionaries[0]
    }

    /// Refuses a profile of another build.
    pub fn check(&self, profile: &Profile) -> anyhow::Result<()> {
        let build_id = &self.program().build_id;
        if profile.build_id.is_empty() || !build_id.starts_with(&profile.build_id) {
            bail!(
                "the profile is of another build: it has build id {}, and {} has {build_id}; give the program that \
                 wrote it",
                if profile.build_id.is_empty() { "none" } else { &profile.build_id },
                self.files[0].display(),
            );
        }
        Ok(())
    }

    /// The contexts of a profile of the program.
    pub fn stacks(&self, profile: &Profile, style: &Style) -> anyhow::Result<Stacks> {
        let decode = |decoder: &Decoder| {
            Stacks::decode(profile, decoder, style)
                .map_err(|(token, failure)| anyhow::anyhow!("token {token}: {failure}"))
        };
        let stacks = decode(&self.decoder)?;
        let lacking = [&stacks.missing[..], &stacks.absent].concat();
        if lacking.is_empty() {
            return Ok(stacks);
        }
        let given = self.dictionaries.iter().cloned().zip(self.files.iter().cloned()).collect();
        let store = Store::new(&[], given).with_libraries(&self.files[0], true);
        store.decoder(&lacking).map_or(Ok(stacks), decode)
    }
}

/// Reads a profile, of any kind if none is given, and decodes it.
pub fn read_profile(
    kind: Option<Kind>,
    program: &Path,
    profile: &Path,
    more: &[PathBuf],
    style: &Style,
) -> anyhow::Result<Read> {
    let path = profile.display();
    if kind == Some(Kind::Heap) && !profile.exists() {
        let dictionary = pcce::load::load(program)?;
        let mut options = dictionary.modules.iter().flat_map(|module| &module.options);
        if !options.any(|option| option == pcce_options::OF_HEAP) {
            bail!(
                "{path}: there is no such file, and {} was built without --pcce-heap: both the compiler and the link need \
                 it",
                program.display()
            );
        }
    }
    let text = pcce::load::read_file(profile).with_context(|| format!("{path}: cannot be read"))?;
    let profile = Profile::read(&text).with_context(|| path.to_string())?;
    drop(text);
    if kind.is_some_and(|kind| kind != profile.kind) {
        let name = profile.kind.name();
        bail!("{path}: this is a {name} profile; use `pcce {name}`");
    }
    let mut images = Images::load(program, more)?;
    images.check(&profile).with_context(|| path.to_string())?;
    let stacks = images.stacks(&profile, style).with_context(|| path.to_string())?;
    for id in &stacks.missing {
        super::message(&format!(
            "no dictionary was given for the module with build id {id}, and its calls are left out; give the \
             shared library, or its dictionary, with --dict FILE"
        ));
    }
    Ok(Read { profile, stacks, dictionary: images.dictionaries.swap_remove(0) })
}

/// `pcce cpu`.
pub fn cpu(command: &CpuCommand) -> anyhow::Result<Status> {
    match command {
        CpuCommand::Profile(command) => run(Kind::Cpu, command),
        CpuCommand::Follow(args) => follow(args),
    }
}

/// Shows or compares profiles.
pub fn run(kind: Kind, command: &ProfileCommand) -> anyhow::Result<Status> {
    match command {
        ProfileCommand::View(view) => show(kind, view),
        ProfileCommand::Diff(args) => diff(kind, args),
    }
}

/// Shows a profile.
fn show(kind: Kind, view: &ProfileView) -> anyhow::Result<Status> {
    let args = match view {
        ProfileView::Report { args, .. }
        | ProfileView::Flamegraph { args, .. }
        | ProfileView::Folded { args, .. }
        | ProfileView::Pprof(args)
        | ProfileView::Speedscope(args) => args,
    };
    let style = match view {
        ProfileView::Report { appearance, .. } => appearance.style(args.output.is_some())?,
        ProfileView::Flamegraph { short, .. } | ProfileView::Folded { short, .. } => {
            Style { short: *short, ..Style::default() }
        }
        ProfileView::Pprof(_) | ProfileView::Speedscope(_) => Style::default(),
    };
    let Read { profile, stacks, dictionary } =
        read_profile(Some(kind), &args.program, &args.profile, &args.more, &style)?;
    let Dictionary { program, build_id, .. } = dictionary;
    match view {
        ProfileView::Report { by, top, format, .. } => {
            let (by, _) = metric(&profile, by.as_deref())?;
            let selection = Selection { by, top: *top };
            output(args.output.as_deref(), |out| match format {
                ReportFormat::Text => report::text(&profile, &stacks, &program, selection, &style, out),
                ReportFormat::Json => report::json(&profile, &stacks, &program, selection, out),
            })
        }
        ProfileView::Flamegraph { by, .. } => {
            let (number, _) = additive(&profile, by.as_deref())?;
            output(args.output.as_deref(), |out| flame::graph(&stacks, kind, number, &program, out))
        }
        ProfileView::Folded { by, .. } => {
            let (number, _) = additive(&profile, by.as_deref())?;
            output(args.output.as_deref(), |out| flame::folded(&stacks, number, out))
        }
        ProfileView::Pprof(_) => output(args.output.as_deref(), |out| {
            pprof::write(&stacks, profile.metrics(), &program, &build_id, out)
        }),
        ProfileView::Speedscope(_) => {
            output(args.output.as_deref(), |out| speedscope::write(&stacks, profile.metrics(), &program, out))
        }
    }?;
    Ok(if stacks.missing.is_empty() { Status::Done } else { Status::Failed })
}

/// Compares two profiles.
fn diff(kind: Kind, args: &DiffArgs) -> anyhow::Result<Status> {
    let style = args.appearance.style(args.output.is_some())?;
    let read =
        |program: &Path, profile: &Path| read_profile(Some(kind), program, profile, &args.more, &style);
    let old = read(&args.program, &args.old)?;
    let new = read(args.new_program.as_ref().unwrap_or(&args.program), &args.new)?;
    let fewer = if old.profile.has_leaks { &new } else { &old };
    let (by, _) = metric(&fewer.profile, args.by.as_deref())?;
    let selection = Selection { by, top: args.top };
    let [first, second] = [&old, &new].map(|read| Side { profile: &read.profile, stacks: &read.stacks });
    let program = &old.dictionary.program;
    output(args.output.as_deref(), |out| match args.format {
        ReportFormat::Text => diff::text(first, second, program, selection, &style, out),
        ReportFormat::Json => diff::json(first, second, program, selection, out),
    })?;
    let is_whole = old.stacks.missing.is_empty() && new.stacks.missing.is_empty();
    Ok(if is_whole { Status::Done } else { Status::Failed })
}

/// The metric of that name, or the first one.
pub fn metric(profile: &Profile, name: Option<&str>) -> anyhow::Result<(usize, &'static Metric)> {
    let metrics = profile.metrics();
    let Some(name) = name else { return Ok((0, &metrics[0])) };
    let of_name = |(_, metric): &(usize, &Metric)| metric.name == name;
    if let Some(found) = metrics.iter().enumerate().find(of_name) {
        return Ok(found);
    }
    let kind = profile.kind.name();
    if profile.kind.metrics().iter().enumerate().any(|metric| of_name(&metric)) {
        bail!(
            "--by {name}: this {kind} profile does not tell what has leaked; run the program with PCCE_HEAP_LEAKS=1"
        );
    }
    let names: Vec<_> = metrics.iter().map(|metric| metric.name).collect();
    bail!("--by {name}: a {kind} profile has {}", names.join(", "))
}

/// As [`metric`], for metrics whose numbers can be added.
pub fn additive(profile: &Profile, name: Option<&str>) -> anyhow::Result<(usize, &'static Metric)> {
    let (number, metric) = metric(profile, name)?;
    if !metric.additive {
        bail!("--by {}: these numbers cannot be added up for a picture; take another one", metric.name);
    }
    Ok((number, metric))
}

/// Refuses to write to a file that the command line names elsewhere, too: it would be lost before it is read.
pub fn spare_inputs(output: &Path) -> anyhow::Result<()> {
    let Ok(there) = fs::metadata(output) else { return Ok(()) };
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let is_option = |word: &OsString| ["-o", "--output"].iter().any(|option| word == option);
    let inputs = words.iter().enumerate().filter(|(at, _)| *at == 0 || !is_option(&words[at - 1]));
    let is_there = |(_, word): (usize, &OsString)| {
        fs::metadata(word).is_ok_and(|file| (file.dev(), file.ino()) == (there.dev(), there.ino()))
    };
    if there.is_file() && { inputs }.any(is_there) {
        anyhow::bail!(
            "{}: this is one of the files that are read, which would be lost; write to another file",
            output.display()
        );
    }
    Ok(())
}

/// Writes to the file, which must be no input, or to standard output.
pub fn output(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    path.map_or(Ok(()), spare_inputs)?;
    write_to(path, write)
}

/// Writes to the file, or to standard output.
pub fn write_to(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    match path {
        Some(path) => {
            let write = || {
                let mut out = BufWriter::new(File::create(path)?);
                write(&mut out)?;
                out.flush()
            };
            write().with_context(|| format!("{}: cannot be written", path.display()))
        }
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            write(&mut out).and_then(|()| out.flush()).context("standard output")
        }
    }
}
