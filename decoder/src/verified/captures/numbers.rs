//! A table of all numbers of a file, each with its context: no number may have two, and no context two numbers.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Capture;
use crate::Decoder;
use crate::context::{Context, Piece};

/// The numbers of a file, and their contexts.
#[derive(Default)]
pub(super) struct Numbers {
    /// For each number of a process (0: of all), a hash of its context, and for each context its number.
    contexts: HashMap<(u64, u32), u64>,
    numbers: HashMap<(u64, u32), u64>,
    pub(super) ambiguous: u64,
}

impl Numbers {
    /// Adds a number that a process took, with a hash of its context, if all of its calls are known. The error names
    /// the other number of the context, or says that the number has another context.
    pub(super) fn add(&mut self, number: u64, process: u32, context: Option<u64>) -> Result<(), String> {
        let Some(context) = context else { return Ok(()) };
        // Each process gives numbers of its own.
        let process = if number < pcce_abi::INTERNED { 0 } else { process };
        let other = *self.contexts.entry((number, process)).or_insert(context);
        let other_number = *self.numbers.entry((context, process)).or_insert(number);
        if (other, other_number) == (context, number) {
            return Ok(());
        }
        self.ambiguous += 1;
        Err(match other_number == number {
            true => "it names another context, too".to_owned(),
            false => format!("the same context has number {other_number}, too"),
        })
    }
}

/// A hash of a number's context: its frames, and the sites that only their numbers distinguish. None for a context that
/// the shadow stack does not know, since a handler has interrupted the thread.
pub(super) fn hash(decoder: &Decoder, context: &Context, capture: &Capture<'_>) -> Option<u64> {
    if capture.open || capture.records.iter().any(|record| record.signal) {
        return None;
    }
    let symbols = &decoder.images.symbols;
    let mut hasher = DefaultHasher::new();
    for frame in decoder.frames(context) {
        (frame.kind, frame.function, frame.file, frame.line, frame.column, frame.inlined).hash(&mut hasher);
    }
    for (pieces, count) in context.slices() {
        for piece in pieces {
            if let &(Piece::Site(site) | Piece::AnyLine(site)) = piece
                && symbols.is_by_itself(&symbols.sites[site as usize])
            {
                (site, count).hash(&mut hasher);
            }
        }
    }
    Some(hasher.finish())
}
