//! Context tokens, versions 1 to 3 (docs/formats.md): what a running program prints and a user pastes.
//!
//! A token holds numbers only. The reader trusts no byte of it: it refuses everything that is not exactly
//! what the runtime library writes, and repairs nothing. The checks go from the outside in (prefix, alphabet,
//! length, checksum, fields), so that the message names the likely cause.

mod error;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;

pub use pcce_abi::token::BUILD_ID_LEN;
use pcce_abi::token::PREFIXES;
use serde::{Serialize, Serializer};

pub use error::TokenError;
pub use write::{encode_payload, encode_payload_of};

/// Returns whether a text starts like a token.
pub fn is_start(text: impl AsRef<[u8]>) -> bool {
    PREFIXES.iter().any(|prefix| text.as_ref().starts_with(prefix.as_bytes()))
}

/// Bound on the pushed frames of a token. A frame takes 32 bytes of stack, so these are a stack of 8 GiB.
pub const MAX_FRAMES: u64 = 1 << 28;

/// Site of frames that a function pushes at its entry when an open call of the executable had reached it.
pub(crate) const OPEN_SITE: u64 = 0;

/// Length of the checksum in bytes.
const CRC_LEN: usize = 4;

/// The first bytes of an image's ELF build id, at most [`BUILD_ID_LEN`] of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuildId {
    bytes: [u8; BUILD_ID_LEN],
    len: u8,
}

impl BuildId {
    /// The first bytes of `id`, as many as a token carries.
    pub fn from_prefix(id: &[u8]) -> Self {
        let len = id.len().min(BUILD_ID_LEN);
        let mut bytes = [0; BUILD_ID_LEN];
        bytes[..len].copy_from_slice(&id[..len]);
        Self { bytes, len: len as u8 }
    }

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
        f.write_str(&to_hex(self.as_bytes()))
    }
}

impl Serialize for BuildId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// Bytes in lower-case hexadecimal digits, as build ids are written.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads lower-case hexadecimal digits. None if the text has others, or an odd number of them.
pub fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = digits.as_bytes().as_chunks();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    bytes.collect::<Option<_>>().filter(|_| rest.is_empty())
}

/// The site at which a token was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Index into [`Token::images`].
    pub image: u32,
    /// Address of the capture site, without the load bias of its image.
    pub site: u64,
    /// The thread's number when the token was taken.
    pub id: u64,
    /// The distance of the activation's canonical frame address below the place from which stack offsets
    /// count, in words of 8 bytes; 0 where the function does not need it, or it is not known.
    pub distance: u64,
}

/// A pushed frame, or several equal ones in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushedFrame {
    /// Index into [`Token::images`].
    pub image: u32,
    /// Address of the call site that pushed, without the load bias of its image.
    pub site: u64,
    /// True if the function that was entered left its activation to another one, by a tail call.
    pub left: bool,
    /// The thread's number when the frame was pushed.
    pub id: u64,
    /// The distance of the frame below the place from which stack offsets count, as in [`Capture::distance`].
    pub distance: u64,
    /// The number of equal frames in a row, 1 or more.
    pub count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeAddress {
    /// Index into [`Token::images`].
    pub image: u32,
    /// The address, without the load bias of its image.
    pub address: u64,
    /// True if it is the address of the instruction to be executed next; else it is a return address.
    pub exact: bool,
    /// The distance of the activation's canonical frame address below the place from which stack offsets
    /// count, as in [`Capture::distance`].
    pub distance: u64,
}

/// Reasons why the addresses of a [`Point`] end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointEnd {
    /// The last function owns the innermost frame after the point.
    Pushed,
    /// The last function has no caller.
    Outermost,
    /// There are more addresses than tokens carry.
    Bound,
    /// The caller of the last function was not found.
    Lost,
}

/// A point at which a thread was interrupted. It may be anywhere, even between an update of the id and its call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    pub id: u64,
    /// The instruction, and the return addresses outwards; never empty.
    pub addresses: Vec<CodeAddress>,
    /// The first and the last of these before which return addresses may be left out; None if none are left out. Each
    /// address that is left out is equal to one further in.
    pub left_out: Option<(usize, usize)>,
    /// The reason why there are no more addresses.
    pub end: PointEnd,
}

impl Point {
    /// Returns whether this address is the last one, and the point ends so.
    pub(crate) fn ends_at(&self, number: usize, end: PointEnd) -> bool {
        self.end == end && number + 1 == self.addresses.len()
    }
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
    /// True if the id of `point` may differ from the thread's id at that point. If the token ends at the last of
    /// `signals`, the flag is about that point.
    pub other_state: bool,
    /// The pushed frames, the innermost (last pushed) first.
    pub frames: Vec<PushedFrame>,
    /// The points that signals interrupted, the innermost first: with each, how many of `frames` are further
    /// in.
    pub signals: Vec<(usize, Point)>,
    /// True if the outermost frames are missing, since the buffer for the token was too small.
    pub cut: bool,
    /// True if the chain of frames on the stack was found damaged, and was followed no further.
    pub damaged: bool,
    /// True if the token is cut or damaged, and the ids of its outermost sub-path count from the id of a frame that
    /// is missing.
    pub start_missing: bool,
    /// True if the function with which the thread began has left its activation to another one, by a tail call.
    pub left: bool,
    /// True if the process has a second runtime, which other images use: their calls may be missing anywhere.
    pub other_runtime: bool,
    /// True if the program has a hybrid encoding, whose tokens have stack offsets (pcce.txt §6).
    pub with_offsets: bool,
}

/// The checksum of a payload. From version 2 on it covers the prefix, too: one version must not be taken for
/// another.
fn checksum(version: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    if version > 1 {
        hasher.update(PREFIXES[version as usize - 1].as_bytes());
    }
    hasher.update(payload);
    hasher.finalize()
}
