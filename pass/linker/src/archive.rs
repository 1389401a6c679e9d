//! Archives: their members, and copies in which some members are replaced.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::ReadCache;
use object::archive::{Header, MAGIC};
use object::read::archive::{ArchiveFile, ArchiveKind};

use crate::{Error, elf};

/// The length of a member's header.
const HEADER: u64 = size_of::<Header>() as u64;

/// The number of a member, and a symbol that the index has for it.
type Symbol = (usize, Vec<u8>);

/// A member of an archive.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its name. In a thin archive, its path.
    pub name: Vec<u8>,
    /// The file that contains it: the archive, or a file of its own.
    pub file: PathBuf,
    /// Its range in that file; none for the whole file.
    pub range: Option<Range<u64>>,
    header: Header,
    /// The offset of its header in the archive.
    at: u64,
}

#[derive(Debug)]
pub struct Archive {
    /// The archive's own path.
    pub path: PathBuf,
    /// In order.
    pub members: Vec<Member>,
    /// True if its members are files of their own.
    pub thin: bool,
    kind: ArchiveKind,
    /// The symbols of its index, with the offsets of their members' headers; none if it has no index.
    index: Option<Vec<(Vec<u8>, u64)>>,
}

impl Archive {
    /// Reads the names of the members; none if it is no archive.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        let damaged = |error: object::Error| Error::Damaged {
            file: path.display().to_string(),
            cause: error.to_string(),
        };
        let cache = ReadCache::new(File::open(path).map_err(Error::file(path))?);
        let mut start = [0; 8];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
        if read.is_err() || !matches!(&start, b"!<arch>\n" | b"!<thin>\n") {
            return Ok(None);
        }
        let archive = ArchiveFile::parse(&cache).map_err(damaged)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut members = Vec::new();
        for member in archive.members() {
            let member = member.map_err(damaged)?;
            let Some(header) = member.header() else { continue };
            let (offset, size) = member.file_range();
            members.push(Member {
                name: member.name().to_vec(),
                file: if member.is_thin() {
                    folder.join(OsStr::from_bytes(member.name()))
                } else {
                    path.to_owned()
                },
                range: (!member.is_thin()).then(|| offset..offset.saturating_add(size)),
                header: *header,
                at: offset.saturating_sub(HEADER),
            });
        }
        let thin = archive.is_thin();
        if thin {
            // Nothing but headers follows the index and the names.
            let end = fs::metadata(path).map_err(Error::file(path))?.len();
            for (back, member) in members.iter_mut().rev().enumerate() {
                member.at = end.saturating_sub(HEADER * (back as u64 + 1));
            }
        }
        let index = archive.symbols().map_err(damaged)?.map(|symbols| {
            symbols.map(|s| s.map(|s| (s.name().to_vec(), s.offset().0))).collect::<Result<Vec<_>, _>>()
        });
        let index = index.transpose().map_err(damaged)?;
        Ok(Some(Archive { path: path.to_owned(), members, thin, kind: archive.kind(), index }))
    }

    /// The name of a member in messages.
    pub fn shown(&self, member: usize) -> String {
        format!("{}({})", self.path.display(), self.members[member].name.escape_ascii())
    }

    /// Writes a copy in which some members, by number, have the contents of files. Everything else stays: the
    /// order, the names, and the member that the index has for a symbol.
    pub fn copy(&self, to: &Path, replaced: &HashMap<usize, PathBuf>) -> Result<(), Error> {
        self.copy_of(to, replaced, |_| true)
    }

    /// Writes a copy that has some members only.
    pub fn copy_of(
        &self,
        to: &Path,
        replaced: &HashMap<usize, PathBuf>,
        has: impl Fn(usize) -> bool,
    ) -> Result<(), Error> {
        if !matches!(self.kind, ArchiveKind::Unknown | ArchiveKind::Gnu | ArchiveKind::Gnu64) {
            return Err(Error::Archive { file: self.path.clone(), kind: format!("{:?}", self.kind) });
        }
        let mut names = Vec::new();
        let mut sources = Vec::new();
        // The place of each member among those of the copy.
        let mut places = HashMap::new();
        for (number, member) in self.members.iter().enumerate().filter(|(number, _)| has(*number)) {
            places.insert(number, sources.len());
            let (file, range) = match replaced.get(&number) {
                Some(file) => (file, None),
                None => (&member.file, member.range.clone()),
            };
            let range = match range {
                Some(range) => range,
                None => 0..fs::metadata(file).map_err(Error::file(file))?.len(),
            };
            let size = range.end - range.start;
            let mut header = member.header;
            header.size = field(size);
            if header.name[0] == b'/' {
                header.name = field_of(format!("/{}", names.len()).as_bytes());
                names.extend(&member.name);
                names.extend(b"/\n");
            }
            sources.push((header, file, range));
        }
        let index = self.new_index(replaced)?.map(|symbols| {
            let of_place = |(member, name)| Some((*places.get(&member)?, name));
            symbols.into_iter().filter_map(of_place).collect::<Vec<Symbol>>()
        });
        // The index has the offsets of members, and comes before them.
        let sum: usize = index.iter().flatten().map(|(_, name)| name.len() + 1).sum();
        let symbols = index.as_ref().map_or(0, Vec::len);
        let names_length = if names.is_empty() { 0 } else { HEADER + even(names.len() as u64) };
        let members_length: u64 =
            sources.iter().map(|(.., range)| HEADER + even(range.end - range.start)).sum();
        let length_of_index = |width: usize| (width * (1 + symbols) + sum) as u64;
        let large = length_of_index(4) + names_length + members_length + 2 * HEADER > u64::from(u32::MAX);
        let width = if large { 8 } else { 4 };
        let mut at = MAGIC.len() as u64 + names_length;
        if index.is_some() {
            at += HEADER + even(length_of_index(width));
        }
        let mut positions = Vec::new();
        for (.., range) in &sources {
            positions.push(at);
            at += HEADER + even(range.end - range.start);
        }

        let write = || -> std::io::Result<()> {
            let mut out = BufWriter::new(File::create(to)?);
            out.write_all(&MAGIC)?;
            if let Some(index) = &index {
                let mut content = number(index.len() as u64, width);
                for (member, _) in index {
                    content.extend(number(positions[*member], width));
                }
                for (_, name) in index {
                    content.extend(name);
                    content.push(0);
                }
                special(&mut out, if large { b"/SYM64/" } else { b"/" }, &content)?;
            }
            if !names.is_empty() {
                special(&mut out, b"//", &names)?;
            }
            for (header, file, range) in sources {
                out.write_all(object::pod::bytes_of(&header))?;
                let mut source = File::open(file)?;
                source.seek(SeekFrom::Start(range.start))?;
                let size = range.end - range.start;
                if std::io::copy(&mut source.take(size), &mut out)? != size {
                    return Err(std::io::Error::other(format!("{} has become shorter", file.display())));
                }
                if size % 2 == 1 {
                    out.write_all(b"\n")?;
                }
            }
            out.flush()
        };
        write().map_err(Error::file(to))
    }

    /// The symbols of the copy's index, each with the number of its member.
    fn new_index(&self, replaced: &HashMap<usize, PathBuf>) -> Result<Option<Vec<Symbol>>, Error> {
        let Some(index) = &self.index else { return Ok(None) };
        let numbers: HashMap<u64, usize> = self.members.iter().enumerate().map(|(i, m)| (m.at, i)).collect();
        let mut symbols = Vec::new();
        for (name, at) in index {
            let member = *numbers.get(at).ok_or_else(|| Error::Damaged {
                file: self.path.display().to_string(),
                cause: "its index names a member that it does not have; run `ranlib`".to_owned(),
            })?;
            if !replaced.contains_key(&member) {
                symbols.push((member, name.clone()));
            }
        }
        for (member, file) in replaced {
            let data = fs::read(file).map_err(Error::file(file))?;
            let names = elf::defined(&*data, false, &self.shown(*member))?;
            symbols.extend(names.into_iter().map(|name| (*member, name)));
        }
        symbols.sort_by_key(|(member, _)| *member);
        Ok(Some(symbols))
    }
}

fn even(size: u64) -> u64 {
    size.next_multiple_of(2)
}

/// A field of a header: text that is padded with blanks.
fn field_of<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut field = [b' '; N];
    let length = text.len().min(N);
    field[..length].copy_from_slice(&text[..length]);
    field
}

fn field<const N: usize>(value: u64) -> [u8; N] {
    field_of(value.to_string().as_bytes())
}

fn number(value: u64, width: usize) -> Vec<u8> {
    value.to_be_bytes()[8 - width..].to_vec()
}

/// Writes the index, or the names, as GNU ar does.
fn special(out: &mut impl Write, name: &[u8], content: &[u8]) -> std::io::Result<()> {
    let is_index = name != b"//";
    let number: &[u8] = if is_index { b"0" } else { b"" };
    let header = Header {
        name: field_of(name),
        date: field_of(number),
        uid: field_of(number),
        gid: field_of(number),
        mode: field_of(number),
        size: field(even(content.len() as u64)),
        terminator: object::archive::TERMINATOR,
    };
    out.write_all(object::pod::bytes_of(&header))?;
    out.write_all(content)?;
    if content.len() % 2 == 1 {
        out.write_all(if is_index { b"\0" } else { b"\n" })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
