//! Contexts across threads: a token, and behind `+` those of the creations of its thread, of the thread that
//! created that one, and so on (docs/formats.md).

use crate::context::{Context, Piece, Run};

/// Stands behind the last token where older creations were left out.
const CUT: &[u8] = b"~";

/// The parts of a word that may hold several tokens.
pub(crate) struct Parts<'t> {
    /// The token or number itself.
    pub(crate) first: &'t [u8],
    /// The tokens of the creations, innermost first.
    pub(crate) creations: Vec<&'t [u8]>,
    /// Older creations were left out.
    pub(crate) cut: bool,
}

/// Takes a word apart; none if it is a single token.
pub(crate) fn split(text: &[u8]) -> Option<Parts<'_>> {
    memchr::memchr(b'+', text)?;
    let mut parts = text.split(|&byte| byte == b'+');
    let first = parts.next().unwrap_or_default();
    let mut creations: Vec<&[u8]> = parts.collect();
    let cut = creations.last() == Some(&CUT);
    // Nothing behind the `+`: a thread whose creation is not known, as the main thread.
    if cut || creations == [b""] {
        creations.pop();
    }
    Some(Parts { first, creations, cut })
}

impl Context {
    /// Adds the boundary between a thread and its creation.
    pub(crate) fn begin_creation(&mut self) {
        self.pieces.push(Piece::Thread);
    }

    /// Adds the context in which the thread was created.
    pub(crate) fn append(&mut self, creation: &Self) {
        let (pieces, images) = (self.pieces.len(), self.images.len() as u32);
        self.close();
        self.pieces.extend(creation.pieces.iter().map(|piece| match piece {
            Piece::UnknownModule(image) => Piece::UnknownModule(image + images),
            piece => *piece,
        }));
        self.runs.extend(creation.runs.iter().map(|run| Run { end: run.end + pieces, ..*run }));
        self.images.extend_from_slice(&creation.images);
    }

    /// Adds that older creations are missing.
    pub(crate) fn cut_creations(&mut self) {
        self.pieces.push(Piece::Truncated);
        self.close();
    }

    /// Makes one run of the pieces behind the last one.
    fn close(&mut self) {
        self.runs.push(Run { end: self.pieces.len(), count: 1 });
    }
}
