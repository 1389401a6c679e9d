//! The LLVM version that wrote bitcode, from the identification block at its start (LLVM's "Bitcode File
//! Format", and `BitcodeWriter.cpp`). Its only string is "LLVM" and a version.

/// Returns whether the bytes begin as bitcode does, or as its wrapper.
pub fn is_bitcode(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(WRAPPER)
}

/// The major version of the LLVM that wrote the bitcode that starts with these bytes.
pub fn llvm(bytes: &[u8]) -> Option<u32> {
    let bytes = match bytes.strip_prefix(WRAPPER) {
        Some(header) => {
            let offset = header.get(4..8)?.try_into().ok()?;
            bytes.get(usize::try_from(u32::from_le_bytes(offset)).ok()?..)?
        }
        None => bytes,
    };
    let producer = producer(&mut Bits { bytes: bytes.strip_prefix(MAGIC)?, at: 0 })?;
    let version = producer.strip_prefix("LLVM")?;
    version[..version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len())].parse().ok()
}

const MAGIC: &[u8] = b"BC\xc0\xde";
/// The magic number of the wrapper, 0x0b17c0de.
const WRAPPER: &[u8] = b"\xde\xc0\x17\x0b";

const ENTER_SUBBLOCK: u64 = 1;
const DEFINE_ABBREV: u64 = 2;
const UNABBREV_RECORD: u64 = 3;
/// The first abbreviation that a block defines.
const FIRST_ABBREV: u64 = 4;
const IDENTIFICATION_BLOCK: u64 = 13;
const FIXED: u64 = 1;
const VBR: u64 = 2;
const ARRAY: u64 = 3;
const CHAR6: u64 = 4;

/// The string of the identification block: a record with an abbreviation of its own, an array of characters.
fn producer(bits: &mut Bits) -> Option<String> {
    if (bits.fixed(2)?, bits.vbr(8)?) != (ENTER_SUBBLOCK, IDENTIFICATION_BLOCK) {
        return None;
    }
    let width = u32::try_from(bits.vbr(4)?).ok()?;
    bits.align();
    bits.fixed(32)?;
    if bits.fixed(width)? != DEFINE_ABBREV {
        return None;
    }
    // The code as a literal, the array, and the kind of its elements.
    let mut element = None;
    let mut array = false;
    for _ in 0..bits.vbr(5)? {
        if bits.fixed(1)? == 1 {
            bits.vbr(8)?;
            continue;
        }
        element = match bits.fixed(3)? {
            FIXED => Some(u32::try_from(bits.vbr(5)?).ok()?),
            VBR => return None,
            ARRAY => {
                array = true;
                None
            }
            CHAR6 => Some(0),
            _ => return None,
        };
    }
    match bits.fixed(width)? {
        FIRST_ABBREV if array => {}
        // A string with other characters, such as rustc's.
        UNABBREV_RECORD => {
            bits.vbr(6)?;
            return (0..bits.vbr(6)?).map(|_| Some(char::from(u8::try_from(bits.vbr(6)?).ok()?))).collect();
        }
        _ => return None,
    }
    let element = element?;
    (0..bits.vbr(6)?)
        .map(|_| match element {
            0 => Some(char::from(*ALPHABET.get(usize::try_from(bits.fixed(6)?).ok()?)?)),
            width => Some(char::from(u8::try_from(bits.fixed(width)?).ok()?)),
        })
        .collect()
}

const ALPHABET: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";

/// A stream of bits, the lowest of a byte first.
struct Bits<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Bits<'_> {
    /// A number of `width` bits, at most 64.
    fn fixed(&mut self, width: u32) -> Option<u64> {
        let mut value = 0;
        for number in 0..width.min(u64::BITS) {
            let byte = *self.bytes.get(self.at / 8)?;
            value |= u64::from(byte >> (self.at % 8) & 1) << number;
            self.at += 1;
        }
        Some(value)
    }

    /// A number in pieces of `width` bits. The highest bit of a piece says whether another one follows.
    fn vbr(&mut self, width: u32) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let piece = self.fixed(width)?;
            let more = 1 << (width - 1);
            value |= (piece & (more - 1)).checked_shl(shift)?;
            if piece & more == 0 {
                return Some(value);
            }
            shift += width - 1;
        }
    }

    /// Skips to the next word of 32 bits. (The magic number is one.)
    fn align(&mut self) {
        self.at = self.at.next_multiple_of(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_bitcode_has_no_producer() {
        for length in 0..64 {
            for byte in [0, 1, 0x35, 0x5a, 0xff] {
                let _ = llvm(&[MAGIC, &vec![byte; length]].concat());
                let _ = llvm(&[WRAPPER, &vec![byte; length]].concat());
            }
        }
        assert_eq!(llvm(b""), None);
        assert_eq!(llvm(MAGIC), None);
    }
}
