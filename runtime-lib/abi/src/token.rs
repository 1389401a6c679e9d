//! Constants of the tokens' format (`docs/formats.md`), for writers and readers.
//!
//! These are the stations of a field:
//!
//! 1. The runtime finds its value (`runtime-lib/src/token.rs`, or `context.rs` for each capture) and writes it
//!    (`token/write.rs`). For core files, the decoder does both (`core_file/walk.rs` and `token/write.rs`).
//! 2. `decoder/src/token/read.rs` reads it into `Token` (`token/mod.rs`), and `decode/mod.rs` puts what follows from it
//!    into a `Context` (`context/mod.rs`).
//! 3. `show/render.rs` shows it as text and as JSON, and so does `decoder/python`. `session/json_lines.rs` and
//!    `session/filter.rs` find the frames in what it has made.
//! 4. Numbers stand for tokens: if the field matters to them, it has a record ([`numbers`](crate::numbers),
//!    `runtime-lib/src/chains.rs`, `decoder/src/numbers`), and verify mode compares it (`verify/captures.rs` of the
//!    runtime, `verified/captures.rs` of the decoder).
//!
//! All flags are taken, so a further field needs another version, with the fields of the last one. [`PREFIXES`] lists
//! the versions; messages and searches for tokens follow it.

/// First characters of each token, before the digit of its version and a full stop.
pub const PREFIX: &str = "pcce";

/// First characters of the tokens of each version: 1 without interrupted points, 2 with, 3 with stack offsets.
pub const PREFIXES: [&str; 3] = ["pcce1.", "pcce2.", "pcce3."];

/// The version from which on tokens have stack offsets.
pub const WITH_OFFSETS: u32 = 3;

/// The characters of the text after the prefix: base64 for URLs and file names (RFC 4648 §5), without padding.
pub const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Bytes of an ELF build id that a token carries, at most.
pub const BUILD_ID_LEN: usize = 8;

/// Precedes, where several tokens are joined by `+`, the token of the context in which a task was submitted. Other
/// tokens are of contexts in which threads were created.
pub const SUBMITTED: u8 = b'@';

/// Flags, in the first byte.
pub mod flag {
    /// The context was taken at a site, which the token names.
    pub const CAPTURE: u8 = 1;
    /// The buffer was too small: frames are missing.
    pub const CUT: u8 = 2;
    /// The chain could not be followed to its end.
    pub const DAMAGED: u8 = 4;
    /// The token is of an interrupted point.
    pub const POINT: u8 = 8;
    /// The state of the point is not the thread's present one.
    pub const OTHER_STATE: u8 = 16;
    /// The start of the outermost sub-path is unknown, since its frame is missing.
    pub const START_MISSING: u8 = 32;
    /// The function that the thread began with has left its activation to another one, by a tail call.
    pub const LEFT: u8 = 64;
    /// The process has another runtime: calls of images that use that one are missing.
    pub const OTHER_RUNTIME: u8 = 128;
}

/// A bit in the site of a frame: the function that was entered has left its activation to another one. No image is so
/// large that sites need the bit.
pub const SITE_LEFT: u64 = 1 << 48;

/// The kind of a frame, in the two lowest bits of its head, from version 2 on.
pub mod kind {
    /// Several equal frames; their number follows.
    pub const REPEATED: u64 = 1;
    /// A frame that was pushed for a signal's handler.
    pub const SIGNAL: u64 = 2;
}

/// The bits below the image's number in the head of a frame: one, or the [`kind`] from version 2 on.
#[must_use]
pub const fn kind_bits(version: u32) -> u32 {
    if version == 1 { 1 } else { 2 }
}

/// Encodes ids and distances of addresses, which are signed and small on either side of 0.
#[must_use]
pub const fn zigzag(id: u64) -> u64 {
    id << 1 ^ ((id as i64) >> 63) as u64
}

/// The inverse of [`zigzag`].
#[must_use]
pub const fn unzigzag(number: u64) -> u64 {
    number >> 1 ^ (number & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zigzag_is_small_on_either_side_of_zero() {
        for (id, number) in [(0, 0), (u64::MAX, 1), (1, 2), (-2i64 as u64, 3), (i64::MIN as u64, u64::MAX)] {
            assert_eq!(zigzag(id), number);
            assert_eq!(unzigzag(number), id);
        }
    }
}
