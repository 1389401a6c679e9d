//! Partial links (`ld -r`): one object made of several, whose modules have no code yet.
//!
//! The object is the linker's output from the skeletons, so that later links and tools see its symbols. A
//! section of it carries its inputs and the command. When code is generated, the code is linked by that
//! command, and the result replaces the object.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pcce_abi::skeleton;
use serde::{Deserialize, Serialize};

use crate::command::{Command, Meaning};
use crate::inputs::{files_of_words, tail};
use crate::linked::{Linked, Object, Place};
use crate::scratch::{Scratch, with_names};
use crate::{Error, elf, scripts, symbols};

/// The section with the inputs. Linkers leave it out of images.
pub const SECTION: &str = ".pcce.inputs";
/// The magic bytes. The length of the manifest follows, the manifest, and the files.
const MAGIC: &[u8; 8] = b"PCCEINP1";
const HEADER: usize = 16;
/// The sections of modules, which are in the inputs, and not in the joined object.
const OF_MODULES: [&str; 3] = [skeleton::BITCODE_SECTION, skeleton::COMMAND_SECTION, skeleton::FACTS_SECTION];

/// The command of the partial link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    linker: OsString,
    words: Vec<Packed>,
    files: Vec<PackedFile>,
}

/// A word of the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Packed {
    /// The original word.
    Words(Vec<OsString>),
    /// Objects that were linked from a file, by number.
    Objects(Vec<usize>),
    /// An option with a file, by number, and the text before its name.
    Reads(Vec<OsString>, OsString, usize),
}

/// An input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackedFile {
    /// Its name in messages.
    shown: String,
    name: OsString,
    length: usize,
}

/// An object with its inputs.
#[derive(Debug)]
pub struct Partial {
    /// Its place.
    pub place: Place,
    /// Its name in messages.
    pub shown: String,
    /// Its content.
    pub linked: Linked,
    manifest: Manifest,
    /// The files of the manifest.
    files: Vec<PathBuf>,
}

/// The section's content for an object that a command has linked.
pub fn pack(command: &Command, linked: &Linked, linker: &Path) -> Result<Vec<u8>, Error> {
    let mut files = Vec::new();
    let mut contents = Vec::new();
    let mut add = |shown: String, name: &Path, bytes: Vec<u8>| {
        files.push(PackedFile { shown, name: name.as_os_str().to_owned(), length: bytes.len() });
        contents.extend(bytes);
        files.len() - 1
    };
    let mut of_file: HashMap<&Path, Vec<&Object>> = HashMap::new();
    for object in &linked.objects {
        of_file.entry(&object.place.file).or_default().push(object);
    }
    let mut all: Vec<PathBuf> = of_file.keys().map(|file| file.to_path_buf()).collect();
    all.sort();
    let has = |file: &Path| of_file.contains_key(&*crate::linked::canonical(file));
    let named = files_of_words(command, has, &all)?;
    let mut done = HashSet::new();
    let mut words = Vec::new();
    for (word, file) in command.words.iter().zip(named) {
        if let Some(file) = file {
            let file = crate::linked::canonical(&file);
            if !done.insert(file.clone()) {
                continue;
            }
            let mut numbers = Vec::new();
            for object in &of_file[&*file] {
                numbers.push(add(object.shown.clone(), &object.name, object.bytes()?));
            }
            words.push(Packed::Objects(numbers));
            continue;
        }
        match word.meaning() {
            // Nothing of this file was linked, unless it is a script.
            None => {
                let path = Path::new(&word.texts[0]);
                if scripts::is_script(path) {
                    let bytes = fs::read(path).map_err(Error::file(path))?;
                    let number = add(path.display().to_string(), path, bytes);
                    words.push(Packed::Reads(Vec::new(), OsString::new(), number));
                }
            }
            Some(
                Meaning::Output
                | Meaning::SideText
                | Meaning::Dependencies
                | Meaning::SideFile
                | Meaning::Objects
                | Meaning::Quoting
                | Meaning::Folding
                | Meaning::Library
                | Meaning::Folder,
            ) => {}
            Some(Meaning::Reads | Meaning::SecondReads)
                if word.value().is_some_and(|v| Path::new(v).is_file()) =>
            {
                let value = word.value().unwrap_or_default();
                let path = Path::new(value);
                let number =
                    add(path.display().to_string(), path, fs::read(path).map_err(Error::file(path))?);
                let (last, before) = word.texts.split_last().expect("a word has a text");
                let front = last.as_bytes().strip_suffix(value.as_bytes()).unwrap_or_default();
                words.push(Packed::Reads(before.to_vec(), OsStr::from_bytes(front).to_owned(), number));
            }
            Some(_) => words.push(Packed::Words(word.texts.clone())),
        }
    }
    let manifest = Manifest { linker: linker.as_os_str().to_owned(), words, files };
    let manifest = serde_json::to_vec(&manifest).expect("text serialises");
    Ok([MAGIC, &(manifest.len() as u64).to_le_bytes()[..], &manifest, &contents].concat())
}

/// Adds its inputs, `content`, to the object.
pub fn attach(object: &Path, content: &Path, scratch: &Scratch) -> Result<(), Error> {
    let option = |prefix: &str, rest: &OsStr| [OsStr::new(prefix), rest].into_iter().collect::<OsString>();
    let mut words: Vec<OsString> = Vec::new();
    words.extend(OF_MODULES.iter().chain([&SECTION]).map(|s| format!("--remove-section={s}").into()));
    words.push(option(&format!("--add-section={SECTION}="), content.as_os_str()));
    words.push(format!("--set-section-flags={SECTION}=noload,readonly,exclude").into());
    words.push(object.into());
    scratch.objcopy(words)
}

impl Partial {
    /// Reads the section of `object`, which has the modules `ids`. The files go into `folder`, which must not
    /// exist yet.
    pub fn unpack(object: &Object, section: &[u8], ids: &[u64], folder: &Path) -> Result<Self, Error> {
        let damaged = |cause: &str| Error::Damaged {
            file: object.shown.clone(),
            cause: format!("section {SECTION} {cause}; link it anew"),
        };
        let joined = || Error::Joined { file: object.shown.clone(), modules: ids.len() };
        let length = section.strip_prefix(MAGIC).and_then(|rest| rest.first_chunk());
        let length = length.ok_or_else(|| damaged("does not hold what this release writes"))?;
        let rest = &section[HEADER..];
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let (manifest, mut contents) =
            rest.split_at_checked(length).ok_or_else(|| damaged("ends too early"))?;
        let manifest: Manifest = serde_json::from_slice(manifest).map_err(|e| damaged(&e.to_string()))?;
        let numbers = manifest.words.iter().flat_map(|word| match word {
            Packed::Words(_) => &[],
            Packed::Objects(numbers) => numbers.as_slice(),
            Packed::Reads(_, _, number) => std::slice::from_ref(number),
        });
        if numbers.into_iter().any(|number| *number >= manifest.files.len()) {
            return Err(damaged("names a file that it does not have"));
        }
        let mut files = Vec::new();
        for (number, file) in manifest.files.iter().enumerate() {
            let (content, rest) =
                contents.split_at_checked(file.length).ok_or_else(|| damaged("ends too early"))?;
            contents = rest;
            let path = folder.join(number.to_string()).join(tail(Path::new(&file.name)));
            let parent = path.parent().unwrap_or(folder);
            fs::create_dir_all(parent).map_err(Error::file(parent))?;
            fs::write(&path, content).map_err(Error::file(&path))?;
            files.push(path);
        }
        // Another linker has concatenated several such sections.
        if !contents.is_empty() {
            return Err(joined());
        }
        let objects = manifest.words.iter().filter_map(|word| match word {
            Packed::Objects(numbers) => Some(numbers),
            _ => None,
        });
        let objects = objects.flatten().map(|number| {
            let shown = format!("{}({})", object.shown, manifest.files[*number].shown);
            Object::whole(&files[*number], shown)
        });
        let mut linked = Linked::default();
        linked.sort(ids, objects.collect(), &folder.join("inner")).map_err(|error| match error {
            Error::Unexplained(_) => joined(),
            other => other,
        })?;
        if linked.modules.len() != ids.len() {
            return Err(joined());
        }
        Ok(Partial { place: object.place.clone(), shown: object.shown.clone(), linked, manifest, files })
    }

    /// The linkers that made the object and its inputs.
    pub fn linkers(&self) -> Vec<PathBuf> {
        let inner = self.linked.partials.iter().flat_map(Partial::linkers);
        inner.chain([PathBuf::from(&self.manifest.linker)]).collect()
    }

    /// Links the object again, with code instead of its modules. All files go into `folder`.
    pub fn link(
        &self,
        scratch: &Scratch,
        code: &HashMap<u64, PathBuf>,
        folder: &Path,
    ) -> Result<PathBuf, Error> {
        let new = code_for(&self.linked, code, scratch, folder)?;
        let of_object: HashMap<&Path, &PathBuf> =
            new.iter().map(|(place, code)| (&*place.file, code)).collect();
        let mut words = Vec::new();
        // The files' names in messages, with the names that the user knows.
        let known = self.manifest.files.iter().map(|file| PathBuf::from(&file.shown));
        let mut names: HashMap<PathBuf, PathBuf> = self.files.iter().cloned().zip(known).collect();
        for word in &self.manifest.words {
            match word {
                Packed::Words(texts) => words.extend(texts.iter().cloned()),
                Packed::Objects(numbers) => {
                    for number in numbers {
                        let file = &self.files[*number];
                        let Some(code) = of_object.get(&**file) else {
                            words.push(file.into());
                            continue;
                        };
                        // Scripts match names.
                        let name = tail(Path::new(&self.manifest.files[*number].name));
                        let name = folder.join(number.to_string()).join(name);
                        let parent = name.parent().unwrap_or(folder);
                        fs::create_dir_all(parent).map_err(Error::file(parent))?;
                        symlink(code, &name).map_err(Error::file(&name))?;
                        names.insert(name.clone(), PathBuf::from(&self.manifest.files[*number].shown));
                        words.push(name.into());
                    }
                }
                Packed::Reads(before, front, number) => {
                    words.extend(before.iter().cloned());
                    let name = self.files[*number].as_os_str();
                    words.push(OsString::from_vec([front.as_bytes(), name.as_bytes()].concat()));
                }
            }
        }
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
        let output = folder.join("joined.o");
        words.extend(["-o".into(), output.clone().into()]);
        let result = scratch.run(Path::new(&self.manifest.linker), &words)?;
        if !result.status.success() {
            let names: Vec<(PathBuf, PathBuf)> = names.into_iter().collect();
            let said = String::from_utf8_lossy(&with_names(&result.stderr, &names)).into_owned();
            return Err(Error::Partial { file: self.shown.clone(), said });
        }
        elf::sort_unwind_relocations(&output)?;
        Ok(output)
    }
}

/// For each object with modules, its replacement. All files go into `folder`.
pub fn code_for(
    linked: &Linked,
    code: &HashMap<u64, PathBuf>,
    scratch: &Scratch,
    folder: &Path,
) -> Result<Vec<(Place, PathBuf)>, Error> {
    let objects: HashMap<&Place, &Object> =
        linked.objects.iter().map(|object| (&object.place, object)).collect();
    let of_modules = linked.places.iter().map(|(id, place)| Ok((place, code[id].clone())));
    let of_partials = linked.partials.iter().enumerate().map(|(number, partial)| {
        let new = partial.link(scratch, code, &folder.join(format!("joined-{number}")))?;
        Ok((&partial.place, new))
    });
    let each = of_modules.chain(of_partials).enumerate().map(|(number, new)| {
        let (place, new): (&Place, PathBuf) = new?;
        let object = objects[place];
        let to = folder.join(format!("fitted-{number}.o"));
        let new = symbols::fit(&object.bytes()?, &new, &object.shown, scratch, &to)?;
        Ok((place.clone(), new))
    });
    each.collect()
}
