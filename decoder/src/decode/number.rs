//! Numbers in the ranges of functions.

use crate::context::Piece;
use crate::token::{BuildId, Token};

use super::error::DecodeError;
use super::state::{Above, Decoding, Distance, Start};

impl Decoding<'_, '_> {
    /// Decodes a number that names function and id.
    pub(super) fn number(&mut self, number: u64) -> Result<(), DecodeError> {
        if number == 0 {
            return Err(DecodeError::NoContext);
        }
        let mut functions = self.images.encodings.in_ranges(number);
        let (function, id) = functions.next().ok_or(DecodeError::NoRange { number })?;
        if let Some((other, _)) = functions.next() {
            let (first, second) = (self.name_of(other), self.name_of(function));
            return Err(DecodeError::Ambiguous { number, first, second });
        }
        self.context.push(Piece::Function(function));
        self.walk_number(function, id, None, None)?;
        self.close();
        Ok(())
    }

    /// Adds the sub-path for which a number in a range of the program stands, inside of the frames of a token.
    pub(super) fn in_range(
        &mut self,
        token: &Token,
        number: u64,
        program: BuildId,
    ) -> Result<Above, DecodeError> {
        let images = &self.images.symbols.images;
        let image = images.iter().position(|image| image.id == program);
        let image = image.ok_or_else(|| self.other_build(&[program]))? as u32;
        let encoding = self.images.open_encoding_of(image).ok_or(DecodeError::NoRange { number })?;
        let begin = self.begin(token, 0, token.signals.first().map(|signal| signal.0));
        let start = match self.start_in(encoding, begin.start) {
            // Its number is that of the public function.
            Start::Unknown => return Err(DecodeError::NoRange { number }),
            Start::In(start) => Some(start),
            Start::ById => None,
        };
        // The program adds the id, which counts from the start's.
        let whole = number.wrapping_add(start.map_or(0, |start| encoding.id_offset(start)));
        let of_program = |function: u32| std::ptr::eq(self.images.encoding_of(function), encoding);
        let found = self.images.encodings.in_ranges(whole).find(|&(function, _)| of_program(function));
        let (function, id) = found.ok_or(DecodeError::NoRange { number })?;
        self.context.push(Piece::Function(function));
        self.walk_number(function, id, None, start)
    }

    /// Adds the sub-path that ends at the entry of a function, inside of the frames of a token.
    pub(super) fn entry(&mut self, token: &Token, function: u32, id: u64) -> Result<Above, DecodeError> {
        let begin = self.begin(token, 0, token.signals.first().map(|signal| signal.0));
        self.context.push(Piece::Function(function));
        self.walk_callers(function, id, Distance::OfActivation(0), begin)
    }
}
