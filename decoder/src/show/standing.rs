//! The reasons why a command finds nothing about a function, from the program's file: it was inlined, is not
//! instrumented, or does not exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use object::{Object, ObjectSymbol, SymbolKind};
use pcce_dictionary::{Dictionary, SiteKind};

use crate::code::elf::names_are_bounded;
use crate::code::inlined_into;
use crate::names::Wanted;
use crate::names::demangle;

/// The facts in some files about the functions of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The functions into which they were inlined, as in the source.
    pub inlined_into: BTreeSet<String>,
    /// True if a file has debug information, which shows inlined functions.
    pub has_debug_information: bool,
    /// True if the machine code has one of them.
    pub is_defined: bool,
    pub is_instrumented: bool,
    /// True if an instrumented function calls one by its name.
    pub is_called: bool,
}

impl Standing {
    /// Adds the facts in a dictionary.
    pub fn add_dictionary(&mut self, dictionary: &Dictionary, wanted: &Wanted) {
        for module in &dictionary.modules {
            let fits: Vec<bool> =
                module.names.iter().map(|name| wanted.fits(name, &demangle(name))).collect();
            self.is_instrumented |= module.functions.iter().any(|function| fits[function.name as usize]);
            for site in &module.sites {
                self.is_called |= matches!(site.kind, SiteKind::External(name) if fits[name as usize]);
                if let Some((own, inlined)) = site.locations.split_last()
                    && inlined.iter().any(|location| fits[location.name as usize])
                {
                    self.inlined_into.insert(demangle(&module.names[own.name as usize]));
                }
            }
        }
    }

    /// Adds the facts in a file. A file that cannot be read has none.
    pub fn add(&mut self, path: &Path, wanted: &Wanted) {
        let Ok(bytes) = fs::read(path) else { return };
        let Ok(file) = object::File::parse(&*bytes) else { return };
        if !names_are_bounded(&file) {
            return;
        }
        self.is_defined |= functions(&file).any(|name| wanted.fits(name, &demangle(name)));
        if let Some(into) = inlined_into(&file, wanted) {
            self.has_debug_information = true;
            self.inlined_into.extend(into);
        }
    }

    /// The reason why no instrumented function has the name; None if the files have no such function at all.
    pub fn why(&self, name: &str) -> Option<String> {
        let into = self.callers();
        match (into.is_empty(), self.is_defined || self.is_called) {
            (false, false) => {
                Some(format!("{name} was inlined into {into}, and is no function of its own any more"))
            }
            (false, true) => Some(format!(
                "{name} was inlined into {into}, and where it is a function of its own, it is not instrumented"
            )),
            (true, true) => {
                Some(format!("{name} is not instrumented: it is a library's, or was built without the pass"))
            }
            (true, false) => None,
        }
    }

    /// The functions into which they were inlined, in a sentence.
    pub fn callers(&self) -> String {
        listed(self.inlined_into.iter().map(String::as_str))
    }
}

/// The linkage names of the functions that a file defines. A file that cannot be read has none.
pub fn defined_functions(path: &Path) -> Vec<String> {
    let Ok(bytes) = fs::read(path) else { return Vec::new() };
    let Ok(file) = object::File::parse(&*bytes) else { return Vec::new() };
    if !names_are_bounded(&file) {
        return Vec::new();
    }
    functions(&file).map(str::to_owned).collect()
}

/// The names of the functions that a file defines.
fn functions<'f>(file: &'f object::File<'_>) -> impl Iterator<Item = &'f str> {
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let defined = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    defined.filter_map(|symbol| symbol.name().ok())
}

/// Bound on the names that are listed; others are counted.
const MAX_LISTED: usize = 4;

/// Names in a sentence: `f`, `f and g`, `f, g and 3 others`.
pub fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match &names[..] {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] if names.len() <= MAX_LISTED => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {} others", names[..MAX_LISTED - 1].join(", "), names.len() - MAX_LISTED + 1),
    }
}
