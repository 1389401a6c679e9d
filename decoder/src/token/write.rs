//! From the numbers of a token to its text.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pcce_abi::token::{PREFIXES, SITE_LEFT, WITH_OFFSETS, flag, kind, zigzag};

use super::{Point, Token, checksum};

impl Token {
    /// Writes the token. The images' numbers must be in the order of their first use, as [`Token::parse`]
    /// leaves them.
    ///
    /// # Panics
    /// If an index into [`Token::images`] is out of range.
    pub fn encode(&self) -> String {
        let version = match self.point.is_some() || !self.signals.is_empty() {
            _ if self.with_offsets => WITH_OFFSETS,
            true => 2,
            false => 1,
        };
        let mut out = Encoder { token: self, known: 0, bytes: Vec::new() };
        out.bytes.push(
            u8::from(self.capture.is_some()) * flag::CAPTURE
                + u8::from(self.cut) * flag::CUT
                + u8::from(self.damaged) * flag::DAMAGED
                + u8::from(self.start_missing) * flag::START_MISSING
                + u8::from(self.left) * flag::LEFT
                + u8::from(self.other_runtime) * flag::OTHER_RUNTIME
                + u8::from(self.point.is_some()) * flag::POINT
                + u8::from(self.other_state) * flag::OTHER_STATE,
        );
        if let Some(capture) = &self.capture {
            out.image(capture.image, 0, 0);
            put(&mut out.bytes, capture.site);
            put(&mut out.bytes, zigzag(capture.id));
            out.distance(capture.distance);
        }
        if let Some(point) = &self.point {
            out.point(point);
        }
        let mut signals = self.signals.iter().peekable();
        for number in 0..=self.frames.len() {
            while let Some((_, point)) = signals.next_if(|(at, _)| *at == number) {
                put(&mut out.bytes, kind::SIGNAL);
                out.point(point);
            }
            let Some(frame) = self.frames.get(number) else { break };
            out.image(frame.image, version.min(2), u64::from(frame.count > 1));
            put(&mut out.bytes, frame.site | (u64::from(frame.left) * SITE_LEFT));
            put(&mut out.bytes, zigzag(frame.id));
            out.distance(frame.distance);
            if frame.count > 1 {
                put(&mut out.bytes, frame.count);
            }
        }
        encode_payload_of(version, &out.bytes)
    }
}

/// Writes the payload of a token.
struct Encoder<'t> {
    token: &'t Token,
    /// The number of images that were written.
    known: u32,
    bytes: Vec<u8>,
}

impl Encoder<'_> {
    /// Writes an image's number, shifted over the `bits` bits of `low`, and its build id if it is new.
    fn image(&mut self, number: u32, bits: u32, low: u64) {
        put(&mut self.bytes, u64::from(number) << bits | low);
        let id = self.token.images[number as usize].as_bytes();
        if number == self.known {
            self.known += 1;
            self.bytes.push(id.len() as u8);
            self.bytes.extend_from_slice(id);
        }
    }

    fn distance(&mut self, distance: u64) {
        if self.token.with_offsets {
            put(&mut self.bytes, distance);
        }
    }

    fn point(&mut self, point: &Point) {
        let count = point.addresses.len() as u64;
        if let Some((first, last)) = point.left_out {
            for number in [point.end as u64, count, first as u64, (last - first) as u64] {
                put(&mut self.bytes, number);
            }
        } else {
            put(&mut self.bytes, count << 2 | point.end as u64);
        }
        put(&mut self.bytes, zigzag(point.id));
        let mut before = (u32::MAX, 0);
        for address in &point.addresses {
            self.image(address.image, 1, address.exact.into());
            let from = if before.0 == address.image { before.1 } else { 0 };
            put(&mut self.bytes, zigzag(address.address.wrapping_sub(from)));
            self.distance(address.distance);
            before = (address.image, address.address);
        }
    }
}

/// The token text of a payload of version 1: prefix, base64, checksum.
pub fn encode_payload(payload: &[u8]) -> String {
    encode_payload_of(1, payload)
}

/// The token text of a payload of a version, 1 to 3.
///
/// # Panics
/// If there is no such version.
pub fn encode_payload_of(version: u32, payload: &[u8]) -> String {
    let mut bytes = payload.to_vec();
    bytes.extend_from_slice(&checksum(version, payload).to_le_bytes());
    let mut text = PREFIXES[version as usize - 1].to_owned();
    URL_SAFE_NO_PAD.encode_string(bytes, &mut text);
    text
}

/// Appends `value` as LEB128.
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
