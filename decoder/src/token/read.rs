//! From the text of a token to its numbers.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pcce_abi::token::{
    ALPHABET, BUILD_ID_LEN, PREFIX, PREFIXES, SITE_LEFT, WITH_OFFSETS, flag, kind, unzigzag,
};

use crate::printable::printable;

use super::{
    BuildId, CRC_LEN, Capture, CodeAddress, MAX_FRAMES, Point, PointEnd, PushedFrame, Token, TokenError,
    checksum,
};

/// Length of the prefix with version and full stop.
const PREFIX_LEN: usize = 6;

impl Token {
    /// Reads a token.
    ///
    /// # Errors
    /// [`TokenError`]; never panics, whatever the bytes.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self, TokenError> {
        let mut token = Self::default();
        token.parse_into(text.as_ref(), &mut Vec::new())?;
        Ok(token)
    }

    /// Reads a token into `self`, and keeps the vectors' memory. `scratch` is for the decoded bytes.
    ///
    /// # Errors
    /// [`TokenError`], and then `self` is not meaningful.
    pub fn parse_into(&mut self, text: &[u8], scratch: &mut Vec<u8>) -> Result<(), TokenError> {
        let version = PREFIXES.iter().position(|prefix| text.starts_with(prefix.as_bytes()));
        let version = version.ok_or_else(|| wrong_prefix(text))?;
        let body = &text[PREFIX_LEN..];
        let room = base64::decoded_len_estimate(body.len());
        if scratch.len() < room {
            scratch.resize(room, 0);
        }
        let length = match URL_SAFE_NO_PAD.decode_slice(body, scratch) {
            Ok(length) => length,
            Err(_) => return Err(wrong_base64(text, body)),
        };
        if length <= CRC_LEN {
            return Err(TokenError::Truncated { length: text.len() });
        }
        let (payload, crc) = scratch[..length].split_at(length - CRC_LEN);
        if checksum(version as u32 + 1, payload).to_le_bytes() != crc {
            return Err(TokenError::Checksum { length: text.len() });
        }
        self.read(&mut Reader { bytes: payload, at: 0 }, version as u32 + 1)
    }

    fn read(&mut self, reader: &mut Reader<'_>, version: u32) -> Result<(), TokenError> {
        self.with_offsets = version >= WITH_OFFSETS;
        self.images.clear();
        self.frames.clear();
        self.signals.clear();
        let flags = reader.byte()?;
        check_flags(flags, version)?;
        self.cut = flags & flag::CUT != 0;
        self.damaged = flags & flag::DAMAGED != 0;
        self.start_missing = flags & flag::START_MISSING != 0;
        self.left = flags & flag::LEFT != 0;
        self.other_runtime = flags & flag::OTHER_RUNTIME != 0;
        self.capture = None;
        if flags & flag::CAPTURE != 0 {
            let number = reader.varint()?;
            let image = self.image(number, reader)?;
            let (site, id) = (reader.varint()?, unzigzag(reader.varint()?));
            self.capture = Some(Capture { image, site, id, distance: self.distance(reader)? });
        }
        self.point = if flags & flag::POINT != 0 { Some(self.read_point(reader)?) } else { None };
        self.other_state = flags & flag::OTHER_STATE != 0;
        let mut frames = 0_u64;
        while !reader.at_end() {
            let position = reader.at;
            let head = reader.varint()?;
            let (image, kind) = if version > 1 { (head >> 2, head & 3) } else { (head >> 1, head & 1) };
            if kind < kind::SIGNAL {
                let frame = self.read_frame(reader, image, kind == kind::REPEATED)?;
                frames = frames.saturating_add(frame.count);
                if frames > MAX_FRAMES {
                    return Err(TokenError::TooManyFrames { frames });
                }
                self.frames.push(frame);
            } else if head == kind::SIGNAL {
                let point = self.read_point(reader)?;
                self.signals.push((self.frames.len(), point));
            } else {
                let what = "a frame of a kind that version 2 does not have";
                return Err(TokenError::Malformed { position, what });
            }
        }
        if self.other_state && self.point.is_none() && self.signals.is_empty() {
            let what = "a flag about an interrupted point, and no such point";
            return Err(TokenError::Malformed { position: 0, what });
        }
        Ok(())
    }

    /// Reads a pushed frame after its head.
    #[inline]
    fn read_frame(
        &mut self,
        reader: &mut Reader<'_>,
        image: u64,
        repeated: bool,
    ) -> Result<PushedFrame, TokenError> {
        let image = self.image(image, reader)?;
        let site = reader.varint()?;
        let id = unzigzag(reader.varint()?);
        let distance = self.distance(reader)?;
        let mut count = 1;
        if repeated {
            let position = reader.at;
            count = reader.varint()?;
            if count < 2 {
                return Err(TokenError::Malformed { position, what: "a repetition of less than 2" });
            }
        }
        let left = site & SITE_LEFT != 0;
        Ok(PushedFrame { image, site: site & !SITE_LEFT, left, id, distance, count })
    }

    fn read_point(&mut self, reader: &mut Reader<'_>) -> Result<Point, TokenError> {
        let position = reader.at;
        let head = reader.varint()?;
        let end = match head & 3 {
            0 => PointEnd::Pushed,
            1 => PointEnd::Outermost,
            2 => PointEnd::Bound,
            _ => PointEnd::Lost,
        };
        let (count, gap) = match head >> 2 {
            0 => (reader.varint()?, Some((reader.varint()?, reader.varint()?))),
            count => (count, None),
        };
        if count == 0 {
            return Err(TokenError::Malformed { position, what: "an interrupted point without an address" });
        }
        let left_out = gap.map(|(first, more)| (first, first.saturating_add(more)));
        if left_out.is_some_and(|(first, last)| first == 0 || last >= count) {
            let what = "an interrupted point that lacks addresses where there are none";
            return Err(TokenError::Malformed { position, what });
        }
        let id = unzigzag(reader.varint()?);
        let mut addresses = Vec::new();
        let mut before = CodeAddress { image: u32::MAX, address: 0, exact: false, distance: 0 };
        for _ in 0..count {
            let word = reader.varint()?;
            let image = self.image(word >> 1, reader)?;
            let from = if image == before.image { before.address } else { 0 };
            let address = from.wrapping_add(unzigzag(reader.varint()?));
            before = CodeAddress { image, address, exact: word & 1 == 1, distance: self.distance(reader)? };
            addresses.push(before);
        }
        // Both are less than the number of addresses.
        let left_out = left_out.map(|(first, last)| (first as usize, last as usize));
        Ok(Point { id, addresses, left_out, end })
    }

    fn distance(&self, reader: &mut Reader<'_>) -> Result<u64, TokenError> {
        if self.with_offsets { reader.varint() } else { Ok(0) }
    }

    fn image(&mut self, number: u64, reader: &mut Reader<'_>) -> Result<u32, TokenError> {
        let known = self.images.len() as u64;
        if number > known {
            return Err(TokenError::Malformed { position: reader.at, what: "an image number out of order" });
        }
        if number == known {
            let position = reader.at;
            let len = usize::from(reader.byte()?);
            if len > BUILD_ID_LEN {
                return Err(TokenError::Malformed { position, what: "a build id of more than 8 bytes" });
            }
            self.images.push(BuildId::from_prefix(reader.take(len)?));
        }
        u32::try_from(number)
            .map_err(|_| TokenError::Malformed { position: reader.at, what: "too many images" })
    }
}

/// Checks that the version has the flags, and that they are consistent.
fn check_flags(flags: u8, version: u32) -> Result<(), TokenError> {
    let has = |flag: u8| flags & flag != 0;
    let what = match version {
        _ if has(flag::START_MISSING) && !has(flag::CUT | flag::DAMAGED) => {
            "a flag about missing frames, and none are missing"
        }
        1 if has(flag::POINT | flag::OTHER_STATE) => "a flag that version 1 does not have",
        _ if has(flag::CAPTURE) && has(flag::POINT) => "a capture and an interrupted point",
        _ => return Ok(()),
    };
    Err(TokenError::Malformed { position: 0, what })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, TokenError> {
        let byte = *self.bytes.get(self.at).ok_or(TokenError::Malformed {
            position: self.at,
            what: "the payload ends in the middle of a field",
        })?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], TokenError> {
        let bytes = self.bytes.get(self.at..self.at + len).ok_or(TokenError::Malformed {
            position: self.at,
            what: "the payload ends in the middle of a build id",
        })?;
        self.at += len;
        Ok(bytes)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, TokenError> {
        let position = self.at;
        let mut value = 0_u64;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            // The tenth byte holds the last bit of 64.
            if shift == 63 && byte > 1 {
                return Err(TokenError::Malformed { position, what: "a number of more than 64 bits" });
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                if byte == 0 && shift > 0 {
                    return Err(TokenError::Malformed {
                        position,
                        what: "a number that is not in its shortest form",
                    });
                }
                return Ok(value);
            }
            shift += 7;
        }
    }
}

/// The error of a text that does not start with one of [`PREFIXES`].
#[cold]
fn wrong_prefix(text: &[u8]) -> TokenError {
    if let Some(rest) = text.strip_prefix(PREFIX.as_bytes()) {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 && rest[0] != b'0' && rest.get(digits) == Some(&b'.') {
            let found = String::from_utf8_lossy(&rest[..digits.min(20)]).into_owned();
            return TokenError::NewerVersion { found };
        }
    }
    if !text.is_empty() && PREFIXES.iter().any(|prefix| prefix.as_bytes().starts_with(text)) {
        return TokenError::Truncated { length: text.len() };
    }
    let lossy = String::from_utf8_lossy(&text[..text.len().min(64)]);
    let start: String = lossy.chars().take(16).collect();
    let start = printable(&start).into_owned();
    TokenError::NotAToken { start }
}

/// The error of a body that is not canonical base64.
#[cold]
fn wrong_base64(text: &[u8], body: &[u8]) -> TokenError {
    if let Some(at) = body.iter().position(|byte| !ALPHABET.contains(byte)) {
        let rest = &body[at..(at + 4).min(body.len())];
        let found = match std::str::from_utf8(rest) {
            Ok(valid) => valid.chars().next(),
            Err(error) => String::from_utf8_lossy(&rest[..error.valid_up_to()]).chars().next(),
        };
        return TokenError::Character {
            position: PREFIX_LEN + at + 1,
            found: found.unwrap_or(char::REPLACEMENT_CHARACTER),
        };
    }
    // The number of characters makes no whole bytes, or unused bits of the last character are set.
    if body.len() % 4 == 1 {
        TokenError::Truncated { length: text.len() }
    } else {
        TokenError::Checksum { length: text.len() }
    }
}
