//! Where the dictionaries of tokens come from: what was given, and what is found by build id.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use pcce::Decoder;
use pcce::load::load;
use pcce::numbers::NumbersFile;
use pcce::render::Format;
use pcce::session::Session;
use pcce::store::Store;

/// The dictionaries of a command.
pub struct Sources {
    /// Of those that were given.
    pub decoder: Decoder,
    store: Option<Store>,
}

impl Sources {
    /// Dictionaries are looked for by build id where no program is given, or folders are.
    ///
    /// # Errors
    /// A file that cannot be read, or is no dictionary and has none, and dictionaries that do not fit together.
    pub fn open(program: Option<&Path>, more: &[PathBuf], folders: &[PathBuf]) -> anyhow::Result<Self> {
        let paths = || program.into_iter().chain(more.iter().map(PathBuf::as_path));
        let dictionaries = paths().map(load).collect::<Result<Vec<_>, _>>()?;
        let mut decoder = Decoder::new(&dictionaries)?;
        for (number, path) in paths().enumerate() {
            decoder.set_program(number, path.to_owned(), None);
        }
        let searches = program.is_none() || !folders.is_empty();
        if let Some(folder) = folders.iter().find(|folder| !folder.is_dir()) {
            anyhow::bail!("--dicts {}: there is no such folder", folder.display());
        }
        Ok(Self { decoder, store: searches.then(|| Store::new(folders, dictionaries)) })
    }

    /// Has the numbers of a file decoded, too.
    ///
    /// # Errors
    /// A file that is none of numbers.
    pub fn with_numbers(mut self, path: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = path {
            let file = NumbersFile::open(path).with_context(|| path.display().to_string())?;
            self.decoder.set_numbers(file.into());
        }
        Ok(self)
    }

    /// A session that has not seen a token.
    pub fn session(&self, format: Format) -> Session<'_> {
        Session::new(&self.decoder, format).searching(self.store.as_ref())
    }
}
