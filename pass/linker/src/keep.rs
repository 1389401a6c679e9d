//! Keeps the inputs of a link in a file ([`crate::kept`]) on request.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::command::Command;
use crate::inputs::{Inputs, files_of};
use crate::kept::{self, Content, Manifest, Name, Plain};
use crate::linked::{Linked, canonical};
use crate::scratch::with_names;
use crate::{Error, Generated, scripts};

/// The variable that requests a kept file, and names its place.
pub const VARIABLE: &str = "PCCE_KEEP";
/// The ending of the names of kept files.
pub const ENDING: &str = ".pcce-kept";
/// The subfolder in which files are named by build ids, as debuggers expect.
const BY_ID: &str = ".build-id";
/// The environment variables that linkers read.
const VARIABLES: [&str; 5] =
    ["LD_RUN_PATH", "LD_LIBRARY_PATH", "GNUTARGET", "LDEMULATION", "SOURCE_DATE_EPOCH"];

/// The place of the kept file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Beside the link's output.
    Beside,
    /// In a folder, by the build id.
    Folder(PathBuf),
}

impl Place {
    /// Reads the request from the environment.
    pub fn of_environment() -> Option<Self> {
        let value = std::env::var_os(VARIABLE).filter(|value| !value.is_empty())?;
        Some(if value == "1" { Place::Beside } else { Place::Folder(value.into()) })
    }

    /// The file for a program; none if it would be named by a missing build id.
    pub fn of(&self, program: &Path, build_id: Option<&str>) -> Option<PathBuf> {
        match self {
            Place::Beside => Some(beside(program)),
            Place::Folder(folder) => by_id(folder, build_id?),
        }
    }
}

/// The file beside a program.
pub fn beside(program: &Path) -> PathBuf {
    let mut name = program.as_os_str().to_owned();
    name.push(ENDING);
    name.into()
}

/// The file in a folder.
pub fn by_id(folder: &Path, build_id: &str) -> Option<PathBuf> {
    let (start, rest) = build_id.split_at_checked(2).filter(|(_, rest)| !rest.is_empty())?;
    Some(folder.join(BY_ID).join(start).join(format!("{rest}{ENDING}")))
}

/// A finished link.
pub struct Done<'a> {
    pub command: &'a Command,
    pub linker: &'a Path,
    /// Its output.
    pub output: &'a Path,
    /// Its content.
    pub linked: &'a Linked,
    /// The code that was generated for it.
    pub generated: &'a Generated,
    /// The folder of the link.
    pub scratch: &'a Path,
}

impl Done<'_> {
    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written, or the link cannot be made again.
    pub fn keep(&self, place: &Place) -> Result<(), Error> {
        let folder = self.scratch.join("kept");
        let inputs = Inputs::to_keep(self.command, self.linked, &folder)?;
        let manifest = self.manifest(&inputs, &folder)?;
        let file = place.of(self.output, manifest.build_id.as_deref());
        let file = file.ok_or_else(|| Error::NoBuildId(self.output.to_owned()))?;
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let written = fs::create_dir_all(parent).and_then(|()| {
            // Readers see a complete file. It has the rights of any new file.
            let rights = std::os::unix::fs::PermissionsExt::from_mode(0o666);
            let mut new = tempfile::Builder::new().prefix(".new-").permissions(rights).tempfile_in(parent)?;
            kept::write(new.as_file_mut(), &manifest, &folder)?;
            new.persist(&file)?;
            Ok(())
        });
        written.map_err(Error::file(&file))
    }

    fn manifest(&self, inputs: &Inputs, folder: &Path) -> Result<Manifest, Error> {
        let mut copies: Vec<&(PathBuf, PathBuf)> = inputs.copies.iter().collect();
        copies.sort();
        let words: Vec<OsString> = inputs.words.iter().flat_map(|(_, texts)| texts.clone()).collect();
        let mut texts = Vec::new();
        for (copy, _) in copies.iter().filter(|(copy, _)| !copy.is_symlink() && scripts::is_script(copy)) {
            texts.push((copy, OsString::from_vec(fs::read(copy).map_err(Error::file(copy))?)));
        }
        let all = words.iter().chain(texts.iter().map(|(_, text)| text));
        let root = kept::root_for(all.map(OsString::as_os_str));
        let moved = |text: &OsStr| {
            let bytes = std::os::unix::ffi::OsStrExt::as_bytes(text);
            Name(OsString::from_vec(with_names(bytes, &[(folder.to_owned(), root.clone())])))
        };
        let mut files = Vec::new();
        for (copy, original) in &copies {
            let text = texts.iter().find(|(script, _)| *script == copy).map(|(_, text)| moved(text));
            let size = match &text {
                Some(text) => text.0.len() as u64,
                None => fs::metadata(copy).map_err(Error::file(copy))?.len(),
            };
            let name = Name::from(copy.strip_prefix(folder).unwrap_or(copy));
            files.push(Content { name, shown: Name::from(&**original), size, is_script: text.is_some() });
        }
        let mut modules: Vec<String> =
            self.linked.modules.iter().map(|module| format!("{:016x}", module.id)).collect();
        modules.sort();
        let whole = |path: &Path| std::path::absolute(path).map_err(Error::file(path));
        let variable = |name: &str| (name.to_owned(), std::env::var_os(name).map(Name));
        Ok(Manifest {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            program: Name::from(&*whole(self.output)?),
            output: Name::from(self.output),
            build_id: kept::build_id(self.output),
            folder: Name::from(&*whole(Path::new("."))?),
            linker: Name::from(&*whole(self.linker)?),
            variables: VARIABLES.map(variable).into(),
            words: words.iter().map(|word| moved(word)).collect(),
            root: Name::from(&*root),
            modules,
            commands: self.generated.commands.clone(),
            profile: self.generated.profile.as_deref().map(|file| Name::from(&*canonical(file))),
            plain: self.plain(inputs)?,
            files,
        })
    }

    /// All files that the link has read or run, and that are not kept.
    fn plain(&self, inputs: &Inputs) -> Result<Vec<Plain>, Error> {
        let Linked { plain, shared_libraries, others, partials, .. } = self.linked;
        let kept: HashSet<PathBuf> = inputs.copies.iter().map(|(_, file)| canonical(file)).collect();
        let named = files_of(self.command).into_iter().flatten();
        let read = plain.iter().flat_map(|object| [Some(&object.file), object.archive.as_ref()]);
        let read = read.flatten().chain(shared_libraries).chain(others).cloned().chain(named);
        let is_left = |file: &PathBuf| {
            let file = canonical(file);
            file.is_file() && !kept.contains(&file) && !file.starts_with(self.scratch)
        };
        let tools = partials.iter().flat_map(|partial| partial.linkers()).chain([self.linker.to_owned()]);
        let tools = tools.chain(self.generated.depends.iter().cloned()).filter(|file| file.is_file());
        let mut all = BTreeSet::new();
        for file in read.filter(is_left) {
            all.insert((std::path::absolute(&file).map_err(Error::file(&file))?, false));
        }
        // A file may have several names.
        all.extend(tools.map(|file| (canonical(&file), true)));
        all.iter().map(|(file, is_tool)| Plain::of(file, *is_tool).map_err(Error::file(file))).collect()
    }
}
