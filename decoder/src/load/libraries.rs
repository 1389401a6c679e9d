//! The shared libraries that a program may load. They are those that it is linked with, in the folders where a loader
//! looks for them: those that the program and its libraries name (`RPATH`, `RUNPATH`), those of `LD_LIBRARY_PATH`, and
//! those of the system (`/etc/ld.so.cache`). Libraries in the program's own folder, and in the folders directly below
//! it, are added.
//!
//! A library is known by its build id, so it does not matter which one the program's loader takes.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH};
use object::read::elf::{Dyn, ElfFile64};
use object::{LittleEndian, Object, ReadCache};
use pcce_dictionary::section::SECTION;

use super::{debug_files, read_file};
use crate::token::BuildId;

/// The file in which the loader caches the places of the system's libraries.
const CACHE: &str = "/etc/ld.so.cache";
/// Bound on the files that are read.
const MAX_FILES: usize = 1 << 12;

/// The libraries by the start of their build ids. Files that cannot be read have none.
pub(crate) fn libraries(program: &Path) -> HashMap<BuildId, PathBuf> {
    let system = fs::read(CACHE).ok().and_then(|bytes| cache(&bytes)).unwrap_or_default();
    let mut found = HashMap::new();
    // Folders of a file are used for the libraries of its libraries, too, as an RPATH is.
    let named = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&named).collect();
    let mut seen = HashSet::new();
    let mut queue = near(program);
    queue.push(program.to_owned());
    while let Some(file) = queue.pop()
        && seen.len() < MAX_FILES
    {
        let Some(image) = image(&file) else { continue };
        if let Some(id) = image.build_id.filter(|_| file != program) {
            found.entry(id).or_insert(file);
        }
        folders.extend(image.folders.into_iter().filter(|folder| folder.is_absolute()));
        folders.dedup();
        for name in image.needed {
            let in_folders = folders.iter().map(|folder| folder.join(&name)).filter(|file| file.is_file());
            let places = in_folders.chain(system.get(name.as_os_str()).cloned());
            queue.extend(places.filter(|place| seen.insert(place.clone())));
        }
    }
    found
}

/// The libraries that the program itself is linked with.
pub(crate) fn linked(program: &Path) -> Vec<PathBuf> {
    let needed = image(program).map_or_else(Vec::new, |image| image.needed);
    let is_needed =
        |path: &PathBuf| path.file_name().is_some_and(|name| needed.contains(&PathBuf::from(name)));
    libraries(program).into_values().filter(is_needed).collect()
}

/// All libraries of the system, by the start of their build ids: programs load some without being linked with them.
/// They are read once, which takes tens of milliseconds.
pub(crate) fn of_system() -> &'static HashMap<BuildId, PathBuf> {
    static LIBRARIES: OnceLock<HashMap<BuildId, PathBuf>> = OnceLock::new();
    LIBRARIES.get_or_init(|| {
        let places = fs::read(CACHE).ok().and_then(|bytes| cache(&bytes)).unwrap_or_default();
        places.into_values().filter_map(|place| Some((image(&place)?.build_id?, place))).collect()
    })
}

/// The file with the dictionary of a library: itself, or its debug file.
pub(crate) fn with_dictionary(library: &Path) -> Option<PathBuf> {
    let cache = ReadCache::new(File::open(library).ok()?);
    if object::File::parse(&cache).ok()?.section_by_name(SECTION).is_some() {
        return Some(library.to_owned());
    }
    debug_files::find(library, &read_file(library).ok()?)
}

/// The build id of the library that the kernel gives to processes, which is in no file: the one that this process has.
pub(crate) fn kernels() -> Option<BuildId> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let range = maps.lines().find(|line| line.ends_with("[vdso]"))?.split_whitespace().next()?;
    let (start, end) = range.split_once('-')?;
    let address = |digits| u64::from_str_radix(digits, 16).ok();
    let mut bytes = vec![0; usize::try_from(address(end)? - address(start)?).ok()?];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, address(start)?).ok()?;
    object::File::parse(&*bytes).ok()?.build_id().ok().flatten().map(BuildId::from_prefix)
}

/// The files in the program's folder, and in those directly below it, that have names of libraries.
fn near(program: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.take(MAX_FILES).map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let folder = fs::canonicalize(program).ok().and_then(|program| Some(program.parent()?.to_owned()));
    let own = folder.map_or_else(Vec::new, |folder| entries(&folder));
    let below = own.iter().filter(|path| path.is_dir()).flat_map(|folder| entries(folder));
    let files = below.chain(own.iter().cloned());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        (name.ends_with(".so") || name.contains(".so.")) && path.is_file()
    };
    files.filter(is_library).take(MAX_FILES).collect()
}

/// The contents of an ELF file that are needed here.
struct Image {
    build_id: Option<BuildId>,
    /// The names of the libraries that it needs.
    needed: Vec<PathBuf>,
    /// The folders that it names.
    folders: Vec<PathBuf>,
}

fn image(path: &Path) -> Option<Image> {
    let origin = fs::canonicalize(path).ok()?.parent()?.to_owned();
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = ElfFile64::<LittleEndian, _>::parse(&cache).ok()?;
    let mut image = Image {
        build_id: file.build_id().ok().flatten().map(BuildId::from_prefix),
        needed: Vec::new(),
        folders: Vec::new(),
    };
    let (endian, data) = (file.endian(), file.data());
    let sections = file.elf_section_table();
    if let Some((entries, strings)) = sections.dynamic(endian, data).ok()? {
        let strings = sections.strings(endian, data, strings).ok()?;
        for entry in entries {
            let text = || entry.string(endian, strings).ok();
            match entry.tag(endian) {
                DT_NEEDED => image.needed.extend(text().map(|name| PathBuf::from(OsStr::from_bytes(name)))),
                DT_RPATH | DT_RUNPATH => {
                    let folders = text().unwrap_or_default().split(|byte| *byte == b':');
                    image.folders.extend(folders.map(|folder| with_origin(folder, &origin)));
                }
                _ => {}
            }
        }
    }
    Some(image)
}

/// A folder of `RUNPATH`, which may be relative to `origin`, the folder of the file.
fn with_origin(folder: &[u8], origin: &Path) -> PathBuf {
    let rest = [&b"$ORIGIN"[..], b"${ORIGIN}"].iter().find_map(|name| folder.strip_prefix(*name));
    match rest {
        Some(rest) => origin.join(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest))),
        None => PathBuf::from(OsStr::from_bytes(folder)),
    }
}

/// The places of libraries by their names, from the loader's cache. It has a head of 48 bytes, which begins with
/// [`MAGIC`] and the number of entries, and entries of 24 bytes, with the offsets of name and place at 4 and at 8.
fn cache(bytes: &[u8]) -> Option<HashMap<Box<OsStr>, PathBuf>> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    let number = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
    let text = |at: usize| bytes.get(at..)?.split(|byte| *byte == 0).next().map(OsStr::from_bytes);
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    let mut places = HashMap::new();
    for at in (48..).step_by(24).take(number(MAGIC.len())?) {
        let (Some(name), Some(place)) = (number(at + 4).and_then(text), number(at + 8).and_then(text)) else {
            break;
        };
        places.entry(name.into()).or_insert_with(|| place.into());
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_the_cache_are_read() {
        let mut bytes = b"glibc-ld.so.cache1.1".to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.resize(48, 0);
        let (name, place) = (96, 106);
        for word in [[0x303, name, place, 0, 0, 0], [0x303, name, name, 0, 0, 0]].as_flattened() {
            bytes.extend(u32::to_le_bytes(*word));
        }
        bytes.extend(b"liba.so.1\0/opt/liba.so.1\0");
        // The first place counts, and an entry is missing.
        let places = cache(&bytes).expect("a cache");
        let found = places.get(OsStr::new("liba.so.1")).map(PathBuf::as_path);
        assert_eq!((places.len(), found), (1, Some(Path::new("/opt/liba.so.1"))));
        for cut in 0..bytes.len() {
            let _ = cache(&bytes[..cut]);
        }
        assert!(cache(b"ld.so-1.7.0").is_none());
    }

    #[test]
    fn the_systems_libraries_are_found() {
        let own = std::env::current_exe().expect("this process has a program");
        let image = image(&own).expect("it is an ELF file");
        assert!(image.needed.iter().any(|name| name.as_os_str() == "libc.so.6"), "{:?}", image.needed);
        let found = libraries(&own);
        assert!(found.values().any(|path| path.ends_with("libc.so.6")), "{found:?}");
        assert!(found.values().all(|path| path.is_file()), "{found:?}");
    }

    #[test]
    fn folders_lead_from_that_of_the_file() {
        for (folder, expected) in
            [("$ORIGIN/../lib", "/app/bin/../lib"), ("${ORIGIN}", "/app/bin/"), ("/opt/lib", "/opt/lib")]
        {
            assert_eq!(with_origin(folder.as_bytes(), Path::new("/app/bin")), Path::new(expected));
        }
    }
}
