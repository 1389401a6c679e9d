//! The names of functions, and source lines and inlined calls from the program's debug information.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::{LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::Reader as _;
use pcce_dictionary::code::Place;

use super::dwarf::{Reader, debug_information, split_information};

/// A function's name, and its number among namesakes: local functions of several files may share a name.
pub(super) type Named<'a> = (&'a str, u32);

/// The numbers of names. A name has a number for each of its namesakes.
pub(super) struct Names {
    pub(super) list: Vec<String>,
    /// By the number of the namesake, and the name.
    index: HashMap<u32, HashMap<String, u32>>,
    /// The number of bytes that further names may have: strings in a file may share their bytes.
    left: usize,
}

/// Bound on the bytes of all names of a program's functions.
const MAX_NAMES: usize = 1 << 27;

impl Names {
    pub(super) fn new() -> Self {
        Self { list: Vec::new(), index: HashMap::new(), left: MAX_NAMES }
    }

    /// The number of a name. If the names have too many bytes, this is the number of the empty name.
    pub(super) fn number(&mut self, (name, namesake): Named<'_>) -> u32 {
        let index = self.index.entry(namesake).or_default();
        if let Some(&number) = index.get(name) {
            return number;
        }
        let Some(left) = self.left.checked_sub(name.len()) else { return self.number(("", 0)) };
        self.left = left;
        let number = self.list.len() as u32;
        self.list.push(name.to_owned());
        index.insert(name.to_owned(), number);
        number
    }
}

pub(super) struct Lines {
    context: Option<addr2line::Context<Reader>>,
    /// Split debug information (`-gsplit-dwarf`), by the names of its files. None where it cannot be read.
    split: HashMap<PathBuf, Option<Arc<gimli::Dwarf<Reader>>>>,
    pub(super) files: Vec<String>,
    pub(super) places: Vec<Place>,
    file_index: HashMap<String, u32>,
    index: HashMap<Place, u32>,
    /// The steps that the places of further instructions may take: one for each inlined call, and more for
    /// long names.
    left: u64,
}

/// Bounds on the steps: for any program, and for each byte of its file.
const STEPS: u64 = 1 << 26;
const STEPS_PER_BYTE: u64 = 16;

impl Lines {
    /// Without debug information there are no places. `len`: the size of the file, in bytes.
    pub(super) fn new(file: &object::File<'_>, len: u64) -> Self {
        let dwarf = debug_information(file, len);
        Self {
            context: dwarf.and_then(|dwarf| addr2line::Context::from_dwarf(dwarf).ok()),
            split: HashMap::new(),
            left: STEPS.saturating_add(len.saturating_mul(STEPS_PER_BYTE)),
            files: Vec::new(),
            places: Vec::new(),
            file_index: HashMap::new(),
            index: HashMap::new(),
        }
    }

    /// 1 + the number of the place of an instruction of this function; 0 if it has none.
    pub(super) fn at(&mut self, address: u64, function: &str, names: &mut Names) -> u32 {
        let Some(context) = &self.context else { return 0 };
        let mut found = context.find_frames(address);
        let frames = loop {
            match found {
                LookupResult::Output(frames) => break frames,
                LookupResult::Load { load, continuation } => {
                    let loaded = split(&mut self.split, &load);
                    // Without this file, it is not known what was inlined.
                    if loaded.is_none() {
                        return 0;
                    }
                    found = continuation.resume(loaded);
                }
            }
        };
        let Ok(mut frames) = frames else { return 0 };
        let mut chain = Vec::new();
        let is_mangled = |name: &str| name.starts_with("_Z") || name.starts_with("_R");
        let mut has_linkage_name = false;
        while let Ok(Some(frame)) = frames.next() {
            let has_line = frame.location.as_ref().is_some_and(|location| location.line.is_some());
            // With lines alone (`-gline-tables-only`), only functions into which others were inlined are described.
            let described = frame.function.as_ref().map(|function| function.raw_name());
            let name = match described {
                Some(Ok(name)) => name,
                None if chain.is_empty() && has_line && !function.is_empty() => Cow::Borrowed(function),
                _ => return 0,
            };
            has_linkage_name = is_mangled(&name);
            let location = frame.location.as_ref();
            let file = location.and_then(|l| l.file).unwrap_or("");
            let Some(left) = self.left.checked_sub(1 + (name.len() + file.len()) as u64 / 64) else {
                return 0;
            };
            self.left = left;
            let file = match self.file_index.get(file) {
                Some(&number) => number,
                None => {
                    let number = self.files.len() as u32;
                    self.files.push(file.to_owned());
                    self.file_index.insert(file.to_owned(), number);
                    number
                }
            };
            chain.push(Place {
                name: names.number((&name, 0)),
                file,
                line: location.and_then(|l| l.line).unwrap_or(0),
                column: location.and_then(|l| l.column).unwrap_or(0),
                caller: 0,
            });
        }
        // `-gline-tables-only` omits the scope from the name of a function that was also inlined elsewhere.
        if let Some(own) = chain.last_mut().filter(|_| is_mangled(function) && !has_linkage_name) {
            own.name = names.number((function, 0));
        }
        let mut caller = 0;
        for place in chain.into_iter().rev() {
            let place = Place { caller, ..place };
            caller = *self.index.entry(place).or_insert_with(|| {
                self.places.push(place);
                self.places.len() as u32
            });
        }
        caller
    }
}

/// The split debug information that addr2line asks for. Each file is read once.
fn split(
    known: &mut HashMap<PathBuf, Option<Arc<gimli::Dwarf<Reader>>>>,
    load: &SplitDwarfLoad<Reader>,
) -> Option<Arc<gimli::Dwarf<Reader>>> {
    let text = |reader: &Option<Reader>| Some(reader.as_ref()?.to_string_lossy().ok()?.into_owned());
    let folder = text(&load.comp_dir).unwrap_or_default();
    let path = Path::new(&folder).join(text(&load.path)?);
    let read = |path: &PathBuf| split_information(path, &load.parent).map(Arc::new);
    known.entry(path).or_insert_with_key(read).clone()
}
