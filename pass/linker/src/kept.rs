//! The file that a link keeps, from which its program can be made again without sources and objects.
//! [`crate::keep`] writes it, and [`crate::again`] reads it. The format is in docs/formats.md.
//!
//! The content is not trusted: a file is unpacked only if its checksum is right, into a folder of its own,
//! and sizes in it are checked.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use object::{Object, ReadCache};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Error;
use crate::inputs::tail;
use crate::scratch::with_names;

/// The magic bytes. The version follows (4 bytes, little endian), then the SHA-256 of everything after it,
/// the length of the manifest (8 bytes), the manifest, and the contents.
const MAGIC: &[u8; 8] = b"PCCEKEPT";
/// The version that is written and read.
pub const VERSION: u32 = 1;
const HASH: usize = 32;
const HEADER: u64 = (MAGIC.len() + 4 + HASH) as u64;
/// The limit of contents: this factor of their compressed length, or at least this length.
const MAX_CONTENTS: (u64, u64) = (4096, 1 << 20);
/// The prefix of the placeholder for the folder of contents; a number follows.
const ROOT: &str = "/.pcce-kept-";
/// Level 3 is zstd's own default.
const LEVEL: i32 = 3;

/// A name of the operating system. In JSON it is text, or bytes if it is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Name(pub OsString);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<Written> for Name {
    fn from(written: Written) -> Self {
        match written {
            Written::Text(text) => Name(text.into()),
            Written::Bytes(bytes) => Name(OsString::from_vec(bytes)),
        }
    }
}

impl From<Name> for Written {
    fn from(Name(name): Name) -> Self {
        match name.into_string() {
            Ok(text) => Written::Text(text),
            Err(name) => Written::Bytes(name.into_vec()),
        }
    }
}

impl From<&Path> for Name {
    fn from(path: &Path) -> Self {
        Name(path.as_os_str().to_owned())
    }
}

impl Name {
    /// As a path.
    pub fn path(&self) -> &Path {
        Path::new(&self.0)
    }
}

/// How a program was linked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The release that wrote it.
    pub release: String,
    /// The absolute path of the program.
    pub program: Name,
    /// The program's name in the command. Linkers put it into programs that have versions, and no name of
    /// their own.
    pub output: Name,
    /// Its build id, in hexadecimal digits.
    pub build_id: Option<String>,
    /// The folder in which it was linked.
    pub folder: Name,
    pub linker: Name,
    /// The environment variables that linkers read. Those without a value were not set.
    pub variables: Vec<(String, Option<Name>)>,
    /// The placeholder for the folder of contents, in words and scripts.
    pub root: Name,
    /// The words of the linker's command, without its output.
    pub words: Vec<Name>,
    /// The ids of the modules that were linked, in hexadecimal digits, sorted.
    pub modules: Vec<String>,
    /// The SHA-256 of the compilers' own descriptions of their commands, in hexadecimal digits.
    pub commands: String,
    /// The profile of calls that the program was encoded with. It is one of the files of `plain`.
    pub profile: Option<Name>,
    /// The files of which only a checksum is kept.
    pub plain: Vec<Plain>,
    /// The files whose contents are kept, in order.
    pub files: Vec<Content>,
}

/// A file that must exist again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plain {
    /// Its absolute path.
    pub path: Name,
    /// Its length.
    pub size: u64,
    /// `sha256:` or `build-id:`, and hexadecimal digits.
    pub identity: String,
}

/// A file that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Its path below the folder of contents.
    pub name: Name,
    /// The user's name for it.
    pub shown: Name,
    /// Its length.
    pub size: u64,
    /// It is a script that contains [`Manifest::root`].
    pub is_script: bool,
}

impl Plain {
    /// Describes a file as it is now. A tool is identified by its build id if it has one, since tools are
    /// large.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(path: &Path, is_tool: bool) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        let identity = match build_id(path).filter(|_| is_tool) {
            Some(id) => format!("build-id:{id}"),
            None => {
                let mut hash = Hashing { to: io::sink(), hash: Sha256::new() };
                io::copy(&mut file, &mut hash)?;
                format!("sha256:{}", hex(&hash.hash.finalize()))
            }
        };
        Ok(Self { path: path.into(), size, identity })
    }

    /// Checks that the file exists and has not changed. A library that `pcce adapt` has made again since is the same
    /// for who links with it.
    ///
    /// # Errors
    /// The difference.
    pub fn check(&self) -> Result<(), Error> {
        let path = self.path.path();
        let differs = |cause: String| Error::KeptInput { path: path.to_owned(), cause };
        // Reading something that is no regular file may never end.
        match fs::metadata(path) {
            Ok(data) if data.is_file() => {}
            Ok(_) => return Err(differs("is no file".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(differs("is missing".to_owned()));
            }
            Err(error) => return Err(differs(format!("cannot be read: {error}"))),
        }
        let is_tool = self.identity.starts_with("build-id:");
        let now = Plain::of(path, is_tool).map_err(|error| differs(format!("cannot be read: {error}")))?;
        let mut aside = path.as_os_str().to_owned();
        aside.push(pcce_options::PUT_ASIDE);
        let before = Plain::of(Path::new(&aside), is_tool);
        let is_this = |file: &Plain| (file.size, &file.identity) == (self.size, &self.identity);
        if is_this(&now) || before.is_ok_and(|before| is_this(&before)) {
            return Ok(());
        }
        let what = if is_tool { "is another version" } else { "has other content" };
        Err(differs(format!("{what} ({} bytes, and {} then)", now.size, self.size)))
    }
}

/// The build id of a file, in hexadecimal digits.
pub fn build_id(path: &Path) -> Option<String> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = object::File::parse(&cache).ok()?;
    file.build_id().ok().flatten().map(hex)
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A writer that hashes what it writes.
struct Hashing<W> {
    to: W,
    hash: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes a file with the contents in `folder`.
///
/// # Errors
/// An error of the system.
pub fn write(to: &mut File, manifest: &Manifest, folder: &Path) -> io::Result<()> {
    to.write_all(&[0; HEADER as usize])?;
    let hash = write_contents(&mut *to, manifest, folder)?;
    to.seek(SeekFrom::Start(0))?;
    to.write_all(&[&MAGIC[..], &VERSION.to_le_bytes(), &hash].concat())
}

/// Writes everything after the checksum. Returns the checksum.
fn write_contents(to: &mut File, manifest: &Manifest, folder: &Path) -> io::Result<[u8; HASH]> {
    let root = (folder.to_owned(), manifest.root.path().to_owned());
    let document = serde_json::to_vec(manifest)?;
    let mut out = Hashing { to: BufWriter::new(to), hash: Sha256::new() };
    out.write_all(&(document.len() as u64).to_le_bytes())?;
    out.write_all(&document)?;
    let mut packed = zstd::Encoder::new(out, LEVEL)?;
    for content in &manifest.files {
        let path = folder.join(content.name.path());
        let size = if content.is_script {
            let text = with_names(&fs::read(&path)?, std::slice::from_ref(&root));
            packed.write_all(&text)?;
            text.len() as u64
        } else {
            io::copy(&mut File::open(&path)?, &mut packed)?
        };
        if size != content.size {
            return Err(io::Error::other(format!("{} has changed", content.shown.0.display())));
        }
    }
    let mut out = packed.finish()?;
    out.flush()?;
    Ok(out.hash.finalize().into())
}

/// A kept file.
#[derive(Debug)]
pub struct Kept {
    /// Its name.
    pub path: PathBuf,
    /// The description of the link.
    pub manifest: Manifest,
    file: File,
    /// The offset of the contents, and their length.
    contents: (u64, u64),
}

/// Returns whether a file is a kept file.
pub fn is_kept(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *MAGIC
}

impl Kept {
    /// Opens it.
    ///
    /// # Errors
    /// It cannot be read, is of another version, or damaged.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut file = File::open(path).map_err(Error::file(path))?;
        let data = file.metadata().map_err(Error::file(path))?;
        let damaged = |cause: &str| Error::KeptDamaged { file: path.to_owned(), cause: cause.to_owned() };
        let mut header = [0; HEADER as usize];
        let is_long = data.is_file() && file.read_exact(&mut header).is_ok();
        if !data.is_file() || is_long && !header.starts_with(MAGIC) || !is_long && !is_kept(path) {
            return Err(Error::KeptForeign(path.to_owned()));
        }
        let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        if is_long && version != VERSION {
            return Err(Error::KeptVersion { file: path.to_owned(), version });
        }
        let mut hash = Hashing { to: io::sink(), hash: Sha256::new() };
        let length = io::copy(&mut file, &mut hash).map_err(Error::file(path))?;
        if !is_long || hash.hash.finalize()[..] != header[12..] {
            return Err(damaged("its checksum is another one"));
        }
        file.seek(SeekFrom::Start(HEADER)).map_err(Error::file(path))?;
        let mut of_manifest = [0; 8];
        file.read_exact(&mut of_manifest).map_err(|_| damaged("it ends too early"))?;
        let of_manifest = u64::from_le_bytes(of_manifest);
        let of_contents = length.checked_sub(8).and_then(|rest| rest.checked_sub(of_manifest));
        let of_contents = of_contents.ok_or_else(|| damaged("it ends too early"))?;
        let mut manifest = Vec::new();
        (&file).take(of_manifest).read_to_end(&mut manifest).map_err(Error::file(path))?;
        let manifest: Manifest =
            serde_json::from_slice(&manifest).map_err(|error| damaged(&error.to_string()))?;
        // An empty placeholder would match everywhere.
        if !manifest.root.0.as_bytes().starts_with(ROOT.as_bytes()) {
            return Err(damaged("its folder has another name"));
        }
        let whole = manifest.files.iter().try_fold(0_u64, |sum, content| sum.checked_add(content.size));
        let most = of_contents.saturating_mul(MAX_CONTENTS.0).max(MAX_CONTENTS.1);
        if whole.is_none_or(|whole| whole > most) {
            return Err(damaged("its contents are longer than can be"));
        }
        let contents = (HEADER + 8 + of_manifest, of_contents);
        Ok(Self { path: path.to_owned(), manifest, file, contents })
    }

    /// Writes the contents into a new folder, and nothing elsewhere.
    ///
    /// # Errors
    /// They are damaged, or cannot be written.
    pub fn unpack(&self, folder: &Path) -> Result<(), Error> {
        let damaged = |cause: &str| Error::KeptDamaged { file: self.path.clone(), cause: cause.to_owned() };
        let broken = |error: io::Error| damaged(&error.to_string());
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.contents.0)).map_err(Error::file(&self.path))?;
        let mut packed = zstd::Decoder::new(file.take(self.contents.1)).map_err(broken)?;
        fs::create_dir(folder).map_err(Error::file(folder))?;
        let root = (self.manifest.root.path().to_owned(), folder.to_owned());
        for content in &self.manifest.files {
            let path = folder.join(tail(content.name.path()));
            let parent = path.parent().filter(|parent| parent.starts_with(folder));
            let parent = parent.filter(|_| path != folder).ok_or_else(|| damaged("a file has no name"))?;
            fs::create_dir_all(parent).map_err(Error::file(parent))?;
            // No file may replace another one.
            let mut new = File::create_new(&path).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => damaged("two files have one name"),
                _ => Error::file(&path)(error),
            })?;
            let mut part = BufReader::new((&mut packed).take(content.size));
            let size = io::copy(&mut part, &mut new).map_err(broken)?;
            if size != content.size {
                return Err(damaged("its contents end too early"));
            }
            if content.is_script {
                let text = fs::read(&path).map_err(Error::file(&path))?;
                fs::write(&path, with_names(&text, std::slice::from_ref(&root)))
                    .map_err(Error::file(&path))?;
            }
        }
        match packed.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(damaged("there is more than it says")),
            Err(error) => Err(broken(error)),
        }
    }

    /// A word of the command, for contents in a folder.
    pub fn word(&self, word: &Name, folder: &Path) -> OsString {
        let root = (self.manifest.root.path().to_owned(), folder.to_owned());
        OsString::from_vec(with_names(word.0.as_bytes(), &[root]))
    }
}

/// The placeholder for `folder` in words and scripts: a text that occurs in none of them.
pub fn root_for<'a>(texts: impl Iterator<Item = &'a OsStr> + Clone) -> PathBuf {
    let mut roots = (0..).map(|number: u64| PathBuf::from(format!("{ROOT}{number}")));
    let is_in = |root: &Path, text: &OsStr| {
        let root = root.as_os_str().as_bytes();
        text.as_bytes().windows(root.len()).any(|part| part == root)
    };
    roots.find(|root| !texts.clone().any(|text| is_in(root, text))).expect("numbers do not end")
}

#[cfg(test)]
mod tests;
