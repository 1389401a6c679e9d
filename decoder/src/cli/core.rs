//! `pcce core`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pcce::core_file::Core;
use pcce::crash_report::Report;
use pcce::load::{self, LoadCause, LoadError};
use pcce::program::ProgramError;
use pcce::render::Format;
use pcce::session::{MAX_CALLS, Session};
use pcce::{Decoder, debug_files};
use pcce_dictionary::Dictionary;

use super::{CoreArgs, CoreFormat, Status, decode};

/// The files from which a dictionary is made.
struct Source {
    dictionary: Dictionary,
    /// The file with the dictionary and the debug information.
    path: PathBuf,
    /// The program, if that is another file.
    stripped: Option<PathBuf>,
}

/// Decodes the contexts of a core file's threads.
pub fn run(args: &CoreArgs) -> anyhow::Result<Status> {
    let with_path = |path: &Path, cause| LoadError { path: path.to_owned(), cause };
    let read = |path: &Path| load::read_file(path).map_err(|error| with_path(path, LoadCause::Io(error)));
    let core = Core::open(&args.core, &args.program, read(&args.program)?)?;
    let mut sources: Vec<Source> = Vec::new();
    for (number, image) in core.images().iter().enumerate() {
        let Some(path) = &image.path else { continue };
        let given = args.debug_file.as_ref().filter(|_| number == 0);
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let own = load::from_bytes(&image.bytes, &name);
        let found = match (own, given.cloned()) {
            (Err(LoadCause::Program(ProgramError::NoSection)), None) => debug_files::find(path, &image.bytes),
            (_, given) => given,
        };
        match found {
            Some(file) => sources.push(Source {
                dictionary: load::load(&file)?,
                path: file,
                stripped: Some(path.clone()),
            }),
            None => match load::from_bytes(&image.bytes, &name) {
                Ok(dictionary) => sources.push(Source { dictionary, path: path.clone(), stripped: None }),
                // The library is not instrumented, or its dictionary is given by an option.
                Err(_) if number > 0 => {}
                Err(LoadCause::Program(ProgramError::NoSection)) if !args.more.is_empty() => {}
                Err(cause) => Err(with_path(path, cause))?,
            },
        }
    }
    for path in &args.more {
        let dictionary = load::load(path)?;
        if sources.iter().all(|s| s.dictionary.build_id != dictionary.build_id) {
            sources.push(Source { dictionary, path: path.clone(), stripped: None });
        }
    }
    let debug = sources.first().filter(|s| s.stripped.is_some()).map(|s| read(&s.path)).transpose()?;
    let debug = debug.filter(|bytes| bytes.starts_with(&pcce::ELF_MAGIC));
    let report = core.report(debug.as_deref())?;
    if let Some(to) = &args.trace {
        let trace = core.trace(debug.as_deref());
        let trace = trace.context("the process recorded no calls: it needs --pcce-trace, and PCCE_TRACE")?;
        let what = || format!("{}, to be copied to {}", trace.path.display(), to.display());
        trace.write(to).with_context(what)?;
    }
    let numbers = if args.numbers.is_empty() { None } else { core.numbers(debug.as_deref()) };
    drop(core);
    let (dictionaries, files): (Vec<_>, Vec<_>) =
        sources.into_iter().map(|s| (s.dictionary, (s.path, s.stripped))).unzip();
    if dictionaries.first().is_some_and(|d| d.build_id != report.build_id) && args.debug_file.is_some() {
        anyhow::bail!(
            "{}: it has build id {}, and the program has {}; give the debug file of this build",
            files[0].0.display(),
            dictionaries[0].build_id,
            report.build_id
        );
    }
    let mut decoder = Decoder::new(&dictionaries)?;
    drop(dictionaries);
    for (number, (path, stripped)) in files.into_iter().enumerate() {
        decoder.set_program(number, path, stripped);
    }
    if !args.numbers.is_empty() {
        let numbers =
            numbers.context("the core file has no numbers: the program's symbols are needed for them")?;
        decoder.set_numbers(numbers);
        return decode::numbers(&decoder, args);
    }
    match args.format {
        CoreFormat::Text => decode::report(&decoder, &report, &args.appearance.style(false)?),
        CoreFormat::Json => json(&decoder, &report),
    }
}

/// Writes the report as one JSON document.
fn json(decoder: &Decoder, report: &Report) -> anyhow::Result<Status> {
    let mut session = Session::new(decoder, Format::Json).bounded(MAX_CALLS);
    // The core file and the program are of one build.
    session.set_of_program(true);
    let (document, status) = super::crash::document(&mut session, report)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}", pcce::printable::json(&document))
        .and_then(|()| out.flush())
        .context("standard output")?;
    Ok(status)
}
