//! The comparison of two streams from where they part on: their differences, and where they meet again.

use std::collections::VecDeque;

use imara_diff::{Algorithm, Diff, InternedInput, Interner};

use crate::trace::event::{Event, EventKind};

/// Events of each stream that are compared at a time.
const WINDOW: usize = 1 << 15;
/// The streams have met again if this number of events in a row are the same.
const MIN_SAME: usize = 16;
/// Bound on the events of a difference that are kept.
const MAX_KEPT: usize = 64;

/// An event with its number in the stream.
pub type Numbered = (u64, Event);

/// A difference: events that only one of the streams has, and the events that the other has instead.
#[derive(Clone, Debug, Default)]
pub struct Hunk {
    /// The first of these events in each stream.
    pub events: [Vec<Numbered>; 2],
    /// The number of all these events in each stream.
    pub counts: [u64; 2],
    /// The number of events after them that are the same, up to the next difference.
    pub same: u64,
}

/// The reason why no further differences were looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// The streams have ended.
    #[default]
    Ended,
    /// There are as many differences as were asked for.
    More,
    /// The streams have not met again in this number of events after the last difference.
    Apart(usize),
}

/// The properties that equal events share: all except [`Event::value`].
pub(super) type Key = (EventKind, u32, u32, u32);

pub(super) fn key(event: &Event) -> Key {
    (event.kind, event.depth, event.function, event.node)
}

/// The events of a stream that were read and not yet compared.
pub(super) struct Ahead<F> {
    read: F,
    events: VecDeque<Numbered>,
    has_ended: bool,
}

impl<F: FnMut() -> Option<Numbered>> Ahead<F> {
    /// `first`: an event that was read already.
    pub(super) fn new(first: Option<Numbered>, read: F) -> Self {
        Self { read, has_ended: first.is_none(), events: first.into_iter().collect() }
    }

    /// Reads until there are `count` events, or the stream has ended.
    fn fill(&mut self, count: usize) {
        while self.events.len() < count && !self.has_ended {
            match (self.read)() {
                Some(event) => self.events.push_back(event),
                None => self.has_ended = true,
            }
        }
    }

    fn next_key(&mut self) -> Option<Key> {
        self.fill(1);
        self.events.front().map(|(_, event)| key(event))
    }

    /// Takes out `count` events. Returns the first ones, and how many of all are counted.
    fn take(&mut self, count: usize) -> (Vec<Numbered>, u64) {
        let (mut kept, mut counted) = (Vec::new(), 0);
        for event in self.events.drain(..count) {
            counted += u64::from(event.1.kind.is_counted());
            if kept.len() < MAX_KEPT {
                kept.push(event);
            }
        }
        (kept, counted)
    }

    /// Reads the stream to its end.
    pub(super) fn finish(&mut self) {
        self.events.clear();
        while !self.has_ended {
            self.has_ended = (self.read)().is_none();
        }
    }
}

/// Compares two streams from where they have parted on. Finds at most `most` differences.
pub(super) fn align<F: FnMut() -> Option<Numbered>, G: FnMut() -> Option<Numbered>>(
    one: &mut Ahead<F>,
    two: &mut Ahead<G>,
    most: usize,
) -> (Vec<Hunk>, Rest) {
    let mut hunks: Vec<Hunk> = Vec::new();
    loop {
        // Equal events need no window.
        let mut same = 0;
        loop {
            match (one.next_key(), two.next_key()) {
                (None, None) => {
                    add_same(&mut hunks, same);
                    return (hunks, Rest::Ended);
                }
                (first, second) if first == second => {
                    same += one.take(1).1;
                    two.take(1);
                }
                _ => break,
            }
        }
        add_same(&mut hunks, same);
        one.fill(WINDOW);
        two.fill(WINDOW);
        let interner = Interner::new(0);
        let mut input = InternedInput { before: Vec::new(), after: Vec::new(), interner };
        input.update_before(one.events.iter().map(|(_, event)| key(event)));
        input.update_after(two.events.iter().map(|(_, event)| key(event)));
        let diff = Diff::compute(Algorithm::Histogram, &input);
        let ranges: Vec<_> = diff.hunks().map(|hunk| (hunk.before, hunk.after)).collect();
        let all_read = one.has_ended && two.has_ended;
        // A difference is certain if the streams meet again after it.
        let certain = match all_read {
            true => ranges.len(),
            false => {
                let next =
                    |i: usize| ranges.get(i + 1).map_or(one.events.len(), |next| next.0.start as usize);
                let meets = |i: &usize| next(*i) - ranges[*i].0.end as usize >= MIN_SAME;
                (0..ranges.len()).rev().find(meets).map_or(0, |last| last + 1)
            }
        };
        if certain == 0 {
            return (hunks, Rest::Apart(WINDOW));
        }
        let mut at = 0;
        for (before, after) in &ranges[..certain] {
            add_same(&mut hunks, one.take(before.start as usize - at).1);
            two.take(before.start as usize - at);
            if hunks.len() >= most {
                return (hunks, Rest::More);
            }
            let (first, second) = (one.take(before.len()), two.take(after.len()));
            hunks.push(Hunk { events: [first.0, second.0], counts: [first.1, second.1], same: 0 });
            at = before.end as usize;
        }
    }
}

/// Adds to the events that are the same after the last difference.
fn add_same(hunks: &mut [Hunk], same: u64) {
    if let Some(last) = hunks.last_mut() {
        last.same += same;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tables::NONE;

    /// Events of these functions, numbered from 1.
    fn ahead(functions: &[u32]) -> Ahead<impl FnMut() -> Option<Numbered>> {
        let event = |function| Event { kind: EventKind::Call, depth: 0, function, node: NONE, value: 0 };
        let events: Vec<Numbered> = (1..).zip(functions.iter().map(|&function| event(function))).collect();
        let mut events = events.into_iter();
        Ahead::new(events.next(), move || events.next())
    }

    /// The functions that only one of them has, and how many are the same after them.
    type Difference = ([Vec<u32>; 2], u64);

    fn aligned(one: &[u32], two: &[u32], most: usize) -> (Vec<Difference>, Rest) {
        let (hunks, rest) = align(&mut ahead(one), &mut ahead(two), most);
        let functions = |events: &Vec<Numbered>| events.iter().map(|(_, event)| event.function).collect();
        let hunks = hunks.iter().map(|hunk| ([0, 1].map(|side| functions(&hunk.events[side])), hunk.same));
        (hunks.collect(), rest)
    }

    #[test]
    fn differences_are_found_one_by_one() {
        let hunks = vec![([vec![1], vec![]], 3), ([vec![], vec![9, 9]], 1), ([vec![7], vec![8]], 0)];
        let (one, two) = ([1, 2, 3, 4, 5, 7], [2, 3, 4, 9, 9, 5, 8]);
        assert_eq!(aligned(&one, &two, 10), (hunks.clone(), Rest::Ended));
        assert_eq!(aligned(&one, &two, 2), (hunks[..2].to_vec(), Rest::More));
        assert_eq!(aligned(&[], &[1], 10), (vec![([vec![], vec![1]], 0)], Rest::Ended));
    }

    #[test]
    fn differences_make_one_stream_of_the_other() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..2000 {
            let [one, two] = [0, 1].map(|_| (0..random(50)).map(|_| random(4) as u32).collect::<Vec<_>>());
            let (hunks, rest) = aligned(&one, &two, usize::MAX);
            assert_eq!(rest, Rest::Ended);
            // The events before the first difference are the same.
            let all: usize = hunks.iter().map(|(events, same)| events[0].len() + *same as usize).sum();
            let (mut made, mut at) = (one[..one.len() - all].to_vec(), one.len() - all);
            for ([first, second], same) in &hunks {
                assert_eq!(one[at..at + first.len()], first[..]);
                at += first.len();
                made.extend(second);
                made.extend(&one[at..at + *same as usize]);
                at += *same as usize;
            }
            assert_eq!(made, two, "{one:?}");
        }
    }

    #[test]
    fn streams_that_are_longer_than_a_window_meet_again() {
        let mut one: Vec<u32> = (0..3 * WINDOW as u32).collect();
        let mut two = one.clone();
        two.splice(WINDOW - 5..WINDOW - 4, [u32::MAX; 20]);
        two.splice(2 * WINDOW..2 * WINDOW, [u32::MAX]);
        let (hunks, rest) = aligned(&one, &two, 10);
        let sizes: Vec<_> = hunks.iter().map(|(events, _)| [events[0].len(), events[1].len()]).collect();
        assert_eq!((sizes, rest), (vec![[1, 20], [0, 1]], Rest::Ended));
        // Nothing in a window is the same.
        one.iter_mut().for_each(|event| *event += 1 << 30);
        assert_eq!(aligned(&one, &two, 10), (Vec::new(), Rest::Apart(WINDOW)));
    }
}
