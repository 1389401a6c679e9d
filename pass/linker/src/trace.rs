//! The output of linkers for `--trace`: the files that they have linked, one a line.
//!
//! | linker | an object | a member of an archive | of a thin archive |
//! |---|---|---|---|
//! | GNU ld | `FILE` | `ARCHIVE`, and `(ARCHIVE)MEMBER` twice | `ARCHIVE`, and the path of the member |
//! | gold | `FILE` | `ARCHIVE(MEMBER)` | `ARCHIVE(PATH)` |
//! | lld | `FILE` | `ARCHIVE(MEMBER)` | `ARCHIVE(MEMBER)` |
//! | mold | `trace: FILE` | `trace: ARCHIVE(MEMBER)` | `trace: ARCHIVE(PATH)` |
//!
//! mold names all members that it has read, linked or not. gold does not name the bitcode that its plugin
//! compiles.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::archive::Archive;

/// A file that was linked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced {
    pub file: PathBuf,
    /// The name of the member that was linked. Several members may have one name.
    pub member: Option<Vec<u8>>,
}

/// The greatest number of lines of a name.
const MAX_LINES: usize = 4;

/// Reads a linker's output. Lines that name no file are ignored.
pub fn read(output: &[u8]) -> Vec<Traced> {
    let ends: Vec<usize> =
        (0..output.len()).filter(|at| output[*at] == b'\n').chain([output.len()]).collect();
    let mut traced = Vec::new();
    let (mut start, mut number) = (0, 0);
    while number < ends.len() {
        // Names may contain line breaks.
        let found = (number..ends.len().min(number + MAX_LINES))
            .find_map(|last| Some((line(&output[start..ends[last]])?, last)));
        if let Some((file, last)) = found {
            traced.push(file);
            number = last;
        }
        start = ends[number] + 1;
        number += 1;
    }
    traced
}

fn line(line: &[u8]) -> Option<Traced> {
    if let Some(rest) = line.strip_prefix(b"trace: ") {
        return of_text(rest);
    }
    of_text(line)
}

fn of_text(text: &[u8]) -> Option<Traced> {
    let is_file = |bytes: &[u8]| !bytes.is_empty() && Path::new(OsStr::from_bytes(bytes)).is_file();
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    // Names may contain brackets.
    let each = |bracket: u8| (0..text.len()).filter(move |at| text[*at] == bracket);
    if text.starts_with(b"(")
        && let Some(end) = each(b')').find(|end| is_file(&text[1..*end]))
    {
        return Some(Traced { file: path(&text[1..end]), member: Some(text[end + 1..].to_vec()) });
    }
    if is_file(text) {
        return Some(Traced { file: path(text), member: None });
    }
    let inner = text.strip_suffix(b")")?;
    let start = each(b'(').find(|start| is_file(&text[..*start]))?;
    Some(Traced { file: path(&text[..start]), member: Some(inner[start + 1..].to_vec()) })
}

/// All these files, and all members of those that are archives.
pub fn of_files(files: &[Option<PathBuf>]) -> Result<Vec<Traced>, Error> {
    let mut all = Vec::new();
    for file in files.iter().flatten().filter(|file| file.is_file()) {
        all.push(Traced { file: file.clone(), member: None });
        let members = Archive::read(file)?.into_iter().flat_map(|archive| archive.members);
        all.extend(members.map(|member| Traced { file: file.clone(), member: Some(member.name) }));
    }
    Ok(all)
}

/// Returns whether the linker names members that it has read but not linked.
pub fn names_too_many(output: &[u8]) -> bool {
    output.starts_with(b"trace: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_linkers_lines_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("lib (1),x.a");
        std::fs::write(&archive, "").unwrap();
        let name = archive.display();
        let text = format!(
            "{name}\n({name})a b.o\n{name}(c(d).o)\ntrace: {name}\ntrace: {name}(e.o)\nremoving unused section\n\n"
        );
        let traced = read(text.as_bytes());
        let members: Vec<_> =
            traced.iter().map(|t| t.member.as_deref().map(|m| str::from_utf8(m).unwrap())).collect();
        assert_eq!(members, [None, Some("a b.o"), Some("c(d).o"), None, Some("e.o")]);
        assert!(traced.iter().all(|traced| traced.file == archive));
    }

    #[test]
    fn names_have_line_breaks() {
        let folder = tempfile::tempdir().unwrap();
        let [object, plain] = ["a\nb\n.o", "c.o"].map(|name| folder.path().join(name));
        for file in [&object, &plain] {
            std::fs::write(file, "").unwrap();
        }
        let text = format!("removing\n{0}\n{1}\n\ntrace: {0}\n{1}", object.display(), plain.display());
        let files: Vec<_> = read(text.as_bytes()).into_iter().map(|traced| traced.file).collect();
        assert_eq!(files, [object.clone(), plain.clone(), object, plain]);
    }
}
