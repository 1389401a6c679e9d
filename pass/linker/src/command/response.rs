//! Response files: `@FILE` is replaced by the words in the file.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The nesting depth of response files.
const DEPTH: usize = 100;

/// Expands response files. If a file cannot be read, its word stays, as in linkers.
///
/// # Errors
/// A file that includes itself, or is nested too deep; the error is its name.
pub fn open(arguments: impl IntoIterator<Item = OsString>) -> Result<Vec<OsString>, OsString> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let windows = |word: &OsString| word == "--rsp-quoting=windows" || word == "-rsp-quoting=windows";
    let split = if arguments.iter().any(windows) { split_windows } else { split_gnu };
    let mut words = Vec::new();
    for argument in arguments {
        expand(argument, split, 0, &mut words)?;
    }
    Ok(words)
}

fn expand(
    word: OsString,
    split: fn(&[u8]) -> Vec<OsString>,
    depth: usize,
    words: &mut Vec<OsString>,
) -> Result<(), OsString> {
    let content = word.as_bytes().strip_prefix(b"@").and_then(|name| fs::read(OsStr::from_bytes(name)).ok());
    let Some(content) = content else {
        words.push(word);
        return Ok(());
    };
    if depth == DEPTH {
        return Err(word);
    }
    split(&content).into_iter().try_for_each(|word| expand(word, split, depth + 1, words))
}

/// Splits words as binutils' `buildargv` and LLVM's `TokenizeGNUCommandLine` do: blanks separate words,
/// quotes of both kinds join, and a backslash quotes the next character, within quotes as well. (LLVM leaves
/// out empty words, which are kept here.)
pub fn split_gnu(content: &[u8]) -> Vec<OsString> {
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = content.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if bytes.peek().is_some() => word.get_or_insert_default().extend(bytes.next()),
            _ if quote == Some(byte) => quote = None,
            b'"' | b'\'' if quote.is_none() => {
                word.get_or_insert_default();
                quote = Some(byte);
            }
            b' ' | b'\t' | b'\r' | b'\n' if quote.is_none() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words.into_iter().map(OsString::from_vec).collect()
}

/// Splits words as lld does with `--rsp-quoting=windows`: a backslash is itself, except before a quote.
fn split_windows(content: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quoted = false;
    let mut at = 0;
    while at < content.len() {
        let slashes = content[at..].iter().take_while(|byte| **byte == b'\\').count();
        at += slashes;
        let is_quote = content.get(at) == Some(&b'"');
        if slashes > 0 {
            let kept = if is_quote { slashes / 2 } else { slashes };
            word.get_or_insert_default().extend(std::iter::repeat_n(b'\\', kept));
            if is_quote && slashes % 2 == 1 {
                word.get_or_insert_default().push(b'"');
                at += 1;
            }
            continue;
        }
        match content[at] {
            b'"' => {
                word.get_or_insert_default();
                quoted = !quoted;
            }
            byte if !quoted && byte.is_ascii_whitespace() => words.extend(word.take()),
            byte => word.get_or_insert_default().push(byte),
        }
        at += 1;
    }
    words.extend(word);
    words.into_iter().map(OsString::from_vec).collect()
}

/// Writes a response file, with words quoted so that every linker reads them unchanged.
pub fn write(file: &Path, words: &[OsString]) -> std::io::Result<()> {
    let mut text = Vec::new();
    for word in words {
        if word.is_empty() {
            text.extend(b"\"\"");
        }
        for byte in word.as_bytes() {
            if byte.is_ascii_whitespace() || matches!(byte, b'\\' | b'"' | b'\'') {
                text.push(b'\\');
            }
            text.push(*byte);
        }
        text.push(b'\n');
    }
    fs::write(file, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_within_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path().join("outer"), folder.path().join("in ner"));
        fs::write(&inner, "-o 'a b' \"c\\\"d\" ''").unwrap();
        fs::write(&outer, format!("x.o\t'@{}'\n@nowhere", inner.display())).unwrap();
        let words = open([format!("@{}", outer.display()).into(), "y.o".into()]).unwrap();
        assert_eq!(words, ["x.o", "-o", "a b", "c\"d", "", "@nowhere", "y.o"]);
        fs::write(&inner, format!("@{}", outer.display())).unwrap();
        assert!(open([format!("@{}", outer.display()).into()]).is_err());
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("words");
        let words: Vec<OsString> =
            ["a b", "c,d", "e\"'\\f", "", "-L/x y", "new\nline", "ü"].map(Into::into).into();
        write(&file, &words).unwrap();
        assert_eq!(split_gnu(&fs::read(&file).unwrap()), words);
    }

    #[test]
    fn backslashes_are_themselves_with_windows_quoting() {
        assert_eq!(split_windows(br#"a\b "c d" \"e\\" f""#), ["a\\b", "c d", "\"e\\ f"]);
    }
}
