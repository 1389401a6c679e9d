//! Contexts across threads: a token, and after `+` the tokens of its thread's origin: of the thread's creation, or of
//! the submission of the task that it runs, then of the origin of that thread, and so on (docs/formats.md).

use pcce_abi::token::SUBMITTED;

use crate::context::{Context, Piece, Run};

/// Replaces a token where that and older ones were left out.
const CUT: &[u8] = b"~";

/// A context that goes on in another thread.
pub(crate) struct Origin<'t> {
    /// The boundary between the two: [`Piece::Thread`] or [`Piece::Task`].
    pub(crate) boundary: Piece,
    pub(crate) token: &'t [u8],
}

/// The parts of a word that may hold several tokens.
pub(crate) struct Parts<'t> {
    /// The token or number itself.
    pub(crate) first: &'t [u8],
    /// The origins, innermost first.
    pub(crate) origins: Vec<Origin<'t>>,
    /// The boundary after which older origins were left out.
    pub(crate) cut: Option<Piece>,
}

/// Splits a word into its parts. None if it is a single token.
pub(crate) fn split(text: &[u8]) -> Option<Parts<'_>> {
    memchr::memchr(b'+', text)?;
    let mut parts = text.split(|&byte| byte == b'+');
    let first = parts.next().unwrap_or_default();
    let mut origins: Vec<Origin<'_>> = parts.map(origin).collect();
    let cut = origins.pop_if(|last| last.token == CUT).map(|last| last.boundary);
    // Nothing follows the `+`: the origin of the thread is not known, as that of the main thread.
    if cut.is_none() && text.iter().filter(|&&byte| byte == b'+').count() == 1 {
        origins.pop_if(|last| last.token.is_empty() && matches!(last.boundary, Piece::Thread));
    }
    Some(Parts { first, origins, cut })
}

/// The origin in a part after `+`.
fn origin(part: &[u8]) -> Origin<'_> {
    match part.split_first() {
        Some((&SUBMITTED, token)) => Origin { boundary: Piece::Task, token },
        _ => Origin { boundary: Piece::Thread, token: part },
    }
}

impl Context {
    /// Adds the context that goes on after a boundary between threads.
    pub(crate) fn append(&mut self, origin: &Self) {
        let (pieces, images) = (self.pieces.len(), self.images.len() as u32);
        let absent = self.absent.len() as u32;
        self.close();
        self.pieces.extend(origin.pieces.iter().map(|piece| match piece {
            Piece::UnknownModule(image) => Piece::UnknownModule(image + images),
            Piece::Absent(number) => Piece::Absent(number + absent),
            piece => *piece,
        }));
        self.runs.extend(origin.runs.iter().map(|run| Run { end: run.end + pieces, ..*run }));
        self.images.extend_from_slice(&origin.images);
        self.absent.extend_from_slice(&origin.absent);
    }

    /// Adds a boundary between threads, after which older origins are missing.
    pub(crate) fn cut_origins(&mut self, boundary: Piece) {
        self.pieces.extend([boundary, Piece::Truncated]);
        self.close();
    }

    /// Makes one run of the pieces after the last run.
    fn close(&mut self) {
        self.runs.push(Run { end: self.pieces.len(), count: 1 });
    }
}
