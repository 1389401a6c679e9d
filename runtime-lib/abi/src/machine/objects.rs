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
    /// The bytes, counted from the place of a relocation of this kind, that a linker may write for it.
    pub written: fn(kind: u32) -> Range<isize>,
    /// The length of a value for which a relocation of this kind stands, in bytes: a little-endian signed number. None
    /// for a kind that does not stand for a plain number.
    pub value_len: fn(kind: u32) -> Option<usize>,
}
