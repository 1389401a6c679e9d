//! From an interned number, record by record outwards, to the parts of a token.

use pcce_abi::numbers::{Entry, Interned, PointEnd as End};

use super::error::NumberError;
use super::{Numbered, Source};
use crate::token::{BuildId, Capture, CodeAddress, MAX_FRAMES, Point, PointEnd, PushedFrame, Token};

/// A point whose records are being read.
struct Open {
    end: End,
    /// The outermost one first.
    addresses: Vec<CodeAddress>,
}

struct Walk<'s> {
    source: &'s dyn Source,
    token: Token,
    range: Option<u64>,
    /// True if the innermost part was read: only frames follow.
    captured: bool,
    distance: Option<u64>,
    point: Option<Open>,
    /// True if the id of the part that was read last counts from the id of a frame further out.
    relative: bool,
    /// True if the rest of the chain belongs to other activations than those at a point.
    detached: bool,
    frames: u64,
}

/// Reads the parts of a token for which a number stands.
pub(super) fn read(source: &dyn Source, number: u64) -> Result<Numbered, NumberError> {
    match Interned::read(number).ok_or(NumberError::NoNumber { number })? {
        Interned::Context(record) => read_from(source, record, None, false),
        Interned::Pair(chain, range) => read_from(source, chain, Some(range), true),
    }
}

/// Reads the parts of a token for which a record stands. `captured`: it is the record of a chain.
pub(super) fn read_from(
    source: &dyn Source,
    mut record: u64,
    range: Option<u64>,
    captured: bool,
) -> Result<Numbered, NumberError> {
    let mut walk = Walk {
        source,
        token: Token::default(),
        range,
        captured,
        distance: None,
        point: None,
        relative: false,
        detached: false,
        frames: 0,
    };
    let mut last = u64::MAX;
    loop {
        let found = source.record(record)?;
        let malformed = |what| NumberError::Malformed { record, what };
        if let Entry::Place { build_id, len, address: 0 } = found.entry {
            if !walk.captured || walk.point.is_some() || walk.distance.is_some() {
                return Err(malformed("a chain ends there, and the context does not"));
            }
            let program = walk.build_id(build_id, len).ok_or(malformed("a build id of more than 8 bytes"))?;
            return Ok(Numbered { token: walk.token, range: walk.range, program });
        }
        // Chains further out have smaller numbers, so the loop ends.
        if record >= last {
            return Err(malformed("a chain leads there that was numbered before it"));
        }
        walk.token.with_offsets |= found.hybrid;
        last = record;
        record = walk.entry(found.entry).map_err(|cause| match cause {
            Cause::Here(what) => malformed(what),
            Cause::Elsewhere(error) => error,
        })?;
    }
}

enum Cause {
    Here(&'static str),
    Elsewhere(NumberError),
}

impl From<NumberError> for Cause {
    fn from(error: NumberError) -> Self {
        Self::Elsewhere(error)
    }
}

impl Walk<'_> {
    /// Adds an entry. Returns the number of the entry further out.
    fn entry(&mut self, entry: Entry) -> Result<u64, Cause> {
        match entry {
            Entry::Address { .. } | Entry::Point { .. } | Entry::Signal { .. } => {}
            _ if self.point.is_some() => {
                return Err(Cause::Here("it stands between the addresses of a point"));
            }
            Entry::Site { .. } => {}
            _ if self.distance.is_some() => return Err(Cause::Here("it has no stack offset")),
            _ => {}
        }
        match entry {
            Entry::Place { .. } => Err(Cause::Here("a place stands for a chain")),
            Entry::Site { outer, place, id, left } => {
                self.site(place, id, left)?;
                Ok(outer)
            }
            Entry::Offset { outer, distance } if distance > 0 => {
                self.distance = Some(distance);
                Ok(outer)
            }
            Entry::Range { outer, number } if !self.captured => {
                self.captured = true;
                self.range = Some(number);
                Ok(outer)
            }
            Entry::Offset { .. } | Entry::Range { .. } => {
                Err(Cause::Here("it stands where no such thing can be"))
            }
            Entry::Unknown { outer, start_missing } if self.captured => {
                if !self.detached {
                    self.token.damaged = true;
                    self.token.start_missing |= start_missing | self.relative;
                }
                Ok(outer)
            }
            Entry::Unknown { .. } => Err(Cause::Here("a context has no capture")),
            Entry::End { outer, end } => {
                self.point = Some(Open { end, addresses: Vec::new() });
                Ok(outer)
            }
            Entry::Address { outer, place, exact } => {
                let (image, address) = self.place(place)?;
                let address = CodeAddress { image, address, exact, distance: 0 };
                let point = self.point.as_mut().ok_or(Cause::Here("an address belongs to no point"))?;
                if point.addresses.len() >= pcce_abi::unwind::MAX_ADDRESSES {
                    return Err(Cause::Here("a point has more addresses than there can be"));
                }
                point.addresses.push(address);
                Ok(outer)
            }
            Entry::Point { outer, id } => {
                let end = self.end_point(id, true)?;
                self.token.other_state |= end.other_state;
                Ok(outer)
            }
            Entry::Signal { outer, id } => {
                self.end_point(id, false)?;
                Ok(outer)
            }
        }
    }

    fn site(&mut self, place: u64, id: u64, left: bool) -> Result<(), Cause> {
        let distance = self.distance.take().unwrap_or(0);
        self.relative = false;
        if self.detached {
            return Ok(());
        }
        let (image, site) = self.place(place)?;
        if !std::mem::replace(&mut self.captured, true) {
            if left || site == 0 {
                return Err(Cause::Here("a context ends with a frame"));
            }
            self.token.capture = Some(Capture { image, site, id, distance });
            return Ok(());
        }
        self.frames += 1;
        if self.frames > MAX_FRAMES {
            return Err(Cause::Here("there are more frames than a stack can hold"));
        }
        let frame = PushedFrame { image, site, left, id, distance, count: 1 };
        let after_signal = self.token.signals.last().is_some_and(|(at, _)| *at == self.token.frames.len());
        match self.token.frames.last_mut() {
            Some(last) if !after_signal && (PushedFrame { count: 1, ..*last }) == frame => last.count += 1,
            _ => self.token.frames.push(frame),
        }
        Ok(())
    }

    /// Adds the point whose addresses were read: that of the capture, or one at which a signal's handler was called.
    fn end_point(&mut self, id: u64, capture: bool) -> Result<End, Cause> {
        let Some(Open { end, mut addresses }) = self.point.take() else {
            return Err(Cause::Here("a point has no end"));
        };
        if capture == self.captured {
            return Err(Cause::Here("a context has one capture"));
        }
        if end.other_state && !capture {
            return Err(Cause::Here("the state at a signal is that of the point"));
        }
        addresses.reverse();
        self.captured = true;
        // Code that is not instrumented and has no callers leaves no address.
        let left_out = match (usize::from(end.left_out.0), usize::from(end.left_out.1)) {
            (0, 0) => None,
            (first, last) if 0 < first && first <= last && last < addresses.len() => Some((first, last)),
            _ => return Err(Cause::Here("a point lacks addresses where there are none")),
        };
        let point = Point { id, addresses, left_out, end: point_end(end) };
        if self.detached {
            return Ok(end);
        }
        if point.addresses.is_empty() {
            return Err(Cause::Here("a point has no address"));
        }
        self.relative = end.relative;
        if end.detached {
            self.detached = true;
            self.token.other_state = true;
            self.token.damaged = !end.gone;
            self.token.start_missing = end.relative && !end.gone;
        }
        if capture {
            self.token.point = Some(point);
        } else {
            self.token.signals.push((self.token.frames.len(), point));
        }
        Ok(end)
    }

    /// The image of a place, as the token numbers it, and the address in it.
    fn place(&mut self, record: u64) -> Result<(u32, u64), Cause> {
        let found = self.source.record(record)?;
        let malformed = |what| NumberError::Malformed { record, what };
        let Entry::Place { build_id, len, address } = found.entry else {
            return Err(malformed("it stands for a place, and is none").into());
        };
        let id = self.build_id(build_id, len).ok_or(malformed("a build id of more than 8 bytes"))?;
        let images = &mut self.token.images;
        let image = images.iter().position(|other| *other == id).unwrap_or_else(|| {
            images.push(id);
            images.len() - 1
        });
        Ok((image as u32, address))
    }

    fn build_id(&self, bytes: [u8; 8], len: u8) -> Option<BuildId> {
        let rest = bytes.get(usize::from(len)..)?;
        rest.iter().all(|byte| *byte == 0).then(|| BuildId::from_prefix(&bytes[..usize::from(len)]))
    }
}

fn point_end(end: End) -> PointEnd {
    match end.end {
        0 => PointEnd::Pushed,
        1 => PointEnd::Outermost,
        2 => PointEnd::Bound,
        _ => PointEnd::Lost,
    }
}
