//! Calls that may return again (`setjmp`): each first return gets a number in its stream, and the words about further
//! returns have it.

/// The numbers of active functions.
#[derive(Clone, Debug, Default)]
pub(super) struct Jumps {
    /// How many numbers were given.
    count: u64,
    /// Some were missed, so that none is known any more.
    missed: bool,
    /// Number, place of the activation in the stack, node; ascending in the first two.
    given: Vec<(u64, usize, u32)>,
    /// So many numbers were given before reading began, to activations of which this many may be active still, the
    /// outermost ones.
    before: (u64, usize),
}

impl Jumps {
    /// The activation at this place has made such a call.
    pub(super) fn give(&mut self, place: usize, node: u32) {
        self.count += 1;
        if self.missed {
            return;
        }
        // Only the last return of a call can be meant.
        let of_place = self.given.iter().rev().take_while(|given| given.1 == place);
        if let Some(back) = of_place.into_iter().position(|given| given.2 == node) {
            self.given.remove(self.given.len() - 1 - back);
        }
        self.given.push((self.count, place, node));
    }

    /// The activations from this place on are left.
    #[inline]
    pub(super) fn cut(&mut self, place: usize) {
        self.before.1 = self.before.1.min(place);
        while self.given.last().is_some_and(|given| given.1 >= place) {
            self.given.pop();
        }
    }

    /// Reading begins, where so many numbers were given, and so many activations are active.
    pub(super) fn begin(&mut self, count: u64, active: usize) {
        *self = Self { count, before: (count, active), ..Self::default() };
    }

    /// The thread leaves the stack: what comes on another one has other numbers.
    pub(super) fn leave(&mut self) -> Self {
        let other = Self { count: self.count, missed: self.missed, ..Self::default() };
        std::mem::replace(self, other)
    }

    /// It comes back, where `now` is what it had on the other stack.
    pub(super) fn come_back(mut self, now: &Self) -> Self {
        if now.missed {
            self.lose();
        }
        Self { count: now.count, ..self }
    }

    /// Of which activations the number may be that was given before reading began: so many of the outermost ones.
    pub(super) fn given_before(&self, number: u64) -> Option<usize> {
        (!self.missed && number <= self.before.0).then_some(self.before.1)
    }

    /// Calls were missed.
    pub(super) fn lose(&mut self) {
        self.missed = true;
        self.given.clear();
    }

    /// The place of the activation with this number, and the node that got it.
    pub(super) fn find(&self, number: u64) -> Option<(usize, u32)> {
        let at = self.given.binary_search_by_key(&number, |given| given.0).ok()?;
        Some((self.given[at].1, self.given[at].2))
    }
}
