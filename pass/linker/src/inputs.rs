//! The words of the second link: those of the command, with generated code instead of the modules.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use crate::command::{Command, Meaning, Word};
use crate::linked::{Linked, Place, canonical};
use crate::scratch::Scratch;
use crate::{Error, Generated, elf, partial, scripts};

/// The depth to which scripts may name scripts.
const MAX_SCRIPT_DEPTH: usize = 8;

/// The words of a link, and the files that replace others.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The command's words, and further ones.
    pub words: Vec<(Word, Vec<OsString>)>,
    /// Files of this link, each with the file that it replaces, under the name that the linker uses.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// The further objects.
    pub extra: Vec<PathBuf>,
}

impl Inputs {
    /// The words of the command.
    pub fn of(command: &Command) -> Self {
        let words = command.words.iter().map(|word| (word.clone(), word.texts.clone())).collect();
        Inputs { words, ..Inputs::default() }
    }

    /// Replaces the modules by generated code. Copies go into `folder`.
    pub fn replaced(
        command: &Command,
        linked: &Linked,
        generated: &Generated,
        scratch: &Scratch,
        folder: &Path,
    ) -> Result<Self, Error> {
        let mut inputs = Inputs::of(command);
        let mut new = Replacements::new(linked, generated, scratch, folder)?;
        let replaced = new.replace(command, &mut inputs)?;
        let place = place_of_further(command, &replaced);
        inputs.copies = new.copies();
        inputs.extra = generated.extra.iter().map(|file| canonical(file)).collect();
        let further = inputs.extra.iter().map(|file| {
            let text = file.clone().into_os_string();
            (Word { texts: vec![text.clone()], kind: crate::command::Kind::Input }, vec![text])
        });
        inputs.words.splice(place..place, further);
        let words = Command::of_words(generated.words.iter().cloned());
        inputs.words.extend(Inputs::of(&words).words);
        Ok(inputs)
    }

    /// Replaces inputs by copies in `folder` that are linked again when the originals are gone: objects that
    /// the command names, files with modules, scripts that name these, and lists. All other names become
    /// absolute. Options for files that the linker writes beside the output are left out.
    pub fn to_keep(command: &Command, linked: &Linked, folder: &Path) -> Result<Self, Error> {
        let mut inputs = Inputs::of(command);
        let mut new = Replacements::to_keep(command, linked, folder);
        let replaced = new.replace(command, &mut inputs)?;
        for ((word, texts), replaced) in inputs.words.iter_mut().zip(replaced) {
            let whole = |name: &OsStr| {
                let path = std::path::absolute(name);
                path.map(PathBuf::into_os_string).map_err(Error::file(Path::new(name)))
            };
            match word.meaning() {
                // A script has a copy with another text already.
                _ if replaced.is_some() || *texts != word.texts => {}
                None if word.input().is_some_and(|path| path.is_relative() && path.is_file()) => {
                    let path = Path::new(&texts[0]);
                    // The output would contain the absolute name.
                    if elf::is_library_without_name(path)? {
                        return Err(Error::NoName(path.to_owned()));
                    }
                    texts[0] = whole(path.as_os_str())?;
                }
                Some(
                    Meaning::Output
                    | Meaning::SideText
                    | Meaning::Dependencies
                    | Meaning::SideFile
                    | Meaning::Quoting
                    | Meaning::Folding,
                ) => {
                    texts.clear();
                }
                Some(Meaning::Folder | Meaning::Root) => {
                    let value = word.value().unwrap_or_default();
                    if Path::new(value).is_relative() && Path::new(value).is_dir() {
                        *texts = word.with_value(&whole(value)?);
                    }
                }
                Some(Meaning::Reads | Meaning::SecondReads) => {
                    let file = Path::new(word.value().unwrap_or_default());
                    if file.is_file() {
                        *texts = word.with_file(&new.link(file, file)?);
                    }
                }
                // gcc's own file has another name in each link.
                Some(Meaning::Other)
                    if word.value().is_some_and(|v| v.as_bytes().starts_with(b"-fresolution=")) =>
                {
                    texts.clear();
                }
                // The folders in which libraries that other libraries need are looked for.
                Some(Meaning::Other) if word.texts[0].to_string_lossy().contains("rpath-link") => {
                    let value = word.value().unwrap_or_default();
                    let folders = std::env::split_paths(value).map(|folder| whole(folder.as_os_str()));
                    let folders = std::env::join_paths(folders.collect::<Result<Vec<_>, _>>()?);
                    *texts = word.with_value(&folders.unwrap_or_else(|_| value.to_owned()));
                }
                _ => {}
            }
        }
        inputs.copies = new.copies();
        Ok(inputs)
    }
}

/// For each word of the command, the file that it names, or that is found for it in the command's own
/// folders.
pub fn files_of(command: &Command) -> Vec<Option<PathBuf>> {
    let folders = Folders::of(command);
    let file = |(word, only_archives): (&Word, bool)| match (word.meaning(), word.value()) {
        (None, _) => word.input().map(Path::to_owned),
        (Some(Meaning::Library), Some(name)) => folders.find(name, only_archives),
        _ => None,
    };
    command.words.iter().zip(only_archives(command)).map(file).collect()
}

/// For each word, whether libraries are archives there (`-Bstatic`).
fn only_archives(command: &Command) -> Vec<bool> {
    let mut states = vec![false];
    let state = |word: &Word| {
        let last = *states.last().expect("one is left");
        match word.meaning() {
            Some(Meaning::Static) => *states.last_mut().expect("one is left") = true,
            Some(Meaning::Dynamic) => *states.last_mut().expect("one is left") = false,
            Some(Meaning::Push) => states.push(last),
            Some(Meaning::Pop) if states.len() > 1 => {
                states.pop();
            }
            _ => {}
        }
        *states.last().expect("one is left")
    };
    command.words.iter().map(state).collect()
}

/// For each word, its file among those for which `has` holds. `all` are these files, without symbolic links.
pub fn files_of_words(
    command: &Command,
    has: impl Fn(&Path) -> bool,
    all: &[PathBuf],
) -> Result<Vec<Option<PathBuf>>, Error> {
    let mut found: Vec<Option<PathBuf>> =
        files_of(command).into_iter().map(|file| file.filter(|file| has(file))).collect();
    // The linker has found `-l` elsewhere: in its own folders, or after a file of another machine.
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

/// The components of a path, without the root, `.` and `..`.
pub fn tail(file: &Path) -> PathBuf {
    file.components().filter(|c| matches!(c, Component::Normal(_))).collect()
}

/// The position of further objects: before the first input that has a module or can be a library, so that
/// libraries after them provide what they need; and not among objects that are linked only if needed.
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

/// The file names that the linker tries for `-lNAME`.
fn names(name: &OsStr, only_archives: bool) -> Vec<OsString> {
    if let Some(file) = name.as_bytes().strip_prefix(b":") {
        return vec![OsString::from_vec(file.to_vec())];
    }
    let with = |ending: &[u8]| OsString::from_vec([b"lib", name.as_bytes(), ending].concat());
    if only_archives { vec![with(b".a")] } else { vec![with(b".so"), with(b".a")] }
}

/// The folders of `-L`, and the system root.
struct Folders {
    list: Vec<PathBuf>,
    root: OsString,
}

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
        Folders { list: values(Meaning::Folder).map(folder).collect(), root: root.to_owned() }
    }

    fn find(&self, name: &OsStr, only_archives: bool) -> Option<PathBuf> {
        let names = names(name, only_archives);
        let files = self.list.iter().flat_map(|folder| names.iter().map(move |name| folder.join(name)));
        files.into_iter().find(|file| file.is_file())
    }
}

/// The replacements of files, made when they are needed.
struct Replacements<'a> {
    linked: &'a Linked,
    folder: &'a Path,
    objects: HashMap<PathBuf, PathBuf>,
    archives: HashMap<PathBuf, HashMap<usize, PathBuf>>,
    /// True if copies of archives have those members only that the linker has named.
    only_named: bool,
    /// The replacements that exist, by the file that they replace.
    made: HashMap<PathBuf, PathBuf>,
    /// The files that scripts name, without symbolic links.
    in_scripts: HashSet<PathBuf>,
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
            only_named: false,
            made: HashMap::new(),
            in_scripts: HashSet::new(),
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

    /// Kept objects replace themselves.
    fn to_keep(command: &Command, linked: &'a Linked, folder: &'a Path) -> Self {
        let named: HashSet<PathBuf> = command.words.iter().filter_map(Word::input).map(canonical).collect();
        let (mut objects, mut archives) = (HashMap::new(), HashMap::new());
        for Place { file, member } in &linked.read {
            let with_modules = linked.with_modules.contains(file);
            match member {
                Some(_) if with_modules => _ = archives.insert(file.clone(), HashMap::new()),
                None if with_modules || named.contains(file) => {
                    _ = objects.insert(file.clone(), file.clone())
                }
                _ => {}
            }
        }
        let (made, in_scripts) = (HashMap::new(), HashSet::new());
        Self { linked, folder, objects, archives, only_named: true, made, in_scripts }
    }

    /// Makes copies that replace the command's files. Returns the replacement for each word, if there is one.
    fn replace(&mut self, command: &Command, inputs: &mut Inputs) -> Result<Vec<Option<PathBuf>>, Error> {
        let scripts = self.scripts(command)?;
        let all: Vec<PathBuf> =
            self.files().into_iter().filter(|file| !self.in_scripts.contains(file)).collect();
        let mut replaced = files_of_words(command, |file| self.has(file), &all)?;
        for (file, (_, texts)) in replaced.iter().zip(&mut inputs.words) {
            if let Some(file) = file {
                *texts = vec![self.copy(file)?.into_os_string()];
            }
        }
        for ((replaced, script), (word, texts)) in replaced.iter_mut().zip(scripts).zip(&mut inputs.words) {
            let Some((script, copy)) = script else { continue };
            *texts = word.with_file(&copy);
            if word.meaning() != Some(Meaning::Reads) {
                *replaced = Some(script);
            }
        }
        Ok(replaced)
    }

    /// The copies, each with the file that it replaces.
    fn copies(&self) -> Vec<(PathBuf, PathBuf)> {
        self.made.iter().map(|(file, copy)| (copy.clone(), file.clone())).collect()
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

    /// The replacement of a file. Its name has the same ending: scripts and `--exclude-libs` match names.
    fn copy(&mut self, file: &Path) -> Result<PathBuf, Error> {
        if let Some(copy) = self.made.get(file) {
            return Ok(copy.clone());
        }
        let key = canonical(file);
        if let Some(code) = self.objects.get(&key) {
            let code = code.clone();
            return self.link(file, &code);
        }
        let copy = self.place(file)?;
        let named = |member| {
            let place = Place { file: key.clone(), member: Some(member) };
            !self.only_named || self.linked.read.contains(&place)
        };
        self.linked.archives[&key].copy_of(&copy, &self.archives[&key], named)?;
        self.made.insert(file.to_owned(), copy.clone());
        Ok(copy)
    }

    /// Replaces one file by another.
    fn link(&mut self, file: &Path, other: &Path) -> Result<PathBuf, Error> {
        if let Some(copy) = self.made.get(file) {
            return Ok(copy.clone());
        }
        let copy = self.place(file)?;
        symlink(canonical(other), &copy).map_err(Error::file(&copy))?;
        self.made.insert(file.to_owned(), copy.clone());
        Ok(copy)
    }

    /// The path of the next copy, for a copy of this file.
    fn place(&self, file: &Path) -> Result<PathBuf, Error> {
        let copy = self.folder.join(self.made.len().to_string()).join(tail(file));
        let folder = copy.parent().unwrap_or(self.folder);
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
        Ok(copy)
    }

    /// For each word, the script that it names, with its replacement, if the script names a file that is
    /// replaced.
    fn scripts(&mut self, command: &Command) -> Result<Vec<Option<(PathBuf, PathBuf)>>, Error> {
        let folders = Folders::of(command);
        let words = command.words.iter().zip(files_of(command)).zip(only_archives(command));
        let mut scripts = Vec::with_capacity(command.words.len());
        for ((word, file), only_archives) in words {
            let read = || word.value().filter(|_| word.meaning() == Some(Meaning::Reads)).map(PathBuf::from);
            let script = file.or_else(read);
            scripts.push(match script {
                Some(script) if !self.has(&script) => {
                    let copy = self.script(&script, &folders, only_archives, MAX_SCRIPT_DEPTH)?;
                    copy.map(|copy| (script, copy))
                }
                _ => None,
            });
        }
        Ok(scripts)
    }

    /// The replacement of a script; none if it names no file that is replaced. `depth` is how deep further
    /// scripts may be nested.
    fn script(
        &mut self,
        script: &Path,
        folders: &Folders,
        only_archives: bool,
        depth: usize,
    ) -> Result<Option<PathBuf>, Error> {
        if depth == 0 || !scripts::is_script(script) {
            return Ok(None);
        }
        if let Some(copy) = self.made.get(script) {
            return Ok(Some(copy.clone()));
        }
        let text = fs::read(script).map_err(Error::file(script))?;
        let mut new = Vec::new();
        let mut any = false;
        for scripts::Named { range, name } in scripts::named(&text) {
            let library = name.strip_prefix(b"-l").map(OsStr::from_bytes);
            let mut places = match library {
                Some(name) => {
                    let names = names(name, only_archives);
                    let inside = |folder: &PathBuf| names.iter().map(|n| folder.join(n)).collect::<Vec<_>>();
                    let elsewhere = |file: &PathBuf| names.iter().any(|n| file.file_name() == Some(n));
                    let elsewhere: Vec<_> = self.files().into_iter().filter(elsewhere).collect();
                    folders.list.iter().flat_map(inside).chain(elsewhere).collect()
                }
                None => scripts::places(&name, script, &folders.list, &folders.root),
            };
            places.retain(|place| place.is_file());
            if let Some(file) = places.iter().find(|place| self.has(place)) {
                any = true;
                self.in_scripts.insert(canonical(file));
                new.push((range, self.copy(file)?));
                continue;
            }
            let mut inner = None;
            for place in &places {
                inner = inner.or(self.script(place, folders, only_archives, depth - 1)?);
            }
            if let Some(copy) = inner {
                any = true;
                new.push((range, copy));
            } else if let Some(place) =
                places.first().filter(|place| library.is_none() && self.is_read(place))
            {
                // The copy is in another folder than the script.
                new.push((range, canonical(place)));
            }
        }
        if !any {
            return Ok(None);
        }
        let copy = self.place(script)?;
        fs::write(&copy, scripts::with_names(&text, &new)).map_err(Error::file(&copy))?;
        self.made.insert(script.to_owned(), copy.clone());
        Ok(Some(copy))
    }

    /// Returns whether the first link has read a file that is not replaced.
    fn is_read(&self, file: &Path) -> bool {
        let file = canonical(file);
        let is = |other: &PathBuf| canonical(other) == file;
        let Linked { objects, shared_libraries, archives, .. } = self.linked;
        objects.iter().any(|object| object.place.file == file)
            || archives.contains_key(&file)
            || shared_libraries.iter().any(is)
    }
}
