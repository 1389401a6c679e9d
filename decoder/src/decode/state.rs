//! The state of decoding a token.

use crate::code::table::CodeTable;
use crate::context::Context;
use crate::images::Images;
use crate::token::BuildId;

use super::error::DecodeError;

/// The decoding of a token. Its methods are in the modules `join`, `sub_path` and `point`.
pub(super) struct Decoding<'d, 'c> {
    pub(super) images: &'d Images,
    /// The context as far as it is known.
    pub(super) context: &'c mut Context,
    /// True if calls of images with another runtime are missing in the token
    /// ([`Token::other_runtime`](crate::Token)).
    pub(super) other_runtime: bool,
    /// True if a number is decoded, which stands for all captures of a place.
    pub(super) of_number: bool,
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

/// The end of the innermost sub-path of a context.
#[derive(Clone, Copy)]
pub(crate) enum Inner {
    Capture,
    /// A number in the range of a function of this program.
    Range(u64, BuildId),
    /// The entry of a function, with this id.
    Entry(u32, u64),
}

/// The code inside (above) the pushed frame that is being decoded.
#[derive(Clone, Copy)]
pub(super) enum Above {
    /// A sub-path that starts in this function.
    Root(u32),
    /// Nothing: the token was taken by code that is not instrumented.
    NoCapture,
    /// A sub-path in this image of the token, which has no dictionary.
    UnknownModule(u32),
    /// This function, which pushed this id at its entry. Its caller is not known yet.
    Entered(u32, u64),
    /// A point that was interrupted, and it is not known how control had come there.
    Interrupted,
    /// Code that is not instrumented, which is shown already. True if it has no callers.
    Plain(bool),
}

/// The start of a sub-path, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// The ids show it: no direct call entered the sub-path there, or the thread began there.
    ById,
    /// In this function, which a direct call with a push entered.
    In(u32),
    /// Unknown: the frame that would show it is missing in the token.
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) start: Start,
    /// The place where its first activation begins, less the place from which the token's distances count, in
    /// bytes; None if that is not known.
    pub(super) base: Option<i64>,
}

impl Begin {
    /// A sub-path that the ids describe alone.
    pub(super) const BY_ID: Self = Self { start: Start::ById, base: None };
}

/// The distance of an activation below the place from which distances count.
#[derive(Clone, Copy)]
pub(super) enum Distance {
    /// The canonical frame address of the activation, in words; 0: it is not known.
    OfActivation(u64),
    /// The frame that the activation has pushed, in words; 0: it is not known.
    OfFrame(u64),
}
