//! Bounds on the size of unpacked parts of a file. A byte of a deflate stream can stand for a thousand, so a file
//! that is not trusted could fill the reader's memory.

use std::io::Read;

/// The bytes that may unpack from a stream of any size: small streams may be very repetitive.
const BASE: u64 = 16 << 20;
/// Dictionaries and debug information unpack to 4 to 10 times their size.
const RATIO: u64 = 16;
/// The memory that an element of a list of strings takes besides its text.
const STRING: u64 = 64;

/// The number of bytes that may honestly unpack from `stored` bytes.
pub fn most_unpacked(stored: usize) -> u64 {
    BASE.saturating_add(RATIO.saturating_mul(stored as u64))
}

/// Unpacks the zlib streams of one file or section, which share a bound.
#[derive(Debug)]
pub struct Unpacker {
    left: u64,
    memory_left: u64,
}

impl Unpacker {
    /// An unpacker for streams of `stored` bytes in all.
    pub fn new(stored: usize) -> Self {
        let left = most_unpacked(stored);
        Self { left, memory_left: left.saturating_mul(2) }
    }

    /// Unpacks a stream, of JSON.
    ///
    /// # Errors
    /// The error of the stream: it is damaged, or stands for more than it honestly can.
    pub fn unpack(&mut self, stream: &[u8]) -> Result<Vec<u8>, String> {
        let mut json = Vec::new();
        let mut limited = flate2::read::ZlibDecoder::new(stream).take(self.left + 1);
        limited.read_to_end(&mut json).map_err(|e| e.to_string())?;
        let too_much =
            || format!("its {} bytes stand for more than what a dictionary can hold", stream.len());
        self.left = self.left.checked_sub(json.len() as u64).ok_or_else(too_much)?;
        // Short strings take much more memory than their text.
        let strings = json.windows(2).filter(|pair| matches!(pair, [b'"', b',' | b']'])).count();
        let memory = STRING.saturating_mul(strings as u64);
        self.memory_left = self.memory_left.checked_sub(memory).ok_or_else(too_much)?;
        Ok(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(text).expect("memory can be written");
        encoder.finish().expect("memory can be written")
    }

    #[test]
    fn what_unpacks_is_bounded() {
        let honest = packed(b"[\"a\",\"b\"]");
        assert_eq!(Unpacker::new(honest.len()).unpack(&honest).expect("it is good"), b"[\"a\",\"b\"]");
        for hostile in [vec![b' '; 40 << 20], b"\"\",".repeat(5 << 20)] {
            let stream = packed(&hostile);
            assert!(Unpacker::new(stream.len()).unpack(&stream).is_err());
        }
        // Many streams share the bound.
        let stream = packed(&vec![b' '; 10 << 20]);
        let mut unpacker = Unpacker::new(2 * stream.len());
        assert!(unpacker.unpack(&stream).is_ok() && unpacker.unpack(&stream).is_err());
    }
}
