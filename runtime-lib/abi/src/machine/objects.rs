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
    /// The number of bytes at the place of a relocation of this kind that a value changes, if one can stand there.
    pub value_len: fn(kind: u32) -> Option<usize>,
    /// Writes such a value over the bytes there, or into the instruction there. False if it is too wide.
    pub write_value: fn(kind: u32, bytes: &mut [u8], value: i64) -> bool,
}
