//! No-ops that name themselves: the places in an object's code that the step behind the link finds and overwrites.
//!
//! One is an instruction of [`LEN`] bytes that does nothing, `nopw` with a large displacement: five prefixes, `0f 1f
//! 84`, a byte of index and base, and the displacement. Prefixes (0x66 or 0x2e, each), that byte and the displacement
//! hold the name, 45 bits: its kind, its module's name, and its number there.
//!
//! Code that may become part of a shared library needs more room for an update, where the block's place is known when
//! the library is loaded only: there two more prefixes stand in front ([`LIBRARY_LEN`]). Functions of such code that
//! others may enter begin with an instruction that does nothing, either, and says where a check of the entry is
//! ([`ENTRY_LEN`]).

/// Length in bytes: of `addq $imm32, %fs:disp32`, which it makes room for.
pub const LEN: usize = 13;
/// Length of an update of code that may become part of a shared library: of `movq slot(%rip), %r11` and
/// `addq $imm32, %fs:(%r11)`. It is the longest instruction that there is.
pub const LIBRARY_LEN: usize = 15;
/// What stands in front of the no-op in such an update.
pub const LIBRARY_PREFIXES: [u8; LIBRARY_LEN - LEN] = [0x66; LIBRARY_LEN - LEN];

/// Length of the instruction with which functions begin that others may enter: calls of the image go behind it.
pub const ENTRY_LEN: usize = 8;
/// Its first bytes. The others are the distance of the check from its end.
pub const ENTRY: [u8; 4] = [0x0f, 0x1f, 0x84, 0x00];
/// What takes their place in a shared library: `nopl (%rax)`, and `callq` with the same distance.
pub const CHECKED_ENTRY: [u8; 4] = [0x0f, 0x1f, 0x00, 0xe8];

/// Whether code begins as a check does, which leaves the id alone: `movq slot(%rip), %r11`, `cmpq $0, %fs:(%r11)`,
/// `jg`, `testb $1, %fs:8(%r11)`, `jne`, `retq`.
pub fn is_check(code: &[u8]) -> bool {
    const CODE: [(usize, &[u8]); 4] = [
        (0, &[0x4c, 0x8b, 0x1d]),
        (7, &[0x64, 0x49, 0x83, 0x3b, 0x00, 0x7f]),
        (14, &[0x64, 0x41, 0xf6, 0x43, 0x08, 0x01, 0x75]),
        (22, &[0xc3]),
    ];
    CODE.iter().all(|(at, bytes)| code.get(*at..).is_some_and(|code| code.starts_with(bytes)))
}

/// A word of each image with such code: what the image is, at run time.
pub const IMAGE_SYMBOL: &str = "__pcce_image";
/// What is there first, and in executables.
pub const EXECUTABLE: u64 = 2;
/// What is there in shared libraries whose link step has run. Its lowest bit is set.
pub const LIBRARY: u64 = 1;

/// Whether a function's code begins with the instruction, or with what takes its place.
pub fn begins_with_entry(code: &[u8]) -> bool {
    code.len() >= ENTRY_LEN && (code.starts_with(&ENTRY) || code.starts_with(&CHECKED_ENTRY))
}

/// Bits of a module's name.
pub const MODULE_BITS: u32 = 26;
/// Bits of a number in a module.
pub const INDEX_BITS: u32 = 18;

/// What stands in the middle of each.
pub const OPCODE: [u8; 3] = [0x0f, 0x1f, 0x84];
/// How many prefixes stand in front of that.
pub const PREFIXES: usize = 5;

/// What a no-op stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A place where the id changes.
    Update,
    /// The beginning of a stub.
    Stub,
}

/// What a no-op says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// What it stands for.
    pub kind: Kind,
    /// Its module's name, below 2 to the power of [`MODULE_BITS`].
    pub module: u32,
    /// Its number there, below 2 to the power of [`INDEX_BITS`].
    pub index: u32,
}

impl Name {
    /// The instruction.
    pub fn to_bytes(self) -> [u8; LEN] {
        let kind = u64::from(self.kind == Kind::Stub);
        let bits =
            kind << (MODULE_BITS + INDEX_BITS) | u64::from(self.module) << INDEX_BITS | u64::from(self.index);
        let mut bytes = [0; LEN];
        for (i, byte) in bytes[..PREFIXES].iter_mut().enumerate() {
            *byte = if bits >> (40 + i) & 1 == 1 { 0x2e } else { 0x66 };
        }
        bytes[PREFIXES..8].copy_from_slice(&OPCODE);
        bytes[8..].copy_from_slice(&bits.to_le_bytes()[..5]);
        bytes
    }

    /// Reads the instruction; none if it is another one.
    pub fn of(bytes: &[u8; LEN]) -> Option<Self> {
        if bytes[PREFIXES..8] != OPCODE {
            return None;
        }
        let mut bits = 0;
        for (i, byte) in bytes[..PREFIXES].iter().enumerate() {
            bits |= match byte {
                0x66 => 0,
                0x2e => 1_u64 << (40 + i),
                _ => return None,
            };
        }
        for (i, byte) in bytes[8..].iter().enumerate() {
            bits |= u64::from(*byte) << (8 * i);
        }
        let kind = if bits >> (MODULE_BITS + INDEX_BITS) == 0 { Kind::Update } else { Kind::Stub };
        let below = |bits: u64, width: u32| (bits & ((1 << width) - 1)) as u32;
        Some(Self { kind, module: below(bits >> INDEX_BITS, MODULE_BITS), index: below(bits, INDEX_BITS) })
    }
}

/// How code begins that adds more than 31 bits to the id, in the place of a stub: `movabsq $value, %r11`.
pub const WIDE_ADDITION: [u8; 2] = [0x49, 0xbb];
/// How it goes on: `addq %r11, %fs:offset`, and `retq` behind the offset.
const WIDE_ADD: [u8; 5] = [0x64, 0x4c, 0x01, 0x1c, 0x25];
/// Its length in bytes.
pub const WIDE_LEN: usize = 20;
/// Where its instructions begin.
pub const WIDE_INSTRUCTIONS: [usize; 3] = [0, 10, 19];

/// The code that adds a value to the word that is so far from the thread pointer.
pub fn wide_addition(value: i64, offset: i32) -> [u8; WIDE_LEN] {
    let mut code = [0; WIDE_LEN];
    code[..2].copy_from_slice(&WIDE_ADDITION);
    code[2..10].copy_from_slice(&value.to_le_bytes());
    code[10..15].copy_from_slice(&WIDE_ADD);
    code[15..19].copy_from_slice(&offset.to_le_bytes());
    code[19] = 0xc3;
    code
}

/// What such code adds to the word that is so far from the thread pointer; none if these bytes are other code.
pub fn wide_value(code: &[u8], offset: i32) -> Option<i64> {
    let value = i64::from_le_bytes(code.get(2..10)?.try_into().ok()?);
    (wide_addition(value, offset) == code).then_some(value)
}

/// Whether these bytes begin with such code, whatever word it is for.
pub fn begins_with_wide(code: &[u8]) -> bool {
    let Some(code) = code.get(..WIDE_LEN) else { return false };
    let offset = code[15..19].try_into().map_or(0, i32::from_le_bytes);
    wide_value(code, offset).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_were_written() {
        for kind in [Kind::Update, Kind::Stub] {
            for module in [0, 1, 0x3abcdef, (1 << MODULE_BITS) - 1] {
                for index in [0, 1, 0x14321, (1 << INDEX_BITS) - 1] {
                    let name = Name { kind, module, index };
                    let mut bytes = name.to_bytes();
                    assert_eq!(Name::of(&bytes), Some(name));
                    bytes[0] = 0x90;
                    assert_eq!(Name::of(&bytes), None);
                }
            }
        }
    }

    #[test]
    fn wide_additions_are_known() {
        let mut code = wide_addition(-5 << 40, -64).to_vec();
        assert_eq!((wide_value(&code, -64), wide_value(&code, -56)), (Some(-5 << 40), None));
        assert!(begins_with_wide(&code));
        assert!(!begins_with_wide(&code[1..]) && !begins_with_wide(&code[..WIDE_LEN - 1]));
        code[WIDE_LEN - 1] ^= 1;
        assert!(!begins_with_wide(&code));
    }
}
