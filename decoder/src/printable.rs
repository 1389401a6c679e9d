//! Text of files that are not trusted, as it goes to people.
//!
//! Names and paths may hold what controls a terminal, ends a line, or makes the text look like another one: each such
//! character is written as its number. JSON has escapes of its own.

use std::borrow::Cow;

/// Whether a character must not reach a terminal, a browser or a viewer as it is.
fn is_escaped(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // What sets the direction of writing.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Separators of lines and paragraphs.
            | '\u{2028}' | '\u{2029}'
            // What nobody sees: without width, byte order mark, tags, annotations, format characters that are
            // deprecated.
            | '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

/// The text with such characters escaped (`\n`, `\u{202e}`).
#[must_use]
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

#[cfg(test)]
mod tests {
    use super::*;

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
