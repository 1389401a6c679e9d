//! The images whose dictionaries were given: their symbols and encodings, and their machine code, which is
//! read when it is first needed.

pub(crate) mod encodings;
mod invalid;
pub(crate) mod symbols;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use elsa::sync::FrozenMap;
use pcce_dictionary::{self as files, Dictionary};

use self::encodings::{Encoding, Encodings};
pub use self::invalid::{Cause, InvalidDictionary};
use self::symbols::{Site, Symbols};
use crate::code::elf::ELF_MAGIC;
use crate::code::table::CodeTable;
use crate::load::LoadCause;
use crate::load::libraries::{kernels, libraries, of_system, with_dictionary};
use crate::load::program::{self, ProgramError};
use crate::token::BuildId;

/// All images.
#[derive(Debug, Default)]
pub(crate) struct Images {
    pub(crate) symbols: Symbols,
    pub(crate) encodings: Encodings,
    code: Vec<ImageCode>,
    /// See [`may_have_left`](Self::may_have_left).
    leaving: OnceLock<Option<HashSet<u32>>>,
    /// See [`is_plain`](Self::is_plain).
    libraries: OnceLock<HashMap<BuildId, PathBuf>>,
    plain: FrozenMap<BuildId, Box<bool>>,
}

/// The source of an image's code, which is read when a token first needs it.
#[derive(Debug, Default)]
enum Source {
    /// There is no code.
    #[default]
    None,
    /// The compressed form in the dictionary.
    Text(String),
    /// The program, or its debug file and the program stripped.
    Program(PathBuf, Option<PathBuf>),
}

impl Source {
    /// Reads the code of the program with this dictionary.
    fn read(&self, functions: &[(u32, u32)]) -> Result<Option<CodeTable>, String> {
        let code = match self {
            Self::None => return Ok(None),
            Self::Text(text) => Some(files::code::from_text(text).map_err(|error| again(&error))?),
            Self::Program(path, stripped) => {
                let read = || -> Result<Option<files::code::Code>, LoadCause> {
                    let bytes = fs::read(path).map_err(LoadCause::Io)?;
                    if !bytes.starts_with(&ELF_MAGIC) {
                        // A dictionary in JSON that was written without the code.
                        return Ok(None);
                    }
                    let dictionary: Dictionary = program::dictionary(&bytes, "")?;
                    let stripped = stripped.as_ref().map(fs::read).transpose();
                    let stripped = stripped.map_err(LoadCause::Io)?;
                    Ok(program::code(&bytes, stripped.as_deref(), &dictionary)?)
                };
                read().map_err(|error| {
                    let text = format!("{}: {error}", path.display());
                    match error {
                        LoadCause::Program(ProgramError::NoMachineCode) => text,
                        _ => again(&text),
                    }
                })?
            }
        };
        code.map(|code| CodeTable::new(code, functions).map_err(|error| again(&error))).transpose()
    }
}

/// The message about a table of machine code that is wrong.
fn again(error: &impl std::fmt::Display) -> String {
    format!("{error}; write the dictionary again with `pcce dict`")
}

#[derive(Debug)]
struct ImageCode {
    source: Source,
    table: OnceLock<Result<Option<CodeTable>, String>>,
}

impl Images {
    pub(crate) fn new(dictionaries: &[Dictionary]) -> Result<Self, InvalidDictionary> {
        let mut images = Self::default();
        let mut names = HashMap::new();
        for dictionary in dictionaries {
            let invalid = |module: Option<usize>, cause| InvalidDictionary {
                program: dictionary.program.clone(),
                module: module.map(|module| dictionary.modules[module].name.clone()),
                cause,
            };
            images.symbols.add_image(dictionary).map_err(|cause| invalid(None, cause))?;
            for (number, module) in dictionary.modules.iter().enumerate() {
                images
                    .symbols
                    .add_module(module, &mut names)
                    .map_err(|cause| invalid(Some(number), cause))?;
            }
            let added = images.encodings.add_image(dictionary, &images.symbols);
            added.map_err(|(module, cause)| invalid(module, cause))?;
            let source = dictionary.code.clone().map_or(Source::None, Source::Text);
            images.code.push(ImageCode { source, table: OnceLock::new() });
        }
        images.encodings.finish();
        Ok(images)
    }

    /// Lets the machine code be read from a program.
    pub(crate) fn set_program(&mut self, image: usize, program: PathBuf, stripped: Option<PathBuf>) {
        let source = &mut self.code[image].source;
        if matches!(source, Source::None) {
            *source = Source::Program(program, stripped);
        }
    }

    /// Returns whether a library without a dictionary has this build id: one that a given program may load, one of the
    /// system's, or the one that the kernel gives to processes.
    pub(crate) fn is_plain(&self, id: &BuildId) -> bool {
        let libraries = self.libraries.get_or_init(|| {
            let program = |image: &ImageCode| match &image.source {
                Source::Program(path, stripped) => Some(stripped.clone().unwrap_or_else(|| path.clone())),
                _ => None,
            };
            self.code.iter().filter_map(program).flat_map(|program| libraries(&program)).collect()
        });
        *self.plain.get(id).unwrap_or_else(|| {
            let found = libraries.get(id).or_else(|| of_system().get(id));
            let is_plain = match found {
                Some(path) => with_dictionary(path).is_none(),
                None => kernels() == Some(*id),
            };
            self.plain.insert(*id, Box::new(is_plain))
        })
    }

    /// The encoding of a function.
    #[inline]
    pub(crate) fn encoding_of(&self, function: u32) -> &Encoding {
        self.encodings.of(&self.symbols, function)
    }

    /// The encoding of an image that has an open node.
    pub(crate) fn open_encoding_of(&self, image: u32) -> Option<&Encoding> {
        self.encodings.open_of(image)
    }

    /// Returns whether the function that a call reached without a push may have left its activation to this
    /// one.
    pub(crate) fn may_leave(&self, site: &Site, function: u32) -> bool {
        let Some(group) = site.tail_group else { return false };
        let encoding = self.encoding_of(site.function);
        let inside = std::ptr::eq(encoding, self.encoding_of(function));
        encoding.tail_groups.may_leave(group, function, inside)
    }

    /// Returns whether a function may leave its activation to another one. None if its machine code is not at hand.
    fn leaves(&self, function: u32) -> Option<bool> {
        let module = self.symbols.module_of(function);
        let code = self.code(module.image).ok()??;
        // A function that is not in the program is not active.
        let found = code.of(module.number, function - module.first_function);
        Some(found.is_some_and(|found| !found.stays))
    }

    /// As [`may_have_left`](Self::may_have_left), for a function instead of a name.
    pub(crate) fn function_may_have_left(&self, function: u32) -> bool {
        self.leaves(function).unwrap_or(true)
    }

    /// Returns whether an instrumented function of this name, which other modules can call, may leave its
    /// activation to another one. Otherwise, active code of that name is another body of the function: a copy that
    /// the linker took from an object without the pass, or one in an image that the loader has searched first.
    /// True where machine code is not at hand.
    pub(crate) fn may_have_left(&self, name: u32) -> bool {
        let leaving = || {
            let mut leaving = HashSet::new();
            for (name, function) in self.symbols.called() {
                if self.leaves(function)? {
                    leaving.insert(name);
                }
            }
            Some(leaving)
        };
        self.symbols.is_defined(name)
            && self.leaving.get_or_init(leaving).as_ref().is_none_or(|leaving| leaving.contains(&name))
    }

    /// The machine code of an image; None if it is not at hand.
    pub(crate) fn code(&self, image: u32) -> Result<Option<&CodeTable>, &str> {
        let ImageCode { source, table } = &self.code[image as usize];
        let code = table.get_or_init(|| {
            let mut code = source.read(&self.symbols.images[image as usize].modules)?;
            if let Some(code) = &mut code {
                code.frames_hold = self.check_stacks(image, code)?;
            }
            Ok(code)
        });
        code.as_ref().map(Option::as_ref).map_err(String::as_str)
    }

    /// Checks that the program has the stack frames on which hybrid encodings rely. Returns false if the code of
    /// some functions does not show it.
    fn check_stacks(&self, image: u32, code: &CodeTable) -> Result<bool, String> {
        let mut seen = true;
        let of = |function: u32| {
            let module = self.symbols.module_of(function);
            code.of(module.number, function - module.first_function)
        };
        for stack in self.encodings.of_image(image).map(|encoding| &encoding.stack) {
            for &(function, expected) in stack.sizes() {
                // The linker may have left the function out, or taken another one with the same code.
                let Some(code) = of(function) else { continue };
                match code.frame_offset {
                    Some(found) if found == expected => {}
                    Some(found) => {
                        return Err(format!(
                            "function {} has a stack frame of {found} bytes, and its contexts are encoded for {expected} \
                             bytes: code was generated with other options than the pass expected; build without \
                             --pcce-hybrid",
                            self.symbols.function_name(function)
                        ));
                    }
                    None => seen = false,
                }
            }
            for &(caller, callee) in stack.jumps() {
                let (Some(code), Some(to)) = (of(caller), of(callee)) else { continue };
                if code.calls.iter().any(|call| call.1 == to.name + 1) {
                    return Err(format!(
                        "function {} calls {}, and its contexts are encoded for a jump: code was generated with other \
                         options than the pass expected; build without --pcce-hybrid",
                        self.symbols.function_name(caller),
                        self.symbols.function_name(callee)
                    ));
                }
            }
        }
        Ok(seen)
    }
}
