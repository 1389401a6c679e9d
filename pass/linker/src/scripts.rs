//! Linker scripts that are inputs, or given by `-T`, and the files that they name.
//!
//! `INPUT` and `GROUP` (with `AS_NEEDED`) name files to link. If such a file is replaced, a copy of the
//! script has the new name. Everything else stays as it was written.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Returns whether linkers take a file for a script: it is a text.
pub fn is_script(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut start));
    read.is_ok_and(|length| length > 0)
        && ![&b"!<"[..], b"\x7fELF", b"BC\xc0\xde"].iter().any(|magic| start.starts_with(magic))
        && !start.contains(&0)
}

/// A file that a script names, as it is written there: names of libraries begin with `-l`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its range in the script, with quotes.
    pub range: Range<usize>,
    pub name: Vec<u8>,
}

/// The files that a script names for linking.
pub fn named(script: &[u8]) -> Vec<Named> {
    let mut named = Vec::new();
    // Sections are within braces. A list begins after its keyword, and may contain another list.
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    let mut in_list = false;
    let mut before: &[u8] = b"";
    for token in tokens(script) {
        let text = &script[token.clone()];
        match text {
            b"{" => braces += 1,
            b"}" => braces = braces.saturating_sub(1),
            b"(" => {
                in_list |= braces == 0 && brackets == 0 && matches!(before, b"INPUT" | b"GROUP");
                brackets += 1;
            }
            b")" => {
                brackets = brackets.saturating_sub(1);
                in_list &= brackets > 0;
            }
            b"AS_NEEDED" | b"," => {}
            _ if in_list => {
                let quoted = text.strip_prefix(b"\"").map(|text| text.strip_suffix(b"\"").unwrap_or(text));
                named.push(Named { range: token, name: quoted.unwrap_or(text).to_vec() });
            }
            _ => {}
        }
        before = text;
    }
    named
}

/// The tokens of a script, without comments.
fn tokens(script: &[u8]) -> Vec<Range<usize>> {
    let find = |what: &[u8], from: usize| {
        let rest = script.get(from..).unwrap_or_default();
        let at = rest.windows(what.len()).position(|part| part == what);
        at.map_or(script.len(), |at| from + at + what.len())
    };
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < script.len() {
        let start = at;
        match script[at] {
            b'/' if script[at..].starts_with(b"/*") => {
                at = find(b"*/", at + 2);
                continue;
            }
            b'"' => at = find(b"\"", at + 1),
            byte if is_own(byte) => at += 1,
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            _ => {
                let ends = |at: usize| {
                    let byte = script[at];
                    byte.is_ascii_whitespace()
                        || is_own(byte)
                        || byte == b'"'
                        || script[at..].starts_with(b"/*")
                };
                while at < script.len() && !ends(at) {
                    at += 1;
                }
            }
        }
        tokens.push(start..at);
    }
    tokens
}

/// Returns whether a character is a token of its own.
fn is_own(byte: u8) -> bool {
    matches!(byte, b'(' | b')' | b'{' | b'}' | b',' | b';')
}

/// The paths at which a linker may look for a file that a script names: beside the script, in the working
/// directory, and in `folders`. In a script of a system root, an absolute name is below that root.
pub fn places(name: &[u8], script: &Path, folders: &[PathBuf], root: &OsStr) -> Vec<PathBuf> {
    let path = |name: &[u8]| PathBuf::from(OsStr::from_bytes(name));
    let in_root = |name: &[u8]| PathBuf::from(OsStr::from_bytes(&[root.as_bytes(), name].concat()));
    if let Some(rest) = name.strip_prefix(b"=").or_else(|| name.strip_prefix(b"$SYSROOT")) {
        return vec![in_root(rest)];
    }
    if name.starts_with(b"/") {
        return if root.is_empty() { vec![path(name)] } else { vec![in_root(name), path(name)] };
    }
    let beside = script.parent().unwrap_or(Path::new("")).join(path(name));
    let folders = folders.iter().map(|folder| folder.join(path(name)));
    [beside, path(name)].into_iter().chain(folders).collect()
}

/// A script with some names replaced.
pub fn with_names(script: &[u8], names: &[(Range<usize>, PathBuf)]) -> Vec<u8> {
    let mut new = Vec::with_capacity(script.len());
    let mut at = 0;
    for (range, name) in names {
        new.extend(&script[at..range.start]);
        new.push(b'"');
        new.extend(name.as_os_str().as_bytes());
        new.push(b'"');
        at = range.end;
    }
    new.extend(&script[at..]);
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(script: &str) -> Vec<String> {
        named(script.as_bytes()).into_iter().map(|named| String::from_utf8(named.name).unwrap()).collect()
    }

    #[test]
    fn scripts_name_files_in_lists() {
        for (script, expected) in [
            ("INPUT(a.o b.o,libx.a , -lz)", &["a.o", "b.o", "libx.a", "-lz"][..]),
            (
                "/* INPUT(no.o) */ OUTPUT_FORMAT(elf64-x86-64)\nGROUP ( /l/c.so.6 AS_NEEDED ( l.so ) d.o )",
                &["/l/c.so.6", "l.so", "d.o"],
            ),
            ("INPUT(\"with space.o\" x/*no*/y.o) INPUT (z.o);", &["with space.o", "x", "y.o", "z.o"]),
            ("SECTIONS { .text : { *(.text) INPUT(no.o) KEEP(*(.init)) } } GROUP(=/a.o)", &["=/a.o"]),
            ("ENTRY(main) SEARCH_DIR(x)", &[]),
            ("INPUT(a.o", &["a.o"]),
            ("INPUT(\"a.o", &["a.o"]),
            (")) } INPUT(a.o) /* INPUT(", &["a.o"]),
            ("INPUT", &[]),
        ] {
            assert_eq!(names(script), expected, "{script}");
        }
    }

    #[test]
    fn names_are_replaced() {
        let script = b"GROUP(a.o \"b.o\" /* c */ d.o)";
        let named = named(script);
        let new = [(named[0].range.clone(), "/x y/a.o".into()), (named[1].range.clone(), "/b.o".into())];
        assert_eq!(with_names(script, &new), b"GROUP(\"/x y/a.o\" \"/b.o\" /* c */ d.o)");
        assert_eq!(with_names(script, &[]), script);
    }

    #[test]
    fn places_are_those_of_linkers() {
        let places = |name: &str, root: &str| {
            super::places(name.as_bytes(), Path::new("s/x.so"), &["l".into()], OsStr::new(root))
        };
        assert_eq!(places("a.o", ""), ["s/a.o", "a.o", "l/a.o"].map(PathBuf::from));
        assert_eq!(places("/a.o", ""), [PathBuf::from("/a.o")]);
        assert_eq!(places("/a.o", "/r"), ["/r/a.o", "/a.o"].map(PathBuf::from));
        assert_eq!(places("=/a.o", "/r"), [PathBuf::from("/r/a.o")]);
    }
}
