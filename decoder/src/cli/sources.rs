//! The sources of dictionaries: files of the command line, and files that are found by build id.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pcce::Decoder;
use pcce::load::load;
use pcce::numbers::{HEAD, Numbers, NumbersFile};
use pcce::render::Format;
use pcce::session::Session;
use pcce::store::Store;

use super::project::{self, Project};

/// Bound on the time that the start of a program takes.
const START: Duration = Duration::from_secs(2);

/// The dictionaries of a command.
pub struct Sources {
    /// The decoder with the dictionaries that were given.
    pub decoder: Decoder,
    store: Store,
}

impl Sources {
    /// Opens the dictionaries. Further ones are looked up by build id: those of the program's shared libraries always,
    /// and others if no program or some folders are given. `numbers` is a file of numbers, which are then decoded, too.
    ///
    /// # Errors
    /// A file cannot be read, or neither is nor has a dictionary; dictionaries are not consistent; or `numbers`
    /// is no file of numbers.
    pub fn open(
        program: Option<&Path>,
        more: &[PathBuf],
        folders: &[PathBuf],
        numbers: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let paths = || program.into_iter().chain(more.iter().map(PathBuf::as_path));
        let dictionaries = paths().map(load).collect::<Result<Vec<_>, _>>()?;
        let mut decoder = Decoder::new(&dictionaries)?;
        for (number, path) in paths().enumerate() {
            decoder.set_program(number, path.to_owned(), None);
        }
        let of_project = Project::find()?.dicts;
        let from = folders.iter().map(|folder| ("--dicts", folder));
        let mut from = from.chain(of_project.iter().map(|folder| (project::NAME, folder)));
        if let Some((named_by, folder)) = from.find(|(_, folder)| !folder.is_dir()) {
            anyhow::bail!("{named_by} {}: there is no such folder", folder.display());
        }
        let folders = &[folders, &of_project].concat()[..];
        let searches = program.is_none() || !folders.is_empty();
        let numbers = numbers.map(open_numbers).transpose()?;
        if let Some(numbers) = &numbers {
            decoder.set_numbers(numbers.clone());
        }
        let given = dictionaries.into_iter().zip(paths().map(Path::to_owned)).collect();
        let store = Store::new(folders, given).with_numbers(numbers);
        let store = match program {
            Some(program) => store.with_libraries(program, !searches),
            None => store,
        };
        Ok(Self { decoder, store })
    }

    /// A session that has not seen a token.
    pub fn session(&self, format: Format) -> Session<'_> {
        Session::new(&self.decoder, format).searching(&self.store)
    }
}

/// Opens a file of numbers.
///
/// # Errors
/// The file cannot be read, or is no file of numbers.
pub fn open_numbers(path: &Path) -> anyhow::Result<Numbers> {
    let file = NumbersFile::open(path).with_context(|| path.display().to_string())?;
    Ok(Numbers::from(file))
}

/// Waits a little for a file of numbers if standard input is a pipe: the program at its other end starts at the
/// same time as this process, and makes the file.
pub fn wait_for_numbers(path: &Path) {
    let stdin = io::stdin().as_fd().try_clone_to_owned().and_then(|stdin| File::from(stdin).metadata());
    let is_pipe = stdin.is_ok_and(|data| data.file_type().is_fifo() || data.file_type().is_socket());
    let is_missing = || match fs::metadata(path) {
        Ok(data) => data.is_file() && data.len() < HEAD,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    let start = Instant::now();
    while is_pipe && is_missing() && start.elapsed() < START {
        sleep(Duration::from_millis(10));
    }
}
