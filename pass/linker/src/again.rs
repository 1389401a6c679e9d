//! Makes a program again, of what its link has kept ([`crate::kept`]): code is generated, and it is linked by the same
//! command. Sources, objects and archives need not be there.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::command::Command;
use crate::inputs::tail;
use crate::kept::{self, Kept, Manifest};
use crate::linked::{Linked, canonical};
use crate::links::Links;
use crate::scratch::{Scratch, with_names};
use crate::{Error, Generate, Generated, keep};

/// What was kept of a program: the file itself, or for a program the one beside it, or in one of the folders by its
/// build id.
///
/// # Errors
/// There is none, or it cannot be used.
pub fn find(file: &Path, folders: &[PathBuf]) -> Result<Kept, Error> {
    if kept::is_kept(file) {
        return Kept::read(file);
    }
    let Some(id) = kept::build_id(file) else {
        // Says what it is, or that it is not there.
        return Kept::read(file);
    };
    let of_folders = folders.iter().filter_map(|folder| keep::by_id(folder, &id));
    let places: Vec<PathBuf> = [keep::beside(file)].into_iter().chain(of_folders).collect();
    let mut others = Vec::new();
    for place in places.iter().filter(|place| place.exists()) {
        let kept = Kept::read(place)?;
        if kept.manifest.build_id.as_ref() == Some(&id) {
            return Ok(kept);
        }
        others.push(place.clone());
    }
    match others.into_iter().next() {
        Some(other) => Err(Error::KeptOther { program: file.to_owned(), file: other }),
        None => Err(Error::KeptNowhere { program: file.to_owned(), places }),
    }
}

/// Makes the program again. `output`: its name; without one it has the name that it had, in this folder.
/// `has_other_profile`: the code does not depend on the profile that it had. Nothing is written unless all goes well.
///
/// # Errors
/// Why it is not made.
pub fn again(
    kept: &Kept,
    output: Option<PathBuf>,
    has_other_profile: bool,
    generate: &dyn Generate,
) -> Result<ExitCode, Error> {
    let manifest = &kept.manifest;
    let name = manifest.program.path().file_name().unwrap_or("a.out".as_ref());
    let target = output.unwrap_or_else(|| name.into());
    let target = std::path::absolute(&target).map_err(Error::file(&target))?;
    let old = manifest.profile.as_ref().filter(|_| has_other_profile);
    for plain in manifest.plain.iter().filter(|plain| Some(&plain.path) != old) {
        plain.check()?;
    }
    let mut scratch = Scratch::new(Path::new(""))?;
    let root = scratch.path().join("root");
    kept.unpack(&root)?;
    let image = scratch.path().join("program");
    let words = manifest.words.iter().map(|word| kept.word(word, &root));
    let command = Command::of_words(words.chain(["-o".into(), image.clone().into()]));
    let shown =
        |content: &kept::Content| (root.join(tail(content.name.path())), content.shown.path().to_owned());
    let mut names: Vec<(PathBuf, PathBuf)> = manifest.files.iter().map(shown).collect();
    names.push((image.clone(), target.clone()));
    scratch.surroundings = Some(
        manifest.variables.iter().map(|(name, value)| (name.clone(), value.clone().map(|v| v.0))).collect(),
    );
    let links = Links {
        linker: manifest.linker.path(),
        output: image.clone(),
        target: target.clone(),
        command: &command,
        scratch,
        keeps: None,
        before: Some(Before { manifest, root }),
        names,
    };
    let with_users_names = |error: Error| {
        let said = with_names(error.to_string().as_bytes(), &links.names);
        Error::Again(String::from_utf8_lossy(&said).into_owned())
    };
    let code = links.run(generate).map_err(with_users_names)?;
    if code != Some(ExitCode::SUCCESS) {
        return Ok(code.unwrap_or(ExitCode::FAILURE));
    }
    let place = target.parent().unwrap_or(Path::new("/"));
    let written = fs::metadata(&image).and_then(|data| {
        // A program of that name may be running.
        let new = tempfile::NamedTempFile::new_in(place)?;
        fs::copy(&image, new.path())?;
        fs::set_permissions(new.path(), fs::Permissions::from_mode(data.permissions().mode()))?;
        new.persist(&target)?;
        Ok(())
    });
    written.map_err(Error::file(&target))?;
    Ok(ExitCode::SUCCESS)
}

/// The link that is made again.
pub struct Before<'a> {
    manifest: &'a Manifest,
    /// Where its files are now.
    root: PathBuf,
}

impl Before<'_> {
    /// Whether what was linked now is what was linked then.
    ///
    /// # Errors
    /// How it differs.
    pub fn check(&self, linked: &Linked, generated: &Generated) -> Result<(), Error> {
        let other = |what: String| Err(Error::KeptDiffers(what));
        let then: HashSet<&str> = self.manifest.modules.iter().map(String::as_str).collect();
        let now: HashSet<String> =
            linked.modules.iter().map(|module| format!("{:016x}", module.id)).collect();
        if let Some(id) = then.iter().find(|id| !now.contains(**id)) {
            return other(format!("module {id} is linked no more"));
        }
        let is_new = |id: u64| !then.contains(&*format!("{id:016x}"));
        if let Some(module) = linked.modules.iter().find(|module| is_new(module.id)) {
            return other(format!("{} is linked as well", module.shown));
        }
        let known: HashSet<PathBuf> =
            self.manifest.plain.iter().map(|plain| canonical(plain.path.path())).collect();
        let plain = linked.plain.iter().map(|object| object.archive.as_ref().unwrap_or(&object.file));
        let read = plain.chain(&linked.shared_libraries).chain(&linked.others).map(|file| canonical(file));
        let root = self.root.parent().unwrap_or(&self.root);
        for file in read.filter(|file| !file.starts_with(root)) {
            if !known.contains(&file) {
                return other(format!("{} is read, and was not", file.display()));
            }
        }
        if generated.commands != self.manifest.commands {
            return Err(Error::KeptCommands);
        }
        Ok(())
    }
}
