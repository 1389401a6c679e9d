//! The comparisons of verify mode: whether the events that are read have happened. Reads from each stream's
//! beginning, and from the beginning of each chunk.

use std::io;

use pcce_abi::trace::{CONTINUED, ENDED};

use crate::trace::file::Stream;
use crate::trace::reader::Reader;
use crate::trace::replay::{Active, Replay, UNKNOWN, Verified};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Streams that were read from their beginning.
    pub streams: Verified,
    /// Chunks that were read from their beginning, with the active calls of their own context. Uncertain ones
    /// are those whose last events are not known.
    pub chunks: Verified,
    /// Chunks, except first ones, whose active calls are unknown: the chunk has no context, or no dictionary
    /// for it was found.
    pub without_context: u64,
    /// Chunks of which only the innermost calls are known.
    pub partly: u64,
    pub gaps: u64,
}

/// Compares the counts in chunks of verify mode with the events that are read.
pub fn check<'t>(
    reader: &'t Reader<'t>,
    streams: impl IntoIterator<Item = &'t Stream>,
) -> io::Result<Checked> {
    let mut checked = Checked::default();
    for stream in streams {
        let mut whole = reader.replay(stream);
        for number in 1..stream.chunks.len() {
            chunk(reader, stream, number, &mut whole, &mut checked)?;
        }
        while whole.next().is_some() {}
        checked.gaps += whole.finish()?;
        checked.streams.add(&whole.verified());
    }
    Ok(checked)
}

/// Reads a chunk from its beginning. `whole` reads the stream, and is not past the chunk's end.
fn chunk<'t>(
    reader: &'t Reader<'t>,
    stream: &'t Stream,
    number: usize,
    whole: &mut Replay<'t>,
    checked: &mut Checked,
) -> io::Result<()> {
    let (before, chunk) = (&stream.chunks[number - 1], &stream.chunks[number]);
    let follows = before.end == CONTINUED && before.sequence.checked_add(1) == Some(chunk.sequence);
    if !follows || before.events == 0 || chunk.events == 0 {
        return Ok(());
    }
    let mut replay = reader.replay_from(stream, number, Some((before.events, before.hash)));
    let mut begun = false;
    // At the latest where the next chunk begins, it is known that a chunk cannot be compared. There is no
    // need to read on.
    let compared = |verified: Verified| verified.chunks + verified.uncertain > 0;
    while !compared(replay.verified()) && replay.next().is_some() {
        begun |= replay.counted().is_some();
    }
    replay.finish()?;
    if !begun {
        checked.without_context += 1;
        return Ok(());
    }
    let mut verified = replay.verified();
    let uncertain = verified.chunks == 0;
    verified.uncertain = uncertain.into();
    checked.partly += u64::from(uncertain || replay.stack()[0].function == UNKNOWN);
    // Compares the activations that were outside of all calls which have ended in the chunk. If no event was
    // counted in the chunk, more than one place has its count.
    if replay.counted() == Some(chunk.events)
        && before.events != chunk.events
        && (chunk.end != ENDED || number + 1 == stream.chunks.len())
    {
        // A stream's last chunk is compared where the stream ends.
        let goes_on = |whole: &Replay<'_>| {
            chunk.end == ENDED || whole.counted().is_some_and(|counted| counted < chunk.events)
        };
        while goes_on(whole) && whole.next().is_some() {}
        if whole.counted() == Some(chunk.events) && !is_end_of(replay.stack(), whole.stack()) {
            verified.mismatches += 1;
            verified.first.get_or_insert((chunk.sequence, chunk.events, chunk.events));
        }
    }
    checked.chunks.add(&verified);
    Ok(())
}

/// Returns whether the known part of a stack is the end of another stack.
fn is_end_of(known: &[Active], whole: &[Active]) -> bool {
    match known {
        [Active { function: UNKNOWN, .. }, known @ ..] => whole.ends_with(known),
        _ => known == whole,
    }
}
