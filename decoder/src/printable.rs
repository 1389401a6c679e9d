//! Text from files that are not trusted, made safe for output.
//!
//! Names and paths may hold characters that control a terminal, end a line, or make the text look like another
//! one: each such character is written as its number. In JSON it is written by JSON's own escapes, so the text
//! stays the same.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;

/// Returns whether a character must not reach a terminal, a browser or a viewer as it is.
fn is_escaped(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Characters that set the direction of writing.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Separators of lines and paragraphs.
            | '\u{2028}' | '\u{2029}'
            // Invisible characters: those without width, byte order mark, tags, annotations, deprecated format
            // characters.
            | '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// The text with the unsafe characters escaped (`\n`, `\u{202e}`).
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_escaped(c) { line.extend(c.escape_default()) } else { line.push(c) }
    }
    Cow::Owned(line)
}

/// A value as JSON in one line.
///
/// # Panics
/// For a map whose keys are not texts.
pub fn json(value: &impl Serialize) -> String {
    json_text(serde_json::to_string(value).expect("texts, numbers, lists and maps always serialise"))
}

/// A document of JSON with the unsafe characters escaped. Control characters below U+0020 are escaped already, and
/// all others can only be in texts.
pub fn json_text(document: String) -> String {
    if document.is_ascii() && !document.contains('\u{7f}') || !document.contains(is_raw) {
        return document;
    }
    let mut escaped = String::with_capacity(document.len() + 64);
    for c in document.chars() {
        if !is_raw(c) {
            escaped.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

/// Returns whether a character must be escaped, and JSON allows it unescaped. (Between values there may be line ends.)
fn is_raw(c: char) -> bool {
    c >= '\u{7f}' && is_escaped(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_the_text() {
        for text in
            ["a\u{9b}31m", "\u{202e}x", "\u{7f}", "\u{e0041}\u{feff}", "\0\n\"\\ \u{4e16}\u{1f600}", ""]
        {
            let written = json(&text);
            assert!(written.chars().all(|c| !is_escaped(c)), "{written}");
            assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
        assert_eq!(json(&"\u{202e}\u{e0041}\u{4e16}"), "\"\\u202e\\udb40\\udc41\u{4e16}\"");
    }

    #[test]
    fn what_is_not_seen_is_escaped() {
        for c in "\0\u{1b}\u{7f}\u{85}\u{9b}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{feff}\u{e0041}"
            .chars()
        {
            assert_eq!(printable(&format!("a{c}b")), format!("a{}b", c.escape_default()));
        }
        for c in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
            assert_eq!(printable(&c.to_string()), c.escape_default().to_string());
        }
        let text = "operator\"\" _\u{e4}<\u{4e16}>(char const*)";
        assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
    }
}
