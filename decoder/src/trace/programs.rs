//! The images of the processes of a trace, and the tables of their files.

use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::read::elf::FileHeader;
use object::{Object, ReadCache};
use pcce_abi::machine::Machine;
use pcce_dictionary::DictionaryError;
use pcce_dictionary::trace::{PLACES, Part, Place, SECTION, Traced, parse, parse_places};
use thiserror::Error;

use super::file::{Image, TraceFile};
use super::tables::{InvalidTables, Tables};
use crate::Decoder;
use crate::code::elf::content;
use crate::load::debug_files;
use crate::load::libraries::{libraries, linked, with_dictionary};
use crate::load::load;
use crate::load::program::ProgramError;
use crate::names::{Wanted, demangle};
use crate::show::standing::{Standing, defined_functions};
use crate::token::{BuildId, from_hex, to_hex};

/// An error of reading a program's tables.
#[derive(Debug, Error)]
#[error("{}: {cause}", .path.display())]
pub struct TablesError {
    pub path: PathBuf,
    pub cause: TablesCause,
}

/// Causes of a [`TablesError`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TablesCause {
    #[error("cannot be read: {0}")]
    Io(io::Error),
    /// The file is no ELF file, or a damaged one.
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(
        "the program has no tables of traces (no section {}): it was not built with --pcce-trace, or was stripped; \
         give the unstripped program, or its separate debug file",
        SECTION
    )]
    NoSection,
    /// The program has none of the build ids of the trace.
    #[error(
        "the trace is of another build: the program has build id {program}, and the trace has {trace}; give the \
         program that wrote it"
    )]
    OtherBuild { program: String, trace: String },
    /// The program is one of several that share a trace.
    #[error(
        "the program writes part {0} of a trace; put the parts together (`pcce trace merge`), and give the program that \
         they were made of"
    )]
    Part(Part),
    #[error(transparent)]
    Record(#[from] DictionaryError),
    /// The tables are not consistent.
    #[error(transparent)]
    Tables(#[from] InvalidTables),
}

// Not by `#[from]`, which would make the cause a source, too: a chain of errors would then show it two times.
impl From<io::Error> for TablesCause {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// The tables of all images of some traces.
#[derive(Debug, Default)]
pub struct Programs {
    pub tables: Tables,
    /// The number of an image in the tables, by its [`key`] and by what processes have left out: the addresses in its
    /// file of second bodies. Without an image that leaves nothing out, nothing is left out under its key.
    files: HashMap<(String, Vec<u64>), u32>,
    /// The files with the dictionaries of images, each with the numbers of these in the tables.
    dictionaries: Vec<(DictionaryFile, Vec<u32>)>,
    /// The decoder of contexts, made when it is first needed.
    contexts: OnceLock<Option<Contexts>>,
    /// Messages about files that were found without being asked for, and cannot be used.
    pub useless: Vec<String>,
}

/// A file with a dictionary; and the program itself, where the first file is a debug file.
pub(super) type DictionaryFile = (PathBuf, Option<PathBuf>);

/// Decodes tokens into nodes.
#[derive(Debug)]
pub(super) struct Contexts {
    pub(super) decoder: Decoder,
    /// The numbers in the tables, by the decoder's image.
    images: Vec<Vec<u32>>,
}

impl Contexts {
    /// Loads the dictionaries of these files, which have the images with these numbers in the tables. Files without a
    /// dictionary are left out: nothing is known of their contexts.
    pub(super) fn load(files: &[(DictionaryFile, Vec<u32>)]) -> Option<Self> {
        let found = files.iter().filter_map(|(file, numbers)| Some((load(&file.0).ok()?, file, numbers)));
        let mut dictionaries = Vec::new();
        let (mut images, mut used) = (Vec::new(), Vec::new());
        for (dictionary, file, numbers) in found {
            dictionaries.push(dictionary);
            images.push(numbers.clone());
            used.push(file.clone());
        }
        let mut decoder = Decoder::new(&dictionaries).ok()?;
        for (number, (path, stripped)) in used.into_iter().enumerate() {
            decoder.set_program(number, path, stripped);
        }
        Some(Self { decoder, images })
    }

    /// The node of a call site, or none if that is of a function that is not traced. None if it is not known which:
    /// processes have chosen the image's functions differently, and that with these images is not among them.
    #[expect(clippy::option_option, reason = "that there is no node, and that it is not known")]
    pub(super) fn node(&self, tables: &Tables, site: u32, numbers: &[u32]) -> Option<Option<u32>> {
        let (image, address) = self.decoder.images.symbols.address_of_site(site);
        let number = match &*self.images[image as usize] {
            [only] => *only,
            several => {
                let mut own = several.iter().filter(|number| numbers.contains(number));
                own.next().filter(|_| own.next().is_none()).copied()?
            }
        };
        Some(tables.node_at_site(number, address))
    }
}

/// The tables that a file has of an image.
#[derive(Debug, Default)]
struct ImageTables {
    build_id: String,
    /// None for a file without tables.
    modules: Option<Vec<Traced>>,
    places: Vec<Place>,
    /// Of the machine for which it is; None where that is not known: then the places are not, either.
    entry_len: Option<u64>,
}

/// The key of an image's file: its build id, or its name if it has none.
fn key(build_id: &str, path: &Path) -> String {
    match build_id {
        "" => format!("/{}", path.file_name().unwrap_or_default().to_string_lossy()),
        id => id.to_owned(),
    }
}

/// The functions of an image that its process has left out: the addresses of their second bodies in its file.
fn left_out(image: &Image) -> Vec<u64> {
    let address = |&distance: &u32| image.low.wrapping_add(distance.into()).wrapping_sub(image.bias);
    image.left_out.iter().map(address).collect()
}

impl Programs {
    /// Finds the tables of the images of some traces: in `program` and the files `more`, and for other images in
    /// `folders`, in their own files, and where the system keeps debug files. An image whose tables are not found
    /// has none.
    ///
    /// # Errors
    /// [`TablesError`] for files that were given.
    pub fn load(
        traces: &[&TraceFile],
        program: &Path,
        more: &[PathBuf],
        folders: &[PathBuf],
    ) -> Result<Self, TablesError> {
        let mut programs = Self::default();
        for (number, path) in std::iter::once(program).chain(more.iter().map(PathBuf::as_path)).enumerate() {
            let with_path = |cause| TablesError { path: path.to_owned(), cause };
            let mut tables = tables_of(path).map_err(with_path)?;
            let id = tables.build_id.clone();
            let mut dictionary = (path.to_owned(), None);
            if tables.modules.is_none()
                && let Ok(bytes) = fs::read(path)
                && let Some(file) = debug_files::find_section(path, &bytes, SECTION)
            {
                tables = tables_of(&file).map_err(|cause| TablesError { path: file.clone(), cause })?;
                dictionary = (file, Some(path.to_owned()));
            }
            if tables.modules.is_none() {
                return Err(with_path(TablesCause::NoSection));
            }
            let key = key(&id, path);
            if number == 0
                && let Some(trace) = traces.iter().find(|trace| is_other(trace, &key))
            {
                let ids: Vec<_> = trace.images.iter().filter(|image| !image.build_id.is_empty()).collect();
                let trace = ids.first().map_or("none that can be read", |image| &image.build_id).to_owned();
                let program = if id.is_empty() { "none".to_owned() } else { id };
                return Err(with_path(TablesCause::OtherBuild { program, trace }));
            }
            programs.add(key, &tables, dictionary, traces).map_err(|error| with_path(error.into()))?;
        }
        if let Some(part) = programs.tables.part.filter(|_| !traces.is_empty()) {
            return Err(TablesError { path: program.to_owned(), cause: TablesCause::Part(part) });
        }
        let libraries = LazyCell::new(|| libraries(program));
        for image in traces.iter().flat_map(|trace| &trace.images) {
            let key = key(&image.build_id, &image.path);
            if image.build_id.is_empty() || programs.files.keys().any(|(known, _)| *known == key) {
                continue;
            }
            // The library may be in another folder now.
            let of_program = || {
                let id = BuildId::from_prefix(&from_hex(&image.build_id)?);
                libraries.get(&id).cloned()
            };
            let files = candidates(&image.build_id, &image.path, folders);
            let mut files = files.chain(std::iter::once_with(of_program).flatten());
            let found = files.find_map(|path| match tables_of(&path) {
                Ok(tables) if tables.build_id == image.build_id && tables.modules.is_some() => {
                    Some((path, tables))
                }
                Err(cause @ (TablesCause::Record(_) | TablesCause::Tables(_))) => {
                    programs.useless.push(TablesError { path, cause }.to_string());
                    None
                }
                _ => None,
            });
            let (path, tables) = found.unwrap_or_default();
            if let Err(error) = programs.add(key, &tables, (path.clone(), None), traces) {
                programs.useless.push(TablesError { path, cause: error.into() }.to_string());
            }
        }
        Ok(programs)
    }

    /// The tables of files with these build ids, in hexadecimal digits.
    pub fn from_modules(files: &[(String, Vec<Traced>)]) -> Result<Self, InvalidTables> {
        let mut programs = Self::default();
        for (id, modules) in files {
            let tables = ImageTables { modules: Some(modules.clone()), ..ImageTables::default() };
            programs.add(id.clone(), &tables, (PathBuf::new(), None), &[])?;
        }
        Ok(programs)
    }

    /// Adds the tables of an image, once for each choice of functions that a process has made. `dictionary`: the file
    /// with its dictionary.
    fn add(
        &mut self,
        key: String,
        tables: &ImageTables,
        dictionary: DictionaryFile,
        traces: &[&TraceFile],
    ) -> Result<(), InvalidTables> {
        let images = traces.iter().flat_map(|trace| &trace.images);
        let same = images.filter(|image| self::key(&image.build_id, &image.path) == key);
        let mut choices: BTreeSet<Vec<u64>> = same.map(left_out).collect();
        if choices.is_empty() {
            choices.insert(Vec::new());
        }
        self.dictionaries.push((dictionary, Vec::new()));
        for left_out in choices {
            let number = self.files.len() as u32;
            self.dictionaries.last_mut().expect("it was pushed").1.push(number);
            tables.modules.iter().flatten().try_for_each(|module| self.tables.add(number, module))?;
            self.tables.bind()?;
            if let Some(entry_len) = tables.entry_len {
                self.tables.add_places(number, entry_len, &tables.places);
            }
            self.tables.leave_out(number, &left_out);
            self.files.insert((key.clone(), left_out), number);
        }
        Ok(())
    }

    /// The decoder of the contexts at the beginnings of chunks; None if the files have no dictionaries.
    pub(super) fn contexts(&self) -> Option<&Contexts> {
        self.contexts.get_or_init(|| Contexts::load(&self.dictionaries)).as_ref()
    }

    /// The functions that the user, or the build, has left out of the trace, by their names in the source. Their
    /// calls are no events.
    pub fn left_out(&self) -> BTreeSet<String> {
        let mut names = self.tables.left_out_names();
        if !names.is_empty() {
            // A linker may have left the code out of the program.
            let files = self.dictionaries.iter().map(|((file, _), _)| file);
            let files = files.filter(|file| !file.as_os_str().is_empty());
            let defined: HashSet<String> = files.flat_map(|file| defined_functions(file)).collect();
            names.retain(|name| defined.contains(*name));
        }
        names.into_iter().map(demangle).collect()
    }

    /// The facts that the files have about functions of a name, besides their tables.
    pub fn standing(&self, wanted: &Wanted) -> Standing {
        let mut standing = Standing::default();
        let files = self.dictionaries.iter().map(|((file, _), _)| file);
        for file in files.filter(|file| !file.as_os_str().is_empty()) {
            standing.add(file, wanted);
            if let Ok(dictionary) = load(file) {
                standing.add_dictionary(&dictionary, wanted);
            }
        }
        standing
    }

    /// The number in the tables of each image of a trace, where it was found.
    pub(super) fn numbers(&self, trace: &TraceFile) -> Vec<Option<u32>> {
        let number =
            |image: &Image| self.files.get(&(key(&image.build_id, &image.path), left_out(image))).copied();
        trace.images.iter().map(number).collect()
    }
}

/// The tables of a program's modules.
///
/// # Errors
/// [`TablesError`]
pub(super) fn traced(program: &Path) -> Result<Vec<Traced>, TablesError> {
    let with_path = |cause| TablesError { path: program.to_owned(), cause };
    let tables = tables_of(program).map_err(with_path)?;
    tables.modules.ok_or(TablesCause::NoSection).map_err(with_path)
}

/// Returns whether a file is instrumented, and known to have no tables of a trace. They may be in its debug file.
pub fn is_untraced(file: &Path) -> bool {
    let has_none = |file: &Path| tables_of(file).is_ok_and(|tables| tables.modules.is_none());
    has_none(file) && with_dictionary(file).is_some_and(|dictionary| has_none(&dictionary))
}

/// The instrumented libraries that a program is linked with, and that are not traced.
pub fn untraced_libraries(program: &Path) -> Vec<PathBuf> {
    let mut libraries = linked(program);
    libraries.retain(|library| is_untraced(library));
    libraries.sort();
    libraries
}

/// Returns whether a trace has images, and none of them is the one of this key.
fn is_other(trace: &TraceFile, of_program: &str) -> bool {
    !trace.images.is_empty() && trace.images.iter().all(|i| key(&i.build_id, &i.path) != of_program)
}

/// The build id of an ELF file, in hexadecimal digits, and its tables if it has some.
fn tables_of(path: &Path) -> Result<ImageTables, TablesCause> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file").into());
    }
    let cache = ReadCache::new(File::open(path)?);
    let file = object::File::parse(&cache).map_err(ProgramError::Elf)?;
    let id = file.build_id().map_err(ProgramError::Elf)?.unwrap_or_default();
    let machine = match &file {
        object::File::Elf64(file) => Machine::of_elf(file.elf_header().e_machine(file.endian()).0),
        _ => None,
    };
    let entry_len = machine.map(|machine| machine.entry_len);
    let mut tables = ImageTables { build_id: to_hex(id), entry_len, ..ImageTables::default() };
    if let Some(section) = file.section_by_name(SECTION) {
        // In a debug file, sections of the program have no content.
        let modules = parse(&content(&section, SECTION).map_err(ProgramError::from)?)?;
        tables.modules = Some(modules).filter(|modules| !modules.is_empty());
    }
    if let Some(section) = file.section_by_name(PLACES) {
        tables.places = parse_places(&content(&section, PLACES).map_err(ProgramError::from)?)?;
    }
    Ok(tables)
}

/// Files that may have the tables of an image.
fn candidates<'p>(
    build_id: &'p str,
    path: &'p Path,
    folders: &'p [PathBuf],
) -> impl Iterator<Item = PathBuf> + use<'p> {
    let by_id = |folder: &Path| {
        let (first, rest) = build_id.split_at(2);
        folder.join(".build-id").join(first).join(format!("{rest}.debug"))
    };
    let named = |folder: &Path| Some(folder.join(path.file_name()?));
    let in_folders = folders.iter().flat_map(move |folder| [Some(by_id(folder)), named(folder)]).flatten();
    let asked = std::iter::once_with(|| debug_files::ask_debuginfod(build_id)).flatten();
    let own = (!path.starts_with("/dev")).then(|| path.to_owned());
    in_folders.chain(own).chain([by_id(Path::new(debug_files::SYSTEM))]).chain(asked)
}
