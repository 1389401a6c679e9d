//! Makes a program again from the file that its link has kept ([`crate::kept`]): code is generated, and the
//! program is linked by the same command. Sources, objects and archives are not needed.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use crate::command::Command;
use crate::inputs::tail;
use crate::kept::{self, Kept, Manifest, Name, Plain};
use crate::linked::{Linked, canonical};
use crate::links::Links;
use crate::scratch::{Scratch, Surroundings, with_names};
use crate::{Error, Generate, Generated, keep};

/// Finds the kept file for a name: the file itself, or for a program the file beside it, or in one of the
/// folders, by its build id, or by `of` if it is given.
///
/// # Errors
/// There is no such file, or it cannot be used.
pub fn find(file: &Path, of: Option<String>, folders: &[PathBuf]) -> Result<Kept, Error> {
    // Reading something that is no regular file may never end.
    if fs::metadata(file).is_ok_and(|data| !data.is_file()) {
        return Err(Error::KeptForeign(file.to_owned()));
    }
    if kept::is_kept(file) {
        return Kept::read(file);
    }
    let Some(id) = of.or_else(|| kept::build_id(file)) else {
        // The error says whether the file is missing, or has another format.
        return Kept::read(file);
    };
    let of_folders = folders.iter().filter_map(|folder| keep::by_id(folder, &id));
    let places: Vec<PathBuf> = [keep::beside(file)].into_iter().chain(of_folders).collect();
    let mut others = Vec::new();
    for place in places.iter().filter(|place| place.is_file()) {
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

/// The changes that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Other {
    /// Another profile is used, so that the code does not depend on the old one.
    pub profile: bool,
    /// Anything is changed, the profile included.
    pub any: bool,
}

/// Makes the program again. `output` is its name; without one it gets its old name, in this folder. `other`
/// are changes against the old link. Nothing is written on errors.
///
/// # Errors
/// The program cannot be made.
pub fn again(
    kept: &Kept,
    output: Option<PathBuf>,
    other: Other,
    generate: &dyn Generate,
) -> Result<ExitCode, Error> {
    let manifest = &kept.manifest;
    let name = manifest.program.path().file_name().unwrap_or("a.out".as_ref());
    let target = output.unwrap_or_else(|| name.into());
    let target = std::path::absolute(&target).map_err(Error::file(&target))?;
    let old = manifest.profile.as_ref().filter(|_| other.profile);
    for plain in manifest.plain.iter().filter(|plain| Some(&plain.path) != old) {
        plain.check()?;
    }
    let mut scratch = Scratch::new(Path::new(""))?;
    let root = scratch.path().join("root");
    kept.unpack(&root)?;
    // The output has its old name, as far as the folder of this link can have it.
    let folder = scratch.path().join("output");
    let word = manifest.output.path();
    let is_below = word.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let word = if is_below && word.file_name().is_some() { word } else { Path::new(name) };
    let image = folder.join(word);
    let parent = image.parent().unwrap_or(&folder);
    fs::create_dir_all(parent).map_err(Error::file(parent))?;
    let words = manifest.words.iter().map(|word| kept.word(word, &root));
    let command = Command::of_words(words.chain(["-o".into(), word.into()]));
    let shown =
        |content: &kept::Content| (root.join(tail(content.name.path())), content.shown.path().to_owned());
    let mut names: Vec<(PathBuf, PathBuf)> = manifest.files.iter().map(shown).collect();
    names.push((image.clone(), target.clone()));
    let variables = manifest.variables.iter();
    let variables = variables.map(|(name, value)| (name.clone(), value.clone().map(|Name(value)| value)));
    scratch.surroundings = Some(Surroundings { folder, variables: variables.collect() });
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
    let code = code.ok_or_else(|| Error::KeptDiffers("no module is linked".to_owned()))?;
    if code != ExitCode::SUCCESS {
        return Ok(code);
    }
    let is_other = manifest.build_id != kept::build_id(&image);
    if is_other && !other.any {
        eprintln!(
            "pcce-ld: warning: {} is not {} as it was: it has another build id (with -gsplit-dwarf, or where the \
             command names the output by its whole name, it has its place in it)",
            target.display(),
            manifest.program.path().display()
        );
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
    /// The folder of its files now.
    root: PathBuf,
}

impl Before<'_> {
    /// Checks that the same was linked as in the old link.
    ///
    /// # Errors
    /// The difference.
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
        // Another installation may have these files elsewhere.
        let of_code = generated.depends.iter().filter(|file| generated.profile.as_ref() != Some(file));
        for file in of_code.map(|file| canonical(file)) {
            let now = Plain::of(&file, true).map_err(Error::file(&file))?;
            let is_it = |then: &Plain| (then.size, &then.identity) == (now.size, &now.identity);
            if !self.manifest.plain.iter().any(is_it) {
                return other(format!("code depends on {}, and did not", file.display()));
            }
        }
        Ok(())
    }
}
