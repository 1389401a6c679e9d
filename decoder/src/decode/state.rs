//! What is known while a token is decoded.

use crate::code::table::CodeTable;
use crate::context::Context;
use crate::images::Images;
use crate::token::BuildId;

use super::error::DecodeError;

/// A token's decoding. The methods are where the ideas are: in `join`, `sub_path`, `stack` and `point`.
pub(super) struct Decoding<'d, 'c> {
    pub(super) images: &'d Images,
    /// The context as far as it is known.
    pub(super) context: &'c mut Context,
    /// Calls of images with another runtime are missing in the token ([`Token::other_runtime`](crate::Token)).
    pub(super) other_runtime: bool,
}

impl<'d> Decoding<'d, '_> {
    /// The machine code of an image; None if it is not at hand.
    pub(super) fn code(&self, image: u32) -> Result<Option<&'d CodeTable>, DecodeError> {
        self.images.code(image).map_err(|cause| DecodeError::Code {
            program: self.images.symbols.images[image as usize].program.clone(),
            cause: cause.to_owned(),
        })
    }

    pub(super) fn name_of(&self, function: u32) -> String {
        self.images.symbols.function_name(function).to_owned()
    }
}

/// What the innermost sub-path of a context ends with.
#[derive(Clone, Copy)]
pub(crate) enum Inner {
    /// What the token says.
    Capture,
    /// A number in the range of a function of this program.
    Range(u64, BuildId),
    /// The entry of a function, with this id.
    Entry(u32, u64),
}

/// What lies inside (above) the pushed frame that is looked at.
#[derive(Clone, Copy)]
pub(super) enum Above {
    /// A sub-path that starts in this function.
    Root(u32),
    /// Nothing: the token was taken by code that is not instrumented.
    NoCapture,
    /// A sub-path in this image of the token, which has no dictionary.
    UnknownModule(u32),
    /// This function, which pushed this id at its entry; who called it is not known yet.
    Entered(u32, u64),
    /// A point that was interrupted, and it is not known how control had come there.
    Interrupted,
    /// Code that is not instrumented, which is shown already; whether it has no callers.
    Plain(bool),
}

/// What is known of the start of a sub-path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// It is where the ids say: whoever entered it there was no direct call, or the thread began there.
    ById,
    /// It is in this function, which a direct call with a push entered.
    In(u32),
    /// Nothing: the frame that would tell is missing in the token.
    Unknown,
}

/// The beginning of a sub-path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Begin {
    /// What is known of its start.
    pub(super) start: Start,
    /// Where its first activation begins, less the place from which the token's distances count, in bytes; None if that
    /// is not known.
    pub(super) base: Option<i64>,
}

impl Begin {
    /// A sub-path of which the ids tell all.
    pub(super) const BY_ID: Self = Self { start: Start::ById, base: None };
}

/// How far an activation is below the place from which distances count.
#[derive(Clone, Copy)]
pub(super) enum Distance {
    /// Its canonical frame address, in words; 0: it is not known.
    OfActivation(u64),
    /// The frame that it has pushed, likewise.
    OfFrame(u64),
}
