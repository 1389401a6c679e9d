//! Dictionaries by build id: the shared libraries of a program, the folders in which dictionaries are kept, and
//! debuginfod.
//!
//! A folder has dictionaries below `.build-id`, in the layout of debuggers (`.build-id/ab/cdef….debug` is a debug
//! file with build id abcdef…, `.build-id/ab/cdef….pcce.json` a dictionary), or as files of any name. A token has
//! only the first bytes of a build id, and debuginfod needs whole ones. So it is asked only for build ids that are
//! no longer than that, or were learnt.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use elsa::sync::FrozenMap;
use object::{Object, ReadCache};
use pcce_dictionary::Dictionary;
use pcce_dictionary::section::SECTION;

use crate::code::elf::ELF_MAGIC;
use crate::decode::Decoder;
use crate::load::debug_files::{self, ask_debuginfod, debuginfod};
use crate::load::libraries::{libraries, with_dictionary};
use crate::load::load;
use crate::numbers::Numbers;
use crate::token::{BuildId, from_hex};

/// The ending of a dictionary's file name.
pub const ENDING: &str = ".pcce.json";
/// The subfolder in which files have their build ids as names.
const BY_ID: &str = ".build-id";
/// The number of first bytes of a dictionary that are read for its build id.
const START: u64 = 4096;
/// Bound on the ids that were not found, and are remembered.
const MAX_ABSENT: usize = 1 << 16;

/// The folders where dictionaries are looked for, and the dictionaries that were found.
#[derive(Debug)]
pub struct Store {
    folders: Vec<PathBuf>,
    /// The program whose shared libraries are looked at first.
    program: Option<PathBuf>,
    /// The shared libraries of `program`.
    libraries: OnceLock<HashMap<BuildId, PathBuf>>,
    /// False if only these libraries are looked at.
    searches: bool,
    /// The given dictionaries, each with its file.
    given: Vec<(Dictionary, PathBuf)>,
    /// The interned numbers that decoders look up.
    numbers: Option<Numbers>,
    /// Files of the folders with other names than their build ids, by the starts of these.
    files: OnceLock<HashMap<BuildId, PathBuf>>,
    places: Mutex<HashMap<BuildId, Option<Place>>>,
    whole: Mutex<HashMap<BuildId, String>>,
    /// Files that were found and are of no use, and why.
    useless: Mutex<Vec<String>>,
    decoders: FrozenMap<Vec<BuildId>, Box<Decoder>>,
}

/// A file with a dictionary.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    path: PathBuf,
    /// The library itself, if `path` is its debug file.
    stripped: Option<PathBuf>,
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Self {
        Self { path, stripped: None }
    }
}

impl Store {
    /// Looks in these folders, then where the system keeps debug files, and finally asks debuginfod.
    pub fn new(folders: &[PathBuf], given: Vec<(Dictionary, PathBuf)>) -> Self {
        Self {
            folders: folders.iter().cloned().chain([PathBuf::from(debug_files::SYSTEM)]).collect(),
            program: None,
            libraries: OnceLock::new(),
            searches: true,
            given,
            numbers: None,
            files: OnceLock::new(),
            places: Mutex::default(),
            whole: Mutex::default(),
            useless: Mutex::default(),
            decoders: FrozenMap::new(),
        }
    }

    /// Looks at the shared libraries that the program is linked with first, where its loader finds them, and, if
    /// `only`, nowhere else.
    #[must_use]
    pub fn with_libraries(self, program: &Path, only: bool) -> Self {
        Self { program: Some(program.to_owned()), searches: !only, ..self }
    }

    /// Returns whether dictionaries are looked for outside of the program's libraries, too.
    pub fn searches(&self) -> bool {
        self.searches
    }

    /// Lets the decoders look up interned numbers.
    #[must_use]
    pub fn with_numbers(self, numbers: Option<Numbers>) -> Self {
        Self { numbers, ..self }
    }

    /// The decoder for a token of these images, if a dictionary was found that was not given.
    pub fn decoder(&self, images: &[BuildId]) -> Option<&Decoder> {
        let given = |id: &BuildId| self.given.iter().any(|(d, _)| d.build_id.starts_with(&id.to_string()));
        let absent = images.iter().filter(|id| !id.as_bytes().is_empty() && !given(id));
        let mut found: Vec<(BuildId, Place)> = absent.filter_map(|id| Some((*id, self.find(id)?))).collect();
        found.sort_unstable();
        found.dedup();
        if found.is_empty() {
            return None;
        }
        let key: Vec<BuildId> = found.iter().map(|(id, _)| *id).collect();
        if let Some(decoder) = self.decoders.get(&key) {
            return Some(decoder);
        }
        let (mut dictionaries, mut places): (Vec<_>, Vec<_>) = self
            .given
            .iter()
            .map(|(dictionary, path)| (dictionary.clone(), Place::from(path.clone())))
            .unzip();
        for (id, place) in found {
            match load(&place.path) {
                Ok(dictionary) => {
                    dictionaries.push(dictionary);
                    places.push(place);
                }
                Err(error) => self.is_useless(&id, error.to_string()),
            }
        }
        if places.len() == self.given.len() {
            return None;
        }
        match Decoder::new(&dictionaries) {
            Ok(mut decoder) => {
                for (number, place) in places.into_iter().enumerate() {
                    decoder.set_program(number, place.path, place.stripped);
                }
                if let Some(numbers) = &self.numbers {
                    decoder.set_numbers(numbers.clone());
                }
                Some(self.decoders.insert(key, Box::new(decoder)))
            }
            Err(error) => {
                key.iter().for_each(|id| self.is_useless(id, error.to_string()));
                None
            }
        }
    }

    /// Remembers a whole build id, in hexadecimal digits, of which tokens have only the start.
    pub fn learn(&self, build_id: &str) {
        if let Some(bytes) = from_hex(build_id) {
            lock(&self.whole).insert(BuildId::from_prefix(&bytes), build_id.to_owned());
        }
    }

    /// The places where dictionaries were looked for, and the errors of some, as text.
    pub fn looked(&self) -> String {
        let mut places: Vec<String> =
            self.folders.iter().map(|folder| folder.display().to_string()).collect();
        if debuginfod() {
            places.push("debuginfod".to_owned());
        }
        let mut text = places.join(", ");
        for useless in lock(&self.useless).iter() {
            text.extend(["; ", useless]);
        }
        text
    }

    fn is_useless(&self, id: &BuildId, why: String) {
        lock(&self.places).insert(*id, None);
        let mut useless = lock(&self.useless);
        if useless.len() < 8 && !useless.contains(&why) {
            useless.push(why);
        }
    }

    fn find(&self, id: &BuildId) -> Option<Place> {
        if let Some(known) = lock(&self.places).get(id) {
            return known.clone();
        }
        let look = || self.look(id).map(Place::from);
        let place = self.library(id).or_else(|| self.searches.then(look).flatten());
        let mut places = lock(&self.places);
        if place.is_some() || places.len() < MAX_ABSENT {
            places.insert(*id, place.clone());
        }
        place
    }

    /// The shared library of the program, or its debug file, if that has its dictionary.
    fn library(&self, id: &BuildId) -> Option<Place> {
        let program = self.program.as_deref()?;
        let path = self.libraries.get_or_init(|| libraries(program)).get(id)?;
        let file = with_dictionary(path)?;
        let stripped = (file != *path).then(|| path.clone());
        Some(Place { path: file, stripped })
    }

    fn look(&self, id: &BuildId) -> Option<PathBuf> {
        let by_id = self.folders.iter().find_map(|folder| {
            let digits = id.to_string();
            let folder = folder.join(BY_ID).join(&digits[..2]);
            let mut files: Vec<PathBuf> =
                fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
            files.retain(|file| {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(&digits[2..]) && (name.ends_with(ENDING) || name.ends_with(".debug"))
            });
            // Dictionaries before debug files.
            files.sort_by_key(|file| (!file.to_string_lossy().ends_with(ENDING), file.clone()));
            files.into_iter().find(|file| build_id(file).as_ref() == Some(id))
        });
        by_id.or_else(|| self.files.get_or_init(|| self.other_files()).get(id).cloned()).or_else(|| {
            let whole = lock(&self.whole).get(id).cloned();
            ask_debuginfod(&whole.unwrap_or_else(|| id.to_string()))
        })
    }

    /// The files directly in the given folders, by build id.
    fn other_files(&self) -> HashMap<BuildId, PathBuf> {
        let own = self.folders.iter().filter(|folder| **folder != Path::new(debug_files::SYSTEM));
        let mut files: Vec<PathBuf> = own
            .filter_map(|folder| fs::read_dir(folder).ok())
            .flatten()
            .flatten()
            .map(|e| e.path())
            .collect();
        files.retain(|file| file.is_file());
        files.sort();
        let mut by_id = HashMap::new();
        for file in files {
            if let Some(id) = build_id(&file) {
                by_id.entry(id).or_insert(file);
            }
        }
        by_id
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file below `folder` that is to hold the dictionary with this build id.
pub fn place(folder: &Path, build_id: &str) -> PathBuf {
    let (first, rest) = build_id.split_at(build_id.len().min(2));
    folder.join(BY_ID).join(first).join(format!("{rest}{ENDING}"))
}

/// Returns whether the file is a dictionary, or a program that may have one.
pub fn is_dictionary(path: &Path) -> bool {
    build_id(path).is_some() || start(path).is_some_and(|start| start.starts_with(&ELF_MAGIC))
}

fn start(path: &Path) -> Option<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path).ok()?.take(START).read_to_end(&mut start).ok()?;
    Some(start)
}

/// The start of the build id of a dictionary, or of an ELF file that has one.
fn build_id(path: &Path) -> Option<BuildId> {
    let start = start(path)?;
    if start.starts_with(&ELF_MAGIC) {
        let cache = ReadCache::new(File::open(path).ok()?);
        let object = object::File::parse(&cache).ok()?;
        object.section_by_name(SECTION)?;
        return object.build_id().ok().flatten().map(BuildId::from_prefix);
    }
    let text = String::from_utf8_lossy(&start);
    let (_, rest) = text.trim_start().strip_prefix('{')?.split_once("\"build_id\":\"")?;
    let digits = rest.split('"').next()?;
    let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
    bytes.collect::<Option<Vec<u8>>>().map(|bytes| BuildId::from_prefix(&bytes))
}
