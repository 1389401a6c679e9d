//! The names of functions, and source lines and inlined calls from the program's debug information.

use std::collections::HashMap;

use pcce_dictionary::code::Place;

use super::dwarf::{Reader, debug_information};

/// A function's name, and its number among namesakes: local functions of several files may share a name.
pub(super) type Named<'a> = (&'a str, u32);

/// Gives equal names of namesakes equal numbers.
pub(super) struct Names {
    pub(super) list: Vec<String>,
    /// By namesake.
    index: HashMap<u32, HashMap<String, u32>>,
    /// The number of bytes that further names may have: strings in a file may share their bytes.
    left: usize,
}

/// Bound on the bytes of all names of a program's functions.
const MOST_NAMES: usize = 1 << 27;

impl Names {
    pub(super) fn new() -> Self {
        Self { list: Vec::new(), index: HashMap::new(), left: MOST_NAMES }
    }

    /// The number of a name; that of no name if there are too many.
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
    pub(super) files: Vec<String>,
    pub(super) places: Vec<Place>,
    file_index: HashMap<String, u32>,
    index: HashMap<Place, u32>,
    /// The steps that the places of further instructions may take: one for each inlined call, and more for
    /// long names.
    left: u64,
}

/// Steps that a program of any size may take, and more for each byte of its file.
const STEPS: u64 = 1 << 26;
const STEPS_A_BYTE: u64 = 16;

impl Lines {
    /// Without debug information there are no places. `len`: the size of the file, in bytes.
    pub(super) fn new(file: &object::File<'_>, len: u64) -> Self {
        let dwarf = debug_information(file, len);
        Self {
            context: dwarf.and_then(|dwarf| addr2line::Context::from_dwarf(dwarf).ok()),
            left: STEPS.saturating_add(len.saturating_mul(STEPS_A_BYTE)),
            files: Vec::new(),
            places: Vec::new(),
            file_index: HashMap::new(),
            index: HashMap::new(),
        }
    }

    /// 1 + the number of the place of an instruction; 0 if it has none.
    pub(super) fn at(&mut self, address: u64, names: &mut Names) -> u32 {
        let Some(context) = &self.context else { return 0 };
        let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return 0 };
        let mut chain = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let Some(name) = frame.function.as_ref().and_then(|f| f.raw_name().ok()) else { return 0 };
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
