//! Many tokens one after another: from the text of each to the rendered context.
//!
//! Memory is reused from token to token, so decoding a stream makes no allocation for each token. Tokens that occur
//! again and again, as those of hot contexts do, are decoded two times only.

pub mod filter;
mod found;
pub mod json_lines;
pub mod store;

use std::io::{self, Write};

use thiserror::Error;

use crate::context::threads;
use crate::context::{Context, Frame};
use crate::decode::{DecodeError, Decoder, MAX_PIECES};
use crate::session::store::Store;
use crate::show::render::{Format, Renderer};
use crate::show::style::Style;
use crate::token::{BuildId, Token, TokenError};
use filter::Words;
use found::Found;

/// Errors of decoding a text.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The text is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The token or number cannot be decoded with the dictionaries given.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// No dictionary of the token's images was given or found.
    #[error(
        "no dictionary was found for build id {ids}, looked for in {places}; give the program, or a folder with its \
         dictionary (`pcce dict --store DIR PROGRAM`) with --dicts DIR"
    )]
    NotFound {
        /// The build ids, as far as tokens carry them.
        ids: String,
        /// The places where a dictionary was looked for.
        places: String,
    },
    /// A number without a program.
    #[error(
        "number {number} is of no program that was given: give the program, or its dictionary, in front of it; only \
         tokens tell their build, and numbers from 2^63 on with their file (--numbers FILE)"
    )]
    NumberAlone { number: u64 },
    /// The number has more than 64 bits.
    #[error("the number is larger than 64 bits: pcce_context() gives no such number")]
    NumberTooLarge,
    /// The context is longer than the session writes.
    #[error(
        "its context has {pieces} calls, and {limit} are written at most: a short token can stand for any number \
         of equal ones"
    )]
    LongContext {
        /// Calls of the context, without those inlined.
        pieces: u64,
        limit: u64,
    },
    /// The contexts of all tokens are longer than the session writes.
    #[error(
        "its context has {pieces} calls, and those of the tokens before had so many that only {left} more are \
         written; give fewer tokens"
    )]
    LongContexts {
        /// Calls of the context, without those inlined.
        pieces: u64,
        /// The number of calls that the session still writes.
        left: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Decoded,
    /// Decoded, except for the frames of modules whose dictionary was not given: [`Session::missing`].
    Incomplete,
    Failed(Failure),
}

/// The output of tokens that occurred two times, in a table of fixed size: at most 32 MiB.
///
/// A token's last characters are its checksum, so they serve as the hash. For a token that occurred once, only its
/// key is stored: in a stream without repetitions nothing is copied, and no slot loses its content.
#[derive(Debug)]
struct Memo {
    slots: Vec<Slot>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    /// Key of the last token that was looked up here and not found.
    last: u64,
    /// The token whose output is held; empty if there is none.
    text: Vec<u8>,
    output: Vec<u8>,
}

impl Memo {
    const SLOTS: usize = 1 << 12;
    const MAX_OUTPUT: usize = 1 << 13;
    const MAX_TEXT: usize = 1 << 9;

    fn new() -> Self {
        Self { slots: vec![Slot::default(); Self::SLOTS] }
    }

    /// The slot of a token, and its key there; none for texts too short to be tokens, or too long.
    #[inline]
    fn slot(&mut self, text: &[u8]) -> Option<(&mut Slot, u64)> {
        if text.len() > Self::MAX_TEXT {
            return None;
        }
        let key = u64::from_le_bytes(*text.last_chunk()?);
        // 12 bits of a multiplicative hash.
        let number = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52;
        Some((&mut self.slots[number as usize], key))
    }
}

/// Decodes texts and writes the contexts.
#[derive(Debug)]
pub struct Session<'d> {
    decoder: &'d Decoder,
    renderer: Renderer<'d>,
    token: Token,
    context: Context,
    scratch: Vec<u8>,
    memo: Memo,
    limit: u64,
    /// The number of calls of long contexts that are still written.
    left: u64,
    of_program: bool,
    /// The sessions of dictionaries that were looked for.
    found: Option<Box<Found<'d>>>,
}

/// Bound on the calls of a context that is written into a log. Logs have many tokens, and a short token can stand
/// for millions of equal calls.
pub const MAX_CALLS_IN_LOG: u64 = 100_000;
/// Bound on the calls of any context that is written. An endless recursion on a stack of 8 MB has a fifth of them.
pub const MAX_CALLS: u64 = 1 << 20;

/// Contexts with at most this number of calls are always written.
const SHORT: u64 = 256;
/// Bound on the calls of all longer contexts together that a session writes.
const MAX_OF_LONG: u64 = 1 << 25;

impl<'d> Session<'d> {
    /// A session that has not seen a token.
    pub fn new(decoder: &'d Decoder, format: Format) -> Self {
        Self {
            decoder,
            renderer: Renderer::new(decoder, format),
            token: Token::default(),
            context: Context::default(),
            scratch: Vec::new(),
            memo: Memo::new(),
            limit: u64::MAX,
            left: u64::MAX,
            of_program: false,
            found: None,
        }
    }

    /// Sets the style of frames. To be called before the first token.
    #[must_use]
    pub fn styled(self, style: &Style) -> Self {
        Self { renderer: self.renderer.styled(style.clone()), ..self }
    }

    /// Sets whether the next tokens are known to come from a process of the decoder's program
    /// ([`Decoder::decode_of_program`]).
    pub fn set_of_program(&mut self, of_program: bool) {
        self.of_program = of_program;
    }

    /// Makes tokens whose contexts have more than `calls` calls failures.
    #[must_use]
    pub fn with_limit(self, calls: u64) -> Self {
        Self { limit: calls, ..self }
    }

    /// Makes tokens whose contexts have more than `calls` calls failures, and long contexts after very many others:
    /// input that is not trusted must not cause endless output.
    #[must_use]
    pub fn bounded(self, calls: u64) -> Self {
        Self { left: MAX_OF_LONG, ..self }.with_limit(calls)
    }

    /// Lets the session look for dictionaries that the decoder lacks.
    #[must_use]
    pub fn searching(self, store: &'d Store) -> Self {
        Self { found: Some(Box::new(Found::new(store))), ..self }
    }

    /// A crash report says that the program of the next tokens has this whole build id.
    pub fn learn(&mut self, build_id: &str) {
        if let Some(found) = &mut self.found {
            found.learn(build_id);
        }
    }

    /// Decodes a token, or a number of `pcce_context()` in digits (decimal, or hexadecimal after `0x`),
    /// with [`NUMBER`] before it or not, and writes the context, or in JSON the error.
    ///
    /// # Errors
    /// Errors of `out`. Errors of the text are in the [`Outcome`].
    pub fn decode(&mut self, text: &[u8], out: &mut impl Write) -> io::Result<Outcome> {
        if let Some(found) = &mut self.found {
            found.forget_last();
        }
        // In a process of the program, code that no given dictionary has would count as not instrumented.
        if self.of_program
            && let Some(outcome) = self.decode_found(text, out)
        {
            return outcome;
        }
        let known = self.memo.slot(text).filter(|(slot, _)| slot.text == text);
        if let Some((slot, _)) = known {
            self.renderer.separator(out)?;
            out.write_all(&slot.output)?;
            return Ok(Outcome::Decoded);
        }
        let filled = self.fill_context(text);
        if !self.of_program
            && self.is_lacking(&filled)
            && let Some(outcome) = self.decode_found(text, out)
        {
            return outcome;
        }
        match self.limited(filled) {
            Ok(()) if self.missing().next().is_some() => {
                self.renderer.context(text, &self.context, out)?;
                Ok(Outcome::Incomplete)
            }
            Ok(()) => {
                self.write(text, out)?;
                Ok(Outcome::Decoded)
            }
            Err(failure) => {
                self.renderer.failure(text, &failure, out)?;
                Ok(Outcome::Failed(failure))
            }
        }
    }

    /// Decodes a token or number as [`decode`](Self::decode) does, and returns the frames of its context, innermost
    /// first.
    ///
    /// # Errors
    /// [`Failure`] if the text cannot be decoded.
    pub fn frames(&mut self, text: &[u8]) -> Result<Vec<Frame<'d>>, Failure> {
        if let Some(found) = &mut self.found {
            found.forget_last();
        }
        if self.of_program
            && let Some(frames) = self.with_found(text, |session| session.frames(text))
        {
            return frames;
        }
        let filled = self.fill_context(text);
        if !self.of_program
            && self.is_lacking(&filled)
            && let Some(frames) = self.with_found(text, |session| session.frames(text))
        {
            return frames;
        }
        self.limited(filled)?;
        Ok(self.decoder.frames(&self.context).collect())
    }

    /// Returns whether dictionaries are missing for the token that was decoded.
    fn is_lacking(&self, filled: &Result<(), Failure>) -> bool {
        filled.is_err() || self.missing().chain(self.context.absent()).next().is_some()
    }

    /// Makes a context that is too long a failure.
    fn limited(&mut self, filled: Result<(), Failure>) -> Result<(), Failure> {
        let limited = filled.and_then(|()| match self.context.pieces_shown() {
            pieces if pieces > self.limit => Err(Failure::LongContext { pieces, limit: self.limit }),
            pieces if pieces > SHORT => match self.left.checked_sub(pieces) {
                Some(left) => {
                    self.left = left;
                    Ok(())
                }
                None => Err(Failure::LongContexts { pieces, left: self.left }),
            },
            _ => Ok(()),
        });
        limited.map_err(|failure| match &self.found {
            Some(found) => found.explained(failure),
            None => failure,
        })
    }

    /// Decodes a token by dictionaries that were looked for, if some were found.
    fn decode_found(&mut self, text: &[u8], out: &mut impl Write) -> Option<io::Result<Outcome>> {
        let decoded = self.with_found(text, |session| (session.decode(text, out), session.renderer.any));
        let (outcome, any) = decoded?;
        self.renderer.any = any;
        Some(outcome)
    }

    /// Calls `work` with the session of dictionaries that were looked for, if some were found.
    fn with_found<R>(&mut self, text: &[u8], work: impl FnOnce(&mut Self) -> R) -> Option<R> {
        let mut found = self.found.take()?;
        let result = found.session(self, text).map(work);
        self.found = Some(found);
        result
    }

    /// A session of another decoder that writes as this one does.
    fn like(&self, decoder: &'d Decoder) -> Self {
        let renderer = Renderer::new(decoder, self.format()).styled(self.renderer.style().clone());
        Self { renderer, limit: self.limit, left: self.left, ..Self::new(decoder, self.format()) }
    }

    /// Makes the next context be written without the empty line between contexts.
    pub fn restart(&mut self) {
        self.renderer.restart();
    }

    /// Writes the context, and keeps the output if the token occurs for the second time.
    fn write(&mut self, text: &[u8], out: &mut impl Write) -> io::Result<()> {
        match self.memo.slot(text) {
            // Each piece has some 100 bytes, so the output of a large context could not be kept.
            Some((slot, key))
                if slot.last == key && self.context.pieces_shown() <= Memo::MAX_OUTPUT as u64 / 64 =>
            {
                slot.text.clear();
                slot.output.clear();
                self.renderer.body(text, &self.context, &mut slot.output)?;
                self.renderer.separator(out)?;
                out.write_all(&slot.output)?;
                if slot.output.len() <= Memo::MAX_OUTPUT {
                    slot.text.extend_from_slice(text);
                } else {
                    slot.output = Vec::new();
                }
                Ok(())
            }
            slot => {
                if let Some((slot, key)) = slot {
                    slot.last = key;
                }
                self.renderer.context(text, &self.context, out)
            }
        }
    }

    fn fill_context(&mut self, text: &[u8]) -> Result<(), Failure> {
        let Some(parts) = threads::split(text) else { return self.fill_thread(text) };
        self.fill_thread(parts.first)?;
        for origin in parts.origins {
            let mut whole = std::mem::take(&mut self.context);
            whole.push(origin.boundary);
            let result = self.fill_thread(origin.token);
            whole.append(&self.context);
            self.context = whole;
            result?;
            if self.context.pieces.len() > MAX_PIECES {
                return Err(DecodeError::TooLong.into());
            }
        }
        if let Some(boundary) = parts.cut {
            self.context.cut_origins(boundary);
        }
        Ok(())
    }

    /// Decodes a single token or number.
    fn fill_thread(&mut self, text: &[u8]) -> Result<(), Failure> {
        if let Some(number) = number(text) {
            let number = number.ok_or(Failure::NumberTooLarge)?;
            return Ok(self.decoder.decode_number(number, &mut self.context)?);
        }
        self.token.parse_into(text, &mut self.scratch)?;
        if self.of_program {
            return Ok(self.decoder.decode_of_program(&self.token, &mut self.context)?);
        }
        Ok(self.decoder.decode(&self.token, &mut self.context)?)
    }

    /// Returns whether interned numbers can be decoded.
    pub fn has_numbers(&self) -> bool {
        self.decoder.numbers().is_some()
    }

    /// The words that are looked for in logs.
    pub fn words(&self) -> Words {
        if self.has_numbers() { Words::TokensAndNumbers } else { Words::Tokens }
    }

    /// The format of the output.
    pub fn format(&self) -> Format {
        self.renderer.format()
    }

    /// Build ids of the modules whose dictionary the last token needed, and was not given.
    pub fn missing(&self) -> impl Iterator<Item = BuildId> {
        let found = self.found.as_ref().and_then(|found| found.last());
        found.unwrap_or(self).context.missing()
    }
}

/// The prefix that may mark a number as one of a context.
pub const NUMBER: &[u8] = b"pcce:";

/// The value of a text that is a number; `Some(None)` if it is larger than 64 bits.
pub fn number(text: &[u8]) -> Option<Option<u64>> {
    let text = text.strip_prefix(NUMBER).unwrap_or(text);
    let (digits, radix) = match text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    if digits.is_empty() || !digits.iter().all(|byte| char::from(*byte).is_digit(radix)) {
        return None;
    }
    let digits = std::str::from_utf8(digits).ok()?;
    Some(u64::from_str_radix(digits, radix).ok())
}
