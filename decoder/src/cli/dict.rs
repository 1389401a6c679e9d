//! `pcce dict`.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use pcce::load::{LoadCause, LoadError, read_file};
use pcce::program::{self, ProgramError};
use pcce::store;
use pcce_dictionary::Dictionary;

use super::{DictArgs, Status, note};

/// Writes the dictionaries of programs.
pub fn run(args: &DictArgs) -> anyhow::Result<Status> {
    if args.store.is_none() && args.programs.len() > 1 {
        anyhow::bail!("several programs need --store DIR: each dictionary is a file of its own");
    }
    for program in &args.programs {
        let dictionary = dictionary(program)?;
        match (&args.store, &args.output) {
            (Some(folder), _) => keep(folder, &dictionary)?,
            (None, Some(output)) => {
                fs::write(output, json(&dictionary)?)
                    .with_context(|| format!("{}: cannot be written", output.display()))?;
            }
            (None, None) => {
                let json = json(&dictionary)?;
                let mut out = io::stdout().lock();
                out.write_all(&json).and_then(|()| out.flush()).context("standard output")?;
            }
        }
    }
    Ok(Status::Done)
}

/// Puts a dictionary into a folder, by its build id.
pub fn keep(folder: &Path, dictionary: &Dictionary) -> anyhow::Result<()> {
    let file = store::place(folder, &dictionary.build_id);
    put(&file, &json(dictionary)?).with_context(|| format!("{}: cannot be written", file.display()))
}

fn json(dictionary: &Dictionary) -> anyhow::Result<Vec<u8>> {
    let json = String::from_utf8(pcce_dictionary::to_json(dictionary)).context("the dictionary")?;
    let mut json = pcce::printable::json_text(json).into_bytes();
    json.push(b'\n');
    Ok(json)
}

/// Writes a file and then renames it into place: other processes may read the folder meanwhile.
fn put(file: &Path, content: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Other users may write to the folder, so the temporary name cannot be guessed. The umask decides who may
    // read the file.
    let rights = fs::Permissions::from_mode(0o666);
    let mut temporary = tempfile::Builder::new().prefix(".").permissions(rights).tempfile_in(folder)?;
    temporary.write_all(content)?;
    temporary.persist(file)?;
    Ok(())
}

/// The dictionary of a program.
pub fn dictionary(path: &Path) -> anyhow::Result<Dictionary> {
    let with_path = |cause| LoadError { path: path.to_owned(), cause };
    let bytes = read_file(path).map_err(|error| with_path(LoadCause::Io(error)))?;
    if !bytes.starts_with(&pcce::ELF_MAGIC) {
        anyhow::bail!(
            "{}: not a program (no ELF file); give the linked program or shared library",
            path.display()
        );
    }
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let mut dictionary = program::dictionary(&bytes, &name).map_err(|cause| with_path(cause.into()))?;
    // A dictionary that `decode` would refuse is refused here, while the program is at hand.
    pcce::Decoder::new(std::slice::from_ref(&dictionary)).map_err(|error| {
        anyhow::anyhow!(
            "{}: {}; build the program again, and if this stays, please report it",
            path.display(),
            error.cause
        )
    })?;
    let code = match program::code(&bytes, None, &dictionary) {
        Err(cause @ ProgramError::NoMachineCode) => {
            note(&format!("{}: {cause}", path.display()));
            None
        }
        code => code.map_err(|cause| with_path(cause.into()))?,
    };
    dictionary.code = code.as_ref().map(pcce_dictionary::code::to_text);
    Ok(dictionary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_the_store_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("others"), "theirs").unwrap();
        // Earlier releases used this name.
        std::os::unix::fs::symlink(path("others"), path(&format!(".{}", std::process::id()))).unwrap();
        put(&path("file"), b"new").unwrap();
        assert_eq!(fs::read(path("file")).unwrap(), b"new");
        assert_eq!(fs::read(path("others")).unwrap(), b"theirs");
        fs::write(path("plain"), "").unwrap();
        let rights = |name: &str| fs::metadata(path(name)).unwrap().permissions();
        assert_eq!(rights("file"), rights("plain"));
    }
}
