//! A token's characters.

use crate::abi::token::{ALPHABET, PREFIXES};

/// Writes base64 characters behind the prefix, keeps the checksum, and counts what does not fit.
pub(super) struct Writer {
    buf: *mut u8,
    /// Characters that may be written, the final zero not counted.
    capacity: usize,
    /// Characters of the token so far, written or not.
    len: usize,
    bits: u32,
    bit_count: u32,
    crc: u32,
}

impl Writer {
    /// # Safety
    /// `buf` can take `capacity + 1` bytes, or `capacity` is 0.
    pub(super) unsafe fn new(buf: *mut u8, capacity: usize, prefix: &[u8]) -> Self {
        let mut writer = Self { buf, capacity, len: 0, bits: 0, bit_count: 0, crc: !0 };
        for &c in prefix {
            writer.put(c);
            // From version 2 on the checksum covers the prefix.
            if prefix != PREFIXES[0].as_bytes() {
                writer.check(c);
            }
        }
        writer
    }

    fn put(&mut self, c: u8) {
        if self.len < self.capacity {
            // SAFETY: by new()'s contract there is room for `capacity` bytes.
            unsafe { self.buf.add(self.len).write(c) };
        }
        self.len += 1;
    }

    fn raw(&mut self, byte: u8) {
        self.bits = self.bits << 8 | u32::from(byte);
        self.bit_count += 8;
        while self.bit_count >= 6 {
            self.bit_count -= 6;
            self.put(ALPHABET[(self.bits >> self.bit_count & 63) as usize]);
        }
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.check(byte);
        self.raw(byte);
    }

    fn check(&mut self, byte: u8) {
        // CRC-32 (IEEE, reflected), four bits at a time.
        const TABLE: [u32; 16] = {
            let mut table = [0u32; 16];
            let mut i = 0;
            while i < 16 {
                let mut c = i as u32;
                let mut k = 0;
                while k < 4 {
                    c = if c & 1 == 1 { 0xedb8_8320 ^ c >> 1 } else { c >> 1 };
                    k += 1;
                }
                table[i] = c;
                i += 1;
            }
            table
        };
        self.crc ^= u32::from(byte);
        self.crc = TABLE[(self.crc & 15) as usize] ^ self.crc >> 4;
        self.crc = TABLE[(self.crc & 15) as usize] ^ self.crc >> 4;
    }

    pub(super) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// The length of the token if it ended here.
    pub(super) fn finished_len(&self) -> usize {
        self.len + (self.bit_count as usize + 32).div_ceil(6)
    }

    pub(super) fn finish(mut self) -> usize {
        for byte in (!self.crc).to_le_bytes() {
            self.raw(byte);
        }
        if self.bit_count > 0 {
            self.bits <<= 6 - self.bit_count;
            self.put(ALPHABET[(self.bits & 63) as usize]);
        }
        self.len
    }
}
