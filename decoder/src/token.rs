//! Context tokens, versions 1 to 3 (docs/formats.md): what a running program prints and a user pastes.
//!
//! A token holds numbers only, and a reader that trusts no byte of it: whatever is not exactly what
//! the runtime library writes is refused, and nothing is repaired. The checks go from the outside in
//! (prefix, alphabet, length, checksum, fields), so that the message names the likely cause.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
pub use pcce_abi::token::BUILD_ID_LEN;
use pcce_abi::token::{PREFIX, PREFIXES, SITE_LEFT, WITH_OFFSETS, flag, kind, unzigzag, zigzag};
use thiserror::Error;

use crate::printable::printable;

/// Length of the prefix with version and full stop.
const PREFIX_LEN: usize = 6;

/// Whether a text starts as tokens do.
#[must_use]
pub fn is_start(text: impl AsRef<[u8]>) -> bool {
    PREFIXES.iter().any(|prefix| text.as_ref().starts_with(prefix.as_bytes()))
}

/// More pushed frames than this are refused: a frame takes 32 bytes of stack, so it stands for a
/// stack of 8 GiB.
pub const MAX_FRAMES: u64 = 1 << 28;

const CRC_LEN: usize = 4;
/// The first bytes of an image's ELF build id, at most [`BUILD_ID_LEN`] of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct BuildId {
    bytes: [u8; BUILD_ID_LEN],
    len: u8,
}

impl BuildId {
    /// The first bytes of `id`, as many as a token carries.
    #[must_use]
    pub fn from_prefix(id: &[u8]) -> Self {
        let len = id.len().min(BUILD_ID_LEN);
        let mut bytes = [0; BUILD_ID_LEN];
        bytes[..len].copy_from_slice(&id[..len]);
        Self { bytes, len: len as u8 }
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Display for BuildId {
    /// Lower-case hexadecimal digits, as `file` and `readelf -n` print build ids.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == 0 {
            return f.write_str("(none)");
        }
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// Where the token was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Index into [`Token::images`].
    pub image: u32,
    /// Address of the capture site, without the load bias of its image.
    pub site: u64,
    /// The thread's number when the token was taken.
    pub id: u64,
    /// How far the activation's canonical frame address is below the place from which stack offsets count, in words of 8 bytes; 0 where the
    /// function does not need it, or it is not known.
    pub distance: u64,
}

/// A pushed frame, or several equal ones in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushedFrame {
    /// Index into [`Token::images`].
    pub image: u32,
    /// Address of the call site that pushed, without the load bias of its image.
    pub site: u64,
    /// Whether the function that was entered left its activation to another one, by a tail call.
    pub left: bool,
    /// The thread's number when the frame was pushed.
    pub id: u64,
    /// How far the frame is below the place from which stack offsets count, as in [`Capture::distance`].
    pub distance: u64,
    /// How many equal frames there are in a row, 1 or more.
    pub count: u64,
}

/// An address in the machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeAddress {
    /// Index into [`Token::images`].
    pub image: u32,
    /// The address, without the load bias of its image.
    pub address: u64,
    /// Whether it is that of an instruction which was to be executed; else it is a return address.
    pub exact: bool,
    /// How far the canonical frame address of the activation is below the place from which stack offsets count, as in [`Capture::distance`].
    pub distance: u64,
}

/// Why the addresses of a [`Point`] end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointEnd {
    /// The last function owns the innermost frame behind the point.
    Pushed,
    /// The last function has no caller.
    Outermost,
    /// There are more than tokens carry.
    Bound,
    /// The caller of the last function was not found.
    Lost,
}

/// A point at which a thread was interrupted: anywhere, between an update and its call perhaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The thread's number there.
    pub id: u64,
    /// The instruction, and the return addresses outwards; never empty.
    pub addresses: Vec<CodeAddress>,
    /// Why there are no more addresses.
    pub end: PointEnd,
}

/// A context token, as numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Token {
    /// Build ids of the images (program, shared libraries) in the order of their first use.
    pub images: Vec<BuildId>,
    /// The capture; none if code that is not instrumented took the token.
    pub capture: Option<Capture>,
    /// The interrupted point at which the token was taken; then there is no capture.
    pub point: Option<Point>,
    /// Whether the id of `point` may be another one than was there.
    pub other_state: bool,
    /// The pushed frames, the innermost (last pushed) first.
    pub frames: Vec<PushedFrame>,
    /// The points that signals interrupted, the innermost first: with each, how many of `frames` are further in.
    pub signals: Vec<(usize, Point)>,
    /// The outermost frames are missing, since the buffer for the token was too small.
    pub cut: bool,
    /// The chain of frames on the stack was found damaged, and was followed no further.
    pub damaged: bool,
    /// The token is cut or damaged, and the ids of the outermost sub-path that is there count from the id of a frame that is
    /// not.
    pub start_missing: bool,
    /// The function with which the thread began has left its activation to another one, by a tail call.
    pub left: bool,
    /// Whether the program has a hybrid encoding, whose tokens have stack offsets (pcce.txt §6).
    pub with_offsets: bool,
}

/// Why a text is not a context token that this release can read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// Another start than that of a token.
    #[error(
        "not a context token: it starts with `{start}`; a token starts with `pcce1.`, `pcce2.` or `pcce3.` and is one word of letters, digits, `-` and `_`"
    )]
    NotAToken {
        /// The first characters.
        start: String,
    },
    /// A token of a version that a newer release writes.
    #[error(
        "the token has version {found}, and this pcce reads versions 1 to 3; use the pcce of the release that built the program, or a newer one"
    )]
    NewerVersion {
        /// The version's digits.
        found: String,
    },
    /// The text ends before the token does.
    #[error("the token is truncated: it ends after {length} characters, in the middle; copy it whole")]
    Truncated {
        /// Length of the text in characters.
        length: usize,
    },
    /// A character that no token contains.
    #[error(
        "the token was altered: character {position} is {found:?}, which no token contains; copy it again"
    )]
    Character {
        /// Position of the character, from 1.
        position: usize,
        /// The character.
        found: char,
    },
    /// The checksum does not match, and would with another character at one position.
    #[error(
        "the token was altered: its checksum does not match, and one character is wrong, character {position}; copy it again"
    )]
    Altered {
        /// Position of the character, from 1.
        position: usize,
    },
    /// The checksum does not match, and no single character explains it.
    #[error(
        "the token is truncated, or altered in several places: its {length} characters do not end in their checksum; copy it whole"
    )]
    Checksum {
        /// Length of the text in characters.
        length: usize,
    },
    /// The checksum matches, and the numbers make no token: whoever wrote it has an error.
    #[error(
        "the token is malformed although its checksum matches: byte {offset}, {what}; this is an error in what wrote it, please report it"
    )]
    Malformed {
        /// Offset in the payload, in bytes.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// More frames than a stack can hold.
    #[error(
        "the token claims {frames} pushed frames, and the limit is {MAX_FRAMES}; this is an error in what wrote it, please report it"
    )]
    TooManyFrames {
        /// Number of frames up to the one that passed the limit.
        frames: u64,
    },
}

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
    /// [`TokenError`], and then `self` holds no token that means anything.
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
            return Err(wrong_checksum(text, body));
        }
        self.read(&mut Reader { bytes: payload, at: 0 }, version as u32 + 1)
    }

    fn read(&mut self, reader: &mut Reader<'_>, version: u32) -> Result<(), TokenError> {
        let points = version > 1;
        self.with_offsets = version == WITH_OFFSETS;
        self.images.clear();
        self.frames.clear();
        self.signals.clear();
        let flags = reader.byte()?;
        let malformed = |what| TokenError::Malformed { offset: 0, what };
        const BOTH: u8 = flag::CAPTURE | flag::CUT | flag::DAMAGED | flag::START_MISSING | flag::LEFT;
        if flags & flag::START_MISSING != 0 && flags & (flag::CUT | flag::DAMAGED) == 0 {
            return Err(malformed("a flag about missing frames, and none are missing"));
        }
        if points {
            if flags & !(BOTH | flag::POINT | flag::OTHER_STATE) != 0 {
                return Err(malformed("a flag that version 2 does not have"));
            }
            if flags & flag::CAPTURE != 0 && flags & flag::POINT != 0 {
                return Err(malformed("a capture and an interrupted point"));
            }
            if flags & flag::POINT == 0 && flags & flag::OTHER_STATE != 0 {
                return Err(malformed("a flag about an interrupted point, and no such point"));
            }
        } else if flags & !BOTH != 0 {
            return Err(malformed("a flag that version 1 does not have"));
        }
        self.cut = flags & flag::CUT != 0;
        self.damaged = flags & flag::DAMAGED != 0;
        self.start_missing = flags & flag::START_MISSING != 0;
        self.left = flags & flag::LEFT != 0;
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
            let offset = reader.at;
            let head = reader.varint()?;
            let (image, kind) = if points { (head >> 2, head & 3) } else { (head >> 1, head & 1) };
            if kind >= kind::SIGNAL {
                if head != kind::SIGNAL {
                    return Err(TokenError::Malformed {
                        offset,
                        what: "a frame of a kind that version 2 does not have",
                    });
                }
                let point = self.read_point(reader)?;
                self.signals.push((self.frames.len(), point));
                continue;
            }
            let image = self.image(image, reader)?;
            let site = reader.varint()?;
            let id = unzigzag(reader.varint()?);
            let distance = self.distance(reader)?;
            let count = if kind == kind::REPEATED {
                let offset = reader.at;
                match reader.varint()? {
                    0 | 1 => {
                        return Err(TokenError::Malformed { offset, what: "a repetition of less than 2" });
                    }
                    count => count,
                }
            } else {
                1
            };
            frames = frames.saturating_add(count);
            if frames > MAX_FRAMES {
                return Err(TokenError::TooManyFrames { frames });
            }
            self.frames.push(PushedFrame {
                image,
                site: site & !SITE_LEFT,
                left: site & SITE_LEFT != 0,
                id,
                distance,
                count,
            });
        }
        Ok(())
    }

    fn read_point(&mut self, reader: &mut Reader<'_>) -> Result<Point, TokenError> {
        let offset = reader.at;
        let head = reader.varint()?;
        let end = match head & 3 {
            0 => PointEnd::Pushed,
            1 => PointEnd::Outermost,
            2 => PointEnd::Bound,
            _ => PointEnd::Lost,
        };
        if head >> 2 == 0 {
            return Err(TokenError::Malformed { offset, what: "an interrupted point without an address" });
        }
        let id = unzigzag(reader.varint()?);
        let mut addresses = Vec::new();
        let mut before = CodeAddress { image: u32::MAX, address: 0, exact: false, distance: 0 };
        for _ in 0..head >> 2 {
            let word = reader.varint()?;
            let image = self.image(word >> 1, reader)?;
            let from = if image == before.image { before.address } else { 0 };
            let address = from.wrapping_add(unzigzag(reader.varint()?));
            before = CodeAddress { image, address, exact: word & 1 == 1, distance: self.distance(reader)? };
            addresses.push(before);
        }
        Ok(Point { id, addresses, end })
    }

    fn distance(&self, reader: &mut Reader<'_>) -> Result<u64, TokenError> {
        if self.with_offsets { reader.varint() } else { Ok(0) }
    }

    fn image(&mut self, number: u64, reader: &mut Reader<'_>) -> Result<u32, TokenError> {
        let known = self.images.len() as u64;
        if number > known {
            return Err(TokenError::Malformed { offset: reader.at, what: "an image number out of order" });
        }
        if number == known {
            let offset = reader.at;
            let len = usize::from(reader.byte()?);
            if len > BUILD_ID_LEN {
                return Err(TokenError::Malformed { offset, what: "a build id of more than 8 bytes" });
            }
            self.images.push(BuildId::from_prefix(reader.take(len)?));
        }
        u32::try_from(number)
            .map_err(|_| TokenError::Malformed { offset: reader.at, what: "too many images" })
    }

    /// Writes the token. The images' numbers must be in the order of their first use, as
    /// [`Token::parse`] leaves them.
    ///
    /// # Panics
    /// If an index into [`Token::images`] is out of range.
    #[must_use]
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
    /// So many images were named.
    known: u32,
    bytes: Vec<u8>,
}

impl Encoder<'_> {
    /// An image's number, above `bits` of other meaning, and its name where it is new.
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
        put(&mut self.bytes, (point.addresses.len() as u64) << 2 | point.end as u64);
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
#[must_use]
pub fn encode_payload(payload: &[u8]) -> String {
    encode_payload_of(1, payload)
}

/// The token text of a payload of a version, 1 to 3.
///
/// # Panics
/// If there is no such version.
#[must_use]
pub fn encode_payload_of(version: u32, payload: &[u8]) -> String {
    let mut bytes = payload.to_vec();
    bytes.extend_from_slice(&checksum(version, payload).to_le_bytes());
    let mut text = PREFIXES[version as usize - 1].to_owned();
    URL_SAFE_NO_PAD.encode_string(bytes, &mut text);
    text
}

/// The checksum of a payload. From version 2 on it covers the prefix, too: one version must not be taken for another.
fn checksum(version: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    if version > 1 {
        hasher.update(PREFIXES[version as usize - 1].as_bytes());
    }
    hasher.update(payload);
    hasher.finalize()
}

/// Appends `value` as LEB128.
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
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
            offset: self.at,
            what: "the payload ends in the middle of a field",
        })?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], TokenError> {
        let bytes = self.bytes.get(self.at..self.at + len).ok_or(TokenError::Malformed {
            offset: self.at,
            what: "the payload ends in the middle of a build id",
        })?;
        self.at += len;
        Ok(bytes)
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, TokenError> {
        let offset = self.at;
        let mut value = 0_u64;
        let mut shift = 0;
        loop {
            let byte = self.byte()?;
            // The tenth byte holds the last bit of 64.
            if shift == 63 && byte > 1 {
                return Err(TokenError::Malformed { offset, what: "a number of more than 64 bits" });
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                if byte == 0 && shift > 0 {
                    return Err(TokenError::Malformed {
                        offset,
                        what: "a number that is not in its shortest form",
                    });
                }
                return Ok(value);
            }
            shift += 7;
        }
    }
}

/// What is wrong with a text that does not start with one of [`PREFIXES`].
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

/// What is wrong with a body that is not canonical base64.
#[cold]
fn wrong_base64(text: &[u8], body: &[u8]) -> TokenError {
    if let Some(at) = body.iter().position(|byte| sextet(*byte).is_none()) {
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
    // A number of characters that holds no whole bytes, or unused bits of the last one that are set.
    if body.len() % 4 == 1 {
        TokenError::Truncated { length: text.len() }
    } else {
        wrong_checksum(text, body)
    }
}

/// The value of a character of the URL-safe alphabet.
fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

/// Tells an altered character from other damage, for the message only.
///
/// CRC-32 is linear over the bits: a flipped bit changes the difference between computed and stored
/// checksum by a value that depends on its distance from the end alone. So the difference is the sum
/// of at most six known values if one character was altered, and each position is asked in turn.
/// That another kind of damage looks the same has a chance of 64 · length / 2³².
#[cold]
fn wrong_checksum(text: &[u8], body: &[u8]) -> TokenError {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::URL_SAFE,
        GeneralPurposeConfig::new()
            .with_decode_allow_trailing_bits(true)
            .with_decode_padding_mode(base64::engine::DecodePaddingMode::RequireNone),
    );
    let truncated = TokenError::Checksum { length: text.len() };
    let Ok(bytes) = LENIENT.decode(body) else { return truncated };
    if bytes.len() <= CRC_LEN {
        return TokenError::Truncated { length: text.len() };
    }
    let (payload, crc) = bytes.split_at(bytes.len() - CRC_LEN);
    let stored = u32::from_le_bytes(crc.try_into().expect("4 bytes"));
    let version =
        (1..).zip(PREFIXES).find(|(_, p)| text.starts_with(p.as_bytes())).map_or(1, |(version, _)| version);
    let difference = checksum(version, payload) ^ stored;
    // Bits of the last character that belong to no byte: they must be 0, and only that character
    // can have set them.
    let unused = body.len() * 6 - bytes.len() * 8;
    let last = body.last().and_then(|byte| sextet(*byte)).unwrap_or(0);
    let last_is_wrong = last & ((1 << unused) - 1) != 0;

    // effect(bit): what flipping that bit of `bytes` (0 is the first byte's highest) does to the difference.
    let mut effects = vec![0_u32; bytes.len() * 8];
    for (bit, effect) in effects.iter_mut().enumerate().skip(payload.len() * 8) {
        let in_crc = bit - payload.len() * 8;
        *effect = 1 << (in_crc / 8 * 8 + (7 - in_crc % 8));
    }
    for from_last in 0..8 {
        // Bit `from_last` (0 is the lowest) of a byte: its own step through the register, then
        // eight more for each byte behind it.
        let mut register = (0..8).fold(1_u32 << from_last, step);
        for byte in (0..payload.len()).rev() {
            effects[byte * 8 + 7 - from_last] = register;
            register = (0..8).fold(register, step);
        }
    }
    for at in 0..body.len() {
        let is_last = at + 1 == body.len();
        if last_is_wrong && !is_last {
            continue;
        }
        let bits = effects.get(at * 6..).map_or(&[][..], |rest| &rest[..rest.len().min(6)]);
        let explains = (0..1_u32 << bits.len()).any(|choice| {
            let sum =
                bits.iter().enumerate().filter(|(i, _)| choice >> i & 1 == 1).fold(0, |sum, (_, e)| sum ^ e);
            sum == difference
        });
        if explains {
            return TokenError::Altered { position: PREFIX_LEN + at + 1 };
        }
    }
    truncated
}

/// One bit's step of the CRC-32 register (reflected polynomial).
fn step(register: u32, _: u32) -> u32 {
    (register >> 1) ^ (0xedb8_8320 * (register & 1))
}

#[cfg(test)]
mod tests {
    use pcce_abi::token::ALPHABET;
    use proptest::prelude::*;

    use super::*;

    fn samples() -> Vec<Token> {
        let build_id = BuildId::from_prefix(&[0xab, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let library = BuildId::from_prefix(&[9, 8, 7]);
        let frame = |image, site, id, count| PushedFrame { image, site, left: false, id, distance: 0, count };
        let captured = Capture { image: 0, site: 0x1234, id: 77, distance: 0 };
        let capture = Some(captured);
        let address = |image, address, exact| CodeAddress { image, address, exact, distance: 0 };
        let point = |id, end| Point {
            id,
            addresses: vec![
                address(0, 0x1234, true),
                address(0, 0x1200, false),
                address(1, u64::MAX, false),
                address(0, 0, true),
            ],
            end,
        };
        vec![
            Token { images: vec![build_id], capture, ..Token::default() },
            Token { damaged: true, ..Token::default() },
            Token { damaged: true, start_missing: true, ..Token::default() },
            Token {
                images: vec![build_id, library],
                capture,
                frames: vec![
                    frame(1, 0x20_0000, 5, 1),
                    frame(1, 0x20_0000, 6, 1_000),
                    frame(0, 0, 0, 1),
                    PushedFrame { left: true, ..frame(0, !SITE_LEFT, u64::MAX, 2) },
                ],
                cut: true,
                start_missing: true,
                ..Token::default()
            },
            Token {
                images: vec![build_id, library],
                point: Some(point(7, PointEnd::Pushed)),
                other_state: true,
                frames: vec![frame(1, 0x20_0000, 5, 1), frame(0, 9, 6, 3), frame(0, 9, 7, 1)],
                signals: vec![
                    (0, point(8, PointEnd::Outermost)),
                    (0, point(u64::MAX, PointEnd::Bound)),
                    (3, point(0, PointEnd::Lost)),
                ],
                ..Token::default()
            },
            Token {
                images: vec![build_id],
                capture: Some(Capture { distance: 300, ..captured }),
                frames: vec![PushedFrame { distance: 3, ..frame(0, 9, 6, 2) }, frame(0, 9, 7, 1)],
                signals: vec![(
                    1,
                    Point {
                        addresses: vec![CodeAddress { distance: 1 << 40, ..address(0, 5, true) }],
                        ..point(1, PointEnd::Pushed)
                    },
                )],
                with_offsets: true,
                ..Token::default()
            },
            Token {
                images: vec![library],
                frames: (0..9).map(|i| frame(0, 0x4000 + i, i << i, 1)).collect(),
                ..Token::default()
            },
        ]
    }

    #[test]
    fn encode_then_parse_gives_the_token() {
        for token in samples() {
            assert_eq!(Token::parse(token.encode()), Ok(token));
        }
    }

    #[test]
    fn every_single_character_change_is_refused_and_located() {
        for token in samples() {
            let text = token.encode();
            for at in 0..text.len() {
                for byte in (0..=0x7f).chain([0xff]) {
                    let mut changed = text.clone().into_bytes();
                    if changed[at] == byte {
                        continue;
                    }
                    changed[at] = byte;
                    let error = Token::parse(&changed).expect_err("a changed token was accepted");
                    let position = at + 1;
                    if at < PREFIX_LEN {
                        assert!(
                            matches!(
                                error,
                                TokenError::NotAToken { .. }
                                    | TokenError::NewerVersion { .. }
                                    | TokenError::Checksum { .. }
                                    | TokenError::Altered { .. }
                            ),
                            "{error:?}"
                        );
                    } else if ALPHABET.contains(&byte) {
                        assert_eq!(error, TokenError::Altered { position });
                    } else {
                        assert!(matches!(error, TokenError::Character { position: p, .. } if p == position));
                    }
                }
            }
        }
    }

    #[test]
    fn every_truncation_is_refused_and_called_one() {
        for token in samples() {
            let text = token.encode();
            for length in 0..text.len() {
                let error = Token::parse(&text[..length]).expect_err("a truncated token was accepted");
                match error {
                    TokenError::Truncated { length: l } | TokenError::Checksum { length: l } => {
                        assert_eq!(l, length)
                    }
                    TokenError::NotAToken { .. } => assert_eq!(length, 0),
                    // Set unused bits are explained by the last character, too; for a truncation it
                    // would be by chance.
                    other => panic!("{length} characters of {text}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn longer_texts_are_refused() {
        for token in samples() {
            for more in ["A", "AA", "AAAA", "=", " ", "."] {
                assert!(Token::parse(token.encode() + more).is_err());
            }
        }
    }

    #[test]
    fn newer_versions_are_named() {
        let found = |text: &str| match Token::parse(text) {
            Err(TokenError::NewerVersion { found }) => found,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(found("pcce4.AAAA"), "4");
        assert_eq!(found("pcce12.!"), "12");
        for text in
            ["", "hello", "pcce", "pcce0.AAAA", "pcce1", "pcce1.", "pcceX.AAAA", "Pcce1.AAAA", "\u{1b}[31m"]
        {
            assert!(!matches!(Token::parse(text), Ok(_) | Err(TokenError::NewerVersion { .. })), "{text}");
        }
        let TokenError::NotAToken { start } = Token::parse("\u{1b}[31m").unwrap_err() else { panic!() };
        assert_eq!(start, "\\u{1b}[31m");
    }

    #[test]
    fn malformed_payloads_with_a_good_checksum_are_refused() {
        let many = |bytes: &[u8]| Token::parse(encode_payload(bytes)).unwrap_err();
        let cases: &[(&[u8], &str)] = &[
            (&[8], "a flag that version 1 does not have"),
            (&[1], "the payload ends in the middle of a field"),
            (&[1, 0, 9], "a build id of more than 8 bytes"),
            (&[1, 0, 2, 1], "the payload ends in the middle of a build id"),
            (&[1, 0, 1, 1, 5], "the payload ends in the middle of a field"),
            (&[1, 1, 1, 1, 5, 5], "an image number out of order"),
            (&[1, 0, 1, 1, 0x80, 0, 5], "a number that is not in its shortest form"),
            (
                &[1, 0, 1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 5],
                "a number of more than 64 bits",
            ),
            (&[0, 1, 1, 1, 5, 5, 1], "a repetition of less than 2"),
            (&[0, 1, 1, 1, 5, 5, 0], "a repetition of less than 2"),
            (&[0, 0, 1, 1, 5, 5, 0], "the payload ends in the middle of a field"),
        ];
        for (payload, expected) in cases {
            match many(payload) {
                TokenError::Malformed { what, .. } => assert_eq!(what, *expected, "{payload:?}"),
                other => panic!("{payload:?}: {other:?}"),
            }
        }
        let points: &[(&[u8], &str)] = &[
            (&[128], "a flag that version 2 does not have"),
            (&[32], "a flag about missing frames, and none are missing"),
            (&[9], "a capture and an interrupted point"),
            (&[16], "a flag about an interrupted point, and no such point"),
            (&[8, 1, 0], "an interrupted point without an address"),
            (&[8, 4, 0, 0], "the payload ends in the middle of a field"),
            (&[8, 4, 0, 1, 0], "the payload ends in the middle of a field"),
            (&[0, 3], "a frame of a kind that version 2 does not have"),
            (&[0, 6], "a frame of a kind that version 2 does not have"),
        ];
        for (payload, expected) in points {
            match Token::parse(encode_payload_of(2, payload)) {
                Err(TokenError::Malformed { what, .. }) => assert_eq!(what, *expected, "{payload:?}"),
                other => panic!("{payload:?}: {other:?}"),
            }
        }
        let mut token = samples().remove(3);
        token.frames[3].count = u64::MAX;
        assert!(matches!(Token::parse(token.encode()), Err(TokenError::TooManyFrames { .. })));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Token::parse(&bytes);
            for (version, prefix) in (1..).zip(PREFIXES) {
                let mut text = prefix.as_bytes().to_vec();
                text.extend_from_slice(&bytes);
                let _ = Token::parse(&text);
                // A good checksum takes the bytes to the field reader.
                let text = encode_payload_of(version, &bytes);
                if let Ok(token) = Token::parse(&text) {
                    // A token without points needs no version 2.
                    if version != 2 || token.point.is_some() || !token.signals.is_empty() {
                        prop_assert_eq!(token.encode(), text);
                    }
                }
            }
        }

        #[test]
        fn random_alphabet_never_panics(bytes in proptest::collection::vec(0_usize..64, 0..200)) {
            let text: String = PREFIXES[1].chars().chain(bytes.iter().map(|i| ALPHABET[*i] as char)).collect();
            let _ = Token::parse(text);
        }
    }
}
