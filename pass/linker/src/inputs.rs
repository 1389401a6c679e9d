//! The second link's words: those of the command, with generated code in the place of the modules.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use crate::command::{Command, Meaning, Word};
use crate::linked::{Linked, canonical};
use crate::scratch::Scratch;
use crate::{Error, Generated, partial};

/// The words of a link, and which files stand in the place of others.
#[derive(Debug, Default)]
pub struct Inputs {
    /// As many as the command has, and further ones.
    pub words: Vec<(Word, Vec<OsString>)>,
    /// Files of this link, and those in whose place they are, as the linker names them.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// The further objects.
    pub extra: Vec<PathBuf>,
}

impl Inputs {
    /// Those of the command.
    pub fn of(command: &Command) -> Self {
        let words = command.words.iter().map(|word| (word.clone(), word.texts.clone())).collect();
        Inputs { words, ..Inputs::default() }
    }

    /// With generated code in the place of what was linked. Copies go into `folder`.
    pub fn replaced(
        command: &Command,
        linked: &Linked,
        generated: &Generated,
        scratch: &Scratch,
        folder: &Path,
    ) -> Result<Self, Error> {
        let mut inputs = Inputs::of(command);
        let mut new = Replacements::new(linked, generated, scratch, folder)?;
        let replaced = files_of_words(command, |file| new.has(file), &new.files())?;
        let place = place_of_further(command, &replaced);
        for (file, (_, texts)) in replaced.iter().zip(&mut inputs.words) {
            if let Some(file) = file {
                let copy = new.copy(file)?;
                *texts = vec![copy.clone().into_os_string()];
                inputs.copies.push((copy, file.clone()));
            }
        }
        inputs.extra = generated.extra.iter().map(|file| canonical(file)).collect();
        let further = inputs.extra.iter().map(|file| {
            let text = file.clone().into_os_string();
            (Word { texts: vec![text.clone()], kind: crate::command::Kind::Input }, vec![text])
        });
        inputs.words.splice(place..place, further);
        Ok(inputs)
    }
}

/// For each word of the command the file that it names, or that is found for it in the command's own folders.
pub fn files_of(command: &Command) -> Vec<Option<PathBuf>> {
    let folders = Folders::of(command);
    let mut only_archives = vec![false];
    let mut file = |word: &Word| {
        match word.meaning() {
            Some(Meaning::Static) => *only_archives.last_mut().expect("one is left") = true,
            Some(Meaning::Dynamic) => *only_archives.last_mut().expect("one is left") = false,
            Some(Meaning::Push) => only_archives.push(*only_archives.last().expect("one is left")),
            Some(Meaning::Pop) if only_archives.len() > 1 => {
                only_archives.pop();
            }
            _ => {}
        }
        match (word.meaning(), word.value()) {
            (None, _) => word.input().map(Path::to_owned),
            (Some(Meaning::Library), Some(name)) => {
                folders.find(name, *only_archives.last().expect("one is left"))
            }
            _ => None,
        }
    };
    command.words.iter().map(&mut file).collect()
}

/// The same, of those files that are asked for: `has` tells them, and `all` are they, without symbolic links.
pub fn files_of_words(
    command: &Command,
    has: impl Fn(&Path) -> bool,
    all: &[PathBuf],
) -> Result<Vec<Option<PathBuf>>, Error> {
    let mut found: Vec<Option<PathBuf>> =
        files_of(command).into_iter().map(|file| file.filter(|file| has(file))).collect();
    // What the linker has found for `-l` elsewhere: in its own folders, or behind a file of another machine.
    let covered: HashSet<PathBuf> = found.iter().flatten().map(|file| canonical(file)).collect();
    for file in all.iter().filter(|file| !covered.contains(*file)) {
        let base = file.file_name().unwrap_or_default();
        let mut any = false;
        for (word, found) in command.words.iter().zip(&mut found) {
            let name = word.value().filter(|_| word.meaning() == Some(Meaning::Library));
            if found.is_none() && name.is_some_and(|name| names(name, false).iter().any(|n| n == base)) {
                *found = Some(file.clone());
                any = true;
            }
        }
        if !any {
            return Err(Error::NotOnTheCommandLine(file.clone()));
        }
    }
    Ok(found)
}

/// The parts of a name, without where it begins and what leads elsewhere.
pub fn tail(file: &Path) -> PathBuf {
    file.components().filter(|c| matches!(c, Component::Normal(_))).collect()
}

/// Where further objects go: before what has a module or can be a library, whichever is first, so that libraries behind
/// it give what they need; and not among objects that are linked only if they are needed.
fn place_of_further(command: &Command, replaced: &[Option<PathBuf>]) -> usize {
    let is_library = |word: &Word| match word.input() {
        Some(path) => path.extension().is_some_and(|e| e == "a" || e == "so") && path.is_file(),
        None => word.meaning() == Some(Meaning::Library),
    };
    let words = command.words.iter().zip(replaced);
    let first = words.clone().position(|(word, replaced)| replaced.is_some() || is_library(word));
    let first = first.unwrap_or(command.words.len());
    let before = &command.words[..first];
    let start = before.iter().rposition(|word| word.meaning() == Some(Meaning::StartLib));
    let end = before.iter().rposition(|word| word.meaning() == Some(Meaning::EndLib));
    start.filter(|start| end.is_none_or(|end| end < *start)).unwrap_or(first)
}

/// What the linker looks for where the command says `-lNAME`.
fn names(name: &OsStr, only_archives: bool) -> Vec<OsString> {
    if let Some(file) = name.as_bytes().strip_prefix(b":") {
        return vec![OsString::from_vec(file.to_vec())];
    }
    let with = |ending: &[u8]| OsString::from_vec([b"lib", name.as_bytes(), ending].concat());
    if only_archives { vec![with(b".a")] } else { vec![with(b".so"), with(b".a")] }
}

/// The folders of `-L`.
struct Folders(Vec<PathBuf>);

impl Folders {
    fn of(command: &Command) -> Self {
        let values = |meaning| {
            command.words.iter().filter(move |word| word.meaning() == Some(meaning)).filter_map(Word::value)
        };
        let root = values(Meaning::Root).next_back().unwrap_or_default();
        let folder = |value: &OsStr| {
            let bytes = value.as_bytes();
            match bytes.strip_prefix(b"=").or_else(|| bytes.strip_prefix(b"$SYSROOT")) {
                Some(rest) => PathBuf::from(OsString::from_vec([root.as_bytes(), rest].concat())),
                None => PathBuf::from(value),
            }
        };
        Folders(values(Meaning::Folder).map(folder).collect())
    }

    fn find(&self, name: &OsStr, only_archives: bool) -> Option<PathBuf> {
        let names = names(name, only_archives);
        let files = self.0.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
        files.into_iter().find(|file| file.is_file())
    }
}

/// The files that stand for others, as far as they are made.
struct Replacements<'a> {
    linked: &'a Linked,
    folder: &'a Path,
    objects: HashMap<PathBuf, PathBuf>,
    archives: HashMap<PathBuf, HashMap<usize, PathBuf>>,
    /// How many there are.
    made: HashMap<PathBuf, PathBuf>,
}

impl<'a> Replacements<'a> {
    fn new(
        linked: &'a Linked,
        generated: &Generated,
        scratch: &Scratch,
        folder: &'a Path,
    ) -> Result<Self, Error> {
        let code: HashMap<u64, PathBuf> = generated.objects.iter().cloned().collect();
        let mut new = Replacements {
            linked,
            folder,
            objects: HashMap::new(),
            archives: HashMap::new(),
            made: HashMap::new(),
        };
        for (place, code) in partial::code_for(linked, &code, scratch, folder)? {
            match place.member {
                Some(number) => {
                    new.archives.entry(place.file).or_default().insert(number, code);
                }
                None => {
                    new.objects.insert(place.file, code);
                }
            }
        }
        Ok(new)
    }

    fn has(&self, file: &Path) -> bool {
        let file = canonical(file);
        self.objects.contains_key(&file) || self.archives.contains_key(&file)
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.objects.keys().chain(self.archives.keys()).cloned().collect();
        files.sort();
        files
    }

    /// What stands for a file, under a name that ends as its own: scripts and `--exclude-libs` go by names.
    fn copy(&mut self, file: &Path) -> Result<PathBuf, Error> {
        if let Some(copy) = self.made.get(file) {
            return Ok(copy.clone());
        }
        let copy = self.folder.join(self.made.len().to_string()).join(tail(file));
        let folder = copy.parent().unwrap_or(self.folder);
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
        let key = canonical(file);
        if let Some(code) = self.objects.get(&key) {
            symlink(canonical(code), &copy).map_err(Error::file(&copy))?;
        } else {
            self.linked.archives[&key].copy(&copy, &self.archives[&key])?;
        }
        self.made.insert(file.to_owned(), copy.clone());
        Ok(copy)
    }
}
