//! Code in object files of AArch64.

use core::ops::Range;

use crate::machine::objects::{ObjectCode, ThreadOffset, ThreadSegment};

/// See [`ObjectCode`].
pub const OBJECT_CODE: ObjectCode = ObjectCode {
    // udf #0x4350
    mark: [b'P', b'C', 0, 0],
    no_call: &CALL.to_le_bytes(),
    call_target,
    marks_contents,
    written,
    // Additions of 12 bits, two of them, and moves of 16 bits.
    value_widths: &[11, 23, 30],
    value_len,
    write_value,
    thread_storage,
    // add x0, x0, #:tprel_hi12:…, lsl #12
    thread_offset: Some(ThreadOffset {
        relocation: "R_AARCH64_TLSLE_ADD_TPREL_HI12",
        bits: 24,
        instruction: 0x9140_0000,
    }),
};

/// `bl`: the distance from it follows in the lower 26 bits, in words.
const CALL: u32 = 0x9400_0000;
/// The bits of an instruction that are `bl`.
const CALL_MASK: u32 = 0xfc00_0000;

// Kinds of relocations, as the ABI numbers them.
const R_ABS64: u32 = 257;
const R_ABS16: u32 = 259;
const R_PREL64: u32 = 260;
const R_PREL16: u32 = 262;
const R_MOVW_UABS_G0_NC: u32 = 264;
const R_MOVW_UABS_G1_NC: u32 = 266;
const R_MOVW_UABS_G2_NC: u32 = 268;
const R_MOVW_UABS_G3: u32 = 269;
const R_MOVW_SABS_G1: u32 = 271;
const R_ADD_ABS_LO12_NC: u32 = 277;
const R_LDST8_ABS_LO12_NC: u32 = 278;

fn call_target(call: &[u8], end: u64) -> Option<u64> {
    let call = u32::from_le_bytes(call.try_into().ok()?);
    if call & CALL_MASK != CALL {
        return None;
    }
    let words = ((call << 6).cast_signed() >> 6) as i64;
    Some(end.wrapping_sub(4).wrapping_add_signed(words * 4))
}

/// `$x` and `$d`, with anything behind a dot.
fn marks_contents(name: &str) -> bool {
    let kind = name.split('.').next().unwrap_or_default();
    matches!(kind, "$x" | "$d")
}

/// Linkers replace instructions that read the global offset table, or find thread-local variables. Each of them has a
/// relocation.
fn written(kind: u32) -> Range<isize> {
    match kind {
        R_ABS64 | R_PREL64 => 0..8,
        R_ABS16 | R_PREL16 => 0..2,
        _ => 0..4,
    }
}

fn value_len(kind: u32) -> Option<usize> {
    match kind {
        R_MOVW_UABS_G0_NC | R_MOVW_UABS_G1_NC | R_MOVW_UABS_G2_NC | R_MOVW_UABS_G3 | R_MOVW_SABS_G1
        | R_ADD_ABS_LO12_NC | R_LDST8_ABS_LO12_NC => Some(4),
        _ => None,
    }
}

/// A value is in the immediate operands of one instruction, or of several.
fn write_value(kind: u32, bytes: &mut [u8], value: i64) -> bool {
    /// Where a move of 16 bits has them, and the opcode that is `movz` and not `movn`.
    const MOVED: (u32, u32) = (0xffff << 5, 1 << 30);
    /// Where an addition has 12 bits, and the opcode that is `sub` and not `add`.
    const ADDED: (u32, u32) = (0xfff << 10, 1 << 30);
    /// The 12 bits are those above the lower 12.
    const SHIFTED: u32 = 1 << 22;
    let Ok(bytes) = <&mut [u8; 4]>::try_from(bytes) else { return false };
    let code = u32::from_le_bytes(*bytes);
    let moved = |bits: i64| code & !MOVED.0 | u32::from(bits as u16) << 5;
    let code = match kind {
        R_MOVW_UABS_G0_NC => moved(value),
        R_MOVW_UABS_G1_NC => moved(value >> 16),
        R_MOVW_UABS_G2_NC => moved(value >> 32),
        R_MOVW_UABS_G3 => moved(value >> 48),
        R_MOVW_SABS_G1 if i32::try_from(value).is_err() => return false,
        // The bits above are all equal, and those below come next.
        R_MOVW_SABS_G1 if value < 0 => moved(!value >> 16) & !MOVED.1,
        R_MOVW_SABS_G1 => moved(value >> 16) | MOVED.1,
        R_ADD_ABS_LO12_NC | R_LDST8_ABS_LO12_NC => {
            // One instruction, or the upper or the lower one of two.
            let (shift, limit) = match (kind, code & SHIFTED) {
                (R_ADD_ABS_LO12_NC, 0) => (0, 1 << 12),
                (R_ADD_ABS_LO12_NC, _) => (12, 1 << 24),
                _ => (0, 1 << 24),
            };
            let magnitude = value.unsigned_abs();
            if magnitude >= limit {
                return false;
            }
            let operation = if value < 0 { code | ADDED.1 } else { code & !ADDED.1 };
            operation & !ADDED.0 | ((magnitude >> shift) as u32 & 0xfff) << 10
        }
        _ => return false,
    };
    *bytes = code.to_le_bytes();
    true
}

/// Thread-local storage of a program begins behind two words at the thread pointer (ELF for the Arm 64-bit
/// Architecture).
fn thread_storage(segment: &ThreadSegment) -> Option<i64> {
    const WORDS: u64 = 16;
    let unaligned = segment.start.wrapping_sub(WORDS) % segment.align;
    i64::try_from(WORDS.checked_add(unaligned)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(kind: u32, code: u32, value: i64) -> Option<u32> {
        let mut bytes = code.to_le_bytes();
        write_value(kind, &mut bytes, value).then(|| u32::from_le_bytes(bytes))
    }

    #[test]
    fn calls_reach_both_ways() {
        let reach = |call: u32| call_target(&call.to_le_bytes(), 0x1004);
        assert_eq!(reach(CALL), Some(0x1000));
        assert_eq!(reach(0x9400_0002), Some(0x1008));
        assert_eq!(reach(0x97ff_ffff), Some(0xffc));
        // `b`, and a nop in the place of a callee that is missing.
        assert_eq!(reach(0x1400_0002), None);
        assert_eq!(reach(0xd503_201f), None);
        assert_eq!(call_target(&[0; 3], 0), None);
    }

    #[test]
    fn values_are_operands() {
        // add x0, x1, #0
        const ADD: u32 = 0x9100_0020;
        assert_eq!(written(R_ADD_ABS_LO12_NC, ADD, 127), Some(0x9101_fc20));
        // sub x0, x1, #127
        assert_eq!(written(R_ADD_ABS_LO12_NC, ADD, -127), Some(0xd101_fc20));
        assert_eq!(written(R_ADD_ABS_LO12_NC, 0xd100_0020, 5), Some(0x9100_1420));
        assert_eq!(written(R_ADD_ABS_LO12_NC, ADD, 4096), None);
        // sub x0, x1, #0x123, lsl #12; sub x0, x1, #0x456
        assert_eq!(written(R_ADD_ABS_LO12_NC, ADD | 1 << 22, -0x12_3456), Some(0xd144_8c20));
        assert_eq!(written(R_LDST8_ABS_LO12_NC, ADD, -0x12_3456), Some(0xd111_5820));
        assert_eq!(written(R_ADD_ABS_LO12_NC, ADD | 1 << 22, 1 << 24), None);
        assert_eq!(written(R_LDST8_ABS_LO12_NC, ADD, 1 << 24), None);
        // movz x0, #0, lsl #16; movk x0, #0
        const MOVE: [u32; 2] = [0xd2a0_0000, 0xf280_0000];
        // movz x0, #0x1234, lsl #16; movk x0, #0x5678
        assert_eq!(written(R_MOVW_SABS_G1, MOVE[0], 0x1234_5678), Some(0xd2a2_4680));
        assert_eq!(written(R_MOVW_UABS_G0_NC, MOVE[1], 0x1234_5678), Some(0xf28a_cf00));
        // movn x0, #0, lsl #16; movk x0, #0xffff
        assert_eq!(written(R_MOVW_SABS_G1, MOVE[0], -1), Some(0x92a0_0000));
        assert_eq!(written(R_MOVW_UABS_G0_NC, MOVE[1], -1), Some(0xf29f_ffe0));
        assert_eq!(written(R_MOVW_SABS_G1, MOVE[0], 1 << 31), None);
        // movz x0, #0, lsl #48
        assert_eq!(written(R_MOVW_UABS_G3, 0xd2e0_0000, -1), Some(0xd2ff_ffe0));
        assert_eq!(written(R_ABS64, ADD, 1), None);
    }
}
