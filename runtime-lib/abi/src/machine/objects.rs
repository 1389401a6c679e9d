//! Code in object files, by the machine that they are for: the bodies of skeletons ([`crate::skeleton`]), and the bytes
//! that relocations stand for.

use core::ops::Range;

/// Machine code that the pass writes into objects, and that the link step reads and changes.
pub struct ObjectCode {
    /// The first bytes of each body of a skeleton: an instruction that ends the process, with two letters.
    pub mark: [u8; 4],
    /// A call in a skeleton that reaches nothing. All calls have its length.
    pub no_call: &'static [u8],
    /// The address that a call of a skeleton reaches, by the call's bytes and the address of its end; none if the bytes
    /// are no call.
    pub call_target: fn(call: &[u8], end: u64) -> Option<u64>,
    /// Returns whether a local symbol of this name, without a type, only says that code or data begins.
    pub marks_contents: fn(name: &str) -> bool,
    /// The bytes, counted from the place of a relocation of this kind, that a linker may write for it.
    pub written: fn(kind: u32) -> Range<isize>,
    /// The widths of values among which the pass's code differs, in bits of their magnitude, ascending. A difference of
    /// two such values may have one bit more.
    pub value_widths: &'static [u8],
    /// The number of bytes at the place of a relocation of this kind that a value changes, if one can stand there.
    pub value_len: fn(kind: u32) -> Option<usize>,
    /// Writes such a value over the bytes there, or into the instruction there. False if it is too wide.
    pub write_value: fn(kind: u32, bytes: &mut [u8], value: i64) -> bool,
    /// The distance from the thread pointer to the beginning of an executable's thread-local storage (the segment
    /// `PT_TLS`).
    pub thread_storage: fn(segment: &ThreadSegment) -> Option<i64>,
    /// For machines where code is better if it knows how far a variable is from the thread pointer.
    pub thread_offset: Option<ThreadOffset>,
}

/// The thread-local storage of an executable in its image.
pub struct ThreadSegment {
    /// Its address.
    pub start: u64,
    /// Its length.
    pub size: u64,
    /// Its alignment, at least 1.
    pub align: u64,
}

/// A relocation whose value is the distance of a variable from the thread pointer, and which linkers refuse if it is
/// negative or has too many bits.
pub struct ThreadOffset {
    /// Its name in assembly.
    pub relocation: &'static str,
    /// The number of bits.
    pub bits: u32,
    /// An instruction that it can be for.
    pub instruction: u32,
}
