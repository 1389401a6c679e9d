//! Many tokens one after another: from the text of each to the rendered trace.
//!
//! Memory is used again from token to token, so that a stream costs no allocation for each.

use std::io::{self, Write};

use thiserror::Error;

use crate::decode::{DecodeError, Decoder};
use crate::render::{Format, Renderer};
use crate::token::{BuildId, Token, TokenError};
use crate::trace::Trace;

/// Why a text was not decoded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The text is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The token or number cannot be decoded with the dictionaries given.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// More than 64 bits.
    #[error("the number is larger than 64 bits: pcce_context() gives no such number")]
    NumberTooLarge,
}

/// What became of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was decoded.
    Decoded,
    /// Decoded but for the frames of modules whose dictionary was not given: [`Session::missing`].
    Incomplete,
    /// Not decoded.
    Failed(Failure),
}

/// Decodes texts and writes the traces.
#[derive(Debug)]
pub struct Session<'d> {
    decoder: &'d Decoder,
    renderer: Renderer<'d>,
    token: Token,
    trace: Trace,
    scratch: Vec<u8>,
}

impl<'d> Session<'d> {
    /// A session that has not seen a token.
    #[must_use]
    pub fn new(decoder: &'d Decoder, format: Format) -> Self {
        Self {
            decoder,
            renderer: Renderer::new(decoder, format),
            token: Token::default(),
            trace: Trace::default(),
            scratch: Vec::new(),
        }
    }

    /// Decodes a token, or a number of `pcce_context()` in digits (decimal, or hexadecimal after `0x`),
    /// and writes the trace, or in JSON the error.
    ///
    /// # Errors
    /// Those of `out`; what is wrong with the text is in the [`Outcome`].
    pub fn decode(&mut self, text: &[u8], out: &mut impl Write) -> io::Result<Outcome> {
        match self.fill_trace(text) {
            Ok(()) => {
                self.renderer.trace(text, &self.trace, out)?;
                let complete = self.missing().next().is_none();
                Ok(if complete { Outcome::Decoded } else { Outcome::Incomplete })
            }
            Err(failure) => {
                self.renderer.failure(text, &failure, out)?;
                Ok(Outcome::Failed(failure))
            }
        }
    }

    fn fill_trace(&mut self, text: &[u8]) -> Result<(), Failure> {
        if let Some(number) = number(text) {
            let number = number.ok_or(Failure::NumberTooLarge)?;
            return Ok(self.decoder.decode_number(number, &mut self.trace)?);
        }
        self.token.parse_into(text, &mut self.scratch)?;
        Ok(self.decoder.decode(&self.token, &mut self.trace)?)
    }

    /// Build ids of the modules whose dictionary the last token needed, and was not given.
    pub fn missing(&self) -> impl Iterator<Item = BuildId> {
        self.trace.missing()
    }
}

/// The value of a text that is a number; `Some(None)` if it is larger than 64 bits.
fn number(text: &[u8]) -> Option<Option<u64>> {
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
