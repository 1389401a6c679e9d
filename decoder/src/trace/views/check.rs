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
        // A stream's last chunk is compared where the stream ends. Where recording begins again, the count does.
        let goes_on = |whole: &Replay<'_>| {
            chunk.end == ENDED
                || whole.sequence() < chunk.sequence
                || whole.counted().is_some_and(|counted| counted < chunk.events)
        };
        while goes_on(whole) && whole.next().is_some() {}
        if whole.counted() == Some(chunk.events) && !may_be_same(replay.stack(), whole.stack()) {
            verified.mismatches += 1;
            verified.first.get_or_insert((chunk.sequence, chunk.events, chunk.events));
        }
    }
    checked.chunks.add(&verified);
    Ok(())
}

/// Returns whether two stacks may be the same: they are equal as far as both are known.
fn may_be_same(one: &[Active], other: &[Active]) -> bool {
    let unknown = |stack: &[Active]| stack[0].function == UNKNOWN;
    match (unknown(one), unknown(other)) {
        (false, false) => one == other,
        (true, false) => other.ends_with(&one[1..]),
        (false, true) => one.ends_with(&other[1..]),
        (true, true) => one[1..].ends_with(&other[1..]) || other[1..].ends_with(&one[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::replay::OPEN;

    #[test]
    fn stacks_are_compared_as_far_as_both_are_known() {
        let stack = |outermost: u32, nodes: &[u32]| {
            let active = |&node: &u32| Active { function: node, node };
            [Active { function: outermost, node: 0 }].into_iter().chain(nodes.iter().map(active)).collect()
        };
        let whole: Vec<Active> = stack(OPEN, &[1, 2, 3]);
        let same = |outermost: u32, nodes: &[u32]| {
            let other: Vec<Active> = stack(outermost, nodes);
            let both = [may_be_same(&whole, &other), may_be_same(&other, &whole)];
            assert_eq!(both[0], both[1]);
            both[0]
        };
        assert!(same(OPEN, &[1, 2, 3]));
        assert!(!same(OPEN, &[2, 3]));
        assert!(same(UNKNOWN, &[2, 3]) && same(UNKNOWN, &[]));
        assert!(!same(UNKNOWN, &[1, 2]) && !same(UNKNOWN, &[0, 1, 2, 3]));
        let inner: Vec<Active> = stack(UNKNOWN, &[2, 3]);
        assert!(may_be_same(&inner, &stack(UNKNOWN, &[3])));
        assert!(may_be_same(&stack(UNKNOWN, &[3]), &inner));
        assert!(!may_be_same(&inner, &stack(UNKNOWN, &[2])));
    }
}
