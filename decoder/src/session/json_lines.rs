//! Logs of JSON objects, one a line: the token is in a member with a given name.
//!
//! A line stays as it is, byte for byte; a member with the calls is added after its last one.

use std::fmt;
use std::ops::Range;

use memchr::memmem;
use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::filter::{Census, Failures, Words, tokens};
use super::{MAX_CALLS_IN_LOG, Outcome, Session};
use crate::printable::json;
use crate::show::render::Format;

/// The member of each object that has a token: its name, or the names of the objects around it and its own, with dots
/// between them. A member that has the whole name is preferred.
#[derive(Clone, Debug)]
pub struct Field {
    name: String,
    /// Finds the name in a line. A line without it need not be read.
    last: memmem::Finder<'static>,
}

impl Field {
    pub fn new(name: &str) -> Self {
        let last = name.rsplit('.').next().unwrap_or_default();
        Self { name: name.to_owned(), last: memmem::Finder::new(last).into_owned() }
    }

    /// The content of the member in a line. None if the line has no such member; an error if it is no JSON object.
    fn content<'t>(&self, line: &'t [u8]) -> Result<Option<Content<'t>>, serde_json::Error> {
        // A name may be written with escapes.
        if self.last.find(line).is_none() && memchr::memchr(b'\\', line).is_none() {
            return Ok(None);
        }
        let mut reader = serde_json::Deserializer::from_slice(line);
        let found = Member(&self.name).deserialize(&mut reader)?;
        reader.end()?;
        found.map(Content::of).transpose()
    }
}

/// The value of a member.
enum Content<'t> {
    Text(String),
    /// The digits of a number.
    Number(&'t str),
    Other,
}

impl<'t> Content<'t> {
    fn of(raw: &'t RawValue) -> Result<Self, serde_json::Error> {
        let text = raw.get();
        Ok(match text.as_bytes().first() {
            Some(b'"') => Self::Text(String::deserialize(raw)?),
            Some(b'0'..=b'9') => Self::Number(text),
            _ => Self::Other,
        })
    }

    /// The token or number, if there is one. Of several in a text, the first.
    fn word(&self, words: Words) -> Option<&[u8]> {
        match self {
            Self::Text(text) => tokens(text.as_bytes(), words).next().map(|at| &text.as_bytes()[at]),
            Self::Number(digits) => Some(digits.as_bytes()),
            Self::Other => None,
        }
    }
}

/// Reads the member with a name.
struct Member<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut whole, mut inside) = (None, None);
        while let Some(part) = map.next_key_seed(Name(self.0))? {
            match part {
                Part::Whole => whole = Some(map.next_value()?),
                // The member with this name need not be an object.
                Part::Object(rest) => {
                    let value: &RawValue = map.next_value()?;
                    if value.get().starts_with('{') {
                        let mut reader = serde_json::Deserializer::from_str(value.get());
                        inside = Member(rest).deserialize(&mut reader).ok().flatten().or(inside);
                    }
                }
                Part::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(whole.or(inside))
    }
}

/// Compares the name of a member with the name that is looked for.
struct Name<'n>(&'n str);

/// The relation of a member to the member that is looked for.
enum Part<'n> {
    Whole,
    /// An object that may have it, with this name inside.
    Object(&'n str),
    Other,
}

impl<'de, 'n> DeserializeSeed<'de> for Name<'n> {
    type Value = Part<'n>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'n> Visitor<'_> for Name<'n> {
    type Value = Part<'n>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(match self.0.strip_prefix(name) {
            Some("") => Part::Whole,
            Some(rest) => rest.strip_prefix('.').map_or(Part::Other, Part::Object),
            None => Part::Other,
        })
    }
}

/// Writes JSON lines with the calls of their tokens: as a list of lines ([`Format::Text`]), as a list of frames
/// ([`Format::Json`]), or as one text ([`Format::InPlace`]).
#[derive(Debug)]
pub struct JsonLines<'d> {
    session: Session<'d>,
    words: Words,
    field: Field,
    scratch: Vec<u8>,
    /// The tokens that could not be decoded so far, and the lines that are no JSON objects.
    pub failures: Failures,
}

impl<'d> JsonLines<'d> {
    /// Writes contexts as `session` does.
    pub fn new(session: Session<'d>, field: Field) -> Self {
        let words = session.words();
        let session = session.bounded(MAX_CALLS_IN_LOG);
        Self { session, words, field, scratch: Vec::new(), failures: Failures::default() }
    }

    /// Appends `text`, whole lines, to `out`. `line` is the number of the first one. `full` is called when `out` is
    /// long, and may empty it.
    pub fn text(&mut self, text: &[u8], line: u64, out: &mut Vec<u8>, mut full: impl FnMut(&mut Vec<u8>)) {
        let Self { session, words, field, scratch, failures } = self;
        for (number, (place, content)) in (line..).zip(lines(text, field)) {
            let end = out.len() + place.len();
            out.extend_from_slice(&text[place.clone()]);
            match content {
                Ok(content) => {
                    if let Some(word) = content.as_ref().and_then(|content| content.word(*words)) {
                        let outcome = add(session, &field.name, word, end, scratch, out);
                        failures.note(outcome, session, 1, || number);
                    }
                }
                Err(error) => failures.no_json(&text[place], number, &error),
            }
            if out.len() >= super::filter::FLUSH_SIZE {
                full(out);
            }
        }
    }
}

/// Adds the calls of a token to the object that ends before `end`; the rest of its line follows it.
fn add(
    session: &mut Session<'_>,
    name: &str,
    word: &[u8],
    end: usize,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Outcome {
    scratch.clear();
    session.restart();
    let outcome = session.decode(word, scratch).expect("memory can be written");
    if matches!(outcome, Outcome::Failed(_)) {
        return outcome;
    }
    let written = String::from_utf8_lossy(scratch);
    let value = match session.format() {
        Format::Json => {
            // The object is {"token":TOKEN,"frames":FRAMES}, and a line feed.
            let frames = "{\"token\":\"\",\"frames\":".len() + word.len();
            written.get(frames..).and_then(|rest| rest.strip_suffix("}\n")).unwrap_or("[]").to_owned()
        }
        Format::Text => json(&written.lines().collect::<Vec<_>>()),
        _ => json(&written),
    };
    let brace = out[..end].iter().rposition(|byte| *byte == b'}').expect("it was read as an object");
    let rest = out.split_off(brace);
    out.push(b',');
    out.extend_from_slice(json(&format!("{name}_frames")).as_bytes());
    out.push(b':');
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(&rest);
    outcome
}

/// The lines of a text, each with the content of the field.
fn lines<'t>(
    text: &'t [u8],
    field: &'t Field,
) -> impl Iterator<Item = (Range<usize>, Result<Option<Content<'t>>, serde_json::Error>)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = text.get(start..).filter(|rest| !rest.is_empty())?;
        let end = start + memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        let place = start..end;
        start = end;
        let line = &text[place.clone()];
        let content = if line.trim_ascii().is_empty() { Ok(None) } else { field.content(line) };
        Some((place, content))
    })
}

impl Census {
    /// Counts the tokens of `text` that are in a field.
    pub fn json_lines(
        &mut self,
        text: &[u8],
        line: u64,
        words: Words,
        field: &Field,
        failures: &mut Failures,
    ) {
        for (number, (place, content)) in (line..).zip(lines(text, field)) {
            match content {
                Ok(Some(content)) => {
                    if let Some(word) = content.word(words) {
                        self.count(word, || number);
                    }
                }
                Ok(None) => {}
                Err(error) => failures.no_json(&text[place], number, &error),
            }
        }
    }
}
