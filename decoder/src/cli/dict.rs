//! `pcce dict`.

use std::fs::File;
use std::io::{self, Write};

use anyhow::Context;
use pcce::load::{LoadCause, LoadError};
use pcce::program;

use super::{DictArgs, Status};

/// Writes the dictionary of a program.
pub fn run(args: &DictArgs) -> anyhow::Result<Status> {
    let path = &args.program;
    let with_path = |cause| LoadError { path: path.clone(), cause };
    let bytes = std::fs::read(path).map_err(|error| with_path(LoadCause::Io(error)))?;
    if !bytes.starts_with(&program::ELF_MAGIC) {
        anyhow::bail!(
            "{}: not a program (no ELF file); give the linked program or shared library",
            path.display()
        );
    }
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let mut dictionary = program::dictionary(&bytes, &name).map_err(|cause| with_path(cause.into()))?;
    // Refuse what `decode` would refuse, while the program is at hand.
    pcce::Decoder::new(std::slice::from_ref(&dictionary)).map_err(|error| {
        anyhow::anyhow!(
            "{}: {}; build the program again, and if this stays, please report it",
            path.display(),
            error.cause
        )
    })?;
    let code = program::code(&bytes, None, &dictionary).map_err(|cause| with_path(cause.into()))?;
    dictionary.code = code.as_ref().map(pcce_dictionary::code::to_text);
    let mut json = pcce_dictionary::to_json(&dictionary);
    json.push(b'\n');
    match &args.output {
        Some(output) => {
            let write = || File::create(output)?.write_all(&json);
            write().with_context(|| format!("{}: cannot be written", output.display()))?;
        }
        None => {
            let mut out = io::stdout().lock();
            out.write_all(&json).and_then(|()| out.flush()).context("standard output")?;
        }
    }
    Ok(Status::Done)
}
