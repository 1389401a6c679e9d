//! Text with context tokens anywhere in it: finds them, and writes the text with their contexts.
//!
//! The text is bytes, which need not be UTF-8. Everything except tokens that can be decoded is copied as it is.
//! Numbers of contexts are looked for if the decoder has a file of numbers.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::ops::Range;
use std::thread;

use memchr::{memchr, memmem};
use pcce_abi::token::SUBMITTED;

use crate::session::{self, Failure, MAX_CALLS_IN_LOG, NUMBER, Outcome, Session};
use crate::show::render::Format;
use crate::token::BuildId;

/// Bound on the modules without dictionary that are named.
const MAX_NAMED: usize = 64;

/// The number of bytes of output from which on it is handed over.
pub(super) const FLUSH_SIZE: usize = 1 << 22;

/// The beginning of tokens, before their version.
const PREFIX: &[u8] = pcce_abi::token::PREFIX.as_bytes();

/// The kinds of words that are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    Tokens,
    /// Tokens, and numbers of `pcce_context()`: after [`NUMBER`], or from 2⁶³ on.
    TokensAndNumbers,
}

/// The places of the words in `text` that look like tokens: one token, or several joined by `+`, as a context
/// across threads is written. A `+` that no word follows belongs to the token if the word ends there. The first
/// part may be a number instead of a token, if numbers are looked for.
pub fn tokens(text: &[u8], words: Words) -> impl Iterator<Item = Range<usize>> {
    let finder = memmem::Finder::new(PREFIX);
    let mut from = 0;
    // The next token, or a range past the end of the text.
    let mut token = 0..0;
    std::iter::from_fn(move || {
        if token.start < from || token.end == 0 {
            token = next_token(text, from, &finder, words).unwrap_or(text.len()..text.len() + 1);
        }
        let number = match words {
            Words::Tokens => None,
            Words::TokensAndNumbers => next_number(text, from, token.start),
        };
        let found = number.unwrap_or(token.clone());
        if found.end > text.len() {
            return None;
        }
        from = origins(text, found.end);
        Some(found.start..from)
    })
}

/// The next word that looks like a token.
fn next_token(
    text: &[u8],
    mut from: usize,
    finder: &memmem::Finder<'_>,
    words: Words,
) -> Option<Range<usize>> {
    loop {
        let start = from + finder.find(&text[from..])?;
        let marked = if words == Words::Tokens { None } else { marked_number(text, start) };
        if let Some(end) = single(text, start).or(marked) {
            return Some(start..end);
        }
        from = start + PREFIX.len();
    }
}

/// The end of the number after [`NUMBER`] at `start`, if there is one.
fn marked_number(text: &[u8], start: usize) -> Option<usize> {
    let rest = text.get(start..)?.strip_prefix(NUMBER)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    session::number(&rest[..digits]).map(|_| start + NUMBER.len() + digits)
}

/// The next word from `from` on, before `end`, that is an interned number.
fn next_number(text: &[u8], from: usize, end: usize) -> Option<Range<usize>> {
    /// Interned numbers have at least this number of digits.
    const MIN_DIGITS: usize = 18;
    let in_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut start = from;
    while start < end {
        let length = text[start..end].iter().take_while(|byte| in_word(**byte)).count();
        let word = &text[start..start + length];
        // The word must not be a part of a name, of a fraction, or of an exponent.
        let before = start.checked_sub(1).is_some_and(|at| matches!(text[at], b'.' | b'-' | b'+'));
        let after = text.get(start + length) == Some(&b'.')
            && text.get(start + length + 1).is_some_and(u8::is_ascii_digit);
        if length >= MIN_DIGITS
            && !before
            && !after
            && word[0].is_ascii_digit()
            && session::number(word).flatten().is_some_and(|number| number >= pcce_abi::INTERNED)
        {
            return Some(start..start + length);
        }
        start += length.max(1);
    }
    None
}

/// The end of the origins of a thread after a token that ends at `end`.
fn origins(text: &[u8], mut end: usize) -> usize {
    while text.get(end) == Some(&b'+') {
        let start = end + 1 + usize::from(text.get(end + 1) == Some(&SUBMITTED));
        match single(text, start) {
            Some(next) => end = next,
            None => {
                let cut = text.get(start) == Some(&b'~');
                let after = if cut { start + 1 } else { end + 1 };
                if !text.get(after).is_some_and(|byte| byte.is_ascii_graphic()) {
                    end = after;
                }
                break;
            }
        }
    }
    end
}

/// Returns whether a token can go on with this byte.
pub fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+' | b'~' | b':' | SUBMITTED)
}

/// The end of the single token that starts at `start`, if one does.
fn single(text: &[u8], start: usize) -> Option<usize> {
    let rest = text.get(start..)?.strip_prefix(PREFIX)?;
    let version = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let body = rest[version..].strip_prefix(b".")?;
    let in_body = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let length = body.iter().take_while(in_body).count();
    (version > 0 && length > 0).then_some(start + PREFIX.len() + version + 1 + length)
}

/// The numbers of lines. They must be asked for in the order of the text.
struct Lines<'t> {
    text: &'t [u8],
    at: usize,
    /// The number of the line with `at` in it.
    line: u64,
}

impl Lines<'_> {
    fn of(&mut self, at: usize) -> u64 {
        self.line += memchr::memchr_iter(b'\n', &self.text[self.at..at]).count() as u64;
        self.at = at;
        self.line
    }
}

/// Tokens of a text that were not decoded as a whole.
#[derive(Debug, Default)]
pub struct Failures {
    /// Tokens of other builds, or damaged ones; they were left as they are.
    pub left: Counted<Failure>,
    /// Modules whose dictionary was not given: their calls are left out of contexts.
    pub missing: HashMap<BuildId, Counted<()>>,
    /// Lines with tokens that are no JSON objects, where these are expected.
    pub not_json: Counted<String>,
}

/// A count of things, and the first of them.
#[derive(Debug)]
pub struct Counted<T> {
    pub count: u64,
    /// The line of the first one, from 1, and its value.
    pub first: Option<(u64, T)>,
}

impl<T> Default for Counted<T> {
    fn default() -> Self {
        Self { count: 0, first: None }
    }
}

impl<T> Counted<T> {
    /// Adds `count` of them, the first of which is in `line`.
    pub fn add(&mut self, count: u64, line: u64, what: impl FnOnce() -> T) {
        self.count += count;
        if self.first.as_ref().is_none_or(|(first, _)| line < *first) {
            self.first = Some((line, what()));
        }
    }

    /// Adds the counts of another part of the text.
    pub fn merge(&mut self, other: Self) {
        if let Some((line, what)) = other.first {
            self.add(other.count, line, || what);
        }
    }
}

impl Failures {
    /// Adds the counts of another part of the text.
    pub fn merge(&mut self, other: Self) {
        self.left.merge(other.left);
        self.not_json.merge(other.not_json);
        for (id, counted) in other.missing {
            self.missing.entry(id).or_default().merge(counted);
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.left.count == 0 && self.not_json.count == 0 && self.missing.is_empty()
    }

    /// Adds a line that is no JSON object, if it has a token.
    pub(super) fn no_json(&mut self, text: &[u8], line: u64, error: &serde_json::Error) {
        if tokens(text, Words::Tokens).next().is_some() {
            self.not_json.add(1, line, || error.to_string());
        }
    }

    pub(super) fn note(
        &mut self,
        outcome: Outcome,
        session: &Session<'_>,
        count: u64,
        mut line: impl FnMut() -> u64,
    ) {
        match outcome {
            Outcome::Decoded => {}
            Outcome::Incomplete => {
                for id in session.missing() {
                    if self.missing.len() >= MAX_NAMED && !self.missing.contains_key(&id) {
                        continue;
                    }
                    self.missing.entry(id).or_default().add(count, line(), || ());
                }
            }
            Outcome::Failed(failure) => self.left.add(count, line(), || failure),
        }
    }
}

/// Writes texts with the contexts of their tokens: with [`Format::Below`], below the line of the token; with
/// [`Format::InPlace`], instead of the token.
#[derive(Debug)]
pub struct Filter<'d> {
    session: Session<'d>,
    words: Words,
    below: bool,
    /// The tokens that could not be decoded so far.
    pub failures: Failures,
}

impl<'d> Filter<'d> {
    /// A filter that writes contexts as `session` does.
    pub fn new(session: Session<'d>) -> Self {
        let below = session.format() == Format::Below;
        let words = session.words();
        let session = session.bounded(MAX_CALLS_IN_LOG);
        Self { session, words, below, failures: Failures::default() }
    }

    /// Appends `text`, whole lines, to `out`. `line` is the number of the first one. `full` is called when `out` is
    /// long, and may empty it.
    pub fn text(&mut self, text: &[u8], line: u64, out: &mut Vec<u8>, mut full: impl FnMut(&mut Vec<u8>)) {
        // The end of the text that was copied: with contexts below, always the end of a line.
        let mut copied = 0;
        let mut lines = Lines { text, at: 0, line };
        for token in tokens(text, self.words) {
            let mut unended = false;
            if !self.below {
                out.extend_from_slice(&text[copied..token.start]);
                copied = token.start;
            } else if copied <= token.start {
                let end = memchr(b'\n', &text[token.end..]).map_or(text.len(), |at| token.end + at + 1);
                out.extend_from_slice(&text[copied..end]);
                copied = end;
            }
            if self.below && out.last().is_some_and(|byte| *byte != b'\n') {
                out.push(b'\n');
                unended = true;
            }
            let before = out.len();
            let outcome = self.session.decode(&text[token.clone()], out).unwrap_or_else(|e| never(&e));
            if unended && out.len() == before {
                out.pop();
            }
            if !self.below && !matches!(outcome, Outcome::Failed(_)) {
                copied = token.end;
            }
            self.failures.note(outcome, &self.session, 1, || lines.of(token.start));
            if out.len() >= FLUSH_SIZE && (!self.below || out.last() == Some(&b'\n')) {
                full(out);
            }
        }
        out.extend_from_slice(&text[copied..]);
    }
}

/// A token, the number of its occurrences, and the number of the first line with it.
type CountedToken = (Box<[u8]>, (u64, u64));

/// The tokens of a text, counted.
#[derive(Debug, Default)]
pub struct Census {
    /// As [`CountedToken`] has them.
    tokens: HashMap<Box<[u8]>, (u64, u64)>,
}

impl Census {
    /// Counts the words of `text`, whole lines of which the first one has number `line`.
    pub fn text(&mut self, text: &[u8], line: u64, words: Words) {
        let mut lines = Lines { text, at: 0, line };
        for token in tokens(text, words) {
            self.count(&text[token.clone()], || lines.of(token.start));
        }
    }

    /// Counts a word; `line` is asked for the first one only.
    pub(super) fn count(&mut self, word: &[u8], line: impl FnOnce() -> u64) {
        if let Some((count, _)) = self.tokens.get_mut(word) {
            *count += 1;
        } else {
            self.tokens.insert(word.into(), (1, line()));
        }
    }

    /// Adds the counts of another part of the text.
    pub fn merge(&mut self, other: Self) {
        for (token, (count, line)) in other.tokens {
            let entry = self.tokens.entry(token).or_insert((0, line));
            *entry = (entry.0 + count, entry.1.min(line));
        }
    }

    /// Writes each context once, the most frequent one first and `top` of them at most, in [`Format::Below`],
    /// [`Format::InPlace`] or [`Format::Json`]. Tokens with equal frames are one context. `jobs` threads decode, each
    /// with a session of its own.
    pub fn write<'d>(
        self,
        session: impl Fn() -> Session<'d> + Sync,
        jobs: usize,
        top: Option<usize>,
        out: &mut impl Write,
    ) -> io::Result<Failures> {
        let session = || session().bounded(MAX_CALLS_IN_LOG);
        let mut tokens: Vec<_> = self.tokens.into_iter().collect();
        tokens.sort_unstable_by_key(|&(_, (_, line))| line);
        let (keys, session) = ([RandomState::new(), RandomState::new()], &session);
        let parts = tokens.chunks(tokens.len().div_ceil(jobs.max(1)).max(1));
        let parts: Vec<_> = thread::scope(|scope| {
            let keys = &keys;
            let threads: Vec<_> =
                parts.map(|part| scope.spawn(move || contexts(part, session(), keys))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread that decodes ends")).collect()
        });
        let mut failures = Failures::default();
        // In the order of the text: the first token of each context stands for it.
        let mut contexts = HashMap::new();
        for (part, failed) in parts {
            failures.merge(failed);
            for (key, (token, count)) in part {
                contexts.entry(key).or_insert((token, 0)).1 += count;
            }
        }
        let mut contexts: Vec<_> = contexts.into_values().collect();
        contexts.sort_unstable_by_key(|((_, (_, line)), count)| (Reverse(*count), *line));
        let mut session = session();
        let format = session.format();
        let (shown, others) = contexts.split_at(top.unwrap_or(usize::MAX).min(contexts.len()));
        let mut text = Vec::new();
        for (number, ((token, (_, line)), count)) in shown.iter().enumerate() {
            text.clear();
            let outcome = session.decode(token, &mut text)?;
            // All contexts together may be too long.
            if matches!(outcome, Outcome::Failed(_)) {
                failures.note(outcome, &session, *count, || *line);
                continue;
            }
            let frames = frames_of(&session, token, &text);
            match format {
                Format::Json => write!(out, "{{\"count\":{count},")?,
                Format::Text | Format::Below => {
                    let between = if number == 0 { "" } else { "\n" };
                    writeln!(out, "{between}{}", times(*count))?;
                }
                Format::Folded | Format::InPlace => {}
            }
            out.write_all(frames)?;
            if format == Format::InPlace {
                writeln!(out, " {count}")?;
            }
        }
        if matches!(format, Format::Text | Format::Below) && !others.is_empty() {
            let (number, sum) = (others.len(), others.iter().map(|(_, count)| count).sum());
            writeln!(
                out,
                "\n{}: {number} further context{}",
                times(sum),
                if number == 1 { "" } else { "s" }
            )?;
        }
        Ok(failures)
    }
}

/// The contexts of some tokens, by hashes of their texts: the first token of each, and the number of occurrences of the
/// context.
fn contexts<'t>(
    tokens: &'t [CountedToken],
    mut session: Session<'_>,
    keys: &[RandomState; 2],
) -> (HashMap<[u64; 2], (&'t CountedToken, u64)>, Failures) {
    let (mut contexts, mut failures, mut text) = (HashMap::new(), Failures::default(), Vec::new());
    for token in tokens {
        let (word, (count, line)) = token;
        text.clear();
        let outcome = session.decode(word, &mut text).unwrap_or_else(|e| never(&e));
        if !matches!(outcome, Outcome::Failed(_)) {
            let frames = frames_of(&session, word, &text);
            let key = keys.each_ref().map(|key| key.hash_one(frames));
            contexts.entry(key).or_insert((token, 0)).1 += count;
        }
        failures.note(outcome, &session, *count, || *line);
    }
    (contexts, failures)
}

/// The text of a context without its token: equal contexts may have several tokens. The object is
/// {"token":TOKEN,"frames":…}.
fn frames_of<'t>(session: &Session<'_>, token: &[u8], text: &'t [u8]) -> &'t [u8] {
    match session.format() {
        Format::Json => &text["{\"token\":\"\",".len() + token.len()..],
        _ => text,
    }
}

/// A number of occurrences, in words.
fn times(count: u64) -> String {
    format!("{count} {}", if count == 1 { "time" } else { "times" })
}

fn never(error: &io::Error) -> ! {
    unreachable!("memory can be written: {error}")
}
