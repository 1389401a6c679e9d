//! The sources of dictionaries: files of the command line, and files that are found by build id.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pcce::Decoder;
use pcce::load::load;
use pcce::numbers::{Numbers, NumbersFile};
use pcce::render::Format;
use pcce::session::Session;
use pcce::store::Store;

use super::project::Project;

/// The dictionaries of a command.
pub struct Sources {
    /// The decoder with the dictionaries that were given.
    pub decoder: Decoder,
    store: Option<Store>,
}

impl Sources {
    /// Opens the dictionaries. They are looked up by build id if no program is given, or if folders are.
    /// `numbers` is a file of numbers, which are then decoded, too.
    ///
    /// # Errors
    /// A file cannot be read, or neither is nor has a dictionary; dictionaries do not fit together; or `numbers`
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
        let folders = &[folders, &Project::find()?.dicts].concat()[..];
        let searches = program.is_none() || !folders.is_empty();
        if let Some(folder) = folders.iter().find(|folder| !folder.is_dir()) {
            anyhow::bail!("--dicts {}: there is no such folder", folder.display());
        }
        let open = |path: &Path| NumbersFile::open(path).with_context(|| path.display().to_string());
        let numbers: Option<Numbers> = numbers.map(open).transpose()?.map(Numbers::from);
        if let Some(numbers) = &numbers {
            decoder.set_numbers(numbers.clone());
        }
        let store = searches.then(|| Store::new(folders, dictionaries).with_numbers(numbers));
        Ok(Self { decoder, store })
    }

    /// A session that has not seen a token.
    pub fn session(&self, format: Format) -> Session<'_> {
        Session::new(&self.decoder, format).searching(self.store.as_ref())
    }
}
