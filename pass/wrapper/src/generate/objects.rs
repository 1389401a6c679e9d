//! The cache of generated objects.
//!
//! An entry is a file named by the key of its object, a hash of everything that the object was made of. The
//! format is in docs/formats.md. Several links use the cache at once: an entry is written under another name,
//! and renamed. A damaged entry is removed, and its object is made again. So the cache affects nothing but
//! time.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::{Failure, hex};

/// The variable that names the folder. An empty value turns the cache off.
pub const FOLDER_VARIABLE: &str = "PCCE_CACHE";
/// The variable with the size limit of the folder.
pub const SIZE_VARIABLE: &str = "PCCE_CACHE_SIZE";
/// The default size limit.
const SIZE: u64 = 2 << 30;
/// The magic bytes of an entry. Its key, the hash of the object, and the object follow.
const MAGIC: [u8; 8] = *b"PCCEOBJ1";
const HASH: usize = 32;
const HEADER: usize = MAGIC.len() + 2 * HASH;
/// The number of folders with entries.
const FOLDERS: u64 = 16;
/// The prefix of names of entries that are being written.
const NEW: &str = ".new-";

/// The objects of earlier links.
pub struct Cache {
    folder: PathBuf,
    size: u64,
    /// The folders to which entries were added.
    grown: Mutex<BTreeSet<PathBuf>>,
}

impl Cache {
    /// Opens the cache that the environment names, or the user's.
    ///
    /// # Errors
    /// The size limit is no size.
    pub fn of_environment() -> Result<Option<Self>, Failure> {
        let variable = |name: &str| std::env::var_os(name);
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = match variable(FOLDER_VARIABLE) {
            Some(folder) if folder.is_empty() => return Ok(None),
            Some(folder) => Some(PathBuf::from(folder)),
            None => absolute("XDG_CACHE_HOME")
                .or_else(|| Some(absolute("HOME")?.join(".cache")))
                .map(|folder| folder.join("pcce")),
        };
        let Some(folder) = folder else { return Ok(None) };
        let size = match variable(SIZE_VARIABLE).filter(|text| !text.is_empty()) {
            Some(text) => size_of_text(&text).ok_or_else(|| {
                let text = text.display();
                format!("{SIZE_VARIABLE}: `{text}` is no size; write it as `500M` or `2G`")
            })?,
            None => SIZE,
        };
        Ok(Some(Self::new(folder, size)))
    }

    /// A cache in a folder with an approximate size limit.
    pub fn new(folder: PathBuf, size: u64) -> Self {
        Self { folder, size, grown: Mutex::default() }
    }

    fn place(&self, key: &[u8; HASH]) -> PathBuf {
        let digits = hex(key);
        self.folder.join(&digits[..1]).join(&digits[1..])
    }

    /// The object of a key.
    pub fn get(&self, key: &[u8; HASH]) -> Option<Vec<u8>> {
        let place = self.place(key);
        let mut entry = fs::read(&place).ok()?;
        let object = entry.get(HEADER..).unwrap_or_default();
        let header = [&MAGIC[..], key, &Sha256::digest(object)].concat();
        if !entry.starts_with(&header) {
            let _ = fs::remove_file(&place);
            return None;
        }
        // Recently used entries stay longest.
        if let Ok(file) = fs::File::options().append(true).open(&place) {
            let _ = file.set_modified(SystemTime::now());
        }
        entry.drain(..HEADER);
        Some(entry)
    }

    /// Stores an object. If that fails, the next link makes it again.
    pub fn put(&self, key: &[u8; HASH], object: &Path) {
        let _ = self.try_put(key, object);
    }

    fn try_put(&self, key: &[u8; HASH], object: &Path) -> std::io::Result<()> {
        let object = fs::read(object)?;
        if object.len() as u64 > self.size / FOLDERS {
            return Ok(());
        }
        let place = self.place(key);
        let folder = place.parent().unwrap_or(&self.folder);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mut file = tempfile::Builder::new().prefix(NEW).tempfile_in(folder)?;
        file.write_all(&[&MAGIC[..], key, &Sha256::digest(&object)].concat())?;
        file.write_all(&object)?;
        file.persist(&place)?;
        self.grown.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_owned());
        Ok(())
    }

    /// Removes the least recently used entries, if the cache has become too large.
    pub fn shrink(&self) {
        let grown = std::mem::take(&mut *self.grown.lock().unwrap_or_else(PoisonError::into_inner));
        for folder in grown {
            let Ok(files) = fs::read_dir(&folder) else { continue };
            let mut entries: Vec<(SystemTime, u64, PathBuf)> = files
                .filter_map(|file| {
                    let file = file.ok()?;
                    let data = file.metadata().ok()?;
                    is_entry(&file.file_name()).then_some((data.modified().ok()?, data.len(), file.path()))
                })
                .collect();
            entries.sort_unstable();
            let mut all: u64 = entries.iter().map(|(_, size, _)| size).sum();
            let max_size = self.size / FOLDERS;
            for (_, size, path) in entries {
                if all <= max_size {
                    break;
                }
                let _ = fs::remove_file(path);
                all -= size;
            }
        }
    }
}

/// Returns whether a file is an entry of the cache.
fn is_entry(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with(NEW) || name.len() == 2 * HASH - 1 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A number of bytes, with an optional unit letter.
fn size_of_text(text: &OsStr) -> Option<u64> {
    let text = text.to_str()?;
    let (number, shift) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn object(folder: &Path, content: &[u8]) -> PathBuf {
        let file = folder.join("object");
        fs::write(&file, content).unwrap();
        file
    }

    #[test]
    fn what_is_no_entry_of_its_key_is_taken_away() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("cache"), 1 << 20);
        let [key, other] = [[0x12; HASH], [0x1f; HASH]];
        assert_eq!(cache.get(&key), None);
        cache.put(&key, &object(folder.path(), b"code of one"));
        cache.put(&other, &object(folder.path(), b"code of another"));
        assert_eq!(cache.get(&key).unwrap(), b"code of one");
        let good = fs::read(cache.place(&key)).unwrap();
        let mut spoilt: Vec<Vec<u8>> = (0..good.len()).map(|end| good[..end].to_vec()).collect();
        spoilt.extend((0..good.len()).map(|at| {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            bytes
        }));
        spoilt.push(fs::read(cache.place(&other)).unwrap());
        spoilt.push([&good[..], b"x"].concat());
        for bytes in spoilt {
            fs::write(cache.place(&key), &bytes).unwrap();
            assert_eq!(cache.get(&key), None, "{bytes:x?}");
            assert!(!cache.place(&key).exists());
        }
        assert_eq!(cache.get(&other).unwrap(), b"code of another");
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("cache"), FOLDERS * 3000);
        let key = |n: u8| [n; HASH];
        for n in 0..4 {
            cache.put(&key(n), &object(folder.path(), &[n; 900]));
            let file = fs::File::options().append(true).open(cache.place(&key(n))).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(100 - u64::from(n))).unwrap();
        }
        let others = cache.place(&key(0)).with_file_name("notes");
        fs::write(&others, vec![0; 9000]).unwrap();
        // Reading makes the entry recently used.
        assert!(cache.get(&key(0)).is_some());
        cache.shrink();
        let left: Vec<u8> = (0..4).filter(|n| cache.place(&key(*n)).exists()).collect();
        assert_eq!(left, [0, 2, 3]);
        assert!(others.exists());
        // This object is too large for its folder.
        cache.put(&key(9), &object(folder.path(), &[0; 3001]));
        assert!(!cache.place(&key(9)).exists());
    }

    #[test]
    fn sizes_are_read() {
        for (text, size) in
            [("0", Some(0)), ("500M", Some(500 << 20)), ("2g", Some(2 << 30)), ("7k", Some(7168))]
        {
            assert_eq!(size_of_text(OsStr::new(text)), size, "{text}");
        }
        for text in ["", "M", "-1", "1T", "2 G", "99999999999999999999", "99999999999G", "1é"] {
            assert_eq!(size_of_text(OsStr::new(text)), None, "{text}");
        }
    }
}
